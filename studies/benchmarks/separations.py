"""How often tie groups leave out an agent that is not worse, and how often a decision says something false.

`python -m studies separations [--logs 100] [--outcome lightgbm] [--jobs 2]`. Of each log of each world:

- told apart: whether an agent outside of a tie group in truth loses nothing to the winning lottery that it is told
  apart from; over all contexts and, in worlds with groups, in any group of the leaderboard by group.
- decision: whether any number that the decision rests on is false: a limit between the agent to ship and its rival,
  the agent that beats the leader, or one that is better in a group.
- tied: agents in the tie group over all contexts. shipped: logs in which an agent is shipped; `worst loss` is by
  how much that agent is worse, in truth, than the best other one, in the worst of these logs.

Agents cost the less the worse they are. Both shares must not lie above 0.05: their exact binomial 99% intervals are
shown. Most worlds are made to mislead: agents are equally good over all contexts, or the best two are, and differ at
single contexts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import nasheval as ne
from studies.arrays import Array
from studies.benchmarks.shares import exact_interval
from studies.harness.options import add_run_options, parser
from studies.harness.rows import Row
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell
from studies.harness.tables import print_table

BAR = 0.05
_EVEN = 1e-12
RPS = np.array([[0, 0.4, -0.4, 0.5], [-0.4, 0, 0.4, 0.5], [0.4, -0.4, 0, 0.5], [-0.5, -0.5, -0.5, 0]])


@dataclass(frozen=True, eq=False)
class World:
    """One duel at each of n contexts; the mean verdict of a pair is payoff + bend * x, with x uniform in [-1, 1].

    Args:
        about: in words.
        payoff: (K, K) mean payoffs, in every group.
        votes: n.
        groups: of equal size, which `leaderboard(by=...)` is asked for; 0 for none.
        selected: how many times more often pairs of the first agent are asked where x is above 0.
    """

    about: str
    payoff: Array
    votes: int
    groups: int = 0
    selected: float = 1.0


def ladder(*scores: float) -> Array:
    """Return the payoffs of agents whose payoffs are differences of scores."""
    return np.subtract.outer(np.array(scores), np.array(scores))


WORLDS = {
    "equal": World("five equal agents", np.zeros((5, 5)), 600),
    "few": World("ten equal agents, 7 votes a pair", np.zeros((10, 10)), 300),
    "two": World("the best two of five equal", ladder(0.2, 0.2, 0.0, -0.1, -0.2), 800),
    "selected": World("four equal agents, pairs selected by x", np.zeros((4, 4)), 600, selected=6.0),
    "cycle": World("three in a circle, and a fourth", RPS, 800),
    "near": World("three agents, a cheaper one nearly as good", ladder(0.2, 0.18, 0.0), 5_000),
    "groups": World("four equal agents, table of six groups", np.zeros((4, 4)), 900, groups=6),
}


def log_of(world: World, seed: int) -> ne.Feedback:
    """Draw a log."""
    rng, K = np.random.default_rng((seed, 17)), len(world.payoff)
    x, bend = rng.uniform(-1, 1, world.votes), np.triu(rng.uniform(-0.4, 0.4, (K, K)), 1)
    j, k = np.triu_indices(K, 1)
    weight = np.where((j == 0) & (x[:, None] > 0), world.selected, 1.0)
    share = np.cumsum(weight / weight.sum(axis=1, keepdims=True), axis=1)
    pair = np.minimum((rng.random(world.votes)[:, None] > share).sum(axis=1), len(j) - 1)
    margin = world.payoff[j[pair], k[pair]] + bend[j[pair], k[pair]] * x
    won = rng.random(world.votes) < (1 + margin) / 2
    names = np.array([f"a{agent}" for agent in range(K)])
    columns: dict[str, Any] = {
        "model_a": names[j[pair]],
        "model_b": names[k[pair]],
        "winner": np.where(won, "model_a", "model_b"),
        "x": x,
        "group": rng.integers(max(world.groups, 1), size=world.votes).astype(str),
    }
    context = ["x", "group"] if world.groups else ["x"]
    return ne.read_votes(pa.table(columns), context=context, agents=list(names), design="draws")


def study(cell: Cell) -> list[Row]:
    """Return what was said of one log, and whether it is true."""
    start, world = time.process_time(), WORLDS[cell["world"]]
    how: dict[str, Any] = {"second_stage": "none", "folds": 2, "n_jobs": 1, "device": "cpu", "verbose": False}
    design = "auto" if world.selected != 1 else "marginal"
    model = ne.NashEval(outcome=cell["outcome"], propensity=design, **how).fit(log_of(world, cell["seed"]))
    prices = {agent: float(len(model.agents_) - a) for a, agent in enumerate(model.agents_)}
    decision, place = model.decision("group" if world.groups else None, costs=prices), model.agents_.index
    lottery = [decision.lottery.get(agent, 0.0) for agent in model.agents_]
    loses = world.payoff @ lottery
    apart = [loses[place(agent)] > -_EVEN for agent in model.agents_ if agent not in decision.tied]
    if world.groups:
        apart += [
            _false_separation(rows, world.payoff, place) for _, rows in model.leaderboard("group").groupby("group")
        ]
    leads = [decision.lead, *(one.lead for one in decision.elsewhere)]
    if decision.doubt is not None and decision.doubt.beaten is not None:
        leads.append(decision.doubt.beaten)
    truths = [world.payoff[place(lead.agent), place(lead.over)] for lead in leads]
    lost = None if decision.agent is None else float(-world.payoff[place(decision.agent)].min())
    return [
        {
            "apart": bool(any(apart)),
            "false": any(not one.lower <= true <= one.upper for one, true in zip(leads, truths, strict=True)),
            "tied": len(decision.tied),
            "shipped": decision.agent is not None,
            "lost": lost,
            "seconds": round(time.process_time() - start, 2),
        }
    ]


def _false_separation(rows: Any, payoff: Array, place: Any) -> bool:
    """Return whether an agent that a group tells apart loses nothing, in truth, to the group's lottery."""
    agents = [place(agent) for agent in rows["agent"]]
    loses = payoff[np.ix_(agents, agents)] @ rows["lottery"].to_numpy()
    return bool((~rows["tied"].to_numpy() & (loses > -_EVEN)).any())


def main(words: Sequence[str]) -> None:
    """Run the worlds and print what was found."""
    options = parser("separations", __doc__)
    options.add_argument("--logs", type=int, default=100, help="logs of each world")
    options.add_argument("--only", default="", help=f"worlds, with commas: {', '.join(WORLDS)}")
    options.add_argument("--outcome", default="lightgbm", help="outcome model; voters takes ten times as long")
    options.add_argument("--markdown", action="store_true", help="print markdown")
    add_run_options(options, "results/separations.jsonl")
    asked = options.parse_args(words)
    names = asked.only.split(",") if asked.only else list(WORLDS)
    cells = [
        Cell(f"{asked.outcome} {name} {seed}", {"world": name, "seed": seed, "outcome": asked.outcome})
        for seed in range(asked.logs)
        for name in names
    ]
    rows = labelled(run_cells(study, cells, asked.results, jobs=asked.jobs))
    lines = [_line(WORLDS[name].about, [row for row in rows if row["world"] == name]) for name in names]
    lines.append(_line("all", rows))
    header = ("world", "logs", "told apart falsely", "decision false", "tied", "shipped", "worst loss", "CPU s")
    print_table(f"False separations and decisions, outcome={asked.outcome}", header, lines, markdown=asked.markdown)


def _line(about: str, rows: Sequence[Row]) -> tuple[str, ...]:
    shares = []
    for name in ("apart", "false"):
        hits = sum(bool(row[name]) for row in rows)
        low, high = exact_interval(hits, len(rows))
        shares.append(f"{hits / len(rows):.3f} [{low:.3f}, {high:.3f}]{' MISSED' if low > BAR else ''}")
    lost = [float(row["lost"]) for row in rows if row["lost"] is not None]
    shipped, tied = np.mean([bool(row["shipped"]) for row in rows]), np.mean([float(row["tied"]) for row in rows])
    seconds = np.mean([float(row["seconds"]) for row in rows])
    worst = f"{max(0.0, *lost):.2f}" if lost else ""
    return (about, f"{len(rows):,}", *shares, f"{tied:.1f}", f"{shipped:.0%}", worst, f"{seconds:.2f}")
