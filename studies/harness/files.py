"""Where the data of studies lies: files that do not come with this repository."""

from __future__ import annotations

import os
from pathlib import Path

from nasheval import InputError

VARIABLE, USUAL = "NASHEVAL_DATA", Path("../shared/data")


def data_folder() -> Path:
    """Return the folder of the data: $NASHEVAL_DATA, by default ../shared/data."""
    return Path(os.environ.get(VARIABLE) or USUAL)


def data_file(name: str) -> Path:
    """Return the path of a data file; an error says where it was looked for.

    Args:
        name: relative to the data folder, such as "oa_pairs/prompts.parquet".
    """
    path = data_folder() / name
    if not path.exists():
        raise InputError(f"There is no {name} in {data_folder()}; set {VARIABLE} to the folder that holds it.")
    return path
