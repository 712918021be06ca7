"""The compiled factorisation: bit for bit that of one column at a time."""

from __future__ import annotations

import numpy as np
import pytest

from nasheval.game.linear import factor, substitute


def one_by_one(a: np.ndarray) -> tuple[np.ndarray, list[int], float]:
    """Return the LU factors of a, the rows exchanged, and the least pivot over the largest."""
    a, order, sizes = a.copy(), [], []
    for k in range(len(a)):
        best = k + int(np.abs(a[k:, k]).argmax())
        a[[k, best]] = a[[best, k]]
        order.append(best)
        sizes.append(abs(a[k, k]))
        if not sizes[-1] > 0:
            return a, order, 0.0
        a[k + 1 :, k] *= 1.0 / a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]
    return a, order, min(sizes) / max(sizes)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 30])
def test_four_columns_at_a_time_give_the_bits_of_one_by_one(m: int) -> None:
    rng = np.random.default_rng(m)
    whole, order = rng.normal(size=(m + 2, m + 2)), np.empty(m, np.int64)
    outside, expected, right = whole.copy(), one_by_one(whole[:m, :m]), rng.normal(size=m)
    solution = np.linalg.solve(whole[:m, :m], right)
    assert factor(whole, m, order) == expected[2]
    np.testing.assert_array_equal(whole[:m, :m], expected[0])
    np.testing.assert_array_equal(order, expected[1])
    np.testing.assert_array_equal(whole[m:], outside[m:])
    substitute(whole, m, order, right)
    np.testing.assert_allclose(right, solution, atol=1e-9)


@pytest.mark.parametrize("bad", [0.0, np.nan])
def test_what_is_singular_says_so(bad: float) -> None:
    matrix = np.random.default_rng(0).normal(size=(9, 9))
    matrix[:, 6] = bad
    assert factor(matrix, 9, np.empty(9, np.int64)) == 0.0
