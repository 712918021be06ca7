"""Public names: where they live, and that importing the package costs little."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nasheval as ne

HEAVY = ("torch", "lightgbm", "pandas", "polars", "pyarrow", "scipy", "sklearn", "wordllama", "numpy")


def test_every_public_name_can_be_had():
    for name in ne.__all__:
        assert getattr(ne, name) is not None


def test_the_names_for_type_checkers_are_the_names_that_load():
    tree = ast.parse(Path(ne.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == set(ne.__all__) == set(dir(ne)) - {"__version__"}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'nasheval' has no attribute 'nash'"):
        _ = ne.nash


def test_importing_the_package_imports_nothing_heavy():
    code = f"import nasheval, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_every_error_is_ours_and_a_builtin_too():
    assert issubclass(ne.InputError, (ne.NashEvalError, ValueError))
    assert issubclass(ne.ReadError, ne.InputError)
    assert issubclass(ne.MissingExtraError, (ne.NashEvalError, ImportError))


def test_no_pickle_anywhere():
    source = Path(ne.__file__).parent
    forbidden = ("import pickle", "joblib.load", "allow_pickle=True", "torch.load(")
    found = [f"{file}: {word}" for file in source.rglob("*.py") for word in forbidden if word in file.read_text()]
    assert found == []
