"""The network behind the latent voters: many small models of one shape, evaluated and trained as one.

Parameters are arrays with a leading axis of models:

    hidden_0, hidden_1, ...    (models, inputs, width)
    bias_0, bias_1, ...        (models, 1, width)
    head                       (models, width, K V + K + 1 [+ V]): voters' own, shared by all voters, lean to ties
                               [, weights]
    taste                      (models, K, V) what each voter adds to an agent everywhere
    logit                      (models, V) of the mixture weights
    tie                        (models, T) log tie weights, as in `Question`
    lean                       (models, V) each voter's lean to ties
    named                      (models, names, V) while training: what each named voter adds to the logits
    pooled                     (models, K) pooled utilities: fixed; all of the above are penalised toward them

so u_v(x, j) = pooled_j + taste_vj + shared_j(x) + own_vj(x): voters share their sense of quality and differ in taste.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import pi
from typing import Any

import numpy as np

from nasheval.arrays import Floats, Ints

Tensor = Any
FIXED = ("pooled",)
DECAYED = ("hidden", "head", "taste")
_GAIN = 2.0  # of the last hidden layer: lets utilities grow fast from a head that starts at zero
_OUT = -1e4  # log of a weight that is zero
_SLOPES = (256, 16)  # contexts, and pairs at each, of which the slopes are taken


@dataclass(frozen=True)
class Shape:
    """What all models of a batch have in common.

    Args:
        inputs: features of a context.
        agents: K.
        voters: V, of the model that has most; others give the rest no weight.
        hidden: widths of the hidden layers.
        ties: T, number of tie parameters.
        context_weights: whether mixture weights depend on the context.
    """

    inputs: int
    agents: int
    voters: int
    hidden: tuple[int, ...]
    ties: int
    context_weights: bool = False

    @property
    def outputs(self) -> int:
        """Columns of the head."""
        return self.agents * self.voters + self.agents + 1 + self.voters * self.context_weights


def initial(
    shape: Shape,
    rngs: list[np.random.Generator],
    voters: Ints,
    spread: Floats,
    pooled: Floats,
    tie: Floats,
    names: int = 1,
) -> dict[str, Floats]:
    """Return parameters at which every model is the pooled one, up to the small differences that voters start with.

    The first layer draws Fourier features: sin(w x + b), with phases over one turn of a typical context.

    Args:
        rngs: one a model.
        voters: (models,) number of voters.
        spread: (models,) root mean square length of the contexts, relevance counted in.
        pooled: (models, K).
        tie: (models, T).
        names: voters who are told apart; 1 for none.
    """
    models, widths = len(rngs), (shape.inputs, *shape.hidden)
    drawn: dict[str, list[Floats]] = {}
    for rng, scale, count in zip(rngs, spread, voters, strict=True):
        for layer, (before, after) in enumerate(pairwise(widths)):
            size = 1.0 / scale if layer == 0 else 1.4 / np.sqrt(before)
            drawn.setdefault(f"hidden_{layer}", []).append(rng.standard_normal((before, after)) * size)
            bias = rng.uniform(-pi, pi, (1, after)) if layer == 0 else np.zeros((1, after))
            drawn.setdefault(f"bias_{layer}", []).append(bias)
        taste = rng.standard_normal((shape.agents, shape.voters)) * 0.5 * (count > 1)
        drawn.setdefault("taste", []).append(taste)
    parameters = {name: np.stack(parts) for name, parts in drawn.items()}
    parameters["head"] = np.zeros((models, shape.hidden[-1], shape.outputs))
    parameters["logit"] = np.where(np.arange(shape.voters) < voters[:, None], 0.0, _OUT)
    if names > 1:
        parameters["named"] = np.zeros((models, names, shape.voters))
    parameters |= {"tie": tie, "lean": np.zeros((models, shape.voters)), "pooled": pooled}
    return {name: np.ascontiguousarray(values, np.float32) for name, values in parameters.items()}


def pooled_only(parameters: dict[str, Floats]) -> dict[str, Floats]:
    """Return the parameters of the pooled model itself: all voters alike, nothing depends on the context."""
    return parameters | {name: np.zeros_like(parameters[name]) for name in ("taste", "head")}


def forward(
    p: dict[str, Tensor], x: Tensor, shape: Shape, noise: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return utilities (models, n, K, V), log weights (models, n or 1, V) and lean to ties (models, n, 1).

    Args:
        x: (models, n, inputs).
        noise: (models, n, width) what dropout multiplies the last hidden layer by, or None.
    """
    import torch

    hidden = torch.sin(torch.baddbmm(p["bias_0"], x, p["hidden_0"]))
    for layer in range(1, len(shape.hidden)):
        hidden = torch.nn.functional.silu(torch.baddbmm(p[f"bias_{layer}"], hidden, p[f"hidden_{layer}"]))
    if noise is not None:
        hidden = hidden * noise
    out = torch.bmm(hidden, p["head"] * _GAIN)
    K, V = shape.agents, shape.voters
    own, shared, lean = out[..., : K * V], out[..., K * V : K * V + K], out[..., K * V + K : K * V + K + 1]
    u = own.view(*own.shape[:2], K, V) + (shared.unsqueeze(-1) + (p["taste"] + p["pooled"].unsqueeze(-1)).unsqueeze(1))
    logit = p["logit"].unsqueeze(1)
    if shape.context_weights:
        logit = logit + out[..., K * V + K + 1 :]
    return u, torch.log_softmax(logit, -1), lean


def forward_one(p: dict[str, Floats], x: Floats, shape: Shape) -> tuple[Floats, Floats, Floats]:
    """Return utilities (V, K, n), weights (V, n or 1) and lean to ties (n,) of one model, in NumPy.

    Args:
        p: parameters without the axis of models.
        x: (n, inputs).
    """
    hidden = np.sin(x @ p["hidden_0"] + p["bias_0"])
    for layer in range(1, len(shape.hidden)):
        z = hidden @ p[f"hidden_{layer}"] + p[f"bias_{layer}"]
        hidden = z * (0.5 + 0.5 * np.tanh(0.5 * z))
    K, V = shape.agents, shape.voters
    out = (hidden @ (p["head"] * np.float32(_GAIN))).T
    u = out[: K * V].reshape(K, V, -1) + out[K * V : K * V + K, None] + (p["taste"] + p["pooled"][:, None])[..., None]
    logit = p["logit"][:, None] + (out[K * V + K + 1 :] if shape.context_weights else 0.0)
    weight = np.exp(logit - logit.max(axis=0))
    return np.ascontiguousarray(u.transpose(1, 0, 2)), weight / weight.sum(axis=0), out[K * V + K]


def spread_of(x: Floats, relevance: Floats, seen: list[Ints]) -> Floats:
    """Return (models,) the root mean square length of the contexts that each model may see, relevance counted in.

    Args:
        relevance: (models, inputs).
    """
    squares = x.astype(np.float64) ** 2
    found = [
        squares[rows].mean(axis=0) @ scale**2 if len(rows) else 1.0 for rows, scale in zip(seen, relevance, strict=True)
    ]
    return np.maximum(np.sqrt(found), 1e-3)


def slopes_of(parameters: dict[str, Floats], x: Floats, seen: list[Ints], shape: Shape) -> Floats:
    """Return (models, inputs) how strongly the population's margins change with each input: root mean squares.

    They are taken at some of the contexts that each model may see. Every context draws pairs and gives each a random
    sign, so that the squares of one backward pass are on average those of its pairs, added.
    """
    import torch

    rng, (contexts, pairs) = np.random.default_rng(0), _SLOPES
    rows = np.stack([np.resize(rng.permutation(part), contexts) for part in seen])
    at = torch.from_numpy(x[rows]).requires_grad_()
    u, log_weight, _ = forward({name: torch.from_numpy(value) for name, value in parameters.items()}, at, shape)
    first = rng.integers(shape.agents, size=(*rows.shape, pairs, 1))
    second = (first + rng.integers(1, shape.agents, size=first.shape)) % shape.agents
    j, k = (torch.from_numpy(side).expand(-1, -1, -1, shape.voters) for side in (first, second))
    margin = (torch.tanh((u.gather(2, j) - u.gather(2, k)) / 2) * log_weight.exp().unsqueeze(2)).sum(-1)
    signs = torch.from_numpy(rng.choice(np.array([-1, 1], np.float32), margin.shape))
    (slope,) = torch.autograd.grad((margin * signs).sum(), at)
    return np.asarray(slope.square().mean(1).sqrt().numpy(), np.float64)
