"""Outcome models of any kind that meet new agents: their own answers stay, and utilities are learned on top.

A fitted model answers the columns of the menus that it knows. For the others a Bradley-Terry score s_k(x) of each known
agent is fitted to the model's own margins at x (`nasheval.game.scores`), the newcomers' scores are learned from their
votes (`nasheval.nuisance.newcomers`, with one voter), and the margin of two agents is tanh((s_j(x) - s_k(x)) / 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nasheval.arrays import Array, Floats, Ints, n_pairs, offsets_of
from nasheval.feedback.growing import Fitted
from nasheval.feedback.log import Feedback
from nasheval.feedback.menus import ORDER, MenuCatalogue
from nasheval.feedback.partition import Zero
from nasheval.game.scores import fit_scores
from nasheval.nuisance.learners import Features, FoldModels, cells_of
from nasheval.nuisance.meeting import Meeting
from nasheval.nuisance.newcomers import Ground, learn_newcomers
from nasheval.nuisance.voters_records import Kind, Question, Table

_LARGEST = 0.99  # margins beyond it are scored as this one
_RIDGE = 1e-4  # of the scores, in votes of the commonest pair
_CELLS = 1 << 22  # margins that are scored at a time


@dataclass(frozen=True, eq=False)
class ExtendedModels:
    """Models of an earlier log that answer for the columns of a later one; F folds, K known agents, N newcomers.

    Args:
        base: the fitted models.
        before: the menus whose columns they answer.
        mass: (menus of `before`,) how often each was asked.
        meetings: (K, K) votes of each pair then, the largest being 1.
        menus: whose columns are answered now; the K known agents come first.
        start: (F, K) scores near which those at a context lie.
        intercept, share, slope: (F, N), (F, N, K) and (F, N, q) as in `Newcomers`; features are those for networks.
    """

    base: FoldModels
    before: MenuCatalogue
    mass: Floats
    meetings: Floats
    menus: MenuCatalogue
    start: Floats
    intercept: Floats
    share: Floats
    slope: Floats

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, P) mu^m_jk."""
        own, scored = np.asarray(self.base.predict(X, fold), np.float64), np.flatnonzero(self.source == -1)
        values = own[:, np.maximum(self.source, 0)]
        for place, (several, weight) in self._pooled.items():
            values[:, place] = own[:, several] @ weight
        if len(scored):
            j, k = self.menus.columns.j[scored], self.menus.columns.k[scored]
            s = self._scores(X, fold, own)
            values[:, scored] = np.tanh((s[:, j] - s[:, k]) / 2)
        return values

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) predictions at rows[i] of X and column columns[i] only."""
        values, source = np.empty(len(rows)), self.source[columns]
        asked = np.flatnonzero(source >= 0)
        values[asked] = cells_of(self.base, X, fold, rows[asked], source[asked])
        others = np.flatnonzero(source < 0)
        contexts, place = np.unique(rows[others], return_inverse=True)
        step = max(1, _CELLS // max(1, len(self.before.columns), len(self.source)))
        for first in range(0, len(contexts), step):
            mine = np.flatnonzero((place >= first) & (place < first + step))
            part = self.predict(X[contexts[first : first + step]], fold)
            values[others[mine]] = part[place[mine] - first, columns[others[mine]]]
        return values

    def _scores(self, X: Features, fold: int, own: Floats) -> Floats:
        """Return (n, K + N) scores, given (n, columns of `before`) margins."""
        known = scores_of(own, self.before, self.meetings, self.start[fold])
        new = known @ self.share[fold].T + self.intercept[fold] + X.network @ self.slope[fold].T
        return np.concatenate([known, new], axis=1)

    @cached_property
    def source(self) -> Ints:
        """(P,) the column of `before` that answers each column; -1: by scores, -2: by several columns."""
        return self._sources[0]

    @property
    def _pooled(self) -> dict[int, tuple[Ints, Floats]]:
        """The columns of `before` that answer a column together, with their weights."""
        return self._sources[1]

    @cached_property
    def _sources(self) -> tuple[Ints, dict[int, tuple[Ints, Floats]]]:
        K, old, new = self.before.n_agents, self.before.columns, self.menus.columns
        place = {_key(self.before, m): m for m in range(len(self.before))}
        same = np.array([place.get(_key(self.menus, m), -1) for m in range(len(self.menus))], np.int64)
        within = np.arange(len(new)) - new.offsets[new.menu]
        source = np.where(same[new.menu] >= 0, old.offsets[same[new.menu]] + within, -1)
        left = np.flatnonzero((source < 0) & (new.k < K))
        several: dict[int, tuple[Ints, Floats]] = {}
        if not len(left):
            return source, several
        pair = new.j[left] * K + new.k[left]
        order = np.argsort(old.j * K + old.k, kind="stable")
        keys = (old.j * K + old.k)[order]
        starts, ends = np.searchsorted(keys, pair), np.searchsorted(keys, pair, side="right")
        for column, start, end in zip(left.tolist(), starts.tolist(), ends.tolist(), strict=True):
            columns = order[start:end]
            if len(columns) == 1:
                source[column] = columns[0]
            elif len(columns):
                weight = self.mass[old.menu[columns]]
                several[column] = columns, weight / weight.sum()
                source[column] = -2
        return source, several

    def to_arrays(self) -> dict[str, Array]:
        """Return all but the fitted models and the menus of now as plain arrays, for a file."""
        return {
            "before_offsets": self.before.offsets,
            "before_agents": self.before.agent,
            "before_forms": self.before.form,
            **{name: getattr(self, name) for name in ARRAYS},
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, Array], base: FoldModels, menus: MenuCatalogue) -> ExtendedModels:
        """Return the models that `to_arrays` wrote."""
        own = {name: arrays[name] for name in ARRAYS}
        return ExtendedModels(base=base, before=catalogue_before(arrays), menus=menus, **own)


ARRAYS = ("mass", "meetings", "start", "intercept", "share", "slope")


def catalogue_before(arrays: Mapping[str, Array]) -> MenuCatalogue:
    """Return the menus that the fitted models answer, from what `to_arrays` wrote."""
    nobody = np.zeros(0, np.int32)
    offsets, agents, forms = (arrays[f"before_{name}"] for name in ("offsets", "agents", "forms"))
    return MenuCatalogue(offsets, agents, forms, nobody, len(arrays["meetings"]))


def _key(menus: MenuCatalogue, menu: int) -> tuple[int, ...]:
    return (int(menus.form[menu]), *menus.members(menu).tolist())


def scores_of(mu: Floats, menus: MenuCatalogue, meetings: Floats, near: Floats | None = None) -> Floats:
    """Return (n, K) Bradley-Terry scores that fit the margins (n, columns of some menus), pair by pair.

    Args:
        meetings: (K, K) how much each pair counts.
        near: (K,) scores to start from.
    """
    from scipy.sparse import csr_array

    K, columns = len(meetings), menus.columns
    count = np.bincount(columns.pair, minlength=n_pairs(K))[columns.pair]
    weight, row = meetings[columns.j, columns.k] / count, np.tile(np.arange(len(columns)), 2)
    ends = np.concatenate([columns.j, columns.k])
    incidence = csr_array((np.concatenate([weight, -weight]), (row, ends)), shape=(len(columns), K))
    lead = np.asarray(np.clip(mu, -_LARGEST, _LARGEST) @ incidence)
    return fit_scores(lead, meetings, ridge=_RIDGE, tolerance=1e-7, start=near)


def extended(
    models: FoldModels, before: Feedback, log: Feedback, X: Features, fold: Ints, last: Fitted
) -> ExtendedModels:
    """Return fitted models that answer for the agents and menus that are new in a log.

    Args:
        models: fitted to `before`, an earlier part of the log; or what an earlier update made of such.
        log: all of it, agents of `before` first.
        X: its contexts, encoded.
        fold: (n_contexts,); the models of a fold have seen no context of it.
        last: the last full fit.
    """
    if isinstance(models, ExtendedModels):
        base, menus, mass, meetings = models.base, models.before, models.mass, models.meetings
    else:
        votes = before.pair_counts.votes
        base, menus, meetings = models, before.menus, votes / max(float(votes.max(initial=0)), 1.0)
        mass = np.bincount(menus.of_record, before.records.weights, len(menus)).astype(np.float64)
    folds = int(fold.max()) + 1
    meeting = Meeting.of(log.whole, last)
    ground, start, centre = _ground(base, menus, meetings, X, meeting, folds)
    tables = _tables(meeting)
    learned = learn_newcomers(ground, tables, meeting.count, *meeting.masks(fold, folds))
    level = learned.intercept - learned.slope @ centre
    return ExtendedModels(base, menus, mass, meetings, log.menus, start, level, learned.share, learned.slope)


def _ground(
    base: FoldModels, menus: MenuCatalogue, meetings: Floats, X: Features, meeting: Meeting, folds: int
) -> tuple[Ground, Floats, Floats]:
    """Return what the models say where newcomers were compared, (folds, K) usual scores, and (q,) usual features."""
    elsewhere, there = meeting.elsewhere, meeting.contexts
    first = [scores_of(np.asarray(base.predict(X[elsewhere], f), float), menus, meetings) for f in range(folds)]
    start = np.stack([scores.mean(axis=0) for scores in first])
    u = [scores_of(np.asarray(base.predict(X[there], f), float), menus, meetings, start[f]) for f in range(folds)]
    features = X.network[elsewhere].astype(np.float64)
    centre = features.mean(axis=0)
    size = np.full(folds, ((features - centre) ** 2).sum(axis=1).mean())
    phi = np.broadcast_to(X.network[there] - centre, (folds, len(there), features.shape[1]))
    nothing = np.zeros((folds, 1))
    ground = Ground(
        np.stack(u)[:, :, None], np.stack(first)[:, :, None], nothing, phi, size, np.zeros((folds, 0)),
        np.zeros((folds, len(there), 1)),
    )  # fmt: skip
    return ground, start, centre


def _tables(meeting: Meeting) -> list[Table]:
    """Return the pair verdicts on newcomers as duels, each as two answers that share its weight by its verdict."""
    log, verdicts = meeting.log, meeting.log.verdicts
    new = verdicts.k >= meeting.known  # j < k
    if not new.any():
        return []
    record = verdicts.record[new]
    weight = log.records.weights[record] * 2.0 / log.records.sizes[record] * (verdicts.zero[new] != Zero.CENSORED)
    z, j, k = verdicts.z[new], verdicts.j[new].astype(np.int64), verdicts.k[new].astype(np.int64)
    size = 2 * len(z)
    agents = np.stack([np.stack([j, k], axis=1).ravel(), np.stack([k, j], axis=1).ravel()])
    shares = (weight[:, None] * np.stack([1 + z, 1 - z], axis=1) / 2).ravel()
    context = log.context_of[record]
    return [
        Table(
            question=Question(2, ORDER, Kind.RANKED),
            agents=agents,
            block=np.repeat([[0], [1]], size, axis=1),
            starts=np.ones((2, size), np.int64),
            shape=(),
            outcome=np.zeros(size, np.int64),
            weight=shares.astype(np.float32),
            count=np.tile([1, 0], len(z)),
            offsets=offsets_of(2 * np.bincount(context, minlength=log.n_contexts)),
            name=np.zeros(size, np.int64),
        )
    ]
