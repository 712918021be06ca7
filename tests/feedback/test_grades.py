"""Graded verdicts: a number in [-1, 1] from the reader to the payoff."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.errors import InputError, ReadError
from nasheval.feedback.arrow import from_arrow, to_arrow
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.feedback.records import Records
from nasheval.nuisance.voters_records import pooled_utilities, questions_of, tables_of

AGENTS = ("x", "y", "z")
DUELS = st.lists(
    st.tuples(st.sampled_from([(0, 1), (0, 2), (1, 2)]), st.sampled_from([-1, 0, 1]), st.sampled_from([0.25, 0.5, 1.0]),
              st.integers(0, 2)),
    min_size=1, max_size=12,
)  # fmt: skip


def log_of(duels, *, grades=True, weight=None):
    """A log of (pair, who won, how clearly, context)."""
    duels = sorted(duels, key=lambda duel: duel[3])
    records = Records.build(
        sizes=np.full(len(duels), 2),
        agent=np.array([agent for pair, *_ in duels for agent in pair]),
        rank=np.array([rank for _, z, *_ in duels for rank in (0, z)]),
        weight=weight,
        grade=np.array([grade for _, _, grade, _ in duels]) if grades else None,
    )
    contexts = pa.table({"c": [0.0, 1.0, 2.0]})
    return Feedback.from_records(
        records, agents=AGENTS, contexts=contexts, context_of=np.array([duel[3] for duel in duels]), n_contexts=3
    )


@given(DUELS)
@settings(max_examples=100, deadline=None)
def test_verdicts_and_counts_agree_with_brute_force(duels):
    log = log_of(duels)
    ordered = sorted(duels, key=lambda duel: duel[3])
    assert log.verdicts.z.tolist() == [z * grade for _, z, grade, _ in ordered]
    for j in range(3):
        for k in range(j + 1, 3):
            said = [z * grade for pair, z, grade, _ in duels if pair == (j, k)]
            mean = np.mean(said) if said else np.nan
            assert log.pair_counts.margin[j, k] == pytest.approx(mean, nan_ok=True)
            assert log.pair_counts.margin[k, j] == pytest.approx(-mean, nan_ok=True)


@given(DUELS)
@settings(max_examples=100, deadline=None)
def test_a_graded_duel_is_two_answers_that_share_its_weight(duels):
    """The likelihood of voters, against a log in which each graded duel is two plain ones."""
    halves = []
    for pair, z, grade, context in duels:
        halves.append(((pair, z, 1.0, context), (1 + grade) / 2 if z else 1.0))
        if z and grade < 1:
            halves.append(((pair, -z, 1.0, context), (1 - grade) / 2))
    halves.sort(key=lambda half: half[0][3])
    graded, split = (
        log_of(duels),
        log_of([duel for duel, _ in halves], grades=False, weight=np.array([w for _, w in halves])),
    )
    assert questions_of(graded) == questions_of(split)
    for one, other in zip(*(tables_of(log, questions_of(log)) for log in (graded, split)), strict=True):
        for name in ("agents", "block", "starts", "outcome", "offsets"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert one.weight == pytest.approx(other.weight)
        assert one.count.sum() == len(duels)
    seen = np.ones((1, 3), bool)
    assert pooled_utilities(graded, seen) == pytest.approx(pooled_utilities(split, seen), abs=1e-8)
    assert graded.pair_counts.wins == pytest.approx(split.pair_counts.wins)


@given(DUELS)
@settings(max_examples=30, deadline=None)
def test_grades_survive_storage_joining_and_renaming(duels):
    log = log_of(duels)
    assert from_arrow(to_arrow(log)).records.grade.tolist() == log.records.grade.tolist()
    plain = log_of(duels, grades=False)
    both = Records.concat([plain.records, log.records])
    assert both.grade.tolist() == [1.0] * len(duels) + log.records.grade.tolist()
    turned = log.records.with_agents(np.array([2, 1, 0]))
    assert turned.grade.tolist() == log.records.grade.tolist()


def test_a_log_without_grades_is_stored_as_before():
    about = to_arrow(log_of([((0, 1), 1, 1.0, 0)], grades=False)).schema.metadata[b"nasheval.feedback"]
    assert b'"format": 1' in about


@pytest.mark.parametrize("grade", [0.0, -0.5, 1.5, np.nan])
def test_grades_outside_their_range_are_refused(grade):
    with pytest.raises(InputError, match=r"The grade of record 0 is .*; accepted is a number above 0 and at most 1"):
        log_of([((0, 1), 1, grade, 0)])


def test_larger_menus_have_no_grade():
    with pytest.raises(InputError, match="accepted is 1, since it compares more than two agents"):
        Records.build(sizes=np.array([3]), agent=np.arange(3), rank=np.arange(3), zero=Zero.TIE, grade=np.array([0.5]))


# -- readers ----------------------------------------------------------------------------------------------------------

VOTES = pd.DataFrame(
    {"model_a": ["x", "x", "y"], "model_b": ["y", "y", "x"], "winner": ["A>>B", "A>B", "B>A"], "g": [1, 0.2, 0.4]}
)
LABELS = {"A>>B": "a", "A>B": "a:0.5", "B>A": "b:0.25"}


def test_labels_can_carry_a_grade():
    log = ne.read_votes(VOTES, labels=LABELS)
    assert log.verdicts.z.tolist() == [1.0, 0.5, 0.25]
    assert log.report.labels == {"A>>B": ("a", 1), "A>B": ("a:0.5", 1), "B>A": ("b:0.25", 1)}
    plain = ne.read_votes(VOTES, labels=LABELS, grades="sign")
    assert plain.records.grade is None
    assert plain.verdicts.z.tolist() == [1, 1, 1]


def test_a_column_can_hold_grades():
    labels = {label: meaning.split(":")[0] for label, meaning in LABELS.items()}
    assert ne.read_votes(VOTES, labels=labels, grade="g").verdicts.z.tolist() == [1.0, 0.2, 0.4]
    with pytest.raises(ReadError, match=r"column 'g', row 2: found 1\.2 as grade"):
        ne.read_votes(VOTES.assign(g=[1, 1.2, 0.4]), labels=labels, grade="g")
    with pytest.raises(ReadError, match="column 'g': it cannot be context, because it is the verdict itself"):
        ne.read_votes(VOTES, labels=labels, grade="g", context="g")
    with pytest.raises(ReadError, match="there is no column 'h' for grade="):
        ne.read_votes(VOTES, labels=labels, grade="h")


@pytest.mark.parametrize("meaning", ["a:0", "a:2", "tie:0.5", "a:", "a:x"])
def test_grades_that_are_none(meaning):
    with pytest.raises(InputError, match="accepted are 'a' \\(the first agent won"):
        ne.read_votes(VOTES, labels={**LABELS, "A>B": meaning})


def test_how_grades_count_is_checked():
    with pytest.raises(InputError, match="grades='half': accepted are 'keep' and 'sign'"):
        ne.read_votes(VOTES, labels=LABELS, grades="half")


# -- the payoff -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_payoffs_and_intervals_are_of_the_graded_verdict():
    """Half of the strength is half of the payoff, and of its standard error; the sign alone says something else."""
    rng = np.random.default_rng(0)
    n = 600
    votes = pd.DataFrame(
        {"model_a": "x", "model_b": "y", "winner": rng.choice(["A", "B"], n, p=[0.7, 0.3]), "c": rng.random(n)}
    )
    half = votes.assign(g=np.where(votes.winner == "A", 0.5, 1.0))
    options = {"labels": {"A": "a", "B": "b"}, "context": "c"}
    logs = {"graded": ne.read_votes(half, grade="g", **options), "sign": ne.read_votes(votes, **options)}
    found = {}
    for name, log in logs.items():
        model = ne.NashEval(outcome="lightgbm", folds=2, n_jobs=1, verbose=False).fit(log)
        found[name] = model.payoff_interval()
    z = {"graded": logs["graded"].verdicts.z, "sign": logs["sign"].verdicts.z.astype(float)}
    for name, interval in found.items():
        assert interval.estimate[0, 1] == pytest.approx(z[name].mean(), abs=0.03)
        assert interval.error[0, 1] == pytest.approx(z[name].std() / np.sqrt(n), rel=0.15)
