"""What the command lines of studies and benchmarks share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from nasheval import InputError


def parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser for the words after `python -m studies NAME`; `about` is shown as it is written."""
    how = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=f"python -m studies {name}".strip(), description=about, formatter_class=how)


def add_run_options(options: argparse.ArgumentParser, results: str) -> None:
    """Add those of a benchmark whose finished cells are kept."""
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes, of one thread each")
    options.add_argument("--results", type=Path, default=Path(results), help="file that finished cells go to")


def add_simulation_options(options: argparse.ArgumentParser, settings: str) -> None:
    """Add those of a benchmark on the paper's simulation; `settings` such as "pairwise/1,winner/3"."""
    options.add_argument("--quick", action="store_true", help="seed 70 only")
    options.add_argument("--seeds", default="70-74")
    options.add_argument("--settings", default=settings, help="kind of feedback / number of voters, with commas")
    options.add_argument("--contexts", type=int, default=20_000)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return seeds from "70-74" or "1,2,3"."""
    try:
        ranges = [piece.partition("-") for piece in text.split(",")]
        return tuple(seed for first, _, last in ranges for seed in range(int(first), int(last or first) + 1))
    except ValueError:
        raise InputError(f"--seeds is {text!r}; accepted are numbers with commas and ranges, such as 70-74.") from None
