"""Run the code of a page, and hold what the page shows of its output against what is printed.

A ```text block right after a ```python or ```sh block shows what that block prints. Blocks of one page follow one
another, in one folder. `python tests/pages.py docs/gallery.md ...` writes these outputs anew, with the figures that a
page saves.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from nasheval.cli import app

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs/figures"
WIDTH = {"COLUMNS": "104", "NO_COLOR": "1"}
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Block:
    """Some code of a page, and the output shown below it, if there is one."""

    language: str
    code: str
    shown: str | None
    printed: str


def run(text: str, name: str) -> list[Block]:
    """Run the blocks of a page in the current folder: all Python, and the commands whose output is shown."""
    names: dict[str, object] = {}
    blocks = []
    for language, code, shown in ((m[1], m[2], m[3]) for m in _BLOCK.finditer(text)):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as caught:
                exec(compile(code, name, "exec", dont_inherit=True), names)
            printed = caught.getvalue()
        else:
            printed = "".join(_command(line) for line in commands(code)) if shown is not None else ""
        blocks.append(Block(language, code, shown, printed))
    return blocks


def commands(code: str) -> list[list[str]]:
    """Return the words of each `nasheval` command in a block."""
    lines = [shlex.split(line, comments=True) for line in code.replace("\\\n", " ").splitlines()]
    return [words for words in lines if words[:1] == ["nasheval"]]


def _command(words: list[str]) -> str:
    result = CliRunner().invoke(app, words[1:], env=WIDTH)
    assert result.exit_code == 0, result.output
    return "".join(line.rstrip() + "\n" for line in result.output.splitlines())


def alike(shown: str, printed: str) -> bool:
    """Whether two outputs say the same words, and nearly the same numbers: machines round differently."""
    words = [" ".join(re.sub("[─━]+", "─", _NUMBER.sub("0", text)).split()) for text in (shown, printed)]
    numbers = [[float(one.replace(",", "")) for one in _NUMBER.findall(text)] for text in (shown, printed)]
    return words[0] == words[1] and all(abs(a - b) <= 0.05 + 0.05 * abs(a) for a, b in zip(*numbers, strict=True))


def rewrite(page: Path) -> None:
    """Put what is printed now below the code of a page, and the figures it saves into docs/figures."""
    text, here = page.read_text(encoding="utf-8"), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            blocks = iter(run(text, page.name))
        finally:
            os.chdir(here)
        for figure in Path(folder).glob("*.png"):
            shutil.copy(figure, FIGURES / figure.name)

    def with_output(match: re.Match[str]) -> str:
        block = next(blocks)
        if block.shown is None:
            return match[0]
        return f"```{block.language}\n{block.code}```\n\n```text\n{block.printed}```\n"

    page.write_text(_BLOCK.sub(with_output, text), encoding="utf-8")


if __name__ == "__main__":
    os.environ.update(WIDTH, MPLBACKEND="agg")
    for name in sys.argv[1:]:
        rewrite(Path(name).absolute())
