"""Blocs of voters: do tastes clump, who belongs where, and what does each bloc favour where?

The number of blocs, and whether tastes depend on a column of the contexts, maximise BIC over one bloc
(`nasheval.audit.mixture`, in which one wide bloc stands for tastes that differ by degrees). Several blocs are reported
only where they also foretell one half of voters' votes from the other better than one bloc does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from nasheval.arrays import Bools, Floats, Ints, bin_sums, is_whole
from nasheval.audit.crowd import Crowd, crowd_of
from nasheval.audit.latent import LatentType, latent_types
from nasheval.audit.mixture import Mixture, Tastes, Votes, criterion, fit_mixture, held_out
from nasheval.audit.section import Bars, Listing
from nasheval.errors import InputError
from nasheval.feedback.groups import Groups, by_value, grouping_columns
from nasheval.notes import few
from nasheval.payoff.stage1 import Stage1

_LEAST = 5  # decided votes of a voter who is placed
_FEW = 10  # voters below which no blocs are looked for
_FITTED = 1000  # voters that blocs are learned from; the others are placed afterwards
_VALUES, _DIRECTIONS, _COLUMNS = 4, 48, 3  # of a column that tastes may depend on
_GAIN, _ERRORS = 3.0, 2.5  # log likelihood that several blocs must foretell better by, and how many errors that is
_AGENTS = 40  # for each of whom voters have a taste
_TOLD, _ALIKE = 6, 4.0  # agents, and errors from zero of a correlation over them, that make a taste one for the best
_LEVEL = 0.05  # of all intervals of tastes together
_SHOWN = 30  # voters in a table


@dataclass(frozen=True, eq=False)
class Blocs:
    """Voters by blocs; n voters with five decided votes or more, T blocs, the largest first.

    Args:
        agents: names of the K agents; of more than 40 those with most votes, and "all others" as one.
        voters: (n,) names.
        votes: (n,) decided votes of each.
        bloc: (n,) the likeliest bloc of each, from 0.
        chance: (n, T) of each to belong to each bloc; T is 0 where voters are too few to look.
        spread: how much tastes differ within a bloc: the standard deviation, in log odds, for each agent.
        gain: log likelihood by which T blocs foretell held-out votes better than one; 0 for one bloc.
        column: the context column that tastes depend on; "" for none.
        places: the values that tastes are given at: "" for all contexts, then those of the column.
        strength: (K,) of each agent with all voters: the mean log odds of votes on it.
        taste: (T, places, K) for each agent, less that of other blocs, in log odds of votes on it.
        error: (T, places, K) its standard error, given who belongs where.
        critical: how many errors are half an interval, all of them together.
        latent: types of the outcome model's own latent voters, where it has them.
        notes: what to know before trusting it.
    """

    agents: tuple[str, ...]
    voters: tuple[str, ...]
    votes: Ints
    bloc: Ints
    chance: Floats
    spread: float
    gain: float
    column: str
    places: tuple[str, ...]
    strength: Floats
    taste: Floats
    error: Floats
    critical: float
    latent: tuple[LatentType, ...]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return self.chance.shape[1]

    @property
    def title(self) -> str:
        """A few words."""
        return "Blocs of voters"

    @property
    def sizes(self) -> Ints:
        """(T,) voters of each bloc."""
        return np.bincount(self.bloc, minlength=len(self))

    @property
    def clear(self) -> Bools:
        """(T, places, K) whether each taste is surely not zero, all of them together."""
        return np.asarray(np.abs(self.taste) > self.critical * self.error)

    def lines(self) -> list[str]:
        """Return what was found, in sentences, the most important first."""
        return [*self._blocs(), *(latent.sentence() for latent in self.latent), *self.notes]

    def _blocs(self) -> Iterator[str]:
        degree = f"a standard deviation of {self.spread:.2f} in log odds for each agent"
        if len(self.voters) and len(self) == 1:
            yield f"{len(self.voters):,} voters form one bloc: tastes differ by degrees, if at all ({degree})."
        elif len(self.voters):
            yield f"{len(self.voters):,} voters fall into {len(self)} blocs; within a bloc tastes differ by {degree}."
            yield from (self.describe(t) for t in range(len(self)))

    def describe(self, t: int) -> str:
        """Return what a bloc favours, beside all others, in a sentence."""
        parts = [said for place in range(len(self.places)) if (said := self._favours(t, place))]
        if len(parts) > 1 and len(self.places) > 1:
            parts = parts[1:]  # where each is told at a value of the column, all contexts together say less
        said = "; ".join(parts) or "differs from the others in no agent clearly"
        return f"Bloc {t + 1} ({self.sizes[t]:,} voters): {said}{self._agreement(t)}."

    def _agreement(self, t: int) -> str:
        """Say where a taste is all but that for, or against, what all voters think good."""
        K, taste = len(self.agents), self.taste[t, 0]
        alike = float(np.corrcoef(taste, self.strength)[0, 1]) if taste.any() and self.strength.any() else 0.0
        if K < _TOLD or abs(alike) * np.sqrt(K - 2) < _ALIKE * np.sqrt(1 - min(alike**2, 1.0)):
            return ""
        return f"; on the whole it agrees {'more' if alike > 0 else 'less'} with the crowd than the others do"

    def _favours(self, t: int, place: int) -> str:
        taste, clear = self.taste[t, place], self.clear[t, place]
        order = np.argsort(-taste, kind="stable")
        likes = [self.agents[a] for a in order if clear[a] and taste[a] > 0]
        dislikes = [self.agents[a] for a in order[::-1] if clear[a] and taste[a] < 0]
        words = [f"favours {few(likes, 3)}"] * bool(likes) + [f"disfavours {few(dislikes, 3)}"] * bool(dislikes)
        where = f" where {self.column} is {self.places[place]}" if place else ""
        return " and ".join(words) + where if words else ""

    def listings(self) -> list[Listing]:
        """Return the tastes of each bloc, and the voters of each."""
        if len(self) < 2:
            return []
        names = ("agent", "where") if self.column else ("agent",)
        blocs = tuple(f"bloc {t + 1} ({self.sizes[t]:,})" for t in range(len(self)))
        rows = [
            (agent, *((place or "everywhere",) if self.column else ()), *self._numbers(p, a))
            for a, agent in enumerate(self.agents)
            for p, place in enumerate(self.places)
        ]
        members = [(f"{t + 1}", few(self._members(t), _SHOWN)) for t in range(len(self))]
        title = "Taste of each bloc beside the others, in log odds (* surely not zero)"
        return [
            Listing(title, names, blocs, tuple(rows)),
            Listing("Voters of each bloc, the surest first", ("bloc", "voters"), (), tuple(members)),
        ]

    def _numbers(self, place: int, agent: int) -> list[str]:
        taste, clear = self.taste[:, place, agent], self.clear[:, place, agent]
        return [f"{value:+.2f}{'*' if sure else ''}" for value, sure in zip(taste, clear, strict=True)]

    def _members(self, t: int) -> list[str]:
        mine = np.flatnonzero(self.bloc == t)
        return [self.voters[u] for u in mine[np.argsort(-self.chance[mine, t], kind="stable")]]

    def charts(self) -> list[Bars]:
        """Return the taste of each bloc for each agent, over all contexts."""
        if len(self) < 2:
            return []
        charts = []
        for t in range(len(self)):
            taste, half, clear = self.taste[t, 0], self.critical * self.error[t, 0], self.clear[t, 0]
            order = np.argsort(-taste, kind="stable")
            ends = ((taste - half)[order].tolist(), (taste + half)[order].tolist())
            title = f"Bloc {t + 1} ({self.sizes[t]:,} voters): taste beside other blocs, in log odds"
            labels, marked = tuple(self.agents[a] for a in order), tuple(bool(clear[a]) for a in order)
            charts.append(Bars(title, labels, tuple(taste[order].tolist()), tuple(ends[0]), tuple(ends[1]), marked))
        return charts

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "blocs": [
                {
                    "voters": self._members(t),
                    "said": self.describe(t),
                    "taste": self.taste[t].tolist(),
                    "error": self.error[t].tolist(),
                }
                for t in range(len(self))
            ],
            "agents": list(self.agents),
            "column": self.column,
            "places": list(self.places),
            "spread": self.spread,
            "gain": self.gain,
            "latent": [latent.to_dict() for latent in self.latent],
            "notes": list(self.notes),
        }


def blocs(stage1: Stage1, *, most: int = 6, seed: int = 0) -> Blocs:
    """Return the blocs that voters fall into.

    Args:
        most: blocs that are looked for.
        seed: of starts, of halves of votes, and of which pairs of larger ballots are looked at.
    """
    if not is_whole(most, 1):
        raise InputError(f"most is {most!r}; accepted is a whole number of 1 or more.")
    crowd = crowd_of(stage1, seed=seed)
    votes = np.bincount(crowd.named.voter[crowd.named.decided], minlength=crowd.n_voters)
    placed = np.flatnonzero(votes >= _LEAST)
    latent = latent_types(stage1)
    notes = tuple(_notes(crowd, len(placed)))
    if len(placed) < _FEW:
        none, nobody = np.zeros((0, 1, len(crowd.agents))), np.zeros(0, np.int64)
        unplaced = np.ones((0, 0))
        return Blocs(
            crowd.agents, (), nobody, nobody, unplaced, 0.0, 0.0, "", ("",), none, none, none, 0.0, latent, notes
        )
    search = _Search(crowd, placed, seed)
    mixture, groups, gain = search.chosen(max(1, most))
    chance = search.chances(mixture, groups)
    order = np.argsort(-np.bincount(chance.argmax(axis=1), minlength=len(mixture)), kind="stable")
    mixture, chance = Mixture(mixture.log_share[order], mixture.mean[order], mixture.variance), chance[:, order]
    taste, error = _tastes(mixture, search.tastes(groups), len(search.agents), search.shares(groups))
    column, places = ("", ("",)) if groups is None else (groups.column, ("", *groups.names))
    return Blocs(
        agents=search.agents,
        voters=tuple(crowd.names(placed)),
        votes=votes[placed],
        bloc=chance.argmax(axis=1),
        chance=chance,
        spread=float(np.sqrt(mixture.variance)),
        gain=gain,
        column=column,
        places=places,
        strength=search.strength(),
        taste=taste,
        error=error,
        critical=float(norm.isf(_LEVEL / (2 * taste.size))),
        latent=latent,
        notes=notes,
    )


class _Search:
    """The decided votes of the voters who are placed, and the search for blocs among some of them."""

    def __init__(self, crowd: Crowd, placed: Ints, seed: int) -> None:
        self.seed, self.placed = seed, placed
        number = np.full(crowd.n_voters + 1, -1)
        number[placed] = np.arange(len(placed))
        self.crowd, self.agents = _most_frequent(crowd.at(crowd.decided & (number[crowd.voter] >= 0)))
        self.number = number[self.crowd.voter]
        rng = np.random.default_rng(seed)
        self.learned = np.sort(rng.permutation(len(placed))[:_FITTED])
        self._known: dict[str, Tastes] = {}

    def candidates(self) -> list[Groups | None]:
        """Return the groups of contexts that tastes may depend on; none first."""
        log, K = self.crowd.log, len(self.agents)
        used, found = np.zeros(log.n_contexts, bool), []
        used[self.crowd.context] = True
        for column in grouping_columns(log, quartiles=False):
            groups = by_value(log, column, used)
            if 1 < len(groups) <= _VALUES and K * (1 + len(groups)) <= _DIRECTIONS:
                found.append(groups)
        return [None, *found[:_COLUMNS]]

    def chosen(self, most: int) -> tuple[Mixture, Groups | None, float]:
        """Return the blocs of the best criterion, and one bloc where several foretell no better."""
        n, K = len(self.learned), len(self.agents)
        found = []
        for groups in self.candidates():
            tastes, free, one = self.tastes(groups), (K - 1) * (1 if groups is None else len(groups)), 0.0
            for T in range(1, most + 1):
                mixture, fit = fit_mixture(tastes, T, self.seed)
                one = criterion(fit, 1, n, free) if T == 1 else one  # what all voters share there makes no blocs
                found.append((criterion(fit, T, n, free) - one, T, mixture, groups))
                if T > 2 and found[-1][0] < found[-2][0] < found[-3][0]:
                    break
        _, T, mixture, groups = max(found, key=lambda one: one[0])
        gain = held_out(self.votes(self.learned, groups), T, self.seed) if T > 1 else np.zeros(1)
        enough = max(_GAIN, _ERRORS * float(gain.std()) * np.sqrt(len(gain)))
        if T == 1 or gain.sum() < enough:
            return found[0][2], None, 0.0
        return mixture, groups, float(gain.sum())

    def votes(self, voters: Ints, groups: Groups | None) -> Votes:
        """Return the votes of some of the voters who are placed."""
        place = np.full(len(self.placed), -1)
        place[voters] = np.arange(len(voters))
        rows = place[self.number] >= 0
        crowd = self.crowd.at(rows)
        code = None if groups is None else groups.code[crowd.context]
        return Votes.of(
            crowd, len(self.agents), place[self.number[rows]], len(voters), code, 0 if groups is None else len(groups)
        )

    def tastes(self, groups: Groups | None) -> Tastes:
        """Return what the votes of those that blocs are learned from say of their tastes."""
        key = "" if groups is None else groups.column
        if key not in self._known:
            votes = self.votes(self.learned, groups)
            self._known[key] = votes.around(votes.estimates())
        return self._known[key]

    def chances(self, mixture: Mixture, groups: Groups | None) -> Floats:
        """Return (voters placed, T) the chance of each to belong to each bloc."""
        chance = np.empty((len(self.placed), len(mixture)))
        for start in range(0, len(self.placed), _FITTED):
            voters = np.arange(start, min(start + _FITTED, len(self.placed)))
            votes = self.votes(voters, groups)
            chance[voters] = mixture.chances(votes.around(votes.estimates()))
        return chance

    def strength(self) -> Floats:
        """Return (K,) the mean log odds of votes on each agent."""
        crowd, K = self.crowd, len(self.agents)
        total = sum(sign * bin_sums(agent, crowd.logit, K) for agent, sign in ((crowd.j, 1.0), (crowd.k, -1.0)))
        return np.asarray(total / np.maximum(np.bincount(np.concatenate([crowd.j, crowd.k]), minlength=K), 1))

    def shares(self, groups: Groups | None) -> Floats:
        """Return (groups,) the share of votes at each."""
        count = np.bincount(groups.code[self.crowd.context], minlength=len(groups)) if groups else np.zeros(0)
        return count / max(count.sum(), 1)


def _most_frequent(crowd: Crowd) -> tuple[Crowd, tuple[str, ...]]:
    """Return the votes with agents numbered anew, all but the most frequent as one, and the names of these numbers."""
    count = np.bincount(np.concatenate([crowd.j, crowd.k]), minlength=len(crowd.agents))
    if len(count) <= _AGENTS:
        return crowd, crowd.agents
    kept = np.sort(np.argsort(-count, kind="stable")[:_AGENTS])
    number = np.full(len(count), _AGENTS)
    number[kept] = np.arange(_AGENTS)
    renamed = replace(crowd, j=number[crowd.j], k=number[crowd.k])
    return renamed.at(renamed.j != renamed.k), (*(crowd.agents[a] for a in kept), "all others")


def _tastes(mixture: Mixture, tastes: Tastes, K: int, shares: Floats) -> tuple[Floats, Floats]:
    """Return (T, places, K) tastes of each bloc less those of the others, centred over agents, and their errors."""
    T, D, places = len(mixture), mixture.mean.shape[1], 1 + len(shares)
    belief, within = mixture.chances(tastes), np.linalg.inv(tastes.H + np.eye(D) / mixture.variance)
    told = (
        np.eye(D) - within / mixture.variance
    ) / mixture.variance  # information of a voter on the centre of its bloc
    information = np.einsum("nt,nde->tde", belief, told)
    covariance = np.stack([np.linalg.pinv(each, rcond=1e-6, hermitian=True) for each in information])
    size, project = belief.sum(axis=0), _projections(K, shares)
    taste, error = np.zeros((T, places, K)), np.zeros((T, places, K))
    for t in range(T if T > 1 else 0):
        weight = np.where(np.arange(T) == t, 0.0, size)
        weight = -weight / weight.sum()
        weight[t] = 1.0
        spread = np.einsum("t,tde->de", weight**2, covariance)
        taste[t] = project @ (weight @ mixture.mean)
        error[t] = np.sqrt(np.maximum(np.einsum("pkd,de,pke->pk", project, spread, project), 0))
    return taste, error


def _projections(K: int, shares: Floats) -> Floats:
    """Return (places, K, D): what of a taste shows for each agent over all contexts, and at each value of a column."""
    centre, places = np.eye(K) - 1 / K, 1 + len(shares)
    weight = np.zeros((places, places))  # of the common part and of that at each value
    weight[:, 0] = 1.0
    weight[0, 1:], weight[1:, 1:] = shares, np.eye(len(shares))
    return np.einsum("pq,kj->pkqj", weight, centre).reshape(places, K, places * K)


def _notes(crowd: Crowd, placed: int) -> Iterator[str]:
    if not crowd.n_voters:
        yield "The log names no voters, so blocs of voters cannot be told; name the column (voter=, --voter)."
    elif placed < _FEW:
        yield f"Voters with {_LEAST} decided votes or more: {placed}; blocs are looked for among {_FEW} or more."
    elif placed > _FITTED:
        yield f"Blocs were learned from {_FITTED:,} voters at random; the others were placed in them."
