"""Chat completions by the model that serves: its lottery, its sessions, and decisions kept like those of /v1/route."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from nasheval.serving.about import About, about
from nasheval.serving.bodies import RouteRequest
from nasheval.serving.chats import Ask
from nasheval.serving.deciding import Answer
from nasheval.serving.endpoints import LONG, new_decision, sticky
from nasheval.serving.forgetting import SESSION
from nasheval.serving.gateway import Choosing
from nasheval.serving.service import Service
from nasheval.serving.tokens import keyed
from nasheval.serving.turns import Lottery, Turn


class ServiceChooser:
    """Chooses with whatever version of the model serves at the moment.

    Args:
        service: of the worker.
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def agents(self) -> Sequence[str]:
        """Return the agents of the model of votes."""
        return self.service.decider.agents

    def begin(self, ask: Ask, client: str) -> Choosing:
        """Return what chooses for one request."""
        return _Choosing(self.service, ask, client)


class _Choosing:
    """One request; it stays with the version that it began with."""

    def __init__(self, service: Service, ask: Ask, client: str) -> None:
        self.service, self.ask, self.client, self.decider = service, ask, client, service.decider
        prompt = None if self.decider.prompt_column is None else ask.prompt
        self.context = self.decider.context(ask.context, prompt)
        self.session = keyed(service.secret, SESSION, ask.session) if ask.session else None
        self.reason = ""
        self.answer: Answer | None = None
        self.kept: About | None = None

    async def first(self) -> Turn | None:
        """Return the default where the model is unsure, otherwise the agent of the session."""
        answer, default = await self._answer(self.ask.agents), self.service.settings.default
        unsure = self.decider.unsure(self.context, answer) if default in self.ask.agents else ""
        if unsure:
            self.service.metrics.add("decisions_declined")
            self.reason = f"{default} by default: {unsure}"
            return Turn(default, 1.0)
        if self.session is None:
            return None
        asked = RouteRequest.model_validate({"budget": self.ask.budget})
        drawn = await sticky(self.service, self.decider, asked, self.context, answer, self.session)
        agent, propensity, self.reason = drawn
        return Turn(agent, propensity)

    async def lottery(self, agents: Sequence[str]) -> Lottery:
        """Return the lottery among agents."""
        if self.answer is None or list(agents) != list(self.ask.agents):
            self.answer = await self._answer(agents)
        return dict(zip(self.decider.agents, self.answer.lottery.tolist(), strict=True))

    async def _answer(self, agents: Sequence[str]) -> Answer:
        terms: dict[str, Any] = {"budget": self.ask.budget, "cost_weight": self.ask.cost_weight}
        if len(self.ask.prompt or "") > LONG:
            self.answer = await asyncio.to_thread(self.decider.answer, self.context, agents=agents, **terms)
        else:
            self.answer = self.decider.answer(self.context, agents=agents, **terms)
        return self.answer

    async def prepare(self) -> None:
        """Compute what is kept of the context."""
        if self.kept is None:
            keep = self.service.settings.keep_prompts
            self.kept = about(self.decider, self.context, self.service.secret, keep_prompts=keep)

    async def record(self, turn: Turn, failed: Sequence[str]) -> str:
        """Keep who served, with its propensity given who failed."""
        answer = self.answer or await self._answer(self.ask.agents)
        reason = self.reason or self.decider.reason(answer, turn.agent)
        if failed:
            reason = f"{turn.agent} after {', '.join(failed)} failed; the propensity is given that"
        terms = {
            "agents": list(self.ask.agents), "budget": self.ask.budget, "cost_weight": self.ask.cost_weight,
            "model": self.ask.model, "failed": list(failed) or None,
        }  # fmt: skip
        await self.prepare()
        assert self.kept is not None
        token, row = new_decision(
            self.service, self.decider, "route", [turn.agent], turn.propensity, self.kept,
            client=self.client, session=self.session, answer=answer, reason=reason, terms=terms,
        )  # fmt: skip
        self.service.writer.keep(row)
        self.service.metrics.add("decisions_routed")
        return token
