"""The second stage: from pseudo-outcomes to A(x) at any context (Algorithm 1, line "fit a shared payoff regressor")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, get_args

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, as_number
from nasheval.choices import Search
from nasheval.choices import SecondStage as SecondStage
from nasheval.errors import InputError
from nasheval.feedback.links import SEEN
from nasheval.game.checks import games_of
from nasheval.nuisance.learners import Effort, Features, FoldModels, MeanModels
from nasheval.payoff.aggregators import Aggregation
from nasheval.payoff.bridging import Bridge, VoterBridge, bridge_of
from nasheval.payoff.surfaces import (
    Boosting,
    Regressor,
    StyleSurface,
    Surface,
    agent_bins,
    fit_pairs,
    fit_shared,
    with_agents,
)

if TYPE_CHECKING:  # what only fitting needs is imported there: answering starts in half the time
    from nasheval.nuisance.tuning import Problem
    from nasheval.payoff.pseudo import PseudoOutcomes
    from nasheval.payoff.strengths import Strength

SECOND_STAGES: tuple[SecondStage, ...] = get_args(SecondStage)

_CELLS = 1 << 22  # numbers held for one chunk of contexts: 32 MB as float64
_MOST_ROWS = 1 << 27  # (context, pair) rows that a regression on dense Gamma may have
_TUNED_ROWS = 60_000  # (context, pair) rows that the search for its hyperparameters looks at
_TUNED_PAIRS = 3  # pairs that a search for one regressor per pair looks at


@dataclass(frozen=True, eq=False)
class Plugin:
    """The plug-in payoff f(mu(x)), mu averaged over the folds' models.

    Args:
        outcome_models: mu, one model per fold.
        n_folds: number of folds.
        aggregation: f.
    """

    outcome_models: FoldModels
    n_folds: int
    aggregation: Aggregation

    @cached_property
    def _has_mean(self) -> bool:
        return isinstance(self.outcome_models, MeanModels)

    def predict(self, X: Features) -> Floats:
        """Return (n, n_pairs) payoffs, the caller's own."""
        if self._has_mean:
            return self.aggregation.aggregate(self.outcome_models.mean(X))  # type: ignore[attr-defined]
        total = np.asarray(self.outcome_models.predict(X, 0), np.float64)
        for fold in range(1, self.n_folds):
            total = total + self.outcome_models.predict(X, fold)
        return self.aggregation.aggregate(total / self.n_folds)


@dataclass(frozen=True, eq=False)
class Added:
    """Pairs that an update brought (`nasheval.payoff.updated`).

    Args:
        pairs: (a,) their numbers.
        shift: (a,) what is added to their plug-in payoffs before clipping.
        known: agents of the last full fit, K_0; those from this number on are newcomers.
        inherits: whether a newcomer is corrected against agent k by the mean correction of the known agents against k.
    """

    pairs: Ints
    shift: Floats
    known: int
    inherits: bool = False

    def correct(self, payoffs: Floats, corrections: Floats | None, n_agents: int) -> None:
        """Add to plug-in payoffs, (n, n_pairs), what these pairs lack, given what was added to the others."""
        payoffs[:, self.pairs] += self.shift
        if self.inherits and corrections is not None:
            payoffs[:, self.pairs] += self.inherited(corrections, n_agents)

    def inherited(self, corrections: Floats, n_agents: int) -> Floats:
        """Return (n, a) mean corrections of the known agents' pairs, given those of all pairs, (n, n_pairs)."""
        j, k = np.triu_indices(n_agents, 1)
        total, (first, second) = np.zeros((len(corrections), self.known)), (j[self.pairs], k[self.pairs])
        for agent in range(self.known):
            mine, others = np.flatnonzero((j == agent) & (k < self.known)), np.flatnonzero(k == agent)
            total[:, agent] = corrections[:, mine].sum(axis=1) - corrections[:, others].sum(axis=1)
        meets = (first < self.known) & (second >= self.known)
        return np.asarray(total[:, np.where(meets, first, 0)] * (meets / self.known))


@dataclass(frozen=True, eq=False)
class PayoffModel:
    """The estimated game A(x): base surface + strength per pair * learned surface, clipped and made antisymmetric.

    Args:
        agents: names of the K agents.
        form: the second stage that made it.
        status: (n_pairs,) whether each pair was seen, is bridged or unknown (`nasheval.payoff.bridging`).
        plugin: where the surface starts, or None for one that is regressed from scratch.
        surface: what was learned from the pseudo-outcomes, or None.
        strength: how strongly `surface` corrects `plugin` and what that wins; None for other forms.
        bridge: gives payoffs to the bridged pairs; None: they are 0, as those of unknown pairs.
        style: what is taken off, so that payoffs are those at equal style; None: they are as voted.
        added: pairs that an update brought; their payoffs start at the plug-in also where all others are regressed.
    """

    agents: tuple[str, ...]
    form: SecondStage
    status: Ints
    plugin: Plugin | None = None
    surface: Surface | None = None
    strength: Strength | None = None
    bridge: Bridge | None = None
    style: StyleSurface | None = None
    added: Added | None = None

    @cached_property
    def covered(self) -> Bools:
        """(n_pairs,) the pairs that some menu holds."""
        return np.asarray(self.status == SEEN)

    @cached_property
    def strengths(self) -> Floats:
        """(n_pairs,) how strongly each pair is corrected."""
        return np.zeros(len(self.status)) if self.strength is None else self.strength.of_pairs(len(self.status))

    @property
    def n_agents(self) -> int:
        """Number of agents K."""
        return len(self.agents)

    def predict(self, X: Features) -> Floats:
        """Return A(x), (n, K, K): antisymmetric, within [-1, 1], zero on the diagonal."""
        return games_of(self.predict_pairs(X), self.n_agents)

    def predict_pairs(self, X: Features) -> Floats:
        """Return A_jk(x) for j < k, (n, n_pairs), in the order of `pair_index`."""
        chunks = self._chunks(len(X))
        if len(chunks) == 1:
            return self._pairs(X)
        payoffs = np.empty((len(X), len(self.covered)))
        for rows in chunks:
            payoffs[rows] = self._pairs(X[rows])
        return payoffs

    def correction(self, X: Features) -> Floats:
        """Return what is added to the plug-in payoff of each pair before clipping, (n, n_pairs); 0 without one."""
        correction = np.zeros((len(X), len(self.covered)))
        self._correct(correction, X)
        return correction

    def _correct(self, payoffs: Floats, X: Features) -> None:
        """Add to plug-in payoffs, (n, n_pairs), what is learned of the pairs that are corrected."""
        if self.added is None:
            self._learned(payoffs, X)
            return
        learned = np.zeros(payoffs.shape) if self.added.inherits else None
        self._learned(payoffs if learned is None else learned, X)
        if learned is not None:
            payoffs += learned
        self.added.correct(payoffs, learned, self.n_agents)

    def _learned(self, payoffs: Floats, X: Features) -> None:
        """Add what the second stage learned, to (n, n_pairs)."""
        if self.plugin is None or self.surface is None or self.strength is None:
            return
        h, pairs = self.surface.values(X), self.surface.pairs
        if pairs is None:
            h *= self.strengths
            payoffs += h
        else:
            h *= self.strengths[pairs]
            payoffs[:, pairs] += h

    def _pairs(self, X: Features) -> Floats:
        payoffs, bridged = self._plugged(X)
        self._correct(payoffs, X)
        style = None if self.style is None else self.style.predict(X)
        if self.style is not None and style is not None:
            payoffs = self.covered * self.style.equal(payoffs, style)
        np.minimum(np.maximum(payoffs, -1.0, out=payoffs), 1.0, out=payoffs)  # `clip` takes longer to call
        if self.bridge is not None:
            bridged = self.bridge.predict(X, payoffs) if bridged is None else bridged
            if self.style is not None and style is not None and isinstance(self.bridge, VoterBridge):  # as voted
                bridged = self.style.equal(bridged, style[:, self.bridge.pairs])
            payoffs[:, self.bridge.pairs] = np.minimum(np.maximum(bridged, -1.0), 1.0)
        return payoffs

    def _plugged(self, X: Features) -> tuple[Floats, Floats | None]:
        """Return where payoffs start, (n, n_pairs), and the bridged ones, (n, b), where the same voters give both."""
        if self.plugin is None:
            return np.zeros((len(X), len(self.covered))) if self.surface is None else self.surface.predict(X), None
        if self.added is not None and self.surface is not None and self.strength is None:
            payoffs, pairs = np.array(self.surface.predict(X)), self.added.pairs
            payoffs[:, pairs] = self.plugin.predict(X)[:, pairs]
            return payoffs, None
        bridge, aggregation = self.bridge, self.plugin.aggregation
        if isinstance(bridge, VoterBridge) and bridge.models is self.plugin.outcome_models:
            mu, bridged = bridge.models.mean_answers(X, bridge.models.probes, bridge.probes)
            return aggregation.aggregate(mu), bridged
        return self.plugin.predict(X), None

    def _chunks(self, n: int) -> list[slice]:
        columns = 0 if self.plugin is None else len(self.plugin.aggregation.pair)
        step = max(1, _CELLS // max(1, len(self.covered), columns))
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def fit_payoff(
    pseudo: PseudoOutcomes,
    second_stage: SecondStage = "corrected",
    *,
    strength: float | None = None,
    boosting: Boosting | Regressor | None = None,
    tune: Search | None = None,
    effort: Effort | None = None,
) -> PayoffModel:
    """Fit the second stage on pseudo-outcomes.

    Args:
        second_stage: "corrected": the plug-in surface plus what its residuals teach (`nasheval.payoff.corrected`);
            "shared": one regression of Gamma on (x, j, k), Algorithm 1 as printed; "per-pair": one regression of Gamma
            on x per pair, as in the section on the debiased payoff matrix; "none": the plug-in surface alone.
        strength: of "corrected", from 0 to 1, for all pairs; None chooses one per pair on held-out folds.
        boosting: how its trees are boosted; or, for "per-pair", a scikit-learn regressor, of which each pair fits a
            clone.
        tune: how to search for the trees of "shared" and "per-pair" (`tuned_boosting`); None: no search.
    """
    check_second_stage(second_stage, strength, boosting)
    work, fit, aggregation = effort or Effort(), pseudo.fit, pseudo.aggregation
    named = fit.log.agents, second_stage, pseudo.status
    bridge = bridge_of(fit.log, fit.outcome_models) if pseudo.unseen == "model" else None
    plugin = Plugin(fit.outcome_models, fit.n_folds, aggregation)
    if second_stage == "none":
        return PayoffModel(*named, plugin=plugin, bridge=bridge)
    if isinstance(boosting, Boosting | None) and second_stage == "corrected":
        from nasheval.payoff.corrected import learn_correction

        surface, chosen = learn_correction(pseudo, strength=strength, boosting=boosting, effort=work)
        return PayoffModel(*named, plugin=plugin, surface=surface, strength=chosen, bridge=bridge)
    if tune and isinstance(boosting, Boosting | None):
        work = work.share(0.5)
        boosting = tuned_boosting(pseudo, second_stage, tune, work)
    surface = _regressed(pseudo, second_stage, boosting or Boosting(seed=work.seed), work)
    return PayoffModel(*named, surface=surface, bridge=bridge)


def check_second_stage(form: SecondStage, strength: float | None, boosting: object) -> None:
    """Raise an InputError for settings that `fit_payoff` does not take."""
    if form not in SECOND_STAGES:
        raise InputError(f"second_stage is {form!r}; accepted are {', '.join(map(repr, SECOND_STAGES))}.")
    if strength is not None and form != "corrected":
        raise InputError(f"strength is {strength!r}; only second_stage='corrected' has one, and it is {form!r}.")
    if strength is not None and not 0 <= as_number(strength) <= 1:
        raise InputError(f"strength is {strength!r}; accepted is a number from 0 to 1, or None to choose it.")
    if boosting is None or isinstance(boosting, Boosting) or (form == "per-pair" and isinstance(boosting, Regressor)):
        return
    raise InputError(
        f"boosting is {boosting!r:.80} with second_stage={form!r}; accepted are a Boosting, None, and for 'per-pair' a "
        "scikit-learn regressor."
    )


def _regressed(pseudo: PseudoOutcomes, form: SecondStage, boosting: Boosting | Regressor, effort: Effort) -> Surface:
    """Regress dense Gamma on the context, over all contexts that have one and all covered pairs."""
    rows, covered = np.flatnonzero(pseudo.used), pseudo.aggregation.covered
    if not len(rows) or not covered.any():
        raise InputError(f"This log has no records, so second_stage={form!r} has nothing to learn from; give some.")
    if len(rows) * int(covered.sum()) > _MOST_ROWS:
        raise InputError(
            f"second_stage={form!r} regresses on {len(rows):,} contexts x {int(covered.sum()):,} pairs, more than "
            f"{_MOST_ROWS:,} rows; use 'corrected', which needs the observed ones only."
        )
    X, gamma = pseudo.fit.X[rows], pseudo.dense(rows)
    if form == "per-pair" or not isinstance(boosting, Boosting):
        return fit_pairs(X, gamma, covered, boosting, effort)
    surface = fit_shared(X, gamma, covered, boosting, pseudo.fit.log.n_agents)
    effort.advance(1.0)
    return surface


# -- hyperparameters of the regression --------------------------------------------------------------------------------


def tuned_boosting(pseudo: PseudoOutcomes, form: SecondStage, how: Search, effort: Effort) -> Boosting:
    """Search the paper's grid (Table payoff-ht-grid) for the least cross-validated squared error to Gamma.

    Args:
        form: "shared": one regression on (x, j, k); "per-pair": one per pair, judged on those with the most votes.
        how: see `search`.
    """
    from nasheval.nuisance.tuning import PAYOFF_GRID, search

    contexts = pseudo.sampled(_TUNED_ROWS // max(1, int(pseudo.aggregation.covered.sum())), effort.seed)
    problems = (_shared if form == "shared" else _pairs)(pseudo, contexts, pseudo.dense(contexts), effort.seed)
    setting = dict(search(problems, PAYOFF_GRID, how, effort).params)
    return Boosting(
        trees=int(setting.pop("num_iterations")),
        leaves=int(setting.pop("num_leaves")),
        rate=setting.pop("learning_rate"),
        least=int(setting.pop("min_data_in_leaf")),
        seed=effort.seed,
        more=setting,
    )


def _shared(pseudo: PseudoOutcomes, contexts: Ints, gamma: Floats, seed: int) -> list[Problem]:
    from nasheval.nuisance.tuning import Problem

    pairs, K = np.flatnonzero(pseudo.aggregation.covered), pseudo.fit.log.n_agents
    context = np.repeat(contexts, len(pairs))
    table = with_agents(pseudo.fit.X, context, np.tile(pairs, len(contexts)), K)
    params = {"max_bin_by_feature": agent_bins(pseudo.fit.X, K, Boosting().params())["max_bin_by_feature"]}
    label = np.ascontiguousarray(gamma[:, pairs].ravel())
    return [Problem(table, np.arange(len(context)), label, None, "regression", seed, params, context)]


def _pairs(pseudo: PseudoOutcomes, contexts: Ints, gamma: Floats, seed: int) -> list[Problem]:
    from nasheval.nuisance.tuning import Problem

    votes = np.bincount(pseudo.pair, minlength=pseudo.n_pairs)
    X, rows = pseudo.fit.X[contexts], np.arange(len(contexts))
    chosen = np.argsort(-votes, kind="stable")[:_TUNED_PAIRS]
    return [Problem(X, rows, np.ascontiguousarray(gamma[:, p]), seed=seed) for p in chosen if votes[p]]
