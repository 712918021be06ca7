"""Check what a release holds: the wheel the package alone, the source archive all that the suite needs.

`python .ci/contents.py dist`
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

FOLDERS = ("src/nasheval", "tests", "studies", "docs", ".ci")
FILES = ("pyproject.toml", "README.md", "Makefile", "constraints.txt", "mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md")


def check(folder: Path) -> None:
    """Print the sizes of both files; exit with what is wrong."""
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        strange = [name for name in opened.namelist() if not name.startswith(("nasheval/", "nasheval-"))]
    with tarfile.open(archive) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    needed = [path for name in FOLDERS for path in Path(name).rglob("*") if path.is_file()]
    kept = {path.as_posix() for path in needed if "__pycache__" not in path.parts}
    missing = sorted({*FILES, *kept} - inside)
    if strange or missing:
        sys.exit(f"The wheel should not hold {strange}; the source archive lacks {missing}.")
    for file in (wheel, archive):
        print(f"{file.name}: {file.stat().st_size / 1000:,.0f} kB")


if __name__ == "__main__":
    check(Path(sys.argv[1]))
