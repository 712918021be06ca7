"""`promote`: should a new policy take the place of an old one, or the votes decide later?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal

from nasheval.arrays import as_number
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.files import json_values
from nasheval.notes import few
from nasheval.payoff.anytime import PLANNED
from nasheval.payoff.intervals import checked_level
from nasheval.policy.base import Policy
from nasheval.scoring.evaluate import evaluate

GAIN = 0.02  # what a change must win to be worth it
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
    both, sure = {_OLD: old, _NEW: new}, dict[str, Any](gain=smallest, confidence=level)
    if unseen := [name for each in both.values() for name in _agents(each) if name not in votes.agents]:
        reason = f"no vote names {few(sorted(set(unseen)), 4)} yet."
        return Promotion("wait", reason, 0.0, inf, -1.0, 1.0, **sure, votes=votes.n_records, planned=planned)
    found = evaluate(both, votes, confidence=2 * level - 1, sequential=True, planned=planned, **options)
    value, lower, upper = (float(numbers[1, 0]) for numbers in (found.value, found.lower, found.upper))
    decision: Literal["promote", "keep", "wait"] = "promote" if lower > 0 else "keep" if upper < smallest else "wait"
    sure.update(lower=lower, upper=upper)
    reason = _reason(decision, value, votes=votes.n_records, planned=planned, **sure)
    error = float(found.overall.error[1, 0])
    return Promotion(decision, reason, value, error, **sure, votes=votes.n_records, planned=planned, notes=found.notes)


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
    late = f" That is {votes / planned:.1f} times the {planned:,} votes planned: little is at stake."
    return told + (late if votes > 2 * planned else "")
