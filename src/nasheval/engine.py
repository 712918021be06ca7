"""Where calls run: threads of this process, or the workers of a Ray cluster through joblib's backend; same numbers.

A call takes one small argument. What it closes over (a log, encoded contexts, settings) is shared: threads see it, and
a cluster gets it once, through Ray's object store, where all workers of a machine read its arrays in place.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args

from nasheval.choices import Device, Engine
from nasheval.errors import InputError, MissingExtraError

T = TypeVar("T")
R = TypeVar("R")

# Workers reserve next to nothing, so that those of a machine that was lost find a place on the others.
_WORKER = {"num_cpus": 0.01, "scheduling_strategy": "SPREAD", "max_restarts": -1, "max_task_retries": -1}
_open: list[Workers] = []  # those of this process, innermost last
_latest: dict[str, tuple[Any, Any]] = {}  # in a worker: the call it was last given, and what limits its threads


class Workers:
    """The workers of a Ray cluster, while they are open; one that dies is replaced and its calls run again."""

    def __init__(self, parallel: Any) -> None:
        self._parallel, self.count = parallel, int(parallel.n_jobs)

    def run(self, call: Callable[[T], R], arguments: Iterable[T], done: Callable[[], None] = lambda: None) -> list[R]:
        """Return call(argument) for each argument, in order; tell `done` of each as it ends."""
        import ray
        from joblib import delayed

        shared = ray.put(call)
        self._parallel.told, self._parallel.tell = 0, done
        handle = _Shared(shared.hex(), shared)
        results: list[R] = self._parallel(delayed(_called)(handle, argument) for argument in arguments)
        return results


class _Shared(NamedTuple):
    """What travels with each argument in place of the call."""

    name: str
    reference: Any


def _called(shared: _Shared, argument: Any) -> Any:
    """Call what is shared, in a worker, which keeps it, and what it works out, for the arguments to come."""
    import ray
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    if shared.name not in _latest:
        _latest.clear()
        _latest[shared.name] = ray.get(shared.reference), ThreadpoolController()  # after all that a call imports
    call, threads = _latest[shared.name]
    with threads.limit(limits=1, user_api="blas"):
        return call(argument)


@contextmanager
def workers(engine: Engine, n_jobs: int | None = None) -> Iterator[Workers | None]:
    """Open the workers of an engine for a while, or yield those that are open; None for "local".

    The cluster is the one that this process is connected to, else that of RAY_ADDRESS, else one on this machine.

    Args:
        n_jobs: most workers; None: one per core of the cluster.
    """
    if engine not in get_args(Engine):
        raise InputError(f"engine is {engine!r}; accepted are {' and '.join(map(repr, get_args(Engine)))}.")
    if engine == "local" or _open:
        yield _open[-1] if engine == "ray" else None
        return
    with _parallel(n_jobs) as parallel:
        _open.append(Workers(parallel))
        try:
            yield _open[-1]
        finally:
            _open.pop()


def _parallel(n_jobs: int | None) -> Any:
    """Return joblib's loop over Ray, which tells of every call that ended."""
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise MissingExtraError("ray", extra="ray", purpose="engine='ray'") from error
    from joblib import Parallel

    class Telling(Parallel):  # type: ignore[misc]  # joblib is not typed
        told: int
        tell: Callable[[], None]

        def print_progress(self) -> None:
            ended, self.told = self.n_completed_tasks - self.told, self.n_completed_tasks
            for _ in range(ended):
                self.tell()

        def __exit__(self, *raised: object) -> None:
            if raised == (None,) * 3:
                self._backend._pool = None  # workers that nobody holds end; told to end, each prints a complaint
            super().__exit__(*raised)

    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level="WARNING")
    register_ray()
    cores = int(ray.cluster_resources().get("CPU", 1))
    return Telling(min(n_jobs or cores, cores), backend="ray", ray_remote_args=_WORKER)


def run_threads(
    call: Callable[[T], R], arguments: Iterable[T], n_jobs: int, done: Callable[[], None] = lambda: None
) -> list[R]:
    """Return call(argument) for each argument, in order, on threads of this process; tell `done` of each."""
    from joblib import Parallel, delayed

    results = []
    for result in Parallel(n_jobs, backend="threading", return_as="generator")(delayed(call)(a) for a in arguments):
        results.append(result)
        done()
    return results


@contextmanager
def one_thread() -> Iterator[None]:
    """Give linear algebra one thread: threads that wait for the next product take the cores of those that work.

    Besides, sums by several threads round differently. Blocks may nest and overlap, on several threads: the last to end
    gives the threads back.
    """
    with _limit.lock:
        if not _limit.depth:
            _limit.held = _blas(*(name in sys.modules for name in _LOADERS)).limit(limits=1, user_api="blas")
        _limit.depth += 1
    try:
        yield
    finally:
        with _limit.lock:
            _limit.depth -= 1
            if not _limit.depth:
                _limit.held.restore_original_limits()


class _Limit:
    """How many blocks of `one_thread` are open in this process, and what gives the threads back."""

    depth: int = 0
    held: Any = None

    def __init__(self) -> None:
        self.lock = threading.Lock()


_limit = _Limit()
_LOADERS = ("scipy.linalg", "torch")  # bring libraries of linear algebra of their own


@cache
def _blas(*loaded: bool) -> Any:
    """Return what limits the libraries of linear algebra; looking them up takes milliseconds, so once per loader."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def chosen_device(device: Device) -> str:
    """Return "cpu" or "cuda"."""
    if device not in get_args(Device):
        raise InputError(f"device is {device!r}; accepted are 'auto', 'cpu' and 'cuda'.")
    if device == "cpu":
        return device
    import torch

    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise InputError("device is 'cuda', but PyTorch sees no such device here; use 'cpu' or 'auto'.")
    return "cuda" if available else "cpu"
