"""How often does a look at the votes every day promote a policy that is no better, and what does waiting cost?

`python -m studies peeking [--runs 500] [--looks 30] [--votes 1500] [--jobs 2] [--quick]` draws logs of four agents
whose pairs are asked by context, with propensities that are known, or estimated at every look. Under "no better" the
new policy wins as much as it loses, by contexts; under "better" it wins what a look at --votes finds in 80% of logs at
95%, one-sided. Every run looks 30 times, up to 1.6 times these votes, by `nasheval.promote` and by intervals that may
be looked at once; every look fits anew, ridge regressions being the outcome model.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import norm
from sklearn.linear_model import Ridge

import nasheval as ne
from studies.benchmarks.measuring import number
from studies.harness.options import parser
from studies.harness.tables import print_table

AGENTS = ("a", "b", "c", "d")
PAIRS = np.array(np.triu_indices(4, 1)).T
FALSE, POWER, LONGER = 0.05, 0.8, 1.6
ONCE = norm.ppf(1 - FALSE)  # standard errors of a one-sided interval that may be looked at once
SWING = 0.5  # of the margin of a against b, with the context
HOW = {"outcome": Ridge(), "folds": 2, "verbose": False}


def main(words: Sequence[str]) -> None:
    options = _parsed(words)
    margin = margin_for(options.votes)
    rows: list[tuple[str, ...]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for name, mean, known in (("no better", 0.0, True), ("no better", 0.0, False), ("better", margin, True)):
            run = partial(one_run, mean=mean, known=known, votes=options.votes, looks=options.looks)
            count = options.runs if known else min(options.runs, options.estimated)
            found = np.array(list(pool.map(run, range(options.seed, options.seed + count))))
            rows.extend(lines((name, "known" if known else "estimated"), found, mean))
    header = ("new policy", "propensities", "logs", "margin", "intervals", "promoted, share", "standard error",
              "mean votes", "limit", "verdict")  # fmt: skip
    seen = f"{options.looks} looks up to {LONGER} times {options.votes:,} votes"
    print_table(f"{seen}, seed {options.seed}", header, rows, markdown=options.markdown)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    known = parser("peeking", __doc__)
    known.add_argument("--runs", type=int, default=0, help="by default 500")
    known.add_argument("--estimated", type=int, default=150, help="at most so many where propensities are estimated")
    known.add_argument("--looks", type=int, default=30)
    known.add_argument("--votes", type=int, default=1500, help="that a look once needs for 80%% power")
    known.add_argument("--seed", type=int, default=0)
    known.add_argument("--jobs", type=int, default=2)
    known.add_argument("--quick", action="store_true", help="six logs")
    known.add_argument("--markdown", action="store_true")
    options = known.parse_args(words)
    options.runs = options.runs or (6 if options.quick else 500)
    return options


def one_run(seed: int, *, mean: float, known: bool, votes: int, looks: int) -> tuple[float, float, float]:
    """Return after how many votes `promote` promotes, and an interval that may be looked at once; infinite: never.

    The third number says whether one look at `votes` has the new policy ahead.
    """
    most = round(LONGER * votes)
    table, first = drawn(np.random.default_rng(seed), most, mean), [np.inf, np.inf]
    for n in np.linspace(most / looks, most, looks).round().astype(int):
        found = looked_at(table, n, most, known)
        for number_of, ahead in enumerate((found.decision == "promote", found.value > ONCE * found.error)):
            first[number_of] = min(first[number_of], n if ahead else np.inf)
        if np.isfinite(first).all():
            break
    found = looked_at(table, votes, most, known)
    return first[0], first[1], float(found.value > ONCE * found.error)


def looked_at(table: pa.Table, n: int, planned: int, known: bool) -> Any:
    """Look at the first n votes, with the propensities that they were drawn with or without."""
    log = ne.read_votes(table.slice(0, n), context=["x"], design="draws", propensity="chance" if known else None)
    return ne.promote(Fixed("a"), Fixed("b"), log, planned=planned, propensity="known" if known else "auto", **HOW)


def margin_for(votes: int) -> float:
    """Return the margin that one look at so many votes finds in 80% of logs, from the error of a log of 20 times."""
    found = looked_at(drawn(np.random.default_rng(1), 20 * votes, 0.0), 20 * votes, votes, known=True)
    return float((ONCE + norm.ppf(POWER)) * found.error * np.sqrt(20))


def lines(name: tuple[str, str], found: Any, mean: float) -> list[tuple[str, ...]]:
    """Return the rows of one world: promote, intervals for one look used at every look, and one look."""
    rows: list[tuple[str, ...]] = []
    for column, how in enumerate(("at every look (promote)", "for one look, looked at 30 times", "one look")):
        hit = found[:, column] == 1 if column == 2 else np.isfinite(found[:, column])
        share, spent = hit.mean(), found[hit, column].mean() if column < 2 and hit.any() else np.nan
        limit = "" if column else (f"at most {FALSE}" if mean == 0 else f"at least {POWER}")
        met = share <= FALSE if mean == 0 else share >= POWER
        error = np.sqrt(share * (1 - share) / len(found))
        verdict = "" if column else "met" if met else "MISSED"
        rows.append(
            (*name, number(len(found)), number(mean), how, number(share), number(error), number(spent), limit, verdict)
        )
    return rows


class Fixed:
    """Plays one agent everywhere."""

    agents = AGENTS

    def __init__(self, agent: str) -> None:
        self.agent = agent

    def predict_proba(self, contexts: Any, *, agents: object = None) -> Any:
        """Return (n, 4) lotteries."""
        return np.tile(np.array([float(name == self.agent) for name in AGENTS]), (len(contexts), 1))


def drawn(rng: np.random.Generator, n: int, mean: float) -> pa.Table:
    """Draw votes: b's margin over a is `mean` plus a swing with the context; pairs are asked by context."""
    x = rng.uniform(-1, 1, n)
    odds = np.exp(np.outer(x, np.linspace(-0.8, 0.8, len(PAIRS))))
    chance = odds / odds.sum(axis=1, keepdims=True)
    pair = (chance.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    j, k = PAIRS[pair].T
    strength = np.array([0.0, 0.0, -0.2, -0.4])
    margin = strength[j] - strength[k] - np.where(pair == 0, mean + SWING * x, 0.0)
    winner = np.where(rng.random(n) < (1 + margin) / 2, "model_a", "model_b")
    names = np.array(AGENTS)
    votes = {"model_a": names[j], "model_b": names[k], "winner": winner, "x": x}
    return pa.table({**votes, "chance": chance[np.arange(n), pair]})
