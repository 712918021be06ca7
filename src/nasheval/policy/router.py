"""`Router`: the lottery at one context, as fast as a model can give it, for services that ask one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats
from nasheval.contexts.encoder import ContextEncoder
from nasheval.contexts.table import as_table
from nasheval.errors import InputError
from nasheval.nuisance.learners import Features
from nasheval.payoff.second_stage import PayoffModel
from nasheval.policy.availability import AmongAvailable, candidates
from nasheval.policy.base import Policy, available
from nasheval.policy.exact import ExactEquilibria
from nasheval.policy.learned import LearnedEquilibria


class Router:
    """Answers about one context what the policy would, bit for bit, with all that does not depend on it done before.

    A context of plain Python values (numbers, booleans, strings, None) takes no table. Anything else, and anything that
    is wrong, goes through the policy, which parses it or says what is wrong.

    Args:
        policy: a fitted policy; one that is neither exact nor learned is asked as it is.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy, self.agents = policy, policy.agents
        self._inner = policy.policy if isinstance(policy, AmongAvailable) else policy
        self._exact = self._inner.exact if isinstance(self._inner, LearnedEquilibria) else self._inner
        self._all = np.ones(len(self.agents), bool)
        self._lotteries = self._at_features()
        exact = self._exact if self._lotteries is not None and isinstance(self._exact, ExactEquilibria) else None
        self._costs = None if exact is None else exact.terms.costs_at(self.agents, None)

    def __call__(self, context: Any, *, agents: Sequence[str] | None = None) -> Floats:
        """Return the lottery (K,) at one context.

        Args:
            context: {column: value}, or a vector where the log was built from an array.
            agents: those that are up; the others get zero.
        """
        up = self._all if agents is None else available(self.agents, agents)
        X = self._features(context)
        here = None if X is None else self._candidates(context, up)
        if X is None or here is None or self._lotteries is None:
            return self.policy.predict_proba(_as_rows(context), agents=agents)[0]
        return self._lotteries(X, here)[0]

    def ready(self) -> Router:
        """Load the compiled code that answers take, or compile it, now rather than at the first context."""
        if self._lotteries is not None:
            trees, network = (len(self.encoder.feature_names(form)) for form in ("trees", "network"))
            X = Features(np.zeros((2, trees), np.float32), np.zeros((2, network), np.float32))
            for rows in (2, 1):  # two contexts are not answered without compiled code, one may have code of its own
                self._lotteries(X[:rows], self._all)
            if isinstance(self._inner, ExactEquilibria):  # and what few contexts take, among many agents
                self._inner.whole(X, self._inner.terms.omega(self._costs, 1, len(self.agents)), self._all)
        return self

    @property
    def is_learned(self) -> bool:
        """Whether a network answers."""
        return isinstance(self._inner, LearnedEquilibria)

    @property
    def payoff(self) -> PayoffModel:
        """A(x)."""
        return self._estimated.payoff

    @property
    def encoder(self) -> ContextEncoder:
        """Contexts -> features."""
        return self._estimated.encoder

    @property
    def column(self) -> str | None:
        """The context column that says who is available, if one does."""
        return self.policy.column if isinstance(self.policy, AmongAvailable) else None

    def candidates(self, context: Any, *, agents: Sequence[str] | None = None) -> Bools:
        """Return (K,) who may win at one context."""
        here = self._candidates(context, available(self.agents, agents))
        return candidates(self.policy, as_table(_as_rows(context)), agents)[0] if here is None else here

    def game(self, context: Any) -> Floats:
        """Return A(x), (K, K), at one context."""
        X = self._features(context)
        return self.payoff.predict(Features.of(self.encoder, _as_rows(context)) if X is None else X)[0]

    def costs(self, context: Any) -> Floats | None:
        """Return (K,) what the agents cost at one context; None without costs."""
        if not isinstance(self._exact, ExactEquilibria):
            return None
        if self._lotteries is None:  # they depend on the context
            costs = self._exact.terms.costs_at(self.agents, _as_rows(context))
            return None if costs is None else np.atleast_2d(costs)[0]
        return self._costs

    def under(self, **terms: Any) -> Router:
        """Return the router of the same games under another cost_weight or budget, which are solved exactly."""
        exact = self._estimated
        changed = replace(exact, terms=replace(exact.terms, **terms))
        return Router(replace(self.policy, policy=changed) if isinstance(self.policy, AmongAvailable) else changed)

    @property
    def _estimated(self) -> ExactEquilibria:
        if not isinstance(self._exact, ExactEquilibria):
            raise InputError(f"The policy is a {type(self._exact).__name__}, which has no estimated game to ask about.")
        return self._exact

    def _at_features(self) -> Callable[[Features, Bools], Floats] | None:
        """Return what maps encoded contexts and who is up to lotteries; None where costs depend on the context.

        None, too, for a policy that has no game.
        """
        inner = self._inner
        if not isinstance(inner, ExactEquilibria | LearnedEquilibria) or not isinstance(self._exact, ExactEquilibria):
            return None
        terms = self._exact.terms
        if isinstance(terms.costs, Mapping) and any(isinstance(cost, str) for cost in terms.costs.values()):
            return None
        omega = terms.omega(terms.costs_at(self.agents, None), 1, len(self.agents))
        return lambda X, up: inner.lotteries(X, omega, up)

    def _features(self, context: Any) -> Features | None:
        plain = isinstance(context, Mapping) or (isinstance(context, np.ndarray) and context.ndim == 1)
        if not plain or not isinstance(self._exact, ExactEquilibria):
            return None
        return Features.of_one(self._exact.encoder, context)

    def _candidates(self, context: Any, up: Bools) -> Bools | None:
        """Return (K,) who may win there; None where the value that says so is not plain text."""
        if not isinstance(self.policy, AmongAvailable):
            return up
        value = context.get(self.policy.column, 0) if isinstance(context, Mapping) else 0
        return self.policy.among(value, up) if value is None or isinstance(value, str) else None


def _as_rows(context: Any) -> Any:
    """Return one context in a form that policies take, a table of one row."""
    if isinstance(context, Mapping):
        return [dict(context)]  # where it is empty, a list of one still says that there is one context
    vector = np.asarray(context)
    if vector.ndim != 1 or vector.dtype.kind not in "fiub":
        raise InputError(f"context is a {type(context).__name__}; accepted is one {{column: value}}, or one vector.")
    return vector[None]
