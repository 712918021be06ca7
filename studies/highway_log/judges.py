"""Three simulated judges of driving: their verdicts, the offline comparisons and the reference payoffs.

An episode's performance is z = (mean speed reward, mean lane reward, 1 - collision), in [0, 1]^3. The judges'
weights are the paper's, written down before any method was run on the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

JUDGES = ((0.67, 0.31, 0.02), (0.044, 0.0, 0.95), (0.26, 0.01, 0.72))
JUDGE_NAMES = ("hurried", "careful", "measured")
COMPARISONS_PER_TASK = 10


@dataclass(frozen=True)
class Comparisons:
    """Offline comparisons, all arrays of shape (n,): which task, which two agents, whose verdict.

    `verdict` is +1 where the judge prefers agent j and -1 where it prefers agent k; always j < k.
    """

    configuration: NDArray[np.int16]
    initialisation: NDArray[np.int16]
    agent_j: NDArray[np.int8]
    agent_k: NDArray[np.int8]
    judge: NDArray[np.int8]
    verdict: NDArray[np.int8]


def utilities(z: ArrayLike) -> NDArray[np.float64]:
    """Each judge's utility v.z, of shape (..., judges), for performances z of shape (..., 3)."""
    z = np.asarray(z, dtype=np.float64)
    if z.shape[-1:] != (3,):
        raise InputError(f"z has shape {z.shape}; its last axis must hold speed, lane and safety.")
    # Term by term, not by a matrix product: equal performances must have equal utilities to the bit.
    return np.stack([v[0] * z[..., 0] + v[1] * z[..., 1] + v[2] * z[..., 2] for v in JUDGES], axis=-1)


def judge_verdicts(z_j: ArrayLike, z_k: ArrayLike) -> NDArray[np.int8]:
    """Each judge's verdict on j against k, of shape (..., judges): +1, -1, or 0 for an exact tie."""
    return np.sign(utilities(z_j) - utilities(z_k)).astype(np.int8)


def sample_comparisons(z: ArrayLike, *, seed: Any, per_task: int = COMPARISONS_PER_TASK) -> Comparisons:
    """Draw comparisons of a uniform pair by a uniform judge, ties broken by a fair coin.

    Args:
        z: performances of shape (configurations, initialisations, agents, 3).
        seed: what `numpy.random.default_rng` accepts.
        per_task: comparisons for each (configuration, initialisation).
    """
    z, rng = np.asarray(z, dtype=np.float64), np.random.default_rng(seed)
    task = np.repeat(np.arange(z.shape[0] * z.shape[1]), per_task)
    configuration, initialisation = np.divmod(task, z.shape[1])
    pairs = np.array(list(combinations(range(z.shape[2]), 2)))
    j, k = pairs[rng.integers(len(pairs), size=len(task))].T
    judge, coin = rng.integers(len(JUDGES), size=len(task)), rng.choice([-1, 1], size=len(task))
    of_all = judge_verdicts(z[configuration, initialisation, j], z[configuration, initialisation, k])
    verdict = of_all[np.arange(len(task)), judge]
    return Comparisons(
        configuration=configuration.astype(np.int16),
        initialisation=initialisation.astype(np.int16),
        agent_j=j.astype(np.int8),
        agent_k=k.astype(np.int8),
        judge=judge.astype(np.int8),
        verdict=np.where(verdict == 0, coin, verdict).astype(np.int8),
    )


def verdict_sums(z: ArrayLike) -> NDArray[np.int8]:
    """The sum of all judges' verdicts on each pair j < k, of shape (configurations, initialisations, pairs).

    A tie counts as 0, the mean of the fair coin that breaks it in a comparison.

    Args:
        z: performances of shape (configurations, initialisations, agents, 3).
    """
    z = np.asarray(z, dtype=np.float64)
    j, k = np.triu_indices(z.shape[2], 1)
    return np.asarray(judge_verdicts(z[:, :, j], z[:, :, k]).sum(axis=-1, dtype=np.int8))


def hold_cycle(payoffs: ArrayLike) -> NDArray[np.bool_]:
    """Whether the majority relation A > 0 of each matrix (..., K, K) holds a cycle."""
    beats = np.asarray(payoffs) > 0
    reaches = beats
    for _ in range(beats.shape[-1] - 1):
        reaches = reaches | (reaches @ beats)
    return np.asarray(np.diagonal(reaches, axis1=-2, axis2=-1).any(axis=-1))
