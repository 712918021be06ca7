"""What a step takes, in ratios: seconds, processors and memory; steps by turns; steps in a process of their own.

On a shared machine only ratios within one run mean much. `by_turns` times two steps in turn and divides round by round,
so that whatever slows the machine slows both; the median of the rounds counts, their range is shown beside it.
"""

from __future__ import annotations

import hashlib
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from studies.harness.rows import Row
from studies.harness.tables import print_table

Result = TypeVar("Result")
HEADER = ("part", "what", "ours", "against", "theirs", "ratio", "range", "limit", "verdict", "note")


@dataclass(frozen=True)
class Spent:
    """What a step took.

    Args:
        wall: seconds by the clock.
        cpu: seconds of all cores, those of processes that it started included.
        peak_gb: most memory that the process held so far.
    """

    wall: float
    cpu: float
    peak_gb: float


def measured(call: Callable[[], Result]) -> tuple[Result, Spent]:
    """Return what a step gives and what it took."""
    wall, cpu = time.perf_counter(), _processors()
    result = call()
    wall, cpu = time.perf_counter() - wall, _processors() - cpu
    return result, Spent(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def _processors() -> float:
    """Return the seconds that this process and those that it waited for have had of all cores."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(frozen=True)
class Line:
    """One line of the table: ours against something else.

    Args:
        part: of the package: fit, prediction, ...
        what: is measured.
        ours: seconds, unless `unit` says otherwise.
        against: what it is divided by.
        theirs: the same of that.
        ratio: ours / theirs, the median over rounds.
        low, high: range over rounds.
        limit: the most that `ratio` may be, or `ours` where `absolute`.
        note: what to know, or why there is nothing.
    """

    part: str
    what: str
    ours: float = math.nan
    against: str = ""
    theirs: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    limit: float | None = None
    absolute: bool = False
    unit: str = "s"
    note: str = ""

    @classmethod
    def of(
        cls, part: str, what: str, ours: Sequence[float], against: str, theirs: Sequence[float], **more: Any
    ) -> Line:
        """Return the line of rounds in which ours and theirs were measured by turns."""
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        seconds = statistics.median(ours), statistics.median(theirs)
        middle = statistics.median(ratios)
        return cls(part, what, seconds[0], against, seconds[1], middle, min(ratios), max(ratios), **more)

    @property
    def verdict(self) -> str:
        """Whether the limit is met; "" without one."""
        seen = self.ours if self.absolute else self.ratio
        if self.limit is None or math.isnan(seen):
            return ""
        return "met" if seen <= self.limit else "MISSED"

    def cells(self) -> tuple[str, ...]:
        """Return the line as text, in the order of `HEADER`."""
        spread = "" if self.low == self.high or math.isnan(self.low) else f"{number(self.low)} to {number(self.high)}"
        limit = "" if self.limit is None else amount(self.limit, self.unit) if self.absolute else number(self.limit)
        sizes = (amount(self.ours, self.unit), self.against, amount(self.theirs, self.unit), number(self.ratio))
        return (self.part, self.what, *sizes, spread, limit, self.verdict, self.note)

    def row(self) -> Row:
        """Return the line as plain values."""
        return {name: None if value != value else value for name, value in asdict(self).items()}

    @classmethod
    def from_row(cls, row: Row) -> Line:
        """Return the line that `row` gave."""
        known: dict[str, Any] = {n: math.nan if value is None and n != "limit" else value for n, value in row.items()}
        return cls(**known)


def print_lines(title: str, lines: Iterable[Line], *, markdown: bool = False) -> None:
    """Print lines as one table."""
    print_table(title, HEADER, [line.cells() for line in lines], markdown=markdown)


def number(value: float) -> str:
    """Return a number with three digits."""
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def amount(value: float, unit: str) -> str:
    """Return an amount with its unit; seconds as µs or ms where they are short."""
    if math.isnan(value):
        return ""
    if unit == "s" and value < 1:
        return f"{number(value * 1e6)} µs" if value < 1e-3 else f"{number(value * 1e3)} ms"
    return f"{number(value)} {unit}".strip()


# -- by turns ---------------------------------------------------------------------------------------------------------


def by_turns(steps: Sequence[Callable[[], object]], rounds: int) -> list[list[Spent]]:
    """Return what each step took in each round, the steps of a round one after the other; one more warms them up."""
    for step in steps:
        step()
    spent: list[list[Spent]] = [[] for _ in steps]
    for _ in range(rounds):
        for seen, step in zip(spent, steps, strict=True):
            seen.append(measured(step)[1])
    return spent


def how_many(step: Callable[[int], object], seconds: float, most: int, least: int = 1) -> int:
    """Return how many of something a step manages in some seconds; step(least) is tried twice."""
    step(least)
    taken = measured(lambda: step(least))[1].wall / least
    return max(least, min(most, int(seconds / taken)))


# -- in a process of its own ------------------------------------------------------------------------------------------


def in_own_process(name: str, cell: dict[str, Any], *, minutes: float, most_gb: float) -> list[Row]:
    """Run `python -m studies NAME --cell ...`; return the rows it says, and {"failed": why} if it does not end well.

    Args:
        minutes: after which it is stopped; what it said so far is kept.
        most_gb: memory that it may ask for; more fails in that process alone.
    """
    words = [sys.executable, "-m", "studies", name, "--cell", json.dumps(cell), "--most-gb", str(most_gb)]
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        try:
            code = subprocess.run(words, stdout=said, stderr=complained, timeout=60 * minutes, check=False).returncode
            failed = ""
        except subprocess.TimeoutExpired:
            code, failed = 0, f"not done in {minutes:g} minutes"
        said.seek(0), complained.seek(0)
        rows = [json.loads(line) for line in said if line.startswith("{") and line.endswith("}\n")]
        if code:
            failed = (complained.read().strip().splitlines() or [""])[-1][:200] or f"ended with status {code}"
    return [*rows, {"failed": failed}] if failed else rows


def limit_memory(most_gb: float) -> None:
    """Let this process fail where it asks for more memory than that."""
    if most_gb:
        resource.setrlimit(resource.RLIMIT_DATA, (int(most_gb * 2**30),) * 2)


def say(**row: Any) -> None:
    """Print one row for the process that waits for it."""
    print(json.dumps(row), flush=True)


def source() -> str:
    """Return a few letters that change when the code of the package does: figures of other code are not resumed."""
    spec = find_spec("nasheval")
    assert spec is not None
    assert spec.origin is not None
    files = sorted(Path(spec.origin).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:10]
