"""Likelihoods and mean answers of one voter, against brute force over every answer that could have been given."""

from __future__ import annotations

from functools import partial
from itertools import combinations, permutations
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nasheval.feedback.menus import BEST_WORST, ORDER, PARTIAL
from nasheval.nuisance import voters_likelihood as likelihood
from nasheval.nuisance import voters_margins as mean
from nasheval.nuisance.voters_records import Kind, Question

torch = pytest.importorskip("torch")
quick = settings(deadline=None, max_examples=25)
NEVER = np.zeros(12)  # nobody stops ranking early


# -- the oracle: all answers with their chances ------------------------------------------------------------------------


def orders(u):
    """Every order of the agents, best first, with its Plackett-Luce probability."""
    for order in permutations(range(len(u))):
        rates = np.exp([u[j] for j in order])
        yield order, float(np.prod([rates[i] / rates[i:].sum() for i in range(len(u))]))


def partitions(agents, u, log_delta, stops=NEVER, stage=0):
    """Every answer of a Davidson-Luce voter who may stop: (blocks, chance), a last block left unranked included."""
    if len(agents) < 2:
        yield ((agents,) if agents else ()), 1.0
        return
    if stops[stage] > 0:
        yield (agents,), stops[stage]
    most = min(len(agents), 1 + len(log_delta))
    sets = [chosen for t in range(1, most + 1) for chosen in combinations(agents, t)]
    weight = {c: exp(np.mean([u[j] for j in c]) + (log_delta[len(c) - 2] if len(c) > 1 else 0.0)) for c in sets}
    for chosen in sets:
        chance = (1 - stops[stage]) * weight[chosen] / sum(weight.values())
        rest = tuple(j for j in agents if j not in chosen)
        for blocks, following in partitions(rest, u, log_delta, stops, stage + 1):
            yield (chosen, *blocks), chance * following


def verdicts(blocks, size):
    """Z of one answer, pairs (0, 1), (0, 2), ..., (1, 2), ..."""
    place = {j: b for b, block in enumerate(blocks) for j in block}
    return np.array([np.sign(place[k] - place[j]) for j, k in combinations(range(size), 2)])


def expected(answers, size):
    return sum(chance * verdicts(blocks, size) for blocks, chance in answers)


def coarse(u, shape):
    """The answers of a voter who tells only an ordered partition with blocks of these sizes."""
    ends = np.cumsum(shape)
    for order, chance in orders(u):
        yield tuple(order[end - size : end] for end, size in zip(ends, shape, strict=True)), chance


def chance_of(blocks, answers):
    return sum(chance for told, chance in answers if [set(b) for b in told] == [set(b) for b in blocks])


def tensor(values):
    """(size, one record, one voter)."""
    return torch.tensor(np.asarray(values, float)).view(-1, 1, 1)


def draw(size, seed=0):
    return np.random.default_rng((size, seed)).normal(size=size) * 1.5


# -- likelihoods -------------------------------------------------------------------------------------------------------


def test_a_duel_of_rates_two_to_one():
    assert likelihood.ranked(tensor([log(2), 0])).exp().item() == pytest.approx(2 / 3)


@pytest.mark.parametrize(("outcome", "chance"), [(0, 4 / 8), (1, 2 / 8), (2, 1 / 8)])
def test_a_duel_with_ties_and_both_bad(outcome, chance):
    ties = torch.zeros(2, 1, 1, dtype=torch.float64)  # nu = 1 and exp(t) = 1: weights 4, 1, sqrt(4 * 1) and 1
    told = likelihood.duel(tensor([log(4), 0]), torch.tensor([outcome]), ties)
    assert told.exp().item() == pytest.approx(chance)


def test_the_winner_of_three_with_rates_three_two_one():
    assert likelihood.censored(tensor(np.log([3, 2, 1])), (1, 2)).exp().item() == pytest.approx(3 / 6)


def test_the_best_two_of_three_equals():
    assert likelihood.censored(tensor([0, 0, 0]), (2, 1)).exp().item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_ranking(size):
    u = draw(size)
    for order, chance in orders(u):
        assert likelihood.ranked(tensor(u[list(order)])).exp().item() == pytest.approx(chance)


@pytest.mark.parametrize("shape", [(1, 2), (2, 2), (1, 2, 1), (3, 1), (1, 3, 1), (2, 1, 2), (4, 2), (1, 4, 1), (5, 2)])
def test_a_partition_whose_inner_orders_were_not_asked(shape):
    u = draw(sum(shape))
    answers = list(coarse(u, shape))
    for blocks in dict.fromkeys(told for told, _ in answers[::97]):
        agents = [j for block in blocks for j in block]
        told = likelihood.censored(tensor(u[agents]), shape).exp().item()
        assert told == pytest.approx(chance_of(blocks, answers), rel=1e-5)


def test_large_sets_are_integrated_to_six_digits():
    block, rest = tensor(draw(4) * 2), tensor([0.3])[0]
    summed, integrated = likelihood._summed(block, rest), likelihood._integrated(block, rest)
    assert integrated.item() == pytest.approx(summed.item(), abs=1e-6)


def test_only_the_prefix_of_an_unfinished_ranking_counts():
    u = draw(4)
    told = torch.tensor([[1], [1], [0], [0]])
    chance = sum(chance for order, chance in orders(u) if order[:2] == (0, 1))
    assert likelihood.ranked(tensor(u), told).exp().item() == pytest.approx(chance)


@pytest.mark.parametrize(("size", "log_delta"), [(3, [-0.5]), (3, [0.2, -1.0]), (4, [-0.3, -1.0, 0.4])])
def test_ties_in_larger_menus(size, log_delta):
    u = draw(size)
    ties, total = torch.tensor(log_delta, dtype=torch.float64).view(-1, 1, 1), 0.0
    for blocks, chance in partitions(tuple(range(size)), u, log_delta):
        agents = [j for block in blocks for j in block]
        told = [len(block) if i == 0 else 0 for block in blocks for i in range(len(block))]
        found = likelihood.tied(tensor(u[agents]), torch.tensor(told).view(-1, 1), ties).exp().item()
        assert found == pytest.approx(chance)
        total += found
    assert total == pytest.approx(1.0)


def test_ties_in_a_menu_of_two_are_those_of_a_duel():
    u, nu = tensor([0.7, -0.2]), torch.tensor([-0.4], dtype=torch.float64).view(1, 1, 1)
    never = torch.full((1, 1, 1), -1e4, dtype=torch.float64)
    tie = likelihood.duel(u, torch.tensor([1]), torch.cat([nu, never]))
    assert likelihood.tied(u, torch.tensor([[2], [0]]), nu).item() == pytest.approx(tie.item())


def test_menus_too_large_for_a_law_of_ties_are_judged_pair_by_pair():
    u, nu = tensor([0.5, 0.1, -0.4]), torch.tensor([[-0.3]], dtype=torch.float64)
    block, told = torch.tensor([[0], [0], [1]]), torch.tensor([[2], [0], [1]])
    ties = torch.cat([nu[None], torch.full((1, 1, 1), -1e4, dtype=torch.float64)])
    pairs = [(0, 1, 1), (0, 2, 0), (1, 2, 0)]
    sum_of_pairs = sum(likelihood.duel(u[[a, b]], torch.tensor([how]), ties).item() for a, b, how in pairs)
    assert likelihood.pairs(u, block, told, nu).item() == pytest.approx(2 / 3 * sum_of_pairs)


LAWS = {
    "ranking": (3, likelihood.ranked),
    "prefix": (4, partial(likelihood.ranked, starts=torch.tensor([[1, 1], [0, 1], [0, 0], [0, 0]]))),
    "top two of four": (4, partial(likelihood.censored, shape=(2, 2))),
    "best and worst of five": (5, partial(likelihood.censored, shape=(1, 3, 1))),
    "top five of seven": (7, partial(likelihood.censored, shape=(5, 2))),
}


@pytest.mark.parametrize("name", LAWS)
def test_gradients_are_those_of_finite_differences(name):
    size, law = LAWS[name]
    u = torch.randn(size, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(law, (u,))


def test_gradients_of_ties_are_those_of_finite_differences():
    generator = torch.Generator().manual_seed(0)
    u, ties = (torch.randn(n, 2, 3, dtype=torch.float64, generator=generator, requires_grad=True) for n in (4, 2))
    assert torch.autograd.gradcheck(lambda a, b: likelihood.duel(a[:2], torch.tensor([0, 1]), b), (u, ties))
    told = torch.tensor([[1, 2], [2, 0], [0, 1], [1, 1]])
    assert torch.autograd.gradcheck(lambda a, b: likelihood.tied(a, told, b), (u, ties))
    block = torch.tensor([[0, 0], [1, 0], [1, 1], [2, 2]])
    assert torch.autograd.gradcheck(lambda a, b: likelihood.pairs(a, block, told, b[0]), (u, ties))


# -- mean answers ------------------------------------------------------------------------------------------------------


def margins(question, u, ties=(), stops=NEVER):
    return mean.margins(question, np.asarray(u, float)[:, None, None], np.asarray(ties)[:, None, None], stops)[:, 0, 0]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_mean_answer_to_a_ranking(size):
    u = draw(size)
    np.testing.assert_allclose(margins(Question(size, ORDER, Kind.RANKED), u), expected(coarse(u, (1,) * size), size))


def test_mean_answer_to_a_duel_with_ties_and_both_bad():
    rates, nu, bad = (4.0, 1.0), 0.5, 3.0
    found = margins(Question(2, ORDER, Kind.DUEL, 0, 2), np.log(rates), [log(nu), log(bad)])
    assert found == pytest.approx((4 - 1) / (4 + 1 + nu * 2 + bad))


@pytest.mark.parametrize(("size", "r"), [(3, 1), (4, 1), (4, 2), (5, 3), (6, 2), (3, 3)])
def test_mean_answer_to_choose_the_best(size, r):
    u = draw(size)
    shape = (r, size - r) if r < size else (r,)
    np.testing.assert_allclose(
        margins(Question(size, r, Kind.CENSORED), u), expected(coarse(u, shape), size), atol=1e-12
    )


@pytest.mark.parametrize("size", [4, 5, 6])
def test_mean_answer_to_best_and_worst(size):
    u = draw(size)
    found = margins(Question(size, BEST_WORST, Kind.CENSORED), u)
    np.testing.assert_allclose(found, expected(coarse(u, (1, size - 2, 1)), size), atol=1e-5)


@pytest.mark.parametrize(("form", "stops"), [(ORDER, NEVER), (PARTIAL, [0.1, 0.3, 0.5, 0])])
@pytest.mark.parametrize("log_delta", [[], [-0.5], [0.3, -1.0]])
def test_mean_answer_to_a_weak_ranking(form, stops, log_delta):
    u, kind = draw(4), Kind.TIED if log_delta else Kind.RANKED
    found = margins(Question(4, form, kind, 0, len(log_delta)), u, log_delta, stops)
    np.testing.assert_allclose(found, expected(partitions((0, 1, 2, 3), u, log_delta, stops), 4), atol=1e-12)


def test_mean_answer_pair_by_pair():
    found = margins(Question(9, ORDER, Kind.PAIRS, 0, 1), np.log(np.arange(9, 0, -1.0)), [log(0.5)])
    assert found[0] == pytest.approx((9 - 8) / (9 + 8 + 0.5 * np.sqrt(72)))


def simulated(u, n=200_000):
    """Places of the agents in n Plackett-Luce orders, (n, size)."""
    clocks = np.random.default_rng(0).exponential(size=(n, len(u))) / np.exp(u)
    return clocks.argsort(axis=1).argsort(axis=1)


def test_choosing_many_of_many_is_close_to_simulated_answers():
    u = draw(12)
    inside = (simulated(u) < 6).mean(axis=0)
    j, k = np.triu_indices(12, 1)
    np.testing.assert_allclose(margins(Question(12, 6, Kind.CENSORED), u), inside[j] - inside[k], atol=0.04)


def test_unfinished_rankings_of_many_are_close_to_simulated_answers():
    u, stops = draw(10), np.full(10, 0.25)
    place = simulated(u)
    ranked = np.random.default_rng(1).geometric(0.25, size=len(place))[:, None] - 1
    told = np.where(place < ranked, place, 99)
    j, k = np.triu_indices(10, 1)
    answers = np.sign(told[:, k] - told[:, j]).mean(axis=0)
    np.testing.assert_allclose(margins(Question(10, PARTIAL, Kind.RANKED), u, (), stops), answers, atol=0.04)


QUESTIONS = st.sampled_from(
    [
        Question(4, ORDER, Kind.RANKED),
        Question(4, 1, Kind.CENSORED),
        Question(4, 2, Kind.CENSORED),
        Question(4, BEST_WORST, Kind.CENSORED),
        Question(4, ORDER, Kind.TIED, 0, 2),
        Question(4, PARTIAL, Kind.TIED, 0, 2),
        Question(4, ORDER, Kind.PAIRS, 0, 1),
    ]
)


@quick
@given(
    question=QUESTIONS,
    u=hnp.arrays(np.float32, 4, elements=st.floats(-150, 150, width=32)),
    ties=hnp.arrays(np.float32, 2, elements=st.floats(-9, 9, width=32)),
)
def test_mean_answers_are_antisymmetric_and_within_bounds(question, u, ties):
    stops = np.array([0.2, 0.3, 0.0, 0.0])
    ties = ties[: question.n_tie]
    found, turned = margins(question, u, ties, stops), margins(question, u[::-1], ties, stops)
    assert np.abs(found).max() <= 1 + 1e-5
    np.testing.assert_allclose(turned, -found[[5, 4, 2, 3, 1, 0]], atol=1e-6)
