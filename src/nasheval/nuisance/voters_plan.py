"""How large a network, how long to train it, how many voters, how strongly to shrink: read off the log, or tried out.

The rule, by the number of comparisons a model learns from (a record of s agents makes s - 1) and of contexts n:

    comparisons     hidden layers       contexts     members a fold, batch, epochs
    up to 2,000     64                  up to 1,000  5 (each leaves out a fifth), n / 32, 30
    up to 50,000    128                 more         1 (leaves out a tenth; a fifth below 5,000), n / 32 up to 512,
    up to 400,000   128, 128                         10 at 16,000 contexts and as 1 / sqrt(n) otherwise, 6 to 30
    more            256, 256

Weight decay and then the number of voters climb a ladder and stay where the held-out likelihood is best; more voters
must earn their cost. With up to 1,000 contexts and 2,000 answers every rung is trained in full, and each fold chooses
by itself. With more, a rung is a trial on at most 2,048 contexts of the first fold's, for 12 epochs, and all folds
follow it: that is two numbers' worth of leakage. The weight decay found there is scaled by the share of contexts tried,
because what more data can tell needs less shrinking.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nasheval.arrays import Bools, Ints
from nasheval.feedback.base import Log
from nasheval.nuisance.learners import Advance
from nasheval.nuisance.voters_network import Shape
from nasheval.nuisance.voters_records import pooled_utilities, tie_start
from nasheval.nuisance.voters_train import Data, Schedule, Task, Trained, train

DECAYS = (0.05, 0.3, 1.0, 3.0, 10.0)
VOTERS = (1, 2, 4, 8)
FEW = 1_000  # contexts up to which a fold has several members
_FEW_ANSWERS = 2_000  # answers up to which, with few contexts, every rung is trained in full
_TRIAL_FIT, _TRIAL_CHECK, _TRIAL_EPOCHS = 2_048, 2_048, 12
_EARNED = 0.003  # share of the held-out loss by which more voters must lower it
_TRIAL_SHARE = 0.2  # of the progress bar, a ladder's


@dataclass(frozen=True)
class Recipe:
    """What may differ from fold to fold.

    Args:
        voters: number of latent voters.
        weight_decay: how fast weights shrink toward the pooled model.
    """

    voters: int = 4
    weight_decay: float = 0.3


@dataclass(frozen=True)
class Plan:
    """What all folds share.

    Args:
        hidden: widths of the hidden layers.
        schedule: of the training.
        members: models a fold.
        dropout: share of the last hidden layer that is dropped.
        context_weights: whether mixture weights depend on the context.
        seed: of everything.
    """

    hidden: tuple[int, ...]
    schedule: Schedule
    members: int
    dropout: float
    context_weights: bool
    seed: int


def hidden_for(comparisons: float) -> tuple[int, ...]:
    """Return the widths of the hidden layers for a number of comparisons."""
    for most, widths in ((2_000, (64,)), (50_000, (128,)), (400_000, (128, 128))):
        if comparisons <= most:
            return widths
    return (256, 256)


def batch_for(contexts: int) -> int:
    """Return the contexts a step: about 32 steps an epoch, a power of two from 32 to 512."""
    return int(np.clip(2.0 ** np.round(np.log2(max(contexts, 1) / 32)), 32, 512))


def epochs_for(contexts: int) -> int:
    """Return the epochs: 30 up to about 1,800 contexts, 10 at 16,000, 6 from 44,000 on."""
    return int(np.clip(round(10 * (16_000 / max(contexts, 1)) ** 0.5), 6, 30))


def splits(train: Bools, members: int, seed: int) -> list[tuple[Ints, Ints]]:
    """Return (contexts to learn from, contexts to check on) for each member of each fold, fold by fold."""
    found = []
    for fold, rows in enumerate(train):
        order = np.random.default_rng((seed, 1, fold)).permutation(np.flatnonzero(rows))
        parts = members if members > 1 else 10 if len(order) >= 5_000 else 5
        blocks = np.array_split(order, parts)
        found += [(np.concatenate(blocks[:i] + blocks[i + 1 :]), blocks[i]) for i in range(members)]
    return found


class Workshop:
    """Trains the models of all folds and members, by recipes that may differ between folds."""

    def __init__(self, log: Log, data: Data, train: Bools, plan: Plan, advance: Advance) -> None:
        self.data, self.plan, self.advance, self.n_agents = data, plan, advance, log.n_agents
        self.splits, self.folds = splits(train, plan.members, plan.seed), len(train)
        seen = np.zeros((len(self.splits), log.n_contexts), bool)
        for row, (fit, _) in enumerate(self.splits):
            seen[row, fit] = True
        self.pooled = pooled_utilities(log, seen)
        self.tie = tie_start(data.tables, data.questions, seen)
        answers = sum(len(table.weight) for table in data.tables)
        self.few = max(len(fit) for fit, _ in self.splits) <= FEW and answers <= _FEW_ANSWERS

    def run(self, voters: int | None, weight_decay: float | None) -> tuple[Shape, Trained, list[Recipe]]:
        """Return the trained models, fold by fold and member by member, by the best recipe of each fold.

        Args:
            voters, weight_decay: given, or None to choose.
        """
        start = Recipe(voters or Recipe.voters, Recipe.weight_decay if weight_decay is None else weight_decay)
        chosen = [start] * self.folds
        ladders = [_decays] * (weight_decay is None) + [_voters] * (voters is None)
        share = 1.0 / max(len(ladders), 1) if self.few else _TRIAL_SHARE
        result = None
        for climb in ladders:
            tried = chosen if self.few else chosen[:1]
            ladder = [list(rung) for rung in zip(*map(climb, tried), strict=True)]
            shape, trained = self._train(ladder, trial=not self.few, share=share)
            best = self._best(trained, ladder, earned=_EARNED * (climb is _voters))
            chosen = [ladder[rung][fold] for fold, rung in enumerate(best)]
            result = shape, _rows(trained, best, self.plan.members), chosen
        if self.few and result is not None:
            return result
        chosen = chosen if len(chosen) == self.folds else chosen * self.folds
        if weight_decay is None:
            chosen = [self._scaled(recipe, fold) for fold, recipe in enumerate(chosen)]
        shape, trained = self._train([chosen], trial=False, share=1.0 - share * len(ladders))
        return shape, trained, chosen

    def _best(self, trained: Trained, ladder: list[list[Recipe]], earned: float) -> Ints:
        """Return the rung for each fold that was tried: the lowest held-out loss, members together.

        A rung must lower it by a share `earned` for each rung above the lower one; the first where nothing is known.
        """
        rungs, folds, members = len(ladder), len(ladder[0]), self.plan.members
        counts = np.array([len(check) for _, check in self.splits[: folds * members]], float)
        loss = (np.nan_to_num(trained.loss).reshape(rungs, folds, members) * counts.reshape(folds, members)).sum(axis=2)
        handicap = 1.0 + earned * np.arange(rungs)[:, None]
        return np.asarray((loss * handicap).round(6).argmin(axis=0))

    def _scaled(self, recipe: Recipe, fold: int) -> Recipe:
        contexts = max(len(self.splits[fold * self.plan.members][0]), 1)
        return replace(recipe, weight_decay=recipe.weight_decay * min(1.0, _TRIAL_FIT / contexts))

    def _train(self, ladder: list[list[Recipe]], *, trial: bool, share: float) -> tuple[Shape, Trained]:
        """Train every rung of a ladder, [rung][fold], all members; tasks by rung, fold, member."""
        tasks = [
            self._task(rung * self.folds + fold, fold * self.plan.members + member, recipe, trial)
            for rung, recipes in enumerate(ladder)
            for fold, recipe in enumerate(recipes)
            for member in range(self.plan.members)
        ]
        questions, plan = self.data.questions, self.plan
        ties = max((question.tie + question.n_tie for question in questions), default=0)
        most = max(task.voters for task in tasks)
        shape = Shape(self.data.x.shape[1], self.n_agents, most, plan.hidden, ties, plan.context_weights)
        schedule = plan.schedule
        if trial:
            schedule = replace(schedule, epochs=min(schedule.epochs, _TRIAL_EPOCHS))
        return shape, train(self.data, tasks, shape, schedule, lambda part: self.advance(part * share))

    def _task(self, group: int, row: int, recipe: Recipe, trial: bool) -> Task:
        fit, check = self.splits[row]
        if trial:
            fit, check = fit[:_TRIAL_FIT], check[:_TRIAL_CHECK]
        return Task(
            fit=fit,
            check=check,
            pooled=self.pooled[row],
            tie=self.tie[row],
            voters=recipe.voters,
            weight_decay=recipe.weight_decay,
            dropout=self.plan.dropout,
            seed=(self.plan.seed, 2, row),
            group=group,
        )


def _decays(recipe: Recipe) -> list[Recipe]:
    return [replace(recipe, weight_decay=weight_decay) for weight_decay in DECAYS]


def _voters(recipe: Recipe) -> list[Recipe]:
    return [replace(recipe, voters=voters) for voters in VOTERS]


def _rows(trained: Trained, best: Ints, members: int) -> Trained:
    """Return the models of each fold's best rung."""
    rows = np.concatenate([(rung * len(best) + fold) * members + np.arange(members) for fold, rung in enumerate(best)])
    parameters = {name: values[rows] for name, values in trained.parameters.items()}
    return Trained(parameters, trained.loss[rows], trained.pooled_loss[rows], trained.epoch[rows])
