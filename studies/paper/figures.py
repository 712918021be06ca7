"""What the figures of studies share: colours that are told apart without red and green, and two kinds of panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.harness.rows import Rows
from studies.paper import contest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours; ours is the one in bold black.
STYLE: dict[str, tuple[str, str]] = {
    contest.OURS: ("#000000", "o"),
    contest.PRINTED: ("#0072b2", "s"),
    contest.PER_PAIR: ("#56b4e9", "D"),
    contest.PLUG_IN: ("#009e73", "^"),
    contest.ORACLE: ("#7f7f7f", "*"),
    contest.ORACLE_PRINTED: ("#b0b0b0", "p"),
    contest.BT_PLUG_IN: ("#e69f00", "v"),
    contest.BT_REG: ("#f0e442", "P"),
    contest.BT_DEBIASED: ("#d55e00", "X"),
    contest.MAXIMAL: ("#cc79a7", "<"),
    contest.ROBUST: ("#7b3294", "h"),
    contest.PLURALISTIC: ("#a6761d", ">"),
}
NAMES = {"exploitability": "exploitability (↓ better)", "f1": "support $F_1$ (↑ better)"}
_PLAIN = ("#555555", ".")


def panels(rows: int, columns: int, *, width: float = 3.3, height: float = 2.6, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of rows x columns panels, as (figure, array of axes)."""
    from matplotlib import pyplot

    size = (width * columns, height * rows)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **options)
    return figure, axes


def style(method: str) -> dict[str, Any]:
    """Return colour, marker and weight of a method's line."""
    colour, marker = STYLE.get(method, _PLAIN)
    heavy = method == contest.OURS
    edge = {"markeredgecolor": "#555555", "markeredgewidth": 0.4}
    return {"color": colour, "marker": marker, "lw": 2.2 if heavy else 1.1, "ms": 7 if heavy else 5.5, **edge}


def lines(ax: Axes, rows: Rows, *, x: str, y: str, methods: Sequence[str], evenly: bool = True) -> None:
    """Draw mean ± standard deviation over rows of each method against a column.

    Args:
        evenly: put the values of x side by side, whatever their distance.
    """
    values = rows.distinct(x)
    for number, method in enumerate(methods):
        mine = rows.where(method=method)
        parts = [mine.where(**{x: value}) for value in values]
        place = np.arange(len(values)) if evenly else np.array(values, float)
        shift = (number - len(methods) / 2) * 0.015 if evenly else 0.0
        mean = [part.mean(y) for part in parts]
        spread = np.nan_to_num([part.spread(y) for part in parts])
        ax.errorbar(place + shift, mean, yerr=spread, label=method, capsize=2, elinewidth=0.8, **style(method))
    if evenly:
        ax.set_xticks(range(len(values)), [str(value) for value in values])
    ax.grid(axis="y", color="#e4e4e4", lw=0.6)
    ax.set_axisbelow(True)


def grid_of_lines(
    rows: Rows, *, by: str, x: str, methods: Sequence[str], name_x: str, titles: Mapping[str, str] | None = None
) -> Figure:
    """Return the paper's layout: a column of panels for each value of `by`, exploitability above, F1 below."""
    kinds = rows.distinct(by)
    figure, axes = panels(2, len(kinds), sharex=True, sharey="row")
    for column, kind in enumerate(kinds):
        for line, measure in enumerate(("exploitability", "f1")):
            ax = axes[line, column]
            lines(ax, rows.where(**{by: kind}), x=x, y=measure, methods=methods)
            ax.set_ylabel(NAMES[measure] if column == 0 else "")
        axes[0, column].set_title((titles or {}).get(kind, kind))
        axes[1, column].set_xlabel(name_x)
    legend(figure, axes[0, 0])
    return figure


def legend(figure: Figure, ax: Axes, *, columns: int = 4) -> None:
    """Put one legend for all panels below them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def heatmap(ax: Axes, values: Any, *, rows: Sequence[str], columns: Sequence[str], title: str = "") -> Any:
    """Draw shares from 0 to 1 with their percentages; return the image, for a colour bar."""
    from matplotlib.colors import LinearSegmentedColormap

    image = ax.imshow(
        values, cmap=LinearSegmentedColormap.from_list("shares", ["#f6f6f3", "#155a9c"]), vmin=0, vmax=1, aspect="auto"
    )
    for (r, c), value in np.ndenumerate(np.asarray(values)):
        ax.text(c, r, f"{100 * value:.0f}", ha="center", va="center", fontsize=7, color="w" if value > 0.55 else "k")
    ax.set_xticks(range(len(columns)), list(columns), rotation=35, ha="right", fontsize=8)
    ax.set_yticks(range(len(rows)), list(rows), fontsize=8)
    ax.set_title(title, fontsize=10)
    return image
