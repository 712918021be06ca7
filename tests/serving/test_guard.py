"""What is not let through: no key or the wrong one; too large, too deep, too slow, too often; from elsewhere."""

from __future__ import annotations

import json
import socket
import time

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient
from typer.testing import CliRunner

from nasheval.cli import app
from nasheval.errors import InputError, ReadError
from nasheval.serving.app import create_app
from nasheval.serving.keys import Keys, new_key, read_keys, revoke
from nasheval.serving.running import prepare
from nasheval.serving.schema import DECISIONS, MODELS, SERVING, SESSIONS, VOTES
from nasheval.serving.scopes import OPEN, scope_of
from nasheval.serving.settings import Settings

from .small import HERE

BODIES = {
    "/v1/chat/completions": {"model": "nasheval", "messages": [{"role": "user", "content": "hello"}]},
    "/v1/explore/lottery": {},
    "/v1/explore/why": {},
    "/v1/route": {"context": HERE, "session": "s"},
    "/v1/compare": {"context": HERE},
    "/v1/feedback": {"menu": ["a", "b"], "winner": "a", "context": HERE},
    "/v1/forget": {"voter": "v"},
}


def counts(client):
    with client.app.state.service.engine.connect() as connection:
        tables = (DECISIONS, VOTES, SESSIONS, MODELS, SERVING)
        return [connection.execute(select(func.count()).select_from(table)).scalar() for table in tables]


def code(answer, status):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "argument"}
    return error["code"]


@pytest.fixture
def keyed(served, tmp_path):
    path = tmp_path / "keys.toml"
    keys = {scope: new_key(path, scope, [scope]) for scope in ("route", "vote", "admin")}
    return served(keys=str(path)), keys, path


def routes(client):
    """Return every route of the application, with its methods."""
    document = client.app.openapi()
    return [(path, method.upper()) for path, methods in document["paths"].items() for method in methods] + [
        ("/openapi.json", "GET"),
        ("/nowhere", "GET"),
    ]


def bearer(key):
    return {"authorization": f"Bearer {key}"}


def test_no_route_reads_or_writes_without_a_key_or_with_the_wrong_scope(keyed):
    client, keys, _ = keyed
    before = counts(client)
    for path, method in routes(client):
        wanted, body = scope_of(path), BODIES.get(path)
        if wanted == OPEN:
            assert set(client.request(method, path).json()) == {"status"}  # nothing of votes or the model
            continue
        for headers in (
            {},
            bearer("ne_wrong"),
            bearer(""),
            {"authorization": f"Basic {keys['admin']}"},
            bearer("ü" * 400),
        ):
            raw = {name: value.encode() for name, value in headers.items()}
            answer = client.request(method, path, json=body, headers=raw)
            assert code(answer, 401) == "no_key"
            assert answer.headers["www-authenticate"] == "Bearer"
        for scope in {"route", "vote", "admin"} - {wanted}:
            if wanted in keys:
                assert code(client.request(method, path, json=body, headers=bearer(keys[scope])), 403) == "wrong_scope"
    client.app.state.service.writer.close()
    assert counts(client) == before


def test_every_route_answers_with_its_scope(keyed):
    client, keys, _ = keyed
    for path, method in routes(client):
        if path == "/nowhere":
            continue
        key = keys.get(scope_of(path), keys["route"])
        answer = client.request(method, path, json=BODIES.get(path), headers=bearer(key))
        if path in ("/v1/chat/completions", "/v1/models"):
            assert code(answer, 404) == "no_upstreams"
            continue
        assert answer.status_code in (200, 201), (path, answer.text)
    assert code(client.get("/nowhere", headers=bearer(keys["admin"])), 404) == "not_found"
    assert client.get("/ready", headers=bearer(keys["vote"])).json()["model_version"]


def test_votes_name_the_key_they_came_with_and_keys_of_others_do_not_clash(served, tmp_path):
    path = tmp_path / "keys.toml"
    one, two = (new_key(path, name, ["vote"]) for name in ("one", "two"))
    client = served(keys=str(path))
    body = {**BODIES["/v1/feedback"], "key": "k"}
    for key in (one, two):
        assert client.post("/v1/feedback", json=body, headers=bearer(key)).json()["duplicate"] is False
    with client.app.state.service.engine.connect() as connection:
        assert connection.execute(select(VOTES.c.client)).scalars().all() == ["one", "two"]


def test_revoked_and_new_keys_are_taken_up(keyed):
    client, keys, path = keyed
    new = new_key(path, "late", ["route"])
    revoke(path, "route")
    until = time.monotonic() + 10
    while client.post("/v1/route", json={}, headers=bearer(keys["route"])).status_code != 401:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert client.post("/v1/route", json={}, headers=bearer(new)).status_code == 200


def test_a_damaged_file_of_keys_leaves_those_that_were_read(keyed):
    client, keys, path = keyed
    path.write_text("[keys.x")
    until = time.monotonic() + 10
    while not any(one.startswith("keys: ") for one in client.app.state.service.troubles()):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert client.post("/v1/route", json={}, headers=bearer(keys["route"])).status_code == 200


# -- keys -------------------------------------------------------------------------------------------------------------


def test_keys_are_kept_as_hashes(tmp_path):
    path = tmp_path / "keys.toml"
    key = new_key(path, "arena-1", ["route", "vote", "route"])
    assert key not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    [kept] = read_keys(path)
    assert (kept.name, kept.scopes) == ("arena-1", ("route", "vote"))
    assert Keys(str(path)).find(key) == kept
    assert Keys(str(path)).find(key[:-1]) is None
    assert len({new_key(path, f"k{i}", ["vote"]) for i in range(5)}) == 5


@pytest.mark.parametrize(
    ("name", "scopes", "said"),
    [
        ("a", ["read"], "There is no scope 'read'"),
        ("a", [], "A key needs a scope"),
        ("A b", ["vote"], "is no name of a key"),
        ("taken", ["vote"], "has a key 'taken' already"),
    ],
)
def test_keys_that_cannot_be_are_told(tmp_path, name, scopes, said):
    path = tmp_path / "keys.toml"
    new_key(path, "taken", ["vote"])
    with pytest.raises(InputError, match=said):
        new_key(path, name, scopes)
    with pytest.raises(InputError, match="has no key 'nobody'"):
        revoke(path, "nobody")


@pytest.mark.parametrize(
    "text",
    [
        "keys = 1",
        "[other]\n",
        "[keys.a]\nsha256 = 'x'\nscopes = ['vote']",
        "[keys.a]\nscopes = ['vote']",
        "[keys",
        "\xff",
    ],
)
def test_a_file_that_holds_no_keys_is_told(tmp_path, text):
    path = tmp_path / "keys.toml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ReadError, match="To do: make one with"):
        read_keys(path)


# -- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "status", "wanted"),
    [
        (b"", 400, "invalid_json"),
        (b"[]", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b'{"context": NaN}', 400, "invalid_json"),
        (b'{"prompt": "\xff"}', 400, "invalid_json"),
        (b'{"prompt": "\\ud800"}', 400, "invalid_json"),
        (b'{"session": "a", "session": "b"}', 400, "invalid_json"),
        (b'{"session": "\\u0000"}', 422, "invalid"),
        (b'{"context": ' + b'{"a": ' * 17 + b"1" + b"}" * 17 + b"}", 400, "invalid_json"),
        (b'{"context": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "invalid_json"),
        (b'{"prompt": "' + b"[" * 60 + b'"}', 422, "invalid"),  # brackets in a text are no nesting
        (b'{"prompt": "' + b"a" * 300_000 + b'"}', 413, "too_large"),
        (b'{"budget": 1e400}', 400, "invalid_json"),
        (b'{"budget": true}', 422, "invalid"),
        (b'{"context": {"size": ' + b"9" * 400 + b"}}", 422, "invalid"),
        (b'{"context": {"size": ' + b"9" * 5000 + b"}}", 400, "invalid_json"),
    ],
)
def test_bodies_that_are_refused(client, raw, status, wanted):
    answer = client.post("/v1/route", content=raw, headers={"content-type": "application/json"})
    assert code(answer, status) == wanted


def test_a_body_that_is_no_json_is_refused(client):
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):  # what a web page may send without asking
        assert code(client.post("/v1/route", content=b"{}", headers={"content-type": kind}), 415) == "not_json"


def test_a_large_body_without_a_length_is_refused_while_it_comes(client):
    pieces = (b" " * 100_000 for _ in range(50))
    answer = client.post("/v1/route", content=pieces, headers={"content-type": "application/json"})
    assert code(answer, 413) == "too_large"


@pytest.mark.slow
def test_slow_bodies_are_refused_and_others_answered_meanwhile(server, model, tmp_path):
    one = server(model, "--store", tmp_path / "v.db", "--body-seconds", 1)
    head = (
        b"POST /v1/route HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    )
    with (
        socket.create_connection(("127.0.0.1", one.port)) as slow,
        socket.create_connection(("127.0.0.1", one.port)) as quick,
    ):
        slow.sendall(head + b"{")
        quick.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert quick.recv(1000).startswith(b"HTTP/1.1 200")
        slow.settimeout(20)
        answer = slow.recv(10_000)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b'"too_slow"' in answer or b'"too_slow"' in slow.recv(10_000)


def test_too_many_requests_are_refused_client_by_client(served, tmp_path):
    path = tmp_path / "keys.toml"
    one, two = (new_key(path, name, ["route"]) for name in ("one", "two"))
    client = served(keys=str(path), rate=1)
    said = [client.post("/v1/route", json={}, headers=bearer(one)) for _ in range(8)]
    late = [answer for answer in said if answer.status_code == 429]
    assert [answer.status_code for answer in said[:2]] == [200, 200]
    assert late
    assert {code(answer, 429) for answer in late} == {"too_many_requests"}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in late)
    assert client.post("/v1/route", json={}, headers=bearer(two)).status_code == 200
    assert client.get("/health").status_code == 200


# -- from elsewhere ---------------------------------------------------------------------------------------------------


def test_pages_of_others_may_not_call_it(served):
    client = served(origins=("https://arena.example",))
    asks = {"origin": "https://other.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client.options("/v1/route", headers=asks).headers
    assert (
        "access-control-allow-origin" not in client.get("/health", headers={"origin": "https://other.example"}).headers
    )
    asks["origin"] = "https://arena.example"
    assert client.options("/v1/route", headers=asks).headers["access-control-allow-origin"] == asks["origin"]
    answer = client.post("/v1/route", json={}, headers={"origin": asks["origin"]})  # not past those who say so
    assert answer.headers["access-control-allow-origin"] == asks["origin"]


def test_the_short_cut_answers_what_is_asked_most_and_nothing_else(client):
    short_cut = client.app.short_cut
    taken = [
        path for path, method in routes(client) if short_cut.answers({"type": "http", "method": method, "path": path})
    ]
    assert taken == ["/v1/route"]
    for scope in ({"method": "GET", "path": "/v1/route"}, {"method": "POST", "path": "/v1/route/"}):
        assert not short_cut.answers({"type": "http", **scope})
    assert not short_cut.answers({"type": "lifespan"})


def test_middleware_of_a_program_sees_every_request(model, tmp_path):
    seen, application = [], create_app(Settings(model=str(model), store=f"sqlite:///{tmp_path}/votes.db"))

    @application.middleware("http")
    async def look(request, following):
        seen.append(request.url.path)
        return await following(request)

    with TestClient(application, "http://127.0.0.1") as client:
        assert client.post("/v1/route", json={"context": HERE}).status_code == 200
    assert seen == ["/v1/route"]


def test_by_default_no_page_may_call_it(client):
    asks = {"origin": "https://a.example", "access-control-request-method": "POST"}
    assert code(client.options("/v1/route", headers=asks), 405) == "wrong_method"


def test_without_keys_other_names_of_this_machine_are_refused(client, served):
    assert code(client.post("/v1/route", json={}, headers={"host": "evil.example"}), 403) == "wrong_host"
    for name in ("localhost:8080", "127.0.0.1", "[::1]:8080"):
        assert client.post("/v1/route", json={}, headers={"host": name}).status_code == 200
    assert served(hosts=("in.example",)).post("/v1/route", json={}, headers={"host": "in.example"}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "arena.example"])
def test_a_public_address_takes_keys(host):
    with pytest.raises(InputError, match=f"{host} can be reached from other machines, and there are no keys"):
        Settings(host=host)
    assert Settings(host=host, keys="keys.toml").host == host


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"port": 70_000}, "accepted is a number from 0 to 65535"),
        ({"floor": 0}, "accepted is a number from 0.001 to 1"),
        ({"origins": ["*"]}, "every page of the web"),
        ({"origins": ["example.com"]}, "accepted is scheme and host"),
        ({"origins": ["https://a.example/page"]}, "accepted is scheme and host"),
        ({"origins": ["file:///x"]}, "accepted is scheme and host"),
        ({"workers": True}, "accepted is a number"),
    ],
)
def test_settings_that_cannot_be_are_told(options, said):
    with pytest.raises(InputError, match=said):
        Settings(**options)


def test_settings_reach_workers_whole():
    assert Settings(origins=["https://A.example:8000/"]).origins == ("https://a.example:8000",)  # as browsers send it
    settings = Settings(model="m", origins=("https://a.example",), new_agents=["x"], rate=2.5)
    assert Settings.from_json(settings.to_json()) == settings


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_secrets_are_in_no_log_and_no_error(served, tmp_path, capfd, monkeypatch):
    import nasheval.serving.endpoints as endpoints

    path = tmp_path / "keys.toml"
    key = new_key(path, "one", ["route", "vote", "admin"])
    client = served(keys=str(path), log_requests=True)

    async def broken(*given):
        raise RuntimeError(f"wrong with {given} and {key}")

    secret = "my neighbour's diagnosis"
    said = [
        client.post("/v1/route", json={"context": {"language": secret}}, headers=bearer(key)).text,
        client.post("/v1/route", json={"session": secret}, headers=bearer(key + "x")).text,
        client.post("/v1/feedback", json={"menu": ["a", "b"], "voter": secret}, headers=bearer(key)).text,
    ]
    monkeypatch.setattr(endpoints, "decide", broken)
    answer = client.post("/v1/route", json={"session": secret}, headers=bearer(key))
    assert code(answer, 500) == "defect"
    logged = capfd.readouterr().err
    lines = [json.loads(line) for line in logged.splitlines() if line.startswith("{")]
    assert {line["event"] for line in lines} >= {"defect", "request"}
    for text in (*said[1:], answer.text, logged):
        assert secret not in text
        assert key not in text
    service_secret = client.app.state.service.secret.hex()
    assert service_secret not in logged
    assert client.get("/metrics", headers=bearer(key)).text.count("diagnosis") == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [({"upstreams": "none.toml"}, "there is no such file"), ({"default": "nobody"}, "no agent of this model")],
)
def test_faults_of_the_start_are_told_before_it_listens(model, tmp_path, options, said):
    with pytest.raises(InputError, match=said):
        prepare(Settings(model=str(model), store=f"sqlite:///{tmp_path}/votes.db", **options))


def test_an_export_names_what_fits_a_store(tmp_path):
    (tmp_path / "votes.db").write_bytes(b"SQLite format 3\0")
    for words, said in ((["--parquet", "x.csv"], "ends in .parquet"), (["--onnx", "x"], "--parquet votes.parquet")):
        answer = CliRunner().invoke(app, ["export", str(tmp_path / "votes.db"), *words])
        assert answer.exit_code != 0
        assert said in " ".join((answer.output + str(answer.exception)).split())
