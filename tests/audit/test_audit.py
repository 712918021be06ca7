"""An audit as a whole: its parts, what they say, and the command line."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from nasheval.audit.audit import PARTS
from nasheval.audit.section import Bars, Listing
from nasheval.cli import app
from nasheval.errors import InputError
from nasheval.scoring.report.gathering import gather
from nasheval.scoring.report.rendering import render

from .worlds import duels, model_of


@pytest.fixture(scope="module")
def model():
    return model_of(duels(n=300, voters=30, groups=3), outcome="lightgbm", folds=2)


@pytest.fixture(scope="module")
def audit(model):
    return model.audit("group", confirm=False)


def test_every_part_says_something_in_every_form(audit):
    assert list(audit.sections) == list(PARTS)
    for section in audit.sections.values():
        assert section.title
        assert section.lines()
        for table in section.listings():
            assert isinstance(table, Listing)
            assert {len(row) for row in table.rows} <= {len(table.names) + len(table.numbers)}
        for chart in section.charts():
            assert isinstance(chart, Bars)
            assert len(chart.labels) == len(chart.values)
    values = json.loads(json.dumps(audit.to_dict(), allow_nan=False))
    assert values["flips"]["flips"][0]["votes"]
    assert values["sensitivity"]["groups"][0]["strength"] >= 1
    assert "changes who wins" in str(audit)


def test_all_contexts_and_every_group_are_looked_at(audit, model):
    groups = {"all", *map(str, model.stage1_.log.contexts["group"].unique().to_pylist())}
    assert {flip.group for flip in audit.flips.flips} | {name for name, _ in audit.flips.none} == groups
    assert {one.group for one in audit.sensitivity.groups} == groups


def test_the_same_model_is_audited_the_same(model, audit):
    assert model.audit("group", confirm=False).to_dict() == audit.to_dict()


def test_what_is_no_part_or_no_column_is_refused(model):
    with pytest.raises(InputError, match="accepted are flips"):
        model.audit(parts=["all"])
    with pytest.raises(InputError, match="no context column"):
        model.audit("language")
    with pytest.raises(InputError, match="1 or more"):
        model.audit(refits=0)
    with pytest.raises(InputError, match="has no part"):
        _ = model.audit(parts=["sensitivity"]).flips


def test_a_group_without_enough_votes_is_named_and_left_out():
    log = duels(n=120, agents=3)
    lonely = np.flatnonzero(np.asarray(log.contexts["group"]) == "de")
    kept = ~np.isin(log.context_of, lonely)
    audit = model_of(log.keep_records(kept)).audit("group", confirm=False)
    assert {flip.group for flip in audit.flips.flips} <= {"all", "en"}


def test_the_command_line_says_what_python_says(model, tmp_path):
    folder = str(tmp_path / "model")
    model.save(folder)
    run = CliRunner().invoke(app, ["audit", folder, "--by", "group", "--no-refit", "--format", "json"])
    assert run.exit_code == 0, run.output
    told = json.loads(run.output)
    assert told["flips"]["flips"][0]["confirmed"] is None
    run = CliRunner().invoke(app, ["audit", folder, "--parts", "sensitivity"], env={"COLUMNS": "200"})
    assert "hidden trait" in run.output


def test_a_model_that_was_loaded_is_refitted_too(model, tmp_path):
    import nasheval as ne

    folder = str(tmp_path / "model")
    model.save(folder)
    loaded = ne.load(folder)
    here, there = (one.audit(parts=["flips"], refits=2).to_dict()["flips"]["flips"] for one in (model, loaded))
    names = ("group", "board", "what", "size", "votes", "confirmed", "afresh")
    assert [[flip[n] for n in names] for flip in here] == [[flip[n] for n in names] for flip in there]


class Hostile:
    """A section whose every text would run, if a page took it for HTML."""

    title = "</script><script>window.hacked=1</script>"
    text: ClassVar[str] = "<img src=x onerror=window.hacked=1>"

    def lines(self):
        return [self.text]

    def listings(self):
        return [Listing(self.text, (self.text,), ("n",), ((self.text, "1,000"),))]

    def charts(self):
        return [Bars(self.text, (self.text, "b"), (0.5, float("nan")), (0.1, 0.2), (0.9, 1.0), (True, False))]


def test_a_report_holds_any_section_as_text(model):
    page = render(gather(model.stage1_, parts=[Hostile()], draws=10, created="2026-01-02"))
    assert "<script>window" not in page
    assert "<img" not in page
    assert "\\u003cimg src=x" in page
