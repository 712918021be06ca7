"""The first three commands of a user with files that another tool wrote, as docs/quickstart.md shows them."""

# ruff: noqa: E501

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from nasheval.cli import app

from .pages import commands

PAGE = (Path(__file__).parents[1] / "docs" / "quickstart.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Files that another tool wrote")[1].split("\n## ")[0]
BLOCKS = [commands(block) for block in re.findall(r"^```sh\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)]
WORDS = ("code", "poem", "proof", "letter", "joke", "plan")
QUESTIONS = [f"Write a {word}, number {i}." for i, word in enumerate(WORDS * 5)]


def put(path, rows, *, lines=False):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows), encoding="utf-8")


def arena_hard(rng):
    scores = np.array(["A>>B", "A>B", "A=B", "B>A", "B>>A"])
    put("arena_hard/question.jsonl", [{"question_id": str(i), "cluster": WORDS[i % 6], "turns": [{"content": text}]}
                                      for i, text in enumerate(QUESTIONS)], lines=True)  # fmt: skip
    for model in ("x", "y", "z"):
        put(f"arena_hard/judgment/{model}.jsonl",
            [{"question_id": str(i), "model": model, "judge": "j", "games": [{"score": s} for s in rng.choice(scores, 2)]}
             for i in range(len(QUESTIONS))], lines=True)  # fmt: skip


def alpaca_eval(rng):
    for model in ("x", "y", "z"):
        put(f"alpaca_eval/{model}/annotations.json",
            [{"instruction": text, "generator_1": "gpt4", "output_1": "1", "generator_2": model, "output_2": "2",
              "dataset": "d", "annotator": "j", "preference": 1 + rng.random()} for text in QUESTIONS])  # fmt: skip


def wmt(rng):
    names = ("srclang,trglang,srcIndex,segmentId,judgeID,system1Id,system1rank,system2Id,system2rank,rankingID",)
    rows = [f"eng,fin,{i},{i},j{i % 3},{a},{ranks[a]},{b},{ranks[b]},{i}"
            for i in range(30) for ranks in [dict(zip("xyz", rng.integers(1, 4, 3), strict=True))]
            for a, b in ("xy", "xz", "yz")]  # fmt: skip
    Path("wmt16.eng-fin.csv").write_text("\n".join([*names, *rows]), encoding="utf-8")


def open_webui(rng):
    chosen = [rng.permutation(["x", "y", "z"])[:2].tolist() for _ in QUESTIONS]
    put("feedback.json", [
        {"id": str(i), "user_id": f"u{i % 4}", "type": "rating", "meta": {"arena": True, "message_id": "m1", "tags": [WORDS[i % 6]]},
         "data": {"rating": int(rng.choice([-1, 1])), "model_id": one, "sibling_model_ids": [other]},
         "snapshot": {"chat": {"chat": {"messages": [{"role": "user", "content": QUESTIONS[i]}]}}}}
        for i, (one, other) in enumerate(chosen)])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("make", "lines"), [*zip((arena_hard, alpaca_eval, wmt, open_webui), BLOCKS, strict=True)])
def test_three_commands_without_a_flag(make, lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(np.random.default_rng(0))
    assert [words[1] for words in lines] == ["check", "fit", "leaderboard"]
    for words in lines:
        result = CliRunner().invoke(app, words[1:], env={"COLUMNS": "120", "NO_COLOR": "1"})
        assert result.exit_code == 0, result.output
    assert "x" in result.output
    assert "Leaderboard" in result.output
