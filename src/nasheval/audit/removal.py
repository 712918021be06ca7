"""The mean payoffs of a group without some votes, with the models of nuisances as they are: fast, and nearly a refit.

A vote that goes takes its correction with it. Where it was all of its context ("draws"), the context goes too; where
others share its context or menu, these count for more. Were nuisances fitted again, a propensity would fall with the
votes of its menu, and predicted verdicts would move to those that are left. Both cancel but for a term: the mean
residual of the votes that are left counts as much as that of all votes did,

    mean = plug-in + sum over the menus of a pair of H / n times (sum of corrections left) / (sum of weights left),

with H the weights 1 / e of all votes of the pair in the menu. With half of a pair's votes gone that still holds, which
corrections over the old propensities would not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums, offsets_of, runs
from nasheval.audit.margins import Game, Margin, game_of, margins
from nasheval.audit.search import Items, Standings
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import Regularizer
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.inference import GroupPayoff
from nasheval.payoff.pseudo import PseudoOutcomes

_PREDICTED = 1 << 24  # plug-in values kept at contexts that may go
_LOOKED_UP = 1000  # contexts whose plug-in is looked up at a time, those of the most influential items
_NOTHING = 1e-9  # weight that is none, but for rounding


def votes_of(log: Feedback) -> Ints:
    """Return (n_records,) the vote, a record of the log as it was given, that each record was cut from."""
    return np.arange(log.n_records) if log.ballots is None else log.ballots.verdicts.record


@dataclass(frozen=True, eq=False)
class _Without:
    """What is left when some votes go.

    Args:
        rest: (units,) weight left.
        scale: (units,) how much more what is left counts.
        lost: (m,) the records that go.
        residual: (P,) mean residual of what is left; 0 where nothing is.
        renewed: (P,) by how much its weights rise.
        votes: (n_pairs,) verdicts left.
        dropped: contexts that go.
    """

    rest: Floats
    scale: Floats
    lost: Bools
    residual: Floats
    renewed: Floats
    votes: Ints
    dropped: Ints


class _Rows:
    """Rows by their labels, (v,)."""

    def __init__(self, label: Ints, size: int) -> None:
        self.order = np.argsort(label, kind="stable")
        self.starts = offsets_of(np.bincount(label, minlength=size))

    def of(self, labels: Ints) -> Ints:
        """Return the rows that have some labels."""
        return self.order[runs(self.starts[labels], (self.starts[labels + 1] - self.starts[labels]).astype(np.int64))]


class Removal:
    """The verdicts of a group, and its means without some of its votes.

    Of its m records, `vote` is the record of the log as given, `unit` what it shares its weight with (its context under
    "draws", else its menu at its context), and `weight` how much it counts. Of its v verdicts, `row` is the record,
    `pair` the pair, `column` the pair in its menu, `correction` and `lift` what it adds and how much it weighs.

    With `even`, votes of a menu are ranked as if all weighed alike. A refit moves propensities to where votes are
    left, so that those that weigh most now do not do so for long.
    """

    def __init__(self, pseudo: PseudoOutcomes, payoff: GroupPayoff, omega: Regularizer, *, even: bool = False) -> None:
        log, estimand = pseudo.fit.log, pseudo.estimand
        self.pseudo, self.group, self.omega, self.even = pseudo, payoff, omega, even
        self.contexts = np.flatnonzero(payoff.inside & pseudo.used)
        self.draws = log.design == "draws"
        sizes = np.diff(log.context_offsets)[self.contexts].astype(np.int64)
        records = runs(log.context_offsets[self.contexts], sizes)
        first, last = estimand.starts[self.contexts], estimand.starts[self.contexts + 1]
        rows = runs(first, (last - first).astype(np.int64))
        self.vote, self.weight = votes_of(log)[records], log.records.weights[records]
        place = np.repeat(np.arange(len(self.contexts)), sizes)
        self.place = place
        cell = place if self.draws else place * np.int64(len(log.menus)) + log.menus.of_record[records]
        self.unit = place if self.draws else np.unique(cell, return_inverse=True)[1]
        self.total = bin_sums(self.unit, self.weight, int(self.unit.max(initial=-1)) + 1)
        self.row = np.searchsorted(records, estimand.record[rows])
        self.pair, self.column = estimand.column[rows], log.menus.column_of_verdict[rows]
        self.correction, self.lift = estimand.correction[rows], estimand.weight[rows]
        self.columns = len(log.menus.columns)
        self._gathered = np.full(len(self.contexts), -1)
        self._kept = np.zeros((0, pseudo.n_pairs))

    @property
    def n(self) -> int:
        """Number of contexts of the group that have a pseudo-outcome."""
        return len(self.contexts)

    @cached_property
    def sums(self) -> tuple[Floats, Floats]:
        """(P,) twice: the corrections and the weights of each column."""
        return bin_sums(self.column, self.correction, self.columns), bin_sums(self.column, self.lift, self.columns)

    @cached_property
    def _evened(self) -> Floats:
        """(v,) what makes all verdicts of a column weigh as their mean."""
        mean = self.sums[1] / np.maximum(np.bincount(self.column, minlength=self.columns), 1)
        return np.divide(mean[self.column], self.lift, out=np.zeros(len(self.lift)), where=self.lift > 0)

    @cached_property
    def mean(self) -> Floats:
        """(n_pairs,) the means of all votes, those of the leaderboard."""
        return self.group.moments.mean

    @cached_property
    def plugin_mean(self) -> Floats:
        """(n_pairs,) the plug-in part of the means of compared pairs."""
        return self.mean - bin_sums(self.pair, self.correction, len(self.mean)) / self.n

    def without(self, gone: Bools) -> Game:
        """Return the game without some votes, (n_votes,) booleans; without none that of the leaderboard."""
        K = len(self.group.agents)
        if not gone.any():
            return game_of(self.group.estimate, self.group.present, self.omega)
        mean, votes = self.means(gone)
        present = pair_matrix(votes, K).sum(axis=1) > 0
        if self.group.allowed_agents is not None:
            present &= self.group.allowed_agents
        return game_of(pair_matrix(mean, K, -mean), present, self.omega)

    def means(self, gone: Bools) -> tuple[Floats, Ints]:
        """Return (n_pairs,) means and numbers of verdicts without some votes, (n_votes,) booleans."""
        without = self._sums(gone)
        (_, lift), mean = self.sums, self.plugin_mean.copy()
        pair, dropped = self.pseudo.fit.log.menus.columns.pair, without.dropped
        if len(dropped) and len(dropped) < self.n:
            mean -= self.plugin_less_mean(dropped).sum(axis=0) / (self.n - len(dropped))
        mean += bin_sums(pair, lift / self.n * without.residual, len(mean))
        return self._bridged(mean), without.votes

    def _sums(self, gone: Bools) -> _Without:
        """Return what is left of the sums of each column; only units that lose a vote are looked at."""
        out = self._records(gone)
        touched = np.unique(self.unit[out])
        rest = self.total.copy()
        np.subtract.at(rest, self.unit[out], self.weight[out])
        mass, left = self._mass(self.total[touched]), self._mass(rest[touched])
        empty = left <= _NOTHING * mass
        scale = np.ones(len(self.total))
        scale[touched] = np.where(empty, 0.0, mass / np.where(empty, 1.0, left))
        rows, lost = self._rows_by_unit.of(touched), np.zeros(len(self.vote), bool)
        lost[out] = True
        lost_row = lost[self.row[rows]]
        change = np.where(lost_row, 0.0, scale[self.unit[self.row[rows]]]) - 1.0
        column, size = self.column[rows], self.columns
        sums = [
            old + bin_sums(column, each[rows] * change, size)
            for old, each in zip(self.sums, (self.correction, self.lift), strict=True)
        ]
        votes = self._count - np.bincount(self.pair[rows[lost_row]], minlength=len(self.mean))
        known = sums[1] > _NOTHING * self.sums[1]
        residual = np.divide(sums[0], sums[1], out=np.zeros(size), where=known)
        renewed = np.divide(self.sums[1], sums[1], out=np.ones(size), where=known)
        dropped = touched[empty] if self.draws else touched[:0]
        return _Without(rest, scale, lost, residual, renewed, votes, dropped)

    def _mass(self, weight: Floats) -> Floats:
        """Return what weights of a unit are divided by."""
        return weight if self.draws else np.maximum(weight, 1.0)

    def _records(self, gone: Bools) -> Ints:
        """Return the records of the group that go with some votes."""
        votes = np.flatnonzero(gone)
        first, last = np.searchsorted(self.vote, votes), np.searchsorted(self.vote, votes, side="right")
        return runs(first, last - first)

    @cached_property
    def _count(self) -> Ints:
        return np.bincount(self.pair, minlength=len(self.mean))

    @cached_property
    def _rows_by_unit(self) -> _Rows:
        return _Rows(self.unit[self.row], len(self.total))

    @cached_property
    def _rows_by_pair(self) -> _Rows:
        return _Rows(self.pair, len(self.mean))

    def plugin_less_mean(self, places: Ints) -> Floats:
        """Return (len(places), n_pairs) the plug-in at contexts of the group, less its mean; zeros beyond a limit."""
        new = places[self._gathered[places] < 0]
        room = max(0, _PREDICTED // max(1, self._kept.shape[1]) - len(self._kept))
        if len(new := new[:room]):
            self._gathered[new] = len(self._kept) + np.arange(len(new))
            self._kept = np.concatenate([self._kept, self.pseudo.plugin(self.contexts[new]) - self.plugin_mean])
        at = self._gathered[places]
        return self._kept[at] * (at >= 0)[:, None] if len(self._kept) else np.zeros((len(places), len(self.mean)))

    def _look_up(self, items: Items, wanted: Ints) -> None:
        """Predict the plug-in at contexts that items may take along, those of the most wanted first."""
        number = np.full(items.size + 1, len(wanted))
        number[wanted] = np.arange(len(wanted))
        number[-1] = len(wanted)
        at = number[items.of_vote[self.vote]]
        order = np.argsort(at, kind="stable")[: int((at < len(wanted)).sum())]
        self.plugin_less_mean(np.unique(self.place[order[:_LOOKED_UP]]))

    def _bridged(self, mean: Floats) -> Floats:
        """Return means with those of bridged pairs moved as the compared ones move them."""
        bridge = self.pseudo.estimand.bridge
        if bridge is None:
            return mean
        new, old = (bridge.at(each[None]).values[0] for each in (mean, self.mean))
        mean[bridge.pairs] = self.mean[bridge.pairs] + new - old
        return mean

    def _seen_slope(self, slope: Floats) -> Floats:
        """Return (n_pairs,) a slope in all means as one in those of compared pairs, which move the bridged ones."""
        bridge = self.pseudo.estimand.bridge
        if bridge is None or not slope[bridge.pairs].any():
            return slope
        K = len(self.group.agents)
        moved = bridge.at(self.mean[None]).moved(np.zeros(K, np.int64), np.eye(K))
        seen = slope + bridge.incidence @ (moved @ slope[bridge.pairs])
        seen[bridge.pairs] = 0.0
        return np.asarray(seen)

    def margins(self, standings: Standings) -> list[Margin]:
        """Return how far each agent is from entering or leaving the winner set of a game."""
        assert isinstance(standings, Game)
        return margins(standings, self.omega)

    def deserted(self, items: Items) -> list[tuple[int, Ints]]:
        """Return agents whose votes are few items, with these."""
        j, k = np.triu_indices(len(self.group.agents), 1)
        found = []
        for agent in np.flatnonzero(self.group.present):
            own = ((j == agent) | (k == agent))[self.pair]
            item = np.unique(items.of_vote[self.vote[self.row[own]]])
            if len(item) and item[0] >= 0:
                found.append((int(agent), item))
        return found

    def effects(self, margin: Margin, gone: Bools, items: Items) -> Floats:
        """Return (items,) how much a margin changes, to first order, when each item goes beside the votes gone."""
        slope = self._seen_slope(margin.slope)
        if not self.draws:
            return self._effects(slope, gone, items)
        effect = self._effects(slope, gone, items)
        strong = np.flatnonzero(effect < 0)
        self._look_up(items, strong[np.argsort(effect[strong], kind="stable")[:_LOOKED_UP]])
        return self._effects(slope, gone, items)

    def _effects(self, slope: Floats, gone: Bools, items: Items) -> Floats:
        """Return (items,) effects; of contexts whose plug-in was looked up, with it."""
        without, rows = self._sums(gone), self._rows_by_pair.of(np.flatnonzero(slope))
        item = items.of_vote[self.vote[self.row[rows]]]
        rows = rows[~without.lost[self.row[rows]] & (item >= 0)]
        column, record = self.column[rows], self.row[rows]
        own = (self.correction[rows] - self.lift[rows] * without.residual[column]) * without.renewed[column]
        own *= without.scale[self.unit[record]] * slope[self.pair[rows]]
        if self.even:
            own *= self._evened[rows]
        records, at = np.unique(record, return_inverse=True)
        of_record = bin_sums(at, own, len(records))
        if self.draws:
            of_record += self._plugin_effects(slope, records)
        return self._by_item(records, of_record, without, items)

    def _plugin_effects(self, slope: Floats, records: Ints) -> Floats:
        """Return what each record has of the plug-in at its context, where that was looked up."""
        at = self._gathered[self.place[records]]
        if not len(self._kept):
            return np.zeros(len(records))
        return (self._kept @ slope)[at] * (at >= 0) * self.weight[records] / self.total[self.unit[records]]

    def _by_item(self, records: Ints, of_record: Floats, without: _Without, items: Items) -> Floats:
        """Return (items,) the change when each goes: what it has, and what its unit's others gain."""
        key = self.unit[records] * np.int64(items.size) + items.of_vote[self.vote[records]]
        cells, at = np.unique(key, return_inverse=True)
        unit = cells // items.size
        own, weight = bin_sums(at, of_record, len(cells)), bin_sums(at, self.weight[records], len(cells))
        whole = bin_sums(self.unit[records], of_record, len(self.total))[unit]
        mass, others = self._mass(without.rest[unit]), self._mass(without.rest[unit] - weight)
        gain = np.divide(mass, others, out=np.zeros(len(cells)), where=others > _NOTHING * mass)
        return bin_sums(cells % items.size, (whole - own) * gain - whole, items.size) / self.n
