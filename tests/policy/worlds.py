"""Stage 1 with payoffs that are known functions of the context, and logs that are never looked at."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from nasheval.contexts.encoder import ContextEncoder
from nasheval.nuisance.learners import Features

from .hand import NAMES


class KnownPayoff:
    """A payoff model from a function of (n, d) numbers to payoffs (n, K, K)."""

    plugin = bridge = None  # nobody says its pairs

    def __init__(self, function, K):
        self.function, self.K = function, K
        self.covered = np.ones(K * (K - 1) // 2, bool)
        self.asked = 0

    def predict(self, X):
        self.asked += len(X)
        return self.function(X.trees)

    def predict_pairs(self, X):
        j, k = np.triu_indices(self.K, 1)
        return self.predict(X)[:, j, k]


def of_function(function, K, contexts):
    """Stage 1 in which A(x) is a function of the encoded numbers, at contexts that are an array or a table."""
    table = contexts if isinstance(contexts, pa.Table) else pa.table({f"x{i}": c for i, c in enumerate(contexts.T)})
    encoder = ContextEncoder.fit(table)
    return SimpleNamespace(
        agents=NAMES[:K],
        encoder=encoder,
        payoff=KnownPayoff(function, K),
        log=SimpleNamespace(contexts=table, n_contexts=table.num_rows),
        nuisances=SimpleNamespace(X=Features.of(encoder, table)),
    )


def smooth_payoff(x, K=4, seed=3):
    """Payoffs (n, K, K) that vary smoothly: tanh of low waves of the context."""
    rng, x = np.random.default_rng(seed), np.asarray(x, float)
    wave = rng.normal(size=(x.shape[1], K, K)) * 2
    phase = rng.uniform(0, 6.28, (K, K))
    half = np.triu(np.tanh(1.5 * np.sin(np.einsum("nd,djk->njk", x, wave) + phase)), 1)
    return half - half.swapaxes(1, 2)


def stepped_payoff(x, K=4):
    """Payoffs (n, K, K) of -1 and 1: the agent whose corner of the plane is nearest beats all others, and so on."""
    x = np.asarray(x, float)
    corners = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])[:K]
    far = ((x[:, None, :2] - corners) ** 2).sum(-1)
    return np.sign(far[:, None, :] - far[:, :, None])
