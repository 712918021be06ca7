"""From groups to the sets of votes and voters that their winners hang on: search, then refits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Ints
from nasheval.audit.confirming import Found, Trials, confirmed
from nasheval.audit.flips import LISTED, Flip, Flips, What
from nasheval.audit.ladder import Ladder
from nasheval.audit.refits import Refit
from nasheval.audit.removal import Removal
from nasheval.audit.search import Board, Items, routes
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import Regularizer
from nasheval.payoff.inference import GroupPayoff
from nasheval.payoff.stage1 import Stage1

REFITS, THOROUGH = 12, 60  # refits of one set of votes at most, and of logs so small that all sets can be tried
_SMALL = 200  # records of such a log


def find_flips(
    stage1: Stage1,
    groups: Sequence[GroupPayoff],
    omega: Regularizer,
    *,
    by: str | None = None,
    refit: Refit | None = None,
    refits: int | None = None,
    advance: Callable[[float], None] = lambda share: None,
) -> Flips:
    """Return the fewest votes and voters of each group whose removal changes who wins there.

    Args:
        groups: their mean payoffs.
        omega: regulariser of the game.
        by: the column of the groups.
        refit: fits again without some votes; None: predictions are not confirmed.
        refits: of one set at most; None: 12, or 60 in logs of up to 200 records.
        advance: told of the share of the work done.
    """
    log, search = stage1.log, _Search(stage1, omega, refit, refits)
    flips: list[Flip] = []
    none: list[tuple[str, str]] = []
    skipped = [group.name for group in groups if group.present.sum() < 2]
    for group in groups:
        for items in _items(log, group.inside) if group.present.sum() > 1 else ():
            found = search.lottery(group, items)
            flips += [] if found is None else [found]
            none += [(group.name, items.what)] if found is None else []
            ladder = search.ladder(group, items)
            flips += [] if ladder is None else [ladder]
            advance(0.5 / len(groups))
    smallest = [flip for flip in flips if flip.board == "lottery" and flip.what == "votes"]
    votes = tuple(row for flip in smallest for row in _described(log, flip))
    made, failed = (0, ()) if refit is None else (refit.made[0], tuple(refit.failed))
    return Flips(tuple(flips), by, tuple(none), tuple(skipped), log.records.voter is None, made, votes, failed)


@dataclass(frozen=True, eq=False)
class _Choice(Items):
    """Items of a group: single votes, or voters.

    Args:
        what: which of the two.
        total: how many the group has.
    """

    what: What = "votes"
    total: int = 0


def _items(log: Feedback, inside: Bools) -> list[_Choice]:
    """Return the votes of a group, and its voters where two or more are known by name."""
    here = inside[log.context_of]
    number = np.full(log.n_records, -1)
    number[here] = np.flatnonzero(here)
    chosen = [_Choice(number, log.n_records, "votes", int(here.sum()))]
    voter = log.records.voter
    if voter is not None:
        own = np.where(here, voter, -1).astype(np.int64)
        known = len(np.unique(own[own >= 0]))
        if known > 1:
            chosen.append(_Choice(own, int(voter.max()) + 1, "voters", known))
    return chosen


@dataclass(frozen=True, eq=False)
class _Search:
    """Looks for the fewest items of one group after the other.

    Args:
        stage1: the fitted model.
        omega: regulariser of the game.
        refit: fits again without some votes; None: nothing is confirmed.
        refits: of one set at most; None: the default.
    """

    stage1: Stage1
    omega: Regularizer
    refit: Refit | None
    refits: int | None

    def lottery(self, group: GroupPayoff, items: _Choice) -> Flip | None:
        """Return the fewest items found that change the winner set of a group; None where none do."""
        boards = [Removal(self.stage1.pseudo, group, self.omega, even=even) for even in (False, True)]
        ways = sorted((way for board in boards for way in routes(board, items)), key=lambda way: way.needed)
        start, log, refit = boards[0].without(items.gone(np.zeros(0, np.int64))), self.stage1.log, self.refit
        if not ways:
            return None
        chosen = ways[0].order[: ways[0].needed]
        predicted = Found(chosen, len(chosen), None, None, 0, boards[0].without(items.gone(chosen)).winners)
        if refit is None:
            return _flip(log, group, "lottery", items, predicted, start.winners)
        few = log.n_records <= _SMALL
        most = self.refits or (THOROUGH if few else REFITS)
        trials = Trials(lambda gone: refit.game(gone, group, self.omega), items, start, self.omega, most)
        found = confirmed(trials, ways, thorough=few) or predicted
        again = refit.game(items.gone(found.chosen), group, self.omega, afresh=True) if found.confirmed else None
        afresh = None if again is None else bool((again.winners != start.winners).any())
        return _flip(log, group, "lottery", items, found, start.winners, afresh=afresh)

    def ladder(self, group: GroupPayoff, items: _Choice) -> Flip | None:
        """Return the fewest items found that change the first of a ladder, which is fitted anew all along."""
        log = self.stage1.log
        board: Board = Ladder(log, group.inside)
        start = board.without(items.gone(np.zeros(0, np.int64))).winners
        ways = routes(board, items) if start.any() else []
        if not ways:
            return None
        chosen = ways[0].order[: ways[0].needed]
        after = board.without(items.gone(chosen)).winners
        return _flip(log, group, "rating", items, Found(chosen, len(chosen), True, True, 0, after), start)


def _flip(
    log: Feedback,
    group: GroupPayoff,
    board: Any,
    items: _Choice,
    found: Found,
    start: Bools,
    *,
    afresh: bool | None = None,
) -> Flip:
    votes = np.flatnonzero(items.gone(found.chosen))
    names = () if items.what == "votes" else tuple(_voter(log, int(v)) for v in found.chosen)
    inside = int(group.inside[log.context_of].sum())
    return Flip(
        group=group.name,
        board=board,
        what=items.what,
        size=len(found.chosen),
        total=items.total,
        votes=tuple(votes.tolist()),
        share=len(votes) / max(inside, 1),
        voters=names,
        before=_names(log, start),
        after=_names(log, found.winners),
        predicted=found.predicted,
        first_confirmed=found.first,
        confirmed=found.confirmed,
        afresh=afresh,
        refits=found.refits,
    )


def _names(log: Feedback, winners: Bools) -> tuple[str, ...]:
    return tuple(name for name, won in zip(log.agents, winners, strict=True) if won)


def _voter(log: Feedback, number: int) -> str:
    return "" if log.voters is None or number < 0 else str(log.voters[number].as_py())


def _described(log: Feedback, flip: Flip) -> list[tuple[str, ...]]:
    """Return (group, verdict, voter, record, context) of the first votes of a set."""
    rows: Ints = np.array(flip.votes[:LISTED], np.int64)
    voter = log.records.voter
    return [
        (flip.group, verdict_text(log, r), "" if voter is None else _voter(log, int(voter[r])), f"{r}",
         f"{log.context_of[r]}")
        for r in rows.tolist()
    ]  # fmt: skip


def verdict_text(log: Feedback, record: int) -> str:
    """Return what a record says: the blocks of agents, best first."""
    blocks = log.records.blocks(record)
    return " > ".join(" = ".join(log.agents[a] for a in block) for block in blocks)
