"""How much memory do pseudo-outcomes take where there are many contexts and many pairs?

`python -m benchmarks.pseudo [--contexts 1000000] [--agents 50] [--means]` makes a log of one vote a context over all
pairs of agents, fits nuisances that cost nothing (the mean verdict of each pair, the share of each pair), and prints
the time and the peak memory of the whole process after each step: Gamma itself, what debiasing moved by group, the sum
of Gamma over all contexts and pairs in chunks, and with `--means` every pair's mean payoff with the whole covariance.
One dense array of contexts x pairs would be 9.8 GB at a million contexts and 1,225 pairs.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import nasheval as ne
from nasheval.feedback.records import Records
from nasheval.nuisance.crossfit import NuisanceFit, crossfit, make_folds
from nasheval.nuisance.learners import Features
from nasheval.nuisance.propensity import Marginal
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.payoff.inference import GroupPayoff, group_payoff
from nasheval.payoff.pseudo import PseudoOutcomes, pseudo_outcomes


def make_log(contexts: int, agents: int, seed: int = 0) -> ne.Feedback:
    """Return a log of one duel a context, the pair drawn evenly."""
    rng = np.random.default_rng(seed)
    j, k = np.triu_indices(agents, 1)
    pair, first = rng.integers(len(j), size=contexts), rng.random(contexts) < 0.6
    records = Records.build(
        sizes=np.full(contexts, 2),
        agent=np.stack([j[pair], k[pair]], axis=1).ravel(),
        rank=np.stack([~first, first], axis=1).astype(np.int8).ravel(),
    )
    x = rng.random((contexts, 4), np.float32)
    return ne.Feedback.from_records(
        records,
        agents=[f"m{a:02d}" for a in range(agents)],
        contexts=pa.table({f"x{c}": x[:, c] for c in range(4)}),
        context_of=np.arange(contexts, dtype=np.int32),
        design="draws",
    )


def fitted(log: ne.Feedback) -> NuisanceFit:
    X = Features.of(ne.ContextEncoder.fit(log.contexts), log.contexts)
    return crossfit(log, X, outcome=Intercept(), propensity=Marginal(), fold=make_folds(log, 5))


def moves(pseudo: PseudoOutcomes) -> int:
    from nasheval.payoff.moves import column_moves

    return sum(column_moves(pseudo, f"x{c}").move.size for c in range(4))


def total(pseudo: PseudoOutcomes) -> float:
    return float(sum(gamma.sum() for _, gamma in pseudo.chunks()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=50_000)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--means", action="store_true", help="also all means with their covariance")
    options = parser.parse_args()
    pairs = options.agents * (options.agents - 1) // 2
    dense = 8 * options.contexts * pairs / 1e9
    table = Table(
        "step", "seconds", "peak memory, GB", title=f"{options.contexts:,} contexts, one vote each, {pairs:,} pairs; "
        f"a dense array of them would be {dense:.1f} GB", title_justify="left",
    )  # fmt: skip

    def step(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        found = call()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        table.add_row(name, f"{time.perf_counter() - start:.1f}", f"{peak:.2f}")
        return found

    log = step("a log", lambda: make_log(options.contexts, options.agents))
    fit = step("nuisances", lambda: fitted(log))
    pseudo: PseudoOutcomes = step("Gamma, sparse", lambda: _touched(pseudo_outcomes(fit)))
    step("moves in 16 groups", lambda: moves(pseudo))
    step("sum of Gamma, in chunks", lambda: total(pseudo))
    if options.means:
        step("means and covariance", lambda: _errors(group_payoff(pseudo)))
    Console().print(table)


def _touched(pseudo: PseudoOutcomes) -> PseudoOutcomes:
    assert pseudo.corrections.nnz <= len(pseudo.pair)
    return pseudo


def _errors(group: GroupPayoff) -> np.ndarray:
    return group.error


if __name__ == "__main__":
    main()
