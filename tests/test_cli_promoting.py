"""`nasheval promote`, and `nasheval evaluate --sequential`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from nasheval.cli import app
from nasheval.errors import InputError

NAMES = np.array(["ada", "bert", "cleo"])
QUICK = ["--context", "language", "--outcome", "lightgbm", "--folds", "2", "--jobs", "1", "--holdout", "0"]


def votes(n, seed, best=(0, 1)):
    """Return votes in which the first of `best` wins in German, the second in English."""
    rng = np.random.default_rng(seed)
    a = rng.integers(3, size=n)
    b = (a + rng.integers(1, 3, size=n)) % 3
    german = rng.random(n) < 0.5
    leader = np.where(german, *best)
    margin = np.where(a == leader, 0.7, np.where(b == leader, -0.7, 0.0))
    winner = np.where(rng.random(n) < (1 + margin) / 2, "model_a", "model_b")
    return pd.DataFrame(
        {"model_a": NAMES[a], "model_b": NAMES[b], "winner": winner, "language": np.where(german, "de", "en")}
    )


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Two models: one of a crowd that prefers ada and bert, one of a crowd that prefers cleo."""
    folder = tmp_path_factory.mktemp("promoting")
    for name, seed, best in (("right", 0, (0, 1)), ("wrong", 1, (2, 2))):
        votes(500, seed, best).to_csv(folder / f"{name}.csv", index=False)
        result = run("fit", str(folder / f"{name}.csv"), *QUICK, "-o", str(folder / name))
        assert result.exit_code == 0, result.output
    votes(900, 2).to_csv(folder / "new.csv", index=False)
    votes(30, 3).to_csv(folder / "few.csv", index=False)
    return folder


@pytest.fixture(autouse=True)
def _inside(here, monkeypatch):
    monkeypatch.chdir(here)


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "140", "NO_COLOR": "1"})


@pytest.mark.parametrize(
    ("old", "new", "file", "status", "says"),
    [
        ("wrong", "right", "new.csv", 0, "promote: the new policy is better; it won +"),
        ("right", "wrong", "new.csv", 10, "keep: it loses; it won -"),
        ("right", "wrong", "few.csv", 11, "wait: the votes cannot tell yet"),
    ],
)
def test_the_exit_status_says_what_to_do(old, new, file, status, says):
    result = run("promote", old, new, file, "--planned", "800")
    assert result.exit_code == status, result.output
    assert says in result.stdout


def test_json_holds_every_number():
    result = run("promote", "wrong", "right", "new.csv", "--format", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["decision"], found["votes"], found["planned"]) == (0, "promote", 900, 2000)
    assert 0 < found["lower"] < found["value"] < found["upper"]


@pytest.mark.parametrize("model", ["right", "wrong"])
def test_votes_that_a_model_was_fitted_on_are_refused(model):
    result = run("promote", "wrong", "right", f"{model}.csv")
    assert isinstance(result.exception, InputError)
    assert f"{model}.csv is the log that {model} was fitted on" in str(result.exception)


def test_evaluate_says_that_its_intervals_hold_at_every_look():
    wide = run("evaluate", "right", "new.csv", "--against", "best-single", "--sequential", "--planned", "800")
    once = run("evaluate", "right", "new.csv", "--against", "best-single", "--format", "json")
    every = run("evaluate", "right", "new.csv", "--against", "best-single", "--sequential", "--format", "json")
    assert wide.exit_code == once.exit_code == every.exit_code == 0
    assert "and at every look" in " ".join(wide.stdout.split())
    widths = [np.subtract(*(np.array(json.loads(one.stdout)["overall"][name]) for name in ("upper", "lower")))[1, 0]
              for one in (once, every)]  # fmt: skip
    assert widths[1] > 1.2 * widths[0]
    assert [json.loads(one.stdout)["planned"] for one in (once, every)] == [None, 2000]
