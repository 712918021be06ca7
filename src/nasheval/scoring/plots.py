"""The plots of the report as matplotlib axes; each function draws on `ax`, or on a new figure, and returns the axes.

Colours are told apart without red and green: blue against orange for signs, one hue for shares, and those of Okabe and
Ito for agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from nasheval.arrays import Floats, Ints
from nasheval.errors import InputError, MissingExtraError
from nasheval.feedback.links import SEEN, UNKNOWN
from nasheval.game.regularizers import L2, Regularizer
from nasheval.payoff.inference import GroupPayoff
from nasheval.payoff.stage1_diagnostics import Stage1Diagnostics
from nasheval.policy.terms import costs_in_order
from nasheval.scoring.report.frontier import cost_frontier as frontier_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["calibration", "cost_frontier", "cycle_graph", "lottery_by_group", "payoff", "winner_heatmap"]

BLUE, ORANGE, GREY = "#155a9c", "#bf5f0a", "#858e99"
_SIGNS = ("#e8842a", "#f6f6f3", "#559bdb")
_SHARES = ("#f6f6f3", "#3fa9a2")
_AGENTS = ("#0072b2", "#e69f00", "#56b4e9", "#cc79a7", "#009e73", "#f0e442", "#d55e00")  # Okabe and Ito
_OTHERS = "#a8adb4"
_NUMBERED = 12  # agents up to which numbers stand in the cells


def payoff(group: GroupPayoff, *, ax: Axes | None = None, most: int = 20) -> Axes:
    """Draw mean payoffs of row over column, best agents first, in bold where the simultaneous interval excludes 0.

    Cells of pairs that were not compared in the group are hatched; a question mark stands where nothing connects the
    two agents. Agents without a vote in the group are left out.

    Args:
        group: from `NashEval.payoff_interval`.
        most: agents to show, those with the largest mean payoff.
    """
    order = _best(group, most)
    value, place = group.estimate[np.ix_(order, order)], np.ix_(order, order)
    status = group.status[place]
    sure = (status == SEEN) & ((group.lower[place] > 0) | (group.upper[place] < 0))
    names = [_text(group.agents[a]) for a in order]
    label = _inches(names)
    ax = new_axes(ax, 1.6 + label + 0.62 * len(order), 0.9 + 0.85 * label + 0.5 * len(order))
    image = ax.imshow(value, cmap=_colours("signs", _SIGNS), vmin=-1, vmax=1)
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label="mean payoff of row over column")
    for r, c in zip(*np.nonzero(~np.eye(len(order), dtype=bool)), strict=True):
        number = "?" if status[r, c] == UNKNOWN else f"{value[r, c]:+.2f}"
        text = number if len(order) <= _NUMBERED else "•" * int(sure[r, c])
        ax.text(c, r, text, ha="center", va="center", fontsize=8, fontweight="bold" if sure[r, c] else "normal")
    _hatch(ax, status)
    _grid_labels(ax, names, names)
    mark = "bold" if len(order) <= _NUMBERED else "dot"
    unmet = "; hatched: not compared here" if (status != SEEN).any() else ""
    ax.set_title(f"{_text(group.name)} ({mark}: {group.confidence:.0%} interval excludes 0{unmet})", fontsize=10)
    return ax


def cycle_graph(group: GroupPayoff, *, ax: Axes | None = None, most: int = 12) -> Axes:
    """Draw who is certainly preferred to whom, an arrow from the preferred agent; edges of cycles are orange.

    Args:
        group: from `NashEval.payoff_interval`.
        most: agents to show: those in cycles first, then those with the largest mean payoff.
    """
    ax, beats, cycles = new_axes(ax, 6.0, 6.0), group.beats(), group.cycles()
    agents = _drawn(group, [agent for cycle in cycles for agent in cycle.agents], most)
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(agents)) / len(agents)
    at = {a: (float(np.cos(t)), float(np.sin(t))) for a, t in zip(agents, angle, strict=True)}
    in_cycle = {edge for c in cycles for edge in zip(c.agents, (*c.agents[1:], c.agents[0]), strict=True)}
    for a in agents:
        for b in (b for b in agents if beats[a, b]):
            _arrow(ax, at[a], at[b], cycle=(group.agents[a], group.agents[b]) in in_cycle)
    across, up = zip(*at.values(), strict=True)
    ax.scatter(across, up, s=90, color="white", edgecolor=BLUE, zorder=3)
    for a, (x, y) in at.items():
        side = "center" if abs(x) < 0.2 else "left" if x > 0 else "right"
        ax.text(1.12 * x, 1.12 * y, _text(group.agents[a]), ha=side, va="center", fontsize=9)
    ax.set(xlim=(-1.9, 1.9), ylim=(-1.35, 1.35), aspect="equal")
    ax.axis("off")
    held = f"{len(cycles)} cycle{'' if len(cycles) == 1 else 's'}" if cycles else "no cycle"
    ax.set_title(f"{_text(group.name)}: certain preferences, {held} at {group.confidence:.0%}", fontsize=10)
    return ax


def winner_heatmap(leaderboard: Any, *, value: str = "frequency", ax: Axes | None = None, most: int = 20) -> Axes:
    """Draw a share for each agent and group, agents with the largest ones first.

    Args:
        leaderboard: a table with columns group, agent and `value`, from `NashEval.leaderboard(by=...)`.
        value: the column to draw: "frequency" is the share of bootstrap draws in which the agent is among the winners.
        most: agents to show.
    """
    groups, agents, share = _matrix(leaderboard, value)
    order = np.argsort(-share.mean(axis=0), kind="stable")[:most]
    rows, columns = [_text(agents[a]) for a in order], [_text(group) for group in groups]
    ax = new_axes(ax, 2.2 + _inches(rows) + 0.5 * len(groups), 0.9 + 0.85 * _inches(columns) + 0.36 * len(order))
    image = ax.imshow(share[:, order].T, cmap=_colours("shares", _SHARES), vmin=0, vmax=1, aspect="auto")
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label=value)
    for r, a in enumerate(order):
        for c in np.flatnonzero(share[:, a] >= 0.005):
            ax.text(int(c), r, f"{100 * share[c, a]:.0f}", ha="center", va="center", fontsize=8)
    _grid_labels(ax, rows, columns)
    ax.set_title(f"{value} in %", fontsize=10)
    return ax


def lottery_by_group(leaderboard: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the lottery of each group as a stacked bar; all but the seven most probable agents share one colour.

    Args:
        leaderboard: a table with columns group, agent and lottery, from `NashEval.leaderboard(by=...)`.
    """
    groups, agents, share = _matrix(leaderboard, "lottery")
    played = np.flatnonzero(share.max(axis=0) > 0)
    order = played[np.argsort(-share[:, played].mean(axis=0), kind="stable")]
    bars = [(agents[a], share[:, a], colour) for a, colour in zip(order, _AGENTS, strict=False)]
    rest = share[:, order[len(_AGENTS) :]].sum(axis=1)
    bars += [("others", rest, _OTHERS)] if rest.any() else []
    ax, left = new_axes(ax, 8.0, 1.2 + 0.35 * len(groups)), np.zeros(len(groups))
    for name, width, colour in bars:
        ax.barh(np.arange(len(groups)), width, left=left, color=colour, edgecolor="white", label=_text(name))
        left = left + width
    ax.set_yticks(np.arange(len(groups)), [_text(group) for group in groups])
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="share of the lottery")
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
    _plain(ax)
    return ax


def cost_frontier(
    A: npt.ArrayLike,
    costs: Mapping[str, float] | npt.ArrayLike,
    *,
    agents: Sequence[str] | None = None,
    regularizer: Regularizer = L2(),  # noqa: B008 (frozen)
    ax: Axes | None = None,
) -> Axes:
    """Draw cost against exploitability of equilibria as the weight of cost rises, and of each agent alone.

    Args:
        A: (n, K, K) payoffs at n contexts, from `NashEval.payoff`; on estimated payoffs exploitability is an estimate.
        costs: {agent: cost}, (K,), or (n, K) where cost varies by context, in your units.
        agents: names of the K agents; None: 1 to K, or the names that `costs` gives, in its order.
        regularizer: of the game.
    """
    games = np.asarray(A, np.float64)
    if games.ndim != 3 or games.shape[1] != games.shape[2]:
        raise InputError(f"A has shape {games.shape}; accepted is (n, K, K), from model.payoff(contexts).")
    numbered = map(str, range(1, games.shape[1] + 1))
    names = tuple(agents or (costs if isinstance(costs, Mapping) else numbered))
    prices = costs_in_order(costs, names) if isinstance(costs, Mapping) else np.asarray(costs, np.float64)
    if len(names) != games.shape[1] or prices.shape[-1:] != (len(names),):
        raise InputError(f"A has {games.shape[1]} agents, there are {len(names)} names and costs of {prices.shape}.")
    points = frontier_points(games, prices, names, regularizer=regularizer)
    line = [(p.cost, p.exploitability) for p in points if p.kind == "price"]
    ax = new_axes(ax, 7.0, 4.5)
    ax.plot(*zip(*line, strict=True), color=BLUE, marker="o", markersize=4, label="equilibrium, cost weight rising")
    single = [p for p in points if p.kind == "agent"]
    ax.scatter([p.cost for p in single], [p.exploitability for p in single], marker="D", facecolor="white",
               edgecolor=ORANGE, zorder=3, label="one agent everywhere")  # fmt: skip
    for point in single:
        ax.annotate(
            _text(point.name), (point.cost, point.exploitability), (6, 3), textcoords="offset points", fontsize=8
        )
    ax.set(xlabel="expected cost of a context", ylabel="exploitability on the payoffs given", ylim=(0, None))
    ax.legend(frameon=False, fontsize=8)
    _plain(ax)
    return ax


def calibration(
    diagnostics: Stage1Diagnostics, *, of: Literal["outcome", "propensity"] = "outcome", ax: Axes | None = None
) -> Axes:
    """Draw predictions against what was observed, with bars of two standard errors.

    Args:
        diagnostics: from `NashEval.diagnostics`.
        of: the verdicts, or how often menus are asked.
    """
    bins = diagnostics.nuisances.outcome if of == "outcome" else diagnostics.nuisances.propensity
    if bins is None:
        raise InputError("The propensities of this model are known only at records; there is nothing to calibrate.")
    ax = new_axes(ax, 4.6, 4.4)
    ends = np.concatenate([bins.predicted, bins.observed])
    if len(ends):
        ax.plot([ends.min(), ends.max()], [ends.min(), ends.max()], color=GREY, linestyle="--", linewidth=1)
    ax.errorbar(bins.predicted, bins.observed, yerr=2 * bins.error, color=BLUE, fmt="o", markersize=5)
    what = "verdict" if of == "outcome" else of
    ax.set(xlabel=f"predicted {what}", ylabel=f"observed {what}")
    ax.set_title(f"{int(bins.count.sum()):,} predictions out of fold", fontsize=10)
    _plain(ax)
    return ax


# -- what the plots share ---------------------------------------------------------------------------------------------


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes given, or those of a new figure of some inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("matplotlib", extra="plots", purpose="Plotting") from error
    made: Axes = plt.subplots(figsize=(min(width, 18), min(height, 14)), layout="constrained")[1]
    return made


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], *, cycle: bool) -> None:
    from matplotlib.patches import FancyArrowPatch

    arrow = FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=12, shrinkA=8, shrinkB=8)
    arrow.set(color=ORANGE if cycle else GREY, linewidth=2.2 if cycle else 0.9, zorder=2 if cycle else 1)
    arrow.set_connectionstyle("arc3", rad=0.12)
    ax.add_patch(arrow)


def _hatch(ax: Axes, status: Ints) -> None:
    """Hatch the cells of pairs that were not compared, given status (n, n)."""
    from matplotlib.patches import Rectangle

    for r, c in np.argwhere(status != SEEN):
        cell = Rectangle((c - 0.5, r - 0.5), 1, 1, fill=False, edgecolor=GREY, linewidth=0, linestyle="--")
        cell.set_hatch("////")
        ax.add_patch(cell)


def _colours(name: str, ends: Sequence[str]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(name, ends)


def _text(name: str) -> str:
    """Return a name that matplotlib shows as it is: dollars begin no formula, and an underscore hides no label."""
    shown = str(name).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _inches(names: list[str]) -> float:
    """Return about how long the longest name is, in print."""
    return 0.085 * max((len(name) for name in names), default=0)


def _grid_labels(ax: Axes, rows: list[str], columns: list[str]) -> None:
    ax.set_xticks(np.arange(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    ax.set_yticks(np.arange(len(rows)), rows)
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _best(group: GroupPayoff, most: int) -> Ints:
    """Return the agents with the largest mean payoff among those with a vote in the group, best first."""
    order = np.argsort(-group.estimate[:, group.present].sum(axis=1), kind="stable")
    return order[group.present[order]][:most]


def _drawn(group: GroupPayoff, in_cycles: list[str], most: int) -> list[int]:
    """Return the agents of cycles, filled up with the best, in the order of the best."""
    order = _best(group, len(group.agents)).tolist()
    first = [group.agents.index(agent) for agent in dict.fromkeys(in_cycles)]
    kept = set(list(dict.fromkeys([*first, *order]))[:most])
    return [a for a in order if a in kept]


def _matrix(leaderboard: Any, value: str) -> tuple[list[str], list[str], Floats]:
    """Return groups, agents and the column `value` of a table as (groups, agents)."""
    import narwhals as nw

    names = ("group", "agent", value)
    try:
        frame = nw.from_native(leaderboard, eager_only=True)
        columns = {name: frame[name].to_list() for name in names}
    except (TypeError, KeyError, nw.exceptions.NarwhalsError) as error:
        raise InputError(
            f"leaderboard is {type(leaderboard).__name__}; accepted is a table with the columns {', '.join(names)}, "
            f"such as model.leaderboard(by=...)."
        ) from error
    groups, agents = (list(dict.fromkeys(map(str, columns[name]))) for name in ("group", "agent"))
    values = np.zeros((len(groups), len(agents)))
    row = [groups.index(str(group)) for group in columns["group"]]
    place = [agents.index(str(agent)) for agent in columns["agent"]]
    values[row, place] = np.nan_to_num(np.asarray(columns[value], np.float64))
    return groups, agents, values
