"""The words that arguments accept: each choice once, for signatures, checks and the command line."""

from __future__ import annotations

from typing import Literal

OnError = Literal["raise", "skip"]
Grades = Literal["keep", "sign"]
DesignName = Literal["inclusion", "draws"]

OutcomeName = Literal["voters", "lightgbm", "stack"]
PropensityName = Literal["auto", "known", "lightgbm", "multinomial", "marginal"]
SecondStage = Literal["corrected", "shared", "per-pair", "none"]
Unseen = Literal["model", "tie", "refuse"]
PolicyName = Literal["exact", "learned"]
Search = Literal["fast", "paper"]
Device = Literal["auto", "cpu", "cuda"]
Engine = Literal["local", "ray"]

Speaks = Literal["panel", "population"]

AS_VOTED, EQUAL = "as voted", "at equal style"  # what payoffs are of
