"""What a reader saw, and what a log covers and where it is thin: plain data, the latter prints as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, n_pairs
from nasheval.errors import ReadError
from nasheval.feedback.design import Design
from nasheval.feedback.links import BRIDGED, UNKNOWN, components, only_a_ladder, pair_status
from nasheval.feedback.menus import BEST_WORST, OFTEN, ORDER, PARTIAL, MenuCatalogue
from nasheval.feedback.position import ONE_ORDER, PositionBias, position_bias
from nasheval.feedback.records import Records
from nasheval.feedback.verdicts import PairCounts
from nasheval.notes import Note, few
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table


_MATRIX = 10  # more agents than this do not fit on a line


@dataclass(frozen=True)
class ReadReport:
    """What a reader saw: kept with the log, shown by `nasheval check`.

    Args:
        source: the file or object.
        kind: what it was taken to be.
        rows: rows read.
        used: rows that became records.
        roles: which column plays which role.
        labels: how many rows carry each raw label, and what it was taken to mean.
        dropped: rows left out because the user asked for it, by reason.
        aside: what the files hold beside rows, and was left out: lines that are no votes, answers without a score.
        problems: rows that were left out because something is wrong with them.
    """

    source: str
    kind: str
    rows: int
    used: int
    roles: dict[str, str] = field(default_factory=dict)
    labels: dict[str, tuple[str, int]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    aside: dict[str, int] = field(default_factory=dict)
    problems: tuple[ReadError, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        labels = {label: {"meaning": meaning, "rows": rows} for label, (meaning, rows) in self.labels.items()}
        return {**vars(self), "labels": labels, "problems": [str(problem) for problem in self.problems]}


@dataclass(frozen=True)
class Origin:
    """The tool that wrote a log, where its verdicts count as that tool wrote them: its own rule then gives a score.

    Args:
        tool: name of the format, as `nasheval formats` lists it.
        means: mean score of each agent over the whole file, where it holds scores.
    """

    tool: str
    means: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Coverage:
    """What a log covers.

    Args:
        agents: names.
        n_contexts, n_records, n_voters: sizes; n_voters is None where voters are unknown.
        empty_contexts: contexts without a record.
        design, design_reason: how the log came about.
        counts: what was said of each pair.
        weighted: whether the records have weights, or grades.
        components: groups of agents that comparisons connect.
        never_won, never_lost: agents without a single win, or loss.
        rare: names of menus with fewer than `OFTEN` records, rarest first (at most 20); n_rare: how many there are.
        could_not_meet: pairs never compared whose agents were never in the log at the same time.
        position_bias: None where the order shown is unknown, or no pair was shown in both orders.
        one_order: whether the order shown is known and every pair was always shown in the same one.
    """

    agents: tuple[str, ...]
    n_contexts: int
    n_records: int
    n_voters: int | None
    empty_contexts: int
    design: str
    design_reason: str
    counts: PairCounts
    weighted: bool
    components: tuple[tuple[str, ...], ...]
    never_won: tuple[str, ...]
    never_lost: tuple[str, ...]
    rare: tuple[str, ...]
    n_rare: int
    n_menus: int
    could_not_meet: tuple[tuple[str, str], ...]
    position_bias: PositionBias | None
    one_order: bool

    @property
    def pairs_seen(self) -> int:
        """Number of pairs compared at least once."""
        return int((np.triu(self.counts.votes, 1) > 0).sum())

    @property
    def share_of_pairs(self) -> float:
        """Share of all pairs compared at least once."""
        return self.pairs_seen / max(n_pairs(len(self.agents)), 1)

    @property
    def pairs_bridged(self) -> int:
        """Number of pairs never compared whose agents are connected through others."""
        return int((np.triu(pair_status(self.counts.votes), 1) == BRIDGED).sum())

    @property
    def pairs_unknown(self) -> int:
        """Number of pairs never compared whose agents nothing connects."""
        return int((np.triu(pair_status(self.counts.votes), 1) == UNKNOWN).sum())

    @property
    def only_a_ladder(self) -> bool:
        """Whether three or more agents were compared without a loop, so that no cycle of preferences can be seen."""
        return only_a_ladder(self.counts.votes)

    @property
    def condorcet_winner(self) -> str | None:
        """The agent whose pooled margin against every other is positive, if there is one."""
        beats = (self.counts.margin > 0).sum(axis=1) == len(self.agents) - 1
        return self.agents[int(beats.argmax())] if len(self.agents) > 1 and beats.any() else None

    def warnings(self) -> list[str]:
        """Return what a user should know before trusting results from this log."""
        return [text for text in _warnings(self) if text]

    def to_dict(self) -> dict[str, object]:
        """Return plain values, ready for JSON."""
        bias = self.position_bias
        return {
            "agents": list(self.agents),
            "contexts": self.n_contexts,
            "records": self.n_records,
            "voters": self.n_voters,
            "empty_contexts": self.empty_contexts,
            "design": self.design,
            "design_reason": self.design_reason,
            "menus": self.n_menus,
            "pairs_seen": self.pairs_seen,
            "share_of_pairs": self.share_of_pairs,
            "pairs_bridged": self.pairs_bridged,
            "pairs_unknown": self.pairs_unknown,
            "only_a_ladder": self.only_a_ladder,
            "votes": self.counts.votes.tolist(),
            "margin": [[None if np.isnan(cell) else float(cell) for cell in row] for row in self.counts.margin],
            "components": [list(group) for group in self.components],
            "never_won": list(self.never_won),
            "never_lost": list(self.never_lost),
            "rare_menus": self.n_rare,
            "could_not_meet": [list(pair) for pair in self.could_not_meet],
            "position_bias": bias and bias.mean,
            "position_error": bias and bias.error,
            "position_balanced": bias and bias.balanced,
            "position_pairs": bias and bias.pairs,
            "position_note": ONE_ORDER if self.one_order else None,
            "condorcet_winner": self.condorcet_winner,
            "warnings": self.warnings(),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the summary, the tables of agents and of pairs, and the warnings."""
        from rich.text import Text

        yield _summary(self)
        yield _agent_table(self)
        if 2 < len(self.agents) <= _MATRIX:
            yield _pair_table(self)
        for warning in self.warnings():
            yield Text.assemble(("!", "yellow"), " ", warning)  # an agent may be called "[bold]" or ":cat:"

    def __str__(self) -> str:
        return plain(self)


# -- measuring --------------------------------------------------------------------------------------------------------


def measure(
    records: Records,
    agents: tuple[str, ...],
    context_offsets: Ints,
    *,
    menus: MenuCatalogue,
    counts: PairCounts,
    design: Design,
) -> Coverage:
    """Measure what a log covers, given its fields and what follows from them."""

    def named(which: Bools) -> tuple[str, ...]:
        return tuple(agents[i] for i in np.flatnonzero(which))

    seen = counts.votes.sum(axis=1) > 0
    rare = np.flatnonzero(menus.counts < OFTEN)
    rarest = rare[np.argsort(menus.counts[rare], kind="stable")][:20]
    n_groups, group = components(counts.votes)
    bias = position_bias(records, len(agents))
    return Coverage(
        agents=agents,
        n_contexts=len(context_offsets) - 1,
        n_records=len(records),
        n_voters=None if records.voter is None else len(np.unique(records.voter[records.voter >= 0])),
        empty_contexts=int((np.diff(context_offsets) == 0).sum()),
        design=design.name,
        design_reason=design.reason,
        counts=counts,
        weighted=records.weight is not None or records.grade is not None,
        components=tuple(sorted((named(group == g) for g in range(n_groups)), key=len, reverse=True)),
        never_won=named(seen & (counts.wins.sum(axis=1) == 0)),
        never_lost=named(seen & (counts.wins.sum(axis=0) == 0)),
        rare=tuple(f"{_menu_name(menus, agents, int(m))}: {menus.counts[m]}" for m in rarest),
        n_rare=len(rare),
        n_menus=len(menus),
        could_not_meet=_could_not_meet(records, agents, counts.votes),
        position_bias=bias,
        one_order=bias is None and records.shown is not None and len(records) > 0,
    )


def _menu_name(menus: MenuCatalogue, agents: tuple[str, ...], menu: int) -> str:
    """Return a menu as people would write it, with the form of the question unless it is to rank all."""
    form = int(menus.form[menu])
    asked = {ORDER: "", BEST_WORST: " (best and worst)", PARTIAL: " (some ranked)", 1: " (best)"}
    return "{" + ", ".join(agents[a] for a in menus.members(menu)) + "}" + asked.get(form, f" (best {form})")


def _could_not_meet(records: Records, agents: tuple[str, ...], votes: Ints) -> tuple[tuple[str, str], ...]:
    """Return pairs that never met because one agent had left before the other came."""
    time = records.time
    if time is None or not np.isfinite(time).any():
        return ()
    when = np.repeat(time, records.sizes)
    known = np.isfinite(when)
    first, last = np.full(len(agents), np.inf), np.full(len(agents), -np.inf)
    np.minimum.at(first, records.agent[known], when[known])
    np.maximum.at(last, records.agent[known], when[known])
    apart = (last[:, None] < first[None, :]) | (last[None, :] < first[:, None])
    apart &= np.isfinite(first)[:, None] & np.isfinite(first)[None, :]  # of the others no time is known
    never = np.triu(apart & (votes == 0), 1)
    return tuple((agents[j], agents[k]) for j, k in np.argwhere(never))


# -- showing ----------------------------------------------------------------------------------------------------------


def _summary(cover: Coverage) -> str:
    voters = "" if cover.n_voters is None else f", {cover.n_voters:,} voter{'' if cover.n_voters == 1 else 's'}"
    votes = cover.counts.votes[np.triu_indices(len(cover.agents), 1)]
    spread = np.quantile(votes, [0, 0.5, 1]) if len(votes) else [0]
    lines = [
        f"[bold]{cover.n_records:,}[/] records at [bold]{cover.n_contexts:,}[/] contexts, "
        f"[bold]{len(cover.agents)}[/] agents, {cover.n_menus:,} menus{voters}",
        f"pairs compared: {cover.pairs_seen:,} of {n_pairs(len(cover.agents)):,} ({cover.share_of_pairs:.0%}), "
        f"{', '.join(f'{x:,.0f}' for x in spread)} votes per pair (least, median, most)",
        f"design: [bold]{cover.design}[/] ({cover.design_reason})",
    ]
    if cover.position_bias is not None:
        bias = cover.position_bias
        lead = f"{bias.mean:+.3f} ± {1.96 * bias.error:.3f}"
        lines.append(f"position: the agent shown earlier leads by {lead} in {_both_orders(bias.pairs)}")
    return "\n".join(lines)


def _both_orders(pairs: int) -> str:
    return f"the {'one pair' if pairs == 1 else f'{pairs:,} pairs'} shown in both orders"


def _agent_table(cover: Coverage, most: int = 25) -> Table:
    from rich.table import Table
    from rich.text import Text

    share, order = _pooled(cover.counts)
    title = "Agents, by mean verdict pooled over all contexts"
    table = Table(
        title=title if len(order) <= most else f"{title} (first {most} of {len(order)})", title_justify="left"
    )
    wins, censored = cover.counts.wins, cover.counts.censored.sum(axis=1)
    said = {"won": wins.sum(axis=1), "lost": wins.sum(axis=0), "tied": cover.counts.ties.sum(axis=1)}
    said |= {"not asked": censored} if censored.any() else {}
    weight, digits = ("weight\n", 1) if cover.weighted else ("", 0)
    table.add_column("agent", overflow="fold")
    for name in ["comparisons", *(weight + name for name in said), "mean\nverdict", "opponents"]:
        table.add_column(name, justify="right")
    for i in order[:most]:
        votes, numbers = cover.counts.votes[i], (f"{column[i]:,.{digits}f}" for column in said.values())
        met = int((votes > 0).sum())
        table.add_row(Text(cover.agents[i]), f"{votes.sum():,}", *numbers, f"{share[i]:+.3f}", str(met))
    return table


def _pooled(counts: PairCounts) -> tuple[Floats, Ints]:
    """Return the mean verdict of each agent over all its comparisons, and the agents by it, best first."""
    wins, losses = counts.wins.sum(axis=1), counts.wins.sum(axis=0)
    said = wins + losses + counts.ties.sum(axis=1) + counts.censored.sum(axis=1)
    share = np.divide(wins - losses, said, out=np.zeros(len(said)), where=said > 0)
    return share, np.argsort(-share, kind="stable")


def _pair_table(cover: Coverage) -> Table:
    from rich.table import Table
    from rich.text import Text

    order, votes, margin = _pooled(cover.counts)[1], cover.counts.votes, cover.counts.margin
    table = Table(title="Row against column, votes", title_justify="left")
    table.add_column("", overflow="fold")
    for place in range(len(order)):
        table.add_column(str(place + 1), justify="right")
    for place, j in enumerate(order):
        cells = [f"{margin[j, k]:+.2f}\n{votes[j, k]:,}" if votes[j, k] else "never\nmet" for k in order]
        cells[place] = ""
        table.add_row(Text(f"{place + 1} {cover.agents[j]}"), *cells)
    return table


def _warnings(cover: Coverage) -> list[str]:
    """Say what pairs that were never compared rest on, what the graph of comparisons cannot show, and what is thin."""
    bridged, groups = cover.pairs_bridged, len(cover.components)
    never = "1 pair was never compared but is" if bridged == 1 else f"{bridged:,} pairs were never compared but are"
    return [
        Note(f"{never} connected through others; a fit bridges them by the outcome model, and marks them",
             "bridged-pairs") if bridged else "",
        f"the comparisons fall into {groups} groups that never meet (such as {few(cover.components[1], 4)}): results "
        "across groups are not identified" if groups > 1 else "",
        f"the comparisons form {'a tree' if groups == 1 else 'trees'}: these votes can only tell a ladder, no cycle "
        "can be seen" if cover.only_a_ladder and cover.pairs_seen else "",
        f"never won: {few(cover.never_won, 4)}" if cover.never_won else "",
        f"never lost: {few(cover.never_lost, 4)}" if cover.never_lost else "",
        f"{cover.n_rare:,} of {cover.n_menus:,} menus have fewer than {OFTEN} records "
        f"(rarest: {cover.rare[0]})" if cover.n_rare else "",
        f"{len(cover.could_not_meet):,} pairs could not meet: one agent left before the other came "
        f"(such as {' and '.join(cover.could_not_meet[0])})" if cover.could_not_meet else "",
        _position_warning(cover),
    ]  # fmt: skip


def _position_warning(cover: Coverage) -> str:
    bias = cover.position_bias
    if bias is None or not bias.clear:
        return ONE_ORDER if cover.one_order else ""
    effect = f"the agent shown earlier is {'favoured' if bias.mean > 0 else 'disfavoured'} by {abs(bias.mean):.3f}"
    if bias.balanced:
        return f"{effect}: both orders were shown about equally often, so it cancels out"
    return f"{effect} in {_both_orders(bias.pairs)}: show every pair in both, or model the position"
