"""Language models on RouterBench prompts with real costs (Table rq2-routerbench, Figure rb-heatmap).

The part of RouterBench that is at hand: 3,150 prompts of three subsets, eleven models, right or wrong and what it cost.
The paper has 8,742 prompts, ten other models and three language models as judges; here the judges are simulated from
what the data hold (`judges`). As in the paper: 20 pairs drawn a training prompt and one judge for all of them; on the
500 test prompts all pairs and all three judges, whose mean is the truth. Here five such test sets, no prompt in two.
"""

from __future__ import annotations

from ast import literal_eval
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nasheval as ne
from studies.arrays import Floats, Ints
from studies.harness.files import data_file
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.paper.contest import (
    BT_DEBIASED,
    BT_PLUG_IN,
    MAXIMAL,
    OURS,
    PLUG_IN,
    PLURALISTIC,
    PRINTED,
    ROBUST,
    lotteries,
    scores,
)
from studies.paper.figures import heatmap, panels
from studies.paper.judges import tastes, verdicts
from studies.paper.paired import differences, dots, leading, overview
from studies.paper.prompts import FEATURES, SPLITS, drawn_pairs, others, prompt_table, repeats, windows

FILE = "routerbench/scores_costs.parquet"
RHO = 1e-3
TEST, PAIRS = 500, 20
GROUP = "eval_name"
_QUICK_TRAIN = 30
_COST = "|total_cost"
# Table rq2-routerbench: exploitability, F1, game value against NashEval-debiased.
_PAPER = {
    PRINTED: ("0.380 ± 0.000", "0.300 ± 0.001", "0.000"),
    PLUG_IN: ("0.398 ± 0.001", "0.287 ± 0.001", "-0.016 ± 0.001"),
    BT_DEBIASED: ("0.395 ± 0.001", "0.274 ± 0.001", "-0.010 ± 0.001"),
    BT_PLUG_IN: ("0.401 ± 0.003", "0.270 ± 0.002", "0.014 ± 0.003"),
    MAXIMAL: ("0.423 ± 0.000", "0.246 ± 0.000", "-0.030 ± 0.000"),
    ROBUST: ("0.423 ± 0.000", "0.246 ± 0.000", "-0.030 ± 0.000"),
    PLURALISTIC: ("0.470 ± 0.000", "0.242 ± 0.000", "-0.136 ± 0.000"),
}


@dataclass(frozen=True, eq=False)
class Bench:
    """Eleven models on every prompt, with the verdicts of every judge.

    Args:
        agents: names of the K models, sorted.
        contexts: n prompts: prompt_id, eval_name, text (the question without worked examples) and its features.
        score: (n, K) 0 or 1.
        cost: (n, K) in dollars.
        judges: names of the judges.
        verdict: (judges, n, K, K).
    """

    agents: tuple[str, ...]
    contexts: pa.Table
    score: Floats
    cost: Floats
    judges: tuple[str, ...]
    verdict: Floats

    @classmethod
    def read(cls) -> Bench:
        """Read the file; rows that lack a score are left out."""
        table = pq.read_table(data_file(FILE))
        agents = sorted(name.removesuffix(_COST) for name in table.column_names if name.endswith(_COST))
        score = np.column_stack([np.asarray(table[name], np.float64) for name in agents])
        whole = np.isfinite(score).all(axis=1)
        table, score = table.filter(pa.array(whole)), score[whole]
        cost = np.column_stack([np.asarray(table[name + _COST], np.float64) for name in agents])
        prompts = table["prompt"].to_pylist()
        questions, length = [question(text) for text in prompts], np.array([len(text) for text in prompts], float)
        taste_of = tastes(score, cost, length, questions)
        contexts = prompt_table(questions, language=["en"] * len(questions), **{GROUP: table[GROUP]})
        said = np.stack([verdicts(score, taste) for taste in taste_of.values()])
        return cls(tuple(agents), contexts, score, cost, tuple(taste_of), said)

    def payoff(self) -> Floats:
        """Return the games (n, K, K): the mean over the judges."""
        return np.asarray(self.verdict.mean(axis=0))

    def log(self, rows: Ints, seed: int) -> ne.Feedback:
        """Return a log of `PAIRS` pairs drawn at each of some prompts, all given to one judge drawn for the prompt."""
        rng, (j, k) = np.random.default_rng(seed), np.triu_indices(len(self.agents), 1)
        pair = drawn_pairs(len(rows), len(j), PAIRS, rng).ravel()
        judge = np.repeat(rng.integers(len(self.judges), size=len(rows)), PAIRS)
        prompt, first, second, names = np.repeat(rows, PAIRS), j[pair], k[pair], np.array(self.agents)
        said = self.verdict[judge, prompt, first, second]
        failed = np.maximum(self.score[prompt, first], self.score[prompt, second]) <= 0
        votes = pa.table(
            {
                "prompt_id": prompt.astype(str),
                "model_a": names[first],
                "model_b": names[second],
                "winner": np.select([said > 0, said < 0, failed], ["a", "b", "both_bad"], "tie"),
                "judge": np.array(self.judges)[judge],
                "propensity": np.full(len(pair), PAIRS / len(j)),
            }
        )
        return ne.read_votes(
            votes,
            labels={label: label for label in ("a", "b", "tie", "both_bad")},
            agents=self.agents,
            voter="judge",
            context_id="prompt_id",
            context=[GROUP, *FEATURES],
            text="text",
            join=(self.contexts, "prompt_id"),
            propensity="propensity",
            design="inclusion",
        )


def question(prompt: str) -> str:
    """Return the question of a prompt without the worked examples before it; prompts are stored as lists of texts."""
    try:
        text = str(literal_eval(prompt)[0])
    except (ValueError, SyntaxError, IndexError):
        text = prompt
    return text.split("\n\n")[-1]


def cells(scale: Scale) -> list[Cell]:
    """Return a test set for each seed; quick: the first, with few prompts to learn from."""
    sizes = {"test": TEST, "train": _QUICK_TRAIN if scale.quick else None}
    return [Cell(f"split {seed}", {"seed": seed, **sizes}) for seed in scale.pick(range(SPLITS))]


def run(cell: Cell) -> list[Row]:
    """Score every method on one test set."""
    bench = Bench.read()
    n, split = bench.contexts.num_rows, cell["seed"] % SPLITS
    test = windows(n, cell["test"])[split]
    train = others(n, test, cell["train"])
    contexts, payoff = bench.contexts.take(test), bench.payoff()[test]
    played = lotteries(
        bench.log(train, cell["seed"]), contexts, rho=RHO, seed=cell["seed"], groups=GROUP,
        paper={"propensity": "known"},
    )  # fmt: skip
    labels: Row = {"seed": cell["seed"], "split": split, "repeats": repeats(n, cell["test"])}
    scored = [{**labels, **row} for row in scores(played, payoff, rho=RHO)]
    often = _frequencies(bench.agents, contexts, payoff, played[OURS])
    return scored + [{"seed": cell["seed"], **row} for row in often]


def _frequencies(agents: tuple[str, ...], contexts: pa.Table, payoff: Floats, estimated: Floats) -> list[Row]:
    """Return how often each agent is drawn at the prompts of each subset, by our lotteries and by the reference."""
    group, reference = np.array(contexts[GROUP].to_pylist()), ne.solve(payoff, regularizer=ne.L2(RHO)).strategy
    return [
        {
            "subset": name,
            "agent": agent,
            "estimated": float(estimated[group == name, k].mean()),
            "reference": float(reference[group == name, k].mean()),
        }
        for name in np.unique(group).tolist()
        for k, agent in enumerate(agents)
    ]


# -- what is made of it -----------------------------------------------------------------------------------------------

_OTHERS = (
    "Other models, prompts and judges than the paper's: its judges were language models, these are rules on cost, "
    "tokens and accuracy nearby. "
)


def tables(rows: Rows) -> list[Table]:
    """Return the paper's table, ours and its figures side by side; and the differences from ours."""
    scored = Rows([row for row in rows if "method" in row])
    return [
        overview(scored, "Language models on RouterBench prompts, simulated judges", note=_OTHERS, paper=_PAPER),
        differences(scored, "Against ours, prompt by prompt"),
    ]


def claims(rows: Rows) -> list[Claim]:
    """Return our bars and the paper's claims."""
    scored = Rows([row for row in rows if "method" in row])
    loss = {method: scored.where(method=method).mean("exploitability") for method in scored.distinct("method")}
    return [
        *leading(scored, of="eleven models"),
        _consistent(rows),
        *(
            Claim(f"{PRINTED} has lower exploitability than {name}", loss[PRINTED] < loss[name],
                  f"{loss[PRINTED]:.3f} against {loss[name]:.3f}", "paper")
            for name in (PLUG_IN, BT_DEBIASED, BT_PLUG_IN, MAXIMAL, ROBUST, PLURALISTIC)
        ),
    ]  # fmt: skip


def _consistent(rows: Rows) -> Claim:
    _, _, estimated, reference = _grids(rows)
    r = float(np.corrcoef(estimated.ravel(), reference.ravel())[0, 1])
    same = int((estimated.argmax(axis=0) == reference.argmax(axis=0)).sum())
    text = "estimated winner frequencies are largely consistent with the reference (correlation above 0.8)"
    return Claim(text, r > 0.8,
                 f"correlation {r:.2f}; the same most frequent winner in {same} of {estimated.shape[1]} subsets",
                 "paper")  # fmt: skip


def _grids(rows: Rows) -> tuple[list[str], list[str], Floats, Floats]:
    """Return agents, subsets, and (agents, subsets) how often each is drawn: estimated, reference."""
    agents, subsets = rows.distinct("agent"), rows.distinct("subset")
    estimated, reference = (
        np.array([[rows.where(agent=agent, subset=subset).mean(which) for subset in subsets] for agent in agents])
        for which in ("estimated", "reference")
    )
    return agents, subsets, estimated, reference


def figures(rows: Rows) -> dict[str, object]:
    """Return the paper's heatmap, and how far every method is from ours."""
    agents, subsets, *grids = _grids(rows)
    figure, axes = panels(1, 2, width=4.2, height=4.4, sharey=True)
    names = [agent.split("/")[-1] for agent in agents]
    for ax, grid, title in zip(axes[0], grids, ("estimated (ours)", "reference: all pairs, all judges"), strict=True):
        image = heatmap(ax, grid, rows=names, columns=subsets, title=title)
    figure.colorbar(image, ax=axes[0].tolist(), shrink=0.8, label="how often the agent is drawn (numbers: %)")
    figure.suptitle("Winners by subset of RouterBench; simulated judges", fontsize=11)
    scored = Rows([row for row in rows if "method" in row])
    return {"heatmap": figure, "routerbench": dots({"RouterBench prompts, simulated judges": scored})}


STUDY = Study(
    "routerbench",
    "Language models on RouterBench prompts, with simulated judges",
    "Table rq2-routerbench, Figure rb-heatmap",
    cells,
    run,
    tables,
    claims,
    figures,
    (FILE,),
)
