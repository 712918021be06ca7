import copy
import pickle

import pytest

from nasheval.errors import Argument, InputError, MissingExtraError, NashEvalError, ReadError


def test_a_full_read_error_says_where_what_is_accepted_and_what_to_do() -> None:
    error = ReadError(
        "the label 'x' is unknown", source="votes.csv", column="winner", rows=(3, 5), total=1200,
        accepted="model_a, model_b, tie", fix="give labels={'x': 'tie'}",
    )  # fmt: skip
    assert str(error) == (
        "votes.csv, column 'winner', rows 3, 5 and 1,198 more: the label 'x' is unknown.\n"
        "  Accepted: model_a, model_b, tie.\n"
        "  To do: give labels={'x': 'tie'}."
    )


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, "f: bad."),
        ({"column": "c"}, "f, column 'c': bad."),
        ({"rows": (7,)}, "f, row 7: bad."),
        ({"rows": (7, 9)}, "f, rows 7, 9: bad."),
        ({"rows": (7,), "total": 2}, "f, rows 7 and 1 more: bad."),
        ({"column": "c", "rows": (1,)}, "f, column 'c', row 1: bad."),
    ],
)
def test_a_read_error_names_only_what_is_known(where: dict[str, object], expected: str) -> None:
    assert str(ReadError("bad", source="f", **where)) == expected


@pytest.mark.parametrize(
    ("argument", "python", "flag"),
    [
        (Argument("model_a"), "model_a=", "--model-a"),
        (Argument("on_error", "skip"), "on_error='skip'", "--on-error skip"),
        (Argument("overwrite", True), "overwrite=True", "--overwrite"),
        (Argument("ballot", ["id", "trait"]), "ballot=['id', 'trait']", "--ballot id,trait"),
        (Argument("labels", {"x": ..., "y z": "tie"}), "labels={'x': ..., 'y z': 'tie'}", "--labels 'x=...,y z=tie'"),
        (Argument("labels", {None: "drop"}), "labels={None: 'drop'}", "--labels '=drop'"),
        (Argument("kinds", {"n": "numeric"}, flag="--other n"), "kinds={'n': 'numeric'}", "--other n"),
    ],
)  # fmt: skip
def test_messages_name_arguments_as_python_or_the_command_line_does(argument, python, flag) -> None:
    error = InputError("No file x=1; give ", argument, ", or stop.")
    assert str(error) == f"No file x=1; give {python}, or stop."
    assert error.message(Argument.as_flag) == f"No file x=1; give {flag}, or stop."
    read = ReadError("bad", source="f", fix=("give ", argument))
    assert read.message(Argument.as_flag) == f"f: bad.\n  To do: give {flag}."


def test_the_tree() -> None:
    assert issubclass(ReadError, InputError)
    assert issubclass(InputError, NashEvalError)
    assert issubclass(InputError, ValueError)
    assert issubclass(MissingExtraError, NashEvalError)
    assert issubclass(MissingExtraError, ImportError)
    assert not issubclass(MissingExtraError, InputError)


def test_a_missing_extra_says_how_to_install_it() -> None:
    error = MissingExtraError("wordllama", extra="text", purpose="Embedding prompts")
    assert str(error) == (
        "Embedding prompts needs the package 'wordllama'. Install it with: pip install 'nasheval[text]'"
    )


@pytest.mark.parametrize(
    "error",
    [
        ReadError("bad", source="f", column="c", rows=(1, 2), total=9, accepted="good", fix="mend it"),
        MissingExtraError("wordllama", extra="text", purpose="Embedding prompts"),
        InputError("give ", Argument("unseen", "model"), "."),
    ],
    ids=["ReadError", "MissingExtraError", "InputError"],
)
@pytest.mark.parametrize("through", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
def test_errors_survive_the_way_to_another_process(error: NashEvalError, through) -> None:
    again = through(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
