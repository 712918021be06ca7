"""The menus that stand for columns of cut ballots and for bridged pairs, against asking about every menu."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_array

from nasheval.feedback import partition
from nasheval.feedback.ballots import as_pairs
from nasheval.feedback.log import Feedback
from nasheval.feedback.menus import MenuCatalogue
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.voters import Voters
from nasheval.nuisance.voters_probes import Probes, bridge_probes, probes_of, question_numbers
from nasheval.nuisance.voters_records import Kind, questions_of

SETTINGS = Voters(voters=2, hidden=(8,), epochs=3, weight_decay=0.3, members=1)
AGENTS = list("abcdef")


def answered(rng, menu, form):
    """Return an answer to a menu of agents, the first of the alphabet being the best more often than not."""
    strength = rng.gumbel(size=len(menu)) - np.array([AGENTS.index(agent) for agent in menu]) / 2
    order = [menu[place] for place in np.argsort(-strength)]
    if form == "winner":
        return partition.winner(order[0], menu)
    if form == "weak":
        cut = int(rng.integers(1, len(order)))
        ties = [order[:cut], order[cut:]] if rng.random() < 0.4 else [[agent] for agent in order]
        return partition.weak(ties)
    return partition.ranking(order)


def ballots(form, n=90, sizes=(3,), seed=0, agents=AGENTS):
    """Return ballots on random menus, most of them asked a few times, at contexts of two numbers."""
    rng = np.random.default_rng(seed)
    menus = [sorted(rng.choice(agents, rng.choice(sizes), replace=False)) for _ in range(n)]
    said = [answered(rng, menu, form) for menu in menus]
    weight = rng.choice([0.5, 1.0, 2.0], n)
    return Feedback.from_partitions(rng.normal(size=(n, 2)), said, agents=agents, weight=weight.tolist())


def fitted(log, settings=SETTINGS):
    """Return voters fitted on a log (whole, or cut into pairs), and its contexts."""
    x = np.stack([np.asarray(column) for column in log.contexts.columns], axis=1)
    X, train = Features(x, x), np.ones((1, log.n_contexts), bool)
    return settings.fit(log, X, train, Effort()), X


def own_menus(menus, models):
    """Return the probes for the columns of a catalogue: its own menus."""
    return Probes(menus, question_numbers(menus, list(models.questions)))


def by_every_menu(log, models, X):
    """Return (n, pairs seen) mean answers over all menus of a pair, as often as each was asked per pair of it."""
    whole = log.ballots
    answers = models.answers(X, 0, own_menus(whole.menus, models)).astype(float)
    columns = whole.menus.columns
    mass = np.bincount(whole.menus.of_record, whole.records.weights, len(whole.menus))
    size = whole.menus.sizes[columns.menu]
    weight = mass[columns.menu] / (size * (size - 1) / 2)
    found = []
    for pair in log.menus.columns.pair:
        rows = np.flatnonzero(columns.pair == pair)
        found.append((answers[:, rows] * weight[rows]).sum(axis=1) / weight[rows].sum())
    return np.stack(found, axis=1)


@pytest.mark.parametrize(
    ("form", "sizes", "within"),
    [
        ("ranking", (3, 5), 1e-5),  # Plackett-Luce: who else is there does not matter
        ("winner", (3,), 1e-5),  # few menus: all of them are asked about
        ("winner", (2, 3), 1e-5),
        ("weak", (3,), 0.03),  # with ties it hardly matters
        ("weak", (3, 4), 0.03),
    ],
    ids=str,
)
def test_pooled_answers_are_means_over_all_menus(form, sizes, within):
    log = as_pairs(ballots(form, sizes=sizes))
    models, X = fitted(log)
    found, expected = models.predict(X, 0), by_every_menu(log, models, X)
    assert np.abs(expected).max() > 0.2  # there is something to get wrong
    np.testing.assert_allclose(found, expected, atol=within)


def test_many_menus_cost_no_more_than_a_few_per_pair():
    """600 ballots on menus of four of 12 agents, most menus asked once: winners need menus, rankings need pairs."""
    many = [chr(ord("a") + number) for number in range(12)]
    place_of = {agent: place for place, agent in enumerate(many)}
    rng = np.random.default_rng(1)
    menus = [sorted(rng.choice(many, 4, replace=False)) for _ in range(600)]
    contexts = rng.normal(size=(600, 2))
    for form in ("ranking", "winner"):
        said = []
        for menu in menus:
            order = sorted(menu, key=lambda agent: place_of[agent] + rng.normal())
            said.append(partition.winner(order[0], menu) if form == "winner" else partition.ranking(order))
        log = as_pairs(Feedback.from_partitions(contexts, said, agents=many))
        assert len(log.ballots.menus) > 300
        probes = probes_of(log, questions_of(log.ballots))
        np.testing.assert_allclose(np.asarray(probes.pooling.sum(axis=0)).ravel(), 1.0)
        assert probes.n_columns == len(log.menus.columns) == 66
        if form == "ranking":
            assert probes.menus.sizes.tolist() == [2] * 66
            continue
        assert len(probes.menus) < 8 * 66 / 3  # a menu of four serves up to six pairs
        of_pair = [int((probes.menus.columns.pair == pair).sum()) for pair in range(66)]
        there = [int((log.ballots.menus.columns.pair == pair).sum()) for pair in range(66)]
        assert all(count >= min(8, has) for count, has in zip(of_pair, there, strict=True))
        models, X = fitted(log)
        gap = models.predict(X, 0) - by_every_menu(log, models, X)
        assert np.abs(np.mean(gap)) < 0.012  # some menus stand for all,
        assert np.sqrt(np.mean(gap**2)) < 0.05  # as a sample of them does


def test_every_column_takes_answers_on_its_own_pair():
    log = as_pairs(ballots("winner", sizes=(2, 3, 4)))
    probes = probes_of(log, questions_of(log.ballots))
    row, column = probes.pooling.nonzero()
    np.testing.assert_array_equal(probes.menus.columns.pair[row], log.menus.columns.pair[column])
    assert set(column) == set(range(len(log.menus.columns)))


def test_whole_menus_are_their_own_probes():
    log = ballots("winner")
    probes = probes_of(log, questions_of(log))
    assert probes.pooling is None
    assert probes.menus is log.menus
    answers = np.arange(len(log.menus.columns) * 2.0).reshape(2, -1)
    assert probes.pooled(answers) is answers


# -- pairs that were never compared -----------------------------------------------------------------------------------


def two_sides(form):
    """Return ballots on {a, b, c}, {a, b, d} and {a, e, f}: c and d never meet, nor do e and most others."""
    rng, menus = np.random.default_rng(2), (["a", "b", "c"], ["a", "b", "d"], ["a", "e", "f"])
    said = [answered(rng, menus[number % 3], form) for number in range(90)]
    return Feedback.from_partitions(rng.normal(size=(90, 2)), said, agents=AGENTS)


def never(log):
    seen = {int(pair) for pair in log.menus.columns.pair}
    return np.array([pair for pair in range(15) if pair not in seen])


def test_in_rankings_two_agents_stand_for_an_unseen_pair():
    log = two_sides("ranking")
    models, X = fitted(log)
    pairs = never(log)
    probes = bridge_probes(log, list(models.questions), pairs)
    assert probes.menus.sizes.tolist() == [2] * len(pairs)
    voters = models.voters(X, 0)
    u = np.stack([voter.u for voter in voters]).transpose(2, 0, 1).astype(float)
    weight = np.array([float(voter.weight[0]) for voter in voters])
    both = list(combinations(range(6), 2))
    expected = [
        (weight * np.tanh((u[:, :, both[p][0]] - u[:, :, both[p][1]]) / 2)).sum(axis=1) for p in pairs
    ]  # fmt: skip
    np.testing.assert_allclose(models.answers(X, 0, probes), np.stack(expected, axis=1), atol=1e-5)


def test_of_winners_an_unseen_pair_is_asked_in_menus_made_up_for_it():
    log = two_sides("winner")
    models, X = fitted(log)
    assert [question.kind for question in models.questions] == [Kind.CENSORED]
    pairs = never(log)
    probes = bridge_probes(log, list(models.questions), pairs)
    assert set(probes.menus.sizes.tolist()) == {3}
    np.testing.assert_allclose(np.asarray(probes.pooling.sum(axis=0)).ravel(), 1.0)
    row, column = probes.pooling.nonzero()
    np.testing.assert_array_equal(probes.menus.columns.pair[row], pairs[column])
    whole = models.answers(X, 0, own_menus(probes.menus, models)).astype(float)
    found = models.answers(X, 0, probes)
    own = np.stack([whole[:, row[column == place]].mean(axis=1) for place in range(len(pairs))], axis=1)
    np.testing.assert_allclose(found, own, atol=1e-5)


def test_a_question_whose_answers_do_not_depend_on_the_menu_is_preferred():
    rng = np.random.default_rng(3)
    said = [answered(rng, ["a", "b", "c"], "winner") for _ in range(80)]
    said += [answered(rng, ["c", "d"], "ranking") for _ in range(10)]
    log = Feedback.from_partitions(rng.normal(size=(90, 2)), said, agents=list("abcd"))
    questions = questions_of(log)
    probes = bridge_probes(log, questions, np.array([2, 4]))  # a and d, b and d
    assert {questions[number].kind for number in probes.question} == {Kind.RANKED}
    assert probes.menus.sizes.tolist() == [2, 2]


def test_cut_ballots_are_bridged_by_their_whole_questions():
    cut = as_pairs(two_sides("winner"))
    probes = bridge_probes(cut, questions_of(cut.ballots), never(cut.ballots))
    assert set(probes.menus.sizes.tolist()) == {3}


@pytest.mark.parametrize("rows", [(0, 1, 2), (0, 0, 1), (2, 1, 0), (0, 1, 1)])
@pytest.mark.parametrize("columns", [(0, 1, 2), (0, 2, 1)])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_pooling_is_a_product_whether_or_not_it_is_the_identity(rows, columns, share):
    pooling = csr_array((np.full(3, share), (rows, columns)), shape=(3, 3))
    menus = MenuCatalogue(
        np.arange(0, 7, 2), np.array([0, 1, 0, 2, 1, 2], np.int16), np.zeros(3, np.int16), np.zeros(0, np.int32), 3
    )
    answers = np.array([[0.25, -0.5, 1.0], [0.0, 0.75, -1.0]])
    found = Probes(menus, np.zeros(3, np.int64), pooling).pooled(answers)
    np.testing.assert_array_equal(found, answers @ pooling.toarray())
