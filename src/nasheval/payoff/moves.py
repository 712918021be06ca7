"""Where debiasing moves mean payoffs: of every pair, in all contexts together and in groups of them.

The one-step mean payoff of a group less the plug-in's mean is the mean of the corrections in Gamma (Eq.
payoff-pseudo-outcome), which are held sparsely. So the moves of every pair in every group cost one pass over the
verdicts, and no prediction at all. The diagnostics print them, and the second stage never leaves a pair that moves
significantly at the plug-in (`nasheval.payoff.corrected`): both call the functions below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from nasheval.arrays import Bools, Floats, Ints, bin_sums, readonly
from nasheval.feedback.groups import Groups, grouping_columns, groups_by
from nasheval.payoff.estimand import Estimand
from nasheval.payoff.grouped import FEW, cluster_sums, voter_labels
from nasheval.payoff.intervals import normal_scale
from nasheval.payoff.pseudo import PseudoOutcomes

LEVEL = 0.05  # chance that any move is called significant where debiasing moves nothing


@dataclass(frozen=True, eq=False)
class GroupMoves:
    """The moves of every pair in the groups of one column; G groups.

    Args:
        column: the context column; "" for one group of all contexts.
        groups: (G,) names.
        move: (G, n_pairs) mean correction.
        error: (G, n_pairs) standard errors; infinite where the votes cannot tell.
        z: (G, n_pairs) move / error on the normal scale; 0 where the votes cannot tell.
    """

    column: str
    groups: tuple[str, ...]
    move: Floats
    error: Floats
    z: Floats


def all_moves(pseudo: PseudoOutcomes, by: str | Sequence[str] | None = None) -> tuple[GroupMoves, ...]:
    """Return the moves in all contexts together, then in the groups of each column.

    Args:
        by: context columns, numbers of more than 20 values in quarters; None: as `grouping_columns` chooses.
    """
    log = pseudo.fit.log
    all_contexts = Groups("", np.zeros(pseudo.n_contexts, np.int64), ("all",))
    columns = (groups_by(log, column, pseudo.used) for column in grouping_columns(log, by))
    return tuple(_moves(pseudo, groups) for groups in (all_contexts, *columns))


def critical_z(moves: Sequence[GroupMoves]) -> float:
    """Return the |z| from which a move is significant, all pairs of all groups together (Bonferroni, 5%)."""
    tests = sum(int(np.isfinite(column.error).sum()) for column in moves)
    return float(norm.isf(LEVEL / 2 / max(tests, 1)))


def moved_pairs(pseudo: PseudoOutcomes) -> Bools:
    """Return (n_pairs,) pairs with a significant move in all contexts or in some group that the diagnostics look at."""
    moves = all_moves(pseudo)
    least = critical_z(moves)
    return np.asarray(np.any([(np.abs(column.z) > least).any(axis=0) for column in moves], axis=0))


def _moves(pseudo: PseudoOutcomes, groups: Groups) -> GroupMoves:
    """Return the mean corrections of each group and pair."""
    code, names = groups.code, groups.names
    n = np.bincount(code[pseudo.used & (code >= 0)], minlength=len(names))
    rows = np.flatnonzero(code[pseudo.context] >= 0)
    group = code[pseudo.context[rows]].astype(np.int64)
    cell, shape = group * pseudo.n_pairs + pseudo.pair[rows], (len(names), pseudo.n_pairs)
    correction = pseudo.estimand.correction[rows] / n[group]
    move = bin_sums(cell, correction, shape[0] * shape[1])
    variance, freedom = _uncertainty(pseudo.estimand, rows, cell, correction, len(move))
    known = (variance > 0) & (freedom > 0)
    error, z = np.full(len(move), np.inf), np.zeros(len(move))
    error[known] = np.sqrt(variance[known])
    z[known] = normal_scale(move[known] / error[known], freedom[known])
    return GroupMoves(groups.column, names, *(readonly(each.reshape(shape)) for each in (move, error, z)))


def _uncertainty(estimand: Estimand, rows: Ints, cell: Ints, correction: Floats, size: int) -> tuple[Floats, Floats]:
    """Return (size,) variances of the cells' sums of corrections, and degrees of freedom, as `clusters` has them.

    Sums of clusters are squared as they are, not less their mean: that is their variance where nothing moved. It is at
    least what unanimous votes leave, two for and two against added (Agresti and Coull): else fifty unanimous votes
    where the outcome model says 0.97 would move its mean by 0.03, without spread.
    """
    context, log = estimand.context[rows].astype(np.int64), estimand.log
    verdicts = cell, correction, estimand.weight[rows], size
    by_context, effective, _ = cluster_sums(context, *verdicts)
    least = np.where(by_context > 0, np.maximum(by_context, 8 / (effective + 4) ** 2), 0.0)
    voter, n_voters = voter_labels(log.records.voter, log.n_records)
    if len(np.unique(voter[voter < n_voters])) < FEW:
        return least, effective - 1
    voter = voter[estimand.record[rows]]
    by_voter, effective_voters, _ = cluster_sums(voter, *verdicts)
    within = cluster_sums(context * (int(voter.max(initial=0)) + 1) + voter, *verdicts)[0]
    return np.maximum(by_context + by_voter - within, least), np.minimum(effective, effective_voters) - 1
