"""Labels -> who won."""

from __future__ import annotations

import pyarrow as pa
import pytest

from nasheval.errors import InputError, ReadError
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.votes import read_votes

X_WON, Y_WON, TIE, BAD = (1, Zero.DECIDED), (-1, Zero.DECIDED), (0, Zero.TIE), (0, Zero.BOTH_BAD)


def battles(winners, first="x", second="y"):
    return pa.table({"model_a": [first] * len(winners), "model_b": [second] * len(winners), "winner": winners})


def verdicts(log):
    """Z of x against y, and why it is zero."""
    return list(zip(log.verdicts.z.tolist(), log.verdicts.zero.tolist(), strict=True))


@pytest.mark.parametrize(
    ("label", "said"),
    [
        *((label, X_WON) for label in ("model_a", "a", "left", "first", "A", " Model_A ")),
        *((label, Y_WON) for label in ("model_b", "b", "right", "second", "RIGHT")),
        *((label, TIE) for label in ("tie", "Tie", "tie ")),
        *((label, BAD) for label in ("both_bad", "bothbad", "both bad", "tie (bothbad)", "tie (both bad)", "Both_Bad")),
        ("x", X_WON),
        ("y", Y_WON),
        (" y", Y_WON),
    ],
)
def test_usual_labels(label, said):
    assert verdicts(read_votes(battles([label]))) == [said]


def test_both_bad_is_kept_apart_from_a_tie():
    log = read_votes(battles(["tie", "tie (bothbad)", "both_bad", "tie"]))
    assert verdicts(log) == [TIE, BAD, BAD, TIE]


def test_the_second_agent_may_come_first_in_the_alphabet():
    log = read_votes(battles(["model_a", "model_b", "y"], first="y", second="x"))
    assert verdicts(log) == [Y_WON, X_WON, Y_WON]


def test_the_winner_may_be_named_in_some_rows_and_labelled_in_others():
    log = read_votes(battles(["x", "model_b", "tie", "y"]))
    assert verdicts(log) == [X_WON, Y_WON, TIE, Y_WON]


def test_an_agent_that_is_not_in_the_duel_cannot_win_it():
    table = pa.table({"model_a": ["x", "x"], "model_b": ["y", "z"], "winner": ["z", "z"]})
    with pytest.raises(ReadError, match=r"column 'winner', row 1: unknown label 'z'\."):
        read_votes(table)


@pytest.mark.parametrize("label", ["tie", "a", "model_b"])
def test_an_agent_called_like_a_label_is_refused_as_a_winner(label):
    table = pa.table({"model_a": ["x", label], "model_b": [label, "x"], "winner": [label, "x"]})
    with pytest.raises(ReadError, match=f"row 1: '{label}' is both a label and the name of an agent"):
        read_votes(table)


def test_an_agent_called_like_a_label_is_fine_while_it_is_no_label():
    table = pa.table({"model_a": ["x", "tie"], "model_b": ["tie", "x"], "winner": ["model_a", "model_b"]})
    assert read_votes(table).pair_counts.wins.tolist() == [[0, 0], [2, 0]]


def test_labels_settle_what_an_ambiguous_name_means():
    table = pa.table({"model_a": ["x", "a"], "model_b": ["a", "x"], "winner": ["a", "x"]})
    log = read_votes(table, labels={"a": "a"})
    assert log.agents == ("a", "x")
    assert log.pair_counts.wins.tolist() == [[0, 0], [2, 0]]


@pytest.mark.parametrize("spelled", [int, str, float])
@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.int8(), pa.float64(), pa.string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_numbers_as_labels_whatever_they_are_stored_as(spelled, kind):
    labels = {spelled(number): meaning for number, meaning in enumerate(("a", "b", "tie", "both_bad"), start=1)}
    column = pa.array(["1", "2", "3", "4"]).cast(kind)
    assert verdicts(read_votes(battles(column), labels=labels)) == [X_WON, Y_WON, TIE, BAD]


@pytest.mark.parametrize("stored", [pa.array([True, False]), pa.array(["True", "False"]), pa.array(["true", "false"])])
def test_truth_values_as_labels(stored):
    assert verdicts(read_votes(battles(stored), labels={True: "a", False: "b"})) == [X_WON, Y_WON]


def test_labels_add_to_the_usual_ones():
    """So that the advice of the error about an unknown label is all there is to do."""
    log = read_votes(battles(["draw", "model_a", "y"]), labels={"draw": "tie"})
    assert verdicts(log) == [TIE, X_WON, Y_WON]


def test_labels_overrule_the_usual_ones():
    assert verdicts(read_votes(battles(["tie", "left"]), labels={"left": "b", "tie": "both_bad"})) == [BAD, Y_WON]


def test_dropped_labels_leave_rows_out_and_are_counted():
    log = read_votes(battles(["model_a", "?", "?", "tie"]), labels={"?": "drop"})
    assert (log.n_records, log.n_contexts) == (2, 2)
    assert log.report.dropped == {"label '?', which is no verdict": 2}
    assert (log.report.rows, log.report.used, log.report.problems) == (4, 2, ())


def test_a_missing_label_can_be_dropped():
    log = read_votes(battles(["model_a", None, "tie"]), labels={None: "drop"})
    assert log.n_records == 2


def test_the_report_counts_labels_with_their_meaning():
    log = read_votes(battles(["model_a", "tie", "tie", "draw", "x", "y", "y"]), labels={"draw": "tie"})
    assert log.report.labels == {
        "model_a": ("a", 1),
        "tie": ("tie", 2),
        "draw": ("tie", 1),
        "the first agent's name": ("a", 1),
        "the second agent's name": ("b", 2),
    }


def test_skipped_labels_are_counted_as_unknown():
    log = read_votes(battles(["model_a", "?", None, "?"]), on_error="skip")
    assert log.report.labels == {"model_a": ("a", 1), "?": ("unknown", 2), "nothing": ("unknown", 1)}
    assert log.n_records == 1


def test_one_hot_columns_of_truth_values_numbers_or_text():
    plain = {
        "model_a": ["x"] * 3,
        "model_b": ["y"] * 3,
        "prompt": ['["p"]', '["q"]', '["r"]'],
        "response_a": ["[]"] * 3,
    }
    flags = {"winner_model_a": [1, 0, 0], "winner_model_b": [0, 1, 0], "winner_tie": [0, 0, 1]}
    for kind in (pa.int64(), pa.bool_(), pa.float32(), pa.string()):
        table = pa.table(plain | {name: pa.array(values).cast(kind) for name, values in flags.items()})
        log = read_votes(table)
        assert verdicts(log) == [X_WON, Y_WON, TIE]
        assert log.report.labels == {"winner_model_a": ("a", 1), "winner_model_b": ("b", 1), "winner_tie": ("tie", 1)}


def test_labels_for_one_hot_columns_are_refused():
    table = pa.table({"model_a": ["x"], "model_b": ["y"], "prompt": ["[]"], "response_a": ["[]"],
                      "winner_model_a": [1], "winner_model_b": [0], "winner_tie": [0]})  # fmt: skip
    with pytest.raises(InputError, match="labels= needs one winner column; this file has three"):
        read_votes(table, labels={"1": "a"})
