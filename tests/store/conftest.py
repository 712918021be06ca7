"""A model on disk that has every kind of file, and a copy of it to be spoilt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .small import BOTH, FILES, LEARNED, fitted, paper_log


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A model that has every kind of file."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    fitted(paper_log(), outcome=BOTH, second_stage="shared", policy=LEARNED).save(folder)
    assert {file.name for file in folder.iterdir()} == {*FILES, "manifest.json"}
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "model"))
