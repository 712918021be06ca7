"""Vote labels -> who won, and the records of such duels. An unknown label is an error, never a tie."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from nasheval.arrays import Array, Bools, Floats, Ints, int_dtype
from nasheval.errors import Argument, InputError
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.parsing import to_numbers
from nasheval.feedback.readers.row_checks import RowChecks, listed, shown_values
from nasheval.feedback.records import Records

FIRST, SECOND, TIE, BOTH_BAD, DROP, UNKNOWN = range(6)
MEANINGS = {"a": FIRST, "b": SECOND, "tie": TIE, "both_bad": BOTH_BAD, "drop": DROP}
NAMES = (*MEANINGS, "unknown")
_GRADED = re.compile(r"[ab]:(0?\.\d*[1-9]\d*|1(\.0*)?)")  # who won, and how clearly
_SHOWN_LABELS = 10  # unknown labels that the advice names
_ROWS = 1 << 20  # rows counted at a time

_KNOWN = {
    **dict.fromkeys(("model_a", "a", "left", "first"), FIRST),
    **dict.fromkeys(("model_b", "b", "right", "second"), SECOND),
    "tie": TIE,
    **dict.fromkeys(("both_bad", "bothbad", "both bad", "tie (bothbad)", "tie (both bad)"), BOTH_BAD),
}
# What other labels usually mean: offered to the user, never taken for granted.
_USUAL = {
    **dict.fromkeys(
        ("modela", "model1", "answera", "answer1", "responsea", "response1", "assistanta", "a>b", "a>>b"), "a"
    ),
    **dict.fromkeys(
        ("modelb", "model2", "answerb", "answer2", "responseb", "response2", "assistantb", "b>a", "b>>a"), "b"
    ),
    **dict.fromkeys(("leftvote", "option1", "output1", "leftwins", "awins"), "a"),
    **dict.fromkeys(("rightvote", "option2", "output2", "rightwins", "bwins"), "b"),
    **dict.fromkeys(("draw", "equal", "same", "even", "tied", "tievote", "bothgood", "neither", "a=b"), "tie"),
    **dict.fromkeys(("bothbadvote", "bad"), "both_bad"),
    **dict.fromkeys(("error", "skip", "skipped", "invalid", "unknown", "none", "na", "n/a", "nan"), "drop"),
}
ACCEPTED = (
    "'model_a', 'model_b', 'tie', 'both_bad' (also 'a', 'b', 'left', 'right', 'first', 'second', 'tie (bothbad)'), "
    "or the name of one of the two agents"
)


# Who won each row, (n,) codes FIRST ... UNKNOWN; what each raw label was taken to mean, with its count; and (n,) how
# strong each verdict is, above 0 and at most 1, or None where all are 1.
Outcomes: TypeAlias = tuple[Ints, dict[str, tuple[str, int]], Floats | None]


def read_labels(
    checks: RowChecks,
    column: pa.DictionaryArray,
    name: str,
    *,
    agents: Sequence[str],
    first: Ints,
    second: Ints,
    labels: Mapping[Any, str] | None,
) -> Outcomes:
    """Return who won, by the user's labels, the usual ones, or the winner's own name.

    Args:
        agents: all names, and first, second: (n,) the places in it of the two agents of each row, -1 for none.
    """
    meant = _meanings(labels)
    values = [str(value) for value in column.dictionary.to_pylist()]
    codes = np.asarray(column.indices.fill_null(len(values)))
    said = [meant.get(v, meant.get(_plain(v), _KNOWN.get(v.strip().lower(), UNKNOWN))) for v in values]
    meaning = np.array([*said, meant.get(None, UNKNOWN)], np.int8)
    number = {agent: place for place, agent in enumerate(agents)}
    twofold = [v.strip() in number and v not in meant and m != UNKNOWN for v, m in zip(values, said, strict=True)]
    if any(twofold):  # an agent called like a label ("tie", "a"): its name as a winner could mean two things
        label = values[twofold.index(True)]
        checks.reject(
            np.array([*twofold, False])[codes],
            f"{label!r} is both a label and the name of an agent",
            column=name,
            accepted="labels that are no agent's name",
            fix=("rename the agent, or say what the label means with ", Argument("labels", {label: ...})),
        )
    agent = np.array([number.get(value.strip(), -2) for value in values] + [-2], first.dtype)
    agent[meaning != UNKNOWN] = -2
    outcome, by_name = meaning[codes], np.full(len(codes), -1, np.int8)  # a byte per row: rows are many
    if (agent >= 0).any():
        named = agent[codes]
        by_name[named == first], by_name[named == second] = FIRST, SECOND
        np.copyto(outcome, by_name, where=by_name >= 0)
    _refuse_unknown(checks, outcome == UNKNOWN, codes, [*values, None], name, labels)
    counted, grades = _counted(codes, values, meaning, by_name), _grades(labels)
    grade = np.array([grades.get(v, grades.get(_plain(v), 1.0)) for v in values] + [1.0])
    graded = {
        v: (f"{counted[v][0]}:{g:g}", counted[v][1])
        for v, g in zip(values, grade, strict=False)
        if v in counted and g < 1
    }
    return outcome, counted | graded, grade[codes] if graded else None


def leave_out_dropped(checks: RowChecks, column: pa.DictionaryArray, outcome: Ints) -> None:
    """Leave out the rows whose label is no verdict, and say which labels these are."""
    dropped, missing = outcome == DROP, np.asarray(column.is_null())
    checks.leave_out(dropped & missing, "no verdict")
    codes = np.unique(np.asarray(column.indices.fill_null(-1))[dropped & ~missing])
    labels = [column.dictionary[int(code)].as_py() for code in codes]
    noun, are = ("label", "is no verdict") if len(labels) == 1 else ("labels", "are no verdicts")
    checks.leave_out(dropped & ~missing, f"{noun} {listed(labels, 4)}, which {are}")


def _meanings(labels: Mapping[Any, str] | None) -> dict[str | None, int]:
    """Return what the user's labels mean, by the text that a column shows for them."""
    if labels is not None and not isinstance(labels, Mapping):
        raise InputError(f"labels is {labels!r}; accepted is what each label means, such as labels={{'draw': 'tie'}}.")
    meant: dict[str | None, int] = {}
    for label, meaning in (labels or {}).items():
        what = meaning.partition(":")[0] if isinstance(meaning, str) and _GRADED.fullmatch(meaning) else meaning
        if not isinstance(what, str) or what not in MEANINGS:
            raise InputError(
                Argument("labels", {label: meaning}),
                ": accepted are 'a' (the first agent won), 'b', 'tie', 'both_bad' and 'drop' (leave such rows out).",
            )
        meant.update(dict.fromkeys(_spellings(label), MEANINGS[what]))
    return meant


def _grades(labels: Mapping[Any, str] | None) -> dict[str | None, float]:
    """Return how strong the verdicts are that labels such as 'a:0.5' stand for."""
    graded = [(label, meaning.partition(":")[2]) for label, meaning in (labels or {}).items() if ":" in meaning]
    return {spelled: float(grade) for label, grade in graded for spelled in _spellings(label)}


def _spellings(label: object) -> list[str | None]:
    return [str(label).lower(), str(label)] if isinstance(label, bool) else [_plain(label), _text(label)]


def _text(label: object) -> str | None:
    return None if label is None else str(label)


def _plain(label: object) -> str | None:
    """Return a label so that equal numbers are equal: 4, 4.0 and "4.0" are "4"."""
    text = _text(label)
    return re.sub(r"^\s*([+-]?\d+)\.0*\s*$", r"\1", text) if text else text


def filled_in(labels: Sequence[str]) -> dict[str, Any]:
    """Return what some labels seem to mean, `...` where nothing tells."""
    usual = {**{name: NAMES[code] for name, code in _KNOWN.items()}, **_USUAL}
    numbers = (
        dict(zip(("1", "2", "3"), ("a", "b", "tie"), strict=True)) if set(map(_plain, labels)) >= {"1", "2"} else {}
    )
    bare = {label: re.sub(r"[\s_.-]+", "", label.lower()) for label in labels}
    return {label: numbers.get(str(_plain(label)), usual.get(label, usual.get(bare[label], ...))) for label in labels}


def _refuse_unknown(
    checks: RowChecks,
    unknown: Bools,
    codes: Ints,
    values: list[str | None],
    name: str,
    labels: Mapping[Any, str] | None,
) -> None:
    if not unknown.any():
        return
    seen = np.array(values, object)[codes[unknown]]
    named = [values[code] for code in np.unique(codes[unknown]) if values[code] is not None]
    mean = "'a', 'b', 'tie', 'both_bad' or 'drop'"
    each = Argument("labels", filled_in([label for label in named[:_SHOWN_LABELS] if label is not None]))
    fix = (f"correct the label, or say that it means {mean} with ", each)
    checks.reject(
        unknown,
        f"unknown label {shown_values(seen)}" if named else "there is no label",
        column=name,
        accepted=ACCEPTED + (f"; and {', '.join(map(_shown, labels))}" if labels else ""),
        fix=fix if named else ("fill in the label, or drop such rows with ", Argument("labels", {None: "drop"})),
    )


def _shown(label: object) -> str:
    return "nothing" if label is None else repr(label)


def _counted(codes: Ints, values: list[str], meaning: Ints, by_name: Ints) -> dict[str, tuple[str, int]]:
    """Return what each label was taken to mean and how often; names of agents are counted together."""
    counts = np.zeros(len(values) + 1, np.int64)
    for start in range(0, len(codes), _ROWS):  # bincount takes eight bytes per row
        rows = slice(start, start + _ROWS)
        counts += np.bincount(codes[rows][by_name[rows] < 0], minlength=len(counts))
    counted = {v: (NAMES[m], int(c)) for v, m, c in zip([*values, "nothing"], meaning, counts, strict=True) if c}
    for side, text in ((FIRST, "the first agent's name"), (SECOND, "the second agent's name")):
        if count := int((by_name == side).sum()):
            counted[text] = (NAMES[side], count)
    return counted


def read_ranks(checks: RowChecks, columns: list[pa.ChunkedArray], names: tuple[str, str]) -> Outcomes:
    """Return who won from the ranks of the two agents: the lower one, equal ones tie."""
    ranks = []
    for column, name in zip(columns, names, strict=True):
        values, is_number = to_numbers(column)
        accepted = "a number, 1 is best, equal numbers tie"
        checks.reject_values(~is_number, column, " as rank", name=name, accepted=accepted, fix="correct the rank")
        ranks.append(values)
    first, second = ranks
    code = np.where(first < second, FIRST, np.where(second < first, SECOND, np.where(first == second, TIE, UNKNOWN)))
    said = (f"{names[0]} < {names[1]}", f"{names[0]} > {names[1]}", "equal ranks")
    counts = {label: (NAMES[i], count) for i, label in enumerate(said) if (count := int((code == i).sum()))}
    return code.astype(np.int8), counts, None


def read_one_hot(checks: RowChecks, columns: list[pa.ChunkedArray], names: tuple[str, str, str]) -> Outcomes:
    """Return who won from three 0/1 columns (first wins, second wins, tie)."""
    flags, odd = [], np.zeros(len(columns[0]), bool)
    for column, name in zip(columns, names, strict=True):
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        values, is_number = to_numbers(column)
        bad = ~is_number | ~np.isin(values, (0, 1))
        accepted = "0 or 1 in each of " + ", ".join(names)
        checks.reject_values(bad, column, ", neither 0 nor 1", name=name, accepted=accepted, fix="correct the value")
        flags.append(values == 1)
        odd |= bad
    table = np.stack(flags, axis=1)
    ones = table.sum(axis=1)
    checks.reject(
        (ones != 1) & ~odd,
        f"not exactly one of {', '.join(names)} is 1",
        accepted="1 in one of the three, 0 in the others",
        fix="correct the row",
    )
    code = np.where(ones == 1, table.argmax(axis=1), UNKNOWN).astype(np.int8)
    counts = {name: (NAMES[i], int(table[:, i].sum())) for i, name in enumerate(names)}
    return code, counts, None


def duel_records(first: Ints, second: Ints, outcome: Ints, *, n_agents: int, **columns: Array | None) -> Records:
    """Return one record per row, sorted by construction.

    Args:
        first, second: (n,) agent numbers in the order shown; never the same agent.
        outcome: (n,) FIRST, SECOND, TIE or BOTH_BAD.
        columns: propensity, weight, voter, time, grade; and style, (n, 2, S) of both agents in the order shown.
    """
    kind, n = int_dtype(max(n_agents - 1, 0)), len(first)
    swapped = first > second
    agent, block, shown = np.empty((n, 2), kind), np.empty((n, 2), np.int8), np.empty((n, 2), np.int8)
    np.minimum(first, second, out=agent[:, 0], casting="unsafe")
    np.maximum(first, second, out=agent[:, 1], casting="unsafe")
    for place, won_by_other in enumerate((~swapped, swapped)):  # SECOND is 1 and FIRST 0, as are True and False
        block[:, place] = outcome == won_by_other
    shown[:, 0], shown[:, 1] = swapped, ~swapped
    if (style := columns.get("style")) is not None:
        columns["style"] = np.where(swapped[:, None, None], style[:, ::-1], style).reshape(2 * n, -1)
    return Records(
        offsets=np.arange(0, 2 * n + 1, 2, dtype=np.int32 if 2 * n < 2**31 else np.int64),
        agent=agent.ravel(),
        block=block.ravel(),
        zero=np.where(outcome == BOTH_BAD, np.int8(Zero.BOTH_BAD), np.int8(Zero.TIE)),
        shown=shown.ravel(),
        **columns,
    )
