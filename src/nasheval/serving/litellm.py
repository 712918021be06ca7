"""LiteLLM in front, NashEval deciding: a routing strategy for its Router, and a hook for its proxy.

A request for the model group "nasheval" goes to the group that /v1/route names; every other request goes where it
would. Deployments, retries, cooldowns and keys stay LiteLLM's. Only this module imports `litellm`, and nothing of ours
imports this module.

What a request says under `metadata["nasheval"]`, {"context": {...}, "session": "...", "budget": 0.002}, is passed on,
and the decision is put there: "decision_id" is what a vote needs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from litellm.integrations.custom_logger import CustomLogger

from nasheval.errors import InputError

GROUP = "nasheval"
_PASSED = ("context", "session", "budget", "cost_weight", "default")


class Chooser:
    """Asks a service which model group to take.

    Args:
        url: of the service, such as http://127.0.0.1:8080.
        key: an API key with the scope route.
        group: the model that clients ask for.
        agents: model groups that may be chosen; None: all that the model knows.
        prompts: whether the last user message is sent, for models that were fitted with prompts.
        fallback: model group where the service does not answer; "": that is an error.
        seconds: to wait for it.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        group: str = GROUP,
        agents: Sequence[str] | None = None,
        prompts: bool = False,
        fallback: str = "",
        seconds: float = 1.0,
    ) -> None:
        self.url, self.group, self.fallback, self.prompts = url.rstrip("/"), group, fallback, prompts
        self.agents = None if agents is None else [*agents]
        self._how: dict[str, Any] = {"timeout": seconds}
        if key:
            self._how["headers"] = {"authorization": f"Bearer {key}"}

    def choose(self, messages: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the decision: "agent", and "decision_id" unless the service did not answer."""
        try:
            answer = httpx.post(f"{self.url}/v1/route", json=self._asked(messages, metadata), **self._how)
            return self._read(answer)
        except httpx.HTTPError as error:
            return self._without(error)

    async def achoose(self, messages: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the same without blocking the event loop."""
        return await asyncio.to_thread(self.choose, messages, metadata)

    def _asked(self, messages: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
        given = metadata.get("nasheval") or {}
        asked = {name: given[name] for name in _PASSED if given.get(name) is not None}
        if self.agents is not None:
            asked["agents"] = self.agents
        if self.prompts and (prompt := last_prompt(messages)) is not None:
            asked["prompt"] = prompt
        return asked

    def _read(self, answer: httpx.Response) -> dict[str, Any]:
        if answer.status_code >= 500 or answer.status_code == 429:
            answer.raise_for_status()
        said: dict[str, Any] = answer.json()
        if answer.status_code != 200:
            raise InputError(f"The service refused to decide: {said['error']['message']}")
        return said

    def _without(self, error: Exception) -> dict[str, Any]:
        if not self.fallback:
            raise error
        print(f"nasheval: {type(error).__name__}, so {self.fallback} was taken", file=sys.stderr)
        return {"agent": self.fallback, "reason": f"the service did not answer ({type(error).__name__})"}


class Strategy(Chooser):
    """A routing strategy for `litellm.Router`: `router.set_custom_routing_strategy(Strategy(router, url=...))`.

    Args:
        router: the Router, which still picks the deployment within the model group that was chosen.
        options: of `Chooser`; without `agents`, those model groups of the router.
    """

    def __init__(self, router: Any, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._sync, self._async = router.get_available_deployment, router.async_get_available_deployment
        self._router = router
        if self.agents is None:
            self.agents = [name for name in router.get_model_names() if name != self.group]

    async def async_get_available_deployment(
        self,
        model: str,
        request_kwargs: dict[str, Any] | None = None,
        messages: Any = None,
        input: Any = None,
        specific_deployment: bool | None = False,
    ) -> Any:
        """Return the deployment that takes a request."""
        if model == self.group and not specific_deployment:
            model = _noted(await self.achoose(messages, _metadata(request_kwargs)), request_kwargs)
        rest = {"messages": messages, "input": input, "specific_deployment": specific_deployment}
        return await self._async(model=model, request_kwargs=request_kwargs or {}, **rest)

    def get_available_deployment(
        self,
        model: str,
        messages: Any = None,
        input: Any = None,
        specific_deployment: bool | None = False,
        request_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the same where the caller waits."""
        if model == self.group and not specific_deployment:
            model = _noted(self.choose(messages, _metadata(request_kwargs)), request_kwargs)
        rest = {"messages": messages, "input": input, "specific_deployment": specific_deployment}
        return self._sync(model=model, request_kwargs=request_kwargs, **rest)


class Hook(Chooser, CustomLogger):  # type: ignore[misc]  # litellm's class is not typed here
    """A hook for LiteLLM's proxy: name an instance under `litellm_settings: callbacks` of its config.

    The answer's headers x-nasheval-decision and x-nasheval-agent tell the decision.

    Args:
        options: of `Chooser`.
    """

    def __init__(self, url: str, **options: Any) -> None:
        CustomLogger.__init__(self)
        Chooser.__init__(self, url, **options)

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        """Put the chosen model group into a request."""
        if data.get("model") == self.group:
            data["model"] = _noted(await self.achoose(data.get("messages"), _metadata(data)), data)
        return data

    async def async_post_call_response_headers_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any, **more: Any
    ) -> dict[str, str] | None:
        """Return headers that tell the decision."""
        decided = (_metadata(data).get("nasheval") or {}).get("decided")
        if not decided:
            return None
        named = {"x-nasheval-agent": decided["agent"], "x-nasheval-decision": decided.get("decision_id")}
        return {name: value for name, value in named.items() if value}


def last_prompt(messages: Any) -> str | None:
    """Return the text of the last user message."""
    for message in reversed(messages or []):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, list):
                content = "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
            return content if isinstance(content, str) else None
    return None


def _metadata(request: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = (request or {}).get("metadata") or {}
    return found if isinstance(found, Mapping) else {}


def _noted(decision: dict[str, Any], request: dict[str, Any] | None) -> str:
    """Put a decision where callbacks and the caller find it; return the model group."""
    agent: str = decision["agent"]
    if request is not None:
        metadata = request.get("metadata")
        if not isinstance(metadata, dict):
            metadata = request["metadata"] = {}
        metadata["nasheval"] = {**(metadata.get("nasheval") or {}), "decided": decision}
        metadata["nasheval"]["decision_id"] = decision.get("decision_id")
    return agent
