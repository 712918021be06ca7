"""Which winners were never compared with which rivals."""

from __future__ import annotations

import numpy as np
import pytest

from nasheval.scoring.explain import rivals_not_met


@pytest.mark.parametrize("seed", range(5))
def test_rivals_not_met_are_those_of_some_winner(seed):
    rng = np.random.default_rng(seed)
    status = np.triu(rng.integers(3, size=(5, 5)), 1)
    status += status.T
    won, up = rng.random((7, 5)) < 0.4, rng.random((7, 5)) < 0.7
    for code, rivals in zip((1, 2), rivals_not_met(status, won, up), strict=True):
        for row in range(7):
            slow = {b for a in np.flatnonzero(won[row]) for b in np.flatnonzero(up[row]) if status[a, b] == code}
            assert set(np.flatnonzero(rivals[row])) == slow
