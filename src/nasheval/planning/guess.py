"""What votes would say of each pair, before there are any: from how many agents and voters, and a guess of margins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nasheval.arrays import Bools, Floats, as_number, is_whole
from nasheval.errors import Argument, InputError
from nasheval.feedback.links import SEEN
from nasheval.payoff.clusters import Moments
from nasheval.payoff.grouped import FEW
from nasheval.payoff.inference import GroupPayoff
from nasheval.planning.future import EVEN, Pairs

MARGINS = 0.2
_DISAGREEMENT = 0.3  # deviation of what single voters think of a pair
_MOST_AGENTS = 1000


def guessed(
    agents: int,
    voters: int | None = None,
    margins: npt.ArrayLike = MARGINS,
    *,
    cyclic: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
) -> Pairs:
    """Return what one vote of each pair would say, all pairs asked alike and each vote at a context of its own.

    Args:
        agents: K, named a1, a2, ...
        voters: how many, the same throughout; with 20 or more, intervals speak for others like them too, whose mean is
            never known better than so many voters tell it. None: others come along with the votes.
        margins: by how much each agent beats every later one, a number; or (K, K) payoffs.
        cyclic: whether, of a number, the third agent beats the first.
    """
    if not is_whole(agents, 2, _MOST_AGENTS):
        raise InputError(Argument("agents", agents), f"; accepted is a whole number from 2 to {_MOST_AGENTS:,}.")
    if voters is not None and not is_whole(voters, 1):
        raise InputError(Argument("voters", voters), "; accepted is how many there are, a whole number of 1 or more.")
    K, P = int(agents), int(agents) * (int(agents) - 1) // 2
    truth = _margins(margins, K)
    if cyclic and np.ndim(margins) == 0 and K > 2:
        truth[1] *= -1
    nobody: Floats = np.zeros(P)
    today = Moments(
        mean=truth,
        variance=nobody,
        factor=np.zeros((1, P)),
        effective=nobody,
        freedom=nobody,
        votes=np.zeros(P, np.int64),
        status=np.full(P, SEEN),
        bias=nobody,
        n_contexts=P,
        n_clusters=P,
        cluster="context",
    )
    inside: Bools = np.ones(P, bool)
    everybody: Bools = np.ones(K, bool)
    payoff = GroupPayoff("all", tuple(f"a{a + 1}" for a in range(K)), inside, today, confidence, seed=seed)
    payoff.__dict__["present"] = everybody  # nobody has voted yet, and everybody will be asked
    population = voters is not None and voters >= FEW
    return Pairs(
        today=payoff,
        votes=np.ones(P),
        square=1 - truth**2,
        weight=np.ones(P),
        excess=nobody,
        rest=nobody,
        truth=truth,
        spread=nobody,
        freedom=(EVEN, EVEN),
        per_vote=np.ones(P),
        known=True,
        kept=False,
        fixed=_DISAGREEMENT**2 / voters if voters is not None and population else 0.0,
        voters=voters if voters is not None and population else 0,
    )


def _margins(margins: npt.ArrayLike, K: int) -> Floats:
    """Return (P,) payoffs of the pairs j < k."""
    given = np.asarray(margins, np.float64) if not isinstance(margins, str) else np.asarray(np.nan)
    j, k = np.triu_indices(K, 1)
    if given.ndim == 0 and 0 <= as_number(float(given)) < 1:
        return np.full(len(j), float(given))
    if given.shape == (K, K) and np.isfinite(given).all() and np.allclose(given, -given.T) and np.abs(given).max() < 1:
        return np.asarray(given[j, k])
    raise InputError(
        Argument("margins", margins),
        f"; accepted is a number from 0 to below 1, such as 0.2, or ({K}, {K}) payoffs with A = -A^T.",
    )
