"""Is held-out evaluation right? Coverage of its intervals, and whether it picks the better policy, on simulated logs.

`python -m studies evaluation [--jobs 16] [--results evaluation.jsonl] [--logs 500] [--worlds 5]` prints

1. coverage: over logs of 2,000 contexts, each of a world of its own, in all kinds of feedback, numbers of voters and
   both designs, how often the 95% interval for the head-to-head value of two fixed policies (Bradley-Terry from the
   true payoffs, and the equilibria of true payoffs at displaced contexts) holds the truth;
2. choice: for policies fitted on 4,000 contexts (ours with latent voters, and BT-debiased), how often the better one is
   picked on another 8,000 (2,000 have a standard error of about 0.015, as large as the differences themselves), where
   the true difference is above 0.02.

The nuisances of the evaluation are fitted on the test contexts alone. Every finished log is a line of the results file,
and logs that stand there are not run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import nasheval as ne
from studies.benchmarks.shares import exact_interval
from studies.harness.options import add_run_options, parser
from studies.harness.rows import Row
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell
from studies.paper.simulated import MODALITIES, VOTERS, Modality

SELECTIONS = ("inclusion", "one")
TEST, TRUTH = 2_000, 50_000  # contexts: of a log, and where the true value is taken
CHOICE_TRAIN, CHOICE_TEST = 4_000, 8_000
WORTH = 0.02  # a true difference that is worth telling
RHO = ne.L2(1e-3)


@dataclass(frozen=True)
class Fixed:
    """A policy from a function of contexts, (n, d) -> (n, K)."""

    agents: tuple[str, ...]
    lotteries: Callable[[np.ndarray], np.ndarray]

    def predict_proba(self, contexts: Any, *, agents: Sequence[str] | None = None) -> np.ndarray:
        return self.lotteries(np.stack([np.asarray(contexts[name]) for name in contexts.column_names], axis=1))


def fixed_policies(
    world: ne.SyntheticWorld, modality: Modality, voters: int, agents: tuple[str, ...]
) -> dict[str, Fixed]:
    def bradley_terry(x: np.ndarray) -> np.ndarray:
        best = world.payoff(x, modality, voters).sum(axis=2).argmax(axis=1)
        return np.asarray(np.eye(len(agents))[best])

    def displaced(x: np.ndarray) -> np.ndarray:
        return ne.solve(world.payoff(np.minimum(x + 0.05, 1.0), modality, voters), regularizer=RHO).strategy

    return {"bt": Fixed(agents, bradley_terry), "equilibrium": Fixed(agents, displaced)}


def study(cell: Cell) -> list[Row]:
    """Evaluate two policies on one log, and compare with the truth."""
    modality, voters = cell["modality"], cell["voters"]
    start, world = time.process_time(), ne.SyntheticWorld(seed=cell["seed"])
    if cell["what"] == "coverage":
        test = world.feedback(modality, voters=voters, n=TEST, selection=cell["selection"])
        policies: dict[str, Any] = fixed_policies(world, modality, voters, test.agents)
    else:
        log = world.feedback(modality, voters=voters, n=CHOICE_TRAIN + CHOICE_TEST, selection=cell["selection"])
        train, test = log[:CHOICE_TRAIN], log[CHOICE_TRAIN:]
        ours = ne.NashEval(regularizer=RHO, n_jobs=1, device="cpu", verbose=False).fit(train)
        policies = {"ours": ours, "bt": ne.baselines.BradleyTerry(payoff="debiased").fit(ours.stage1_)}
    evaluation = ne.evaluate(policies, test, outcome=cell["outcome"], verbose=False)
    truth = true_value(world, modality, voters, policies)
    return [{**compared(evaluation, truth), "cpu": time.process_time() - start}]


def true_value(world: ne.SyntheticWorld, modality: Modality, voters: int, policies: dict[str, Any]) -> float:
    x = world.test_contexts(TRUTH)
    table = ne.Feedback.from_partitions(x, []).contexts
    one, two = (policy.predict_proba(table) for policy in policies.values())
    return float(ne.metrics.game_value(one, two, world.payoff(x, modality, voters)))


def compared(evaluation: Any, truth: float) -> dict[str, float]:
    overall = evaluation.overall
    numbers = evaluation.value, overall.error, evaluation.lower, evaluation.upper, overall.effective
    named = zip(("value", "error", "lower", "upper", "effective"), numbers, strict=True)
    return {"truth": truth, **{name: float(values[0, 1]) for name, values in named}}


# -- all of them ------------------------------------------------------------------------------------------------------


def plan(logs: int, worlds: int, outcome: str) -> list[Cell]:
    """Return the logs to simulate, the long ones first."""
    settings = [(m, v, s) for s in SELECTIONS for m in MODALITIES for v in VOTERS]
    coverage = [("coverage", 1000 + i, *settings[i % len(settings)]) for i in range(logs)]
    choice = [("choice", 70 + w, m, v, "inclusion") for w in range(worlds) for m in MODALITIES for v in VOTERS]
    return [
        Cell.of(what=what, seed=seed, modality=modality, voters=voters, selection=selection, outcome=outcome)
        for what, seed, modality, voters, selection in (*choice, *coverage)
    ]


# -- what they say ----------------------------------------------------------------------------------------------------


def coverage_table(rows: list[Row]) -> Table:
    shown = Table("feedback", "logs", "covered", "exact 99% interval", "bias", "error", "spread / error",
                  title=f"95% intervals for two fixed policies, {TEST:,} contexts")  # fmt: skip
    for name, logs in (*groups(rows), ("all", rows)):
        truth, value, error = (np.array([row[key] for row in logs]) for key in ("truth", "value", "error"))
        covered = sum(row["lower"] <= row["truth"] <= row["upper"] for row in logs)
        low, high = exact_interval(covered, len(logs))
        shown.add_row(
            name, str(len(logs)), f"{covered / len(logs):.3f}", f"{low:.3f} to {high:.3f}",
            f"{(value - truth).mean():+.4f}", f"{error.mean():.4f}", f"{np.std((value - truth) / error):.2f}",
        )  # fmt: skip
    return shown


def groups(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    for selection in SELECTIONS:
        for modality in MODALITIES:
            logs = [row for row in rows if (row["modality"], row["selection"]) == (modality, selection)]
            if logs:
                yield f"{modality}, {'draws' if selection == 'one' else selection}", logs


def choice_table(rows: list[Row]) -> Table:
    title = f"ours against BT-debiased, fitted on {CHOICE_TRAIN:,} contexts, judged on {CHOICE_TEST:,}"
    shown = Table("setting", "seed", "truth", "estimate", "95% interval", "picked", title=title)
    for row in sorted(rows, key=lambda row: (row["modality"], row["voters"], row["seed"])):
        picked = "right" if row["value"] * row["truth"] > 0 else "wrong"
        shown.add_row(
            f"{row['modality']}/{row['voters']}", str(row["seed"]), f"{row['truth']:+.3f}", f"{row['value']:+.3f}",
            f"{row['lower']:+.3f} to {row['upper']:+.3f}", picked if abs(row["truth"]) > WORTH else f"({picked})",
        )  # fmt: skip
    return shown


def report(rows: list[Row], console: Console) -> None:
    coverage, choice = ([row for row in rows if row["what"] == what] for what in ("coverage", "choice"))
    if coverage:
        console.print(coverage_table(coverage))
        covered = sum(row["lower"] <= row["truth"] <= row["upper"] for row in coverage)
        low, high = exact_interval(covered, len(coverage))
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
    console.print(f"CPU seconds a log: {np.mean([row['cpu'] for row in rows]):.1f}")


def main(words: Sequence[str]) -> None:
    known = parser("evaluation", __doc__)
    add_run_options(known, "build/evaluation.jsonl")
    known.add_argument("--logs", type=int, default=500, help="logs for coverage")
    known.add_argument("--worlds", type=int, default=5, help="worlds for the choice, nine settings each")
    known.add_argument("--outcome", default="lightgbm", help="outcome model of the evaluation")
    options = known.parse_args(words)
    cells = plan(options.logs, options.worlds, options.outcome)
    report(labelled(run_cells(study, cells, options.results, jobs=options.jobs, skip_failures=True)), Console())
