"""Check what a release holds: the wheel the package alone, the source archive all that git keeps for the suite.

`python .ci/contents.py dist`
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

NEEDED = ("src/", "tests/", "studies/", "docs/", ".ci/", "pyproject.toml", "Makefile", "constraints.txt", "mkdocs.yml")


def check(folder: Path) -> None:
    """Print the sizes of both files; exit with what is wrong."""
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        strange = [name for name in opened.namelist() if not name.startswith(("nasheval/", "nasheval-"))]
    with tarfile.open(archive) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    kept = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    missing = [name for name in kept if name.startswith(NEEDED) and name not in inside]
    if strange or missing:
        sys.exit(f"The wheel should not hold {strange}; the source archive lacks {missing}.")
    for file in (wheel, archive):
        print(f"{file.name}: {file.stat().st_size / 1000:,.0f} kB")


if __name__ == "__main__":
    check(Path(sys.argv[1]))
