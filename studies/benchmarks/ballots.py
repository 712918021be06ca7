"""Rankings on hundreds of menus: WMT16 English-Finnish, 2,624 real ballots of 5 to 13 of 13 translation systems.

`python -m studies ballots [--halves 20] [--jobs 2]` fits random halves of wmt16 (under $NASHEVAL_DATA) with default
settings and prints, against the other half:

- the error (RMSE over the 78 pairs) of the group's payoffs and of plain pair means of the same half, and their ratio;
  bar: at most 1.35. The other half's plain means are the yardstick; its noise is in both errors.
- exploitability, the most that one system wins against it by the other half's plain means, of the leaderboard's lottery
  and of the system with the best mean score of the same half. Bar: the paired difference over halves is not
  significantly above zero. Halves overlap, so that its standard error is a rough one.
- CPU seconds of the fit, the report (by the command line, its start included), the diagnostics and predict_proba at the
  other half's sentences, on the first half (`--timed 0` for none). Bar: the last three together take no longer than the
  fit.

Halves are of sentences, not of ballots: about three judges rank the translations of one sentence, and a sentence in
both halves would let each foretell the other. The sentence is the context; the one column that the file has to tell of
it is its place in the test set, so that sentences of one document are neighbours.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import nasheval as ne
from studies.arrays import Array
from studies.harness.files import data_folder
from studies.harness.options import add_run_options, parser
from studies.harness.rows import Row
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell
from studies.harness.tables import print_table

FILE = "wmt16/wmt16.eng-fin.csv"
BAR = 1.35


@cache
def ballots(path: Path) -> ne.Feedback:
    """Read one row per pair of a ranking as one row per system of a ballot, and that as rankings."""
    rows = pyarrow.csv.read_csv(path)
    sides = [
        rows.select(["rankingID", "judgeID", "srcIndex", f"system{side}Id", f"system{side}rank"]).rename_columns(
            ["ballot", "judge", "place", "system", "rank"]
        )
        for side in (1, 2)
    ]
    long = pa.concat_tables(sides)
    long = long.group_by(long.column_names).aggregate([])
    name = pc.replace_substring_regex(long["system"], r"^newstest2016\.(.*)\.\d+\.en-fi$", r"\1")
    long = long.set_column(long.column_names.index("system"), "system", name)
    long = long.append_column("sentence", pc.cast(long["place"], pa.string()))
    return ne.read_rankings(
        long, ballot="ballot", agent="system", rank="rank", voter="judge", context="place", context_id="sentence"
    )


def split(log: ne.Feedback, cell: Cell) -> tuple[ne.Feedback, ne.Feedback]:
    """Return two random halves of the sentences, or of some of them."""
    order = np.random.default_rng(cell["half"]).permutation(log.n_contexts)
    order = order[: cell["sentences"]] if cell["sentences"] else order
    return log[np.sort(order[: len(order) // 2])], log[np.sort(order[len(order) // 2 :])]


# -- one half ---------------------------------------------------------------------------------------------------------


def study(cell: Cell) -> list[Row]:
    """Return errors and exploitabilities of one half against the other, and CPU times if the cell is timed.

    Settings: half, outcome (of the estimator), sentences (that are used in all, 0 for all), timed.
    """
    start = time.process_time()
    first, other = split(ballots(data_folder() / FILE), cell)
    plain, yardstick = (np.nan_to_num(log.pair_counts.margin) for log in (first, other))
    begun = time.process_time()
    # the second stage and the policy are made for the timing only: group means rest on neither
    form: dict[str, Any] = {"outcome": cell["outcome"], "second_stage": "corrected" if cell["timed"] else "none"}
    model = ne.NashEval(**form, n_jobs=1, device="cpu", verbose=False).fit(first)
    fit = time.process_time() - begun
    group = model.payoff_interval()
    low, high = group.interval(simultaneous=False)
    upper = np.triu_indices(len(plain), 1)
    lottery = np.asarray(group.equilibrium(model.regularizer).lottery)
    best = int(plain.mean(axis=1).argmax())
    row = {
        "menus": len(first.menus),
        "ballots": first.n_records,
        "error": rmse(group.estimate, yardstick),
        "plain_error": rmse(plain, yardstick),
        "width": float((high - low)[upper].mean()),
        "exploitability": float((yardstick @ lottery).max()),
        "best_exploitability": float(yardstick[:, best].max()),
        "top": first.agents[int(lottery.argmax())],
        "best": first.agents[best],
        "fit": fit,
    }
    spent = timed(model, other) if cell["timed"] else {}
    return [{**row, **spent, "seconds": round(time.process_time() - start, 2)}]


def rmse(estimate: Array, truth: Array) -> float:
    upper = np.triu_indices(len(truth), 1)
    return float(np.sqrt(np.mean((estimate - truth)[upper] ** 2)))


def timed(model: ne.NashEval, other: ne.Feedback) -> Row:
    """Return CPU seconds of what people do with a fitted model."""

    def write() -> None:
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model")
            words = ["-m", "nasheval", "report", "model", "-o", "report.html"]
            subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)

    steps = {
        "predict": lambda: model.predict_proba(other.contexts),
        "diagnostics": lambda: str(model.diagnostics()),
        "report": write,
    }
    seconds = {}
    for name, step in steps.items():
        start = cpu_seconds()
        step()
        seconds[name] = cpu_seconds() - start
        print(f"{name}: {seconds[name]:.1f} CPU seconds", flush=True)
    return seconds


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it started."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


# -- what they show ---------------------------------------------------------------------------------------------------

COLUMNS = (
    "half", "ballots", "menus", "error", "error, plain means", "ratio", "mean width", "exploitability",
    "of the best mean score", "top", "best mean score",
)  # fmt: skip


def half_lines(rows: list[Row]) -> Iterator[list[str]]:
    for row in rows:
        numbers = [row["error"], row["plain_error"], row["error"] / row["plain_error"], row["width"]]
        most = [row["exploitability"], row["best_exploitability"]]
        counts = [str(row["half"]), str(row["ballots"]), str(row["menus"])]
        yield [*counts, *(f"{number:.3f}" for number in (*numbers, *most)), row["top"], row["best"]]


def summary_lines(rows: list[Row]) -> Iterator[list[str]]:
    """Yield what, value, bar, and whether it is met."""
    error, plain = (np.sqrt(np.mean([row[name] ** 2 for row in rows])) for name in ("error", "plain_error"))
    yield ["error / error of plain means", f"{error:.3f} / {plain:.3f} = {error / plain:.3f}", f"at most {BAR}",
           "yes" if error <= BAR * plain else "NO"]  # fmt: skip
    gap = np.array([row["exploitability"] - row["best_exploitability"] for row in rows])
    spread = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
    met = "-" if len(gap) < 2 else "NO" if gap.mean() > 2 * spread else "yes"
    yield ["exploitability, lottery less best mean score", f"{gap.mean():+.4f} +- {spread:.4f}",
           "at most two standard errors", met]  # fmt: skip
    for row in rows:
        if "report" in row:
            steps = [row[name] for name in ("report", "diagnostics", "predict")]
            shown = " + ".join(f"{seconds:.1f}" for seconds in steps)
            yield ["CPU seconds: report + diagnostics + predict_proba", f"{shown} = {sum(steps):.1f}",
                   f"the fit's {row['fit']:.1f}", "yes" if sum(steps) <= row["fit"] else "NO"]  # fmt: skip


def main(words: Sequence[str]) -> None:
    known = parser("ballots", __doc__)
    known.add_argument("--halves", type=int, default=20)
    known.add_argument("--sentences", type=int, default=0, help="use this many sentences in all; 0: all 875")
    known.add_argument("--timed", type=int, default=1, help="halves on which report, diagnostics and predict are timed")
    known.add_argument("--outcome", choices=("voters", "lightgbm"), default="voters")
    add_run_options(known, "build/ballots.jsonl")
    known.add_argument("--markdown", action="store_true", help="print tables as markdown")
    options = known.parse_args(words)
    if not (data_folder() / FILE).exists():
        raise SystemExit(f"Skipped: there is no {FILE} in {data_folder()}; set NASHEVAL_DATA to where it lies.")
    common = {"outcome": options.outcome, "sentences": options.sentences}
    cells = [Cell.of(half=half, **common, timed=half < options.timed) for half in range(options.halves)]
    rows = labelled(run_cells(study, cells, options.results, jobs=options.jobs, skip_failures=True))
    if not rows:
        raise SystemExit("No half was done.")
    print_table(
        "WMT16 English-Finnish, halves of sentences", COLUMNS, list(half_lines(rows)), markdown=options.markdown
    )
    summary = list(summary_lines(rows))
    print_table(f"Over {len(rows)} halves", ("what", "value", "bar", "met"), summary, markdown=options.markdown)
