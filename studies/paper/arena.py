"""How equilibria differ between groups of votes (Table arena-vnw-heterogeneity, Figures arena-*).

Win-minus-loss counts of each pair in each group of contexts, pairs that never met as ties, make a game; its
equilibrium of least norm is the group's lottery. The paper tells how far those of a stratification lie apart; beside
that stands how far they do when contexts are dealt into groups of the same sizes at random: what noise alone does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import nasheval as ne
from studies.arrays import Bools, Floats, Ints
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.paper.arena_data import COVERED, MADE_UP, RELEASE, Poll, how_to_get, present, read_poll
from studies.paper.arena_groups import (
    Groups,
    dealt_at_random,
    distances,
    maximal_lotteries,
    share_as_large,
    tallies,
)
from studies.paper.contest import OURS, PRINTED, common_options
from studies.paper.figures import heatmap, panels

SHUFFLES = 500
SHOWN = 94 / 105  # share of pairs that met in a group whose lottery is shown beside NashEval's
RHO = 0.01  # there
EMPIRICAL = "lottery of the group's votes"
_SUPPORT = 1e-3
_SURE = 0.05
# Table arena-vnw-heterogeneity: subgroups, mean TV, max TV, distinct winners.
PAPER: dict[str, tuple[int, float, float, int]] = {
    "language": (5, 0.612, 0.866, 3),
    "code": (2, 0.900, 0.900, 2),
    "instruction following": (2, 0.000, 0.000, 1),
    "mathematics": (2, 0.500, 0.500, 1),
    "language x code": (6, 0.460, 0.600, 1),
    "language x instruction following": (6, 0.736, 1.000, 4),
    "language x mathematics": (5, 0.734, 1.000, 4),
    "code x instruction following": (4, 0.438, 0.875, 2),
    "code x mathematics": (3, 1.000, 1.000, 3),
    "instruction following x mathematics": (3, 0.333, 0.500, 1),
}


def cells(scale: Scale) -> list[Cell]:
    """Return a cell for each data set that is there; quick: a made-up release, which needs no data."""
    if scale.quick:
        return [Cell(MADE_UP, {"data": MADE_UP, "shuffles": 20})]
    return [Cell(name, {"data": name, "shuffles": SHUFFLES}) for name in present()]


def run(cell: Cell) -> list[Row]:
    """Split one data set in every way, and learn lotteries from all of it."""
    poll = read_poll(cell["data"])
    rows: list[Row] = [
        {"part": "data", "votes": poll.log.n_records, "agents": poll.log.n_agents, "note": poll.note},
    ]
    for columns in poll.stratifications:
        rows += stratified(poll, columns, cell["shuffles"])
    rows += beside_learned(poll)
    return [{"data": poll.name, **row} for row in rows]


# -- one stratification -----------------------------------------------------------------------------------------------


def stratified(poll: Poll, columns: Sequence[str], shuffles: int) -> list[Row]:
    """Return how far the lotteries of covered groups lie apart, and the lotteries themselves."""
    groups = Groups.of(poll.log.contexts, columns)
    tally = tallies(poll.log, groups.of_context, len(groups.names))
    covered = tally.coverage >= COVERED
    name = " x ".join(columns)
    kept, own = np.flatnonzero(covered), maximal_lotteries(tally.margins[covered])
    rows: list[Row] = [
        {"part": "lottery", "split": name, "group": groups.names[g], "votes": int(tally.votes[g]),
         "coverage": float(tally.coverage[g]), "agent": agent, "probability": float(p)}
        for g, lottery in zip(kept, own, strict=True)
        for agent, p in zip(poll.log.agents, lottery, strict=True)
        if p > _SUPPORT
    ]  # fmt: skip
    summary: Row = {"part": "split", "split": name, "attributes": len(columns), "groups": len(kept)}
    if len(kept) > 1:
        summary |= _apart_or_by_chance(poll.log, groups.of_context, covered, own, shuffles)
    return [summary, *rows]


def _apart_or_by_chance(log: ne.Feedback, of_context: Ints, covered: Bools, lotteries: Floats, shuffles: int) -> Row:
    """Return how far the lotteries (G, K) of covered groups lie apart, and whether chance would do as much."""
    apart, chance = distances(lotteries), dealt_at_random(log, of_context, covered, shuffles)
    own = tallies(log, np.where(covered, np.cumsum(covered) - 1, -1)[of_context], int(covered.sum()))
    return {
        "mean_tv": float(apart.mean()),
        "max_tv": float(apart.max()),
        "winners": len(set(lotteries.round(9).argmax(1))),
        "by_chance": float(chance.distance.mean()),
        "p": share_as_large(chance.distance, float(apart.mean())),
        "p_verdicts": share_as_large(chance.unlikeness, own.unlikeness),
    }


# -- learned from all votes -------------------------------------------------------------------------------------------


def beside_learned(poll: Poll, **ours: Any) -> list[Row]:
    """Return the lotteries of NashEval, the attributes as contexts, beside those of each large group's own votes.

    Args:
        ours: other arguments of `NashEval`.
    """
    groups = Groups.of(poll.log.contexts, poll.attributes)
    tally = tallies(poll.log, groups.of_context, len(groups.names))
    shown = np.flatnonzero((tally.votes >= poll.least) & (tally.coverage >= SHOWN))
    if not len(shown):
        return []
    contexts = [dict(zip(poll.attributes, groups.values[g], strict=True)) for g in shown]
    common = common_options(0)
    printed = ne.NashEval.paper(**common, policy="exact", rho=RHO, propensity="auto")
    lotteries_of = {
        OURS: ne.NashEval(**common, regularizer=ne.L2(RHO), **ours).fit(poll.log).predict_proba(contexts),
        PRINTED: printed.fit(poll.log).predict_proba(contexts),
        EMPIRICAL: maximal_lotteries(tally.margins[shown], RHO),
    }
    return [
        {"part": "learned", "group": groups.names[g], "votes": int(tally.votes[g]), "method": method,
         "agent": agent, "probability": float(lotteries[i, a])}
        for method, lotteries in lotteries_of.items()
        for i, g in enumerate(shown)
        for a, agent in enumerate(poll.log.agents)
    ]  # fmt: skip


# -- what is made of it -----------------------------------------------------------------------------------------------


def tables(rows: Rows) -> list[Table]:
    """Return what was read, the paper's table beside ours, the lotteries behind it, and those of NashEval."""
    return [_data(rows), _heterogeneity(rows), _lotteries(rows), _learned(rows)]


def _data(rows: Rows) -> Table:
    read = [
        (str(row["data"]), f"{row['votes']:,}", str(row["agents"]), str(row["note"])) for row in _part(rows, "data")
    ]
    missing = RELEASE not in rows.distinct("data")
    if missing:
        read.insert(0, (RELEASE, "", "", "not in the data folder"))
    note = f"The release that the paper used is not here. {how_to_get()}" if missing else ""
    return Table("Votes", ("data", "votes", "agents", "which"), tuple(read), note)


def _part(rows: Rows, part: str) -> Rows:
    return rows.where(part=part)


def _heterogeneity(rows: Rows) -> Table:
    measures = {
        "mean_tv": "mean TV",
        "max_tv": "max TV",
        "winners": "distinct winners",
        "by_chance": "mean TV by chance",
    }
    measures |= {"p": "p", "p_verdicts": "p of verdicts"}
    paper = "paper: subgroups; mean TV; max TV; winners"
    header = ("data", "stratification", "subgroups", *measures.values(), paper)
    lines = []
    for row in _part(rows, "split"):
        numbers = (_number(row.get(name)) for name in measures)
        lines.append((str(row["data"]), str(row["split"]), str(row["groups"]), *numbers, _printed(row)))
    note = (
        f"Groups in which {COVERED:.0%} of pairs met; total variation between their maximal lotteries, of least norm, "
        "of win-minus-loss counts. A winner is a group's most probable agent. By chance: the same contexts dealt into "
        "groups of the same sizes at random; p is the share of such deals whose mean TV is as large, p of verdicts the "
        "share in which the groups' mean verdicts differ as much. Where agents are close, a few votes turn a lottery "
        "over, so that TV is large by chance too; mean verdicts tell groups apart better."
    )
    return Table("How far the lotteries of groups lie apart", header, tuple(lines), note)


def _number(value: object) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"


def _printed(row: Row) -> str:
    """Return the paper's figures of a stratification of the release."""
    printed = PAPER.get(str(row["split"])) if row["data"] == RELEASE else None
    return "" if printed is None else f"{printed[0]}; {printed[1]:.3f}; {printed[2]:.3f}; {printed[3]}"


def _lotteries(rows: Rows) -> Table:
    lines = []
    for data in rows.distinct("data"):
        mine = _part(rows, "lottery").where(data=data)
        for split in mine.distinct("split"):
            for group in mine.where(split=split).distinct("group"):
                one = mine.where(split=split, group=group)
                votes, coverage = one.values("votes")[0], one.values("coverage")[0]
                lines.append((data, split, group, f"{votes:,.0f}", f"{coverage:.0%}", _lottery_text(one)))
    header = ("data", "stratification", "group", "votes", "pairs met", "lottery")
    return Table("Lotteries of the groups", header, tuple(lines))


def _lottery_text(rows: Rows) -> str:
    """Return "a 0.60, b 0.40", the most probable first."""
    listed = sorted(((float(str(r["probability"])), str(r["agent"])) for r in rows), reverse=True)
    return ", ".join(f"{agent} {p:.2f}" for p, agent in listed if p > _SUPPORT)


def _learned(rows: Rows) -> Table:
    learned = _part(rows, "learned")
    lines = []
    for data in learned.distinct("data"):
        for group in learned.where(data=data).distinct("group"):
            one = learned.where(data=data, group=group)
            texts = (_lottery_text(one.where(method=method)) for method in (OURS, PRINTED, EMPIRICAL))
            apart = (f"{_apart(one, method):.3f}" for method in (OURS, PRINTED))
            lines.append((data, group, f"{one.values('votes')[0]:,.0f}", *texts, *apart))
    header = ("data", "group", "votes", OURS, PRINTED, EMPIRICAL, "TV of ours", "TV of the printed form")
    note = (
        f"Groups with 100 votes or more (of llmfao 50) in which {SHOWN:.1%} of pairs met (the paper: 94 of 105). rho = "
        f"{RHO}; for the group's own votes it is next to nothing, since those games count votes. TV: to that lottery, "
        "which is an estimate too. The printed form takes its propensities as ours does: one LightGBM for 105 menus "
        "is none that four attributes can feed."
    )
    return Table("NashEval, with the attributes as contexts, beside each group's own votes", header, tuple(lines), note)


def _apart(rows: Rows, method: str) -> float:
    """Return the distance of a method's lottery from that of the group's own votes."""
    one, other = (rows.where(method=name).values("probability") for name in (method, EMPIRICAL))
    return float(0.5 * np.abs(one - other).sum())


def claims(rows: Rows) -> list[Claim]:
    """Return the paper's claims, on each data set that was there."""
    claimed = []
    for data in rows.distinct("data"):
        splits = Rows([row for row in _part(rows, "split").where(data=data) if row.get("p") is not None])
        for column, what in (("p", "lotteries"), ("p_verdicts", "mean verdicts")):
            clear = int((splits.values(column) < _SURE).sum())
            claimed.append(Claim(f"{data}: {what} differ between groups by more than chance (p < {_SURE})",
                               0 < clear == len(splits), f"in {clear} of {len(splits)} stratifications",
                               "paper"))  # fmt: skip
        claimed += _consistent(_part(rows, "learned").where(data=data), data)
    return [*claimed, *_same_table(_part(rows, "split").where(data=RELEASE))]


def _consistent(learned: Rows, data: str) -> list[Claim]:
    """Hold that NashEval largely agrees with each group's own votes: nearer to those than to another group's."""
    groups = learned.distinct("group")
    claims: list[Claim] = []
    for method in (OURS, PRINTED):
        one, own = (
            np.array([learned.where(group=g, method=name).values("probability") for g in groups])
            for name in (method, EMPIRICAL)
        )
        apart = 0.5 * np.abs(one[:, None] - own[None]).sum(-1)
        if not distances(own).any():  # one lottery for all groups: nothing to be near to
            return []
        same, others = float(np.diag(apart).mean()), float(apart[~np.eye(len(groups), dtype=bool)].mean())
        claims.append(Claim(f"{data}: {method} is nearer to the votes of its own group than to those of others",
                            same < others, f"TV {same:.3f} against {others:.3f}", "paper"))  # fmt: skip
    return claims


def _same_table(splits: Rows) -> list[Claim]:
    """Hold our table of the release against the paper's."""
    lines = [row for row in splits if row["split"] in PAPER]
    if not lines:
        return []
    same = sum(_as_printed(row) for row in lines)
    return [Claim("the release gives the paper's table", same == len(PAPER), f"{same} of {len(PAPER)} lines", "paper")]


def _as_printed(row: Row) -> bool:
    """Tell whether a line of our table has the paper's figures, to its three digits."""
    ours = tuple(row.get(name) for name in ("groups", "mean_tv", "max_tv", "winners"))
    return all(one is not None and abs(float(str(one)) - printed) < 6e-4
               for one, printed in zip(ours, PAPER[str(row["split"])], strict=True))  # fmt: skip


# -- figures ----------------------------------------------------------------------------------------------------------

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
_MARKS = ("o", "s", "^")


def figures(rows: Rows) -> dict[str, object]:
    """Return for each data set the lotteries of its groups, all attributes at once, and NashEval's beside them."""
    drawn: dict[str, object] = {}
    for data in rows.distinct("data"):
        stem = data.replace(" ", "-")
        mine = _part(rows, "lottery").where(data=data)
        three = [split for split in ("code", "mathematics", "code x mathematics") if split in mine.distinct("split")]
        drawn[f"lotteries-{stem}"] = _circles(mine, three or mine.distinct("split")[:1])
        if len(mine.distinct("split")) > 1:
            drawn[f"lotteries-all-{stem}"] = _circles(mine, mine.distinct("split")[-1:])
        learned = _part(rows, "learned").where(data=data)
        if len(learned):
            drawn[f"heatmap-{stem}"] = _heatmaps(learned)
    return drawn


def _circles(rows: Rows, splits: Sequence[str]) -> Any:
    """Draw a circle for each agent in the support of each group: one panel per stratification."""
    widths = [max(2.4, 0.85 * len(rows.where(split=split).distinct("group"))) for split in splits]
    total = max(sum(widths), 5.0)
    figure, axes = panels(1, len(splits), width=total / len(splits), height=4.0, width_ratios=widths, sharey=True)
    look = {
        agent: (_COLOURS[number % len(_COLOURS)], _MARKS[number // len(_COLOURS) % len(_MARKS)])
        for number, agent in enumerate(sorted(rows.distinct("agent")))
    }  # of all stratifications, so that an agent looks the same in every figure
    for ax, split in zip(axes[0], splits, strict=True):
        _circles_of(ax, rows.where(split=split), look)
        ax.set_title(split, fontsize=10)
    axes[0, 0].set_ylabel("equilibrium probability")
    shown = sorted({agent for split in splits for agent in rows.where(split=split).distinct("agent")})
    marks = [
        axes[0, 0].plot([], [], ls="none", ms=7, color=look[agent][0], marker=look[agent][1], label=agent)[0]
        for agent in shown
    ]
    figure.legend(handles=marks, loc="outside lower center", frameon=False, fontsize=7, ncols=max(2, int(total / 2.6)))
    return figure


def _circles_of(ax: Any, rows: Rows, look: Mapping[str, tuple[str, str]]) -> None:
    groups = rows.distinct("group")
    for place, group in enumerate(groups):
        mine = list(rows.where(group=group))
        for number, row in enumerate(mine):  # side by side, since equal probabilities are common
            colour, mark = look[str(row["agent"])]
            x = place + 0.17 * (number - (len(mine) - 1) / 2)
            ax.plot(x, row["probability"], color=colour, marker=mark, ms=9, alpha=0.9, mec="#555555", mew=0.4)
    ax.set_xticks(range(len(groups)), map(short, groups), rotation=25, ha="right", fontsize=7)
    ax.set(ylim=(-0.04, 1.06), xlim=(-0.6, len(groups) - 0.4))
    ax.grid(axis="y", color="#e4e4e4", lw=0.6)
    ax.set_axisbelow(True)


def short(group: str) -> str:
    """Return the name of a group of several attributes without what it is not: "English, code"."""
    parts = group.split(" / ")
    return group if len(parts) == 1 else ", ".join(part for part in parts if not part.startswith("no ")) or "neither"


def _heatmaps(rows: Rows) -> Any:
    """Draw NashEval's lotteries, those of the printed form, and those of each group's own votes."""
    groups, agents = rows.distinct("group"), rows.distinct("agent")
    figure, axes = panels(3, 1, width=max(5.0, 0.62 * len(agents) + 2.0), height=0.7 + 0.22 * len(groups), sharex=True)
    for ax, method in zip(axes[:, 0], (OURS, PRINTED, EMPIRICAL), strict=True):
        values = [rows.where(method=method, group=group).values("probability") for group in groups]
        heatmap(ax, np.array(values), rows=list(map(short, groups)), columns=agents, title=f"{method}, %")
    return figure


STUDY = Study(
    "arena",
    "How equilibria differ between groups of human votes",
    "Table arena-vnw-heterogeneity, Figures arena-maximal-lotteries, arena-heatmap",
    cells,
    run,
    tables,
    claims,
    figures,
)
