"""Files of annotation tools: answers that are no verdicts, buckets, ids in place of names, rows of five systems."""

from __future__ import annotations

import copy
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.errors import ReadError
from nasheval.feedback.readers.annotation import _as_list

from . import test_formats as files
from .test_formats import lines, said, table, write

# -- Argilla ----------------------------------------------------------------------------------------------------------


def records(*answers):
    """Records of x against y: (values, users, states) of each."""
    return [
        {"id": str(i), "prompt": f"Why {i}?", "model_a": "x", "model_b": "y", "p.responses": values,
         "p.responses.users": users, "p.responses.status": states}
        for i, (values, users, states) in enumerate(answers)
    ]  # fmt: skip


ANSWERS = records(
    (["a", "b"], ["u", "v"], ["submitted", "draft"]), (["tie"], ["u"], ["submitted"]), (["b"], ["v"], ["submitted"])
)


@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.jsonl"])
def test_argilla_records_read_the_same_from_any_file(name, here):
    if name == "r.parquet":
        pq.write_table(pa.Table.from_pylist(ANSWERS), name)
    else:
        (here / name).write_text(table(ANSWERS) if name == "r.csv" else lines(ANSWERS))
    log = ne.read(name)
    assert said(log) == ["x = y", "x > y", "y > x"]
    assert log.report.aside == {"answers that are draft": 1}
    assert log.voters.to_pylist() == ["u", "v"]


def test_answers_without_a_status_are_left_out_where_others_have_one(here):
    rows = copy.deepcopy(ANSWERS)
    rows[2]["p.responses.status"] = []
    log = ne.read(write(here, {"r.jsonl": lines(rows)}))
    assert said(log) == ["x = y", "x > y"]
    assert log.report.aside["answers without a status"] == 1
    bare = [{key: value for key, value in row.items() if not key.endswith("status")} for row in ANSWERS]
    assert said(ne.read(write(here, {"r.jsonl": lines(bare)}))) == ["x = y", "x > y", "y > x", "y > x"]


def test_rankings_are_refused_by_name(here):
    ranked = [[{"rank": 1, "value": "model_a"}, {"rank": 2, "value": "model_b"}]]
    rows = [*ANSWERS, *records((ranked, ["u"], ["submitted"]))]
    with pytest.raises(ReadError, match=r"'p\.responses', row 4: .*the answers to 'p' are rankings[\s\S]*score="):
        ne.read(write(here, {"r.jsonl": lines(rows)}))


def test_records_that_name_no_models_say_so(here):
    rows = [{key: value for key, value in row.items() if key != "model_a"} for row in ANSWERS]
    with pytest.raises(ReadError, match="no two fields say which models were compared"):
        ne.read(write(here, {"r.jsonl": lines(rows)}))


@given(st.lists(st.one_of(st.none(), st.text(), st.integers())))
@settings(max_examples=100, deadline=None)
def test_a_list_in_text_is_that_list_or_refused(values):
    try:
        assert _as_list(str(values), "p", None, 1) == values
    except ReadError:
        assert any("'" in str(one) or '"' in str(one) or not str(one).strip() for one in values)


def test_lists_without_commas_are_refused(here):
    frame = pd.DataFrame(ANSWERS)
    frame["p.responses"] = ["['a' 'b']", "['tie']", "['b']"]  # as NumPy writes them
    frame.to_csv("r.csv", index=False)
    with pytest.raises(ReadError, match=r"column 'p\.responses', row 1: found \"\['a' 'b'\]\", which is no list"):
        ne.read("r.csv")


# -- Label Studio -----------------------------------------------------------------------------------------------------


def ranked(*answers, ids="xyzw"):
    items = [{"id": one, "body": "..."} for one in ids]
    return {"l.json": json.dumps([
        {"id": i, "data": {"prompt": f"Why {i}?", "items": items},
         "annotations": [{"completed_by": 7, "result": [{"type": "ranker", "value": {"ranker": answer}}]}]}
        for i, answer in enumerate(answers)
    ])}  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "expected", "aside"),
    [
        ([{"rank": ["y", "x"]}], ["y > x"], {}),
        ([{"_": ["w"], "good": ["y", "x"]}], ["y > x"], {"items in no bucket, which nobody ranked": 1}),
        ([{"_": [], "good": ["y", "x"], "bad": ["z"]}] * 2, ["y > x > z"] * 2, {}),  # not sorted: as configured
        ([{"_": ["w"], "good": ["y"], "bad": ["z"]}, {"_": ["x", "y", "z"], "good": ["w"], "bad": []}], ["y > z"],
         {"items in no bucket, which nobody ranked": 4, "answers with a single item in a bucket": 1}),
        ([{"clear": ["y", "x"]}, {"kind": ["x", "y"]}, {"kind": "?"}, "?"], ["x > y", "y > x"], {}),  # two rankers
        ([{"_": ["z"], "ads": [], "best": ["y", "x"]}], ["y > x"], {"items in no bucket, which nobody ranked": 1}),
    ],
)  # fmt: skip
def test_buckets_stand_above_each_other(answers, expected, aside, here):
    log = ne.read(write(here, ranked(*answers)))
    assert said(log) == expected
    assert log.report.aside == aside


@pytest.mark.parametrize(
    "answers",
    [
        [{"_": [], "ads": ["x"], "best": ["y", "z"]}],  # sorted as a database sorts
        [{"good": ["y", "x"], "bad": ["z"]}, {"bad": ["y"], "good": ["x"]}],
    ],
)
def test_buckets_whose_order_is_not_known_are_refused(answers, here):
    path = write(here, ranked(*answers))
    names = sorted({name for answer in answers for name in answer if name != "_"}, reverse=True)
    with pytest.raises(ReadError, match="nothing tells which of the buckets stands above the others"):
        ne.read(path)
    placed = [[one for name in names for one in answer[name]] for answer in answers]
    assert said(ne.read(path, score=",".join(names))) == sorted(" > ".join(one) for one in placed)


def test_only_items_outside_buckets_are_no_ranking(here):
    with pytest.raises(ReadError, match=r"no row can be made of it: items in no bucket, which nobody ranked \(2\)"):
        ne.read(write(here, ranked({"_": ["x", "y"], "best": []})))


def test_ids_of_items_are_no_agents(here):
    answers = [{"rank": [f"{i}-{one}" for one in "xyz"]} for i in range(4)]
    with pytest.raises(ReadError, match=r"\('0-x', '0-y', '0-z', \.\.\.\): these are ids of answers"):
        ne.read(write(here, ranked(*answers)))


# -- LangSmith --------------------------------------------------------------------------------------------------------


def test_a_run_of_no_experiment_is_no_agent(here):
    rows = copy.deepcopy(files.SMITH)
    rows.append({"key": "better", "scores": {"r5": 1, "r6": 0}, "experiments": {"r5": "x"}, "comment": ""})
    log = ne.read(write(here, {"l.jsonl": lines(rows)}))
    assert log.agents == ("x", "y")
    assert log.report.aside == {"runs without a name among 'experiments'": 1}
    assert log.n_records == 2


def test_a_score_in_words_is_refused(here):
    rows = copy.deepcopy(files.SMITH)
    rows[1]["scores"]["r3"] = "good"
    with pytest.raises(ReadError, match=r"column 'scores\.r3', row 2: found 'good', which is no number"):
        ne.read(write(here, {"l.jsonl": lines(rows)}))


# -- WMT --------------------------------------------------------------------------------------------------------------


def five(ranks, judge="j", source=1):
    """A row of WMT until 2015: the ranks of five systems."""
    return {"srclang": "eng", "trglang": "fin", "srcIndex": source, "judgeId": judge,
            **{f"system{i}Id": name for i, name in enumerate("vwxyz", start=1)},
            **{f"system{i}rank": rank for i, rank in enumerate(ranks, start=1)}}  # fmt: skip


def test_a_row_of_five_systems_is_one_ranking(here):
    rows = [five([1, 2, 3, 4, 5]), five([2, 1, 1, -1, 3], "k"), five([5, 4, 3, 2, 1]), five([1, -1, -1, -1, -1])]
    write(here, {"logs/a.csv": table(rows), "logs/b.csv": table(rows[:1])})
    log = ne.read("logs")
    assert said(log) == ["v > w > x > y > z", "v > w > x > y > z", "w = x > v > z", "z > y > x > w > v"]
    assert log.report.aside == {"systems that were not ranked (-1)": 5, "systems that were ranked alone": 1}
    assert (log.n_contexts, log.voters.to_pylist()) == (1, ["j", "k"])
