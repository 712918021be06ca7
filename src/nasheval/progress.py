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


@contextmanager
def rows_done(total: int, done: int, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Show how many rows are done of how many, how many per second and the time left; yield how to advance.

    Args:
        done: rows that an earlier run did.
        show: whether to draw at all; the bar goes to standard error, and leaves nothing behind.
    """
    if not show:
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    rows = TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows")
    left = TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(rows, BarColumn(), TextColumn("{task.fields[rate]}"), left, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, completed=done, rate="")
        here = 0

        def advance(count: int) -> None:
            nonlocal here
            here += count
            rate = here / max(bar.tasks[0].elapsed or 0.0, 1e-9)
            bar.update(task, advance=count, rate=f"{rate:,.0f} a second")

        yield advance
