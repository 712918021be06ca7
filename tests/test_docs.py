"""What README and docs show is run."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nasheval
from nasheval.cli import app

from .pages import WIDTH, alike, commands, run

ROOT = Path(__file__).parents[1]
README, INDEX = ((ROOT / name).read_text() for name in ("README.md", "docs/index.md"))
PAGES = sorted((ROOT / "docs").glob("**/*.md"))
WORDS = 450  # of the README


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_code_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    if page.name == "index.md":
        pytest.skip("its code is the README's")
    monkeypatch.chdir(tmp_path)  # what a page writes stays there
    for name, value in (WIDTH | {"MPLBACKEND": "agg"}).items():
        monkeypatch.setenv(name, value)
    for block in run(page.read_text(), page.name):
        assert block.shown is None or alike(block.shown, block.printed), f"{block.code}\nprints\n{block.printed}"


def test_outputs_are_alike_up_to_rounding():
    assert alike("┏━━┓ a 1.00, 2,000", "┏━━━┓ a  1.01, 2,001")
    assert not alike("a 1.00", "b 1.00")
    assert not alike("a 1.00", "a 1.20")


def test_the_readme_is_short():
    prose = re.sub(r"^```.*?^```|!\[.*?\]\(.*?\)", "", README, flags=re.DOTALL | re.MULTILINE)
    assert len(re.sub(r"\]\(.*?\)", "]", prose).split()) <= WORDS


def test_figures_of_the_readme_stand_in_the_results():
    shown = {name: (ROOT / "docs" / name).read_text() for name in ("results.md", "benchmarks.md")}
    results, benchmarks = (
        ("0.16 to 0.28", "0.063", "0.103", "0.117", "0.033", "0.013", "0.053"),
        ("0.954", "0.937", "0.983", "0.917"),
    )
    assert [one for one in results if one not in shown["results.md"] or one not in README] == []
    assert [one for one in benchmarks if one not in shown["benchmarks.md"] or one not in README] == []


def test_the_first_page_shows_what_the_readme_shows():
    for language in ("python", "text"):
        assert blocks(INDEX, language) == blocks(README, language)
    assert "figures/report.png" in INDEX
    assert "figures/report.png" in README


def test_every_option_in_readme_and_docs_exists():
    shown = "\n".join([README, *(page.read_text() for page in PAGES)])
    shown_commands = [words for block in blocks(shown, "sh") for words in commands(block)]
    names = {words[1] for words in shown_commands}
    assert names >= {"check", "fit", "leaderboard", "predict", "route", "evaluate", "report", "export"}
    for name in names - {"datasets"}:
        helps = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "400", "NO_COLOR": "1"}).output
        used = {word for words in shown_commands if words[1] == name for word in words if word.startswith("-")}
        assert {option for option in used if option not in helps and not option.startswith("-1")} == set()


def test_make_targets_that_the_readme_names_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"^make (\w+)", "\n".join(blocks(README, "sh")), re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_links_inside_the_project_lead_somewhere():
    for page in [ROOT / "README.md", *PAGES, ROOT / "CONTRIBUTING.md"]:
        for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
            place = page.parent / target if target else page
            assert place.exists(), f"{page.name} -> {target}"
            assert not heading or heading in headings(place.read_text()), f"{page.name} -> {target}#{heading}"


def headings(text):
    """Return the names by which links find the headings of a page, as the site makes them."""
    lines = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", line).strip().lower()) for line in lines}


def test_every_public_name_is_in_the_reference():
    shown = re.findall(r"^::: (\S+)", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    names = {path.rpartition(".")[2] for path in shown}
    assert {*nasheval.__all__, *nasheval.baselines.__all__} - {"baselines"} <= names  # each baseline by itself


def test_the_results_page_is_what_the_kept_results_say():
    from studies.publish import page

    assert (ROOT / "docs/results.md").read_text() == page()


def test_the_map_of_the_house_names_every_module():
    text = (ROOT / "docs" / "architecture.md").read_text()
    source = ROOT / "src" / "nasheval"
    named = set(re.findall(r"`(?:\w+/)*([\w*]+)\.py`", text))
    modules = {path.stem for path in source.rglob("*.py") if "report" not in path.parts} - {"__init__", "__main__"}
    assert sorted(name for name in modules if not any(fnmatch(name, pattern) for pattern in named)) == []
    assert sorted(name for name in named if "*" not in name and not list(ROOT.glob(f"[st]*/**/{name}.py"))) == []
