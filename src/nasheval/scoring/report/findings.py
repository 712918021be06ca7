"""What stands out, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nasheval.scoring.report.data import FrontierPoint, GroupView, HeldOut

_SURE = 0.9  # share of bootstrap draws from which a winner is sure
_NEAR = 0.02  # exploitability that is still called about as good


def findings(
    agents: tuple[str, ...],
    views: Sequence[GroupView],
    frontier: Sequence[FrontierPoint],
    held_out: HeldOut | None,
    confidence: float,
) -> tuple[str, ...]:
    """Say what stands out on the page; `views` has the group of all contexts first."""
    whole = views[0]
    return (
        _winners(agents, whole),
        *_ladder(agents, whole),
        *_context_by_context(agents, whole),
        *_by_column(agents, views),
        _cycles(agents, whole, views, confidence),
        *_saving(frontier),
        *([] if held_out is None else [f"On the held-out log: {held_out.verdict}"]),
    )


def _winners(agents: tuple[str, ...], whole: GroupView) -> str:
    if len(whole.winners) == 1:
        [best] = whole.winners
        steady = f"it is among the winners in {whole.frequency[best]:.0%} of bootstrap draws"
        return f"Over all contexts taken together, {agents[best]} is the only winner; {steady}."
    shares = [f"{agents[a]} {whole.lottery[a]:.2f}" for a in whole.winners]
    return f"Over all contexts taken together no agent beats all others; the winning lottery is {listed(shares)}."


def _ladder(agents: tuple[str, ...], whole: GroupView) -> Iterator[str]:
    rated = [(rating, a) for a, rating in enumerate(whole.rating) if rating is not None]
    if rated and max(rated)[1] not in whole.winners:
        yield f"{agents[max(rated)[1]]} has the highest rating and is not among the winners."


def _context_by_context(agents: tuple[str, ...], whole: GroupView) -> Iterator[str]:
    often = sorted(((share, -a) for a, share in enumerate(whole.won) if share), reverse=True)
    if often:
        shares = [f"{agents[-a]} at {share:.0%}" for share, a in often[:3]]
        yield f"Context by context, the most frequent winners are {listed(shares)} of contexts."


def _by_column(agents: tuple[str, ...], views: Sequence[GroupView]) -> Iterator[str]:
    same = []
    for column in dict.fromkeys(view.column for view in views[1:]):
        groups = [view for view in views if view.column == column]
        other = [view for view in groups if _differs(view, views[0])]
        if not other:
            same.append(column)
            continue
        most = max(other, key=lambda view: view.contexts)
        count = f"{len(other)} of {len(groups)} groups {'has' if len(other) == 1 else 'have'}"
        winners = listed([agents[a] for a in most.winners])
        yield f"By {column}: {count} clearly other winners than all contexts together, such as {most.name}: {winners}."
    if same:
        yield f"By {listed(same)}: no group has clearly other winners than all contexts together."


def _differs(view: GroupView, whole: GroupView) -> bool:
    """Tell whether an agent wins in nearly all draws here and not overall, or the other way round."""
    new = any(view.frequency[a] >= _SURE for a in range(len(view.frequency)) if a not in whole.winners)
    return new or any(view.frequency[a] <= 1 - _SURE for a in whole.winners)


def _cycles(agents: tuple[str, ...], whole: GroupView, views: Sequence[GroupView], confidence: float) -> str:
    some = sum(1 for view in views[1:] if view.preferences.n_cycles)
    groups = f" {some} of {len(views) - 1} groups {'has' if some == 1 else 'have'} one." if some else ""
    cycles, held = whole.preferences.cycles, whole.preferences.n_cycles
    if not held:
        nor = f", nor in any of {len(views) - 1} groups" if len(views) > 1 and not some else ""
        return f"No cycle of preferences holds at {confidence:.0%} confidence over all contexts{nor}.{groups}"
    first = " beats ".join(agents[a] for a in (*cycles[0], cycles[0][0]))
    count = "1 cycle holds" if held == 1 else f"{held:,} cycles hold"
    return f"{count} at {confidence:.0%} confidence over all contexts: {first}. No rating can express that.{groups}"


def _saving(frontier: Sequence[FrontierPoint]) -> Iterator[str]:
    prices = [point for point in frontier if point.kind == "price"]
    if not prices or prices[0].cost <= 0:
        return
    free = prices[0]
    near = [point for point in prices if point.exploitability <= free.exploitability + _NEAR]
    cheapest = min(near, key=lambda point: point.cost)
    saved = 1 - cheapest.cost / free.cost
    if saved >= 0.01:
        yield (
            f"At a cost weight of {cheapest.cost_weight:g}, expected cost falls by {saved:.0%} for an estimated "
            f"exploitability of {cheapest.exploitability:.3f}."
        )


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return "a", "a and b", or "a, b and c", cut short after a few."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
