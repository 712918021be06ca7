"""Duplicates."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nasheval as ne
from nasheval.audit.duplicates import duplicates
from nasheval.audit.units import content_of, joined, said_of

from .crowds import fitted

NAMES = np.array([f"m{i}" for i in range(5)])


def drawn(seed=0, n=4000, prompts=3000, popular=False):
    rng = np.random.default_rng(seed)
    prompt = np.minimum(rng.zipf(1.4, n), prompts) if popular else rng.integers(prompts, size=n)
    a = rng.integers(5, size=n)
    b = (a + rng.integers(1, 5, n)) % 5
    won = rng.random(n) < 1 / (1 + np.exp((b - a) / 3))
    winner = np.where(rng.random(n) < 0.1, "tie", np.where(won, "model_a", "model_b"))
    columns = {"model_a": NAMES[a], "model_b": NAMES[b], "winner": winner}
    return pd.DataFrame({**columns, "prompt": prompt, "v": rng.integers(100, size=n).astype(str)})


def audit(table, voter="v"):
    text = table.assign(prompt=[f"prompt {p}" for p in table.prompt])
    log = ne.read_votes(text, context=["prompt"], voter=voter, design="draws")
    return log, duplicates(fitted(log, outcome=Mean()))


class Mean:
    """Predicts the mean verdict."""

    def get_params(self, deep=True):
        return {}

    def set_params(self, **_):
        return self

    def fit(self, X, y, sample_weight=None):
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.mark.parametrize("options", [{}, {"popular": True}, {"prompts": 13}, {"prompts": 400}])
def test_chance_makes_no_duplicates(options):
    for seed in range(3):
        _, found = audit(drawn(seed, **options))
        assert found.repeated == found.bulk == ()
        assert len(found.alike) == 0
        assert "No duplicates beyond chance" in found.lines()[0]


def test_ballots_in_bulk_are_found_with_their_rows():
    table = drawn()
    table.loc[:49, ["model_a", "model_b", "winner", "prompt"]] = ["m0", "m3", "model_a", 7]
    log, found = audit(table)
    [one] = found.bulk
    assert one.records >= 50
    assert one.expected < 20
    assert (one.said, one.prompt) == ("m0 > m3", "prompt 7")
    blocks = {tuple(tuple(block.tolist()) for block in log.records.blocks(row)) for row in one.rows}
    assert len(blocks) == 1
    assert {log.contexts["prompt"][int(log.context_of[row])].as_py() for row in one.rows} == {"prompt 7"}
    assert found.extra.sum() == one.records - 1
    assert found.lines()[0].startswith("In bulk: 1 ballot ")
    assert [table.title for table in found.listings()] == ["Ballots in bulk"]
    assert json.loads(json.dumps(found.to_dict()))["extra"] == one.records - 1


def test_a_voter_who_repeats_a_ballot_is_found():
    table = drawn()
    table.loc[:5, ["model_a", "model_b", "winner", "prompt", "v"]] = ["m1", "m2", "model_b", 9, "42"]
    _, found = audit(table)
    [one] = found.repeated
    assert (one.voters, one.said) == (("42",), "m2 > m1")
    assert one.records >= 6
    assert "1 voter gave" in " ".join(found.lines())


def test_two_voters_with_the_same_answers_are_found():
    table = drawn()
    source, copy = (table.index[table.v == name][:30] for name in ("3", "4"))
    columns = ["model_a", "model_b", "winner", "prompt"]
    table.loc[copy, columns] = table.loc[source, columns].to_numpy()
    _, found = audit(table)
    [pair] = found.alike
    assert set(pair.voters) == {"3", "4"}
    assert pair.asked == pair.agreed == 30
    assert not found.extra.any()


def test_without_voters_bulk_is_still_found():
    table = drawn()
    table.loc[:49, ["model_a", "model_b", "winner", "prompt"]] = ["m0", "m3", "model_a", 7]
    _, found = audit(table, voter=None)
    assert len(found.bulk) == 1
    assert found.bulk[0].voters == ()
    assert any("names no voters" in line for line in found.lines())


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2)), min_size=1, max_size=40))
def test_equal_rows_and_no_others_have_equal_numbers(rows):
    one, two = (np.array(column) for column in zip(*rows, strict=True))
    code = joined(one, two)
    assert len(set(rows)) == len(set(code.tolist()))
    assert len({(row, c) for row, c in zip(rows, code.tolist(), strict=True)}) == len(set(rows))


def test_contexts_are_equal_where_all_columns_are():
    table = pa.table(
        {
            "prompt": ["a", "a", "b", None, None, "a"],
            "x": [1.0, 1.0, 1.0, 2.0, 2.0, 1.5],
            "v": pa.array([[1.0, 2.0]] * 2 + [[0.0, 1.0]] + [None] * 2 + [[1.0, 2.0]], pa.list_(pa.float64(), 2)),
        }
    )
    log = ne.Feedback.from_partitions(table, [(("m",), ("n",))] * 6)
    code = content_of(log).tolist()
    assert code[0] == code[1]
    assert code[3] == code[4]
    assert len(set(code)) == 4
    bare = ne.Feedback.from_partitions(np.zeros((3, 0)), [(("m",), ("n",))] * 3)
    assert len(set(content_of(bare).tolist())) == 3


def test_ballots_are_equal_where_menu_form_and_blocks_are():
    win, tie = ne.partition.duel("a", "b", "a"), ne.partition.duel("a", "b", "tie")
    bad = ne.partition.duel("a", "b", "both_bad")
    ranks = [(("a",), ("b",), ("c",)), (("b",), ("a",), ("c",)), (("a",), ("b", "c"))]
    said = [win, win, tie, bad, ne.partition.duel("a", "b", "b"), *ranks, ranks[0]]
    log = ne.Feedback.from_partitions(pd.DataFrame({"x": range(len(said))}), said, agents=list("abc"))
    code = said_of(log).tolist()
    assert code[0] == code[1]
    assert code[5] == code[8]
    assert len(set(code)) == len(said) - 2
