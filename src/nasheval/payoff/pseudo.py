"""Pseudo-outcomes Gamma (Eq. payoff-pseudo-outcome), sparse in the verdicts that were observed.

Gamma is the plug-in payoff f(mu) at every context and pair, plus a correction where a verdict was observed. Only the
corrections are held; the plug-in part is predicted again, in chunks, where it is asked for. With design "inclusion" a
verdict Z of a record of weight w corrects by w df/du (Z - mu) / e, with "draws" by that over R_i, the weight of all
records of the context (the records of a context are averaged). Under "draws" a context without a record has no
pseudo-outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Bools, Floats, Ints, bin_sums, offsets_of, readonly, runs
from nasheval.nuisance.crossfit import NuisanceFit
from nasheval.nuisance.style import Adjustment
from nasheval.payoff.aggregators import Aggregation, Aggregator, Mean, aggregation_of
from nasheval.payoff.bridging import Unseen, score_bridge, status_of
from nasheval.payoff.estimand import CELLS, Effects, Estimand, surface_chunks

_KEPT = 1 << 23  # a plug-in surface of no more numbers is kept once it is computed


@dataclass(frozen=True, eq=False)
class PseudoOutcomes:
    """Gamma_jk(O_i) of every context and pair; v counts the observed pair verdicts, in the log's order.

    Args:
        fit: the nuisances.
        aggregation: f, ready for the log's menus.
        context: (v,) context of each verdict, ascending.
        record: (v,) its record.
        pair: (v,) its pair, numbered by `pair_index`.
        residual: (v,) Z - mu.
        slope: (v,) df/du of its menu and pair at mu(x).
        spread: (v,) sum over the pair's menus of |df/du| at mu(x); 1 for a linear aggregator.
        share: (v,) w / e, or w / (R e) under "draws".
        used: (n_contexts,) which contexts have a pseudo-outcome.
        unseen: what to make of pairs that were never compared (`nasheval.payoff.bridging`).
        style: what makes Gamma that at equal style (`nasheval.payoff.adjusted`); None: as voted.
    """

    fit: NuisanceFit
    aggregation: Aggregation
    context: Ints
    record: Ints
    pair: Ints
    residual: Floats
    slope: Floats
    spread: Floats
    share: Floats
    used: Bools
    unseen: Unseen
    style: Adjustment | None = None

    @cached_property
    def status(self) -> Ints:
        """(n_pairs,) whether each pair is seen, bridged or unknown in the log as a whole."""
        return readonly(status_of(self.fit.log))

    @cached_property
    def estimand(self) -> Estimand:
        """The same as values at each context and pair, with their corrections."""
        return Estimand(
            log=self.fit.log,
            used=self.used,
            context=self.context,
            record=self.record,
            column=self.pair,
            correction=readonly(self.share * self.slope * self.residual),
            weight=readonly(self.share * np.abs(self.slope)),
            status=self.status,
            plugin=self.plugin_chunks,
            bias=self.bias,
            bridge=score_bridge(self.fit.log) if self.unseen == "model" else None,
            effects=None if self.style is None else Effects(self.record, self.style.score, self.style_slope),
        )

    def style_slope(self, contexts: Ints) -> Floats:
        """Return (n_pairs, S) how the mean over some contexts moves with what style is worth.

        It is minus a doubly robust mean of d: m, and r_d where a verdict was observed, each by its slope.
        """
        assert self.style is not None
        moved, inside = self.style.moved, np.zeros(self.n_contexts, bool)
        inside[contexts] = True
        rows = np.flatnonzero(inside[self.context])
        weight = (self.share * self.slope)[rows]
        columns = []
        for s in range(moved.shape[1]):
            observed = bin_sums(self.pair[rows], weight * moved[rows, s], self.n_pairs) / len(contexts)
            total, sampled = np.zeros(self.n_pairs), contexts[:: max(1, -(-len(contexts) * self.n_pairs // CELLS))]
            for _, values in self.style_chunks(s, sampled):
                total += values.sum(axis=0)
            columns.append(-(total / len(sampled) + observed))
        return np.stack(columns, axis=1)

    def bias(self, contexts: Ints) -> Floats:
        """Return (n_pairs,) how far raised propensities could move the mean over some contexts.

        Where e was raised to a floor, the share 1 - e / floor of the correction is missing; what it would have
        corrected is no more than the largest residual.
        """
        clipped, _ = self.clipped_pairs(contexts)
        return np.zeros(self.n_pairs) if clipped is None else np.asarray(clipped.mean(axis=0)).ravel()

    def clipped_pairs(self, contexts: Ints) -> tuple[csr_array | None, Ints]:
        """Return (m, n_pairs) bounds on what raised propensities could move, and the m contexts that were looked at."""
        clipped, looked_at = self.fit.clipped, self.fit.looked_at
        rows = np.flatnonzero(np.isin(looked_at, contexts)) if clipped.nnz else ()
        return (None, contexts) if not len(rows) else (clipped[rows] @ self._largest_move, looked_at[rows])

    @cached_property
    def _largest_move(self) -> csr_array:
        """(M, n_pairs) the most that a missing correction of a menu can move a pair: weight times largest residual."""
        columns, worst = self.fit.log.menus.columns, np.zeros(self.aggregation.n_pairs)
        residual = np.abs(self.fit.log.verdicts.z - self.fit.mu)
        np.maximum.at(worst, columns.pair[self.fit.log.menus.column_of_verdict], residual)
        weight = self.aggregation.weight * worst[columns.pair]
        return csr_array((weight, (columns.menu, columns.pair)), shape=(len(self.fit.log.menus), len(worst)))

    @property
    def n_contexts(self) -> int:
        """Number of contexts of the log."""
        return self.fit.log.n_contexts

    @property
    def n_pairs(self) -> int:
        """Number of pairs of agents."""
        return self.aggregation.n_pairs

    def sampled(self, most: int, seed: int = 0) -> Ints:
        """Return the contexts that have a pseudo-outcome; of more than `most` (at least one), so many at random."""
        rows, most = np.flatnonzero(self.used), max(1, most)
        return rows if len(rows) <= most else np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))

    def plugin_chunks(self, contexts: Ints | None = None) -> Iterator[tuple[Ints, Floats]]:
        """Yield (contexts, (len(contexts), n_pairs) f(mu) out of fold), fold by fold, in bounded chunks.

        Args:
            contexts: which ones; None: all that have a pseudo-outcome.
        """
        rows = np.flatnonzero(self.used) if contexts is None else contexts
        step = max(1, CELLS // max(1, len(self.aggregation.pair), self.n_pairs))
        return self._predicted(rows, step) if self._kept is None else surface_chunks(self._kept, rows, step)

    def _predicted(self, rows: Ints, step: int) -> Iterator[tuple[Ints, Floats]]:
        for fold in range(self.fit.n_folds):
            inside = rows[self.fit.fold[rows] == fold]
            for start in range(0, len(inside), step):
                chunk = inside[start : start + step]
                values = self.aggregation.aggregate(self.fit.outcome_models.predict(self.fit.X[chunk], fold))
                yield chunk, values if self.style is None else self._equal(values, chunk, fold)

    def _equal(self, values: Floats, contexts: Ints, fold: int) -> Floats:
        """Return plug-in payoffs at equal style, given those as voted, at contexts of a fold; 0 if uncovered."""
        assert self.style is not None
        style = self.style.models.surface(self.fit.X[contexts], self.style.beta, fold)
        return np.asarray(self.aggregation.covered * self.style.equal(values, style))

    def style_chunks(self, column: int, contexts: Ints | None = None) -> Iterator[tuple[Ints, Floats]]:
        """Yield (contexts, (len(contexts), n_pairs) how much payoffs fall with one of beta), out of fold, in chunks."""
        assert self.style is not None
        rows, models, beta = (
            np.flatnonzero(self.used) if contexts is None else contexts,
            self.style.models,
            self.style.beta,
        )
        step = max(1, CELLS // max(1, len(self.aggregation.pair), self.n_pairs))
        for fold in range(self.fit.n_folds):
            inside = rows[self.fit.fold[rows] == fold]
            for start in range(0, len(inside), step):
                chunk = inside[start : start + step]
                X = self.fit.X[chunk]
                mu = (
                    self.aggregation.aggregate(self.fit.outcome_models.predict(X, fold))
                    if self.style.curved
                    else np.zeros(1)
                )
                m, style = (models.surface(X, weight, fold) for weight in (np.eye(len(beta))[column], beta))
                yield chunk, self.aggregation.covered * self.style.slopes(mu, m, style, column)

    @cached_property
    def _kept(self) -> Floats | None:
        """The whole plug-in surface where it is small: groups and bootstraps ask for it again and again."""
        if self.n_contexts * max(self.n_pairs, len(self.aggregation.pair)) > _KEPT:
            return None
        surface = np.zeros((self.n_contexts, self.n_pairs))
        for contexts, values in self._predicted(np.arange(self.n_contexts), CELLS):
            surface[contexts] = values
        return readonly(surface)

    def plugin(self, contexts: Ints) -> Floats:
        """Return f(mu) out of fold at some contexts, (len(contexts), n_pairs)."""
        surface = np.empty((len(contexts), self.n_pairs))
        order = np.argsort(self.fit.fold[contexts], kind="stable") if self._kept is None else np.arange(len(contexts))
        start = 0
        for chunk, values in self.plugin_chunks(contexts[order]):
            surface[order[start : start + len(chunk)]] = values
            start += len(chunk)
        return surface

    def chunks(self, contexts: Ints | None = None) -> Iterator[tuple[Ints, Floats]]:
        """Yield (contexts, (len(contexts), n_pairs) Gamma), in bounded chunks."""
        for chunk, values in self.plugin_chunks(contexts):
            yield chunk, values + self.estimand.corrections[chunk].toarray()

    def dense(self, contexts: Ints) -> Floats:
        """Return Gamma at some contexts, (len(contexts), n_pairs)."""
        return np.asarray(self.plugin(contexts) + self.estimand.corrections[contexts].toarray())


def pseudo_outcomes(
    fit: NuisanceFit, aggregator: Aggregator | None = None, *, unseen: Unseen = "model"
) -> PseudoOutcomes:
    """Return the pseudo-outcomes of a log under fitted nuisances (Eq. payoff-pseudo-outcome, Algorithm 1).

    Args:
        aggregator: of the log that the nuisances were fitted on (`as_asked` cuts it into pairs where need be); None:
            the mean over menus.
        unseen: "model": pairs that were never compared are bridged; "tie": their payoff is 0.
    """
    log, verdicts = fit.log, fit.log.verdicts
    aggregation = aggregation_of(log, aggregator or Mean())
    column, context = log.menus.column_of_verdict, log.context_of[verdicts.record]
    slope, spread = _slopes(fit, aggregation, context, column)
    share, used = _shares(fit)
    return PseudoOutcomes(
        fit=fit,
        aggregation=aggregation,
        context=readonly(context),
        record=verdicts.record,
        pair=readonly(log.menus.columns.pair[column].astype(np.int32)),
        residual=readonly(verdicts.z - fit.mu),
        slope=readonly(slope),
        spread=readonly(spread),
        share=readonly(share[verdicts.record]),
        used=readonly(used),
        unseen=unseen,
    )


def _shares(fit: NuisanceFit) -> tuple[Floats, Bools]:
    """Return w / e or w / (R e) of each record, and which contexts have a pseudo-outcome.

    Under "inclusion" a menu is included once, so several answers to it at a context (three judges, say) are averaged.
    """
    log, weight = fit.log, fit.log.records.weights
    if log.design == "inclusion":
        cell = log.context_of.astype(np.int64) * len(log.menus) + log.menus.of_record
        place = np.unique(cell, return_inverse=True)[1]
        repeats = np.maximum(np.bincount(place, weight)[place], 1.0)
        return weight / (repeats * fit.e), np.ones(log.n_contexts, bool)
    total = np.bincount(log.context_of, weight, log.n_contexts)
    return weight / (total[log.context_of] * fit.e), total > 0


def _slopes(fit: NuisanceFit, aggregation: Aggregation, context: Ints, column: Ints) -> tuple[Floats, Floats]:
    """Return df/du of each verdict's column, and the sum of |df/du| over its pair's columns."""
    if aggregation.linear:
        return aggregation.weight[column], np.ones(len(column))
    starts = offsets_of(np.bincount(context, minlength=fit.log.n_contexts))
    slope, spread = np.empty(len(column)), np.empty(len(column))
    for contexts, mu in fit.outcomes():
        sizes = np.diff(starts)[contexts]
        rows, place = runs(starts[contexts], sizes), np.repeat(np.arange(len(contexts)), sizes)
        derivative = aggregation.derivative(mu)
        slope[rows] = derivative[place, column[rows]]
        spread[rows] = aggregation.spread(derivative)[place, column[rows]]
    return slope, spread
