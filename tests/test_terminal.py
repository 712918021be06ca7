"""What reaches a terminal: names that would steer it are spelled out, whatever draws them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

import nasheval as ne
from nasheval.terminal import plain, visible

RED, BELL, TURNED = "a\x1b[31mred", "b\x9b2J", "c\u202e"
VOTES = [(RED, BELL), (BELL, TURNED), (TURNED, RED)]


@given(st.text(st.characters(exclude_categories=())), st.sampled_from(["utf-8", "ascii", "latin-1", "cp1252"]))
def test_visible_text_steers_nothing_and_can_be_said(text, encoding):
    shown = visible(text, encoding)
    assert not {unicodedata.category(sign) for sign in shown if sign not in "\t\n"} & {"Cc", "Cs"}
    shown.encode(encoding)
    assert visible(shown, encoding) == shown
    if text.isprintable() and text.isascii():
        assert shown == text


def test_our_own_signs_have_a_plain_form():
    assert visible("1017 ± 19", "ascii") == "1017 +/- 19"
    assert visible("1017 ± 19 é", "latin-1") == "1017 ± 19 é"


def test_names_are_shown_escaped_and_whole_in_tables():
    table = Table(f"against {RED}", title=f"of {TURNED}")
    table.add_row(Text(RED, style="bold"))
    table.add_row(BELL)
    shown = plain(table)
    for name in (r"against a\x1b[31mred", r"of c\u202e", r"│ a\x1b[31mred ", r"│ b\x9b2J "):
        assert name in shown
    assert len({len(line) for line in shown.splitlines()[1:]}) == 1, "columns are as wide as what is shown"


def test_results_print_such_names_escaped():
    log = ne.Feedback.from_partitions([{"x": i} for i in range(30)], [((a,), (b,)) for a, b in VOTES * 10])
    shown = str(log.coverage())
    assert "\x1b" not in shown
    assert r"a\x1b[31mred" in shown


@pytest.fixture(scope="module")
def votes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("votes")
    shown = [*VOTES, *((b, a) for a, b in VOTES)]
    rows = [{"model_a": a, "model_b": b, "winner": winner} for a, b in shown for winner in ("model_a", "tie")]
    (folder / "votes.jsonl").write_text("\n".join(map(json.dumps, rows * 2)))
    return folder


def shell(folder, *words, encoding="utf-8"):
    env = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "100"}
    made = subprocess.run(
        [sys.executable, "-m", "nasheval", *words], capture_output=True, cwd=folder, env=env, check=False
    )
    return made.returncode, made.stdout + made.stderr


def test_the_command_line_sends_no_escapes(votes):
    status, said = shell(votes, "check", "votes.jsonl")
    assert status == 0
    assert b"\x1b" not in said
    assert rb"a\x1b[31mred" in said


def test_an_encoding_that_lacks_signs_is_no_reason_to_stop(votes):
    status, said = shell(votes, "check", "votes.jsonl", encoding="ascii")
    assert status == 0, said
    assert said.isascii()
    assert b"+/-" in said
    assert rb"c\u202e" in said
    status, said = shell(votes, "check", "votes.jsonl", "--format", "json", encoding="ascii")
    assert sorted(json.loads(said)["coverage"]["agents"]) == sorted([RED, BELL, TURNED])
