"""The learned policy against exact equilibria, in quality and time (Figures rq1-solver-comparison, inference-runtime).

Quality: the settings of `rq1`; the same estimated games, once solved exactly and once learned by a network with the gap
loss. The paper's games are learned by its network at the middle of its grid, ours by ours. Time: `solver_timing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import nasheval as ne
from studies.arrays import Floats
from studies.harness.rows import Row, Rows
from studies.harness.study import Cell, Claim, Plain, Scale, Study, Table
from studies.paper.contest import OURS, PLUG_IN, PRINTED, common_options, scores
from studies.paper.figures import NAMES, legend, panels, style
from studies.paper.rq1 import by_setting, setting_names
from studies.paper.simulated import RHO, SEEDS, Truth, settings
from studies.paper.solver_timing import (
    ALL,
    BY_SIZE,
    EXACT,
    NETWORK,
    OUR_EXACT,
    OUR_NETWORK,
    OUR_PAYOFFS,
    PAYOFFS,
    timings,
)

GAMES = (OURS, PRINTED, PLUG_IN)
SIZES, QUICK_SIZES = "3,5,7,10,15,25,50", "3,5,7"
_CLOSE = 0.02  # within which exploitability and F1 count as comparable
_STABLE = 3.0  # times longer from the fewest agents to the most, and still stable
_EXPONENTIAL = 1.5  # times longer for each agent more
# What each way to an answer takes, one step after another; and colour, marker and line in the figure.
PATHS: dict[str, tuple[str, ...]] = {
    "learned (paper's network)": (NETWORK,),
    "paper's payoffs + all supports": (PAYOFFS, ALL),
    "paper's payoffs + supports, smallest first": (PAYOFFS, BY_SIZE),
    "paper's payoffs + our solver": (PAYOFFS, EXACT),
    "learned (our network)": (OUR_NETWORK,),
    "our payoffs + our solver": (OUR_PAYOFFS, OUR_EXACT),
}
_LINES = {
    **dict(zip(PATHS, ("#0072b2 s -", "#d55e00 X -", "#e69f00 v -", "#009e73 ^ -", "#56b4e9 D -", "#000000 o -"),
               strict=True)),
    f"{ALL}, games given": "#d55e00 X :",
    f"{EXACT}, games given": "#009e73 ^ :",
}  # fmt: skip
_GIVEN = {f"{step}, games given": (step,) for step in (ALL, EXACT)}


def cells(scale: Scale) -> list[Cell]:
    """Return a log for each setting and seed, and all timing as one cell, at the end, where little runs beside it."""
    runtime: dict[str, Plain] = {"part": "runtime", "seed": SEEDS[0]}
    if scale.quick:
        quality = settings(scale, modalities=("pairwise",), voters=(3,), part="quality", n=200, epochs=30)
        return [*quality, Cell("runtime", runtime | {"sizes": QUICK_SIZES, "n": 60, "batch": 32, "rounds": 3})]
    whole = settings(scale, part="quality", epochs=None)
    return [*whole, Cell("runtime", runtime | {"sizes": SIZES, "n": 100, "batch": 128, "rounds": 9})]


def run(cell: Cell) -> list[Row]:
    """Score both ways on one log, or take the times."""
    return timings(cell) if cell["part"] == "runtime" else quality(cell)


def quality(cell: Cell) -> list[Row]:
    """Score the equilibria of each game, exact and learned."""
    truth = Truth.of(cell)
    rows = scores(lotteries(truth, cell["seed"], cell["epochs"]), truth.payoff, rho=RHO)
    return [{"modality": truth.modality, "voters": truth.voters, "seed": cell["seed"], **row} for row in rows]


def lotteries(truth: Truth, seed: int, epochs: int | None) -> dict[str, Floats]:
    """Return the (n, K) lotteries of each game at the test contexts, exact and learned.

    Args:
        epochs: of both networks, ours then on the log's contexts alone; None: as many as each has by itself.
    """
    common = common_options(seed)
    printed = ne.NashEval.paper(**common, policy="exact", rho=RHO).fit(truth.log)
    ours = ne.NashEval(**common, regularizer=ne.L2(RHO)).fit(truth.log)
    options: dict[str, Any] = {"regularizer": ne.L2(RHO)} | ({} if epochs is None else {"epochs": epochs, "augment": 0})
    network, papers = ne.LearnedPolicy(**options), ne.LearnedPolicy.paper(tune=None, **options)
    plug_in = replace(printed.stage1_, payoff=printed.stage1_.plug_in)
    given = {OURS: (ours.stage1_, network), PRINTED: (printed.stage1_, papers), PLUG_IN: (plug_in, papers)}
    played: dict[str, Floats] = {}
    for name, (stage1, learner) in given.items():
        played[name] = ne.ExactPolicy(ne.L2(RHO)).fit(stage1).predict_proba(truth.contexts)
        played[learned(name)] = learner.fit(stage1).predict_proba(truth.contexts)
    return played


def learned(game: str) -> str:
    """Return what the learned policy of a game is called."""
    return f"{game}, learned"


# -- what is made of it -----------------------------------------------------------------------------------------------


def tables(rows: Rows) -> list[Table]:
    """Return exploitability and F1, one line per game and solver; and the times, a column for each number of agents."""
    scored = Rows([row for row in rows if "method" in row])
    named = "solved exactly, and learned by a network: mean ± sd over seeds"
    return [
        by_setting(scored, "exploitability", f"Exploitability (lower is better), {named}"),
        by_setting(scored, "f1", f"Support F1 (higher is better), {named}"),
        *(_times(rows.where(part="runtime", batch=batch), batch) for batch in rows.distinct("batch")),
    ]


def _times(rows: Rows, batch: int) -> Table:
    sizes = rows.distinct("agents")
    lines = [(path, *(_ms(taken(rows, path, K)) for K in sizes)) for path in PATHS]
    lines += [(f"step: {step}", *(_ms(_step(rows, step, K)) for K in sizes)) for step in rows.distinct("step")]
    return Table(
        f"Milliseconds per context, {'one context' if batch == 1 else f'{batch} contexts'} per call",
        ("way to an answer", *(f"K = {K}" for K in sizes)),
        tuple(lines),
        _share(rows, sizes),
    )


def _share(rows: Rows, sizes: Sequence[int]) -> str:
    """Tell how much of an exact answer the solver takes."""
    share = [_step(rows, EXACT, K) / taken(rows, "paper's payoffs + our solver", K) for K in sizes]
    return (
        "Enumerations take one game after another and end at 15 agents; these games have small supports, which an "
        "enumeration from the smallest up finds early. Our exact solver takes "
        f"{min(share):.1%} to {max(share):.1%} of the time of an exact answer on the paper's payoffs; the rest is "
        "spent on evaluating these. What a learned policy saves over it is the payoffs, not the solver."
    )


def taken(rows: Rows, path: str, agents: int) -> float:
    """Return the milliseconds of a way to an answer, NaN where a step of it was not timed."""
    return sum(_step(rows, step, agents) for step in (PATHS | _GIVEN)[path])


def _step(rows: Rows, step: str, agents: int) -> float:
    return rows.where(step=step, agents=agents).mean("ms")


def _ms(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def claims(rows: Rows) -> list[Claim]:
    """Return the paper's claims on quality and on time, for ours too."""
    scored, timed = Rows([row for row in rows if "method" in row]), rows.where(part="runtime")
    return [*(_comparable(scored, game) for game in GAMES), *_stable(timed), _exponential(timed)]


def _comparable(rows: Rows, game: str) -> Claim:
    seen, holds = [], True
    for column in ("exploitability", "f1"):
        parts = [rows.where(modality=m, voters=v) for m, v in setting_names(rows) if v > 1]
        gap = [p.where(method=learned(game)).mean(column) - p.where(method=game).mean(column) for p in parts]
        holds &= max(gap) <= _CLOSE if column == "exploitability" else min(gap) >= -_CLOSE
        seen.append(f"{column} {min(gap):+.3f} to {max(gap):+.3f}")
    text = f"{game}: learned is comparable to exact (no worse by more than {_CLOSE}) for 3 and 5 voters"
    return Claim(text, holds, f"{'; '.join(seen)} against exact", "paper")


def _stable(rows: Rows) -> list[Claim]:
    sizes, batch = rows.distinct("agents"), max(rows.distinct("batch"))
    claimed = []
    for path in ("learned (paper's network)", "learned (our network)"):
        times = [taken(rows.where(batch=batch), path, K) for K in sizes]
        text = f"{path}: time stays stable from {sizes[0]} to {sizes[-1]} agents (within {_STABLE:g} times)"
        claimed.append(Claim(text, max(times) <= _STABLE * min(times), f"{max(times) / min(times):.1f} times", "paper"))
    return claimed


def _exponential(rows: Rows) -> Claim:
    """Fit log time of the enumeration against K, over the sizes above the overhead of a call."""
    sizes = [K for K in rows.distinct("agents") if not np.isnan(_step(rows, ALL, K))][-3:]
    slope = np.polyfit(sizes, [np.log(_step(rows, ALL, K)) for K in sizes], 1)[0]
    text = f"enumeration of all supports grows exponentially (at least {_EXPONENTIAL:g} times for each agent)"
    seen = f"{np.exp(slope):.2f} times for each agent from {sizes[0]} to {sizes[-1]}"
    return Claim(text, bool(np.exp(slope) >= _EXPONENTIAL), seen, "paper")


def figures(rows: Rows) -> dict[str, object]:
    """Return the paper's two figures: quality by kind of feedback and number of voters, and time against agents."""
    return {"solver": _quality(Rows([row for row in rows if "method" in row])), "runtime": _runtime(rows)}


def _quality(rows: Rows) -> Any:
    kinds = rows.distinct("modality")
    figure, axes = panels(2, len(kinds), sharex=True, sharey="row")
    for column, kind in enumerate(kinds):
        for line, measure in enumerate(("exploitability", "f1")):
            ax = axes[line, column]
            _compared(ax, rows.where(modality=kind), measure)
            ax.set_ylabel(NAMES[measure] if column == 0 else "")
        axes[0, column].set_title(kind)
        axes[1, column].set_xlabel("number of voters")
    legend(figure, axes[0, 0], columns=3)
    return figure


def _compared(ax: Any, rows: Rows, measure: str) -> None:
    """Draw each game's exact equilibria as a full line and the learned ones as a dashed line with open markers."""
    voters = rows.distinct("voters")
    for number, game in enumerate(GAMES):
        for shift, name in ((-0.02, game), (0.02, learned(game))):
            parts = [rows.where(method=name, voters=count) for count in voters]
            open_marker = {"ls": "--", "mfc": "white", "markeredgecolor": style(game)["color"], "markeredgewidth": 1.2}
            ax.errorbar(
                np.arange(len(voters)) + shift + 0.08 * (number - 1),
                [part.mean(measure) for part in parts],
                yerr=np.nan_to_num([part.spread(measure) for part in parts]),
                label=name if name != game else f"{game}, exact",
                capsize=2,
                elinewidth=0.8,
                **style(game) | ({} if name == game else open_marker),
            )
    ax.set_xticks(range(len(voters)), [str(count) for count in voters])
    ax.grid(axis="y", color="#e4e4e4", lw=0.6)
    ax.set_axisbelow(True)


def _runtime(rows: Rows) -> Any:
    timed = rows.where(part="runtime")
    batches, sizes = timed.distinct("batch"), timed.distinct("agents")
    figure, axes = panels(1, len(batches), width=4.4, height=3.6, sharey=True)
    for ax, batch in zip(axes[0], batches, strict=True):
        for path, look in _LINES.items():
            colour, marker, line = look.split()
            times = [taken(timed.where(batch=batch), path, K) for K in sizes]
            ax.plot(sizes, times, color=colour, marker=marker, ls=line, lw=1.4, ms=5, label=path)
        ax.set(xscale="log", yscale="log", xlabel="number of agents K")
        ax.set_xticks(sizes, [str(K) for K in sizes])
        ax.minorticks_off()
        ax.grid(color="#e4e4e4", lw=0.6)
        ax.set_title("one context per call" if batch == 1 else f"{batch} contexts per call")
    axes[0, 0].set_ylabel("milliseconds a context")
    legend(figure, axes[0, 0], columns=2)
    return figure


STUDY = Study(
    "solver",
    "The learned policy against exact equilibria, in quality and in time",
    "Figures rq1-solver-comparison and inference-runtime",
    cells,
    run,
    tables,
    claims,
    figures,
)
