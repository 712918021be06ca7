"""A vote of /v1/feedback -> the row that is stored; the forms are those of `nasheval.partition`."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from typing import Any

from nasheval.errors import InputError, one_line
from nasheval.feedback.partition import Partition, Zero, best_worst, duel, ranking, scores, top, weak, winner
from nasheval.serving.bodies import FeedbackRequest
from nasheval.serving.problems import invalid

FORMS = ("blocks", "winner", "ranking", "top", "best", "scores")
ZERO = {"tie": Zero.TIE, "both_bad": Zero.BOTH_BAD, "censored": Zero.CENSORED, "last": Zero.LAST}
_NAMES = {code: name for name, code in ZERO.items()}
SKIP = "skip"


def menu_of(vote: FeedbackRequest, proposed: Sequence[str] | None) -> list[str]:
    """Return the menu that was voted on: the proposed one, the one that is given, or the agents of the answer."""
    if proposed is not None:
        if vote.menu is not None and sorted(vote.menu) != sorted(proposed):
            raise invalid(f"menu is not the one that was proposed, {', '.join(proposed)}; leave it out", "menu")
        return list(proposed)
    if vote.menu is not None:
        menu = vote.menu
    elif vote.blocks is not None:
        menu = [agent for block in vote.blocks for agent in block]
    elif vote.ranking is not None:
        menu = vote.ranking
    elif vote.scores is not None:
        menu = [*vote.scores]
    else:
        raise invalid("neither decision_id nor menu was given; give the agents that were compared", "menu")
    if len(set(menu)) < len(menu):
        raise invalid("menu names an agent twice; name each agent once", "menu")
    if len(menu) < 2:
        raise invalid("menu holds fewer than two agents, which compares nothing", "menu")
    return menu


def answer_of(vote: FeedbackRequest, menu: Sequence[str]) -> tuple[str | None, str]:
    """Return the blocks as JSON, None for a skip, and what a shared block means; raises a Problem."""
    given = [name for name in FORMS if getattr(vote, name) is not None]
    if vote.worst is not None and vote.best is None:
        raise invalid("worst was given without best; give both", "worst")
    if len(given) > 1:
        raise invalid(f"{given[0]} and {given[1]} were both given; give one of them", given[1])
    if vote.zero is not None and given not in ([], ["blocks"]):
        raise invalid(f"zero goes with blocks, or alone, not with {given[0]}; leave it out", "zero")
    if vote.zero == SKIP and not given:
        return None, SKIP
    if vote.zero == SKIP:
        raise invalid("zero is 'skip', and there is an answer; leave one of them out", "zero")
    form = given[0] if given else "zero"
    try:
        partition = _partition(vote, menu, form)
    except InputError as error:
        raise invalid(one_line(error)[:400], form) from None
    if sorted(map(str, partition.menu)) != sorted(menu):
        said = f"{form} does not hold the agents of the menu, {', '.join(menu)}; give each of these once"
        raise invalid(said, form)
    return json.dumps([list(block) for block in partition.blocks], ensure_ascii=False), _NAMES[partition.zero]


def _partition(vote: FeedbackRequest, menu: Sequence[str], form: str) -> Partition:
    agents: tuple[Hashable, ...] = tuple(menu)
    match form:
        case "blocks":
            blocks = weak(vote.blocks or []).blocks
            return Partition(blocks, ZERO[vote.zero] if vote.zero else Zero.TIE)
        case "winner":
            assert vote.winner is not None
            return duel(menu[0], menu[1], vote.winner) if len(menu) == 2 else winner(vote.winner, agents)
        case "ranking":
            return ranking(vote.ranking or [])
        case "top":
            return top(vote.top or [], agents)
        case "best":
            if vote.worst is None:
                raise InputError("best was given without worst; give both, or winner alone")
            return best_worst(vote.best, vote.worst, agents)
        case "scores":
            return scores({name: score for name, score in (vote.scores or {}).items()})  # noqa: C416 (for its type)
        case _:
            if vote.zero is None:
                accepted = "blocks, winner, ranking, top, best and worst, or scores"
                raise InputError(f"there is no answer; give {accepted}, or zero: tie, both_bad or skip")
            if vote.zero in ("censored", "last"):
                raise InputError(f"zero is {vote.zero!r}, which needs blocks; alone it may be tie, both_bad or skip")
            return Partition((agents,), ZERO[vote.zero])


def row_of(vote: FeedbackRequest, **columns: Any) -> dict[str, Any]:
    """Return the row of a vote."""
    return {"key": vote.key, "voter": vote.voter, **columns}
