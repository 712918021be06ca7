"""Is the held-out score of the correction h honest? Residuals that train h come from models that saw the scored fold.

`python -m benchmarks.nesting [--logs 10] [--contexts 3000]` draws logs of duels whose truth is known, one per context,
fits outcome models from rough to smooth, and prints the gain of h at strength 1: the fall in squared error per context,
summed over pairs. "score" is what the package uses: h for a fold is learned from residuals of the other folds, whose
models saw that fold. "fresh" is the gain of the same models on fresh contexts; by what the score differs from it, it
leaks. The nested score is that of h learned from residuals of models that were fitted without the scored fold too.
"delivered" is the gain, on fresh contexts, of what a fit returns: the mean of all folds' models, corrected by h learned
from all residuals; at strength 1, and at the strengths that the two scores choose, against the best one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import nasheval as ne
from nasheval.feedback.records import Records
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.learners import Effort, Features, FoldModels, Learner
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.trees import TreeOutcome
from nasheval.payoff.corrected import Cells, PerPair, _held_out
from nasheval.payoff.pseudo import PseudoOutcomes, pseudo_outcomes
from nasheval.payoff.strengths import HeldOut
from nasheval.payoff.surfaces import Boosting, Surface

AGENTS, FOLDS, TREES = 6, 5, 15
J, K = np.triu_indices(AGENTS, 1)
H = Boosting(trees=TREES, leaves=15, rate=0.1, least=50)
LEARNERS: dict[str, Learner] = {
    "rough trees": TreeOutcome({"num_leaves": 31, "min_data_in_leaf": 5, "num_iterations": 100}),
    "trees": TreeOutcome(),
    "stumps": TreeOutcome({"num_leaves": 2, "min_data_in_leaf": 40, "num_iterations": 30}),
    "intercept": Intercept(),
}


@dataclass(frozen=True)
class World:
    """Utilities that bend with the context, and every third pair a margin that no utilities give."""

    seed: int

    def margins(self, x: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        utilities = rng.normal(0, 0.5, AGENTS) + np.sin(2 * x @ rng.normal(0, 1, (x.shape[1], AGENTS)))
        margins = np.tanh((utilities[:, J] - utilities[:, K]) / 2)
        margins[:, ::3] += 0.3 * np.cos(3 * x[:, :1])
        return np.clip(margins, -0.95, 0.95)

    def log(self, n: int, rng: np.random.Generator) -> tuple[ne.Feedback, Features]:
        x, pair = rng.uniform(-1, 1, (n, 3)), rng.integers(len(J), size=n)
        first = rng.random(n) < (1 + self.margins(x)[np.arange(n), pair]) / 2
        records = Records.build(
            sizes=np.full(n, 2),
            agent=np.stack([J[pair], K[pair]], axis=1).ravel(),
            rank=np.stack([~first, first], axis=1).astype(int).ravel(),
        )
        log = ne.Feedback.from_records(
            records, agents=list("abcdef"), contexts=pa.table({f"x{c}": x[:, c] for c in range(3)}),
            context_of=np.arange(n), design="draws",
        )  # fmt: skip
        return log, Features(x, x)


@dataclass(frozen=True)
class Even:
    """Every pair is drawn as often: the true propensities."""

    menus: int

    def predict(self, X: Features, fold: int) -> np.ndarray:
        return np.full((len(X), self.menus), 1 / self.menus)


@dataclass(frozen=True)
class Renumbered:
    """Some models of a larger set, one per fold."""

    models: FoldModels
    number: Sequence[int]

    def predict(self, X: Features, fold: int) -> np.ndarray:
        return self.models.predict(X, self.number[fold])


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
    def held_out(held: HeldOut) -> Gain:
        n = held.used.sum()
        return Gain(float((held.h * held.correction).sum() / n), float((held.dense**2).sum() / len(held.sampled)))

    @staticmethod
    def fresh(h: np.ndarray, error: np.ndarray) -> Gain:
        return Gain(float((h * error).sum(axis=1).mean()), float((h**2).sum(axis=1).mean()))


def measured(world: World, learner: Learner, n: int, seed: int) -> dict[str, Gain]:
    """Return the gain of h, measured in each of the four ways, and of the nested h on fresh contexts."""
    rng = np.random.default_rng([world.seed, seed])
    log, X = world.log(n, rng)
    fold, pairs = make_folds(log, FOLDS, seed=seed), log.menus.columns.pair
    left_out = [(a, b) for a in range(FOLDS) for b in range(a, FOLDS)]
    train = np.stack([(fold != a) & (fold != b) for a, b in left_out])
    models = learner.fit(log, X, train, Effort())

    def pseudo_without(scored: int | None) -> PseudoOutcomes:
        others = [(a, a if scored is None else scored) for a in range(FOLDS)]
        number = [left_out.index((min(pair), max(pair))) for pair in others]
        return pseudo_outcomes(NuisanceFit(log, X, fold, Renumbered(models, number), Even(len(log.menus))))

    plain = pseudo_without(None)
    cells = Cells.of(plain)
    every = [np.ones(len(cells.pair), bool)]
    keep = [fold[cells.context] != b for b in range(FOLDS)]
    loose = PerPair(X, cells, H).start(keep, Effort()).grow(TREES)
    nested = [_learned(X, pseudo_without(b), b) for b in range(FOLDS)]
    whole = PerPair(X, cells, H).start(every, Effort()).grow(TREES)[0]
    x = rng.uniform(-1, 1, (4000, 3))
    points, truth = Features(x, x), world.margins(x)
    mu = np.empty((FOLDS, len(x), len(J)))
    for b in range(FOLDS):
        mu[b][:, pairs] = models.predict(points, left_out.index((b, b)))
    return {
        "score": Gain.held_out(_held_out(loose, plain, cells)),
        "fresh": _fresh(loose, points, truth - mu),
        "nested score": Gain.held_out(_held_out(nested, plain, cells)),
        "nested fresh": _fresh(nested, points, truth - mu),
        "delivered": Gain.fresh(whole.predict(points), truth - mu.mean(axis=0)),
    }


def _learned(X: Features, pseudo: PseudoOutcomes, scored: int) -> Surface:
    cells = Cells.of(pseudo)
    return PerPair(X, cells, H).start([pseudo.fit.fold[cells.context] != scored], Effort()).grow(TREES)[0]


def _fresh(surfaces: Sequence[Surface], points: Features, error: np.ndarray) -> Gain:
    gains = [Gain.fresh(surface.predict(points), error[b]) for b, surface in enumerate(surfaces)]
    return Gain(float(np.mean([g.agreed for g in gains])), float(np.mean([g.size for g in gains])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--contexts", type=int, default=3000)
    options = parser.parse_args()
    title = f"Gain of h per context, {options.logs} logs of {options.contexts:,} duels, standard errors over logs"
    table = Table("outcome model", *COLUMNS, title=title)
    for name, learner in LEARNERS.items():
        logs = [measured(World(seed % 5), learner, options.contexts, seed) for seed in range(options.logs)]
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


if __name__ == "__main__":
    main()
