"""Forged files, with the hashes that go with them: they are refused, or hold a model; nothing in them is run."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load as tensors
from safetensors.numpy import save as tensor_bytes

from nasheval.errors import NashEvalError
from nasheval.estimator import load

from .small import FILES, NETWORK, POLICY, STACK, SURFACE, TEXTS, WORLD, forge, refused, set_told

X = WORLD.test_contexts(5)


class Evil:
    """Leaves a trace if it is ever unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("protocol", [0, 5])
@pytest.mark.parametrize("name", FILES)
def test_a_pickle_is_never_run(folder, tmp_path, name, protocol):
    forge(folder, name, pickle.dumps(Evil(tmp_path / "trace"), protocol=protocol))
    refused(folder, name)
    assert not (tmp_path / "trace").exists()


def _text(edit: Callable[[str], str]) -> Callable[[bytes], bytes]:
    def forged(held: bytes) -> bytes:
        again = edit(held.decode()).encode()
        assert again != held
        return again

    return forged


def _line(key: str, edit: Callable[[list[str]], list[str]]) -> Callable[[bytes], bytes]:
    """Edit the numbers of the first line of a key that has some."""

    def forged(text: str) -> str:
        lines = text.split("\n")
        place = next(i for i, line in enumerate(lines) if line.startswith(f"{key}=") and line[len(key) + 1 :])
        lines[place] = f"{key}={' '.join(edit(lines[place][len(key) + 1 :].split(' ')))}"
        return "\n".join(lines)

    return _text(forged)


def _replace(old: str, new: str) -> Callable[[bytes], bytes]:
    return _text(lambda text: text.replace(old, new, 1))


FORGED_TREES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a child that is its own parent": (_line("left_child", lambda v: ["0", *v[1:]]), "leads back"),
    "a child far outside": (_line("left_child", lambda v: ["100000", *v[1:]]), "leads out"),
    "a leaf far outside": (_line("left_child", lambda v: ["-100000", *v[1:]]), "leads out"),
    "the largest leaf": (_line("right_child", lambda v: [str(-(2**63)), *v[1:]]), ""),
    "a leaf twice": (_line("left_child", lambda v: ["-1"] * len(v)), "two parents"),
    "a node that nobody reaches": (_line("right_child", lambda v: ["-1", *v[1:]]), ""),
    "a feature that is not there": (_line("split_feature", lambda v: ["77", *v[1:]]), "not there"),
    "a feature below zero": (_line("split_feature", lambda v: ["-1", *v[1:]]), "not there"),
    "too few splits": (_line("split_feature", lambda v: v[1:]), "wrong length"),
    "too many leaves": (_line("leaf_value", lambda v: [*v, "0.5"]), "wrong length"),
    "more leaves than it has": (_line("num_leaves", lambda v: ["1000000"]), "wrong length"),
    "leaves below zero": (_line("num_leaves", lambda v: ["-5"]), ""),
    "two numbers of leaves": (_line("num_leaves", lambda v: ["4", "4"]), ""),
    "a leaf that is not a number": (_line("leaf_value", lambda v: ["nan", *v[1:]]), "other than numbers"),
    "a leaf that is infinite": (_line("leaf_value", lambda v: ["inf", *v[1:]]), "not finite"),
    "a leaf too large": (_line("leaf_value", lambda v: ["1e999", *v[1:]]), "not finite"),
    "a leaf in words": (_line("leaf_value", lambda v: ["__import__('os')", *v[1:]]), "other than numbers"),
    "a threshold that is not a number": (_line("threshold", lambda v: ["nan", *v[1:]]), "other than numbers"),
    "an unknown decision": (_line("decision_type", lambda v: ["99", *v[1:]]), "unknown way"),
    "categories out of nothing": (_line("decision_type", lambda v: ["1"] * len(v)), "category"),
    "two spaces": (_replace("leaf_value=", "leaf_value= "), "other than numbers"),
    "a key missing": (_text(lambda t: t.replace("decision_type=", "decision=", 1)), "lacks"),
    "a linear tree": (_replace("is_linear=0", "is_linear=1"), "laid out"),
    "a tree too few": (_replace("Tree=1\n", "Tree=9\n"), "laid out"),
    "sizes of trees": (_replace("label_index=0", "tree_sizes=9999999"), "does not begin"),
    "another objective": (_replace("objective=regression", "objective=custom"), "does not begin"),
    "several classes": (_replace("num_class=1", "num_class=1000000000"), "does not begin"),
    "more features": (_replace("max_feature_idx=", "max_feature_idx=1"), "does not begin"),
    "parameters": (_replace("end of trees\n", "end of trees\nparameters:\n[input_model: /etc/passwd]\n"), ""),
    "no end": (_replace("end of trees", "end of tree"), "ends too early"),
    "fewer lines than told": (_text(lambda t: t[: len(t) // 2]), ""),
    "more lines than told": (_text(lambda t: t.replace(" lines ", " lines 9", 1)), ""),
    "another number": (_replace("model 0 ", "model 1 "), "begin"),
    "something after it": (_text(lambda t: t + "model 99 constant 0.5\n"), "follows"),
    "nothing": (_text(lambda t: ""), "begin"),
    "letters of other scripts": (_text(lambda t: t.replace("leaf_value=", "leaf_value=\u0661", 1)), "ascii"),
}  # fmt: skip


@pytest.mark.parametrize("how", FORGED_TREES)
@pytest.mark.parametrize("name", [TEXTS, SURFACE])
def test_trees_that_lightgbm_would_follow_anywhere_are_refused(folder, name, how):
    forging, told = FORGED_TREES[how]
    forge(folder, name, forging((folder / name).read_bytes()))
    refused(folder, name, told)


@pytest.mark.parametrize("how", ["nan", "inf", "1e999", "0x10", "1_0", "", "1 2", "__import__('os')"])
def test_a_constant_that_is_no_number_is_refused(folder, how):
    count = (folder / TEXTS).read_text().count("\nmodel ") + 1
    forge(folder, TEXTS, "".join(f"model {n} constant {how}\n" for n in range(count)).encode())
    refused(folder, TEXTS)


FORGED_CATEGORIES: dict[str, Callable[[bytes], bytes]] = {
    "a category far outside": _line("cat_boundaries", lambda v: [*v[:-1], "1000000"]),
    "boundaries that fall": _line("cat_boundaries", lambda v: ["5", *v[1:]]),
    "boundaries below zero": _line("cat_boundaries", lambda v: ["0", "-7", *v[2:]]),
    "too few boundaries": _line("cat_boundaries", lambda v: v[:-1]),
    "a set too large": _line("cat_threshold", lambda v: [str(2**32), *v[1:]]),
    "a set below zero": _line("cat_threshold", lambda v: ["-1", *v[1:]]),
    "too few sets": _line("cat_threshold", lambda v: v[:-1]),
}


@pytest.mark.parametrize("how", FORGED_CATEGORIES)
def test_categories_that_lead_outside_are_refused(folder, how):
    assert "cat_threshold" in (folder / SURFACE).read_text()
    forge(folder, SURFACE, FORGED_CATEGORIES[how]((folder / SURFACE).read_bytes()))
    refused(folder, SURFACE)


def _arrays(edit: Callable[[dict[str, np.ndarray]], object]) -> Callable[[bytes], bytes]:
    def forged(held: bytes) -> bytes:
        arrays = {name: values.copy() for name, values in tensors(held).items()}
        edit(arrays)
        return bytes(tensor_bytes(arrays))

    return forged


def _set(name: str, value: object) -> Callable[[bytes], bytes]:
    def edit(arrays: dict[str, np.ndarray]) -> None:
        arrays[name].flat[0] = value

    return _arrays(edit)


def _with(**values: np.ndarray) -> Callable[[bytes], bytes]:
    return _arrays(lambda arrays: arrays.update({name.replace("__", "."): v for name, v in values.items()}))


def _without(name: str) -> Callable[[bytes], bytes]:
    return _arrays(lambda arrays: arrays.pop(name))


FORGED_ARRAYS: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "a network that is not a number": (NETWORK, _set("parameter.head", np.nan), "not finite"),
    "a network that is infinite": (NETWORK, _set("parameter.pooled", np.inf), "not finite"),
    "a layer missing": (NETWORK, _without("parameter.hidden_0"), "missing"),
    "a layer too many": (NETWORK, _with(parameter__hidden_1=np.zeros((2, 2), np.float32)), "unknown"),
    "a layer of another shape": (NETWORK, _with(parameter__head=np.zeros((2, 2, 3, 3), np.float32)), "shape"),
    "a layer of whole numbers": (NETWORK, _with(parameter__pooled=np.zeros((2, 2, 5), np.int64)), "holds int64"),
    "no shape": (NETWORK, _without("shape"), "'shape'"),
    "a shape of numbers": (NETWORK, _with(shape=np.zeros(7)), "'shape'"),
    "an empty shape": (NETWORK, _with(shape=np.zeros(0, np.int64)), "'shape'"),
    "a shape without end": (NETWORK, _set("shape", 2**62), "'shape'"),
    "a shape below zero": (NETWORK, _set("shape", -1), "'shape'"),
    "other features": (NETWORK, _set("shape", 4), "unlike the log"),
    "more voters than there are": (NETWORK, _set("n_voters", 99), "more voters"),
    "no voters": (NETWORK, _set("n_voters", 0), "more voters"),
    "other menus": (NETWORK, _set("menu_agents", 3), "does not fit the log"),
    "menus without end": (NETWORK, _set("menu_offsets", 1000), "does not fit the log"),
    "other questions": (NETWORK, _set("questions", 3), "does not fit the log"),
    "folds too few": (NETWORK, _with(epoch=np.zeros(1, np.int64)), "shape"),
    "not safetensors": (NETWORK, lambda held: b"no tensors", "safetensors"),
    "a header without end": (NETWORK, lambda held: (2**63 - 1).to_bytes(8, "little") + held[8:], "safetensors"),
    "a header of nothing": (NETWORK, lambda held: bytes(8), "safetensors"),
    "an array beyond the file": (NETWORK, lambda held: held[:-64], "safetensors"),
    "a zip of NumPy": (NETWORK, lambda held: b"PK\x03\x04" + held, "safetensors"),
    "shares that are none": (STACK, _set("weights", 5.0), "no shares"),
    "shares below zero": (STACK, _with(weights=np.array([[2.0, -1.0], [0.5, 0.5]])), "no shares"),
    "shares that are not numbers": (STACK, _with(weights=np.full((2, 2), np.nan)), "no shares"),
    "a policy that is not a number": (POLICY, _set("head", np.nan), "not finite"),
    "a policy for other agents": (POLICY, _with(lean=np.zeros(6, np.float32)), "shape"),
    "a policy of other features": (POLICY, _with(wave=np.zeros((9, 4), np.float32)), "shape"),
    "an unknown output": (POLICY, _with(output=np.array(7)), "unknown output"),
    "an output of many": (POLICY, _with(output=np.zeros(3, np.int64)), "shape"),
    "a policy without a head": (POLICY, _without("head"), "missing"),
    "a policy without layers": (POLICY, _arrays(lambda a: [a.pop("hidden_0"), a.pop("bias_0")]), "shape"),
    "a policy with a gap": (POLICY, _arrays(lambda a: a.update(hidden_7=a.pop("hidden_0"))), ""),
}  # fmt: skip


@pytest.mark.parametrize("how", FORGED_ARRAYS)
def test_arrays_that_do_not_fit_are_refused(folder, how):
    name, forging, told = FORGED_ARRAYS[how]
    forge(folder, name, forging((folder / name).read_bytes()))
    refused(folder, name, told)


def _table(edit: Callable[[pa.Table], pa.Table]) -> Callable[[bytes], bytes]:
    def forged(held: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(edit(pq.read_table(pa.BufferReader(held))), sink)
        return bytes(sink.getvalue().to_pybytes())

    return forged


def _column(name: str, change: Callable[[pa.ChunkedArray], object]) -> Callable[[bytes], bytes]:
    def edit(table: pa.Table) -> pa.Table:
        return table.set_column(table.column_names.index(name), name, change(table[name]))

    return _table(edit)


def _first(value: float) -> Callable[[pa.ChunkedArray], object]:
    """Put a value in the place of the first number of a column of lists."""

    def change(column: pa.ChunkedArray) -> pa.Array:
        lists = column.combine_chunks()
        values = np.array(lists.flatten())
        values[0] = value
        return pa.LargeListArray.from_arrays(lists.offsets, pa.array(values))

    return change


def _about(edit: Callable[[dict[str, object]], object]) -> Callable[[bytes], bytes]:
    def change(table: pa.Table) -> pa.Table:
        told = json.loads(table.schema.metadata[b"nasheval.feedback"])
        edit(told)
        return table.replace_schema_metadata({b"nasheval.feedback": json.dumps(told)})

    return _table(change)


def _pickled_type(trace: Path) -> Callable[[bytes], bytes]:
    """A column whose Arrow type is a pickle, as old releases of pyarrow wrote them and loaded unasked."""

    def edit(table: pa.Table) -> pa.Table:
        told = {
            b"ARROW:extension:name": b"arrow.py_extension_type",
            b"ARROW:extension:metadata": pickle.dumps(Evil(trace)),
        }
        place = table.column_names.index("x0")
        return table.set_column(place, pa.field("x0", pa.float64(), metadata=told), table["x0"])

    return _table(edit)


FORGED_LOGS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "not Parquet": (lambda held: b"PAR1 no", ""),
    "cut off": (lambda held: held[: len(held) // 2], ""),
    "its foot cut off": (lambda held: held[:-4], ""),
    "contexts missing": (_table(lambda table: table.slice(0, 3)), "contexts"),
    "contexts twice": (_table(lambda table: pa.concat_tables([table, table])), "contexts"),
    "no records": (_table(lambda table: table.drop_columns(["_records"])), ""),
    "no folds": (_table(lambda table: table.drop_columns(["_fold"])), "'_fold'"),
    "no mu": (_table(lambda table: table.drop_columns(["_mu"])), "'_mu'"),
    "no propensity": (_table(lambda table: table.drop_columns(["_propensity"])), "'_propensity'"),
    "no description": (_table(lambda table: table.replace_schema_metadata(None)), ""),
    "other agents": (_about(lambda told: told.update(agents=list("vwxyz"))), "'agents' differs"),
    "fewer agents": (_about(lambda told: told.update(agents=["a0", "a1"])), ""),
    "agents as numbers": (_about(lambda told: told.update(agents=[1, 2])), ""),
    "another design": (_about(lambda told: told.update(design="draws")), "'design' differs"),
    "a newer log": (_about(lambda told: told.update(format=99)), "newer"),
    "voters": (_table(lambda t: t.append_column("_voter", pa.array([[0]] * len(t)))), "'_voter'"),
    "vectors": (_table(lambda t: t.append_column("_vector", pa.array([[0.0]] * len(t)))), "'_vector'"),
    "a feature missing": (_table(lambda table: table.drop_columns(["x3"])), "'features' differs"),
    "a feature renamed": (_table(lambda t: t.rename_columns(["y" if n == "x3" else n for n in t.column_names])), ""),
    "a feature of words": (_column("x0", lambda c: pa.array(["word"] * len(c))), ""),
    "a feature of lists": (_column("x0", lambda c: pa.array([[1.0]] * len(c))), ""),
    "a feature that is not a number": (_column("x0", lambda c: pa.array([np.nan] * len(c))), "nan"),
    "folds as words": (_column("_fold", lambda c: pa.array(["a"] * len(c))), "'_fold'"),
    "folds missing": (_column("_fold", lambda c: pa.array([None] * len(c), pa.int16())), "'_fold'"),
    "one fold": (_column("_fold", lambda c: pa.array([0] * len(c), pa.int16())), "'folds' differs"),
    "a fold below zero": (_column("_fold", lambda c: pa.array([-1, *c.to_pylist()[1:]], pa.int16())), "differs"),
    "a fold too far": (_column("_fold", lambda c: pa.array([9, *c.to_pylist()[1:]], pa.int16())), "differs"),
    "mu beyond one": (_column("_mu", _first(1.5)), "outside -1 to 1"),
    "mu not a number": (_column("_mu", _first(np.nan)), "outside -1 to 1"),
    "mu of other lengths": (_column("_mu", lambda c: pa.array([[0.0]] * len(c), c.type)), "one value"),
    "mu as words": (_column("_mu", lambda c: pa.array([["a"]] * len(c))), "'_mu' holds"),
    "mu missing": (_column("_mu", lambda c: pa.array([None] * len(c), c.type)), "one value"),
    "a propensity above one": (_column("_propensity", _first(2.0)), "outside 0 to 1"),
    "a propensity below zero": (_column("_propensity", _first(-0.1)), "outside 0 to 1"),
    "a propensity not a number": (_column("_propensity", _first(np.nan)), "outside 0 to 1"),
}  # fmt: skip


@pytest.mark.parametrize("how", FORGED_LOGS)
def test_logs_that_do_not_fit_are_refused(folder, how):
    forging, told = FORGED_LOGS[how]
    forge(folder, "evidence.parquet", forging((folder / "evidence.parquet").read_bytes()))
    refused(folder, told)


def test_a_column_type_that_is_a_pickle_is_never_run(folder, tmp_path):
    forging = _pickled_type(tmp_path / "trace")
    forge(folder, "evidence.parquet", forging((folder / "evidence.parquet").read_bytes()))
    with suppress(NashEvalError):
        load(folder).predict_proba(X)
    assert not (tmp_path / "trace").exists()


def test_a_small_file_of_many_values_is_refused(folder):
    """Millions of equal numbers take a few bytes in Parquet, and a list of them is one context's."""
    held = (folder / "evidence.parquet").read_bytes()
    n = pq.read_metadata(pa.BufferReader(held)).num_rows
    lists = pa.LargeListArray.from_arrays(
        pa.array([0, *[17_000_000] * n], pa.int64()), pa.array(np.zeros(17_000_000, np.int8))
    )
    forge(folder, "evidence.parquet", _column("_mu", lambda c: lists)(held))
    assert (folder / "evidence.parquet").stat().st_size < 100_000
    refused(folder, "evidence.parquet", "claims")


def _with_texts(held, texts, **options):
    """Add a column of texts, compressed as well as can be, to a file of evidence."""
    table, sink = pq.read_table(pa.BufferReader(held)), pa.BufferOutputStream()
    pq.write_table(table.append_column("long", texts), sink, compression="zstd", write_statistics=False, **options)
    assert sink.tell() < 500_000
    return sink.getvalue().to_pybytes()


def test_a_file_that_would_fill_the_memory_is_refused_by_its_footer(folder, monkeypatch):
    held = (folder / "evidence.parquet").read_bytes()
    n = pq.read_metadata(pa.BufferReader(held)).num_rows
    texts = pa.array([f"{i}" + "a" * 2_400_000 for i in range(n)])
    forge(folder, "evidence.parquet", _with_texts(held, texts, use_dictionary=False))
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_: pytest.fail("it was read before its footer was looked at"))
    refused(folder, "evidence.parquet", "it claims to hold")


@pytest.mark.parametrize("coded", [False, True])
def test_one_long_text_in_every_row_is_refused(folder, coded):
    """A dictionary holds it once, and no footer tells what it would take if every row held its own."""
    held = (folder / "evidence.parquet").read_bytes()
    n = pq.read_metadata(pa.BufferReader(held)).num_rows
    texts = pa.array(["a" * 3_000_000] * n)
    texts = texts.dictionary_encode() if coded else texts
    forge(folder, "evidence.parquet", _with_texts(held, texts, dictionary_pagesize_limit=1 << 30))
    refused(folder, "evidence.parquet", "its texts would take")


def test_a_network_that_overflows_is_said(folder):
    arrays = {name: values.copy() for name, values in tensors((folder / POLICY).read_bytes()).items()}
    for name, values in arrays.items():
        if name != "output":
            values[...] = np.where(values < 0, -3e38, 3e38)
    forge(folder, POLICY, tensor_bytes(arrays))
    with np.errstate(all="ignore"), pytest.raises(NashEvalError, match="gives no lottery at context 0"):
        load(folder).predict_proba(X)


FORGED_ENCODERS: dict[str, tuple[Callable[[str], str], str]] = {
    "nothing": (lambda text: "", "JSON"),
    "a list": (lambda text: "[]", ""),
    "nested without end": (lambda text: "[" * 100_000, ""),
    "NaN": (lambda text: text.replace('"scale": ', '"scale": NaN, "x": ', 1), ""),
    "a scale of zero": (lambda text: json.dumps(_scaled(json.loads(text), 0.0)), "scale"),
    "another version": (lambda text: text.replace('"version": 1', '"version": 2'), "version"),
    "a column missing": (lambda text: json.dumps({**json.loads(text), "columns": json.loads(text)["columns"][1:]}), ""),
    "a column of the log that is not there": (lambda text: text.replace('"x3"', '"y3"'), "y3"),
}  # fmt: skip


def _scaled(told, scale):
    told["columns"][0]["scale"] = scale
    return told


@pytest.mark.parametrize("how", FORGED_ENCODERS)
def test_encoders_that_do_not_fit_are_refused(folder, how):
    forging, told = FORGED_ENCODERS[how]
    forge(folder, "encoder.json", forging((folder / "encoder.json").read_text()).encode())
    refused(folder, told)


@pytest.mark.parametrize("path", ["/tmp/evil", "../evil", "evil/", "C:\\evil", "a/b/c", "~/evil", ""])
def test_a_text_model_by_a_path_is_refused(folder, path):
    told = json.loads((folder / "encoder.json").read_text())
    told |= {"text": "x0", "text_encoder": {"model": path, "dim": 8}}
    told["columns"] = told["columns"][1:]
    forge(folder, "encoder.json", json.dumps(told).encode())
    set_told("data/text", "x0")(folder)
    refused(folder, "encoder.json", "text")


@pytest.mark.parametrize(("one", "other"), [(NETWORK, POLICY), (STACK, NETWORK), (TEXTS, SURFACE), (SURFACE, TEXTS)])
def test_files_that_changed_places_are_refused(folder, one, other):
    held = (folder / other).read_bytes()
    forge(folder, other, (folder / one).read_bytes())
    forge(folder, one, held)
    refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_any_byte_may_change_and_nothing_worse_than_an_error_follows(folder, name):
    """With the hashes that go with it: what loads is a model, and everything else is refused."""
    held = (folder / name).read_bytes()
    rng = np.random.default_rng(len(held))
    for _ in range(15):
        forged = bytearray(held)
        for place in rng.integers(len(held), size=rng.integers(1, 4)):
            forged[place] = rng.integers(256)
        forge(folder, name, bytes(forged))
        try:
            lotteries = load(folder).predict_proba(X)
        except NashEvalError:
            continue
        np.testing.assert_allclose(lotteries.sum(axis=1), 1.0)
