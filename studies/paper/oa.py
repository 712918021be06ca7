"""Chat models on real user prompts, every pair judged by GPT-4 in both orders (the design of Table rq2-routerbench).

The paper has no such table: this is its RouterBench design on verdicts that a language model really gave. Two panels:
all seven models, of which gpt-4 wins nearly everywhere, and the six without it. The two orders of presentation are
averaged. Five splits: 200 prompts with all their pairs are the truth, and of every other prompt 8 pairs are drawn. That
is done three times a split, and what a method does at a prompt is averaged over the three logs: there are only 953
prompts, and what is drawn of them moves exploitability as much as the methods differ. Single prompts are judged nearly
without doubt, so that the exploitability of whatever is learned from other prompts is high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nasheval as ne
from studies.arrays import Floats, Ints
from studies.harness.files import data_file
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.paper.contest import MAXIMAL, OURS, lotteries, scores
from studies.paper.paired import beaten, differences, dots, leading, overview, together
from studies.paper.prompts import FEATURES, SPLITS, drawn_pairs, others, prompt_table, repeats, windows

JUDGMENTS, PROMPTS = "oa_pairs/judgments.parquet", "oa_pairs/prompts.parquet"
STRONGEST = "gpt-4"
PANELS = {"six": "six models, without gpt-4", "seven": "all seven models"}
RHO = 1e-3
TEST, PAIRS, LOGS = 200, 8, 3
_QUICK_TRAIN = 50
_MARGIN = {1: 1.0, 2: -1.0, 3: 0.0}  # what a score says of the model shown first; -1 could not be read


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Verdicts on all ordered pairs of some models, on every prompt.

    Args:
        agents: names of the K models, sorted.
        contexts: n prompts: prompt_id, lang, text and its features.
        prompt, first, second: (v,) rows of `contexts` and numbers of the models, as shown.
        score: (v,) 1, 2 or 3: the first is better, the second is, neither.
    """

    agents: tuple[str, ...]
    contexts: pa.Table
    prompt: Ints
    first: Ints
    second: Ints
    score: Ints

    @classmethod
    def read(cls, panel: str) -> Verdicts:
        """Read the verdicts among the models of a panel; those that could not be parsed are left out."""
        prompts, judged = pq.read_table(data_file(PROMPTS)), pq.read_table(data_file(JUDGMENTS))
        number = {name: i for i, name in enumerate(prompts["prompt_id"].to_pylist())}
        models = [name for name in sorted(set(judged["model_1"].to_pylist())) if panel == "seven" or name != STRONGEST]
        place = {name: k for k, name in enumerate(models)}
        prompt = np.array([number[name] for name in judged["prompt_id"].to_pylist()])
        first, second = (np.array([place.get(m, -1) for m in judged[c].to_pylist()]) for c in ("model_1", "model_2"))
        score = np.asarray(judged["score"])
        kept = (first >= 0) & (second >= 0) & np.isin(score, list(_MARGIN))
        contexts = prompt_table(prompts["text"], language=prompts["lang"], lang=prompts["lang"])
        return cls(tuple(models), contexts, prompt[kept], first[kept], second[kept], score[kept])

    def payoff(self) -> Floats:
        """Return the games (n, K, K): mean verdicts over both orders; 0 where neither could be parsed."""
        shape = (self.contexts.num_rows, len(self.agents), len(self.agents))
        total, count = np.zeros(shape), np.zeros(shape)
        margin = np.array([_MARGIN[s] for s in self.score.tolist()])
        np.add.at(total, (self.prompt, self.first, self.second), margin)
        np.add.at(count, (self.prompt, self.first, self.second), 1)
        both = count + count.transpose(0, 2, 1)
        return np.asarray((total - total.transpose(0, 2, 1)) / np.maximum(both, 1))

    def log(self, rows: Ints, seed: int | Sequence[int]) -> ne.Feedback:
        """Return a log of `PAIRS` pairs drawn at each of some prompts; the two orders of a pair count as one record."""
        K = len(self.agents)
        n_pairs, (j, k) = K * (K - 1) // 2, np.triu_indices(K, 1)
        pair = np.zeros((K, K), int)
        pair[j, k] = pair[k, j] = np.arange(n_pairs)
        drawn = np.zeros((self.contexts.num_rows, n_pairs), bool)
        drawn[rows[:, None], drawn_pairs(len(rows), n_pairs, PAIRS, np.random.default_rng(seed))] = True
        kept = drawn[self.prompt, pair[self.first, self.second]]
        names = np.array(self.agents)
        votes = pa.table(
            {
                "prompt_id": self.prompt[kept].astype(str),
                "model_a": names[self.first[kept]],
                "model_b": names[self.second[kept]],
                "winner": self.score[kept],
                "propensity": np.full(kept.sum(), PAIRS / n_pairs),
            }
        )
        return ne.read_votes(
            votes,
            labels={1: "a", 2: "b", 3: "tie"},
            agents=self.agents,
            context_id="prompt_id",
            context=["lang", *FEATURES],
            text="text",
            join=(self.contexts, "prompt_id"),
            propensity="propensity",
            average_repeats=True,
            design="inclusion",
        )


def cells(scale: Scale) -> list[Cell]:
    """Return a split for each panel and seed; quick: the first, of the six, with few prompts to learn from."""
    sizes = {"test": TEST, "train": _QUICK_TRAIN if scale.quick else None, "logs": 1 if scale.quick else LOGS}
    panels = ["six"] if scale.quick else list(PANELS)
    return [
        Cell(f"{panel}/{seed}", {"panel": panel, "seed": seed, **sizes})
        for panel in panels
        for seed in scale.pick(range(SPLITS))
    ]


def run(cell: Cell) -> list[Row]:
    """Score every method on one split, averaged over several logs of its training prompts."""
    verdicts = Verdicts.read(cell["panel"])
    n, split = verdicts.contexts.num_rows, cell["seed"] % SPLITS
    test = windows(n, cell["test"])[split]
    train = others(n, test, cell["train"])
    labels: Row = {"panel": cell["panel"], "seed": cell["seed"], "split": split, "repeats": repeats(n, cell["test"])}
    logs = [_methods(verdicts, train, test, [cell["seed"], number]) for number in range(cell["logs"])]
    stacked = {method: np.stack([one[method] for one in logs]) for method in logs[0]}
    return [{**labels, **row} for row in scores(stacked, verdicts.payoff()[test], rho=RHO)]


def _methods(verdicts: Verdicts, train: Ints, test: Ints, seed: Sequence[int]) -> dict[str, Floats]:
    """Return the lotteries of every method at test prompts, from one log of the others."""
    return lotteries(
        verdicts.log(train, seed), verdicts.contexts.take(test), rho=RHO, seed=seed[0], groups="lang",
        paper={"propensity": "known"},
    )  # fmt: skip


# -- what is made of it -----------------------------------------------------------------------------------------------

_JUDGE = (
    "Real GPT-4 verdicts of the Guanaco evaluation (both orders averaged, a tie is 0) and its models, not those of the "
    "paper, which has no table of this. "
)


def tables(rows: Rows) -> list[Table]:
    """Return a table of scores and one of differences from ours for each panel."""
    shown = []
    for panel in rows.distinct("panel"):
        mine = rows.where(panel=panel)
        shown.append(overview(mine, f"Chat models judged by GPT-4: {PANELS[panel]}", note=_JUDGE))
        shown.append(differences(mine, f"Against ours, prompt by prompt: {PANELS[panel]}"))
    return shown


def claims(rows: Rows) -> list[Claim]:
    """Return our bars: with six models ours leads; with seven it is not worse than the pooled lottery."""
    six, seven = (rows.where(panel=panel) for panel in ("six", "seven"))
    return [
        *(leading(six, of="six models") if len(six) else ()),
        *((_as_good_as_pooled(seven), *beaten(seven, of="seven models")) if len(seven) else ()),
    ]


def _as_good_as_pooled(rows: Rows) -> Claim:
    """Return the bar against the pooled lottery, which is gpt-4 alone: equal up to chance is not worse."""
    loss = {method: rows.where(method=method).mean("exploitability") for method in (OURS, MAXIMAL)}
    excess = together(rows.where(method=MAXIMAL), "excess")
    return Claim("seven models: exploitability not significantly above that of the pooled lottery", excess.upper >= 0,
                 f"{loss[OURS]:.4f} against {loss[MAXIMAL]:.4f}; the pooled lottery's above ours {excess}")  # fmt: skip


def figures(rows: Rows) -> dict[str, object]:
    """Return how far every method is from ours, a panel of the figure for each panel of models."""
    return {"oa": dots({PANELS[panel]: rows.where(panel=panel) for panel in rows.distinct("panel")})}


STUDY = Study(
    "oa",
    "Chat models on real prompts, judged by GPT-4",
    "Table rq2-routerbench (its design, on other data)",
    cells,
    run,
    tables,
    claims,
    figures,
    (JUDGMENTS, PROMPTS),
)
