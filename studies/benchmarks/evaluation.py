"""Is held-out evaluation right? Coverage of its intervals, and whether it picks the better policy, on simulated logs.

`python -m benchmarks.evaluation [--jobs 16] [--results evaluation.jsonl] [--logs 500] [--worlds 5]` prints

1. coverage: over logs of 2,000 contexts, each of a world of its own, in all kinds of feedback, numbers of voters and
   both designs, how often the 95% interval for the head-to-head value of two fixed policies (Bradley-Terry from the
   true payoffs, and the equilibria of true payoffs at displaced contexts) holds the truth;
2. choice: for policies fitted on 4,000 contexts (ours with latent voters, and BT-debiased), how often the better one is
   picked on another 8,000 (2,000 have a standard error of about 0.015, as large as the differences themselves), where
   the true difference is above 0.02.

The nuisances of the evaluation are LightGBM with early stopping, fitted on the test contexts alone. Every finished log
is a line of the results file, and logs that stand there are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.stats import binomtest

import nasheval as ne
from nasheval.game import L2, solve
from nasheval.nuisance.trees import TreeOutcome
from nasheval.nuisance.tuning import TunedTrees
from nasheval.payoff.stage1 import fit_stage1
from nasheval.policy.bradley_terry import BradleyTerry
from nasheval.policy.exact import ExactPolicy
from nasheval.scoring.evaluate import evaluate
from nasheval.scoring.heldout import Evaluation
from nasheval.scoring.metrics import game_value

MODALITIES, VOTERS, SELECTIONS = ("pairwise", "ranking", "winner"), (1, 3, 5), ("inclusion", "one")
TEST, TRUTH = 2_000, 50_000  # contexts: of a log, and where the true value is taken
CHOICE_TRAIN, CHOICE_TEST = 4_000, 8_000
WORTH = 0.02  # a true difference that is worth telling
RHO = L2(1e-3)
Job = tuple[str, int, str, int, str]  # what, seed, modality, voters, selection


@dataclass(frozen=True)
class Fixed:
    """A policy from a function of contexts, (n, d) -> (n, K)."""

    agents: tuple[str, ...]
    lotteries: Callable[[np.ndarray], np.ndarray]

    def predict_proba(self, contexts: Any, *, agents: Sequence[str] | None = None) -> np.ndarray:
        return self.lotteries(np.stack([np.asarray(contexts[name]) for name in contexts.column_names], axis=1))


def fixed_policies(world: ne.SyntheticWorld, modality: str, voters: int, agents: tuple[str, ...]) -> dict[str, Fixed]:
    def bradley_terry(x: np.ndarray) -> np.ndarray:
        return np.eye(len(agents))[world.payoff(x, modality, voters).sum(axis=2).argmax(axis=1)]

    def displaced(x: np.ndarray) -> np.ndarray:
        return solve(world.payoff(np.minimum(x + 0.05, 1.0), modality, voters), regularizer=RHO).strategy

    return {"bt": Fixed(agents, bradley_terry), "equilibrium": Fixed(agents, displaced)}


def run(job: Job) -> dict[str, Any]:
    """Evaluate two policies on one log, and compare with the truth."""
    import torch

    torch.set_num_threads(1)
    what, seed, modality, voters, selection = job
    start, world = time.process_time(), ne.SyntheticWorld(seed=seed)
    if what == "coverage":
        test = world.feedback(modality, voters=voters, n=TEST, selection=selection)
        policies: dict[str, Any] = fixed_policies(world, modality, voters, test.agents)
    else:
        log = world.feedback(modality, voters=voters, n=CHOICE_TRAIN + CHOICE_TEST, selection=selection)
        stage1, test = fit_stage1(log[:CHOICE_TRAIN]), log[CHOICE_TRAIN:]
        learners = {"ours": ExactPolicy(regularizer=RHO), "bt": BradleyTerry(payoff="debiased")}
        policies = {name: learner.fit(stage1) for name, learner in learners.items()}
    outcome = TunedTrees(TreeOutcome(), how="trees", columns=5)
    found = evaluate(policies, test, outcome=outcome, verbose=False)
    return {"job": list(job), **compared(found, true_value(world, modality, voters, policies)),
            "cpu": time.process_time() - start}  # fmt: skip


def true_value(world: ne.SyntheticWorld, modality: str, voters: int, policies: dict[str, Any]) -> float:
    x = world.test_contexts(TRUTH)
    table = ne.Feedback.from_partitions(x, []).contexts
    one, two = (policy.predict_proba(table) for policy in policies.values())
    return float(game_value(one, two, world.payoff(x, modality, voters)))


def compared(found: Evaluation, truth: float) -> dict[str, float]:
    numbers = found.value, found.overall.error, found.lower, found.upper, found.overall.effective
    named = zip(("value", "error", "lower", "upper", "effective"), numbers, strict=True)
    return {"truth": truth, **{name: float(values[0, 1]) for name, values in named}}


# -- all of them ------------------------------------------------------------------------------------------------------


def jobs(logs: int, worlds: int) -> list[Job]:
    settings = [(m, v, s) for s in SELECTIONS for m in MODALITIES for v in VOTERS]
    coverage = [("coverage", 1000 + i, *settings[i % len(settings)]) for i in range(logs)]
    choice = [("choice", 70 + w, m, v, "inclusion") for w in range(worlds) for m in MODALITIES for v in VOTERS]
    return [*choice, *coverage]  # the long ones first


def read(path: Path) -> list[dict[str, Any]]:
    """Return the finished logs, and drop a last line that was cut off as it was written."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


def finish(todo: Iterable[Job], processes: int, path: Path) -> None:
    """Run jobs, each on one thread, and append each result as it comes."""
    waiting = list(todo)
    with (
        path.open("a") as results,
        Progress(console=Console(stderr=True)) as progress,
        ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool,
    ):
        bar = progress.add_task("logs", total=len(waiting))
        for done in as_completed([pool.submit(run, job) for job in waiting]):
            results.write(json.dumps(done.result()) + "\n")
            results.flush()
            progress.advance(bar)


# -- what they say ----------------------------------------------------------------------------------------------------


def coverage_table(found: list[dict[str, Any]]) -> Table:
    shown = Table("feedback", "logs", "covered", "exact 99% interval", "bias", "error", "spread / error",
                  title=f"95% intervals for two fixed policies, {TEST:,} contexts")  # fmt: skip
    for name, rows in (*groups(found), ("all", found)):
        truth, value, error = (np.array([row[key] for row in rows]) for key in ("truth", "value", "error"))
        covered = sum(row["lower"] <= row["truth"] <= row["upper"] for row in rows)
        low, high = binomtest(covered, len(rows)).proportion_ci(0.99, "exact")
        shown.add_row(
            name, str(len(rows)), f"{covered / len(rows):.3f}", f"{low:.3f} to {high:.3f}",
            f"{(value - truth).mean():+.4f}", f"{error.mean():.4f}", f"{np.std((value - truth) / error):.2f}",
        )  # fmt: skip
    return shown


def groups(found: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for selection in SELECTIONS:
        for modality in MODALITIES:
            rows = [row for row in found if (row["job"][2], row["job"][4]) == (modality, selection)]
            if rows:
                yield f"{modality}, {'draws' if selection == 'one' else selection}", rows


def choice_table(found: list[dict[str, Any]]) -> Table:
    title = f"ours against BT-debiased, fitted on {CHOICE_TRAIN:,} contexts, judged on {CHOICE_TEST:,}"
    shown = Table("setting", "seed", "truth", "estimate", "95% interval", "picked", title=title)
    for row in sorted(found, key=lambda row: row["job"][2:4] + row["job"][1:2]):
        picked = "right" if row["value"] * row["truth"] > 0 else "wrong"
        shown.add_row(
            f"{row['job'][2]}/{row['job'][3]}", str(row["job"][1]), f"{row['truth']:+.3f}", f"{row['value']:+.3f}",
            f"{row['lower']:+.3f} to {row['upper']:+.3f}", picked if abs(row["truth"]) > WORTH else f"({picked})",
        )  # fmt: skip
    return shown


def report(found: list[dict[str, Any]], console: Console) -> None:
    coverage, choice = ([row for row in found if row["job"][0] == what] for what in ("coverage", "choice"))
    if coverage:
        console.print(coverage_table(coverage))
        covered = sum(row["lower"] <= row["truth"] <= row["upper"] for row in coverage)
        low, high = binomtest(covered, len(coverage)).proportion_ci(0.99, "exact")
        verdict = "holds" if low <= 0.95 <= high else "does not hold"
        console.print(f"The exact 99% interval around the coverage of {len(coverage)} logs {verdict} 0.95.")
    if choice:
        console.print(choice_table(choice))
        worth = [row for row in choice if abs(row["truth"]) > WORTH]
        right = sum(row["value"] * row["truth"] > 0 for row in worth)
        wrongly = sum(row["lower"] > 0 > row["truth"] or row["upper"] < 0 < row["truth"] for row in choice)
        console.print(
            f"Of {len(choice)} settings {len(worth)} have a true difference above {WORTH}; the better policy is picked "
            f"in {right} ({right / max(len(worth), 1):.1%}). The worse is said to beat the better in {wrongly}."
        )
    console.print(f"CPU seconds a log: {np.mean([row['cpu'] for row in found]):.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--results", type=Path, default=Path("build/evaluation.jsonl"))
    parser.add_argument("--logs", type=int, default=500, help="logs for coverage")
    parser.add_argument("--worlds", type=int, default=5, help="worlds for the choice, nine settings each")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"  # the processes inherit it before they import anything
    options.results.parent.mkdir(parents=True, exist_ok=True)
    wanted = jobs(options.logs, options.worlds)
    done = {tuple(row["job"]) for row in read(options.results)}
    finish((job for job in wanted if job not in done), options.jobs, options.results)
    report([row for row in read(options.results) if tuple(row["job"]) in set(wanted)], Console())


if __name__ == "__main__":
    main()
