"""How large a network, how long to train it, how many voters, how strongly to shrink: read off the log, or tried out.

The rule, by the number of comparisons a model learns from (a record of s agents makes s - 1) and of contexts n:

    comparisons     hidden layers       contexts     members per fold, batch, epochs
    up to 2,000     64                  up to 1,000  5 (each leaves out a fifth), n / 32 (32 comparisons or more), 30
    up to 50,000    128                 more         1 (leaves out a tenth; a fifth below 5,000), n / 32 up to 512,
    more            128, 128                         10 at 16,000 contexts and as 1 / sqrt(n) otherwise, 6 to 30
                                        400,000 on   1 (leaves out 65,536 at most), n / 800 up to 8,192, 6

Weight decay, then the relevance of the inputs, then the number of voters, then the names of voters climb a ladder and
stay where the held-out likelihood is best; `docs/method.md` says why. With up to 1,000 contexts and 2,000 answers each
fold chooses by itself: two of its members climb, for 256 steps per rung or all epochs. With more, a rung is a trial on
at most 2,048 contexts of the first fold's, for 12 epochs, and all folds follow it: that is the few numbers of a
recipe's worth of leakage. The weight decay found there is scaled by the share of contexts tried, because what more data
can tell needs less shrinking.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, log2

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, runs
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort, torch_threads
from nasheval.nuisance.voters_network import Shape, slopes_of
from nasheval.nuisance.voters_records import names_of, pooled_utilities, tables_of, tie_start
from nasheval.nuisance.voters_train import Data, Recipe, Schedule, Task, Trained, joined, train

DECAYS = (0.05, 0.3, 1.0, 3.0, 10.0)
VOTERS = (1, 2, 4, 8)
FEW = 1_000  # contexts up to which a fold has several members
_MANY = 400_000  # contexts from which on steps are larger
_FEW_ANSWERS = 2_000  # answers up to which, with few contexts, every rung is trained in full
_TRIAL_FIT, _TRIAL_CHECK, _TRIAL_EPOCHS, _TRIAL_STEPS = 2_048, 2_048, 12, 256
_TRIED = 2  # members of a fold that choose its recipe on a small log
_MOST_CHECKED = 1 << 16  # contexts that a model leaves out to choose its epoch; more would tell nothing more
_EARNED = 0.003  # share of the held-out loss by which a rung must be better than the one below it
_PROOF, _PROOF_FEW = 0.001, 0.01  # what relevance must earn, and where every rung is in full: 300 answers mislead
_TRIAL_SHARE = 0.15  # of the progress bar, a ladder's


Widths = tuple[int, ...]
Rung = tuple[Recipe, float]  # and the share of the held-out loss that it must earn
Climb = Callable[[Recipe, Floats], list[Rung]]  # from the recipe so far, and the slopes of its inputs


def hidden_for(comparisons: float) -> tuple[int, ...]:
    """Return the widths of the hidden layers for a number of comparisons."""
    return (64,) if comparisons <= 2_000 else (128,) if comparisons <= 50_000 else (128, 128)


def batch_for(contexts: int, comparisons: float) -> int:
    """Return the contexts per step, a power of two: about 32 steps per epoch; 32 comparisons or more, 512 at most.

    From 400,000 contexts on 800 steps per epoch are enough, and larger ones cost less: 8,192 contexts at most.
    """
    if contexts > _MANY:
        return min(2 ** round(log2(contexts / 800)), 8_192)
    least = 2.0 ** np.ceil(np.log2(np.clip(32 * contexts / max(comparisons, 1), 1, 32)))
    return int(np.clip(2.0 ** np.round(np.log2(max(contexts, 1) / 32)), least, 512))


def epochs_for(contexts: int) -> int:
    """Return the epochs: 30 up to about 1,800 contexts, 10 at 16,000, 6 from 44,000 on."""
    return int(np.clip(round(10 * (16_000 / max(contexts, 1)) ** 0.5), 6, 30))


def splits(train: Bools, unit: Ints, members: int, seed: int) -> list[tuple[Ints, Ints]]:
    """Return (contexts to learn from, contexts to check on) for each member of each fold, fold by fold.

    Args:
        unit: (n_contexts,) what stays whole.
    """
    pairs: list[tuple[Ints, Ints]] = []
    for fold, rows in enumerate(train):
        contexts = np.flatnonzero(rows)
        alone = max(10 if len(contexts) >= 5_000 else 5, ceil(len(contexts) / _MOST_CHECKED))
        count = members if members > 1 else alone
        names, place = np.unique(unit[contexts], return_inverse=True)
        sorter, sizes = np.argsort(place, kind="stable"), np.bincount(place)
        order, first = np.random.default_rng((seed, 1, fold)).permutation(len(names)), np.cumsum(sizes) - sizes
        dealt = [contexts[sorter[runs(first[units], sizes[units])]] for units in np.array_split(order, count)]
        pairs += [(np.concatenate(dealt[:i] + dealt[i + 1 :]), dealt[i]) for i in range(members)]
    return pairs


class Workshop:
    """Trains the models of all folds and members, by recipes that may differ between folds.

    Args:
        train: (folds, n_contexts) which contexts each fold may see.
        hidden: widths of the hidden layers.
        members: models per fold.
    """

    def __init__(
        self, log: Feedback, data: Data, train: Bools, schedule: Schedule, hidden: Widths, members: int, effort: Effort
    ) -> None:
        self.data, self.schedule, self.hidden, self.members, self.effort = data, schedule, hidden, members, effort
        self.splits, self.folds = splits(train, log.units, members, effort.seed), len(train)
        seen = np.zeros((len(self.splits), log.n_contexts), bool)
        for row, (fit, _) in enumerate(self.splits):
            seen[row, fit] = True
        self.pooled, self.tie = pooled_utilities(log, seen), tie_start(data.tables, data.questions, seen)
        answers = sum(len(table.weight) for table in data.tables)
        self.named = _by_name(log, data)
        self.few = max(len(fit) for fit, _ in self.splits) <= FEW and answers <= _FEW_ANSWERS
        self.freer, self.proof = (0.0, _PROOF_FEW) if self.few else (_EARNED, _PROOF)
        self.tried = min(members, _TRIED) if self.few else members  # members of a fold that climb ladders

    def run(self, voters: int | None, weight_decay: float | None) -> tuple[Shape, Trained, list[Recipe]]:
        """Return the trained models, fold by fold and member by member, by the best recipe of each fold.

        Args:
            voters, weight_decay: given, or None to choose.
        """
        start = Recipe(voters or Recipe.voters, Recipe.weight_decay if weight_decay is None else weight_decay)
        chosen = [start] * self.folds
        climbs: list[Climb] = []
        if weight_decay is None:  # relevance goes with it, for both say how far to trust an input
            climbs += [self._decays, self._relevance] if self.data.x.shape[1] > 1 else [self._decays]
        if voters is None:
            climbs += [self._voters, self._names] if self.named is not None else [self._voters]
        chosen = chosen if self.few else chosen[:1]
        result: tuple[Shape, Trained] | None = None
        for climb in climbs:
            slopes = self._slopes(*result) if result else np.zeros((len(chosen), 0))
            ladders = [climb(recipe, mine) for recipe, mine in zip(chosen, slopes, strict=True)]
            known = climb == self._relevance  # whose first rung was trained on the ladder before
            shape, trained = self._train([ladder[known:] for ladder in ladders], trial=True, share=_TRIAL_SHARE)
            trained = joined([result[1], trained]) if known and result else trained
            best = self._best(trained, ladders)
            chosen = [ladder[rung][0] for ladder, rung in zip(ladders, best, strict=True)]
            result = shape, trained[_rows(best, self.tried)]
        chosen = chosen if self.few else chosen * self.folds
        if weight_decay is None:
            shares = [min(1.0, _TRIAL_FIT / max(len(fit), 1)) for fit, _ in self.splits[:: self.members]]
            chosen = [replace(r, weight_decay=r.weight_decay * s) for r, s in zip(chosen, shares, strict=True)]
        ladders = [[(recipe, 0.0)] for recipe in chosen]
        return *self._train(ladders, trial=False, share=1.0 - _TRIAL_SHARE * len(climbs)), chosen

    # -- the ladders --------------------------------------------------------------------------------------------------

    def _decays(self, recipe: Recipe, slopes: Floats) -> list[Rung]:
        return [(replace(recipe, weight_decay=decay), self.freer * rung) for rung, decay in enumerate(DECAYS)]

    def _relevance(self, recipe: Recipe, slopes: Floats) -> list[Rung]:
        """All inputs alike, or by their slopes, of mean square one; less shrinking may then do."""
        size = float(np.sqrt((slopes**2).mean()))
        by_slope = replace(recipe, relevance=tuple((slopes / size).tolist()) if size > 0 else ())
        less = replace(by_slope, weight_decay=0.3 * recipe.weight_decay)
        return [(recipe, 0.0), (less, self.proof), (by_slope, self.proof + self.freer)]

    def _voters(self, recipe: Recipe, slopes: Floats) -> list[Rung]:
        return [(replace(recipe, voters=voters), _EARNED * rung) for rung, voters in enumerate(VOTERS)]

    def _names(self, recipe: Recipe, slopes: Floats) -> list[Rung]:
        names = len(self.named.shares) if self.named else 1
        return [(recipe, 0.0), (replace(recipe, named=True, voters=max(2 * recipe.voters, names)), self.proof)]

    def _slopes(self, shape: Shape, trained: Trained) -> Floats:
        """Return (folds tried, inputs) how strongly margins change with each input, members together."""
        folds = len(trained.loss) // self.tried
        seen = [self.splits[row][0] for row in self._rows(folds, self.tried)]
        with torch_threads(self.schedule.threads):
            slopes = slopes_of(trained.parameters, self.data.x, seen, shape)
        return np.sqrt((slopes.reshape(folds, self.tried, slopes.shape[1]) ** 2).mean(axis=1))

    def _best(self, trained: Trained, ladders: list[list[Rung]]) -> Ints:
        """Return the rung for each fold that was tried: the lowest held-out loss, members together.

        The first where nothing is known.
        """
        folds, rungs = len(ladders), len(ladders[0])
        counts = np.array([len(self.splits[row][1]) for row in self._rows(folds, self.tried)], float)
        loss = (np.nan_to_num(trained.loss).reshape(rungs, -1) * counts).reshape(rungs, folds, self.tried).sum(axis=2)
        handicap = 1.0 + np.array([[earned for _, earned in ladder] for ladder in ladders]).T
        return (loss * handicap).round(6).argmin(axis=0)

    # -- training -----------------------------------------------------------------------------------------------------

    def _rows(self, folds: int, members: int) -> list[int]:
        """Return which splits are those of the first members of the first folds."""
        return [fold * self.members + member for fold in range(folds) for member in range(members)]

    def _train(self, ladders: list[list[Rung]], *, trial: bool, share: float) -> tuple[Shape, Trained]:
        """Train every rung of the folds' ladders, [fold][rung]: all members, or those tried; by rung, fold, member."""
        tasks = [
            self._task(rung * self.folds + row // self.members, row, rungs[row // self.members][0], trial)
            for rung, rungs in enumerate(zip(*ladders, strict=True))
            for row in self._rows(len(ladders), self.tried if trial else self.members)
        ]
        data = self.named if self.named and any(task.recipe.named for task in tasks) else self.data
        inputs, agents, ties = self.data.x.shape[1], self.pooled.shape[1], self.tie.shape[1]
        shape = Shape(inputs, agents, max(task.recipe.voters for task in tasks), self.hidden, ties)
        schedule = replace(self.schedule, epochs=self._trial_epochs) if trial else self.schedule
        return shape, train(data, tasks, shape, schedule, self.effort.share(share))

    @property
    def _trial_epochs(self) -> int:
        """Those of a rung; on a small log as many as make 256 steps."""
        steps = max(len(fit) for fit, _ in self.splits) / self.schedule.batch
        least = ceil(_TRIAL_STEPS / max(steps, 1)) if self.few else 0
        return min(self.schedule.epochs, max(_TRIAL_EPOCHS, least))

    def _task(self, group: int, row: int, recipe: Recipe, trial: bool) -> Task:
        fit, check = self.splits[row]
        if trial:
            fit, check = fit[:_TRIAL_FIT], check[:_TRIAL_CHECK]
        return Task(fit, check, self.pooled[row], self.tie[row], recipe, (self.effort.seed, 2, row), group)


def _by_name(log: Feedback, data: Data) -> Data | None:
    """Return the data with the voters distinguished by name; None where they should not be."""
    name = names_of(log)
    if not name.any():
        return None
    share = np.bincount(name, log.records.weights)
    return replace(data, tables=tables_of(log, data.questions, name), shares=share / share.sum())


def _rows(best: Ints, members: int) -> Ints:
    """Return which of the trained models are those of each fold's best rung."""
    return np.concatenate([(rung * len(best) + fold) * members + np.arange(members) for fold, rung in enumerate(best)])
