"""How close does each way of estimating the payoff come to the truth, on the paper's simulation?

`python -m benchmarks.quality [--quick] [--insurance] [--seeds 70-74] [--settings pairwise/3,winner/1] [--jobs 2]`
prints, for every setting (kind of feedback / number of voters), the payoff RMSE, the exploitability and the support F1
of the paper's forms, of the plug-in, of the same second stages with the true nuisances, of ours, and of the BT and
global baselines; and the CPU seconds each took, its nuisances included. `--quick` is seed 70 alone. Equilibria are
exact, rho = 0.001. BT baselines use the paper's nuisances, as there; "BT on our payoff" shows what ours would be worth
to them. `--insurance` replaces our outcome model by an intercept, and our propensities by a wrong constant.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from multiprocessing import get_context

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import nasheval as ne
from nasheval.game import L2, solve
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.learners import Effort, Features, FoldModels, Learner
from nasheval.nuisance.outcome import choose_outcome
from nasheval.nuisance.propensity import choose_propensity
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.trees import TreeOutcome, TreePropensity
from nasheval.payoff.aggregators import Mean
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.second_stage import SecondStage, fit_payoff
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import PolicyLearner
from nasheval.policy.baselines import (
    BradleyTerry,
    MaximalLottery,
    PluralisticLeaderboard,
    PooledBT,
    RegularizedBT,
    Uniform,
)
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
    encoder: ne.ContextEncoder
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
            encoder,
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
    voters, chosen = choose_outcome("voters"), choose_propensity("auto", case.log)
    yield Method("paper, as printed (shared)", outcome, propensity, "shared")
    yield Method("paper, a regressor a pair", outcome, propensity, "per-pair")
    yield Method("paper, plug-in", outcome, propensity, "none")
    yield Method("oracle nuisances, shared", true_outcome, true_propensity, "shared")
    yield Method("oracle nuisances, a regressor a pair", true_outcome, true_propensity, "per-pair")
    yield Method("ours, plug-in", voters, chosen, "none")
    yield Method("ours", voters, chosen, "corrected")
    if insurance:
        yield Method("intercept, plug-in", Intercept(), chosen, "none")
        yield Method("intercept, corrected", Intercept(), chosen, "corrected")
        yield Method("intercept, a regressor a pair", Intercept(), chosen, "per-pair")
        yield Method("ours, wrong propensity", voters, Constant(0.5), "corrected")


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
        self.spent: dict[int, float] = {}
        self.models: dict[int, FoldModels] = {}
        self.fold = make_folds(self.case.log, self.folds, seed=0)

    def rows(self, *, insurance: bool) -> Iterator[Row]:
        """Yield the scores of every method, then of the baselines."""
        for method in methods(self.case, insurance=insurance):
            stage1, spent = self.fitted(method)
            yield self.scored(method.name, solve(self.payoff, regularizer=RHO).strategy, stage1, spent)
            if method.name == "paper, as printed (shared)":
                yield from self.against(stage1, "BT", BTS | GLOBALS)
            if method.name == "ours":
                yield from self.against(stage1, "BT on our payoff:", BTS)

    def fitted(self, method: Method) -> tuple[Stage1, float]:
        case = self.case
        outcome, propensity = self.nuisance(method.outcome), self.nuisance(method.propensity)
        start = time.process_time()
        nuisances = NuisanceFit(case.log, case.X, self.fold, outcome, propensity)
        pseudo = pseudo_outcomes(nuisances, Mean())
        stage1 = Stage1(case.encoder, nuisances, pseudo, fit_payoff(pseudo, method.stage, effort=Effort()))
        self.payoff = stage1.payoff.predict(case.test)
        spent = time.process_time() - start + self.spent[id(method.outcome)] + self.spent[id(method.propensity)]
        return stage1, spent

    def nuisance(self, learner: Learner) -> FoldModels:
        if id(learner) not in self.models:
            train, start = np.arange(self.folds)[:, None] != self.fold[None, :], time.process_time()
            self.models[id(learner)] = learner.fit(self.case.log, self.case.X, train, Effort())
            self.spent[id(learner)] = time.process_time() - start
        return self.models[id(learner)]

    def scored(self, name: str, lottery: np.ndarray, stage1: Stage1 | None, spent: float) -> Row:
        case, (j, k) = self.case, np.triu_indices(len(self.case.log.agents), 1)
        strength = None if stage1 is None else stage1.payoff.strength
        error = float("nan") if stage1 is None else np.sqrt(np.mean((self.payoff - case.payoff)[:, j, k] ** 2))
        return Row(
            name,
            float(error),
            metrics.exploitability(case.payoff, lottery),
            metrics.support_f1(lottery, case.lottery),
            float("nan") if strength is None else float(strength.of_pairs(len(j)).mean()),
            spent,
        )

    def against(self, stage1: Stage1, prefix: str, learners: dict[str, PolicyLearner]) -> Iterator[Row]:
        points = self.case.world.test_contexts(4096)
        for name, learner in learners.items():
            start = time.process_time()
            lottery = learner.fit(stage1).predict_proba(points)
            shown = name if name in GLOBALS else f"{prefix} {name}"
            yield self.scored(shown, lottery, None, time.process_time() - start)


BTS: dict[str, PolicyLearner] = {
    "plug-in": BradleyTerry(payoff="plug-in"),
    "regularised": RegularizedBT(),
    "debiased / Borda": BradleyTerry(payoff="debiased"),
}
GLOBALS: dict[str, PolicyLearner] = {
    "maximal lottery": MaximalLottery(),
    "pluralistic leaderboard": PluralisticLeaderboard(),
    "pooled BT": PooledBT(),
    "uniform": Uniform(),
}


@dataclass(frozen=True)
class Row:
    """How one method did on one log."""

    name: str
    rmse: float
    exploitability: float
    f1: float
    strength: float
    cpu: float


def job(task: tuple[str, int, int, bool]) -> tuple[str, int, list[Row]]:
    """Run one setting with one seed."""
    setting, seed, n, insurance = task
    _warm_up()
    return setting, seed, list(Bench(Case.draw(seed, setting, n)).rows(insurance=insurance))


@cache
def _warm_up() -> None:
    """Import and compile before the clock runs."""
    list(Bench(Case.draw(0, "pairwise/1", 60), folds=2).rows(insurance=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="seed 70 only")
    parser.add_argument("--seeds", default="70-74")
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--contexts", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=1, help="processes; one thread each")
    parser.add_argument("--insurance", action="store_true", help="also starved outcomes and wrong propensities")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = [70] if options.quick else list(range(int(first), int(last or first) + 1))
    settings = options.settings.split(",")
    tasks = [(setting, seed, options.contexts, options.insurance) for setting in settings for seed in seeds]
    found: dict[str, list[list[Row]]] = {}
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    with get_context("spawn").Pool(options.jobs) as pool, Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("logs", total=len(tasks))
        for setting, _, rows in pool.imap(job, tasks):
            found.setdefault(setting, []).append(rows)
            progress.advance(bar)
            if len(found[setting]) == len(seeds):
                print_table(f"{setting} voters, n = {options.contexts:,}, seeds {seeds[0]}-{seeds[-1]}", found[setting])
    print_bars(found)


def _means(logs: list[list[Row]]) -> dict[str, Row]:
    """Return the mean row of each method over logs."""
    columns = [f.name for f in fields(Row)][1:]
    return {
        rows[0].name: Row(rows[0].name, *(float(np.mean([getattr(row, c) for row in rows])) for c in columns))
        for rows in zip(*logs, strict=True)
    }


def print_table(title: str, logs: list[list[Row]]) -> None:
    shown = Table("method", "payoff RMSE", "exploitability", "F1", "strength", "CPU s", title=title)
    for row in _means(logs).values():
        numbers = [row.rmse, row.exploitability, row.f1, row.strength]
        cells = ["" if np.isnan(x) else f"{x:.{digits}f}" for x, digits in zip(numbers, (3, 4, 3, 2), strict=True)]
        shown.add_row(row.name, *cells, f"{row.cpu:.1f}")
    Console(width=110).print(shown)


def print_bars(found: dict[str, list[list[Row]]]) -> None:
    """Print ours against the better of the paper's two forms and against the best baseline, setting by setting."""
    shown = Table(
        "setting", "ours", "paper", "ratio", "F1 ours", "F1 paper", "best baseline", "its", "CPU s ours", "CPU s paper",
        title="ours against the better of the paper's two forms (bar: ratio at most 0.3), and against baselines",
    )  # fmt: skip
    for setting, logs in found.items():
        means = _means(logs)
        ours, printed, pairs = (means[name] for name in ("ours", *PAPER))
        paper = min(printed, pairs, key=lambda row: row.exploitability)
        rivals = [row for name, row in means.items() if name in GLOBALS or name in {f"BT {bt}" for bt in BTS}]
        best = min(rivals, key=lambda row: row.exploitability)
        shown.add_row(
            setting, f"{ours.exploitability:.4f}", f"{paper.exploitability:.4f}",
            f"{ours.exploitability / paper.exploitability:.2f}", f"{ours.f1:.3f}", f"{max(printed.f1, pairs.f1):.3f}",
            f"{best.exploitability:.4f}", best.name, f"{ours.cpu:.1f}", f"{printed.cpu:.1f}",
        )  # fmt: skip
    Console(width=130).print(shown)


PAPER = ("paper, as printed (shared)", "paper, a regressor a pair")


if __name__ == "__main__":
    main()
