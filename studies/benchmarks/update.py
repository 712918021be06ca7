"""What does an update with 200 votes on a new agent cost, and what does it lose against a full refit?

`python -m studies update [--seeds 0-9] [--agents 20,50] [--votes 20000] [--outcomes voters,lightgbm] [--jobs 2]
[--quick]` draws arenas of known truth, fits a model without one agent, updates it with --new votes on that agent
against random opponents, and fits anew on all votes. The newcomer is the best agent of its world in one half of the
seeds, and any other in the other half. It prints seconds, the exploitability of both policies at contexts that neither
saw, how far payoffs of the newcomer are off, and how often its intervals cover. A second table says how often an update
calls for a full refit where nothing changed, and where something did; its outcome model is a ridge regression.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.linear_model import Ridge

import nasheval as ne
from studies.arrays import Array
from studies.benchmarks.measuring import measured, number
from studies.benchmarks.worlds import Contexts, Population, agent_names, everywhere, population, sample, verdicts
from studies.harness.options import parse_seeds, parser
from studies.harness.tables import print_table

SECONDS, WORSE, FALSE, COVERED = 5.0, 1.2, 0.05, 0.95
TESTED = 1_000  # contexts at which policies are compared
CHANGES = ("nothing", "who votes", "what is asked", "what is liked")
_SMALL = 6  # agents of the second table


def main(words: Sequence[str]) -> None:
    options = _parsed(words)
    cells = list(product(options.agents, options.outcomes, ("best", "other"), options.seeds))
    with ProcessPoolExecutor(options.jobs) as pool:
        run = partial(_one, votes=options.votes, new=options.new)
        found = list(pool.map(run, cells))
        alarms = {
            change: np.array(list(pool.map(partial(_alarm, change=change), range(options.runs)))) for change in CHANGES
        }
    _print(options, cells, found)
    _print_alarms(options, alarms)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    known = parser("update", __doc__)
    known.add_argument("--seeds", type=parse_seeds, default=None, help="by default 0-9")
    known.add_argument("--agents", default="", help="with commas; by default 20,50")
    known.add_argument("--votes", type=int, default=0, help="before the newcomer; by default 20,000")
    known.add_argument("--new", type=int, default=200, help="votes on the newcomer")
    known.add_argument("--outcomes", default="voters,lightgbm", help="with commas")
    known.add_argument("--runs", type=int, default=0, help="updates of the second table; by default 400")
    known.add_argument("--jobs", type=int, default=2)
    known.add_argument("--quick", action="store_true", help="two seeds of 6 agents and 1,500 votes")
    known.add_argument("--markdown", action="store_true")
    options = known.parse_args(words)
    options.seeds = options.seeds or ([0, 1] if options.quick else list(range(10)))
    options.agents = [int(K) for K in (options.agents or ("6" if options.quick else "20,50")).split(",")]
    options.votes = options.votes or (1_500 if options.quick else 20_000)
    options.runs = options.runs or (6 if options.quick else 400)
    options.outcomes = options.outcomes.split(",")
    return options


# -- one update -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What one update and one full refit came to.

    Args:
        seconds, full_seconds: of all cores, of the update and of the full fit.
        wall: seconds of the update by the clock.
        loss, full_loss: mean exploitability.
        off, full_off: root mean squared error of the newcomer's payoffs.
        covered, full_covered: share of the newcomer's mean payoffs inside their intervals.
        all_covered: whether all are.
        width, full_width: mean width of these intervals.
    """

    seconds: float
    full_seconds: float
    wall: float
    loss: float
    full_loss: float
    off: float
    full_off: float
    covered: float
    full_covered: float
    all_covered: float
    width: float
    full_width: float


def _one(cell: tuple[int, str, str, int], *, votes: int, new: int) -> Found:
    K, outcome, which, seed = cell
    people, rng = population(seed, K), np.random.default_rng((seed, K, 21))
    mean = people.payoffs(everywhere())
    order = np.argsort(-mean.mean(axis=1))
    fresh = int(order[0] if which == "best" else order[1 + rng.integers(K - 1)])
    others = np.delete(np.arange(K), fresh)
    place = rng.integers(K - 1, size=votes)
    j, k = others[place], others[(place + rng.integers(1, K - 1, size=votes)) % (K - 1)]
    old = _log(rng, people, sample(rng, votes), j, k)
    more = _log(rng, people, sample(rng, new), np.full(new, fresh), rng.choice(others, new))
    how: dict[str, Any] = {"outcome": outcome, "n_jobs": 1, "device": "cpu", "verbose": False, "random_state": seed}
    model = ne.NashEval(**how).fit(old)
    newer, spent = measured(lambda: model.update(more))
    full, whole = measured(lambda: ne.NashEval(**how).fit(ne.Feedback.concat([old, more])))
    at = sample(rng, TESTED)
    truth = _aligned(_games(people, at), newer.agents_)
    row = newer.agents_.index(agent_names(K)[fresh])
    ours, theirs = (_judged(one, at, truth, row, _aligned(mean[None], one.agents_)[0]) for one in (newer, full))
    return Found(
        spent.cpu, whole.cpu, spent.wall, ours[0], theirs[0], ours[1], theirs[1], ours[2], theirs[2], ours[3], ours[4],
        theirs[4],
    )  # fmt: skip


def _judged(model: Any, at: Contexts, truth: Array, row: int, mean: Array) -> tuple[float, float, float, float, float]:
    """Return exploitability, error of the newcomer's payoffs, share covered, whether all are, and mean width."""
    table = at.table()
    loss = ne.metrics.exploitability(truth, model.predict_proba(table))
    off = np.delete((model.payoff(table) - truth)[:, row], row, axis=1)
    group = model.payoff_interval()
    low, high, right = (np.delete(each[row], row) for each in (group.lower, group.upper, mean))
    inside = (low <= right) & (right <= high)
    root = float(np.sqrt((off**2).mean()))
    return float(loss), root, float(inside.mean()), float(inside.all()), float((high - low).mean())


def _games(people: Population, at: Contexts) -> Array:
    """Return (n, K, K) true payoffs."""
    K = people.n_agents
    games = np.zeros((len(at), K, K))
    for j, k in zip(*np.triu_indices(K, 1), strict=True):
        games[:, j, k] = people.margins(at, np.full(len(at), j), np.full(len(at), k))
    return games - games.transpose(0, 2, 1)


def _aligned(games: Array, names: Sequence[str]) -> Array:
    """Return (n, K, K) games with the agents in the order of a model."""
    place = [int(name[1:]) for name in names]
    return games[:, place][:, :, place]


def _log(rng: np.random.Generator, people: Population, at: Contexts, j: Array, k: Array) -> ne.Feedback:
    z = verdicts(rng, people.margins(at, j, k), people.ties)
    names, table = agent_names(people.n_agents), at.table()
    votes = {"model_a": names[j], "model_b": names[k], "winner": np.array(["model_b", "tie", "model_a"])[z + 1]}
    for name, values in votes.items():
        table = table.append_column(name, pa.array(values))
    return ne.read_votes(table, context=at.table().column_names, design="draws")


# -- false alarms -----------------------------------------------------------------------------------------------------


def _alarm(seed: int, *, change: str) -> tuple[bool, bool, bool]:
    """Return which tests call for a full refit after 300 more votes, 150 of them on a newcomer."""
    rng, K = np.random.default_rng((seed, 22)), _SMALL
    people = population(seed, K + 1, twist=0.3)
    old = _drawn(rng, people, 1_500, K)
    liked = population(seed + 1, K + 1, twist=0.3) if change == "what is liked" else people
    known = _drawn(rng, liked, 150, K, change)
    at = _moved(sample(rng, 150), change)
    newcomer = _log(rng, liked, at, np.full(150, K), rng.integers(K, size=150))
    model = ne.NashEval(outcome=Ridge(), propensity="marginal", n_jobs=1, verbose=False).fit(old)
    changes = model.update(ne.Feedback.concat([known, newcomer])).update_.changes
    due = {one.name: one.due for one in changes}
    return due["held-out loss"], due["who votes"], due["what is asked"]


def _drawn(rng: np.random.Generator, people: Population, n: int, K: int, change: str = "") -> ne.Feedback:
    """Draw votes on K agents; where other menus are asked, those with the first agent three times as often."""
    share = np.where(np.arange(K) == 0, 3.0 if change == "what is asked" else 1.0, 1.0)
    j = rng.choice(K, n, p=share / share.sum())
    return _log(rng, people, _moved(sample(rng, n), change), j, (j + rng.integers(1, K, size=n)) % K)


def _moved(at: Contexts, change: str) -> Contexts:
    return Contexts(at.language, np.clip(at.x + 0.4, -1, 1)) if change == "who votes" else at


# -- tables -----------------------------------------------------------------------------------------------------------


def _print(options: argparse.Namespace, cells: Sequence[Any], found: Sequence[Found]) -> None:
    rows: list[tuple[str, ...]] = []
    for K, outcome, which in product(options.agents, options.outcomes, ("best", "other")):
        mine = [one for cell, one in zip(cells, found, strict=True) if cell[:3] == (K, outcome, which)]
        mean = {name: float(np.mean([getattr(one, name) for one in mine])) for name in Found.__annotations__}
        slowest, ratio = max(one.seconds for one in mine), mean["loss"] / mean["full_loss"]
        met = slowest <= SECONDS and ratio <= WORSE
        rows.append((
            str(K), outcome, which, number(mean["seconds"]), number(slowest),
            number(mean["full_seconds"] / mean["seconds"]), number(mean["loss"]), number(mean["full_loss"]),
            number(ratio), number(mean["off"]), number(mean["full_off"]), number(mean["covered"]),
            number(mean["full_covered"]), number(mean["all_covered"]), number(mean["width"]),
            number(mean["full_width"]), "met" if met else "MISSED",
        ))  # fmt: skip
    header = (
        "agents", "outcome", "newcomer", "CPU s, mean", "CPU s, most", "full fit / update", "exploitability", "of full",
        "ratio", "newcomer's error", "of full", "covered", "of full", "all covered", "width", "of full",
        f"at most {SECONDS:g} s and {WORSE:g} times",
    )  # fmt: skip
    title = f"{options.new} votes on a new agent after {options.votes:,}, {len(options.seeds)} seeds"
    print_table(title, header, rows, markdown=options.markdown)


def _print_alarms(options: argparse.Namespace, alarms: dict[str, Array]) -> None:
    rows: list[tuple[str, ...]] = []
    for change, found in alarms.items():
        some = float(found.any(axis=1).mean())
        error = np.sqrt(max(some * (1 - some), 1e-9) / len(found))
        verdict = ("met" if some <= FALSE + 2 * error else "MISSED") if change == "nothing" else ""
        rows.append(
            (change, *(number(float(share)) for share in found.mean(axis=0)), number(some), number(error), verdict)
        )
    header = ("changed", "held-out loss", "who votes", "what is asked", "any", "standard error", f"at most {FALSE}")
    print_table(f"Full refits called for, share of {options.runs} updates", header, rows, markdown=options.markdown)
