"""The command line, as people and machines use it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from nasheval.cli import app

GOOD = "model_a,model_b,winner,language\na,b,model_a,en\nb,c,model_b,en\nc,a,tie,pl\na,b,both_bad,pl\n"


@pytest.fixture
def votes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "votes.csv").write_text(GOOD)
    return tmp_path / "votes.csv"


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "120", "NO_COLOR": "1"})


def shell(*words):
    return subprocess.run([sys.executable, "-m", "nasheval", *words], capture_output=True, text=True, check=False)


def test_check_tells_what_was_understood(votes):
    result = run("check", "votes.csv", "--context", "language")
    assert result.exit_code == 0
    for words in ("4 of 4 rows used", "the first agent won", "both bad", "language=en", "a > b", "a = b (both bad)"):
        assert words in result.output


def test_check_json_is_for_machines(votes):
    result = run("check", "votes.csv", "--context", "language", "--format", "json")
    said = json.loads(result.output)
    assert said["usable"] is True
    assert said["read"]["labels"]["both_bad"] == {"meaning": "both_bad", "rows": 1}
    assert said["coverage"]["pairs_seen"] == 3
    assert said["coverage"]["agents"] == ["a", "b", "c"]


def test_the_verdict_is_refused_as_context(votes):
    result = shell("check", "votes.csv", "--context", "language,winner")
    assert result.returncode == 1
    said = " ".join(result.stderr.split())
    assert "column 'winner': it cannot be context, because it is the verdict itself" in said
    assert "To do: leave 'winner' out of --context." in said


def test_bad_rows_give_status_one_and_every_problem(votes):
    votes.write_text(GOOD + "a,b,modela,en\na,a,tie,en\n")
    result = run("check", "votes.csv")
    assert result.exit_code == 1
    assert "rows 5" in result.output.replace("row 5", "rows 5")
    assert "unknown label 'modela'" in result.output
    assert "'a' is compared with itself" in result.output
    assert "--labels 'modela=a'" in result.output
    assert "pass --on-error skip to leave such rows out" in result.output
    assert "This log cannot be used as it is" in result.output


def test_bad_rows_can_be_skipped(votes):
    votes.write_text(GOOD + "a,b,modela,en\n")
    result = run("check", "votes.csv", "--on-error", "skip")
    assert result.exit_code == 0
    assert "4 of 5 rows used" in result.output


def test_an_error_is_a_message_not_a_traceback(votes):
    result = shell("check", "vote.csv")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("error: vote.csv: there is no such file.")


def test_debug_shows_the_traceback(votes):
    assert "Traceback" in shell("check", "vote.csv", "--debug").stderr


def test_argument_names_are_translated_to_options(votes):
    votes.write_text("first,second,won\na,b,first\n")
    said = " ".join(shell("check", "votes.csv").stderr.split())
    assert "name the columns with --model-a, --model-b and --winner" in said


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--labels", "tie", "--labels holds 'tie'; accepted is label=meaning, such as 1=a,2=b,3=tie,-1=drop."),
        ("--join", "prompts.csv", "--join is 'prompts.csv'; accepted is FILE:key, or FILE:key_here=key_there."),
        ("--kind", "scores", "Scores need --agents: the score columns, with commas, such as --agents gpt-4,claude-v2."),
    ],
)
def test_malformed_options(votes, option, value, said):
    assert str(run("check", "votes.csv", option, value).exception) == said


def test_votes_with_labels_join_and_context_id(votes, tmp_path):
    votes.write_text("m1,m2,score,q\na,b,1,q1\nb,a,2,q1\na,b,3,q2\na,b,-1,q3\n")
    (tmp_path / "prompts.csv").write_text("id,lang,text\nq1,en,hello\nq2,pl,witaj\nq3,pl,czemu\n")
    words = "--model-a m1 --model-b m2 --winner score --labels 1=a,2=b,3=tie,-1=drop --join prompts.csv:q=id"
    result = run("check", "votes.csv", *words.split(), "--context", "lang", "--text", "text", "--context-id", "q")
    assert result.exit_code == 0, result.output
    assert "3 records at 2 contexts" in result.output
    assert "left out: 1 row (label '-1', which is no verdict)" in result.output


def test_a_typo_among_numbers_and_the_way_out(votes):
    votes.write_text("model_a,model_b,winner,n\n" + "".join(f"a,b,tie,{i}\n" for i in [*range(19), "12x"]))
    result = run("check", "votes.csv", "--context", "n")
    assert result.exit_code == 1
    assert "column 'n', row 20: found '12x' in a column of numbers." in result.output
    assert "name the column in --categorical if it holds categories" in " ".join(result.output.split())
    result = run("check", "votes.csv", "--context", "n", "--categorical", "n")
    assert result.exit_code == 0
    assert "20 records at 20 contexts" in result.output


def test_rankings_and_scores(votes):
    votes.write_text("id,item,rank\n1,a,1\n1,b,2\n1,c,2\n2,b,1\n2,a,2\n")
    assert "a > b = c" in run("check", "votes.csv", "--ballot", "id", "--agent", "item", "--rank", "rank").output
    votes.write_text("q,a,b\nx,1,0\ny,0,0\n")
    assert "a > b" in run("check", "votes.csv", "--kind", "scores", "--agents", "a,b", "--text", "q").output


def test_preflib_is_recognised_by_its_ending(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.soc").write_text("# ALTERNATIVE NAME 1: x\n# ALTERNATIVE NAME 2: y\n2: 2,1\n")
    assert "y > x" in run("check", "e.soc").output


def test_datasets_list_and_path():
    assert "highway: 20,480 comparisons" in run("datasets", "list").output
    assert "chat: 27,456 verdicts" in run("datasets", "list").output
    assert run("datasets", "path", "highway").output.strip().endswith("highway_votes.parquet")
    assert "There is no data set 'mars'" in str(run("datasets", "path", "mars").exception)


def test_the_chat_log_goes_by_its_name():
    result = run("check", "chat")
    assert result.exit_code == 0
    assert "27,456 records at 953 contexts, 6 agents" in result.output


def test_the_demo_commands_words_work():
    path = run("datasets", "path", "highway").output.strip()
    result = run("check", path, "--context-id", "configuration", "--voter", "judge", "--propensity", "propensity")
    assert result.exit_code == 0
    assert "20,480 records at 256 contexts, 5 agents" in result.output
    assert "Pooled over all contexts: fast beats every other agent." in result.output


def test_version():
    assert run("--version").output.startswith("nasheval 0.1")


def test_pipes_carry_no_escape_codes(votes):
    assert "\x1b" not in shell("check", "votes.csv").stdout
