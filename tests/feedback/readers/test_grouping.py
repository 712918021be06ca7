"""Rows -> contexts, and columns joined from a second table."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError, ReadError
from nasheval.feedback.design import Design
from nasheval.feedback.readers.grouping import group_rows
from nasheval.feedback.readers.votes import read_votes
from tests.feedback.oracle import equal_logs


def log_of(n, **columns):
    return pa.table({"model_a": ["x"] * n, "model_b": ["y"] * n, "winner": ["model_a"] * n, **columns})


def test_the_same_prompt_with_the_same_covariates_is_one_context():
    table = log_of(5, prompt=["p", "q", "p", "p", "q"], lang=["en", "en", "en", "de", "en"])
    log = read_votes(table, text="prompt", context=["lang"])
    assert log.contexts.to_pylist() == [
        {"lang": "en", "prompt": "p"},
        {"lang": "en", "prompt": "q"},
        {"lang": "de", "prompt": "p"},
    ]
    assert log.context_of.tolist() == [0, 0, 1, 1, 2]


def test_a_missing_covariate_is_a_value_like_another():
    table = log_of(4, prompt=["p"] * 4, lang=["en", None, None, "en"])
    assert read_votes(table, text="prompt", context=["lang"]).n_contexts == 2


def test_unknown_prompts_are_never_the_same():
    log = read_votes(log_of(4, prompt=["p", None, None, "p"], lang=["en"] * 4), text="prompt", context=["lang"])
    assert log.contexts["prompt"].to_pylist() == ["p", None, None]


def test_empty_prompts_in_csv_are_unknown(here):
    (here / "votes.csv").write_text("model_a,model_b,winner,prompt\nx,y,tie,\nx,y,tie,\nx,y,tie,p\n")
    assert read_votes("votes.csv", text="prompt").n_contexts == 3


def test_equal_covariates_alone_make_no_context():
    assert read_votes(log_of(4, lang=["en"] * 4), context=["lang"]).n_contexts == 4


def test_rows_that_share_an_id_are_one_context():
    log = read_votes(log_of(5, id=["b", "a", "b", "a", "c"], lang=["en", "de", "en", "de", "en"]),
                     context_id="id", context=["lang"])  # fmt: skip
    assert log.contexts.to_pylist() == [{"lang": "en"}, {"lang": "de"}, {"lang": "en"}]
    assert log.context_of.tolist() == [0, 0, 1, 1, 2]


def test_the_id_goes_before_the_prompt():
    table = log_of(3, id=[1, 2, 1], prompt=["p", "p", "p"])
    assert read_votes(table, context_id="id", text="prompt").n_contexts == 2


@pytest.mark.parametrize("ids", [[1, 2, 1], [1.5, 2.0, 1.5], ["u", "v", "u"], [True, False, True]])
def test_ids_of_any_plain_type(ids):
    assert read_votes(log_of(3, id=ids), context_id="id").context_of.tolist() == [0, 0, 1]


def test_ids_in_a_dictionary_that_lists_one_twice():
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["u", "v", "u"]))
    assert read_votes(log_of(3, id=ids), context_id="id").context_of.tolist() == [0, 0, 1]


def test_contexts_stay_in_the_order_of_the_table():
    log = read_votes(log_of(4, prompt=["z", "a", "m", "a"]), text="prompt")
    assert log.contexts["prompt"].to_pylist() == ["z", "a", "m"]


def test_under_inclusion_a_context_whose_rows_are_dropped_stays():
    """Leaving it out would bias the propensities."""
    table = pa.table(
        {
            "model_a": ["x", "x", "y", "x"],
            "model_b": ["y", "z", "z", "y"],
            "winner": ["model_a", "?", "tie", "?"],
            "id": [1, 1, 1, 2],
            "lang": ["en", "en", "en", "de"],
        }
    )
    log = read_votes(table, context_id="id", context=["lang"], labels={"?": "drop"}, design="inclusion")
    assert log.contexts["lang"].to_pylist() == ["en", "de"]
    assert (log.n_records, log.context_of.tolist()) == (2, [0, 0])


@pytest.mark.parametrize("key", [{"context_id": "id"}, {"text": "id"}, {"context": ["id"]}])
def test_under_draws_a_context_whose_rows_are_dropped_tells_nothing(key):
    table = log_of(100, id=[f"q{i}" for i in range(100)])
    winner = ["?" if i % 33 == 0 else "tie" for i in range(100)]
    log = read_votes(table.set_column(2, "winner", pa.array(winner)), **key, labels={"?": "drop"})
    assert (log.n_records, log.n_contexts) == (96, 96)
    assert log.how_designed == Design("draws", "every context has exactly one record")


def test_the_verdicts_that_stay_are_those_of_their_contexts():
    """Rows of one context need not stand together; dropped ones in between must not shift the others."""
    table = log_of(6, id=[3, 1, 2, 3, 1, 2])
    table = table.set_column(2, "winner", pa.array(["model_a", "?", "tie", "?", "model_b", "both_bad"]))
    log = read_votes(table, context_id="id", labels={"?": "drop"})
    assert log.context_of.tolist() == [0, 1, 2, 2]
    assert log.verdicts.z.tolist() == [1, -1, 0, 0]
    assert log.records.zero.tolist() == [1, 1, 1, 2]


@pytest.mark.parametrize("design", [None, "inclusion", "draws"])
@pytest.mark.parametrize("average_repeats", [False, True])
@pytest.mark.parametrize("key", [{"context_id": "id"}, {"text": "id"}, {}])
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_reading_some_agents_is_reading_all_and_keeping_them(key, average_repeats, design, seed):
    rng = np.random.default_rng(seed)
    n, n_contexts = int(rng.integers(5, 80)), int(rng.integers(1, 40))
    pairs = [rng.permutation(list("wxyz"))[:2] for _ in range(n)]
    table = pa.table(
        {
            "model_a": [str(a) for a, _ in pairs],
            "model_b": [str(b) for _, b in pairs],
            "winner": ["tie", *rng.choice(["model_a", "model_b", "tie", "?"], n - 1)],
            "id": [f"q{i}" for i in rng.integers(n_contexts, size=n)],
        }
    )
    options = {"labels": {"?": "drop"}, "average_repeats": average_repeats, "design": design, **key}
    every = read_votes(table, **options)
    some = [str(name) for name in pairs[0]]  # the first row has a verdict
    kept, read = every.keep_agents(some), read_votes(table, agents=some, **options)
    assert equal_logs(read, kept)
    assert read.how_designed.name == every.how_designed.name


def test_the_design_is_told_from_rows_about_other_agents_too():
    """Six pairs, four of them asked at each prompt: two agents alone are asked once or not at all."""
    pairs = list(itertools.combinations("wxyz", 2))
    asked = [(i, pairs[(i + k) % 6]) for i in range(60) for k in range(4)]
    columns = {"model_a": [p[0] for _, p in asked], "model_b": [p[1] for _, p in asked], "id": [i for i, _ in asked]}
    table = pa.table({**columns, "winner": ["tie"] * 240})
    log = read_votes(table, context_id="id", agents=["w", "x"])
    assert (log.design, log.n_records, log.n_contexts) == ("inclusion", 40, 60)


def test_a_faulty_row_about_other_agents_tells_nothing():
    table = log_of(4, id=[1, 1, 2, 3], w=[1.0, None, 2.0, -1.0]).set_column(1, "model_b", pa.array(list("yzyz")))
    log = read_votes(table, context_id="id", weight="w", agents=["x", "y"], design="inclusion")
    assert (log.n_contexts, log.records.weight.tolist(), log.report.problems) == (2, [1.0, 2.0], ())


def test_a_bad_row_leaves_no_context():
    table = log_of(3, id=[1, 2, 1]).set_column(2, "winner", pa.array(["model_a", "?", "tie"]))
    assert read_votes(table, context_id="id", on_error="skip").n_contexts == 1


def test_rows_that_contradict_their_context_are_skipped_not_the_first():
    table = log_of(4, id=[1, 1, 2, 1], lang=["en", "de", "fr", "en"])
    log = read_votes(table, context_id="id", context=["lang"], on_error="skip")
    assert log.contexts["lang"].to_pylist() == ["en", "fr"]
    assert log.context_of.tolist() == [0, 0, 1]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("pq") | st.none(), st.sampled_from([1, 2]) | st.none(), st.booleans() | st.none()),
        min_size=1,
        max_size=30,
    )
)
def test_grouping_agrees_with_a_dictionary_of_rows(rows):
    table = pa.table(
        {
            "text": pa.array([row[0] for row in rows], pa.string()),
            "n": pa.array([row[1] for row in rows], pa.int64()),
            "b": pa.array([row[2] for row in rows], pa.bool_()),
        }
    )
    grouped, of_row = group_rows(table, len(rows), ids=None, text="text")
    seen: dict[object, int] = {}
    keys = [row if row[0] is not None else (i, row) for i, row in enumerate(rows)]
    assert of_row.tolist() == [seen.setdefault(key, len(seen)) for key in keys]
    assert [tuple(row.values()) for row in grouped.to_pylist()] == list(dict(zip(keys, rows, strict=True)).values())


# -- joins ------------------------------------------------------------------------------------------------------------

PROMPTS = {"pid": [3, 1, 2], "lang": ["fr", "en", "de"], "words": ["c", "a", "b"]}


def test_columns_joined_from_a_second_table():
    log = read_votes(log_of(4, pid=[1, 3, 1, 2]), join=(pa.table(PROMPTS), "pid"), context=["lang"], text="words")
    assert log.contexts.to_pylist() == [
        {"lang": "en", "words": "a"},
        {"lang": "fr", "words": "c"},
        {"lang": "de", "words": "b"},
    ]
    assert log.context_of.tolist() == [0, 0, 1, 2]
    assert log.report.roles["join"] == "pid = pid of the joined table"


def test_keys_with_two_names_and_two_types(here):
    (here / "prompts.csv").write_text("key,lang\n3,fr\n1,en\n")
    log = read_votes(log_of(2, pid=[1.0, 3.0]), join=("prompts.csv", "pid", "key"), context="lang")
    assert log.contexts["lang"].to_pylist() == ["en", "fr"]
    assert log.report.roles["join"] == "pid = key of prompts.csv"


def test_a_column_of_the_log_goes_before_one_of_the_same_name_in_the_join():
    table = log_of(2, pid=[1, 2], lang=["own", "own"])
    log = read_votes(table, join=(pa.table(PROMPTS), "pid"), context=["lang", "words"])
    assert log.contexts["lang"].to_pylist() == ["own", "own"]
    assert log.contexts["words"].to_pylist() == ["a", "b"]


def test_conversations_may_be_joined():
    other = pa.table({"pid": [1], "talk": [[{"role": "user", "content": "hi"}]]})
    log = read_votes(log_of(1, pid=[1]), join=(other, "pid"), text="talk")
    assert log.contexts["talk"].to_pylist() == ["hi"]


def test_rows_without_a_partner_can_be_skipped():
    table = log_of(4, pid=[1, 9, None, 2])
    log = read_votes(table, join=(pa.table(PROMPTS), "pid"), context=["lang"], on_error="skip")
    assert log.contexts["lang"].to_pylist() == ["en", "de"]


def test_null_keys_of_the_second_table_match_nothing():
    other = pa.table({"pid": [None, "1"], "lang": ["?", "en"]})
    with pytest.raises(ReadError, match="column 'pid', row 2: found nothing, which is not a key of the joined table"):
        read_votes(log_of(2, pid=["1", None]), join=(other, "pid"), context=["lang"])


def test_rows_of_the_second_table_without_a_key_do_not_shift_the_others():
    other = pa.table({"pid": [None, "1", "2"], "lang": ["?", "en", "de"]})
    log = read_votes(log_of(2, pid=["2", "1"]), join=(other, "pid"), context=["lang"])
    assert log.contexts["lang"].to_pylist() == ["de", "en"]


def test_a_join_that_brings_nothing_is_refused():
    with pytest.raises(
        InputError, match=r"join= brings no column: name those that the joined table adds .*'lang', 'words'"
    ):
        read_votes(log_of(1, pid=[1]), join=(pa.table(PROMPTS), "pid"))
