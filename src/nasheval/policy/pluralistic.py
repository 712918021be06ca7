"""The pluralistic leaderboard: a ranking whose tops leave no large part of the contexts behind (Haghtalab et al. 2026).

Every context is a voter with a ranking of all agents, inferred from its verdicts. A committee of some size comes from
iterated rounding: solve for a lottery over committees that no agent is preferred to by many, take the committee that
satisfies most contexts, and go on with the others and a smaller committee. The ranking puts committees of 1, 2, 4, ...
agents one after another.

The paper says which steps and parameters, not everything in between. Here:
- the t-th committee of a checkpoint k has (1 - alpha) alpha^t k seats, rounded up and at most those left of k: rounded
  down, checkpoints 1 and 2 would have none;
- a context is satisfied by a committee if those of the lottery that it likes no better weigh beta - epsilon or more;
- among committees that leave equally many unsatisfied, the first in the order of the permutation;
- agents of one committee, and those in no committee, are put in order of their mean place in the inferred rankings, and
  equal ones in that of the permutation;
- a context without a record has no ranking and no say.

Where a context compares few of the agents, most of its ranking is the permutation: with one duel per context, as in an
arena, the lottery says little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import ceil

import numpy as np
from scipy.optimize import linprog

from nasheval.arrays import Bools, Floats, Ints, offsets_of, runs
from nasheval.errors import ConvergenceError, InputError
from nasheval.feedback.log import Feedback
from nasheval.nuisance.learners import Effort
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import Constant

_EPSILON = 0.01  # of alpha = 1/2 + 4 epsilon, beta = 1/4 + 2 epsilon and the threshold beta - epsilon
_MOST_AGENTS = 20  # all their sets, 2^20, are counted
_CELLS = 1 << 22  # numbers held at a time
_PLAYED = 1e-9  # probability above which a committee is in the lottery


@dataclass(frozen=True)
class PluralisticLeaderboard:
    """The uniform lottery over the top agents of a pluralistic ranking; of the available ones, the first in it.

    Args:
        winners: how many agents share the lottery. Checkpoints go on until so many are ranked, since those that follow
            would not change it; the rest of the ranking is by mean place.
        seed: of the permutation that breaks ties.
    """

    winners: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.winners < 1:
            raise InputError(f"winners is {self.winners}; accepted is 1 or more.")

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Constant:
        """Return the policy; of Stage 1 only the log is used."""
        log = stage1.log
        if log.n_agents > _MOST_AGENTS:
            raise InputError(
                f"This log has {log.n_agents} agents, and the pluralistic leaderboard lists all committees of up to "
                f"{_MOST_AGENTS}; leave out agents, or compare with another baseline."
            )
        order = np.random.default_rng(self.seed).permutation(log.n_agents)
        places = inferred_places(log, order)
        if not len(places):
            raise InputError("This log has no records, so no context has a ranking; give some.")
        ranking = pluralistic_ranking(places, order, winners=self.winners)
        return Constant(log.agents, lambda up: top_of(ranking, up, self.winners))


def top_of(ranking: Ints, up: Bools, winners: int) -> Floats:
    """Return the uniform lottery (k,) over the first of the k available agents, (K,), in a ranking (K,)."""
    place = np.argsort(ranking)[up]
    top = np.argsort(np.argsort(place)) < winners
    return top / top.sum()


# -- rankings of the contexts -----------------------------------------------------------------------------------------


def inferred_places(log: Feedback, order: Ints) -> Ints:
    """Return the place of each agent, 0 is best, at each context with a record, (n, K) (Eq. rq3b-rank-completion).

    Args:
        order: (K,) the permutation that breaks ties, first agent first.
    """
    K, asked = log.n_agents, np.flatnonzero(np.diff(log.context_offsets) > 0)
    verdicts = offsets_of(np.bincount(log.context_of[log.verdicts.record], minlength=log.n_contexts))
    places, step = np.empty((len(asked), K), np.int16), max(1, _CELLS // (K * K))
    for start in range(0, len(asked), step):
        contexts = asked[start : start + step]
        u = _completed(log, verdicts[contexts], np.diff(verdicts)[contexts])[:, order]
        # equal scores differ by rounding alone, which must not break the tie
        ranked = order[np.argsort(-np.round(u, 9), axis=1, kind="stable")]
        np.put_along_axis(places[start : start + step], ranked, np.arange(K, dtype=np.int16)[None], axis=1)
    return places


def _completed(log: Feedback, starts: Ints, sizes: Ints) -> Floats:
    """Return the scores u_x of n contexts, (n, K): least squares on their verdicts, by weight, with the ridge ||u||^2.

    Args:
        starts, sizes: (n,) the verdicts of context i are starts[i] to starts[i] + sizes[i].
    """
    K, n, said = log.n_agents, len(starts), log.verdicts
    rows, of = runs(starts, sizes), np.repeat(np.arange(n), sizes)
    j, k = said.j[rows].astype(np.int64), said.k[rows].astype(np.int64)
    weight = log.records.weights[said.record[rows]]
    met = np.bincount((of * K + j) * K + k, weight, n * K * K).reshape(n, K, K)
    met += met.transpose(0, 2, 1).copy()
    lead = np.bincount(of * K + j, weight * said.z[rows], n * K) - np.bincount(of * K + k, weight * said.z[rows], n * K)
    system = np.eye(K) * (1 + met.sum(axis=2))[:, :, None] - met
    return np.linalg.solve(system, lead.reshape(n, K, 1))[:, :, 0]


# -- committees -------------------------------------------------------------------------------------------------------


def pluralistic_ranking(places: Ints, order: Ints, *, winners: int | None = None) -> Ints:
    """Return the agents, best first, (K,).

    Args:
        places: (n, K) the place of each agent in the ranking of each context, 0 is best.
        order: (K,) the permutation that breaks ties, first agent first.
        winners: checkpoints go on until so many agents are ranked; None: all of them.
    """
    K = places.shape[1]
    usual = order[np.argsort(places.sum(axis=0)[order], kind="stable")]
    ranking: list[int] = []
    size = 1
    while len(ranking) < min(winners or K, K) and size <= K:
        for committee in iterated_rounding(places, order, size):
            ranking += [a for a in usual if a in committee and a not in ranking]
        size *= 2
    return np.array(ranking + [a for a in usual if a not in ranking])


def iterated_rounding(places: Ints, order: Ints, size: int) -> Iterator[Ints]:
    """Yield committees of `size` agents in all, each chosen for the contexts that those before left unsatisfied."""
    alpha, threshold = 0.5 + 4 * _EPSILON, 0.25 + _EPSILON
    left, share = size, 1 - alpha
    while left and len(places):
        seats = min(left, ceil(share * size))
        committees = order[np.array(list(combinations(range(len(order)), seats)))]  # (L, seats)
        lottery, _ = stable_lottery(outvoted(places, committees))
        drawn = np.flatnonzero(lottery > _PLAYED)
        happy = satisfied(places, committees[drawn], lottery[drawn], threshold)
        best = int(happy.sum(axis=0).argmax())
        yield committees[drawn[best]]
        places, left, share = places[~happy[:, best]], left - seats, share * alpha


def outvoted(places: Ints, committees: Ints) -> Floats:
    """Return b, (K, L): the share of contexts that prefer each agent to all of each committee.

    A context does if the committee is part of the agents it ranks below. So the contexts are counted by that set, as a
    number of K bits, and the counts summed over all sets that contain a committee.
    """
    n, K = places.shape
    bit = 1 << np.arange(K)
    shares, sought = np.empty((K, len(committees))), bit[committees].sum(axis=1)
    for a in range(K):
        table = np.bincount((places > places[:, [a]]) @ bit, minlength=1 << K)
        for i in range(K):
            halves = table.reshape(-1, 2, 1 << i)  # sets without agent i, and with
            halves[:, 0] += halves[:, 1]
        shares[a] = table[sought] / n
    return shares


def stable_lottery(b: Floats) -> tuple[Floats, float]:
    """Return the lottery over committees (L,) that no agent is preferred to by many, and by how many at most.

    Eq. rq3b-stable-committee-lp, through HiGHS.

    Args:
        b: (K, L) the share of contexts that prefer each agent to each committee.
    """
    K, L = b.shape
    program = linprog(
        np.r_[np.zeros(L), 1.0],
        A_ub=np.c_[b, -np.ones(K)],
        b_ub=np.zeros(K),
        A_eq=np.r_[np.ones(L), 0.0][None],
        b_eq=[1.0],
        method="highs",
    )
    if program.status != 0:
        raise ConvergenceError(f"HiGHS could not find a stable lottery: {program.message} Please report it.")
    return program.x[:L], float(program.fun)


def satisfied(places: Ints, committees: Ints, lottery: Floats, threshold: float) -> Bools:
    """Return (n, L) whether each context likes a committee no less than a share `threshold` of the lottery.

    Args:
        committees: (L, seats) those in the lottery.
        lottery: (L,) their probabilities.
    """
    best = places[:, committees].min(axis=2)  # the place of a committee's best member
    weight = np.stack([(best[:, [c]] <= best) @ lottery for c in range(len(committees))], axis=1)
    return weight >= threshold - _PLAYED
