"""Fields of other tools' files: outcomes are no context, and messages name the fields that a file has."""

from __future__ import annotations

import pytest

import nasheval as ne
from nasheval.cli.fitting import _unused_columns
from nasheval.cli.reading import Reading
from nasheval.errors import Argument, ReadError
from nasheval.feedback.readers.any_log import FORMATS, open_log
from nasheval.feedback.readers.own_fields import OWN_FIELDS

from . import test_formats as files
from .test_any_log import run
from .test_formats import CASES, lines, table, write

OUTCOMES = {
    "NashEval votes": ["vote.blocks", "vote.zero", "vote.menu"],
    "arena-hard judgments": ["games", "games.score", "model", "baseline"],
    "AlpacaEval annotations": ["preference", "grade", "generator_1", "raw_completion"],
    "MT-bench pairs": ["g1_winner", "g2_winner", "winner", "model_1"],
    "MT-bench grades": ["score", "scores", "scores.x", "model"],
    "WildBench pairs": ["winner", "parsed_result.choice", "assignment.A", "generator"],
    "WildBench v2 pairs": ["winner", "extent", "model_A"],
    "JudgeArena battles": ["winner", "pref", "grade"],
    "FastChat log": ["type"],
    "P2L comparisons": ["labels"],
    "Open WebUI feedback": ["rating", "data.rating"],
    "TTS-Arena votes": ["model_chosen", "model_rejected"],
    "MTEB arena log": ["type", "0_model_name"],
    "compar:IA votes": ["chosen_model_name", "both_equal", "conv_useful_a", "model_pair_name"],
    "Label Studio pairs": ["selected"],
    "Label Studio rankings": ["rank", "agent"],
    "Argilla records": ["answer", "better.responses", "better.suggestion.score"],
    "LangSmith comparative feedback": ["scores", "scores.x"],
    "WMT rankings": ["system1rank", "system2rank", "rank", "system1Id"],
    "Every Eval Ever samples": ["evaluation.score", "score", "model_id"],
    "lm-evaluation-harness samples": ["scores"],
    "Inspect samples_df": ["score_match", "model"],
    "HELM per-instance stats": ["stats", "scores.x"],
    "OpenAI evals log": ["scores.x"],
}


def test_every_format_names_its_fields():
    assert {one.name for one in FORMATS} == set(OWN_FIELDS) == set(OUTCOMES)


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_no_context(name, here):
    path = write(here, CASES[name][0])
    for column in OUTCOMES[name]:
        with pytest.raises(ReadError, match=rf"column '{column}': it cannot be context, because it (is|says)"):
            ne.read(path, context=[column])


@pytest.mark.parametrize("name", CASES)
def test_what_a_format_takes_for_context_is_no_outcome(name, here):
    own, log = OWN_FIELDS[name], open_log(write(here, CASES[name][0]), options={})
    used = [log.options.get(role) for role in ("text", "context_id", "voter", "time")] + [*log.options["context"]]
    assert not any(own.is_outcome(column) or own.is_compared(column) for column in used if column)
    assert ne.read(log.source.files[0].parts[0]).n_records


@pytest.mark.parametrize("kind", ["TTS-Arena votes", "compar:IA votes", "JudgeArena battles", "MT-bench pairs"])
def test_what_fit_suggests_as_context_can_be_read(kind, here):
    """A column of its own, `place`, is suggested, and no outcome is."""
    [name] = CASES[kind][0]
    made = {"TTS-Arena votes": files.TTS, "compar:IA votes": files.COMPAR[:2], "JudgeArena battles": files.PREFS[:2],
            "MT-bench pairs": files.PAIRS}  # fmt: skip
    rows = [row | {"place": "north" if i % 2 else "south"} for i, row in enumerate(made[kind] * 8)]
    (here / name).write_text(table(rows) if name.endswith(".csv") else lines(rows))
    names = _unused_columns(ne.read(name), Reading().source(name))
    assert "place" in names
    assert not {*OUTCOMES[kind]} & {*names}
    for column in names:
        assert column in ne.read(name, context=[column], text=None).contexts.column_names


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (lines([{**row, "model": None} for row in files.HARD[:1]] + files.HARD[1:]), "'model or baseline', row 1"),
        (lines([files.PAIRS[0], {**files.PAIRS[1], "g2_winner": "model_3"}]), "'g1_winner or g2_winner', row 2"),
    ],
)
def test_messages_name_the_fields_of_the_file(made, fields, here):
    (here / "log.jsonl").write_text(made)
    with pytest.raises(ReadError, match=f"column {fields}"):
        ne.read("log.jsonl")


def test_where_nobody_is_compared_the_fields_are_named(here):
    (here / "log.jsonl").write_text(lines([row | {"states": [{}, {}], "models": ["", ""]} for row in files.CHATS[1:]]))
    with pytest.raises(ReadError, match=r"check the columns 'models\[0\] or states\[0\]\.model_name' and 'models\[1\]"):
        ne.read("log.jsonl")


def test_labels_that_are_no_verdicts_are_counted_by_name(here):
    rows = [{**files.MTEB[0], "type": kind} for kind in ("leftvote", "share", "share", "flag")]
    rows.append({**files.MTEB[0], "type": "rightvote"})
    log = ne.read(write(here, {"m.jsonl": lines(rows)}))
    assert log.report.dropped == {"labels 'share', 'flag', which are no verdicts": 3}
    judged = [*files.PAIRS, files.PAIRS[0] | {"g2_winner": None, "turn": 2}]
    log = ne.read(write(here, {"p.jsonl": lines(judged)}))
    assert log.report.dropped == {"label 'error', which is no verdict": 1, "no verdict": 1}


def test_the_command_line_refuses_outcomes_too(here):
    (here / "v.csv").write_text(table(files.TTS))
    result = run("check", "v.csv", "--context", "model_rejected")
    assert "leave 'model_rejected' out of --context" in result.exception.message(Argument.as_flag)
