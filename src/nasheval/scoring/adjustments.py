"""Two estimands side by side: payoffs as voted and at equal style, their difference, and what style is worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from nasheval.arrays import Bools, Floats, Ints
from nasheval.choices import AS_VOTED
from nasheval.files import json_values
from nasheval.notes import Note
from nasheval.payoff.adjusted import shared_errors
from nasheval.payoff.clusters import Moments, Speaks, group_moments
from nasheval.payoff.drawing import listing, warnings
from nasheval.payoff.estimand import Effects, Estimand
from nasheval.payoff.grouped import Votes
from nasheval.payoff.intervals import checked_level, student
from nasheval.payoff.stage1 import Stage1
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_MEANING = {"position": "being shown first"}
_TWICE = ("length", "headers", "lists", "bold")


@dataclass(frozen=True, eq=False)
class Adjusted:
    """What was adjusted for over a group of contexts, and what that does to each agent; prints as two tables.

    The payoff of an agent is its mean payoff against the opponents it was compared with in the group, each counting
    the same. Intervals are for each number alone.

    Args:
        estimand: what the model's payoffs are of, such as "at equal style".
        group: its name.
        names: of the S columns that were adjusted for.
        effect, effect_lower, effect_upper: (S,) what one more of each adds to a verdict, all contexts together; on a
            curve, to that of an even pair.
        curved: whether verdicts move along a curve that levels off where a pair is lopsided, or along a straight line.
        agents: names of the agents that have a vote in the group.
        voted, equal: (K,) mean payoffs as voted, and those of the estimand.
        difference, lower, upper: (K,) the first less the second: what an agent owes to its style.
        confidence: of the intervals.
        notes: columns that were left out, and why.
    """

    estimand: str
    group: str
    names: tuple[str, ...]
    effect: Floats
    effect_lower: Floats
    effect_upper: Floats
    curved: bool
    agents: tuple[str, ...]
    voted: Floats
    equal: Floats
    difference: Floats
    lower: Floats
    upper: Floats
    confidence: float
    notes: tuple[Note, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        numbers = ("effect", "effect_lower", "effect_upper", "voted", "equal", "difference", "lower", "upper")
        plainly = {name: json_values(getattr(self, name)) for name in numbers}
        names: dict[str, Any] = {"estimand": self.estimand, "group": self.group, "names": list(self.names)}
        names["curved"] = self.curved
        names["meanings"] = [meaning(name) for name in self.names]
        return names | {"agents": list(self.agents), **plainly, "notes": [str(note) for note in self.notes]}

    @property
    def adds(self) -> str:
        """What effects are added to, in words."""
        return "adds, to an even pair" if self.curved else "adds"

    def effect_rows(self) -> list[tuple[str, str]]:
        """Return what each column is worth, in words and with its interval."""
        numbers = zip(self.effect, self.effect_lower, self.effect_upper, strict=True)
        return [(meaning(name), _interval(*each)) for name, each in zip(self.names, numbers, strict=True)]

    def agent_rows(self) -> list[tuple[str, str, str, str]]:
        """Return each agent with both payoffs and their difference, best at equal style first."""
        return [
            (self.agents[a], f"{self.voted[a]:+.3f}", f"{self.equal[a]:+.3f}",
             _interval(self.difference[a], self.lower[a], self.upper[a]))
            for a in np.argsort(-self.equal, kind="stable")
        ]  # fmt: skip

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw what each column is worth, and both payoffs of each agent."""
        level = f"{self.confidence:.0%}"
        if self.names:
            effects = self.effect_rows()
            yield listing(
                f"What moves verdicts, intervals of {level}", ("of two answers",), (self.adds,), effects, len(effects)
            )
            rows, title = (
                self.agent_rows(),
                f"Mean payoffs {AS_VOTED} and {self.estimand} ({self.group}), intervals of {level}",
            )
            yield listing(title, ("agent",), (AS_VOTED, self.estimand, "difference"), rows, len(rows))
        yield from warnings(self.notes)

    def __str__(self) -> str:
        return plain(self)


def meaning(name: str) -> str:
    """Return what a difference of one is, in words."""
    return _MEANING.get(name, f"twice the {name}" if name in _TWICE else f"one more of {name}")


def _interval(value: float, lower: float, upper: float) -> str:
    return f"{value:+.3f} [{lower:+.3f}, {upper:+.3f}]"


def adjusted_payoffs(
    stage1: Stage1,
    inside: Bools | None = None,
    *,
    group: str = "all",
    confidence: float = 0.95,
    voters: Speaks | None = None,
) -> Adjusted | None:
    """Return both estimands over a group of contexts with their difference; None where nothing was adjusted for.

    Args:
        inside: (n_contexts,) the contexts; None: all.
        voters: whom intervals speak for, as in `group_payoffs`.
    """
    style, pseudo = stage1.style, stage1.pseudo
    if style is None:
        return None
    level = float(norm.ppf((1 + checked_level(confidence)) / 2))
    code = np.zeros(pseudo.n_contexts, np.int64) if inside is None else np.asarray(inside).astype(np.int64) - 1
    estimands = stage1.as_voted.pseudo.estimand, pseudo.estimand, _difference(stage1)
    as_voted, equal, moved = (group_moments(one, code, 1, None, voters)[0] for one in estimands)
    present = _weights(as_voted, len(stage1.agents))
    kept = np.flatnonzero(np.abs(present).sum(axis=1) > 0)
    weights = present[kept]
    difference, error = weights @ moved.mean, _errors(moved, weights)
    critical = float(student(np.array([level]), np.array([max(moved.n_clusters - 1, 1)]))[0])
    spread = critical * _effect_errors(pseudo.estimand, pseudo.used, moved)
    return Adjusted(
        stage1.estimand, group, style.names, style.beta, style.beta - spread, style.beta + spread,
        style.curved,
        tuple(stage1.agents[a] for a in kept), weights @ as_voted.mean, weights @ equal.mean,
        difference, difference - critical * error, difference + critical * error, confidence, style.left_out,
    )  # fmt: skip


def _difference(stage1: Stage1) -> Estimand:
    """Return payoffs as voted less those at equal style, as an estimand."""
    equal, voted = stage1.pseudo, stage1.as_voted.pseudo
    assert equal.style is not None

    def plugin(contexts: Ints) -> Iterator[tuple[Ints, Floats]]:
        for (rows, first), (_, second) in zip(
            voted.plugin_chunks(contexts), equal.plugin_chunks(contexts), strict=True
        ):
            yield rows, first - second

    return replace(
        equal.estimand,
        correction=voted.estimand.correction - equal.estimand.correction,
        plugin=plugin,
        bias=lambda contexts: np.zeros(equal.n_pairs),
        bridge=None,
        effects=Effects(equal.record, equal.style.score, lambda contexts: -equal.style_slope(contexts)),
    )


def _weights(moments: Moments, n_agents: int) -> Floats:
    """Return (K, n_pairs) what makes an agent's mean payoff of those of its pairs that have votes."""
    j, k = np.triu_indices(n_agents, 1)
    weights, pair = np.zeros((n_agents, len(j))), np.flatnonzero(moments.votes > 0)
    weights[j[pair], pair], weights[k[pair], pair] = 1.0, -1.0
    return weights / np.maximum(np.abs(weights).sum(axis=1, keepdims=True), 1)


def _errors(moments: Moments, weights: Floats) -> Floats:
    """Return (rows,) standard errors of weighted sums of means."""
    drawn = (moments.factor * moments.error) @ weights.T
    return np.sqrt(np.einsum("ij,ij->j", drawn, drawn))


def _effect_errors(estimand: Estimand, used: Bools, moments: Moments) -> Floats:
    """Return (S,) standard errors of what style is worth, by the clusters of some means."""
    assert estimand.effects is not None
    variance, _ = shared_errors(Votes(estimand, used), estimand.effects, moments.cluster)
    return np.sqrt(np.diag(variance))
