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

from functools import cached_property

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums, runs
from nasheval.audit.margins import Game, Margin, game_of, margins
from nasheval.audit.search import Items, Standings
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import Regularizer
from nasheval.payoff.bridging import pair_matrix
from nasheval.payoff.inference import GroupPayoff
from nasheval.payoff.pseudo import PseudoOutcomes

_PREDICTED = 1 << 24  # plug-in values kept at contexts that may go
_LOOKED_UP = 4000  # contexts whose plug-in is looked up at a time, those of the most influential items
_NOTHING = 1e-9  # weight that is none, but for rounding


def votes_of(log: Feedback) -> Ints:
    """Return (n_records,) the vote, a record of the log as it was given, that each record was cut from."""
    return np.arange(log.n_records) if log.ballots is None else log.ballots.verdicts.record


class Removal:
    """The verdicts of a group, and its means without some of its votes.

    Of its m records, `vote` is the record of the log as given, `unit` what it shares its weight with (its context under
    "draws", else its menu at its context), and `weight` how much it counts. Of its v verdicts, `row` is the record,
    `pair` the pair, `column` the pair in its menu, `correction` and `lift` what it adds and how much it weighs.

    With `even`, votes of a menu are ranked as if all weighed alike. A refit moves propensities to where votes are
    left, so that those that weigh most now do not do so for long.
    """

    def __init__(
        self, pseudo: PseudoOutcomes, payoff: GroupPayoff, omega: Regularizer, *, even: bool = False
    ) -> None:
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
        left, scale, dropped = self.left(gone)
        shares = np.where(left, scale[self.unit[self.row]], 0.0)
        (_, lift), mean = self.sums, self.plugin_mean.copy()
        corrections = bin_sums(self.column, self.correction * shares, self.columns)
        lifts = bin_sums(self.column, self.lift * shares, self.columns)
        residual = np.divide(corrections, lifts, out=np.zeros(self.columns), where=lifts > _NOTHING * lift)
        pair = self.pseudo.fit.log.menus.columns.pair
        if len(dropped) and len(dropped) < self.n:
            mean -= self.plugin_less_mean(dropped).sum(axis=0) / (self.n - len(dropped))
        mean += bin_sums(pair, lift / self.n * residual, len(mean))
        return self._bridged(mean), np.bincount(self.pair[left], minlength=len(mean))

    def left(self, gone: Bools) -> tuple[Bools, Floats, Ints]:
        """Return (v,) which verdicts are left, (units,) how much more they count, and the contexts that go."""
        out = gone[self.vote]
        rest = self.total - bin_sums(self.unit[out], self.weight[out], len(self.total))
        empty = rest <= _NOTHING * self.total
        if not self.draws:
            return ~out[self.row], np.maximum(self.total, 1.0) / np.maximum(rest, 1.0), np.zeros(0, np.int64)
        return ~out[self.row], self.total / np.where(empty, self.total, rest), np.flatnonzero(empty & (self.total > 0))

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
        self._look_up(items, np.argsort(self._effects(slope, gone, items), kind="stable")[:_LOOKED_UP])
        return self._effects(slope, gone, items)

    def _effects(self, slope: Floats, gone: Bools, items: Items) -> Floats:
        left, scale, _ = self.left(gone)
        shares = np.where(left, scale[self.unit[self.row]], 0.0)
        corrections, lifts = (
            bin_sums(self.column, each * shares, self.columns) for each in (self.correction, self.lift)
        )
        residual = np.divide(corrections, lifts, out=np.zeros(self.columns), where=lifts > 0)
        renewed = np.divide(self.sums[1], lifts, out=np.ones(self.columns), where=lifts > 0)
        own = (self.correction - self.lift * residual[self.column]) * shares * renewed[self.column]
        own *= self._evened if self.even else 1.0
        of_record = bin_sums(self.row, own * slope[self.pair], len(self.vote))
        if self.draws:
            of_record = of_record + self._plugin_effects(slope, of_record)
        return self._by_item(of_record, gone, items.of_vote, items.size)

    def _plugin_effects(self, slope: Floats, of_record: Floats) -> Floats:
        """Return (m,) what each record has of the plug-in at its context, where that was looked up."""
        known = np.flatnonzero(self._gathered >= 0)
        extra = np.zeros(self.n)
        extra[known] = self._kept[self._gathered[known]] @ slope
        return extra[self.place] * self.weight / self.total[self.unit]

    def _by_item(self, of_record: Floats, gone: Bools, item: Ints, n_items: int) -> Floats:
        """Return (items,) the change when each goes: what it has, and what its unit's others gain."""
        left = np.flatnonzero(~gone[self.vote] & (item[self.vote] >= 0))
        key = self.unit[left] * np.int64(n_items) + item[self.vote[left]]
        cells, at = np.unique(key, return_inverse=True)
        unit, rest = cells // n_items, ~gone[self.vote]
        own, weight = bin_sums(at, of_record[left], len(cells)), bin_sums(at, self.weight[left], len(cells))
        whole = bin_sums(self.unit[rest], of_record[rest], len(self.total))[unit]
        mass = bin_sums(self.unit[rest], self.weight[rest], len(self.total))[unit]
        others = mass - weight
        if not self.draws:
            mass, others = np.maximum(mass, 1.0), np.maximum(others, 1.0)
        gain = np.divide(mass, others, out=np.zeros(len(cells)), where=others > _NOTHING * mass)
        return bin_sums(cells % n_items, (whole - own) * gain - whole, n_items) / self.n
