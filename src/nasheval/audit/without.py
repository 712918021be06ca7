"""What the winners are when some voters' votes are left out, by one step: no model is fitted again."""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Floats, bin_sums
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import L2
from nasheval.game.solver import lotteries
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.stage1 import Stage1

_WINNER = 1e-3  # an agent with more than this of the lottery is in the winner set


def winners_without(stage1: Stage1, left_out: Bools) -> list[str]:
    """Return the winner set of the mean payoffs over all contexts, without some records.

    Contexts all of whose records go, go too. Where some stay, these take the weight of those that go. Menus that lose
    more of their records than others were asked less among those that stay, by that ratio. The outcome model stays as
    it is, and what it has learned from the votes that go is corrected by those that stay.

    Args:
        left_out: (n_records,) of the log as it was given.
    """
    pseudo = stage1.pseudo
    estimand, log = pseudo.estimand, pseudo.fit.log
    gone = left_out if log.ballots is None else left_out[stage1.log.verdicts.record]
    weight, n = log.records.weights, log.n_contexts
    all_of, kept = (bin_sums(log.context_of, mass, n) for mass in (weight, weight * ~gone))
    inside = estimand.used & ((kept > 0) | (all_of == 0))
    if not inside.any():
        return []
    scale = np.divide(all_of, kept, out=np.ones(n), where=kept > 0) if log.design == "draws" else np.ones(n)
    rows = inside[estimand.context] & ~gone[estimand.record]
    scale = scale[estimand.context] * _asked_less(log, gone)[estimand.record]
    correction = (estimand.correction * scale)[rows]
    total = bin_sums(estimand.column[rows], correction, estimand.n_columns)
    for _, values in estimand.plugin(np.flatnonzero(inside)):
        total += values.sum(axis=0)
    return _winners(stage1, total / inside.sum())


def _asked_less(log: Feedback, gone: Bools) -> Floats:
    """Return (n_records,) by how much the weight of records grows, as their menus are asked less without some records.

    Under inclusion a menu's propensity is its own, and a record less is one less of it; under draws it is a share.
    """
    weight, menu, size = log.records.weights, log.menus.of_record, len(log.menus)
    kept, all_of = (bin_sums(menu, mass, size) for mass in (weight * ~gone, weight))
    share = np.maximum(kept, 1e-12) / all_of
    return np.asarray((kept.sum() / all_of.sum() if log.design == "draws" else 1.0) / share)[menu]


def _winners(stage1: Stage1, mean: Floats) -> list[str]:
    K = len(stage1.agents)
    games = pair_matrix(np.clip(mean, -1, 1), K, -np.clip(mean, -1, 1))
    lottery = lotteries(games[None], L2(1e-3), np.ones(K, bool))[0]
    return [stage1.agents[a] for a in np.argsort(-lottery, kind="stable") if lottery[a] > _WINNER]
