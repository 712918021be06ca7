"""Rankings on hundreds of menus: WMT16 English-Finnish, 2,624 real ballots of 5 to 13 of 13 translation systems.

`python -m benchmarks.ballots [--halves 20] [--jobs 2]` fits random halves of wmt16 (under $NASHEVAL_DATA) with default
settings and prints, against the other half:

- the error (RMSE over the 78 pairs) of the group's payoffs and of plain pair means of the same half, and their ratio;
  bar: at most 1.35. The other half's plain means are the yardstick; its noise is in both errors.
- exploitability, the most that one system wins against it by the other half's plain means, of the leaderboard's lottery
  and of the system with the best mean score of the same half. Bar: the paired difference over halves is not
  significantly above zero. Halves overlap, so that its standard error is a rough one.
- CPU seconds of the fit, the report, the diagnostics and predict_proba at the other half's sentences, on the first half
  (`--timed 0` for none). Bar: the last three together take no longer than the fit.

Halves are of sentences, not of ballots: about three judges rank the translations of one sentence, and a sentence in
both halves would let each foretell the other. The sentence is the context; the one column that the file has to tell of
it is its place in the test set, so that sentences of one document are neighbours.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import nasheval as ne
from benchmarks.resumable import Row, run
from benchmarks.tables import print_table
from nasheval.studies.files import data_folder

FILE = "wmt16/wmt16.eng-fin.csv"
BAR = 1.35

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One random half; `sentences` is how many of them are used in all, 0 for all; `outcome` of the estimator."""

    half: int
    outcome: str
    sentences: int
    timed: bool


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


def split(log: ne.Feedback, case: Case) -> tuple[ne.Feedback, ne.Feedback]:
    """Return two random halves of the sentences, or of some of them."""
    order = np.random.default_rng(case.half).permutation(log.n_contexts)
    order = order[: case.sentences] if case.sentences else order
    return log[np.sort(order[: len(order) // 2])], log[np.sort(order[len(order) // 2 :])]


# -- one half ---------------------------------------------------------------------------------------------------------


def study(case: Case) -> Row:
    """Return errors and exploitabilities of one half against the other, and CPU times if the case is timed."""
    start = time.process_time()
    first, other = split(ballots(data_folder() / FILE), case)
    plain, yardstick = (np.nan_to_num(log.pair_counts.margin) for log in (first, other))
    begun = time.process_time()
    # the second stage and the policy are made for the timing only: group means rest on neither
    stage = "corrected" if case.timed else "none"
    model = ne.NashEval(outcome=case.outcome, second_stage=stage, n_jobs=1, device="cpu", verbose=False).fit(first)
    fit = time.process_time() - begun
    group = model.payoff_interval()
    low, high = group.interval(simultaneous=False)
    upper = np.triu_indices(len(plain), 1)
    lottery = np.asarray(group.equilibrium(model.regularizer).lottery)
    best = int(plain.mean(axis=1).argmax())
    row = {
        **asdict(case),
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
    return {**row, **(timed(model, other) if case.timed else {}), "seconds": round(time.process_time() - start, 2)}


def rmse(estimate: Array, truth: Array) -> float:
    upper = np.triu_indices(len(truth), 1)
    return float(np.sqrt(np.mean((estimate - truth)[upper] ** 2)))


def timed(model: ne.NashEval, other: ne.Feedback) -> Row:
    """Return CPU seconds of what people do with a fitted model."""
    from nasheval.scoring.report import gather, write_report

    def write() -> None:
        with tempfile.TemporaryDirectory() as folder:
            data = gather(model.stage1_, regularizer=model.regularizer, policy=model.policy_)
            write_report(data, Path(folder) / "report.html")

    steps = {
        "predict": lambda: model.predict_proba(other.contexts),
        "diagnostics": lambda: str(model.diagnostics()),
        "report": write,
    }
    seconds = {}
    for name, step in steps.items():
        start = time.process_time()
        step()
        seconds[name] = time.process_time() - start
        print(f"{name}: {seconds[name]:.1f} CPU seconds", flush=True)
    return seconds


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--halves", type=int, default=20)
    parser.add_argument("--sentences", type=int, default=0, help="use this many sentences in all; 0: all 875")
    parser.add_argument(
        "--timed", type=int, default=1, help="halves on which report, diagnostics and predict are timed"
    )
    parser.add_argument("--outcome", choices=("voters", "lightgbm"), default="voters")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes, of one thread each")
    parser.add_argument("--results", type=Path, default=Path("build/ballots.jsonl"), help="file that results go to")
    parser.add_argument("--markdown", action="store_true", help="print tables as markdown")
    options = parser.parse_args()
    if not (data_folder() / FILE).exists():
        raise SystemExit(f"Skipped: there is no {FILE} in {data_folder()}; set NASHEVAL_DATA to where it lies.")
    cases = [Case(h, options.outcome, options.sentences, h < options.timed) for h in range(options.halves)]
    rows = run(cases, study, options.results, options.jobs)
    if not rows:
        raise SystemExit("No half was done.")
    print_table(
        "WMT16 English-Finnish, halves of sentences", COLUMNS, list(half_lines(rows)), markdown=options.markdown
    )
    summary = list(summary_lines(rows))
    print_table(f"Over {len(rows)} halves", ("what", "value", "bar", "met"), summary, markdown=options.markdown)


if __name__ == "__main__":
    main()
