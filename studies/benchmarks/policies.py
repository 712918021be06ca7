"""How close does the learned policy come to the exact one, on the paper's simulation?

`python -m studies policies [--quick] [--seeds 70-74] [--settings pairwise/3,winner/1] [--outcome voters]
[--second-stage corrected] [--paper]` estimates the payoff of every setting (kind of feedback / number of voters), then
prints the exploitability and the support F1, both against the truth, of the exact and of the learned policy on that
same payoff, rho = 0.001; what the learned one took to train; and whether it is within 0.015 and 0.03 of the exact one.
`--quick` is seed 70 alone; `--paper` adds the paper's network at one setting of its grid (128, 128; 0.001; 256).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import nasheval as ne
from studies.harness.options import add_simulation_options, parse_seeds, parser
from studies.harness.study import Cell
from studies.paper.contest import common_options
from studies.paper.simulated import RHO, SETTINGS, TEST, Truth

L2 = ne.L2(RHO)
WORSE, LESS = 0.015, 0.03  # what the learned policy may lose in exploitability and in F1


@dataclass(frozen=True)
class Score:
    """Exploitability and support F1 against the truth, and what training took and reached."""

    exploitability: float
    f1: float
    cpu: float = 0.0
    gap: float = 0.0
    epoch: int = 0


def scored(policy: Any, test: np.ndarray, truth: np.ndarray, reference: np.ndarray, **more: Any) -> Score:
    lottery = policy.predict_proba(test)
    return Score(ne.metrics.exploitability(truth, lottery), ne.metrics.support_f1(lottery, reference), **more)


def measured(setting: str, seed: int, options: argparse.Namespace) -> dict[str, Score]:
    modality, _, voters = setting.partition("/")
    truth = Truth.of(Cell.of(modality=modality, voters=int(voters), seed=seed, n=options.contexts, test=TEST))
    form: dict[str, Any] = {"outcome": options.outcome, "second_stage": options.second_stage}
    exact = ne.NashEval(**form, **common_options(0), regularizer=L2, device="cpu").fit(truth.log)
    against = (truth.contexts, truth.payoff, ne.solve(truth.payoff, regularizer=L2).strategy)
    scores = {"exact": scored(exact, *against)}
    learners = {"learned": ne.LearnedPolicy(L2)}
    if options.paper:
        learners["paper's network"] = ne.LearnedPolicy.paper(regularizer=L2, tune=None, hidden=(128, 128), rate=1e-3)
    for name, learner in learners.items():
        start = time.process_time()
        policy = learner.fit(exact.stage1_)
        spent, how = time.process_time() - start, policy.training
        scores[name] = scored(policy, *against, cpu=spent, gap=how.gap, epoch=how.epoch)
    return scores


def main(words: Sequence[str]) -> None:
    known = parser("policies", __doc__)
    add_simulation_options(known, ",".join(SETTINGS))
    known.add_argument("--outcome", default="voters")
    known.add_argument("--second-stage", default="corrected")
    known.add_argument("--paper", action="store_true", help="also the paper's network")
    options = known.parse_args(words)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    seeds = parse_seeds("70" if options.quick else options.seeds)
    cases = [(setting, seed) for setting in options.settings.split(",") for seed in seeds]
    scores_of: dict[str, list[dict[str, Score]]] = {}
    with Progress(console=Console(stderr=True)) as progress:
        for setting, seed in progress.track(cases, description="settings"):
            scores_of.setdefault(setting, []).append(measured(setting, seed, options))
    title = f"{options.outcome}, {options.second_stage}, n = {options.contexts:,}, seeds {seeds[0]} to {seeds[-1]}"
    Console(width=140).print(table(scores_of, title))
    verdict(scores_of)


def table(scores_of: dict[str, list[dict[str, Score]]], title: str) -> Table:
    shown = Table(title=title)
    for heading in ("setting", "policy", "exploitability", "F1", "than exact", "F1 than exact", "held-out gap", "epoch",
                    "CPU s"):  # fmt: skip
        shown.add_column(heading, justify="left" if heading in ("setting", "policy") else "right")
    for setting, seeds in scores_of.items():
        exact = mean(seeds, "exact")
        shown.add_row(setting, "exact", f"{exact.exploitability:.4f}", f"{exact.f1:.4f}")
        for name in list(seeds[0])[1:]:
            one = mean(seeds, name)
            shown.add_row(
                "", name, f"{one.exploitability:.4f}", f"{one.f1:.4f}",
                f"{one.exploitability - exact.exploitability:+.4f}", f"{one.f1 - exact.f1:+.4f}",
                f"{one.gap:.4f}", f"{one.epoch:.0f}", f"{one.cpu:.0f}",
            )  # fmt: skip
    return shown


def mean(seeds: list[dict[str, Score]], name: str) -> Score:
    rows = [[s.exploitability, s.f1, s.cpu, s.gap, s.epoch] for s in (seed[name] for seed in seeds)]
    return Score(*np.mean(rows, axis=0).tolist())


def verdict(scores_of: dict[str, list[dict[str, Score]]]) -> None:
    pairs = [(mean(seeds, "learned"), mean(seeds, "exact")) for seeds in scores_of.values()]
    worse = max(learned.exploitability - exact.exploitability for learned, exact in pairs)
    less = max(exact.f1 - learned.f1 for learned, exact in pairs)
    print(f"exploitability: at most {worse:+.4f}; bar {WORSE}: {'met' if worse <= WORSE else 'MISSED'}")
    print(f"F1: at most {less:+.4f} less; bar {LESS}: {'met' if less <= LESS else 'MISSED'}")
