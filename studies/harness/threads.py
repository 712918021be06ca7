"""One thread per process: where several run side by side, the cores are taken already."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Give the processes that are started inside one thread of linear algebra each."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
