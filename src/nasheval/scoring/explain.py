"""Why this lottery here? The game behind it, the nearest contexts, the votes that weigh most, and rivals never met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.feedback.links import BRIDGED, SEEN, UNKNOWN
from nasheval.files import json_values
from nasheval.notes import brief, few
from nasheval.nuisance.learners import Features
from nasheval.payoff.bridging import STATUS_NAMES, Unseen, pair_matrix
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from nasheval.payoff.second_stage import PayoffModel
    from nasheval.payoff.stage1 import Stage1

_NEAR = 50  # contexts that lend weight to the votes shown
_NAMED = 3  # agents in a sentence
_MARKS = {BRIDGED: "~", UNKNOWN: "?"}  # behind a payoff in the game's table
_MEANINGS = {
    BRIDGED: "never compared: bridged through other agents",
    UNKNOWN: "nothing connects the two: no vote tells which is better",
}
_TIE = "never compared: given as 0, a tie (unseen='tie')"


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
        unseen: what was made of pairs that were never compared: "model" (bridged) or "tie".
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
    unseen: Unseen = "model"

    @property
    def winners(self) -> tuple[str, ...]:
        """The agents in the support, most probable first."""
        order = np.argsort(-self.lottery, kind="stable")
        return tuple(self.agents[a] for a in order if self.lottery[a] > 1e-3)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        arrays = ("lottery", "payoff", "plug_in", "contexts", "distance")
        votes = [{"context": v.context, "said": str(v), "weight": v.weight} for v in self.votes]
        numbers = {name: getattr(self, name).tolist() for name in arrays}
        status = [[STATUS_NAMES[code] for code in row] for row in self.status]
        more = {"shown": json_values(self.shown), "votes": votes, "status": status, "unseen": self.unseen}
        return {"agents": list(self.agents), **numbers, **more}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the lottery with the winners' rows of the game, the nearest contexts and the heaviest votes."""
        from rich.markup import escape
        from rich.table import Table
        from rich.text import Text

        order = np.argsort(-self.lottery, kind="stable")
        rivals = (f"against {escape(self.agents[a])}" for a in order[:6])
        game = Table("agent", "lottery", *rivals, title="The game here")
        for a in order:
            marks = [_MARKS.get(int(code), "") for code in self.status[a]]
            row = [f"{self.payoff[a, b]:+.2f}{marks[b]}" if a != b else "" for b in order[:6]]
            game.add_row(Text(self.agents[a]), f"{self.lottery[a]:.3f}", *row)
        near = Table("row", "distance", *map(escape, self.shown), title="The nearest logged contexts")
        for i, (row, away) in enumerate(zip(self.contexts, self.distance, strict=True)):
            near.add_row(str(row), f"{away:.2f}", *(Text(brief(values[i])) for values in self.shown.values()))
        votes = Table("row", "said", "share of weight", title="The votes that weigh most")
        for vote in self.votes:
            votes.add_row(str(vote.context), Text(str(vote)), f"{vote.weight:.1%}")
        yield game
        shown = self.status[order][:, order[:6]]
        if (shown != SEEN).any():
            meanings = _MEANINGS if self.unseen == "model" else {**_MEANINGS, BRIDGED: _TIE}
            legend = (f"{_MARKS[code]} {text}" for code, text in meanings.items() if (shown == code).any())
            yield Text("; ".join(legend), style="dim")
        yield from (near, votes)

    def __str__(self) -> str:
        return plain(self)


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
        stage1.pseudo.unseen,
    )


def nearest_contexts(logged: Features, here: Features, count: int) -> tuple[Ints, Floats]:
    """Return the rows of the nearest logged contexts to one, and root mean square distances over features."""
    count = min(count, len(logged))
    if not logged.network.shape[1]:
        return np.arange(count), np.zeros(count)
    away = np.sqrt(((logged.network - here.network[:1]) ** 2).mean(axis=1))
    rows = np.flatnonzero(away <= np.partition(away, count - 1)[count - 1])  # of equal distances the first rows
    rows = rows[np.argsort(away[rows], kind="stable")][:count]
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
        Vote(
            int(log.context_of[records[i]]),
            tuple(tuple(log.agents[a] for a in block) for block in log.records.blocks(int(records[i]))),
            float(share[i] / total),
        )
        for i in order
    )


# -- what an answer rests on: which winners were never compared with which rivals -------------------------------------


def rivals_not_met(status: Ints, won: Bools, up: Bools) -> tuple[Bools, Bools]:
    """Return (n, K) twice: candidates whose payoff against some winner is bridged, and those that nothing connects.

    Args:
        status: (K, K) of pairs, as in `Stage1.status`.
        won: (n, K) the winners.
        up: (n, K) the candidates.
    """
    return ((won @ (status == BRIDGED)) & up, (won @ (status == UNKNOWN)) & up)


def winner_notes(model: PayoffModel, payoff: Floats, winners: Sequence[str], up: Bools) -> Iterator[str]:
    """Say of each winner how many rivals it leads on votes, and with whom it was never compared.

    Args:
        payoff: (K, K) the estimated game.
        winners: most probable first.
        up: (K,) the candidates.
    """
    how = "bridged through others" if model.bridge is not None else "taken as a tie"
    for winner in winners[:_NAMED]:
        a = model.agents.index(winner)
        rivals, status = up & (np.arange(len(up)) != a), pair_matrix(model.status, len(up))[a]
        unmet = (np.flatnonzero(rivals & (status == code)) for code in (BRIDGED, UNKNOWN))
        bridged, unknown = ([model.agents[rival] for rival in each] for each in unmet)
        if not bridged and not unknown:
            continue
        leads = int((rivals & (status == SEEN) & (payoff[a] > 0)).sum())
        note = f"{winner} leads {leads} of {int(rivals.sum())} rivals on votes"
        if bridged:
            note += f"; it was never compared with {few(bridged, _NAMED)} ({how})"
        if unknown:
            note += f"; nothing connects it with {few(unknown, _NAMED)} (no vote tells which is better)"
        yield note


def count_not_met(stage1: Stage1, won: Bools, up: Bools) -> Ints:
    """Return (2,) at how many contexts a winner's payoff against some rival is bridged, and where nothing connects it.

    Args:
        won, up: (n, K) the winners and the candidates.
    """
    return np.array([int(rivals.any(axis=1).sum()) for rivals in rivals_not_met(stage1.status, won, up)])


def context_notes(stage1: Stage1, counts: Ints, n_contexts: int) -> Iterator[str]:
    """Say at how many contexts a winner was never compared with some rival; nothing where all were.

    Args:
        counts: (2,) as `count_not_met` gives them.
    """
    texts = (
        f"a winner was never compared with some rival, and its payoff there is {_how_bridged(stage1)}",
        "nothing connects a winner with some rival: no vote tells which is better",
    )
    for count, text in zip(counts, texts, strict=True):
        if count:
            yield f"At {count:,} of {n_contexts:,} contexts {text}."


def _how_bridged(stage1: Stage1) -> str:
    return "bridged through others" if stage1.pseudo.unseen == "model" else "taken as a tie"
