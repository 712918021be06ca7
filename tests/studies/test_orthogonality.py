"""Injected errors against the package's own pseudo-outcomes and against hand-worked cases; the study end to end."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import nasheval as ne
from studies.harness.rows import Rows
from studies.harness.running import run_study
from studies.harness.study import Cell, Scale
from studies.harness.writing import write
from studies.paper import injection, orthogonality
from studies.paper.injection import DEBIASED, DRAWN, PLUG, Injection, along, exploited, games, payoff_error, surfaces
from studies.paper.orthogonality import claims, fitted_slope, tables
from studies.paper.simulated import Truth


def truth_of(modality, n=40, seed=70):
    return Truth.of(Cell("", {"modality": modality, "voters": 3, "seed": seed, "n": n, "test": 30}))


def expected_log(truth, x):
    """Every voter's answer to every menu at every context, as heavy as it is likely: a log that is its own mean."""
    world, agents = truth.world, np.array(truth.log.agents)
    utilities, e = world.utilities(x, truth.voters), world.propensity(x)
    menus = list(combinations(range(5), 2 if truth.modality == "pairwise" else 3))
    said, context_of, weight = [], [], []
    for i in range(len(x)):
        for menu in menus:
            for voter in range(truth.voters):
                best = max(menu, key=lambda agent, i=i, voter=voter: utilities[i, voter, agent])
                said.append(ne.partition.winner(agents[best], list(agents[list(menu)])))
                context_of.append(i)
                weight.append(e[i] / truth.voters)
    contexts = pd.DataFrame({f"x{c}": x[:, c] for c in range(x.shape[1])})
    return ne.Feedback.from_partitions(
        contexts, said, agents=list(agents), context_of=context_of, weight=weight, design="inclusion"
    )


@pytest.mark.parametrize("modality", ["pairwise", "winner"])
def test_the_exact_surface_is_what_the_pseudo_outcomes_of_the_package_expect(modality):
    truth = truth_of(modality)
    x = truth.contexts.astype(np.float32).astype(float)  # as the trees see them
    shaken = Injection(replace(truth, log=expected_log(truth, x)), seed=5)
    model = shaken.fitted(0.3)
    gamma = model.stage1_.pseudo.dense(np.arange(len(x)))
    found = surfaces(model, shaken, x, 0.3)
    np.testing.assert_allclose(gamma, found[DEBIASED], atol=1e-6)
    assert payoff_error(found[DEBIASED], found["true"]) > 1e-3  # there is an error to get right
    plug_in = model.stage1_.plug_in.predict_pairs(model.stage1_.features(truth.contexts))
    np.testing.assert_allclose(plug_in, found[PLUG], atol=1e-6)


@pytest.mark.parametrize("modality", ["pairwise", "ranking", "winner"])
def test_nuisances_stay_in_range_and_are_true_without_an_error(modality):
    truth = truth_of(modality)
    shaken = Injection(truth, seed=1)
    for d in (0.0, 0.16, 1.0):
        assert np.abs(shaken.outcome(truth.contexts, d)).max() <= 1
        e = shaken.propensity(truth.contexts, d)
        assert e.shape == (30, len(truth.log.menus))
        assert ((e > 0) & (e < 1)).all()
    np.testing.assert_array_equal(
        shaken.outcome(truth.contexts, 0.0), truth.world.outcome(truth.contexts, modality).values
    )
    np.testing.assert_allclose(shaken.propensity(truth.contexts, 0.0)[:, 0], truth.world.propensity(truth.contexts))
    x = truth.contexts
    logit = np.log(shaken.propensity(x, 0.2) / (1 - shaken.propensity(x, 0.2)))
    assert 0.1 < np.abs(logit - np.log(1 / (1 / truth.world.propensity(x) - 1))[:, None]).max() <= 0.2 + 1e-12


def test_a_mean_forgives_errors_in_one_nuisance_alone():
    truth = truth_of("pairwise")
    shaken = Injection(truth, seed=2)
    model = shaken.fitted(0.0)

    class Half(Injection):
        """Only the outcome is wrong."""

        def propensity(self, x, d):
            return super().propensity(x, 0.0)

    found = surfaces(model, Half(truth, seed=2), truth.contexts, 0.5)
    np.testing.assert_allclose(found[DEBIASED], found["true"], atol=1e-12)
    assert payoff_error(found[PLUG], found["true"]) > 0.3


def test_games_and_their_exploitation_by_hand():
    rock = np.array([[1.0, -1.0, 1.0]])  # 0 beats 1, 2 beats 0, 1 beats 2
    np.testing.assert_array_equal(games(rock)[0], [[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    assert exploited(rock, rock) == pytest.approx(0, abs=1e-12)
    first = np.array([[1.0, 1.0, 0.0]])  # 0 beats both: played alone
    # against agent 0, agent 2 wins 1 while rho / 2 ||pi||^2 is the same for both
    assert exploited(first, rock) == pytest.approx(1.0)


def test_the_size_along_a_direction_by_hand():
    bias = np.array([[3.0, 4.0]])
    assert along(bias, bias) == pytest.approx(np.sqrt(12.5))
    assert along(2 * bias + [[4.0, -3.0]], bias) == pytest.approx(2 * np.sqrt(12.5))  # what is across does not count


def test_slopes_by_hand():
    rows = Rows([{"seed": s, "d": d, "y": c * d**p} for s, c, p in ((1, 1, 2), (2, 50, 3)) for d in (0.1, 0.2, 0.4)])
    slope = fitted_slope(rows, "d", "y")
    assert slope.value == pytest.approx(2.5)
    assert slope.error == pytest.approx(0.5)  # of (2, 3): sd sqrt(1/2) over sqrt(2)
    assert str(slope) == "2.50 ± 0.500"
    assert str(fitted_slope(rows.where(seed=1), "d", "y")) == "2.00"
    design = np.array([[np.log(row["d"]), row["seed"] == 1, row["seed"] == 2] for row in rows], float)
    joint = np.linalg.lstsq(design, np.log(rows.values("y")), rcond=None)[0]
    assert slope.value == pytest.approx(joint[0])


def test_orders_on_a_small_world():
    rows = Rows([{"seed": s, **row} for s in (70, 71) for row in injection.injected(truth_of("pairwise", 3000, s), s)])
    for (measure, form), order in orthogonality.ORDERS.items():
        slope = fitted_slope(rows.where(form=form), "d", measure)
        assert slope.value == pytest.approx(order, rel=0.3 if form == DRAWN else 0.05)


def test_claims_speak_of_the_orders_and_of_the_rates():
    orders = {PLUG: (1, 2), DEBIASED: (2, 4), DRAWN: (2, 4)}
    injected = [
        {"part": "injected", "modality": "pairwise", "seed": s, "form": form, "d": d, "error": d**one, "gap": d**other}
        for s in (1, 2)
        for form, (one, other) in orders.items()
        for d in injection.SIZES
    ]
    fast = {orthogonality.OURS: 0.5, orthogonality.PER_PAIR: 0.1}
    learned = [
        {
            "part": "rate",
            "seed": s,
            "method": m,
            "n": n,
            "error": 1.0,
            "exploitability": n ** -fast.get(m, 0.3 + s / 99),
        }
        for s in (1, 2)
        for m in orthogonality.METHODS
        for n in (10, 100)
    ]
    found = claims(Rows(injected + learned))
    assert [claim.holds for claim in found] == [True] * 5 + [False, True, True, True]
    assert "-0.10 ± 0.000 beside -0.32 ± 0.005: 0.22 ± 0.005 slower" in found[5].seen
    wrong = [row | {"gap": row["d"] ** 3} for row in injected]
    assert [claim.holds for claim in claims(Rows(wrong + learned))[:5]] == [True, True, True, False, False]
    assert len(tables(Rows(injected + learned))) == 5


def test_every_method_estimates_the_game():
    truth = truth_of("pairwise", 60)
    found = orthogonality.estimated(truth, 70)
    assert set(found) == set(orthogonality.METHODS)
    for payoff in found.values():
        assert payoff.shape == truth.payoff.shape
        np.testing.assert_array_equal(payoff, -payoff.transpose(0, 2, 1))
    surfaces_differ = {name: payoff_error(payoff[0], truth.payoff[0]) for name, payoff in found.items()}
    assert len(set(surfaces_differ.values())) == len(found)  # no two of them are the same model


def test_the_study_end_to_end(tmp_path, monkeypatch):
    def small(scale):
        rates = [orthogonality._cell("rate", "pairwise", 70, n, 64) for n in (400, 100)]
        return [*rates, orthogonality._cell("injected", "winner", 70, 200, 64)]

    def known(truth, seed):  # wrong by 1 / sqrt(n) everywhere
        sign = np.sign(np.subtract.outer(np.arange(5), np.arange(5)))
        return dict.fromkeys(orthogonality.METHODS, truth.payoff + sign / np.sqrt(truth.log.n_contexts))

    monkeypatch.setattr(orthogonality, "estimated", known)
    study = replace(orthogonality.STUDY, cells=small)
    report = write(run_study(study, tmp_path, Scale(quick=True), show=False), tmp_path)
    titles = {table.title: table for table in report.tables}
    assert [row[1] for row in titles["Rate in the number of contexts"].rows] == ["-0.50"] * 6
    assert titles["Payoff error against n: mean ± sd over seeds"].rows[0] == (orthogonality.OURS, "0.100", "0.050")
    assert (tmp_path / "orthogonality.png").stat().st_size > 20_000
    assert len(report.claims) == 9
