"""What the simulated world is like: how often no agent beats every other, and how the log agrees with the truth.

`python -m studies world [--seeds 70-74] [--contexts 200000]` prints, for 1, 3 and 5 voters, the share of 4,096 test
contexts without a Condorcet winner; and, for each kind of feedback, the largest z-score of the observed means of
verdicts and of selections against the exact ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

import nasheval as ne
from studies.arrays import Array, Floats, Ints
from studies.harness.options import parse_seeds, parser
from studies.paper.simulated import MODALITIES, Modality


def main(words: Sequence[str]) -> None:
    known = parser("world", __doc__)
    known.add_argument("--seeds", default="70-74")
    known.add_argument("--contexts", type=int, default=200_000)
    options = known.parse_args(words)
    seeds = parse_seeds(options.seeds)
    console = Console()
    shares = Table("seed", "1 voter", "3 voters", "5 voters", title="Share of contexts without a Condorcet winner")
    for seed in seeds:
        world = ne.SyntheticWorld(seed=seed)
        X = world.test_contexts(4096)
        shares.add_row(str(seed), *(f"{(world.condorcet_winner(X, v) < 0).mean():.4f}" for v in (1, 3, 5)))
    console.print(shares)
    console.print(agreement(seeds[0], options.contexts))


def agreement(seed: int, n: int) -> Table:
    world = ne.SyntheticWorld(seed=seed)
    table = Table("feedback", "records", "verdict means: largest |z|", "selection means: largest |z|",
                  title=f"Observed means against the truth, seed {seed}, 3 voters, {n:,} contexts")  # fmt: skip
    for modality in MODALITIES:
        log = world.feedback(modality, voters=3, n=n)
        X = world.contexts(n)
        z, e = verdict_scores(world, log, X, modality), selection_scores(log, world.propensity(X))
        table.add_row(
            modality, f"{log.n_records:,}", f"{np.abs(z).max():.2f} of {len(z)}", f"{np.abs(e).max():.2f} of {len(e)}"
        )
    return table


def verdict_scores(world: ne.SyntheticWorld, log: ne.Feedback, X: Floats, modality: Modality) -> Floats:
    """Return the z-score of the summed residual Z - mu0 of each pair of each menu."""
    mu = world.outcome(X, modality, voters=3)
    column, context = log.menus.column_of_verdict, log.context_of[log.verdicts.record]
    expected = mu.values[context, column]
    variance = mean_square(log.verdicts.z, column) - mean_square(expected, column)
    total = np.bincount(column, log.verdicts.z - expected)
    return np.asarray(total / np.sqrt(np.maximum(variance, 1e-12) * np.bincount(column)))


def mean_square(values: Array, column: Ints) -> Floats:
    return np.asarray(np.bincount(column, values.astype(float) ** 2) / np.bincount(column))


def selection_scores(log: ne.Feedback, e: Floats) -> Floats:
    """Return the z-score of the number of contexts that ask each menu."""
    return np.asarray((log.menus.counts - e.sum()) / np.sqrt((e * (1 - e)).sum()))
