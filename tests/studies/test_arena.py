"""Groups, tallies and chance by hand; a made-up release as the real one would be read; the study end to end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from studies.harness.rows import Rows
from studies.harness.running import run_study
from studies.harness.study import Cell, Scale
from studies.harness.writing import write
from studies.paper import arena, arena_data
from studies.paper.arena_data import MODELS, RELEASE, Poll, of_release, present, read_poll, well_met
from studies.paper.arena_groups import (
    Groups,
    dealt_at_random,
    distances,
    maximal_lotteries,
    share_as_large,
    tallies,
)
from studies.paper.arena_release import write_release

VOTES = pd.DataFrame(
    [
        ("a", "b", "model_a", "en", "yes"),
        ("b", "a", "model_b", "en", "yes"),
        ("a", "b", "model_b", "en", "no"),
        ("a", "c", "tie", "en", "no"),
        ("b", "c", "model_b", "fr", "no"),
        ("c", "a", "model_a", "fr", "no"),
        ("a", "b", "model_a", "fr", "no"),
    ],
    columns=["model_a", "model_b", "winner", "language", "code"],
)


def small_log():
    return ne.read_votes(VOTES, context=["language", "code"], design="draws")


@pytest.fixture
def data_here(tmp_path, monkeypatch):
    monkeypatch.setenv("NASHEVAL_DATA", str(tmp_path))
    return tmp_path


# -- groups -----------------------------------------------------------------------------------------------------------


def test_groups_by_hand():
    groups = Groups.of(small_log().contexts, ("language", "code"))
    assert groups.names == ("fr / no", "en / no", "en / yes")  # the largest first, equals by name
    assert groups.of_context.tolist() == [2, 2, 1, 1, 0, 0, 0]
    assert Groups.of(small_log().contexts, ("code",)).values == (("no",), ("yes",))


def test_tallies_by_hand():
    log = small_log()
    groups = Groups.of(log.contexts, ("language",))
    found = tallies(log, groups.of_context, 2)
    assert groups.names == ("en", "fr")
    # in English a beat b twice and lost once, met c once without a winner; in French c > b, c > a, a > b
    np.testing.assert_array_equal(found.margins[0], [[0, 1, 0], [-1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(found.margins[1], [[0, 1, -1], [-1, 0, -1], [1, 1, 0]])
    np.testing.assert_array_equal(found.weights[0], [[0, 3, 1], [3, 0, 0], [1, 0, 0]])
    assert found.votes.tolist() == [4, 3]
    np.testing.assert_allclose(found.coverage, [2 / 3, 1])
    # pooled means: ab 2/4, ac -1/2, bc -1/1. English: (1 - 3/2)^2/3 + (0 + 1/2)^2/1; French: (1 - 1/2)^2 + (-1 + 1/2)^2
    assert found.unlikeness == pytest.approx(2 * (0.25 / 3 + 0.25 + 0.25 + 0.25))
    only = tallies(log, np.where(groups.of_context == 1, 0, -1), 1)
    np.testing.assert_array_equal(only.margins[0], found.margins[1])
    assert only.votes.tolist() == [3]


def test_tallies_of_one_group_are_the_pooled_counts():
    log = small_log()
    found, counts = tallies(log, np.zeros(7, int), 1), log.pair_counts
    np.testing.assert_array_equal(found.margins[0], counts.wins - counts.wins.T)
    np.testing.assert_array_equal(found.weights[0], counts.votes)
    assert found.unlikeness == pytest.approx(0)


def test_lotteries_and_distances_by_hand():
    cycle = np.array([[0, 3, -1], [-3, 0, 2], [1, -2, 0.0]])  # least-norm lottery: margins of the other two, (2, 1, 3)
    ties = np.zeros((3, 3))
    found = maximal_lotteries(np.array([cycle, ties]))
    np.testing.assert_allclose(found, [[2 / 6, 1 / 6, 3 / 6], [1 / 3] * 3], atol=1e-12)
    assert distances(np.array([[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]])).tolist() == [1.0, 0.5, 0.5]


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_dealing_at_random_keeps_the_sizes_and_finds_no_difference_where_there_is_none(seed):
    rng = np.random.default_rng(seed)
    pairs = rng.permuted(np.tile(np.arange(3), (30, 1)), axis=1)[:, :2]
    votes = pd.DataFrame({"model_a": pairs[:, 0], "model_b": pairs[:, 1], "winner": rng.choice(["model_a", "tie"], 30)})
    log = ne.read_votes(votes.astype({"model_a": str, "model_b": str}), design="draws")
    of_context = np.repeat([0, 1, 2], [15, 5, 10])
    covered = np.array([True, False, True])
    chance = dealt_at_random(log, of_context, covered, 15, seed=seed)
    assert chance.distance.shape == chance.unlikeness.shape == (15,)
    assert ((chance.distance >= 0) & (chance.distance <= 1)).all()
    whole = tallies(log, np.where(of_context == 1, -1, 0), 1).margins.sum(0)
    parts = tallies(log, np.array([0, -1, 1])[of_context], 2)
    np.testing.assert_allclose(parts.margins.sum(0), whole)
    assert parts.votes.tolist() == [15, 10]


def places(winner_there, others=("here", "there")):
    both = [("a", "b", "model_a", "here")] * 30 + [("a", "b", winner_there, "there")] * 30
    both += [(agent, "c", "model_a", place) for agent in "ab" for place in others] * 5
    table = pd.DataFrame(both, columns=["model_a", "model_b", "winner", "place"])
    return Poll("x", ne.read_votes(table, context=["place"], design="draws"))


def test_chance_tells_opposite_groups_from_equal_ones():
    unlike, like = (arena.stratified(places(winner), ("place",), 99)[0] for winner in ("model_b", "model_a"))
    assert (unlike["groups"], unlike["mean_tv"], unlike["winners"]) == (2, 1.0, 2)
    assert unlike["p_verdicts"] == pytest.approx(0.01)
    assert unlike["p"] > 0.5  # dealt at random, a and b are so close that either wins: lotteries lie as far apart
    assert (like["mean_tv"], like["p"], like["p_verdicts"]) == (0, 1, 1)


def test_a_group_in_which_few_pairs_met_is_left_out():
    summary, *lotteries = arena.stratified(places("model_a", others=("here",)), ("place",), 9)
    assert summary["groups"] == 1  # there, 1 of 3 pairs met
    assert "mean_tv" not in summary
    assert [(row["group"], row["agent"], row["probability"], row["votes"]) for row in lotteries] == [
        ("here", "a", 1.0, 40)
    ]


def test_the_p_value_counts_equals_and_itself():
    assert share_as_large(np.array([0.1, 0.5, 0.9]), 0.5) == 3 / 4
    assert share_as_large(np.array([0.1, 0.2, 0.3]), 0.5) == 1 / 4


# -- data -------------------------------------------------------------------------------------------------------------


def test_the_release_as_a_user_puts_it(data_here):
    folder = data_here / "arena-140k" / "data"
    folder.mkdir(parents=True)
    strangers = (*MODELS, "a-stranger")
    write_release(folder / "train-0.parquet", 900, strangers, seed=1)
    write_release(folder / "train-1.parquet", 700, strangers, seed=2)
    assert present() == [RELEASE]
    poll = read_poll(RELEASE)
    raw = pa.concat_tables([pq.read_table(folder / f"train-{i}.parquet") for i in (0, 1)]).to_pandas()
    raw = raw[(raw.model_a != "a-stranger") & (raw.model_b != "a-stranger")].reset_index(drop=True)
    assert (poll.log.n_records, poll.log.agents) == (len(raw), MODELS)
    assert poll.attributes == ("language", "code", "instruction following", "mathematics")
    assert len(poll.stratifications) == 4 + 6 + 1
    seen = poll.log.contexts.to_pandas()
    assert (
        seen["code"].value_counts().to_dict()
        == raw.is_code.map({True: "code", False: "no code"}).value_counts().to_dict()
    )
    maths = raw.category_tag.map(lambda tag: tag["math_v0.1"]["math"])
    assert (seen["mathematics"] == "mathematics").sum() == maths.sum()
    strict = raw.category_tag.map(lambda tag: tag["if_v0.1"]["if"])
    assert (seen["instruction following"] == "instruction following").sum() == strict.sum()
    names = {"en": "English", "pl": "Polish", "ru": "Russian", "zh": "Chinese"}
    assert (
        seen["language"].value_counts().to_dict()
        == raw.language.map(lambda code: names.get(code, "Other")).value_counts().to_dict()
    )
    subset = raw[(raw.language == "en") & raw.is_code & (raw.model_a == MODELS[0]) & (raw.model_b == MODELS[1])]
    swapped = raw[(raw.language == "en") & raw.is_code & (raw.model_b == MODELS[0]) & (raw.model_a == MODELS[1])]
    groups = Groups.of(poll.log.contexts, ("language", "code"))
    margin = tallies(poll.log, groups.of_context, len(groups.names)).margins[groups.names.index("English / code"), 0, 1]
    won = (subset.winner == "model_a").sum() + (swapped.winner == "model_b").sum()
    lost = (subset.winner == "model_b").sum() + (swapped.winner == "model_a").sum()
    assert margin == won - lost


def test_one_file_will_do_and_traditional_chinese_is_chinese(data_here):
    path = data_here / "arena-140k.parquet"
    write_release(path, 400, MODELS)
    table = pq.read_table(path)
    traditional = pa.array(["zh-Hant"] * len(table))
    pq.write_table(table.set_column(table.column_names.index("language"), "language", traditional), path)
    assert present() == [RELEASE]
    assert set(read_poll(RELEASE).log.contexts["language"].to_pylist()) == {"Chinese"}


def test_a_release_without_a_model_of_the_paper_says_which(tmp_path):
    path = tmp_path / "release.parquet"
    write_release(path, 300, MODELS[1:])
    with pytest.raises(ne.InputError, match="o3-2025-04-16"):
        of_release([path])


def test_without_any_votes_it_says_where_to_put_them(data_here):
    with pytest.raises(ne.InputError, match=r"no votes in .*140k into the folder arena-140k .*NASHEVAL_DATA names"):
        arena.cells(Scale())
    assert [cell.key for cell in arena.cells(Scale(quick=True))] == ["made-up release"]  # which needs no data


def test_agents_that_hardly_met_are_left_out():
    votes = [(a, b, "tie", g) for g in ("x", "y") for a, b in ("ab", "ac", "bc", "ad")] + [("b", "d", "tie", "x")]
    table = pd.DataFrame(votes, columns=["model_a", "model_b", "winner", "kind"])
    log = ne.read_votes(table, context=["kind"], design="draws")
    assert well_met(log, "kind") == ["a", "b", "c"]  # d misses c everywhere and b in y


def test_real_votes_at_hand():
    try:
        names = present()
    except ne.InputError:
        pytest.skip("there are no votes in the data folder; set NASHEVAL_DATA to where they lie")
    for name in names:
        poll = read_poll(name)
        groups = Groups.of(poll.log.contexts, poll.attributes[:1])
        coverage = tallies(poll.log, groups.of_context, len(groups.names)).coverage
        assert (coverage >= arena_data.COVERED).all()
        assert len(groups.names) > 2


# -- the study --------------------------------------------------------------------------------------------------------


def test_lines_of_the_papers_table():
    line = {"data": RELEASE, "part": "split", "split": "code", "groups": 2, "mean_tv": 0.9, "max_tv": 0.9, "winners": 2}
    assert arena._as_printed(line)
    assert not arena._as_printed(line | {"mean_tv": 0.89})
    assert not arena._as_printed({k: v for k, v in line.items() if k != "mean_tv"})
    table = arena._heterogeneity(Rows([line | {"by_chance": 0.5, "p": 0.02, "p_verdicts": 0.3}]))
    assert table.rows == (
        (RELEASE, "code", "2", "0.900", "0.900", "2", "0.500", "0.020", "0.300", "2; 0.900; 0.900; 2"),
    )


def test_names_of_groups_in_figures():
    assert arena.short("no code") == "no code"
    assert arena.short("English / no code / mathematics") == "English, mathematics"
    assert arena.short("no code / no mathematics") == "neither"


def test_the_study_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(arena_data, "_MADE_UP_VOTES", 600)
    monkeypatch.setattr(arena, "beside_learned", partial(arena.beside_learned, outcome="lightgbm"))  # is quick
    cells = [Cell("made-up release", {"data": "made-up release", "shuffles": 5})]
    study = replace(arena.STUDY, cells=lambda scale: cells)
    report = write(run_study(study, tmp_path, Scale(quick=True), show=False), tmp_path)
    titles = {table.title: table for table in report.tables}
    assert "is not here" in titles["Votes"].note
    assert len(titles["How far the lotteries of groups lie apart"].rows) == 11
    lotteries = titles["Lotteries of the groups"].rows
    for row in lotteries:
        assert sum(float(part.rsplit(" ", 1)[1]) for part in row[-1].split(", ")) == pytest.approx(1, abs=0.04)
    assert {path.name for path in tmp_path.glob("*.png")} == {
        f"{name}-made-up-release.png" for name in ("lotteries", "lotteries-all", "heatmap")
    }
    (learned,) = titles["NashEval, with the attributes as contexts, beside each group's own votes"].rows
    assert learned[1] == "English / no code / no instruction following / no mathematics"
    own = next(row for row in lotteries if row[1].count(" x ") == 3 and row[2] == learned[1])
    assert learned[5] == own[-1]  # counts are so large that rho is next to nothing
