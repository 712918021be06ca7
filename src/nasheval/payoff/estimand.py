"""What intervals are made of: values at each context, estimated by a plug-in and sparse corrections.

The columns are pairs of agents for payoffs (`nasheval.payoff.pseudo`), and pairs of policies or single agents for
contests (`nasheval.scoring.contrasts`). `nasheval.payoff.clusters` knows no other form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from nasheval.arrays import Bools, Floats, Ints, offsets_of
from nasheval.feedback.log import Feedback
from nasheval.payoff.bridging import ScoreBridge

CELLS = 1 << 22  # numbers held for one chunk of contexts: 32 MB as float64


@dataclass(frozen=True, eq=False)
class Effects:
    """Estimates that all columns rest on, beside the verdicts: what style and position are worth.

    Args:
        record: (w,) the record of each verdict of the log.
        score: (w, S) what it adds to the error of the S estimates.
        slope: contexts -> (C, S) by how much the means over them move with the estimates.
    """

    record: Ints
    score: Floats
    slope: Callable[[Ints], Floats]


@dataclass(frozen=True, eq=False)
class Estimand:
    """C values at each context: a plug-in plus corrections; v counts the corrections, in the order of the log.

    Args:
        log: whose contexts, records and voters they are.
        used: (n_contexts,) which contexts have a value.
        context, record, column: (v,) where each correction is, contexts ascending.
        correction: (v,) what it adds to the plug-in there.
        weight: (v,) how much its verdict counts.
        status: (C,) what is known of each column (`nasheval.payoff.bridging`).
        plugin: yields (contexts, (len(contexts), C) plug-in values), in bounded chunks of the contexts asked for.
        bias: (C,) how far raised propensities could move the means over the contexts asked for.
        bridge: what gives means to columns that were never compared; None where nothing does.
        effects: what else is estimated and moves the means; None: nothing.
    """

    log: Feedback
    used: Bools
    context: Ints
    record: Ints
    column: Ints
    correction: Floats
    weight: Floats
    status: Ints
    plugin: Callable[[Ints], Iterator[tuple[Ints, Floats]]]
    bias: Callable[[Ints], Floats]
    bridge: ScoreBridge | None = None
    effects: Effects | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns C."""
        return len(self.status)

    @cached_property
    def starts(self) -> Ints:
        """(n_contexts + 1,) where the corrections of each context start."""
        return offsets_of(np.bincount(self.context, minlength=self.log.n_contexts))

    @cached_property
    def corrections(self) -> csr_array:
        """The corrections as a sparse (n_contexts, C) array, summed over a context's records."""
        shape = self.log.n_contexts, self.n_columns
        summed = csr_array((self.correction, self.column, self.starts), shape=shape, copy=True)
        summed.sum_duplicates()
        return summed


def surface_chunks(surface: Floats, rows: Ints, step: int) -> Iterator[tuple[Ints, Floats]]:
    """Yield some rows of a surface, (n_contexts, C), `step` at a time."""
    for start in range(0, len(rows), step):
        yield rows[start : start + step], surface[rows[start : start + step]]
