"""Do bounds under unmeasured selection hold where a hidden trait of known strength drives what is asked and who wins?

`python -m studies sensitivity [--runs 200] [--jobs 2] [--quick]` draws logs in which a trait that the log does not hold
makes some pairs more likely to be compared and, in the same comparisons, one side more likely to win. The strength of
that selection, the largest ratio of the odds of being asked with and without the trait, is known exactly. It counts the
logs in which the bounds of `audit().payoff_bounds` at that strength hold the true mean payoffs of all pairs, those in
which intervals that know of no trait do, and says how wide both are. Ridge regressions are the outcome model.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from scipy.stats import binom
from sklearn.linear_model import Ridge

import nasheval as ne
from studies.benchmarks.measuring import number
from studies.harness.options import parser
from studies.harness.tables import print_table

LEVEL = 0.95
HOW = {"outcome": Ridge(), "folds": 2, "n_jobs": 1, "verbose": False}


@dataclass(frozen=True)
class World:
    """Duels of agents, asked by the context and by a hidden trait.

    Args:
        agents: K.
        votes: of a log.
        strength: about how many times the trait moves the odds of a comparison; `drawn` gives the exact number.
        pull: how far it moves the mean verdict, as a share of what it could; 1: the trait alone decides who wins.
        ties: share of ties.
    """

    agents: int
    votes: int
    strength: float
    pull: float
    ties: float = 0.0


WORLDS = {
    "3 agents, strength 1.5": World(3, 1000, 1.5, 0.5),
    "3 agents, strength 2": World(3, 1000, 2.0, 0.5),
    "3 agents, strength 3, the trait decides": World(3, 1000, 3.0, 1.0),
    "3 agents, strength 1.2": World(3, 500, 1.2, 0.5),
    "6 agents, strength 2": World(6, 3000, 2.0, 0.5),
    "6 agents, strength 2, ties": World(6, 3000, 2.0, 0.5, 0.3),
    "6 agents, strength 2, the trait decides": World(6, 3000, 2.0, 1.0),
    "20 agents, strength 2": World(20, 3000, 2.0, 0.5),
}


def main(words: Sequence[str]) -> None:
    options = _parsed(words)
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for name, world in WORLDS.items():
            seeds = range(options.seed, options.seed + options.runs)
            found = np.array(list(pool.map(partial(one_run, world), seeds)))
            rows.append(line(name, found))
    header = ("world", "logs", "true strength", "bounds hold", "standard error", "mean width", "without a trait hold",
              "mean width", "verdict")  # fmt: skip
    print_table(f"{options.runs} logs a world, seed {options.seed}", header, rows, markdown=options.markdown)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    known = parser("sensitivity", __doc__)
    known.add_argument("--runs", type=int, default=0, help="logs of each world, by default 200")
    known.add_argument("--seed", type=int, default=0)
    known.add_argument("--jobs", type=int, default=2)
    known.add_argument("--quick", action="store_true", help="three logs")
    known.add_argument("--markdown", action="store_true")
    options = known.parse_args(words)
    options.runs = options.runs or (3 if options.quick else 200)
    return options


def line(name: str, found: np.ndarray) -> tuple[str, ...]:
    """Return the row of a world: shares of logs in which everything holds, and widths."""
    strength, hold, width, naive, naive_width = found.mean(axis=0)
    runs, count = len(found), int(found[:, 1].sum())
    chance = float(binom.cdf(count, runs, LEVEL))  # of so few or fewer, were it 95%
    verdict = "met" if hold >= LEVEL else f"below, by chance p = {chance:.2f}" if chance > 0.05 else "MISSED"
    error = number(float(np.sqrt(hold * (1 - hold) / runs)))
    numbers = map(number, (naive, naive_width))
    return name, f"{runs}", number(strength), number(hold), error, number(width), *numbers, verdict


def one_run(world: World, seed: int) -> tuple[float, ...]:
    """Return the true strength, whether bounds hold and how wide they are, and the same without a trait in mind."""
    votes, truth, strength = drawn(np.random.default_rng(seed), world)
    log = ne.read_votes(votes, context=["x"], design="draws", agents=[f"m{a:02}" for a in range(world.agents)])
    model = ne.NashEval(**HOW).fit(log)
    audit, held = model.audit(parts=[]), []
    first, second = np.triu_indices(world.agents, 1)
    for at in (strength, 1.0):
        low, high = (end[first, second] for end in audit.payoff_bounds(at))
        held += [float(((low <= truth) & (truth <= high)).all()), float((high - low).mean())]
    return strength, *held


def drawn(rng: np.random.Generator, world: World) -> tuple[pa.Table, np.ndarray, float]:
    """Return votes, (pairs,) the true mean payoffs, and how strong the selection by the trait is.

    The trait is there at half of the contexts, or at a share 1 / (1 + strength) where it decides, which is the worst
    there is. With it, every other pair is asked more often, the rest less.
    """
    n, (first, second) = world.votes, np.triu_indices(world.agents, 1)
    pairs, x = len(first), rng.uniform(-1, 1, n)
    share = 1 / (1 + world.strength) if world.pull == 1 else 0.5
    odds = np.exp(np.outer(x, np.linspace(-0.5, 0.5, pairs)))
    e = odds / odds.sum(axis=1, keepdims=True)
    kind = np.where(np.arange(pairs) % 2 == 0, 1.0, -1.0)
    mass = (e @ (kind > 0))[:, None]
    move = largest_move(e, np.where(kind > 0, 1 - mass, -mass), share, world.strength)
    trait = rng.random(n) < share
    asked = e * (1 + np.where(trait[:, None], move, -move * share / (1 - share)))
    pair = (asked.cumsum(axis=1) < rng.random((n, 1)) * asked.sum(axis=1, keepdims=True)).sum(axis=1)
    truth = np.linspace(0.4, -0.2, pairs) * (1 - world.pull) + world.pull * (2 * share - 1) * kind
    swing = 2 * world.pull * kind[pair] * (trait - share)  # the mean verdict with the trait, less that of all
    mean = truth[pair] + swing + 0.1 * (1 - world.pull) * x
    wins, decided = rng.random(n) < (1 + mean) / 2, rng.random(n) >= world.ties
    names = np.array([f"m{a:02}" for a in range(world.agents)])
    winner = np.where(decided, np.where(wins, "model_a", "model_b"), "tie")
    table = {"model_a": names[first[pair]], "model_b": names[second[pair]], "winner": winner, "x": x}
    return pa.table(table), truth * (1 - world.ties), strength_of(e, move, share)


def largest_move(e: np.ndarray, pattern: np.ndarray, share: float, strength: float) -> np.ndarray:
    """Return by what share each pair is asked more often with the trait, (n, pairs): the most of a strength."""
    low, high = 0.0, 0.999 * min(1.0, (1 - share) / share) / np.abs(pattern).max()
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if strength_of(e, middle * pattern, share) <= strength else (low, middle)
    return low * pattern


def strength_of(e: np.ndarray, move: np.ndarray, share: float) -> float:
    """Return the largest ratio, either way, of the odds that a pair is asked given the trait to those without it."""
    asked = np.stack([e * (1 + move), e * (1 - move * share / (1 - share))])
    ratio = asked / (1 - asked) * (1 - e) / e
    return float(np.maximum(ratio, 1 / np.maximum(ratio, 1e-12)).max())
