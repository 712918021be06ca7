"""The network behind a learned policy: context -> lottery, one set of parameters for PyTorch and NumPy.

Parameters are float32 arrays:

    wave, phase                (inputs, waves), (waves,)    sin(x wave + phase); absent without Fourier features
    hidden_0, bias_0, ...      (before, width), (width,)    ReLU
    head, lean                 (width, K), (K,)             then softmax or sparsemax
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import pi
from typing import Any, Literal, get_args

import numpy as np

from nasheval.arrays import Floats
from nasheval.game.regularizers import project

Tensor = Any
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
        K = len(self.parameters["lean"])
        found = np.empty((len(x), K))
        for start in range(0, len(x), _ROWS):
            found[start : start + _ROWS] = self._scores(x[start : start + _ROWS])
        if self.output == "sparsemax":
            return project(found)
        weight = np.exp(found - found.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def _scores(self, x: Floats) -> Floats:
        p = self.parameters
        if "wave" in p:
            x = np.sin(x @ p["wave"] + p["phase"])
        for layer in range(depth(p)):
            x = x @ p[f"hidden_{layer}"]
            x += p[f"bias_{layer}"]
            np.maximum(x, 0.0, out=x)
        return np.asarray(x @ p["head"] + p["lean"])

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


def initial(
    inputs: int, agents: int, hidden: tuple[int, ...], waves: int, spread: float, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return parameters to start from, at which every lottery is uniform: no agent is out before it was tried.

    Args:
        hidden: widths of the ReLU layers.
        waves: number of Fourier features, 0 for none; their phases go over about one turn of a typical context.
        spread: root mean square length of the contexts.
    """
    p: dict[str, Floats] = {}
    if waves:
        p["wave"], p["phase"] = rng.standard_normal((inputs, waves)) / spread, rng.uniform(-pi, pi, waves)
    for layer, (before, after) in enumerate(pairwise((waves or inputs, *hidden))):
        p[f"hidden_{layer}"] = rng.standard_normal((before, after)) * np.sqrt(2 / max(before, 1))
        p[f"bias_{layer}"] = np.zeros(after)
    p["head"], p["lean"] = np.zeros((hidden[-1], agents)), np.zeros(agents)
    return {name: values.astype(np.float32) for name, values in p.items()}


def forward(p: Mapping[str, Tensor], x: Tensor, output: Output) -> Tensor:
    """Return lotteries (n, K) at contexts x (n, inputs), in PyTorch."""
    import torch

    from nasheval.game.torch_gap import project as sparsemax

    if "wave" in p:
        x = torch.sin(torch.addmm(p["phase"], x, p["wave"]))
    for layer in range(depth(p)):
        x = torch.relu(torch.addmm(p[f"bias_{layer}"], x, p[f"hidden_{layer}"]))
    scores = torch.addmm(p["lean"], x, p["head"])
    return sparsemax(scores) if output == "sparsemax" else torch.softmax(scores, -1)
