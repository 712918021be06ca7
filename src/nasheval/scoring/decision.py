"""What to do: which agent to ship, and how sure the votes are of it.

The leader is chosen from the same votes that its lead is measured on, so every limit here holds for all pairs of a
group together, whichever agent leads (`GroupPayoff.interval`); of several groups, for all groups together. A pair that
was not compared in the group may be anything: bridges settle nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, floor, isfinite
from typing import Any

import numpy as np
from scipy.stats import norm

from nasheval.arrays import Bools, Floats, Ints
from nasheval.choices import AS_VOTED
from nasheval.errors import Argument, InputError
from nasheval.feedback.links import SEEN
from nasheval.feedback.log import Feedback
from nasheval.game.costs import SoftBudget
from nasheval.notes import few
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.inference import GroupPayoff
from nasheval.policy.choosing import WINNER
from nasheval.policy.terms import AnyCosts
from nasheval.scoring.heldout import costs_of
from nasheval.scoring.ties import best_lottery, limits_together, tie_groups

MARGIN = 0.05  # how much worse an agent may be and still be called as good
_MOST_GROUPS = 20  # of a column that a decision looks at, those with most contexts
_MOST_NAMED = 3
_TINY = 1e-9


# -- what a decision is -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lead:
    """What one agent wins over another on average, with limits that hold for all pairs together.

    Args:
        agent, over: the two agents.
        value, lower, upper: estimate and limits.
    """

    agent: str
    over: str
    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        """Print estimate and limits, these rounded away from the estimate, so that what is printed holds too."""
        return f"{self.value:.2f} [{_down(self.lower):.2f}, {-_down(-self.upper):.2f}]"


@dataclass(frozen=True)
class Doubt:
    """Why a leader is not shown to be as good as every other agent, or nearly.

    Args:
        beaten: the agent that certainly beats it, by most.
        cycle: agents of which each certainly beats the next, and the last the first; empty where none is certain.
        better: agents that may be better by more than the margin, the one that may be furthest ahead first.
        ahead: by how much that one may be.
        thin: agents with too few votes against the leader to tell anything.
        unmet: agents that were never compared with it.
        more_votes: roughly how many more votes between it and all of these might settle it; None: no number would.
    """

    beaten: Lead | None
    cycle: tuple[str, ...]
    better: tuple[str, ...]
    ahead: float
    thin: tuple[str, ...]
    unmet: tuple[str, ...]
    more_votes: int | None


@dataclass(frozen=True)
class Preference:
    """A group of contexts in which another agent is certainly better.

    Args:
        group: its name.
        lead: of the better agent over the one that the decision names.
        times_cost: what it costs, as a multiple; None where costs are not known, or not positive.
    """

    group: str
    lead: Lead
    times_cost: float | None


@dataclass(frozen=True)
class Decision:
    """Which agent to ship, on the votes of a group of contexts; prints as one to three sentences.

    Args:
        agent: the one to ship; None where the votes do not decide.
        leader: the agent with most of the winning lottery, as estimated.
        lead: of `agent` (None: of the leader) over the agent nearest to being better: the leader, if that is another.
        tied: the tie group: agents that the votes do not tell apart from the winning lottery.
        agents: how many have a vote.
        lottery: the winning lottery.
        votes: how many there are.
        margin: how much worse an agent may be and still be shipped.
        saved: share of the leader's cost that the agent saves; None without costs, or where the leader is shipped.
        cheaper: how many agents cost less than the agent to ship; None without costs.
        doubt: on the leader; None where it is shown to be at most `margin` worse than any other.
        too_dear: agents with a vote that a hard budget forbids.
        budget: that budget; None without one.
        column: the context column of `elsewhere`.
        elsewhere: the groups in which another agent is certainly better, those with most contexts first.
        estimand: what it is about: payoffs "as voted", or "at equal style".
    """

    agent: str | None
    leader: str
    lead: Lead
    tied: tuple[str, ...]
    agents: int
    lottery: dict[str, float]
    votes: int
    margin: float
    saved: float | None
    cheaper: int | None
    doubt: Doubt | None
    too_dear: tuple[str, ...]
    budget: float | None
    column: str
    elsewhere: tuple[Preference, ...]
    estimand: str = AS_VOTED

    @property
    def sentences(self) -> tuple[str, ...]:
        """The decision in words."""
        about = () if self.estimand == AS_VOTED else (f"This is {self.estimand}, not as voted.",)
        return (*_sentences(self), *about)

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"sentences": list(self.sentences), **asdict(self)}


# -- deciding ---------------------------------------------------------------------------------------------------------


def decide(
    log: Feedback,
    payoff: GroupPayoff,
    groups: Sequence[GroupPayoff] = (),
    *,
    column: str = "",
    costs: AnyCosts | None = None,
    margin: float = MARGIN,
    budget: float | SoftBudget | None = None,
) -> Decision:
    """Decide which agent to ship; command line, report and estimator all ask here.

    Without costs it is the leader, if it is shown to be at most `margin` worse than any other agent. With costs it is
    the cheapest agent that is shown to be at most `margin` worse than the leader, unless some agent certainly beats it.

    Args:
        log: the votes.
        payoff: mean payoffs of all contexts.
        groups: those of the groups of a column, to say where another agent is better; the 20 largest are looked at.
        column: its name.
        costs: {agent: cost}, or {agent: context column that holds it}.
        margin: in units of payoffs: 0.05 is five more losses than wins in a hundred.
        budget: as in `NashEval`: agents that cost more than a hard one, at some context, are no candidates.
    """
    if not 0 <= margin < 1:
        raise InputError(Argument("margin", margin), "; accepted is a number from 0 to below 1, such as 0.05.")
    limit = None if costs is None or isinstance(budget, SoftBudget) else budget
    affordable, *groups = (_affordable(log, one, costs, limit) for one in (payoff, *groups))
    too_dear, payable = payoff.present & ~affordable.present, bool(affordable.present.any())
    payoff = affordable if payable else payoff
    ends, lottery = limits_together([payoff])[0], best_lottery(payoff)
    leader = int(lottery.round(6).argmax())
    prices = None if costs is None else _mean_costs(log, payoff, costs)
    doubt = _doubt(payoff, ends, leader, margin) if payable else None
    beaten = doubt is not None and doubt.beaten is not None  # to be near to an agent that is beaten says little
    choice = leader if prices is None or beaten else _cheapest(ends[0], payoff, prices, leader, margin)
    others = np.where(payoff.present & (np.arange(len(lottery)) != leader), ends[0][leader], np.inf)
    nearest = leader if choice != leader or payoff.present.sum() == 1 else int(others.argmin())
    return Decision(
        agent=payoff.agents[choice] if payable and (choice != leader or doubt is None) else None,
        leader=payoff.agents[leader],
        lead=_lead(payoff, ends, choice, nearest),
        tied=_names(payoff, np.flatnonzero(tie_groups([payoff])[0])),
        agents=int(payoff.present.sum()),
        lottery={payoff.agents[a]: round(float(lottery[a]), 4) for a in np.argsort(-lottery) if lottery[a] > WINNER},
        votes=int(np.diff(log.context_offsets)[payoff.inside].sum()),
        margin=margin,
        saved=None if prices is None or choice == leader else _saved(prices[choice], prices[leader]),
        cheaper=None if prices is None else int((payoff.present & (prices < prices[choice])).sum()),
        doubt=doubt,
        too_dear=_names(payoff, np.flatnonzero(too_dear)),
        budget=limit,
        column=column,
        elsewhere=_elsewhere([group for group in groups if group.present.any()], choice, prices),
        estimand=payoff.estimand,
    )


def _affordable(log: Feedback, payoff: GroupPayoff, costs: AnyCosts | None, limit: float | None) -> GroupPayoff:
    """Return a group's payoffs among the agents that cost at most the limit at each of its contexts."""
    if costs is None or limit is None:
        return payoff
    each = costs_of(log, costs)
    return replace(payoff, allowed_agents=(each if each.ndim == 1 else each[payoff.inside].max(axis=0)) <= limit)


def _mean_costs(log: Feedback, payoff: GroupPayoff, costs: AnyCosts) -> Floats:
    each = costs_of(log, costs)
    return each if each.ndim == 1 else np.asarray(each[payoff.inside].mean(axis=0))


def _cheapest(low: Floats, payoff: GroupPayoff, prices: Floats, leader: int, margin: float) -> int:
    """Return the cheapest agent that is at most `margin` worse than the leader; of equal cost, the leader or best."""
    lower = low[:, leader]
    able = payoff.present & ((lower > -margin) | (np.arange(len(lower)) == leader))
    order = np.lexsort((-lower, np.arange(len(lower)) != leader, prices))
    return int(order[able[order]][0])


def _saved(cost: float, leaders: float) -> float | None:
    return float(1 - cost / leaders) if cost >= 0 and leaders > 0 else None


def _lead(payoff: GroupPayoff, ends: tuple[Floats, Floats], a: int, b: int) -> Lead:
    value = float(np.clip(payoff.estimate[a, b], -1, 1))
    return Lead(payoff.agents[a], payoff.agents[b], value, float(ends[0][a, b]), float(ends[1][a, b]))


def _names(payoff: GroupPayoff, agents: Ints) -> tuple[str, ...]:
    return tuple(payoff.agents[a] for a in agents)


def _doubt(payoff: GroupPayoff, ends: tuple[Floats, Floats], leader: int, margin: float) -> Doubt | None:
    """Return why the leader may be more than `margin` worse than another agent; None where it is shown not to be."""
    lower, upper = (end[leader] for end in ends)
    rivals = rivals_of(payoff.present, lower, leader, margin)
    if not len(rivals):
        return None
    seen, told = payoff.status[leader, rivals] == SEEN, (lower[rivals] > -1) | (upper[rivals] < 0)
    better = rivals[seen & told]
    beaten = better[upper[better] < 0]
    most = None if not len(beaten) else _lead(payoff, ends, int(beaten[upper[beaten].argmin()]), leader)
    able = {*_names(payoff, np.flatnonzero(payoff.present))}
    circles = (one.agents for one in payoff.cycles() if payoff.agents[leader] in one.agents and able >= {*one.agents})
    cycle = next(circles, ()) if most else ()
    return Doubt(
        beaten=most,
        cycle=cycle,
        better=_names(payoff, better),
        ahead=float(-lower[better[0]]) if len(better) else 0.0,
        thin=_names(payoff, rivals[seen & ~told]),
        unmet=_names(payoff, rivals[~seen]),
        more_votes=_more_votes(payoff, ends, leader, rivals, margin),
    )


def rivals_of(present: Bools, lower: Floats, leader: int, margin: float) -> Ints:
    """Return the agents that may be better than a leader by the margin or more, the one furthest ahead first.

    A leader without any is shown to be at most the margin worse than every other agent; plans ask here too.

    Args:
        present: (K,) the candidates.
        lower: (K,) lower limits of what the leader wins over each.
    """
    rivals = np.flatnonzero(present & (lower <= -margin) & (np.arange(len(lower)) != leader))
    return np.asarray(rivals[np.argsort(lower[rivals], kind="stable")])


def _more_votes(
    payoff: GroupPayoff, ends: tuple[Floats, Floats], leader: int, rivals: Ints, margin: float
) -> int | None:
    """Return roughly how many more votes between the leader and rivals might settle its doubts, estimates staying.

    Widths by Wald's test fall with the root of votes; those that the score test cuts, where votes are few, fall less.
    A pair whose width is not known is taken to need what fair coins would.
    """
    K, value = len(payoff.agents), payoff.estimate[leader, rivals]
    goal = np.maximum(margin + value, np.abs(value))  # narrow enough to show it as good, or worse
    if goal.min() <= _TINY:
        return None
    votes = pair_matrix(payoff.moments.votes, K)[leader, rivals]
    many = replace(payoff.moments, effective=np.full_like(payoff.moments.effective, np.inf))  # Wald's test alone
    low, high = (end[leader, rivals] for end in limits_together([replace(payoff, moments=many)])[0])
    half = np.maximum(value - low, high - value)  # one end may be cut
    coin = norm.isf((1 - payoff.confidence) / max(K * (K - 1), 2)) / goal
    told = ends[0][leader, rivals] > -1
    needed = np.where(told, votes * np.maximum((half / goal) ** 2 - 1, 0.0), coin**2)
    return rough(needed.sum())


def _elsewhere(groups: Sequence[GroupPayoff], choice: int, prices: Floats | None) -> tuple[Preference, ...]:
    """Return the groups whose own leader certainly beats the choice, all groups together."""
    largest = sorted(groups, key=lambda group: -group.moments.n_contexts)[:_MOST_GROUPS]
    found = []
    for group, ends in zip(largest, limits_together(largest), strict=True):
        best = int(best_lottery(group).round(6).argmax())
        if ends[0][best, choice] > 0:
            times = None
            if prices is not None and prices[choice] > 0 and prices[best] >= 0:
                times = float(prices[best] / prices[choice])
            found.append(Preference(group.name, _lead(group, ends, best, choice), times))
    return tuple(found)


# -- saying it --------------------------------------------------------------------------------------------------------


def _sentences(decision: Decision) -> Iterator[str]:
    on, doubt = f"on these {decision.votes:,} votes", decision.doubt
    if decision.agent is None and doubt is None:
        yield f"No single agent costs at most the budget of {decision.budget:g} {on}, at every context."
        return
    if decision.agents == 1:
        yield f"Ship {decision.agent}: no other agent costs at most the budget of {decision.budget:g}."
    elif decision.agent is None and doubt is not None:
        opening = (
            f"Undecided {on}: {_leads(decision)}, but" if doubt.beaten is None else f"No agent is shown best {on}:"
        )
        yield f"{opening} {_why(decision, doubt)}."
    elif decision.agent != decision.leader:
        saving = f", {decision.saved:.0%} cheaper" if decision.saved else ", and cheaper"
        yield f"Ship {decision.agent}: {_standing(decision.lead)} {on} ({decision.lead}){saving}."
        if doubt is not None:
            yield f"Whether {decision.leader} is best itself is open: {_why(decision, doubt)}."
    else:
        yield f"Ship {decision.agent}: {_over_all(decision, decision.lead, on)}{_priced(decision)}."
    if decision.elsewhere:
        yield _exceptions(decision)
    if decision.too_dear:
        yield f"Left out, beyond the budget of {decision.budget:g}: {few(decision.too_dear, _MOST_NAMED)}."


def _leads(decision: Decision) -> str:
    share = decision.lottery[decision.leader]
    if share > 1 - WINNER:
        return f"{decision.leader} leads"
    return f"{decision.leader} has most of the winning lottery ({share:.2f})"


def _standing(lead: Lead) -> str:
    if lead.lower >= 0:
        return f"no worse than {lead.over}"
    return f"at most {-_down(lead.lower):.2f} worse than {lead.over}"


def _over_all(decision: Decision, lead: Lead, on: str) -> str:
    rivals = decision.agents - 1
    if lead.lower > 0:
        every = f"each of the other {rivals} agents" if rivals > 1 else lead.over
        return f"better than {every} {on} ({f'least clearly than {lead.over}: ' if rivals > 1 else ''}{lead})"
    every = f"any of the other {rivals} agents" if rivals > 1 else lead.over
    return f"at most {-_down(lead.lower):.2f} worse than {every} {on} ({f'{lead.over}: ' if rivals > 1 else ''}{lead})"


def _priced(decision: Decision) -> str:
    if decision.cheaper is None:
        return ""
    near = f"; no cheaper one is shown to be at most {decision.margin:g} worse"
    return near if decision.cheaper else ", and none is cheaper"


def _why(decision: Decision, doubt: Doubt) -> str:
    """Say why a leader is not shown to be best, and what might settle it."""
    if doubt.beaten is not None:
        shares = [f"{agent} {share:.2f}" for agent, share in decision.lottery.items()]
        circle = " beats ".join((*doubt.cycle, *doubt.cycle[:1]))
        why = circle or f"{doubt.beaten.agent} beats the leader, {decision.leader} ({doubt.beaten})"
        return f"{why}; what no single agent is estimated to beat is the lottery {few(shares, _MOST_NAMED + 2)}"
    count = len(doubt.better) + len(doubt.thin) + len(doubt.unmet)
    them = "the two" if count == 1 else f"{decision.leader} and these"
    some = f"; very roughly {doubt.more_votes:,} more votes between {them} might decide" if doubt.more_votes else ""
    return "; ".join(_reasons(decision, doubt, count)) + some


def _reasons(decision: Decision, doubt: Doubt, count: int) -> Iterator[str]:
    if count > _MOST_NAMED:
        kinds = {"was never compared with": doubt.unmet, "met too seldom to tell": doubt.thin}
        which = [f"{_share(len(agents), count)} of which it {verb}" for verb, agents in kinds.items() if agents]
        some = f"{_share(count, decision.agents - 1)} of the other {decision.agents - 1} agents"
        yield ", ".join([f"{some} may be better by {decision.margin:g} or more", *which])
        return
    for agent in doubt.better[:1]:
        yield f"{agent} may be up to {-_down(-doubt.ahead):.2f} better"
    for agent in doubt.better[1:]:
        yield f"{agent} may be better by {decision.margin:g} or more"
    if doubt.thin:
        yield f"too few votes compare it with {', '.join(doubt.thin)}"
    if doubt.unmet:
        yield f"it was never compared with {', '.join(doubt.unmet)}"


def _share(some: int, of: int) -> str:
    return "each" if some == of else str(some)


def _exceptions(decision: Decision) -> str:
    some = [
        f"{decision.column} {one.group} prefer {one.lead.agent} to {one.lead.over} ({one.lead}"
        + (f", at {one.times_cost:.2g} times the cost)" if one.times_cost is not None else ")")
        for one in decision.elsewhere[:_MOST_NAMED]
    ]
    more = len(decision.elsewhere) - _MOST_NAMED
    rest = f"; another is better in {more} more group{'s' if more > 1 else ''}" if more > 0 else ""
    return f"For {'; for '.join(some)}{rest}."


def _down(number: float) -> float:
    """Round down to two digits."""
    return floor(round(number * 100, 6)) / 100


def rough(number: float) -> int | None:
    """Round up to two digits that matter."""
    if not isfinite(number) or number > 1e12:
        return None
    unit = 10 ** max(len(str(int(number))) - 2, 0)
    return max(1, ceil(number / unit)) * unit
