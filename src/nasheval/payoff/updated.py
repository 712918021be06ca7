"""Stage 1 of a log that has grown, without a full refit: newcomers' utilities, propensities and intervals are new.

What is learned of the agents that were known stays: the outcome models of the folds, and the corrections of their
pairs. Contexts keep their folds, so no model predicts what it has seen. Propensities are those of the whole log, both
periods together, by the same learner; so a newcomer's intervals are from its own votes, debiased by them, as after a
full fit. Pairs with a newcomer start at the plug-in payoff.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums, n_pairs, pair_index, readonly
from nasheval.feedback.growing import Fitted, admissible, grown
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.votes import read_votes
from nasheval.game.scores import fit_scores
from nasheval.nuisance.crossfit import NuisanceFit, continued_folds
from nasheval.nuisance.joining_propensity import Joining
from nasheval.nuisance.learners import Effort, Features, Learner, cells_of
from nasheval.nuisance.propensity import choose_propensity
from nasheval.nuisance.style import fit_style
from nasheval.nuisance.updating import updated_outcome
from nasheval.payoff.aggregators import AnyAggregator, as_asked
from nasheval.payoff.bridging import Unseen, check_unseen
from nasheval.payoff.drift import UpdateReport, changes_since
from nasheval.payoff.pseudo import PseudoOutcomes, pseudo_outcomes
from nasheval.payoff.second_stage import Added, PayoffModel, fit_payoff
from nasheval.payoff.stage1 import Stage1, at_equal_style, check_known
from nasheval.payoff.strengths import Strength
from nasheval.payoff.surfaces import PairSurface, SharedSurface, Surface

_CLEARLY = 1.645  # standard deviations below what known pairs lead to expect, from which on newcomers' scatter counts
_FEWEST = 3  # pairs more than scores, from which on it is known how much pairs depart from scores
_RIDGE = 0.01  # of these scores
_ROWS = 1 << 12  # contexts whose corrections are held at a time


def votes_like(votes: Any, stage1: Stage1) -> Feedback:
    """Return votes as a log; a path or a table is read with the columns that a Stage 1 knows."""
    if isinstance(votes, Feedback):
        return votes
    columns = stage1.encoder.columns
    categories = [column.name for column in columns if column.kind == "categorical"]
    text = list(stage1.encoder.texts) or None
    return read_votes(votes, context=[column.name for column in columns], text=text, categorical=categories)


def update_stage1(
    stage1: Stage1,
    log: Feedback,
    *,
    min_votes: int = 0,
    propensity: Any = "auto",
    aggregator: AnyAggregator = "auto",
    unseen: Unseen = "model",
    adjust: Sequence[str] | str = (),
    effort: Effort | None = None,
) -> tuple[Stage1, UpdateReport]:
    """Return the Stage 1 of its log with more votes, what is new, and whether a full refit is due.

    Args:
        stage1: as fitted, or updated before.
        log: votes that it has not seen.
        min_votes: newcomers with fewer votes are left out.
        propensity, aggregator, unseen, adjust: as in `fit_stage1`.
    """
    work, old = effort or Effort(), stage1.as_voted
    kept, left_out = admissible(stage1.log, log, min_votes=min_votes)
    kept, X_more = stage1.admitted(kept)
    whole = grown(stage1.log, kept)
    check_unseen(whole, unseen)
    joined, aggregator = as_asked(whole, aggregator)
    check_known(joined, propensity)
    X, fold = (
        _both(old.nuisances.X, X_more),
        continued_folds(whole, old.nuisances.fold, old.nuisances.n_folds, seed=work.seed),
    )
    outcome = updated_outcome(old.nuisances.outcome_models, old.nuisances.log, joined, X, fold, old.last_fit)
    train = np.arange(old.nuisances.n_folds)[:, None] != fold[None, :]
    asked = _propensity(propensity, joined, old.last_fit)
    propensities = asked.fit(_of_contexts(joined), X, train, work)
    nuisances = NuisanceFit(joined, X, fold, outcome, propensities, work.n_jobs)
    pseudo = pseudo_outcomes(_with_known_mu(nuisances, old), aggregator, unseen=unseen)
    payoff = _payoff(old.payoff, pseudo, old.last_fit)
    fields: dict[str, Any] = {"nuisances": nuisances, "pseudo": pseudo, "payoff": payoff}
    updated = stage1.succeeded(kept, **fields, fitted=old.last_fit)
    report = _report(stage1, updated, kept, left_out)
    updated = replace(updated, fitted=replace(old.last_fit, notes=tuple(map(str, report.due_notes))))
    style = fit_style(nuisances, adjust) if adjust else None
    return at_equal_style(updated, style), report


def _report(before: Stage1, after: Stage1, more: Feedback, left_out: dict[str, int]) -> UpdateReport:
    """Return what is new, and what changed since the last full fit."""
    votes = np.bincount(after.log.records.agent, minlength=len(after.agents)).tolist()
    fresh = dict(zip(after.agents[len(before.agents) :], votes[len(before.agents) :], strict=True))
    notes = (*before.remarks(more), *_alike(before.agents, fresh))
    return UpdateReport(fresh, left_out, more.n_records, changes_since(after, before.last_fit), notes)


def _alike(known: Sequence[str], fresh: Iterable[str]) -> Iterator[str]:
    """Yield a note for each newcomer whose name differs from that of a known agent by case or spaces only."""
    plain = {"".join(name.split()).casefold(): name for name in map(str, known)}
    for name in map(str, fresh):
        if (same := plain.get("".join(name.split()).casefold())) is not None:
            yield f"{name!r} is new, and differs from {same!r} only by case or spaces; rename it if it is the same."


def _propensity(choice: Any, log: Feedback, last: Fitted) -> Learner:
    """Return what learns the propensities of a log that has grown."""
    learner = choose_propensity(choice, log)
    estimated = isinstance(choice, str) and choice == "auto" and log.records.propensity is None
    return Joining(learner, last.agents) if estimated and log.design == "inclusion" else learner


def _of_contexts(log: Feedback) -> Feedback:
    """Return a log that draws its menus with one unit of weight per context.

    Gamma averages the records of a context, so what counts is how often a menu is drawn at a context, not in the log:
    new contexts may have one vote each where the others have twenty.
    """
    if log.design == "inclusion" or log.records.propensity is not None:
        return log
    weight = log.records.weights
    total = np.bincount(log.context_of, weight, log.n_contexts)
    each = weight / total[log.context_of] * (weight.sum() / max(1, int((total > 0).sum())))
    return replace(log, records=log.records.replace(weight=each))


def _both(first: Features, second: Features) -> Features:
    trees, network = (np.concatenate([getattr(X, form) for X in (first, second)]) for form in ("trees", "network"))
    return Features(trees, network, first.categorical, first.names, first.vectors)


def _with_known_mu(fit: NuisanceFit, old: Stage1) -> NuisanceFit:
    """Return the nuisances with mu at the verdicts of the earlier log already there, which spares predicting them.

    Those on agents of an earlier update are predicted anew, since they were learned anew.
    """
    before, log = old.nuisances.log, fit.log
    verdicts, count = log.verdicts, len(before.verdicts)
    same = (before.ballots is None) == (log.ballots is None)
    known = same & (np.arange(len(verdicts)) < count) & (verdicts.k < old.last_fit.agents)
    rows = np.flatnonzero(~known)
    context, column = log.context_of[verdicts.record[rows]], log.menus.column_of_verdict[rows]
    mu = np.empty(len(verdicts))
    mu[known] = old.nuisances.mu[np.flatnonzero(known)] if known.any() else 0.0
    for number in range(fit.n_folds):
        mine = np.flatnonzero(fit.fold[context] == number)
        mu[rows[mine]] = cells_of(fit.outcome_models, fit.X, number, context[mine], column[mine])
    object.__setattr__(fit, "mu", readonly(mu))
    return fit


# -- the second stage -------------------------------------------------------------------------------------------------


def _payoff(old: PayoffModel, pseudo: PseudoOutcomes, last: Fitted) -> PayoffModel:
    """Return the payoffs of all pairs: those that were corrected stay so, the others start at the plug-in."""
    fresh = fit_payoff(pseudo, "none")
    if old.form == "none":
        return fresh
    size = len(fresh.status)
    place = pair_index(*np.triu_indices(old.n_agents, 1), fresh.n_agents)
    strength = None if old.strength is None else _placed_strength(old.strength, place, size)
    surface = None if old.surface is None else _placed_surface(old.surface, place, fresh.n_agents)
    before = np.bincount(pseudo.pair[pseudo.context < last.contexts], minlength=size) > 0
    pairs = np.flatnonzero(fresh.covered & ~before)
    model = replace(fresh, form=old.form, surface=surface, strength=strength)
    return replace(model, added=_added(pseudo, pairs, model, last)) if len(pairs) else model


def _added(pseudo: PseudoOutcomes, pairs: Ints, model: PayoffModel, last: Fitted) -> Added:
    """Return what moves added pairs: mean corrections of known agents, and means of what is left of the residuals.

    Known agents' corrections are taken over unless the newcomers' votes speak against it by more than a standard error.
    """
    place = np.full(pseudo.n_pairs, -1)
    place[pairs] = np.arange(len(pairs))
    rows = np.flatnonzero(place[pseudo.pair] >= 0)
    at, residual, added = (
        place[pseudo.pair[rows]],
        pseudo.residual[rows],
        Added(pairs, np.zeros(len(pairs)), last.agents),
    )
    if model.surface is not None and model.strength is not None:
        contexts, where = np.unique(pseudo.context[rows], return_inverse=True)
        inherited = np.concatenate([
            added.inherited(model.correction(pseudo.fit.X[contexts[first : first + _ROWS]]), model.n_agents)
            for first in range(0, len(contexts), _ROWS)
        ])[where, at]  # fmt: skip
        gain = np.bincount(where, 2 * residual * inherited - inherited**2)
        if len(gain) < 2 or gain.mean() > -gain.std(ddof=1) / np.sqrt(len(gain)):
            added, residual = replace(added, inherits=bool(inherited.any())), residual - inherited
    weight = pseudo.fit.log.records.weights[pseudo.record[rows]]
    return replace(added, shift=_shift(pseudo, place < 0, *_means(at, residual, weight, len(pairs))))


def _shift(pseudo: PseudoOutcomes, known: Bools, mean: Floats, variance: Floats | None) -> Floats:
    """Return (a,) mean residuals of added pairs, shrunk toward nothing.

    They scatter by their sampling variances v_p and by t^2, how much pairs depart from what utilities say of them; each
    is shrunk by t^2 / (t^2 + v_p). t^2 is that of the known pairs around Bradley-Terry (`_departure`), of whom there
    are many, unless the added pairs themselves scatter clearly less.
    """
    if variance is None:
        return np.zeros(len(mean))
    spread, scatter = _departure(pseudo, known), float((mean**2 / variance).sum())
    expected = 1 + spread / variance
    if scatter < float(expected.sum() - _CLEARLY * np.sqrt(2 * (expected**2).sum())):
        spread = max(0.0, (scatter - len(mean)) / float((1 / variance).sum()))
    return np.asarray(spread / (spread + variance) * mean)


def _means(at: Ints, values: Floats, weight: Floats, size: int) -> tuple[Floats, Floats | None]:
    """Return (size,) weighted means of values by place, and their sampling variances; None where these are unknown."""
    mass, squares = bin_sums(at, weight, size), bin_sums(at, weight**2, size)
    mean = np.divide(bin_sums(at, weight * values, size), mass, out=np.zeros(size), where=mass > 0)
    freedom = len(at) - size
    within = float(((values - mean[at]) ** 2).sum()) / freedom if freedom > 0 else 0.0
    return mean, within * squares / mass**2 if within > 0 and (mass > 0).all() else None


def _departure(pseudo: PseudoOutcomes, known: Bools) -> float:
    """Return t^2: how much the mean verdicts of known pairs depart from Bradley-Terry scores, sampling apart.

    By moments: E sum r_p^2 / v_p = m - (K - 1) + t^2 sum 1 / v_p for m pairs of K agents; at least 0.
    """
    K, weight = pseudo.fit.log.n_agents, pseudo.fit.log.records.weights[pseudo.record]
    rows = np.flatnonzero(known[pseudo.pair] & (weight > 0))
    pairs, at = np.unique(pseudo.pair[rows], return_inverse=True)
    mean, variance = _means(at, np.asarray(pseudo.fit.log.verdicts.z[rows], np.float64), weight[rows], len(pairs))
    j, k = (side[pairs] for side in np.triu_indices(K, 1))
    freedom = len(pairs) - (len(np.unique(np.concatenate([j, k]))) - 1)
    if variance is None or freedom < _FEWEST:
        return 0.0
    meetings, lead = np.zeros((K, K)), np.zeros(K)
    meetings[j, k] = meetings[k, j] = bin_sums(at, weight[rows], len(pairs))
    np.add.at(lead, j, meetings[j, k] * mean)
    np.subtract.at(lead, k, meetings[j, k] * mean)
    scores = fit_scores(lead[None], meetings, ridge=_RIDGE, tolerance=1e-6 * max(1.0, float(meetings.sum())))[0]
    off = mean - np.tanh((scores[j] - scores[k]) / 2)
    return max(0.0, (float((off**2 / variance).sum()) - freedom) / float((1 / variance).sum()))


def _placed_strength(strength: Strength, place: Ints, size: int) -> Strength:
    per_pair = np.zeros(size)
    per_pair[place] = strength.of_pairs(len(place))
    return replace(strength, per_pair=tuple(per_pair.tolist()))


def _placed_surface(surface: Surface, place: Ints, n_agents: int) -> Surface:
    """Return a surface of the pairs of more agents, 0 at those with a newcomer."""
    if isinstance(surface, SharedSurface):
        known = np.zeros(n_pairs(n_agents), bool)
        known[place] = surface.known
        return replace(surface, known=known, n_agents=n_agents)
    models: list[Any] = [0.0] * n_pairs(n_agents)
    for pair, model in zip(place.tolist(), surface.models.models[0], strict=True):
        models[pair] = model
    return PairSurface(replace(surface.models, models=(tuple(models),)))
