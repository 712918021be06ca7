"""Small logs and Stage 1 results made by hand, and games that hypothesis draws."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nasheval.contexts.encoder import ContextEncoder
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback

NAMES = tuple("abcdefghijklmnopqrst")


def antisymmetric(upper):
    half = np.triu(np.asarray(upper, float), 1)
    return half - half.swapaxes(-1, -2)


def random_games(n, K, seed=0):
    return antisymmetric(np.random.default_rng(seed).uniform(-1, 1, (n, K, K)))


def coarse_games(most_agents=6):
    """Games (K, K) with margins in steps of 1/8, where ties are common and near-ties cannot be."""

    def of(K):
        return arrays(np.int64, (K, K), elements=st.integers(-8, 8)).map(lambda upper: antisymmetric(upper) / 8)

    return st.integers(2, most_agents).flatmap(of)


def duels(said, *, agents=None, contexts=None, context_of=None, weight=None):
    """A log of duels from ("a", "b", "a" | "b" | "tie") each, one context per record unless `context_of` says more."""
    rows = {"i": list(range(len(said)))} if contexts is None else contexts
    return Feedback.from_partitions(
        pa.table(rows),
        [partition.duel(*one) for one in said],
        agents=agents,
        context_of=context_of,
        weight=weight,
        design="draws",
    )


def counted(wins, *, agents=None):
    """A log of duels in which wins[j, k] contexts prefer j to k."""
    wins = np.asarray(wins)
    agents = agents or NAMES[: len(wins)]
    pairs = [(agents[j], agents[k]) for j, k in np.argwhere(wins > 0)]
    said = [(j, k, j) for (j, k), times in zip(pairs, wins[wins > 0], strict=True) for _ in range(times)]
    return duels(said, agents=agents)


def of_log(log):
    """As much of Stage 1 as a baseline needs that looks at the log alone."""
    return SimpleNamespace(log=log, agents=log.agents)


class _Lookup:
    """A payoff model that looks up the game at context i."""

    def __init__(self, games):
        self.games = np.asarray(games)

    def predict(self, X):
        return self.games[X.trees[:, 0].astype(int)]


def of_games(debiased, plug_in=None, agents=None):
    """Stage 1 with given payoffs (n, K, K) at the contexts that `contexts_of` lists."""
    games = np.asarray(debiased)
    contexts = contexts_of(games)
    return SimpleNamespace(
        agents=agents or NAMES[: games.shape[1]],
        encoder=ContextEncoder.fit(contexts),
        log=SimpleNamespace(contexts=contexts),
        status=np.zeros((games.shape[1], games.shape[1]), int),
        payoff=_Lookup(games),
        plug_in=_Lookup(games if plug_in is None else plug_in),
    )


def contexts_of(games):
    return pa.table({"i": np.arange(len(games), dtype=float)})
