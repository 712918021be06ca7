"""One table of everything that is measured in ratios, ours beside other packages in the same run.

`python -m studies bench [--quick] [--parts solve,ratings,read,models,quality]` solves games beside HiGHS, Nashpy,
pref_voting and Clarabel, fits ratings beside evalica, choix and arena-rank, reads votes beside pyarrow, runs what
`python -m studies ratios` does, and holds the payoffs of one simulated setting against the paper's forms. A ratio is
ours / theirs, less is better, the median of several rounds by turns; a limit is what it may be at most. Ten minutes on
two idle cores; `--quick` a minute or two.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from studies.benchmarks import peers, ratios
from studies.benchmarks.kept import keep
from studies.benchmarks.measuring import HEADER, Line, print_lines
from studies.harness.options import parser
from studies.harness.study import Table

PARTS = ("solve", "ratings", "read", "models", "quality")
GAMES, FEW_GAMES = {5: 50_000, 10: 50_000, 50: 1000, 200: 40}, {5: 2000, 50: 50}


def main(words: Sequence[str]) -> None:
    known = parser("bench", __doc__)
    ratios.add_options(known)
    known.add_argument("--parts", default="", help="with commas; by default all, with --quick all but quality")
    known.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of finished models")
    options = known.parse_args(words)
    ratios.set_sizes(options)
    lines, about = list(all_lines(options)), ratios.title(options)
    print_lines(about, lines, markdown=options.markdown)
    if options.keep:
        keep("bench", options.keep, [Table(about, HEADER, tuple(line.cells() for line in lines))])


def all_lines(options: argparse.Namespace) -> Iterator[Line]:
    """Yield the lines of every part that was asked for."""
    parts = options.parts.split(",") if options.parts else PARTS[: 4 if options.quick else 5]
    rounds = 2 if options.quick else 5
    if "solve" in parts:
        yield from peers.solver_lines(FEW_GAMES if options.quick else GAMES, rounds, 0.1 if options.quick else 0.3)
    if "ratings" in parts:
        yield from peers.rating_lines(10_000 if options.quick else 1_000_000, 50, rounds)
    if "read" in parts:
        yield from peers.read_lines(50_000 if options.quick else 1_000_000, rounds)
    if "models" in parts:
        yield from ratios.all_lines(options)
    if "quality" in parts:
        yield from peers.timed_quality()
