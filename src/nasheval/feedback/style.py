"""How the two answers of a pair differ in style and in place: the d of E[Z | x, pair, d] = mu(x) + beta'd.

A log holds, for each answer, numbers that are ready to be subtracted (`Records.style`): sizes and counts as
log2(1 + n), so that a difference of one is twice as much; anything else as it is. Of position the difference is 1 where
the first agent of a pair was shown before the second, and -1 where it was shown after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nasheval.arrays import Floats
from nasheval.errors import Argument, InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.position import ONE_ORDER, position_bias
from nasheval.feedback.records import Records
from nasheval.notes import Note, few

POSITION, STYLE = "position", "style"
_HOW = "; a log has it where it was read from answers, from conv_metadata, or from columns that "


def sizes(values: Floats) -> Floats:
    """Return a column of style, ready to be subtracted: log2(1 + n) where no value is negative, else as it is."""
    return values if (values < 0).any() else np.log2(1 + values)


def columns_of(log: Feedback, adjust: Sequence[str] | str) -> tuple[str, ...]:
    """Return the columns that adjust= asks for; raises an InputError for those that the log does not have."""
    asked = [adjust] if isinstance(adjust, str) else list(adjust)
    names: dict[str, None] = {}
    for name in asked:
        if name == STYLE and not log.style:
            raise InputError(Argument("adjust", STYLE), ": this log has no style", _HOW, Argument("style"), " names.")
        if name == POSITION and log.records.shown is None:
            raise InputError(Argument("adjust", POSITION), ": this log does not say which agent was shown first.")
        if name not in (POSITION, STYLE, *log.style):
            accepted = few([POSITION, STYLE, *log.style], 12)
            raise InputError(Argument("adjust", name), f": accepted are {accepted}.")
        names |= dict.fromkeys(log.style if name == STYLE else (name,))
    return tuple(names)


def one_order(log: Feedback) -> Note | None:
    """Say that position cannot be told from agents, where it cannot."""
    told = position_bias(log.records, log.n_agents) is not None
    return None if told else Note(f"{ONE_ORDER}; it is left out of the adjustment", "one-order")


def differences(log: Feedback, columns: Sequence[str]) -> Floats:
    """Return (n_verdicts, columns) d of every pair verdict of a log, in their order; NaN where it is unknown."""
    records = log.records
    parts = [(rows, _same_size(log, entries, columns)) for rows, entries in records.by_size()]
    if len(parts) == 1:
        return parts[0][1]
    pairs = [len(values) // max(len(rows), 1) for rows, values in parts]
    record = np.concatenate([np.repeat(rows, count) for (rows, _), count in zip(parts, pairs, strict=True)])
    return np.concatenate([values for _, values in parts])[np.argsort(record, kind="stable")]


def _same_size(log: Feedback, entries: np.ndarray, columns: Sequence[str]) -> Floats:
    records, (left, right) = log.records, np.triu_indices(entries.shape[1], 1)
    values = np.empty((len(entries) * len(left), len(columns)))
    for place, name in enumerate(columns):
        if name == POSITION:
            shown = _shown(records)[entries]
            values[:, place] = np.sign(shown[:, right] - shown[:, left]).ravel()
        else:
            assert records.style is not None
            style = records.style[:, log.style.index(name)][entries]
            values[:, place] = (style[:, left] - style[:, right]).ravel()
    return values


def _shown(records: Records) -> Floats:
    assert records.shown is not None
    return records.shown.astype(np.float64)
