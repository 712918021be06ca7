"""Stars: every model is compared with one reference only. Does the lottery find the best model?

`python -m studies stars [--halves 5] [--jobs 2]` fits

- three agents: strong beats base in 90% of votes, weak loses 90%; the lottery should put 0.9 or more on strong;
- alpaca_eval and arena_hard (real verdicts of LLM judges, ten models each, under $NASHEVAL_DATA), on random halves of
  their prompts, with outcome="voters" and "lightgbm". On the other half it prints what the lottery earns against the
  reference, in mean verdicts from -1 to 1: the leaderboard's lottery, the same at every prompt, and the lottery of each
  prompt; beside it the best single model there, picked by hindsight. Bars: the leaderboard's lottery within 0.05 of
  that model, and at most a third of the agents with more than 0.001 of it.

Contexts are the prompt's text and its dataset or length; without the extra `text` the latter alone. Verdicts are taken
as they are: a preference of AlpacaEval above 1.5 is a win of the model, arena-hard's two orders are two votes of weight
1/2, and how strongly a judge preferred an answer is left out.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import nasheval as ne
from studies.arrays import Array
from studies.harness.files import data_folder
from studies.harness.options import add_run_options, parser
from studies.harness.rows import Row
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell
from studies.harness.tables import print_table

NEAR, MOST, STRONG = 0.05, 1 / 3, 0.9  # the bars
WINS = 1e-3  # of a lottery that makes an agent a winner
REFERENCES = {"alpaca_eval": "gpt4_1106_preview", "arena_hard": "claude-3.7-sonnet"}
STRENGTHS = {"A>>B": 1, "A>B": 1, "A=B": 0, "B>A": -1, "B>>A": -1}


@dataclass(frozen=True, eq=False)
class Star:
    """Verdicts of models against one reference.

    Args:
        models: names.
        contexts: one row per prompt; `text` is the prompt where it can be embedded.
        verdicts: (votes, prompts, models) 1 where the model wins, -1 where it loses, 0 for a tie, NaN where missing.
        reference: its name.
    """

    models: tuple[str, ...]
    contexts: pa.Table
    verdicts: Array
    reference: str

    def log(self, prompts: Array) -> ne.Feedback:
        """Return the log of some prompts, the votes of a prompt and model sharing one unit of weight."""
        z = self.verdicts[:, prompts]
        vote, prompt, model = np.nonzero(~np.isnan(z))
        order = np.lexsort((vote, model, prompt))
        vote, prompt, model = vote[order], prompt[order], model[order]
        count = (~np.isnan(z)).sum(axis=0)[prompt, model]
        won = z[vote, prompt, model]
        names = np.array(self.models)[model]
        partitions = [self._ordered(name, verdict) for name, verdict in zip(names, won, strict=True)]
        return ne.Feedback.from_partitions(
            self.contexts.take(pa.array(prompts)),
            partitions,
            context_of=prompt.tolist(),
            weight=(1 / count).tolist(),
            agents=[self.reference, *self.models],
            text="text" if "text" in self.contexts.column_names else None,
        )

    def _ordered(self, model: str, verdict: float) -> tuple[tuple[str, ...], ...]:
        if verdict == 0:
            return ((model, self.reference),)
        return ((model,), (self.reference,)) if verdict > 0 else ((self.reference,), (model,))

    def earnings(self, prompts: Array) -> Array:
        """Return (prompts, 1 + models) mean verdicts against the reference, which earns 0; missing ones are means."""
        with np.errstate(invalid="ignore"):
            mean = np.nanmean(self.verdicts[:, prompts], axis=0)
        mean = np.where(np.isnan(mean), np.nanmean(mean, axis=0), mean)
        return np.concatenate([np.zeros((len(prompts), 1)), mean], axis=1)


# -- reading ----------------------------------------------------------------------------------------------------------


def can_embed() -> bool:
    """Tell whether texts can be embedded here."""
    try:
        import wordllama  # noqa: F401
    except ImportError:
        return False
    return True


def table_of(text: list[str], name: str, values: list[Any]) -> pa.Table:
    columns = {name: values, **({"text": text} if can_embed() else {})}
    return pa.table(columns)


def alpaca_eval(folder: Path) -> Star:
    """Read one annotations.json per model; preference runs from 1, the reference, to 2, the model."""
    files = {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/annotations.json"))}
    prompts = {row["instruction"]: row["dataset"] for rows in files.values() for row in rows}
    place, z = {text: i for i, text in enumerate(prompts)}, np.full((1, len(prompts), len(files)), np.nan)
    for model, rows in enumerate(files.values()):
        for row in rows:
            preference = row["preference"]
            if preference is not None and not math.isnan(preference):
                z[0, place[row["instruction"]], model] = np.sign(preference - 1.5)
    return Star(tuple(files), table_of(list(prompts), "dataset", list(prompts.values())), z, REFERENCES["alpaca_eval"])


def arena_hard(folder: Path) -> Star:
    """Read one file of judgments per model: in games[0] the reference is A, in games[1] it is B."""
    questions = [json.loads(line) for line in (folder / "question.jsonl").read_text().splitlines()]
    place = {question["question_id"]: i for i, question in enumerate(questions)}
    files = sorted((folder / "judgment").glob("*.jsonl"))
    z = np.full((2, len(questions), len(files)), np.nan)
    for model, path in enumerate(files):
        for row in map(json.loads, path.read_text().splitlines()):
            for order, game in enumerate(row["games"][:2]):
                if (strength := STRENGTHS.get(game["score"])) is not None:
                    z[order, place[row["question_id"]], model] = strength if order else -strength
    texts = [question["turns"][0]["content"] for question in questions]
    contexts = table_of(texts, "length", [len(text) for text in texts])  # clusters are nearly as many as prompts
    return Star(tuple(path.stem for path in files), contexts, z, REFERENCES["arena_hard"])


READERS = {"alpaca_eval": alpaca_eval, "arena_hard": arena_hard}


@cache
def star_of(data: str) -> Star:
    return READERS[data](data_folder() / data)


def star_of_three(n: int = 1000) -> ne.Feedback:
    """Return n votes: strong beats base in 90% of its votes, weak loses 90%; the context tells nothing."""
    rng = np.random.default_rng(0)
    which, upset = rng.integers(2, size=n), rng.random(n) < 0.1
    strong = (("strong",), ("base",)), (("base",), ("strong",))
    weak = (("base",), ("weak",)), (("weak",), ("base",))
    partitions = [(strong, weak)[w][int(u)] for w, u in zip(which, upset, strict=True)]
    return ne.Feedback.from_partitions(rng.uniform(-1, 1, (n, 1)), partitions, agents=["base", "strong", "weak"])


# -- fits -------------------------------------------------------------------------------------------------------------


def study(cell: Cell) -> list[Row]:
    """Return what the lotteries of one fit earn: of the three agents, or of a random half of a data set's prompts."""
    start = time.process_time()
    row = study_three(cell) if cell["data"] == "three" else study_half(cell)
    return [{**row, "seconds": round(time.process_time() - start, 2)}]


def fitted(log: ne.Feedback, outcome: str) -> ne.NashEval:
    return ne.NashEval(outcome=outcome, n_jobs=1, device="cpu", verbose=False).fit(log)


def board_lottery(model: ne.NashEval) -> Array:
    """Return (K,) the lottery of the leaderboard, agents as in the log."""
    return np.asarray(model.payoff_interval().equilibrium(model.regularizer).lottery)


def study_three(cell: Cell) -> Row:
    log = star_of_three()
    model = fitted(log, cell["outcome"])
    strong = log.agents.index("strong")
    here = model.predict_proba(log.contexts)
    return {"board": float(board_lottery(model)[strong]), "by_prompt": float(here[:, strong].mean())}


def study_half(cell: Cell) -> Row:
    star = star_of(cell["data"])
    order = np.random.default_rng(cell["half"]).permutation(star.contexts.num_rows)
    first, other = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    model = fitted(star.log(first), cell["outcome"])
    earned, board = star.earnings(other), board_lottery(model)
    here = model.predict_proba(star.contexts.take(pa.array(other)))
    best = int(earned.mean(axis=0).argmax())
    return {
        "board": float((earned @ board).mean()),
        "by_prompt": float((earned * here).sum(axis=1).mean()),
        "best": float(earned.mean(axis=0).max()),
        "best_name": model.agents_[best],
        "top_name": model.agents_[int(board.argmax())],
        "first_half_best": float(earned.mean(axis=0)[star.earnings(first).mean(axis=0).argmax()]),
        "winners": int((board > WINS).sum()),
        "winners_by_prompt": float((here > WINS).sum(axis=1).mean()),
        "agents": len(board),
    }


# -- what they show ---------------------------------------------------------------------------------------------------


def verdict(met: bool) -> str:
    return "yes" if met else "NO"


THREE = ("outcome", "leaderboard", "mean over contexts", "0.9 or more")
HALVES = (
    "data", "outcome", "half", "leaderboard", "by prompt", "best there", "best of the first half", "within 0.05",
    "winners", "winners by prompt", "at most a third", "top", "best",
)  # fmt: skip


def three_lines(rows: list[Row]) -> Iterator[list[str]]:
    for row in rows:
        board, by_prompt = row["board"], row["by_prompt"]
        yield [row["outcome"], f"{board:.3f}", f"{by_prompt:.3f}", verdict(min(board, by_prompt) >= STRONG)]


def half_lines(rows: list[Row]) -> Iterator[list[str]]:
    for data, outcome in dict.fromkeys((row["data"], row["outcome"]) for row in rows):
        group = [row for row in rows if (row["data"], row["outcome"]) == (data, outcome)]
        for row in [*group, mean_row(group)]:
            numbers = [f"{row[name]:+.3f}" for name in ("board", "by_prompt", "best", "first_half_best")]
            near = verdict(row["board"] >= row["best"] - NEAR)
            few = verdict(row["winners"] <= MOST * row["agents"])
            winners = [f"{row['winners']:.3g} of {row['agents']:.0f}", f"{row['winners_by_prompt']:.1f}", few]
            yield [data, outcome, str(row["half"]), *numbers, near, *winners, row["top_name"], row["best_name"]]


def mean_row(rows: list[Row]) -> Row:
    """Return the mean of numbers over halves; names are left out."""
    numeric = {
        name: float(np.mean([row[name] for row in rows])) for name in rows[0] if not isinstance(rows[0][name], str)
    }
    return {**numeric, "half": "mean", "top_name": "", "best_name": ""}


def main(words: Sequence[str]) -> None:
    known = parser("stars", __doc__)
    known.add_argument("--halves", type=int, default=5, help="random halves of each data set")
    known.add_argument("--data", default=",".join(READERS), help="data sets, with commas between them")
    known.add_argument("--outcomes", default="voters,lightgbm", help="outcome models, with commas between them")
    add_run_options(known, "build/stars.jsonl")
    known.add_argument("--markdown", action="store_true", help="print tables as markdown")
    options = known.parse_args(words)
    outcomes = options.outcomes.split(",")
    cells = [Cell.of(data="three", outcome=outcome, half=0) for outcome in outcomes]
    for data in filter(None, options.data.split(",")):
        if not (data_folder() / data).is_dir():
            print(f"{data} is left out: there is no {data} in {data_folder()}; set NASHEVAL_DATA to where it lies.")
            continue
        numbers = range(options.halves)
        cells += [Cell.of(data=data, outcome=outcome, half=half) for outcome in outcomes for half in numbers]
    rows = labelled(run_cells(study, cells, options.results, jobs=options.jobs, skip_failures=True))
    three, halves = ([row for row in rows if (row["data"] == "three") is small] for small in (True, False))
    print_table("Star of three: share of strong", THREE, list(three_lines(three)), markdown=options.markdown)
    title = "What lotteries earn against the reference on the other half of the prompts"
    print_table(title, HALVES, list(half_lines(halves)), markdown=options.markdown)
