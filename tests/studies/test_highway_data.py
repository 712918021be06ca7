"""The MO-Highway builder: judges without the simulator, everything else with it."""

from __future__ import annotations

import json
import math
from itertools import permutations

import numpy as np
import pyarrow.parquet as pq
import pytest

from nasheval import InputError, MissingExtraError
from studies.highway_log import agents as highway_agents
from studies.highway_log import build as highway_data
from studies.highway_log.agents import AGENTS, Configuration, GreedyPolicy
from studies.highway_log.judges import (
    JUDGES,
    hold_cycle,
    judge_verdicts,
    sample_comparisons,
    verdict_sums,
)

# The simulator's own packages warn about float precision and deprecated calls; that is not ours to fix.
simulator = pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore:.*:DeprecationWarning")


@pytest.fixture
def sim():
    pytest.importorskip("highway_env", reason="highway-env is not installed")
    pytest.importorskip("mo_gymnasium", reason="mo-gymnasium is not installed")
    from studies.highway_log import sim as highway_sim

    return highway_sim


def some_performances(shape=(6, 4, 5), seed=0):
    rng = np.random.default_rng(seed)
    z = rng.uniform(size=(*shape, 3))
    z[..., 2] = rng.integers(2, size=shape)
    return z


class TestJudges:
    def test_verdicts_follow_each_judges_utility(self):
        fast_crash, slow_safe = [1.0, 0.5, 0.0], [0.2, 0.5, 1.0]
        assert judge_verdicts(fast_crash, slow_safe).tolist() == [1, -1, -1]
        assert judge_verdicts(slow_safe, fast_crash).tolist() == [-1, 1, 1]

    def test_equal_performances_tie_exactly(self):
        z = some_performances().astype(np.float32)
        assert not judge_verdicts(z, z.copy()).any()

    def test_the_safety_judge_ignores_the_lane(self):
        assert judge_verdicts([0.3, 0.0, 1.0], [0.3, 1.0, 1.0])[1] == 0

    def test_a_wrong_shape_is_refused(self):
        with pytest.raises(InputError, match="last axis"):
            judge_verdicts([1.0, 2.0], [1.0, 2.0])

    def test_sums_of_verdicts_by_hand(self):
        z = some_performances()
        sums = verdict_sums(z)
        pair = list(zip(*np.triu_indices(5, 1), strict=True)).index((1, 3))
        by_hand = [sum(np.sign(np.dot(v, z[2, i, 1]) - np.dot(v, z[2, i, 3])) for v in JUDGES) for i in range(4)]
        assert sums.shape == (6, 4, 10)
        np.testing.assert_array_equal(sums[2, :, pair], by_hand)

    def test_a_tie_counts_as_zero(self):
        assert not verdict_sums(np.tile([0.5, 0.5, 1.0], (1, 3, 2, 1))).any()


class TestComparisons:
    def test_the_paper_has_20480(self):
        drawn = sample_comparisons(some_performances((256, 8, 5)), seed=1)
        assert len(drawn.verdict) == 20_480
        assert (drawn.agent_j < drawn.agent_k).all()
        assert set(drawn.judge.tolist()) == {0, 1, 2}
        assert set(drawn.verdict.tolist()) == {-1, 1}

    def test_pairs_and_judges_are_uniform(self):
        drawn = sample_comparisons(some_performances((256, 8, 5)), seed=1)
        share = np.unique(drawn.agent_j * 5 + drawn.agent_k, return_counts=True)[1] / len(drawn.judge)
        assert share == pytest.approx(np.full(10, 0.1), abs=0.01)
        assert np.bincount(drawn.judge) / len(drawn.judge) == pytest.approx(np.full(3, 1 / 3), abs=0.02)

    def test_verdicts_are_the_judges(self):
        z = some_performances()
        drawn = sample_comparisons(z, seed=3)
        for n in range(len(drawn.verdict)):
            task = z[drawn.configuration[n], drawn.initialisation[n]]
            verdicts = judge_verdicts(task[drawn.agent_j[n]], task[drawn.agent_k[n]])
            assert drawn.verdict[n] == verdicts[drawn.judge[n]]

    def test_ties_are_broken_by_a_fair_coin(self):
        drawn = sample_comparisons(np.ones((100, 10, 5, 3)), seed=4)
        assert abs(drawn.verdict.mean()) < 0.05

    def test_a_seed_gives_the_same_draw(self):
        z = some_performances()
        np.testing.assert_array_equal(sample_comparisons(z, seed=5).verdict, sample_comparisons(z, seed=5).verdict)


class TestCycles:
    def test_against_all_orders(self):
        rng = np.random.default_rng(0)
        payoffs = np.sign(rng.integers(-1, 2, size=(200, 4, 4)).astype(float))
        payoffs -= payoffs.transpose(0, 2, 1)
        found = [not any(_consistent(A > 0, order) for order in permutations(range(4))) for A in payoffs]
        assert 0 < sum(found) < 200
        assert hold_cycle(payoffs).tolist() == found


def _consistent(beats, order):
    return not any(beats[order[b], order[a]] for a in range(len(order)) for b in range(a, len(order)))


class TestContexts:
    def test_draws_stay_in_the_papers_ranges(self):
        drawn = [Configuration.draw(np.random.default_rng(seed)) for seed in range(400)]
        assert {c.lanes_count for c in drawn} == {2, 3, 4, 5}
        assert min(c.vehicles_count for c in drawn) == 20
        assert max(c.vehicles_count for c in drawn) == 60
        assert all(0.7 <= c.vehicles_density <= 1.5 and 0.5 <= c.ego_spacing <= 3 for c in drawn)
        assert all(0 <= c.initial_lane_id < c.lanes_count for c in drawn)

    def test_every_context_and_episode_has_its_own_seed(self):
        splits = highway_data.PAPER.splits
        contexts = {s.configuration(n) for s in splits for n in range(s.configurations)}
        seeds = [
            s.episode_seed(n, i) for s in splits for n in range(s.configurations) for i in range(s.initialisations)
        ]
        assert len(contexts) == 320
        assert len(seeds) == 256 * 8 + 32 * 32 + 32 * 64
        assert len(set(seeds)) > len(seeds) - 3  # 32-bit seeds may meet by chance

    def test_the_agents_are_the_papers(self):
        assert [a.weights[1] for a in AGENTS] == [0.8, 0.1, 0.1, 0.0, 0.0]
        assert [a.discount for a in AGENTS] == [0.8, 0.8, 0.8, 0.99, 0.99]


def _trajectory(env, configuration, seed):
    """Everything that can be seen of an episode under random actions."""
    rng = np.random.default_rng(seed)
    seen = [env.reset(seed=seed, options=configuration.reset_options())[0]]
    over = False
    while not over:
        action = int(rng.choice(5, p=(0.1, 0.5, 0.1, 0.15, 0.15)))
        observation, reward, crashed, out_of_time, _ = env.step(action)
        over = crashed or out_of_time
        states = [[*v.position, v.heading, v.speed, v.lane_index[2], v.crashed] for v in env.road.vehicles]
        seen += [observation, reward, np.array(states, dtype=float)]
    return seen


@simulator
@pytest.mark.parametrize("seed", range(5))
def test_the_fast_simulator_is_bit_identical(sim, seed):
    import mo_gymnasium

    configuration = Configuration.draw(np.random.default_rng(seed))
    original = _trajectory(mo_gymnasium.make("mo-highway-fast-v0").unwrapped, configuration, seed)
    fast = _trajectory(sim.FastHighway(), configuration, seed)
    assert len(fast) == len(original)
    for ours, theirs in zip(fast, original, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@simulator
def test_neighbours_match_the_original_scan_with_shared_positions(sim):
    env = sim.FastHighway()
    env.reset(seed=1)
    for vehicle in env.road.vehicles:
        vehicle.position[0] = 10 * round(vehicle.position[0] / 40)
        vehicle._read_state()
    env.road._sorted = env.road._sort()
    for vehicle in env.road.vehicles:
        for index in env.road.network.indexes:
            fast = env.road.neighbour_vehicles(vehicle, index)
            slow = super(sim.SortedRoad, env.road).neighbour_vehicles(vehicle, index)
            assert fast[0] is slow[0]
            assert fast[1] is slow[1]


@simulator
def test_the_plain_policy_is_the_trained_one(sim, tmp_path):
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
    road = highway_agents._training_road(AGENTS[1], np.random.default_rng(0))
    model = highway_agents._learner(road, discount=0.8, seed=1)
    highway_agents.extract_policy(model).save(tmp_path / "agent.npz")
    policy = GreedyPolicy.load(tmp_path / "agent.npz")
    observations = np.random.default_rng(2).uniform(-1, 1, size=(200, 5, 5)).astype(np.float32)
    assert [policy.action(x) for x in observations] == model.predict(observations, deterministic=True)[0].tolist()


@simulator
def test_a_crash_beside_the_road_is_still_a_crash():
    class OffRoad:
        def reset(self, *, seed, options):
            return np.zeros((5, 5), dtype=np.float32), {}

        def step(self, action):
            return np.zeros((5, 5), dtype=np.float32), np.zeros(3, dtype=np.float32), True, False, {}

    policy = GreedyPolicy(((np.zeros((5, 25), dtype=np.float32), np.zeros(5, dtype=np.float32)),))
    context = Configuration.draw(np.random.default_rng(0))
    assert highway_data.drive(OffRoad(), policy, context, seed=0) == (0, 0, 0.0, 1)


@simulator
def test_a_quick_build_is_complete_resumable_and_deterministic(sim, tmp_path):
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")
    folder = highway_data.build(tmp_path / "a", workers=1, quick=True, progress=False)
    episodes = pq.read_table(folder / "episodes.parquet")
    assert episodes.num_rows == (3 * 2 + 2 * 2 + 2 * 2) * 5
    assert episodes.schema.field("steps").type == "int16"
    assert pq.read_table(folder / "configurations.parquet").num_rows == 7
    assert set(pq.read_table(folder / "curves.parquet")["agent"].to_pylist()) == set(range(5))
    assert pq.read_table(folder / "highway_votes.parquet").num_rows == 60
    assert pq.read_table(folder / "highway_reference.parquet").num_rows == 2 * 2 + 2 * 2
    kept, lost = folder / "shards" / "train_001.npz", folder / "shards" / "test_001.npz"
    before = kept.stat().st_mtime_ns
    lost.unlink()
    highway_data.main(["--out", str(folder), "--workers", "1", "--stage", "rollout", "--quick"])
    assert kept.stat().st_mtime_ns == before
    assert pq.read_table(folder / "episodes.parquet").equals(episodes)


@simulator
def test_a_folder_of_another_plan_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(highway_data, "find_spec", lambda name: name)
    (tmp_path / "plan.json").write_text(json.dumps({"seed": 1}))
    with pytest.raises(InputError, match="another plan"):
        highway_data.build(tmp_path, quick=True, progress=False)


def test_without_the_simulator_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(highway_data, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"nasheval\[studies\]"):
        highway_data.build(tmp_path)


def test_results_come_from_several_processes():
    # A builtin, because a function of this file cannot be imported by another process.
    with highway_data._results(math.isqrt, [1, 4, 9], 2) as results:
        assert sorted(results) == [1, 2, 3]


def test_a_task_that_fails_in_a_process_is_told_not_awaited():
    with pytest.raises(ValueError, match="nonnegative"), highway_data._results(math.isqrt, [1, -1, 4], 2) as results:
        list(results)
