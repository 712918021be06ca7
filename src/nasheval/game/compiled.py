"""Compiled loops over games: one decorator, and the threads that share the games out.

numba takes half a second to import, so only the kernels import this file, and they are imported when a game is solved.
Threads of our own rather than numba's: those end the process after a fork and may not be entered twice. Compiled code
is kept on disk and made anew when its own file changes, not when one that it calls does: after a change to a kernel,
remove __pycache__. It is kept in the __pycache__ beside each file, in $NUMBA_CACHE_DIR where that is set, in the user's
cache folder where the package's may not be written to, and nowhere where neither may: then each process compiles anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import pairwise
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])
_CHUNKS = 4  # per thread, so that a chunk of hard games does not leave the other threads idle
_njit = import_module("numba").njit


def compiled(function: _Function) -> _Function:
    """Compile a function to machine code, once per machine: exact arithmetic, no interpreter lock."""
    return _compiled(function)


def inlined(function: _Function) -> _Function:
    """Compile a function into those that call it: for small games, a call takes as long as what it does."""
    return _compiled(function, inline="always")


def reordered(function: _Function) -> _Function:
    """Compile a function whose sums may be taken in any order, so that several terms are added at a time."""
    return _compiled(function, fastmath={"reassoc", "contract"})


def _compiled(function: _Function, **options: Any) -> _Function:
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        return cast(_Function, _njit(function, cache=True, **options))
    except RuntimeError:  # there is no folder to keep it in
        return cast(_Function, _njit(function, **options))


def spread(kernel: Callable[..., None], n: int, work: float, *arguments: Any) -> None:
    """Call kernel(start, stop, *arguments) for stretches of range(n), on as many threads as the work is worth.

    Args:
        work: operations per game, roughly.
    """
    threads = 1
    if n > 1 and n * work >= 1e6:  # starting threads takes longer than less
        threads = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, n)
    if threads < 2:
        kernel(0, n, *arguments)
        return
    edges = [n * i // (threads * _CHUNKS) for i in range(threads * _CHUNKS + 1)]
    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(kernel, start, stop, *arguments) for start, stop in pairwise(edges)]
        for one in done:
            one.result()
