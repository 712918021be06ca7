"""The five data sets under $NASHEVAL_DATA, read as a user would."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from nasheval.errors import ReadError
from nasheval.feedback.readers.rankings import read_rankings
from nasheval.feedback.readers.scores import read_scores
from nasheval.feedback.readers.votes import read_votes

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("NASHEVAL_DATA") or ROOT.parent / "shared" / "data")


def data(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"there is no {name} in the data folder; set NASHEVAL_DATA to where it lies")
    return str(path)


# -- oa_pairs ---------------------------------------------------------------------------------------------------------


def oa_pairs(**options):
    return read_votes(
        data("oa_pairs/judgments.parquet"),
        model_a="model_1",
        model_b="model_2",
        winner="score",
        labels={1: "a", 2: "b", 3: "tie", -1: "drop"},
        context_id="prompt_id",
        context=["lang"],
        text="text",
        join=(data("oa_pairs/prompts.parquet"), "prompt_id"),
        **options,
    )


@pytest.fixture(scope="module")
def oa():
    return oa_pairs()


def test_oa_pairs(oa):
    assert (oa.report.rows, oa.n_records, oa.n_contexts, oa.n_agents) == (40_026, 38_544, 953, 7)
    assert oa.report.labels == {"1": ("a", 18_875), "2": ("b", 14_043), "3": ("tie", 5_626), "-1": ("drop", 1_482)}
    assert oa.report.dropped == {"label '-1', which is no verdict": 1_482}
    assert oa.contexts.column_names == ["lang", "text"]
    assert oa.contexts["text"].null_count == 0


def test_oa_pairs_positions(oa):
    """The first wins 47% and the second 35% of all 40,026 verdicts."""
    shares = {meaning: count / oa.report.rows for meaning, count in oa.report.labels.values()}
    assert (round(shares["a"], 2), round(shares["b"], 2)) == (0.47, 0.35)
    bias = oa.coverage().position_bias
    assert bias.mean == pytest.approx((18_875 - 14_043) / 38_544, abs=0.003)  # dropped rows unbalance orders a little
    assert bias.pairs == 21
    assert bias.clear
    assert bias.balanced
    assert any("favoured by 0.124: both orders were shown" in text for text in oa.coverage().warnings())


def test_oa_pairs_design(oa):
    averaged = oa_pairs(average_repeats=True)
    assert oa.design == "draws"
    assert averaged.design == "inclusion"
    assert set(averaged.records.weight.tolist()) == {0.5, 1.0}
    assert averaged.coverage().share_of_pairs == 1
    assert averaged.coverage().condorcet_winner == "gpt-4"


def test_oa_pairs_without_labels_says_which_are_unknown():
    with pytest.raises(
        ReadError, match=r"judgments.parquet, column 'score', rows 1, 2, 3, 4, 5 and 40,021 more: unknown"
    ):
        read_votes(data("oa_pairs/judgments.parquet"), model_a="model_1", model_b="model_2", winner="score")


# -- llmfao -----------------------------------------------------------------------------------------------------------


def test_llmfao():
    log = read_votes(
        data("llmfao/crowd-comparisons.csv"),
        context_id="prompt",
        voter="worker",
        join=(data("llmfao/prompts.jsonl"), "prompt", "id"),
        context=["type"],
        text="text",
    )
    assert (log.n_records, log.n_contexts, log.n_agents) == (8_931, 13, 59)
    assert log.report.labels == {"tie": ("tie", 3_471), "left": ("a", 2_911), "right": ("b", 2_549)}
    assert log.report.kind == "battles: left, right, winner"
    cover = log.coverage()
    assert (cover.n_voters, cover.design) == (124, "draws")
    assert round(3_471 / log.n_records, 2) == 0.39
    assert len(cover.components) == 1
    assert log.contexts["text"].to_pylist()[0].startswith("Argue for and against the use of kubernetes")


# -- routerbench ------------------------------------------------------------------------------------------------------

ROUTERBENCH = [
    "WizardLM/WizardLM-13B-V1.2",
    "claude-instant-v1",
    "claude-v1",
    "claude-v2",
    "gpt-3.5-turbo-1106",
    "gpt-4-1106-preview",
    "meta/code-llama-instruct-34b-chat",
    "meta/llama-2-70b-chat",
    "mistralai/mistral-7b-chat",
    "mistralai/mixtral-8x7b-chat",
    "zero-one-ai/Yi-34B-Chat",
]


def routerbench(**options):
    return read_scores(
        data("routerbench/scores_costs.parquet"), agents=ROUTERBENCH, context=["eval_name"], text="prompt", **options
    )


def test_routerbench_tells_of_its_missing_scores():
    found = "no score in some of 11 columns, most often in 'WizardLM/WizardLM-13B-V1.2': found nothing (14x)"
    with pytest.raises(ReadError, match=re.escape(f", rows 355, 356, 368, 369, 377 and 23 more: {found}.")):
        routerbench()


def test_routerbench(capsys):
    log = routerbench(pairs_per_context=20, on_error="skip")
    assert (log.report.rows, log.report.used) == (3_178, 3_150)
    assert log.n_records == 3_150 * 20
    assert set(log.records.propensity.tolist()) == {20 / 55}
    assert log.design == "inclusion"
    assert log.n_contexts < 3_150  # some prompts stand in several rows
    assert log.records.weights.sum() == pytest.approx(20 * log.n_contexts)
    assert set(log.contexts["eval_name"].to_pylist()) == {"arc-challenge", "winogrande", "mbpp"}
    assert capsys.readouterr().err.count("\n") == 1
    assert log.coverage().condorcet_winner == "gpt-4-1106-preview"


# -- llmrouter --------------------------------------------------------------------------------------------------------


def test_llmrouter():
    agents = ["llama3-chatqa-1.5-8b", "qwen2.5-7b-instruct", "llama3-chatqa-1.5-70b", "llama-3.1-nemotron-51b-instruct",
              "mistral-7b-instruct-v0.3", "gemma-2-9b-it", "llama-3.1-8b-instruct", "codegemma-7b",
              "llama-3.3-nemotron-super-49b-v1"]  # fmt: skip
    log = read_scores(data("llmrouter/scores.parquet"), agents=agents, context=["task_name"], text="question")
    assert (log.report.rows, log.report.used, log.n_records, log.n_agents) == (6_108, 6_108, 6_108 * 36, 9)
    assert len(set(log.contexts["task_name"].to_pylist())) == 14
    assert log.design == "inclusion"


# -- nicabean ---------------------------------------------------------------------------------------------------------


def test_nicabean():
    log = read_rankings(
        data("nicabean/trial.csv"),
        ballot=["id", "trait"],
        agent="item",
        rank="rank",
        context=["trait", "gender", "age", "trial"],
        voter="id",
        join=(data("nicabean/covar.csv"), "id"),
    )
    assert (log.n_records, log.n_contexts, log.n_agents) == (5_013, 5_013, 10)
    assert (np.diff(log.records.offsets) == 3).all()
    assert log.coverage().n_voters == 557
    assert len(set(log.contexts["trait"].to_pylist())) == 9
    assert set(log.contexts["gender"].to_pylist()) <= {"Man", "Woman", None}
    assert log.design == "draws"
