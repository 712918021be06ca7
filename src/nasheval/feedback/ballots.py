"""Ballots cut into pairs: for logs whose menus are so many that most were asked a few times.

A payoff that averages over menus needs a propensity for each of them, which a menu that was asked twice does not tell.
Pairs are asked often. So a ballot on s agents becomes its s (s - 1) / 2 pairs, each with an equal share of the ballot's
weight: as if one pair had been drawn from the ballot and the answers averaged over that draw. The propensity of a pair
is then the chance that it is drawn, these sum to one, and the payoff of a pair is E[Z | x, the pair is drawn]. Where
all ballots have the same size that is E[Z | x, both agents were shown].

The pairs of a ballot stay at its context and with its voter, so that they are never taken for independent votes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nasheval.arrays import n_pairs, offsets_of
from nasheval.feedback.design import Design
from nasheval.feedback.log import Feedback
from nasheval.feedback.menus import OFTEN
from nasheval.feedback.partition import Zero
from nasheval.feedback.records import Records


def has_rare_menus(log: Feedback) -> bool:
    """Tell whether some pair was asked about in several menus, one of them fewer than 30 times."""
    columns, size = log.menus.columns, n_pairs(log.n_agents)
    rare = log.menus.counts[columns.menu] < OFTEN
    several = np.bincount(columns.pair, minlength=size) > 1
    return bool((several & (np.bincount(columns.pair[rare], minlength=size) > 0)).any())


def as_pairs(log: Feedback) -> Feedback:
    """Return the log of the pairs of all ballots, each with its share of the ballot's weight; `ballots` is the log.

    Zero verdicts keep no reason there: all count as ties.
    """
    verdicts, records = log.verdicts, log.records
    sizes = records.sizes.astype(np.int64)
    pairs = sizes * (sizes - 1) // 2
    decided = np.stack([verdicts.z < 0, verdicts.z > 0], axis=1)  # the loser stands in block 1
    cut = Records(
        offsets=offsets_of(np.full(len(verdicts), 2)),
        agent=np.stack([verdicts.j, verdicts.k], axis=1).ravel(),
        block=decided.astype(np.int8).ravel(),
        zero=np.full(len(verdicts), Zero.TIE, np.int8),
        weight=(records.weights / pairs)[verdicts.record],
        voter=None if records.voter is None else records.voter[verdicts.record],
        time=None if records.time is None else records.time[verdicts.record],
        grade=None if records.grade is None else records.grade[verdicts.record],
    )
    design = Design("draws", "ballots were cut into pairs, each a draw from its ballot")
    of_context = np.bincount(log.context_of, pairs, log.n_contexts).astype(np.int64)
    return replace(log, records=cut, context_offsets=offsets_of(of_context), given_design=design, ballots=log)
