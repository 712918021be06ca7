"""How the voters model reads a log: records of one kind side by side, best agent first, and the pooled start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import comb

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, offsets_of
from nasheval.feedback.log import SEVERAL, Feedback
from nasheval.feedback.menus import ORDER, PARTIAL
from nasheval.feedback.partition import Zero
from nasheval.game.scores import fit_scores

TIED_MENU = 6  # largest menu whose ties have a law of their own; E[Z] there takes 3^size steps
_KNOWN = 300  # records from which on a voter may be distinguished


class Kind(IntEnum):
    """The likelihood of a question (size and form), as far as the log as a whole says what may be answered."""

    RANKED = 0  # Plackett-Luce: no two agents are ever declared equal
    DUEL = 1  # two agents, ties (Davidson) and both-bad answers
    TIED = 2  # Davidson-Luce: sets of equals are chosen one after another
    PAIRS = 3  # as TIED, but too many agents: every pair is a Davidson duel
    CENSORED = 4  # Plackett-Luce of which only an ordered partition is known: top-r, winner, best-worst


@dataclass(frozen=True)
class Question:
    """A size of menu and a form of question; all menus of one question share a likelihood.

    Args:
        size: agents in a menu.
        form: ORDER, BEST_WORST, PARTIAL, or r for "choose the best r".
        kind: the likelihood.
        tie: its first tie parameter.
        n_tie: number of its tie parameters. DUEL: log nu and the log weight of both-bad; PAIRS: log nu; TIED: log delta
            of 2, 3, ... equals.
    """

    size: int
    form: int
    kind: Kind
    tie: int = 0
    n_tie: int = 0


@dataclass(frozen=True)
class Table:
    """Records of one question that say equally much, best agent first.

    Args:
        question: the question.
        agents: (size, m) agents, best first.
        block: (size, m) the block of each.
        starts: (size, m) the size of each ranked block, at its first agent; 0 elsewhere.
        shape: sizes of the blocks, for CENSORED; empty otherwise.
        outcome: (m,) DUEL: 0 the first wins, 1 tie, 2 both bad.
        weight: (m,) of the answers; those that were given at a context more than once are one row. A duel of grade g is
            two answers, one for the winner with (1 + g) / 2 of the weight and one for the other with the rest.
        count: (m,) how many records gave them; the other answer of a graded duel is none.
        offsets: (n_contexts + 1,) the answers at context i are offsets[i]:offsets[i + 1].
        name: (m,) the number of who gave them; all 0 where voters are not distinguished.
    """

    question: Question
    agents: Ints
    block: Ints
    starts: Ints
    shape: tuple[int, ...]
    outcome: Ints
    weight: Floats
    count: Ints
    offsets: Ints
    name: Ints


def questions_of(log: Feedback) -> list[Question]:
    """List the questions of a log. Whether ties may be declared is read off the whole log: it is part of the question.

    Answers are not: nothing a model predicts depends on what was said at contexts it may not see.
    """
    menus, tied = log.menus, _tied_sizes(log)
    keys = np.unique(np.stack([menus.sizes.astype(np.int64), menus.form.astype(np.int64)], axis=1), axis=0)
    questions: list[Question] = []
    first = 0
    for size, form in keys.tolist():
        most = tied.get((size, form), 1)
        kind = _kind(size, form, most > 1)
        n_tie = {Kind.DUEL: 2, Kind.PAIRS: 1, Kind.TIED: most - 1}.get(kind, 0)
        questions.append(Question(size, form, kind, first, n_tie))
        first += n_tie
    return questions


def question_rows(questions: Iterable[Question]) -> Ints:
    """Return questions as rows of numbers, (questions, 5), for a file."""
    rows = [[q.size, q.form, int(q.kind), q.tie, q.n_tie] for q in questions]
    return np.array(rows, np.int64).reshape(-1, 5)


def _kind(size: int, form: int, ties: bool) -> Kind:
    if form not in (ORDER, PARTIAL):
        return Kind.CENSORED
    with_ties = Kind.DUEL if size == 2 else Kind.TIED if size <= TIED_MENU else Kind.PAIRS
    return with_ties if ties else Kind.RANKED


def _tied_sizes(log: Feedback) -> dict[tuple[int, int], int]:
    """Return the size of the largest block of declared equals for each (size, form)."""
    most: dict[tuple[int, int], int] = {}
    for rows, entries in log.records.by_size():
        size, form = entries.shape[1], log.menus.form[log.menus.of_record[rows]]
        counts = _block_sizes(log.records.block[entries])
        counts[np.arange(len(rows)), _last(counts)] *= form != PARTIAL  # those were not ranked
        largest = counts.max(axis=1)
        for asked in np.unique(form).tolist():
            most[size, asked] = int(largest[form == asked].max())
    return most


def _block_sizes(block: Ints) -> Ints:
    """Return (m, s) the number of agents in each block, given (m, s) blocks."""
    m, s = block.shape
    return np.bincount((np.arange(m)[:, None] * s + block).ravel(), minlength=m * s).reshape(m, s)


def _last(counts: Ints) -> Ints:
    return (counts > 0).sum(axis=1) - 1


def names_of(log: Feedback) -> Ints:
    """Return (n_records,) the number of who gave each, from 0; all 0 where voters should not be distinguished.

    They are where every voter is known and has hundreds of records, and there are so few that they are the population.
    """
    voter, nobody = log.records.voter, np.zeros(log.n_records, np.int64)
    if voter is None or not len(voter) or (voter < 0).any():
        return nobody
    _, name, records = np.unique(voter, return_inverse=True, return_counts=True)
    return name if len(records) < SEVERAL and records.min() >= _KNOWN else nobody


def tables_of(log: Feedback, questions: list[Question], name: Ints | None = None) -> list[Table]:
    """Lay all records out as tables; those that compare nothing (one censored block) are left out.

    Args:
        name: (n_records,) the number of who gave each, where voters are distinguished.
    """
    name = np.zeros(log.n_records, np.int64) if name is None else name
    by_key = {(question.size, question.form): question for question in questions}
    tables = []
    for rows, entries in log.records.by_size():
        form = log.menus.form[log.menus.of_record[rows]]
        for asked in np.unique(form).tolist():
            here = np.flatnonzero(form == asked)
            question = by_key[entries.shape[1], asked]
            tables += list(_tables(log, question, rows[here], entries[here], name))
    return tables


def _tables(log: Feedback, question: Question, rows: Ints, entries: Ints, name: Ints) -> Iterator[Table]:
    records = log.records
    order = np.argsort(records.block[entries], axis=1, kind="stable")
    agents, block = (np.take_along_axis(column[entries], order, axis=1) for column in (records.agent, records.block))
    counts = _block_sizes(block)
    starts = np.take_along_axis(counts, block, axis=1)
    starts[:, 1:] *= block[:, 1:] > block[:, :-1]
    if question.form == PARTIAL:
        starts *= block < _last(counts)[:, None]
    zero = records.zero[rows]
    outcome = np.where(block[:, -1] > 0, 0, np.where(zero == Zero.BOTH_BAD, 2, 1))
    shapes, which = np.zeros((1, 1), np.int64), np.zeros(len(rows), np.int64)
    if question.kind == Kind.CENSORED:
        shapes, which = np.unique(counts, axis=0, return_inverse=True)
    for number, sizes in enumerate(shapes.tolist()):
        shape = tuple(size for size in sizes if size)
        here: Ints = np.flatnonzero(which.ravel() == number)
        if question.kind == Kind.CENSORED and len(shape) == 1:
            continue
        weight, ordered = records.weights[rows[here]], agents[here]
        count: Ints = np.ones(len(here), np.int64)
        if records.grade is not None and question.size == 2:
            here, weight, count = _graded(here, weight, records.grade[rows[here]], outcome[here] == 0)
            ordered = np.where(count[:, None] > 0, agents[here], agents[here][:, ::-1])
        context = log.context_of[rows[here]]
        said = (context, *ordered.T, *block[here].T, outcome[here], name[rows[here]])
        first, weight, count = _merged(said, weight, count)
        here, ordered = here[first], ordered[first]
        yield Table(
            question=question,
            agents=np.ascontiguousarray(ordered.T.astype(np.int64)),
            block=np.ascontiguousarray(block[here].T),
            starts=np.ascontiguousarray(starts[here].T),
            shape=shape,
            outcome=outcome[here],
            weight=weight.astype(np.float32),
            count=count,
            offsets=offsets_of(np.bincount(context[first], minlength=log.n_contexts)),
            name=name[rows[here]],
        )


def _graded(here: Ints, weight: Floats, grade: Floats, decided: Bools) -> tuple[Ints, Floats, Ints]:
    """Return duels, their weight, and how many records they are, with the other answer of graded ones after them."""
    share = np.where(decided, (1 + grade) / 2, 1.0)
    partly = share < 1
    count = np.concatenate([np.ones(len(here), np.int64), np.zeros(int(partly.sum()), np.int64)])
    return np.append(here, here[partly]), np.append(weight * share, (weight * (1 - share))[partly]), count


def _merged(said: Sequence[Ints], weight: Floats, count: Ints) -> tuple[Ints, Floats, Ints]:
    """Return the rows of the columns `said` that are the first of their kind, in order of the first column, the weight
    of all that say the same, and how many records do."""
    if (said[0][1:] > said[0][:-1]).all():  # one answer per context
        return np.arange(len(weight)), weight, count
    order = np.lexsort(said[::-1])
    new = np.ones(len(weight), bool)
    new[1:] = np.any([column[order[1:]] != column[order[:-1]] for column in said], axis=0)
    kind = np.cumsum(new) - 1
    return order[new], np.bincount(kind, weight[order]).astype(float), np.bincount(kind, count[order]).astype(np.int64)


# -- the pooled start -------------------------------------------------------------------------------------------------


def pooled_utilities(log: Feedback, seen: Bools) -> Floats:
    """Return (models, K) Bradley-Terry utilities of the pair verdicts at the contexts each model may see.

    A tie is half a win for each; a record of s agents weighs 2 / s per pair, so s - 1 in all. The penalty |u|^2 / 2
    keeps agents with few votes near the mean.

    Args:
        seen: (models, n_contexts).
    """
    verdicts, n = log.verdicts, log.n_agents
    sizes = log.records.sizes[verdicts.record]
    weight = log.records.weights[verdicts.record] * 2.0 / sizes * (verdicts.zero != Zero.CENSORED)
    context, flat = log.context_of[verdicts.record], verdicts.j.astype(np.int64) * n + verdicts.k
    for_j, for_k = weight * (1 + verdicts.z) / 2, weight * (1 - verdicts.z) / 2
    wins = np.zeros((len(seen), n, n))
    for model, mask in enumerate(seen):
        rows = np.flatnonzero(mask[context])
        wins[model] = np.bincount(flat[rows], for_j[rows], n * n).reshape(n, n)
        wins[model] += np.bincount(flat[rows], for_k[rows], n * n).reshape(n, n).T
    meetings = wins + wins.transpose(0, 2, 1)
    exact = 1e-12 * max(1.0, 0.1 * float(meetings.sum(axis=2).max(initial=0.0)))  # sums of many votes round
    lead = (wins - wins.transpose(0, 2, 1)).sum(axis=2)
    return fit_scores(lead, meetings, ridge=1.0, tolerance=exact)


def tie_start(tables: list[Table], questions: list[Question], seen: Bools) -> Floats:
    """Return (models, T) log tie weights that would give the shares of ties seen, were all agents equal.

    Where none was seen, the weight is as good as zero, and stays there: no gradient moves it.
    """
    size = max((q.tie + q.n_tie for q in questions), default=0)
    start = np.full((len(seen), size), -1e4)
    for table in tables:
        question = table.question
        if not question.n_tie:
            continue
        ties = _tie_counts(table, np.repeat(seen, np.diff(table.offsets), axis=1) * table.weight)
        decided = np.maximum(ties[:, 0], 1.0)
        for t in range(question.n_tie):
            share = ties[:, t + 1] / decided
            has = ties[:, t + 1] > 0
            start[has, question.tie + t] = np.log(share[has])
    return start


def _tie_counts(table: Table, weights: Floats) -> Floats:
    """Return (models, 1 + n_tie) weighted counts: decided, then each kind of tie, a set of t equals counted so that
    count / decided is the weight that would explain it among equal agents."""
    question = table.question
    if question.kind == Kind.DUEL:
        kinds = [table.outcome == code for code in range(3)]
        return np.stack([weights @ kind for kind in kinds], axis=1) * [0.5, 1.0, 1.0]
    if question.kind == Kind.PAIRS:
        left, right = np.triu_indices(question.size, 1)
        tied = (table.block[left] == table.block[right]).sum(axis=0)
        return np.stack([weights @ (len(left) - tied) / 2, weights @ tied], axis=1)
    sets = np.stack([weights @ (table.starts == t).sum(axis=0) for t in range(1, question.n_tie + 2)], axis=1)
    return sets / [comb(question.size, t) for t in range(1, question.n_tie + 2)]


def stop_shares(tables: list[Table], questions: list[Question], seen: Bools) -> Floats:
    """Return (models, questions, largest size) the share of voters who stop ranking after so many blocks.

    Only PARTIAL questions stop early: of the voters with two agents or more still to rank, those who left them.
    """
    width = max((q.size for q in questions), default=1)
    stopped, risk = (np.zeros((len(seen), len(questions), width)) for _ in range(2))
    for table in tables:
        if table.question.form != PARTIAL:
            continue
        number = questions.index(table.question)
        weights = np.repeat(seen, np.diff(table.offsets), axis=1) * table.weight
        ranked = (table.starts > 0).sum(axis=0)
        left = len(table.starts) - table.starts.sum(axis=0)
        for c in range(width):
            stopped[:, number, c] += weights @ ((ranked == c) & (left > 1))
            risk[:, number, c] += weights @ ((ranked > c) | ((ranked == c) & (left > 1)))
    return stopped / np.maximum(risk, 1e-12)
