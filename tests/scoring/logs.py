"""Small logs with nuisances and lotteries for tests of held-out scores."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.learners import Features
from nasheval.payoff.pseudo import pseudo_outcomes

ABCDE = tuple("abcde")


class Given:
    """Fold models, or a learner of them, from a function of (x (n, d), fold)."""

    def __init__(self, function):
        self.function = function

    def fit(self, log, X, train, effort):
        return self

    def predict(self, X, fold):
        return self.function(X.trees.astype(np.float64), fold)


class Fixed:
    """A policy from a function of contexts, (n, d) -> (n, K)."""

    def __init__(self, agents, function):
        self.agents, self.function = tuple(agents), function

    def predict_proba(self, contexts, *, agents=None):
        x = np.stack([np.asarray(contexts[c]) for c in contexts.column_names if c.startswith("x")], axis=1)
        return self.function(x.astype(np.float64))


def arbitrary_fit(log, x, seed=0, folds=3):
    """Smooth nuisances that differ between folds and are not true."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(folds, x.shape[1], len(log.menus.columns)))
    C = rng.normal(size=(folds, x.shape[1], len(log.menus)))
    mu = Given(lambda x, fold: np.tanh(x @ B[fold]))
    e = Given(lambda x, fold: 0.15 + 0.8 / (1 + np.exp(-x @ C[fold])))
    return NuisanceFit(log, Features(x, x), make_folds(log, folds), mu, e)


def ragged_log(n=40, seed=0, design="draws", *, voters=6, pairs_with_e=True):
    """Duels, rankings and winners of three among a to d, now and then a against e; weighted; some contexts bare."""
    rng = np.random.default_rng(seed)
    context_of, said, weight, voter = [], [], [], []
    for i in range(n):
        for _ in range(rng.integers(0, 5)):
            menu = list(rng.choice(list("abcd"), rng.integers(2, 4), replace=False))
            if pairs_with_e and rng.random() < 0.2:
                menu = ["a", "e"] if rng.random() < 0.5 else ["e", "a"]
            ballot = partition.winner(menu[0], menu) if rng.random() < 0.3 else partition.ranking(menu)
            context_of.append(i)
            said.append(ballot)
            weight.append(float(rng.choice([0.5, 1.0, 2.0])))
            voter.append(f"v{rng.integers(voters)}")
    x = rng.normal(size=(n, 3))
    table = pa.table({"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "side": np.where(x[:, 1] > 0, "right", "left")})
    log = Feedback.from_partitions(
        table, said, agents=ABCDE, context_of=context_of, weight=weight, voter=voter, design=design
    )
    return log, x


def random_lotteries(n, K, policies, seed=0):
    """Lotteries by name, some of their entries exactly zero."""
    rng = np.random.default_rng(seed)
    raw = rng.dirichlet(np.ones(K), (policies, n)) * (rng.random((policies, n, K)) < 0.7)
    raw[..., 0] += 1e-3
    return {f"p{p}": raw[p] / raw[p].sum(axis=1, keepdims=True) for p in range(policies)}


J, K_ = np.triu_indices(4, 1)
CENTRE = np.array([0.3, -0.2, 0.1, 0.4, -0.1, 0.2])
SLOPE = np.array([0.4, 0.5, -0.4, -0.3, 0.5, -0.5])


def true_payoff(x):
    """A(x), (n, 4, 4), of the world of `duels`."""
    A = np.zeros((len(x), 4, 4))
    A[:, J, K_] = CENTRE + SLOPE * x[:, :1]
    return A - A.transpose(0, 2, 1)


def inclusion(x):
    return 0.25 + 0.5 / (1 + np.exp(-2 * x[:, 0]))


def duels(rng, n, *, draws=False, voters=None, lean=0.0):
    """A log of duels among four agents with margins linear in x0, asked more often where x0 is large.

    Args:
        draws: one duel per context, drawn evenly, in place of independent inclusions.
        voters: number of voters, each of whom leans on every pair by `lean` times a normal number of their own.
    """
    x = rng.uniform(-1, 1, (n, 2))
    mu = CENTRE + SLOPE * x[:, :1]
    if draws:
        context, pair = np.arange(n), rng.integers(6, size=n)
    else:
        context, pair = np.nonzero(rng.random(mu.shape) < inclusion(x)[:, None])
    voter = None if voters is None else rng.integers(voters, size=len(pair))
    shift = 0.0 if voters is None else (lean * rng.normal(size=(voters, 6)))[voter, pair]
    first = rng.random(len(pair)) < (1 + np.clip(mu[context, pair] + shift, -1, 1)) / 2
    records = Records.build(
        sizes=np.full(len(pair), 2),
        agent=np.stack([J[pair], K_[pair]], axis=1).ravel(),
        rank=np.stack([~first, first], axis=1).astype(int).ravel(),
        voter=voter,
    )
    return Feedback.from_records(
        records,
        agents=list("abcd"),
        contexts=pa.table({"x0": x[:, 0], "x1": x[:, 1], "side": np.where(x[:, 1] > 0, "right", "left")}),
        context_of=context,
        voters=None if voters is None else pa.array([f"v{v}" for v in range(voters)]),
        design="draws" if draws else "inclusion",
    ), x


def duel_pseudo(log, x, *, draws=False, mu=None, e=None, folds=2):
    """Gamma of a log of `duels`; each true nuisance may be replaced by a function of (x, fold)."""
    column = log.menus.columns.pair

    def propensity(x, fold):
        return np.repeat((np.full(len(x), 1 / 6) if draws else inclusion(x))[:, None], len(log.menus), axis=1)

    models = Given(mu or (lambda x, fold: (CENTRE + SLOPE * x[:, :1])[:, column])), Given(e or propensity)
    return pseudo_outcomes(NuisanceFit(log, Features(x, x), make_folds(log, folds), *models))


def soft(x, seed, K=4):
    """A smooth lottery as a function of contexts."""
    score = 2 * x[:, :2] @ np.random.default_rng(seed).normal(size=(2, K))
    weight = np.exp(score)
    return weight / weight.sum(axis=1, keepdims=True)


def best_response(x):
    """The agent of the largest mean payoff, alone."""
    return np.eye(4)[true_payoff(x).mean(axis=2).argmax(axis=1)]


def worst_response(x):
    """The agent of the smallest mean payoff, alone."""
    return np.eye(4)[true_payoff(x).mean(axis=2).argmin(axis=1)]
