"""How many contexts a second does each way of predicting an equilibrium manage? (the paper's runtime figure)

`python -m studies predict [--agents 5,10,15] [--second-stages none,per-pair] [--seconds 3]` times, with tree payoffs
and one thread, the learned policy, the payoff model followed by the exact solver, and the payoff model followed by the
paper's support enumeration; in batches and for one context at a time. Only speed is measured: trees have their usual
number and the network its usual widths, but the log is small, so that trees are no larger than usual, and the network
is hardly trained, which does not change its speed. For quality see `python -m studies policies`.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy starts its threads

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import nasheval as ne
from studies.benchmarks.solver_speed import RHO, support_enumeration
from studies.harness.options import parser

Predict = Callable[[np.ndarray], np.ndarray]
LEARNED, EXACT, ENUMERATED = "learned", "payoff + exact solve", "payoff + support enumeration"
BAR_AGENTS, BAR = 10, 20.0  # times that learned is faster than payoff + exact solve
BATCH = {LEARNED: 8192, EXACT: 512, ENUMERATED: 64}


def ways(exact: ne.NashEval) -> dict[str, Predict]:
    learned = ne.LearnedPolicy(ne.L2(RHO), augment=0, epochs=2).fit(exact.stage1_)

    def enumerated(X: np.ndarray) -> np.ndarray:
        return np.stack([support_enumeration(A) for A in exact.payoff(X)])

    return {LEARNED: learned.predict_proba, EXACT: exact.predict_proba, ENUMERATED: enumerated}


def seconds_a_context(predict: Predict, X: np.ndarray, seconds: float) -> float:
    """Return the fastest of the batches that fit into the seconds, at least two."""
    predict(X[:2])  # compile, and fill caches, before the clock starts
    best, rounds, start = np.inf, 0, time.perf_counter()
    while rounds < 2 or time.perf_counter() - start < seconds:
        begun = time.perf_counter()
        predict(X)
        best, rounds = min(best, (time.perf_counter() - begun) / len(X)), rounds + 1
    return best


def measured(K: int, stage: str, n: int, seconds: float) -> dict[str, tuple[float, float]]:
    """Return seconds per context, in batches and one at a time."""
    world = ne.SyntheticWorld(seed=70, agents=K)
    log = world.feedback("pairwise", voters=3, n=n)
    options: dict[str, Any] = {"outcome": "lightgbm", "second_stage": stage, "regularizer": ne.L2(RHO)}
    model = ne.NashEval(**options, n_jobs=1, device="cpu", verbose=False).fit(log)
    X = np.asarray(world.test_contexts(max(BATCH.values())))
    return {
        name: (
            seconds_a_context(predict, X[: BATCH[name]], seconds),
            seconds_a_context(predict, X[:1], seconds / 3),
        )
        for name, predict in ways(model).items()
    }


def main(words: Sequence[str]) -> None:
    known = parser("predict", __doc__)
    known.add_argument("--agents", default="5,10,15")
    known.add_argument("--second-stages", default="none,per-pair")
    known.add_argument("--contexts", type=int, default=4_000, help="in the log")
    known.add_argument("--seconds", type=float, default=3.0, help="for each way")
    options = known.parse_args(words)
    cases = [(int(K), stage) for stage in options.second_stages.split(",") for K in options.agents.split(",")]
    times_of = {case: measured(*case, options.contexts, options.seconds) for case in track(cases, description="sizes")}
    console = Console(width=120)
    for stage in options.second_stages.split(","):
        console.print(table(stage, {K: times for (K, form), times in times_of.items() if form == stage}))
    for (K, stage), times in times_of.items():
        if K == BAR_AGENTS:
            ratio = times[EXACT][0] / times[LEARNED][0]
            sentence = f"K = {K}, {stage}: learned is {ratio:,.0f} times as fast as {EXACT}"
            print(f"{sentence}; bar {BAR:.0f}: {'met' if ratio >= BAR else 'MISSED'}")
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")


def table(stage: str, times_of: dict[int, dict[str, tuple[float, float]]]) -> Table:
    shown = Table(title=f"LightGBM payoffs, second stage {stage!r}, one thread")
    for heading in ("K", "way", "contexts a second", "times slower than learned", "one context, ms"):
        shown.add_column(heading, justify="left" if heading == "way" else "right")
    for K, times in times_of.items():
        for name, (many, one) in times.items():
            shown.add_row(str(K), name, f"{1 / many:,.0f}", f"{many / times[LEARNED][0]:,.1f}", f"{1e3 * one:,.2f}")
    return shown
