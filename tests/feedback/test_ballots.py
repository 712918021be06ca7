"""Ballots cut into pairs, against a loop that does the same one ballot at a time."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.errors import InputError
from nasheval.feedback import partition
from nasheval.feedback.ballots import OFTEN, as_pairs, has_rare_menus
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.feedback.records import Records
from nasheval.payoff.aggregators import AsAsked, Mean, as_asked

from .oracle import quick

AGENTS = list("abcde")


def random_log(seed: int, n: int = 12, *, weights: bool = True, people: bool = True, times: bool = True) -> Feedback:
    """Ballots of two to five agents, ranked with ties, at contexts with none, one or several of them."""
    rng = np.random.default_rng(seed)
    context = np.sort(rng.integers(n, size=2 * n))
    sizes = rng.integers(2, 6, size=len(context))
    agent = np.concatenate([rng.permutation(5)[:size] for size in sizes])
    rank = rng.integers(3, size=len(agent))
    records = Records.build(
        sizes=sizes,
        agent=agent,
        rank=rank,
        zero=rng.choice([Zero.TIE, Zero.LAST], len(sizes)),
        weight=rng.choice([0.5, 1.0, 3.0], len(sizes)) if weights else None,
        voter=rng.integers(-1, 4, len(sizes)) if people else None,
        time=rng.random(len(sizes)) if times else None,
    )
    names = pa.array([f"v{number}" for number in range(4)]) if people else None
    contexts = pa.table({"x": rng.normal(size=n)})
    return Feedback.from_records(records, agents=AGENTS, contexts=contexts, context_of=context, voters=names)


def by_hand(log: Feedback) -> list[tuple[object, ...]]:
    """Return context, agents, verdict, weight, voter and time of every pair of every ballot, one after another."""
    records, cut = log.records, []
    for record in range(log.n_records):
        entries = range(records.offsets[record], records.offsets[record + 1])
        place = {int(records.agent[entry]): int(records.block[entry]) for entry in entries}
        pairs = list(combinations(sorted(place), 2))
        for j, k in pairs:
            cut.append(
                (
                    int(log.context_of[record]), j, k, int(np.sign(place[k] - place[j])),
                    float(records.weights[record]) / len(pairs),
                    None if records.voter is None else int(records.voter[record]),
                    None if records.time is None else float(records.time[record]),
                )
            )  # fmt: skip
    return cut


@quick
@given(seed=st.integers(0, 10**6), weights=st.booleans(), people=st.booleans(), times=st.booleans())
def test_every_pair_of_every_ballot_is_a_record(seed: int, weights: bool, people: bool, times: bool) -> None:
    log = random_log(seed, weights=weights, people=people, times=times)
    cut = as_pairs(log)
    records, verdicts = cut.records, cut.verdicts
    np.testing.assert_array_equal(verdicts.record, np.arange(cut.n_records))
    told = [
        (
            int(cut.context_of[r]), int(verdicts.j[r]), int(verdicts.k[r]), int(verdicts.z[r]),
            float(records.weights[r]), None if records.voter is None else int(records.voter[r]),
            None if records.time is None else float(records.time[r]),
        )
        for r in range(cut.n_records)
    ]  # fmt: skip
    assert told == by_hand(log)


@quick
@given(seed=st.integers(0, 10**6))
def test_a_ballot_weighs_as_much_as_before_and_the_log_is_kept_whole(seed: int) -> None:
    log = random_log(seed)
    cut = as_pairs(log)
    mass = [np.bincount(each.context_of, each.records.weights, each.n_contexts) for each in (log, cut)]
    np.testing.assert_allclose(mass[0], mass[1])
    assert cut.design == "draws"
    assert cut.whole is log
    assert cut.agents == log.agents
    assert cut.contexts is log.contexts
    np.testing.assert_array_equal(cut.pair_counts.votes > 0, log.pair_counts.votes > 0)


def test_duels_are_left_as_they_are_but_for_the_design() -> None:
    duels = [partition.duel("a", "b", "a"), partition.duel("b", "c", "tie"), partition.duel("a", "c", "both_bad")]
    log = Feedback.from_partitions([{}] * 3, duels, agents=list("abc"), design="inclusion")
    cut = as_pairs(log)
    np.testing.assert_array_equal(cut.verdicts.z, log.verdicts.z)
    np.testing.assert_array_equal(cut.records.agent, log.records.agent)
    assert cut.records.zero.tolist() == [Zero.TIE] * 3
    assert cut.design == "draws"


def test_a_log_without_records_is_cut_into_none() -> None:
    log = Feedback.from_partitions([{}] * 3, [], agents=list("abc"), context_of=[])
    assert as_pairs(log).n_records == 0
    assert not has_rare_menus(log)


# -- which logs are cut -----------------------------------------------------------------------------------------------


def asked(**times: int) -> Feedback:
    """Return rankings of menus, each spelled by its agents, asked so many times."""
    said = [partition.ranking(list(menu)) for menu, count in times.items() for _ in range(count)]
    return Feedback.from_partitions([{}] * len(said), said, agents=AGENTS)


@pytest.mark.parametrize(
    ("times", "rare"),
    [
        ({"ab": 2, "cd": 1}, False),  # one menu per pair: nothing to average over
        ({"ab": OFTEN, "abc": OFTEN}, False),
        ({"ab": OFTEN, "abc": OFTEN - 1}, True),
        ({"abc": 1, "cde": 1}, False),  # the two share one agent, no pair
        ({"abc": 100, "abd": 3}, True),
        ({"abc": OFTEN, "abd": OFTEN, "ce": 1}, False),  # a rare menu, but the only one of its pair
    ],
)
def test_menus_are_rare_where_a_pair_has_several_and_one_was_asked_seldom(times: dict[str, int], rare: bool) -> None:
    log = asked(**times)
    assert has_rare_menus(log) == rare
    cut, aggregator = as_asked(log)
    assert isinstance(aggregator, AsAsked if rare else Mean)
    assert (cut.ballots is log) == rare


def test_what_is_asked_for_is_done() -> None:
    rare, often = asked(ab=2, abc=2), asked(ab=OFTEN, abc=OFTEN)
    assert as_asked(rare, Mean()) == (rare, Mean())
    cut, aggregator = as_asked(often, AsAsked())
    assert cut.ballots is often
    assert aggregator == AsAsked()
    duels = asked(ab=2, cd=2)
    assert as_asked(duels, AsAsked())[0] is duels  # one menu per pair: the same as it is
    assert as_asked(cut) == (cut, AsAsked())
    assert isinstance(as_asked(rare, None)[1], AsAsked)
    with pytest.raises(InputError, match=r"aggregator is 'mean'; accepted are 'auto', Mean\(\), AsAsked\(\)"):
        as_asked(rare, "mean")  # type: ignore[arg-type]


def test_menus_of_known_propensities_are_not_cut() -> None:
    """What is known is the chance of the menu: that of a pair would have to be estimated, and was."""
    said = [partition.ranking(list(menu)) for menu in ("abc", "abd", "acd")]
    log = Feedback.from_partitions([{}] * 3, said, agents=AGENTS, propensity=[0.2, 0.3, 0.5])
    assert as_asked(log) == (log, Mean())
    assert as_asked(log, AsAsked())[0].ballots is log


def test_the_payoff_of_a_pair_is_the_mean_verdict_wherever_both_were_shown() -> None:
    log = random_log(3, n=60, weights=False)
    kept = log.keep_records(log.records.sizes == 3)  # ballots of one size: each pair weighs the same
    pair = as_pairs(kept)
    for j, k in combinations(range(5), 2):
        here = (pair.verdicts.j == j) & (pair.verdicts.k == k)
        there = (kept.verdicts.j == j) & (kept.verdicts.k == k)
        assert here.sum() == there.sum()
        if here.any():
            mean = np.average(pair.verdicts.z[here], weights=pair.records.weights[here])
            assert mean == pytest.approx(kept.verdicts.z[there].mean())
