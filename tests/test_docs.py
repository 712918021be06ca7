"""What README and docs show is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nasheval
from nasheval.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = sorted((ROOT / "docs").glob("**/*.md"))


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what a page writes stays there
    names = {}  # a page's blocks follow one another
    for block in blocks(page.read_text(), "python"):
        exec(compile(block, page.name, "exec", dont_inherit=True), names)


def test_the_readme_prints_what_its_comments_say(capsys):
    exec(compile(blocks(README, "python")[0], "README.md", "exec"), {})
    said = capsys.readouterr().out
    promised = re.search(r"print\(log\)\s+# (.*)", README)[1]
    assert promised in said
    assert re.search(r"ours beats bt by|not told apart|bt beats ours by", said)


def test_every_option_in_readme_and_docs_exists():
    shown = "\n".join([README, *(page.read_text() for page in PAGES)])
    lines = [line for block in blocks(shown, "sh") for line in block.replace("\\\n", " ").splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("nasheval ")]
    assert {words[1] for words in commands} >= {"check", "fit", "leaderboard", "predict", "route", "evaluate", "report"}
    for name in {words[1] for words in commands} - {"datasets"}:
        helps = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "400", "NO_COLOR": "1"}).output
        used = {word for words in commands if words[1] == name for word in words if word.startswith("-")}
        assert {option for option in used if option not in helps and not option.startswith("-1")} == set()


def test_make_targets_that_the_readme_names_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"^make (\w+)", "\n".join(blocks(README, "sh")), re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_links_inside_the_project_lead_somewhere():
    for page in [ROOT / "README.md", *PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(((?!https?:)[^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_every_public_name_is_in_the_reference():
    shown = re.findall(r"^::: (\S+)", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    names = {path.rpartition(".")[2] for path in shown}
    assert {*nasheval.__all__, *nasheval.baselines.__all__} - {"baselines"} <= names  # each baseline by itself


def test_the_results_page_is_what_the_kept_results_say():
    from studies.publish import page

    assert (ROOT / "docs/results.md").read_text() == page()
