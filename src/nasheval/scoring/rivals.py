"""What an answer rests on: which winners were never compared with which rivals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.feedback.links import BRIDGED, SEEN, UNKNOWN
from nasheval.payoff.stage1 import Stage1

_NAMED = 3  # agents in a sentence


def rivals_not_met(status: Ints, won: Bools, up: Bools) -> tuple[Bools, Bools]:
    """Return (n, K) twice: candidates whose payoff against some winner is bridged, and those that nothing connects.

    Args:
        status: (K, K) of pairs, as in `Stage1.status`.
        won: (n, K) the winners.
        up: (n, K) the candidates.
    """
    return ((won @ (status == BRIDGED)) & up, (won @ (status == UNKNOWN)) & up)


def winner_notes(stage1: Stage1, payoff: Floats, winners: Sequence[str], up: Bools) -> Iterator[str]:
    """Say of each winner how many rivals it leads on votes, and with whom it was never compared.

    Args:
        payoff: (K, K) the estimated game.
        winners: most probable first.
        up: (K,) the candidates.
    """
    for winner in winners[:_NAMED]:
        a = stage1.agents.index(winner)
        rivals, status = up & (np.arange(len(up)) != a), stage1.status[a]
        bridged, unknown = (np.flatnonzero(rivals & (status == code)) for code in (BRIDGED, UNKNOWN))
        if not len(bridged) and not len(unknown):
            continue
        leads = int((rivals & (status == SEEN) & (payoff[a] > 0)).sum())
        note = f"{winner} leads {leads} of {int(rivals.sum())} rivals on votes"
        if len(bridged):
            note += f"; it was never compared with {_listed(stage1, bridged)} ({_how_bridged(stage1)})"
        if len(unknown):
            note += f"; nothing connects it with {_listed(stage1, unknown)} (no vote tells which is better)"
        yield note


def context_notes(stage1: Stage1, won: Bools, up: Bools) -> Iterator[str]:
    """Say at how many contexts a winner was never compared with some rival; nothing where all were.

    Args:
        won, up: (n, K) the winners and the candidates.
    """
    bridged, unknown = (int(rivals.any(axis=1).sum()) for rivals in rivals_not_met(stage1.status, won, up))
    if bridged:
        yield (
            f"At {bridged:,} of {len(won):,} contexts a winner was never compared with some rival, and its payoff "
            f"there is {_how_bridged(stage1)}."
        )
    if unknown:
        yield (
            f"At {unknown:,} of {len(won):,} contexts nothing connects a winner with some rival: no vote tells which "
            "is better."
        )


def _how_bridged(stage1: Stage1) -> str:
    return "bridged through others" if stage1.pseudo.unseen == "model" else "taken as a tie"


def _listed(stage1: Stage1, agents: Ints) -> str:
    names = ", ".join(stage1.agents[a] for a in agents[:_NAMED])
    return names + (f" and {len(agents) - _NAMED} more" if len(agents) > _NAMED else "")
