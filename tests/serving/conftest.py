"""A saved model, services of it in this process and in others, and a PostgreSQL server."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from starlette.testclient import TestClient

from nasheval.serving import deciding
from nasheval.serving.app import create_app
from nasheval.serving.settings import Settings

from .small import COSTS, Server, fitted, new_database, postgres, postgres_binaries, votes

LOCAL = "http://127.0.0.1"
_NUMBERS = count()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model of tabular contexts with costs."""
    folder = tmp_path_factory.mktemp("served") / "model"
    fitted(votes(), costs=COSTS).save(folder)
    return folder


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """Another model of the same contexts."""
    folder = tmp_path_factory.mktemp("other") / "model"
    fitted(votes(seed=1), costs=COSTS).save(folder)
    return folder


@pytest.fixture(scope="session")
def text_model(tmp_path_factory):
    """A model of prompts."""
    pytest.importorskip("wordllama", reason="embeds prompts")
    folder = tmp_path_factory.mktemp("texts") / "model"
    fitted(votes(text=True)).save(folder)
    return folder


@pytest.fixture(scope="session")
def postgres_server():
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL on this machine")
    with postgres(binaries) as (url, _):
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    """A new store of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/votes.db"
    return new_database(request.getfixturevalue("postgres_server"), f"votes{next(_NUMBERS)}")


@pytest.fixture
def served(tmp_path, model, monkeypatch):
    """Start services in this process: served(store=..., ...) is a client. Their draws are the same in every run."""
    clients, draws = [], Random(70)
    monkeypatch.setattr(deciding, "SystemRandom", lambda: draws)

    def start(**options):
        given = {"model": str(model), "store": f"sqlite:///{tmp_path}/votes.db", "models": str(tmp_path / "models")}
        given |= {"poll_seconds": 0.05}
        client = TestClient(create_app(Settings(**{**given, **options})), base_url=LOCAL)
        client.__enter__()
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(served):
    """A service in this process."""
    return served()


@pytest.fixture
def server(tmp_path):
    """Start services in processes of their own: server(words...)."""
    servers = []

    def start(*words, **options):
        one = Server(*words, log=tmp_path / f"log{len(servers)}", **options)
        servers.append(one)
        return one

    yield start
    for one in servers:
        one.stop()
