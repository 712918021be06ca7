"""Engines: threads of this process and the workers of a cluster give the same numbers."""

import os
import tempfile
import time

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import nasheval as ne
from nasheval import engine
from nasheval.nuisance.learners import Effort, run_all
from nasheval.nuisance.voters import Voters

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
STORE = 80 * 2**20  # bytes of each node's object store
pytestmark = pytest.mark.filterwarnings("default")  # Ray's own


@pytest.fixture(scope="module")
def cluster():
    """Three nodes of one core each."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    node = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        made = Cluster(initialize_head=True, head_node_args={**node, "temp_dir": folder})
        for _ in range(2):
            made.add_node(num_cpus=1, object_store_memory=STORE)
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.fixture(scope="module")
def log():
    return ne.SyntheticWorld(seed=70, agents=4).feedback("pairwise", voters=3, n=600)


@pytest.fixture(scope="module")
def draws():
    return ne.datasets.load("highway")


def both(log, **options):
    """Return the model fitted on threads and that fitted on the cluster."""
    made = {"folds": 3, "device": "cpu", "verbose": False, **options}
    return [ne.NashEval(**made, engine=name).fit(log) for name in ("local", "ray")]


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
    "voters": {"outcome": Voters(voters=2, epochs=2, members=1, weight_decay=0.3)},
    "paper": {"outcome": "lightgbm", "propensity": "lightgbm", "second_stage": "per-pair"},
    "stack": {"outcome": "stack", "second_stage": "shared"},
    "tuned": {"outcome": "lightgbm", "tune": "fast", "second_stage": "none"},
    "scikit-learn": {"outcome": Ridge(), "propensity": LogisticRegression(), "second_stage": "per-pair"},
    "learned": {"outcome": "lightgbm", "policy": "learned"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_a_cluster_gives_the_same_model(cluster, log, name):
    assert_equal(both(log, **OPTIONS[name]), log)
