"""Engines: threads of this process and the workers of a cluster give the same numbers."""

import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_info, threadpool_limits

import nasheval as ne
from nasheval import engine
from nasheval.boosting import Bins, complete
from nasheval.contexts.encoder import ContextEncoder
from nasheval.nuisance.learners import Effort, Features, run_all
from nasheval.nuisance.voters import Voters
from studies.benchmarks.cluster import nodes
from studies.harness.running import run_cells
from studies.harness.study import Cell

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
VOTERS = Voters(voters=2, epochs=2, members=1, weight_decay=0.3)
QUICK = {"outcome": VOTERS, "folds": 3, "device": "cpu", "verbose": False}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # the warnings are Ray's own


@pytest.fixture(scope="module")
def cluster():
    """Three nodes of one core each."""
    with nodes([1, 1, 1]) as made:
        yield made


@pytest.fixture(scope="module")
def log():
    return ne.SyntheticWorld(seed=70, agents=4).feedback("pairwise", voters=3, n=600)


@pytest.fixture(scope="module")
def draws():
    """Votes of an arena: each row draws a pair, more often some pairs than others."""
    rng, n = np.random.default_rng(0), 500
    x = rng.normal(size=n)
    a, b = (rng.integers(low, low + 3, n) for low in (0, 3))
    a = np.where(rng.random(n) < 1 / (1 + np.exp(-x)), a, 0)
    columns = {"model_a": [f"m{i}" for i in a], "model_b": [f"m{i}" for i in b], "x": x, "lane": rng.integers(0, 3, n)}
    return ne.read_votes(pa.table({**columns, "winner": rng.choice(["model_a", "model_b"], n)}), context=["x", "lane"])


def both(log, **options):
    """Return the model fitted on threads and that fitted on the cluster."""
    return [ne.NashEval(**{**QUICK, **options, "engine": name}).fit(log) for name in ("local", "ray")]


def assert_equal(models, log):
    local, remote = models
    np.testing.assert_array_equal(local.predict_proba(log.contexts), remote.predict_proba(log.contexts))
    assert local.leaderboard().equals(remote.leaderboard())
    for name in ("mu", "e"):
        np.testing.assert_array_equal(*(getattr(each.stage1_.pseudo.fit, name) for each in models))


def test_calls_run_on_every_node_and_return_in_order(cluster):
    big = np.arange(100_000.0)

    def call(number):
        time.sleep(0.1)
        return float(big[number]), ray.get_runtime_context().get_node_id()

    told = []
    with engine.workers("ray") as pool:
        results = run_all(call, range(30), 30, Effort(workers=pool, advance=told.append))
    assert [number for number, _ in results] == list(range(30))
    assert len({node for _, node in results}) == 3
    assert sum(told) == pytest.approx(1.0)


OPTIONS = {
    "paper": {"outcome": "lightgbm", "propensity": "lightgbm", "second_stage": "per-pair"},
    "tuned": {"outcome": "lightgbm", "tune": "fast", "second_stage": "none"},
    "scikit-learn": {"outcome": Ridge(), "propensity": LogisticRegression(), "second_stage": "per-pair"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_cluster_gives_the_same_model(cluster, log, name):
    assert_equal(both(log, **OPTIONS[name]), log)


def test_groups_and_chunks_of_contexts_are_shared_out(cluster, draws, monkeypatch):
    local, remote = both(draws)
    assert_equal((local, remote), draws)
    for name in ("estimator.block_of", "policy.exact.chunk_of"):
        monkeypatch.setattr(f"nasheval.{name}", lambda n_agents: 128)
    np.testing.assert_array_equal(local.predict_proba(draws.contexts), remote.predict_proba(draws.contexts))
    assert local.leaderboard("lane").equals(remote.leaderboard("lane"))


def test_an_error_of_a_call_is_raised_here(cluster):
    def call(number):
        raise ne.InputError(f"no {number}")

    with engine.workers("ray") as pool, pytest.raises(ne.InputError, match="no 3"):
        pool.run(call, [3, 3])


def test_workers_that_are_open_are_used_again(cluster):
    with ne.workers("ray", 2) as outer, ne.workers("ray") as inner, ne.workers("local") as none:
        assert inner is outer
        assert outer.count == 2
        assert none is None


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ne.MissingExtraError, match=r"nasheval\[ray\]"), ne.workers("ray"):
        pass


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blocks_of_one_thread_nest_and_overlap():
    with threadpool_limits(2, user_api="blas"):
        with engine.one_thread(), engine.one_thread():
            assert blas_threads() == {1}
        first, second = engine.one_thread(), engine.one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)  # the second is still open
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}
        with pytest.raises(KeyError), engine.one_thread():
            raise KeyError
        assert blas_threads() == {2}


def test_a_model_from_a_folder_answers_here(draws, tmp_path):
    model = ne.NashEval(**QUICK).fit(draws)
    model.set_params(engine="ray").save(tmp_path / "model")
    assert ne.load(tmp_path / "model").engine == "local"


def test_what_is_shared_travels_once(cluster, monkeypatch):
    put, big = [], np.arange(1_000_000.0)
    real = ray.put
    monkeypatch.setattr(ray, "put", lambda value: put.append(value) or real(value))
    with ne.workers("ray") as pool:
        assert pool.run(lambda number: float(big[number]), range(20)) == list(range(20))
    assert len(put) == 1


def test_what_a_learner_works_with_travels_without_what_belongs_to_a_process():
    from ray import cloudpickle

    table, lock = np.random.default_rng(0).normal(size=(200, 3)), threading.Lock()
    bins = Bins(table, (), complete({}, objective="regression"))
    assert bins[0].num_data() == cloudpickle.loads(cloudpickle.dumps(bins))[0].num_data() == 200
    effort = Effort(3, 2, "cpu", advance=lambda share: lock.acquire())
    assert cloudpickle.loads(cloudpickle.dumps(effort)).seed == 3


def test_models_of_large_logs_are_trained_fold_by_fold(log, monkeypatch):
    """Then a fold's model is the one that is trained alone, whatever the number of threads."""
    monkeypatch.setattr("nasheval.nuisance.voters_train._TOGETHER", 10)
    X = Features.of(ContextEncoder.fit(log.contexts), log.contexts)
    train = np.arange(log.n_contexts) % 3 != np.arange(3)[:, None]
    told = []
    one, two = (VOTERS.fit(log, X, train, Effort(n_jobs=n, advance=told.append)) for n in (1, 2))
    for name, values in one.parameters.items():
        np.testing.assert_array_equal(values, two.parameters[name])
    alone = VOTERS.fit(log, X, train[:1], Effort())
    np.testing.assert_array_equal(alone.parameters["hidden_0"][0], one.parameters["hidden_0"][0])
    assert sum(told) == pytest.approx(2.0)


def cell_rows(cell):
    if cell["number"] < 0:
        raise ne.InputError("negative")
    return [{"square": cell["number"] ** 2, "node": ray.get_runtime_context().get_node_id()}]


def test_cells_of_a_study_run_on_the_cluster(cluster, tmp_path, capsys):
    cells = [Cell.of(number=number) for number in (3, -1, 4, 5, 6, 7)]
    done = run_cells(cell_rows, cells, tmp_path / "cells.jsonl", engine="ray", jobs=0, skip_failures=True)
    assert [one.rows[0]["square"] for one in done] == [9, 16, 25, 36, 49]
    assert len({one.rows[0]["node"] for one in done}) > 1
    assert "negative" in capsys.readouterr().err


def test_a_lost_node_changes_nothing(cluster, log, monkeypatch):
    """Last: the cluster has a node less after it."""
    options = {**QUICK, "outcome": "lightgbm", "propensity": "lightgbm", "second_stage": "none"}
    local = ne.NashEval(**options).fit(log)
    alive = len(cluster.list_all_nodes())
    real, ended = engine.Workers.run, []

    def run(self, call, arguments, done):
        def one_more():
            done()
            ended.append(1)
            if len(ended) == 5:  # some calls have ended, some have not
                cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)

        return real(self, call, arguments, one_more)

    monkeypatch.setattr(engine.Workers, "run", run)
    remote = ne.NashEval(**options, engine="ray").fit(log)
    assert len(ended) > 5
    assert len(cluster.list_all_nodes()) == alive - 1
    assert_equal((local, remote), log)
