"""Small vote tables, and folders in which their paths are short and stable."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the tests make their own datasets

import pytest


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder, so that messages name files by their relative paths."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def votes():
    """Six votes with every kind of column a reader takes; the fourth prompt is unknown, and so is one voter."""
    return {
        "model_a": ["x", "y", "z", "x", "y", "x"],
        "model_b": ["y", "z", "x", "y", "x", "z"],
        "winner": ["model_a", "model_b", "tie", "both_bad", "model_b", "model_a"],
        "prompt": ["hi, there", 'hé\n"quoted"', "hi, there", None, "last", "hi, there"],
        "language": ["en", "fr", "en", "de", None, "en"],
        "is_code": [True, False, True, False, True, True],
        "turns": [1, 2, 1, 4, None, 1],
        "who": ["u1", "u2", None, "u1", "u3", "u2"],
        "when": [1.5, 2.0, 3.25, 4.0, 5.0, 6.0],
        "e": [0.5, 0.25, 1.0, 0.5, 0.5, 0.125],
        "w": [1.0, 2.0, 0.5, 1.0, 1.0, 1.0],
    }


@pytest.fixture
def columns():
    """What to tell `read_votes` about the columns of `votes`."""
    return {
        "text": "prompt",
        "context": ["language", "is_code", "turns"],
        "voter": "who",
        "time": "when",
        "propensity": "e",
        "weight": "w",
    }
