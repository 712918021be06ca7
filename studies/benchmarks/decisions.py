"""What a manager reads first, on every log at hand: the decision of each bundled log and of each under $NASHEVAL_DATA.

`python -m studies decisions [--only chat,highway] [--outcome lightgbm] [--jobs 2]`. Logs are read as in docs/cli.md,
stars and rankings as `stars` and `ballots` read them. Data that is not there is left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import nasheval as ne
from studies.benchmarks.ballots import ballots
from studies.benchmarks.stars import star_of
from studies.harness.files import data_folder
from studies.harness.options import add_run_options, parser
from studies.harness.rows import Row
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell

PRICE = "|total_cost"
NOT_SCORES = {"split", "question", "task_name", "cluster_id"}


@dataclass(frozen=True)
class Log:
    """A log, what its agents cost, and the column of its groups."""

    feedback: ne.Feedback
    by: str | None = None
    costs: dict[str, float] | None = None


def routerbench() -> Log:
    """Read scores with the mean cost of each model."""
    file = data_folder() / "routerbench/scores_costs.parquet"
    table = pq.read_table(file)
    agents = [name.removesuffix(PRICE) for name in table.column_names if name.endswith(PRICE)]
    costs = {agent: float(np.nanmean(np.asarray(table[agent + PRICE], float))) for agent in agents}
    log = ne.read_scores(file, agents=agents, text="prompt", context="eval_name", pairs_per_context=10, on_error="skip")
    return Log(log, "eval_name", costs)


def llmrouter() -> Log:
    """Read scores with the price of a million tokens of each model."""
    file = data_folder() / "llmrouter/scores.parquet"
    agents = [name for name in pq.read_schema(file).names if name not in NOT_SCORES]
    prices = json.loads((data_folder() / "llmrouter/prices.json").read_text())
    log = ne.read_scores(file, agents=agents, text="question", context="task_name", pairs_per_context=6)
    return Log(log, "task_name", {agent: float(prices[agent]["output_price"]) for agent in agents})


def llmfao() -> Log:
    """Read votes of a crowd."""
    join = (data_folder() / "llmfao/prompts.jsonl", "prompt", "id")
    file = data_folder() / "llmfao/crowd-comparisons.csv"
    return Log(ne.read_votes(file, voter="worker", join=join, context="type", text="text"), "type")


def nicabean() -> Log:
    """Read rankings of farmers."""
    join = (data_folder() / "nicabean/covar.csv", "id", "id")
    names: dict[str, Any] = {"ballot": ["id", "trait"], "join": join, "context": ["trait", "gender"]}
    log = ne.read_rankings(data_folder() / "nicabean/trial.csv", agent="item", rank="rank", voter="id", **names)
    return Log(log, "trait")


def star(name: str) -> Log:
    """Read judgments against one reference."""
    return Log(star_of(name).log(np.arange(star_of(name).contexts.num_rows)))


LOGS: dict[str, Callable[[], Log]] = {
    "chat": lambda: Log(ne.datasets.load_chat(), "language"),
    "chat with its judge": lambda: Log(ne.datasets.load_chat(judge=True), "language"),
    "highway": lambda: Log(ne.datasets.load_highway().train, "initial_lane_id"),
    "routerbench": routerbench,
    "llmrouter": llmrouter,
    "llmfao": llmfao,
    "nicabean": nicabean,
    "wmt16": lambda: Log(ballots(data_folder() / "wmt16/wmt16.eng-fin.csv")),
    "alpaca_eval": lambda: star("alpaca_eval"),
    "arena_hard": lambda: star("arena_hard"),
}


def study(cell: Cell) -> list[Row]:
    """Return the decision on one log, with costs where there are any and without."""
    start, log = time.process_time(), LOGS[cell["log"]]()
    model = ne.NashEval(outcome=cell["outcome"], second_stage="none", n_jobs=1, device="cpu", verbose=False)
    model.fit(log.feedback)
    said = [str(model.decision(log.by))]
    said += [] if log.costs is None else [str(model.decision(log.by, costs=log.costs))]
    tied = model.decision().tied
    return [{"said": said, "tied": list(tied), "seconds": round(time.process_time() - start, 1)}]


def main(words: Sequence[str]) -> None:
    """Run the logs and print what is said."""
    options = parser("decisions", __doc__)
    options.add_argument("--only", default="", help=f"logs, with commas: {', '.join(LOGS)}")
    options.add_argument("--outcome", default="lightgbm", help="outcome model, as in NashEval")
    add_run_options(options, "results/decisions.jsonl")
    asked = options.parse_args(words)
    shared = [name for name in LOGS if (data_folder() / name).exists()]
    names = asked.only.split(",") if asked.only else [*list(LOGS)[:3], *shared]
    cells = [Cell(f"{asked.outcome} {name}", {"log": name, "outcome": asked.outcome}) for name in names]
    for row in labelled(run_cells(study, cells, asked.results, jobs=asked.jobs)):
        print(f"\n{row['log']} ({row['seconds']} CPU s)")
        for words_of, said in zip(("", "with costs: "), row["said"], strict=False):
            print(f"  {words_of}{said}")
        print(f"  not told apart: {', '.join(row['tied'])}")
