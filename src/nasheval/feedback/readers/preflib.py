"""PrefLib election files: .soc, .soi, .toc, .toi."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias

import numpy as np

from nasheval.arrays import Ints
from nasheval.errors import InputError, ReadError, one_line
from nasheval.feedback.coverage import ReadReport
from nasheval.feedback.design import DesignName
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.row_checks import refuse_repeats
from nasheval.feedback.records import Records

SUFFIXES = (".soc", ".soi", ".toc", ".toi")
_NAME = re.compile(r"#\s*ALTERNATIVE NAME\s+(\d{1,9})\s*:\s*(.*)", re.IGNORECASE)
_COUNT = re.compile(r"#\s*NUMBER (ALTERNATIVES|VOTERS|UNIQUE ORDERS)\s*:\s*(.*?)\s*", re.IGNORECASE)
_BALLOT = re.compile(r"\s*(\d{1,9})\s*:\s*(.+)")
_TOKEN = re.compile(r"\s*(?:\{([^{}]*)\}|(\d{1,9}))\s*(?:,|$)")
_ALTERNATIVE = re.compile(r"\s*\d{1,9}\s*")
_LINES = "lines such as '12: 1,{2,3},4': a count, then each alternative at most once, best first"
_MOST = 50_000_000  # voters; a count beyond it is a damaged file
_Ballot: TypeAlias = tuple[int, list[list[int]]]  # how many voters, blocks of alternatives, best first


def read_preflib(path: Path, *, unranked: str, design: DesignName | None) -> Feedback:
    """Read a PrefLib file; each voter becomes a record at a context of its own."""
    if unranked not in ("last", "absent"):
        raise InputError(f"unranked is {unranked!r}; accepted are 'last' and 'absent'.")
    names: dict[int, str] = {}
    ballots: list[_Ballot] = []
    promised: dict[str, int] = {}
    for number, line in enumerate(_lines(path), start=1):
        if match := _NAME.match(line):
            if int(match[1]) in names:
                raise _bad(path, number, f"alternative {int(match[1])} is named twice")
            names[int(match[1])] = match[2].strip() or match[1]
        elif match := _COUNT.fullmatch(line):
            if not match[2].isdecimal() or len(match[2]) > 12:
                what = f"the count {match[2][:60]!r} is no whole number"
                raise _bad(path, number, what, "lines such as '# NUMBER VOTERS: 1200'")
            promised[match[1].upper()] = int(match[2])
        elif line.strip() and not line.startswith("#"):
            if not names:
                break
            ballots.append(_ballot(path, number, line, names))
    if not ballots or len(names) < 2:
        what = "there is one alternative alone" if ballots else "there are no ballots"
        fix = "check that the file is whole"
        if not names:
            what = "there are no '# ALTERNATIVE NAME' lines before the ballots"
            fix = "download the file anew from preflib.org"
        raise ReadError(
            what,
            source=str(path),
            accepted="PrefLib's present format: '# ALTERNATIVE NAME 1: ...' lines, then '12: 1,{2,3}' lines",
            fix=fix,
        )
    _refuse_other_counts(path, promised, names, ballots)
    return _log(path, names, ballots, unranked, design)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise ReadError(
            "there is no such file", source=str(path), accepted=f"a {', '.join(SUFFIXES)} file", fix="check the path"
        ) from None
    except (OSError, ValueError) as error:
        raise ReadError(
            f"this is not a text file in UTF-8 ({one_line(error)})",
            source=str(path),
            accepted="a PrefLib file",
            fix="check that the file is whole and has the right ending",
        ) from None


def _refuse_other_counts(path: Path, promised: dict[str, int], names: dict[int, str], ballots: list[_Ballot]) -> None:
    """Raise where the header counts other alternatives, voters or orders than follow it: the file is cut or damaged."""
    orders = {tuple(frozenset(block) for block in blocks) for _, blocks in ballots}
    voters = sum(count for count, _ in ballots)
    counted = {"ALTERNATIVES": len(names), "VOTERS": voters, "UNIQUE ORDERS": len(orders)}
    for what, expected in promised.items():
        if counted[what] != expected:
            raise ReadError(
                f"'# NUMBER {what}' says {expected:,}, but the file holds {counted[what]:,}",
                source=str(path),
                accepted="a whole file, which holds as many as its header says",
                fix="download the file again, or correct the header",
            )


def _ballot(path: Path, number: int, line: str, names: dict[int, str]) -> _Ballot:
    """Return (how many voters, blocks of alternatives, best first)."""
    match = _BALLOT.fullmatch(line)
    blocks = _blocks(match[2]) if match else None
    if not match or not blocks:
        raise _bad(path, number, f"{line.strip()[:60]!r} is no ballot")
    ranked = [alternative for block in blocks for alternative in block]
    if unnamed := [alternative for alternative in ranked if alternative not in names]:
        raise _bad(path, number, f"alternative {unnamed[0]} has no name in the header")
    if len(set(ranked)) < len(ranked):
        raise _bad(path, number, "an alternative stands twice on the ballot")
    if not 1 <= int(match[1]) <= _MOST:
        raise _bad(path, number, f"{int(match[1]):,} voters cast this ballot; 1 to {_MOST:,} can")
    return int(match[1]), blocks


def _blocks(text: str) -> list[list[int]] | None:
    blocks, at = [], 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        inside = (token[1] if token[1] is not None else token[2]).split(",") if token else [""]
        if token is None or not all(_ALTERNATIVE.fullmatch(alternative) for alternative in inside):
            return None
        blocks.append([int(alternative) for alternative in inside])
        at = token.end()
    return blocks


def _bad(path: Path, line: int, what: str, accepted: str = _LINES) -> ReadError:
    fix = "mend that line, or download the file again"
    return ReadError(what, source=f"{path}, line {line}", accepted=accepted, fix=fix)


def _log(
    path: Path, names: dict[int, str], ballots: list[_Ballot], unranked: str, design: DesignName | None
) -> Feedback:
    number = {alternative: i for i, alternative in enumerate(names)}
    agents, ranks, sizes, zeros, counts = [], [], [], [], []
    for count, blocks in ballots:
        ranked = {alternative for block in blocks for alternative in block}
        rest = [a for a in names if a not in ranked] if unranked == "last" else []
        full = [*blocks, rest] if rest else blocks
        if len(ranked) + len(rest) < 2:
            continue  # a ballot that ranks one agent and leaves the others absent compares nothing
        agents += [number[a] for block in full for a in block]
        ranks += [place for place, block in enumerate(full) for _ in block]
        sizes.append(len(ranked) + len(rest))
        zeros.append(Zero.LAST if len(rest) > 1 else Zero.TIE)
        counts.append(count)
    if not sizes:
        raise ReadError(
            "no ballot compares two alternatives",
            source=str(path),
            accepted="ballots with two or more alternatives",
            fix="read it with unranked='last', which puts those left out behind",
        )
    if sum(counts) > _MOST:
        raise ReadError(
            f"{sum(counts):,} voters are too many",
            source=str(path),
            accepted=f"up to {_MOST:,}",
            fix="check the counts before the colons",
        )
    once = Records.build(
        sizes=np.array(sizes), agent=np.array(agents), rank=np.array(ranks), zero=np.array(zeros, np.int8)
    )
    voters: Ints = np.repeat(np.arange(len(sizes)), counts)
    rows = sum(count for count, _ in ballots)
    alone = {"a ballot that ranks one agent alone": rows - len(voters)} if rows > len(voters) else {}
    refuse_repeats([*names.values()], str(path), "alternative")
    report = ReadReport(str(path), f"PrefLib {path.suffix}", rows, len(voters), dropped=alone)
    return Feedback.from_records(once.take(voters), agents=[*names.values()], design=design, report=report)
