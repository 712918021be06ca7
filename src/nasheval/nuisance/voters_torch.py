"""What latent voters say of two agents at many contexts, by PyTorch on any device; the formula of `voters_duels`.

Import this file only where PyTorch is wanted.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch

from nasheval.arrays import Array, Floats
from nasheval.nuisance.training import last_hidden, to_device
from nasheval.nuisance.voters import MOST, VoterModels
from nasheval.nuisance.voters_duels import LARGEST
from nasheval.nuisance.voters_margins import SPREAD, is_duel, stands_for_menus
from nasheval.nuisance.voters_probes import Block, Probes
from nasheval.nuisance.voters_records import Kind

Tensor: TypeAlias = torch.Tensor
_CELLS = 1 << 26  # numbers of a layer, or of all utilities, held at a time: 256 MB


def can_answer(models: VoterModels, probes: Probes) -> bool:
    """Tell whether `mean_answers` knows the form of the probes: duels, each of which makes one column."""
    pooling = probes.pooling
    if pooling is not None and not (np.diff(pooling.tocsc().indptr) == 1).all():
        return False
    asked = ((models.questions[block.question], len(block.agents)) for block in probes.blocks)
    return all(is_duel(*one) and not stands_for_menus(*one) for one in asked)


def mean_answers(models: VoterModels, x: Floats, probes: Probes, device: str) -> Tensor:
    """Return (n, columns) float64 on the device: `VoterModels.mean_answers` up to rounding in single precision.

    Args:
        x: (n, inputs) the contexts' network form.
        probes: some that `can_answer` knows.
    """
    network, pooling = _Network(models, device), probes.pooling
    chunks = to_device(np.asarray(x, np.float32), device).split(network.rows)
    spoken = torch.cat([network.mean_of(chunk, probes) for chunk in chunks])
    if pooling is not None:
        by_column = pooling.tocsc()
        spoken = spoken[:, to_device(by_column.indices.astype(np.int64), device)] * to_device(by_column.data, device)
    return spoken.clamp_(-1.0, 1.0)


class _Network:
    """All networks of the models, on a device."""

    def __init__(self, models: VoterModels, device: str) -> None:
        self.models, self.device, stack = models, device, models.stack
        self.layers = [(self._put(weights), self._put(biases), kind) for weights, biases, kind in stack.layers]
        self.head, self.taste, self.lean = (self._put(each) for each in (stack.head, stack.taste, stack.lean))
        self.folds, self.members = models.parameters["pooled"].shape[:2]
        self.weight, self.tie = stack.weight / np.float32(self.members), stack.tie
        widest = max(models.shape.outputs, *models.shape.hidden)
        self.rows = max(1, _CELLS // (self.folds * self.members * widest))

    def _put(self, values: Array) -> Tensor:
        return to_device(values, self.device)

    def mean_of(self, x: Tensor, probes: Probes) -> Tensor:
        """Return (n, pairs of the probes' menus) the voters' mean verdicts at contexts x (n, inputs)."""
        out = torch.bmm(last_hidden(x.expand(len(self.head), *x.shape), self.layers), self.head)
        u = out[..., :-1].view(*out.shape[:2], *self.taste.shape[2:]) + self.taste
        middle = (u.amax(-1) + u.amin(-1)) * 0.5
        s = ((u - middle[..., None]) * 0.5).clamp_(-LARGEST, LARGEST).exp_()
        lean, total = out[..., -1:] + self.lean, x.new_zeros((len(x), len(probes.menus.columns)), dtype=torch.float64)
        for block in probes.blocks:
            spoken = self._duels(s, self._ties(block, lean, middle), block)
            total[:, self._put(block.pairs.column.astype(np.int64))] = spoken / self.folds
        return total

    def _ties(self, block: Block, lean: Tensor, middle: Tensor) -> list[Tensor]:
        """Return the weights of ties and of both-bad answers, (models, n, V) each, of a question that has them."""
        question = self.models.questions[block.question]
        tie = self._put(self.tie[:, question.tie : question.tie + question.n_tie])[:, :, None, None]
        weights = [(tie[:, 0] + lean).clamp_max(SPREAD).exp()] if question.n_tie else []
        if question.n_tie > 1:
            log_bad = tie[:, 1] + (0.0 if question.kind == Kind.DUEL else lean)
            weights.append((log_bad - middle).clamp_max(MOST).exp())
        return weights

    def _duels(self, s: Tensor, ties: list[Tensor], block: Block) -> Tensor:
        """Return (n, c) float64 the sum over folds of what their voters say of the pairs."""
        left, right = (self._put(side.astype(np.int64)) for side in (block.pairs.left, block.pairs.right))
        total = s.new_zeros((s.shape[1], len(left)), dtype=torch.float64)
        for fold in range(self.folds):
            mean = s.new_zeros(total.shape)
            for model, voter in np.ndindex(self.members, s.shape[2]):
                place = fold * self.members + model
                if (share := float(self.weight[place, voter])) > 0:
                    mean.addcdiv_(
                        *_margins(s[place, :, voter], [t[place, :, voter] for t in ties], left, right), value=share
                    )
            total += mean
        return total


def _margins(s: Tensor, ties: list[Tensor], left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return numerators and denominators (n, c) of one voter's margins, given s (n, K)."""
    square = s * s
    win, loss = square.index_select(1, left), square.index_select(1, right)
    margin = win - loss
    whole = win.add_(loss)
    if ties:
        both = s.index_select(1, left).mul_(s.index_select(1, right))
        whole.addcmul_(ties[0][:, None], both)
    if len(ties) > 1:
        whole += ties[1][:, None]
    return margin, whole
