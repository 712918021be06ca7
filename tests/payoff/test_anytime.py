"""Critical values for every look: against numerical integrals, drawn paths, and what must hold of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from nasheval.errors import InputError
from nasheval.payoff.anytime import _DRIFT, _SPREAD, anytime_value, checked_planned

ERRORS = st.sampled_from([0.1, 0.05, 0.025, 0.005])


@pytest.mark.parametrize("error", [0.1, 0.05, 0.001])
@pytest.mark.parametrize("votes", [3, 50, 1000, 1600, 20_000])
def test_the_mean_likelihood_ratio_of_the_drifts_is_one_over_the_error_there(votes, error):
    """The mixture integrated by a rule of its own: drifts are normal, cut at 0."""
    time, unit = votes / 1000, np.sqrt(2 * np.log(1 / error))
    value = anytime_value(votes, 1000, error) * np.sqrt(time)
    drifts = norm(_DRIFT * unit, _SPREAD * unit)

    def ratio(drift):
        return np.exp(drift * value - drift**2 * time / 2) * drifts.pdf(drift) / drifts.sf(0)

    top = (_DRIFT + 12 * _SPREAD) * unit
    found = quad(ratio, 0, top, points=[min(value / time, top)], limit=400)[0]
    assert found == pytest.approx(1 / error, rel=1e-6)


@given(error=ERRORS, votes=st.integers(1, 10**6), planned=st.integers(1, 10**5))
def test_looking_often_costs_more_than_one_look_and_nothing_but_the_share_of_the_plan_counts(error, votes, planned):
    value = anytime_value(votes, planned, error)
    assert value > norm.ppf(1 - error)
    assert anytime_value(3 * votes, 3 * planned, error) == pytest.approx(value, rel=1e-9)
    assert anytime_value(votes, planned, error / 2) > value


def test_it_is_narrowest_about_the_votes_that_were_planned():
    widths = {votes: anytime_value(votes, 1000, 0.05) for votes in (10, 300, 1000, 3000, 100_000)}
    assert min(widths, key=widths.__getitem__) == 1000
    assert widths[1000] / norm.ppf(0.95) == pytest.approx(1.52, abs=0.01)


def test_paths_without_a_drift_go_beyond_it_as_seldom_as_promised_and_not_much_more_seldom():
    """4,000 random walks of 4,000 steps, looked at after every step from the 20th on."""
    rng, planned, error = np.random.default_rng(0), 1000, 0.05
    times = np.arange(20, 4001)
    limit = np.array([anytime_value(int(n), planned, error) for n in times]) * np.sqrt(times)
    beyond = 0
    for _ in range(40):
        paths = np.cumsum(rng.standard_normal((100, 4000), dtype=np.float32), axis=1)[:, 19:]
        beyond += int((paths > limit).any(axis=1).sum())
    assert 0.025 <= beyond / 4000 <= 0.055


@pytest.mark.parametrize("planned", [0, -5, 1.5, "many", None, True])
def test_a_plan_is_a_number_of_votes(planned):
    with pytest.raises(InputError, match="accepted is a whole number of votes, 1 or more"):
        checked_planned(planned)
