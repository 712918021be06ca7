"""The loss of the softmax over agents (`softmax`) on counts of menus, and its gradient.

Where every menu is a pair and there are no pair terms, no pair is looked at: with a = exp(theta . phi) and B the shares
of the base as a symmetric (K, K) matrix, the sum over all pairs is a' B a / 2, and agent j is in a_j (B a)_j of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Bools, Floats, Ints

_CHUNK_CELLS = 1 << 19
_OFTEN = 0.2  # a feature that is zero at more than the rest of the rows is kept by its nonzero values
_LEAST = 1e-30  # of the sum over pairs, below which single precision is not enough


class Slopes(NamedTuple):
    """What is learned: theta (q, K), w (q, R) and v (K, R), float32."""

    theta: Floats
    w: Floats
    v: Floats


@dataclass(frozen=True, eq=False)
class Menus:
    """Which agents are in a menu.

    Args:
        members: (M, K) float32, one where an agent is in a menu.
    """

    members: Floats

    def __len__(self) -> int:
        return len(self.members)

    @property
    def n_agents(self) -> int:
        """K."""
        return self.members.shape[1]

    @cached_property
    def pairs(self) -> tuple[Ints, Ints] | None:
        """(M,) the two agents of each menu; None where some menu has more or fewer."""
        if not len(self) or (self.members.sum(axis=1) != 2).any():
            return None
        agent = np.nonzero(self.members)[1].reshape(-1, 2)
        return agent[:, 0], agent[:, 1]

    def terms(self, v: Floats) -> Floats:
        """Return (M, K + R): which agents are in a menu, and of each pair term sum over j < k in m of v_j v_k."""
        return np.hstack([self.members, ((self.members @ v) ** 2 - self.members @ v**2) / 2])

    def by_pair(self, values: Floats) -> Floats:
        """Return (n, K, K) sums of the menus' values, (n, M), over the menus that hold each pair; zero diagonals."""
        K = self.n_agents
        if self.pairs is not None:
            sums = np.zeros((K, K, len(values)), values.dtype)
            np.add.at(sums, self.pairs, values.T)
            return np.ascontiguousarray(np.moveaxis(sums + sums.swapaxes(0, 1), 2, 0))
        sums = np.stack([(self.members * row[:, None]).T @ self.members for row in values])
        sums[:, np.arange(K), np.arange(K)] = 0.0
        return sums


class PairSums(NamedTuple):
    """Sums over all pairs at n rows: `log_total` (n,), and `share` (n, K), how much of it each agent is in."""

    log_total: Floats
    share: Floats


def pair_sums(score: Floats, stratum: Ints, base: Floats) -> PairSums | None:
    """Return the sums over pairs of base_jk exp(score_j + score_k); None where single precision is not enough.

    Args:
        score: (n, K).
        stratum: (n,) ascending, which of the bases.
        base: (strata, K, K) symmetric, zero diagonals.
    """
    top = score.max(axis=1, keepdims=True)
    a = np.exp(score - top)
    share = np.empty_like(a)
    edges = np.flatnonzero(np.diff(stratum)) + 1
    for start, stop in pairwise([0, *edges.tolist(), len(score)]):
        np.matmul(a[start:stop], base[stratum[start]], out=share[start:stop])
    share *= a
    total = share.sum(axis=1, keepdims=True)
    if not (total > _LEAST).all():
        return None
    share *= 2 / total
    return PairSums((np.log(total / 2) + 2 * top)[:, 0], share)


@dataclass(frozen=True, eq=False)
class Columns:
    """Features, those that are mostly zero apart: (n, full), (n, sparse), and (q,) which are full."""

    full: Floats
    sparse: csr_array
    often: Bools

    @staticmethod
    def of(phi: Floats) -> Columns:
        """Return features, (n, q), in this form."""
        often = np.count_nonzero(phi, axis=0) > _OFTEN * len(phi)
        return Columns(np.ascontiguousarray(phi[:, often]), csr_array(phi[:, ~often]), often)

    def times(self, slopes: Floats) -> Floats:
        """Return (n, c) phi @ slopes, (q, c)."""
        product: Floats = self.full @ slopes[self.often]
        product += self.sparse @ slopes[~self.often]
        return product

    def pulled(self, values: Floats) -> Floats:
        """Return (q, c) phi' @ values, (n, c)."""
        product = np.empty((len(self.often), values.shape[1]), values.dtype)
        product[self.often], product[~self.often] = self.full.T @ values, self.sparse.T @ values
        return product


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each menu was drawn at each of U rows.

    Of the rows (U, q) phi, (U,) strata, ascending, which are rows of `offset`, (strata, M) log shares of the base, and
    weight in all; of the cells that were drawn at all, by row, (C,) row, menu and weight; and the menus.
    """

    phi: Floats
    stratum: Ints
    total: Floats
    row: Ints
    menu: Ints
    weight: Floats
    offset: Floats
    menus: Menus

    @cached_property
    def columns(self) -> Columns:
        """The features, for quick products."""
        return Columns.of(self.phi)

    def loss(self, slopes: Slopes) -> tuple[float, Slopes]:
        """Return the weighted log loss summed over draws and its gradient."""
        score, n_agents = self.columns.times(np.hstack([slopes.theta, slopes.w])), self.menus.n_agents
        by_pairs = self._by_pairs(score) if not slopes.v.size and self.menus.pairs is not None else None
        total, back, gradient_v = by_pairs or self._by_menus(score, slopes.v)
        slope = self.columns.pulled(back)
        return total, Slopes(slope[:, :n_agents], slope[:, n_agents:], gradient_v)

    # -- pairs ---------------------------------------------------------------------------------------------------------

    @cached_property
    def base(self) -> Floats:
        """(strata, K, K) shares of the base."""
        return self.menus.by_pair(np.exp(self.offset))

    @cached_property
    def drawn(self) -> tuple[Floats, float]:
        """(U, K) how often each agent was drawn, by weight, and the sum of offsets of what was drawn."""
        count, K = np.zeros((len(self.phi), self.menus.n_agents), np.float32), self.menus.n_agents
        for agent in self.menus.pairs or ():
            count += np.bincount(self.row * K + agent[self.menu], self.weight, count.size).reshape(count.shape)
        offset = self.offset[self.stratum[self.row], self.menu]
        return count, float(self.weight @ offset.astype(np.float64))

    def _by_pairs(self, score: Floats) -> tuple[float, Floats, Floats] | None:
        """Return the loss and its gradients in score and v, without pair terms; None as `pair_sums`."""
        sums = pair_sums(score, self.stratum, self.base)
        if sums is None:
            return None
        drawn, offset = self.drawn
        said = np.einsum("uk,uk->u", drawn, score).sum(dtype=np.float64)
        loss = float((self.total * sums.log_total).sum(dtype=np.float64) - said) - offset
        back = sums.share
        back *= self.total[:, None]
        back -= drawn
        return loss, back, np.zeros((self.menus.n_agents, 0), np.float32)

    # -- any menus -----------------------------------------------------------------------------------------------------

    def _by_menus(self, score: Floats, v: Floats) -> tuple[float, Floats, Floats]:
        """Return the loss and its gradients in score and v."""
        terms, n_agents, members = self.menus.terms(v), self.menus.n_agents, self.menus.members
        back, pull = np.zeros_like(score), np.zeros((len(terms), v.shape[1]), np.float32)
        total = 0.0
        for rows, cells in self._chunks():
            loss, residual = self._residual(score[rows], terms, rows, cells)
            total += loss
            back[rows] = residual @ terms
            pull += residual.T @ score[rows, n_agents:]
        gradient_v = members.T @ ((members @ v) * pull) - v * (members.T @ pull)
        return total, back, gradient_v

    def _residual(self, score: Floats, terms: Floats, rows: slice, cells: slice) -> tuple[float, Floats]:
        """Return the loss of some rows and (rows, M) expected less drawn, by weight."""
        logit = score @ terms.T
        logit += self.offset[self.stratum[rows]]
        at, menu, weight = self.row[cells] - rows.start, self.menu[cells], self.weight[cells]
        drawn = logit[at, menu]
        top = logit.max(axis=1, keepdims=True)
        logit -= top
        np.exp(logit, out=logit)
        size = logit.sum(axis=1, keepdims=True)
        total = self.total[rows, None]
        loss = float((total * (np.log(size) + top)).sum(dtype=np.float64) - weight @ drawn.astype(np.float64))
        logit *= total / size
        logit[at, menu] -= weight
        return loss, logit

    def _chunks(self) -> Iterator[tuple[slice, slice]]:
        step = max(1, _CHUNK_CELLS // len(self.menus))
        for start in range(0, len(self.phi), step):
            stop = min(start + step, len(self.phi))
            yield slice(start, stop), slice(*np.searchsorted(self.row, [start, stop]))

    def menu_residuals(self, slopes: Slopes) -> tuple[Floats, Floats]:
        """Return (q, M) draws less expectation of each menu, summed with weights phi, and their variances."""
        terms = self.menus.terms(slopes.v)
        score = self.columns.times(np.hstack([slopes.theta, slopes.w]))
        surplus, variance = np.zeros((2, self.phi.shape[1], len(terms)), np.float32)
        for rows, cells in self._chunks():
            residual = self._residual(score[rows], terms, rows, cells)[1]
            surplus -= self.phi[rows].T @ residual
            residual[self.row[cells] - rows.start, self.menu[cells]] += self.weight[cells]
            variance += (self.phi[rows] ** 2).T @ residual
        return surplus, variance


def distinct(rows: Floats) -> tuple[Ints, Ints]:
    """Return where each distinct row occurs first, and (n,) which of them each row is."""
    mixed = rows @ np.random.default_rng(0).uniform(1, 2, (rows.shape[1], 2)).astype(np.float32)
    _, first, place = np.unique(mixed.view(np.uint64).ravel(), return_index=True, return_inverse=True)
    if len(first) == len(rows) or (rows[first][place] == rows).all():
        return first, place
    _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, place
