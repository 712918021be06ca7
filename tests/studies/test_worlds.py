"""The worlds of the coverage benchmark: their truth against logs and independent sums, and the harness's intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

from studies.benchmarks.coverage_arena import Share
from studies.benchmarks.worlds import WORLDS, Contexts, Population, bradley_terry, own_contexts, population

SMALL = [name for name in WORLDS if not name.endswith(("-22", "-60"))] + ["category-22", "voters-60"]


@pytest.mark.parametrize("number", [0, 3])
def test_truth_is_the_mean_over_other_points_too(number: int) -> None:
    people = population(number, 4)
    x = 2 * qmc.Sobol(2, scramble=True, rng=np.random.default_rng(1)).random_base2(13) - 1
    means = [people.payoffs(Contexts(np.full(len(x), side), x)) for side in (-1.0, 1.0)]
    truth = WORLDS["category-4"](number).truth
    assert truth["en"] == pytest.approx(means[0], abs=2e-4)
    assert truth["all"] == pytest.approx((means[0] + means[1]) / 2, abs=2e-4)


def weighted_sums(name: str, seeds: range) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each log and pair, sum of z / e over n (an unbiased estimate of the mean payoff), and the truth."""
    found, truth = [], np.zeros(0)
    for seed in seeds:
        world = WORLDS[name](seed)
        log, upper = world.log, np.triu_indices(world.log.n_agents, 1)
        truth = world.truth["all"][upper]
        chance = (world.with_propensity() if world.with_propensity else world.log).records.propensity
        pair = log.menus.columns.pair[log.menus.column_of_verdict]
        found.append(np.bincount(pair, log.verdicts.z / chance, len(truth)) / log.n_contexts)
    return np.array(found), truth


@pytest.mark.slow
@pytest.mark.parametrize("name", ["category-4", "u-shaped-4", "random-4", "inclusion-8", "tiny-4"])
def test_votes_weighted_by_true_propensities_give_the_truth(name: str) -> None:
    sums, truth = weighted_sums(name, range(0, 400, 10))  # one population, forty logs
    z = (sums.mean(axis=0) - truth) / (sums.std(axis=0, ddof=1) / np.sqrt(len(sums)))
    assert np.abs(z).max() < 4


def test_selected_pairs_are_asked_twelve_times_as_often_in_fi() -> None:
    world = WORLDS["category-22"](1)
    log = world.log
    pair = log.menus.columns.pair[log.menus.column_of_verdict]
    chosen, fi = world.selected[pair], world.inside["fi"]
    per_pair = [chosen[fi].sum() / 15, (~chosen[fi]).sum() / 216]
    assert per_pair[0] / per_pair[1] == pytest.approx(12, rel=0.15)
    assert chosen[~fi].mean() == pytest.approx(15 / 231, rel=0.2)


def test_agents_have_no_vote_before_they_enter() -> None:
    log = WORLDS["entering-12"](0).log
    first = [log.records.time[(log.records.agent.reshape(-1, 2) == a).any(axis=1)].min() for a in range(12)]
    assert max(first[:6]) < 0.02 * 100 * 86_400
    assert np.all(np.diff(first[6:]) > 0)


def test_a_star_compares_its_centre_alone_and_its_contexts_follow_bradley_terry() -> None:
    world, people = WORLDS["star-6"](2), bradley_terry(2, K=6)
    seen = world.log.pair_counts.votes > 0
    assert seen[0, 1:].all()
    assert not seen[1:, 1:].any()
    here = Contexts(np.ones(1), np.array([[0.3, -0.2]]))
    logit = 2 * np.arctanh(people.payoffs(here))
    assert logit[1, 4] == pytest.approx(logit[1, 0] + logit[0, 4])


def test_few_voters_have_the_truth_of_their_panel_and_many_that_of_the_population() -> None:
    panels = [own_contexts(seed, voters=3).truth["all"] for seed in (0, 10)]
    crowds = [own_contexts(seed, voters=60).truth["all"] for seed in (0, 10)]
    assert np.abs(panels[0] - panels[1]).max() > 0.01
    assert np.array_equal(*crowds)


def test_margins_of_single_contexts_average_to_the_payoffs() -> None:
    people: Population = population(1, 5)
    rng = np.random.default_rng(0)
    at = Contexts(rng.choice((-1.0, 1.0), 50), rng.uniform(-1, 1, (50, 2)))
    margins = people.margins(at, np.full(50, 1), np.full(50, 3))
    assert margins.mean() == pytest.approx(people.payoffs(at)[1, 3])


@pytest.mark.parametrize("name", SMALL)
def test_every_world_has_an_antisymmetric_truth_for_all_its_groups(name: str) -> None:
    world = WORLDS[name](4)
    for group, truth in world.truth.items():
        assert truth == pytest.approx(-truth.T)
        assert np.abs(truth).max() < 1
        assert group == "all" or world.inside[group].shape == (world.log.n_contexts,)
    assert world.with_propensity is None or world.with_propensity().records.propensity.shape == (world.log.n_records,)


def test_unanimous_margins_are_near_094() -> None:
    for seed in range(10):
        world = WORLDS["unanimous-3"](seed)
        assert world.truth["all"][0, 1:] == pytest.approx(0.94, abs=0.015)


def test_the_interval_of_a_share_takes_a_log_as_a_cluster() -> None:
    even = Share(np.array([[10, 10], [9, 10]] * 50, float))
    low, high = even.clustered()
    assert (low + high) / 2 == pytest.approx(0.95)
    assert high - low == pytest.approx(2 * 2.6264 * 0.05 * np.sqrt(100 / 99) / 10, rel=1e-3)
    alike = Share(np.full((100, 2), 10.0))
    assert alike.clustered() == (pytest.approx(0.005 ** (1 / 100)), 1.0)
    assert not Share(np.full((300, 2), 10.0)).meets_bar()
