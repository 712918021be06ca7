"""What the two networks of this package share: that of latent voters and that of learned policies.

Both read a context through Fourier features and dense layers. Parameters are plain arrays, the same for PyTorch, which
trains them, and for NumPy, which answers with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import cos, pi
from typing import Any, Literal

import numpy as np

from nasheval.arrays import Array, Floats

Tensor = Any  # torch is imported by those who call, never by importing this module
Activation = Literal["sin", "relu", "silu"]
# Weights (before, after), biases (after,), both with a leading axis of models or none, and the activation that follows.
Layer = tuple[Any, Any, Activation]
_RISE = 0.3  # share of the training over which the learning rate rises
_ROWS = 1 << 18  # contexts squared at a time


def to_device(values: Array, device: Any) -> Tensor:
    """Return a copy of an array as a tensor on a device; what runs there does not wait for it."""
    import torch

    here = torch.from_numpy(np.array(values))
    return here if torch.device(device).type == "cpu" else here.pin_memory().to(device, non_blocking=True)


class Adam:
    """Adam by PyTorch's fused step, which `torch.optim.Adam` makes too, after seconds of importing a compiler.

    What that does before each step takes longer than the step of a small network.

    Args:
        parameters: what is learned; one without a gradient stays as it is.
        betas: of the running means of gradients and of their squares.
    """

    def __init__(self, parameters: Iterable[Tensor], betas: tuple[float, float]) -> None:
        import torch

        self.parameters, self.betas = list(parameters), betas
        means = [[torch.zeros_like(p, requires_grad=False) for p in self.parameters] for _ in range(2)]
        self.state = [*means, [torch.zeros((), device=p.device) for p in self.parameters]]

    def forget(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    def step(self, rate: float) -> None:
        """Step along the gradients, at a learning rate."""
        import torch

        at = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        if not at:
            return
        first, second, steps = ([values[i] for i in at] for values in self.state)
        params, (one, two) = [self.parameters[i] for i in at], self.betas
        how: dict[str, Any] = {"amsgrad": False, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}
        with torch.no_grad():
            torch._foreach_add_(steps, 1)
            torch._fused_adam_(
                params, [p.grad for p in params], first, second, [], steps, beta1=one, beta2=two, lr=rate, **how
            )


def one_cycle(progress: float) -> float:
    """Return the learning rate at a share of the whole training, over the highest one: up, then down to nothing."""
    if progress < _RISE:
        return 0.04 + 0.96 * (0.5 - 0.5 * cos(pi * progress / _RISE))
    return 0.5 + 0.5 * cos(pi * (progress - _RISE) / (1 - _RISE))


def spread_of(x: Floats, relevance: Floats | float = 1.0) -> float:
    """Return the root mean square length of contexts x, (n, inputs), each input multiplied by its relevance.

    It is at least 0.001, and 1 without contexts: Fourier features divide by it.
    """
    sums = [(x[start : start + _ROWS].astype(np.float64) ** 2).sum(axis=0) for start in range(0, len(x), _ROWS)]
    square = sum(sums) / len(x) @ np.broadcast_to(relevance, x.shape[1]) ** 2 if len(x) else 1.0
    return max(float(np.sqrt(square)), 1e-3)


def initial_layers(
    rng: np.random.Generator, widths: Iterable[int], gain: float, *, spread: float | None
) -> list[tuple[Floats, Floats]]:
    """Draw weights (before, after) and biases (after,) to start from, one layer for each step between the widths.

    Args:
        gain: standard deviation of the weights, times the root of the inputs.
        spread: of the contexts (`spread_of`), where the first layer draws Fourier features: sin(x weights + biases),
            with phases over about one turn of a typical context. None: it is like the others.
    """
    layers: list[tuple[Floats, Floats]] = []
    for before, after in pairwise(widths):
        if not layers and spread is not None:
            weights = rng.standard_normal((before, after)) / spread
            layers.append((weights, rng.uniform(-pi, pi, after)))
        else:
            weights = rng.standard_normal((before, after)) * (gain / np.sqrt(max(before, 1)))
            layers.append((weights, np.zeros(after)))
    return layers


def last_hidden(x: Any, layers: Iterable[Layer]) -> Any:
    """Return the last hidden layer, (..., n, width), at contexts x, (..., n, inputs), in NumPy or PyTorch, as x is."""
    step = _in_numpy if isinstance(x, np.ndarray) else _in_torch
    for weights, biases, activation in layers:
        x = step(x, weights, biases, activation)
    return x


def _in_numpy(x: Floats, weights: Floats, biases: Floats, activation: Activation) -> Floats:
    z = x @ weights
    z += biases
    match activation:
        case "sin":
            return np.sin(z, out=z)
        case "relu":
            return np.maximum(z, 0.0, out=z)
        case "silu":
            share = 0.5 * z
            np.tanh(share, out=share)
            share *= 0.5
            share += 0.5
            z *= share
            return z


def _in_torch(x: Tensor, weights: Tensor, biases: Tensor, activation: Activation) -> Tensor:
    import torch

    z = (torch.baddbmm if x.dim() == 3 else torch.addmm)(biases, x, weights)
    return torch.nn.functional.silu(z) if activation == "silu" else getattr(torch, activation)(z)
