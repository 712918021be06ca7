"""Small models to serve, services in processes of their own, and a PostgreSQL of our own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import httpx
import numpy as np
import pyarrow as pa

from nasheval.estimator import NashEval
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.nuisance.trees import TreeOutcome

TREES = TreeOutcome(params={"num_iterations": 8, "num_leaves": 4, "min_data_in_leaf": 5})
AGENTS = ("a", "b", "c", "d")
COSTS = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
HERE = {"size": 0.3, "language": "en"}


def votes(n=400, *, text=False, seed=0, agents=AGENTS):
    """Duels whose winner hangs on the language, by named voters; a and d never meet."""
    rng = np.random.default_rng(seed)
    language = rng.choice(["en", "de"], n)
    columns = {"size": pa.array(rng.normal(size=n)), "language": pa.array(language)}
    if text:
        columns["prompt"] = pa.array([str(rng.choice(["write a poem", "fix my code", "why"])) for _ in range(n)])
    said = []
    for spoken in language:
        pair = [str(one) for one in rng.choice(agents, 2, replace=False)]
        while set(pair) == {"a", "d"}:
            pair = [str(one) for one in rng.choice(agents, 2, replace=False)]
        place = {agent: i if spoken == "en" else -i for i, agent in enumerate(agents)}
        wins = rng.random() < 1 / (1 + np.exp(0.8 * (place[pair[0]] - place[pair[1]])))
        said.append(partition.duel(*pair, pair[0] if wins else pair[1]))
    voter = [f"v{rng.integers(30)}" for _ in range(n)]
    return Feedback.from_partitions(
        pa.table(columns), said, agents=list(agents), voter=voter, text="prompt" if text else None, design="draws"
    )


def fitted(log, **options):
    given = {"outcome": TREES, "propensity": "marginal", "folds": 2, "n_jobs": 1, "verbose": False, **options}
    return NashEval(**given).fit(log)


# -- a service in a process of its own --------------------------------------------------------------------------------


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """`nasheval serve` in a process group of its own, which can be killed."""

    def __init__(self, *words, log, env=None):
        self.words, self.log, self.port = [*map(str, words)], Path(log), free_port()
        self.env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **(env or {})}
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self, seconds=60):
        command = [sys.executable, "-m", "nasheval", "serve", *self.words, "--port", str(self.port)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log, start_new_session=True, env=self.env)
        self.wait(seconds)

    def wait(self, seconds=60):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if httpx.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


def postgres_binaries():
    """Return the folder of initdb; None where there is no PostgreSQL."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    folders += [Path(os.path.realpath(found)).parent] if found else []
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def postgres(binaries):
    """Run a server that listens on a socket in a temporary folder; yield the URL of its first database."""
    folder = Path(mkdtemp(prefix="nasheval-pg-", dir="/tmp"))
    as_root = os.geteuid() == 0
    how = {"user": "nobody", "cwd": "/", "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}} if as_root else {}
    if as_root:
        shutil.chown(folder, "nobody")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    data = folder / "data"
    words = [binaries / "initdb", "-D", data, "-U", "nasheval", "--auth=trust", "-E", "UTF8", "--locale=C", "-N"]
    subprocess.run([*map(str, words)], check=True, **quiet, **how)
    words = [binaries / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="]
    server = subprocess.Popen([*map(str, words)], **quiet, **how)
    try:
        url = f"postgresql://nasheval@/postgres?host={folder}"
        _wait(url)
        yield url, server
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(url):
    import psycopg

    until = time.monotonic() + 30
    while True:
        try:
            return psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert time.monotonic() < until
            time.sleep(0.05)


def new_database(url, name):
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return url.replace("/postgres?", f"/{name}?")


def until(happens, seconds=20):
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)
