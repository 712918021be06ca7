"""A progress bar over named stages, with the time left; silent where nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

Advance = Callable[[float], None]


@contextmanager
def stages(shares: Mapping[str, float], *, show: bool) -> Iterator[Callable[[str], Advance]]:
    """Show one bar for several stages; yield a function that begins a stage and returns how to advance it.

    Args:
        shares: about how much of the whole time each stage takes; they need not add up to anything.
        show: whether to draw at all; the bar goes to standard error, and leaves nothing behind.
    """
    if not show:
        yield lambda name: lambda share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=sum(shares.values()))
        done = 0.0

        def begin(name: str) -> Advance:
            nonlocal done
            bar.update(task, description=name, completed=done)
            done += shares[name]
            return lambda share: bar.advance(task, share * shares[name])

        yield begin
