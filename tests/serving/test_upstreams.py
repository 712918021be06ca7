"""Files of upstreams, events of a stream, and sealed decisions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError, ReadError
from nasheval.serving.events import LARGEST, EventError, Events, chunk_of, data_of, event_of
from nasheval.serving.sealing import letters, named, sealed, unsealed
from nasheval.serving.upstreams import LOTTERY, Prices, Seconds, read_upstreams, require_some

FULL = """
[upstreams."gpt-4o"]
url = "https://api.example.org/v1/"
model = "gpt-4o-2024-08-06"
key = "EXAMPLE_KEY"
prices = { input = 2.5, output = 10 }
seconds = { connect = 1, first_byte = 2, between_bytes = 3, whole = 4 }

[upstreams.local]
url = "http://127.0.0.1:11434/v1"

[policies.cheap]
agents = ["local"]
cost_weight = 0.5
"""


def read(tmp_path, text):
    path = tmp_path / "upstreams.toml"
    path.write_text(text)
    return read_upstreams(path)


def test_a_file_with_everything(tmp_path, monkeypatch):
    found = read(tmp_path, FULL)
    one, local = found.upstreams.values()
    assert (one.agent, one.url, one.model) == ("gpt-4o", "https://api.example.org/v1", "gpt-4o-2024-08-06")
    assert one.seconds == Seconds(1, 2, 3, 4)
    assert one.prices.of({"prompt_tokens": 2_000_000, "completion_tokens": 1_000_000}) == 15.0
    assert local.prices == Prices()
    assert local.model == "local"
    assert list(found.policies) == [LOTTERY, "cheap"]
    monkeypatch.delenv("EXAMPLE_KEY", raising=False)
    assert found.without_key() == ["EXAMPLE_KEY"]
    monkeypatch.setenv("EXAMPLE_KEY", "sk-1\n")
    assert (one.secret, found.without_key()) == ("sk-1", [])
    assert "sk-1" not in repr(found)
    require_some(found, ("local",))
    with pytest.raises(InputError, match="No agent of the model has an upstream"):
        require_some(found, ("a", "b"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no upstream"),
        ("[upstreams", "cannot be read as TOML"),
        ("[upstream.a]\nurl='http://x'", "holds 'upstream'"),
        ("[upstreams.a]\nmodel='m'", "no base URL"),
        ("[upstreams.a]\nurl='ftp://x'", "no base URL"),
        ("[upstreams.a]\nurl='http://x:99999'", "no base URL"),
        ("[upstreams.a]\nurl='http://u:p@x/v1'", "keys belong in environment variables"),
        ("[upstreams.a]\nurl='http://x?key=1'", "keys belong in environment variables"),
        ("[upstreams.a]\nurl='http://x'\nkey='sk-my secret'", "not the name of an environment variable"),
        ("[upstreams.a]\nurl='http://x'\nseconds={connect=0}", "connect is 0"),
        ("[upstreams.a]\nurl='http://x'\nseconds={wait=1}", "holds 'wait'"),
        ("[upstreams.a]\nurl='http://x'\nprices={input=-1}", "input is -1"),
        ("[upstreams.a]\nurl='http://x'\n[policies.p]\nagents=['b']", "not a list of upstreams"),
        ("[upstreams.a]\nurl='http://x'\n[policies.a]", "of an upstream and of a policy"),
        ("[upstreams.nasheval]\nurl='http://x'", "of an upstream and of a policy"),
        ("[upstreams.a]\nurl='http://x'\n[policies.p]\nbudget='1'", "budget is '1'"),
        ("upstreams = 3", "is no table"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, said):
    with pytest.raises(ReadError, match=said) as caught:
        read(tmp_path, text)
    assert "secret" not in str(caught.value)


@given(st.lists(st.text(max_size=20), max_size=6), st.data())
def test_events_are_the_same_however_bytes_are_cut(texts, data):
    chunks = [{"choices": [], "text": text} for text in texts]
    raw = b"".join(event_of(chunk) for chunk in chunks)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    events, got = Events(), []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        got += events.feed(raw[start:end])
    assert [chunk_of(data_of(event)) for event in got] == chunks
    assert events.rest() == b""


def test_events_of_other_makes():
    events = list(
        Events().feed(b': alive\r\n\r\nevent: x\r\ndata: {"choices":\r\ndata: []}\r\n\r\n\n\ndata:[DONE]\n\nrest')
    )
    assert [data_of(event) for event in events] == [None, b'{"choices":\n[]}', b"[DONE]"]
    with pytest.raises(EventError):
        list(Events().feed(b"x" * (LARGEST + 1)))
    for junk in (b"{", b"[]", b'"x"', b"{}", b"[" * 100_000):
        with pytest.raises(EventError):
            chunk_of(junk)


SECRET = bytes(range(32))


@given(st.text(max_size=300))
def test_what_is_sealed_comes_back_and_cannot_be_read_or_changed(token):
    hidden = sealed(token, SECRET)
    assert unsealed(hidden, SECRET) == token
    assert unsealed(hidden, b"another secret") is None
    assert hidden != sealed(token, SECRET)  # the same decision does not look the same
    place = len(hidden) // 2
    assert unsealed(hidden[:place] + ("A" if hidden[place] != "A" else "B") + hidden[place + 1 :], SECRET) is None


@pytest.mark.parametrize("junk", ["", "sealed.", "sealed.é", "sealed.AAAA", "x" * 9000])
def test_junk_is_not_unsealed(junk):
    assert unsealed(junk, SECRET) is None


def test_letters_become_agents():
    assert letters(3) == ["A", "B", "C"]
    assert named([["B"], ["A"]], ["x", "y"]) == [["y"], ["x"]]
    assert json.dumps(named([], ["x"])) == "[]"


def test_the_example_of_the_guide_can_be_read(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "gateway.md").read_text()
    found = read(tmp_path, guide.partition("```toml\n")[2].partition("```")[0])
    assert list(found.upstreams) == ["small", "gpt-4o"]
    assert found.policies["cheap"].cost_weight == 0.5
