"""The fewest votes and voters whose removal changes who wins."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import nasheval as ne
from nasheval.audit.ladder import Ladder
from nasheval.audit.removal import Removal
from nasheval.audit.search import Items, routes
from nasheval.feedback.groups import ALL
from nasheval.game.regularizers import L2
from nasheval.payoff.inference import group_payoff
from nasheval.policy.pooled import ratings

from .worlds import duels, model_of, plain_stage1


def fewest(board, log):
    found = routes(board, Items(np.arange(log.n_records), log.n_records))
    return found[0].order[: found[0].needed] if found else None


def without(log, chosen):
    kept = np.ones(log.n_records, bool)
    kept[list(chosen)] = False
    return log.keep_records(kept)


def test_a_lead_of_six_votes_takes_six():
    wins = [("a", "b")] * 10 + [("b", "a")] * 4 + [("a", "c")] * 9 + [("b", "c")] * 9
    stage1 = plain_stage1(wins)
    removal = Removal(stage1.pseudo, group_payoff(stage1.pseudo), L2())
    chosen = fewest(removal, stage1.log)
    assert sorted(chosen) == sorted(chosen[chosen < 10])  # wins of a over b
    assert len(chosen) == 6


@pytest.mark.parametrize("seed", range(6))
def test_predicted_sets_are_the_smallest_by_brute_force(seed):
    stage1 = model_of(duels(n=26, agents=3, seed=seed, gap=0.4)).stage1_
    removal = Removal(stage1.pseudo, group_payoff(stage1.pseudo), L2())
    start = removal.without(np.zeros(26, bool)).winners
    items, chosen = Items(np.arange(26), 26), fewest(removal, stage1.log)
    assert (removal.without(items.gone(chosen)).winners != start).any()
    for size in range(1, min(len(chosen), 4)):
        smaller = [
            c
            for c in combinations(range(26), size)
            if (removal.without(items.gone(np.array(c))).winners != start).any()
        ]
        assert len(chosen) <= 1.2 * size or not smaller


@pytest.mark.parametrize("seed", range(5))
def test_every_confirmed_flip_is_one_for_a_fit_by_public_names(seed):
    log = duels(n=300, seed=seed, voters=25 if seed % 2 else 0, gap=0.2)
    model = model_of(log)
    audit = model.audit("group", parts=["flips"], refits=6)
    checked = 0
    for flip in audit.flips.flips:
        if flip.board == "lottery" and flip.confirmed:
            group = None if flip.group == "all" else {"group": flip.group}
            payoff = model_of(audit.without(flip)).payoff_interval(group)
            lottery = ne.solve(np.clip(payoff.estimate, -1, 1), available=payoff.present).strategy
            won = tuple(name for name, weight in zip(log.agents, lottery, strict=True) if weight > 1e-3)
            assert won == flip.after
            assert won != flip.before
            checked += 1
    assert checked >= 3


@pytest.mark.parametrize("seed", range(4))
def test_a_ladder_has_another_first_agent_and_no_fewer_votes_do(seed):
    log = duels(n=22, agents=3, seed=seed, gap=0.5)
    first = ratings(log).score.argmax()
    board = Ladder(log, np.ones(log.n_contexts, bool))
    if not board.rated.all():
        pytest.skip("an agent of this log has no rating")
    chosen = fewest(board, log)
    assert ratings(without(log, chosen)).score.argmax() != first
    smaller = (c for size in range(1, min(len(chosen), 3)) for c in combinations(range(22), size))
    assert not any(ratings(without(log, c)).score.argmax() != first for c in smaller)


def test_effects_on_a_ladder_are_those_of_a_fit_anew():
    log = duels(n=200, agents=4)
    board, nobody = Ladder(log, np.ones(log.n_contexts, bool)), np.zeros(200, bool)
    start = board.without(nobody)
    margin = board.margins(start)[0]
    effect = board.effects(margin, nobody, Items(np.arange(200), 200))
    for vote in range(0, 200, 17):
        gone = nobody.copy()
        gone[vote] = True
        moved = (board.without(gone).score - start.score) @ margin.slope
        assert effect[vote] == pytest.approx(moved, rel=0.02)


def test_voters_go_with_all_their_votes():
    log = duels(n=400, voters=30, gap=0.15)
    audit = model_of(log).audit(parts=["flips"], confirm=False)
    flip = next(f for f in audit.flips.flips if f.what == "voters" and f.board == "lottery")
    voters = {str(log.voters[v].as_py()) for v in log.records.voter[list(flip.votes)]}
    assert voters == set(flip.voters)
    assert len(flip.votes) == sum(str(log.voters[v].as_py()) in voters for v in log.records.voter)
    assert flip.confirmed is None
    assert "not refitted" in str(flip)


def test_one_voter_with_half_of_the_votes_is_found():
    half, rest = [("b", "a")] * 30, [("a", "b")] * 26
    log = ne.Feedback.from_partitions(
        np.zeros((56, 1)),
        [ne.partition.duel("a", "b", w) for w, _ in half + rest],
        voter=["big"] * 30 + [f"v{i}" for i in range(26)],
        design="draws",
    )
    flip = next(f for f in model_of(log).audit(parts=["flips"]).flips.flips if f.what == "voters")
    assert flip.voters == ("big",)
    assert flip.confirmed
    assert flip.before == ("b",)


def test_unanimous_votes_and_a_star_are_audited():
    unanimous = [("a", "b")] * 8 + [("b", "c")] * 8
    log = ne.Feedback.from_partitions(
        np.zeros((16, 1)), [ne.partition.duel(won, lost, won) for won, lost in unanimous], design="draws"
    )
    audit = model_of(log).audit()
    assert audit.lines()
    assert all(f.confirmed is not False or f.refits for f in audit.flips.flips)


def test_whole_ballots_are_taken_out():
    rng = np.random.default_rng(0)
    said = []
    for _ in range(80):
        order = rng.permutation(4)
        said.append(ne.partition.ranking([f"m{a}" for a in order[: rng.integers(2, 5)]]))
    log = ne.Feedback.from_partitions(np.zeros((80, 1)), said, design="draws")
    model = model_of(log)
    flip = model.audit(parts=["flips"], refits=4).flips.flips[0]
    assert max(flip.votes) < 80
    assert model.stage1_.nuisances.log.ballots is not None


def test_many_agents_take_no_time():
    log = duels(n=3000, agents=60, gap=0.5)
    model = model_of(log)
    assert model.audit(parts=["flips"], confirm=False).flips.flips[0].size < 200


@pytest.mark.parametrize("voters", [2, 3, 8])
def test_nobody_proposes_to_remove_everybody(voters):
    """A clear winner whom all voters prefer: what is left when they go has no winner."""
    rng = np.random.default_rng(voters)
    rows = [
        {"model_a": a, "model_b": b, "winner": "model_a", "hour": hour, "voter": f"v{rng.integers(voters)}"}
        for hour in range(40)
        for a, b in (("a", "b"), ("a", "c"), ("b", "c"))
    ]
    log = ne.read_votes(pa.Table.from_pylist(rows), context=["hour"], voter="voter", text=None)
    found = model_of(log).audit(parts=["flips"]).flips
    assert all(flip.size < flip.total for flip in found.flips)
    assert (ALL, "voters") in found.none or any(flip.what == "voters" for flip in found.flips)


@pytest.mark.parametrize("seed", range(2))
def test_a_set_without_which_nothing_can_be_learned_is_said_to_be_a_prediction(seed):
    """One voter casts half of the votes, and is one of two folds."""
    rng = np.random.default_rng(seed)
    agents = np.array(list("abcd"))
    first = rng.integers(4, size=400)
    second = (first + rng.integers(1, 4, 400)) % 4
    won = rng.random(400) < 0.5 + 0.1 * (second - first)
    voter = np.where(np.arange(400) < 200, "big", [f"v{i}" for i in rng.integers(20, size=400)])
    table = {"model_a": agents[first], "model_b": agents[second], "winner": np.where(won, "model_a", "model_b")}
    table |= {"hour": rng.integers(24, size=400), "voter": voter}
    log = ne.read_votes(pa.table(table), context=["hour"], voter="voter", text=None)
    found = ne.NashEval(outcome=Ridge(), folds=2, n_jobs=1, verbose=False).fit(log).audit(parts=["flips"]).flips
    for flip in found.flips:
        if flip.board == "lottery" and "big" in flip.voters:
            assert flip.confirmed is None or flip.refits > 0
            assert flip.confirmed is not None or "predicted, not refitted" in str(flip)
            assert flip.after != flip.before or flip.confirmed is False


def test_a_fit_afresh_that_could_not_be_made_undoes_nothing():
    flip = (
        ne.NashEval(outcome=Ridge(), folds=2, n_jobs=1, verbose=False)
        .fit(duels(n=300, seed=0))
        .audit(parts=["flips"])
        .flips.flips[0]
    )
    assert "alone can undo it" in str(replace(flip, confirmed=True, afresh=False))
    assert "undo" not in str(replace(flip, confirmed=True, afresh=None))
