"""Chat models judged by GPT-4: reading, drawing, splitting, and what is made of the rows."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from nasheval import InputError
from nasheval.feedback.arrow import to_arrow
from studies.harness.rows import Rows
from studies.harness.running import run_study
from studies.harness.study import Scale
from studies.harness.writing import write
from studies.paper import oa
from studies.paper.contest import BASELINES, MAXIMAL, OURS, UNIFORM
from studies.paper.paired import Mean, differences, leading, together
from studies.paper.prompts import drawn_pairs, others, prompt_table, repeats, windows

from .small_prompts import CHAT, guessed, real, write_chat

N = 40


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_chat(tmp_path, N)
    monkeypatch.setenv("NASHEVAL_DATA", str(tmp_path))
    return tmp_path


# -- reading and drawing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("panel", "agents"), [("six", CHAT[:-1]), ("seven", CHAT)])
def test_payoffs_are_means_over_both_orders(folder, panel, agents):
    verdicts = oa.Verdicts.read(panel)
    assert verdicts.agents == agents
    said = {}
    for row in pq.read_table(folder / "oa_pairs" / "judgments.parquet").to_pylist():
        if row["score"] != -1:
            sign = {1: 1, 2: -1, 3: 0}[row["score"]]
            key = int(row["prompt_id"][1:])
            said.setdefault((key, row["model_1"], row["model_2"]), []).append(sign)
            said.setdefault((key, row["model_2"], row["model_1"]), []).append(-sign)
    expected = [[[np.mean(said.get((i, a, b), [0])) for b in agents] for a in agents] for i in range(N)]
    np.testing.assert_allclose(verdicts.payoff(), expected)


def test_the_log_holds_eight_pairs_a_prompt_and_both_orders_as_one(folder):
    rows = np.array([3, 7, 11, 20])
    log = oa.Verdicts.read("six").log(rows, seed=5)
    assert log.n_contexts == len(rows)
    assert log.design == "inclusion"
    weight = np.bincount(log.context_of, log.records.weights)
    # a pair of which no order could be read is drawn all the same
    assert (weight <= 8 + 1e-9).all()
    assert weight.sum() > 8 * len(rows) - 4
    np.testing.assert_allclose(log.records.propensity, 8 / 15)
    margin = log.pair_counts.margin
    assert (np.nan_to_num(margin) == -np.nan_to_num(margin).T).all()


def test_the_log_says_what_the_payoff_says(folder):
    verdicts = oa.Verdicts.read("six")
    log = verdicts.log(np.array([6]), seed=0)
    payoff, seen = verdicts.payoff()[6], np.isfinite(log.pair_counts.margin)
    np.testing.assert_allclose(log.pair_counts.margin[seen], payoff[seen])


def test_other_seeds_draw_other_pairs(folder):
    verdicts, rows = oa.Verdicts.read("seven"), np.arange(10)
    one, same, other = (verdicts.log(rows, seed) for seed in (1, 1, 2))
    assert to_arrow(one).equals(to_arrow(same))
    assert not to_arrow(one).equals(to_arrow(other))


def test_missing_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("NASHEVAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"no oa_pairs/prompts.parquet in .*; set NASHEVAL_DATA"):
        oa.Verdicts.read("six")


# -- prompts ----------------------------------------------------------------------------------------------------------


def test_windows_are_different_prompts_where_there_are_enough():
    found = np.concatenate(windows(100, 20))
    assert sorted(found) == list(range(100))
    assert repeats(100, 20) == 1.0


def test_windows_overlap_as_little_as_they_must():
    found = windows(95, 20)
    count = np.bincount(np.concatenate(found), minlength=95)
    assert (count.min(), count.max(), (count == 2).sum()) == (1, 2, 5)
    assert repeats(95, 20) == pytest.approx((90 + 5 * 4) / 100)
    assert all(len(set(one)) == 20 for one in found)


def test_others_are_spread_evenly():
    assert others(10, np.array([0, 5])).tolist() == [1, 2, 3, 4, 6, 7, 8, 9]
    assert others(10, np.array([0, 5]), 4).tolist() == [1, 3, 6, 8]
    assert len(others(10, np.array([0, 5]), 20)) == 8


def test_pairs_are_drawn_uniformly_and_once():
    drawn = drawn_pairs(30_000, 15, 8, np.random.default_rng(0))
    assert all(len(set(row)) == 8 for row in drawn[:100].tolist())
    assert np.bincount(drawn.ravel()) / 30_000 == pytest.approx(np.full(15, 8 / 15), abs=0.015)


def test_features_of_prompts():
    table = prompt_table(["Write a python function", "Hola"], language=["en", "es"], lang=["en", "es"])
    assert table["prompt_id"].to_pylist() == ["0", "1"]
    assert table["is_code"].to_pylist() == [True, False]
    assert table["log_tokens"].to_pylist() == pytest.approx([np.log(4), 0])


# -- the study --------------------------------------------------------------------------------------------------------


def test_a_split_is_scored_on_prompts_it_has_not_seen(folder, monkeypatch):
    seen = {}

    def methods(log, contexts, **options):
        seen.update(log=log, contexts=contexts, options=options)
        return guessed(log, contexts)

    monkeypatch.setattr(oa, "lotteries", methods)
    cell = oa.Cell("six/1", {"panel": "six", "seed": 1, "test": 10, "train": None, "logs": 1})
    rows = Rows(oa.run(cell))
    assert set(seen["log"].contexts["text"].to_pylist()).isdisjoint(seen["contexts"]["text"].to_pylist())
    assert (seen["log"].n_contexts, seen["contexts"].num_rows) == (N - 10, 10)
    assert seen["options"]["groups"] == "lang"
    assert rows.where(method=OURS).mean("excess") == 0
    truth = oa.Verdicts.read("six").payoff()[windows(N, 10)[1]]
    assert rows.where(method=UNIFORM).mean("exploitability") == pytest.approx(truth.mean(axis=2).max(axis=1).mean())


def test_what_several_logs_do_is_averaged_prompt_by_prompt(folder, monkeypatch):
    logs = []

    def methods(log, contexts, **options):
        logs.append(log)
        picked = np.eye(6)[np.full(contexts.num_rows, len(logs))]
        return guessed(log, contexts) | {MAXIMAL: picked}

    monkeypatch.setattr(oa, "lotteries", methods)
    rows = Rows(oa.run(oa.Cell("six/0", {"panel": "six", "seed": 0, "test": 10, "train": None, "logs": 2})))
    assert not to_arrow(logs[0]).equals(to_arrow(logs[1]))
    truth = oa.Verdicts.read("six").payoff()[windows(N, 10)[0]]
    each = (truth[:, :, 1].max(axis=1) + truth[:, :, 2].max(axis=1)) / 2
    found = rows.where(method=MAXIMAL)
    assert found.mean("exploitability") == pytest.approx(each.mean())
    assert found.mean("exploitability_se") == pytest.approx(each.std(ddof=1) / np.sqrt(10))


def test_the_whole_study_on_small_data(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(oa, "lotteries", guessed)
    monkeypatch.setattr(oa, "TEST", 10)
    out = tmp_path / "out"
    report = write(run_study(oa.STUDY, out, Scale(), show=False), out)
    assert [table.title.split(": ")[1] for table in report.tables] == [
        "six models, without gpt-4", "six models, without gpt-4", "all seven models", "all seven models",
    ]  # fmt: skip
    assert (out / "oa.png").stat().st_size > 10_000
    assert len(report.claims) == 5
    assert "not those of the paper" in report.tables[0].note


def test_quick_fits_every_method_in_earnest(folder):
    rows = Rows(oa.run(oa.Cell("six/0", {"panel": "six", "seed": 0, "test": 10, "train": 12, "logs": 1})))
    assert set(BASELINES) < set(rows.distinct("method"))
    assert all(0 <= row["exploitability"] <= 1 for row in rows)


# -- paired over prompts ----------------------------------------------------------------------------------------------


def scored(method, excess, value, *, se=0.01, seeds=2, **more):
    one = {"method": method, "exploitability": 0.5 + excess, "excess": excess, "excess_se": se}
    return [{**one, "value": value, "value_se": se, "f1": 0.5, "seed": s, "split": s, **more} for s in range(seeds)]


def test_means_over_test_sets():
    """Means of 0.1 and 0.3 with errors 0.03 and 0.04: the error of 0.2 is half of 0.05."""
    rows = [{"excess": 0.1, "excess_se": 0.03, "split": 0}, {"excess": 0.3, "excess_se": 0.04, "split": 1}]
    found = together(Rows(rows), "excess")
    assert (found.mean, found.error) == (pytest.approx(0.2), pytest.approx(0.025))
    assert str(Mean(0.1, 0.05)) == "+0.100 [+0.002, +0.198]"


def test_prompts_that_are_tested_twice_count_as_one():
    one = {"excess": 0.1, "excess_se": 0.03, "split": 0}
    assert together(Rows([one, {**one}]), "excess").error == pytest.approx(0.03)
    overlapping = [{**one, "repeats": 1.21}, {**one, "split": 1, "repeats": 1.21}]
    assert together(Rows(overlapping), "excess").error == pytest.approx(0.033 / np.sqrt(2))


def test_bars_of_a_study_that_ours_should_lead():
    ours = scored(OURS, 0, 0, se=0)
    good = leading(Rows(ours + scored(MAXIMAL, 0.1, -0.1) + scored("other", 0.0, 0.0)), of="all")
    assert [claim.holds for claim in good] == [True, True, True]
    close = leading(Rows(ours + scored(MAXIMAL, 0.01, -0.1) + scored("other", -0.1, 0.1)), of="all")
    assert [claim.holds for claim in close] == [False, False, True]
    assert "other" in close[1].seen
    even = leading(Rows(ours + scored(MAXIMAL, 0.1, -0.01)), of="all")
    assert [claim.holds for claim in even] == [True, True, False]
    assert MAXIMAL in even[2].seen


def test_differences_leave_ours_out():
    table = differences(Rows(scored(OURS, 0, 0) + scored(MAXIMAL, 0.1, -0.2)), "t")
    assert [line[0] for line in table.rows] == [MAXIMAL]
    assert table.rows[0][1].startswith("+0.100 [")


# -- the real file ----------------------------------------------------------------------------------------------------


def test_real_verdicts(monkeypatch):
    monkeypatch.setenv("NASHEVAL_DATA", str(real("oa_pairs/judgments.parquet").resolve()))
    verdicts = oa.Verdicts.read("six")
    payoff = verdicts.payoff()
    assert payoff.shape == (953, 6, 6)
    assert set(np.unique(payoff).tolist()) == {-1, -0.5, 0, 0.5, 1}
    assert (payoff >= 0).all(axis=2).any(axis=1).mean() == pytest.approx(0.98, abs=0.005)
    log = verdicts.log(np.arange(100), seed=0)
    assert 780 < log.records.weights.sum() <= 800
