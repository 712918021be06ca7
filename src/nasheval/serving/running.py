"""Running the service: one process, or several workers that one process watches over."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic, sleep
from types import FrameType

from nasheval.errors import InputError
from nasheval.serving.database import open_store
from nasheval.serving.logs import log
from nasheval.serving.service import first_version, require_default
from nasheval.serving.settings import VARIABLE, Settings
from nasheval.serving.upstreams import read_upstreams
from nasheval.serving.versions import Versions, load_version, version_of

GRACE_SECONDS = 20  # for requests that are under way when it stops
_BIND_SECONDS = 15.0  # for a predecessor to let go of the port
_SWITCH_SECONDS = 0.001  # for which the thread that writes may keep requests waiting; Python's own is five times that
_LOOK_SECONDS = 0.1  # between looks whether workers live
_SOON = 1.0  # a worker that dies sooner than this is not started again at once


def prepare(settings: Settings) -> Settings:
    """Make the store and the first version ready, before any worker starts; return the settings for workers."""
    if settings.upstreams:
        read_upstreams(settings.upstreams)
    engine = open_store(settings.store, create=True)
    versions = Versions(engine, settings.models_folder)
    current = versions.current()
    if current is None:
        first_version(versions, settings)
    elif settings.model is not None and (given := version_of(Path(settings.model))) != current:
        versions.add(settings.model, note="given to nasheval serve")
        log("other_version_serves", serving=current, given=given, change=f"nasheval promote --store ... --to {given}")
    if settings.default and (serving := versions.current()) is not None:
        require_default(settings.default, load_version(versions[serving], settings.text_encoder).agents)
    engine.dispose()
    return replace(settings, run_folder=mkdtemp(prefix="nasheval-"))


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    ready = prepare(settings)
    listener = bound(ready.host, ready.port)
    host, port = listener.getsockname()[:2]
    ready = replace(ready, port=port)
    log("listening", host=host, port=port, workers=ready.workers)
    os.environ[VARIABLE] = ready.to_json()
    try:
        if ready.workers == 1:
            run_worker(listener)
        else:
            Workers(ready.workers, listener).run()
    finally:
        listener.close()
        rmtree(ready.run_folder, ignore_errors=True)


def run_worker(listener: socket.socket) -> None:
    """Answer requests in this process until SIGTERM or SIGINT."""
    import uvicorn

    config = uvicorn.Config(
        "nasheval.serving.app:create_app",
        factory=True,
        access_log=False,
        log_config=None,
        log_level="critical",  # what matters is in our own log, as JSON
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws="none",
        lifespan="on",
    )
    server = uvicorn.Server(config)
    sys.setswitchinterval(_SWITCH_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):  # which uvicorn raises again once it has stopped
        signal.signal(number, _leave)
    server.run(sockets=[listener])
    if not server.started:
        raise InputError("The service could not start; its log above says why.")


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens, once whoever had the port has let go of it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    until = monotonic() + _BIND_SECONDS
    while True:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(2048)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or monotonic() > until:
                said = f"{host}:{port} cannot be listened on ({error.strerror}); give another --port."
                raise InputError(said) from None
            sleep(0.1)


class Workers:
    """Processes that listen on one socket; one that dies is started again.

    Args:
        count: how many.
        listener: the socket.
    """

    def __init__(self, count: int, listener: socket.socket) -> None:
        self._count, self._listener, self._stopping = count, listener, False
        self._running: dict[subprocess.Popen[bytes], float] = {}

    def run(self) -> None:
        """Watch over them until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while not self._stopping:
            for worker, began in [*self._running.items()]:
                if worker.poll() is not None:
                    del self._running[worker]
                    log("worker_died", died=worker.pid, status=worker.returncode)
                    if monotonic() - began < _SOON:
                        sleep(_SOON)
            while len(self._running) < self._count and not self._stopping:
                self._running[self._started()] = monotonic()
            sleep(_LOOK_SECONDS)
        self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        number = self._listener.fileno()
        return subprocess.Popen([sys.executable, "-m", "nasheval.serving.worker", str(number)], pass_fds=[number])

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _end(self) -> None:
        """Ask all to stop, and wait until what is under way is done."""
        for worker in self._running:
            worker.send_signal(signal.SIGTERM)
        until = monotonic() + GRACE_SECONDS + 10
        for worker in self._running:
            try:
                worker.wait(max(0.1, until - monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
