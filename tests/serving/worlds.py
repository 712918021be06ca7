"""A small model of votes on answers, with awkward names, and servers on this machine for tests of what is live."""

from __future__ import annotations

import atexit
import shutil
import socket
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import uvicorn

import nasheval as ne

EVIL = "<img src=x onerror=window.hacked=1>"  # what would run if a page took a name for HTML
AGENTS = ("terse", "chatty", EVIL)
LANGUAGES = ("en", "de", "<script>window.hacked=1</script>")
J, K = np.triu_indices(3, 1)
CYCLE, TERSE = np.array([0.5, -0.5, 0.5]), np.array([0.8, 0.8, 0.1])  # a cycle everywhere; in German terse beats all


def votes(n=900, seed=0):
    """Duels drawn evenly, one per context, with a language and a length."""
    rng = np.random.default_rng(seed)
    language, pair = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.integers(3, size=n)
    margin = np.where((language == 1)[:, None], TERSE, CYCLE)[np.arange(n), pair]
    first = rng.random(n) < (1 + margin) / 2
    contexts = pa.table({"language": [LANGUAGES[one] for one in language], "length": rng.random(n).round(3)})
    partitions = [
        ((AGENTS[J[p]],), (AGENTS[K[p]],)) if won else ((AGENTS[K[p]],), (AGENTS[J[p]],))
        for p, won in zip(pair, first, strict=True)
    ]
    return ne.Feedback.from_partitions(contexts, partitions, agents=list(AGENTS), design="draws")


def small_model(**options):
    """A model of these votes, fitted in a second or two."""
    quick = {"outcome": "lightgbm", "propensity": "marginal", "folds": 2, "verbose": False}
    costs = {"terse": 1.0, "chatty": 3.0, EVIL: 2.0}
    return ne.NashEval(**{**quick, "costs": costs, **options}).fit(votes())


@cache
def model_folder():
    """The folder of such a model, fitted once per process."""
    folder = Path(tempfile.mkdtemp(prefix="nasheval-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    small_model().save(folder / "model")
    return folder / "model"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def served(app, port=None):
    """Serve an ASGI application in a thread; yields its address."""
    port = port or free_port()
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_level="critical", timeout_graceful_shutdown=0, ws="none", loop="asyncio"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the server did not start")
        with suppress(RuntimeError):
            thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def toml(path, upstreams, policies=""):
    """Write an upstreams.toml: {agent: lines beside the URL, or a URL alone}."""
    lines = []
    for agent, said in upstreams.items():
        said = f'url = "{said}"' if said.startswith("http") else said
        lines.append(f"[upstreams.'{agent}']\n{said}\n")
    path.write_text("\n".join(lines) + policies)
    return path
