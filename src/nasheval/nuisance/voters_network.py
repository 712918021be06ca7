"""The network behind the latent voters: many small models of one shape, evaluated and trained as one.

Parameters are arrays with a leading axis of models:

    hidden_0, hidden_1, ...    (models, inputs, width)
    bias_0, bias_1, ...        (models, 1, width)
    head                       (models, width, K V + K + 1): voters' own, shared by all voters, lean to ties
    taste                      (models, K, V) what each voter adds to an agent everywhere
    logit                      (models, V) of the mixture weights
    tie                        (models, T) log tie weights, as in `Question`
    lean                       (models, V) each voter's lean to ties
    named                      (models, names, V) while training: what each named voter adds to the logits
    pooled                     (models, K) pooled utilities: fixed; all of the above are penalised toward them

so u_v(x, j) = pooled_j + taste_vj + shared_j(x) + own_vj(x): voters share their sense of quality and differ in taste.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.nuisance.training import Layer, Tensor, initial_layers, last_hidden

FIXED = ("pooled",)
DECAYED = ("hidden", "head", "taste")
GAIN = 2.0  # of the last hidden layer: lets utilities grow fast from a head that starts at zero
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
    """

    inputs: int
    agents: int
    voters: int
    hidden: tuple[int, ...]
    ties: int

    @property
    def outputs(self) -> int:
        """Columns of the head."""
        return self.agents * self.voters + self.agents + 1


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

    Args:
        rngs: one per model.
        voters: (models,) number of voters.
        spread: (models,) root mean square length of the contexts, relevance counted in.
        pooled: (models, K).
        tie: (models, T).
        names: voters who are distinguished by name; 1 for none.
    """
    models = len(rngs)
    drawn: dict[str, list[Floats]] = {}
    for rng, scale, count in zip(rngs, spread, voters, strict=True):
        layers = initial_layers(rng, (shape.inputs, *shape.hidden), 1.4, spread=float(scale))
        for layer, (weights, biases) in enumerate(layers):
            drawn.setdefault(f"hidden_{layer}", []).append(weights)
            drawn.setdefault(f"bias_{layer}", []).append(biases[None])
        taste = rng.standard_normal((shape.agents, shape.voters)) * 0.5 * (count > 1)
        drawn.setdefault("taste", []).append(taste)
    parameters = {name: np.stack(values) for name, values in drawn.items()}
    parameters["head"] = np.zeros((models, shape.hidden[-1], shape.outputs))
    parameters["logit"] = np.where(np.arange(shape.voters) < voters[:, None], 0.0, _OUT)
    if names > 1:
        parameters["named"] = np.zeros((models, names, shape.voters))
    parameters |= {"tie": tie, "lean": np.zeros((models, shape.voters)), "pooled": pooled}
    return {name: np.ascontiguousarray(values, np.float32) for name, values in parameters.items()}


def pooled_only(parameters: dict[str, Floats]) -> dict[str, Floats]:
    """Return the parameters of the pooled model itself: all voters alike, nothing depends on the context."""
    return parameters | {name: np.zeros_like(parameters[name]) for name in ("taste", "head")}


def _layers(p: Mapping[str, Any], shape: Shape) -> list[Layer]:
    return [(p[f"hidden_{i}"], p[f"bias_{i}"], "silu" if i else "sin") for i in range(len(shape.hidden))]


def hidden(p: dict[str, Tensor], x: Tensor, shape: Shape) -> Tensor:
    """Return (models, n, width) what the head is multiplied by, at contexts x, (models, n, inputs)."""
    return last_hidden(x, _layers(p, shape)) * GAIN


def forward(p: dict[str, Tensor], x: Tensor, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Return utilities (models, n, K, V), log weights (models, 1, V) and lean to ties (models, n, 1).

    Args:
        x: (models, n, inputs).
    """
    import torch

    out = torch.bmm(hidden(p, x, shape), p["head"])
    K, V = shape.agents, shape.voters
    own, shared, lean = out[..., : K * V], out[..., K * V : K * V + K], out[..., K * V + K :]
    u = own.view(*own.shape[:2], K, V) + (shared.unsqueeze(-1) + (p["taste"] + p["pooled"].unsqueeze(-1)).unsqueeze(1))
    return u, torch.log_softmax(p["logit"].unsqueeze(1), -1), lean


def forward_one(p: dict[str, Floats], x: Floats, shape: Shape) -> tuple[Floats, Floats, Floats]:
    """Return utilities (V, K, n), weights (V, 1) and lean to ties (n,) of one model, in NumPy.

    Args:
        p: parameters without the axis of models.
        x: (n, inputs).
    """
    K, V = shape.agents, shape.voters
    out = (last_hidden(x, _layers(p, shape)) @ (p["head"] * np.float32(GAIN))).T
    u = out[: K * V].reshape(K, V, -1) + out[K * V : K * V + K, None] + (p["taste"] + p["pooled"][:, None])[..., None]
    logit = p["logit"][:, None]
    weight = np.exp(logit - logit.max(axis=0))
    return np.ascontiguousarray(u.transpose(1, 0, 2)), weight / weight.sum(axis=0), out[K * V + K]


@dataclass(frozen=True, eq=False)
class Stack:
    """Many models made ready to answer together: what is added to every voter's utilities is part of one head.

    Args:
        layers: weights (models, before, after) and biases (models, 1, after).
        head: (models, width, V K + 1): utilities voter by voter, and the lean to ties.
        taste: (models, 1, V, K) what each voter adds to an agent everywhere.
        weight: (models, V) of the mixture.
        lean: (models, 1, V) each voter's lean to ties.
        tie: (models, T) log tie weights.
    """

    layers: tuple[Layer, ...]
    head: Floats
    taste: Floats
    weight: Floats
    lean: Floats
    tie: Floats

    @staticmethod
    def of(p: Mapping[str, Floats], shape: Shape) -> Stack:
        """Return the models of parameters p, with a leading axis of models."""
        K, V = shape.agents, shape.voters
        models, width = p["head"].shape[:2]
        own, shared, lean = np.split(p["head"] * np.float32(GAIN), [K * V, K * V + K], axis=-1)
        head = own.reshape(models, width, K, V).swapaxes(2, 3) + shared[:, :, None]
        weight = np.exp(p["logit"] - p["logit"].max(axis=-1, keepdims=True))
        return Stack(
            tuple(_layers(p, shape)),
            np.concatenate([head.reshape(models, width, V * K), lean], axis=-1),
            np.ascontiguousarray((p["taste"] + p["pooled"][..., None]).swapaxes(1, 2))[:, None],
            weight / weight.sum(axis=-1, keepdims=True),
            np.array(p["lean"])[:, None],  # a copy: compiled code takes arrays that may be written to
            p["tie"],
        )

    def __getitem__(self, models: slice) -> Stack:
        layers = tuple((weights[models], biases[models], activation) for weights, biases, activation in self.layers)
        return Stack(layers, *(getattr(self, name)[models] for name in ("head", "taste", "weight", "lean", "tie")))

    def outputs(self, x: Floats) -> Floats:
        """Return what the networks put out, (models, n, V K + 1), at contexts x, (n, inputs)."""
        return np.asarray(last_hidden(x[None], self.layers) @ self.head)

    def forward(self, x: Floats) -> tuple[Floats, Floats]:
        """Return utilities (models, n, V, K) and the voters' lean to ties (models, n, V) at contexts x, (n, inputs)."""
        out = self.outputs(x)
        u = out[..., :-1].reshape(*out.shape[:2], *self.taste.shape[2:])
        u += self.taste
        return u, out[..., -1:] + self.lean


def slopes_of(parameters: dict[str, Floats], x: Floats, seen: list[Ints], shape: Shape) -> Floats:
    """Return (models, inputs) how strongly the population's margins change with each input: root mean squares.

    They are taken at some of the contexts that each model may see. Every context draws pairs and gives each a random
    sign, so that the squares of one backward pass are on average those of its pairs, added.
    """
    import torch

    rng, (contexts, pairs) = np.random.default_rng(0), _SLOPES
    rows = np.stack([np.resize(rng.permutation(own), contexts) for own in seen])
    at = torch.from_numpy(x[rows]).requires_grad_()
    u, log_weight, _ = forward({name: torch.from_numpy(value) for name, value in parameters.items()}, at, shape)
    first = rng.integers(shape.agents, size=(*rows.shape, pairs, 1))
    second = (first + rng.integers(1, shape.agents, size=first.shape)) % shape.agents
    j, k = (torch.from_numpy(side).expand(-1, -1, -1, shape.voters) for side in (first, second))
    margin = (torch.tanh((u.gather(2, j) - u.gather(2, k)) / 2) * log_weight.exp().unsqueeze(2)).sum(-1)
    signs = torch.from_numpy(rng.choice(np.array([-1, 1], np.float32), margin.shape))
    (slope,) = torch.autograd.grad((margin * signs).sum(), at)
    return slope.square().mean(1).sqrt().numpy().astype(np.float64)
