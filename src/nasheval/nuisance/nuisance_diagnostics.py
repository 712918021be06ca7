"""How well the nuisances predict what they did not see, and whether every menu could have been asked everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Floats, Ints, n_pairs, readonly
from nasheval.feedback.log import Feedback
from nasheval.files import json_values
from nasheval.nuisance.balance import NeverAsked, PropensityCheck, check_propensities, never_asked, records_at
from nasheval.nuisance.choice import Choice
from nasheval.nuisance.crossfit import FLOOR, NuisanceFit
from nasheval.nuisance.learners import RecordModels

_BINS = 10
_FINE = 4096  # cells of the histogram of propensities, evenly spaced in their logarithm
_SMALLEST = 1e-9
_MOST_CELLS = 1 << 24  # propensities looked at for calibration; more contexts than that are thinned out evenly
_CHUNK_CELLS = 1 << 21
_QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 1.0)
_THIN = 30  # effective votes of a pair below which its correction is mostly noise
_FAR = 0.05  # distance between predicted and observed verdicts that is worth a warning
_NAMED = 3  # pairs that a warning names


@dataclass(frozen=True)
class Calibration:
    """Predictions in up to ten bins of about equal size, lowest first, against what was observed.

    Args:
        predicted: (bins,) mean prediction.
        observed: (bins,) mean of what was observed.
        count: (bins,) number of predictions.
        error: (bins,) standard error of `observed`.
    """

    predicted: Floats
    observed: Floats
    count: Ints
    error: Floats

    @property
    def distance(self) -> float:
        """Mean distance between predicted and observed over all predictions."""
        total = int(self.count.sum())
        return float(self.count @ np.abs(self.predicted - self.observed)) / total if total else 0.0

    def is_off(self, tolerance: Floats | float) -> bool:
        """Tell whether a bin is off by more than the tolerance and more than three standard errors."""
        gap = np.abs(self.predicted - self.observed)
        return bool(((gap > tolerance) & (gap > 3 * self.error)).any())


@dataclass(frozen=True)
class NuisanceDiagnostics:
    """What out-of-fold predictions say about the nuisances of a log.

    Args:
        agents: names of the K agents.
        design: "inclusion" or "draws".
        n_verdicts: number of pair verdicts.
        r2: 1 - squared error of mu / squared deviation from the mean verdict of all; weighted by record.
        r2_within: the same against the mean verdict of each menu and pair: what the context explains.
        log_loss: of mu as a forecast that j wins, P = (1 + mu) / 2, a zero verdict being half a win.
        outcome: calibration of mu against verdicts.
        smallest: smallest propensity of a record, before the floor.
        quantiles: (level, propensity) of the records' propensities, before the floor.
        floor: estimates below this part of their menu's share were raised to it; 0 where propensities are known.
        clipped_share: share of records that were raised.
        propensity: calibration of e over contexts and menus; None where propensities are known only at records.
        choice: which propensity model was chosen and what it wins; None where none was chosen by held-out loss.
        check: where propensities fit worst; None where they are known only at records, or no column can tell.
        never_asked: pairs that were never asked in a group of contexts, though often elsewhere.
        votes: (pairs,) number of verdicts of each pair j < k, in the order of `pair_index`.
        effective: (pairs,) effective number of them, (sum w / e)^2 / sum (w / e)^2.
    """

    agents: tuple[str, ...]
    design: str
    n_verdicts: int
    r2: float
    r2_within: float
    log_loss: float
    outcome: Calibration
    smallest: float
    quantiles: tuple[tuple[float, float], ...]
    floor: float
    clipped_share: float
    propensity: Calibration | None
    choice: Choice | None
    check: PropensityCheck | None
    never_asked: tuple[NeverAsked, ...]
    votes: Ints
    effective: Floats

    @classmethod
    def of(cls, fit: NuisanceFit) -> NuisanceDiagnostics:
        """Measure cross-fitted nuisances."""
        raw, by_record = fit.raw_propensity, isinstance(fit.propensity_models, RecordModels)
        levels = np.quantile(raw, _QUANTILES) if len(raw) else np.full(len(_QUANTILES), np.nan)
        votes, effective = _effective(fit)
        return cls(
            agents=fit.log.agents,
            design=fit.log.design,
            n_verdicts=len(fit.log.verdicts),
            **_outcome_scores(fit),
            smallest=float(levels[0]),
            quantiles=tuple((level, float(value)) for level, value in zip(_QUANTILES, levels, strict=True)),
            floor=0.0 if fit.is_known else FLOOR,
            clipped_share=fit.clipped_share,
            propensity=None if by_record else _propensity_calibration(fit),
            choice=getattr(fit.propensity_models, "choice", None),
            check=getattr(fit.propensity_models, "check", None) if by_record else check_propensities(fit),
            never_asked=never_asked(fit.log),
            votes=votes,
            effective=effective,
        )

    def pair_name(self, pair: int) -> str:
        """Return the names of a pair's agents, given its number."""
        return " and ".join(self.agents[side[pair]] for side in np.triu_indices(len(self.agents), 1))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold; what is not a number becomes None."""
        return dict(json_values(asdict(self)))

    def warnings(self) -> list[str]:
        """Say in words what a reader should know before trusting an estimate."""
        return [*_outcome_warnings(self), *_propensity_warnings(self)]

    def lines(self) -> list[str]:
        """Say how well the outcome model fits, and how well menus overlap."""
        lines = [
            f"Outcome model, {self.n_verdicts:,} verdicts out of fold: R2 {self.r2:.3f}, of it by context "
            f"{self.r2_within:.3f}, log loss {self.log_loss:.3f}"
        ]
        raised = f"{self.clipped_share:.1%} of records raised to {self.floor:g} of their menu's share"
        lines.append(
            f"Propensities ({self.design}): smallest {self.smallest:.4g}, median {dict(self.quantiles)[0.5]:.4g}; "
            f"{raised if self.floor else 'known, none raised'}"
        )
        return lines if self.choice is None else [*lines, f"Propensity model: {self.choice}"]


# -- measuring --------------------------------------------------------------------------------------------------------


def _outcome_scores(fit: NuisanceFit) -> dict[str, Any]:
    log, mu, z = fit.log, fit.mu, fit.log.verdicts.z.astype(np.float64)
    weight, column = log.records.weights[log.verdicts.record], log.menus.column_of_verdict
    error = float(weight @ (z - mu) ** 2)
    of_column = np.bincount(column, weight * z) / np.maximum(np.bincount(column, weight), 1e-300)
    p = np.clip((1 + mu) / 2, 1e-6, 1 - 1e-6)
    loss = -(1 + z) / 2 * np.log(p) - (1 - z) / 2 * np.log1p(-p)
    return {
        "r2": _r2(error, weight, z - np.average(z, weights=weight) if len(z) else z),
        "r2_within": _r2(error, weight, z - of_column[column]),
        "log_loss": float(np.average(loss, weights=weight)) if len(z) else float("nan"),
        "outcome": calibrate(mu, z, weight),
    }


def _r2(error: float, weight: Floats, deviation: Floats) -> float:
    total = float(weight @ deviation**2)
    return 1 - error / total if total > 0 else float("nan")


def calibrate(predicted: Floats, observed: Floats, weight: Floats | None = None) -> Calibration:
    """Return the calibration of predictions, (n,), in bins at their deciles; equal predictions share a bin."""
    w = np.ones(len(predicted)) if weight is None else weight
    edges = np.unique(np.quantile(predicted, np.arange(1, _BINS) / _BINS)) if len(predicted) else np.zeros(0)
    place = np.searchsorted(edges, predicted, side="left")
    weighed = (np.ones_like(w), w, predicted, observed, observed**2)
    sums = np.array([np.bincount(place, v * w, len(edges) + 1) for v in weighed], np.float64)
    return _calibration(sums, np.bincount(place, minlength=len(edges) + 1))


def _calibration(sums: Floats, count: Ints) -> Calibration:
    """Return a calibration from sums over each bin, (5, bins), of w, w^2, w predicted, w observed, w observed^2."""
    sums, count = sums[:, count > 0], count[count > 0]
    total, squares, predicted, observed, second = sums
    mean = observed / total
    spread = np.maximum(second / total - mean**2, 0.0)
    error = np.sqrt(spread * squares) / total
    return Calibration(*map(readonly, (predicted / total, mean, count, error)))


def _propensity_calibration(fit: NuisanceFit) -> Calibration:
    """Compare predicted propensities with how often menus were asked, over contexts and menus, in chunks.

    Under inclusion a cell is a context and a menu; under draws it is a record and a menu, so that a context counts as
    often as it was asked.
    """
    edges = np.geomspace(_SMALLEST, 1.0, _FINE)
    sums, count = np.zeros((5, _FINE + 1)), np.zeros(_FINE + 1, np.int64)
    log, n_menus = fit.log, len(fit.log.menus)
    contexts = np.arange(0, log.n_contexts, max(1, -(-log.n_contexts * n_menus // _MOST_CELLS)))
    for rows, predicted in fit.out_of_fold(fit.propensity_models, n_menus, contexts, _CHUNK_CELLS):
        e, (asked, trials) = predicted.ravel(), _asked(log, contexts[rows])
        place = np.searchsorted(edges, e)
        sums += [np.bincount(place, w, _FINE + 1) for w in (trials, trials, trials * e, asked, asked)]
        count += np.bincount(place, trials, _FINE + 1).astype(np.int64)
    group = np.minimum(np.cumsum(count) * _BINS // max(int(count.sum()) + 1, 1), _BINS - 1)
    merged = np.array([np.bincount(group, row, _BINS) for row in sums], np.float64)
    return _calibration(merged, np.bincount(group, count, _BINS).astype(np.int64))


def _asked(log: Feedback, contexts: Ints) -> tuple[Floats, Floats]:
    """Return, flat, how often each menu was asked at each of some contexts, and how often it could have been."""
    n_menus, row, menu = len(log.menus), *records_at(log, contexts)[:2]
    asked = np.bincount(row * n_menus + menu, minlength=len(contexts) * n_menus).astype(np.float64)
    if log.design == "inclusion":
        return np.minimum(asked, 1.0), np.ones_like(asked)
    return asked, np.repeat(np.bincount(row, minlength=len(contexts)), n_menus).astype(np.float64)


def _effective(fit: NuisanceFit) -> tuple[Ints, Floats]:
    """Return (pairs,) votes and Kish's effective number of votes of each pair."""
    log, size = fit.log, n_pairs(fit.log.n_agents)
    pair = log.menus.columns.pair[log.menus.column_of_verdict]
    weight = (log.records.weights / fit.e)[log.verdicts.record]
    total, squares = np.bincount(pair, weight, size), np.bincount(pair, weight**2, size)
    effective = np.divide(total**2, squares, out=np.zeros(size), where=squares > 0)
    return readonly(np.bincount(pair, minlength=size)), readonly(effective)


# -- saying -----------------------------------------------------------------------------------------------------------


def _outcome_warnings(measured: NuisanceDiagnostics) -> Iterator[str]:
    if not measured.n_verdicts:
        yield "There are no verdicts."
        return
    if measured.r2_within <= 0:
        yield (
            f"The outcome model explains none of what verdicts owe to the context (R2 {measured.r2_within:.3f} against "
            f"each pair's mean): either contexts matter little, or there is too little data to see it."
        )
    if measured.outcome.is_off(_FAR):
        yield (
            f"Predicted verdicts are off by {measured.outcome.distance:.2f} on average (some by more than three "
            f"standard errors); debiased means are free of that as far as propensities are right, the plug-in is not."
        )


def _propensity_warnings(measured: NuisanceDiagnostics) -> Iterator[str]:
    if measured.clipped_share > 0.01:
        yield (
            f"{measured.clipped_share:.0%} of records have a propensity below {measured.floor:g} of their menu's share "
            f"and were raised to it: some menus are hardly ever asked there, and estimates lean on the outcome model."
        )
    if measured.check is not None and measured.check.is_off:
        yield f"{measured.check}. Means are debiased only as far as the outcome model is right there."
    if measured.never_asked:
        named = "; ".join(
            f"{one.first} and {one.second} where {one.column} is {one.group} ({one.expected:,.0f} expected)"
            for one in measured.never_asked[:_NAMED]
        )
        others = len(measured.never_asked) - _NAMED
        yield (
            f"Never asked, though often elsewhere: {named}{f'; and {others:,} more' if others > 0 else ''}. "
            "What is said of them there is the outcome model's guess."
        )
    thin = (measured.votes > 0) & (measured.effective < _THIN)
    if thin.any():
        worst = int(np.flatnonzero(thin)[measured.effective[thin].argmin()])
        yield (
            f"{int(thin.sum()):,} pairs have fewer than {_THIN} effective votes; fewest: {measured.pair_name(worst)}, "
            f"whose {measured.votes[worst]:,} votes count as {measured.effective[worst]:.1f}."
        )
