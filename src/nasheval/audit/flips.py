"""The fewest votes, and voters, whose removal changes who wins in a group, and the first of a ladder beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from nasheval.audit.section import Bars, Listing
from nasheval.feedback.groups import ALL
from nasheval.notes import few

LISTED = 20  # votes of a group in a table
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
        first_confirmed: whether the first refit, without those predicted, changed who wins; None: none could be made.
        confirmed: whether a refit without these votes changes who wins; None: no refit could be made, or was wanted.
        afresh: whether a fit with folds drawn anew, as of a file without these rows, changes who wins too; None: not
            known. Where it does not, the race is so close that folds alone can turn it.
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
    afresh: bool | None
    refits: int

    def __str__(self) -> str:
        where = "overall" if self.group == ALL else f"in {self.group}"
        size = f"{self.size:,} of {self.total:,} {self.what}" if self.size > 1 else f"One of {self.total:,} {self.what}"
        named = f"{few(self.voters, 3)}, {len(self.votes):,} votes"
        share = named if self.what == "voters" else f"{self.share:.2%}"
        does = "changes" if self.board == "lottery" else "changes the first of the Bradley-Terry ladder"
        if self.confirmed is False:
            did = f"{self.refits} refit{'s' if self.refits > 1 else ''} did not confirm it"
            return f"Removing {size.lower()} ({share}) was predicted to change who wins {where}, and {did}."
        said = f"{does} who wins" if self.board == "lottery" else does
        tail = "" if self.board == "rating" else f"; {self._confirmation()}"
        return f"Removing {size[0].lower()}{size[1:]} ({share}) {said} {where}: {self._change()}{tail}."

    def _confirmation(self) -> str:
        if not self.confirmed:
            return "predicted, not refitted"
        folds = ", but other folds alone can undo it" if self.afresh is False else ""
        return f"a refit confirms it{folds}"

    def _change(self) -> str:
        if self.board == "rating":
            return f"{few(self.after)} instead of {few(self.before)}"
        left = [name for name in self.before if name not in self.after]
        entered = [name for name in self.after if name not in self.before]
        both = ((left, _verb(left, "leave")), (entered, _verb(entered, "enter")))
        return ", ".join(f"{few(names)} {verb}" for names, verb in both if names)


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
        failed: why refits that could not be made were not.
    """

    flips: tuple[Flip, ...]
    by: str | None
    none: tuple[tuple[str, str], ...]
    skipped: tuple[str, ...]
    unnamed: bool
    refits: int
    votes: tuple[tuple[str, ...], ...]
    failed: tuple[str, ...] = ()

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
        if self.failed:
            said.append(f"{len(self.failed):,} refits could not be made; the first: {self.failed[0]}")
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
            title = f"The votes of each group's smallest set (the first {LISTED})"
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
    if not flip.confirmed:
        return "not made" if flip.confirmed is None else "not confirmed"
    return "confirmed, folds matter" if flip.afresh is False else "confirmed"
