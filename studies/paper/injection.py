"""Nuisances of the simulation made wrong on purpose, and the game they give (Theorem DPME, Lemma exact-bias)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import nasheval as ne
from studies.arrays import Floats
from studies.harness.rows import Row
from studies.paper.simulated import Known, Truth

SIZES = (0.01, 0.02, 0.04, 0.08, 0.16)  # d
DRAWN_SIZES = SIZES[2:]  # below, the error drowns in the noise of the verdicts
INJECTED_RHO = 0.1
AGGREGATORS: dict[str, ne.Mean | ne.Cubic] = {"pairwise": ne.Mean(), "winner": ne.Cubic(1.0)}
PLUG, DEBIASED, DRAWN = "plug-in", "debiased", "debiased (drawn log)"


@dataclass(frozen=True, eq=False)
class Injection:
    """True nuisances that are made wrong by d: mu on the way to a wave, the logit of e shifted by one.

    mu = (1 - d) mu_0 + d h(x) stays in [-1, 1] and sigma(logit e_0 + d h(x)) in (0, 1), whatever d; each column has a
    wave h(x) = cos(w x + b) of its own, at about the length scale of the simulation.

    Args:
        truth: whose nuisances.
        seed: of the waves.
    """

    truth: Truth
    seed: int

    def outcome(self, x: Floats, d: float) -> Floats:
        """Return mu, (n, P), at contexts (n, 5)."""
        true = self.truth.world.outcome(x, self.truth.modality, voters=self.truth.voters).values
        return np.asarray((1 - d) * true + d * self._waves(x, true.shape[1], 0))

    def propensity(self, x: Floats, d: float) -> Floats:
        """Return e, (n, M), at contexts (n, 5)."""
        e, menus = self.truth.world.propensity(x)[:, None], len(self.truth.log.menus)
        return np.asarray(1 / (1 + (1 / e - 1) * np.exp(-d * self._waves(x, menus, 1))))

    def _waves(self, x: Floats, count: int, stream: int) -> Floats:
        rng = np.random.default_rng([self.seed, stream])
        frequency, phase = rng.normal(0, 2, (x.shape[1], count)), rng.uniform(0, 2 * np.pi, count)
        return np.asarray(np.cos(x @ frequency + phase))

    def fitted(self, d: float) -> ne.NashEval:
        """Return a model of the log whose nuisances are wrong by d."""
        return ne.NashEval(
            outcome=Known(lambda x: self.outcome(x, d)),
            propensity=Known(lambda x: self.propensity(x, d)),
            aggregator=AGGREGATORS[self.truth.modality],
            second_stage="none",
            folds=2,
            n_jobs=1,
            verbose=False,
        ).fit(self.truth.log)


def injected(truth: Truth, seed: int) -> list[Row]:
    """Return payoff error and regularised exploitability for each d: plug-in, debiased, and debiased on a drawn log."""
    injection = Injection(truth, seed)
    right = injection.fitted(0.0)
    every = np.arange(truth.log.n_contexts)
    x, unshaken = _contexts(truth.log), right.stage1_.pseudo.dense(every)
    rows: list[Row] = []
    for d in SIZES:
        payoffs = surfaces(right, injection, truth.contexts, d)
        for form in (PLUG, DEBIASED):
            error, excess = payoff_error(payoffs[form], payoffs["true"]), exploited(payoffs[form], payoffs["true"])
            rows.append({"d": d, "form": form, "error": error, "gap": excess})
    for d in DRAWN_SIZES:
        payoffs = surfaces(right, injection, x, d)
        moved = injection.fitted(d).stage1_.pseudo.dense(every) - unshaken
        rows.append({"d": d, "form": DRAWN, "error": along(moved, payoffs[DEBIASED] - payoffs["true"])})
    return rows


def _contexts(log: ne.Feedback) -> Floats:
    """Return the contexts of a log as nuisances see them, (n, 5)."""
    return np.asarray(ne.ContextEncoder.fit(log.contexts).encode(log.contexts, form="trees"), np.float64)


def surfaces(model: ne.NashEval, injection: Injection, x: Floats, d: float) -> dict[str, Floats]:
    """Return the true, the plug-in and the debiased payoff of each pair, (n, pairs) each (Eq. debiased-payoff-surface).

    The debiased one is E[Gamma | x] = f(mu) + sum_m df/du_m(mu) e_0 / e (mu_0 - mu): Lemma exact-bias, no sampling.

    Args:
        model: any on the log: it knows f and the menus of each pair.
    """
    f, menu = model.stage1_.pseudo.aggregation, model.stage1_.log.menus.columns.menu
    true, mu = injection.outcome(x, 0.0), injection.outcome(x, d)
    ratio = (injection.propensity(x, 0.0) / injection.propensity(x, d))[:, menu]
    of_pair = np.equal.outer(f.pair, np.arange(f.n_pairs)).astype(float)
    plug_in = f.aggregate(mu)
    debiased = plug_in + (f.derivative(mu) * ratio * (true - mu)) @ of_pair
    return {"true": f.aggregate(true), PLUG: plug_in, DEBIASED: debiased}


def payoff_error(estimate: Floats, true: Floats) -> float:
    """Return the root mean square error over contexts and pairs, (n, pairs) each."""
    return float(np.sqrt(np.mean((estimate - true) ** 2)))


def along(moved: Floats, bias: Floats) -> float:
    """Return the size of a noisy error, projected on the direction in which it is expected, (n, pairs) each.

    Without noise that is the root mean square of `bias`; noise averages out over contexts and pairs.
    """
    return float((moved * bias).mean() / np.sqrt((bias**2).mean()))


def exploited(estimate: Floats, true: Floats, rho: float = INJECTED_RHO) -> float:
    """Return the mean regularised exploitability, in the true games, of the equilibria of others (Eq. exploitability).

    Args:
        estimate: (n, pairs) the payoffs whose equilibria are played.
        true: (n, pairs) those in which they are exploited.
    """
    regularizer = ne.L2(rho)
    played = ne.solve(games(estimate), regularizer=regularizer).strategy
    return float(np.mean(ne.gap(played, games(true), regularizer=regularizer)))


def games(pairs: Floats) -> Floats:
    """Return (n, K, K) antisymmetric games from the payoffs (n, pairs) of j < k."""
    agents = round((1 + np.sqrt(1 + 8 * pairs.shape[1])) / 2)
    j, k = np.triu_indices(agents, 1)
    matrices = np.zeros((len(pairs), agents, agents))
    matrices[:, j, k], matrices[:, k, j] = pairs, -pairs
    return matrices
