"""Broken files of evaluation tools, one per case; broken_formats.txt holds the whole text of each error."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

import nasheval as ne
from nasheval.errors import NashEvalError

from . import test_formats as files
from .test_formats import lines, table, write


def changed(rows, row, **values):
    """The rows with other values in one of them; a value in a nested place as outer__inner."""
    rows = copy.deepcopy(rows)
    for path, value in values.items():
        *outer, last = path.split("__")
        place = rows[row]
        for step in outer:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = value
    return rows


def jsonl(rows, row=0, **values):
    return {"log.jsonl": lines(changed(rows, row, **values))}


def array(rows, row=0, **values):
    return {"log.json": json.dumps(changed(rows, row, **values))}


def csv(rows, row=0, **values):
    return {"log.csv": table(changed(rows, row, **values))}


QUESTIONS = [{"question_id": "q1", "cluster": "c", "turns": [{"content": "Why?"}]}]
OLD = [{"question_id": "q2", "model": "x", "judge": "j", "games": [{"score": "A>B"}, {"score": "A>B"}]}]

CASES = {
    "arena-hard: an unknown score": (jsonl(files.HARD, 1, games__0__score="A>C"), {}),
    "arena-hard: games that are no list": (jsonl([files.HARD[0]], games="A>B"), {}),
    "arena-hard: games without a score": (jsonl([files.HARD[0]], games=[{"winner": "A"}, {"winner": "B"}]), {}),
    "arena-hard: a third game": (jsonl(files.HARD, games=[{"score": "A>B"}] * 3), {}),
    "arena-hard: no model": (jsonl(files.HARD, model=None), {}),
    "arena-hard: the baseline against itself": (jsonl(files.HARD, model="o"), {}),
    "arena-hard: no verdict at all": (jsonl([files.HARD[0]], games=[None, None]), {}),
    "arena-hard: no question id": (jsonl(files.HARD, uid=None), {}),
    "arena-hard: a line that is cut": ({"log.jsonl": lines(files.HARD)[:-9]}, {}),
    "arena-hard: a question that is not there": (
        {"folder/question.jsonl": lines(QUESTIONS), "folder/judgment/x.jsonl": lines(OLD)}, {}),
    "arena-hard: a question twice": (
        {"folder/question.jsonl": lines(QUESTIONS * 2), "folder/judgment/x.jsonl": lines(OLD)}, {}),
    "AlpacaEval: a preference above 2": (array(files.ALPACA, 1, preference=2.5), {}),
    "AlpacaEval: a preference in words": (array([files.ALPACA[0]], preference="the first"), {}),
    "AlpacaEval: no generator": (array(files.ALPACA, 2, generator_2=None), {}),
    "AlpacaEval: an empty list": ({"log.json": "[]"}, {}),
    "MT-bench: an unknown winner": (jsonl(files.PAIRS, 1, g2_winner="model_3"), {}),
    "MT-bench: a model against itself": (jsonl(files.PAIRS, model_2="x"), {}),
    "MT-bench: pairs and grades in one folder": (
        {"folder/pair.jsonl": lines(files.PAIRS), "folder/single.jsonl": lines(files.GRADES)}, {}),
    "MT-bench: no grade was parsed": (jsonl([{**row, "score": -1} for row in files.GRADES]), {}),
    "MT-bench: one model": (jsonl(files.GRADES[:1]), {}),
    "WildBench: an unknown choice": (array(files.WILD, parsed_result__choice="C"), {}),
    "WildBench: no assignment": (array(files.WILD, 1, assignment__B=None), {}),
    "WildBench v2: an extent above 2": (array(files.WILD_2, extent=3), {}),
    "JudgeArena: a preference above 1": (csv(files.PREFS, 2, pref=1.2), {}),
    "JudgeArena: a preference in words": (csv(files.PREFS, 1, pref="high"), {}),
    "FastChat: an unknown vote": (jsonl(files.CHATS, 1, type="middlevote"), {}),
    "FastChat: models and states that differ": (
        jsonl(files.CHATS, 1, models=["### Model A: x", "### Model B: z"]), {}),
    "FastChat: no names of models": (jsonl(files.CHATS, 1, states=[{}, {}]), {}),
    "FastChat: a time in words": (jsonl(files.CHATS, 3, tstamp="noon"), {}),
    "FastChat: chats alone": (jsonl(files.CHATS, 0, states=[{}])
                              | {"log.jsonl": lines([{"tstamp": 1.0, "type": "chat", "states": None}] * 2)}, {}),
    "P2L: labels of equal places": (array(files.P2L, labels=[1, 1, 0]), {}),
    "P2L: an unknown tie": (array(files.P2L, labels=[0, 1, 3]), {}),
    "P2L: a place of another model": (array(files.P2L, 2, labels=[9, 0, 0]), {}),
    "P2L: two labels": (array(files.P2L, 2, labels=[3, 0]), {}),
    "P2L: four labels": (array(files.P2L, 2, labels=[3, 0, 0, 0]), {}),
    "P2L: no labels": (array(files.P2L, 1, labels=None), {}),
    "P2L: labels that are no lists": (array([files.P2L[0]], labels=1), {}),
    "P2L: a weight below zero": (array(files.P2L, weight=-1.0), {}),
    "Open WebUI: an unknown rating": (array(files.WEBUI, data__rating=5), {}),
    "Open WebUI: no model": (array(files.WEBUI, 1, data__model_id=None), {}),
    "Open WebUI: ratings of single answers": (array(files.WEBUI[2:]), {}),
    "Open WebUI: an item that is no object": ({"log.json": json.dumps([*files.WEBUI, 5])}, {}),
    "TTS-Arena: no winner": (csv(files.TTS, model_chosen=""), {}),
    "TTS-Arena: a date in words": (csv(files.TTS, 1, vote_date="noon"), {}),
    "MTEB arena: an unknown vote": (jsonl(files.MTEB, type="upvoted"), {}),
    "compar:IA: a third model chosen": (csv(files.COMPAR, chosen_model_name="z"), {}),
    "Label Studio: no names of models": (
        array([files.STUDIO[0]], data={"prompt": "Why?", "text_left": "a", "text_right": "b"}), {}),
    "Label Studio: an unknown side": (array(files.STUDIO, annotations__0__result__0__value__selected="middle"), {}),
    "Label Studio: a ranking of one": (array(files.RANKER, annotations__0__result__0__value__ranker={"_": ["3"]}), {}),
    "Argilla: an unknown answer": (jsonl(files.ARGILLA, **{"better.responses": ["best", "best"]}), {}),
    "Argilla: no such question": (jsonl(files.ARGILLA), {"score": "clearer"}),
    "LangSmith: ids of runs alone": (
        jsonl([{"key": "k", "scores": {f"r{i}": 1, f"s{i}": 0}} for i in range(3)]), {}),
    "WMT: a rank in words": (csv(files.WMT, 1, system2rank="last"), {}),
    "WMT: two ranks of one system": (csv(files.WMT, 1, system1rank=3), {}),
    "lm-evaluation-harness: no such score": (
        {"runs/x/samples_m.jsonl": lines(files.harness(1.0)), "runs/y/samples_m.jsonl": lines(files.harness(0.0))},
        {"score": "acc"}),
    "lm-evaluation-harness: one model": ({"runs/x/samples_m.jsonl": lines(files.harness(1.0))}, {}),
    "Inspect: no such score": (csv(files.INSPECT), {"score": "fluency"}),
    "HELM: a statistic without a mean": ({"runs/m:model=x/per_instance_stats.json": json.dumps(files.helm(None))}, {}),
    "OpenAI evals: no score": ({"log.jsonl": lines(files.EVALS[:2])}, {}),
    "a file of an unknown make": (
        csv([{"llm_1": "x", "llm_2": "y", "preferred": "2", "question": "Why is it so?"},
             {"llm_1": "y", "llm_2": "x", "preferred": "1", "question": "How is it so?"}]), {}),
    "ranks of an unknown make": (
        csv([{"sys_a": "x", "sys_b": "y", "rank_of_a": 1, "rank_of_b": 2},
             {"sys_a": "y", "sys_b": "x", "rank_of_a": 1, "rank_of_b": 1}]), {}),
    "an unknown kind": (csv(files.WMT), {"kind": "wmt"}),
    "one rank of two": (csv(files.TTS), {"rank_a": "user_id"}),
}  # fmt: skip

TEXTS = Path(__file__).with_name("broken_formats.txt")
EXPECTED = dict(block.split("\n", 1) for block in TEXTS.read_text()[3:].split("\n== "))


@pytest.mark.parametrize("name", CASES)
def test_the_whole_text_of_the_error(name, here):
    made, options = CASES[name]
    with pytest.raises(NashEvalError) as caught:
        ne.read(write(here, made), **options)
    assert str(caught.value) == EXPECTED[name].rstrip("\n")


def test_every_case_has_its_text():
    assert list(CASES) == list(EXPECTED)
