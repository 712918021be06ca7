"""What is in the bundled MO-Highway log: its agents, its judges, its cycles, and how the agents learned.

`python -m studies highway-log` prints the tables of docs/highway.md and draws docs/figures/learning-curves.png from the
files in studies/highway_log/data; the simulator is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import nasheval as ne
from studies.harness.options import parser
from studies.highway_log.agents import AGENTS

mpl.use("agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[2]
DATA, FIGURE = ROOT / "studies/highway_log/data", ROOT / "docs/figures/learning-curves.png"
WINDOW = 1_000  # steps that a point of a learning curve averages over
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#000000")
MEASURES = {"speed": "speed reward a step", "lane": "right-lane reward a step", "collision": "episodes that crash"}


def main(words: Sequence[str]) -> None:
    parser("highway-log", __doc__).parse_args(words)
    out = Console(width=110)
    out.print(agents_table(pq.read_table(DATA / "episodes.parquet")))
    out.print(cycles_table(ne.datasets.load_highway()))
    draw(pq.read_table(DATA / "curves.parquet"))
    out.print(f"drawn: {FIGURE.relative_to(ROOT)}")


def agents_table(episodes: pa.Table) -> Table:
    """Return how each agent drives, over all episodes."""
    shown = Table("agent", "trained on (speed, lane, collision)", "discount", "speed", "right lane", "safe", "steps")
    agent = episodes["agent"].to_numpy()
    for number, (name, driver) in enumerate(zip(ne.datasets.HIGHWAY_AGENTS, AGENTS, strict=True)):
        means = [episodes[column].to_numpy()[agent == number].mean() for column in ("speed", "lane", "safe", "steps")]
        weights = ", ".join(f"{w:g}" for w in driver.weights)
        shown.add_row(name, weights, f"{driver.discount:g}", *(f"{mean:.2f}" for mean in means))
    return shown


def cycles_table(highway: ne.datasets.Highway) -> Table:
    """Return the share of reference matrices without an agent that beats or ties every other."""
    shown = Table("part", "configurations", "initialisations", "no weak Condorcet winner", "a cycle of three")
    for name in ("validation", "test"):
        part = getattr(highway, name)
        beats = part.payoff > 0
        none = (part.payoff.min(axis=2) < 0).all(axis=1).mean()
        cyclic = np.einsum("nij,njk,nki->n", *[beats.astype(int)] * 3) > 0
        runs = str(part.verdict_sums.shape[1])
        shown.add_row(name, str(len(beats)), runs, f"{none:.1%}", f"{cyclic.mean():.1%}")
    return shown


def draw(curves: pa.Table) -> None:
    """Draw what each agent earned while it learned, averaged over windows of steps."""
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2), layout="constrained", sharex=True)
    agent, step = curves["agent"].to_numpy(), curves["step"].to_numpy()
    window = np.minimum(step // WINDOW, step.max() // WINDOW)
    for ax, (column, label) in zip(axes, MEASURES.items(), strict=True):
        values = curves[column].to_numpy(zero_copy_only=False).astype(float)
        for number, name in enumerate(ne.datasets.HIGHWAY_AGENTS):
            mine = agent == number
            total, count = np.bincount(window[mine], values[mine]), np.bincount(window[mine])
            ax.plot((np.arange(len(count)) + 0.5) * WINDOW, total / count, color=COLOURS[number], label=name, lw=1.5)
        ax.set_title(label, fontsize=10)
        ax.set_xlabel("training steps")
        ax.grid(color="#e4e4e4", lw=0.6)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=120)
