"""Payoffs from a card, with PyTorch on the processor in its place: which contexts go there, and that answers agree."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from nasheval.game.regularizers import L2
from nasheval.game.solver import solve
from nasheval.nuisance.learners import Effort
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.payoff import on_card
from nasheval.payoff.bridging import VoterBridge
from nasheval.payoff.stage1 import fit_stage1
from nasheval.payoff.surfaces import Boosting
from nasheval.policy.exact import ExactPolicy

from .test_bridging import VOTERS, duels

torch = pytest.importorskip("torch")

ALL = {(0, 1): 60, (0, 2): 60, (1, 2): 60, (0, 3): 60, (1, 3): 60, (2, 3): 60}
STAR = {(0, 1): 60, (0, 2): 60, (0, 3): 60}


@pytest.fixture
def card(monkeypatch):
    """The processor in place of a card, which is asked about 64 contexts at a time and never about fewer than 16."""
    monkeypatch.setattr(on_card, "has_card", lambda: True)
    monkeypatch.setattr(on_card, "CARD", "cpu")
    monkeypatch.setattr(on_card, "LEAST", 16 * 4)
    monkeypatch.setattr(on_card, "_CELLS", 64 * 4**2)


def fitted(counts, **options):
    return fit_stage1(duels(counts, 4), **{"outcome": VOTERS, "second_stage": "none", "folds": 2, **options})


FORMS = {
    "plug-in": (ALL, {}),
    "corrected": (ALL, {"second_stage": "corrected", "strength": 1.0, "boosting": Boosting(trees=5, least=5)}),
    "bridged": (STAR, {}),
    "ties": (STAR, {"unseen": "tie"}),
    "regressed": (ALL, {"second_stage": "shared", "boosting": Boosting(trees=5, least=5)}),
    "other learner": (STAR, {"outcome": Intercept()}),
}


@pytest.mark.parametrize("form", FORMS)
def test_payoffs_and_lotteries_are_those_of_the_processor(card, form):
    counts, options = FORMS[form]
    stage1 = fitted(counts, **options)
    contexts = stage1.log.contexts.slice(0, 64 + 64 + 5)  # the last five stay with the processor
    expected = stage1.payoffs(contexts)
    assert (form in ("corrected", "regressed")) == (stage1.payoff.surface is not None)
    assert (form == "bridged") == isinstance(stage1.payoff.bridge, VoterBridge)
    found = stage1.payoffs(contexts, "auto")
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(found, -found.swapaxes(1, 2))
    here, there = (ExactPolicy(L2(0.1)).fit(stage1, Effort(device=device)) for device in ("cpu", "cuda"))
    answers = there.predict_proba(contexts)
    np.testing.assert_allclose(answers, solve(found, regularizer=L2(0.1)).strategy, atol=1e-12)
    np.testing.assert_allclose(answers, here.predict_proba(contexts), atol=1e-4)


def test_voters_answer_on_the_card_and_others_are_moved_there(card):
    asked = {form: on_card._voters_of(fitted(*FORMS[form][:1], **FORMS[form][1]).payoff) for form in FORMS}
    assert [form for form, voters in asked.items() if voters is None] == ["regressed", "other learner"]


@pytest.mark.parametrize(("n", "sizes"), [(15, []), (16, [16]), (70, [64]), (80, [64, 16]), (200, [64, 64, 64])])
def test_too_few_contexts_stay_with_the_processor(card, n, sizes):
    stretches = list(on_card.card_rows("auto", n, 4))
    assert [rows.stop - rows.start for rows in stretches] == sizes
    assert [rows.start for rows in stretches] == list(range(0, sum(sizes), 64))
    assert not list(on_card.card_rows("cpu", n, 4))


def test_without_a_card_all_stay_there(monkeypatch):
    monkeypatch.setattr(on_card, "has_card", lambda: False)
    assert not list(on_card.card_rows("auto", 1 << 20, 100))


def test_without_a_driver_torch_is_not_imported():
    code = (
        "import sys; from nasheval.payoff import on_card; on_card._DRIVERS = ('no-such-library',); "
        "assert not on_card.has_card(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
