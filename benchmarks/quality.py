"""How close does each way of estimating the payoff come to the truth, on the paper's simulation?

`python -m benchmarks.quality [--quick] [--seeds 70-74] [--settings pairwise/3,winner/1]` prints, for every setting
(kind of feedback / number of voters), the payoff RMSE, the exploitability and the support F1 of the paper's forms, of
the plug-in, of the same second stages with the true nuisances, and of ours; and the CPU seconds each took, its
nuisances included. `--quick` is seed 70 alone. Equilibria are exact, rho = 0.001.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import nasheval as ne
from nasheval.game import L2, solve
from nasheval.nuisance.crossfit import NuisanceFit, crossfit, make_folds
from nasheval.nuisance.learners import Effort, Features, Learner
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.trees import TreeOutcome, TreePropensity
from nasheval.payoff.aggregators import Mean
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.second_stage import SecondStage, fit_payoff
from nasheval.scoring import metrics

SETTINGS = tuple(f"{modality}/{voters}" for modality in ("pairwise", "ranking", "winner") for voters in (1, 3, 5))
RHO = L2(1e-3)


@dataclass(frozen=True)
class Case:
    """One simulated log, with the truth at test contexts."""

    world: ne.SyntheticWorld
    modality: str
    voters: int
    log: ne.Feedback
    X: Features
    test: Features
    payoff: np.ndarray
    lottery: np.ndarray

    @staticmethod
    def draw(seed: int, setting: str, n: int) -> Case:
        modality, _, voters = setting.partition("/")
        world = ne.SyntheticWorld(seed=seed)
        log = world.feedback(modality, voters=int(voters), n=n)
        encoder = ne.ContextEncoder.fit(log.contexts)
        test = world.test_contexts(4096)
        payoff = world.payoff(test, modality, voters=int(voters))
        lottery = solve(payoff, regularizer=RHO).strategy
        return Case(
            world,
            modality,
            int(voters),
            log,
            Features.of(encoder, log.contexts),
            Features.of(encoder, test),
            payoff,
            lottery,
        )


@dataclass(frozen=True)
class Oracle:
    """The true nuisances, as a learner."""

    world: ne.SyntheticWorld
    predict_truth: Callable[[np.ndarray], np.ndarray]

    def fit(self, log: ne.Feedback, X: Features, train: np.ndarray, effort: Effort) -> Oracle:
        return self

    def predict(self, X: Features, fold: int) -> np.ndarray:
        return self.predict_truth(np.asarray(X.trees, np.float64))


def truth(case: Case) -> tuple[Oracle, Oracle]:
    """Return the true outcome regressions and propensities; contexts are their own features."""
    menus = len(case.log.menus)
    return (
        Oracle(case.world, lambda x: case.world.outcome(x, case.modality, voters=case.voters).values),
        Oracle(case.world, lambda x: np.repeat(case.world.propensity(x)[:, None], menus, axis=1)),
    )


@dataclass(frozen=True)
class Method:
    """Nuisance learners and a second stage."""

    name: str
    outcome: Learner
    propensity: Learner
    stage: SecondStage


def methods(case: Case, *, insurance: bool) -> Iterator[Method]:
    outcome, propensity = TreeOutcome(), TreePropensity()
    true_outcome, true_propensity = truth(case)
    yield Method("paper, shared payoff regressor", outcome, propensity, "shared")
    yield Method("paper, a payoff regressor a pair", outcome, propensity, "per-pair")
    yield Method("paper, plug-in", outcome, propensity, "none")
    yield Method("oracle nuisances, a regressor a pair", true_outcome, true_propensity, "per-pair")
    for name, learner in ours():
        yield Method(f"{name}, plug-in", learner, propensity, "none")
        yield Method(f"{name}, corrected", learner, propensity, "corrected")
    if insurance:
        yield Method("intercept, plug-in", Intercept(), propensity, "none")
        yield Method("intercept, corrected", Intercept(), propensity, "corrected")
        yield Method("intercept, a regressor a pair", Intercept(), propensity, "per-pair")
        for name, learner in ours():
            yield Method(f"{name}, wrong propensity, corrected", learner, Constant(0.5), "corrected")


def ours() -> list[tuple[str, Learner]]:
    from nasheval.nuisance.voters import Voters

    return [("ours", Voters())]


@dataclass(frozen=True)
class Constant:
    """A propensity that is the same for every menu and context, as a learner."""

    value: float
    menus: int = 0

    def fit(self, log: ne.Feedback, X: Features, train: np.ndarray, effort: Effort) -> Constant:
        return Constant(self.value, len(log.menus))

    def predict(self, X: Features, fold: int) -> np.ndarray:
        return np.full((len(X), self.menus), self.value)


@dataclass
class Bench:
    """Fits every method on a case; nuisances that two methods share are fitted once and charged to both."""

    case: Case
    folds: int = 5

    def __post_init__(self) -> None:
        self.fits: dict[tuple[int, int], tuple[NuisanceFit, float]] = {}

    def nuisances(self, method: Method) -> tuple[NuisanceFit, float]:
        key = (id(method.outcome), id(method.propensity))
        if key not in self.fits:
            start, fold = time.process_time(), make_folds(self.case.log, self.folds, seed=0)
            fit = crossfit(
                self.case.log,
                self.case.X,
                outcome=method.outcome,
                propensity=method.propensity,
                fold=fold,
                effort=Effort(),
            )
            self.fits[key] = fit, time.process_time() - start
        return self.fits[key]

    def score(self, method: Method) -> dict[str, float]:
        fit, spent = self.nuisances(method)
        start = time.process_time()
        model = fit_payoff(pseudo_outcomes(fit, Mean()), method.stage, effort=Effort())
        A = model.predict(self.case.test)
        spent += time.process_time() - start
        lottery = solve(A, regularizer=RHO).strategy
        j, k = np.triu_indices(A.shape[1], 1)
        return {
            "rmse": float(np.sqrt(np.mean((A - self.case.payoff)[:, j, k] ** 2))),
            "exploitability": metrics.exploitability(self.case.payoff, lottery),
            "f1": metrics.support_f1(lottery, self.case.lottery),
            "strength": float("nan") if model.strength is None else model.strength.strength,
            "cpu": spent,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seed 70 only")
    parser.add_argument("--seeds", default="70-74")
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--contexts", type=int, default=20_000)
    parser.add_argument(
        "--insurance", action="store_true", help="also with a starved outcome model and wrong propensities"
    )
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = [70] if options.quick else list(range(int(first), int(last or first) + 1))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    console = Console()
    settings = options.settings.split(",")
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("settings", total=len(settings))
        for setting in settings:
            console.print(table(setting, seeds, options.contexts, options.insurance))
            progress.advance(bar)


def table(setting: str, seeds: list[int], n: int, insurance: bool) -> Table:
    found: dict[str, list[dict[str, float]]] = {}
    for seed in seeds:
        bench = Bench(Case.draw(seed, setting, n))
        for method in list(methods(bench.case, insurance=insurance)):
            found.setdefault(method.name, []).append(bench.score(method))
    shown = Table(
        "method", "payoff RMSE", "exploitability", "F1", "strength", "CPU s",
        title=f"{setting} voters, n = {n:,}, seeds {seeds[0]} to {seeds[-1]}",
    )  # fmt: skip
    for name, scores in found.items():
        mean = {key: np.mean([score[key] for score in scores]) for key in scores[0]}
        strength = "" if np.isnan(mean["strength"]) else f"{mean['strength']:.2f}"
        shown.add_row(
            name,
            f"{mean['rmse']:.3f}",
            f"{mean['exploitability']:.3f}",
            f"{mean['f1']:.3f}",
            strength,
            f"{mean['cpu']:.0f}",
        )
    return shown


if __name__ == "__main__":
    main()
