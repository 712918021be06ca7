"""The network behind a learned policy: context -> lottery, one set of parameters for PyTorch and NumPy.

Parameters are float32 arrays:

    wave, phase                (inputs, waves), (waves,)    sin(x wave + phase); absent without Fourier features
    hidden_0, bias_0, ...      (before, width), (width,)    ReLU
    head, lean                 (width, K), (K,)             then softmax or sparsemax
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from nasheval.arrays import Floats
from nasheval.game.regularizers import project
from nasheval.nuisance.training import Layer, Tensor, initial_layers, last_hidden

Output = Literal["softmax", "sparsemax"]
OUTPUTS: tuple[Output, ...] = get_args(Output)
_ROWS = 1 << 12  # contexts at a time: their hidden layers stay in cache


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network.

    Args:
        output: "softmax", or "sparsemax" for exact zeros.
        parameters: as above.
    """

    output: Output
    parameters: dict[str, Floats]

    def lotteries(self, x: Floats) -> Floats:
        """Return (n, K) float64 lotteries at contexts x, (n, inputs) float32; rows sum to one."""
        p = self.parameters
        scores = np.empty((len(x), len(p["lean"])))
        for start in range(0, len(x), _ROWS):
            rows = slice(start, start + _ROWS)
            scores[rows] = last_hidden(x[rows], _layers(p)) @ p["head"] + p["lean"]
        if self.output == "sparsemax":
            return project(scores)
        weight = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True)

    def to_arrays(self) -> dict[str, Floats]:
        """Return everything as plain arrays, for a file; `from_arrays` is the way back."""
        return {"output": np.array(OUTPUTS.index(self.output)), **self.parameters}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Network:
        """Return the network that `to_arrays` wrote."""
        parameters = {name: np.asarray(values) for name, values in arrays.items() if name != "output"}
        return cls(OUTPUTS[int(arrays["output"])], parameters)


def depth(parameters: Mapping[str, Any]) -> int:
    """Return the number of ReLU layers."""
    return sum(name.startswith("hidden_") for name in parameters)


def _layers(p: Mapping[str, Any]) -> list[Layer]:
    layers: list[Layer] = [(p["wave"], p["phase"], "sin")] if "wave" in p else []
    return layers + [(p[f"hidden_{layer}"], p[f"bias_{layer}"], "relu") for layer in range(depth(p))]


def initial(
    inputs: int, agents: int, hidden: tuple[int, ...], waves: int, spread: float, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return parameters to start from, at which every lottery is uniform: no agent is out before it was tried.

    Args:
        hidden: widths of the ReLU layers.
        waves: number of Fourier features, 0 for none; their phases go over about one turn of a typical context.
        spread: root mean square length of the contexts.
    """
    widths = (inputs, waves, *hidden) if waves else (inputs, *hidden)
    names = [("wave", "phase")] * (waves > 0) + [(f"hidden_{layer}", f"bias_{layer}") for layer in range(len(hidden))]
    drawn = initial_layers(rng, widths, 2**0.5, spread=spread if waves else None)
    p = {
        name: values for pair, layer in zip(names, drawn, strict=True) for name, values in zip(pair, layer, strict=True)
    }
    p["head"], p["lean"] = np.zeros((hidden[-1], agents)), np.zeros(agents)
    return {name: values.astype(np.float32) for name, values in p.items()}


def forward(p: Mapping[str, Tensor], x: Tensor, output: Output) -> Tensor:
    """Return lotteries (n, K) at contexts x (n, inputs), in PyTorch."""
    import torch

    from nasheval.game.torch_gap import project as sparsemax

    scores = torch.addmm(p["lean"], last_hidden(x, _layers(p)), p["head"])
    return sparsemax(scores) if output == "sparsemax" else torch.softmax(scores, -1)
