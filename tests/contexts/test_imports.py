from __future__ import annotations

import subprocess
import sys

import nasheval.contexts


def test_public_names() -> None:
    assert nasheval.contexts.__all__ == ["ContextEncoder", "TextEncoder"]


def test_importing_contexts_imports_nothing_heavy() -> None:
    heavy = ("wordllama", "torch", "sentence_transformers", "pandas", "polars", "sklearn")
    code = f"import sys, nasheval.contexts; assert not set({heavy!r}) & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
