"""Judges."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import cohen_kappa_score

import nasheval as ne
from nasheval.audit.judges import CROWD, TIES, _alpha, _pair, _slope, judges

from .crowds import fitted, world


def panel(seed=0, n=500, leans=True):
    """Five judges on the same questions: 1 leans to the first, 2 to length, 3 to ties, 4 hardly knows; 0 is plain."""
    rng = np.random.default_rng(seed)
    a = rng.integers(4, size=n)
    b = (a + rng.integers(1, 4, n)) % 4
    skill, x, length = np.linspace(-1, 1, 4), rng.normal(size=n), 6 + rng.normal(size=(n, 2))
    names, tables = np.array(list("abcd")), []
    for judge in range(5):
        here = judge * leans
        logit = (skill[a] - skill[b]) * (0.0 if here == 4 else 1.0)
        logit = logit + 0.9 * (here == 1) + 0.7 * (length[:, 0] - length[:, 1]) * (here == 2)
        winner = np.where(rng.random(n) < expit(logit), "model_a", "model_b")
        winner[rng.random(n) < (0.35 if here == 3 else 0.1)] = "tie"
        columns = {"model_a": names[a], "model_b": names[b], "winner": winner, "x": x, "judge": f"j{judge}"}
        tables.append(pd.DataFrame({**columns, "length_a": 2 ** length[:, 0], "length_b": 2 ** length[:, 1]}))
    table = pd.concat(tables)
    return fitted(ne.read_votes(table, context=["x"], voter="judge", style="length", context_id="x", design="draws"))


def test_leans_are_found_where_they_are():
    found = judges(panel())
    leans = {lean.name: dict(zip(found.judges, found.clear(lean), strict=True)) for lean in found.leans}
    assert list(leans) == [CROWD, "position", "length", TIES]
    assert leans["position"] == {"j0": False, "j1": True, "j2": False, "j3": False, "j4": False}
    assert leans["length"] == {"j0": False, "j1": False, "j2": True, "j3": False, "j4": False}
    assert leans[TIES]["j3"]
    assert leans[CROWD]["j4"]
    said = " ".join(found.lines())
    assert "Lean to the answer shown first: j1 (+0." in said
    assert "Lean to more length: j2" in said
    assert "Call more ties: j3" in said
    assert "Agree with them less: j4" in said
    for table in found.listings():
        assert all(len(row) == len(table.names) + len(table.numbers) for row in table.rows)
    for chart in found.charts():
        assert len(chart.labels) == len(chart.values) == len(chart.lower) == len(chart.upper) == len(chart.marked)
    assert json.loads(json.dumps(found.to_dict()))["judges"] == list(found.judges)


def test_judges_alike_are_not_told_apart():
    audits = [judges(panel(seed, leans=False)) for seed in range(8)]
    assert sum(found.clear(lean).any() for found in audits for lean in found.leans) <= 2


@pytest.mark.parametrize("seed", range(4))
def test_kappa_is_cohens_and_its_interval_that_of_draws(seed):
    rng = np.random.default_rng(seed)
    one = rng.integers(3, size=400)
    other = np.where(rng.random(400) < 0.5, one, rng.integers(3, size=400))
    answer = np.stack([one, other], axis=1)
    pair = _pair(answer, np.full(400, 0.4), ("a", "b"), 0.05)
    assert pair.kappa == pytest.approx(cohen_kappa_score(one, other))
    drawn = [cohen_kappa_score(*answer[rng.integers(400, size=400)].T) for _ in range(600)]
    assert pair.upper - pair.kappa == pytest.approx(1.96 * np.std(drawn), rel=0.15)


def test_alpha_is_krippendorffs():
    """Observed over expected disagreement, pair by pair."""
    rng = np.random.default_rng(0)
    base = rng.integers(3, size=60)
    answer = np.where(rng.random((60, 4)) < 0.7, base[:, None], rng.integers(3, size=(60, 4)))
    answer[rng.random((60, 4)) < 0.3] = -1
    observed = matched = 0.0
    values = []
    for unit in answer:
        said = unit[unit >= 0]
        if len(said) > 1:
            values.extend(said)
            differ = sum(x != y for i, x in enumerate(said) for k, y in enumerate(said) if i != k)
            observed, matched = observed + differ / (len(said) - 1), matched + len(said)
    differ = sum(x != y for i, x in enumerate(values) for k, y in enumerate(values) if i != k)
    expected = 1 - (observed / matched) / (differ / (matched * (matched - 1)))
    alpha, low, high = _alpha(answer, 0.05, 0)
    assert alpha == pytest.approx(expected)
    assert low < alpha < high
    assert _alpha(np.zeros((4, 2), np.int64), 0.05, 0) is None


def test_unanimous_judges_have_an_interval():
    pair = _pair(np.tile([[0, 0], [2, 2]], (20, 1)), np.ones(40), ("a", "b"), 0.05)
    assert pair.kappa == 1
    assert pair.lower < 1


def test_judges_who_only_ever_say_one_thing_tell_nothing():
    same = np.ones((30, 2), np.int64)
    assert _pair(same, np.ones(30), ("a", "b"), 0.05).lower == -1
    assert _alpha(same, 0.05, 0) is None


def test_slopes_are_those_of_least_squares_with_clusters():
    rng = np.random.default_rng(0)
    n = 600
    judge, context, x = rng.integers(2, size=n), rng.integers(90, size=n), rng.normal(size=n)
    rest = 0.3 * x + rng.normal(size=n) + rng.normal(size=90)[context]
    slope, error, _ = _slope(judge, context, x, rest, x, np.ones(n, bool), 2)
    for j in range(2):
        mine = judge == j
        expected = (x[mine] @ rest[mine]) / (x[mine] @ x[mine])
        left = x[mine] * (rest[mine] - expected * x[mine])
        sums = np.array([left[context[mine] == c].sum() for c in np.unique(context[mine])])
        scale = len(sums) / (len(sums) - 1)
        assert slope[j] == pytest.approx(expected)
        assert error[j] == pytest.approx(np.sqrt(scale * (sums**2).sum()) / (x[mine] @ x[mine]))


def test_what_cannot_be_told_is_said():
    found = judges(world("judges", 0, votes=2000)[1])
    assert len(found.judges) == 5
    assert found.pairs == ()
    assert any("agreement cannot be counted" in line for line in found.lines())
    assert any("leans to length cannot be told" in line for line in found.lines())
    votes = pd.DataFrame({"model_a": "a", "model_b": "b", "winner": ["model_a", "model_b"] * 20, "x": range(40)})
    nobody = judges(fitted(ne.read_votes(votes, context=["x"])))
    assert "names no voters" in nobody.lines()[0]
    assert nobody.listings() == nobody.charts() == []
    few = judges(fitted(ne.read_votes(votes.assign(v=np.arange(40) % 4), context=["x"], voter="v")))
    assert "No voter has 30 votes" in few.lines()[0]
