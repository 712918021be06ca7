"""The room opens without its heavy tools."""

from __future__ import annotations

import subprocess
import sys


def test_learners_and_solvers_are_loaded_when_first_used():
    code = (
        "import sys, nasheval.payoff.inference, nasheval.payoff.stage1_diagnostics\n"
        "print([m for m in ('lightgbm', 'joblib', 'sklearn', 'numba', 'rich', 'torch') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
