"""Bradley-Terry scores near a known start: the answers of Newton's method, without its solves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.game import scores
from nasheval.game.scores import fit_scores


def problems(rng: np.random.Generator, K: int, n: int, spread: float, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Leads of n problems whose margins lie about common ones, on a connected graph of pairs."""
    meetings = np.triu(rng.random((K, K)) < share, 1) * rng.uniform(0.1, 1.0, (K, K))
    meetings[0, 1:] += 0.2  # a star, so that all are connected
    meetings = np.triu(meetings, 1) + np.triu(meetings, 1).T
    margins = np.tanh(rng.normal(size=(1, K, K)) + spread * rng.normal(size=(n, K, K)))
    margins = np.triu(margins, 1)
    return np.einsum("njk,jk->nj", margins - margins.transpose(0, 2, 1), meetings), meetings


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(2, 9), st.floats(0.0, 2.0), st.floats(0.0, 1.0))
def test_scores_from_a_start_are_those_of_newtons_method(seed: int, K: int, spread: float, share: float) -> None:
    rng = np.random.default_rng(seed)
    lead, meetings = problems(rng, K, 6, spread, share)
    far = rng.normal(size=K) * 3
    for start in (fit_scores(lead.mean(axis=0, keepdims=True), meetings, ridge=1e-3)[0], far):
        found = fit_scores(lead, meetings, ridge=1e-3, start=start)
        np.testing.assert_allclose(found, fit_scores(lead, meetings, ridge=1e-3), atol=1e-5)
        np.testing.assert_allclose(found.sum(axis=1), 0, atol=1e-6)


def test_problems_near_the_start_take_no_solve_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lead, meetings = problems(np.random.default_rng(1), 30, 50, 0.1, 0.3)
    start = fit_scores(lead.mean(axis=0, keepdims=True), meetings, ridge=1e-6)[0]
    expected, solved, newton = fit_scores(lead, meetings, ridge=1e-6), [], scores._solved
    monkeypatch.setattr(scores, "_solved", lambda lead, *more: solved.append(len(lead)) or newton(lead, *more))
    np.testing.assert_allclose(fit_scores(lead, meetings, ridge=1e-6, start=start), expected, atol=1e-6)
    assert not solved
