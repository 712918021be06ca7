"""Is the held-out score of the correction h honest? Residuals that train h come from models that saw the scored fold.

`python -m studies nesting [--logs 10] [--contexts 3000]` draws logs of duels whose truth is known, one per context,
fits outcome models from rough to smooth, and prints the gain of h at strength 1: the fall in squared error per context,
summed over pairs. "score" is the package's way (`second_stage="corrected"`): h for a fold is learned from residuals of
the other folds, whose models saw that fold. "fresh" is the gain of the same models on fresh contexts; by what the score
differs from it, it leaks. The nested score is that of h learned from residuals of models that were fitted without the
scored fold too. "delivered" is the gain, on fresh contexts, of what a fit returns: the mean of all folds' models,
corrected by h learned from all residuals; at strength 1, and at the strengths that the two scores choose, against the
best one. All models are LightGBM, one per pair, written out here: the question is about the scheme, not about the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
from rich.console import Console
from rich.table import Table

from studies.arrays import Bools, Floats, Ints
from studies.harness.options import parser

AGENTS, FOLDS = 6, 5
J, K = np.triu_indices(AGENTS, 1)
H = {"num_iterations": 15, "num_leaves": 15, "learning_rate": 0.1, "min_data_in_leaf": 50}
LEARNERS: dict[str, Mapping[str, Any] | None] = {
    "rough trees": {"num_leaves": 31, "min_data_in_leaf": 5, "num_iterations": 100},
    "trees": {"num_leaves": 15, "min_data_in_leaf": 50, "num_iterations": 100, "max_depth": 7},
    "stumps": {"num_leaves": 2, "min_data_in_leaf": 40, "num_iterations": 30},
    "intercept": None,
}
Models = Callable[[Floats], Floats]  # (n, 3) contexts -> (n, pairs)


@dataclass(frozen=True)
class World:
    """Utilities that bend with the context, and every third pair a margin that no utilities give."""

    seed: int

    def margins(self, x: Floats) -> Floats:
        rng = np.random.default_rng(self.seed)
        utilities = rng.normal(0, 0.5, AGENTS) + np.sin(2 * x @ rng.normal(0, 1, (x.shape[1], AGENTS)))
        margins = np.tanh((utilities[:, J] - utilities[:, K]) / 2)
        margins[:, ::3] += 0.3 * np.cos(3 * x[:, :1])
        return np.clip(margins, -0.95, 0.95)

    def duels(self, n: int, rng: np.random.Generator) -> Duels:
        x, pair = rng.uniform(-1, 1, (n, 3)), rng.integers(len(J), size=n)
        first = rng.random(n) < (1 + self.margins(x)[np.arange(n), pair]) / 2
        return Duels(x, pair, np.where(first, 1.0, -1.0), rng.permutation(n) % FOLDS)


@dataclass(frozen=True)
class Duels:
    """One duel per context, every pair asked as often: contexts (n, 3), pairs, verdicts and folds, (n,) each."""

    x: Floats
    pair: Ints
    z: Floats
    fold: Ints

    def learn(self, target: Floats, keep: Bools, params: Mapping[str, Any] | None) -> Models:
        """Return one regressor per pair, learned from some contexts; without parameters the mean of each pair."""
        rows = [np.flatnonzero(keep & (self.pair == p)) for p in range(len(J))]
        if params is None:
            means = np.array([target[r].mean() for r in rows])
            return lambda x: np.tile(means, (len(x), 1))
        fixed = {"objective": "regression", "verbose": -1, "num_threads": 1, "deterministic": True, "seed": 0}
        fitted = [lightgbm.train({**fixed, **params}, lightgbm.Dataset(self.x[r], target[r])) for r in rows]
        return lambda x: np.stack([model.predict(x) for model in fitted], axis=1)

    def own(self, values: Floats) -> Floats:
        """Return (n,) the value of each context's own pair from (n, pairs)."""
        return np.asarray(values[np.arange(len(values)), self.pair])


@dataclass(frozen=True)
class Gain:
    """Sums over contexts of h c and of h^2, per context: what strength s wins is 2 s agreed - s^2 size."""

    agreed: float
    size: float

    def at(self, strength: float) -> float:
        return 2 * strength * self.agreed - strength**2 * self.size

    @property
    def best(self) -> float:
        return float(np.clip(self.agreed / self.size, 0, 1)) if self.size else 0.0

    @staticmethod
    def fresh(h: Floats, error: Floats) -> Gain:
        return Gain(float((h * error).sum(axis=1).mean()), float((h**2).sum(axis=1).mean()))

    @staticmethod
    def mean(gains: Sequence[Gain]) -> Gain:
        return Gain(float(np.mean([g.agreed for g in gains])), float(np.mean([g.size for g in gains])))


def measured(world: World, params: Mapping[str, Any] | None, n: int, seed: int) -> dict[str, Gain]:
    """Return the gain of h, measured in each of the four ways, and of the nested h on fresh contexts."""
    rng = np.random.default_rng([world.seed, seed])
    log = world.duels(n, rng)
    without = {
        (a, b): log.learn(log.z, (log.fold != a) & (log.fold != b), params)
        for a in range(FOLDS)
        for b in range(a, FOLDS)
    }

    def residuals(scored: int | None) -> Floats:
        """Return (n,) out-of-fold residuals, by models that saw no context of the scored fold either."""
        left = np.empty(n)
        for fold in range(FOLDS):
            pair = sorted((fold, fold if scored is None else scored))
            inside = log.fold == fold
            left[inside] = (log.z - log.own(without[pair[0], pair[1]](log.x)))[inside]
        return left

    plain, everyone = residuals(None), np.ones(n, bool)
    loose = [log.learn(plain, log.fold != b, H) for b in range(FOLDS)]
    nested = [log.learn(residuals(b), log.fold != b, H) for b in range(FOLDS)]
    x = rng.uniform(-1, 1, (4000, 3))
    truth, mu = world.margins(x), np.stack([without[b, b](x) for b in range(FOLDS)])
    return {
        "score": _held_out(log, loose, plain),
        "fresh": Gain.mean([Gain.fresh(h(x), truth - mu[b]) for b, h in enumerate(loose)]),
        "nested score": _held_out(log, nested, plain),
        "nested fresh": Gain.mean([Gain.fresh(h(x), truth - mu[b]) for b, h in enumerate(nested)]),
        "delivered": Gain.fresh(log.learn(plain, everyone, H)(x), truth - mu.mean(axis=0)),
    }


def _held_out(log: Duels, surfaces: Sequence[Models], residual: Floats) -> Gain:
    """Return the gain of each fold's h at the contexts of that fold, with residuals over propensities for the truth."""
    h = np.empty((len(log.x), len(J)))
    for fold, surface in enumerate(surfaces):
        h[log.fold == fold] = surface(log.x[log.fold == fold])
    return Gain(float((log.own(h) * residual * len(J)).mean()), float((h**2).sum(axis=1).mean()))


def main(words: Sequence[str]) -> None:
    known = parser("nesting", __doc__)
    known.add_argument("--logs", type=int, default=10)
    known.add_argument("--contexts", type=int, default=3000)
    options = known.parse_args(words)
    title = f"Gain of h per context, {options.logs} logs of {options.contexts:,} duels, standard errors over logs"
    table = Table("outcome model", *COLUMNS, title=title)
    for name, params in LEARNERS.items():
        logs = [measured(World(seed % 5), params, options.contexts, seed) for seed in range(options.logs)]
        table.add_row(name, *(_mean([column(gains) for gains in logs]) for column in COLUMNS.values()))
    Console(width=200).print(table)


COLUMNS: dict[str, Callable[[dict[str, Gain]], float]] = {
    "score": lambda g: g["score"].at(1),
    "fresh": lambda g: g["fresh"].at(1),
    "score - fresh": lambda g: g["score"].at(1) - g["fresh"].at(1),
    "nested score": lambda g: g["nested score"].at(1),
    "nested - its fresh": lambda g: g["nested score"].at(1) - g["nested fresh"].at(1),
    "delivered": lambda g: g["delivered"].at(1),
    "at the score's": lambda g: g["delivered"].at(g["score"].best),
    "at the nested": lambda g: g["delivered"].at(g["nested score"].best),
    "at the best": lambda g: g["delivered"].at(g["delivered"].best),
    "best strength": lambda g: g["delivered"].best,
}


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):+.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"
