"""What Stage 1 says of itself: moves by hand, a known fault that is found, and nothing where nothing is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import InputError
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.payoff.aggregators import Cubic
from nasheval.payoff.inference import group_payoff
from nasheval.payoff.moves import all_moves, moved_pairs
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.second_stage import fit_payoff
from nasheval.payoff.stage1 import Stage1
from nasheval.payoff.stage1_diagnostics import Stage1Diagnostics
from nasheval.payoff.surfaces import Boosting

from .nuisances import Given, arbitrary_fit, duel_fit, duel_log, inclusion, linear_margins, ragged_log

FAST = Boosting(trees=10, leaves=4, rate=0.3, least=20)


def stage1(fit, aggregator=None, form="corrected", **more):
    pseudo = pseudo_outcomes(fit, aggregator)
    payoff = fit_payoff(pseudo, form, boosting=FAST, **more)
    return Stage1(ContextEncoder.fit(fit.log.contexts), fit, pseudo, payoff)


def duels(n=600, share=1.0, mu=None, seed=0, **more):
    """Duels whose outcome model knows a share of the margins, or is a function of (x, margins)."""
    centre, slope = linear_margins(4)
    log, x = duel_log(np.random.default_rng(seed), n, centre, slope, **more)
    fit = duel_fit(log, x, centre, slope, share=share)
    if mu is None:
        return fit
    columns = log.menus.columns.pair
    wrong = Given(lambda x, fold: mu(x, centre + slope * x[:, :1])[:, columns])
    return type(fit)(log, fit.X, fit.fold, wrong, fit.propensity_models)


def grouped(log, **columns):
    """The log with other context columns."""
    return replace(log, contexts=pa.table(columns))


def labels(log, column):
    return np.array(log.contexts[column].to_pylist())


# -- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", ["inclusion", "draws"])
def test_a_move_is_the_one_step_mean_less_the_mean_of_the_plug_in(design):
    log, x = ragged_log(n=60, design=design)
    names = np.where(x[:, 0] > 0, "up", "down")
    log = grouped(log, way=names)
    made = stage1(arbitrary_fit(log, x), Cubic(1.0), "none")
    found = Stage1Diagnostics.of(made, by="way")
    everywhere, by_way = found.moves
    assert everywhere.groups == ("all",)
    assert set(by_way.groups) == {"up", "down"}
    for g, name in enumerate(by_way.groups):
        inside = (names == name) & made.pseudo.used
        j, k = np.triu_indices(5, 1)
        one_step = group_payoff(made.pseudo, names == name).estimate[j, k]
        plug_in = made.pseudo.plugin(np.flatnonzero(inside)).mean(axis=0)
        seen = made.payoff.covered
        np.testing.assert_allclose(by_way.move[g][seen], (one_step - plug_in)[seen], atol=1e-13)


def by_hand(pseudo, label, n):
    """Sum over clusters of the squared sums of corrections, pair by pair."""
    sums = {}
    for v in range(len(pseudo.pair)):
        sums.setdefault(label(v), np.zeros(pseudo.n_pairs))[pseudo.pair[v]] += pseudo.estimand.correction[v] / n
    return sum(each**2 for each in sums.values())


@pytest.mark.parametrize("voters", [None, 5, 30])
def test_errors_by_hand(voters):
    made = stage1(duels(120, 0.5, voters=voters), form="none")
    pseudo, n = made.pseudo, int(made.pseudo.used.sum())
    expected = by_hand(pseudo, lambda v: pseudo.context[v], n)
    if voters == 30:
        voter = made.log.records.voter[pseudo.record]
        extra = by_hand(pseudo, lambda v: voter[v], n) - by_hand(pseudo, lambda v: (pseudo.context[v], voter[v]), n)
        expected = np.maximum(expected, expected + extra)
    found = Stage1Diagnostics.of(made, by=[]).moves[0]
    np.testing.assert_allclose(found.error[0] ** 2, expected, rtol=1e-10)
    assert (np.abs(found.z) <= np.abs(found.move / found.error)).all()  # Student's t is wider than the normal


def test_a_golden_case_by_hand():
    """One pair, four contexts, e = 1/2, mu = 0: corrections 2 Z in two contexts, 0 in the others."""
    duels = [partition.duel("a", "b", "a"), partition.duel("a", "b", "a")]
    log = Feedback.from_partitions(
        pa.table({"way": ["u", "u", "d", "d"]}), duels, agents=["a", "b"], context_of=[0, 1], design="inclusion"
    )
    fit = arbitrary_fit(log, np.zeros((4, 1)), folds=2)
    half = Given(lambda x, fold: np.full((len(x), 1), 0.5))
    zero = Given(lambda x, fold: np.zeros((len(x), 1)))
    made = stage1(type(fit)(log, fit.X, fit.fold, zero, half), form="none")
    everywhere, by_way = Stage1Diagnostics.of(made, by="way").moves
    assert everywhere.move.tolist() == [[1.0]]  # (2 + 2 + 0 + 0) / 4
    assert everywhere.error[0, 0] == pytest.approx(np.sqrt(8 / 16))
    assert dict(zip(by_way.groups, by_way.move[:, 0].tolist(), strict=True)) == {"u": 2.0, "d": 0.0}
    assert np.isinf(by_way.error[by_way.groups.index("d"), 0])
    assert by_way.z[by_way.groups.index("d"), 0] == 0


# -- faults -----------------------------------------------------------------------------------------------------------


def quarters(found, column):
    return next(part.groups for part in found.moves if part.column == column)


def test_a_fault_in_one_group_is_found_there():
    def wrong(x, mu):
        return np.where((x[:, 1:] > 0) & (np.arange(6) == 4), mu - 0.6, mu)

    found = Stage1Diagnostics.of(stage1(duels(1500, mu=wrong), form="none"))
    first = found.largest(1)[0]
    assert (first.first, first.second) == ("b", "d")  # the pair numbered 4
    assert (first.column, first.group) in {("side", "right")} | {("x1", g) for g in quarters(found, "x1")[2:]}
    assert first.significant
    assert first.move == pytest.approx(0.6, abs=0.15)
    assert {(m.first, m.second) for m in found.largest(found.n_significant)} == {("b", "d")}
    right = next(m for m in found.largest(100) if m.group == "right")
    assert right.significant
    assert right.move == pytest.approx(0.6, abs=4 * right.error)
    assert any("Debiasing moves" in warning and "b over d where" in warning for warning in found.warnings())


def test_true_nuisances_move_nothing():
    false = sum(Stage1Diagnostics.of(stage1(duels(250, seed=s), form="none")).n_significant > 0 for s in range(30))
    assert false <= 4  # 5% of 30, and chance


def test_moves_are_drawn_from_the_corrections_alone():
    made = stage1(duels(200, 0.5), form="none")
    made.pseudo.estimand.correction  # noqa: B018  what the moves are made of

    def refuse(x, fold):
        raise AssertionError("predicted")

    silent = type(made.nuisances)(made.log, made.nuisances.X, made.nuisances.fold, Given(refuse), Given(refuse))
    object.__setattr__(made.pseudo, "fit", silent)
    assert all_moves(made.pseudo, "side")[1].move.shape == (2, 6)


def test_the_surface_moves_as_the_second_stage_does():
    fit = duels(900, share=0.0)
    whole, half = (stage1(fit, strength=s) for s in (1.0, 0.5))
    moved = [Stage1Diagnostics.of(made, by=[]).surface_move for made in (whole, half)]
    gap = whole.payoff.predict_pairs(fit.X) - whole.plug_in.predict_pairs(fit.X)
    assert moved[0] == pytest.approx(np.sqrt((gap**2).mean()))
    assert moved[1] == pytest.approx(moved[0] / 2, rel=0.02)
    assert Stage1Diagnostics.of(stage1(fit, form="none"), by=[]).surface_move == 0
    assert Stage1Diagnostics.of(stage1(fit, form="per-pair"), by=[]).surface_move > 0.1


def test_a_sample_of_contexts_stands_for_all(monkeypatch):
    from nasheval.payoff import stage1_diagnostics

    made = stage1(duels(900, share=0.0), strength=1.0)
    whole = Stage1Diagnostics.of(made, by=[]).surface_move
    monkeypatch.setattr(stage1_diagnostics, "_SAMPLED", 6 * 300)
    assert Stage1Diagnostics.of(made, by=[]).surface_move == pytest.approx(whole, rel=0.2)


def test_warnings_say_what_the_second_stage_gave_up():
    fit = duels(600, share=0.5)
    claims = {
        "A(x) is the plug-in: errors of the outcome model enter it at first order.": stage1(fit, form="none"),
        "A(x) is the plug-in for all pairs (strength 0, as given).": stage1(fit, strength=0.0),
        "strength 0.40 (as given): 60% of the outcome model's first-order error": stage1(fit, strength=0.4),
        "A(x) is the plug-in for all pairs (the residuals teach nothing that shows": stage1(duels(600, seed=1)),
    }
    for words, made in claims.items():
        warning = next(warning for warning in Stage1Diagnostics.of(made).warnings() if words in warning)
        assert warning.endswith("Means of groups are one-step estimates: right where either nuisance is right.")
    whole = Stage1Diagnostics.of(stage1(fit, strength=1.0)).warnings()
    assert not any("A(x) is" in warning for warning in whole)


def with_strengths(made, *per_pair):
    """The same with other strengths of the six pairs, as if they had been chosen."""
    strength = replace(made.payoff.strength, per_pair=per_pair, chosen=True)
    return Stage1Diagnostics.of(replace(made, payoff=replace(made.payoff, strength=strength)), by=[])


def test_warnings_name_the_pairs_that_are_corrected():
    made = stage1(duels(600, share=0.5), strength=1.0)
    one = " ".join(with_strengths(made, 0, 0, 0, 0, 0.934, 0).warnings())
    assert "plug-in for 5 of 6 pairs (the residuals teach nothing that shows in the held-out error); b over d is" in one
    assert "b over d is corrected at strength 0.93." in one
    two = " ".join(with_strengths(made, 0.5, 0, 0, 0, 0.7, 0).warnings())
    assert "plug-in for 4 of 6 pairs" in two
    assert "corrected are b over d at 0.70, a over b at 0.50. Means" in two
    five = " ".join(with_strengths(made, 0.5, 0.6, 0.9, 0, 0.7, 0.8).warnings())
    assert "corrected are a over d at 0.90, c over d at 0.80, b over d at 0.70 and 2 more." in five
    every = " ".join(with_strengths(made, 0.5, 0.6, 0.9, 1, 0.7, 0.8).warnings())
    assert "corrected at strengths from 0.50 to 1.00 (chosen on held-out folds)" in every
    drawn = " ".join(str(with_strengths(made, 0.5, 0.6, 0.9, 1, 0.7, 0.8)).split())
    assert "strengths of pairs 0.50 to 1.00" in drawn


def test_pairs_without_a_menu_are_not_counted():
    log, x = ragged_log(n=60)
    found = Stage1Diagnostics.of(stage1(arbitrary_fit(log, x), strength=0.0))
    strength = replace(found.strength, per_pair=(0.7, *[0.0] * 9), chosen=True)
    assert any("plug-in for 6 of 7 pairs" in warning for warning in replace(found, strength=strength).warnings())


def test_significant_moves_come_with_their_level():
    found = Stage1Diagnostics.of(stage1(duels(1500, share=0.0), form="none"))
    words = f"Debiasing moves {found.n_significant} mean payoffs (p < 0.05, all pairs and groups together); clearest: "
    assert any(warning.startswith(words) for warning in found.warnings())


def test_the_pairs_that_move_are_those_of_the_diagnostics():
    made = stage1(duels(400, share=0.5), form="none")
    found = Stage1Diagnostics.of(made)
    names = list(combinations("abcd", 2))
    moved = {names[p] for p in np.flatnonzero(moved_pairs(made.pseudo))}
    assert moved == {tuple(sorted((m.first, m.second))) for m in found.largest(found.n_significant)}
    assert 0 < len(moved) < 6


def test_unanimous_votes_are_no_sure_move():
    """Fifty unanimous votes, and an outcome model that says 0.97: a move of 0.03 that has no spread."""
    duel = partition.duel("a", "b", "a")
    x = np.linspace(-1, 1, 50)[:, None]
    log = Feedback.from_partitions(x, [duel] * 50, agents=["a", "b"], context_of=list(range(50)))
    fit = arbitrary_fit(log, x)
    sure = Given(lambda x, fold: np.full((len(x), 1), 0.97))
    made = stage1(type(fit)(log, fit.X, fit.fold, sure, Given(lambda x, fold: np.ones((len(x), 1)))), form="none")
    found = Stage1Diagnostics.of(made, by=[])
    assert found.moves[0].move[0, 0] == pytest.approx(0.03)
    assert found.moves[0].error[0, 0] == pytest.approx(2 * np.sqrt(2) / 54)
    assert found.n_significant == 0


# -- columns ----------------------------------------------------------------------------------------------------------


def test_columns_are_grouped_by_value_or_in_quarters():
    made = stage1(duels(400, 0.5), form="none")
    found = {part.column: part for part in Stage1Diagnostics.of(made).moves}
    assert list(found) == ["", "x0", "x1", "side"]
    assert set(found["side"].groups) == {"left", "right"}
    x0 = labels(made.log, "x0")
    edges = np.quantile(x0, [0.25, 0.5, 0.75])
    assert found["x0"].groups[0] == f"below {edges[0]:.3g}"
    assert found["x0"].groups[1] == f"{edges[0]:.3g} to {edges[1]:.3g}"
    assert found["x0"].groups[3] == f"{edges[2]:.3g} or more"
    low = x0 < edges[0]
    expected = made.pseudo.estimand.corrections[np.flatnonzero(low)].toarray().mean(axis=0)
    np.testing.assert_allclose(found["x0"].move[0], expected, atol=1e-13)


def test_missing_numbers_and_columns_of_many_values():
    log, x = ragged_log(n=60)
    values = np.where(np.arange(60) % 3 == 0, np.nan, np.arange(60.0))
    names = np.array([f"n{i % 30}" for i in range(60)])
    log = grouped(log, way=names, number=values)
    made = stage1(arbitrary_fit(log, x), form="none")
    found = Stage1Diagnostics.of(made)
    assert [part.column for part in found.moves] == ["", "number"]  # thirty names are no groups unless asked for
    assert len(found.moves[1].groups) == 4  # a missing number is in none
    assert set(Stage1Diagnostics.of(made, by="way").moves[1].groups) == set(names[made.pseudo.used])
    with pytest.raises(InputError, match="by='language' is no context column; this log has way, number"):
        Stage1Diagnostics.of(made, by=["number", "language"])


# -- saying -----------------------------------------------------------------------------------------------------------


def test_diagnostics_are_plain_data_and_print():
    log, x = ragged_log(n=60)
    log = grouped(log, way=np.where(x[:, 0] > 0, "[bold]up", "down"))
    found = Stage1Diagnostics.of(stage1(arbitrary_fit(log, x), strength=0.3))
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["second_stage"] == "corrected"
    assert told["strength"]["strength"] == 0.3
    assert told["columns"] == ["way"]
    assert told["nuisances"]["design"] == "draws"
    assert told["bridged"] == [["b", "e"], ["c", "e"], ["d", "e"]]
    assert told["unknown"] == []
    assert len(told["moves"]) == min(100, 3 * 10)
    assert told["moves"][0]["error"] == pytest.approx(found.largest(1)[0].error)
    z = [move["move"] / move["error"] for move in told["moves"] if move["error"] is not None]
    assert 0 < len(z) < 30  # what the votes cannot tell has no error
    drawn = str(found)
    assert "Second stage 'corrected'" in drawn
    assert "[bold]up" in drawn
    assert "bridged through others by the outcome model, and marked: 3 pairs (such as b and e" in " ".join(
        drawn.split()
    )
    assert drawn.count("never compared") == 1


def test_a_log_without_votes_has_no_moves():
    log = Feedback.from_partitions(np.zeros((6, 1)), [], agents=["a", "b"], context_of=[])
    found = Stage1Diagnostics.of(stage1(arbitrary_fit(log, np.zeros((6, 1)))))
    assert found.n_significant == 0
    assert found.surface_move == 0
    assert "There are no verdicts." in found.warnings()
    json.dumps(found.to_dict(), allow_nan=False)
    assert "Second stage" in str(found)


def test_wrong_propensities_alone_move_nothing():
    """Residuals of a true outcome model have mean zero, whatever they are divided by."""
    fit = duels(800)
    wrong = Given(lambda x, fold: np.repeat(0.5 * inclusion(x)[:, None] + 0.2, 6, axis=1))
    made = stage1(type(fit)(fit.log, fit.X, fit.fold, fit.outcome_models, wrong), form="none")
    assert Stage1Diagnostics.of(made).n_significant == 0
