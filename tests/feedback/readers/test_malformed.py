"""Malformed inputs, one per case: how it is made and how it is read; malformed.txt holds the whole text of each error.

A message names the file and the first rows (counted from 1 without the header) and column concerned, says what was
found, what is accepted, and what to do.
"""

from __future__ import annotations

import gzip
import io
from functools import partial
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nasheval.errors import NashEvalError
from nasheval.feedback.readers.rankings import read_rankings
from nasheval.feedback.readers.scores import read_scores
from nasheval.feedback.readers.votes import read_votes

# -- how an input is made: each returns a function that writes it and gives what to read ------------------------------


def file(name, content):
    def write():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return write


def csv(*rows, more=""):
    """A vote file; `more` names the columns after the first three."""
    return file("votes.csv", "\n".join([f"model_a,model_b,winner{more and ',' + more}", *rows]) + "\n")


def one_hot(*rows):
    head = "model_a,model_b,prompt,response_a,winner_model_a,winner_model_b,winner_tie"
    return file("55k.csv", "\n".join([head, *(f"x,y,{row}" for row in rows)]) + "\n")


def jsonl(*lines):
    return file("votes.jsonl", "\n".join(lines))


def long(*rows):
    return file("ballots.csv", "\n".join(["ballot,agent,rank", *rows]) + "\n")


def wide(*rows):
    return file("scores.csv", "\n".join(["a,b,c", *rows]) + "\n")


def soc(*lines, names=("x", "y")):
    head = [f"# ALTERNATIVE NAME {i}: {name}" for i, name in enumerate(names, start=1)]
    return file("votes.soc", "\n".join([*head, *lines]) + "\n")


def table(**more):
    """Two good votes with more columns."""
    return lambda: pa.table({"model_a": ["x", "x"], "model_b": ["y", "y"], "winner": ["tie", "tie"], **more})


def given(value):
    return lambda: value


def several(*files):
    """Some files, read through the path of the folder they are in."""

    def write():
        paths = [one() for one in files]
        return str(Path(paths[0]).parent)

    return write


def beside(write, log):
    """A second file next to the one that is read."""
    return lambda: (write(), log())[1]


def parquet(data):
    out = io.BytesIO()
    pq.write_table(data, out)
    return out.getvalue()


def splits():
    import datasets

    one = datasets.Dataset.from_dict({"model_a": ["x"]})
    return datasets.DatasetDict({"train": one, "test": one})


def stream():
    import datasets

    return datasets.Dataset.from_dict({"model_a": ["x"]}).to_iterable_dataset()


GOOD = '{"model_a": "x", "model_b": "y", "winner": "tie"}'
PARQUET = parquet(table()())
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
TWINS = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"]), pa.array(["tie"])], ["model_a", "model_a", "winner"])

# -- how it is read ---------------------------------------------------------------------------------------------------


def votes(**options):
    return partial(read_votes, **options)


def rankings(**options):
    return partial(read_rankings, **options)


def scores(**options):
    return partial(read_scores, **{"agents": ["a", "b", "c"], **options})


# -- the cases ---------------------------------------------------------------------------------------------------------

CASES = [
    # labels
    ("unknown label", csv("x,y,model_a", "x,y,draw"), votes()),
    ("no label", csv("x,y,model_a", "x,y,"), votes()),
    ("several unknown labels", csv("x,y,1", "x,y,2", "x,y,1", "x,y,", "x,y,3", "x,y,4", "x,y,5"), votes()),
    ("a label beside those given", csv("x,y,1", "x,y,7"), votes(labels={1: "a"})),
    ("the name of a third agent as label", csv("x,y,z", "z,y,tie"), votes()),
    ("an agent called like a label", csv("x,tie,tie", "x,y,tie"), votes()),
    ("a label that means nothing", csv("x,y,tie"), votes(labels={"tie": "draw"})),
    ("labels that are no mapping", csv("x,y,tie"), votes(labels=["tie"])),
    ("one-hot with no winner", one_hot('"[]",[],1,0,0', '"[]",[],0,0,0'), votes()),
    ("one-hot with two winners", one_hot('"[]",[],1,0,1'), votes()),
    ("one-hot with a two", one_hot('"[]",[],1,0,0', '"[]",[],2,0,0'), votes()),
    ("one-hot with a gap", one_hot('"[]",[],1,,0'), votes()),
    ("labels for one-hot columns", one_hot('"[]",[],1,0,0'), votes(labels={"1": "a"})),
    # agents
    ("an agent against itself", csv("x,y,tie", "x,x,tie", "y, y,tie"), votes()),
    ("no agent", csv(",y,tie", "x,y,tie"), votes()),
    ("a blank agent", csv("x,y,tie", "x,  ,tie"), votes()),
    ("one agent in all", csv("x,x,tie"), votes()),
    ("no agent in all", csv(",,tie"), votes()),
    ("agents in lists", given(pa.table({"model_a": [["x"]], "model_b": ["y"], "winner": ["tie"]})), votes()),
    ("an unknown agent in agents=", csv("gpt-4,y,tie"), votes(agents=["gpt4", "y"])),
    ("agents= as one string", csv("x,y,tie"), votes(agents="x")),
    ("agents= with one agent", csv("x,y,tie"), votes(agents=["x"])),
    # propensity, weight, time
    ("propensity 0", csv("x,y,tie,0.5", "x,y,tie,0", more="e"), votes(propensity="e")),
    ("propensity 1.5", csv("x,y,tie,1.5", "x,y,tie,0.2", "x,y,tie,2", more="e"), votes(propensity="e")),
    ("propensity NaN", table(e=[0.5, float("nan")]), votes(propensity="e")),
    ("propensity in words", csv("x,y,tie,0.5", "x,y,tie,half", more="e"), votes(propensity="e")),
    ("no propensity", csv("x,y,tie,0.5", "x,y,tie,", more="e"), votes(propensity="e")),
    ("negative weight", csv("x,y,tie,1", "x,y,tie,-1", more="w"), votes(weight="w")),
    ("weight 0", csv("x,y,tie,1", "x,y,tie,0", more="w"), votes(weight="w")),
    ("infinite weight", csv("x,y,tie,1", "x,y,tie,inf", more="w"), votes(weight="w")),
    ("weights in lists", table(w=[[1], [2]]), votes(weight="w")),
    ("time in words", csv("x,y,tie,2025-01-01", "x,y,tie,yesterday", more="t"), votes(time="t")),
    ("voters in structs", table(v=[{"id": 1}, {"id": 2}]), votes(voter="v")),
    # contexts
    ("NaN in a context", table(n=[1.0, float("nan")]), votes(context=["n"])),
    ("infinity in a context", csv("x,y,tie,1", "x,y,tie,-inf", more="n"), votes(context=["n"])),
    ("infinity among categories", table(n=pa.array([1.0, float("inf")]).dictionary_encode()), votes(context=["n"])),
    ("nested context", table(n=[["1"], ["2"]]), votes(context=["n"])),
    (
        "the nested tags as context",
        table(category_tag=[{"math_v0.1": {"math": True}, "if_v0.1": {"if": True, "score": 5}}] * 2),
        votes(context=["category_tag"]),
    ),
    ("binary context", table(n=[b"1", b"2"]), votes(context=["n"])),
    ("a context that is one number", csv("x,y,tie"), votes(context=5)),
    (
        "ids that disagree",
        csv("x,y,tie,1,en", "x,y,tie,2,de", "x,y,tie,1,fr", more="id,lang"),
        votes(context_id="id", context=["lang"]),
    ),
    (
        "ids with different prompts",
        csv("x,y,tie,1,hi", "x,y,tie,1,ho", more="id,prompt"),
        votes(context_id="id", text="prompt"),
    ),
    ("no context id", csv("x,y,tie,1", "x,y,tie,", more="id"), votes(context_id="id")),
    ("context ids in structs", table(id=[{"a": 1}, {"a": 2}]), votes(context_id="id")),
    ("a prompt that is a number", table(p=[1.5, 2.5]), votes(text="p")),
    ("a conversation without roles", table(p=[["hi"], ["ho"]]), votes(text="p")),
    ("a broken JSON prompt", one_hot('"[""hi""]",[],1,0,0', '"[""hi",[],1,0,0', "hi,[],1,0,0"), votes()),
    # joins
    ("a join that is no tuple", csv("x,y,tie,1", more="id"), votes(join="prompts.csv")),
    ("a join with a missing file", csv("x,y,tie,1", more="id"), votes(join=("prompts.csv", "id"))),
    (
        "a key that is there twice",
        beside(file("prompts.csv", "id,lang\n1,en\n2,de\n1,fr\n"), csv("x,y,tie,1", more="id")),
        votes(join=("prompts.csv", "id"), context=["lang"]),
    ),
    (
        "a key that is not there",
        beside(file("prompts.csv", "id,lang\n1,en\n"), csv("x,y,tie,1", "x,y,tie,3", more="id")),
        votes(join=("prompts.csv", "id"), context=["lang"]),
    ),
    (
        "no key column in the log",
        beside(file("prompts.csv", "id,lang\n1,en\n"), csv("x,y,tie")),
        votes(join=("prompts.csv", "id"), context=["lang"]),
    ),
    (
        "no key column in the other table",
        beside(file("prompts.csv", "ids,lang\n1,en\n"), csv("x,y,tie,1", more="id")),
        votes(join=("prompts.csv", "id"), context=["lang"]),
    ),
    (
        "a join that brings nothing",
        beside(file("prompts.csv", "id,lang\n1,en\n"), csv("x,y,tie,1", more="id")),
        votes(join=("prompts.csv", "id")),
    ),
    # columns
    ("no votes at all", file("other.csv", "id,score\n1,2\n"), votes()),
    ("no columns at all", given(pd.DataFrame()), votes()),
    ("a missing column with a near miss", csv("x,y,tie"), votes(winner="winer")),
    ("a missing context", csv("x,y,tie"), votes(context=["language"])),
    ("a missing prompt", csv("x,y,tie"), votes(text="prompt")),
    (
        "two columns of one name in a CSV file",
        file("twins.csv", "model_a,model_b,winner,winner\nx,y,tie,tie\n"),
        votes(),
    ),
    ("two columns of one name in a Parquet file", file("twins.parquet", parquet(TWINS)), votes()),
    ("two columns of one name in a table", given(TWINS), votes()),
    ("a bad on_error", csv("x,y,tie"), votes(on_error="ignore")),
    ("a bad design", csv("x,y,tie"), votes(design="random")),
    ("nothing left", csv("x,y,?", "x,x,tie", "x,y,!"), votes(labels={"?": "drop"}, on_error="skip")),
    ("several kinds of problem", csv("x,x,?", ",y,tie"), votes()),
    # files
    ("empty CSV file", file("votes.csv", ""), votes()),
    ("blank CSV file", file("votes.csv", " \n\n"), votes()),
    ("header only", csv(), votes()),
    ("empty JSONL file", file("votes.jsonl", ""), votes()),
    ("empty JSON list", file("votes.json", "[]"), votes()),
    ("empty Parquet file", file("votes.parquet", ""), votes()),
    ("no rows in a Parquet file", file("votes.parquet", parquet(table()()[:0])), votes()),
    ("a row too short", csv("x,y,tie", "x,y"), votes()),
    ("a row too long", csv("x,y,tie", "x,y,tie,oops"), votes()),
    ("an open quote", file("votes.csv", 'model_a,model_b,winner\nx,"y,tie\n'), votes()),
    ("JSON values that change their type", jsonl(GOOD, '{"model_a": "x", "model_b": "y", "winner": 3}'), votes()),
    ("JSON that lacks a key", jsonl(GOOD, '{"model_a": "x", "winner": "tie"}'), votes()),
    ("JSON with a key twice", jsonl('{"model_a": "x", "model_a": "y", "winner": "tie"}'), votes()),
    ("a JSON line that is a number", jsonl(GOOD, "5"), votes()),
    ("a JSON line that is cut", jsonl(GOOD, '{"model_a": "x", "mod'), votes()),
    ("a JSON line that is broken", jsonl(GOOD, '{"model_a" "x"}'), votes()),
    ("a JSON object over several lines", file("votes.json", '{\n  "model_a": "x"\n}\n'), votes()),
    (
        "JSON by columns",
        file("votes.json", '{"model_a": {"0": "x"}, "model_b": {"0": "y"}, "winner": {"0": "tie"}}'),
        votes(),
    ),
    ("JSON without keys", file("votes.jsonl", "{}"), votes()),
    ("a JSON list that is cut", file("votes.json", f"[{GOOD}, "), votes()),
    ("a JSON list of numbers", file("votes.json", "[1, 2]"), votes()),
    (
        "a JSON list that changes its types",
        file("votes.json", f'[{GOOD}, {{"model_a": "x", "model_b": "y", "winner": 5}}]'),
        votes(),
    ),
    ("JSON in Latin-1", file("votes.jsonl", GOOD.replace("x", "é").encode("latin-1")), votes()),
    ("a Parquet file that is cut", file("votes.parquet", PARQUET[: len(PARQUET) // 2]), votes()),
    ("a picture named .parquet", file("votes.parquet", PNG), votes()),
    ("text named .parquet", file("votes.parquet", "model_a,model_b,winner\nx,y,tie\n"), votes()),
    ("text named .feather", file("votes.feather", "model_a,model_b,winner\nx,y,tie\n"), votes()),
    ("a Parquet file named .csv", file("votes.csv", PARQUET), votes()),
    ("a picture named .csv", file("votes.csv", PNG), votes()),
    ("a picture named .jsonl", file("votes.jsonl", PNG), votes()),
    ("UTF-16", file("votes.csv", "model_a,model_b,winner\nx,y,tie\n".encode("utf-16")), votes()),
    ("an agent in Latin-1", file("votes.csv", "model_a,model_b,winner\nx,y,tie\nx,é,tie\n".encode("latin-1")), votes()),
    (
        "a context in Latin-1",
        file("votes.csv", "model_a,model_b,winner,c\nx,y,tie,é\n".encode("latin-1")),
        votes(context=["c"]),
    ),
    (
        "a cut .gz file",
        file("votes.csv.gz", gzip.compress(b"model_a,model_b,winner\nx,y,tie\n", mtime=0)[:20]),
        votes(),
    ),
    ("no .gz file", file("votes.csv.gz", "model_a,model_b,winner\nx,y,tie\n"), votes()),
    ("a missing file", given("nowhere.csv"), votes()),
    ("a glob that matches nothing", given("nowhere/*.csv"), votes()),
    ("a folder without data", several(file("folder/readme.txt", "hello")), votes()),
    (
        "files with other columns",
        several(
            file("folder/a.csv", "model_a,model_b,winner\nx,y,tie\n"),
            file("folder/b.csv", "model_a,model_b,result\nx,y,tie\n"),
        ),
        votes(),
    ),
    (
        "files with other types",
        several(
            file("folder/a.csv", "model_a,model_b,winner,n\nx,y,tie,1\n"),
            file("folder/b.csv", "model_a,model_b,winner,n\nx,y,tie,one\n"),
        ),
        votes(context=["n"]),
    ),
    ("an unknown ending", file("votes.xlsx", "PK"), votes()),
    ("no ending", file("votes", "model_a"), votes()),
    ("an empty path", given(""), votes()),
    ("a path with a NUL", given("votes\0.csv"), votes()),
    # objects
    ("a dictionary of datasets", splits, votes()),
    ("a streamed dataset", stream, votes()),
    ("a number", given(5), votes()),
    ("nothing", given(None), votes()),
    ("a dictionary of columns", given({"model_a": ["x"]}), votes()),
    ("a lazy frame", given(pl.LazyFrame({"model_a": ["x"]})), votes()),
    ("a list of lists", given([["x", "y", "tie"]]), votes()),
    (
        "a column of mixed objects",
        given(pd.DataFrame({"model_a": ["x", {"a": 1}], "model_b": ["y", "y"], "winner": ["tie", "tie"]})),
        votes(),
    ),
    # rankings
    ("an agent twice on a ballot", long("1,x,1", "1,x,2", "1,y,3"), rankings(ballot="ballot")),
    ("a rank in words", long("1,x,1", "1,y,second"), rankings(ballot="ballot")),
    (
        "a rank that is NaN",
        given(pa.table({"b": [1, 1], "agent": ["x", "y"], "rank": [1.0, float("nan")]})),
        rankings(ballot="b"),
    ),
    ("an infinite rank", long("1,x,1", "1,y,inf"), rankings(ballot="ballot")),
    ("no rank", long("1,x,1", "1,y,"), rankings(ballot="ballot")),
    ("a ballot of one", long("1,x,1", "1,y,2", "2,x,1"), rankings(ballot="ballot")),
    ("no ballot id", long("1,x,1", "1,y,2", ",x,1", ",y,2"), rankings(ballot="ballot")),
    ("no agent on a ballot", long("1,x,1", "1,,2", "1,y,3"), rankings(ballot="ballot")),
    ("a missing rank column", long("1,x,1"), rankings(ballot="ballot", rank="rnk")),
    ("no shape", long("1,x,1"), rankings()),
    (
        "a context that changes on a ballot",
        file("ballots.csv", "ballot,agent,rank,lang\n1,x,1,en\n1,y,2,de\n"),
        rankings(ballot="ballot", context=["lang"]),
    ),
    ("the verdict as context", csv("x,y,tie,en", more="lang"), votes(context=["lang", "winner"])),
    ("an agent as context", csv("x,y,tie,en", more="lang"), votes(context="model_b")),
    ("the ballot's id as context", long("1,x,1", "1,y,2"), rankings(ballot="ballot", context=["ballot"])),
    (
        "a joined table whose key is an agent",
        csv("x,y,tie"),
        votes(context=["maker"], join=(pa.table({"name": ["x", "y"], "maker": ["p", "q"]}), "model_a", "name")),
    ),
    ("one rank in a row", wide("1,2,3", "1,,"), rankings(agents=["a", "b", "c"])),
    ("a word among ranks", wide("1,2,3", "1,best,3"), rankings(agents=["a", "b", "c"])),
    ("one column of ranks", wide("1,2,3"), rankings(agents=["a"])),
    ("one name in a row", wide("p,q,r", "p,,"), rankings(order=["a", "b", "c"])),
    ("a name twice in a row", wide("p,q,r", "p,q,p"), rankings(order=["a", "b", "c"])),
    ("order= as one string", wide("p,q,r"), rankings(order="abc")),
    ("no ballot left", long("1,x,1", "1,y,first"), rankings(ballot="ballot", on_error="skip")),
    # PrefLib
    ("PrefLib without names", file("votes.soc", "3: 1,2\n"), rankings()),
    ("PrefLib's old format", file("votes.soc", "2\n1,x\n2,y\n3,3,1\n3,1,2\n"), rankings()),
    ("PrefLib without ballots", soc(), rankings()),
    ("PrefLib with one alternative", soc("3: 1", names=["x"]), rankings()),
    ("an unknown alternative", soc("3: 1,2", "3: 1,3"), rankings()),
    ("an alternative twice", soc("3: 1,2", "3: 1,{2,1}"), rankings()),
    ("an alternative named twice", soc("# ALTERNATIVE NAME 2: z", "3: 1,2"), rankings()),
    ("two alternatives of one name", soc("3: 1,2", names=["x", "x"]), rankings()),
    ("no voters", soc("0: 1,2"), rankings()),
    ("too many voters on a line", soc("999999999: 1,2"), rankings()),
    ("too many voters in all", soc("40000000: 1,2", "40000000: 2,1"), rankings()),
    ("a count in words", soc("three: 1,2"), rankings()),
    ("a block in a block", soc("3: {1,{2}}"), rankings()),
    ("PrefLib that compares nothing", soc("3: 1", "2: 2"), rankings(unranked="absent")),
    ("a picture named .soc", file("votes.soc", PNG), rankings()),
    ("a missing PrefLib file", given("nowhere.toi"), rankings()),
    ("PrefLib with a context", soc("3: 1,2"), rankings(context=["lang"])),
    ("a bad unranked", soc("3: 1,2"), rankings(unranked="first")),
    # scores
    ("scores of one agent", wide("1,0,1"), scores(agents=["a"])),
    ("scores of a string", wide("1,0,1"), scores(agents="abc")),
    ("a missing score column", wide("1,0,1"), scores(agents=["a", "b", "d"])),
    ("unequal runs", wide("1,0,1"), scores(agents={"x": ["a", "b"], "y": ["c"]})),
    ("runs as a string", wide("1,0,1"), scores(agents={"x": "a", "y": "b"})),
    ("no pairs", wide("1,0,1"), scores(pairs_per_context=0)),
    ("too many pairs", wide("1,0,1"), scores(pairs_per_context=4)),
    ("half a pair", wide("1,0,1"), scores(pairs_per_context=1.5)),
    ("a missing score", wide("1,0,1", "1,,1"), scores()),
    ("missing scores in several columns", wide("1,0,1", "1,,1", ",,1"), scores()),
    ("a score in words", wide("1,0,1", "1,good,1"), scores()),
    ("an infinite score", wide("1,0,1", "1,inf,1"), scores()),
    ("scores in lists", given(pa.table({"a": [[1.0]], "b": [1.0], "c": [1.0]})), scores()),
    ("no score left", wide("1,,1"), scores(on_error="skip")),
]


EXPECTED = dict(
    block.split("\n", 1) for block in Path(__file__).with_name("malformed.txt").read_text()[3:].split("\n== ")
)


@pytest.mark.parametrize(("name", "make", "read"), CASES, ids=[name for name, *_ in CASES])
def test_the_whole_text_of_the_error(name, make, read, here):
    with pytest.raises(NashEvalError) as caught:
        read(make())
    assert str(caught.value) == EXPECTED[name].rstrip("\n")


def test_every_case_is_named_once_and_has_its_text():
    assert len(CASES) >= 60
    assert [name for name, *_ in CASES] == list(EXPECTED)


@pytest.mark.parametrize("name", [name for name, text in EXPECTED.items() if "\n" in text.rstrip("\n")])
def test_a_message_about_data_says_what_is_accepted_and_what_to_do(name):
    found, accepted, todo = EXPECTED[name].rstrip("\n").split("\n")
    assert ": " in found
    assert accepted.startswith("  Accepted: ")
    assert todo.startswith("  To do: ")
