"""The two shapes of a baseline: a rule on the estimated game at each context, and one lottery for all contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from nasheval.arrays import Bools, Floats, readonly
from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.table import as_table, count_rows
from nasheval.errors import InputError
from nasheval.nuisance.learners import Features
from nasheval.payoff.second_stage import PayoffModel
from nasheval.payoff.stage1 import Stage1
from nasheval.policy.base import those_up

PayoffName = Literal["plug-in", "debiased"]
Costs: TypeAlias = "Mapping[str, float] | ArrayLike"
# Payoffs (n, k, k) among the k agents that are up, which of all (K,) those are, and the n contexts -> lotteries (n, k).
Rule: TypeAlias = Callable[[Floats, Bools, pa.Table], Floats]

_CELLS = 1 << 22  # numbers held for one chunk of contexts: 32 MB as float64


@dataclass(frozen=True, eq=False)
class Contextual:
    """A policy that applies a rule to the estimated game at each context, played among the agents that are up.

    Args:
        agents: names of the K agents.
        encoder: contexts -> features.
        payoff: A(x).
        rule: the game -> the lottery.
    """

    agents: tuple[str, ...]
    encoder: ContextEncoder
    payoff: PayoffModel
    rule: Rule

    @staticmethod
    def of(stage1: Stage1, payoff: PayoffName, rule: Rule) -> Contextual:
        """Return the policy on the plug-in or the debiased payoff of Stage 1."""
        model = stage1.plug_in if payoff == "plug-in" else stage1.payoff
        return Contextual(stage1.agents, stage1.encoder, model, rule)

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return (n, K) lotteries; `agents` are those that are up, and the rule is applied to the game among them."""
        up, table = those_up(self.agents, agents), as_table(contexts)
        X, K = Features.of(self.encoder, contexts), len(up)
        found, step = np.zeros((len(X), K)), max(1, _CELLS // (K * K))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            games = self.payoff.predict(X[rows])[:, up][:, :, up]
            found[rows, up] = self.rule(games, up, table.slice(start, step))
        return found


class Everywhere(ABC):
    """A policy that gives the same lottery at every context."""

    agents: tuple[str, ...]

    @abstractmethod
    def among(self, up: Bools) -> Floats:
        """Return the lottery (k,) among the k agents that are up, (K,)."""

    def lottery(self, agents: Sequence[str] | None = None) -> Floats:
        """Return the lottery (K,); `agents` are those that are up."""
        up = those_up(self.agents, agents)
        if (key := up.tobytes()) not in self._found:
            found = np.zeros(len(up))
            found[up] = self.among(up)
            self._found[key] = readonly(found)
        return self._found[key]

    @cached_property
    def _found(self) -> dict[bytes, Floats]:
        """The lotteries asked for so far, by who is up: a linear program can take seconds."""
        return {}

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return the lottery once a context, (n, K); `agents` are those that are up."""
        return np.tile(self.lottery(agents), (count_rows(contexts), 1))


def check_payoff(payoff: str) -> None:
    """Raise unless it names one of the payoffs that Stage 1 gives."""
    if payoff not in get_args(PayoffName):
        raise InputError(f"payoff is {payoff!r}; accepted are 'plug-in' and 'debiased'.")


def costs_in_order(costs: Costs, agents: tuple[str, ...]) -> Floats:
    """Return the cost of each agent, (K,), from {agent: cost} or costs in the order of the agents."""
    if isinstance(costs, Mapping):
        unknown, missing = [a for a in costs if a not in agents], [a for a in agents if a not in costs]
        if unknown or missing:
            wrong = f"names {unknown[0]!r}, no agent" if unknown else f"has none for {missing[0]!r}"
            raise InputError(f"costs {wrong}; give one for each of {', '.join(agents)}.")
        costs = [costs[agent] for agent in agents]
    try:
        found = np.asarray(costs, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"costs holds something that is not a number: {costs!r}.") from None
    if found.shape != (len(agents),) or not np.isfinite(found).all():
        raise InputError(
            f"costs has shape {found.shape}; accepted is one finite number for each of {len(agents)} agents."
        )
    return cast(Floats, found)
