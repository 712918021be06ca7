"""Small fitted logs of the worlds of the study, for tests."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from sklearn.linear_model import Ridge

import nasheval as ne
from studies.benchmarks.voters import WORLDS, Drawn, drawn

CHEAP = {"outcome": Ridge(), "propensity": "marginal", "second_stage": "none", "n_jobs": 1, "verbose": False}


def fitted(log, **options):
    """Stage 1 of a log, with a linear model per pair."""
    return ne.NashEval(**{**CHEAP, **options}).fit(log).stage1_


@cache
def world(name: str, seed: int = 0, **changes) -> tuple[Drawn, object]:
    """A log of a world, and its Stage 1."""
    simulated = drawn(replace(WORLDS[name], **changes), seed)
    return simulated, fitted(simulated.log)
