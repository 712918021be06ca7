"""A(x) at many contexts on a GPU: utilities, margins and games stay there until they are solved.

PyTorch is imported where there is a card and enough to do for it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nasheval.arrays import Array, Floats, Ints
from nasheval.game.checks import games_of
from nasheval.nuisance.learners import Features
from nasheval.nuisance.training import Tensor, to_device
from nasheval.payoff.bridging import VoterBridge
from nasheval.payoff.second_stage import PayoffModel

if TYPE_CHECKING:
    from nasheval.nuisance.voters import VoterModels

LEAST = 1 << 15  # contexts times agents from which a card is faster: starting what it does takes 10 to 30 ms
_CELLS = 1 << 26  # payoffs held there at a time: 512 MB, and a few times that while they are solved
_MOST = 1 << 17  # contexts likewise
CARD = "cuda"  # the device of PyTorch
_DRIVERS = ("libcuda.so.1", "nvcuda.dll")


@cache
def has_card() -> bool:
    """Tell whether PyTorch sees a GPU; without a driver, PyTorch is not even imported."""
    if "torch" not in sys.modules and not any(_loads(driver) for driver in _DRIVERS):
        return False
    import torch

    return torch.cuda.is_available()


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def card_rows(device: str, n: int, n_agents: int) -> Iterator[slice]:
    """Yield stretches of range(n), from the first on, that the card answers; the rest, if any, is for the processor.

    Stretches are powers of two, so that a file's answers do not depend on where it is cut.

    Args:
        device: "cpu" for none; else the card, where there is one.
    """
    if device == "cpu" or n * n_agents < LEAST or not has_card():
        return
    step = min(_MOST, 1 << (max(1, _CELLS // n_agents**2).bit_length() - 1))
    for start in range(0, n, step):
        stop = min(start + step, n)
        if stop == start + step or (stop - start) * n_agents >= LEAST:
            yield slice(start, stop)


def payoffs(model: PayoffModel, X: Features, device: str) -> Floats:
    """Return A(x), (n, K, K), as `model.predict` does, from the card where that is faster."""
    K, first = model.n_agents, 0
    if not (stretches := list(card_rows(device, len(X), K))):
        return model.predict(X)
    games = np.empty((len(X), K, K))
    for rows in stretches:
        games[rows] = games_of(pairs_on_card(model, X[rows]).cpu().numpy(), K)
        first = rows.stop
    if first < len(X):
        games[first:] = model.predict(X[first:])
    return games


def games_on_card(model: PayoffModel, X: Features) -> Tensor:
    """Return A(x), (n, K, K) float64, as a tensor on the card."""
    pairs, K = pairs_on_card(model, X), model.n_agents
    j, k = np.triu_indices(K, 1)
    games = pairs.new_zeros((len(X), K * K))
    games[:, _put(j * K + k)] = pairs
    games = games.view(-1, K, K)
    return games - games.mT


def pairs_on_card(model: PayoffModel, X: Features) -> Tensor:
    """Return A_jk(x) for j < k, (n, n_pairs) float64, on the card: said by latent voters there, or moved there."""
    if (voters := _voters_of(model)) is None:
        return _put(model.predict_pairs(X))
    from nasheval.nuisance.voters_torch import mean_answers

    mu = mean_answers(voters.models, X.network, voters.models.probes, CARD)
    payoffs = mu.new_zeros((len(X), len(model.status)))
    payoffs[:, _put(voters.pairs)] = mu
    if model.added is not None or (model.surface is not None and model.strength is not None):
        payoffs += _put(model.correction(X))
    payoffs.clamp_(-1.0, 1.0)
    if isinstance(model.bridge, VoterBridge):
        payoffs[:, _put(model.bridge.pairs)] = mean_answers(voters.models, X.network, model.bridge.probes, CARD)
    return payoffs


class _Voters(NamedTuple):
    """Latent voters who are asked about one menu for each covered pair, (c,) numbers of pairs."""

    models: VoterModels
    pairs: Ints


def _voters_of(model: PayoffModel) -> _Voters | None:
    """Return the voters behind a payoff model, None where PyTorch does not know how they answer."""
    from nasheval.nuisance.voters import VoterModels
    from nasheval.nuisance.voters_torch import can_answer

    if model.plugin is None or not isinstance(voters := model.plugin.outcome_models, VoterModels):
        return None
    if model.style is not None:  # taken off on the processor
        return None
    if model.surface is not None and model.strength is None:  # pairs of an update beside a surface that was regressed
        return None
    asked, pairs = [voters.probes], model.plugin.aggregation.single
    if isinstance(model.bridge, VoterBridge):
        asked.append(model.bridge.probes)
    elif model.bridge is not None:
        return None
    return _Voters(voters, pairs) if pairs is not None and all(can_answer(voters, one) for one in asked) else None


def _put(values: Array) -> Tensor:
    return to_device(values.astype(np.int64) if values.dtype.kind == "i" else values, CARD)
