"""Payoffs of pairs that were never compared, bridged through pairs that were.

A pair is *seen* (compared at least once), *bridged* (never compared, but connected through others) or *unknown*
(nothing connects the two agents); in a group of contexts, *elsewhere* says that it was seen, but not in that group.

The payoff of a bridged pair is what latent voters' utilities say of it (`VoterBridge`), or tanh((s_j - s_k) / 2) with
Bradley-Terry scores fitted at each context to the seen pairs (`ScoreBridge`), which also bridges means over groups;
docs/method.md, "Pairs that were never compared", has the formulas. An interval speaks of the bridge: votes on a star do
not tell whether voters really are unanimous. What any transitive voters allow is `allowed_by_transitivity`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from nasheval.arrays import Bools, Floats, Ints
from nasheval.choices import Unseen as Unseen
from nasheval.errors import Argument, InputError
from nasheval.feedback.links import BRIDGED, SEEN, UNKNOWN, pair_status
from nasheval.feedback.log import Feedback
from nasheval.game.scores import fit_scores, score_hessian
from nasheval.notes import Note
from nasheval.nuisance.learners import Features, FoldModels

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nasheval.nuisance.voters import VoterModels
    from nasheval.nuisance.voters_probes import Probes

UNSEEN: tuple[Unseen, ...] = get_args(Unseen)
ELSEWHERE = 3  # in a group of contexts: seen, but not here
STATUS_NAMES = ("seen", "bridged", "unknown", "elsewhere")

_LARGEST = 0.998  # margins beyond it bridge as this one: scores stay finite
_LEAST = 0.05  # 1 - margin^2 that slopes of the bridge are taken at; below, a vote would count for twenty and more
_RIDGE = 1e-6  # of the scores, in votes of the rarest pair
_CELLS = 1 << 22  # numbers of the slopes held at a time


_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class VoterBridge:
    """What latent voters would say of the bridged pairs, (b,) numbers of pairs; the mean over the folds' models."""

    pairs: Ints
    models: VoterModels
    probes: Probes

    def predict(self, X: Features, payoffs: Floats) -> Floats:
        """Return (n, b) payoffs of the bridged pairs, given those of all pairs, (n, n_pairs), at n contexts."""
        return self.models.mean_answers(X, self.probes)[0]


@dataclass(frozen=True, eq=False)
class ScoreBridge:
    """Bradley-Terry scores at each context, fitted to the payoffs of the seen pairs.

    Args:
        pairs: (b,) the bridged pairs.
        meetings: (K, K) votes of each seen pair, the largest being 1.
    """

    pairs: Ints
    meetings: Floats

    def predict(self, X: Features, payoffs: Floats) -> Floats:
        """Return (n, b) payoffs."""
        return self.at(payoffs).values

    def at(self, payoffs: Floats, near: Floats | None = None) -> Tangent:
        """Return the bridge at payoffs (n, n_pairs), with its slope in them.

        Args:
            near: (K,) scores to start from, such as those at mean payoffs; None: zeros.
        """
        lead = self.lead(np.clip(payoffs, -_LARGEST, _LARGEST))
        return Tangent(self, fit_scores(lead, self.meetings, ridge=self.ridge, start=near))

    def lead(self, margins: Floats | csr_array) -> Floats:
        """Return (n, K) the sum over seen pairs of votes times margin of each agent, given (n, n_pairs)."""
        lead = margins @ self.incidence
        return np.asarray(lead if isinstance(lead, np.ndarray) else lead.toarray())

    @cached_property
    def incidence(self) -> csr_array:
        """(n_pairs, K) the votes of each pair: for its first agent, and less those for its second."""
        from scipy.sparse import csr_array

        K = len(self.meetings)
        (j, k), pair = np.triu_indices(K, 1), np.arange(K * (K - 1) // 2)
        votes = self.meetings[j, k]
        cells = np.concatenate([votes, -votes]), (np.tile(pair, 2), np.concatenate([j, k]))
        matrix = csr_array(cells, shape=(len(pair), K))
        matrix.eliminate_zeros()
        return matrix

    @cached_property
    def ridge(self) -> float:
        """The ridge of the scores: it decides nothing that votes decide."""
        return _RIDGE * float(self.meetings[self.meetings > 0].min(initial=1.0))

    @cached_property
    def ends(self) -> tuple[Ints, Ints]:
        """(b,) each the two agents of the bridged pairs."""
        j, k = np.triu_indices(len(self.meetings), 1)
        return j[self.pairs], k[self.pairs]


@dataclass(frozen=True, eq=False)
class Tangent:
    """A bridge at n contexts: its values, and what small changes of the seen margins do to them.

    Args:
        bridge: the bridge.
        scores: (n, K) the scores there.
    """

    bridge: ScoreBridge
    scores: Floats

    @cached_property
    def values(self) -> Floats:
        """(n, b) payoffs of the bridged pairs."""
        j, k = self.bridge.ends
        return np.tanh((self.scores[:, j] - self.scores[:, k]) / 2)

    @cached_property
    def _hessian(self) -> Floats:
        return score_hessian(self.scores, self.bridge.meetings, self.bridge.ridge, least=_LEAST)

    @cached_property
    def _inverse(self) -> Floats:
        return np.linalg.inv(self._hessian)

    @cached_property
    def _slope(self) -> Floats:
        """(n, b) of the bridged payoffs in the difference of two scores."""
        return np.maximum(1 - self.values**2, 0.0) / 2

    def moved(self, rows: Ints, lead: Floats) -> Floats:
        """Return (m, b) how bridged payoffs at contexts rows[i] change with the payoffs there.

        Args:
            lead: (m, K) what the changes of all payoffs, (m, n_pairs), add to `ScoreBridge.lead`.
        """
        (j, k), slope = self.bridge.ends, self._slope
        step = self._steps(rows, lead)
        moved = step[:, j]
        moved -= step[:, k]
        moved *= slope if len(slope) == 1 else slope[rows]
        return np.asarray(moved)

    def _steps(self, rows: Ints, lead: Floats) -> Floats:
        """Return (m, K) how the scores at contexts rows[i] change, half of it."""
        if len(self.scores) == 1:
            return np.asarray(lead @ self._inverse[0] / 2)
        once = len(rows) <= len(self.scores)  # to solve takes a third of the time that an inverse takes
        step, size = np.empty(lead.shape), max(1, _CELLS // lead.shape[1] ** 2)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            matrix, change = (self._hessian if once else self._inverse)[rows[part]], lead[part, :, None]
            step[part] = (np.linalg.solve(matrix, change) if once else matrix @ change)[:, :, 0] / 2
        return step

    def variance(self, covariance: Floats) -> Floats:
        """Return (b,) the variances of the bridged payoffs at one context, given that of `ScoreBridge.lead`, (K, K)."""
        (j, k), [inverse] = self.bridge.ends, self._inverse
        spread = inverse @ covariance @ inverse / 4
        own = spread.diagonal()
        return np.asarray(self._slope[0] ** 2 * (own[j] + own[k] - spread[j, k] - spread[k, j]))


Bridge: TypeAlias = VoterBridge | ScoreBridge  # what gives payoffs to pairs that were never compared


# -- making one -------------------------------------------------------------------------------------------------------


def status_of(log: Feedback) -> Ints:
    """Return (n_pairs,) whether each pair of a log is seen, bridged or unknown."""
    status = pair_status(log.pair_counts.votes)
    return np.asarray(status[np.triu_indices(log.n_agents, 1)], np.int8)


def check_unseen(log: Feedback, unseen: Unseen) -> None:
    """Raise for a choice that is none, and for unseen pairs where these are refused."""
    if unseen not in UNSEEN:
        raise InputError(f"unseen is {unseen!r}; accepted are {', '.join(map(repr, UNSEEN))}.")
    missing = np.flatnonzero(status_of(log) != SEEN)
    if unseen == "refuse" and len(missing):
        raise InputError(
            f"unseen is 'refuse', and {_named(log.agents, missing)} were never compared; collect votes on them, "
            "leave agents out (keep_agents), or use ",
            *(Argument("unseen", "model"), " (bridged by the outcome model) or 'tie'."),
        )


def score_bridge(log: Feedback) -> ScoreBridge | None:
    """Return the bridge of a log's unseen pairs by Bradley-Terry scores; None where nothing is to be bridged."""
    pairs, votes = np.flatnonzero(status_of(log) == BRIDGED), log.pair_counts.votes
    return ScoreBridge(pairs, votes / max(int(votes.max(initial=0)), 1)) if len(pairs) else None


def bridge_of(log: Feedback, models: FoldModels) -> Bridge | None:
    """Return what gives payoffs to a log's bridged pairs: the voters' utilities where the outcome model has them."""
    from nasheval.nuisance.voters import VoterModels
    from nasheval.nuisance.voters_probes import bridge_probes

    scores = score_bridge(log)
    if scores is None or not isinstance(models, VoterModels):
        return scores
    return VoterBridge(scores.pairs, models, bridge_probes(log, list(models.questions), scores.pairs))


def unseen_notes(agents: tuple[str, ...], status: Ints, unseen: Unseen) -> list[Note]:
    """Say what stands behind the payoffs of pairs that were never compared; the one text on it of fit and report.

    Args:
        status: (n_pairs,) whether each pair is seen, bridged or unknown.
        unseen: what was made of them.
    """
    bridged, unknown = (_named(agents, np.flatnonzero(status == code)) for code in (BRIDGED, UNKNOWN))
    notes = []
    if bridged:
        model = unseen == "model"
        how = "bridged through others by the outcome model, and marked" if model else "given as 0, a tie"
        holds = "; intervals hold for the bridge, not for votes on the pair" if model else ""
        notes.append(Note(f"Payoffs of pairs never compared are {how}: {bridged}{holds}.", "bridged-pairs"))
    if unknown:
        text = "Nothing connects some pairs, so that both sides stay among the winners: no vote tells which is better."
        notes.append(Note(f"{text} They are given as 0: {unknown}.", "unknown-pairs"))
    return notes


def _named(agents: tuple[str, ...], pairs: Ints) -> str:
    """Return how many pairs, and the first three by name; nothing where there are none."""
    j, k = np.triu_indices(len(agents), 1)
    names = ", ".join(f"{agents[j[p]]} and {agents[k[p]]}" for p in pairs[:3])
    return f"{len(pairs):,} pair{'s' if len(pairs) > 1 else ''} (such as {names})" if len(pairs) else ""


# -- what else is known of unseen pairs -------------------------------------------------------------------------------


def allowed_by_transitivity(margin: Floats, seen: Bools) -> tuple[Floats, Floats]:
    """Return (K, K) bounds on every margin that hold whatever transitive voters gave the seen ones.

    For margins a_j and a_k against a common third these are a_j - a_k - 1 and a_j - a_k + 1, within [-1, 1]; through
    several agents each step costs one more: the lower bound is 1 less the shortest path of lengths 1 - margin.

    Args:
        margin: (K, K) margins, antisymmetric.
        seen: (K, K) which of them are known.
    """
    shortest = np.where(seen, 1.0 - margin, np.inf)  # scipy's shortest_path takes lengths near 0 for missing edges
    for middle in range(len(shortest)):
        np.minimum(shortest, shortest[:, middle, None] + shortest[None, middle, :], out=shortest)
    lower = np.maximum(1.0 - shortest, -1.0)
    np.fill_diagonal(lower, 0.0)
    return lower, -lower.T


def weakest_link(strength: Floats) -> Floats:
    """Return (K, K) the largest, over paths, of the least strength along the path, given strengths (K, K)."""
    widest = strength.copy()
    for middle in range(len(widest)):
        np.maximum(widest, np.minimum(widest[:, middle, None], widest[None, middle, :]), out=widest)
    return widest


def pair_matrix(
    upper: npt.NDArray[_Scalar], size: int, lower: npt.NDArray[_Scalar] | None = None
) -> npt.NDArray[_Scalar]:
    """Return the (size, size) matrix of values of pairs (j, k) and (k, j), j < k, (n_pairs,) each; None: the same."""
    matrix, (j, k) = np.zeros((size, size), upper.dtype), np.triu_indices(size, 1)
    matrix[j, k], matrix[k, j] = upper, upper if lower is None else lower
    matrix[matrix == 0] = 0  # no negative zeros
    return matrix
