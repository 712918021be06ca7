"""How the log came about: menus included independently, or drawn one at a time.

The two designs give the propensity e^m(x) two meanings, and so two forms of the pseudo-outcome:

* `inclusion`: at a context each menu is in or out, S^m in {0, 1}, and e^m is its inclusion probability. The e^m need
  not sum to one. This is the paper's main setting, its simulation and RouterBench.
* `draws`: each record is one draw of a menu, the propensities over Q sum to one, and a context may draw a menu again.
  This is an arena, or the highway log. The pseudo-outcome averages over the records of a context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from nasheval.arrays import Floats, Ints

DesignName = Literal["inclusion", "draws"]
DESIGNS = ("inclusion", "draws")

_CLEAR = 5.0  # repeats that independent draws should have shown before their absence speaks for inclusion


@dataclass(frozen=True)
class Design:
    """The design of a log and the reason for taking it to be that."""

    name: DesignName
    reason: str


def detect(menu: Ints, context_of: Ints, weights: Floats, n_contexts: int) -> Design:
    """Tell the design from how often a context repeats a menu.

    Args:
        menu: (n,) menu of each record.
        context_of: (n,) context of each record, ascending.
        weights: (n,) record weights; records that share one unit of weight count as one.
    """
    menu, context_of, repeats = _units(menu, context_of, weights)
    if repeats:
        return Design("draws", f"{repeats:,} times a context asks the same menu again")
    records = np.bincount(context_of, minlength=n_contexts)
    if empty := int((records == 0).sum()):
        have = "context has" if empty == 1 else "contexts have"
        return Design("inclusion", f"{empty:,} {have} no record, which one draw a context cannot give")
    if records.max(initial=0) <= 1:
        return Design("draws", "every context has exactly one record")
    share = np.bincount(menu) / len(menu)
    expected = float((records * (records - 1) / 2).sum() * (share**2).sum())
    if expected >= _CLEAR:
        return Design(
            "inclusion", f"no context repeats a menu, where independent draws would about {expected:,.0f} times"
        )
    if (records <= 1).mean() >= 0.5:
        return Design("draws", "most contexts have one record, and too few have several to tell otherwise")
    return Design("inclusion", "contexts have several records and none repeats a menu")


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
