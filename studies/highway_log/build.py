"""Builds the MO-Highway data set: five trained agents driven through the same 320 contexts, in resumable shards.

The folder it fills:

    plan.json               what is being built; another plan needs another folder
    agents/                 one policy and one learning curve an agent, plain arrays
    shards/                 one file per context: all agents on all its initialisations
    episodes.parquet        split, configuration, initialisation, agent, speed, lane, safe, steps
    configurations.parquet  split, configuration, the five features
    curves.parquet          the learning curves, one row an episode
    highway_votes.parquet      the 20,480 offline comparisons of the training split, as a table of votes
    highway_reference.parquet  the judges' verdicts on every pair, validation and test splits

Stopped at any time, it goes on where it was. Run it with `python -m studies build-highway --out FOLDER`.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, fields
from functools import cache, partial
from importlib.util import find_spec
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nasheval import InputError, MissingExtraError
from studies.harness.options import parser
from studies.harness.threads import one_thread_each
from studies.highway_log.agents import (
    AGENTS,
    LEARNING_CURVE,
    SEED,
    TRAINING_STEPS,
    Configuration,
    GreedyPolicy,
    save_arrays,
    train,
)
from studies.highway_log.judges import JUDGE_NAMES, sample_comparisons, verdict_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUTCOME = ("speed", "lane", "safe", "steps")
_COMPARISON_STREAM = 20


@dataclass(frozen=True, kw_only=True)
class Split:
    """A part of the data: so many contexts, each with so many initialisations; `stream` keeps its seeds apart."""

    name: str
    stream: int
    configurations: int
    initialisations: int

    def configuration(self, number: int) -> Configuration:
        """The context of a number, the same whenever it is asked for."""
        return Configuration.draw(np.random.default_rng([SEED, self.stream, number]))

    def episode_seed(self, number: int, initialisation: int) -> int:
        """The seed of an initialisation, shared by all agents."""
        return int(np.random.SeedSequence([SEED, self.stream, number, initialisation + 1]).generate_state(1)[0])

    def shard(self, folder: Path, number: int) -> Path:
        """Where the episodes of one context are kept."""
        return folder / "shards" / f"{self.name}_{number:03d}.npz"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is built: the paper's sizes, or small ones for a trial."""

    training_steps: int
    splits: tuple[Split, ...]


PAPER = Plan(
    training_steps=TRAINING_STEPS,
    splits=(
        Split(name="train", stream=10, configurations=256, initialisations=8),
        Split(name="validation", stream=11, configurations=32, initialisations=32),
        Split(name="test", stream=12, configurations=32, initialisations=64),
    ),
)
QUICK = Plan(
    training_steps=250,
    splits=(
        Split(name="train", stream=10, configurations=3, initialisations=2),
        Split(name="validation", stream=11, configurations=2, initialisations=2),
        Split(name="test", stream=12, configurations=2, initialisations=2),
    ),
)


def build(
    folder: str | Path, *, workers: int | None = None, quick: bool = False, progress: bool = True, stage: str = "all"
) -> Path:
    """Build the data set in a folder, or finish one begun there, and return the folder.

    Args:
        folder: where everything is kept; created if missing.
        workers: processes to use, all cores if None.
        quick: build a tiny version to try the machinery.
        progress: show bars with the time left.
        stage: "train", "rollout" (which needs the trained agents) or "all".
    """
    folder, plan = Path(folder), QUICK if quick else PAPER
    _require_simulator(stage)
    _settle_plan(folder, plan)
    if stage in ("train", "all"):
        _train_agents(folder, plan, workers=workers, progress=progress)
    if stage in ("rollout", "all"):
        _roll_out(folder, plan, workers=workers, progress=progress)
        merge(folder, plan)
    return folder


def _require_simulator(stage: str) -> None:
    learner = () if stage == "rollout" else ("stable_baselines3",)
    for package in ("highway_env", "mo_gymnasium", *learner):
        if find_spec(package) is None:
            raise MissingExtraError(package, extra="studies", purpose="Building the MO-Highway data")


def _settle_plan(folder: Path, plan: Plan) -> None:
    """Write down the plan, or refuse a folder that was begun with another one."""
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / "plan.json", json.dumps({"seed": SEED, **asdict(plan)}, indent=1)
    if not path.exists():
        path.write_text(text)
    elif path.read_text() != text:
        raise InputError(f"{folder} holds a data set begun with another plan (plan.json). Choose another folder.")


def _train_agents(folder: Path, plan: Plan, *, workers: int | None, progress: bool) -> None:
    task = partial(_train_one, folder=folder / "agents", steps=plan.training_steps)
    missing = [n for n in range(len(AGENTS)) if not (folder / "agents" / f"agent{n}.npz").exists()]
    _run(task, missing, total=len(missing), label="training agents", workers=workers, progress=progress)


def _train_one(number: int, *, folder: Path, steps: int) -> int:
    train(number, folder, steps=steps)
    return 1


def _roll_out(folder: Path, plan: Plan, *, workers: int | None, progress: bool) -> None:
    """Drive every missing context; the largest shards first, so that no core is left waiting at the end."""
    missing = [(s, n) for s in plan.splits for n in range(s.configurations) if not s.shard(folder, n).exists()]
    missing.sort(key=lambda shard: -shard[0].initialisations)
    episodes = sum(split.initialisations * len(AGENTS) for split, _ in missing)
    task = partial(_drive_context, folder=folder)
    _run(task, missing, total=episodes, label="driving episodes", workers=workers, progress=progress)


def _drive_context(shard: tuple[Split, int], *, folder: Path) -> int:
    """Drive all agents through all initialisations of one context, and return the number of episodes."""
    split, number = shard
    env, policies = _simulator(folder)
    outcomes = [
        [drive(env, policy, split.configuration(number), seed=split.episode_seed(number, i)) for policy in policies]
        for i in range(split.initialisations)
    ]
    columns = np.moveaxis(np.array(outcomes, dtype=np.float32), -1, 0)
    save_arrays(split.shard(folder, number), dict(zip(OUTCOME, columns, strict=True)))
    return split.initialisations * len(AGENTS)


@cache
def _simulator(folder: Path) -> tuple[Any, list[GreedyPolicy]]:
    """One environment and the trained policies, kept for the life of a process."""
    from studies.highway_log.sim import FastHighway

    return FastHighway(), [GreedyPolicy.load(folder / "agents" / f"agent{n}.npz") for n in range(len(AGENTS))]


def drive(env: Any, policy: GreedyPolicy, configuration: Configuration, *, seed: int) -> tuple[float, ...]:
    """Drive one episode greedily and return its OUTCOME: mean speed and lane rewards, safe or not, steps."""
    observation, _ = env.reset(seed=seed, options=configuration.reset_options())
    total, steps, crashed, out_of_time = np.zeros(3), 0, False, False
    while not (crashed or out_of_time):
        observation, reward, crashed, out_of_time, _ = env.step(policy.action(observation))
        total += reward
        steps += 1
    # A crash beside the road has no penalty in the reward, so the flag tells it, not the third component.
    return total[0] / steps, total[1] / steps, float(not crashed), steps


def _run(
    task: Callable[[Any], int], items: Sequence[Any], *, total: int, label: str, workers: int | None, progress: bool
) -> None:
    """Do a task for every item on several processes; each returns how far it advances the total."""
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, disable=not progress) as bars,
        _results(task, items, workers or os.cpu_count() or 1) as done,
    ):
        bar = bars.add_task(label, total=total)
        for advance in done:
            bars.advance(bar, advance)


@contextmanager
def _results(task: Callable[[Any], int], items: Sequence[Any], workers: int) -> Iterator[Iterable[int]]:
    """The results as they come; leaving early ends the processes, and no half-written file counts."""
    if min(workers, len(items)) <= 1:
        yield map(task, items)
        return
    with one_thread_each():
        # Unlike a Pool, an executor notices when one of its processes dies, rather than waiting for it forever.
        pool = ProcessPoolExecutor(min(workers, len(items)), get_context("spawn"), _ignore_interrupt)
        try:
            yield (done.result() for done in as_completed([pool.submit(task, item) for item in items]))
        except BaseException:
            for process in active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _ignore_interrupt() -> None:
    """Leave Ctrl-C to the parent, which ends its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def merge(folder: Path, plan: Plan) -> None:
    """Write the Parquet files from finished shards and curves."""
    outcomes = {split.name: _read_split(folder, split) for split in plan.splits}
    _write(folder / "episodes.parquet", [_episode_table(s, outcomes[s.name]) for s in plan.splits])
    _write(folder / "configurations.parquet", [_configuration_table(split) for split in plan.splits])
    _write(folder / "curves.parquet", [_curve_table(folder, number) for number in range(len(AGENTS))])
    for split in plan.splits:
        if split.name == "train":
            _write(folder / "highway_votes.parquet", [_vote_table(split, performances(outcomes[split.name]))])
    references = [_reference_table(s, performances(outcomes[s.name])) for s in plan.splits if s.name != "train"]
    _write(folder / "highway_reference.parquet", references)


def _read_split(folder: Path, split: Split) -> dict[str, NDArray[np.float32]]:
    """Each of OUTCOME as an array (configurations, initialisations, agents)."""
    files = [np.load(split.shard(folder, n), allow_pickle=False) for n in range(split.configurations)]
    return {name: np.stack([file[name] for file in files]) for name in OUTCOME}


def performances(outcome: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """The vectors z = (speed, lane, safe) of shape (configurations, initialisations, agents, 3)."""
    return np.stack([outcome["speed"], outcome["lane"], outcome["safe"]], axis=-1)


def _episode_table(split: Split, outcome: dict[str, NDArray[np.float32]]) -> pa.Table:
    configuration, initialisation, agent = np.indices(outcome["speed"].shape).reshape(3, -1)
    return pa.table(
        {
            "split": _name_column(split.name, len(agent)),
            "configuration": configuration.astype(np.int16),
            "initialisation": initialisation.astype(np.int16),
            "agent": agent.astype(np.int8),
            "speed": outcome["speed"].reshape(-1),
            "lane": outcome["lane"].reshape(-1),
            "safe": outcome["safe"].reshape(-1) > 0,
            "steps": outcome["steps"].reshape(-1).astype(np.int16),
        }
    )


def _configuration_table(split: Split) -> pa.Table:
    rows = [astuple(split.configuration(number)) for number in range(split.configurations)]
    features = {
        field.name: list(column) for field, column in zip(fields(Configuration), zip(*rows, strict=True), strict=True)
    }
    number = np.arange(len(rows), dtype=np.int16)
    return pa.table({"split": _name_column(split.name, len(rows)), "configuration": number, **features})


def _curve_table(folder: Path, number: int) -> pa.Table:
    with np.load(folder / "agents" / f"curve{number}.npz", allow_pickle=False) as file:
        curve = {name: file[name].astype(np.float32) for name in LEARNING_CURVE}
    whole = {name: curve[name].astype(np.int32) for name in ("step", "length")}
    agent = np.full(len(curve["step"]), number, dtype=np.int8)
    return pa.table({"agent": agent, **curve, **whole, "collision": curve["collision"] > 0})


def _vote_table(split: Split, z: NDArray[np.float32]) -> pa.Table:
    """The comparisons as people log votes: the context, the two agents in a random order, who won, who judged."""
    drawn = sample_comparisons(z, seed=[SEED, _COMPARISON_STREAM])
    swap = np.random.default_rng([SEED, _COMPARISON_STREAM, 1]).random(len(drawn.verdict)) < 0.5
    names = pa.array([agent.name for agent in AGENTS])
    first_won = (drawn.verdict > 0) != swap
    context = _configuration_table(split).drop_columns(["split", "configuration"])
    rows = context.take(pa.array(drawn.configuration))
    return pa.table(
        {
            "configuration": drawn.configuration,
            **{name: rows[name] for name in rows.column_names},
            "initialisation": drawn.initialisation,
            "model_a": names.take(pa.array(np.where(swap, drawn.agent_k, drawn.agent_j))).dictionary_encode(),
            "model_b": names.take(pa.array(np.where(swap, drawn.agent_j, drawn.agent_k))).dictionary_encode(),
            "winner": pa.array(np.where(first_won, "model_a", "model_b")).dictionary_encode(),
            "judge": pa.array(JUDGE_NAMES).take(pa.array(drawn.judge)).dictionary_encode(),
            "propensity": np.full(len(swap), 2 / (len(AGENTS) * (len(AGENTS) - 1))),
        }
    )


def _reference_table(split: Split, z: NDArray[np.float32]) -> pa.Table:
    """One row an initialisation: its context, and the sum of the three judges' verdicts on each pair j < k."""
    sums = verdict_sums(z)
    configuration, initialisation = np.indices(sums.shape[:2]).reshape(2, -1)
    context = _configuration_table(split).take(pa.array(configuration))
    flat = pa.array(sums.reshape(-1))
    return context.append_column("initialisation", pa.array(initialisation.astype(np.int16))).append_column(
        "verdict_sums", pa.FixedSizeListArray.from_arrays(flat, sums.shape[2])
    )


def _name_column(name: str, length: int) -> Any:
    return pa.array([name] * length).dictionary_encode()


def _write(path: Path, tables: list[pa.Table]) -> None:
    partial_path = path.with_suffix(".partial")
    pq.write_table(pa.concat_tables(tables).unify_dictionaries(), partial_path, compression="zstd")
    partial_path.replace(path)


def main(words: Sequence[str]) -> None:
    """Build the data set from the command line."""
    known = parser("build-highway", "Build the MO-Highway data set, resumably.")
    known.add_argument("--out", required=True, type=Path, help="the folder to fill")
    known.add_argument("--workers", type=int, help="processes to use (default: all cores)")
    known.add_argument("--stage", choices=("train", "rollout", "all"), default="all")
    known.add_argument("--quick", action="store_true", help="a tiny version, to try the machinery")
    options = known.parse_args(words)
    try:
        build(options.out, workers=options.workers, quick=options.quick, stage=options.stage)
    except KeyboardInterrupt:
        raise SystemExit("Stopped; the same command goes on from here.") from None
