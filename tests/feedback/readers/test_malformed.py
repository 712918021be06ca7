"""Malformed inputs, one a case: how it is made, how it is read, and the whole text of the error, as a user sees it.

A message names the file and the first rows (counted from 1 without the header) and column concerned, says what was found,
what is accepted, and what to do.
"""

# ruff: noqa: E501

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


def answers(*said):
    """A judge that answers this."""
    return lambda rows, first, second: list(said)


# -- the cases ----------------------------------------------------------------------------------------------------------

CASES = [
    # labels
    (
        "unknown label",
        csv("x,y,model_a", "x,y,draw"),
        votes(),
        "votes.csv, column 'winner', row 2: unknown label 'draw'.\n"
        "  Accepted: 'model_a', 'model_b', 'tie', 'both_bad' (also 'a', 'b', 'left', 'right', 'first', 'second', 'tie (bothbad)'), or the name of one of the two agents.\n"
        "  To do: correct the label, or say that it means 'a', 'b', 'tie', 'both_bad' or 'drop' with labels={'draw': ...}, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "no label",
        csv("x,y,model_a", "x,y,"),
        votes(),
        "votes.csv, column 'winner', row 2: there is no label.\n"
        "  Accepted: 'model_a', 'model_b', 'tie', 'both_bad' (also 'a', 'b', 'left', 'right', 'first', 'second', 'tie (bothbad)'), or the name of one of the two agents.\n"
        "  To do: fill in the label, or drop such rows with labels={None: 'drop'}, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "several unknown labels",
        csv("x,y,1", "x,y,2", "x,y,1", "x,y,", "x,y,3", "x,y,4", "x,y,5"),
        votes(),
        "votes.csv, column 'winner', rows 1, 2, 3, 4, 5 and 2 more: unknown label '1' (2x), '2', nothing, '3' and 2 more.\n"
        "  Accepted: 'model_a', 'model_b', 'tie', 'both_bad' (also 'a', 'b', 'left', 'right', 'first', 'second', 'tie (bothbad)'), or the name of one of the two agents.\n"
        "  To do: correct the label, or say that it means 'a', 'b', 'tie', 'both_bad' or 'drop' with labels={'1': ..., '2': ..., '3': ..., '4': ..., '5': ...}, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a label beside those given",
        csv("x,y,1", "x,y,7"),
        votes(labels={1: "a"}),
        "votes.csv, column 'winner', row 2: unknown label '7'.\n"
        "  Accepted: 'model_a', 'model_b', 'tie', 'both_bad' (also 'a', 'b', 'left', 'right', 'first', 'second', 'tie (bothbad)'), or the name of one of the two agents; and those you gave, 1.\n"
        "  To do: correct the label, or say that it means 'a', 'b', 'tie', 'both_bad' or 'drop' with labels={'7': ...}, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "the name of a third agent as label",
        csv("x,y,z", "z,y,tie"),
        votes(),
        "votes.csv, column 'winner', row 1: unknown label 'z'.\n"
        "  Accepted: 'model_a', 'model_b', 'tie', 'both_bad' (also 'a', 'b', 'left', 'right', 'first', 'second', 'tie (bothbad)'), or the name of one of the two agents.\n"
        "  To do: correct the label, or say that it means 'a', 'b', 'tie', 'both_bad' or 'drop' with labels={'z': ...}, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "an agent called like a label",
        csv("x,tie,tie", "x,y,tie"),
        votes(),
        "votes.csv, column 'winner', rows 1, 2: 'tie' is both a label and the name of an agent.\n"
        "  Accepted: labels that are no agent's name.\n"
        "  To do: rename the agent, or say what the label means with labels={'tie': ...}, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a label that means nothing",
        csv("x,y,tie"),
        votes(labels={"tie": "draw"}),
        "labels maps 'tie' to 'draw'; accepted are 'a' (the first agent won), 'b', 'tie', 'both_bad' and 'drop' (leave such rows out).",
    ),
    (
        "labels that are no mapping",
        csv("x,y,tie"),
        votes(labels=["tie"]),
        "labels is ['tie']; accepted is what each label means, such as labels={'draw': 'tie'}.",
    ),
    (
        "one-hot with no winner",
        one_hot('"[]",[],1,0,0', '"[]",[],0,0,0'),
        votes(),
        "55k.csv, row 2: not exactly one of winner_model_a, winner_model_b, winner_tie is 1.\n"
        "  Accepted: 1 in one of the three, 0 in the others.\n"
        "  To do: correct the row, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "one-hot with two winners",
        one_hot('"[]",[],1,0,1'),
        votes(),
        "55k.csv, row 1: not exactly one of winner_model_a, winner_model_b, winner_tie is 1.\n"
        "  Accepted: 1 in one of the three, 0 in the others.\n"
        "  To do: correct the row, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "one-hot with a two",
        one_hot('"[]",[],1,0,0', '"[]",[],2,0,0'),
        votes(),
        "55k.csv, column 'winner_model_a', row 2: found 2, neither 0 nor 1.\n"
        "  Accepted: 0 or 1 in each of winner_model_a, winner_model_b, winner_tie.\n"
        "  To do: correct the value, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "one-hot with a gap",
        one_hot('"[]",[],1,,0'),
        votes(),
        "55k.csv, column 'winner_model_b', row 1: found nothing, neither 0 nor 1.\n"
        "  Accepted: 0 or 1 in each of winner_model_a, winner_model_b, winner_tie.\n"
        "  To do: correct the value, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "labels for one-hot columns",
        one_hot('"[]",[],1,0,0'),
        votes(labels={"1": "a"}),
        "labels= needs one winner column; this file has three, winner_model_a, winner_model_b, winner_tie. Leave it out.",
    ),
    # agents
    (
        "an agent against itself",
        csv("x,y,tie", "x,x,tie", "y, y,tie"),
        votes(),
        "votes.csv, column 'model_b', rows 2, 3: 'x', 'y' is compared with itself.\n"
        "  Accepted: two different agents a row.\n"
        "  To do: correct the name, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "no agent",
        csv(",y,tie", "x,y,tie"),
        votes(),
        "votes.csv, column 'model_a', row 1: there is no agent.\n"
        "  Accepted: the name of an agent in every row.\n"
        "  To do: fill in the name, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a blank agent",
        csv("x,y,tie", "x,  ,tie"),
        votes(),
        "votes.csv, column 'model_b', row 2: there is no agent.\n"
        "  Accepted: the name of an agent in every row.\n"
        "  To do: fill in the name, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "one agent in all",
        csv("x,x,tie"),
        votes(),
        "votes.csv: fewer than two agents are compared ('x').\n"
        "  Accepted: two or more different agents.\n"
        "  To do: check the columns 'model_a' and 'model_b'.",
    ),
    (
        "no agent in all",
        csv(",,tie"),
        votes(),
        "votes.csv: fewer than two agents are compared (none).\n"
        "  Accepted: two or more different agents.\n"
        "  To do: check the columns 'model_a' and 'model_b'.",
    ),
    (
        "agents in lists",
        given(pa.table({"model_a": [["x"]], "model_b": ["y"], "winner": ["tie"]})),
        votes(),
        "the table, column 'model_a': a column of names or ids cannot be of type list<item: string>.\n"
        "  Accepted: text or numbers.\n"
        "  To do: convert the column to text, or name another one.",
    ),
    (
        "an unknown agent in agents=",
        csv("gpt-4,y,tie"),
        votes(agents=["gpt4", "y"]),
        "votes.csv: no vote names the agent 'gpt4' of agents=.\n"
        "  Accepted: its agents, 'gpt-4', 'y'.\n"
        "  To do: did you mean 'gpt-4'? Correct the name, or leave it out of agents=.",
    ),
    (
        "agents= as one string",
        csv("x,y,tie"),
        votes(agents="x"),
        "agents is 'x'; accepted is a list of names, such as agents=['x', 'y'].",
    ),
    (
        "agents= with one agent",
        csv("x,y,tie"),
        votes(agents=["x"]),
        "agents names 'x'; a comparison needs two or more different ones.",
    ),
    # propensity, weight, time
    (
        "propensity 0",
        csv("x,y,tie,0.5", "x,y,tie,0", more="e"),
        votes(propensity="e"),
        "votes.csv, column 'e', row 2: found 0.0 as propensity.\n"
        "  Accepted: a probability above 0 and at most 1.\n"
        "  To do: correct the propensity, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "propensity 1.5",
        csv("x,y,tie,1.5", "x,y,tie,0.2", "x,y,tie,2", more="e"),
        votes(propensity="e"),
        "votes.csv, column 'e', rows 1, 3: found 1.5, 2.0 as propensity.\n"
        "  Accepted: a probability above 0 and at most 1.\n"
        "  To do: correct the propensity, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "propensity NaN",
        table(e=[0.5, float("nan")]),
        votes(propensity="e"),
        "the table, column 'e', row 2: found nan as propensity.\n"
        "  Accepted: a probability above 0 and at most 1.\n"
        "  To do: correct the propensity, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "propensity in words",
        csv("x,y,tie,0.5", "x,y,tie,half", more="e"),
        votes(propensity="e"),
        "votes.csv, column 'e', row 2: found 'half' as propensity.\n"
        "  Accepted: a probability above 0 and at most 1.\n"
        "  To do: correct the propensity, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "no propensity",
        csv("x,y,tie,0.5", "x,y,tie,", more="e"),
        votes(propensity="e"),
        "votes.csv, column 'e', row 2: found nothing as propensity.\n"
        "  Accepted: a probability above 0 and at most 1.\n"
        "  To do: correct the propensity, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "negative weight",
        csv("x,y,tie,1", "x,y,tie,-1", more="w"),
        votes(weight="w"),
        "votes.csv, column 'w', row 2: found -1 as weight.\n"
        "  Accepted: a finite number above 0.\n"
        "  To do: correct the weight, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "weight 0",
        csv("x,y,tie,1", "x,y,tie,0", more="w"),
        votes(weight="w"),
        "votes.csv, column 'w', row 2: found 0 as weight.\n"
        "  Accepted: a finite number above 0.\n"
        "  To do: correct the weight, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "infinite weight",
        csv("x,y,tie,1", "x,y,tie,inf", more="w"),
        votes(weight="w"),
        "votes.csv, column 'w', row 2: found inf as weight.\n"
        "  Accepted: a finite number above 0.\n"
        "  To do: correct the weight, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "weights in lists",
        table(w=[[1], [2]]),
        votes(weight="w"),
        "the table, column 'w', rows 1, 2: found [1], [2] as weight.\n"
        "  Accepted: a finite number above 0.\n"
        "  To do: correct the weight, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "time in words",
        csv("x,y,tie,2025-01-01", "x,y,tie,yesterday", more="t"),
        votes(time="t"),
        "votes.csv, column 't', row 2: found 'yesterday' as time.\n"
        "  Accepted: timestamps, seconds, or text such as 2025-04-17T10:00:00.\n"
        "  To do: correct the time, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "voters in structs",
        table(v=[{"id": 1}, {"id": 2}]),
        votes(voter="v"),
        "the table, column 'v': a column of names or ids cannot be of type struct<id: int64>.\n"
        "  Accepted: text or numbers.\n"
        "  To do: convert the column to text, or name another one.",
    ),
    # contexts
    (
        "NaN in a context",
        table(n=[1.0, float("nan")]),
        votes(context=["n"]),
        "the table, column 'n', row 2: found nan in a numeric context.\n"
        "  Accepted: finite numbers, or nothing where a value is missing.\n"
        "  To do: correct the value, or make it null where it is missing, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "infinity in a context",
        csv("x,y,tie,1", "x,y,tie,-inf", more="n"),
        votes(context=["n"]),
        "votes.csv, column 'n', row 2: found -inf in a numeric context.\n"
        "  Accepted: finite numbers, or nothing where a value is missing.\n"
        "  To do: correct the value, or make it null where it is missing, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "infinity among categories",
        table(n=pa.array([1.0, float("inf")]).dictionary_encode()),
        votes(context=["n"]),
        "the table, column 'n', row 2: found inf in a numeric context.\n"
        "  Accepted: finite numbers, or nothing where a value is missing.\n"
        "  To do: correct the value, or make it null where it is missing, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "nested context",
        table(n=[[1], [2]]),
        votes(context=["n"]),
        "the table, column 'n': a context column cannot be of type list<item: int64>.\n"
        "  Accepted: numbers, booleans, text, categories or dates.\n"
        "  To do: leave the column out of the context, or flatten it into plain columns first.",
    ),
    (
        "the nested tags as context",
        table(category_tag=[{"math_v0.1": {"math": True}, "if_v0.1": {"if": True, "score": 5}}] * 2),
        votes(context=["category_tag"]),
        "the table, column 'category_tag': a context column cannot be of type struct<math_v0.1: struct<math: bool>, if_v0.1: struct<if:....\n"
        "  Accepted: numbers, booleans, text, categories or dates.\n"
        "  To do: leave the column out of the context, or name its leaves instead: 'math', 'if', 'score'.",
    ),
    (
        "binary context",
        table(n=[b"1", b"2"]),
        votes(context=["n"]),
        "the table, column 'n': a context column cannot be of type binary.\n"
        "  Accepted: numbers, booleans, text, categories or dates.\n"
        "  To do: leave the column out of the context, or flatten it into plain columns first.",
    ),
    (
        "a context that is one number",
        csv("x,y,tie"),
        votes(context=5),
        "context is 5; accepted is a list of names, such as context=['x', 'y'].",
    ),
    (
        "ids that disagree",
        csv("x,y,tie,1,en", "x,y,tie,2,de", "x,y,tie,1,fr", more="id,lang"),
        votes(context_id="id", context=["lang"]),
        "votes.csv, column 'lang', row 3: the value differs from that of an earlier row with the same 'id'.\n"
        "  Accepted: one value a context id.\n"
        "  To do: correct the value, leave 'lang' out of the context, or leave out context_id, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "ids with different prompts",
        csv("x,y,tie,1,hi", "x,y,tie,1,ho", more="id,prompt"),
        votes(context_id="id", text="prompt"),
        "votes.csv, column 'prompt', row 2: the value differs from that of an earlier row with the same 'id'.\n"
        "  Accepted: one value a context id.\n"
        "  To do: correct the value, leave 'prompt' out of the context, or leave out context_id, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "no context id",
        csv("x,y,tie,1", "x,y,tie,", more="id"),
        votes(context_id="id"),
        "votes.csv, column 'id', row 2: there is no context id.\n"
        "  Accepted: an id in every row.\n"
        "  To do: fill in the id, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "context ids in structs",
        table(id=[{"a": 1}, {"a": 2}]),
        votes(context_id="id"),
        "the table, column 'id': a column of names or ids cannot be of type struct<a: int64>.\n"
        "  Accepted: text or numbers.\n"
        "  To do: convert the column to text, or name another one.",
    ),
    (
        "a prompt that is a number",
        table(p=[1.5, 2.5]),
        votes(text="p"),
        "the table, column 'p', rows 1, 2: the prompt cannot be read: found 1.5, 2.5.\n"
        "  Accepted: text, or a list of {role, content} messages.\n"
        "  To do: correct the prompt, or leave prompts out with text=None, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a conversation without roles",
        table(p=[["hi"], ["ho"]]),
        votes(text="p"),
        "the table, column 'p', rows 1, 2: the prompt cannot be read: found ['hi'], ['ho'].\n"
        "  Accepted: text, or a list of {role, content} messages.\n"
        "  To do: correct the prompt, or leave prompts out with text=None, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a broken JSON prompt",
        one_hot('"[""hi""]",[],1,0,0', '"[""hi",[],1,0,0', "hi,[],1,0,0"),
        votes(),
        "55k.csv, column 'prompt', rows 2, 3: the prompt cannot be read: found '[\"hi', 'hi'.\n"
        "  Accepted: a JSON list of strings.\n"
        "  To do: correct the prompt, or leave prompts out with text=None, or pass on_error='skip' to leave such rows out.",
    ),
    # joins
    (
        "a join that is no tuple",
        csv("x,y,tie,1", more="id"),
        votes(join="prompts.csv"),
        "join takes (table, key), or (table, key in the log, key in the table); the table may be a path: join=('prompts.parquet', 'prompt_id').",
    ),
    (
        "a join with a missing file",
        csv("x,y,tie,1", more="id"),
        votes(join=("prompts.csv", "id")),
        "prompts.csv: there is no such file.\n"
        "  Accepted: .parquet, .csv, .tsv, .jsonl, .json, .arrow or .feather (the text formats also with .gz); a folder of them, or a glob.\n"
        "  To do: check the path.",
    ),
    (
        "a key that is there twice",
        beside(file("prompts.csv", "id,lang\n1,en\n2,de\n1,fr\n"), csv("x,y,tie,1", more="id")),
        votes(join=("prompts.csv", "id"), context=["lang"]),
        "prompts.csv, column 'id', rows 1, 3: the key '1' stands in 2 rows.\n"
        "  Accepted: each key once.\n"
        "  To do: join on a column that is unique there.",
    ),
    (
        "a key that is not there",
        beside(file("prompts.csv", "id,lang\n1,en\n"), csv("x,y,tie,1", "x,y,tie,3", more="id")),
        votes(join=("prompts.csv", "id"), context=["lang"]),
        "votes.csv, column 'id', row 2: found '3', which is not a key of prompts.csv.\n"
        "  Accepted: keys that stand in its column 'id'.\n"
        "  To do: add the missing rows there, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "no key column in the log",
        beside(file("prompts.csv", "id,lang\n1,en\n"), csv("x,y,tie")),
        votes(join=("prompts.csv", "id"), context=["lang"]),
        "votes.csv: there is no column 'id' for join=.\n"
        "  Accepted: its columns, 'model_a', 'model_b', 'winner'.\n"
        "  To do: pass one of its columns as join=.",
    ),
    (
        "no key column in the other table",
        beside(file("prompts.csv", "ids,lang\n1,en\n"), csv("x,y,tie,1", more="id")),
        votes(join=("prompts.csv", "id"), context=["lang"]),
        "prompts.csv: there is no column 'id' for join=.\n"
        "  Accepted: its columns, 'ids', 'lang'.\n"
        "  To do: did you mean 'ids'? Pass one of its columns as join=.",
    ),
    (
        "a join that brings nothing",
        beside(file("prompts.csv", "id,lang\n1,en\n"), csv("x,y,tie,1", more="id")),
        votes(join=("prompts.csv", "id")),
        "join= brings no column: name those that prompts.csv adds with context= or text= ('lang').",
    ),
    # columns
    (
        "no votes at all",
        file("other.csv", "id,score\n1,2\n"),
        votes(),
        "other.csv: this does not look like a table of votes; its columns: 'id', 'score'.\n"
        "  Accepted: the columns model_a, model_b and winner; left, right and winner; or an LMArena release.\n"
        "  To do: name the columns with model_a=, model_b= and winner=, or use read_rankings or read_scores.",
    ),
    (
        "no columns at all",
        given(pd.DataFrame()),
        votes(),
        "the table: this does not look like a table of votes; its columns: none.\n"
        "  Accepted: the columns model_a, model_b and winner; left, right and winner; or an LMArena release.\n"
        "  To do: name the columns with model_a=, model_b= and winner=, or use read_rankings or read_scores.",
    ),
    (
        "a missing column with a near miss",
        csv("x,y,tie"),
        votes(winner="winer"),
        "votes.csv: there is no column 'winer' for winner=.\n"
        "  Accepted: its columns, 'model_a', 'model_b', 'winner'.\n"
        "  To do: did you mean 'winner'? Pass one of its columns as winner=.",
    ),
    (
        "a missing context",
        csv("x,y,tie"),
        votes(context=["language"]),
        "votes.csv: there is no column 'language' for context=.\n"
        "  Accepted: its columns, 'model_a', 'model_b', 'winner'.\n"
        "  To do: pass one of its columns as context=.",
    ),
    (
        "a missing prompt",
        csv("x,y,tie"),
        votes(text="prompt"),
        "votes.csv: there is no column 'prompt' for text=.\n"
        "  Accepted: its columns, 'model_a', 'model_b', 'winner'.\n"
        "  To do: pass one of its columns as text=.",
    ),
    (
        "two columns of one name in a CSV file",
        file("twins.csv", "model_a,model_b,winner,winner\nx,y,tie,tie\n"),
        votes(),
        "twins.csv: two columns are called 'winner'.\n"
        "  Accepted: a name of its own for each column.\n"
        "  To do: rename one of them.",
    ),
    (
        "two columns of one name in a Parquet file",
        file("twins.parquet", parquet(TWINS)),
        votes(),
        "twins.parquet: two columns are called 'model_a'.\n"
        "  Accepted: a name of its own for each column.\n"
        "  To do: rename one of them.",
    ),
    (
        "two columns of one name in a table",
        given(TWINS),
        votes(),
        "the table: more than one column is named 'model_a'. Rename or drop all but one of them.",
    ),
    (
        "a bad on_error",
        csv("x,y,tie"),
        votes(on_error="ignore"),
        "on_error is 'ignore'; accepted are 'raise' and 'skip'.",
    ),
    (
        "a bad design",
        csv("x,y,tie"),
        votes(design="random"),
        "The design 'random' is unknown; accepted are 'inclusion' and 'draws'.",
    ),
    (
        "nothing left",
        csv("x,y,?", "x,x,tie", "x,y,!"),
        votes(labels={"?": "drop"}, on_error="skip"),
        "votes.csv: no usable row is left: label marked 'drop' (1); 'x' is compared with itself (1); unknown label '!' (1).\n"
        "  Accepted: at least one vote between two agents.\n"
        "  To do: mend the rows, or ask for fewer of them to be left out.",
    ),
    (
        "several kinds of problem",
        csv("x,x,?", ",y,tie"),
        votes(),
        "votes.csv, column 'model_a', row 2: there is no agent.\n"
        "  Accepted: the name of an agent in every row.\n"
        "  To do: fill in the name, or pass on_error='skip' to leave such rows out. 2 other kinds of problem: `nasheval check` lists them all.",
    ),
    # files
    (
        "empty CSV file",
        file("votes.csv", ""),
        votes(),
        "votes.csv: the file is empty.\n"
        "  Accepted: a header line and at least one row.\n"
        "  To do: check that this is the file you meant.",
    ),
    (
        "blank CSV file",
        file("votes.csv", " \n\n"),
        votes(),
        "votes.csv: the file is empty.\n"
        "  Accepted: a header line and at least one row.\n"
        "  To do: check that this is the file you meant.",
    ),
    (
        "header only",
        csv(),
        votes(),
        "votes.csv: there are no rows.\n"
        "  Accepted: a table with at least one row.\n"
        "  To do: check that this is the file or table you meant.",
    ),
    (
        "empty JSONL file",
        file("votes.jsonl", ""),
        votes(),
        "votes.jsonl: the file is empty.\n"
        "  Accepted: one JSON object a line, or a list of them.\n"
        "  To do: check that this is the file you meant.",
    ),
    (
        "empty JSON list",
        file("votes.json", "[]"),
        votes(),
        "votes.json: the list is empty.\n"
        '  Accepted: a list of objects, such as [{"model_a": "x", "model_b": "y", "winner": "tie"}].\n'
        "  To do: check that this is the file you meant.",
    ),
    (
        "empty Parquet file",
        file("votes.parquet", ""),
        votes(),
        "votes.parquet: this is not a readable Parquet file (Parquet file size is 0 bytes).\n"
        "  Accepted: a whole Parquet file.\n"
        "  To do: check that the file is whole and has the right ending.",
    ),
    (
        "no rows in a Parquet file",
        file("votes.parquet", parquet(table()()[:0])),
        votes(),
        "votes.parquet: there are no rows.\n"
        "  Accepted: a table with at least one row.\n"
        "  To do: check that this is the file or table you meant.",
    ),
    (
        "a row too short",
        csv("x,y,tie", "x,y"),
        votes(),
        "votes.csv, row 2: the row does not parse (Expected 3 columns, got 2: x,y).\n"
        "  Accepted: rows with as many values as the header has names.\n"
        "  To do: mend that row, and quote values that hold the delimiter or a quote.",
    ),
    (
        "a row too long",
        csv("x,y,tie", "x,y,tie,oops"),
        votes(),
        "votes.csv, row 2: the row does not parse (Expected 3 columns, got 4: x,y,tie,oops).\n"
        "  Accepted: rows with as many values as the header has names.\n"
        "  To do: mend that row, and quote values that hold the delimiter or a quote.",
    ),
    (
        "an open quote",
        file("votes.csv", 'model_a,model_b,winner\nx,"y,tie\n'),
        votes(),
        'votes.csv, row 1: the row does not parse (Expected 3 columns, got 2: x,"y,tie).\n'
        "  Accepted: rows with as many values as the header has names.\n"
        "  To do: mend that row, and quote values that hold the delimiter or a quote.",
    ),
    (
        "JSON values that change their type",
        jsonl(GOOD, '{"model_a": "x", "model_b": "y", "winner": 3}'),
        votes(),
        "votes.jsonl, column 'winner', row 2: the type changed from string to number.\n"
        '  Accepted: one JSON object a line, such as {"model_a": "x", "model_b": "y", "winner": "tie"}; each key with one type throughout.\n'
        "  To do: mend that line.",
    ),
    (
        "JSON that lacks a key",
        jsonl(GOOD, '{"model_a": "x", "winner": "tie"}'),
        votes(),
        "votes.jsonl, column 'model_b', row 2: there is no agent.\n"
        "  Accepted: the name of an agent in every row.\n"
        "  To do: fill in the name, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "JSON with a key twice",
        jsonl('{"model_a": "x", "model_a": "y", "winner": "tie"}'),
        votes(),
        "votes.jsonl, column 'model_a', row 1: the key stands there twice.\n"
        '  Accepted: one JSON object a line, such as {"model_a": "x", "model_b": "y", "winner": "tie"}; each key with one type throughout.\n'
        "  To do: mend that line.",
    ),
    (
        "a JSON line that is a number",
        jsonl(GOOD, "5"),
        votes(),
        "votes.jsonl, row 2: '5' is not a whole JSON object.\n"
        '  Accepted: one JSON object a line, such as {"model_a": "x", "model_b": "y", "winner": "tie"}; each key with one type throughout.\n'
        "  To do: mend that line: each object stands on one.",
    ),
    (
        "a JSON line that is cut",
        jsonl(GOOD, '{"model_a": "x", "mod'),
        votes(),
        'votes.jsonl, row 2: \'{"model_a": "x", "mod\' is not a whole JSON object.\n'
        '  Accepted: one JSON object a line, such as {"model_a": "x", "model_b": "y", "winner": "tie"}; each key with one type throughout.\n'
        "  To do: mend that line: each object stands on one.",
    ),
    (
        "a JSON line that is broken",
        jsonl(GOOD, '{"model_a" "x"}'),
        votes(),
        "votes.jsonl, row 2: the line does not parse (Missing a colon after a name of object member).\n"
        '  Accepted: one JSON object a line, such as {"model_a": "x", "model_b": "y", "winner": "tie"}; each key with one type throughout.\n'
        "  To do: mend that line.",
    ),
    (
        "a JSON object over several lines",
        file("votes.json", '{\n  "model_a": "x"\n}\n'),
        votes(),
        "votes.json, row 1: '{' is not a whole JSON object.\n"
        '  Accepted: one JSON object a line, such as {"model_a": "x", "model_b": "y", "winner": "tie"}; each key with one type throughout.\n'
        "  To do: mend that line: each object stands on one.",
    ),
    (
        "JSON by columns",
        file("votes.json", '{"model_a": {"0": "x"}, "model_b": {"0": "y"}, "winner": {"0": "tie"}}'),
        votes(),
        "votes.json: this is a table stored column by column.\n"
        "  Accepted: one JSON object a row.\n"
        "  To do: write it by rows, as with to_json(..., orient='records', lines=True) in pandas.",
    ),
    (
        "JSON without keys",
        file("votes.jsonl", "{}"),
        votes(),
        "votes.jsonl: this does not look like a table of votes; its columns: none.\n"
        "  Accepted: the columns model_a, model_b and winner; left, right and winner; or an LMArena release.\n"
        "  To do: name the columns with model_a=, model_b= and winner=, or use read_rankings or read_scores.",
    ),
    (
        "a JSON list that is cut",
        file("votes.json", f"[{GOOD}, "),
        votes(),
        "votes.json: the JSON does not parse (Expecting value: line 1 column 53 (char 52)).\n"
        '  Accepted: a list of objects, such as [{"model_a": "x", "model_b": "y", "winner": "tie"}].\n'
        "  To do: check that the file is whole.",
    ),
    (
        "a JSON list of numbers",
        file("votes.json", "[1, 2]"),
        votes(),
        "votes.json, row 1: a record of type int.\n"
        '  Accepted: a list of objects, such as [{"model_a": "x", "model_b": "y", "winner": "tie"}]; each key with one type throughout.\n'
        "  To do: mend that object.",
    ),
    (
        "a JSON list that changes its types",
        file("votes.json", f'[{GOOD}, {{"model_a": "x", "model_b": "y", "winner": 5}}]'),
        votes(),
        "votes.json, column 'winner', row 2: values that have no common type (Expected bytes, got a 'int' object).\n"
        '  Accepted: a list of objects, such as [{"model_a": "x", "model_b": "y", "winner": "tie"}]; each key with one type throughout.\n'
        "  To do: mend that object.",
    ),
    (
        "JSON in Latin-1",
        file("votes.jsonl", GOOD.replace("x", "é").encode("latin-1")),
        votes(),
        "votes.jsonl: this text is not in UTF-8.\n  Accepted: text in UTF-8.\n  To do: save the file as UTF-8.",
    ),
    (
        "a Parquet file that is cut",
        file("votes.parquet", PARQUET[: len(PARQUET) // 2]),
        votes(),
        "votes.parquet: this is not a readable Parquet file (Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file).\n"
        "  Accepted: a whole Parquet file.\n"
        "  To do: check that the file is whole and has the right ending.",
    ),
    (
        "a picture named .parquet",
        file("votes.parquet", PNG),
        votes(),
        "votes.parquet: this is not a readable Parquet file (Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file).\n"
        "  Accepted: a whole Parquet file.\n"
        "  To do: check that the file is whole and has the right ending.",
    ),
    (
        "text named .parquet",
        file("votes.parquet", "model_a,model_b,winner\nx,y,tie\n"),
        votes(),
        "votes.parquet: this is not a readable Parquet file (Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file).\n"
        "  Accepted: a whole Parquet file.\n"
        "  To do: check that the file is whole and has the right ending.",
    ),
    (
        "text named .feather",
        file("votes.feather", "model_a,model_b,winner\nx,y,tie\n"),
        votes(),
        "votes.feather: this is not a readable Arrow file (Not a Feather V1 or Arrow IPC file).\n"
        "  Accepted: a whole Arrow file.\n"
        "  To do: check that the file is whole and has the right ending.",
    ),
    (
        "a Parquet file named .csv",
        file("votes.csv", PARQUET),
        votes(),
        "votes.csv: this is a binary file, not text.\n"
        "  Accepted: text in UTF-8.\n"
        "  To do: give the file its true ending, or save it as UTF-8.",
    ),
    (
        "a picture named .csv",
        file("votes.csv", PNG),
        votes(),
        "votes.csv: this is a binary file, not text.\n"
        "  Accepted: text in UTF-8.\n"
        "  To do: give the file its true ending, or save it as UTF-8.",
    ),
    (
        "a picture named .jsonl",
        file("votes.jsonl", PNG),
        votes(),
        "votes.jsonl: this is a binary file, not text.\n"
        "  Accepted: text in UTF-8.\n"
        "  To do: give the file its true ending, or save it as UTF-8.",
    ),
    (
        "UTF-16",
        file("votes.csv", "model_a,model_b,winner\nx,y,tie\n".encode("utf-16")),
        votes(),
        "votes.csv: this text is in UTF-16.\n"
        "  Accepted: text in UTF-8.\n"
        "  To do: save the file as UTF-8 (a spreadsheet calls it 'CSV UTF-8').",
    ),
    (
        "an agent in Latin-1",
        file("votes.csv", "model_a,model_b,winner\nx,y,tie\nx,é,tie\n".encode("latin-1")),
        votes(),
        "votes.csv, column 'model_b', row 2: this text is not in UTF-8.\n"
        "  Accepted: text in UTF-8.\n"
        "  To do: save the file as UTF-8 (a spreadsheet calls it 'CSV UTF-8').",
    ),
    (
        "a context in Latin-1",
        file("votes.csv", "model_a,model_b,winner,c\nx,y,tie,é\n".encode("latin-1")),
        votes(context=["c"]),
        "votes.csv, column 'c': some of this text is not in UTF-8.\n"
        "  Accepted: text in UTF-8.\n"
        "  To do: save the file as UTF-8 (a spreadsheet calls it 'CSV UTF-8').",
    ),
    (
        "a cut .gz file",
        file("votes.csv.gz", gzip.compress(b"model_a,model_b,winner\nx,y,tie\n", mtime=0)[:20]),
        votes(),
        "votes.csv.gz: the file cannot be read (Truncated compressed stream).\n"
        "  Accepted: a whole file of the kind that its ending says.\n"
        "  To do: check that the file is whole, may be read, and has the right ending.",
    ),
    (
        "no .gz file",
        file("votes.csv.gz", "model_a,model_b,winner\nx,y,tie\n"),
        votes(),
        "votes.csv.gz: the file cannot be read (zlib inflate failed: incorrect header check).\n"
        "  Accepted: a whole file of the kind that its ending says.\n"
        "  To do: check that the file is whole, may be read, and has the right ending.",
    ),
    (
        "a missing file",
        given("nowhere.csv"),
        votes(),
        "nowhere.csv: there is no such file.\n"
        "  Accepted: .parquet, .csv, .tsv, .jsonl, .json, .arrow or .feather (the text formats also with .gz); a folder of them, or a glob.\n"
        "  To do: check the path.",
    ),
    (
        "a glob that matches nothing",
        given("nowhere/*.csv"),
        votes(),
        "nowhere/*.csv: there is no such file.\n"
        "  Accepted: .parquet, .csv, .tsv, .jsonl, .json, .arrow or .feather (the text formats also with .gz); a folder of them, or a glob.\n"
        "  To do: check the path.",
    ),
    (
        "a folder without data",
        several(file("folder/readme.txt", "hello")),
        votes(),
        "folder: no file in this folder can be read.\n"
        "  Accepted: .parquet, .csv, .tsv, .jsonl, .json, .arrow or .feather (the text formats also with .gz); a folder of them, or a glob.\n"
        "  To do: check the path.",
    ),
    (
        "files with other columns",
        several(
            file("folder/a.csv", "model_a,model_b,winner\nx,y,tie\n"),
            file("folder/b.csv", "model_a,model_b,result\nx,y,tie\n"),
        ),
        votes(),
        "folder/b.csv: its columns differ from those of folder/a.csv (column 'result' is in only one of them).\n"
        "  Accepted: files with the same columns.\n"
        "  To do: read the files one by one and join the logs with Feedback.concat.",
    ),
    (
        "files with other types",
        several(
            file("folder/a.csv", "model_a,model_b,winner,n\nx,y,tie,1\n"),
            file("folder/b.csv", "model_a,model_b,winner,n\nx,y,tie,one\n"),
        ),
        votes(context=["n"]),
        "folder: the files do not fit together (Unable to merge: Field n has incompatible types: int64 vs string).\n"
        "  Accepted: one type a column in all files.\n"
        "  To do: give the column the same type in every file.",
    ),
    (
        "an unknown ending",
        file("votes.xlsx", "PK"),
        votes(),
        "votes.xlsx: a file that ends in '.xlsx' cannot be read.\n"
        "  Accepted: .parquet, .csv, .tsv, .jsonl, .json, .arrow or .feather (the text formats also with .gz).\n"
        "  To do: rename or convert the file, or load it yourself and pass the table.",
    ),
    (
        "no ending",
        file("votes", "model_a"),
        votes(),
        "votes: a file without an ending cannot be read.\n"
        "  Accepted: .parquet, .csv, .tsv, .jsonl, .json, .arrow or .feather (the text formats also with .gz).\n"
        "  To do: rename or convert the file, or load it yourself and pass the table.",
    ),
    (
        "an empty path",
        given(""),
        votes(),
        "'': the path is empty.\n  Accepted: the path of a file or folder.\n  To do: check the path.",
    ),
    (
        "a path with a NUL",
        given("votes\0.csv"),
        votes(),
        "'votes\\x00.csv': a path cannot hold a NUL character.\n"
        "  Accepted: the path of a file or folder.\n"
        "  To do: check the path.",
    ),
    # objects
    (
        "a dictionary of datasets",
        splits,
        votes(),
        "This is a dictionary of datasets with 'train', 'test'; pass one of them, such as data['train'].",
    ),
    (
        "a streamed dataset",
        stream,
        votes(),
        "This dataset is a stream, which has no length; load it without streaming=True, or collect it into a table.",
    ),
    (
        "a number",
        given(5),
        votes(),
        "the table: int. Accepted: a path, a Hugging Face dataset, a pyarrow Table, a pandas or polars DataFrame, a list of dict records, or an (n, d) array of numbers.",
    ),
    (
        "nothing",
        given(None),
        votes(),
        "the table: NoneType. Accepted: a path, a Hugging Face dataset, a pyarrow Table, a pandas or polars DataFrame, a list of dict records, or an (n, d) array of numbers.",
    ),
    (
        "a dictionary of columns",
        given({"model_a": ["x"]}),
        votes(),
        "the table: a single mapping. Accepted: a path, a Hugging Face dataset, a pyarrow Table, a pandas or polars DataFrame, a list of dict records, or an (n, d) array of numbers. Put one record in a list: [record].",
    ),
    (
        "a lazy frame",
        given(pl.LazyFrame({"model_a": ["x"]})),
        votes(),
        "the table: LazyFrame. Accepted: a path, a Hugging Face dataset, a pyarrow Table, a pandas or polars DataFrame, a list of dict records, or an (n, d) array of numbers. Call collect() first.",
    ),
    (
        "a list of lists",
        given([["x", "y", "tie"]]),
        votes(),
        "the table, row 1: a record of type list.\n"
        "  Accepted: a pyarrow Table, a pandas or polars DataFrame, a list of dict records, or an (n, d) array of numbers.\n"
        "  To do: convert it first.",
    ),
    (
        "a column of mixed objects",
        given(pd.DataFrame({"model_a": ["x", {"a": 1}], "model_b": ["y", "y"], "winner": ["tie", "tie"]})),
        votes(),
        "the table, column 'model_a': values that have no common type (Expected bytes, got a 'dict' object).\n"
        "  Accepted: numbers, booleans or strings, one kind a column, null where missing.\n"
        "  To do: convert it first.",
    ),
    # rankings
    (
        "an agent twice on a ballot",
        long("1,x,1", "1,x,2", "1,y,3"),
        rankings(ballot="ballot"),
        "ballots.csv, column 'agent', rows 1, 2: 'x' (2x) stands more than once on a ballot.\n"
        "  Accepted: each agent once a ballot.\n"
        "  To do: correct the rows, or name all columns that tell ballots apart, as in ballot=['id', 'trait'], or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a rank in words",
        long("1,x,1", "1,y,second"),
        rankings(ballot="ballot"),
        "ballots.csv, column 'rank', row 2: found 'second' as rank.\n"
        "  Accepted: a number, 1 is best, equal numbers tie.\n"
        "  To do: correct the rank, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a rank that is NaN",
        given(pa.table({"b": [1, 1], "agent": ["x", "y"], "rank": [1.0, float("nan")]})),
        rankings(ballot="b"),
        "the table, column 'rank', row 2: found nan as rank.\n"
        "  Accepted: a number, 1 is best, equal numbers tie.\n"
        "  To do: correct the rank, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "an infinite rank",
        long("1,x,1", "1,y,inf"),
        rankings(ballot="ballot"),
        "ballots.csv, column 'rank', row 2: found inf as rank.\n"
        "  Accepted: a number, 1 is best, equal numbers tie.\n"
        "  To do: correct the rank, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "no rank",
        long("1,x,1", "1,y,"),
        rankings(ballot="ballot"),
        "ballots.csv, column 'rank', row 2: found nothing as rank.\n"
        "  Accepted: a number, 1 is best, equal numbers tie.\n"
        "  To do: correct the rank, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a ballot of one",
        long("1,x,1", "1,y,2", "2,x,1"),
        rankings(ballot="ballot"),
        "ballots.csv, column 'ballot', row 3: the ballot ranks a single agent.\n"
        "  Accepted: two or more agents a ballot.\n"
        "  To do: add the others, or check that ballot= names the columns that tell ballots apart, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "no ballot id",
        long("1,x,1", "1,y,2", ",x,1", ",y,2"),
        rankings(ballot="ballot"),
        "ballots.csv, column 'ballot', rows 3, 4: there is no ballot id.\n"
        "  Accepted: an id in every row.\n"
        "  To do: fill in the id, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "no agent on a ballot",
        long("1,x,1", "1,,2", "1,y,3"),
        rankings(ballot="ballot"),
        "ballots.csv, column 'agent', row 2: there is no agent.\n"
        "  Accepted: the name of an agent in every row.\n"
        "  To do: fill in the name, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a missing rank column",
        long("1,x,1"),
        rankings(ballot="ballot", rank="rnk"),
        "ballots.csv: there is no column 'rnk' for rank=.\n"
        "  Accepted: its columns, 'ballot', 'agent', 'rank'.\n"
        "  To do: did you mean 'rank'? Pass one of its columns as rank=.",
    ),
    (
        "no shape",
        long("1,x,1"),
        rankings(),
        "Say how the ballots are stored, in one way: ballot='id', agent='item', rank='rank' for a long table; agents=[...] for a column of ranks an agent; order=[...] for columns that hold the names in order.",
    ),
    (
        "a context that changes on a ballot",
        file("ballots.csv", "ballot,agent,rank,lang\n1,x,1,en\n1,y,2,de\n"),
        rankings(ballot="ballot", context=["lang"]),
        "ballots.csv, column 'lang', row 2: the value differs from that in the first row of the same ballot.\n"
        "  Accepted: one value a ballot.\n"
        "  To do: correct the value, or leave 'lang' out, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "the verdict as context",
        csv("x,y,tie,en", more="lang"),
        votes(context=["lang", "winner"]),
        "votes.csv, column 'winner': it cannot be context, because it is the verdict itself: a model that sees it would predict nothing new.\n"
        "  Accepted: columns whose values are known before anybody votes.\n"
        "  To do: leave 'winner' out of context=.",
    ),
    (
        "an agent as context",
        csv("x,y,tie,en", more="lang"),
        votes(context="model_b"),
        "votes.csv, column 'model_b': it cannot be context, because it says who was compared: that is how menus were selected, which propensities describe, not a context.\n"
        "  Accepted: columns whose values are known before anybody votes.\n"
        "  To do: leave 'model_b' out of context=.",
    ),
    (
        "the ballot's id as context",
        long("1,x,1", "1,y,2"),
        rankings(ballot="ballot", context=["ballot"]),
        "ballots.csv, column 'ballot': it cannot be context, because it is another one on every ballot: a model that sees it would learn nothing of the next.\n"
        "  Accepted: columns whose values are known before anybody votes.\n"
        "  To do: leave 'ballot' out of context=.",
    ),
    (
        "a joined table whose key is an agent",
        csv("x,y,tie"),
        votes(context=["maker"], join=(pa.table({"name": ["x", "y"], "maker": ["p", "q"]}), "model_a", "name")),
        "votes.csv, column 'model_a': it cannot be the key of a join, because it says who was compared: that is how menus were selected, which propensities describe, not a context.\n"
        "  Accepted: columns whose values are known before anybody votes.\n"
        "  To do: name another column as join=.",
    ),
    (
        "one rank in a row",
        wide("1,2,3", "1,,"),
        rankings(agents=["a", "b", "c"]),
        "scores.csv, row 2: the ballot ranks fewer than two of 'a', 'b', 'c'.\n"
        "  Accepted: two or more ranks a row.\n"
        "  To do: fill in the ranks, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a word among ranks",
        wide("1,2,3", "1,best,3"),
        rankings(agents=["a", "b", "c"]),
        "scores.csv, column 'b', row 2: found 'best' as rank.\n"
        "  Accepted: a number, 1 is best, equal numbers tie, or nothing where the agent was not on the ballot.\n"
        "  To do: correct the rank, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "one column of ranks",
        wide("1,2,3"),
        rankings(agents=["a"]),
        "agents names the column 'a' alone; a ranking needs two or more different ones.",
    ),
    (
        "one name in a row",
        wide("p,q,r", "p,,"),
        rankings(order=["a", "b", "c"]),
        "scores.csv, row 2: fewer than two agents stand in 'a', 'b', 'c'.\n"
        "  Accepted: two or more names a row.\n"
        "  To do: fill in the names, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a name twice in a row",
        wide("p,q,r", "p,q,p"),
        rankings(order=["a", "b", "c"]),
        "scores.csv, row 2: 'p' stands more than once in 'a', 'b', 'c'.\n"
        "  Accepted: each agent once a row.\n"
        "  To do: correct the names, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "order= as one string",
        wide("p,q,r"),
        rankings(order="abc"),
        "order is 'abc'; accepted is a list of names, such as order=['x', 'y'].",
    ),
    (
        "no ballot left",
        long("1,x,1", "1,y,first"),
        rankings(ballot="ballot", on_error="skip"),
        "ballots.csv: no usable ballot is left: found 'first' as rank (1).\n"
        "  Accepted: at least one ballot of two agents.\n"
        "  To do: mend the rows, or ask for fewer of them to be left out.",
    ),
    # PrefLib
    (
        "PrefLib without names",
        file("votes.soc", "3: 1,2\n"),
        rankings(),
        "votes.soc: there are no '# ALTERNATIVE NAME' lines before the ballots.\n"
        "  Accepted: PrefLib's present format: '# ALTERNATIVE NAME 1: ...' lines, then '12: 1,{2,3}' lines.\n"
        "  To do: download the file anew from preflib.org.",
    ),
    (
        "PrefLib's old format",
        file("votes.soc", "2\n1,x\n2,y\n3,3,1\n3,1,2\n"),
        rankings(),
        "votes.soc: there are no '# ALTERNATIVE NAME' lines before the ballots.\n"
        "  Accepted: PrefLib's present format: '# ALTERNATIVE NAME 1: ...' lines, then '12: 1,{2,3}' lines.\n"
        "  To do: download the file anew from preflib.org.",
    ),
    (
        "PrefLib without ballots",
        soc(),
        rankings(),
        "votes.soc: there are no ballots.\n"
        "  Accepted: PrefLib's present format: '# ALTERNATIVE NAME 1: ...' lines, then '12: 1,{2,3}' lines.\n"
        "  To do: check that the file is whole.",
    ),
    (
        "PrefLib with one alternative",
        soc("3: 1", names=["x"]),
        rankings(),
        "votes.soc: there is one alternative alone.\n"
        "  Accepted: PrefLib's present format: '# ALTERNATIVE NAME 1: ...' lines, then '12: 1,{2,3}' lines.\n"
        "  To do: check that the file is whole.",
    ),
    (
        "an unknown alternative",
        soc("3: 1,2", "3: 1,3"),
        rankings(),
        "votes.soc, line 4: alternative 3 has no name in the header.\n"
        "  Accepted: lines such as '12: 1,{2,3},4': a count, then each alternative at most once, best first.\n"
        "  To do: mend that line, or download the file again.",
    ),
    (
        "an alternative twice",
        soc("3: 1,2", "3: 1,{2,1}"),
        rankings(),
        "votes.soc, line 4: an alternative stands twice on the ballot.\n"
        "  Accepted: lines such as '12: 1,{2,3},4': a count, then each alternative at most once, best first.\n"
        "  To do: mend that line, or download the file again.",
    ),
    (
        "an alternative named twice",
        soc("# ALTERNATIVE NAME 2: z", "3: 1,2"),
        rankings(),
        "votes.soc, line 3: alternative 2 is named twice.\n"
        "  Accepted: lines such as '12: 1,{2,3},4': a count, then each alternative at most once, best first.\n"
        "  To do: mend that line, or download the file again.",
    ),
    (
        "two alternatives of one name",
        soc("3: 1,2", names=["x", "x"]),
        rankings(),
        "votes.soc: two alternatives are called 'x'.\n"
        "  Accepted: a name of its own for each alternative.\n"
        "  To do: rename one of them.",
    ),
    (
        "no voters",
        soc("0: 1,2"),
        rankings(),
        "votes.soc, line 3: 0 voters cast this ballot; 1 to 50,000,000 can.\n"
        "  Accepted: lines such as '12: 1,{2,3},4': a count, then each alternative at most once, best first.\n"
        "  To do: mend that line, or download the file again.",
    ),
    (
        "too many voters on a line",
        soc("999999999: 1,2"),
        rankings(),
        "votes.soc, line 3: 999,999,999 voters cast this ballot; 1 to 50,000,000 can.\n"
        "  Accepted: lines such as '12: 1,{2,3},4': a count, then each alternative at most once, best first.\n"
        "  To do: mend that line, or download the file again.",
    ),
    (
        "too many voters in all",
        soc("40000000: 1,2", "40000000: 2,1"),
        rankings(),
        "votes.soc: 80,000,000 voters are too many.\n"
        "  Accepted: up to 50,000,000.\n"
        "  To do: check the counts before the colons.",
    ),
    (
        "a count in words",
        soc("three: 1,2"),
        rankings(),
        "votes.soc, line 3: 'three: 1,2' is no ballot.\n"
        "  Accepted: lines such as '12: 1,{2,3},4': a count, then each alternative at most once, best first.\n"
        "  To do: mend that line, or download the file again.",
    ),
    (
        "a block in a block",
        soc("3: {1,{2}}"),
        rankings(),
        "votes.soc, line 3: '3: {1,{2}}' is no ballot.\n"
        "  Accepted: lines such as '12: 1,{2,3},4': a count, then each alternative at most once, best first.\n"
        "  To do: mend that line, or download the file again.",
    ),
    (
        "PrefLib that compares nothing",
        soc("3: 1", "2: 2"),
        rankings(unranked="absent"),
        "votes.soc: no ballot compares two alternatives.\n"
        "  Accepted: ballots with two or more alternatives.\n"
        "  To do: read it with unranked='last', which puts those left out behind.",
    ),
    (
        "a picture named .soc",
        file("votes.soc", PNG),
        rankings(),
        "votes.soc: this is not a text file in UTF-8 ('utf-8' codec can't decode byte 0x89 in position 0: invalid start byte).\n"
        "  Accepted: a PrefLib file.\n"
        "  To do: check that the file is whole and has the right ending.",
    ),
    (
        "a missing PrefLib file",
        given("nowhere.toi"),
        rankings(),
        "nowhere.toi: there is no such file.\n  Accepted: a .soc, .soi, .toc, .toi file.\n  To do: check the path.",
    ),
    (
        "PrefLib with a context",
        soc("3: 1,2"),
        rankings(context=["lang"]),
        "A PrefLib file has no columns, so context= cannot be used with it; leave it out.",
    ),
    (
        "a bad unranked",
        soc("3: 1,2"),
        rankings(unranked="first"),
        "unranked is 'first'; accepted are 'last' and 'absent'.",
    ),
    # scores
    (
        "scores of one agent",
        wide("1,0,1"),
        scores(agents=["a"]),
        "agents names 'a'; a comparison needs two or more different ones.",
    ),
    (
        "scores of a string",
        wide("1,0,1"),
        scores(agents="abc"),
        "agents is 'abc'; accepted is a list of names, such as agents=['x', 'y'].",
    ),
    (
        "a missing score column",
        wide("1,0,1"),
        scores(agents=["a", "b", "d"]),
        "scores.csv: there is no column 'd' for agents=.\n"
        "  Accepted: its columns, 'a', 'b', 'c'.\n"
        "  To do: pass one of its columns as agents=.",
    ),
    (
        "unequal runs",
        wide("1,0,1"),
        scores(agents={"x": ["a", "b"], "y": ["c"]}),
        "agents gives 1 to 2 runs an agent; accepted is the same number for all, one or more: run r is compared with run r.",
    ),
    (
        "runs as a string",
        wide("1,0,1"),
        scores(agents={"x": "a", "y": "b"}),
        "agents['x'] is 'a'; accepted is a list of names, such as agents['x']=['x', 'y'].",
    ),
    (
        "no pairs",
        wide("1,0,1"),
        scores(pairs_per_context=0),
        "pairs_per_context is 0; accepted are whole numbers from 1 to 3, the number of pairs of 3 agents.",
    ),
    (
        "too many pairs",
        wide("1,0,1"),
        scores(pairs_per_context=4),
        "pairs_per_context is 4; accepted are whole numbers from 1 to 3, the number of pairs of 3 agents.",
    ),
    (
        "half a pair",
        wide("1,0,1"),
        scores(pairs_per_context=1.5),
        "pairs_per_context is 1.5; accepted are whole numbers from 1 to 3, the number of pairs of 3 agents.",
    ),
    (
        "pairs for rankings",
        wide("1,0,1"),
        scores(pairs_per_context=1, form="rankings"),
        "pairs_per_context applies to form='duels'; leave it out for rankings.",
    ),
    (
        "a missing score",
        wide("1,0,1", "1,,1"),
        scores(),
        "scores.csv, column 'b', row 2: no score: found nothing.\n"
        "  Accepted: a finite number, higher is better; or true and false.\n"
        "  To do: fill in the score, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "missing scores in several columns",
        wide("1,0,1", "1,,1", ",,1"),
        scores(),
        "scores.csv, rows 2, 3: no score in some of 2 columns, most often in 'b': found nothing (2x).\n"
        "  Accepted: a finite number, higher is better; or true and false.\n"
        "  To do: fill in the score, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "a score in words",
        wide("1,0,1", "1,good,1"),
        scores(),
        "scores.csv, column 'b', row 2: no score: found 'good'.\n"
        "  Accepted: a finite number, higher is better; or true and false.\n"
        "  To do: fill in the score, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "an infinite score",
        wide("1,0,1", "1,inf,1"),
        scores(),
        "scores.csv, column 'b', row 2: no score: found inf.\n"
        "  Accepted: a finite number, higher is better; or true and false.\n"
        "  To do: fill in the score, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "scores in lists",
        given(pa.table({"a": [[1.0]], "b": [1.0], "c": [1.0]})),
        scores(),
        "the table, column 'a', row 1: no score: found [1.0].\n"
        "  Accepted: a finite number, higher is better; or true and false.\n"
        "  To do: fill in the score, or pass on_error='skip' to leave such rows out.",
    ),
    (
        "no score left",
        wide("1,,1"),
        scores(on_error="skip"),
        "scores.csv: no usable row is left: no score: found nothing (1).\n"
        "  Accepted: at least one row with a score for every agent.\n"
        "  To do: mend the rows, or ask for fewer of them to be left out.",
    ),
    (
        "a bad form",
        wide("1,0,1"),
        scores(form="triples"),
        "form is 'triples'; accepted are 'duels' and 'rankings'.",
    ),
    (
        "a negative tolerance",
        wide("1,0,1"),
        scores(tolerance=-1),
        "tolerance is -1; accepted is a finite number of 0 or more.",
    ),
    (
        "a tolerance that is NaN",
        wide("1,0,1"),
        scores(tolerance=float("nan")),
        "tolerance is nan; accepted is a finite number of 0 or more.",
    ),
    (
        "a bad fail",
        wide("1,0,1"),
        scores(fail="never"),
        "fail is 'never'; accepted is a finite number, or None.",
    ),
    (
        "a judge that is no function",
        wide("1,0,1"),
        scores(judge="gpt-4"),
        "judge is 'gpt-4'; accepted is a function judge(rows, first, second), or None.",
    ),
    (
        "a judge for rankings",
        wide("1,0,1"),
        scores(judge=answers(1), form="rankings"),
        "judge= applies to form='duels'; leave it out for rankings.",
    ),
    (
        "a judge that answers too little",
        wide("1,1,1"),
        scores(judge=answers(1)),
        "The judge gave 1 answers to 3 pairs; accepted is one number from -1 to 1 a pair: 1 (the first is better), -1 (the second is), 0 (neither), or the mean of several such verdicts.",
    ),
    (
        "a judge that answers in words",
        wide("1,0,1"),
        scores(judge=answers("a")),
        "The judge answered ['a']; accepted is one number from -1 to 1 a pair: 1 (the first is better), -1 (the second is), 0 (neither), or the mean of several such verdicts.",
    ),
    (
        "a judge that answers 2",
        wide("1,0,1"),
        scores(judge=answers(2)),
        "The judge answered 2.0 for 'a' against 'c' in row 1; accepted is one number from -1 to 1 a pair: 1 (the first is better), -1 (the second is), 0 (neither), or the mean of several such verdicts.",
    ),
    (
        "a judge that answers NaN",
        wide("1,0,1"),
        scores(judge=answers(float("nan"))),
        "The judge answered nan for 'a' against 'c' in row 1; accepted is one number from -1 to 1 a pair: 1 (the first is better), -1 (the second is), 0 (neither), or the mean of several such verdicts.",
    ),
    (
        "a judge that answers nothing",
        wide("1,0,1"),
        scores(judge=lambda rows, first, second: None),
        "The judge answered None; accepted is one number from -1 to 1 a pair: 1 (the first is better), -1 (the second is), 0 (neither), or the mean of several such verdicts.",
    ),
]


@pytest.mark.parametrize(("make", "read", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_whole_text_of_the_error(make, read, text, here):
    with pytest.raises(NashEvalError) as caught:
        read(make())
    assert str(caught.value) == text


def test_there_are_enough_cases_and_each_is_named_once():
    assert len(CASES) >= 60
    assert len({case[0] for case in CASES}) == len(CASES)


ABOUT_DATA = {name: text for name, *_, text in CASES if "\n" in text}


@pytest.mark.parametrize("text", ABOUT_DATA.values(), ids=ABOUT_DATA)
def test_a_message_about_data_says_what_is_accepted_and_what_to_do(text):
    found, accepted, todo = text.split("\n")
    assert ": " in found
    assert accepted.startswith("  Accepted: ")
    assert todo.startswith("  To do: ")
