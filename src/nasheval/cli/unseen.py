"""What an answer rests on: which winners were never compared with which rivals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from nasheval.arrays import Bools, Floats, Ints
    from nasheval.estimator import NashEval

_NAMED = 3  # agents or pairs in a sentence


def candidates(model: NashEval, contexts: pa.Table, agents: Sequence[str] | None) -> Bools:
    """Return (n, K) who may win at each of n contexts: the agents asked for, and seen there under availability."""
    import numpy as np
    import pyarrow.compute as pc

    up = np.array([agents is None or agent in agents for agent in model.agents_])
    column, seen = getattr(model.policy_, "column", None), getattr(model.policy_, "seen", {})
    if column is None:
        return np.tile(up, (contexts.num_rows, 1))
    values = pc.cast(contexts[column], "string").to_pylist()
    everyone = np.ones(len(up), bool)
    return np.array([seen.get(value, everyone) & up for value in values]).reshape(contexts.num_rows, len(up))


def rivals_not_met(status: Ints, won: Bools, up: Bools) -> tuple[Bools, Bools]:
    """Return (n, K) twice: candidates whose payoff against some winner is bridged, and those that nothing connects.

    Args:
        status: (K, K) of pairs, as in `Stage1.status`.
        won: (n, K) the winners.
        up: (n, K) the candidates.
    """
    from nasheval.feedback.links import BRIDGED, UNKNOWN

    return ((won @ (status == BRIDGED)) & up, (won @ (status == UNKNOWN)) & up)


def route_lines(model: NashEval, payoff: Floats, winners: Sequence[str], up: Bools) -> Iterator[str]:
    """Say of each winner how many rivals it leads on votes, and with whom it was never compared.

    Args:
        payoff: (K, K) the estimated game.
        winners: most probable first.
        up: (K,) the candidates.
    """
    import numpy as np

    from nasheval.feedback.links import BRIDGED, SEEN, UNKNOWN

    for winner in winners[:_NAMED]:
        a = model.agents_.index(winner)
        rivals = up & (np.arange(len(up)) != a)
        status = np.where(rivals, model.stage1_.status[a], SEEN)
        bridged, unknown = np.flatnonzero(status == BRIDGED), np.flatnonzero(status == UNKNOWN)
        if not len(bridged) and not len(unknown):
            continue
        leads = int((rivals & (model.stage1_.status[a] == SEEN) & (payoff[a] > 0)).sum())
        parts = [f"{winner} leads {leads} of {int(rivals.sum())} rivals on votes"]
        if len(bridged):
            parts.append(f"it was never compared with {_listed(model, bridged)} ({_how(model)})")
        if len(unknown):
            parts.append(f"nothing connects it with {_listed(model, unknown)} (no vote tells which is better)")
        yield "; ".join(parts)


def predict_note(model: NashEval, won: Bools, up: Bools) -> str:
    """Say at how many contexts a winner was never compared with some rival; nothing where all were.

    Args:
        won, up: (n, K) the winners and the candidates.
    """
    bridged, unknown = rivals_not_met(model.stage1_.status, won, up)
    counts = int(bridged.any(axis=1).sum()), int(unknown.any(axis=1).sum())
    said = []
    if counts[0]:
        said.append(f"At {counts[0]:,} of {len(won):,} contexts a winner was never compared with some rival, and its "
                    f"payoff there is {_how(model)}.")  # fmt: skip
    if counts[1]:
        said.append(f"At {counts[1]:,} of {len(won):,} contexts nothing connects a winner with some rival: no vote "
                    "tells which is better.")  # fmt: skip
    return " ".join(said)


def _how(model: NashEval) -> str:
    return "bridged through others" if model.stage1_.pseudo.unseen == "model" else "taken as a tie"


def _listed(model: NashEval, agents: Ints) -> str:
    names = [model.agents_[a] for a in agents[:_NAMED]]
    return ", ".join(names) + (f" and {len(agents) - _NAMED} more" if len(agents) > _NAMED else "")
