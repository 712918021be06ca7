"""Nuisances for tests: true ones, smooth arbitrary ones, constants; and small logs of every kind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.learners import Features


class Given:
    """Fold models from a function of (x (n, d), fold); known ones have no floor."""

    def __init__(self, function, known=False):
        self.function, self.known = function, known

    def predict(self, X, fold):
        return self.function(X.trees, fold)


def features(x):
    return Features(x, x)


def true_fit(world, log, modality, voters=3, selection="inclusion", *, folds=3, mu=None, e=None):
    """The true nuisances of a world, one of which may be replaced by a function of (x, fold)."""
    X = features(world.contexts(log.n_contexts))

    def outcome(x, fold):
        return world.outcome(x, modality, voters).values

    def propensity(x, fold):
        found = world.propensity(x, modality, selection=selection)
        return np.repeat(found[:, None], len(log.menus), axis=1) if found.ndim == 1 else found

    return NuisanceFit(log, X, make_folds(log, folds), Given(mu or outcome), Given(e or propensity, known=True))


def arbitrary_fit(log, x, seed=0, folds=3):
    """Smooth nuisances that differ between folds and are not true."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(folds, x.shape[1], len(log.menus.columns)))
    C = rng.normal(size=(folds, x.shape[1], len(log.menus)))
    mu = Given(lambda x, fold: np.tanh(x @ B[fold]))
    e = Given(lambda x, fold: 0.15 + 0.8 / (1 + np.exp(-x @ C[fold])))
    return NuisanceFit(log, features(x), make_folds(log, folds), mu, e)


def constant(values):
    """The same prediction, (columns,), at every context and in every fold."""
    return Given(lambda x, fold: np.broadcast_to(values, (len(x), len(values))))


def ragged_log(n=40, seed=0, design="draws", weighted=True):
    """Menus of two to four agents in several forms, repeated at a context, weighted; some contexts have none."""
    rng = np.random.default_rng(seed)
    agents = list("abcde")
    context_of, said, weight, voter = [], [], [], []
    for i in range(n):
        for _ in range(rng.integers(0, 4)):
            menu = list(rng.choice(agents[:4] if rng.random() < 0.8 else ["a", "e"], rng.integers(2, 3), replace=False))
            menu = menu if rng.random() < 0.6 else list(rng.permutation(["a", "b", "c"]))
            form = rng.integers(3) if len(menu) > 2 else 0
            answers = (
                partition.ranking(menu),
                partition.winner(menu[0], menu),
                partition.weak([menu[:2], menu[2:]]) if len(menu) > 2 else partition.ranking(menu),
            )
            for _ in range(1 + (rng.random() < 0.3)):
                context_of.append(i)
                said.append(answers[form])
                weight.append(float(rng.choice([0.5, 1.0, 2.0])))
                voter.append(f"v{rng.integers(6)}")
    x = rng.normal(size=(n, 3))
    log = Feedback.from_partitions(
        x, said, agents=agents, context_of=context_of, weight=weight if weighted else None, voter=voter, design=design
    )
    return log, x


def population_log(world, modality, n, voters=3):
    """A log on which sums are expectations: every menu at each context, every voter's answer with weight e0(x) / V."""
    X = world.contexts(n)
    catalogue, e, u = world.catalogue(modality), world.propensity(X), world.utilities(X, voters)
    agents = [f"a{j}" for j in range(world.agents)]
    context_of, said, weight = [], [], []
    for i in range(n):
        for m in range(len(catalogue)):
            members = catalogue.members(m)
            for v in range(voters):
                order = [agents[a] for a in members[np.argsort(-u[i, v, members])]]
                context_of.append(i)
                said.append(partition.winner(order[0], order) if modality == "winner" else partition.ranking(order))
                weight.append(float(e[i]) / voters)
    return Feedback.from_partitions(X, said, agents=agents, context_of=context_of, weight=weight, design="inclusion")


def linear_margins(K, seed=0):
    """Centre and slope, (n_pairs,) each, of margins centre + slope * x0 with x0 uniform on [-1, 1]."""
    rng = np.random.default_rng(seed)
    size = K * (K - 1) // 2
    return rng.uniform(-0.5, 0.5, size), rng.uniform(-0.3, 0.3, size)


def duel_log(rng, n, centre, slope, *, K=4, voters=None, effect=0.0, one=False, each=1, x=None):
    """Duels with margins centre + slope * x0, each pair included with probability e(x), or (one) drawn evenly.

    Args:
        voters: number of voters, each of whom leans on every pair by `effect` times a normal number of their own.
        each: draws a context.
        x: the contexts, or None to draw them.
    """
    x = rng.uniform(-1, 1, (n, 2)) if x is None else x
    mu = centre + slope * x[:, :1]
    if one:
        context, pair = np.repeat(np.arange(n), each), rng.integers(mu.shape[1], size=n * each)
    else:
        context, pair = np.nonzero(rng.random(mu.shape) < inclusion(x)[:, None])
    voter = None if voters is None else rng.integers(voters, size=len(pair))
    lean = 0.0 if voters is None else (effect * rng.normal(size=(voters, mu.shape[1])))[voter, pair]
    first = rng.random(len(pair)) < (1 + np.clip(mu[context, pair] + lean, -1, 1)) / 2
    j, k = np.triu_indices(K, 1)
    records = Records.build(
        sizes=np.full(len(pair), 2),
        agent=np.stack([j[pair], k[pair]], axis=1).ravel(),
        rank=np.stack([~first, first], axis=1).astype(int).ravel(),
        voter=voter,
    )
    log = Feedback.from_records(
        records,
        agents=list("abcdefgh"[:K]),
        contexts=pa.table({"x0": x[:, 0], "x1": x[:, 1], "side": np.where(x[:, 1] > 0, "right", "left")}),
        context_of=context,
        voters=None if voters is None else pa.array([f"v{v}" for v in range(voters)]),
        design="draws" if one else "inclusion",
    )
    return log, x


def inclusion(x):
    return 0.3 + 0.3 * (x[:, 0] > 0)


def duel_fit(log, x, centre, slope, *, share=0.5, one=False, folds=2):
    """True propensities; of the true margins only a share is known to the outcome model."""
    columns = log.menus.columns.pair
    mu = Given(lambda x, fold: share * (centre + slope * x[:, :1])[:, columns])
    e = Given(lambda x, fold: np.repeat((np.full(len(x), 1 / len(centre)) if one else inclusion(x))[:, None],
                                        len(log.menus), axis=1))  # fmt: skip
    return NuisanceFit(log, features(x), make_folds(log, folds), mu, e)
