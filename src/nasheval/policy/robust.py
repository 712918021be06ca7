"""The robust maximal lottery: best in the worst mixture of groups near the observed one (Khalaf et al., 2026)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_array, coo_array, csr_array, eye_array, kron

from nasheval.arrays import Floats, Ints
from nasheval.contexts.values import levels_of
from nasheval.errors import ConvergenceError, InputError
from nasheval.feedback.groups import context_column
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import Constant

_DELTA = 0.05  # of the primary radius
_MOST_GROUPS = 200


@dataclass(frozen=True)
class RobustMaximalLottery:
    """The lottery that earns most in the worst mixture of groups within a radius (Eq. rq3b-robust-lottery).

    Where several do, it is a vertex of them all, the same at every run.

    Args:
        groups: the context column whose values are the groups; a missing value is a group too.
        radius: tau, from 0 (the observed mixture) to 1 (the worst group); None: tau_n of Eq. rq3b-robust-radius.
    """

    groups: str
    radius: float | None = None

    def __post_init__(self) -> None:
        if self.radius is not None and not 0 <= self.radius <= 1:
            raise InputError(f"radius is {self.radius!r}; accepted is a number from 0 to 1, or None for tau_n.")

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Constant:
        """Return the policy; of Stage 1 only the log is used. Contexts without a record count for nothing."""
        log = stage1.log
        code, names = groups_of(log, self.groups)
        size = np.bincount(code[code >= 0], minlength=len(names))
        radius = primary_radius(len(names), int(size.sum())) if self.radius is None else self.radius
        margins, weights = group_margins(log, code, len(names)), size / size.sum()
        return Constant(log.agents, lambda up: robust_lottery(margins[:, up][:, :, up], weights, radius)[0])


def primary_radius(n_groups: int, n: int) -> float:
    """Return tau_n, the radius for n contexts in n_groups groups (Eq. rq3b-robust-radius)."""
    return float(min(1.0, np.sqrt(n_groups / n) + np.sqrt(2 / n * np.log(2 / _DELTA))))


def group_margins(log: Feedback, code: Ints, n_groups: int) -> Floats:
    """Return the pooled margins of each group, (G, K, K) (Eq. pooled-payoff), given the group of each context (n,)."""
    verdicts, K = log.verdicts, log.n_agents
    of, weight = code[log.context_of][verdicts.record].astype(np.int64), log.records.weights[verdicts.record]
    cell = (of * K + verdicts.j) * K + verdicts.k
    total = np.bincount(cell, weight, n_groups * K * K)
    upper = np.divide(np.bincount(cell, weight * verdicts.z, len(total)), total, out=total, where=total > 0)
    upper = upper.reshape(n_groups, K, K)
    return upper - upper.transpose(0, 2, 1)


def robust_lottery(matrices: Floats, weights: Floats, radius: float) -> tuple[Floats, float]:
    """Return the robust lottery (K,) and what it earns in the worst case, by one linear program through HiGHS.

    With a_gj = (pi M_g)_j, what the opponent j leaves in group g, the inner minimum over the total-variation ball moves
    up to tau of weight from the groups where a is largest to the one where it is smallest. Its dual is
    max sum_g w_g b_gj - tau lift_j over b_gj <= a_gj, b_gj <= least_j + lift_j, least_j <= a_gj and lift_j >= 0, which
    joins the outer maximum: one program in (pi, b, least, lift, value).

    Args:
        matrices: (G, K, K) antisymmetric.
        weights: (G,) the observed mixture.
        radius: tau, from 0 to 1.
    """
    G, K = matrices.shape[:2]
    kept = csr_array(matrices.transpose(0, 2, 1).reshape(G * K, K))  # row (g, j) times pi is a_gj
    each, stacked, one = eye_array(G * K), kron(np.ones((G, 1)), eye_array(K)), np.ones((K, 1))
    worst = kron(weights[None], eye_array(K))
    unequal = block_array(
        [
            [-kept, each, None, None, None],
            [None, each, -stacked, -stacked, None],
            [-kept, None, stacked, None, None],
            [None, -worst, None, radius * eye_array(K), coo_array(one)],
        ],
        format="csr",
    )
    size = unequal.shape[1]
    free, positive = [(None, None)], [(0, None)]
    total = csr_array((np.ones(K), (np.zeros(K, int), np.arange(K))), shape=(1, size))
    program = linprog(
        -np.eye(size)[-1],
        A_ub=unequal,
        b_ub=np.zeros(unequal.shape[0]),
        A_eq=total,
        b_eq=[1.0],
        bounds=positive * K + free * (G * K + K) + positive * K + free,
        method="highs",
    )
    if program.status != 0:
        raise ConvergenceError(f"HiGHS could not solve the robust lottery: {program.message} Please report it.")
    pi = np.maximum(program.x[:K], 0.0)
    return pi / pi.sum(), -float(program.fun)


def groups_of(log: Feedback, column: str) -> tuple[Ints, tuple[str, ...]]:
    """Number the values of a context column that contexts with a record have; -1 at other contexts."""
    values = levels_of(column, context_column(log, column, "groups"))
    names = [*values.dictionary.to_pylist(), "(missing)"]
    code = np.asarray(values.indices.fill_null(len(names) - 1))
    asked = np.diff(log.context_offsets) > 0
    kept, number = np.unique(code[asked], return_inverse=True)
    if not 0 < len(kept) <= _MOST_GROUPS:
        raise InputError(
            f"The column {column!r} has {len(kept):,} values at contexts with a record; accepted are 1 to "
            f"{_MOST_GROUPS} groups. Give a column of few values, or one cut into intervals."
        )
    group = np.full(log.n_contexts, -1)
    group[asked] = number
    return group, tuple(names[g] for g in kept)
