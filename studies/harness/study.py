"""What a study is: cells of work, the rows they give, and what is made of the rows.

A study reproduces one table or figure of the paper. It is a file of `studies/paper` that ends in `STUDY = Study(...)`;
`running` runs its cells, `writing` puts the results into a folder, `studies.catalogue` lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from studies.harness.rows import Row, Rows

Plain = str | int | float | bool | None


@dataclass(frozen=True)
class Scale:
    """How much of a study to run.

    Args:
        quick: a small version, to see that it works.
        seeds: which seeds; None: the study's own.
    """

    quick: bool = False
    seeds: tuple[int, ...] | None = None

    def pick(self, seeds: Sequence[int], quick: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the seeds to run: those asked for, or the study's, or with `quick` its first or `quick`."""
        if self.seeds is not None:
            return self.seeds
        return tuple(quick or seeds[:1]) if self.quick else tuple(seeds)


@dataclass(frozen=True)
class Cell:
    """One piece of work, done whole or not at all.

    Args:
        key: its name, unique in the study.
        settings: what it depends on, all plain; a finished cell is run again when these change.
    """

    key: str
    settings: Mapping[str, Plain] = field(default_factory=dict)

    @classmethod
    def of(cls, **settings: Plain) -> Cell:
        """Return a cell that goes by all of its settings."""
        return cls("/".join(map(str, settings.values())), settings)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]


@dataclass(frozen=True)
class Table:
    """A table as people read it.

    Args:
        title: what it shows.
        header: names of its columns.
        rows: its cells, as text.
        note: what to know when reading it.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        body = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        return "\n\n".join(text for text in (f"**{self.title}**", body, self.note) if text)


@dataclass(frozen=True)
class Claim:
    """Something the paper says, or a bar of ours, held against what was seen.

    Args:
        text: the claim.
        holds: whether it was seen to hold.
        seen: the figures.
        source: "paper" for a claim of the paper, reproduced or not; "bar" for one of ours, met or missed.
    """

    text: str
    holds: bool
    seen: str
    source: str = "bar"

    @property
    def verdict(self) -> str:
        """How it came out, in a word or two."""
        words = ("reproduced", "not reproduced") if self.source == "paper" else ("met", "missed")
        return words[0] if self.holds else words[1]


def claims_table(claims: Sequence[Claim], *, quick: bool = False) -> Table:
    """Return the claims as a table."""
    rows = tuple((claim.text, claim.seen, claim.verdict) for claim in claims)
    note = "This is the small version: its verdicts prove nothing." if quick else ""
    return Table("The paper's claims, and our bars", ("claim", "seen", "verdict"), rows, note)


def _nothing(rows: Rows) -> tuple[Any, ...]:
    return ()


def _no_figures(rows: Rows) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Study:
    """One table or figure of the paper.

    Args:
        name: what `python -m studies` calls it.
        title: what it asks, one line.
        paper: labels of the tables and figures that it reproduces.
        cells: the pieces of work at a scale.
        run: runs one cell; at module level, because it may run in another process.
        tables: what is read off the rows of all cells.
        claims: what the paper says and what we set ourselves, held against the rows.
        figures: name -> matplotlib figure.
        needs: files under $NASHEVAL_DATA without which it cannot run.
    """

    name: str
    title: str
    paper: str
    cells: Callable[[Scale], Sequence[Cell]]
    run: Callable[[Cell], Sequence[Row]]
    tables: Callable[[Rows], Sequence[Table]]
    claims: Callable[[Rows], Sequence[Claim]] = _nothing
    figures: Callable[[Rows], Mapping[str, Any]] = _no_figures
    needs: tuple[str, ...] = ()
