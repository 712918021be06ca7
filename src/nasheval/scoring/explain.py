"""Why this lottery here? The game behind it, the nearest logged contexts, and the votes that weigh most there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Floats, Ints, readonly
from nasheval.feedback.links import BRIDGED, SEEN, UNKNOWN
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Features
from nasheval.payoff.bridging import STATUS_NAMES
from nasheval.payoff.stage1 import Stage1

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_NEAR = 50  # contexts that lend weight to the votes shown
_MARKS = {BRIDGED: "~", UNKNOWN: "?"}  # behind a payoff in the game's table
_MEANINGS = {
    BRIDGED: "never compared: bridged through other agents (0 with unseen='tie')",
    UNKNOWN: "nothing connects the two: no vote tells which is better",
}


@dataclass(frozen=True, eq=False)
class Vote:
    """One record near the context asked about.

    Args:
        context: its row in the log.
        blocks: what was said, best block first.
        weight: its share of the weight of all votes near by: closeness over the chance with which it was asked.
    """

    context: int
    blocks: tuple[tuple[str, ...], ...]
    weight: float

    def __str__(self) -> str:
        return " > ".join(" = ".join(block) for block in self.blocks)


@dataclass(frozen=True, eq=False)
class Explanation:
    """What stands behind the lottery at one context.

    Args:
        agents: names of the K agents.
        lottery: (K,) their probabilities.
        payoff: (K, K) the estimated game.
        plug_in: (K, K) the same before debiasing.
        contexts: (m,) rows of the nearest logged contexts, nearest first.
        distance: (m,) how far they are, in standard deviations of a typical feature.
        shown: what is known of them, column by column; text that was not kept is missing.
        votes: those that weigh most, heaviest first.
        status: (K, K) whether each pair was seen, is bridged or unknown (`nasheval.payoff.bridging.STATUS_NAMES`).
    """

    agents: tuple[str, ...]
    lottery: Floats
    payoff: Floats
    plug_in: Floats
    contexts: Ints
    distance: Floats
    shown: dict[str, list[Any]]
    votes: tuple[Vote, ...]
    status: Ints

    @property
    def winners(self) -> tuple[str, ...]:
        """The agents in the support, most probable first."""
        order = np.argsort(-self.lottery, kind="stable")
        return tuple(self.agents[a] for a in order if self.lottery[a] > 1e-3)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        arrays = ("lottery", "payoff", "plug_in", "contexts", "distance")
        votes = [{"context": v.context, "said": str(v), "weight": v.weight} for v in self.votes]
        plain = {name: getattr(self, name).tolist() for name in arrays}
        status = [[STATUS_NAMES[code] for code in row] for row in self.status]
        return {"agents": list(self.agents), **plain, "shown": self.shown, "votes": votes, "status": status}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the lottery with the winners' rows of the game, the nearest contexts and the heaviest votes."""
        from rich.table import Table
        from rich.text import Text

        order = np.argsort(-self.lottery, kind="stable")
        game = Table("agent", "lottery", *(f"against {self.agents[a]}" for a in order[:6]), title="The game here")
        for a in order:
            row = [self._cell(a, b) if a != b else "" for b in order[:6]]
            game.add_row(self.agents[a], f"{self.lottery[a]:.3f}", *row)
        near = Table("row", "distance", *self.shown, title="The nearest logged contexts")
        for i, (row, away) in enumerate(zip(self.contexts, self.distance, strict=True)):
            near.add_row(str(row), f"{away:.2f}", *(str(values[i])[:60] for values in self.shown.values()))
        votes = Table("row", "said", "share of weight", title="The votes that weigh most")
        for vote in self.votes:
            votes.add_row(str(vote.context), str(vote), f"{vote.weight:.1%}")
        yield game
        shown = self.status[order][:, order[:6]]
        if (shown != SEEN).any():
            marks = (f"{_MARKS[code]} {_MEANINGS[code]}" for code in (BRIDGED, UNKNOWN) if (shown == code).any())
            yield Text("; ".join(marks), style="dim")
        yield from (near, votes)

    def _cell(self, a: int, b: int) -> str:
        return f"{self.payoff[a, b]:+.2f}{_MARKS.get(int(self.status[a, b]), '')}"


def explain(stage1: Stage1, context: object, lottery: Floats, *, nearest: int = 5, votes: int = 10) -> Explanation:
    """Explain the lottery (K,) at one context: a record, or a table or array of one row."""
    X = stage1.features(context)
    rows, distance = nearest_contexts(stage1.nuisances.X, X, max(nearest, _NEAR))
    shown = stage1.log.contexts.take(rows[:nearest]).to_pydict()
    return Explanation(
        stage1.agents,
        readonly(lottery),
        stage1.payoff.predict(X)[0],
        stage1.plug_in.predict(X)[0],
        rows[:nearest],
        distance[:nearest],
        shown,
        heaviest_votes(stage1, rows, distance, votes),
        stage1.status,
    )


def nearest_contexts(logged: Features, here: Features, count: int) -> tuple[Ints, Floats]:
    """Return the rows of the nearest logged contexts to one, and root mean square distances over features."""
    away = np.sqrt(((logged.network - here.network[:1]) ** 2).mean(axis=1)) if logged.network.shape[1] else None
    if away is None:
        return np.arange(min(count, len(logged))), np.zeros(min(count, len(logged)))
    count = min(count, len(away))
    rows = np.argpartition(away, count - 1)[:count]
    rows = rows[np.argsort(away[rows], kind="stable")]
    return rows, away[rows].astype(np.float64)


def heaviest_votes(stage1: Stage1, rows: Ints, distance: Floats, count: int) -> tuple[Vote, ...]:
    """Return the records at some contexts that weigh most: a Gaussian of distance over the propensity."""
    log, e = stage1.nuisances.log, stage1.nuisances.e
    width = max(float(np.median(distance)), 1e-9)
    close = np.zeros(log.n_contexts)
    close[rows] = np.exp(-0.5 * (distance / width) ** 2)
    records = np.flatnonzero(close[log.context_of] > 0)
    share = close[log.context_of[records]] / e[records]
    if log.records.weight is not None:
        share = share * log.records.weight[records]
    order = np.argsort(-share, kind="stable")[:count]
    total = max(float(share.sum()), 1e-300)
    return tuple(
        Vote(int(log.context_of[records[i]]), _said(log, int(records[i])), float(share[i] / total)) for i in order
    )


def _said(log: Feedback, record: int) -> tuple[tuple[str, ...], ...]:
    """Return the blocks of a record, best first."""
    inside = slice(log.records.offsets[record], log.records.offsets[record + 1])
    agents, block = log.records.agent[inside], log.records.block[inside]
    return tuple(tuple(log.agents[a] for a in agents[block == b]) for b in np.unique(block))
