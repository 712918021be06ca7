"""Models at equal style and as voted: what they answer, print, keep and compare."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.errors import Argument, InputError, ModelFileError
from nasheval.payoff.second_stage import StyleSurface
from nasheval.scoring.report.gathering import gather
from nasheval.scoring.report.rendering import render
from nasheval.store.routers import load_router

QUICK = {"outcome": "lightgbm", "folds": 2, "n_jobs": 1, "device": "cpu", "verbose": False}
NAMES = np.array(["short", "middle", "long"])


def votes(n=900, seed=0, star=False):
    """Three agents of equal quality that differ in length, and voters who lean to length and to the first."""
    rng = np.random.default_rng(seed)
    first = np.zeros(n, int) if star else rng.integers(3, size=n)
    second = (first + rng.integers(1, 3, n)) % 3
    words = np.exp2(6 + np.stack([first, second], axis=1) + rng.normal(0, 0.8, (n, 2))).round()
    lean = 0.15 * np.log2(words[:, 0] / words[:, 1]) + 0.1
    won = rng.random(n) < (1 + np.clip(lean, -1, 1)) / 2
    return pd.DataFrame(
        {
            "model_a": NAMES[first],
            "model_b": NAMES[second],
            "winner": np.where(won, "model_a", "model_b"),
            "length_a": words[:, 0],
            "length_b": words[:, 1],
            "language": rng.choice(["en", "de"], n),
        }
    )


def read(table, **options):
    return ne.read_votes(table, context="language", style="length", **options)


@pytest.fixture(scope="module")
def log():
    return read(votes())


@pytest.fixture(scope="module")
def model(log):
    return ne.NashEval(adjust=("position", "style"), **QUICK).fit(log)


def test_as_voted_is_the_model_that_adjusts_for_nothing(log, model):
    plain = ne.NashEval(**QUICK).fit(log)
    voted = model.as_voted()
    assert voted.adjust == ()
    np.testing.assert_array_equal(voted.payoff(log.contexts), plain.payoff(log.contexts))
    np.testing.assert_array_equal(voted.payoff_interval().lower, plain.payoff_interval().lower)
    pd.testing.assert_frame_equal(voted.leaderboard("language"), plain.leaderboard("language"))
    assert plain.adjustment() is None
    assert plain.as_voted().stage1_ is plain.stage1_
    assert model.score(log) == plain.score(log)


def test_at_equal_style_agents_of_equal_quality_are_equal(model):
    equal, voted = model.payoff_interval(), model.as_voted().payoff_interval()
    assert (equal.lower <= 0).all()
    assert (equal.upper >= 0).all()
    assert voted.beats().any()
    assert np.abs(equal.estimate).max() < np.abs(voted.estimate).max() / 2
    assert (equal.estimand, voted.estimand) == ("at equal style", "as voted")
    assert "at equal style" in str(equal)
    assert "equal style" not in str(voted)


def test_both_estimands_differ_by_the_difference(model):
    for group in (None, {"language": "en"}):
        found = model.adjustment(group)
        assert found.names == ("position", "length")
        np.testing.assert_allclose(found.voted - found.equal, found.difference, atol=1e-9)
        assert ((found.lower <= found.difference) & (found.difference <= found.upper)).all()
        assert found.difference[found.agents.index("long")] > 0.1 > -0.1 > found.difference[found.agents.index("short")]
    np.testing.assert_allclose(model.adjustment().effect, [0.1, 0.15], atol=0.08)
    for word in ("twice the length", "being shown first", "as voted", "at equal style", "difference"):
        assert word in str(found)


def test_every_table_names_its_estimand(model):
    assert set(model.leaderboard()["estimand"]) == {"at equal style"}
    assert "estimand" not in model.as_voted().leaderboard()
    assert str(model.decision()).endswith("This is at equal style, not as voted.")
    assert "equal style" not in str(model.as_voted().decision())


def test_payoffs_are_games_and_lotteries_are_those_at_equal_style(log, model):
    payoffs = model.payoff(log.contexts)
    np.testing.assert_array_equal(payoffs, -payoffs.transpose(0, 2, 1))
    moved = model.as_voted().payoff(log.contexts) - payoffs
    assert moved[:, 0, 2].std() < 0.1 < abs(moved[:, 0, 2].mean())
    assert isinstance(model.stage1_.payoff.style, StyleSurface)


def test_saved_models_keep_both(tmp_path, log, model):
    model.save(tmp_path / "m")
    again = ne.load(tmp_path / "m")
    np.testing.assert_array_equal(again.payoff(log.contexts), model.payoff(log.contexts))
    for one, other in ((again, model), (again.as_voted(), model.as_voted())):
        np.testing.assert_array_equal(one.payoff_interval().upper, other.payoff_interval().upper)
    assert str(again.adjustment()) == str(model.adjustment())
    context = {"language": "en"}
    np.testing.assert_array_equal(load_router(tmp_path / "m")(context), model.predict_proba([context])[0])
    again.save(tmp_path / "twice")
    assert (tmp_path / "twice" / "style.safetensors").read_bytes() == (
        tmp_path / "m" / "style.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"names": ["length"]}, "shape"),
        ({"names": [1, 2]}, "no names"),
        ({"left_out": [1]}, "notes"),
        ({"curved": 2}, "curved"),
    ],
)
def test_damaged_adjustments_are_refused(tmp_path, model, changed, message):
    model.save(tmp_path / "m")
    path = tmp_path / "m" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["stage1"]["style"] |= changed
    path.write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match=message):
        ne.load(tmp_path / "m")


def test_evaluations_take_the_estimand_of_their_models(log):
    train, test = log.split(0.5)
    options = {"verbose": False, **{name: QUICK[name] for name in ("outcome", "folds")}}
    model = ne.NashEval(adjust="style", **QUICK).fit(train)
    found = ne.evaluate({"ours": model, "best": ne.baselines.BestSingle()}, test, train=train, **options)
    assert found.estimand == found.to_dict()["estimand"] == "at equal style"
    assert "at equal style" in str(found)
    plain = ne.evaluate({"ours": model, "best": ne.baselines.BestSingle()}, test, train=train, adjust=(), **options)
    assert plain.estimand == "as voted"
    assert plain.overall.error[0, 1] != found.overall.error[0, 1]
    with pytest.raises(InputError, match="adjust for different things"):
        ne.evaluate({"one": model, "two": model.as_voted()}, test, **options)


def test_a_star_says_that_position_cannot_be_told():
    model = ne.NashEval(adjust=("position", "style"), **QUICK).fit(read(votes(star=True)))
    found = model.adjustment()
    assert found.names == ("length",)
    assert "position cannot be told from agents" in str(found)


def test_one_pair_and_few_votes():
    table = votes()
    pair = read(table[(table[["model_a", "model_b"]] != "middle").all(axis=1)])
    assert ne.NashEval(adjust="style", **QUICK).fit(pair).payoff_interval().estimate.shape == (2, 2)
    few = ne.NashEval(adjust=("position", "style"), **QUICK).fit(read(table[:12]))
    assert np.isfinite(few.payoff_interval().estimate).all()


def test_what_is_not_there_cannot_be_adjusted_for():
    plain = ne.read_votes(votes(), context="language")
    with pytest.raises(InputError, match="this log has no style"):
        ne.NashEval(adjust="style", **QUICK).fit(plain)
    with pytest.raises(InputError, match="accepted are position, style, length"):
        ne.NashEval(adjust=("colour",), **QUICK).fit(read(votes()))


def test_the_report_shows_both(model):
    page = render(gather(model.stage1_, draws=50))
    assert '"estimand":"at equal style"' in page
    assert "As voted and" in page
    assert '"adjusted":null' in render(gather(model.stage1_.as_voted, draws=50))


def test_the_command_line(tmp_path):
    votes().to_csv(tmp_path / "votes.csv", index=False)
    runner, where = CliRunner(), str(tmp_path / "m")
    flags = ["--context", "language", "--style", "length", "--outcome", "lightgbm", "--folds", "2", "--jobs", "1"]
    fitted = runner.invoke(
        app, ["fit", str(tmp_path / "votes.csv"), *flags, "--holdout", "0", "--adjust", "position,style", "-o", where]
    )
    assert fitted.exit_code == 0, fitted.output
    for text in ("at equal style", "as voted", "twice the length"):
        assert text in re.sub(r"\s+", " ", fitted.output)
    table = runner.invoke(app, ["leaderboard", where])
    assert "Leaderboard, all contexts, at equal style" in table.output
    assert "Leaderboard, all contexts, as voted" in table.output
    rows = json.loads(runner.invoke(app, ["leaderboard", where, "--format", "json"]).stdout)
    assert [row["estimand"] for row in rows] == ["at equal style"] * 3 + ["as voted"] * 3
    none = runner.invoke(app, ["fit", str(tmp_path / "votes.csv"), "--adjust", "style", "-o", str(tmp_path / "n")])
    assert "--adjust style: this log has no style" in none.exception.message(Argument.as_flag)
