"""As many trees as help: the number of trees is chosen on the contexts that the folds hold out anyway."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.boosting import complete
from nasheval.feedback.log import Feedback
from nasheval.nuisance.columns import grouped, shrunken_means
from nasheval.nuisance.learners import Effort, Features, run_all
from nasheval.nuisance.trees import TreeModels, TreeOutcome

if TYPE_CHECKING:
    from lightgbm import Booster


@dataclass(frozen=True)
class StoppedTrees:
    """`TreeOutcome`, of which all, a half, a quarter, ... or none of the trees are kept, whichever predicts best.

    On few votes per pair the printed hundred trees follow noise. Each fold's models are judged by their squared error
    on the contexts that the fold holds out, summed over folds, menus and pairs, and all keep the same number of trees;
    without trees a column is the shrunken mean of its pair. No model is fitted twice. A fold's models never see the
    contexts they predict; those contexts have a say in that one number only.

    Args:
        learner: what grows the trees; its number of trees is the most.
    """

    learner: TreeOutcome = field(default_factory=TreeOutcome)

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> TreeModels:
        """Fit one model for each fold and column, and keep as many of their trees as help; see `Learner.fit`."""
        models = self.learner.fit(log, X, train, effort)
        numbers = halvings(complete(self.learner.params)["num_iterations"])
        means = np.array([shrunken_means(log, seen) for seen in train])
        losses = held_out_losses(models, log, X, train, means, numbers)
        trees = int(numbers[losses.argmin()]) if losses.any() else int(numbers[-1])
        kept = (
            tuple(first_trees(model, trees, float(mean)) for model, mean in zip(row, without, strict=True))
            for row, without in zip(models.models, means, strict=True)
        )
        return replace(models, models=tuple(kept))


def halvings(most: int) -> Ints:
    """Return 0 and `most` with its halves, quarters, ... down to 1, ascending."""
    return np.unique([0, *(most >> step for step in range(most.bit_length()))])


def held_out_losses(
    models: TreeModels, log: Feedback, X: Features, train: Bools, means: Floats, numbers: Ints
) -> Floats:
    """Return the sum of squared errors on held-out contexts for each number of trees; zeros if nothing is held out.

    Args:
        train: (folds, n_contexts) which contexts each fold's models saw.
        means: (folds, columns) what to predict without trees.
        numbers: (numbers,) numbers of trees, the first being 0.
    """
    context, z = log.context_of[log.verdicts.record], log.verdicts.z.astype(np.float64)
    weight = log.records.weights[log.verdicts.record]
    groups = grouped(log.menus.column_of_verdict, len(log.menus.columns))

    def judge(fold: int, column: int) -> Floats:
        model, rows = models.models[fold][column], groups[column]
        rows = rows[~train[fold][context[rows]]]
        if isinstance(model, float) or not len(rows):
            return np.zeros(len(numbers))
        table = np.ascontiguousarray(X.trees[context[rows]])
        grown = [model.predict(table, num_iteration=int(trees), num_threads=1) for trees in numbers[1:]]
        predicted = np.clip([np.full(len(rows), means[fold, column]), *grown], models.low, models.high)
        return np.asarray((predicted - z[rows]) ** 2 @ weight[rows])

    cells = list(np.ndindex(means.shape))
    return np.asarray(
        np.sum(run_all(lambda cell: judge(*cell), cells, len(cells), Effort(n_jobs=models.n_jobs)), axis=0)
    )


def first_trees(model: Booster | float, trees: int, without: float) -> Booster | float:
    """Return a model cut to its first trees, or the number that is predicted without any."""
    import lightgbm as lgb

    if isinstance(model, float) or not trees:
        return model if isinstance(model, float) else without
    return lgb.Booster(model_str=model.model_to_string(num_iteration=trees))
