"""RouterBench with simulated judges: verdicts, the log, and what is made of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nasheval as ne
from nasheval.feedback.partition import Zero
from studies.harness.rows import Rows
from studies.harness.running import run_study
from studies.harness.study import Scale
from studies.harness.writing import write
from studies.paper import routerbench
from studies.paper.contest import OURS
from studies.paper.judges import accuracy_nearby, tastes, verdicts
from studies.paper.prompts import windows
from studies.paper.routerbench import Bench, question

from .small_prompts import ROUTED, WORDS, guessed, real, write_routed

N = 40


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NASHEVAL_DATA", str(tmp_path))
    monkeypatch.setattr(routerbench, "PAIRS", 4)
    return tmp_path


@pytest.fixture
def bench(folder):
    write_routed(folder, N)
    return Bench.read()


# -- judges -----------------------------------------------------------------------------------------------------------


def test_labels_come_first():
    """Models a and b are right, c and d are wrong: a judge is asked about (a, b) alone, and (c, d) is no contest."""
    said = verdicts(np.array([[1.0, 1, 0, 0]]), np.array([[1.0, 2, 9, 8]]))[0]
    assert said.tolist() == [[0, -1, 1, 1], [1, 0, 1, 1], [-1, -1, 0, 0], [-1, -1, 0, 0]]


@given(arrays(float, (3, 5), elements=st.sampled_from([0.0, 1.0])), arrays(float, (3, 5), elements=st.integers(0, 3)))
@settings(max_examples=50)
def test_a_judge_is_transitive(score, taste):
    said = verdicts(score, taste)
    assert (said == -said.transpose(0, 2, 1)).all()
    beats = (said > 0).astype(int)
    assert not ((beats @ beats > 0) & (beats == 0)).any()


def test_tastes_by_hand():
    """Two models, three prompts of 10, 10 and 20 characters; the second costs ten times the first a character."""
    cost = np.array([[1.0, 10], [3, 10], [2, 50]])
    found = tastes(np.ones((3, 2)), cost, np.array([10.0, 10, 20]), ["one", "two", "three"])
    assert found["efficiency"].tolist() == (-cost).tolist()
    # prices: median of 0.1, 0.3, 0.1 and of 1, 1, 2.5
    np.testing.assert_allclose(found["depth"], cost / [0.1, 1.0])
    assert found["rigour"].tolist() == np.ones((3, 2)).tolist()


def test_models_that_imply_the_same_tokens_tie():
    rng = np.random.default_rng(0)
    tokens, prices = rng.uniform(100, 900, 50), np.array([0.2e-6, 0.6e-6, 1.3e-6])
    cost = tokens[:, None] * prices
    found = tastes(np.ones((50, 3)), cost, tokens, [str(i) for i in range(50)])["depth"]
    assert (verdicts(np.ones((50, 3)), found) == 0).all()


def test_accuracy_nearby_leaves_the_prompt_itself_out():
    rng = np.random.default_rng(1)
    questions, score = [" ".join(rng.choice(WORDS, 4)) for _ in range(12)], rng.integers(0, 2, (12, 3)).astype(float)
    vectors, expected = ne.TextEncoder().encode(questions), []
    for i in range(12):
        others = sorted((j for j in range(12) if j != i), key=lambda j: -float(vectors[i] @ vectors[j]))
        expected.append(score[others[:5]].mean(axis=0))
    np.testing.assert_allclose(accuracy_nearby(score, questions, neighbours=5), expected)


# -- the log ----------------------------------------------------------------------------------------------------------


def test_rows_without_a_score_are_left_out(bench):
    assert bench.agents == ROUTED
    assert (bench.contexts.num_rows, bench.verdict.shape) == (N - 1, (3, N - 1, 4, 4))
    assert bench.judges == ("efficiency", "depth", "rigour")
    np.testing.assert_allclose(bench.payoff(), bench.verdict.mean(axis=0))


def test_the_question_is_what_follows_the_examples():
    assert question(repr(["An example\nA) b\n\nWhy?\nA) c"])) == "Why?\nA) c"
    assert question("[unfinished") == "[unfinished"


def test_one_judge_a_prompt_and_known_propensities(bench):
    rows = np.arange(5, 30)
    log = bench.log(rows, seed=3)
    assert (log.n_contexts, log.n_records, log.design) == (25, 100, "inclusion")
    np.testing.assert_allclose(log.records.propensity, 4 / 6)
    judges = [set(log.records.voter[log.context_of == c].tolist()) for c in range(25)]
    assert all(len(one) == 1 for one in judges)
    assert len(set.union(*judges)) == 3


def test_the_log_says_what_the_judge_said(bench):
    log = bench.log(np.arange(N - 1), seed=0)
    row = {text: i for i, text in enumerate(bench.contexts["text"].to_pylist())}
    at = np.array([row[text] for text in log.contexts["text"].to_pylist()])[log.context_of]
    names = log.voters.to_pylist()
    judge = np.array([bench.judges.index(names[v]) for v in log.records.voter])
    v = log.verdicts
    expected = bench.verdict[judge[v.record], at[v.record], v.j, v.k]
    assert (v.z == expected).all()
    failed = (bench.score[at[v.record], v.j] == 0) & (bench.score[at[v.record], v.k] == 0)
    assert ((log.records.zero[v.record] == Zero.BOTH_BAD) == failed).all()


# -- the study --------------------------------------------------------------------------------------------------------


def test_the_whole_study_on_small_data(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(routerbench, "lotteries", guessed)
    monkeypatch.setattr(routerbench, "TEST", 6)
    out = tmp_path / "out"
    report = write(run_study(routerbench.STUDY, out, Scale(), show=False), out)
    assert all((out / f"{name}.png").stat().st_size > 10_000 for name in ("heatmap", "routerbench"))
    assert "paper: exploitability" in report.tables[0].header
    assert "its judges were language models" in report.tables[0].note
    assert {claim.source for claim in report.claims} == {"bar", "paper"}


def test_frequencies_are_shares_of_each_subset(bench, monkeypatch):
    monkeypatch.setattr(routerbench, "lotteries", guessed)
    rows = Rows(routerbench.run(routerbench.Cell("split 2", {"seed": 2, "test": 7, "train": None})))
    test = windows(N - 1, 7)[2]
    reference = ne.solve(bench.payoff()[test], regularizer=ne.L2(1e-3)).strategy
    group = np.array(bench.contexts["eval_name"].to_pylist())[test]
    for subset in rows.distinct("subset"):
        mine = rows.where(subset=subset)
        assert mine.values("estimated").sum() == pytest.approx(1)
        np.testing.assert_allclose(mine.values("reference"), reference[group == subset].mean(axis=0))
    assert rows.where(method=OURS).mean("value") == 0


# -- the real file ----------------------------------------------------------------------------------------------------


def test_real_judges_differ_and_cycle(monkeypatch):
    monkeypatch.setenv("NASHEVAL_DATA", str(real(routerbench.FILE).resolve()))
    bench = Bench.read()
    assert bench.score.shape == (3150, 11)
    j, k = np.triu_indices(11, 1)
    both = (bench.score[:, j] > 0) & (bench.score[:, k] > 0)
    said = bench.verdict[:, :, j, k][:, both]
    agree = said @ said.T / said.shape[1]
    assert agree[np.triu_indices(3, 1)] == pytest.approx([0.12, -0.32, 0.15], abs=0.01)
    beats = (bench.payoff() > 0).astype(float)
    assert (np.einsum("nij,njk,nki->n", beats, beats, beats) > 0).mean() == pytest.approx(0.38, abs=0.02)
    log = bench.log(np.arange(50), seed=0)
    assert (log.n_records, len(log.menus)) == (1000, 55)
