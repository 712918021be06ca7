"""What policies are worth against each other and against single agents, as pseudo-outcomes.

The value of lottery a against lottery b is a(x)' A(x) b(x), the sum over pairs j < k of W_jk(x) A_jk(x) with weights
W_jk = a_j b_k - a_k b_j that depend on the context alone. So sum W_jk Gamma_jk is the pseudo-outcome of that value: its
plug-in part is sum W_jk f_jk(mu), and its derivative in mu^m_jk is W_jk df/du. Means, clusters and variances are then
those of `nasheval.payoff`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums
from nasheval.feedback.links import SEEN
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.estimand import CELLS, Effects, Estimand, surface_chunks
from nasheval.payoff.pseudo import PseudoOutcomes


@dataclass(frozen=True, eq=False)
class Contrasts:
    """C values, each a weighted sum of payoffs; verdicts that weigh nothing in a value are left out.

    Args:
        estimand: the values, with one column each.
        reach: (n_contexts, C) a bound on the size of the value whatever the payoffs, from 0 to 1: lotteries that hardly
            differ cannot win much from each other.
        untold: (n_contexts, C) sum of |W_jk| over the pairs that no menu holds, whose payoff may be anything from -1 to
            1; None where menus hold all pairs.
        bridged: (n_contexts, C) what bridged pairs add to the value, if the bridge is right; None without any. It is
            part of no interval.
    """

    estimand: Estimand
    reach: Floats
    untold: Floats | None
    bridged: Floats | None


def responses(pseudo: PseudoOutcomes, lotteries: Floats) -> tuple[Floats, Floats | None]:
    """Return (P, n_contexts, K) the plug-in payoff of each agent against each policy, f(mu(x)) pi(x), out of fold.

    The second is what the pseudo-outcomes of bridged pairs add to it; None where there are none.

    Args:
        lotteries: (P, n_contexts, K).
    """
    response, bridge = np.zeros(lotteries.shape), pseudo.estimand.bridge
    bridged = None if bridge is None else np.zeros(lotteries.shape)
    for contexts, values in pseudo.plugin_chunks():
        response[:, contexts] = _against(values, lotteries[:, contexts])
        if bridge is not None and bridged is not None:
            alone, tangent = np.zeros(values.shape), bridge.at(values)
            lead = bridge.lead(pseudo.estimand.corrections[contexts])
            moved = tangent.moved(np.arange(len(contexts)), lead)
            alone[:, bridge.pairs] = tangent.values + moved
            bridged[:, contexts] = _against(alone, lotteries[:, contexts])
    return response, bridged


def _against(values: Floats, lotteries: Floats) -> Floats:
    """Return (P, n, K) payoffs of the agents against lotteries (P, n, K), given those of pairs, (n, n_pairs)."""
    K = lotteries.shape[2]
    A, (j, k) = np.zeros((len(values), K, K)), np.triu_indices(K, 1)
    A[:, j, k], A[:, k, j] = values, -values
    return (A @ lotteries.transpose(1, 2, 0)).transpose(2, 0, 1)


def head_to_head(
    pseudo: PseudoOutcomes, lotteries: Floats, response: Floats, bridged: Floats | None = None
) -> Contrasts:
    """Return the values of each pair of policies a < b, in the order of `pair_index`.

    Args:
        lotteries, response, bridged: (P, n_contexts, K), the last two from `responses`.
    """
    a, b = np.triu_indices(len(lotteries), 1)
    first, second = _of_verdicts(pseudo, lotteries)
    weight = (first[a] * second[b] - second[a] * first[b]).T
    rows, value = np.nonzero(weight)
    surface = _values(lotteries, response, a, b)
    added = None if bridged is None else _values(lotteries, bridged, a, b)
    differ = np.stack([np.abs(lotteries[p] - lotteries[q]).sum(axis=1) / 2 for p, q in zip(a, b, strict=True)], axis=1)
    # With m what two lotteries share, a = m + s and b = m + t: a' A b = (s - t)' A m + s' A t, since m' A m = 0.
    reach = np.minimum(differ, 1) * (2 - np.minimum(differ, 1))
    untold = _untold(pseudo, lotteries, a, b)
    styled = [_values(lotteries, one, a, b) for one in _styled(pseudo, lotteries)]
    return _contrasts(pseudo, rows, value, weight[rows, value], surface, reach, untold, added, styled)


def _values(lotteries: Floats, response: Floats, a: Ints, b: Ints) -> Floats:
    """Return (n_contexts, pairs) what policy a[i] wins from policy b[i]."""
    return np.stack([(lotteries[p] * response[q]).sum(axis=1) for p, q in zip(a, b, strict=True)], axis=1)


def against_agents(
    pseudo: PseudoOutcomes, lottery: Floats, response: Floats, bridged: Floats | None = None
) -> Contrasts:
    """Return the values of each agent, playing alone everywhere, against one policy: e_j' A(x) pi(x).

    Args:
        lottery, response, bridged: (n_contexts, K), the last two from `responses`.
    """
    j, k = _agents_of(pseudo)
    first, second = _of_verdicts(pseudo, lottery[None])
    rows, value = np.repeat(np.arange(len(j)), 2), np.stack([j, k], axis=1).ravel()
    weight = np.concatenate([second, -first]).T.ravel()
    bears = weight != 0
    never = _never(pseudo, lottery.shape[1])
    untold = lottery @ never if never.any() else None
    styled = [one[0] for one in _styled(pseudo, lottery[None])]
    return _contrasts(pseudo, rows[bears], value[bears], weight[bears], response, 1 - lottery, untold, bridged, styled)


def _styled(pseudo: PseudoOutcomes, lotteries: Floats) -> Iterator[Floats]:
    """Yield, for each column that was adjusted for, (P, n_contexts, K) its slopes against each policy."""
    for column in range(0 if pseudo.style is None else len(pseudo.style.names)):
        response = np.zeros(lotteries.shape)
        for contexts, values in pseudo.style_chunks(column):
            response[:, contexts] = _against(values, lotteries[:, contexts])
        yield response


def _contrasts(
    pseudo: PseudoOutcomes,
    rows: Ints,
    value: Ints,
    weight: Floats,
    surface: Floats,
    reach: Floats,
    untold: Floats | None,
    bridged: Floats | None,
    styled: Sequence[Floats] = (),
) -> Contrasts:
    """Return values whose verdicts are some rows of the log's, (v,), each with its value and weight.

    Args:
        surface: (n_contexts, C) the plug-in values out of fold.
        styled: (n_contexts, C) for each column of style, how much values fall with it (`style_chunks`).
    """
    slope, share = pseudo.slope[rows] * weight, pseudo.share[rows]
    step = max(1, CELLS // max(1, len(pseudo.aggregation.pair), surface.shape[1]))
    estimand = Estimand(
        log=pseudo.fit.log,
        used=pseudo.used,
        context=pseudo.context[rows],
        record=pseudo.record[rows],
        column=value.astype(np.int32),
        correction=share * slope * pseudo.residual[rows],
        weight=share * np.abs(slope),
        status=np.full(surface.shape[1], SEEN, np.int8),  # what pairs never compared could add is in `untold`
        plugin=lambda contexts: surface_chunks(surface, contexts, step),
        bias=lambda contexts: _bias(pseudo, reach, contexts),
        effects=_effects(pseudo, rows, value, share * slope, styled),
    )
    return Contrasts(estimand, reach, untold, bridged)


def _effects(
    pseudo: PseudoOutcomes, rows: Ints, value: Ints, weight: Floats, styled: Sequence[Floats]
) -> Effects | None:
    """Return what is uncertain of what style is worth, and how values move with it."""
    if pseudo.style is None:
        return None
    style, context = pseudo.style, pseudo.context[rows]

    def slope(contexts: Ints) -> Floats:
        inside = np.zeros(pseudo.n_contexts, bool)
        inside[contexts] = True
        here = np.flatnonzero(inside[context])
        columns = []
        for s, surface in enumerate(styled):
            observed = bin_sums(value[here], weight[here] * style.moved[rows[here], s], surface.shape[1])
            columns.append(-(surface[contexts].mean(axis=0) + observed / len(contexts)))
        return np.stack(columns, axis=1)

    return Effects(pseudo.record, style.score, slope)


def _bias(pseudo: PseudoOutcomes, reach: Floats, contexts: Ints) -> Floats:
    """Return (C,) how far raised propensities could move the mean over some contexts."""
    clipped, rows = pseudo.clipped_pairs(contexts)
    if clipped is None:
        return np.zeros(reach.shape[1])
    worst = clipped.max(axis=1).toarray().ravel()  # the payoffs that weigh in sum to `reach` at most
    return (worst[:, None] * reach[rows]).mean(axis=0)


def _agents_of(pseudo: PseudoOutcomes) -> tuple[Ints, Ints]:
    """Return the agents j < k of each verdict, (v,) each."""
    j, k = np.triu_indices(pseudo.fit.log.n_agents, 1)
    return j[pseudo.pair], k[pseudo.pair]


def _of_verdicts(pseudo: PseudoOutcomes, lotteries: Floats) -> tuple[Floats, Floats]:
    """Return the chances, (P, v) each, that the policies give to the agents j and k of each verdict."""
    j, k = _agents_of(pseudo)
    return lotteries[:, pseudo.context, j], lotteries[:, pseudo.context, k]


def _never(pseudo: PseudoOutcomes, n_agents: int) -> Bools:
    """Return (K, K) which pairs no menu holds."""
    return pair_matrix(~pseudo.aggregation.covered, n_agents)


def _untold(pseudo: PseudoOutcomes, lotteries: Floats, a: Ints, b: Ints) -> Floats | None:
    """Return (n_contexts, len(a)) the sum of |W_jk| over pairs that no menu holds, in chunks of contexts."""
    j, k = np.nonzero(np.triu(_never(pseudo, lotteries.shape[2])))
    if not len(j):
        return None
    untold = np.empty((lotteries.shape[1], len(a)))
    step = max(1, CELLS // len(j))
    for start in range(0, len(untold), step):
        first, second = lotteries[:, start : start + step, j], lotteries[:, start : start + step, k]
        for column, (p, q) in enumerate(zip(a, b, strict=True)):
            weight = first[p] * second[q] - second[p] * first[q]
            untold[start : start + step, column] = np.abs(weight).sum(axis=1)
    return untold
