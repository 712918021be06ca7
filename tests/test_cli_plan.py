"""`nasheval plan`: what it prints, writes and refuses."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app


def run(*words):
    return CliRunner().invoke(app, ["plan", *map(str, words)], env={"COLUMNS": "120", "NO_COLOR": "1"})


def said(*words):
    result = run(*words)
    assert result.exit_code == 0, result.exception
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, n = np.random.default_rng(0), 300
    j, k = (side[rng.integers(3, size=n)] for side in np.triu_indices(3, 1))
    names, x = np.array(["a", "b", "c"]), rng.choice(["en", "fi"], n)
    win = np.where(rng.random(n) < 0.65, "model_a", "model_b")
    j, k = np.minimum(j, k), np.maximum(j, k)
    keep = j < k
    votes = pa.table({"model_a": names[j], "model_b": names[k], "winner": win, "language": x}).filter(pa.array(keep))
    log = ne.read_votes(votes, context=["language"], design="draws")
    how = {"outcome": "lightgbm", "second_stage": "none", "folds": 2, "n_jobs": 1, "verbose": False}
    path = tmp_path_factory.mktemp("plan") / "model"
    ne.NashEval(**how).fit(log).save(path)
    return path


def test_a_model_is_planned_in_words_and_as_json(folder):
    text = said(folder, "--goal", "leader,width=0.2", "--no-learning")
    assert "takes about" in text or "show one agent" in text
    assert "Votes that goals need" in text
    found = json.loads(said(folder, "--goal", "width=0.2", "--by", "language", "--no-learning", "--format", "json"))
    assert {curve["group"] for curve in found["curves"]} == {"en", "fi"}
    assert found["lines"]


def test_menus_are_written_to_be_answered(folder, tmp_path):
    out = tmp_path / "tasks.parquet"
    text = said(folder, "--goal", "leader", "--menus", 40, "-o", out, "--floor", 0.3, "--no-learning", "--seed", 4)
    assert "40 menus" in text
    table = parquet.read_table(out)
    assert table.column_names == ["task", "language", "model_a", "model_b", "winner", "propensity"]
    assert min(table["propensity"].to_pylist()) >= 0.1 - 1e-9
    contexts = tmp_path / "new.csv"
    contexts.write_text("language,id\nfi,1\nfi,2\n")
    more = ("--menus", 5, "-o", out, "--contexts", contexts, "--among", "a,b", "--no-learning", "--goal", "leader")
    said(folder, *more)
    table = parquet.read_table(out)
    assert set(table["language"].to_pylist()) == {"fi"}
    assert table["propensity"].to_pylist() == [1.0] * 5


def test_a_guess_and_its_plot(tmp_path):
    pytest.importorskip("matplotlib")
    text = said("--agents", 4, "--margins", 0.3, "--goal", "leader", "--plot", tmp_path / "leader.svg")
    assert "takes about" in text
    assert "<svg" in (tmp_path / "leader.svg").read_text()
    assert "cannot be 0.1 wide" in said("--agents", 4, "--voters", 40, "--goal", "width=0.1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name the folder of a model, or give --agents 5"),
        (("--agents", 3, "--voters", "panel"), "accepted is how many there are"),
        (("--agents", 3, "--menus", 5), "--menus and -o go together"),
        (("--agents", 3, "--menus", 5, "-o", "t.parquet"), "--menus needs a model"),
        (("--agents", 3, "--goal", "power"), "accepted are 'width=0.1'"),
        (("--agents", 3, "--power", 2), "between 0 and 1"),
    ],
)
def test_what_is_refused_says_what_to_type(words, message):
    result = run(*words)
    assert result.exit_code == 1
    assert message in str(result.exception)


def test_a_model_takes_no_number_of_voters(folder):
    result = run(folder, "--voters", 40)
    assert "accepted are panel or population" in str(result.exception)
