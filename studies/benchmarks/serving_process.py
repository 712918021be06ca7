"""A service in a process group of its own, which can be killed, and a PostgreSQL of our own, for `serving`."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import httpx

LOCAL = "127.0.0.1"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind((LOCAL, 0))
        return int(one.getsockname()[1])


class Service:
    """`nasheval serve` with some words, on a free port.

    Args:
        words: of the command line, beside the port.
        log: file of what it says.
    """

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.words, self.log, self.port = [*words], log, free_port()
        self.url = f"http://{LOCAL}:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 120.0) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "nasheval", "serve", *self.words, "--port", str(self.port)]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command, stderr=log, stdout=log, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.05)
        raise RuntimeError(f"the service did not start: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill it with all its workers, at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Ask it to stop; return its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)


def postgres_binaries() -> Path | None:
    """Return the folder of initdb; None where there is no PostgreSQL."""
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(os.path.realpath(found)).parent] if found else []
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def postgres(binaries: Path) -> Iterator[str]:
    """Run a PostgreSQL that listens on a socket in a temporary folder; yield the URL of its database."""
    folder = Path(mkdtemp(prefix="nasheval-pg-", dir="/tmp"))
    how: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
    if os.geteuid() == 0:  # which it refuses to run as
        shutil.chown(folder, "nobody")
        how |= {"user": "nobody"}
    data = folder / "data"
    words = [binaries / "initdb", "-D", data, "-U", "nasheval", "--auth=trust", "-E", "UTF8", "--locale=C"]
    subprocess.run([*map(str, words)], check=True, **how)
    words = [binaries / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="]
    server = subprocess.Popen([*map(str, words)], **how)
    try:
        until = time.monotonic() + 60
        while not (folder / ".s.PGSQL.5432").exists() and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(1)
        yield f"postgresql://nasheval@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
        shutil.rmtree(folder, ignore_errors=True)
