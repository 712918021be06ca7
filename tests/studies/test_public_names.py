"""Studies use what users can: public names of the package, none of its insides."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import nasheval as ne
import studies
from nasheval.payoff.stage1 import Stage1

FILES = sorted(Path(studies.__file__).parent.rglob("*.py"))
PUBLIC = {*ne.__all__, "__version__"}
MODULES = {name: module for name in ne.__all__ if inspect.ismodule(module := getattr(ne, name))}
STAGE1 = {name for name in dir(Stage1) if not name.startswith("_")} | {one.name for one in fields(Stage1)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_studies_use_public_names_only(path: Path) -> None:
    assert list(private_uses(ast.parse(path.read_text()))) == []


def private_uses(tree: ast.AST):
    """Yield what a file takes from the package that is not public, and private names that it takes from anything."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "nasheval" and (alias.name, alias.asname) != ("nasheval", "ne"):
                    yield f"line {node.lineno}: import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "nasheval":
            for alias in node.names:
                if node.module != "nasheval" or alias.name not in PUBLIC:
                    yield f"line {node.lineno}: from {node.module} import {alias.name}"
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"nasheval(\.\w+)+", str(node.value)):
            yield f"line {node.lineno}: {node.value!r}, which may be imported by its name"
    reached = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "ne" and id(node) not in reached:
            yield f"line {node.lineno}: ne as a value"


def _attribute(node: ast.Attribute):
    at, name = f"line {node.lineno}", node.attr
    if _is_ne(node.value):
        if name not in PUBLIC:
            yield f"{at}: ne.{name}"
        return
    if isinstance(node.value, ast.Attribute) and _is_ne(node.value.value) and node.value.attr in MODULES:
        if not _offers(MODULES[node.value.attr], name):
            yield f"{at}: ne.{node.value.attr}.{name}"
    elif isinstance(node.value, ast.Attribute) and node.value.attr == "stage1_" and name not in STAGE1:
        yield f"{at}: stage1_.{name}"
    own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    hidden = name.startswith("_") and not name.startswith("__")
    if (hidden and not own) or name in ("__dict__", "__globals__", "__wrapped__"):
        yield f"{at}: .{name}"


def _is_ne(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "ne"


def _offers(module, name: str) -> bool:
    """Whether a module of ours offers a name: it is listed, or defined there."""
    if (listed := getattr(module, "__all__", None)) is not None:
        return name in listed
    return name.isupper() or getattr(getattr(module, name, None), "__module__", "") == module.__name__


@pytest.mark.parametrize(
    "code",
    [
        "import nasheval.game",
        "import nasheval",
        "from nasheval.game import solve",
        "from nasheval import cli",
        "import nasheval as ne\nne.cli",
        "import nasheval as ne\nx = ne",
        "import nasheval as ne\ngetattr(ne, 'cli')",
        "import nasheval as ne\nne.metrics.np",
        "import nasheval as ne\nne.datasets.Path",
        "import nasheval as ne\nne.solve.__globals__",
        "importlib.import_module('nasheval.game.solver')",
        "sys.modules['nasheval.game']",
        "model.stage1_.secret",
        "log._records",
    ],
)
def test_private_uses_are_seen(code: str) -> None:
    assert list(private_uses(ast.parse(code)))
