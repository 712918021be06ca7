"""Whether a model that was updated should be fitted anew: what changed between its last full fit and the votes since.

Three tests, each at a third of 5%, so that one of them calls for a refit by chance in at most 5% of the updates where
nothing changed; and the share of votes since the last full fit, which is a rule and no test.

1. Held-out loss, one-sided: is the squared error of mu higher at the votes since than it was, out of fold, at the votes
   before, pair by pair? Votes on pairs that were asked fewer than five times before do not count, nor do newcomers.
2. Who votes, or about what: does a feature of the contexts have another mean (Bonferroni over features)?
3. What is asked: are other menus drawn, among the agents that were known (chi square, with the design effect of voters
   who give several votes)?

Errors are by units (`Feedback.units`): contexts, or voters where these are held out whole.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, bin_sums
from nasheval.feedback.growing import Fitted
from nasheval.notes import Note, few
from nasheval.payoff.stage1 import Stage1

LEVEL = 0.05  # chance that some test calls for a refit where nothing changed
MOST_NEW = 0.25  # share of votes since the last full fit from which on another one is due
_TESTS = 3
_OFTEN = 5  # verdicts of a pair before, or menus expected, from which on they are compared
_UNITS = 20  # of the votes since, below which a test says nothing


@dataclass(frozen=True)
class Change:
    """What one test says.

    Args:
        name: "held-out loss", "who votes", "what is asked" or "votes since".
        value: how much changed; what of, `text` says.
        p_value: the chance of so much where nothing changed; None for "votes since", and where nothing can be said.
        threshold: of the p-value; of the value for "votes since".
        due: whether it calls for a full refit.
        text: a sentence with the numbers.
    """

    name: str
    value: float | None
    p_value: float | None
    threshold: float
    due: bool
    text: str


@dataclass(frozen=True)
class UpdateReport:
    """What an update brought, and whether a full refit is due; prints as text.

    Args:
        newcomers: agents that are new, and how many votes each has.
        left_out: newcomers with too few votes, and how many each has.
        votes: new votes.
        changes: since the last full fit.
        notes: what else to know.
    """

    newcomers: dict[str, int]
    left_out: dict[str, int]
    votes: int
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def refit_due(self) -> bool:
        """Whether some change calls for a full refit."""
        return any(change.due for change in self.changes)

    @property
    def due_notes(self) -> tuple[Note, ...]:
        """Why a full refit is due, for whoever reads the model later; nothing where none is."""
        why = [change.text for change in self.changes if change.due]
        return (Note(f"A full refit is due: {'; '.join(why)}.", "refit-due"),) if why else ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "notes": list(self.notes), "refit_due": self.refit_due}

    def __str__(self) -> str:
        named = few([f"{name} ({count:,} vote{'s' * (count != 1)})" for name, count in self.newcomers.items()], 8)
        left = few([f"{name} ({count:,})" for name, count in self.left_out.items()], 8)
        lines = [f"{self.votes:,} new votes; " + (f"new agents: {named}" if named else "no new agent")]
        lines += [f"Left out, too few votes: {left}"] if left else []
        lines += [f"- {change.name}: {change.text}" for change in self.changes]
        lines += list(self.notes)
        verdict = "A full refit is due." if self.refit_due else "No full refit is due."
        return "\n".join([*lines, verdict])


def changes_since(stage1: Stage1, since: Fitted) -> tuple[Change, ...]:
    """Return what changed since the last full fit, in an updated Stage 1."""
    later: Bools = np.arange(stage1.log.n_contexts) >= since.contexts
    unit = np.unique(stage1.log.units, return_inverse=True)[1]
    tests = (_loss(stage1, since, later, unit), _contexts(stage1, later, unit), _menus(stage1, since, later, unit))
    return (*tests, _share(stage1, since))


def _share(stage1: Stage1, since: Fitted) -> Change:
    total = stage1.log.n_records
    share = 1 - since.records / max(1, total)
    text = (
        f"{total - since.records:,} of {total:,} votes came after the last full fit ({share:.0%}; due from "
        f"{MOST_NEW:.0%})"
    )
    return Change("votes since", share, None, MOST_NEW, share >= MOST_NEW, text)


def _tested(name: str, value: float, p_value: float, text: str) -> Change:
    threshold = LEVEL / _TESTS
    said = f"{text} (p = {p_value:.2g}; due below {threshold:.2g})"
    return Change(name, value, p_value, threshold, p_value < threshold, said)


def _untold(name: str, why: str) -> Change:
    return Change(name, None, None, LEVEL / _TESTS, False, f"cannot be told: {why}")


# -- the tests --------------------------------------------------------------------------------------------------------


def _loss(stage1: Stage1, since: Fitted, later: Bools, unit: Ints) -> Change:
    """Test whether the squared error of mu is higher than before, pair by pair."""
    from scipy.stats import t as student

    name, fit = "held-out loss", stage1.nuisances
    log, verdicts = fit.log, fit.log.verdicts
    context, pair = log.context_of[verdicts.record], stage1.as_voted.pseudo.pair
    known, new = verdicts.k < since.agents, later[context]
    weight, loss = log.records.weights[verdicts.record], (verdicts.z - fit.mu) ** 2
    size = int(pair.max(initial=-1)) + 1
    before = np.bincount(pair[known & ~new], minlength=size)
    kept = known & (before >= _OFTEN)[pair]
    new_units = len(np.unique(unit[context[kept & new]]))
    if new_units < _UNITS:
        return _untold(name, f"{new_units} contexts or voters with votes on pairs of known agents, fewer than {_UNITS}")
    old = kept & ~new
    mass = bin_sums(pair[old], weight[old], size)
    usual = np.divide(bin_sums(pair[old], (weight * loss)[old], size), mass, out=np.zeros(size), where=mass > 0)
    now = bin_sums(pair[kept & new], weight[kept & new], size)
    total = now.sum()
    off = loss - usual[pair]
    influence = np.where(new, weight / total, -weight * (now / total)[pair] / np.where(mass > 0, mass, 1)[pair]) * off
    influence = np.where(new, influence, influence * np.sqrt(before / np.maximum(before - 1, 1))[pair])[kept]
    drift = float(influence[new[kept]].sum())
    centred = influence - np.where(new[kept], drift * weight[kept] / total, 0.0)
    sums = bin_sums(unit[context[kept]], centred, int(unit.max()) + 1)
    error = float(np.sqrt(sums @ sums * new_units / max(1, new_units - 1)))
    p_value = float(student.sf(drift / error, new_units - 1)) if error > 0 else 1.0
    level = float((now * usual).sum() / total)
    text = (
        f"squared error {level + drift:.3f} at the votes since, {level:.3f} on the same pairs before ({drift:+.3f} ± "
        f"{error:.3f})"
    )
    return _tested(name, drift, p_value, text)


def _contexts(stage1: Stage1, later: Bools, unit: Ints) -> Change:
    """Test whether a feature of the contexts has another mean."""
    name, X = "who votes", stage1.nuisances.X.network
    asked = np.diff(stage1.log.context_offsets) > 0
    names = stage1.encoder.feature_names("network")
    groups = [np.flatnonzero(asked & mask) for mask in (~later, later)]
    units = min(len(np.unique(unit[rows])) for rows in groups)
    if units < _UNITS:
        return _untold(name, f"{units} contexts or voters, fewer than {_UNITS}")
    if not X.shape[1]:
        return _untold(name, "the contexts have no columns")
    p_values = _feature_tests(X[asked], later[asked], unit[asked])
    worst = int(p_values.argmin())
    before, after = (float(X[rows, worst].mean()) for rows in groups)
    p_value = min(1.0, float(p_values[worst]) * len(p_values))
    spread = float(X[asked, worst].std())
    moved = (after - before) / spread if spread > 0 else 0.0
    what = f"{names[worst]}, by {moved:+.2f} standard deviations, of {len(p_values)} features"
    text = f"the largest change is that of {what}"
    return _tested(name, moved, p_value, text)


def _feature_tests(X: Floats, later: Bools, unit: Ints) -> Floats:
    """Return (q,) p-values that the means of two groups of rows are one, rows of a unit taken together.

    Features of two values are tested exactly where every row is a unit of its own.
    """
    from scipy.stats import hypergeom
    from scipy.stats import t as student

    n, m = len(X), int(later.sum())
    centred = X - X.mean(axis=0, dtype=np.float64)
    gap = centred[later].mean(axis=0) - centred[~later].mean(axis=0)
    side = np.where(later, 1 / m, -1 / (n - m))
    names, place = np.unique(unit, return_inverse=True)
    sums = np.stack([bin_sums(place, column, len(names)) for column in (centred * side[:, None]).T])
    fewest = min(len(np.unique(unit[later])), len(np.unique(unit[~later])))
    error = np.sqrt((sums**2).sum(axis=1))
    z = np.divide(np.abs(gap), error, out=np.zeros(len(gap)), where=error > 1e-12)
    p_values = np.asarray(2 * student.sf(z, fewest - 1))
    if len(names) < n:
        return p_values
    for feature in range(X.shape[1]):
        high = X[:, feature] > X[:, feature].min()
        if len(np.unique(X[high, feature])) == 1:
            hits, all_hits = int(high[later].sum()), int(high.sum())
            tails = hypergeom.cdf(hits, n, all_hits, m), hypergeom.sf(hits - 1, n, all_hits, m)
            p_values[feature] = min(1.0, 2 * min(tails))
    return p_values


def _menus(stage1: Stage1, since: Fitted, later: Bools, unit: Ints) -> Change:
    """Test whether the menus of known agents are drawn as before."""
    from scipy.stats import chi2

    name, log = "what is asked", stage1.log
    records, menus = log.records, log.menus
    known = np.maximum.reduceat(records.agent, records.offsets[:-1]) < since.agents
    new = later[log.context_of]
    menu, rows = menus.of_record, np.flatnonzero(known)
    count = np.stack([np.bincount(menu[rows][new[rows] == side], minlength=len(menus)) for side in (False, True)])
    m = int(count[1].sum())
    if m < _UNITS or not count[0].sum():
        return _untold(name, f"{m:,} votes since that compare known agents only, fewer than {_UNITS}")
    expected = count.sum(axis=0) * (m / count.sum())
    bins = (np.cumsum(expected) / _OFTEN).astype(np.int64)
    bins = np.unique(np.minimum(bins, max(0, int(expected.sum() / _OFTEN) - 1)), return_inverse=True)[1]
    table = np.stack([bin_sums(bins, each, int(bins.max()) + 1) for each in count])
    if table.shape[1] < 2:
        return _untold(name, f"{m:,} votes since are too few for two groups of menus")
    fitted = table.sum(axis=1)[:, None] * table.sum(axis=0) / table.sum()
    effect = _design_effect(bins[menu[rows]], unit[log.context_of[rows]], table.shape[1])
    value = float(((table - fitted) ** 2 / fitted).sum() / effect)
    p_value = float(chi2.sf(value, table.shape[1] - 1))
    text = f"chi square {value:.1f} on {table.shape[1] - 1} degrees of freedom, {m:,} votes since on known agents"
    return _tested(name, value, p_value, text)


def _design_effect(code: Ints, unit: Ints, size: int) -> float:
    """Return how many times as much counts of groups vary as those of independent votes, at least 1; by units."""
    n, share = len(code), np.bincount(code, minlength=size) / len(code)
    place = np.unique(unit, return_inverse=True)[1]
    cells, at = np.unique(place.astype(np.int64) * size + code, return_inverse=True)
    count, own = np.bincount(at), np.bincount(place)
    squares = bin_sums(cells % size, count.astype(float) ** 2, size)
    crossed = bin_sums(cells % size, count * own[cells // size].astype(float), size)
    variance = squares - 2 * share * crossed + share**2 * float((own.astype(float) ** 2).sum())
    return max(1.0, float(np.mean(variance / (n * np.maximum(share * (1 - share), 1e-12)))))
