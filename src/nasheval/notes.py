"""What a reader should know before trusting a result: sentences with a code each, so that none is said twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Note(str):
    """A text, and the code of what it is about, such as "bridged-pairs"."""

    code: str

    def __new__(cls, text: str, code: str = "") -> Note:
        """Make a note; copying gives the text alone, and the code afterwards."""
        note = super().__new__(cls, text)
        note.code = code
        return note


def once(*notes: Iterable[str]) -> list[str]:
    """Return notes as sentences, one per code: the last one, which knows most, at the place of the first."""
    last = {code_of(note): note for each in notes for note in each}
    return [f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in last.values()]


def code_of(note: str) -> str:
    """Return the code of a note; a plain text is its own."""
    return note.code if isinstance(note, Note) else note


def brief(value: object, width: int = 60) -> str:
    """Return a value as a table shows it: four digits of a number, the beginning of a text on one line."""
    return f"{value:.4g}" if isinstance(value, float) else " ".join(str(value).split())[:width]


def few(names: Sequence[str], most: int = 5) -> str:
    """Return the first few names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
