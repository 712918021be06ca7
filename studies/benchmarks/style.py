"""Payoffs at equal style where verdicts lean to style and agents differ in it: error and coverage, beside as voted.

`python -m studies style [--logs 100] [--outcome voters] [--jobs 2]`. In each world every answer has a style, that of
its agent and a part of its own; the mean verdict of a pair is h(skill + context + effect * difference in style +
position). Of each log, over all contexts: the squared error of pairs' payoffs at equal style and as voted, both against
the payoff at equal style; which 95% intervals of single pairs hold it; whether an edge of `beats` is false; and whether
a curve was taken for h. The ratio of root mean squared errors must be 0.5 at most in the worlds with confounding, and
near 1 in those without; coverage, with a 99% interval for which a log is one cluster, must meet 0.93 to 0.97.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import t

import nasheval as ne
from studies.arrays import Array
from studies.benchmarks.shares import exact_interval
from studies.harness.options import add_run_options, parser
from studies.harness.rows import Row
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell
from studies.harness.tables import print_table

FIRST_SEED = 1000  # smaller ones were looked at while the estimator was built
BAR = (0.93, 0.97)
POSITION = 0.05  # what being shown first adds
_DRAWS = 20_001  # contexts that the truth of a curved world is a mean over


@dataclass(frozen=True, eq=False)
class World:
    """One duel at each of `votes` contexts x, uniform in [-1, 1].

    Args:
        about: in words.
        agents: K.
        effect: of a difference of one in style.
        styles: agents' styles are spread evenly from minus this to this, in random order.
        curved: whether h is tanh; else it is a straight line, cut at -1 and 1.
        by_context: how much agents' styles depend on x.
        tails: whether the own part of an answer's style has heavy tails (Student's t with 3 degrees of freedom).
        star: whether all agents meet the first one only, which is always shown first.
        voters: how many; each has a taste of its own for each agent, and all their contexts; 0: nobody is named.
        varies: how much the effect depends on x, as a share of it.
    """

    about: str
    agents: int = 6
    votes: int = 3_000
    effect: float = 0.15
    styles: float = 1.3
    curved: bool = False
    by_context: float = 0.0
    tails: bool = False
    star: bool = False
    voters: int = 0
    varies: float = 0.0


WORLDS = {
    "three": World("straight, three agents", agents=3, votes=2_000),
    "six": World("straight, six agents"),
    "twenty": World("straight, twenty agents", agents=20, votes=12_000, effect=0.2),
    "curve": World("curved, six agents", effect=0.4, curved=True),
    "curve-three": World("curved, three agents", agents=3, votes=2_000, effect=0.5, curved=True),
    "no effect": World("no confounding: style has no effect", effect=0.0),
    "unrelated": World("no confounding: agents alike in style", styles=0.0),
    "context": World("style depends on the context", by_context=1.0),
    "tails": World("heavy tails", tails=True, effect=0.12),
    "star": World("a star, the reference always first", star=True),
    "voters": World("60 voters with tastes of their own", voters=60),
    "varies": World("the effect depends on the context", varies=0.8),
}
CONFOUNDED = ("three", "six", "twenty", "curve", "curve-three")
UNCONFOUNDED = ("no effect", "unrelated")


@dataclass(frozen=True, eq=False)
class Drawn:
    """A log, and (K, K) the true mean payoffs at equal style."""

    log: ne.Feedback
    truth: Array


def drawn(world: World, seed: int) -> Drawn:
    """Draw a log of a world, its agents and its votes."""
    rng, K, n = np.random.default_rng((seed, 23)), world.agents, world.votes
    skill = rng.permutation(np.linspace(-0.2, 0.2, K)) * (2 if world.curved else 1)
    bend, lean = rng.uniform(-0.1, 0.1, K), rng.uniform(-1, 1, K) * world.by_context
    style = rng.permutation(np.linspace(-world.styles, world.styles, K))
    x = rng.uniform(-1, 1, n)
    first = np.zeros(n, np.int64) if world.star else rng.integers(K, size=n)
    second = (first + rng.integers(1, K, n)) % K
    own = rng.standard_t(3, (n, 2)) * 0.7 if world.tails else rng.uniform(-1.2, 1.2, (n, 2))
    styles = np.stack([style[agent] + lean[agent] * x for agent in (first, second)], axis=1) + own
    voter = rng.integers(max(world.voters, 1), size=n)
    taste = rng.normal(0, 0.15, (max(world.voters, 1), K)) * (world.voters > 0)
    index = _differ(skill + bend * x[:, None] + taste[voter], first, second)
    index += world.effect * (1 + world.varies * x) * (styles[:, 0] - styles[:, 1]) + POSITION
    won = rng.random(n) < (1 + _mean(world, index)) / 2
    names = np.array([f"a{agent:02}" for agent in range(K)])
    columns: dict[str, Any] = {
        "model_a": names[first],
        "model_b": names[second],
        "winner": np.where(won, "model_a", "model_b"),
        "style_a": styles[:, 0],
        "style_b": styles[:, 1],
        "x": x,
        "voter": voter.astype(str),
    }
    who, style_of = "voter" if world.voters else None, {"words": ("style_a", "style_b")}
    log = ne.read_votes(pa.table(columns), context=["x"], style=style_of, voter=who, design="draws")
    return Drawn(log, _truth(world, skill, bend))


def _differ(values: Array, first: Array, second: Array) -> Array:
    rows = np.arange(len(values))
    return np.asarray(values[rows, first] - values[rows, second])


def _mean(world: World, index: Array) -> Array:
    return np.asarray(np.tanh(index) if world.curved else np.clip(index, -1, 1))


def _truth(world: World, skill: Array, bend: Array) -> Array:
    """Return (K, K) mean payoffs of agents in alike style and place."""
    if not world.curved:
        return np.subtract.outer(skill, skill)
    x = np.linspace(-1, 1, _DRAWS)[:: max(1, world.agents**2)]
    scores = skill + bend * x[:, None]
    return np.asarray(np.tanh(scores[:, :, None] - scores[:, None, :]).mean(axis=0))


def study(cell: Cell) -> list[Row]:
    """Return errors and coverage in one log."""
    start, world = time.process_time(), WORLDS[cell["world"]]
    simulated = drawn(world, cell["seed"])
    how: dict[str, Any] = {"second_stage": "none", "n_jobs": 1, "device": "cpu", "verbose": False}
    model = ne.NashEval(adjust=("position", "style"), outcome=cell["outcome"], **how).fit(simulated.log)
    upper = np.triu_indices(world.agents, 1)
    seen = simulated.log.pair_counts.votes[upper] > 0
    pairs = tuple(side[seen] for side in upper)
    row: Row = {}
    for name, one in {"equal": model, "voted": model.as_voted()}.items():
        group, truth = one.payoff_interval(), simulated.truth[pairs]
        low, high = (side[pairs] for side in group.interval(simultaneous=False))
        row[f"{name}_error"] = float(((group.estimate[pairs] - truth) ** 2).mean())
        row[f"{name}_covered"] = [int(((low <= truth) & (truth <= high)).sum()), len(truth)]
        row[f"{name}_false"] = bool((group.beats() & (simulated.truth <= 0)).any())
    adjusted = model.adjustment()
    assert adjusted is not None
    row["effects"] = dict(zip(adjusted.names, np.round(adjusted.effect, 4).tolist(), strict=True))
    row["curved"] = adjusted.curved
    return [{**row, "seconds": round(time.process_time() - start, 2)}]


def main(words: Sequence[str]) -> None:
    """Run the worlds and print what was found."""
    options = parser("style", __doc__)
    options.add_argument("--logs", type=int, default=100, help="logs of each world")
    options.add_argument("--only", default="", help=f"worlds, with commas: {', '.join(WORLDS)}")
    options.add_argument("--outcome", default="voters", help="outcome model")
    options.add_argument("--first-seed", type=int, default=FIRST_SEED, help="seed of the first log")
    options.add_argument("--markdown", action="store_true", help="print markdown")
    add_run_options(options, "results/style.jsonl")
    asked = options.parse_args(words)
    names = asked.only.split(",") if asked.only else list(WORLDS)
    cells = [
        Cell(f"{asked.outcome} {name} {seed}", {"world": name, "seed": seed, "outcome": asked.outcome})
        for seed in range(asked.first_seed, asked.first_seed + asked.logs)
        for name in names
    ]
    rows = labelled(run_cells(study, cells, asked.results, jobs=asked.jobs))
    lines = [line_of(name, [row for row in rows if row["world"] == name]) for name in names]
    header = (
        "world", "logs", "RMSE at equal style", "as voted", "ratio", "coverage at equal style", "as voted",
        "false edges", "curve", "CPU s",
    )  # fmt: skip
    print_table(f"Payoffs at equal style, outcome={asked.outcome}", header, lines, markdown=asked.markdown)


def line_of(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return one line of the table: root mean squared errors, coverage and false edges of a world."""
    equal, voted = (float(np.sqrt(np.mean([row[f"{kind}_error"] for row in rows]))) for kind in ("equal", "voted"))
    missed = " MISSED" if name in CONFOUNDED and equal > voted / 2 else ""
    false, curved = (np.mean([bool(row[key]) for row in rows]) for key in ("equal_false", "curved"))
    seconds = np.mean([float(row["seconds"]) for row in rows])
    cover, plain = covered(rows, "equal"), np.sum([row["voted_covered"] for row in rows], axis=0)
    numbers = (f"{equal:.4f}", f"{voted:.4f}", f"{equal / voted:.2f}{missed}", cover, f"{plain[0] / plain[1]:.3f}")
    return (WORLDS[name].about, f"{len(rows):,}", *numbers, f"{false:.3f}", f"{curved:.0%}", f"{seconds:.1f}")


def covered(rows: Sequence[Row], kind: str) -> str:
    """Return the share of pairs whose interval holds the truth, with a 99% interval, a log being one cluster."""
    shares = np.array([row[f"{kind}_covered"][0] / row[f"{kind}_covered"][1] for row in rows])
    half = t.ppf(0.995, len(shares) - 1) * shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.inf
    low, high = max(shares.mean() - half, 0.0), min(shares.mean() + half, 1.0)
    if len(shares) > 1 and not shares.std():
        low, high = exact_interval(*np.sum([row[f"{kind}_covered"] for row in rows], axis=0).tolist())
    missed = "" if low <= BAR[1] and high >= BAR[0] else " MISSED"
    return f"{shares.mean():.3f} [{low:.3f}, {high:.3f}]{missed}"
