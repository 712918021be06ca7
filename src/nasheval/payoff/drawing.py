"""How results of this room and the next are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from nasheval.nuisance.nuisance_diagnostics import Calibration, NuisanceDiagnostics

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_MOST = 30  # rows of a table
_THINNEST = 10  # pairs in one of effective votes


def nuisance_tables(measured: NuisanceDiagnostics) -> Iterator[Text | Table]:
    """Draw how well nuisances fit, their calibration tables, the thinnest pairs and the warnings."""
    from rich.text import Text

    outcome, *propensities = measured.lines()
    yield Text(outcome)
    yield _calibration_table("Verdicts by predicted verdict", measured.outcome)
    yield from map(Text, propensities)
    if measured.check is not None and not measured.check.is_off:
        yield Text(f"{measured.check}; {measured.check.n_tests} tests together")
    if measured.propensity is not None:
        yield _calibration_table("Menus asked, by predicted propensity", measured.propensity)
    votes, effective = measured.votes, measured.effective
    order = np.argsort(effective, kind="stable")[:_THINNEST].tolist()
    fewest = f"The {_THINNEST} pairs with fewest effective votes"
    title = fewest if len(votes) > _THINNEST else "Effective votes of each pair"
    rows = [(measured.pair_name(pair), f"{votes[pair]:,}", f"{effective[pair]:,.1f}") for pair in order]
    yield listing(title, ("pair",), ("votes", "effective"), rows, len(rows))
    yield from warnings(tuple(measured.warnings()))


def _calibration_table(title: str, calibration: Calibration) -> Table:
    columns = (calibration.predicted, calibration.observed, calibration.error, calibration.count)
    rows = [(f"{p:.3f}", f"{o:.3f}", f"{e:.3f}", f"{n:,}") for p, o, e, n in zip(*columns, strict=True)]
    return listing(title, (), ("predicted", "observed", "± s.e.", "count"), rows, len(rows))


def listing(
    title: str, names: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str]], total: int
) -> Table:
    """Draw rows of names and then numbers, the first thirty of them."""
    from rich.table import Table
    from rich.text import Text

    more = f" (first {_MOST} of {total:,})" if total > _MOST else ""
    made = Table(title=Text(title + more), title_justify="left")  # a name may be "[bold]"
    for name in names:
        made.add_column(name, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right")
    for row in islice(rows, _MOST):
        made.add_row(*map(Text, row))
    return made


def warnings(notes: tuple[str, ...]) -> Iterator[Text]:
    """Draw notes as warnings."""
    from rich.text import Text

    return (Text.assemble(("!", "yellow"), " ", note) for note in notes)
