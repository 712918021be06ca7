"""Models with bridged pairs, cut ballots or candidates by column, and one that an older version saved."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nasheval.estimator import load
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.payoff.aggregators import AsAsked, Mean
from nasheval.payoff.bridging import ScoreBridge, VoterBridge
from nasheval.policy.availability import AmongAvailable

from .small import BOTH, LEARNED, TREES, VOTERS, answers, fitted, manifest, refused, set_told

OLD = Path(__file__).parent / "data" / "dd67b33"


def star_log(n=150, seed=0):
    """Five agents against one reference, by nine voters, at contexts of a number and a language."""
    rng = np.random.default_rng(seed)
    said = []
    for _ in range(n):
        other = str(rng.choice(list("bcdef")))
        chance = {"b": 0.9, "c": 0.1, "d": 0.5, "e": 0.6, "f": 0.4}[other]
        said.append(partition.duel("a", other, other if rng.random() < chance else "a"))
    contexts = pa.table({"x": rng.normal(size=n), "language": rng.choice(["de", "en"], n)})
    return Feedback.from_partitions(
        contexts, said, agents=list("abcdef"), voter=[f"v{number}" for number in rng.integers(9, size=n)]
    )


def ballot_log(n=150, seed=0, form="ranking"):
    """Rankings, or winners, of four of eight agents, most menus asked once or twice; g is seen in German only."""
    rng = np.random.default_rng(seed)
    language = rng.choice(["de", "en"], n)
    said = []
    for name in language:
        agents = list("abcdefgh") if name == "de" else list("abcdefh")
        menu = sorted(str(agent) for agent in rng.choice(agents, 4, replace=False))
        order = sorted(menu, key=lambda agent: ord(agent) + 3 * rng.normal())
        said.append(partition.winner(order[0], menu) if form == "winner" else partition.ranking(order))
    contexts = pa.table({"x": rng.normal(size=n), "language": language})
    return Feedback.from_partitions(contexts, said, agents=list("abcdefgh"))


MODELS = {
    "star, voters": (star_log, {"outcome": VOTERS}),
    "star, trees, shared": (star_log, {"outcome": TREES, "second_stage": "shared"}),
    "star, stack, learned": (star_log, {"outcome": BOTH, "policy": LEARNED}),
    "star, ties": (star_log, {"outcome": VOTERS, "unseen": "tie"}),
    "ballots, voters": (ballot_log, {"outcome": VOTERS}),
    "ballots, trees": (ballot_log, {"outcome": TREES, "availability": "language"}),
    "winners, voters, availability": (
        lambda: ballot_log(form="winner"), {"outcome": VOTERS, "availability": "language"}
    ),
    "star, availability, known strengths": (star_log, {"outcome": Intercept(), "availability": "language"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def models():
    return {name: fitted(make(), **options) for name, (make, options) in MODELS.items()}


def told(model):
    """Return everything that is said of groups of contexts, with intervals, as text and bytes."""
    groups = [model.payoff_interval(), model.payoff_interval({"language": "de"})]
    groups += [model.payoff_interval(voters="population")] if model.stage1_.log.records.voter is not None else []
    board = model.leaderboard(by="language").to_csv()
    numbers = [each.tobytes() for g in groups for each in (g.estimate, g.error, g.lower, g.upper, *g.allowed)]
    return [(str(group), str(group.equilibrium())) for group in groups], numbers, board


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_answers_bit_for_bit(models, name, tmp_path):
    model, contexts = models[name], MODELS[name][0]().contexts.slice(0, 40)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert answers(again, contexts) == answers(model, contexts)
    assert told(again) == told(model)
    np.testing.assert_array_equal(again.stage1_.payoff.status, model.stage1_.payoff.status)
    np.testing.assert_array_equal(again.stage1_.pseudo.estimand.correction, model.stage1_.pseudo.estimand.correction)
    again.save(tmp_path / "again")
    held = [
        {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
        for folder in (tmp_path / "model", tmp_path / "again")
    ]
    assert held[0] == held[1]


def test_bridges_and_cut_ballots_come_back_as_what_they_were(models, tmp_path):
    kinds = {"star, voters": VoterBridge, "star, trees, shared": ScoreBridge, "star, ties": type(None)}
    for number, (name, kind) in enumerate(kinds.items()):
        models[name].save(tmp_path / str(number))
        assert isinstance(load(tmp_path / str(number)).stage1_.payoff.bridge, kind)
    models["winners, voters, availability"].save(tmp_path / "winners")
    again = load(tmp_path / "winners")
    assert isinstance(again.policy_, AmongAvailable)
    assert isinstance(again.stage1_.pseudo.aggregation.aggregator, AsAsked)
    assert again.stage1_.nuisances.log.ballots is again.stage1_.log
    assert again.stage1_.log.records.sizes.tolist() == [4] * 150
    assert not again.predict_proba(pa.table({"x": [0.0], "language": ["en"]}))[0, 6]
    assert manifest(tmp_path / "winners")["stage1"]["unseen"] == "model"


def test_an_unseen_that_cannot_be_is_refused(models, tmp_path):
    models["star, voters"].save(tmp_path / "model")
    set_told("stage1/unseen", "guess")(tmp_path / "model")
    refused(tmp_path / "model", "'unseen' is 'guess'")


# -- a model of before ------------------------------------------------------------------------------------------------


def test_a_model_that_an_older_version_saved_answers_as_it_did():
    """Saved by dd67b33: duels with a reference and a few rankings of three; then unseen pairs were ties."""
    model = load(OLD)
    X = np.array([[0.0], [1.0]])
    np.testing.assert_allclose(model.predict_proba(X), [[0, 0.5, 0, 0.5]] * 2, atol=1e-9)
    payoff = model.payoff(X)
    assert not payoff[:, [1, 2], [3, 3]].any()
    np.testing.assert_allclose(payoff[:, 0, 1], -0.16444841, atol=1e-6)
    group = model.payoff_interval()
    np.testing.assert_allclose(group.estimate[0, 1:], [-0.36799358, 0.70468328, -0.08721916], atol=1e-6)
    assert (group.lower[1, 3], group.upper[1, 3]) == (-1, 1)
    assert isinstance(model.stage1_.pseudo.aggregation.aggregator, Mean)
    assert model.stage1_.nuisances.log is model.stage1_.log  # no ballot was cut
    assert model.unseen == "tie"
    assert "given as 0, a tie: 2 pairs (such as b and d, c and d)" in " ".join(model.diagnostics().warnings())
    assert set(model.leaderboard()["agent"]) == set("abcd")
    assert model.explain({"x0": 0.0}).to_dict()["lottery"]


def test_it_can_be_saved_again(tmp_path):
    model = load(OLD)
    model.save(tmp_path / "model")
    again, X = load(tmp_path / "model"), np.array([[0.3]])
    np.testing.assert_array_equal(again.payoff(X), model.payoff(X))
    assert again.unseen == "tie"
