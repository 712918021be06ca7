"""Running the service: one process, or several workers that one process watches over."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import replace
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic, sleep
from typing import Any

from nasheval.errors import InputError
from nasheval.serving.database import open_store
from nasheval.serving.logs import log
from nasheval.serving.service import first_version
from nasheval.serving.settings import VARIABLE, Settings
from nasheval.serving.versions import Versions, load_version, version_of

_BIND_SECONDS = 10.0  # for a predecessor to let go of the port
_GRACE_SECONDS = 20  # for requests that are under way when it stops


def prepare(settings: Settings) -> Settings:
    """Make the store and the first version ready, before any worker starts; return the settings for workers."""
    engine = open_store(settings.store, create=True)
    versions = Versions(engine, settings.models_folder)
    current = versions.current()
    if current is None:
        current = first_version(versions, settings)
    elif settings.model is not None and (given := version_of_given(settings.model)) != current:
        versions.add(settings.model, note="given to nasheval serve")
        log("other_version_serves", serving=current, given=given, change=f"nasheval promote --to {given}")
    engine.dispose()
    return replace(settings, run_folder=mkdtemp(prefix="nasheval-"))


def version_of_given(model: str) -> str:
    """Return the version that a folder is."""
    from pathlib import Path

    return version_of(Path(model))


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    import uvicorn

    ready = prepare(settings)
    listener = bound(ready.host, ready.port)
    host, port = listener.getsockname()[:2]
    log("listening", host=host, port=port, workers=ready.workers)
    os.environ[VARIABLE] = replace(ready, port=port).to_json()
    config = uvicorn.Config("nasheval.serving.app:create_app", factory=True, workers=ready.workers, **_options())
    try:
        if ready.workers == 1:
            uvicorn.Server(config).run(sockets=[listener])
        else:
            from uvicorn.supervisors import Multiprocess

            Multiprocess(config, target=uvicorn.Server(config).run, sockets=[listener]).run()
    finally:
        listener.close()
        rmtree(ready.run_folder, ignore_errors=True)


def _options() -> dict[str, Any]:
    return {
        "access_log": False,
        "log_level": "warning",
        "log_config": None,
        "server_header": False,
        "date_header": True,
        "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
        "h11_max_incomplete_event_size": 1 << 16,
        "ws": "none",
        "lifespan": "on",
        "proxy_headers": False,
    }


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
            listener.set_inheritable(True)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or monotonic() > until:
                raise InputError(f"{host}:{port} cannot be listened on ({error.strerror}); give another --port.") from None
            sleep(0.1)


__all__ = ["bound", "load_version", "prepare", "serve"]
