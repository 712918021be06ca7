"""The flat columns behind a log: one run of (agent, block) entries per record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from nasheval.arrays import Array, Bools, Floats, Ints, int_dtype, offsets_of, readonly, runs
from nasheval.errors import InputError
from nasheval.feedback.partition import Zero

PER_ENTRY = ("agent", "block", "shown", "style")
MOST_WEIGHT = 1e9  # sums and squares of larger ones lose what the others say


@dataclass(frozen=True)
class Records:
    """Ordered partitions of menus, in columns. Build with `Records.build`, which checks and normalises.

    Args:
        offsets: (n + 1,) entries of record r are offsets[r]:offsets[r + 1].
        agent: (entries,) agent numbers, ascending inside a record.
        block: (entries,) block of each agent, 0 is best, without gaps.
        zero: (n,) what a shared block means, a `Zero` code.
        shown: (entries,) the place at which the agent was shown, 0 is first; or None.
        propensity: (n,) probability that this menu was asked, or None.
        weight: (n,) weight of the record, or None for 1.
        voter: (n,) voter numbers, -1 where unknown, or None.
        time: (n,) seconds, NaN where unknown, or None.
        grade: (n,) how strong the verdict of a duel is, above 0 and at most 1, or None for 1; always 1 in larger menus.
        style: (entries, S) what the answer of each agent looks like, NaN where unknown (`Feedback.style`), or None.
    """

    offsets: Ints
    agent: Ints
    block: Ints
    zero: Ints
    shown: Ints | None = None
    propensity: Floats | None = None
    weight: Floats | None = None
    voter: Ints | None = None
    time: Floats | None = None
    grade: Floats | None = None
    style: Floats | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            column = getattr(self, field.name)
            if column is not None:
                object.__setattr__(self, field.name, readonly(column))

    @classmethod
    def build(
        cls,
        *,
        sizes: Ints,
        agent: Ints,
        rank: Array,
        zero: Ints | Zero = Zero.TIE,
        shown: Ints | None = None,
        propensity: Array | None = None,
        weight: Array | None = None,
        voter: Ints | None = None,
        time: Array | None = None,
        grade: Array | None = None,
        style: Array | None = None,
    ) -> Records:
        """Sort each record by agent, turn ranks (lower is better, gaps allowed) into blocks, and check.

        Args:
            sizes: (n,) menu sizes; the entry arrays are flat in record order.
            agent: (entries,) agent numbers.
            rank: (entries,) ranks, equal ranks share a block.
        """
        sizes = np.asarray(sizes)
        zero = np.full(len(sizes), zero, np.int8) if isinstance(zero, Zero) else np.asarray(zero)
        raw = cls(offsets_of(sizes), agent, rank, zero, shown, style=style)
        _check_lengths(raw, zero=zero, propensity=propensity, weight=weight, voter=voter, time=time, grade=grade)
        _check_rows(raw, propensity=propensity, weight=weight, grade=grade)
        agent, block = np.array(agent), np.zeros(len(agent), int_dtype(int(sizes.max(initial=1))))
        shown = None if shown is None else np.array(shown)
        style = None if style is None else np.array(style, np.float32)
        for rows, entries in raw.by_size():
            _normalise(rows, entries, agent, rank, block, shown, style)
        return cls(
            offsets=raw.offsets,
            agent=agent.astype(int_dtype(int(agent.max(initial=0))), copy=False),
            block=block,
            zero=zero.astype(np.int8),
            shown=None if shown is None else shown.astype(block.dtype),
            propensity=_float_column(propensity),
            weight=_float_column(weight),
            voter=None if voter is None else np.asarray(voter).astype(np.int32),
            time=_float_column(time),
            grade=_float_column(grade),
            style=style,
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Ints:
        """(n,) menu sizes."""
        return np.diff(self.offsets)

    @property
    def weights(self) -> Floats:
        """(n,) weights, ones where none were given."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def blocks(self, row: int) -> list[Ints]:
        """Return the agents of each block of one record, best block first."""
        inside = slice(self.offsets[row], self.offsets[row + 1])
        agent, block = self.agent[inside], self.block[inside]
        return [agent[block == b] for b in range(int(block.max()) + 1)]

    def by_size(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield (records, entries) for each menu size s: (m,) record numbers and (m, s) places of their entries."""
        sizes = self.sizes
        if len(sizes) and sizes.min() == sizes.max():  # the usual log; spares a sort of ten million sizes
            yield np.arange(len(sizes)), np.arange(len(self.agent), dtype=self.offsets.dtype).reshape(-1, sizes[0])
            return
        for size in np.unique(sizes):
            rows = np.flatnonzero(sizes == size)
            yield rows, self.offsets[rows][:, None] + np.arange(size, dtype=self.offsets.dtype)

    def take(self, rows: Ints) -> Records:
        """Return the records at `rows`, in that order."""
        sizes = self.sizes
        uniform = len(sizes) > 0 and sizes.min() == sizes.max()  # the usual log: entries are rows of a matrix
        size = int(sizes[0]) if uniform else 1
        entries = rows if uniform else runs(self.offsets[:-1][rows], sizes[rows])
        picked = {
            field.name: np.take(column.reshape(-1, size, *column.shape[1:]), entries, axis=0).reshape(
                -1, *column.shape[1:]
            )
            if field.name in PER_ENTRY
            else np.take(column, rows)
            for field in fields(self)
            if field.name != "offsets" and (column := getattr(self, field.name)) is not None
        }
        return Records(offsets=offsets_of(sizes[rows]), **picked)

    def with_agents(self, number: Ints) -> Records:
        """Return the records with agent a renamed to number[a], sorted anew."""
        return Records.build(
            sizes=self.sizes,
            agent=number[self.agent],
            rank=self.block,
            **{name: getattr(self, name) for name in ("zero", *_OPTIONAL)},
        )

    def replace(self, **columns: Any) -> Records:
        """Return the records with some columns exchanged."""
        return replace(self, **columns)

    @staticmethod
    def concat(several: Sequence[Records]) -> Records:
        """Return all records in turn; a column that only some have is filled: weight, grade 1, voter -1, time NaN."""
        columns = {name: _stacked([getattr(records, name) for records in several], several, name) for name in _OPTIONAL}
        return Records(
            offsets=offsets_of(np.concatenate([records.sizes for records in several])),
            agent=np.concatenate([records.agent for records in several]),
            block=np.concatenate([records.block for records in several]),
            zero=np.concatenate([records.zero for records in several]),
            **columns,
        )


# What stands in for a missing value when logs are joined; None: the column is dropped unless every log has it.
_OPTIONAL: dict[str, float | np.int32 | None] = {
    "shown": None, "propensity": None, "weight": 1.0, "voter": np.int32(-1), "time": np.nan, "grade": 1.0,
    "style": None,
}  # fmt: skip


def _stacked(columns: list[Array | None], several: Sequence[Records], name: str) -> Array | None:
    fill = _OPTIONAL[name]
    sized = [(c, len(records)) for c, records in zip(columns, several, strict=True) if c is not None or len(records)]
    if all(c is None for c, _ in sized) or (fill is None and any(c is None for c, _ in sized)):
        return None
    return np.concatenate([np.full(n, fill) if c is None else c for c, n in sized])


def _float_column(values: Array | None) -> Floats | None:
    return None if values is None else np.array(values, np.float64)  # a copy: the caller may write into its own


def _normalise(
    rows: Ints, entries: Ints, agent: Ints, rank: Array, block: Ints, shown: Ints | None, style: Floats | None
) -> None:
    """Sort the entries of same-sized records by agent and number their blocks, in place."""
    names = agent[entries]
    source = entries
    if np.any(names[:, 1:] <= names[:, :-1]):
        if names.shape[1] == 2:
            source = np.where(names[:, :1] > names[:, 1:], entries[:, ::-1], entries)
        else:
            source = np.take_along_axis(entries, np.argsort(names, axis=1, kind="stable"), axis=1)
        names = agent[source]
        agent[entries] = names
        for column in (shown, style):
            if column is not None:
                column[entries] = column[source]
    twice = (names[:, 1:] == names[:, :-1]).any(axis=1)
    if twice.any():
        raise InputError(f"Record {int(rows[twice.argmax()])} names an agent more than once; a menu holds it once.")
    block[entries] = dense_ranks(rank[source])
    if shown is not None:
        _check_shown(rows, shown[entries])


def _check_shown(rows: Ints, places: Ints) -> None:
    wrong = np.sort(places, axis=1) != np.arange(places.shape[1])
    if wrong.any():
        row = int(wrong.any(axis=1).argmax())
        raise InputError(
            f"Record {int(rows[row])} shows its agents at the places {', '.join(map(str, places[row]))}; "
            f"accepted are 0 to {places.shape[1] - 1}, each once."
        )


def dense_ranks(rank: Array) -> Ints:
    """Return ranks along the last axis of (m, s), renumbered 0, 1, 2, ... with equals kept equal."""
    if rank.shape[1] == 2:
        return np.stack([rank[:, 0] > rank[:, 1], rank[:, 1] > rank[:, 0]], axis=1).astype(np.int8)
    order = np.argsort(rank, axis=1, kind="stable")
    ascending = np.take_along_axis(rank, order, axis=1)
    steps = ascending[:, 1:] > ascending[:, :-1]
    dense = np.zeros(rank.shape, np.int64)
    np.put_along_axis(dense, order[:, 1:], np.cumsum(steps, axis=1), axis=1)
    return dense


def _check_lengths(raw: Records, **per_record: Array | None) -> None:
    entries = {"agent": raw.agent, "rank": raw.block, "shown": raw.shown, "style": raw.style}
    for columns, length, each in ((entries, int(raw.offsets[-1]), "menu entry"), (per_record, len(raw), "record")):
        for name, column in columns.items():
            if column is not None and (column.shape[:1] != (length,) or column.ndim > 1 + (name == "style")):
                raise InputError(
                    f"The column {name!r} has shape {column.shape}, not ({length},), one value per {each}."
                )


def _check_rows(raw: Records, *, propensity: Array | None, weight: Array | None, grade: Array | None) -> None:
    small = raw.sizes < 2
    if small.any():
        raise InputError(f"Record {int(small.argmax())} compares fewer than two agents; a menu needs two or more.")
    if len(raw.agent) and raw.agent.dtype.kind not in "iu":
        raise InputError(f"Agent numbers are whole numbers; these are of type {raw.agent.dtype}.")
    if len(raw.agent) and int(raw.agent.min()) < 0:
        raise InputError("Agent numbers start at 0; a negative one was given.")
    if raw.block.dtype.kind not in "iufb":
        raise InputError(f"Ranks are numbers, lower is better; these are of type {raw.block.dtype}.")
    if raw.block.dtype.kind == "f" and not np.isfinite(raw.block).all():
        raise InputError("A rank is NaN or infinite; ranks are finite numbers, lower is better.")
    codes = "1 (TIE), 2 (BOTH_BAD), 3 (CENSORED) or 4 (LAST)"
    _refuse((raw.zero < Zero.TIE) | (raw.zero > Zero.LAST), raw.zero, "zero code", codes)
    if propensity is not None:
        _refuse(~((propensity > 0) & (propensity <= 1)), propensity, "propensity", "a probability in (0, 1]")
    if weight is not None:
        _refuse(~((weight > 0) & np.isfinite(weight)), weight, "weight", "a finite number above 0")
        _refuse(weight > MOST_WEIGHT, weight, "weight", f"a number up to {MOST_WEIGHT:,.0f}; 1 is one vote")
    if grade is not None:
        _refuse(~((grade > 0) & (grade <= 1)), grade, "grade", "a number above 0 and at most 1")
        _refuse((grade != 1) & (raw.sizes > 2), grade, "grade", "1, since it compares more than two agents")


def _refuse(bad: Bools, values: Array, name: str, accepted: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"The {name} of record {row} is {values[row]}; accepted is {accepted}.")
