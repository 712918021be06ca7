"""`read_scores`: a score for each agent on each prompt -> duels or weak rankings, with known propensities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Floats, Ints, n_pairs
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.covariates import VERDICT, Covariates
from nasheval.feedback.readers.duels import duel_records
from nasheval.feedback.readers.labels import BOTH_BAD, FIRST, SECOND, TIE
from nasheval.feedback.readers.parsing import to_numbers
from nasheval.feedback.readers.row_checks import OnError, RowChecks, listed, need_columns, raw_values, several, short
from nasheval.feedback.readers.sources import open_source
from nasheval.feedback.records import Records

Judge = Callable[[Ints, list[str], list[str]], Sequence[float]]
_SCORE = "a finite number, higher is better; or true and false"
_ANSWERS = (
    "accepted is one number from -1 to 1 per pair: 1 (the first is better), -1 (the second is), 0 (neither), or the "
    "mean of several such verdicts"
)
_CHUNK = 1 << 22  # sampled cells at a time, so that a million prompts times a thousand pairs fit in memory


def read_scores(
    source: Any,
    *,
    agents: Sequence[str] | Mapping[str, Sequence[str]],
    context: Sequence[str] | str | None = None,
    text: str | None = None,
    context_id: str | None = None,
    categorical: Sequence[str] | str | None = None,
    pairs_per_context: int | None = None,
    form: Literal["duels", "rankings"] = "duels",
    tolerance: float = 0.0,
    fail: float | None = None,
    judge: Judge | None = None,
    seed: int = 0,
    join: Any = None,
    on_error: OnError = "raise",
) -> Feedback:
    """Read a wide table of scores, one row per prompt, one column per agent; the higher score wins.

    Args:
        source: a path or a table, as in `read_votes`.
        agents: score columns; or {agent: [column of run 1, column of run 2, ...]}, whose runs become repeated records
            that share one unit of weight.
        context, text, context_id, categorical, join: as in `read_votes`.
        pairs_per_context: draw this many pairs per prompt at random, without replacement; each pair then has the known
            inclusion probability pairs_per_context / (number of pairs). None: all pairs.
        form: "duels", or "rankings": one weak ranking of all agents per prompt.
        tolerance: scores at most this far apart tie.
        fail: where both agents score at most this, the zero verdict means "both bad" (Eq. rb-label-first); None: only
            with a judge, then 0.
        judge: decides the pairs that tie above `fail`: called once as judge(rows, first, second) with the table rows
            (from 0) and the two agents' names, it returns for each +1 (first is better), -1 or 0, or a mean of such
            verdicts, as over both presentation orders. An order of agents cannot say 0.5, so a mean v becomes two
            records that share the weight: the win with |v| and a tie with 1 - |v|, whose mean verdict is v.
        seed: of the draw of pairs.
        on_error: "raise", or "skip" to leave out rows with a missing score and print how many.
    """
    _check_options(form, tolerance, fail, judge)
    opened, columns = open_source(source), _score_columns(agents)
    names, flat = list(columns), [name for runs in columns.values() for name in runs]
    for name in flat:
        need_columns({"agents": name}, opened.names, opened.label)
    chosen = _pairs_wanted(pairs_per_context, len(names), form)
    beside = Covariates.resolve(
        opened,
        context=context,
        text=text,
        join=join,
        roles={"context_id": context_id},
        categorical=categorical,
        refused=dict.fromkeys(flat, VERDICT),
    )
    table = opened.read([*flat, *beside.columns()], text=beside.as_text())
    checks = RowChecks(opened.label, table.num_rows, on_error)
    scores = _scores(checks, table, flat)
    contexts = beside.contexts(checks, table)
    rows = np.flatnonzero(checks.settle())
    if not len(rows):
        raise checks.nothing_left(of="row", accepted="at least one row with a score for every agent")
    grouped = beside.group(table, contexts, rows)
    rule = _Rule(tolerance, 0.0 if fail is None and judge is not None else fail, judge, names)
    runs = scores[rows].reshape(len(rows), len(names), -1)
    if form == "duels":
        records, row_of = _duels(runs, rows, chosen, rule, np.random.default_rng(seed))
    else:
        records, row_of = _rankings(runs, tolerance)
    records = _share_weight(records, grouped.of_row, row_of, runs.shape[2])
    return beside.log(
        checks,
        grouped,
        records,
        agents=names,
        kind="scores, a column per agent",
        used=len(rows),
        roles={"agents": ", ".join(names)},
        row_of=row_of,
        design="inclusion",
    )


def _check_options(form: str, tolerance: float, fail: float | None, judge: Judge | None) -> None:
    if form not in ("duels", "rankings"):
        raise InputError(f"form is {form!r}; accepted are 'duels' and 'rankings'.")
    if not _is_number(tolerance) or not 0 <= tolerance < np.inf:
        raise InputError(f"tolerance is {tolerance!r}; accepted is a finite number of 0 or more.")
    if fail is not None and not (_is_number(fail) and np.isfinite(fail)):
        raise InputError(f"fail is {fail!r}; accepted is a finite number, or None.")
    if judge is not None and not callable(judge):
        raise InputError(f"judge is {judge!r}; accepted is a function judge(rows, first, second), or None.")
    for name, value in (("judge", judge), ("fail", fail)):
        if value is not None and form == "rankings":
            raise InputError(f"{name}= applies to form='duels'; leave it out for rankings.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _score_columns(agents: Sequence[str] | Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    if isinstance(agents, Mapping):
        columns = {str(name): several(runs, f"agents[{name!r}]") for name, runs in agents.items()}
    else:
        columns = {name: [name] for name in several(agents, "agents")}
    if len(columns) < 2:
        raise InputError(f"agents names {listed([*columns])}; a comparison needs two or more different ones.")
    counts = [len(runs) for runs in columns.values()]
    if min(counts) != max(counts) or not counts[0]:
        raise InputError(
            f"agents gives {min(counts)} to {max(counts)} runs per agent; accepted is the same number for all, one or "
            "more: run r is compared with run r."
        )
    return columns


def _scores(checks: RowChecks, table: pa.Table, columns: list[str]) -> Floats:
    """Return (n, columns) scores, rejecting every row that lacks one."""
    scores = np.empty((table.num_rows, len(columns)))
    bad: Bools = np.zeros(scores.shape, bool)
    for i, name in enumerate(columns):
        column = table[name]  # right or wrong is a score too
        scores[:, i], is_number = to_numbers(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column)
        bad[:, i] = ~is_number
    if bad.any():
        worst, missing = int(bad.sum(axis=0).argmax()), int(bad.any(axis=0).sum())
        what = f"no score: found {raw_values(table[columns[worst]], bad[:, worst])}"
        if missing > 1:
            what = f"no score in some of {missing} columns, most often in {columns[worst]!r}: {what[10:]}"
        somewhere: Bools = np.asarray(bad.any(axis=1))
        named = columns[worst] if missing == 1 else None
        checks.reject(somewhere, what, column=named, accepted=_SCORE, fix="fill in the score")
    return scores


def _share_weight(records: Records, context_of_row: Ints, row_of: Ints, n_runs: int) -> Records:
    """Give the runs of a row, and the rows of a prompt that occurs more than once, one unit of weight together."""
    rounds = np.bincount(context_of_row)[context_of_row[row_of]] * n_runs
    return records if rounds.max() == 1 else records.replace(weight=records.weights / rounds)


def _pairs_wanted(pairs_per_context: int | None, n_agents: int, form: str) -> int:
    every = n_pairs(n_agents)
    if pairs_per_context is None:
        return every
    if form == "rankings":
        raise InputError("pairs_per_context applies to form='duels'; leave it out for rankings.")
    whole = isinstance(pairs_per_context, int | np.integer) and not isinstance(pairs_per_context, bool)
    if not whole or not 1 <= pairs_per_context <= every:
        raise InputError(
            f"pairs_per_context is {pairs_per_context!r}; accepted are whole numbers from 1 to {every}, the number of "
            f"pairs of {n_agents} agents."
        )
    return int(pairs_per_context)


@dataclass(frozen=True)
class _Rule:
    """How two scores become a verdict (Eq. rb-label-first)."""

    tolerance: float
    fail: float | None
    judge: Judge | None
    names: list[str]

    def decide(self, s_j: Floats, s_k: Floats, rows: Ints, j: Ints, k: Ints) -> tuple[Ints, Floats]:
        """Return the outcome code of each pair of scores, and its share of the verdict; a tie has the rest."""
        with np.errstate(over="ignore"):  # scores further apart than a float can tell are far apart
            close = np.abs(s_j - s_k) <= self.tolerance
        outcome = np.where(close, TIE, np.where(s_j > s_k, FIRST, SECOND)).astype(np.int8)
        share = np.ones(len(outcome))
        tied = outcome == TIE
        failed = tied & (np.maximum(s_j, s_k) <= self.fail) if self.fail is not None else np.zeros(len(tied), bool)
        outcome[failed] = BOTH_BAD
        ask = tied & ~failed
        if self.judge is not None and ask.any():
            answer = self._asked(self.judge, rows[ask], j[ask], k[ask])
            outcome[ask] = np.select([answer > 0, answer < 0], [FIRST, SECOND], TIE)
            share[ask] = np.where(answer == 0, 1.0, np.abs(answer))
        return outcome, share

    def _asked(self, judge: Judge, rows: Ints, j: Ints, k: Ints) -> Floats:
        first, second = [self.names[a] for a in j], [self.names[a] for a in k]
        said: object = judge(rows, first, second)
        try:
            answer = np.asarray(said, float)
        except (TypeError, ValueError):
            answer = np.array(np.nan)
        if answer.ndim != 1:
            raise InputError(f"The judge answered {short(repr(said), 60)}; {_ANSWERS}.")
        if answer.shape != rows.shape:
            raise InputError(f"The judge gave {answer.size} answers to {len(rows)} pairs; {_ANSWERS}.")
        odd: Bools = ~(np.abs(answer) <= 1)
        if odd.any():
            at = int(odd.argmax())
            raise InputError(
                f"The judge answered {answer[at]} for {first[at]!r} against {second[at]!r} in row {rows[at] + 1}; "
                f"{_ANSWERS}."
            )
        return np.round(answer, 12)  # a share must be a weight: 1e-320 is none


def _duels(runs: Floats, rows: Ints, chosen: int, rule: _Rule, rng: np.random.Generator) -> tuple[Records, Ints]:
    """Return the records of the drawn pairs, one record per run of a pair, and the place in `rows` of each record."""
    n, n_agents, n_runs = runs.shape
    left, right = np.triu_indices(n_agents, 1)
    at, pair = _draw(n, len(left), chosen, rng)
    at, pair = np.repeat(at, n_runs), np.repeat(pair, n_runs)
    run = np.tile(np.arange(n_runs), len(at) // n_runs)
    j, k = left[pair], right[pair]
    outcome, share = rule.decide(runs[at, j, run], runs[at, k, run], rows[at], j, k)
    weight = None
    if (share < 1).any():
        every: Ints = np.repeat(np.arange(len(at)), np.where(share < 1, 2, 1))
        rest = np.append(False, every[1:] == every[:-1])  # the second record of a divided verdict
        at, j, k = at[every], j[every], k[every]
        outcome, weight = np.where(rest, TIE, outcome[every]), np.where(rest, 1 - share[every], share[every])
    known = np.full(len(at), chosen / len(left))
    records = duel_records(j, k, outcome, n_agents=n_agents, propensity=known, weight=weight)
    return records.replace(shown=None), at  # nobody was shown the two agents in an order


def _draw(n: int, every: int, chosen: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return (row, pair) of `chosen` distinct pairs per row, pairs ascending."""
    if chosen == every:
        return np.repeat(np.arange(n), every), np.tile(np.arange(every), n)
    step = max(1, _CHUNK // every)
    drawn = [
        np.sort(np.argpartition(rng.random((min(step, n - start), every)), chosen, axis=1)[:, :chosen], axis=1)
        for start in range(0, n, step)
    ]
    return np.repeat(np.arange(n), chosen), np.concatenate(drawn).ravel()


def _rankings(runs: Floats, tolerance: float) -> tuple[Records, Ints]:
    """Return one weak ranking of all agents for each row and run."""
    n, n_agents, n_runs = runs.shape
    flat = runs.transpose(0, 2, 1).reshape(n * n_runs, n_agents)
    records = Records.build(
        sizes=np.full(len(flat), n_agents),
        agent=np.tile(np.arange(n_agents), len(flat)),
        rank=_blocks(flat, tolerance).ravel(),
        propensity=np.ones(len(flat)),
    )
    return records, np.repeat(np.arange(n), n_runs)


def _blocks(scores: Floats, tolerance: float) -> Ints:
    """Return ranks, 0 is best: going down, an agent opens a block when it is out of reach of that block's leader."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=1)
    rank, leader = np.zeros(scores.shape, np.int64), ordered[:, 0].copy()
    for place in range(1, scores.shape[1]):
        with np.errstate(over="ignore"):
            opens = leader - ordered[:, place] > tolerance
        rank[:, place] = rank[:, place - 1] + opens
        leader = np.where(opens, ordered[:, place], leader)
    unsorted = np.empty_like(rank)
    np.put_along_axis(unsorted, order, rank, axis=1)
    return unsorted
