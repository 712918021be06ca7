"""How often one client may ask: a bucket per client that fills at a steady rate."""

from __future__ import annotations

from collections import OrderedDict
from time import monotonic

_MOST = 10_000  # clients remembered


class Limits:
    """Buckets of twice a second's requests.

    Args:
        rate: requests per second and client; 0: no limit.
    """

    def __init__(self, rate: float) -> None:
        self.rate, self._burst = rate, max(1.0, 2 * rate)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Take a request of a client; return after how many seconds it may ask again, 0 where it may now."""
        if not self.rate:
            return 0.0
        now = monotonic()
        left, then = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - then) * self.rate)
        allowed = left >= 1
        self._buckets[client] = (left - 1 if allowed else left), now
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self.rate
