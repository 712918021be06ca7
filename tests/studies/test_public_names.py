"""Studies use what users can: public names of the package, none of its insides."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import nasheval as ne
import studies

FILES = sorted(Path(studies.__file__).parent.rglob("*.py"))
PUBLIC = {*ne.__all__, "__version__"}


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


def _attribute(node: ast.Attribute):
    if isinstance(node.value, ast.Name) and node.value.id == "ne":
        if node.attr not in PUBLIC:
            yield f"line {node.lineno}: ne.{node.attr}"
        return
    own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    if node.attr.startswith("_") and not node.attr.startswith("__") and not own:
        yield f"line {node.lineno}: .{node.attr}"


@pytest.mark.parametrize(
    "code",
    [
        "import nasheval.game",
        "import nasheval",
        "from nasheval.game import solve",
        "from nasheval import cli",
        "import nasheval as ne\nne.cli",
        "log._records",
    ],
)
def test_private_uses_are_seen(code: str) -> None:
    assert list(private_uses(ast.parse(code)))
