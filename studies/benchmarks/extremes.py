"""Few votes, and many agents: does Stage 1 stay sound?

`python -m studies extremes [--few] [--many] [--seed 0]` prints

- few: 300 votes on 10 agents, one pair per context: how wide the intervals of the mean payoff are and how many of them
  hold the truth, and how far the outcome model is from the truth, beside the pooled margins and beside knowing nothing;
- many: 200,000 votes on 50 agents, one pair per context: held-out log loss of our outcome model, of one Bradley-Terry
  model per category (32 of them: the signs of the five context columns) and of one for all; seconds and peak memory.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from typing import cast

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import expit

import nasheval as ne
from studies.harness.options import parser
from studies.paper.contest import plug_in_payoffs


def main(words: Sequence[str]) -> None:
    known = parser("extremes", __doc__)
    known.add_argument("--few", action="store_true")
    known.add_argument("--many", action="store_true")
    known.add_argument("--seed", type=int, default=0)
    known.add_argument("--votes", type=int, default=200_000, help="of `many`, held-out ones included")
    known.add_argument("--agents", type=int, default=50, help="of `many`")
    options = known.parse_args(words)
    both = options.few == options.many
    if options.few or both:
        few(options.seed)
    if options.many or both:
        many(options.seed, options.votes, options.agents)


def estimated(log: ne.Feedback) -> ne.NashEval:
    return ne.NashEval(n_jobs=1, device="cpu").fit(log)


def few(seed: int, votes: int = 300, agents: int = 10) -> None:
    world = ne.SyntheticWorld(seed=seed, agents=agents)
    log = world.feedback("pairwise", voters=3, n=votes, selection="one")
    model = estimated(log)
    truth = world.payoff(world.test_contexts(20_000), "pairwise", voters=3).mean(axis=0)
    group = model.payoff_interval()
    pairs = np.triu_indices(agents, 1)
    shown = Table("what", "value", title=f"{votes} votes, {agents} agents, one pair per context, seed {seed}")
    for simultaneous in (False, True):
        low, high = (side[pairs] for side in group.interval(0.95, simultaneous=simultaneous))
        kind = "simultaneous" if simultaneous else "pointwise"
        shown.add_row(f"mean width of the 95% intervals, {kind} (2 is knowing nothing)", f"{np.mean(high - low):.2f}")
        inside = (low <= truth[pairs]) & (truth[pairs] <= high)
        shown.add_row(f"of {len(inside)} they hold the truth, {kind}", f"{inside.sum()}")
    at = world.test_contexts(4096)
    A = world.payoff(at, "pairwise", voters=3)[:, pairs[0], pairs[1]]
    pooled = log.pair_counts.margin[pairs]
    shown.add_row("payoff RMSE of ours", f"{rmse(model.payoff(at)[:, pairs[0], pairs[1]], A):.3f}")
    shown.add_row("payoff RMSE of the pooled margins", f"{rmse(np.nan_to_num(pooled)[None], A):.3f}")
    shown.add_row("payoff RMSE of calling every pair a tie", f"{rmse(0.0, A):.3f}")
    shown.add_row("cycles claimed at 95%", f"{len(group.cycles())}")
    Console(width=110).print(shown)
    for note in group.notes:
        Console(width=110).print(f"[dim]note: {note}[/dim]")


def rmse(estimate: np.ndarray | float, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


def many(seed: int, votes: int, agents: int) -> None:
    world = ne.SyntheticWorld(seed=seed, agents=agents)
    log = world.feedback("pairwise", voters=3, n=votes, selection="one")
    train, test = log.split(0.8, seed=seed)
    start = time.perf_counter()
    model = estimated(train)
    spent = time.perf_counter() - start
    first, second, won = duels(test)
    margin = np.concatenate(
        [
            plug_in_payoffs(model, test.contexts.slice(at, 10_000))[
                np.arange(min(10_000, len(won) - at)), first[at : at + 10_000], second[at : at + 10_000]
            ]
            for at in range(0, len(won), 10_000)
        ]
    )
    losses = {
        "ours": log_loss((1 + margin) / 2, won),
        "one Bradley-Terry model a category": log_loss(by_category(train, test), won),
        "one Bradley-Terry model": log_loss(bradley_terry(train, first, second), won),
        "a fair coin": np.log(2),
        "the truth": log_loss((1 + world_margin(world, test, first, second)) / 2, won),
    }
    shown = Table("model", "held-out log loss", title=f"{votes:,} votes, {agents} agents, seed {seed}")
    for name, loss in losses.items():
        shown.add_row(name, f"{loss:.4f}")
    Console(width=110).print(shown)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    Console().print(f"Fitting took {spent:.0f} s; peak memory {peak:.1f} GB")


def duels(log: ne.Feedback) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the two agents of each duel and whether the first won; one duel per context."""
    verdicts = log.verdicts
    return verdicts.j, verdicts.k, verdicts.z > 0


def log_loss(chance: np.ndarray, won: np.ndarray) -> float:
    p = np.clip(np.where(won, chance, 1 - chance), 1e-6, 1.0)
    return float(-np.log(p).mean())


def bradley_terry(log: ne.Feedback, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    score = ne.baselines.ratings(
        log, ridge=1.0
    ).score  # a vote's worth of shrinking: without any, small categories overfit
    return cast(np.ndarray, expit(score[first] - score[second]))


def by_category(train: ne.Feedback, test: ne.Feedback) -> np.ndarray:
    """Return the chance that the first agent wins by the Bradley-Terry model of the context's category."""
    first, second, _ = duels(test)
    here, there = category(train), category(test)
    chance = np.empty(len(first))
    for number in np.unique(there):
        rows = there == number
        chance[rows] = bradley_terry(train[here == number], first[rows], second[rows])
    return chance


def category(log: ne.Feedback) -> np.ndarray:
    columns = [log.contexts[name].to_numpy() > 0.5 for name in log.contexts.column_names]
    return np.asarray(sum(column.astype(int) << bit for bit, column in enumerate(columns)))


def world_margin(world: ne.SyntheticWorld, log: ne.Feedback, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    X = np.column_stack([log.contexts[name].to_numpy() for name in log.contexts.column_names])
    A = [world.payoff(X[at : at + 2000], "pairwise", voters=3) for at in range(0, len(X), 2000)]
    return np.concatenate(
        [a[np.arange(len(a)), first[i * 2000 :][: len(a)], second[i * 2000 :][: len(a)]] for i, a in enumerate(A)]
    )
