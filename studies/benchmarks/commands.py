"""Do the command lines of docs/cli.md work on the data they are for, and how long do they take?

`python -m studies commands [--keep FOLDER] [--only oa,beans]` runs every command line there that names
`$NASHEVAL_DATA`, or a model that one of those wrote, in an empty folder, in order, and prints its seconds and exit
status. NASHEVAL_DATA is the folder of the data, by default ../shared/data.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from studies.harness.files import data_folder
from studies.harness.options import parser

ROOT = Path(__file__).parents[2]
WORDS = 60  # characters of a command line that are shown


def command_lines(page: str) -> list[str]:
    """Return the command lines of a page's shell blocks that name the data folder, or follow one that does."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    lines = [block.replace("\\\n", " ").splitlines() for block in blocks if "$NASHEVAL_DATA" in block]
    return [re.sub(r"\s+", " ", line) for block in lines for line in block if line.startswith("nasheval ")]


def main(words: Sequence[str]) -> None:
    known = parser("commands", __doc__)
    known.add_argument("--keep", type=Path, help="folder for models, reports and what was printed")
    known.add_argument("--only", default="", help="model folders, with commas, such as oa,beans")
    options = known.parse_args(words)
    lines = command_lines((ROOT / "docs" / "cli.md").read_text())
    wanted = options.only.split(",") if options.only else [""]
    lines = [line for line in lines if any(f"{name}/" in line for name in wanted)]
    with tempfile.TemporaryDirectory() as temporary:
        failed = run(lines, (options.keep or Path(temporary)).absolute())
    sys.exit(failed > 0)


def run(lines: list[str], folder: Path) -> int:
    """Run command lines in a folder; return how many failed."""
    folder.mkdir(parents=True, exist_ok=True)
    here = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    data = data_folder().absolute()
    shown, failed = Table("command", "seconds", "status"), 0
    for number, line in enumerate(lines):
        start = time.perf_counter()
        done = subprocess.run(
            line, shell=True, cwd=folder, env=os.environ | here | {"NASHEVAL_DATA": str(data)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        (folder / f"{number:02}.txt").write_text(f"$ {line}\n{done.stdout}")
        failed += done.returncode != 0
        shown.add_row(line[:WORDS], f"{time.perf_counter() - start:.1f}", str(done.returncode))
        print(f"{done.returncode} {line[:WORDS]}", file=sys.stderr)
        if done.returncode:
            print(done.stdout[-2000:], file=sys.stderr)
    Console(width=100).print(shown)
    return failed
