"""What a pooled equilibrium hides from single prompts (Figures rb-agg-individual-vNw-mmlu and -code).

The paper shows MMLU-Pro and LiveCodeBench; here ARC-Challenge and MBPP stand for them, with the games of `routerbench`:
all pairs, all three simulated judges (the paper's were language models). Nothing is estimated. The prompts drawn in the
figure are the first of a random order.
"""

from __future__ import annotations

import numpy as np

import nasheval as ne
from studies.arrays import Bools, Floats
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Scale, Study, Table
from studies.paper.figures import panels
from studies.paper.routerbench import FILE, GROUP, RHO, Bench

SUBSETS = {"arc-challenge": "ARC-Challenge (knowledge)", "mbpp": "MBPP (programming)"}
SHOWN = 5
POOLED = "aggregated"
_TAU = 1e-3
_QUICK = 200


def cells(scale: Scale) -> list[Cell]:
    """Return the subsets; quick: their first prompts."""
    most = _QUICK if scale.quick else None
    return [Cell(f"{subset}/{seed}", {"subset": subset, "seed": seed, "prompts": most})
            for subset in SUBSETS for seed in scale.pick((0,))]  # fmt: skip


def run(cell: Cell) -> list[Row]:
    """Return the lottery of the mean game, those of a few prompts, and what the one says of the others."""
    bench, subset = Bench.read(), cell["subset"]
    inside = np.flatnonzero(np.array(bench.contexts[GROUP].to_pylist()) == subset)
    order = np.random.default_rng(cell["seed"]).permutation(inside)[: cell["prompts"]]
    games = bench.payoff()[order]
    pooled = ne.solve(games.mean(axis=0), regularizer=ne.L2(RHO)).strategy
    single = ne.solve(games, regularizer=ne.L2(RHO)).strategy
    labels: Row = {"subset": subset, "seed": cell["seed"]}
    shown = {POOLED: pooled} | {f"prompt {i + 1}": single[i] for i in range(min(SHOWN, len(single)))}
    drawn: list[Row] = [
        {**labels, "context": context, "agent": agent, "lottery": float(lottery[k])}
        for context, lottery in shown.items()
        for k, agent in enumerate(bench.agents)
    ]
    return [{**labels, **hidden(games, pooled, single, bench.agents)}, *drawn]


def hidden(games: Floats, pooled: Floats, single: Floats, agents: tuple[str, ...]) -> Row:
    """Return what the lottery of the mean game says of single prompts.

    Args:
        games: (n, K, K) of the prompts.
        pooled: (K,) the lottery of their mean.
        single: (n, K) their own.
    """
    winner, mean = int(pooled.argmax()), games.mean(axis=0)
    every = np.tile(pooled, (len(games), 1))
    return {
        "prompts": len(games),
        "winner": agents[winner],
        "condorcet": bool(condorcet(mean[None])[0]),
        "without_condorcet": float((~condorcet(games)).mean()),
        "several": float(((single > _TAU).sum(axis=1) > 1).mean()),
        "left_out": float((single[:, winner] <= _TAU).mean()),
        "winners": len(np.unique(single.argmax(axis=1))),
        "exploitability": float(ne.metrics.exploitability(games, every)),
    }


def condorcet(games: Floats) -> Bools:
    """Return (n,) whether an agent is preferred to every other."""
    n_agents = games.shape[1]
    return np.asarray(((games > 0).sum(axis=2) == n_agents - 1).any(axis=1))


# -- what is made of it -----------------------------------------------------------------------------------------------


def tables(rows: Rows) -> list[Table]:
    """Return what each aggregate hides."""
    header = ("subset", "prompts", "aggregate winner", "it is no winner",
              "several winners", "no Condorcet winner", "different first winners",
              "exploitability there")  # fmt: skip
    lines = tuple(
        (str(row["subset"]), f"{row['prompts']:,}", f"{row['winner']}{'' if row['condorcet'] else ' (of a mixture)'}",
         *(f"{100 * float(row[name] or 0):.0f}%" for name in ("left_out", "several", "without_condorcet")),
         str(row["winners"]), f"{float(row['exploitability'] or 0):.3f}")
        for row in _summaries(rows)
    )  # fmt: skip
    note = (
        "Shares are of single prompts; the exploitability is that of the aggregate's lottery at single prompts. Games "
        "of all pairs and all three simulated judges; the paper's judges were language models, and its models others."
    )
    return [Table("What aggregation hides", header, lines, note)]


def claims(rows: Rows) -> list[Claim]:
    """Return what the paper says of its two subsets."""
    subsets = list(_summaries(rows))
    names = "; ".join(f"{row['subset']}: {row['winner']}" for row in subsets if row["condorcet"]) or "none"
    left = [float(row["left_out"] or 0) for row in subsets]
    lone = [float(row["without_condorcet"] or 0) for row in subsets]
    pooled = all(row["condorcet"] for row in subsets)
    return [
        Claim("aggregated preferences have a Condorcet winner", pooled, names, "paper"),
        Claim("single prompts need not have one", min(lone) > 0, _range(lone), "paper"),
        Claim(
            "at some prompts the winner of the aggregate is not in the support", min(left) > 0, _range(left), "paper"
        ),
    ]


def _range(shares: list[float]) -> str:
    return f"{100 * min(shares):.0f}% to {100 * max(shares):.0f}% of prompts"


def _summaries(rows: Rows) -> Rows:
    return Rows([row for row in rows if "left_out" in row])


def figures(rows: Rows) -> dict[str, object]:
    """Return the paper's layout, a line of panels for each subset: the aggregate, then single prompts."""
    lotteries = Rows([row for row in rows if "lottery" in row])
    subsets, contexts, agents = (lotteries.distinct(column) for column in ("subset", "context", "agent"))
    figure, axes = panels(len(subsets), len(contexts), width=2.0, height=2.6, sharex=True, sharey=True)
    for line, subset in enumerate(subsets):
        for column, context in enumerate(contexts):
            ax = axes[line, column]
            shares = [lotteries.where(subset=subset, context=context, agent=agent).mean("lottery") for agent in agents]
            ax.barh(range(len(agents)), shares, color="#d55e00" if context == POOLED else "#0072b2")
            ax.set_title(context, fontsize=9)
            ax.set_xlim(0, 1.04)
            ax.set_xticks((0, 0.5, 1), ("0", "0.5", "1"), fontsize=8)
            ax.grid(axis="x", color="#e4e4e4", lw=0.6)
            ax.set_axisbelow(True)
        axes[line, 0].set_yticks(range(len(agents)), [agent.split("/")[-1] for agent in agents], fontsize=8)
        axes[line, 0].set_ylabel(SUBSETS.get(subset, subset))
        axes[line, 0].invert_yaxis() if line == 0 else None
    figure.supxlabel("share of the lottery", fontsize=9)
    return {"aggregation": figure}


STUDY = Study(
    "aggregation",
    "What a pooled equilibrium hides from single prompts",
    "Figures rb-agg-individual-vNw-mmlu, rb-agg-individual-vNw-code",
    cells,
    run,
    tables,
    claims,
    figures,
    (FILE,),
)
