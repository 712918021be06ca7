"""`read_scores`: a score for each agent on each prompt -> duels with known propensities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Floats, Ints, n_pairs, pair_index
from nasheval.errors import Argument, InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.covariates import VERDICT, Covariates
from nasheval.feedback.readers.labels import FIRST, SECOND, TIE, duel_records
from nasheval.feedback.readers.parsing import is_null, to_numbers
from nasheval.feedback.readers.row_checks import OnError, RowChecks, listed, raw_values, several
from nasheval.feedback.readers.sources import Source, open_source
from nasheval.feedback.records import Records

Missing = Literal["error", "absent"]
_SCORE = "a finite number, higher is better; or true and false"
_CHUNK = 1 << 22  # sampled cells at a time, so that a million prompts times a thousand pairs fit in memory


def read_scores(
    source: Any,
    *,
    agents: Sequence[str] | Mapping[str, Sequence[str]] | str,
    context: Sequence[str] | str | None = None,
    text: str | Sequence[str] | None = None,
    context_id: str | None = None,
    categorical: Sequence[str] | str | None = None,
    pairs_per_context: int | None = None,
    seed: int = 0,
    missing: Missing = "error",
    join: Any = None,
    on_error: OnError = "raise",
) -> Feedback:
    """Read a wide table of scores, one row per prompt, one column per agent; the higher score wins, equal ones tie.

    Args:
        source: a path or a table, as in `read_votes`.
        agents: score columns, of which one with a * stands for all that fit it, as in "scores.*" for the fields of a
            nested column; or {agent: [column of run 1, column of run 2, ...]}, whose runs become repeated records
            that share one unit of weight.
        context, text, context_id, categorical, join: as in `read_votes`.
        pairs_per_context: draw this many pairs per prompt at random, without replacement; each pair then has the known
            inclusion probability pairs_per_context / (number of pairs). None: all pairs.
        seed: of the draw of pairs.
        missing: "error", or "absent" where an agent without a score was not asked; with gaps of that kind the
            probabilities of pairs are not known, and are estimated.
        on_error: "raise", or "skip" to leave out rows with a missing score and print how many.
    """
    opened = open_source(source)
    columns = _score_columns(agents, opened)
    names, flat = list(columns), [name for runs in columns.values() for name in runs]
    opened.need("agents", *flat)
    chosen = _pairs_wanted(pairs_per_context, len(names))
    beside = Covariates(
        opened,
        context=context,
        text=text,
        join=join,
        roles={"context_id": context_id},
        categorical=categorical,
        refused=dict.fromkeys(flat, VERDICT),
    )
    table, checks = beside.read(flat, on_error)
    scores = _scores(checks, table, flat, absent=_is_absent(missing))
    contexts = beside.contexts(checks, table)
    rows = np.flatnonzero(checks.settle())
    if not len(rows):
        raise checks.nothing_left(of="row", accepted="at least one row with a score for every agent")
    runs = scores[rows].reshape(len(rows), len(names), -1)
    records, row_of = _duels(runs, chosen, np.random.default_rng(seed))
    if not len(records):
        raise checks.nothing_left(of="pair", accepted="at least one pair of agents with scores of both")
    asked, row_of = np.unique(row_of, return_inverse=True)  # all rows, unless scores may be absent
    contexts, context_of = beside.group(table, contexts, rows[asked])
    # The runs of a row, and the rows of a prompt that occurs more than once, share one unit of weight.
    rounds = np.bincount(context_of)[context_of[row_of]] * runs.shape[2]
    if records.propensity is None:  # where some runs are absent, those that are there
        pair = pair_index(records.agent[::2].astype(np.int64), records.agent[1::2].astype(np.int64), len(names))
        _, place, count = np.unique(
            context_of[row_of] * n_pairs(len(names)) + pair, return_inverse=True, return_counts=True
        )
        rounds = count[place]
    if rounds.max() > 1:
        records = records.replace(weight=records.weights / rounds)
    return beside.log(
        checks,
        contexts,
        context_of[row_of],
        records,
        agents=names,
        kind=opened.make or "scores, a column per agent",
        used=len(rows),
        roles={"agents": ", ".join(names)},
        design="inclusion",
    )


def _is_absent(missing: str) -> bool:
    if missing not in get_args(Missing):
        raise InputError(f"missing is {missing!r}; accepted are 'error' and 'absent'.")
    return missing == "absent"


def _score_columns(agents: Sequence[str] | Mapping[str, Sequence[str]] | str, source: Source) -> dict[str, list[str]]:
    if isinstance(agents, Mapping):
        columns = {str(name): several(runs, f"agents[{name!r}]") for name, runs in agents.items()}
    else:
        named = [agents] if isinstance(agents, str) and "*" in agents else several(agents, "agents")
        columns = {agent: [column] for name in named for agent, column in _fitting(name, source.names)}
    if len(columns) < 2:
        raise InputError(Argument("agents"), f" names {listed(list(columns))}; a comparison needs two or more.")
    counts = [len(runs) for runs in columns.values()]
    if min(counts) != max(counts) or not counts[0]:
        raise InputError(
            f"agents gives {min(counts)} to {max(counts)} runs per agent; accepted is the same number for all, one or "
            "more: run r is compared with run r."
        )
    return columns


def _fitting(name: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return (agent, column) of a column, or of all that a pattern fits; agents without what the pattern spells out."""
    if "*" not in name or name in names:
        return [(name, name)]
    before, _, after = name.partition("*")
    fit = [column for column in names if column.startswith(before) and column.endswith(after)]
    fit = [column for column in fit if len(column) > len(before) + len(after)]
    return [(column[len(before) : len(column) - len(after)], column) for column in fit] or [(name, name)]


def _scores(checks: RowChecks, table: pa.Table, columns: list[str], *, absent: bool = False) -> Floats:
    """Return (n, columns) scores, rejecting every row that lacks one; one that lacks most where some may be absent."""
    scores = np.empty((table.num_rows, len(columns)))
    bad: Bools = np.zeros(scores.shape, bool)
    for i, name in enumerate(columns):
        column = table[name]  # right or wrong is a score too
        scores[:, i], is_number = to_numbers(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column)
        bad[:, i] = ~is_number & ~(is_null(column) if absent else False)
    if absent:
        few = (np.isfinite(scores).sum(axis=1) < 2) & ~bad.any(axis=1)
        checks.leave_out(few, "fewer than two agents have a score")
    if bad.any():
        worst, missing = int(bad.sum(axis=0).argmax()), int(bad.any(axis=0).sum())
        what = f"no score: found {raw_values(table[columns[worst]], bad[:, worst])}"
        if missing > 1:
            what = f"no score in some of {missing} columns, most often in {columns[worst]!r}: {what[10:]}"
        somewhere: Bools = np.asarray(bad.any(axis=1))
        named = columns[worst] if missing == 1 else None
        checks.reject(somewhere, what, column=named, accepted=_SCORE, fix="fill in the score")
    return scores


def _pairs_wanted(pairs_per_context: int | None, n_agents: int) -> int:
    every = n_pairs(n_agents)
    if pairs_per_context is None:
        return every
    whole = isinstance(pairs_per_context, int | np.integer) and not isinstance(pairs_per_context, bool)
    if not whole or not 1 <= pairs_per_context <= every:
        raise InputError(
            f"pairs_per_context is {pairs_per_context!r}; accepted are whole numbers from 1 to {every}, the number of "
            f"pairs of {n_agents} agents."
        )
    return int(pairs_per_context)


def _duels(runs: Floats, chosen: int, rng: np.random.Generator) -> tuple[Records, Ints]:
    """Return the records of the drawn pairs, one per run of a pair, and the row of each record."""
    n, n_agents, n_runs = runs.shape
    left, right = np.triu_indices(n_agents, 1)
    row, pair = (np.repeat(drawn, n_runs) for drawn in _draw(n, len(left), chosen, rng))
    run = np.tile(np.arange(n_runs), len(row) // n_runs)
    j, k = left[pair], right[pair]
    s_j, s_k = runs[row, j, run], runs[row, k, run]
    there = np.isfinite(s_j) & np.isfinite(s_k)
    known = np.full(len(row), chosen / len(left)) if there.all() else None
    row, j, k, s_j, s_k = row[there], j[there], k[there], s_j[there], s_k[there]
    outcome = np.where(s_j == s_k, TIE, np.where(s_j > s_k, FIRST, SECOND)).astype(np.int8)
    records = duel_records(j, k, outcome, n_agents=n_agents, propensity=known)
    return records.replace(shown=None), row  # nobody was shown the two agents in an order


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
