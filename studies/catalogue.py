"""All studies, by name."""

from __future__ import annotations

from importlib import import_module

from nasheval.errors import InputError
from nasheval.studies.study import Study

# What each asks, in the order of the paper; its module has the same name.
NAMES = {
    "rq1": "equilibrium quality on the simulation: three kinds of feedback, one to five voters, all baselines",
    "ablation": "the same with networks instead of trees",
    "rho": "the same against the strength of the regulariser",
    "solver": "the learned policy against the exact solver, in quality and in time",
    "highway": "driving agents in traffic (MO-Highway), with reference payoffs",
    "routerbench": "language models on RouterBench prompts, with simulated judges",
    "oa": "chat models on real prompts, judged by GPT-4 on all pairs",
    "aggregation": "what a pooled equilibrium hides from single prompts",
    "cost": "what lotteries cost against how good they are, with measured costs and with list prices",
    "arena": "how equilibria differ between groups of human votes",
    "orthogonality": "error against injected nuisance error, and against the number of contexts",
}


def study(name: str) -> Study:
    """Return a study by its name."""
    if name not in NAMES:
        raise InputError(f"There is no study {name!r}; accepted are {', '.join(NAMES)}.")
    found = import_module(f"nasheval.studies.{name}").STUDY
    assert isinstance(found, Study)
    return found
