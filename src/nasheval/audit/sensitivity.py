"""How strong would unmeasured selection have to be to change who wins? One number per group, with a plain reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats, as_number, bin_sums
from nasheval.audit.margins import Game, game_of, margins
from nasheval.audit.section import Bars, Listing
from nasheval.audit.tilt import Tilts, bridged_widths
from nasheval.errors import InputError
from nasheval.feedback.groups import ALL
from nasheval.game.regularizers import Regularizer
from nasheval.game.solver import lotteries
from nasheval.notes import few
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.inference import GroupPayoff
from nasheval.payoff.intervals import critical_value, limits
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.stage1 import Stage1

LARGEST = 50.0  # strength up to which bounds are looked at
_GRID = 33  # strengths between which widths are interpolated
_CORNERS = 12  # agents whose entering or leaving is looked at
_TURNS = 3  # times that a corner is chosen anew, by the slopes at the last
_STEPS = 14  # of the bisection


@dataclass(frozen=True)
class Strength:
    """How strong unmeasured selection would have to be in one group.

    Args:
        group: its name.
        winners: the winner set.
        strength: the least at which the bounds allow another winner set; None: not below 50.
        change: who might enter or leave at that strength; "" where nobody.
        with_chance: the same with bounds widened by sampling error, all pairs together; 1: the votes alone, without any
            selection, do not rule out another winner set.
        width: of the bounds on a payoff at strength 2, the mean over compared pairs.
    """

    group: str
    winners: tuple[str, ...]
    strength: float | None
    change: str
    with_chance: float | None
    width: float

    def __str__(self) -> str:
        where = "Overall" if self.group == ALL else f"In {self.group}"
        who = few(self.winners)
        wins = f"{who} wins" if len(self.winners) == 1 else f"{who} share the lottery"
        if self.strength is None:
            return f"{where}, {wins} whatever hidden trait moves the odds of a comparison by up to {LARGEST:.0f} times."
        moves = f"moves the odds of being compared {self.strength:.2f} times"
        text = f"{where}, {wins} unless a hidden trait {moves}, beyond what the context explains"
        text += f"; then {self.change} is possible."
        if self.with_chance is None or self.with_chance > 1:
            shown = f"{LARGEST:.0f} or more" if self.with_chance is None else f"{self.with_chance:.2f}"
            return f"{text} With sampling error allowed for, {shown} times."
        return f"{text} Sampling error alone allows another winner set."


@dataclass(frozen=True)
class Sensitivity:
    """Section of an audit: how strong unmeasured selection would have to be to change who wins, group by group.

    Args:
        groups: in order.
        known: whether propensities are known, so that there is no such selection.
        confidence: of the bounds with sampling error.
        context_odds: how far the context itself moves the odds of a comparison: for half of the votes, and for all but
            one in twenty; a measure for what a hidden trait might do. None where it does not.
        skipped: groups with fewer than two candidates.
    """

    groups: tuple[Strength, ...]
    known: bool
    confidence: float
    context_odds: tuple[float, float] | None
    skipped: tuple[str, ...] = ()

    title = "Unmeasured selection"

    def lines(self) -> list[str]:
        """Return the reading of each number, the smallest first, and something to hold it against."""
        if self.known:
            return ["Propensities are known by design: no hidden trait can drive what is compared (strength infinite)."]
        order = sorted(self.groups, key=lambda one: np.inf if one.strength is None else one.strength)
        said = [str(one) for one in order]
        if said and self.context_odds is not None:
            half, most = self.context_odds
            said.append(
                f"For comparison: the context itself moves these odds {half:.2f} times or more for half of the votes, "
                f"{most:.2f} times for one in twenty."
            )
        if self.skipped:
            said.append(f"Left out, with fewer than two candidates: {few(self.skipped, 8)}.")
        return said

    def listings(self) -> list[Listing]:
        """Return the numbers in a table."""
        if self.known or not self.groups:
            return []
        rows = tuple(
            (one.group, ", ".join(one.winners), one.change, _shown(one.strength), _shown(one.with_chance),
             f"{one.width:.3f}")
            for one in self.groups
        )  # fmt: skip
        numbers = ("strength", f"at {self.confidence:.0%} confidence", "mean width at 2")
        title = "Least strength of unmeasured selection at which another winner set is possible (Tan's model, odds)"
        return [Listing(title, ("group", "winners", "then"), numbers, rows)]

    def charts(self) -> list[Bars]:
        """Return the number of each group."""
        if self.known or not self.groups:
            return []
        values = tuple(LARGEST if one.strength is None else round(one.strength, 3) for one in self.groups)
        title = f"Strength of unmeasured selection that could change the winner set (odds; {LARGEST:.0f}: none below)"
        return [Bars(title, tuple(one.group for one in self.groups), values)]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values of JSON."""
        rows = [{field.name: getattr(one, field.name) for field in fields(one)} for one in self.groups]
        odds = None if self.context_odds is None else list(self.context_odds)
        about = {"known": self.known, "confidence": self.confidence, "skipped": list(self.skipped)}
        return {**about, "context_odds": odds, "groups": [{**r, "winners": list(r["winners"])} for r in rows]}


def _shown(value: float | None) -> str:
    return f"> {LARGEST:.0f}" if value is None else f"{value:.2f}"


# -- bounds -----------------------------------------------------------------------------------------------------------


def payoff_bounds(
    stage1: Stage1, group: GroupPayoff, strength: float, *, confidence: float | None = 0.95
) -> tuple[Floats, Floats]:
    """Return lower and upper bounds (K, K) on the mean payoffs of a group under selection of a strength.

    Args:
        strength: 1 or more: how many times the odds that two agents are compared may differ by a hidden trait.
        confidence: that the bounds hold for all pairs together, sampling error included; None: the bounds as estimated.
    """
    if not 1 <= as_number(strength) < np.inf:
        raise InputError(f"strength is {strength!r}; accepted is a number of 1 or more: 1 is no unmeasured selection.")
    tilts, K = Tilts.of(stage1.pseudo), len(group.agents)
    if stage1.nuisances.is_known:
        strength = 1.0
    ends = []
    for up in (False, True):
        moments = tilts.bounded(group, float(strength), up=up)
        if confidence is None:
            ends.append(np.clip(moments.mean, -1, 1))
            continue
        level = confidence if strength == 1 else (1 + confidence) / 2  # bounds below and above are two sets of means
        critical = critical_value([moments], level, group.seed)
        direct = limits(moments, critical)[int(up)]
        plain = group.interval(level)[int(up)][np.triu_indices(K, 1)]
        mapped = np.where(group.moments.votes > 0, tilts.mapped(group, plain, float(strength), up=up), direct)
        ends.append(np.clip(np.maximum(direct, mapped) if up else np.minimum(direct, mapped), -1, 1))
    low, high = ends
    return pair_matrix(low, K, -high), pair_matrix(high, K, -low)


# -- the number of a group --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reach:
    """How far a group's payoffs could be off at some strengths S.

    Args:
        strengths: (S,) ascending from 1.
        below, above: (S, n_pairs) widths, not falling.
        errors: (S, n_pairs) standard errors of the bounds over those without selection.
    """

    strengths: Floats
    below: Floats
    above: Floats
    errors: Floats

    @classmethod
    def of(cls, tilts: Tilts, group: GroupPayoff) -> Reach:
        """Return the widths of a group on a grid of strengths."""
        strengths, size = np.geomspace(1.0, LARGEST, _GRID), tilts.pseudo.n_pairs
        rows = np.flatnonzero(group.inside[tilts.pseudo.context])
        pair = tilts.pseudo.pair[rows]
        plain = bin_sums(pair, tilts.pseudo.estimand.correction[rows] ** 2, size)
        below, above, errors = (np.zeros((_GRID, size)) for _ in range(3))
        for s, strength in enumerate(strengths):
            sides = [tilts.side(group.inside, rows, strength, up=up) for up in (False, True)]
            widths = (width for width, _ in sides)
            below[s], above[s] = bridged_widths(tilts.pseudo, group.moments.mean, *widths)
            largest = np.maximum(*(bin_sums(pair, tilted**2, size) for _, tilted in sides))
            errors[s] = np.sqrt(np.divide(largest, plain, out=np.ones(size), where=plain > 0))
        return cls(strengths, *(np.maximum.accumulate(each, axis=0) for each in (below, above, errors)))

    def at(self, strength: float) -> tuple[Floats, Floats, Floats]:
        """Return (n_pairs,) each: widths below and above, and how much larger errors are."""
        place = np.interp(np.log(strength), np.log(self.strengths), np.arange(len(self.strengths)))
        low = min(int(place), len(self.strengths) - 2)
        share = place - low
        below, above, errors = ((1 - share) * each[low] + share * each[low + 1] for each in
                                (self.below, self.above, self.errors))  # fmt: skip
        return below, above, errors


class Box:
    """Games whose payoffs lie between bounds, and whether one of them has another winner set."""

    def __init__(self, group: GroupPayoff, omega: Regularizer) -> None:
        self.group, self.omega, self.K = group, omega, len(group.agents)
        self.pairs = np.triu_indices(self.K, 1)
        self.start = game_of(group.estimate, group.present, omega)

    def changed(self, low: Floats, high: Floats) -> str:
        """Return who enters or leaves in some game between bounds (n_pairs,); "" where none was found.

        For each agent the corner of the bounds that brings it closest to entering, or leaving, is solved. Where one
        agent beats all others that tells exactly; where several share the lottery a corner is chosen anew by the
        slopes at the last.
        """
        payoff = self.start.payoff[self.pairs]
        ways = [(m, self._corner(m.slope, low, high)) for m in margins(self.start, self.omega)]
        near = [m.value + float(m.slope @ (corner - payoff)) for m, corner in ways]
        ways = [ways[i] for i in np.argsort(near, kind="stable")[:_CORNERS]]
        for _ in range(_TURNS):
            if not ways:
                return ""
            games = self._solved(np.stack([corner for _, corner in ways]))
            for (margin, _), game in zip(ways, games, strict=True):
                if (game.winners != self.start.winners).any():
                    return f"{self.group.agents[margin.agent]} {margin.change}"
            if self.start.winners.sum() == 1:
                return ""
            wanted = [(m.agent, m.change) for m, _ in ways]
            again = [{(m.agent, m.change): m for m in margins(game, self.omega)} for game in games]
            found = [known[one] for known, one in zip(again, wanted, strict=True) if one in known]
            ways = [(m, self._corner(m.slope, low, high)) for m in found]
        return ""

    def _corner(self, slope: Floats, low: Floats, high: Floats) -> Floats:
        return np.where(slope > 0, low, np.where(slope < 0, high, self.start.payoff[self.pairs]))

    def _solved(self, corners: Floats) -> list[Game]:
        games = np.stack([pair_matrix(corner, self.K, -corner) for corner in np.clip(corners, -1, 1)])
        present = self.group.present
        return [Game(A, present, pi) for A, pi in zip(games, lotteries(games, self.omega, present), strict=True)]


def least_strength(
    box: Box, bounds: Callable[[float], tuple[Floats, Floats]], largest: float = LARGEST
) -> tuple[float | None, str]:
    """Return the least strength at which bounds allow another winner set, by bisection, and who enters or leaves."""
    change = box.changed(*bounds(largest))
    if not change:
        return None, ""
    if first := box.changed(*bounds(1.0)):
        return 1.0, first
    low, high = 0.0, float(np.log(largest))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if found := box.changed(*bounds(float(np.exp(middle)))):
            high, change = middle, found
        else:
            low = middle
    return float(np.exp(high)), change


def find_sensitivity(
    stage1: Stage1,
    groups: Sequence[GroupPayoff],
    omega: Regularizer,
    *,
    confidence: float = 0.95,
    advance: Callable[[float], None] = lambda share: None,
) -> Sensitivity:
    """Return how strong unmeasured selection would have to be in each group to change who wins there.

    Args:
        groups: their mean payoffs.
        omega: regulariser of the game.
        advance: told of the share of the work done.
    """
    pseudo, strengths = stage1.pseudo, []
    skipped = tuple(group.name for group in groups if group.present.sum() < 2)
    if stage1.nuisances.is_known:
        return Sensitivity((), True, confidence, None, skipped)
    tilts = Tilts.of(pseudo)
    for group in groups:
        if group.present.sum() >= 2:
            strengths.append(_strength(tilts, group, omega, confidence))
        advance(1 / len(groups))
    return Sensitivity(tuple(strengths), False, confidence, _context_odds(pseudo), skipped)


def _strength(tilts: Tilts, group: GroupPayoff, omega: Regularizer, confidence: float) -> Strength:
    reach, box = Reach.of(tilts, group), Box(group, omega)
    seen: Bools = group.moments.votes > 0
    mean, pairs = np.clip(group.moments.mean, -1, 1), box.pairs
    lower, upper = (end[pairs] for end in group.interval(confidence))

    def estimated(strength: float) -> tuple[Floats, Floats]:
        below, above, _ = reach.at(strength)
        return mean - below, mean + above

    def with_chance(strength: float) -> tuple[Floats, Floats]:
        below, above, errors = reach.at(strength)
        low, high = mean - below - (mean - lower) * errors, mean + above + (upper - mean) * errors
        ends = (tilts.mapped(group, end, strength, up=up) for end, up in ((lower, False), (upper, True)))
        low_mapped, high_mapped = (np.where(seen, end, old) for end, old in zip(ends, (low, high), strict=True))
        return np.minimum(low, low_mapped), np.maximum(high, high_mapped)

    least, change = least_strength(box, estimated)
    sure, _ = least_strength(box, with_chance)
    width = sum(side[seen].mean() if seen.any() else 0.0 for side in reach.at(2.0)[:2])
    names = tuple(a for a, won in zip(group.agents, box.start.winners, strict=True) if won)
    return Strength(group.name, names, least, change, sure, float(width))


def _context_odds(pseudo: PseudoOutcomes) -> tuple[float, float] | None:
    """Return how far e moves from the share of its menu, in odds, at the median and the 95th percentile of records."""
    fit = pseudo.fit
    if not fit.log.n_records:
        return None
    e = np.clip(fit.e, 1e-12, 1 - 1e-12)
    weight = fit.log.records.weights
    menu = fit.log.menus.of_record
    mean = bin_sums(menu, weight, len(fit.log.menus)) / np.maximum(
        bin_sums(menu, weight / e, len(fit.log.menus)), 1e-300
    )
    mean = np.clip(mean[menu], 1e-12, 1 - 1e-12)
    odds = np.abs(np.log(e / (1 - e)) - np.log(mean / (1 - mean)))
    half, most = np.exp(np.quantile(odds, [0.5, 0.95]))
    return None if most < 1.005 else (round(float(half), 4), round(float(most), 4))
