"""Counters of all workers together, in the text format of Prometheus.

Each worker writes to a file of its own, mapped into memory, and whoever is asked adds the files up. A counter is eight
bytes that one process writes, so nothing is lost or torn; a worker that died leaves its file, so no counter falls.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from secrets import token_hex

from nasheval.serving.scopes import ROUTES

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
OTHER = "other"  # paths that are none of ours
_CLASSES = ("2xx", "3xx", "4xx", "5xx")
_PLAIN = {
    "nasheval_votes_stored_total": "Votes stored and acknowledged.",
    "nasheval_votes_repeated_total": "Votes acknowledged again under a key that was there.",
    "nasheval_decisions_routed_total": "Agents chosen by /v1/route.",
    "nasheval_decisions_compared_total": "Menus drawn by /v1/compare.",
    "nasheval_decisions_declined_total": "Requests answered with the default agent, the model being unsure.",
    "nasheval_decisions_lost_total": "Decisions given up while the store did not answer; votes never are.",
    "nasheval_store_failures_total": "Requests refused because the store did not answer.",
    "nasheval_model_swaps_total": "Versions taken up.",
    "nasheval_model_refusals_total": "Versions that could not be loaded.",
}
_TIMED = ("nasheval_request_seconds", "nasheval_decision_seconds")


def _layout() -> dict[str, int]:
    """Return the place of each series."""
    names = list(_PLAIN)
    for route in (*ROUTES, OTHER):
        names += [f'nasheval_requests_total{{route="{route}",status="{status}"}}' for status in _CLASSES]
        names += _histogram(_TIMED[0], f'route="{route}"')
    names += _histogram(_TIMED[1], "")
    return {name: place for place, name in enumerate(names)}


def _histogram(name: str, label: str) -> list[str]:
    comma = f"{label}," if label else ""
    bounds = [f'{name}_bucket{{{comma}le="{bound:g}"}}' for bound in BUCKETS]
    rest = f"{{{label}}}" if label else ""
    return [*bounds, f'{name}_bucket{{{comma}le="+Inf"}}', f"{name}_sum{rest}", f"{name}_count{rest}"]


_PLACES = _layout()
_SIZE = 8 * len(_PLACES)


class Metrics:
    """The counters of one worker.

    Args:
        folder: where the workers' files are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._path = folder, folder / f"{os.getpid()}-{token_hex(4)}.counters"
        self._path.write_bytes(bytes(_SIZE))
        with open(self._path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._cells = memoryview(self._map).cast("d")
        self._routes = {route: _PLACES[f'nasheval_requests_total{{route="{route}",status="2xx"}}'] for route in ROUTES}
        self._other = _PLACES[f'nasheval_requests_total{{route="{OTHER}",status="2xx"}}']
        self._decision = _PLACES[_histogram(_TIMED[1], "")[0]]

    def add(self, name: str, count: float = 1.0) -> None:
        """Count something."""
        self._cells[_PLACES[f"nasheval_{name}_total"]] += count

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        first = self._routes.get(route, self._other)
        self._cells[first + min(max(status // 100, 2), 5) - 2] += 1
        self._observe(first + len(_CLASSES), seconds)

    def decided(self, seconds: float) -> None:
        """Count the time that a decision took, without parsing and writing."""
        self._observe(self._decision, seconds)

    def _observe(self, first: int, seconds: float) -> None:
        cells = self._cells
        cells[first + bisect_left(BUCKETS, seconds)] += 1  # not yet cumulative
        cells[first + len(BUCKETS) + 1] += seconds
        cells[first + len(BUCKETS) + 2] += 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all of it; `gauges` are {name: (what it is, value)} of this moment."""
        sums = self._sums()
        lines = [line for name, about in _PLAIN.items() for line in _series(name, about, "counter", [name], sums)]
        requests = [name for name in _PLACES if name.startswith("nasheval_requests_total")]
        lines += _series("nasheval_requests_total", "Requests by route and status.", "counter", requests, sums)
        for name, about in zip(_TIMED, ("Seconds of a request.", "Seconds of the decision itself."), strict=True):
            lines += [f"# HELP {name} {about}", f"# TYPE {name} histogram", *_cumulative(name, sums)]
        for name, (about, value) in gauges.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _sums(self) -> list[float]:
        sums = [0.0] * len(_PLACES)
        for path in self.folder.glob("*.counters"):
            raw = path.read_bytes()
            if len(raw) == _SIZE:
                sums = [a + b for a, b in zip(sums, memoryview(raw).cast("d"), strict=True)]
        return sums

    def close(self) -> None:
        """Let go of the file, which stays for the others to add up."""
        self._cells.release()
        self._map.close()


def _series(name: str, about: str, kind: str, names: Sequence[str], sums: Sequence[float]) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}", *(f"{one} {sums[_PLACES[one]]:g}" for one in names)]


def _cumulative(name: str, sums: Sequence[float]) -> Iterator[str]:
    below = 0.0
    for one, place in _PLACES.items():
        if not one.startswith(name):
            continue
        if "_bucket{" not in one:
            yield f"{one} {sums[place]:.6f}" if "_sum" in one else f"{one} {sums[place]:g}"
            continue
        below = sums[place] + (0.0 if f'le="{BUCKETS[0]:g}"' in one else below)
        yield f"{one} {below:g}"
