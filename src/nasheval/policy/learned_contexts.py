"""The contexts that a policy is trained at: the log's own, and mixtures of them, since A(x) can be asked anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.contexts.columns import NumericColumn, VectorColumn
from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import InputError
from nasheval.nuisance.learners import Features
from nasheval.payoff.second_stage import PayoffModel

_CELLS = 1 << 27  # payoffs held in all: 512 MB as float32
_ROWS = 1 << 12  # contexts asked at a time


@dataclass(frozen=True, eq=False)
class Games:
    """Contexts with the games to play there.

    Args:
        x: (N, inputs) float32, encoded for a network.
        pairs: (N, n_pairs) float32, A_jk(x) for j < k.
        costs: (K,) or (N, K), or None.
        held: (N,) which contexts are held out; never a mixture.
    """

    x: Floats
    pairs: Floats
    costs: Floats | None
    held: Bools


def gather(
    payoff: PayoffModel,
    encoder: ContextEncoder,
    X: Features,
    costs: Floats | None,
    *,
    extra: int,
    held_out: float,
    rng: np.random.Generator,
) -> Games:
    """Ask the payoff model at the contexts of a log and at mixtures of those that are not held out.

    Where all would not fit into 512 MB, contexts are drawn first, then mixtures are left out.

    Args:
        X: the n contexts of the log.
        costs: (K,) or (n, K), or None.
        extra: number of mixtures.
        held_out: share of contexts that choose the best epoch.
    """
    if len(X) < 2:
        raise InputError(f"A learned policy needs at least 2 contexts, and the log has {len(X)}; use ExactPolicy.")
    most = max(2, _CELLS // max(1, len(payoff.covered)))
    order = rng.permutation(len(X))[:most]
    check, train = np.split(order, [min(len(order) - 1, max(1, round(held_out * len(order))))])
    extra = min(extra, most - len(order))
    own = np.concatenate([check, train])
    one, other = rng.choice(train, extra), rng.choice(train, extra)
    share = rng.uniform(0.5, 1.0, extra)
    mixed = mixtures(X, mixable(encoder), one, other, share)
    if costs is not None and costs.ndim == 2:
        weight = share[:, None]
        costs = np.concatenate([costs[own], weight * costs[one] + (1 - weight) * costs[other]])
    return Games(
        np.ascontiguousarray(np.concatenate([X.network[own], mixed.network]), np.float32),
        np.concatenate([_payoffs(payoff, X[own]), _payoffs(payoff, mixed)]),
        costs,
        np.arange(len(own) + len(one)) < len(check),
    )


def _payoffs(payoff: PayoffModel, X: Features) -> Floats:
    """Return A_jk(x) for j < k, (n, n_pairs) float32, without all of it in float64 at any time."""
    pairs = np.empty((len(X), len(payoff.covered)), np.float32)
    for start in range(0, len(X), _ROWS):
        pairs[start : start + _ROWS] = payoff.predict_pairs(X[start : start + _ROWS])
    return pairs


def mixable(encoder: ContextEncoder) -> tuple[Bools, Ints]:
    """Return which columns for trees can be mixed, (p,), and for each column for networks which of them it is, (q,).

    Numbers, vectors and texts can; what is not one of them has -1.
    """
    p, q = (len(encoder.feature_names(form)) for form in ("trees", "network"))
    numeric, source = np.zeros(p, bool), np.full(q, -1)
    tree = place = 0
    for fitted in encoder.columns:
        width = len(fitted.names("trees"))
        if isinstance(fitted, NumericColumn | VectorColumn):
            numeric[tree : tree + width], source[place : place + width] = True, np.arange(tree, tree + width)
        tree, place = tree + width, place + len(fitted.names("network"))
    numeric[tree:], source[place:] = True, np.arange(tree, p)
    return numeric, source


def mixtures(X: Features, columns: tuple[Bools, Ints], one: Ints, other: Ints, share: Floats) -> Features:
    """Return contexts share * X[one] + (1 - share) * X[other], (m,), the same in both forms.

    Columns that cannot be mixed, and numbers that one of the two lacks, are those of `one`.

    Args:
        columns: as `mixable` gives them.
    """
    numeric, source = columns
    both = numeric & np.isfinite(X.trees[one]) & np.isfinite(X.trees[other])
    weight = np.where(both, share[:, None], 1.0).astype(np.float32)
    at_network = np.where(source >= 0, weight[:, source], np.float32(1.0))
    return Features(
        np.where(both, weight * X.trees[one] + (1 - weight) * X.trees[other], X.trees[one]),
        at_network * X.network[one] + (1 - at_network) * X.network[other],
        X.categorical,
        X.names,
        X.vectors,
    )
