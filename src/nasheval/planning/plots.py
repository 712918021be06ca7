"""The curve of a plan, as matplotlib axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nasheval.planning.curves import Curve
from nasheval.scoring.plots import BLUE, GREY, ORANGE, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(curve: Curve, power: float, *, ax: Axes | None = None) -> Axes:
    """Draw votes against what is expected of them, its band, the goal, and where the curve meets it."""
    ax = new_axes(ax, 6.4, 4.0)
    ax.fill_between(curve.votes, curve.lower, curve.upper, color=BLUE, alpha=0.15, linewidth=0, label="may be")
    ax.plot(curve.votes, curve.value, color=BLUE, marker="o", markersize=3, label="expected")
    ax.axhline(curve.target, color=ORANGE, linestyle="--", linewidth=1, label=f"goal: {_goal(curve, power)}")
    if curve.today:
        ax.axvline(curve.today, color=GREY, linewidth=1, label=f"today: {curve.today:,}")
    if curve.needed is not None and not curve.reached:
        ax.plot(
            [curve.needed], [curve.target], color=ORANGE, marker="D", linestyle="", label=f"needed: {curve.needed:,}"
        )
    first, last = curve.votes[0], curve.votes[-1]
    if curve.needed is not None:
        last = min(last, max(4 * curve.needed, 8 * max(first, curve.today)))
    ax.set(
        xscale="log",
        xlim=(first / 1.15, last * 1.15),
        xlabel="votes in all",
        ylabel="chance" if curve.is_chance else "mean width of intervals",
    )
    ax.set_ylim(0, 1.02 if curve.is_chance else None)
    about = "" if curve.group == "all" else f" in {curve.group}"
    ax.set_title(f"Votes needed for {curve.goal}{about}", fontsize=10)
    ax.legend(fontsize=8, frameon=False)
    return ax


def _goal(curve: Curve, power: float) -> str:
    return f"chance {power:.0%}" if curve.is_chance else f"width {curve.target:g}"
