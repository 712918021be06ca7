"""From payoffs as voted to payoffs at equal style, and how uncertain that makes means over groups.

On a straight line, with Z - beta'd in the place of Z, Gamma at equal style is Gamma as voted less beta' Gamma^d, where
Gamma^d is the pseudo-outcome of d: m, and d - m where a verdict was observed. Its mean over a group moves with beta by
minus the mean of Gamma^d, D; on a curve each part has its slope. So the error of the mean is that of Gamma with beta
known, less D' times the error of beta, which all verdicts of the log share: those of the group and all others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Floats, Ints, bin_sums, distinct, readonly
from nasheval.choices import AS_VOTED, EQUAL
from nasheval.errors import Argument, InputError
from nasheval.nuisance.style import Adjustment
from nasheval.payoff.estimand import Effects
from nasheval.payoff.grouped import Cluster, Votes, voter_labels
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.surfaces import StyleSurface
from nasheval.payoff.variances import Spread


def name_of(style: Adjustment | None) -> str:
    """Return what payoffs are of, in words."""
    if style is None or not style.names:
        return AS_VOTED
    return EQUAL if style.names != ("position",) else "at equal position"


def equalised(pseudo: PseudoOutcomes, style: Adjustment) -> PseudoOutcomes:
    """Return pseudo-outcomes as voted as those at equal style."""
    aggregation = pseudo.aggregation
    if not aggregation.linear and aggregation.single is None:
        raise InputError(
            Argument("adjust"),
            f" needs an aggregator that is linear, and this is {aggregation.aggregator!r}; use ",
            *(Argument("aggregator=Mean()", flag="--aggregator mean"), ", or leave ", Argument("adjust"), " out."),
        )
    return replace(pseudo, style=style, residual=style.residual, slope=readonly(pseudo.slope * style.ratio))


def surface_of(style: Adjustment) -> StyleSurface:
    """Return what is taken off a payoff at any context, the mean over the folds' models."""
    agent, pair = (np.tensordot(style.beta, each.mean(axis=0), 1) for each in (style.models.agent, style.models.pair))
    return StyleSurface(agent, pair, style.link)


# -- uncertainty ------------------------------------------------------------------------------------------------------


def widened(spread: Spread, votes: Votes, by: Cluster) -> Spread:
    """Return the means of a group with what is uncertain of the effects that they rest on.

    Of the correlations between means, those that come from errors that the group's own corrections share with the
    effects are kept to first order; variances are exact.
    """
    effects = votes.estimand.effects
    assert effects is not None
    slope = _with_bridged(effects.slope(votes.contexts), spread, votes)
    variance, shared = shared_errors(votes, effects, by)
    total = spread.variance + 2 * (slope * shared).sum(axis=1) + np.einsum("cs,st,ct->c", slope, variance, slope)
    size, vectors = np.linalg.eigh(variance)
    size = np.sqrt(np.maximum(size, 0.0))
    some = size > 1e-12 * size.max(initial=0.0)
    root, inverse = vectors[:, some] * size[some], vectors[:, some] / size[some]
    rows = np.concatenate([spread.factor * np.sqrt(spread.variance), (slope @ root + shared @ inverse).T])
    length = np.sqrt(np.einsum("ij,ij->j", rows, rows))
    factor = rows * np.where(length > 0, 1 / np.where(length > 0, length, 1), 0)
    return Spread(spread.mean, np.maximum(total, 0.0), factor.astype(spread.factor.dtype))


def _with_bridged(slope: Floats, spread: Spread, votes: Votes) -> Floats:
    """Return (C, S) slopes with those of bridged columns, which follow from the seen ones."""
    bridge = votes.estimand.bridge
    if bridge is None:
        return slope
    rows = np.zeros(slope.shape[1], np.int64)
    slope[bridge.pairs] = bridge.at(spread.mean[None]).moved(rows, slope.T @ bridge.incidence).T
    return slope


def shared_errors(votes: Votes, effects: Effects, by: Cluster) -> tuple[Floats, Floats]:
    """Return (S, S) the covariance of the effects, and (C, S) that of a group's means with them.

    Clusters are those of the means: contexts, voters, or both less their cells; the first is never less than that of
    contexts alone.
    """
    estimand, (column, correction), parts = votes.estimand, votes.corrections, []
    for label in _labels(votes, by):
        place = distinct(label)[1]
        size, at = int(place.max(initial=-1)) + 1, place[effects.record]
        sums = np.stack([bin_sums(at, score, size) for score in effects.score.T], axis=1)
        row = place[estimand.record[votes.rows]]
        cells = csr_array((correction, (row, column)), shape=(size, estimand.n_columns))
        unbiased = size / max(size - 1, 1)
        parts.append((unbiased * sums.T @ sums, unbiased * np.asarray(cells.T @ sums) / votes.n))
    (variance, shared), *others = parts
    if others:
        (voter, shared_by_voter), (cell, shared_by_cell) = others
        values, vectors = np.linalg.eigh(voter - cell)
        variance = variance + (vectors * np.maximum(values, 0.0)) @ vectors.T
        shared = shared + shared_by_voter - shared_by_cell
    return variance, shared


def _labels(votes: Votes, by: Cluster) -> list[Ints]:
    """Return (n_records,) which cluster each record of the log is in: one kind, or contexts, voters and cells."""
    log = votes.estimand.log
    if by == "context":
        return [log.context_of]
    voter = voter_labels(log.records.voter, log.n_records)[0].astype(np.int64)
    cell = log.context_of * (voter.max(initial=0) + 1) + voter
    return [voter] if by == "voter" else [log.context_of, voter, cell]
