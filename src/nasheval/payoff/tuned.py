"""Hyperparameters of the payoff regression, searched over the paper's grid (Table payoff-ht-grid)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.nuisance.learners import Effort
from nasheval.nuisance.tuning import PAYOFF_GRID, Grid, Problem, search
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.surfaces import Boosting, agent_bins, with_agents

_MOST_ROWS = 60_000  # (context, pair) rows that the search looks at
_PAIRS = 3  # pairs that a search for one regressor a pair looks at


def tuned_boosting(
    pseudo: PseudoOutcomes,
    form: Literal["shared", "per-pair"],
    how: Literal["fast", "paper"],
    *,
    grid: Grid = PAYOFF_GRID,
    effort: Effort | None = None,
) -> Boosting:
    """Return the setting with the least cross-validated squared error to Gamma, a context's rows in one part.

    Args:
        form: "shared": one regression on (x, j, k); "per-pair": one a pair, judged on those with the most votes.
        how: see `search`.
    """
    work = effort or Effort()
    contexts, gamma = _sampled(pseudo, work.seed)
    problems = _shared(pseudo, contexts, gamma, work) if form == "shared" else _pairs(pseudo, contexts, gamma, work)
    found = dict(search(problems, grid, how, work).params)
    return Boosting(
        trees=int(found.pop("num_iterations")),
        leaves=int(found.pop("num_leaves")),
        rate=found.pop("learning_rate"),
        least=int(found.pop("min_data_in_leaf")),
        seed=work.seed,
        more=found,
    )


def _sampled(pseudo: PseudoOutcomes, seed: int) -> tuple[Ints, Floats]:
    """Return contexts, as many as there may be rows for, and their Gamma (n, n_pairs)."""
    used = np.flatnonzero(pseudo.used)
    most = max(1, _MOST_ROWS // max(1, int(pseudo.aggregation.covered.sum())))
    if len(used) > most:
        used = np.sort(np.random.default_rng(seed).choice(used, most, replace=False))
    return used, pseudo.dense(used)


def _shared(pseudo: PseudoOutcomes, contexts: Ints, gamma: Floats, effort: Effort) -> list[Problem]:
    pairs, K = np.flatnonzero(pseudo.aggregation.covered), pseudo.fit.log.n_agents
    context = np.repeat(contexts, len(pairs))
    table = with_agents(pseudo.fit.X, context, np.tile(pairs, len(contexts)), K)
    params = {"max_bin_by_feature": agent_bins(pseudo.fit.X, K, Boosting().params())["max_bin_by_feature"]}
    label = np.ascontiguousarray(gamma[:, pairs].ravel())
    return [Problem(table, np.arange(len(context)), label, None, "regression", effort.seed, params, context)]


def _pairs(pseudo: PseudoOutcomes, contexts: Ints, gamma: Floats, effort: Effort) -> list[Problem]:
    votes = np.bincount(pseudo.pair, minlength=pseudo.n_pairs)
    X, rows = pseudo.fit.X[contexts], np.arange(len(contexts))
    chosen = np.argsort(-votes, kind="stable")[:_PAIRS]
    return [Problem(X, rows, np.ascontiguousarray(gamma[:, p]), seed=effort.seed) for p in chosen if votes[p]]
