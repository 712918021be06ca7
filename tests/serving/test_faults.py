"""What goes wrong, what should happen then, and that it does; docs/guides/operations.md has the table."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import psycopg
import pytest
from sqlalchemy import event, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

import nasheval.serving.database as database
from nasheval.errors import InputError, ModelFileError
from nasheval.serving.clock import CLOCK, Clock
from nasheval.serving.database import open_store, plainly, shown, store_url, writing
from nasheval.serving.forgetting import expire
from nasheval.serving.schema import DECISIONS, METADATA, SESSIONS, VOTES
from nasheval.serving.versions import Versions, copied, version_of
from nasheval.serving.writer import Writer

from .small import HERE, new_database, postgres, postgres_binaries, until

VOTE = {"menu": ["a", "b"], "winner": "a", "context": HERE}


def refused(answer, said):
    assert answer.status_code == 503, answer.text
    error = answer.json()["error"]
    assert error["code"] == "store_unavailable"
    assert said in error["message"]
    assert "nothing was stored: try again later" in error["message"]
    assert answer.headers["retry-after"] == "1"


def n_rows(client, table):
    with client.app.state.service.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar()


def routes(client, count=1):
    for _ in range(count):
        assert client.post("/v1/route", json={"context": HERE}).status_code == 200


# -- the store --------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_votes_goes_on_routing_and_keeps_decisions(client):
    engine = client.app.state.service.engine
    full = {"pages": 1}

    def limit(connection, record):
        connection.execute(f"PRAGMA max_page_count={full['pages']}")

    assert client.post("/v1/feedback", json={**VOTE, "key": "before"}).status_code == 201
    event.listen(engine, "connect", limit)
    engine.dispose()
    long = {**VOTE, "voter": "v" * 256}
    answers = [client.post("/v1/feedback", json={**long, "key": f"{i}" * 250}) for i in range(9)]
    stored = [answer for answer in answers if answer.status_code == 201]
    refused(answers[-1], "the disk is full")
    routes(client, 5)
    assert "store: the disk is full" in client.get("/ready").json()["problems"]
    full["pages"] = 1 << 30
    engine.dispose()
    until(lambda: client.post("/v1/feedback", json={**VOTE, "key": "after"}).status_code == 201)
    until(lambda: n_rows(client, DECISIONS) == 5)
    assert n_rows(client, VOTES) == 2 + len(stored)
    until(lambda: client.get("/ready").json()["problems"] == [])


def test_decisions_of_one_commit_are_all_stored(store):
    engine = open_store(store, create=True)
    writer = Writer(engine)
    row = {column.name: None for column in DECISIONS.columns}
    row |= {"kind": "route", "version": "v", "at": 0.0, "client": "", "menu": "[]", "propensity": 1.0, "lottery": "{}"}
    row |= {"reason": "", "terms": "{}", "context": "{}"}
    names = [f"decision {number}" for number in range(777)]  # no power of two
    for name in [*names, names[0]]:
        writer.keep({**row, "id": name})
    writer.close()
    assert writer.trouble == ""
    with engine.connect() as connection:
        assert sorted(connection.execute(select(DECISIONS.c.id)).scalars()) == sorted(names)
    engine.dispose()


def test_a_locked_store_refuses_votes_and_says_so(served, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.2)
    client = served()
    other = sqlite3.connect(tmp_path / "votes.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    refused(client.post("/v1/feedback", json=VOTE), "the store is locked by another process")
    refused(client.post("/v1/compare", json={"context": HERE}), "the store is locked by another process")
    routes(client, 3)
    other.execute("ROLLBACK")
    other.close()
    until(lambda: client.post("/v1/feedback", json=VOTE).status_code == 201)
    until(lambda: n_rows(client, DECISIONS) == 3)


def test_a_store_that_is_gone_refuses_votes_and_goes_on_when_it_is_back(client, tmp_path):
    client.post("/v1/feedback", json=VOTE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in tmp_path.glob("votes.db*"):
        file.rename(elsewhere / file.name)
    for _ in range(3):
        refused(client.post("/v1/feedback", json=VOTE), "the store's file cannot be opened")
    routes(client, 3)
    for file in elsewhere.iterdir():
        file.rename(tmp_path / file.name)
    until(lambda: client.post("/v1/feedback", json=VOTE).status_code == 201)
    until(lambda: n_rows(client, DECISIONS) == 3)
    assert n_rows(client, VOTES) == 2


def test_a_file_that_was_replaced_gets_no_vote_that_is_lost(client, tmp_path):
    client.post("/v1/feedback", json=VOTE)
    with closing(sqlite3.connect(tmp_path / "votes.db")) as connection:
        connection.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    for file in tmp_path.glob("votes.db-*"):
        file.unlink()
    (tmp_path / "copy.db").replace(tmp_path / "votes.db")
    first = client.post("/v1/feedback", json=VOTE)
    assert first.status_code == 503  # it went into a file that nobody finds any more, and was not acknowledged
    until(lambda: client.post("/v1/feedback", json=VOTE).status_code == 201)
    assert n_rows(client, VOTES) == 2


def test_a_server_that_stops_and_comes_back_loses_nothing(served):
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL on this machine")
    with postgres(binaries) as (url, server):
        client = served(store=new_database(url, "votes"))
        assert client.post("/v1/feedback", json={**VOTE, "key": "a"}).status_code == 201
        with psycopg.connect(url, autocommit=True) as connection:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'votes'"
            pids = connection.execute(ended).fetchall()
        assert pids
        until(lambda: client.post("/v1/feedback", json={**VOTE, "key": "b"}).status_code == 201)
        server.send_signal(signal.SIGSTOP)
        routes(client, 3)
        server.send_signal(signal.SIGCONT)
        assert client.post("/v1/feedback", json={**VOTE, "key": "b"}).json()["duplicate"] is True
        until(lambda: n_rows(client, DECISIONS) == 3)
        server.send_signal(signal.SIGINT)
        server.wait(30)
        refused(client.post("/v1/feedback", json=VOTE), "the store does not answer")
        routes(client)
        assert client.get("/v1/versions").status_code == 503
        assert any(one.startswith("store: ") for one in client.get("/ready").json()["problems"])


def test_one_row_that_the_store_refuses_does_not_take_others_with_it(client):
    service = client.app.state.service
    answers = []
    row = {"id": None, "client": "", "key": None}
    good = {column.name: None for column in VOTES.columns if column.name != "seq"}
    good |= {"id": "x", "client": "", "digest": "d", "version": "v", "at": 0.0, "menu": "[]", "zero": "skip"}

    from nasheval.serving.writer import _Job

    bad = {**good, **row}
    service.writer._write([_Job("votes", bad, answers.append), _Job("votes", good, answers.append)])
    assert answers[0].status == 422
    assert answers[1] == ("x", False)


def test_what_went_wrong_is_told_without_what_was_written():
    engine = open_in_memory()
    secret = "my neighbour's diagnosis"
    with pytest.raises(Exception, match="no such table") as caught, engine.connect() as connection:
        connection.execute(select(VOTES).where(VOTES.c.key == secret))
    assert plainly(caught.value) == "the store's tables are gone"
    assert secret not in str(caught.value)
    assert shown("postgresql://me:word@host/votes") == "postgresql+psycopg://me:***@host/votes"
    assert "word" not in plainly(ValueError("cannot reach postgresql://me:word@host/votes"))


def open_in_memory():
    from sqlalchemy import create_engine

    return create_engine("sqlite://", hide_parameters=True)


# -- schema -----------------------------------------------------------------------------------------------------------


def test_migrations_make_the_tables_that_the_code_knows(store):
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    engine = open_store(store, create=True)
    with engine.connect() as connection:
        found = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(found, METADATA) == []
    engine.dispose()
    for dialect in (sqlite.dialect(), postgresql.dialect()):
        assert all(str(CreateTable(table).compile(dialect=dialect)) for table in METADATA.sorted_tables)


def test_opening_a_store_twice_at_once_makes_it_once(store):
    with ThreadPoolExecutor(4) as pool:
        engines = list(pool.map(lambda _: open_store(store, create=True), range(4)))
    assert len({database.secret_of(engine) for engine in engines}) == 1
    for engine in engines:
        engine.dispose()


@pytest.mark.parametrize(("version", "fix"), [("2", "upgrade nasheval"), ("0", "start `nasheval serve` once")])
def test_a_store_of_another_version_is_refused(tmp_path, version, fix):
    store = f"sqlite:///{tmp_path}/votes.db"
    engine = open_store(store, create=True)
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = ?", (version,))
    engine.dispose()
    with pytest.raises(InputError, match=f"schema is version {version}, and this nasheval knows version 1; {fix}"):
        open_store(store, create=version == "2")


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("mysql://host/votes", "The store is of 'mysql'"),
        ("sqlite://", "A store in memory is lost"),
        ("://votes", "cannot be understood"),
    ],
)
def test_stores_that_cannot_be_are_told(store, said):
    with pytest.raises(InputError, match=said):
        store_url(store)


def test_a_store_that_is_not_there_or_no_store_is_told(tmp_path):
    with pytest.raises(InputError, match="there is no store here"):
        open_store(str(tmp_path / "none.db"))
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(InputError, match="is not a database"):
        open_store(str(tmp_path / "text.db"))
    with pytest.raises(InputError, match="the store does not answer"):
        open_store(f"postgresql://nobody@/votes?host={tmp_path}")


# -- models -----------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_spoilt_after_the_start_hurts_nobody(served, model, tmp_path):
    given = shutil.copytree(model, tmp_path / "given")
    client = served(model=str(given))
    shutil.rmtree(given)
    routes(client)
    client.__exit__(None, None, None)
    again = served(model=None)  # the store names the version, whose copy is whole
    routes(again)
    again.__enter__ = lambda: None


def test_a_version_that_was_spoilt_is_refused_and_the_old_one_goes_on(client, other, tmp_path):
    service = client.app.state.service
    old = service.decider.version
    new = service.versions.add(other)
    surface = next(file for file in new.folder.iterdir() if file.name != "manifest.json" and file.stat().st_size)
    service.versions.serve(new.name, "test")
    until(lambda: service.decider.version == new.name)
    service.versions.serve(old, "back")
    until(lambda: service.decider.version == old)
    for file in new.folder.iterdir():
        raw = bytearray(file.read_bytes())
        raw[len(raw) // 2] ^= 1
        file.write_bytes(raw)
    assert surface.exists()
    with pytest.raises(ModelFileError):
        service.versions.serve(new.name, "test")  # refused where it is asked for
    with writing(service.engine) as connection:  # and where it came in all the same
        connection.execute(database_serving().insert().values(version=new.name, at=0.0, reason="forced"))
    until(lambda: any(f"model: version {new.name} cannot be served" in one for one in service.troubles()))
    assert client.get("/ready").json()["model_version"] == old
    routes(client, 3)
    assert client.post("/v1/feedback", json=VOTE).status_code == 201


def database_serving():
    from nasheval.serving.schema import SERVING

    return SERVING


def test_a_restart_with_a_spoilt_version_serves_the_one_before(served, other):
    client = served()
    service = client.app.state.service
    old = service.decider.version
    new = service.versions.add(other)
    service.versions.serve(new.name, "test")
    until(lambda: service.decider.version == new.name)
    (new.folder / "manifest.json").write_text("{}")
    again = served()
    assert again.app.state.service.decider.version == old


def test_versions_are_taken_up_while_requests_are_answered(client, other):
    service = client.app.state.service
    first, second = service.decider.version, service.versions.add(other).name
    seen, stop = [], []

    def ask():
        while not stop:
            answer = client.post("/v1/route", json={"context": HERE})
            seen.append((answer.status_code, answer.json()["model_version"]))

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(ask) for _ in range(2)]
        for version in (second, first, second):
            service.versions.serve(version, "swap")
            until(lambda version=version: service.decider.version == version)
        stop.append(True)
        for job in jobs:
            job.result()
    assert {status for status, _ in seen} == {200}
    assert {version for _, version in seen} <= {first, second}
    assert [name for name, _, _ in service.versions.history()] == [second, first, second, first]
    assert service.versions.previous() == first


def test_a_copy_is_whole_or_not_there(model, tmp_path):
    broken = shutil.copytree(model, tmp_path / "broken")
    file = max((one for one in broken.iterdir() if one.name != "manifest.json"), key=lambda one: one.stat().st_size)
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    with pytest.raises(ModelFileError, match="SHA-256"):
        copied(broken, tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []
    name = copied(model, tmp_path / "models")
    assert name == version_of(model) == copied(model, tmp_path / "models")
    with pytest.raises(InputError, match="There is no version 'none' in this store"):
        Versions(open_store(str(tmp_path / "v.db"), create=True), tmp_path)["none"]


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [400 * 86_400.0, -400 * 86_400.0])
def test_a_clock_that_jumps_deletes_nothing_and_is_told(served, monkeypatch, jump):
    client = served(retention_days=30)
    client.post("/v1/feedback", json=VOTE)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    until(lambda: any(one.startswith("clock: ") for one in client.app.state.service.troubles()))
    client.post("/v1/feedback", json=VOTE)
    expire(client.app.state.service.engine, 30, 24)
    with client.app.state.service.engine.connect() as connection:
        times = connection.execute(select(VOTES.c.at)).scalars().all()
    assert len(times) == 2
    assert max(times) - min(times) < 60


def test_time_goes_on():
    clock = Clock()
    assert clock.jumped() == 0
    assert abs(clock.now() - time.time()) < 1
    assert CLOCK.now() <= CLOCK.now()


def test_what_is_older_than_asked_is_deleted(client):
    service = client.app.state.service
    for key in ("old", "new"):
        client.post("/v1/feedback", json={**VOTE, "key": key})
    client.post("/v1/route", json={"context": HERE, "session": "s"})
    with writing(service.engine) as connection:
        connection.execute(update(VOTES).where(VOTES.c.key == "old").values(at=0.0))
        connection.execute(update(SESSIONS).values(at=0.0))
    expire(service.engine, 0, 24)
    assert (n_rows(client, VOTES), n_rows(client, SESSIONS)) == (2, 0)
    expire(service.engine, 30, 24)
    assert n_rows(client, VOTES) == 1


# -- processes --------------------------------------------------------------------------------------------------------


def children(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_nothing_acknowledged_is_lost(server, model, tmp_path):
    one = server(model, "--store", tmp_path / "v.db", "--workers", 2)
    until(lambda: len(children(one.process.pid)) == 2)
    keys = []
    for number in range(60):
        if number in (15, 35):
            os.kill(children(one.process.pid)[0], signal.SIGKILL)
        while True:
            try:
                answer = httpx.post(f"{one.url}/v1/feedback", json={**VOTE, "key": str(number)}, timeout=20)
            except httpx.HTTPError:
                continue
            assert answer.status_code == 201
            keys.append(str(number))
            break
    until(lambda: len(children(one.process.pid)) == 2)
    assert httpx.get(f"{one.url}/ready").json()["problems"] == []
    assert '"worker_died"' in one.log.read_text()
    assert one.stop() == 0
    with sqlite3.connect(tmp_path / "v.db") as connection:
        stored = [row[0] for row in connection.execute("SELECT key FROM votes ORDER BY seq")]
    connection.close()
    assert stored == keys


@pytest.mark.slow
def test_a_request_that_is_under_way_is_answered_before_it_stops(server, model, tmp_path):
    one = server(model, "--store", tmp_path / "v.db")
    with ThreadPoolExecutor(4) as pool:
        bodies = [{**VOTE, "key": str(number)} for number in range(40)]
        jobs = [pool.submit(httpx.post, f"{one.url}/v1/feedback", json=body, timeout=30) for body in bodies]
        until(lambda: any(job.done() for job in jobs))
        one.process.send_signal(signal.SIGTERM)
        answered = sum(job.exception() is None and job.result().status_code == 201 for job in jobs)
    assert one.process.wait(30) == 0
    with sqlite3.connect(tmp_path / "v.db") as connection:
        [(stored,)] = connection.execute("SELECT count(*) FROM votes")
    connection.close()
    assert stored == answered > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_acknowledged_vote_is_there_once_though_the_service_is_killed(kind, model, tmp_path, request):
    from studies.benchmarks.serving import stored_keys
    from studies.benchmarks.serving_crowd import vote_and_kill
    from studies.benchmarks.serving_process import Service

    store = f"sqlite:///{tmp_path}/votes.db"
    if kind == "postgresql":
        store = new_database(request.getfixturevalue("postgres_server"), "killed")
    service = Service([str(model), "--store", store, "--models", str(tmp_path / "models")], tmp_path / "log")
    service.start()
    sent = vote_and_kill(service, lambda i: {**VOTE, "key": f"k{i}"}, 150, 2, clients=4, seed=0)
    assert service.stop() == 0
    keys = stored_keys(store, tmp_path / "votes.parquet")
    assert sent.kills == 2
    assert len(keys) == len(set(keys)) == 150 == len(sent.acknowledged)
