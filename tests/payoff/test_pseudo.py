"""Gamma against a literal transcription of Algorithm 1, to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from nasheval.arrays import pair_index
from nasheval.feedback.world import SyntheticWorld
from nasheval.payoff.aggregators import Cubic, Mean, Weighted
from nasheval.payoff.pseudo import pseudo_outcomes

from . import algorithm1
from .nuisances import arbitrary_fit, ragged_log


def weight_of(menu):
    """Weights that tell menus apart but not their forms."""
    return 1.0 + sum((3 * a) % 5 for a in menu[0])


def by_names(log):
    names = {agent: number for number, agent in enumerate(log.agents)}
    return lambda menu: weight_of(([names[a] for a in menu],))


AGGREGATORS = {
    "mean": (lambda log: Mean(), algorithm1.linear, lambda menu: 1.0),
    "weighted": (lambda log: Weighted(by_names(log)), algorithm1.linear, weight_of),
    "cubic": (lambda log: Cubic(2.5), lambda w: algorithm1.cubic(w, 2.5), lambda menu: 1.0),
    "weighted cubic": (lambda log: Cubic(0.3, by_names(log)), lambda w: algorithm1.cubic(w, 0.3), weight_of),
}


def expected(log, fit, literal, weights):
    menus = [(tuple(log.menus.members(m).tolist()), int(log.menus.form[m])) for m in range(len(log.menus))]
    columns = {
        (menus[m], j, k): c
        for c, (m, j, k) in enumerate(
            zip(log.menus.columns.menu, log.menus.columns.j, log.menus.columns.k, strict=True)
        )
    }
    mu, e = np.empty((log.n_contexts, len(columns))), np.empty((log.n_contexts, len(menus)))
    for fold in range(fit.n_folds):
        rows = fit.fold == fold
        mu[rows] = fit.outcome_models.predict(fit.X[rows], fold)
        e[rows] = fit.propensity_models.predict(fit.X[rows], fold)
    return algorithm1.gamma(
        log,
        lambda i, menu, j, k: float(mu[i, columns[menu, j, k]]),
        lambda i, menu: float(e[i, menus.index(menu)]),
        literal,
        weights,
    )


def check(log, x, which):
    make, literal, weights = AGGREGATORS[which]
    fit = arbitrary_fit(log, x)
    pseudo = pseudo_outcomes(fit, make(log))
    dense = pseudo.dense(np.arange(log.n_contexts))
    slow = expected(log, fit, literal, weights)
    contexts = {i for i, _, _ in slow}
    assert set(np.flatnonzero(pseudo.used).tolist()) == contexts
    pairs = {int(pair_index(np.array(j), np.array(k), log.n_agents)) for _, j, k in slow}
    assert set(np.flatnonzero(pseudo.aggregation.covered).tolist()) == pairs
    for (i, j, k), value in slow.items():
        p = int(pair_index(np.array(j), np.array(k), log.n_agents))
        assert dense[i, p] == pytest.approx(value, abs=1e-12, rel=1e-12)
    return pseudo


@pytest.mark.parametrize("which", AGGREGATORS)
@pytest.mark.parametrize("modality", ["pairwise", "ranking", "winner"])
@pytest.mark.parametrize("selection", ["inclusion", "one"])
def test_gamma_is_algorithm_1_in_the_simulation(modality, selection, which):
    log = SyntheticWorld(seed=3).feedback(modality, n=40, selection=selection)
    assert log.design == ("inclusion" if selection == "inclusion" else "draws")
    check(log, SyntheticWorld(seed=3).contexts(40), which)


@pytest.mark.parametrize("which", AGGREGATORS)
@pytest.mark.parametrize("design", ["inclusion", "draws"])
@pytest.mark.parametrize("weighted", [True, False])
def test_gamma_is_algorithm_1_with_repeated_menus_forms_weights_and_empty_contexts(which, design, weighted):
    log, x = ragged_log(design=design, weighted=weighted)
    pseudo = check(log, x, which)
    assert (np.diff(log.context_offsets) == 0).any()
    assert not pseudo.aggregation.covered.all()
    assert (pseudo.dense(np.arange(40))[:, ~pseudo.aggregation.covered] == 0).all()


def test_chunks_and_rows_in_any_order_agree_with_the_whole(monkeypatch):
    from nasheval.payoff import pseudo as module

    log, x = ragged_log(design="inclusion")
    whole = pseudo_outcomes(arbitrary_fit(log, x), Cubic(1.0)).dense(np.arange(40))
    monkeypatch.setattr(module, "_KEPT", 0)
    monkeypatch.setattr(module, "CELLS", 100)
    small = pseudo_outcomes(arbitrary_fit(log, x), Cubic(1.0))
    rows = np.random.default_rng(0).permutation(40)[:23]
    np.testing.assert_allclose(small.dense(rows), whole[rows], rtol=1e-12)
    found = np.full(whole.shape, np.nan)
    for contexts, gamma in small.chunks():
        assert len(contexts) <= 10
        found[contexts] = gamma
    np.testing.assert_allclose(found, whole, rtol=1e-12)
    np.testing.assert_allclose(small.plugin(rows) + small.estimand.corrections.toarray()[rows], whole[rows], rtol=1e-12)


def test_corrections_are_as_sparse_as_the_verdicts():
    log, x = ragged_log()
    pseudo = pseudo_outcomes(arbitrary_fit(log, x))
    assert len(pseudo.estimand.correction) == len(log.verdicts)
    assert pseudo.estimand.corrections.nnz <= len(log.verdicts)
    np.testing.assert_allclose(pseudo.estimand.corrections.sum(), pseudo.estimand.correction.sum())
    with pytest.raises(ValueError, match="read-only"):
        pseudo.estimand.correction[0] = 1.0
