"""A stack of outcome learners, weighted by held-out squared error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort, Features, FoldModels, Learner, cells_of, held_out


@dataclass(frozen=True)
class StackModels:
    """Weighted means of several learners' models.

    Args:
        models: one for each learner.
        weights: (folds, learners) nonnegative, rows sum to one.
        losses: (folds, learners) held-out mean squared error of each learner.
    """

    models: tuple[FoldModels, ...]
    weights: Floats
    losses: Floats

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, P) weighted means of the learners' predictions; those without weight are not asked."""
        return np.asarray(sum(weight * models.predict(X, fold) for weight, models in self._used(fold)))

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) predictions at rows[i] of X and column columns[i] only."""
        return np.asarray(sum(w * cells_of(models, X, fold, rows, columns) for w, models in self._used(fold)))

    def _used(self, fold: int) -> list[tuple[float, FoldModels]]:
        both = zip(self.weights[fold], self.models, strict=True)
        return [(float(weight), models) for weight, models in both if weight > 0]


@dataclass(frozen=True)
class Stack:
    """mu^m_jk: the weighted mean of several learners, weights nonnegative with sum one, chosen inside each fold.

    A fifth of a fold's training contexts is held out, the learners are fitted on the rest, and the weights minimise
    squared error on what was held out; then the learners are fitted on all of the fold's training contexts. Whether a
    stack is used at all is decided on halves of the held-out contexts, weights from one half being judged on the other:
    where they do not beat the learner that is best there, that learner alone is used.

    Args:
        learners: two or more outcome learners.
    """

    learners: Sequence[Learner]

    def __post_init__(self) -> None:
        if len(self.learners) < 2:
            raise InputError(f"A stack of {len(self.learners)} learners; accepted are two or more.")

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> StackModels:
        """Fit every learner twice on each training set, and the weights in between; see `Learner.fit`."""
        each = effort.share(0.5 / len(self.learners))
        held = np.zeros_like(train)  # a fifth of each fold's training contexts, units whole
        for fold, seen in enumerate(train):
            held[fold, seen] = held_out(log.units[seen], np.random.default_rng([effort.seed, fold]))
        inner = [learner.fit(log, X, train & ~held, each) for learner in self.learners]
        chosen = [weigh(*_residuals(log, X, inner, held[fold], fold)) for fold in range(len(train))]
        del inner
        models = tuple(learner.fit(log, X, train, each) for learner in self.learners)
        weights, losses = zip(*chosen, strict=True)
        return StackModels(models, readonly(np.stack(weights)), readonly(np.stack(losses)))


def _residuals(
    log: Feedback, X: Features, models: Sequence[FoldModels], held: Bools, fold: int
) -> tuple[Floats, Floats, Ints]:
    """Return (rows, learners) z - mu at the held-out verdicts, their weights and their units."""
    context = log.context_of[log.verdicts.record]
    rows = np.flatnonzero(held[context])
    at = (X, fold, context[rows], log.menus.column_of_verdict[rows])
    residual = np.column_stack([log.verdicts.z[rows] - cells_of(one, *at) for one in models])
    return residual, log.records.weights[log.verdicts.record[rows]], log.units[context[rows]]


def weigh(residual: Floats, weight: Floats, unit: Ints) -> tuple[Floats, Floats]:
    """Return (learners,) weights of a stack and the learners' mean squared errors.

    Args:
        residual: (rows, learners) truth minus prediction, held out.
        weight: (rows,) weights.
        unit: (rows,) contexts or voters, which are kept together when the stack is judged.
    """
    n_learners = residual.shape[1]
    if not len(residual):
        return np.full(n_learners, 1 / n_learners), np.full(n_learners, np.nan)
    gram, *halves = (
        (residual[rows] * weight[rows, None]).T @ residual[rows] for rows in (slice(None), unit % 2 == 0, unit % 2 == 1)
    )

    def best_alone(gram: Floats) -> Floats:
        return np.eye(n_learners)[int(np.diag(gram).argmin())]

    def loss(choose: Callable[[Floats], Floats]) -> float:
        """Return the squared error of weights chosen on either half and judged on the other."""
        return sum(float(choose(a) @ b @ choose(a)) for a, b in (halves, halves[::-1]))

    weights = simplex_weights(gram) if loss(simplex_weights) < loss(best_alone) else best_alone(gram)
    return weights, np.diag(gram) / float(weight.sum())


def simplex_weights(gram: Floats) -> Floats:
    """Return the a >= 0 with sum one that minimises a' G a, (learners,).

    Minimising b' G b + (sum(b) - 1)^2 over b >= 0 gives a multiple of a, since for b = s a the best s leaves
    g / (1 + g), which grows with g = a' G a; and that is a nonnegative least-squares problem.
    """
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(gram / max(float(np.trace(gram)), 1e-300))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    multiple = nnls(np.vstack([root, np.ones(len(gram))]), np.append(np.zeros(len(gram)), 1.0))[0]
    return multiple / multiple.sum()
