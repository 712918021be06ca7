"""`promote`: should a new policy take the place of an old one, or the votes decide later?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal

import numpy as np

from nasheval.arrays import Floats, Ints, as_number
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.files import json_values
from nasheval.notes import few
from nasheval.payoff.anytime import PLANNED
from nasheval.payoff.intervals import checked_level
from nasheval.policy.base import Policy
from nasheval.scoring.evaluate import evaluate

GAIN = 0.02  # what a change must win to be worth it
_LITTLE = 0.5  # width of an interval that says that not much is at stake
_OLD, _NEW = "old", "new"


@dataclass(frozen=True)
class Promotion:
    """Whether the new policy takes the old one's place; prints as a sentence.

    Args:
        decision: "promote", "keep" (the old one) or "wait" (for more votes).
        reason: why, in a sentence.
        value: what the new policy wins against the old one, from -1 to 1.
        error: its standard error.
        lower, upper: bounds of it, each at the confidence and at every look together.
        gain: what a change must win to be worth it.
        confidence: of each bound.
        votes: that were looked at.
        planned: about which a decision was expected.
        notes: what to know before trusting it.
    """

    decision: Literal["promote", "keep", "wait"]
    reason: str
    value: float
    error: float
    lower: float
    upper: float
    gain: float
    confidence: float
    votes: int
    planned: int
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return json_values(asdict(self))

    def __str__(self) -> str:
        return f"{self.decision}: {self.reason}"


def promote(
    old: Policy,
    new: Policy,
    votes: Feedback,
    *,
    gain: float = GAIN,
    confidence: float = 0.95,
    planned: int = PLANNED,
    **options: Any,
) -> Promotion:
    """Say whether to promote a new policy, keep the old one, or wait for more votes.

    Look as often as you like while votes come in: over all looks together, a new policy that is no better than the old
    one is promoted with a chance of 1 - confidence at most. All votes since the first look go in each time, and neither
    policy may have been fitted on them.

    Args:
        old, new: fitted models or policies.
        votes: the log so far.
        gain: the old one is kept as soon as the new one surely wins less than this.
        confidence: of each of the two answers.
        planned: the votes about which you expect to decide; named before the first look, and kept.
        options: of `evaluate`, such as propensity="known".
    """
    smallest = as_number(gain)
    if smallest is None or not 0 <= smallest < 1:
        raise InputError(f"gain is {gain!r}; accepted is a number from 0 to below 1.")
    level = checked_level(confidence)
    if level <= 0.5:
        raise InputError(f"confidence is {confidence!r}; accepted is a number above 0.5, for a bound on one side.")
    if not isinstance(votes, Feedback):
        raise InputError(f"votes is a {type(votes).__name__}; accepted is a log, such as ne.read_votes(...) returns.")
    both, sure = {_OLD: old, _NEW: new}, dict[str, Any](gain=smallest, confidence=level)
    known = {name: _among_named(policy, votes) for name, policy in both.items()}
    if unseen := sorted({name for _, played in known.values() for name in played}):
        reason = f"no vote names {few(unseen, 4)} yet, which a policy plays."
        return Promotion("wait", reason, 0.0, inf, -1.0, 1.0, **sure, votes=votes.n_records, planned=planned)
    among = {name: policy for name, (policy, _) in known.items()}
    found = evaluate(among, votes, confidence=2 * level - 1, sequential=True, planned=planned, **options)
    value, lower, upper = (float(numbers[1, 0]) for numbers in (found.value, found.lower, found.upper))
    decision: Literal["promote", "keep", "wait"] = "promote" if lower > 0 else "keep" if upper < smallest else "wait"
    sure.update(lower=lower, upper=upper)
    reason = _reason(decision, value, votes=votes.n_records, planned=planned, **sure)
    error = float(found.overall.error[1, 0])
    return Promotion(decision, reason, value, error, **sure, votes=votes.n_records, planned=planned, notes=found.notes)


@dataclass(frozen=True, eq=False)
class _Among:
    """A policy among some of its agents, of which the others are never played.

    Args:
        policy: it.
        agents: those that stay.
        kept: their places among its agents.
    """

    policy: Policy
    agents: tuple[str, ...]
    kept: Ints

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return (n, agents) lotteries."""
        return np.ascontiguousarray(np.asarray(self.policy.predict_proba(contexts, agents=agents))[:, self.kept])


def _among_named(policy: Policy, votes: Feedback) -> tuple[Policy, tuple[str, ...]]:
    """Return a policy among the agents that votes name, and those that it plays and no vote names."""
    names = _agents(policy)
    new = np.array([name not in votes.agents for name in names], bool)
    if not new.any():
        return policy, ()
    most = np.asarray(policy.predict_proba(votes.contexts))[:, new].max(axis=0, initial=0.0)
    played = tuple(names[place] for place, share in zip(np.flatnonzero(new), most, strict=True) if share > 0)
    kept = np.flatnonzero(~new)
    return _Among(policy, tuple(names[place] for place in kept), kept), played


def _agents(policy: Any) -> tuple[str, ...]:
    """Return the agents of a policy, or of the one inside a fitted model."""
    return tuple(getattr(getattr(policy, "policy_", policy), "agents", ()))


def _reason(
    decision: str, value: float, *, lower: float, upper: float, gain: float, confidence: float, votes: int, planned: int
) -> str:
    seen = f"it won {value:+.3f} over {votes:,} votes"
    if decision == "promote":
        return f"the new policy is better; {seen}, and surely more than {lower:+.3f} (at {confidence:.0%}, every look)."
    if decision == "keep":
        worth = "it loses" if upper < 0 else f"it wins less than the {gain:g} that make a change worth it"
        return f"{worth}; {seen}, and surely less than {upper:+.3f} (at {confidence:.0%}, every look)."
    told = f"the votes cannot tell yet; {seen}, and lies between {lower:+.3f} and {upper:+.3f}."
    late = f" That is {votes / planned:.1f} times the {planned:,} votes planned"
    late += ": little is at stake." if upper - lower < _LITTLE else "; intervals are widest far from that number."
    return told + (late if votes > 2 * planned else "")
