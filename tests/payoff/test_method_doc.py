"""docs/method.md names what exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "method.md").read_text()
NAMES = sorted(set(re.findall(r"`(nasheval(?:\.\w+)+)`", TEXT)))


def look_up(name):
    """Return what a dotted name stands for: the longest part that is a module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def test_the_page_names_functions():
    assert len(NAMES) > 60


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name):
    found = look_up(name)
    assert callable(found) or isinstance(found, property | dict) or hasattr(found, "__get__")


def test_a_name_that_does_not_exist_is_told():
    with pytest.raises(AttributeError):
        look_up("nasheval.payoff.pseudo.gamma_of")


def test_every_file_the_page_names_exists():
    for name in re.findall(r"`((?:tests|docs|studies)/[\w/.]+)`", TEXT):
        assert (Path(__file__).parents[2] / name).exists(), name


def test_names_in_full_are_the_only_ones():
    """A function's name without its module would escape the check."""
    loose = re.findall(r"`([A-Za-z_]+(?:\.\w+)+)`", TEXT)
    assert {name for name in loose if not name.startswith("nasheval.")} == set()
