"""`nasheval fit` with odd options: what can be known beforehand is said before the work."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from nasheval.cli import app
from nasheval.estimator import NashEval

FIT = "fit votes.parquet --holdout 0 --outcome lightgbm --second-stage none --propensity-model marginal --folds 2"


@pytest.fixture
def votes(tmp_path, monkeypatch):
    rng, n = np.random.default_rng(0), 90
    pairs = [("a", "b"), ("b", "c"), ("c", "a")]
    columns = {
        "model_a": [pairs[i % 3][0] for i in range(n)],
        "model_b": [pairs[i % 3][1] for i in range(n)],
        "winner": rng.choice(["model_a", "model_b", "tie"], n),
        "language": rng.choice(["de", "en"], n),
        "length": rng.normal(size=n),
        "conversation": [f"c{i}" for i in range(n)],
        "row": np.arange(n),
        "prompt": [f"Say {i}, please, in as many words as you can" for i in range(n)],
        "always": ["x"] * n,
        "nested": [{"a": 1}] * n,
    }
    pq.write_table(pa.table(columns), tmp_path / "votes.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(words):
    return CliRunner().invoke(app, words.split(), env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-o model --report model", "--report model lies in -o model"),
        ("-o model --report ./model", "lies in -o model"),
        ("-o old --overwrite --report old/report.html", "lies in -o old, which holds the model alone"),
        ("-o model --report nowhere/report.html", "There is no folder 'nowhere'"),
        ("-o votes.parquet/model", "There is no folder"),
        ("-o model --by nope", "by='nope' is no context column"),
        ("-o model --costs a=1,b=2,c=3 --budget 0.5", "the cheapest agent costs 1"),
        ("-o model --costs a=1,b=2,c=3 --budget inf", "budget is inf"),
        ("-o model --costs a=1,b=2,c=nan", "costs says nan for 'c'"),
        ("-o model --folds 200", "folds=200: accepted are 2 to 90"),
        ("-o model --context language,winner", "it is the verdict itself"),
        ("-o model --context model_a", "it says who was compared"),
    ],
)
def test_what_cannot_be_is_said_before_the_work(votes, monkeypatch, options, said):
    (votes / "old").mkdir()
    monkeypatch.setattr("nasheval.payoff.stage1.crossfit", lambda *_, **__: pytest.fail("it was fitted first"))
    result = run(f"{FIT} {options}" if "--context" in options else f"{FIT} --context language {options}")
    assert said in str(result.exception), result.output
    assert sorted(path.name for path in votes.iterdir()) == ["old", "votes.parquet"]


def test_a_read_only_place_is_said_before_the_work(votes, monkeypatch):
    monkeypatch.setattr("nasheval.files.os.access", lambda path, mode: False)
    monkeypatch.setattr(NashEval, "fit", lambda *_: pytest.fail("it was fitted first"))
    assert "may not be written to" in str(run(f"{FIT} -o model").exception)


def test_a_seed_below_zero_is_not_understood(votes):
    result = run(f"{FIT} -o model --seed -1")
    assert result.exit_code == 2
    assert "--seed" in result.output


def test_folders_above_a_model_are_made_and_unused_columns_are_named(votes):
    result = run(f"{FIT} -o new/deep/model")
    assert result.exit_code == 0, result.output
    assert (votes / "new" / "deep" / "model" / "manifest.json").exists()
    assert "Not used as context: language, length. Name those" in result.output
    result = run(f"{FIT} --context length -o named -q")
    assert "Not used" not in result.output


@pytest.mark.parametrize(("delimiter", "word"), [(";", "semicolons"), ("\t", "tabs")])
def test_other_delimiters_in_a_csv_file_are_named(votes, delimiter, word):
    rows = [("model_a", "model_b", "winner"), ("a", "b", "tie")]
    (votes / "votes.csv").write_text("\n".join(delimiter.join(row) for row in rows))
    said = str(run("check votes.csv").exception)
    assert f"the columns are separated by {word}, not by commas" in said
    assert "To do: " in said


def test_text_in_latin_1_is_called_by_its_name(votes):
    (votes / "votes.csv").write_bytes("model_a,model_b,winner\nà,é,tie\nà,ü,tie\nö,ß,tie\n".encode("latin-1"))
    said = str(run("check votes.csv").exception)
    assert "this text is not in UTF-8; it may be in Latin-1" in said
    assert "save the file as UTF-8" in said
