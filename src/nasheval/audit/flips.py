"""The fewest votes, and voters, whose removal changes who wins in a group; the same for a ladder of ratings beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from nasheval.arrays import Bools, Ints
from nasheval.audit.confirming import Found, Trials, confirmed
from nasheval.audit.ladder import Ladder
from nasheval.audit.refits import Refit
from nasheval.audit.removal import Removal
from nasheval.audit.search import Board, Items, routes
from nasheval.audit.section import Bars, Listing
from nasheval.feedback.groups import ALL
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import Regularizer
from nasheval.notes import few
from nasheval.payoff.inference import GroupPayoff
from nasheval.payoff.stage1 import Stage1

REFITS, THOROUGH = 12, 60  # refits of one set of votes at most, and of logs so small that all sets can be tried
_SMALL = 1000  # records of such a log
_LISTED = 20  # votes of a group in a table
What = Literal["votes", "voters"]


@dataclass(frozen=True)
class Flip:
    """A set of votes or voters of one group whose removal changes who wins there.

    Args:
        group: its name.
        board: "lottery" (the winner set) or "rating" (the first of the Bradley-Terry ladder).
        what: "votes" or "voters".
        size, total: how many go, and of how many.
        votes: numbers of the records that go, as rows of the log.
        share: of the group's votes.
        voters: names of the voters that go.
        before, after: who wins with and without them.
        predicted: how many were predicted to be enough before any refit.
        first_confirmed: whether the first refit, without those predicted, changed who wins; None: no refit was made.
        confirmed: whether a refit without these votes changes who wins; None: no refit was made.
        refits: how many were made.
    """

    group: str
    board: Literal["lottery", "rating"]
    what: What
    size: int
    total: int
    votes: tuple[int, ...]
    share: float
    voters: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    predicted: int
    first_confirmed: bool | None
    confirmed: bool | None
    refits: int

    def __str__(self) -> str:
        where = "overall" if self.group == ALL else f"in {self.group}"
        who = f"{self.what[:-1] if self.size == 1 else self.what}"
        size = f"{self.size:,} of {self.total:,} {self.what}" if self.size > 1 else f"One of {self.total:,} {self.what}"
        if self.what == "voters":
            share = f"{few(self.voters, 3)}, {len(self.votes):,} votes"
        else:
            share = f"{self.share:.2%}"
        does = "changes" if self.board == "lottery" else "changes the first of the Bradley-Terry ladder"
        if self.confirmed is False:
            did = f"{self.refits} refit{'s' if self.refits > 1 else ''} did not confirm it"
            return f"Removing {size.lower()} ({share}) was predicted to change who wins {where}, and {did}."
        said = f"{does} who wins" if self.board == "lottery" else does
        tail = "" if self.board == "rating" else "; a refit confirms it" if self.confirmed else "; predicted, no refit"
        del who
        return f"Removing {size[0].lower()}{size[1:]} ({share}) {said} {where}: {self._change()}{tail}."

    def _change(self) -> str:
        if self.board == "rating":
            return f"{few(self.after)} instead of {few(self.before)}"
        left = [name for name in self.before if name not in self.after]
        entered = [name for name in self.after if name not in self.before]
        words = [f"{few(names)} {verb}" for names, verb in ((left, _verb(left, "leave")), (entered, _verb(entered, "enter")))
                 if names]  # fmt: skip
        return ", ".join(words)


def _verb(names: Sequence[str], verb: str) -> str:
    return verb if len(names) > 1 else f"{verb}s"


@dataclass(frozen=True)
class Flips:
    """Section of an audit: the fewest votes and voters whose removal changes who wins, group by group.

    Args:
        flips: what was found, groups in order.
        by: the context column that makes the groups, or None.
        none: (group, what) of which no set changes who wins, as far as the search saw.
        skipped: groups with fewer than two candidates.
        unnamed: whether voters have no names, so that only votes were taken out.
        refits: how many were made.
        votes: (record, context, verdict, voter, group) texts of the votes of each group's smallest set.
    """

    flips: tuple[Flip, ...]
    by: str | None
    none: tuple[tuple[str, str], ...]
    skipped: tuple[str, ...]
    unnamed: bool
    refits: int
    votes: tuple[tuple[str, ...], ...]

    title = "Votes that the winners hang on"

    def lines(self) -> list[str]:
        """Return what was found, the fewest votes first."""
        lottery = sorted((f for f in self.flips if f.board == "lottery"), key=lambda f: (f.what, f.share))
        ladder = sorted((f for f in self.flips if f.board == "rating"), key=lambda f: (f.what, f.share))
        said = [str(flip) for flip in (*lottery, *ladder)]
        if self.none:
            which = few([_where(group) + ("" if what == "votes" else f" ({what})") for group, what in self.none], 8)
            said.append(f"No set of votes that changes who wins was found {which}.")
        if self.skipped:
            said.append(f"Left out, with fewer than two candidates: {few(self.skipped, 8)}.")
        if self.unnamed:
            said.append("Voters have no names in this log, so only single votes were taken out.")
        return said

    def listings(self) -> list[Listing]:
        """Return all sets in a table, and the votes of each group's smallest set."""
        rows = tuple(
            (f.group, "winner set" if f.board == "lottery" else "rating", f.what, ", ".join(f.before),
             ", ".join(f.after), _confirmation(f), f"{f.size:,}", f"{f.total:,}", f"{f.share:.2%}", f"{f.predicted:,}")
            for f in self.flips
        )  # fmt: skip
        names = ("group", "who wins by", "removed", "before", "after", "refit")
        title = "Fewest votes and voters whose removal changes who wins"
        tables = [Listing(title, names, ("fewest", "of", "votes", "first predicted"), rows)] if rows else []
        if self.votes:
            title = f"The votes of each group's smallest set (the first {_LISTED})"
            tables.append(Listing(title, ("group", "verdict", "voter"), ("record", "context"), self.votes))
        return tables

    def charts(self) -> list[Bars]:
        """Return the share of votes by group, for winner sets and ladders."""
        bars = []
        for board, name in (("lottery", "the winner set"), ("rating", "the first of the Bradley-Terry ladder")):
            own = [f for f in self.flips if f.board == board and f.what == "votes"]
            if own:
                title = f"Percent of a group's votes whose removal changes {name}"
                marked = tuple(f.confirmed is not False for f in own)
                values = tuple(round(100 * f.share, 4) for f in own)
                bars.append(Bars(title, tuple(f.group for f in own), values, marked=marked))
        return bars

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values of JSON."""
        return {
            "flips": [asdict(flip) for flip in self.flips],
            "none": [list(one) for one in self.none],
            "skipped": list(self.skipped),
            "refits": self.refits,
        }


def _where(group: str) -> str:
    return "overall" if group == ALL else f"in {group}"


def _confirmation(flip: Flip) -> str:
    if flip.board == "rating":
        return "exact"
    return "not made" if flip.confirmed is None else "confirmed" if flip.confirmed else "not confirmed"


# -- finding ----------------------------------------------------------------------------------------------------------


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
        refits: of one set at most; None: 12, or 60 in logs of up to 1,000 records.
        advance: told of the share of the work done.
    """
    log, flips, none, skipped = stage1.log, [], [], []
    most = refits or (THOROUGH if log.n_records <= _SMALL else REFITS)
    for group in groups:
        if group.present.sum() < 2:
            skipped.append(group.name)
            advance(1 / len(groups))
            continue
        for items in _items(log, group.inside):
            board = Removal(stage1.pseudo, group, omega)
            own = _lottery(board, items, omega, refit, most, thorough=log.n_records <= _SMALL)
            found = [(own, "lottery"), (_ladder(Ladder(log, group.inside), items), "rating")]
            for one, kind in found:
                what = _what(items)
                if one is None and kind == "lottery":
                    none.append((group.name, what))
                elif one is not None:
                    flips.append(_flip(log, group, kind, items, *one))
            advance(0.5 / len(groups))
    smallest = [flip for flip in flips if flip.board == "lottery" and flip.what == "votes"]
    made = 0 if refit is None else refit.made[0]
    unnamed = log.records.voter is None
    votes = tuple(row for flip in smallest for row in _described(log, flip))
    return Flips(tuple(flips), by, tuple(none), tuple(skipped), unnamed, made, votes)


@dataclass(frozen=True, eq=False)
class _Choice(Items):
    """Items of a group: single votes, or voters.

    Args:
        what: which of the two.
        total: how many the group has.
    """

    what: What = "votes"
    total: int = 0


def _what(items: _Choice) -> What:
    return items.what


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


def _lottery(
    board: Removal, items: _Choice, omega: Regularizer, refit: Refit | None, most: int, *, thorough: bool
) -> tuple[Found, Bools] | None:
    """Return the fewest items found that change the winner set, and that set; None where none do."""
    even = Removal(board.pseudo, board.group, omega, even=True)
    ways = sorted([*routes(board, items), *routes(even, items)], key=lambda route: route.needed)
    start = board.without(np.zeros(len(items.of_vote), bool))
    if not ways:
        return None
    if refit is None:
        chosen = ways[0].order[: ways[0].needed]
        after = board.without(items.gone(chosen)).winners
        return Found(chosen, ways[0].needed, None, None, 0, after), start.winners
    trials = Trials(lambda gone: refit.game(gone, board.group, omega), items, start, omega, most)
    return confirmed(trials, ways, thorough=thorough), start.winners


def _ladder(board: Board, items: _Choice) -> tuple[Found, Bools] | None:
    """Return the fewest items found that change the first of a ladder, and who is first; fitting anew is the search."""
    start = board.without(np.zeros(len(items.of_vote), bool)).winners
    ways = routes(board, items) if start.any() else []
    if not ways:
        return None
    chosen = ways[0].order[: ways[0].needed]
    after = board.without(items.gone(chosen)).winners
    return Found(chosen, len(chosen), True, True, 0, after), start


def _flip(log: Feedback, group: GroupPayoff, board: Any, items: _Choice, found: Found, start: Bools) -> Flip:
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
        refits=found.refits,
    )


def _names(log: Feedback, winners: Bools) -> tuple[str, ...]:
    return tuple(name for name, won in zip(log.agents, winners, strict=True) if won)


def _voter(log: Feedback, number: int) -> str:
    return "" if log.voters is None or number < 0 else str(log.voters[number].as_py())


def _described(log: Feedback, flip: Flip) -> list[tuple[str, ...]]:
    """Return (group, verdict, voter, record, context) of the first votes of a set."""
    rows: Ints = np.array(flip.votes[:_LISTED], np.int64)
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
