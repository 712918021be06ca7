"""Scores by the published rules of the tools that wrote a log, to stand beside ours; one function per rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.arenas import FASTCHAT
from nasheval.feedback.readers.judges import ALPACA_EVAL, ARENA_HARD, MT_BENCH_PAIR, MT_BENCH_SINGLE
from nasheval.policy.pooled import Ratings

_CLEARLY = 3  # times that arena-hard counts >>
_ANCHOR = ("mixtral-8x7b-instruct-v0.1", 1114.0)  # the model to which FastChat gives a rating of its own


@dataclass(frozen=True)
class Rule:
    """How a tool scores agents.

    Args:
        header: of the column that shows it; no two rules share one.
        digits: after the point.
        score: (votes of a group of contexts, their Bradley-Terry ratings) -> (K,), NaN where the rule gives none.
    """

    header: str
    digits: int
    score: Callable[[Feedback, Ratings], Floats]


def rule_of(log: Feedback) -> Rule | None:
    """Return the rule of the tool that wrote a log; None where it has none, or verdicts count in another way."""
    return None if log.origin is None else RULES.get(log.origin.tool)


def tool_scores(log: Feedback, inside: Bools, board: Ratings) -> Floats:
    """Return (K,) the scores of a group of contexts by the rule of the tool that wrote a log; NaN where it gives none.

    Args:
        inside: (n_contexts,) the group; mean scores are known for all contexts only.
        board: its Bradley-Terry ratings.
    """
    rule, whole = rule_of(log), bool(inside.all())
    if rule is None or (rule.score is mt_bench_single and not whole):
        return np.full(log.n_agents, np.nan)
    return rule.score(log if whole else log[inside], board)


# -- what a duel says -------------------------------------------------------------------------------------------------


def _duels(log: Feedback) -> tuple[Ints, Floats]:
    """Return (n, 2) the agents of each duel in the order shown, and (n,) its verdict for the second of them."""
    records = log.records
    assert records.shown is not None
    order = records.shown.reshape(-1, 2)
    agent, block = (np.take_along_axis(each.reshape(-1, 2), order, axis=1) for each in (records.agent, records.block))
    grade = np.ones(len(records)) if records.grade is None else records.grade
    return agent.astype(np.int64), grade * (block[:, 0].astype(np.float64) - block[:, 1])


def _both_games(log: Feedback) -> tuple[Ints, Ints]:
    """Return the duels of the first and of the second game of every answer that was judged in both orders.

    Of one judge, question and pair the first game stands first in a log, as in the file.
    """
    agent, _ = _duels(log)
    voter = np.zeros(len(agent), np.int64) if log.records.voter is None else log.records.voter.astype(np.int64) + 1
    pair, swapped = agent.min(axis=1) * log.n_agents + agent.max(axis=1), agent[:, 0] > agent[:, 1]
    cell = (log.context_of * np.int64(log.n_agents**2) + pair) * (voter.max(initial=0) + 1) + voter
    key = 2 * np.unique(cell, return_inverse=True)[1] + swapped
    order = np.argsort(key, kind="stable")
    earlier = np.empty(len(key), np.int64)  # duels of the same cell and order that stand before
    earlier[order] = np.arange(len(key)) - np.searchsorted(key[order], key[order])
    place = (key // 2) * (len(key) + 1) + earlier
    one, other = np.flatnonzero(~swapped), np.flatnonzero(swapped)
    _, here, there = np.intersect1d(place[one], place[other], return_indices=True)
    return np.minimum(one[here], other[there]), np.maximum(one[here], other[there])


def _shares(agent: Ints, won: Floats, weight: Floats, n_agents: int) -> Floats:
    """Return (K,) the weighted mean of what each agent won, NaN where it has none."""
    total = np.bincount(agent, weight, n_agents)
    return np.divide(np.bincount(agent, weight * won, n_agents), total, out=np.full(n_agents, np.nan), where=total > 0)


# -- rules ------------------------------------------------------------------------------------------------------------


def arena_hard(log: Feedback, board: Ratings) -> Floats:
    """Return the win rate against the baseline in percent: >> counts three times, a tie half; the baseline has 50.

    Answers without a verdict in both games are left out. With one baseline this is what a Bradley-Terry model without
    a penalty, fitted to these battles, gives each model against the baseline.
    """
    agent, z = _duels(log)
    first, second = _both_games(log)
    model, baseline = agent[first, 1], agent[first, 0]
    said = np.concatenate([z[first], -z[second]])  # for the model, which is shown second, then first
    weight = np.where(np.abs(said) == 1, _CLEARLY, 1.0)
    score = 100 * _shares(np.tile(model, 2), (1 + np.sign(said)) / 2, weight, log.n_agents)
    score[np.isnan(score) & np.isin(np.arange(log.n_agents), baseline)] = 50.0
    return score


def alpaca_eval(log: Feedback, board: Ratings) -> Floats:
    """Return the plain win rate in percent: the mean of preference - 1 of the second generator; the reference has 50.

    The length-controlled win rate is another model, of other inputs.
    """
    agent, z = _duels(log)
    score = 100 * _shares(agent[:, 1], (1 + z) / 2, np.ones(len(z)), log.n_agents)
    score[np.isnan(score) & np.isin(np.arange(log.n_agents), agent[:, 0])] = 50.0
    return score


def mt_bench_pair(log: Feedback, board: Ratings) -> Floats:
    """Return the adjusted win rate, of all pairs: a win where both games agree, else a tie, which counts half."""
    agent, z = _duels(log)
    first, second = _both_games(log)
    won = np.where(np.sign(z[first]) == -np.sign(z[second]), np.sign(z[first]), 0.0)
    both = np.concatenate([agent[first, 1], agent[first, 0]])
    return _shares(both, (1 + np.concatenate([won, -won])) / 2, np.ones(len(both)), log.n_agents)


def mt_bench_single(log: Feedback, board: Ratings) -> Floats:
    """Return the mean score over all answers of the file, both turns."""
    means = {} if log.origin is None else log.origin.means
    return np.array([means.get(name, np.nan) for name in log.agents])


def fastchat(log: Feedback, board: Ratings) -> Floats:
    """Return the Bradley-Terry rating: mean 1000, 400 points for odds of ten to one, a tie half a win.

    Where mixtral-8x7b-instruct-v0.1 is among the models all ratings are moved so that it has 1114.
    """
    rating, (name, level) = np.where(board.determined, board.rating, np.nan), _ANCHOR
    if name in log.agents and np.isfinite(own := rating[log.agents.index(name)]):
        rating = rating + level - own
    return rating


RULES: dict[str, Rule] = {
    ARENA_HARD.name: Rule("arena-hard", 1, arena_hard),
    ALPACA_EVAL.name: Rule("AlpacaEval", 2, alpaca_eval),
    MT_BENCH_PAIR.name: Rule("MT-bench pairs", 3, mt_bench_pair),
    MT_BENCH_SINGLE.name: Rule("MT-bench", 2, mt_bench_single),
    FASTCHAT.name: Rule("FastChat", 0, fastchat),
}
