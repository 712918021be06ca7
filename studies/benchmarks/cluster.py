"""Does a Ray cluster give the same model as this process, also when a node is lost, and what does it cost?

`python -m studies cluster [--contexts 20000] [--agents 6]` fits the paper's simulation four times: on threads of this
process, on a cluster of one node with as many cores, on three nodes of one core, and on three nodes of which one is
killed half-way. All nodes are processes of this machine.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

import nasheval as ne
from studies.harness.options import parser
from studies.harness.running import Engine

MOST = 1.15  # times the local fit, on one node
NODES = 3
STORE = 100 * 2**20  # bytes of a node's object store


@contextmanager
def nodes(cores: Sequence[int]) -> Iterator[Any]:
    """Start a cluster of nodes with some cores each, and connect to it for a while."""
    import ray
    from ray.cluster_utils import Cluster

    node = {"object_store_memory": STORE, "include_dashboard": False}
    folder = tempfile.TemporaryDirectory(prefix="ray", dir="/tmp")
    with folder as name, patch.dict(os.environ, RAY_TMPDIR=name):  # where it notes the cluster's address too
        made = Cluster(initialize_head=True, head_node_args={**node, "num_cpus": cores[0]})
        try:
            for count in cores[1:]:
                made.add_node(num_cpus=count, object_store_memory=STORE)
            ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


class Fitted(NamedTuple):
    """A model, and what it took: seconds, and seconds of processors, those of all nodes together."""

    model: ne.NashEval
    seconds: float
    cpu: float


def fitted(log: ne.Feedback, engine: Engine, jobs: int, more: dict[str, Any]) -> Fitted:
    """Fit, the start of the workers included."""
    begun, before = time.perf_counter(), cpu_seconds()
    with ne.workers(engine, jobs):  # so that they live until their time is read
        model = ne.NashEval(**more, n_jobs=jobs, engine=engine, device="cpu", verbose=False).fit(log)
        return Fitted(model, time.perf_counter() - begun, cpu_seconds() - before)


def cpu_seconds() -> float:
    """Return the seconds of processors that this process and all below it have used, where Linux tells them."""
    parent, ticks = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            parent[file.parent.name], ticks[file.parent.name] = fields[1], sum(map(int, fields[11:15]))
    mine, size = {str(os.getpid())}, 0
    while len(mine) > size:
        size = len(mine)
        mine |= {process for process, above in parent.items() if above in mine}
    return sum(ticks.get(process, 0) for process in mine) / os.sysconf("SC_CLK_TCK")


def same(one: ne.NashEval, other: ne.NashEval, contexts: np.ndarray) -> bool:
    """Tell whether two models answer alike, bit for bit."""
    lotteries = [model.predict_proba(contexts) for model in (one, other)]
    return bool((lotteries[0] == lotteries[1]).all()) and one.leaderboard().equals(other.leaderboard())


def measured(contexts: int, agents: int, jobs: int, more: dict[str, Any]) -> Iterator[tuple[str, Fitted, bool]]:
    """Yield what ran, its fit, and whether its model is that of the first."""
    world = ne.SyntheticWorld(seed=70, agents=agents)
    log, asked = world.feedback("pairwise", voters=3, n=contexts), np.asarray(world.test_contexts(2_000))
    fitted(log[:500], "local", jobs, more)  # what is compiled and imported on first use
    local = fitted(log, "local", jobs, more)
    yield f"this process, {jobs} threads", local, True
    with nodes([jobs]):
        remote = fitted(log, "ray", jobs, more)
        yield f"one node, {jobs} cores", remote, same(local.model, remote.model, asked)
    with nodes([1] * NODES) as cluster:
        remote = fitted(log, "ray", NODES, more)
        yield f"{NODES} nodes, one core each", remote, same(local.model, remote.model, asked)
        lost = threading.Timer(remote.seconds / 2, lambda: cluster.remove_node(cluster.list_all_nodes()[-1], False))
        lost.start()
        remote = fitted(log, "ray", NODES, more)
        lost.join()
        remote = Fitted(remote.model, remote.seconds, float("nan"))  # who was killed does not tell
        yield f"{NODES} nodes, one killed half-way", remote, same(local.model, remote.model, asked)


def main(words: Sequence[str]) -> None:
    known = parser("cluster", __doc__)
    known.add_argument("--contexts", type=int, default=20_000)
    known.add_argument("--agents", type=int, default=6)
    known.add_argument("--jobs", type=int, default=2)
    known.add_argument("--outcome", default="lightgbm", choices=("lightgbm", "voters"))
    options = known.parse_args(words)
    more = {"outcome": options.outcome, "propensity": "lightgbm", "second_stage": "per-pair"}
    table = Table(title=f"A fit of {options.contexts:,} contexts, {options.agents} agents")
    for name in ("where", "seconds", "times local", "most", "CPU s", "same model"):
        table.add_column(name, justify="left" if name == "where" else "right")
    base = 0.0
    for where, fit, equal in measured(options.contexts, options.agents, options.jobs, more):
        base = base or fit.seconds
        limit, ratio = f"{MOST:.2f}" if where.startswith("one node") else "", f"{fit.seconds / base:.2f}"
        table.add_row(where, f"{fit.seconds:.1f}", ratio, limit, f"{fit.cpu:.1f}", "yes" if equal else "NO")
    Console().print(table)
