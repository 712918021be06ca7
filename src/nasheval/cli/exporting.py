"""`nasheval export`: a model in a form that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nasheval.cli.options import MODEL, grouped
from nasheval.cli.printing import tell


@grouped
def export(
    model: MODEL,
    onnx: Annotated[Path, typer.Option("--onnx", help="ONNX file to write.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Write a learned policy with its encoder as ONNX.

    For models of tabular contexts that were fitted with --policy learned; onnxruntime checks the graph against the
    model to 0.00001 before it is written. Inputs are the context columns: numbers and truth values as doubles, NaN
    where missing; categories as strings, empty where missing. Outputs are "lottery", (n, agents), and "agent", the
    most probable one. Needs the extra: pip install 'nasheval\\[onnx]'.

    Examples:

      nasheval fit highway --policy learned -o model/

      nasheval export model/ --onnx policy.onnx
    """
    from nasheval.estimator import load
    from nasheval.store.onnx import export_onnx

    loaded = load(model)
    largest = export_onnx(loaded.policy_, onnx, contexts=loaded.stage1_.log.contexts)
    if not quiet:
        tell(f"{onnx}: differs from the model by at most {largest:.1e} at the contexts of its log.")
