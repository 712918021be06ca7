"""Duplicates: the same prompt, menu and verdict again and again, and accounts that vote as if they were one.

Three questions, each against what chance would give in this log, all answers of one question together at 1%:

* repeated: one voter gives the same ballot on the same prompt several times, though the log asks it rarely;
* in bulk: a prompt has far more ballots of one kind than its other ballots, and the model, explain;
* alike: two voters were asked the same things unusually often, or answered them alike though the model expects less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from nasheval.arrays import Bools, Floats, Ints, bin_sums
from nasheval.audit.crowd import Crowd, crowd_of
from nasheval.audit.section import Bars, Listing
from nasheval.audit.units import content_of, joined, said_of
from nasheval.audit.words import counted
from nasheval.feedback.log import Feedback
from nasheval.notes import brief, few
from nasheval.payoff.stage1 import Stage1

_LEVEL = 0.01  # chance that any of a kind is found where there is none
_SHOWN = 12  # in a table
_MOST_PAIRS = 2_000_000  # pairs of voters who were asked the same thing, that are looked at
_COMMON = 8  # answers in common that tell whether two voters answer alike


@dataclass(frozen=True)
class Copies:
    """One ballot that stands in the log several times.

    Args:
        context: a row of the contexts with that prompt.
        said: the ballot, best block first.
        voters: who gave it, the most frequent first; empty where nobody is named.
        records: how many there are.
        expected: how many chance would give.
        rows: the records, as numbers in the log.
        prompt: the beginning of the prompt, or of the context.
    """

    context: int
    said: str
    voters: tuple[str, ...]
    records: int
    expected: float
    rows: tuple[int, ...]
    prompt: str


@dataclass(frozen=True)
class Alike:
    """Two voters with answers in common.

    Args:
        voters: their names.
        asked: how often both were asked the same menu on the same prompt.
        agreed: how often both said the same of it.
        expected: how often the model expects that.
    """

    voters: tuple[str, str]
    asked: int
    agreed: int
    expected: float


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Ballots and voters that are copies of each other; most copies first.

    Args:
        n_records: records of the log.
        same: records that say the same of the same prompt as an earlier one, by whomever; in some logs most do.
        repeated: ballots that one voter repeats.
        bulk: ballots that came in bulk.
        alike: pairs of voters who answer alike.
        extra: (n_records,) whether a record is a repetition beyond the first of its ballot, in `repeated` or `bulk`.
        notes: what to know before trusting it.
    """

    n_records: int
    same: int
    repeated: tuple[Copies, ...]
    bulk: tuple[Copies, ...]
    alike: tuple[Alike, ...]
    extra: Bools
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """A few words."""
        return "Duplicates"

    def lines(self) -> list[str]:
        """Return what was found, in sentences, the most important first."""
        return [*self._found(), *self.notes]

    def _found(self) -> Iterator[str]:
        if self.bulk:
            voters = {name for one in self.bulk for name in one.voters}
            copies, expected = sum(one.records for one in self.bulk), sum(one.expected for one in self.bulk)
            by = f" by {counted(len(voters), 'voter')}" if voters else ""
            ballots = counted(len(self.bulk), "ballot")
            yield f"In bulk: {ballots} {copies:,} times{by}, where {expected:,.0f} are expected."
        if self.repeated:
            voters, copies = {one.voters[0] for one in self.repeated}, sum(one.records for one in self.repeated)
            who, ballots = counted(len(voters), "voter"), counted(len(self.repeated), "ballot")
            yield f"Repeated: {who} gave {ballots} {copies:,} times in all: {few(sorted(voters), 6)}."
        for pair in self.alike[:3]:
            yield (
                f"{pair.voters[0]} and {pair.voters[1]} were asked the same {pair.asked:,} times and said the same "
                f"{pair.agreed:,} times; the model expects {pair.expected:.0f}."
            )
        if not (self.bulk or self.repeated or self.alike):
            yield f"No duplicates beyond chance among {self.n_records:,} votes."
        elif self.extra.any():
            yield f"{int(self.extra.sum()):,} of {self.n_records:,} votes repeat one that is already there."

    def listings(self) -> list[Listing]:
        """Return the ballots, with their rows in the log, and the pairs of voters."""
        tables = []
        for title, copies in (("Ballots in bulk", self.bulk), ("Ballots that a voter repeats", self.repeated)):
            rows = tuple(
                (
                    one.prompt,
                    one.said,
                    few(one.voters, 3),
                    f"{one.records:,}",
                    f"{one.expected:.1f}",
                    few([str(r) for r in one.rows], 4),
                )
                for one in copies[:_SHOWN]
            )
            if rows:
                tables.append(Listing(title, ("prompt", "ballot", "voters"), ("times", "expected", "rows"), rows))
        pairs = tuple(
            (*one.voters, f"{one.asked:,}", f"{one.agreed:,}", f"{one.expected:.1f}") for one in self.alike[:_SHOWN]
        )
        if pairs:
            tables.append(
                Listing("Voters who answer alike", ("voter", "and"), ("asked both", "agreed", "expected"), pairs)
            )
        return tables

    def charts(self) -> list[Bars]:
        """Return nothing: tables say it."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        found = {name: [asdict(one) for one in getattr(self, name)] for name in ("repeated", "bulk", "alike")}
        counts = {"n_records": self.n_records, "same": self.same, "extra": int(self.extra.sum())}
        return {**counts, **found, "notes": list(self.notes)}


def duplicates(stage1: Stage1) -> Duplicates:
    """Return the ballots and voters that are copies of each other."""
    crowd, log = crowd_of(stage1), stage1.log
    asked = _Asked.of(log)
    repeated, bulk = _repeated(asked), _bulk(asked, crowd)
    extra = np.zeros(log.n_records, bool)
    for one in (*repeated, *bulk):
        extra[list(one.rows[1:])] = True
    same = log.n_records - len(np.unique(asked.ballot))
    return Duplicates(log.n_records, same, repeated, bulk, _alike(asked, crowd_of(stage1)), extra, tuple(_notes(log)))


@dataclass(frozen=True, eq=False)
class _Asked:
    """(n_records,) each: the content of the context, what was asked (content and menu), the ballot, the voter."""

    log: Feedback
    content: Ints
    unit: Ints
    ballot: Ints
    voter: Ints

    @classmethod
    def of(cls, log: Feedback) -> _Asked:
        content, menu = content_of(log)[log.context_of], log.menus.of_record.astype(np.int64)
        voter = np.full(log.n_records, -1) if log.records.voter is None else log.records.voter.astype(np.int64)
        return cls(log, content, joined(content, menu), joined(content, said_of(log)), voter)


def _repeated(asked: _Asked) -> tuple[Copies, ...]:
    """Return ballots that one voter gave more often than a random draw of what the log asks makes likely."""
    rows = np.flatnonzero(asked.voter >= 0)
    if not len(rows):
        return ()
    key = joined(asked.voter[rows], asked.ballot[rows])
    count = np.bincount(key)
    first = np.unique(key, return_index=True)[1]
    several = np.flatnonzero(count > 1)
    ballot, voter = asked.ballot[rows][first[several]], asked.voter[rows][first[several]]
    votes, total = np.bincount(asked.voter[rows]), np.bincount(asked.ballot)
    mine = count[several]
    share = (total[ballot] - mine + 1) / (asked.log.n_records - votes[voter] + 1)  # by others, and one more
    chance = binom.sf(mine - 1, votes[voter], np.minimum(share, 1.0))
    chance = np.maximum(chance, binom.sf(mine - 2, total[ballot] - 1, votes[voter] / len(rows)))  # and among its copies
    kept = chance * max(1, len(count)) < _LEVEL
    return _copies(asked, rows, key, several[kept], (votes[voter] * share)[kept])


def _bulk(asked: _Asked, crowd: Crowd) -> tuple[Copies, ...]:
    """Return ballots that a prompt has more often than its other ballots and the model explain.

    Of a prompt's records each is asked a menu as often as the log asks it, and says what the model expects of it: the
    chance of the ballot is at most the menu's share times the chance of its least sure pair.
    """
    count, per_content = np.bincount(asked.ballot), np.bincount(asked.content)
    first = np.unique(asked.ballot, return_index=True)[1]
    several = np.flatnonzero(count > 2)
    row = first[several]
    menus = asked.log.menus
    share = menus.counts[menus.of_record[row]] / max(asked.log.n_records, 1)
    of_unit = asked.content[np.unique(asked.unit, return_index=True)[1]]
    asked_here = np.bincount(of_unit)  # menus that each prompt was asked
    share = np.maximum(share, 1 / asked_here[asked.content[row]])  # prompts may be asked few menus by design
    said = _said_chance(crowd)[row]
    here = per_content[asked.content[row]]
    expected = np.minimum(share, 1.0) * said
    chance = binom.sf(count[several] - 1, here, expected)
    kept = chance * max(1, len(count)) < _LEVEL
    return _copies(asked, np.arange(len(asked.ballot)), asked.ballot, several[kept], (here * expected)[kept])


def _said_chance(crowd: Crowd) -> Floats:
    """Return (n_records,) at most the chance that the model gives what a record says: that of its least likely pair."""
    sure = (1 - crowd.tie) * np.where(crowd.z > 0, crowd.chance, 1 - crowd.chance)
    chance: Floats = np.ones(crowd.log.n_records)
    np.minimum.at(chance, crowd.record, np.where(crowd.z == 0, crowd.tie, sure))
    return np.clip(chance, 0.02, 0.98)


def _copies(asked: _Asked, rows: Ints, key: Ints, kept: Ints, expected: Floats) -> tuple[Copies, ...]:
    """Return the groups of rows of some keys, the largest first."""
    place = np.full(int(key.max(initial=-1)) + 1, -1)
    place[kept] = np.arange(len(kept))
    inside = np.flatnonzero(place[key] >= 0)
    inside = inside[np.argsort(place[key[inside]], kind="stable")]
    parts = (
        np.split(rows[inside], np.cumsum(np.bincount(place[key[inside]], minlength=len(kept)))[:-1])
        if len(kept)
        else []
    )
    found = [_one(asked, part, float(mean)) for part, mean in zip(parts, expected, strict=True)]
    return tuple(sorted(found, key=lambda one: -one.records))


def _one(asked: _Asked, rows: Ints, expected: float) -> Copies:
    log, voter = asked.log, asked.voter[rows]
    names, count = np.unique(voter[voter >= 0], return_counts=True)
    named = [] if log.voters is None else log.voters.take(names[np.argsort(-count, kind="stable")]).to_pylist()
    blocks = log.records.blocks(int(rows[0]))
    context = int(log.context_of[rows[0]])
    said = " > ".join(" = ".join(log.agents[a] for a in block) for block in blocks)
    return Copies(
        context, said, tuple(map(str, named)), len(rows), expected, tuple(rows.tolist()), _prompt(log, context)
    )


def _prompt(log: Feedback, context: int) -> str:
    names = log.texts or tuple(log.contexts.column_names[:3])
    shown = log.contexts.select(list(names)).slice(context, 1).to_pylist() if names else [{}]
    return ", ".join(brief(value, 40) for value in shown[0].values()) if names else f"context {context}"


def _alike(asked: _Asked, crowd: Crowd) -> tuple[Alike, ...]:
    """Return pairs of voters who answer alike more often than the model expects, or than other pairs do."""
    one, other, agreed, chance = _met(asked, crowd)
    if not len(one):
        return ()
    pair = joined(one, other)
    n, said, expected = (
        np.bincount(pair),
        bin_sums(pair, agreed.astype(float), pair.max() + 1),
        bin_sums(pair, chance, pair.max() + 1),
    )
    spread = bin_sums(pair, chance * (1 - chance), len(n))
    first = np.unique(pair, return_index=True)[1]
    told = n >= _COMMON
    score = np.where(told, (said - expected - 0.5) / np.sqrt(np.maximum(spread, 0.25)), -np.inf)
    if told.sum() > 2 * _COMMON:  # honest voters agree more than the model expects where they know what it does not
        score = score / max(1.0, 1.4826 * float(np.median(np.abs(score[told]))))
    kept = np.flatnonzero(score > norm.isf(_LEVEL / max(1, len(n))))
    names = [crowd.names(side[first[kept]]) for side in (one, other)]
    found = [
        Alike((left, right), int(n[p]), int(said[p]), float(expected[p]))
        for p, left, right in zip(kept, *names, strict=True)
    ]
    return tuple(sorted(found, key=lambda each: each.expected - each.agreed))


def _met(asked: _Asked, crowd: Crowd) -> tuple[Ints, Ints, Bools, Floats]:
    """Return for each time that two voters answered the same question: both, whether alike, and the chance of that."""
    rows = np.flatnonzero(asked.voter >= 0)
    rows = rows[np.unique(joined(asked.unit[rows], asked.voter[rows]), return_index=True)[1]] if len(rows) else rows
    rows = rows[np.argsort(asked.unit[rows], kind="stable")]
    count = np.bincount(asked.unit[rows]) if len(rows) else np.zeros(0, np.int64)
    again = _same_chance(crowd)
    one, other = [], []
    step, found, unit = 1, 0, asked.unit[rows]
    while len(count) and step < int(count.max()) and found < _MOST_PAIRS:
        same = np.flatnonzero(unit[step:] == unit[:-step])
        one.append(rows[same])
        other.append(rows[same + step])
        found, step = found + len(same), step + 1
    if not one:
        none = np.zeros(0, np.int64)
        return none, none, none > 0, np.zeros(0)
    a, b = np.concatenate(one), np.concatenate(other)
    swap = asked.voter[a] > asked.voter[b]
    first, second = np.where(swap, b, a), np.where(swap, a, b)
    return asked.voter[first], asked.voter[second], asked.ballot[first] == asked.ballot[second], again[first]


def _same_chance(crowd: Crowd) -> Floats:
    """Return (n_records,) at most the chance that two voters say the same of a record's menu, given the model."""
    up, tie = (1 - crowd.tie) * crowd.chance, crowd.tie
    each = up**2 + ((1 - tie) * (1 - crowd.chance)) ** 2 + tie**2
    chance: Floats = np.ones(crowd.log.n_records)
    np.minimum.at(chance, crowd.record, each)
    return chance


def _notes(log: Feedback) -> Iterator[str]:
    if not log.contexts.num_columns:
        yield "The log has no columns that say what was asked, so equal prompts cannot be told."
    elif not log.texts:
        yield f"Without a prompt, contexts count as equal where all {log.contexts.num_columns} columns are."
    if log.records.voter is None:
        yield "The log names no voters, so repetitions by one voter cannot be told."
