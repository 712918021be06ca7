"""`LearnedPolicy`: a network that maps a context to its equilibrium, trained with the gap loss.

`learned_contexts` gathers the games that it is trained on, `learned_training` holds the network and its training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.contexts.table import as_table
from nasheval.errors import InputError
from nasheval.game.costs import HardBudget, SoftBudget
from nasheval.game.regularizers import L2, Entropy, Regularizer
from nasheval.nuisance.learners import Effort, Features
from nasheval.policy.base import available
from nasheval.policy.exact import ExactEquilibria, ExactPolicy
from nasheval.policy.learned_contexts import gather
from nasheval.policy.learned_training import Network, Output, Recipe, Schedule, Training, affordable, train
from nasheval.policy.terms import AnyCosts

if TYPE_CHECKING:
    from nasheval.payoff.stage1 import Stage1

_CONTEXTS = 70_000  # with mixtures, unless the log has more
_ROUNDING = 1e-6  # of probabilities that sum to one
_SEEN = 840_000  # contexts seen in all, over all epochs
# What each search tries: hidden, rate, weight_decay, batch (Table gap-loss-ht-grid).
_WIDTHS = ((64, 64), (128, 128), (256, 256))
_GRIDS: dict[str, dict[str, Sequence[Any]]] = {
    "fast": {"hidden": _WIDTHS},
    "paper": {
        "hidden": _WIDTHS, "rate": (1e-4, 3e-4, 1e-3), "weight_decay": (0.0, 1e-5, 1e-4), "batch": (128, 256)
    },
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class LearnedPolicy:
    """A network trained on the empirical gap loss over the estimated games (Eq. empirical-gap-loss).

    It answers without asking the payoff model or solving a game. Asked among some of the agents only, it is bypassed:
    it knows the game among all of them, so the estimated game among those is solved exactly.

    Args:
        regularizer: L2(rho) or Entropy(tau).
        costs: {agent: cost}, or {agent: context column that holds it}, in your units.
        cost_weight: weight of costs scaled to [0, 1] over all agents (Eq. routerbench-cost-regularizer).
        budget: the most a lottery may cost in expectation at a context, in your units; or a SoftBudget.
        output: "softmax" (the paper's), or "sparsemax", which gives exact zeros; None: "softmax" under an entropy,
            whose equilibria have none, else "sparsemax".
        hidden, waves, rate, weight_decay, batch, patience, schedule: see `Recipe`.
        epochs: most passes over the contexts; None: as many as show about 840,000 contexts, at least 4.
        augment: extra contexts, drawn between training contexts; None: as many as make 70,000 with the log's own.
        held_out: share of the log's contexts that choose the best epoch.
        tune: None, or a search by held-out gap: "fast" over three widths, "paper" over the paper's 54 settings.
    """

    regularizer: Regularizer = L2()  # noqa: RUF009 (frozen)
    costs: AnyCosts | None = None
    cost_weight: float = 0.0
    budget: float | SoftBudget | None = None
    output: Output | None = None
    hidden: tuple[int, ...] = (256, 256)
    waves: int = 256
    rate: float = 2e-3
    weight_decay: float = 1e-5
    batch: int = 256
    epochs: int | None = None
    patience: int = 30
    schedule: Schedule = "annealed"
    augment: int | None = None
    held_out: float = 0.1
    tune: Literal[False, "fast", "paper"] | None = None

    def __post_init__(self) -> None:
        if self.tune and self.tune not in _GRIDS:
            raise InputError(f"tune is {self.tune!r}; accepted are None, 'fast' and 'paper'.")
        if self.augment is not None and self.augment < 0:
            raise InputError(f"augment is {self.augment!r}; accepted is a whole number of 0 or more, or None.")
        if not 0 < self.held_out < 1:
            raise InputError(f"held_out is {self.held_out!r}; accepted is a share between 0 and 1.")
        self._recipe(_CONTEXTS)  # its settings are checked there

    @classmethod
    def paper(cls, **options: Any) -> LearnedPolicy:
        """Return the paper's: two ReLU layers, softmax, Adam at a constant rate, nothing of ours.

        It searches the paper's grid; with tune=None it takes the middle of that.
        """
        printed = {"output": "softmax", "waves": 0, "schedule": "constant", "epochs": 500, "augment": 0}
        printed |= {"hidden": (128, 128), "rate": 3e-4}  # weight decay and batch have theirs already
        return cls(**{**printed, "tune": "paper", **options})

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> LearnedEquilibria:
        """Return the trained policy."""
        exact = ExactPolicy(self.regularizer, self.costs, self.cost_weight, self.budget).fit(stage1, effort)
        work, X = effort or Effort(), stage1.nuisances.X
        games = gather(
            stage1.payoff,
            stage1.encoder,
            X,
            exact.terms.costs_at(stage1.agents, stage1.log.contexts),
            extra=max(0, _CONTEXTS - len(X)) if self.augment is None else self.augment,
            held_out=self.held_out,
            rng=np.random.default_rng(work.seed),
        )
        omega = exact.terms.omega(games.costs, len(games.x), len(exact.agents))
        recipes = list(self._recipes(len(games.x)))
        each = work.share(1 / len(recipes))
        results = [train(games, omega, recipe, agents=len(exact.agents), effort=each) for recipe in recipes]
        network, training = min(results, key=lambda result: result[1].gap)
        return LearnedEquilibria(exact, network, training, tuple(tried for _, tried in results))

    def _recipe(self, contexts: int) -> Recipe:
        output = self.output or ("softmax" if isinstance(self.regularizer, Entropy) else "sparsemax")
        epochs = max(4, round(_SEEN / max(1, contexts))) if self.epochs is None else self.epochs
        own = {field.name: getattr(self, field.name) for field in fields(Recipe)}
        return Recipe(**{**own, "output": output, "hidden": tuple(self.hidden), "epochs": epochs})

    def _recipes(self, contexts: int) -> Iterator[Recipe]:
        grid = _GRIDS[self.tune] if self.tune else {}
        for values in product(*grid.values()):
            yield replace(self._recipe(contexts), **dict(zip(grid, values, strict=True)))


@dataclass(frozen=True, eq=False)
class LearnedEquilibria:
    """A trained network, with the exact policy beside it.

    Args:
        exact: solves the game among some of the agents.
        network: context -> lottery among all agents; its `to_arrays` and `from_arrays` are for files.
        training: how it was trained.
        tried: the same for every setting of a search.
    """

    exact: ExactEquilibria
    network: Network
    training: Training
    tried: tuple[Training, ...] = ()

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the K agents."""
        return self.exact.agents

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return (n, K) lotteries.

        Args:
            contexts: n contexts.
            agents: the available ones; unless all are, the network is bypassed and their game is solved exactly.
        """
        up, table = available(self.agents, agents), as_table(contexts)
        exact = self.exact
        if not up.all() or not exact.encoder.feature_names("network"):
            return exact.predict_proba(contexts, agents=agents)
        omega = exact.terms.omega(exact.terms.costs_at(self.agents, table), table.num_rows, len(up))
        network = exact.encoder.encode(table, form="network")
        return self.lotteries(Features(network, network), omega, up)

    def lotteries(self, X: Features, omega: Regularizer, up: Bools) -> Floats:
        """Return (n, K) lotteries at encoded contexts; see `ExactEquilibria.lotteries`."""
        if not up.all() or not X.network.shape[1]:  # without context columns there is one game
            return self.exact.lotteries(X, omega, up)
        answers = self.network.lotteries(X.network)
        wrong = ~(np.abs(answers.sum(axis=1) - 1) < _ROUNDING)  # also where one is NaN
        if wrong.any():
            where = f"at context {int(wrong.argmax())}"
            raise InputError(f"The learned policy gives no lottery {where}: its network is damaged; fit again.")
        return affordable(answers, omega.costs, omega.limit) if isinstance(omega, HardBudget) else answers
