"""Outcome models that learn new agents without a full refit: latent voters by themselves, any others with a layer."""

from __future__ import annotations

from dataclasses import replace

from nasheval.arrays import Ints
from nasheval.feedback.growing import Fitted
from nasheval.feedback.log import Feedback
from nasheval.nuisance.extended import extended
from nasheval.nuisance.learners import Features, FoldModels
from nasheval.nuisance.stack import StackModels
from nasheval.nuisance.voters import VoterModels
from nasheval.nuisance.voters_update import updated_voters


def updated_outcome(
    models: FoldModels, before: Feedback, log: Feedback, X: Features, fold: Ints, last: Fitted
) -> FoldModels:
    """Return fitted models that answer for the columns of a log that has grown, agents that are new included.

    Args:
        models: fitted to `before`, whose contexts and agents come first in the log; a fold's models have seen none of
            its contexts.
        log: all of it.
        X: its contexts, encoded.
        fold: (n_contexts,).
        last: the last full fit.
    """
    if isinstance(models, VoterModels):
        return updated_voters(models, log, X, fold, last)
    if isinstance(models, StackModels):
        own = tuple(updated_outcome(one, before, log, X, fold, last) for one in models.models)
        return replace(models, models=own)
    return extended(models, before, log, X, fold, last)
