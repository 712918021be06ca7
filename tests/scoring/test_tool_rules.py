"""Scores by the rules of other tools, against computations that share nothing with ours."""

# ruff: noqa: E501

from __future__ import annotations

import json
import os
from pathlib import Path

import evalica
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.feedback.arrow import from_arrow, to_arrow
from nasheval.feedback.readers.any_log import FORMATS
from nasheval.policy.pooled import ratings
from nasheval.scoring.report import gather
from nasheval.scoring.tool_rules import RULES, rule_of, tool_scores

LABELS = ["A>>B", "A>B", "A=B", "B>A", "B>>A", "A<<B", "A<B", "B<A", "B<<A", "B=A", None]
FOR_A = {
    "A>>B": [1] * 3,
    "B<<A": [1] * 3,
    "A>B": [1],
    "B<A": [1],
    "A=B": [0.5],
    "B=A": [0.5],
    "B>A": [0],
    "A<B": [0],
    "B>>A": [0] * 3,
    "A<<B": [0] * 3,
}


def scores(log, inside=None):
    inside = np.ones(log.n_contexts, bool) if inside is None else inside
    found = tool_scores(log, inside, ratings(log if inside.all() else log[inside]))
    return dict(zip(log.agents, found.tolist(), strict=True))


def read(path, rows, **options):
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return ne.read(str(path), **options)


def world():
    return ne.SyntheticWorld(seed=0).feedback("pairwise", voters=1, n=20)


def close(found, wanted, digits=9):
    assert found == pytest.approx(wanted, abs=10**-digits, nan_ok=True)


def test_each_rule_is_of_a_format_and_has_a_header_of_its_own():
    assert set(RULES) <= {one.name for one in FORMATS}
    assert len({rule.header for rule in RULES.values()}) == len(RULES)


# -- arena-hard -------------------------------------------------------------------------------------------------------


def judgments(rng, models=("x", "y", "z"), n=40, judges=("j",)):
    return [
        {"uid": f"q{i}", "category": "ab"[i % 2], "judge": judge, "model": model, "baseline": "o",
         "games": [{"score": score} for score in rng.choice(np.array(LABELS, object), 2)]}
        for judge in judges for model in models for i in range(n)
    ]  # fmt: skip


def battles(rows):
    """(model, won) of each battle, those that were won clearly three times, as the tool's battles are."""
    made = []
    for row in rows:
        first, second = ([game["score"] for game in row["games"]] + [None])[:2]  # a real file has a row of one game
        if first is not None and second is not None:
            won = FOR_A[second] + [1 - one for one in FOR_A[first]]
            made += [(row["model"], one) for one in won]
    return pd.DataFrame(made, columns=["model", "won"])


def by_logistic_regression(table, baseline):
    """Bradley-Terry against the baseline: a tie is half a win and half a loss."""
    names = sorted(table.model.unique())
    X = np.array([[float(name == model) for name in names] for model in table.model])
    X, y = np.concatenate([X, X]), np.repeat([1, 0], len(table))
    weight = np.concatenate([table.won, 1 - table.won]).astype(float)
    fitted = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=1000).fit(X, y, weight)
    return {name: 100 / (1 + np.exp(-beta)) for name, beta in zip(names, fitted.coef_[0], strict=True)} | {
        baseline: 50.0
    }


@pytest.mark.parametrize("judges", [("j",), ("j", "k")])
def test_arena_hard_is_the_mean_of_battles_and_bradley_terry_against_the_baseline(tmp_path, judges):
    rows = judgments(np.random.default_rng(0), judges=judges)
    log, table = read(tmp_path / "j.jsonl", rows), battles(rows)
    close(scores(log), {**(100 * table.groupby("model").won.mean()).to_dict(), "o": 50.0})
    close(scores(log), by_logistic_regression(table, "o"), 4)
    inside = np.asarray(log.contexts["category"]) == "a"
    close(scores(log, inside), by_logistic_regression(battles([row for row in rows if row["category"] == "a"]), "o"), 4)


def test_the_order_of_rows_does_not_matter(tmp_path):
    rng = np.random.default_rng(6)
    rows = judgments(rng, judges=("j", "k"))
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    close(scores(read(tmp_path / "a.jsonl", rows)), scores(read(tmp_path / "b.jsonl", shuffled)))


def test_arena_hard_knows_which_of_two_is_the_baseline_where_each_is_one(tmp_path):
    """As in arena-hard 2, whose categories have baselines that are models of the others."""
    rng, made = np.random.default_rng(1), []
    for category, baseline, models in (("hard", "o", ("x", "g")), ("poems", "g", ("x", "o"))):
        made += [
            row | {"category": category, "baseline": baseline, "uid": category + row["uid"]}
            for row in judgments(rng, models)
        ]
    log = read(tmp_path / "j.jsonl", made)
    inside = np.asarray(log.contexts["category"]) == "hard"
    found = scores(log, inside)
    close(found, by_logistic_regression(battles([row for row in made if row["category"] == "hard"]), "o"), 4)


def test_arena_hard_without_a_whole_answer_has_no_score(tmp_path):
    rows = [
        {"uid": "q", "judge": "j", "model": "x", "baseline": "o", "games": [{"score": "A>>B"}, {"score": None}]},
        {"uid": "q", "judge": "j", "model": "y", "baseline": "o", "games": [{"score": "A>>B"}, {"score": "A=B"}]},
    ]
    found = scores(read(tmp_path / "j.jsonl", rows))
    close(found, {"x": np.nan, "y": 100 * 0.5 / 4, "o": 50.0})


# -- AlpacaEval -------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from([0, 1, 1.5, 2, 1.2, 1.97, float("nan")])),
        min_size=3,
        max_size=40,
    )
)
def test_alpaca_eval_is_the_mean_of_preferences(tmp_path_factory, said):
    rows = [{"instruction": f"i{i}", "generator_1": "g", "generator_2": model, "dataset": "d", "annotator": "j", "preference": one}
            for i, (model, one) in enumerate([*said, ("x", 1.25)])]  # fmt: skip
    log = read(tmp_path_factory.mktemp("a") / "annotations.jsonl", rows)
    table = pd.DataFrame(rows).replace({"preference": {0: 1.5}}).dropna()
    wanted = (100 * (table.groupby("generator_2").preference.mean() - 1)).to_dict() | {"g": 50.0}
    close(
        scores(log),
        {name: wanted[name] for name in log.agents if name in wanted}
        | {name: np.nan for name in log.agents if name not in wanted},
        6,
    )


# -- MT-bench ---------------------------------------------------------------------------------------------------------


def test_mt_bench_pairs_win_where_both_games_agree(tmp_path):
    rng, said = np.random.default_rng(2), ["model_1", "model_2", "tie", "error"]
    rows = [{"question_id": i, "model_1": a, "model_2": b, "g1_winner": str(rng.choice(said)), "g2_winner": str(rng.choice(said)), "judge": ["g", "p"], "turn": turn}
            for i in range(30) for turn in (1, 2) for a, b in (("x", "y"), ("z", "x"), ("y", "z"))]  # fmt: skip
    total = {name: [0.0, 0] for name in "xyz"}
    for row in rows:
        one, other = row["g1_winner"], row["g2_winner"]
        if "error" in (one, other):
            continue
        won = {"model_1": 1.0, "model_2": 0.0}.get(one, 0.5) if one == other else 0.5
        for name, share in ((row["model_1"], won), (row["model_2"], 1 - won)):
            total[name] = [total[name][0] + share, total[name][1] + 1]
    log = read(tmp_path / "pairs.jsonl", rows)
    close(scores(log), {name: won / count for name, (won, count) in total.items()})


def test_mt_bench_grades_are_means_of_both_turns(tmp_path):
    rng = np.random.default_rng(3)
    rows = [{"question_id": i, "model": model, "judge": ["g", "s"], "score": float(rng.choice([-1, 3, 7.5, 9])), "turn": turn}
            for i in range(20) for turn in (1, 2) for model in "xyz"]  # fmt: skip
    rows.append({"question_id": 99, "model": "x", "judge": ["g", "s"], "score": 1, "turn": 1})  # which nobody else has
    table = pd.DataFrame(rows)
    log = read(tmp_path / "grades.jsonl", rows)
    close(scores(log), table[table.score != -1].groupby("model").score.mean().to_dict())
    assert all(np.isnan(one) for one in scores(log, np.arange(log.n_contexts) < 3).values())


# -- FastChat ---------------------------------------------------------------------------------------------------------


def votes(rng, models, n=600):
    buttons = {
        "leftvote": evalica.Winner.X,
        "rightvote": evalica.Winner.Y,
        "tievote": evalica.Winner.Draw,
        "bothbad_vote": evalica.Winner.Draw,
    }
    rows, said = [], []
    for i in range(n):
        a, b = (models[k] for k in rng.permutation(len(models))[:2])
        kind = str(rng.choice(list(buttons)))
        said.append((a, b, buttons[kind]))
        rows.append({"tstamp": i, "type": kind, "models": ["", ""], "ip": f"v{i % 7}",
                     "states": [{"model_name": a, "messages": [["USER", f"p{i}"]]}, {"model_name": b, "messages": []}]})  # fmt: skip
    return rows, said


@pytest.mark.parametrize("anchor", [False, True])
def test_fastchat_is_bradley_terry_on_the_scale_of_elo(tmp_path, anchor):
    models = ["x", "y", "z", "mixtral-8x7b-instruct-v0.1" if anchor else "w"]
    rows, said = votes(np.random.default_rng(4), models)
    strengths = evalica.bradley_terry(*zip(*said, strict=True), tolerance=1e-12, limit=10_000).scores
    elo = 400 * np.log10(strengths)
    elo += 1114 - elo[models[3]] if anchor else 1000 - elo.mean()
    close(scores(read(tmp_path / "log.jsonl", rows)), elo.to_dict(), 2)


def test_fastchat_gives_no_rating_to_a_model_that_never_lost(tmp_path):
    rows, _ = votes(np.random.default_rng(5), ["x", "y"], 40)
    state = [{"model_name": "best", "messages": []}, {"model_name": "x", "messages": []}]
    rows.append({"tstamp": 1, "type": "leftvote", "models": ["", ""], "states": state})
    found = scores(read(tmp_path / "log.jsonl", rows))
    assert np.isnan(found["best"])
    assert np.isfinite([found["x"], found["y"]]).all()


# -- which logs have one ----------------------------------------------------------------------------------------------


def test_a_log_remembers_its_tool_as_a_table_and_in_parts(tmp_path):
    rows = judgments(np.random.default_rng(0))
    log = read(tmp_path / "j.jsonl", rows)
    close(scores(from_arrow(to_arrow(log))), scores(log))
    close(scores(ne.Feedback.concat([log[:20], log[20:]])), scores(log))
    assert rule_of(log[:5]).header == "arena-hard"
    assert rule_of(ne.Feedback.concat([log, world()])) is None


@pytest.mark.parametrize("options", [{"grades": "sign"}, {"labels": {"A>B": "tie"}}])
def test_verdicts_that_count_otherwise_have_no_tool_score(tmp_path, options):
    log = read(tmp_path / "j.jsonl", judgments(np.random.default_rng(0)), **options)
    assert rule_of(log) is None
    assert all(np.isnan(one) for one in scores(log).values())


def test_other_logs_have_none():
    assert rule_of(world()) is None


# -- where they are shown ---------------------------------------------------------------------------------------------


def test_a_model_shows_the_score_in_tables_and_report_also_after_it_was_saved(tmp_path):
    log = read(tmp_path / "j.jsonl", judgments(np.random.default_rng(0)))
    model = ne.NashEval(outcome="lightgbm", propensity="marginal", folds=2, n_jobs=1, verbose=False).fit(log)
    model.save(tmp_path / "model")
    loaded = ne.load(tmp_path / "model")
    for one in (model, loaded):
        board = one.leaderboard()
        assert "tool_score" not in board
        close(dict(zip(board.agent, board["arena-hard"], strict=True)), scores(log))
    said = CliRunner().invoke(app, ["leaderboard", str(tmp_path / "model")], env={"COLUMNS": "150"}).output
    assert "arena-hard" in said
    assert f"{scores(log)['x']:.1f}" in said
    data = gather(loaded.stage1_, draws=50)
    assert data.tool == ("arena-hard", 1)
    close(dict(zip(data.agents, data.groups[0].tool_score, strict=True)), scores(log), 4)


def test_without_a_tool_no_column_is_added():
    log = world()
    model = ne.NashEval(outcome="lightgbm", propensity="marginal", folds=2, n_jobs=1, verbose=False).fit(log)
    assert not {"tool_score", *(rule.header for rule in RULES.values())} & {*model.leaderboard()}
    assert gather(model.stage1_, draws=50).tool is None


# -- real files -------------------------------------------------------------------------------------------------------

DATA = Path(os.environ.get("NASHEVAL_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.mark.skipif(not (DATA / "arena_hard").is_dir(), reason="../shared/data/arena_hard is not here")
def test_real_arena_hard():
    files = sorted((DATA / "arena_hard" / "judgment").glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["games"] = [{"score": game["score"]} for game in row["games"]]
    table, found = battles(rows), scores(ne.read(str(DATA / "arena_hard")))
    wanted = (100 * table.groupby("model").won.mean()).to_dict() | {rows[0].get("baseline", "baseline"): 50.0}
    assert len(wanted) == 11
    close(found, wanted)


@pytest.mark.skipif(not (DATA / "alpaca_eval").is_dir(), reason="../shared/data/alpaca_eval is not here")
def test_real_alpaca_eval():
    table = pd.concat(pd.read_json(file) for file in (DATA / "alpaca_eval").glob("*/annotations.json"))
    table["preference"] = table.preference.astype(float).replace({0.0: 1.5})
    wanted = (100 * (table.groupby("generator_2").preference.mean() - 1)).to_dict()
    close(scores(ne.read(str(DATA / "alpaca_eval"))), wanted | {table.generator_1.iloc[0]: 50.0})
