"""How the log came about: menus included independently, or drawn one at a time.

The two designs give the propensity e^m(x) two meanings, and so two forms of the pseudo-outcome:

* `inclusion`: at a context each menu is in or out, S^m in {0, 1}, and e^m is its inclusion probability. The e^m need
  not sum to one. This is the paper's main setting, its simulation and RouterBench.
* `draws`: each record is one draw of a menu, the propensities over Q sum to one, and a context may draw a menu again.
  This is an arena, or the highway log. The pseudo-outcome averages over the records of a context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from nasheval.arrays import Floats, Ints
from nasheval.choices import DesignName as DesignName

DESIGNS: tuple[DesignName, ...] = get_args(DesignName)

_CLEAR = 5.0  # how many of something one design should have shown before their absence speaks for the other


@dataclass(frozen=True)
class Design:
    """The design of a log and the reason for taking it to be that."""

    name: DesignName
    reason: str


def detect(menu: Ints, context_of: Ints, weights: Floats, n_contexts: int) -> Design:
    """Tell the design from what one of the two cannot give, or hardly.

    A menu that is included is there once, so a repeat speaks for draws. Where independent draws would have repeated
    menus and none is repeated, that speaks for inclusion. Where independent inclusion would have given contexts several
    menus and none has several, that speaks for draws. A context without a record speaks for neither: a draw whose
    answer was left out leaves one, too. Where nothing is clear, what most contexts hold decides.

    Args:
        menu: (n,) menu of each record.
        context_of: (n,) context of each record, ascending.
        weights: (n,) record weights; records that share one unit of weight count as one.
        n_contexts: number of contexts, those without a record included.
    """
    menu, context_of, repeats = _units(menu, context_of, weights)
    if repeats:
        return Design("draws", f"{repeats:,} time{'s' if repeats > 1 else ''} a context asks the same menu again")
    records = np.bincount(context_of, minlength=n_contexts)
    if (records == 1).all():
        return Design("draws", "every context has exactly one record")
    if (expected := _repeats_if_drawn(menu, records)) >= _CLEAR:
        what = "no context repeats a menu, where independent draws would about"
        return Design("inclusion", f"{what} {expected:,.0f} times")
    several = bool(records.max() > 1)
    if not several and (expected := _several_if_included(menu, n_contexts)) >= _CLEAR:
        what = "no context has several records, where menus included independently would give about"
        return Design("draws", f"{what} {expected:,.0f} of them several")
    if (records == 1).mean() >= 0.5:
        return Design("draws", "most contexts have one record, and too few have several to tell otherwise")
    if several:
        return Design("inclusion", "contexts have several records and none repeats a menu")
    return Design("inclusion", "most contexts have no record, and too few have one to tell otherwise")


def _repeats_if_drawn(menu: Ints, records: Ints) -> float:
    """Return how many pairs of records at one context would share a menu, were each record drawn by itself."""
    share = np.bincount(menu) / max(len(menu), 1)
    return float((records * (records - 1) / 2).sum() * (share**2).sum())


def _several_if_included(menu: Ints, n_contexts: int) -> float:
    """Return how many contexts would have two records or more, were each menu included by itself; some have none."""
    share = np.bincount(menu) / n_contexts
    none = float(np.prod(1 - share))
    return n_contexts * (1 - none - none * float((share / (1 - share)).sum()))


def _units(menu: Ints, context_of: Ints, weights: Floats) -> tuple[Ints, Ints, int]:
    """Return menu and context with records that share one unit of weight as one, and how many cells hold more."""
    several = np.bincount(context_of)[context_of] > 1
    rows = np.flatnonzero(several)
    if not len(rows):
        return menu, context_of, 0
    order = rows[np.lexsort((menu[rows], context_of[rows]))]
    context, asked = context_of[order], menu[order]
    new = np.ones(len(order), bool)
    new[1:] = (context[1:] != context[:-1]) | (asked[1:] != asked[:-1])
    starts = np.flatnonzero(new)
    size = np.diff(np.append(starts, len(order)))
    repeats = (size > 1) & (np.add.reduceat(weights[order], starts) > 1 + 1e-6)
    several[order[starts]] = False
    return menu[~several], context_of[~several], int(repeats.sum())
