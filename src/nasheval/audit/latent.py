"""What the outcome model's own latent voters favour, in words.

Each fold of the cross-fitting has latent voters of its own, and nothing numbers them alike. So a type of latent voter
is told only where every fold has one like it: tastes are matched with those of the first fold, one to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from nasheval.arrays import Floats
from nasheval.notes import few
from nasheval.nuisance.voters import VoterModels
from nasheval.payoff.stage1 import Stage1

_CONTEXTS = 256  # at which tastes are averaged
_ALIKE = 0.8  # least correlation of a type's taste in one fold with the mean over folds
_SMALL = 0.05  # share of the electorate below which a type is not told
_APART = 0.2  # log odds by which a taste differs from that of the electorate, to be told


@dataclass(frozen=True, eq=False)
class LatentType:
    """A type of latent voter that every fold has.

    Args:
        agents: names of the K agents.
        share: of the electorate.
        taste: (K,) utilities less those of the electorate, averaged over contexts, in log odds.
        alike: least correlation of the taste in a fold with the mean over folds.
    """

    agents: tuple[str, ...]
    share: float
    taste: Floats
    alike: float

    def sentence(self) -> str:
        """Return what it favours."""
        order = np.argsort(-self.taste, kind="stable")
        likes = [f"{self.agents[a]} ({self.taste[a]:+.1f})" for a in order if self.taste[a] > _APART]
        dislikes = [f"{self.agents[a]} ({self.taste[a]:+.1f})" for a in order[::-1] if self.taste[a] < -_APART]
        words = [f"favours {few(likes, 3)}"] * bool(likes) + [f"disfavours {few(dislikes, 3)}"] * bool(dislikes)
        return f"A latent voter of the model, {self.share:.0%} of its electorate, {' and '.join(words)}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"share": self.share, "taste": self.taste.tolist(), "alike": self.alike, "said": self.sentence()}


def latent_types(stage1: Stage1) -> tuple[LatentType, ...]:
    """Return the types of latent voters that all folds have, the largest first; nothing for other outcome models."""
    fit = stage1.as_voted.nuisances
    models = fit.outcome_models
    if not isinstance(models, VoterModels) or not len(fit.X):
        return ()
    rows = np.unique(np.linspace(0, len(fit.X) - 1, _CONTEXTS).astype(np.int64))
    folds = [_fold(models, fit.X[rows], fold) for fold in range(len(models.n_voters))]
    taste, share = _matched(folds)
    types = []
    for v in range(taste.shape[1]):
        mean = taste[:, v].mean(axis=0)
        alike = min(_correlation(one, mean) for one in taste[:, v])
        if alike >= _ALIKE and share[:, v].mean() >= _SMALL and np.abs(mean).max() > _APART:
            types.append(LatentType(stage1.agents, float(share[:, v].mean()), mean, alike))
    return tuple(sorted(types, key=lambda one: -one.share))


def _fold(models: VoterModels, X: Any, fold: int) -> tuple[Floats, Floats]:
    """Return (V, K) mean tastes of a fold's latent voters, less the electorate's, and (V,) their shares."""
    voters = models.voters(X, fold)
    share = np.array([float(np.sum(voter.weight)) for voter in voters])
    share /= max(share.sum(), 1e-12)
    mean = np.stack([np.asarray(voter.u, np.float64).mean(axis=1) for voter in voters])
    mean -= mean.mean(axis=1, keepdims=True)
    return mean - share @ mean, share


def _matched(folds: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return (folds, V, K) tastes and (folds, V) shares of as many latent voters as every fold has, matched."""
    size = min(len(share) for _, share in folds)
    first = folds[0][0][np.argsort(-folds[0][1], kind="stable")[:size]]
    tastes, shares = [], []
    for taste, share in folds:
        away = ((first[:, None] - taste[None]) ** 2).sum(axis=2)
        _, at = linear_sum_assignment(away)
        tastes.append(taste[at])
        shares.append(share[at])
    return np.stack(tastes), np.stack(shares)


def _correlation(one: Floats, other: Floats) -> float:
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length else 0.0
