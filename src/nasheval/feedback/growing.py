"""A log that grows: more votes after those of an earlier log, some of them on agents that it did not know."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nasheval.arrays import Floats, Ints, bin_sums, is_whole
from nasheval.errors import Argument, InputError
from nasheval.feedback.arrow_columns import column_list
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records

_MOST = 2**31 - 1


@dataclass(frozen=True)
class Fitted:
    """The log of the last full fit, where a model was updated since (`nasheval.payoff.updated`).

    Args:
        agents, contexts, records: how many there were.
        notes: what the last update said of a full refit.
    """

    agents: int
    contexts: int
    records: int
    notes: tuple[str, ...] = ()


def admissible(before: Feedback, more: Feedback, *, min_votes: int = 0) -> tuple[Feedback, dict[str, int]]:
    """Return new votes as they can follow a log, and the newcomers that are left out, with the votes of each.

    Args:
        before: whole ballots.
        more: votes with the same context columns.
        min_votes: newcomers with fewer votes than this, or with none, are left out, and so are the votes on them.
    """
    if not is_whole(min_votes, 0, _MOST):
        raise InputError(Argument("min_votes", min_votes), ": accepted is a whole number of 0 or more.")
    more = _fitting(before, more)
    votes = dict(zip(more.agents, np.bincount(more.records.agent, minlength=more.n_agents).tolist(), strict=True))
    try:
        kept = more.keep_frequent(max(1, min_votes), always=set(before.agents))
    except InputError:  # fewer than two agents are left
        kept = replace(more[:0], agents=())
    left = {name: n for name, n in votes.items() if name not in {*before.agents, *kept.agents}}
    if not kept.n_records:
        few = (
            f", and all are on newcomers ({', '.join(list(left)[:5])}) with fewer votes than "
            if left and more.n_records
            else ""
        )
        raise InputError(
            f"There is no vote to learn from: {more.n_records:,} were given{few}",
            *((Argument("min_votes", min_votes),) if few else ()),
            "; give more votes.",
        )
    return replace(kept, records=_with_propensities(before, kept)), left


def grown(before: Feedback, more: Feedback) -> Feedback:
    """Return a log with admissible votes after it: its agents and contexts come first."""
    log = Feedback.concat([_alone(before), more])
    log = replace(log, given_design=before.how_designed)
    if log.records.propensity is None:
        return log
    return replace(log, records=log.records.replace(propensity=_mixed(log, before.n_contexts)))


def _alone(log: Feedback) -> Feedback:
    return replace(log, given_design=None, report=None)


def _fitting(before: Feedback, more: Feedback) -> Feedback:
    """Return new votes with the context columns of the log so far, in their order; raise where some are missing."""
    names = before.contexts.column_names
    missing = [name for name in names if name not in more.contexts.column_names]
    if missing:
        raise InputError(
            f"The new votes have no context column {missing[0]!r}; they have {column_list(more.contexts)}, and the "
            f"model needs {column_list(before.contexts)}. Read them with ",
            *(Argument("context", names, flag="--context " + ",".join(names)), "; a column of nulls is accepted."),
        )
    if more.ballots is not None:
        more = more.ballots
    return replace(more, contexts=more.contexts.select(names), text=before.text, given_design=None, report=None)


def _with_propensities(before: Feedback, more: Feedback) -> Records:
    """Return the records of new votes, with propensities only where the log so far has them."""
    known, told = before.records.propensity is not None, more.records.propensity is not None
    if known and not told:
        raise InputError(
            "The log of this model says the propensity of every vote, and the new votes do not; ",
            Argument("name the column when reading", flag="name the column with --propensity"),
            ", or fit again on all votes with ",
            *(Argument("propensity", "auto", flag="--propensity-model auto"), "."),
        )
    return more.records if known else more.records.replace(propensity=None)


def _mixed(log: Feedback, first: int) -> Floats:
    """Return (n_records,) propensities over both periods, given those that each vote had in its own.

    A context is one of the log so far, or one of the new ones, as its share of all contexts: e^m is the mean of both
    periods' propensities by these shares. That of the other period is the harmonic mean of the ones that its own votes
    on the menu tell, which is the mean over its contexts (E[1 / e | asked] = 1 / E[e]); zero where it never asked.
    """
    later: Ints = (log.context_of >= first).astype(np.int64)
    e, menu = np.asarray(log.records.propensity), log.menus.of_record
    share = np.bincount([0] * first + [1] * (log.n_contexts - first), minlength=2) / log.n_contexts
    cell, size = later * len(log.menus) + menu, 2 * len(log.menus)
    count, inverse = np.bincount(cell, minlength=size), bin_sums(cell, 1 / e, size)
    usual = np.divide(count, inverse, out=np.zeros(size), where=inverse > 0)
    other = usual[(1 - later) * len(log.menus) + menu]
    return np.asarray(np.minimum(share[later] * e + share[1 - later] * other, 1.0))
