"""`Decider`: what one version of the model answers about one context."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nasheval.arrays import Bools, Floats, Ints
from nasheval.contexts.columns import CategoricalColumn, NumericColumn, VectorColumn
from nasheval.errors import InputError, one_line
from nasheval.feedback.links import BRIDGED, SEEN
from nasheval.notes import few
from nasheval.payoff.bridging import pair_matrix
from nasheval.policy.choosing import WINNER
from nasheval.serving.embedding import EmbeddedOnce, embedding_once
from nasheval.serving.logs import log
from nasheval.serving.menus import menu_of
from nasheval.serving.problems import Problem, invalid

if TYPE_CHECKING:
    from nasheval.policy.router import Router

_KEPT = 64  # routers of other budgets and cost weights that are kept
_FAR = 8.0  # standard deviations from the mean of the votes beyond which there are none
_REMEMBERED = 1024  # answers
_ROUNDING = 1e-6  # by which a lottery may miss a sum of one
_NAMED = 4  # agents in a sentence


@dataclass(frozen=True, eq=False)
class Answer:
    """What a version says about one context.

    Args:
        lottery: (K,).
        shares: the same by name, of the candidates.
        up: (K,) the candidates.
        winners: by name.
        expected_cost: of the lottery, or None without costs.
    """

    lottery: Floats
    shares: dict[str, float]
    up: Bools
    winners: list[str]
    expected_cost: float | None


class Decider:
    """One version of the model, ready to answer.

    Args:
        version: its name.
        router: what answers for one context.
        floor: see `Settings`.
    """

    def __init__(self, version: str, router: Router, *, floor: float = 0.2) -> None:
        self.version, self.floor = version, floor
        self.router = router = embedding_once(router)
        self.agents = router.agents
        self.encoder = router.encoder
        self.columns = {column.name: column for column in self.encoder.columns}
        self.prompt_column = self.encoder.texts[0] if self.encoder.texts else None
        self._names = self.encoder.names
        self._vectors = any(isinstance(column, VectorColumn) for column in self.encoder.columns)
        self._answers: dict[Hashable, Answer] = {}
        self._all = np.ones(len(self.agents), bool)
        self._always = router.column is None  # whether everybody may win everywhere
        self._empty: dict[str, Any] = dict.fromkeys(self._names)
        self._status: Ints = np.array(pair_matrix(router.payoff.status, len(self.agents)))
        np.fill_diagonal(self._status, -1)  # nobody meets itself
        self._random: Random = SystemRandom()
        self._under = lru_cache(_KEPT)(self._router_under)
        self._lines = lru_cache(4096)(self._rivals_line)

    def ready(self) -> Decider:
        """Compile or load now what requests take: budgets, cost weights and menus, where there are such."""
        try:
            costs = self.router.costs(self._empty)
            if costs is not None:
                for terms in ((float(costs.max()), None), (None, 0.1)):
                    self._under(*terms).ready()
            if len(self.agents) > 1:
                self.menu(self._empty, self._answer(self._empty, None, None, None), 2)
        except (InputError, Problem) as error:  # a model may ask for columns that have to be given
            log("not_warmed", reason=one_line(error))
        return self

    # -- contexts -----------------------------------------------------------------------------------------------------

    def context(self, given: Mapping[str, Any], prompt: str | None) -> dict[str, Any]:
        """Return the columns that the model knows, missing where they are not given; raises a Problem for others."""
        for name in given:
            if name not in self._empty:
                known = few(self._names, 12) if self._names else "no columns"
                said = f"the model knows no context column {name!r:.80}; it knows {known}"
                raise invalid(said, f"context.{name:.60}", "unknown_column")
        context = {**self._empty, **given}
        if prompt is not None:
            if self.prompt_column is None:
                raise invalid("this model was fitted without prompts; leave prompt out, or fit with --text", "prompt")
            if given.get(self.prompt_column) not in (None, prompt):
                raise invalid(f"prompt and context.{self.prompt_column} differ; give one of them", "prompt")
            context[self.prompt_column] = prompt
        return context

    def split(self, context: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the columns that may be kept as they are, and the texts, which may not."""
        texts = {name: context[name] for name in self.encoder.texts if context.get(name) is not None}
        return {name: value for name, value in context.items() if name in self.columns and value is not None}, texts

    def embedding(self, texts: Mapping[str, str]) -> bytes | None:
        """Return the vectors of the texts, float32, one after another, before any cut; None without texts."""
        encoder = self.encoder.text_encoder
        return encoder.vectors(texts) if texts and isinstance(encoder, EmbeddedOnce) else None

    # -- answers ------------------------------------------------------------------------------------------------------

    def answer(
        self,
        context: dict[str, Any],
        *,
        agents: Sequence[str] | None = None,
        budget: float | None = None,
        cost_weight: float | None = None,
    ) -> Answer:
        """Return the lottery and what to know of it; raises a Problem that names the argument.

        Answers of contexts without texts are remembered: many callers ask about the same few.
        """
        key = self._key(context, agents, budget, cost_weight)
        answer = None if key is None else self._answers.get(key)
        if answer is None:
            answer = self._answer(context, agents, budget, cost_weight)
            if key is not None:
                if len(self._answers) >= _REMEMBERED:
                    self._answers.clear()
                self._answers[key] = answer
        return answer

    def _key(self, context: dict[str, Any], agents: Sequence[str] | None, *terms: float | None) -> Hashable | None:
        """Return what an answer hangs on, None where it cannot be told; 1, 1.0 and True are not the same category."""
        if self.prompt_column is not None or self._vectors:
            return None
        values = tuple(context.values())
        kinds = tuple(map(type, values))
        if list in kinds:
            return None
        return values, kinds, None if agents is None else tuple(agents), terms

    def _answer(
        self, context: dict[str, Any], agents: Sequence[str] | None, budget: float | None, cost_weight: float | None
    ) -> Answer:
        self._check_agents(agents)
        try:
            router = self.router if budget is None and cost_weight is None else self._under(budget, cost_weight)
            lottery = np.asarray(router(context, agents=agents))
            up = self._all if self._always and agents is None else router.candidates(context, agents=agents)
            costs = router.costs(context)
        except InputError as error:
            raise _refused(error, budget, cost_weight) from None
        shares = dict(zip(self.agents, lottery.tolist(), strict=True))
        if not abs(sum(shares.values()) - 1) < _ROUNDING:  # also where it is no number
            raise invalid("no lottery can be computed here; are the context's numbers of the usual size?", "context")
        if up is not self._all:
            shares = {name: shares[name] for name, there in zip(self.agents, up.tolist(), strict=True) if there}
        least = min(WINNER, 0.5 / len(self.agents))  # as `winner_sets` has it
        winners = [name for name, share in shares.items() if share > least]
        expected = None if costs is None else float(lottery @ costs)
        return Answer(lottery, shares, up, winners, expected)

    def draw(self, lottery: Floats, share: float | None = None) -> int:
        """Return an agent's number, drawn from the lottery; `share` in [0, 1) in place of chance."""
        at, last = self._random.random() if share is None else share, 0
        for place, weight in enumerate(lottery.tolist()):
            if weight > 0:
                last, at = place, at - weight
                if at < 0:
                    break
        return last

    def menu(self, context: dict[str, Any], answer: Answer, size: int) -> tuple[list[str], float]:
        """Return a menu to show a voter, and the probability of that menu in any order."""
        here = np.flatnonzero(answer.up)
        if not 2 <= size <= len(here):
            if len(here) < 2:
                raise invalid("fewer than two agents may be shown here, which compares nothing; name more", "agents")
            raise invalid(
                f"size is {size}; accepted is a whole number from 2 to {len(here)}, the agents that are up", "size"
            )
        payoff = self.router.game(context)[np.ix_(here, here)]
        menu, propensity = menu_of(answer.lottery[here], payoff, size, self.floor, self._random)
        return [self.agents[here[place]] for place in menu], propensity

    def costs_of(self, context: dict[str, Any]) -> dict[str, float]:
        """Return what each agent costs at a context; nothing without costs."""
        costs = self.router.costs(context)
        return {} if costs is None else dict(zip(self.agents, map(float, costs), strict=True))

    def reason(self, answer: Answer, agent: str) -> str:
        """Return why this agent, in one line."""
        shares = answer.shares
        others = few([f"{name} {shares[name]:.2f}" for name in answer.winners if name != agent], _NAMED)
        said = f"{agent} has {shares[agent]:.2f} of the lottery" + (f", beside {others}" if others else "")
        return said + self._lines(agent, answer.up.tobytes())

    # -- inside -------------------------------------------------------------------------------------------------------

    def _router_under(self, budget: float | None, cost_weight: float | None) -> Router:
        terms = {"budget": budget, "cost_weight": cost_weight}
        return self.router.under(**{name: value for name, value in terms.items() if value is not None})

    def _check_agents(self, agents: Sequence[str] | None) -> None:
        known = self.agents
        for name in agents or ():
            if name not in known:
                raise invalid(
                    f"there is no agent {name!r:.80}; accepted are {few(known, 12)}", "agents", "unknown_agent"
                )

    def unsure(self, context: Mapping[str, Any], answer: Answer) -> str:
        """Return why the votes say little here: a value that none of them had, or a winner that met nobody."""
        for name, column in self.columns.items():
            value = context[name]
            if isinstance(column, CategoricalColumn) and value is not None and _as_text(value) not in column.levels:
                return f"no vote, or few, had {name} = {_as_text(value)[:40]}"
            if isinstance(column, NumericColumn) and _is_far(column, value):
                return f"no vote had {name} near {value:.6g}"
        rows = self._status[[self.agents.index(name) for name in answer.winners]]
        met = (rows == SEEN) & answer.up
        if answer.up.sum() > 1 and not met.any():
            return f"{few(answer.winners, _NAMED)} was never compared with another candidate"
        return ""

    def _rivals_line(self, agent: str, up: bytes) -> str:
        place = self.agents.index(agent)
        rivals = np.frombuffer(up, bool) & (np.arange(len(self.agents)) != place)
        unseen = np.flatnonzero(rivals & (self._status[place] != SEEN))
        if not len(unseen):
            return ""
        named = few([self.agents[rival] for rival in unseen], _NAMED)
        how = "bridged through others" if (self._status[place][unseen] == BRIDGED).all() else "nothing connects some"
        return f"; never compared with {named} ({how})"


def _as_text(value: Any) -> str:
    """Return what a category's value is as text, as a table has it."""
    return value if isinstance(value, str) else str(pa.scalar(value).cast(pa.string()))


def _is_far(column: NumericColumn, value: Any) -> bool:
    return type(value) in (int, float) and abs(value - column.mean) > _FAR * column.scale


def _refused(error: InputError, budget: float | None, cost_weight: float | None) -> Problem:
    said = one_line(error)[:400]
    if budget is not None and "budget" in said.lower():
        return invalid(said, "budget")
    if cost_weight is not None and "cost" in said.lower():
        return invalid(said, "cost_weight")
    return invalid(said, "agents" if "agents that are up" in said else "context")
