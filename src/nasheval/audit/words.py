"""Words that several parts of an audit share."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """Return a number with what it counts: 1 voter, 2 voters."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
