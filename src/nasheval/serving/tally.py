"""What became of requests to upstreams: counts, seconds, tokens and money, by agent."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from statistics import quantiles
from typing import Any

from nasheval.serving.upstreams import Prices

_KEPT = 1000  # times of each agent, the latest


class _OfAgent:
    """What one agent did."""

    def __init__(self) -> None:
        self.served = self.passed_on = 0
        self.faults: Counter[str] = Counter()
        self.seconds: deque[float] = deque(maxlen=_KEPT)
        self.tokens = 0
        self.cost = 0.0


class Tally:
    """Counts of one worker since it started; nothing of what was asked or answered."""

    def __init__(self) -> None:
        self._agents: dict[str, _OfAgent] = {}
        self._left = 0

    def _of(self, agent: str) -> _OfAgent:
        return self._agents.setdefault(agent, _OfAgent())

    def served(self, agent: str, seconds: float, usage: Mapping[str, Any] | None, prices: Prices) -> None:
        """Count an answer, with the seconds until it began, or was whole."""
        here = self._of(agent)
        here.served += 1
        here.seconds.append(seconds)
        here.cost += prices.of(usage) or 0.0
        total = usage.get("total_tokens") if isinstance(usage, Mapping) else None
        here.tokens += total if isinstance(total, int) else 0

    def passed_on(self, agent: str, seconds: float) -> None:
        """Count a refusal that went to the client as it was."""
        self._of(agent).passed_on += 1
        self._of(agent).seconds.append(seconds)

    def fault(self, agent: str, kind: str, seconds: float) -> None:
        """Count a fault of an upstream."""
        self._of(agent).faults[kind] += 1

    def left(self) -> None:
        """Count a client that left before its answer was whole."""
        self._left += 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        agents = [
            {
                "agent": name,
                "served": one.served,
                "passed_on": one.passed_on,
                "faults": dict(one.faults),
                **_spread(list(one.seconds)),
                "tokens": one.tokens,
                "cost": one.cost,
            }
            for name, one in self._agents.items()
        ]
        return {"agents": agents, "clients_left": self._left}


def _spread(seconds: list[float]) -> dict[str, float | None]:
    """Return the median and the 95th percentile; None where nothing was measured."""
    if len(seconds) < 2:
        return dict.fromkeys(("median_seconds", "p95_seconds"), seconds[0] if seconds else None)
    cuts = quantiles(seconds, n=20, method="inclusive")
    return {"median_seconds": cuts[9], "p95_seconds": cuts[18]}
