"""What a policy is: a lottery over agents at each context; and the two shapes that a baseline has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Floats, readonly
from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.table import as_table, count_rows
from nasheval.errors import Argument, InputError
from nasheval.nuisance.learners import Effort, Features
from nasheval.payoff.second_stage import PayoffModel

if TYPE_CHECKING:
    from nasheval.payoff.stage1 import Stage1

# Payoffs (n, k, k) among the k available agents, which of all (K,) those are, and the n contexts -> lotteries (n, k).
Rule: TypeAlias = Callable[[Floats, Bools, pa.Table], Floats]
CELLS = 1 << 22  # payoffs held for one chunk of contexts: 32 MB as float64
_MOST = 1 << 17  # contexts of a chunk or block


def chunk_of(n_agents: int) -> int:
    """Return how many contexts are answered at a time: a power of two."""
    return min(_MOST, 1 << (max(1, CELLS // n_agents**2).bit_length() - 1))


def block_of(n_agents: int) -> int:
    """Return of how many contexts a file is predicted at a time: whole chunks, of every policy.

    Matrices of other heights are multiplied in other orders; so a file's answers do not depend on where it is cut.
    """
    return max(1 << 12, min(_MOST, 1 << ((CELLS // n_agents).bit_length() - 1)))


@runtime_checkable
class Policy(Protocol):
    """A fitted policy."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the K agents, the columns of every lottery."""
        ...

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return (n, K) lotteries, rows sum to one.

        Args:
            contexts: n contexts: a DataFrame, records, or the array the log was built with.
            agents: the available ones; the others get zero. None: all.
        """
        ...


@runtime_checkable
class PolicyLearner(Protocol):
    """An unfitted policy: a baseline with its settings."""

    def fit(self, stage1: Stage1, effort: Effort | None = None) -> Policy:
        """Return the policy that a log with its nuisances and estimated game gives.

        Args:
            effort: seed, cores, device and progress, for a policy that takes long; None: those of `Effort()`.
        """
        ...


@dataclass(frozen=True, eq=False)
class Contextual:
    """A policy that applies a rule to the estimated game at each context, played among the available agents.

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

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return (n, K) lotteries; `agents` are the available ones, and the rule is applied to the game among them."""
        up, table = available(self.agents, agents), as_table(contexts)
        X, K = Features.of(self.encoder, contexts), len(up)
        lotteries, step = np.zeros((len(X), K)), chunk_of(K)
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            games = self.payoff.predict(X[rows])[:, up][:, :, up]
            lotteries[rows, up] = self.rule(games, up, table.slice(start, step))
        return lotteries


@dataclass(frozen=True, eq=False)
class Constant:
    """A policy that gives the same lottery at every context.

    Args:
        agents: names of the K agents.
        rule: which agents are available, (K,) -> the lottery (k,) among those.
    """

    agents: tuple[str, ...]
    rule: Callable[[Bools], Floats]
    _known: dict[bytes, Floats] = field(default_factory=dict, init=False, repr=False)  # a linear program takes long

    def lottery(self, agents: Sequence[str] | None = None) -> Floats:
        """Return the lottery (K,); `agents` are the available ones."""
        up = available(self.agents, agents)
        if (key := up.tobytes()) not in self._known:
            lottery = np.zeros(len(up))
            lottery[up] = self.rule(up)
            self._known[key] = readonly(lottery)
        return self._known[key]

    def predict_proba(self, contexts: object, *, agents: Sequence[str] | None = None) -> Floats:
        """Return the lottery once per context, (n, K); `agents` are the available ones."""
        return np.tile(self.lottery(agents), (count_rows(contexts), 1))


def available(names: tuple[str, ...], agents: Sequence[str] | None) -> Bools:
    """Return (K,) which agents are available, checked; None: all."""
    if agents is None:
        return np.ones(len(names), bool)
    if isinstance(agents, str) or not len(agents):
        raise InputError(f"agents is {agents!r}; accepted is a list of at least one name out of {', '.join(names)}.")
    for agent in agents:
        if agent not in names:
            raise InputError(Argument("agents"), f" names {agent!r}; the policy knows {', '.join(names)}.")
    return np.isin(np.array(names), list(agents))
