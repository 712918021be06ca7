"""How much memory do pseudo-outcomes take where there are many contexts and many pairs?

`python -m studies memory [--contexts 1000000] [--agents 50] [--means]` makes a log of one vote per context over all
pairs of agents, fits nuisances that cost nothing (the mean verdict of each pair, the share of each pair), and prints
the time and the peak memory of the whole process after each step: the fit, the corrections of Gamma, the sum of Gamma
over all contexts and pairs in chunks, and with `--means` every pair's mean payoff with the whole covariance. One dense
array of contexts x pairs would be 9.8 GB at a million contexts and 1,225 pairs.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import nasheval as ne
from studies.arrays import Floats
from studies.harness.options import parser


def make_log(contexts: int, agents: int, seed: int = 0) -> ne.Feedback:
    """Return a log of one duel per context, the pair drawn evenly."""
    rng = np.random.default_rng(seed)
    j, k = np.triu_indices(agents, 1)
    pair, first = rng.integers(len(j), size=contexts), rng.random(contexts) < 0.6
    names, x = [f"m{a:02d}" for a in range(agents)], rng.random((contexts, 4), np.float32)
    sides = {"model_a": (j[pair], names), "model_b": (k[pair], names), "winner": (1 - first, ["model_a", "model_b"])}
    coded = {
        name: pa.DictionaryArray.from_arrays(code.astype(np.int32), words) for name, (code, words) in sides.items()
    }
    columns = {f"x{c}": x[:, c] for c in range(4)}
    return ne.read_votes(pa.table({**coded, **columns}), context=list(columns), agents=names, design="draws")


@dataclass(frozen=True)
class Means:
    """The mean verdict of each column, as a learner that costs nothing."""

    values: Any = None

    def fit(self, log: Any, X: object, train: Any, effort: object) -> Means:
        """Return the means over the contexts of each fold."""
        verdicts, width, column = log.verdicts, len(log.menus.columns), log.menus.column_of_verdict
        seen = train[:, log.context_of[verdicts.record]]
        sums = [np.bincount(column[rows], verdicts.z[rows], width) for rows in seen]
        counts = [np.bincount(column[rows], minlength=width) for rows in seen]
        return Means(np.array(sums) / np.maximum(counts, 1))

    def predict(self, X: Any, fold: int) -> Floats:
        """Return (n, columns) the means of a fold."""
        return np.broadcast_to(self.values[fold], (len(X), self.values.shape[1]))


def fitted(log: ne.Feedback) -> ne.NashEval:
    """Return a model without a second stage."""
    return ne.NashEval(
        outcome=Means(), propensity="marginal", aggregator=ne.Mean(), second_stage="none", n_jobs=1, verbose=False
    ).fit(log)


def main(words: Sequence[str]) -> None:
    known = parser("memory", __doc__)
    known.add_argument("--contexts", type=int, default=50_000)
    known.add_argument("--agents", type=int, default=50)
    known.add_argument("--means", action="store_true", help="also all means with their covariance")
    options = known.parse_args(words)
    pairs = options.agents * (options.agents - 1) // 2
    dense = 8 * options.contexts * pairs / 1e9
    table = Table(
        "step", "seconds", "peak memory, GB", title=f"{options.contexts:,} contexts, one vote each, {pairs:,} pairs; "
        f"a dense array of them would be {dense:.1f} GB", title_justify="left",
    )  # fmt: skip

    def step(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        table.add_row(name, f"{time.perf_counter() - start:.1f}", f"{peak:.2f}")
        return result

    log = step("a log", lambda: make_log(options.contexts, options.agents))
    model = step("fit", lambda: fitted(log))
    pseudo = model.stage1_.pseudo
    step("corrections of Gamma, sparse", lambda: pseudo.corrections)
    step("sum of Gamma, in chunks", lambda: sum(float(gamma.sum()) for _, gamma in pseudo.chunks()))
    if options.means:
        step("means and covariance", lambda: model.payoff_interval().error)
    Console().print(table)
