"""Whether planted votes are found, honest voters are left alone, and blocs of voters are recovered, in known worlds.

`python -m studies voters [--logs 20] [--outcome voters] [--jobs 16]`. In each world voters have tastes of their own;
utilities are those of the agent, of the context and of the voter, and a vote is a Bradley-Terry duel with ties. Of each
log: the AUC of the suspicion against who planted, how many planters and how many honest voters are named, how many
blocs are found, and the adjusted Rand index against the true ones. The AUC must be 0.9 at least and honest voters named
1% at most in the world "loyal", the adjusted Rand index 0.8 at least in "blocs" and "large blocs"; honest voters named
are marked in all worlds. Intervals are 99%, a log being one cluster.

`--real` prints what the crowd votes of llmfao (under $NASHEVAL_DATA) show instead: 124 workers, default settings.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import t
from sklearn.metrics import adjusted_rand_score, roc_auc_score

import nasheval as ne
from studies.arrays import Array
from studies.harness.files import data_file
from studies.harness.options import add_run_options, parser
from studies.harness.rows import Row
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell
from studies.harness.tables import print_table

FIRST_SEED = 3000  # smaller ones were looked at while this was built
AUC, NAMED, RAND = 0.9, 0.01, 0.8  # what must be shown
DAYS = 30 * 86_400.0


@dataclass(frozen=True, eq=False)
class World:
    """Votes on K agents; contexts have two numbers and a language.

    Args:
        about: in words.
        agents: K.
        honest: honest voters.
        votes: of all voters.
        planters: voters who plant.
        each: votes of each planter.
        how: what planters do: "loyal" (only menus with their agent, and vote for it), "shown" (for it where it is
            shown, honest else), "against" (the same against it), "random".
        targets: agents that planters work for, in turn.
        taste: standard deviation of honest tastes for each agent.
        fans, fondness: share of honest voters who are fond of one agent, and how much, in log odds.
        minority: share of honest voters whose preferences are the reverse.
        blocs, apart: blocs of honest voters, and the standard deviation of their tastes; 1: none.
        ties: share of ties.
        burst: seconds in which planters vote; 0: like all others; -1: nobody's time is known.
        one_language: whether each voter votes in one language only.
        half: whether the first voter casts half of the votes.
    """

    about: str
    agents: int = 6
    honest: int = 490
    votes: int = 20_000
    planters: int = 0
    each: int = 20
    how: str = "loyal"
    targets: int = 1
    taste: float = 0.3
    fans: float = 0.0
    fondness: float = 1.0
    minority: float = 0.0
    blocs: int = 1
    apart: float = 0.0
    ties: float = 0.1
    burst: float = 0.0
    one_language: bool = False
    half: bool = False


WORLDS = {
    "loyal": World("10 of 500 voters plant 1% of the votes, for one agent", planters=10),
    "loyal, no times": World("the same, times unknown", planters=10, burst=-1.0),
    "loyal in a burst": World("the same within ten minutes", planters=10, burst=600.0),
    "loyal when shown": World("for the agent where it is shown, honest else", planters=10, how="shown"),
    "against": World("against one agent where it is shown", planters=10, how="against"),
    "for several": World("for five agents, two planters each", planters=10, targets=5),
    "at random": World("at random, 100 votes each", planters=10, each=100, how="random"),
    "few votes each": World("40 accounts with 5 votes", planters=40, each=5),
    "beside fans": World("beside fans, 10% of voters", planters=10, fans=0.1),
    "beside a minority": World("beside a minority of 10%", planters=10, minority=0.1),
    "two agents": World("two agents", agents=2, planters=10),
    "sixty agents": World("sixty agents", agents=60, planters=10),
    "many ties": World("40% ties", planters=10, ties=0.4),
    "one language": World("each voter in one language", planters=10, one_language=True),
    "half by one": World("one voter casts half of the votes", planters=10, half=True),
    "honest": World("nobody plants"),
    "honest, alike": World("nobody plants, all voters alike", taste=0.0),
    "honest, varied": World("nobody plants, strong tastes", taste=0.8),
    "fans": World("nobody plants, fans 10%", fans=0.1),
    "strong fans": World("nobody plants, strong fans 10%", fans=0.1, fondness=1.8),
    "minority": World("nobody plants, a minority of 10% reverses", minority=0.1),
    "five votes each": World("nobody plants, 4,000 voters with 5 votes", honest=4000),
    "judges": World("5 judges with 2,000 votes", honest=5, votes=10_000),
    "blocs": World("three blocs of 20 voters, 100 votes each", honest=60, votes=6_000, blocs=3, apart=0.8, taste=0.1),
    "large blocs": World(
        "three blocs of 60 voters, 100 votes each", honest=180, votes=18_000, blocs=3, apart=0.8, taste=0.1
    ),
    "blocs, varied": World("the same, tastes vary in a bloc", honest=60, votes=6_000, blocs=3, apart=0.8),
    "two blocs": World("two blocs, 40 votes each", honest=200, votes=8_000, blocs=2, apart=0.8, taste=0.1),
    "no blocs": World("60 voters alike, 100 votes each", honest=60, votes=6_000, taste=0.0),
    "no blocs, varied": World("60 voters, tastes differ by degrees", honest=60, votes=6_000, taste=0.6),
}
BLOCS = ("blocs", "large blocs", "blocs, varied", "two blocs", "no blocs", "no blocs, varied")


@dataclass(frozen=True, eq=False)
class Drawn:
    """A log; of each voter, by name, whether it plants, and its bloc."""

    log: ne.Feedback
    plants: dict[str, bool]
    bloc: dict[str, int]


def drawn(world: World, seed: int) -> Drawn:
    """Draw a log of a world, its agents and its voters."""
    rng, K = np.random.default_rng((seed, 41)), world.agents
    voter, n_voters = _voters(world, rng), world.honest + world.planters
    n, planted = len(voter), voter >= world.honest
    x, german = rng.normal(size=(n, 2)), rng.random(n) < 0.5
    if world.one_language:
        german = (voter % 2).astype(bool)
    first = rng.integers(K, size=n)
    second = (first + rng.integers(1, K, n)) % K
    skill = rng.permutation(np.linspace(-0.6, 0.6, K))
    bloc, taste = np.arange(n_voters) % world.blocs, _tastes(world, rng, skill, n_voters)
    slope = rng.normal(0, 0.4, (3, K))
    utility = skill + np.column_stack([x, np.where(german, 1.0, -1.0)]) @ slope + taste[voter]
    rows = np.arange(n)
    verdict = np.where(rng.random(n) < _sigmoid(utility[rows, first] - utility[rows, second]), 1, -1)
    verdict[rng.random(n) < world.ties] = 0
    middle = np.argsort(np.argsort(skill)) >= K // 2
    target = np.flatnonzero(middle)[(voter % world.targets) % int(middle.sum())]
    first, second, verdict = _plant(world, rng, planted, target, first, second, verdict)
    names, time_ = np.array([f"agent-{a:02}" for a in range(K)]), rng.uniform(0, DAYS, n)
    if world.burst > 0:
        time_ = np.where(planted, DAYS / 2 + rng.uniform(0, world.burst, n), time_)
    columns: dict[str, Any] = {
        "model_a": names[first],
        "model_b": names[second],
        "winner": np.array(["model_b", "tie", "model_a"])[verdict + 1],
        "x": x[:, 0],
        "y": x[:, 1],
        "language": np.where(german, "de", "en"),
        "voter": np.array([f"voter-{v:04}" for v in range(n_voters)])[voter],
    }
    timed = world.burst >= 0
    table = pa.table({**columns, "when": time_} if timed else columns)
    context = ["x", "y", "language"]
    log = ne.read_votes(table, context=context, voter="voter", time="when" if timed else None, design="draws")
    who = [f"voter-{v:04}" for v in range(n_voters)]
    plants = dict(zip(who, (np.arange(n_voters) >= world.honest).tolist(), strict=True))
    return Drawn(log, plants, dict(zip(who, bloc.tolist(), strict=True)))


def _voters(world: World, rng: np.random.Generator) -> Array:
    """Return the voter of each vote; honest ones have about as many each."""
    planted = np.repeat(world.honest + np.arange(world.planters), world.each)
    size = world.votes - len(planted)
    honest = np.arange(size) % world.honest
    if world.votes // world.honest < 100:
        honest = rng.integers(world.honest, size=size)
    if world.half:
        honest[: size // 2] = 0
    return np.asarray(rng.permutation(np.concatenate([honest, planted])))


def _tastes(world: World, rng: np.random.Generator, skill: Array, n_voters: int) -> Array:
    taste = rng.normal(0, world.taste, (n_voters, world.agents))
    taste += rng.normal(0, world.apart, (world.blocs, world.agents))[np.arange(n_voters) % world.blocs]
    taste[rng.random(n_voters) < world.fans, 0] += world.fondness
    taste[: int(world.minority * world.honest)] -= 2 * skill
    return np.asarray(taste)


def _plant(
    world: World, rng: np.random.Generator, planted: Array, target: Array, first: Array, second: Array, verdict: Array
) -> tuple[Array, Array, Array]:
    """Return menus and verdicts with those of planters."""
    if world.how == "loyal":
        second = np.where(planted & (first != target), target, second)
    won = np.where(first == target, 1, np.where(second == target, -1, 0))
    if world.how == "random":
        verdict = np.where(planted, rng.choice([-1, 1], len(verdict)), verdict)
    else:
        verdict = np.where(planted & (won != 0), won * (-1 if world.how == "against" else 1), verdict)
    return first, second, verdict


def _sigmoid(values: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-values)))


def study(cell: Cell) -> list[Row]:
    """Return what is found in one log."""
    start, world = time.process_time(), WORLDS[cell["world"]]
    simulated = drawn(world, cell["seed"])
    how: dict[str, Any] = {"second_stage": "none", "n_jobs": 1, "device": "cpu", "verbose": False}
    model = ne.NashEval(outcome=cell["outcome"], **how).fit(simulated.log)
    fitted = time.process_time()
    found = ne.voters.planted(model.stage1_)
    plants = np.array([simulated.plants[name] for name in found.voters], dtype=bool)
    row: Row = {
        "auc": float(roc_auc_score(plants, found.score)) if plants.any() else None,
        "planters": [int((found.named & plants).sum()), int(plants.sum())],
        "honest": [int((found.named & ~plants).sum()), int((~plants).sum())],
        "surges": len(found.surges),
    }
    if cell["world"] in BLOCS:
        blocs = ne.voters.blocs(model.stage1_)
        truth = [simulated.bloc[name] for name in blocs.voters]
        row |= {"blocs": len(blocs), "rand": float(adjusted_rand_score(truth, blocs.bloc))}
    seconds = {"fit": round(fitted - start, 2), "audit": round(time.process_time() - fitted, 2)}
    return [{**row, **seconds}]


def main(words: Sequence[str]) -> None:
    """Run the worlds and print what was found."""
    options = parser("voters", __doc__)
    options.add_argument("--logs", type=int, default=20, help="logs of each world")
    options.add_argument("--quick", action="store_true", help="two logs of each world, with trees as outcome models")
    options.add_argument("--only", default="", help=f"worlds, with semicolons: {'; '.join(WORLDS)}")
    options.add_argument("--outcome", default="voters", help="outcome model")
    options.add_argument("--seed", type=int, default=FIRST_SEED, help="seed of the first log")
    options.add_argument("--markdown", action="store_true", help="print markdown")
    options.add_argument("--real", action="store_true", help="audit the crowd votes of llmfao instead")
    add_run_options(options, "results/voters.jsonl")
    asked = options.parse_args(words)
    if asked.real:
        real(asked.seed if asked.seed != FIRST_SEED else 0)
        return
    logs, outcome = (2, "lightgbm") if asked.quick else (asked.logs, asked.outcome)
    names = [name.strip() for name in asked.only.split(";")] if asked.only else list(WORLDS)
    cells = [
        Cell(f"{outcome} {name} {seed}", {"world": name, "seed": seed, "outcome": outcome})
        for seed in range(asked.seed, asked.seed + logs)
        for name in names
    ]
    rows = labelled(run_cells(study, cells, asked.results, jobs=asked.jobs))
    lines = [line_of(name, [row for row in rows if row["world"] == name]) for name in names]
    header = ("world", "logs", "AUC", "planters named", "honest named", "blocs found", "adjusted Rand", "CPU s")
    print_table(f"Planted votes and blocs, outcome={outcome}", header, lines, markdown=asked.markdown)


def real(seed: int) -> None:
    """Fit the crowd votes of llmfao with default settings, and print every part of the audit that looks at voters."""
    votes, prompts = (data_file(f"llmfao/{name}") for name in ("crowd-comparisons.csv", "prompts.jsonl"))
    log = ne.read_votes(votes, voter="worker", join=(prompts, "prompt", "id"), context=["type"], text="text")
    model = ne.NashEval(random_state=seed, n_jobs=1, device="cpu", verbose=False).fit(log)
    for part in (ne.voters.planted, ne.voters.duplicates, ne.voters.judges, ne.voters.blocs):
        found: Any = part(model.stage1_)
        print(f"\n{found.title}\n", *(f"  {line}" for line in found.lines()), sep="\n")
        for listing in found.listings():
            print_table(listing.title, (*listing.names, *listing.numbers), listing.rows)


def line_of(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return one line of the table."""
    auc = _mean([row["auc"] for row in rows if row["auc"] is not None], AUC if name == "loyal" else None)
    rand = _mean([row["rand"] for row in rows if "rand" in row], RAND if name in ("blocs", "large blocs") else None)
    blocs = Counter(int(row["blocs"]) for row in rows if "blocs" in row)
    honest = _mean([row["honest"][0] / max(1, row["honest"][1]) for row in rows], digits=4)
    named, of = (sum(row["honest"][i] for row in rows) for i in range(2))
    missed = " MISSED" if named > NAMED * of else ""
    planters = _mean([row["planters"][0] / row["planters"][1] for row in rows if row["planters"][1]], digits=2)
    counts = ", ".join(f"{count} x {T}" for T, count in sorted(blocs.items()))
    seconds = f"{np.mean([row['fit'] for row in rows]):.1f} + {np.mean([row['audit'] for row in rows]):.1f}"
    return (WORLDS[name].about, f"{len(rows)}", auc, planters, honest + missed, counts, rand, seconds)


def _mean(values: Sequence[float], bar: float | None = None, digits: int = 3) -> str:
    """Return a mean with its 99% interval, and whether it misses a bar."""
    if not len(values):
        return ""
    mean, n = float(np.mean(values)), len(values)
    missed = " MISSED" if bar is not None and mean < bar else ""
    if n == 1:
        return f"{mean:.{digits}f}{missed}"
    half = float(t.ppf(0.995, n - 1)) * float(np.std(values, ddof=1)) / np.sqrt(n)
    low, high = max(mean - half, 0.0), min(mean + half, 1.0)
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{missed}"
