"""Time that does not jump: the clock is read once, and from then on only how much time has passed."""

from __future__ import annotations

import time

_JUMP = 5.0  # seconds


def _passed() -> float:
    """Return seconds that only ever grow, also while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Clock:
    """Seconds since 1970, as the machine's clock had them when the process began, and time passed since."""

    def __init__(self) -> None:
        self._start = time.time() - _passed()

    def now(self) -> float:
        """Return the time."""
        return self._start + _passed()

    def jumped(self) -> float:
        """Return by how many seconds the machine's clock was set since, 0 where it was not."""
        by = time.time() - self.now()
        return by if abs(by) > _JUMP else 0.0


CLOCK = Clock()
now = CLOCK.now
