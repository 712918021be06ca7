"""Whether a full refit is due: tests that hold their level, find what changed, and say when they cannot tell."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2_contingency, fisher_exact

import nasheval as ne
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.payoff.drift import LEVEL, _design_effect, _feature_tests, changes_since

NAMES = list("abcd")
STRENGTH = np.array([0.0, 0.4, -0.3, 0.2])


def votes(rng, n, *, agents=4, shift=0.0, liked=STRENGTH, share=None, per_voter=0):
    x, language = rng.normal(size=n) + shift, rng.choice(["en", "fi"], n)
    j = rng.choice(agents, n, p=share)
    k = (j + rng.integers(1, agents, size=n)) % agents
    won = rng.random(n) < 1 / (1 + np.exp(liked[k] - liked[j]))
    said = [ne.partition.duel(NAMES[a], NAMES[b], NAMES[a if w else b]) for a, b, w in zip(j, k, won, strict=True)]
    voter = [f"v{i // per_voter}" for i in range(n)] if per_voter else None
    table = pa.table({"x": x, "language": language})
    return ne.Feedback.from_partitions(table, said, design="draws", voter=voter)


def updated(before, more):
    how = {"propensity": "marginal", "second_stage": "none", "folds": 2, "n_jobs": 1, "verbose": False}
    return ne.NashEval(outcome=Intercept(), **how).fit(before).update(more)


def p_values(report):
    return {change.name: change.p_value for change in report.changes}


def test_nothing_changed_is_seldom_called_a_change():
    called = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        report = updated(votes(rng, 300), votes(rng, 60)).update_
        assert None not in [p for name, p in p_values(report).items() if name != "votes since"]
        called += report.refit_due
    assert called <= 4  # of one expected; five or more: 0.3%


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("who votes", {"shift": 1.0}),
        ("what is asked", {"share": [0.7, 0.1, 0.1, 0.1]}),
        ("held-out loss", {"liked": -5 * STRENGTH}),
    ],
)
def test_what_changed_is_named(name, change):
    rng = np.random.default_rng(0)
    model = updated(votes(rng, 600, liked=5 * STRENGTH if "liked" in change else STRENGTH), votes(rng, 150, **change))
    due = {one.name for one in model.update_.changes if one.due}
    assert due == {name}
    assert "A full refit is due" in str(model.update_)
    assert name.split()[0] in str(model.update_)
    [note] = model.stage1_.fitted.notes
    assert note in model.diagnostics().warnings()


def test_a_quarter_of_votes_since_the_last_full_fit_calls_for_one_over_all_updates_together():
    rng = np.random.default_rng(1)
    model = updated(votes(rng, 300), votes(rng, 60))
    assert model.update_.changes[3].value == pytest.approx(60 / 360)
    again = model.update(votes(rng, 60))
    assert again.update_.changes[3].value == pytest.approx(120 / 420)
    assert again.update_.changes[3].due
    assert again.update_.votes == 60


def test_what_cannot_be_told_is_said():
    rng = np.random.default_rng(2)
    newcomer = ne.Feedback.from_partitions(
        pa.table({"x": rng.normal(size=15), "language": ["en"] * 15}), [ne.partition.duel("a", "e", "a")] * 15
    )
    report = updated(votes(rng, 300), newcomer).update_
    assert [change.p_value for change in report.changes] == [None] * 4
    assert not report.refit_due
    assert str(report).count("cannot be told") == 3
    assert report.newcomers == {"e": 15}
    assert report.to_dict()["refit_due"] is False


def test_one_voter_with_half_of_the_votes_is_one_unit():
    """150 new votes at x = 2, all by one voter: no change of who votes can be told from him."""
    rng = np.random.default_rng(3)
    before = votes(rng, 600, per_voter=10)
    more = votes(rng, 150, shift=2.0, per_voter=150)
    change = updated(before, more).update_.changes[1]
    assert change.p_value is None or change.p_value > LEVEL


def test_features_of_two_values_are_tested_exactly():
    rng = np.random.default_rng(4)
    X = (rng.random((80, 1)) < 0.2).astype(float)
    later = np.arange(80) >= 60
    table = [[int((X[:, 0] == v)[side].sum()) for v in (0, 1)] for side in (later, ~later)]
    lower, upper = (fisher_exact(table, alternative=way).pvalue for way in ("less", "greater"))
    assert _feature_tests(X, later, np.arange(80))[0] == pytest.approx(min(1, 2 * min(lower, upper)))


def test_menus_are_compared_by_chi_square():
    rng = np.random.default_rng(5)
    before, more = votes(rng, 600), votes(rng, 200)
    model = updated(before, more)
    count = np.stack(
        [np.bincount(model.stage1_.log.menus.of_record[s], minlength=6) for s in (slice(600), slice(600, None))]
    )
    expected = chi2_contingency(count, correction=False)
    change = model.update_.changes[2]
    assert change.value == pytest.approx(expected.statistic)
    assert change.p_value == pytest.approx(expected.pvalue)


def test_the_design_effect_of_repeated_votes_is_their_number():
    rng = np.random.default_rng(6)
    code = rng.integers(5, size=400)
    assert _design_effect(code, np.arange(400), 5) == pytest.approx(1.0, abs=0.02)
    assert _design_effect(np.repeat(code, 7), np.repeat(np.arange(400), 7), 5) == pytest.approx(7, abs=0.15)


def test_the_changes_of_a_model_can_be_asked_again():
    rng = np.random.default_rng(7)
    model = updated(votes(rng, 300), votes(rng, 60))
    assert changes_since(model.stage1_, model.stage1_.last_fit) == model.update_.changes
