"""Options: shared by commands, from a TOML file, completed by the shell, explained by --help."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import nasheval
from nasheval.cli import app
from nasheval.cli.learning import Learning
from nasheval.cli.reading import Reading
from nasheval.errors import InputError

COMMANDS = typer.main.get_command(app).commands
VOTES = "model_a,model_b,winner,language,n\na,b,1,en,1\nb,c,2,en,2\nc,a,3,pl,3\na,b,1,pl,4\n"


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "votes.csv").write_text(VOTES)


def run(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "160", "NO_COLOR": "1"})


def checked(*words):
    """Return what check understood."""
    result = run("check", "votes.csv", "--format", "json", *words)
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


@pytest.mark.parametrize("command", ["check", "fit", "evaluate", "report"])
def test_commands_that_read_a_log_take_the_same_options(command):
    taken = {option.name for option in COMMANDS[command].params}
    assert {field.name for field in fields(Reading)} <= taken


def test_no_option_means_two_things_to_fit():
    assert not {field.name for field in fields(Reading)} & {field.name for field in fields(Learning)}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "datasets"])
def test_help_shows_an_example_and_every_option_is_explained(command):
    said = run(command, "--help").stdout
    assert "Example" in said
    assert f"nasheval {command} " in said
    assert all(getattr(option, "help", None) for option in COMMANDS[command].params)


def documented():
    """Yield the words of every command line of ours in README and docs."""
    root = Path(__file__).parents[1]
    for page in sorted([root / "README.md", *(root / "docs").rglob("*.md")]):
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["nasheval"] and words[1] in COMMANDS:
                    yield pytest.param(words[1:], id=f"{page.name}: {' '.join(words)[:60]}")


@pytest.mark.parametrize("words", list(documented()))
def test_what_the_docs_say_is_understood(words):
    taken = {name for option in COMMANDS[words[0]].params for name in option.opts}
    assert [word for word in words if word.startswith("-") and word not in taken] == [] or words[0] == "datasets"


def test_rows_are_chosen_by_a_column():
    labels = ["--labels", "1=a,2=b,3=tie"]

    def used(where):
        return checked(*labels, "--context", "n", "--where", where)["read"]

    assert used("language=en")["used"] == 2
    assert used("language=en|pl")["used"] == 4
    assert used("language!=en")["used"] == 2
    assert used("n=3|4")["used"] == 2  # a column of numbers, which stays one
    assert used("language=pl")["source"] == "votes.csv where language=pl"
    for where, said in {
        "lang=en": "no column 'lang'",
        "language": "accepted is column=value",
        "n=9": "no rows",
    }.items():
        assert said in str(run("check", "votes.csv", "--where", where).exception)


def test_a_file_gives_options_and_flags_win(tmp_path):
    (tmp_path / "o.toml").write_text(
        'context = ["language", "n"]\ncategorical = ["n"]\nlabels = {1 = "a", 2 = "b", 3 = "tie"}\nmin-votes = 2\n'
    )
    said = checked("--config", "o.toml")
    assert said["read"]["roles"]["context"] == "language, n"
    assert said["read"]["labels"]["3"] == {"meaning": "tie", "rows": 1}
    assert said["coverage"]["agents"] == ["a", "b", "c"]
    assert checked("--config", "o.toml", "--context", "n")["read"]["roles"]["context"] == "n"
    assert checked("--labels", "1=b,2=a,3=drop", "--config", "o.toml")["read"]["labels"]["3"]["meaning"] == "drop"


def test_one_file_serves_several_commands(tmp_path):
    (tmp_path / "o.toml").write_text('folds = 3\nby = "language"\nlabels = "1=a,2=b,3=tie"\non_error = "skip"\n')
    assert checked("--config", "o.toml")["read"]["used"] == 4  # folds and by are for others


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('contxt = "language"', "there is no option 'contxt'; did you mean 'context'?"),
        ("zzz = 1", "there is no option 'zzz', see nasheval fit --help."),
        ("context = [", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file_is_told(tmp_path, text, said):
    (tmp_path / "o.toml").write_text(text)
    error = run("check", "votes.csv", "--config", "o.toml").exception
    assert isinstance(error, InputError)
    assert said in str(error)


def test_a_missing_file_and_a_wrong_value_are_told(tmp_path):
    assert "nowhere.toml" in str(run("check", "votes.csv", "--config", "nowhere.toml").exception)
    (tmp_path / "o.toml").write_text('kind = "vote"')
    result = run("check", "votes.csv", "--config", "o.toml")
    assert result.exit_code == 2
    assert "'vote' is not one of" in " ".join(result.stderr.split())


def test_lists_stay_lists_where_an_option_is_given_often():
    from nasheval.cli.options import _flat, _parts

    assert _parts({"language": "de", "n": 3}) == ["language=de", "n=3"]
    assert _parts("language=de") == ["language=de"]
    assert _flat(["a", "b"]) == "a,b"
    assert _flat({"a": 1.5}) == "a=1.5"
    assert _flat(3) == 3


def test_every_argument_that_a_message_names_is_a_flag():
    flags = {flag for command in COMMANDS.values() for option in command.params for flag in option.opts}
    source = "".join(file.read_text() for file in Path(nasheval.__file__).parent.rglob("*.py"))
    named = set(re.findall(r'Argument\("(\w+)"', source)) - set(re.findall(r'Argument\("(\w+)"[^()]*flag=', source))
    assert named >= {"on_error", "labels", "overwrite", "unseen"}
    assert {f"--{name.replace('_', '-')}" for name in named} <= flags
    assert set(re.findall(r'flag=f?"(--[\w-]+)', source)) <= flags


def test_rows_without_a_label_are_dropped_as_the_error_says():
    Path("votes.csv").write_text("model_a,model_b,winner\na,b,model_a\nb,a,\n")
    assert "or drop such rows with --labels '=drop'" in " ".join(run("check", "votes.csv").stdout.split())
    assert checked("--labels", "=drop")["read"]["used"] == 1


def completed(words):
    env = {**os.environ, "_NASHEVAL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "1"}
    code = "import sys; sys.argv[0] = 'nasheval'; from nasheval.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env).stdout


def test_the_shell_completes_commands():
    assert completed("nasheval lead").split() == ["leaderboard"]


def test_help_imports_nothing_heavy():
    heavy = ("torch", "lightgbm", "pandas", "polars", "pyarrow", "scipy", "sklearn", "numpy", "numba")
    code = f"import sys, nasheval.cli; print([m for m in {heavy!r} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
