"""A worker: `python -m nasheval.serving.worker NUMBER`, which `nasheval serve` starts with a socket that listens."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

from nasheval.errors import NashEvalError, one_line
from nasheval.serving.logs import log
from nasheval.serving.running import run_worker

_PR_SET_PDEATHSIG = 1


def main(number: int) -> None:
    """Answer requests on a socket that is open already."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _end_with_parent()
    try:
        run_worker(socket.socket(fileno=number))
    except NashEvalError as error:
        log("worker_failed", reason=one_line(error))
        sys.exit(1)


def _end_with_parent() -> None:
    """Have this process asked to stop when the one that watches over it dies, so that the port is free again."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
