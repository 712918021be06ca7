"""What the graph of compared pairs can tell: agents are its nodes, and an edge joins two that met at least once.

Everywhere `votes` is (K, K), how often each pair was compared; a pair was compared where either triangle says so.
"""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Ints

SEEN = 0
BRIDGED = 1
UNKNOWN = 2


def components(votes: Ints) -> tuple[int, Ints]:
    """Return how many groups of agents comparisons connect, and (K,) the group of each agent."""
    if not len(votes):
        return 0, np.zeros(0, np.int32)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(csr_array(_compared(votes)), directed=False)
    return int(count), label


def pair_status(votes: Ints) -> Ints:
    """Return (K, K) what is known of each pair, as int8.

    `SEEN`: compared at least once, and the diagonal; `BRIDGED`: never compared, but connected through other agents, so
    that a model of the agents can carry over; `UNKNOWN`: nothing connects the two.
    """
    _, label = components(votes)
    status = np.where(label[:, None] == label[None, :], BRIDGED, UNKNOWN).astype(np.int8)
    status[_compared(votes)] = SEEN
    np.fill_diagonal(status, SEEN)
    return status


def only_a_ladder(votes: Ints) -> bool:
    """Tell whether three or more agents were compared along a forest: without a loop no cycle of preferences shows."""
    n_agents = len(votes)
    n_edges = int(np.triu(_compared(votes), 1).sum())
    return n_agents >= 3 and n_edges == n_agents - components(votes)[0]


def _compared(votes: Ints) -> Bools:
    met = votes > 0
    return met | met.T
