"""Methods against ours, test prompt by test prompt: tables, bars and a figure for studies with several test sets.

Rows are those of `contest.scores`, one for each method and test set. Test sets hold different prompts, so that their
means are averaged and their standard errors add up in squares. Prompts tested twice count as one: by `repeats`,
where test sets overlap, and by `split`, where other seeds test the same ones again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from studies.harness.rows import Rows
from studies.harness.study import Claim, Table
from studies.paper.contest import GLOBAL, OURS, TRANSITIVE
from studies.paper.figures import panels, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Z = 1.96  # of a 95% interval
_MEASURES = ("exploitability", "f1", "value")


@dataclass(frozen=True)
class Mean:
    """A mean over all test prompts of all test sets.

    Args:
        mean: the mean.
        error: its standard error over prompts.
    """

    mean: float
    error: float

    @property
    def lower(self) -> float:
        """Lower end of the 95% interval."""
        return self.mean - _Z * self.error

    @property
    def upper(self) -> float:
        """Upper end of the 95% interval."""
        return self.mean + _Z * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.lower:+.3f}, {self.upper:+.3f}]"


def together(rows: Rows, column: str) -> Mean:
    """Return the mean of a column over test sets, with its standard error over test prompts."""
    errors, splits = rows.values(f"{column}_se"), len(rows.distinct("split"))
    overlap = float(rows.values("repeats").max(initial=1.0)) if splits > 1 else 1.0
    again = len(rows) / splits if splits else 1.0
    return Mean(rows.mean(column), float(np.sqrt(overlap * again * (errors**2).sum()) / max(len(errors), 1)))


def overview(
    rows: Rows,
    title: str,
    *,
    note: str = "",
    paper: Mapping[str, tuple[str, ...]] | None = None,
    over: str = "splits",
) -> Table:
    """Return exploitability, F1 and game value against ours of each method, best first.

    Args:
        paper: the same three figures of the paper's table for methods that it has.
        over: what the rows of a method differ by.
    """
    header = ("method", "exploitability", "support F1", "game value")
    beside = ("paper: exploitability", "support F1", "game value") if paper else ()
    order = sorted(rows.distinct("method"), key=lambda name: rows.where(method=name).mean("exploitability"))
    lines = tuple(
        (
            method,
            *(rows.where(method=method).text(measure) for measure in _MEASURES),
            *((paper.get(method, ("", "", ""))) if paper else ()),
        )
        for method in order
    )
    reading = f"Mean ± sd over {over}; game value against ours, negative where ours wins."
    return Table(title, (*header, *beside), lines, note + reading)


def differences(rows: Rows, title: str) -> Table:
    """Return how far each method is from ours, paired over test prompts."""
    lines = tuple(
        (method, *(str(together(rows.where(method=method), column)) for column in ("excess", "value")))
        for method in _rivals(rows)
    )
    note = "Mean over all test prompts [95% interval, paired over prompts]."
    return Table(title, ("method", "exploitability above ours", "game value against ours"), lines, note)


def leading(rows: Rows, *, of: str) -> list[Claim]:
    """Return the bars of a study that ours should lead: below BT and global baselines, above none, better heads-up."""
    excess = {method: together(rows.where(method=method), "excess") for method in _rivals(rows)}
    weak = [method for method in _weak(rows) if excess[method].lower <= 0]
    closest = min(_weak(rows), key=lambda method: excess[method].lower)
    below = f"closest {closest}: {excess[closest]}" + (f"; not for {', '.join(weak)}" if weak else "")
    return [
        Claim(f"{of}: exploitability significantly below every BT and global baseline", not weak, below),
        *beaten(rows, of=of),
        _heads_up(rows, of),
    ]


def beaten(rows: Rows, *, of: str) -> list[Claim]:
    """Return the bar that no method has significantly lower exploitability."""
    excess = {method: together(rows.where(method=method), "excess") for method in _rivals(rows)}
    best = min(excess, key=lambda method: excess[method].mean)
    better = [method for method, mean in excess.items() if mean.upper < 0]
    seen = f"lowest of the others {best}: {excess[best]} above ours" + (
        f"; {', '.join(better)} lower" if better else ""
    )
    return [Claim(f"{of}: exploitability not significantly above any method", not better, seen)]


def _heads_up(rows: Rows, of: str) -> Claim:
    value = {method: together(rows.where(method=method), "value") for method in _weak(rows)}
    best = max(value, key=lambda method: value[method].upper)
    holds = all(mean.upper < 0 for mean in value.values())
    lost = [method for method, mean in value.items() if mean.upper >= 0]
    seen = f"highest {best}: {value[best]}" + (f"; not for {', '.join(lost)}" if lost else "")
    return Claim(
        f"{of}: game values of BT and global baselines against ours negative, with their intervals", holds, seen
    )


def dots(parts: Mapping[str, Rows]) -> Figure:
    """Return exploitability above ours with 95% intervals, one line per method, one panel per set of rows."""
    figure, axes = panels(1, len(parts), width=4.6, height=4.2, sharey=True)
    for column, (title, rows) in enumerate(parts.items()):
        ax = axes[0, column]
        for place, method in enumerate(reversed(_rivals(rows))):
            excess, look = together(rows.where(method=method), "excess"), style(method) | {"lw": 0}
            ax.errorbar(excess.mean, place, xerr=_Z * excess.error, elinewidth=1.2, capsize=3, **look)
        ax.set_yticks(range(len(_rivals(rows))), list(reversed(_rivals(rows))))
        ax.axvline(0, color="#000000", lw=1)
        ours = rows.where(method=OURS).mean("exploitability")
        ax.set_title(f"{title}\nours: {ours:.3f}", fontsize=10)
        ax.set_xlabel("exploitability above ours (95% interval)")
        ax.grid(axis="x", color="#e4e4e4", lw=0.6)
        ax.set_axisbelow(True)
    return figure


def _rivals(rows: Rows) -> list[str]:
    return [method for method in rows.distinct("method") if method != OURS]


def _weak(rows: Rows) -> list[str]:
    """Return the methods that must be beaten: those that score agents, and those that ignore the context."""
    return [method for method in _rivals(rows) if method in (*TRANSITIVE, *GLOBAL)]
