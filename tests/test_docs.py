"""What README and docs show is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nasheval.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda page: page.name
)
def test_python_blocks_run(page, capsys):
    for block in blocks(page.read_text(), "python"):
        exec(compile(block, page.name, "exec"), {})


def test_the_readme_prints_what_its_comments_say(capsys):
    exec(compile(blocks(README, "python")[0], "README.md", "exec"), {})
    said = capsys.readouterr().out
    promised = re.search(r"print\(log\)\s+# (.*)", README)[1]
    assert promised in said
    assert "(3, 5, 5)" in said


def test_every_option_in_the_readme_exists():
    helps = CliRunner().invoke(app, ["check", "--help"], env={"COLUMNS": "400", "NO_COLOR": "1"}).output
    commands = [line for block in blocks(README, "sh") for line in block.replace("\\\n", " ").splitlines()]
    used = [word for line in commands if "nasheval check" in line for word in shlex.split(line, comments=True)]
    options = {word for word in used if word.startswith("--")}
    assert options
    assert {option for option in options if option not in helps} == set()


def test_make_targets_that_the_readme_names_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"^make (\w+)", "\n".join(blocks(README, "sh")), re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_links_inside_the_project_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(((?!https?:)[^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"
