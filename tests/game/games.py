"""Games to solve, and literal oracles to solve them with: support enumeration, brute force, linear programs."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
from scipy.optimize import linprog


def antisymmetric(upper: np.ndarray) -> np.ndarray:
    """Return the antisymmetric games (..., K, K) with the upper triangle of `upper` (..., K, K)."""
    half = np.triu(np.asarray(upper, float), 1)
    return half - half.swapaxes(-1, -2)


def random_games(n: int, K: int, seed: int = 0) -> np.ndarray:
    return antisymmetric(np.random.default_rng(seed).uniform(-1, 1, (n, K, K)))


def integer_games(n: int, K: int, most: int = 1, seed: int = 0) -> np.ndarray:
    """Games with small integer margins: ties, clones and several equilibria are common."""
    return antisymmetric(np.random.default_rng(seed).integers(-most, most + 1, (n, K, K)))


def tournament(K: int, seed: int = 0) -> np.ndarray:
    return antisymmetric(np.random.default_rng(seed).choice([-1, 1], (K, K)))


def cyclic(K: int) -> np.ndarray:
    """Every agent beats the (K - 1) // 2 that follow it, and ties with the one opposite."""
    ahead = (np.arange(K) - np.arange(K)[:, None]) % K
    return np.where((ahead > 0) & (2 * ahead < K), 1.0, 0) - np.where(2 * ahead > K, 1.0, 0)


def with_clone(A: np.ndarray, agent: int) -> np.ndarray:
    """Add a clone of an agent at the end: the two tie, and do alike against all others."""
    order = [*range(len(A)), agent]
    return A[np.ix_(order, order)]


def with_dominated(A: np.ndarray) -> np.ndarray:
    """Add an agent that loses to everyone."""
    K = len(A)
    larger = np.zeros((K + 1, K + 1))
    larger[:K, :K], larger[:K, K], larger[K, :K] = A, 0.5, -0.5
    return larger


RPS = np.array([[0.0, 1, -1], [-1, 0, 1], [1, -1, 0]])

DEGENERATE = {
    "one agent": np.zeros((1, 1)),
    "two agents": np.array([[0.0, 0.3], [-0.3, 0]]),
    "two that tie": np.zeros((2, 2)),
    "zeros": np.zeros((6, 6)),
    "zeros, large": np.zeros((60, 60)),
    "rock paper scissors": RPS,
    "rock paper scissors, clone": with_clone(RPS, 0),
    "rock paper scissors, two clones": with_clone(with_clone(RPS, 0), 1),
    "all duplicated": np.kron(np.ones((2, 2)), RPS),
    "dominated": with_dominated(RPS),
    "dominated, clone": with_clone(with_dominated(RPS), 3),
    "tournament, odd": tournament(7),
    "tournament, even": tournament(8),
    "tournament, large": tournament(61),
    "tournament, very large": tournament(120, seed=3),
    "cyclic, odd": cyclic(9),
    "cyclic, even": cyclic(10),
    "cyclic, large": cyclic(51),
    "tiny": 1e-12 * RPS,
    "tiny beside large": np.array([[0, 1e-12, 1], [-1e-12, 0, 1], [-1, -1, 0]]),
    "tiny cycle beside large": np.block([[1e-12 * RPS, np.ones((3, 2))], [-np.ones((2, 3)), np.zeros((2, 2))]]),
    "huge": 1e9 * RPS,
    "float32": random_games(1, 6)[0].astype(np.float32),
    "integers": integer_games(1, 9, most=2, seed=5)[0],
    "integers, large": integer_games(1, 70, seed=5)[0],
    "two cycles that tie": np.block([[RPS, np.zeros((3, 3))], [np.zeros((3, 3)), RPS]]),
    "a Condorcet winner by a hair": np.array([[0, 1e-9, 1e-9], [-1e-9, 0, 1], [-1e-9, -1, 0]]),
    "on the edge of a support": np.array([[0, 1e-3, 0], [-1e-3, 0, 0], [0, 0, 0.0]]),
    "low rank": np.subtract.outer(np.arange(5.0), np.arange(5.0)) / 10,
    "low rank, large": np.subtract.outer(np.arange(80.0), np.arange(80.0)) / 80,
}


def subsets(items: range) -> chain:
    return chain.from_iterable(combinations(items, size) for size in range(1, len(items) + 1))


def enumerate_supports(A: np.ndarray, rho: float) -> np.ndarray:
    """Solve L2 games (n, K, K) as the paper does: try every support, keep the one that meets the conditions."""
    n, K = A.shape[:2]
    best, least = np.full((n, K), np.nan), np.full(n, np.inf)
    for support in map(list, subsets(range(K))):
        m = len(support)
        system = np.zeros((n, m + 1, m + 1))
        system[:, :m, :m] = rho * np.eye(m) - A[:, support][:, :, support]
        system[:, :m, m], system[:, m, :m] = -1, 1
        solved = np.linalg.solve(system, np.broadcast_to(np.eye(m + 1)[:, m:], (n, m + 1, 1)))[:, :, 0]
        pi = np.zeros((n, K))
        pi[:, support] = solved[:, :m]
        loss = rho * pi - np.einsum("njk,nk->nj", A, pi) - solved[:, m:]
        wrong = -np.minimum(pi.min(-1), loss.min(-1))
        better = wrong < least
        best[better], least[better] = pi[better], wrong[better]
    assert least.max() < 1e-11
    return best


def value_by_linear_program(A: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the value of the game and a maximal lottery: max v with pi A >= v, through HiGHS."""
    K = len(A)
    found = linprog(
        np.r_[np.zeros(K), -1.0], A_ub=np.c_[-A.T, np.ones(K)], b_ub=np.zeros(K),
        A_eq=np.r_[np.ones(K), 0.0][None], b_eq=[1.0], bounds=[(0, None)] * K + [(None, None)], method="highs",
    )  # fmt: skip
    assert found.status == 0
    return -found.fun, found.x[:K]


def least_norm_by_brute_force(A: np.ndarray) -> np.ndarray:
    """Try every support and every set of agents that tie with the lottery; keep the maximal lottery of least norm."""
    K = len(A)
    best, least = np.full(K, np.nan), np.inf
    for support in map(list, subsets(range(K))):
        for ties in [(), *subsets(range(K))]:
            system = np.vstack([A[np.ix_(list(ties), support)], np.ones(len(support))])
            target = np.eye(len(system))[-1]
            pi = np.zeros(K)
            pi[support] = np.linalg.lstsq(system, target, rcond=1e-10)[0]
            fine = np.allclose(system @ pi[support], target, atol=1e-9) and pi.min() > -1e-10 and (A @ pi).max() < 1e-10
            if fine and pi @ pi < least - 1e-12:
                best, least = pi, pi @ pi
    assert least < np.inf
    return best
