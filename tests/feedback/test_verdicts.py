"""Pair verdicts and counts: the paper's printed matrices, and a literal transcription of Eq. verdict."""

from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Partition, Zero, best_worst, duel, ranking, scores, top, weak, winner
from nasheval.feedback.records import Records
from nasheval.feedback.verdicts import pair_verdicts

from .oracle import Plain, Said, build, logs, quick

PRINTED_Z = [
    [0, 0, 1, 1, 1],
    [0, 0, 1, 1, 1],
    [-1, -1, 0, 1, 1],
    [-1, -1, -1, 0, 0],
    [-1, -1, -1, 0, 0],
]


def log_of(*answers: Partition, agents: str | None = None, **columns: object) -> Feedback:
    contexts = np.zeros((len(answers), 1))
    return Feedback.from_partitions(contexts, answers, agents=agents and list(agents), **columns)


def verdict_matrix(records: Records, row: int, n_agents: int) -> np.ndarray:
    """Return the antisymmetric (K, K) matrix Z^m of one record, zero for agents outside its menu."""
    one = pair_verdicts(records.take(np.array([row])))
    matrix = np.zeros((n_agents, n_agents), np.int8)
    matrix[one.j, one.k], matrix[one.k, one.j] = one.z, -one.z
    return matrix


# -- the paper's numbers ----------------------------------------------------------------------------------------------


def test_the_weak_ranking_of_the_paper_gives_the_printed_matrix() -> None:
    log = log_of(weak([[1, 2], [3], [4, 5]]))
    assert verdict_matrix(log.records, 0, 5).tolist() == PRINTED_Z


def test_the_scores_of_the_paper_give_the_same_matrix() -> None:
    log = log_of(scores({1: 5, 2: 5, 3: 3, 4: 1, 5: 1}))
    assert verdict_matrix(log.records, 0, 5).tolist() == PRINTED_Z


@pytest.mark.parametrize(
    ("answer", "zeros"),
    [
        (duel(1, 3, "tie"), {(1, 3): Zero.TIE}),
        (duel(1, 3, "both_bad"), {(1, 3): Zero.BOTH_BAD}),
        (ranking([1, 2, 3, 4, 5]), {}),
        (weak([[1, 2], [3], [4, 5]]), {(1, 2): Zero.TIE, (4, 5): Zero.TIE}),
        (top([1, 2], range(1, 6)), dict.fromkeys([(1, 2), (3, 4), (3, 5), (4, 5)], Zero.CENSORED)),
        (best_worst(1, 5, range(1, 6)), dict.fromkeys([(2, 3), (2, 4), (3, 4)], Zero.CENSORED)),
        (winner(1, range(1, 5)), dict.fromkeys([(2, 3), (2, 4), (3, 4)], Zero.CENSORED)),
        (Partition(((1, 2), (3, 4)), Zero.LAST), {(1, 2): Zero.TIE, (3, 4): Zero.CENSORED}),
        (Partition(((1, 2, 3),), Zero.LAST), dict.fromkeys([(1, 2), (1, 3), (2, 3)], Zero.CENSORED)),
    ],
    ids=["tie", "both bad", "ranking", "weak", "top-2", "best-worst", "winner", "left unranked", "nothing ranked"],
)
def test_a_zero_verdict_keeps_its_reason(answer: Partition, zeros: dict[tuple[int, int], Zero]) -> None:
    log = log_of(answer)
    pairs = [(int(log.agents[j]), int(log.agents[k])) for j, k in zip(log.verdicts.j, log.verdicts.k, strict=True)]
    assert len(pairs) == len(answer.menu) * (len(answer.menu) - 1) // 2
    reasons = dict(zip(pairs, log.verdicts.zero.tolist(), strict=True))
    assert {pair: reason for pair, reason in reasons.items() if reason != Zero.DECIDED} == zeros
    assert [pair for pair, z in zip(pairs, log.verdicts.z, strict=True) if z == 0] == sorted(zeros)


def test_the_condorcet_cycle_of_three_raters() -> None:
    log = log_of(ranking("abc"), ranking("bca"), ranking("cab"))
    margins = [verdict_matrix(log.records, rater, 3).tolist() for rater in range(3)]
    assert margins == [
        [[0, 1, 1], [-1, 0, 1], [-1, -1, 0]],
        [[0, -1, -1], [1, 0, 1], [1, -1, 0]],
        [[0, 1, -1], [-1, 0, -1], [1, 1, 0]],
    ]
    assert log.pair_counts.margin == pytest.approx(np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]]) / 3)


# -- a literal transcription ------------------------------------------------------------------------------------------


def verdict(said: Said, j: str, k: str) -> tuple[int, Zero]:
    if said.place(j) < said.place(k):
        return 1, Zero.DECIDED
    if said.place(j) > said.place(k):
        return -1, Zero.DECIDED
    if said.zero is Zero.LAST:
        return 0, Zero.CENSORED if said.place(j) == len(said.blocks) - 1 else Zero.TIE
    return 0, said.zero


@quick
@given(logs())
def test_verdicts_are_those_of_the_transcription(plain: Plain) -> None:
    log = build(plain)
    expected = [
        (r, j, k, *verdict(said, plain.agents[j], plain.agents[k]))
        for r, said in enumerate(plain.grouped().said)
        for j, k in combinations(sorted(plain.agents.index(name) for name in said.menu), 2)
    ]
    v = log.verdicts
    assert list(zip(v.record, v.j, v.k, v.z, v.zero, strict=True)) == expected
    assert len(v) == len(expected)


@quick
@given(logs())
def test_counts_are_those_of_the_transcription(plain: Plain) -> None:
    counts = build(plain).pair_counts
    cells: dict[str, dict[tuple[str, str], float]] = {name: defaultdict(float) for name in ("w", "t", "c", "v")}
    for said in plain.said:
        weight = 1.0 if said.weight is None else said.weight
        for j in said.menu:
            for k in said.menu - {j}:
                z, reason = verdict(said, j, k)
                cells["v"][j, k] += 1
                cells["w"][j, k] += weight * (z == 1)
                cells["t"][j, k] += weight * (reason in (Zero.TIE, Zero.BOTH_BAD))
                cells["c"][j, k] += weight * (reason is Zero.CENSORED)
    for name, matrix in zip("wtcv", (counts.wins, counts.ties, counts.censored, counts.votes), strict=True):
        assert matrix.tolist() == [[cells[name][j, k] for k in plain.agents] for j in plain.agents]
    for a, j in enumerate(plain.agents):
        for b, k in enumerate(plain.agents):
            total = cells["w"][j, k] + cells["w"][k, j] + cells["t"][j, k] + cells["c"][j, k]
            mean = (cells["w"][j, k] - cells["w"][k, j]) / total if total else 0.0 if j == k else np.nan
            assert counts.margin[a, b] == pytest.approx(mean, nan_ok=True)


@quick
@given(logs())
def test_each_matrix_is_antisymmetric_and_agrees_with_the_flat_verdicts(plain: Plain) -> None:
    log = build(plain)
    for r in range(log.n_records):
        Z = verdict_matrix(log.records, r, log.n_agents)
        assert np.array_equal(Z, -Z.T)
        mine = log.verdicts.record == r
        assert Z[log.verdicts.j[mine], log.verdicts.k[mine]].tolist() == log.verdicts.z[mine].tolist()


# -- symmetries -------------------------------------------------------------------------------------------------------


@quick
@given(logs(has=("weight",)), st.randoms(use_true_random=False))
def test_counts_do_not_depend_on_the_order_of_the_records(plain: Plain, random) -> None:
    log, order = build(plain), list(range(len(plain.said)))
    random.shuffle(order)
    shuffled = Feedback.from_records(log.records.take(np.array(order, int)), agents=log.agents)
    for name in ("wins", "ties", "censored", "votes"):
        assert np.array_equal(getattr(shuffled.pair_counts, name), getattr(log.pair_counts, name))


@quick
@given(logs(has=("weight", "shown")), st.randoms(use_true_random=False))
def test_renaming_the_agents_permutes_the_counts(plain: Plain, random) -> None:
    log, number = build(plain), list(range(len(plain.agents)))
    random.shuffle(number)
    renamed = Feedback.from_records(log.records.with_agents(np.array(number)), agents=log.agents)
    for name in ("wins", "ties", "censored", "votes", "margin"):
        before, after = getattr(log.pair_counts, name), getattr(renamed.pair_counts, name)
        assert np.array_equal(after[np.ix_(number, number)], before, equal_nan=True)


# -- corners ----------------------------------------------------------------------------------------------------------


def test_no_records_give_no_verdicts_and_unknown_margins() -> None:
    none = Records.build(sizes=np.array([]), agent=np.array([]), rank=np.array([]))
    assert len(pair_verdicts(none)) == 0
    log = Feedback.from_records(none, agents=["a", "b"])
    assert log.pair_counts.votes.tolist() == [[0, 0], [0, 0]]
    assert np.array_equal(log.pair_counts.margin, [[0, np.nan], [np.nan, 0]], equal_nan=True)
    assert Feedback.from_records(none, agents=["a"]).pair_counts.margin.tolist() == [[0.0]]


def test_a_ranking_of_two_hundred_decides_every_pair() -> None:
    order = np.random.default_rng(0).permutation(200)
    log = Feedback.from_records(
        Records.build(sizes=np.array([200]), agent=order, rank=np.arange(200)), agents=[str(i) for i in range(200)]
    )
    place = np.argsort(order)
    assert np.array_equal(verdict_matrix(log.records, 0, 200), np.sign(place[None, :] - place[:, None]))


@pytest.mark.parametrize("name", ["record", "j", "k", "z", "zero"])
def test_verdicts_cannot_be_written_to(name: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(log_of(duel("a", "b", "a")).verdicts, name)[0] = 1


@pytest.mark.parametrize("name", ["wins", "ties", "censored", "votes"])
def test_counts_cannot_be_written_to(name: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(log_of(duel("a", "b", "a")).pair_counts, name)[0, 1] = 9
