"""Columns of vectors, and what cuts vectors short."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from nasheval.contexts import ContextEncoder
from nasheval.contexts.columns import VectorColumn, column_from
from nasheval.contexts.vectors import Projection, projection_from, uniform_vectors, vectors_of
from nasheval.errors import InputError

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(40, 7)).astype(np.float32)


def lists(values: Any) -> pa.Array:
    return pa.array([None if row is None else list(map(float, row)) for row in values])


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 7)])
def test_lists_of_every_make_are_one_matrix(kind: pa.DataType) -> None:
    column = pa.chunked_array([lists(VECTORS[:3]).cast(kind), lists([None, *VECTORS[3:]]).cast(kind)])
    values, missing = vectors_of("v", column)
    np.testing.assert_array_equal(values, np.vstack([VECTORS[:3], np.zeros((1, 7), np.float32), VECTORS[3:]]))
    assert np.flatnonzero(missing).tolist() == [3]


def test_a_slice_and_a_data_frame_are_read_as_they_look() -> None:
    values, _ = vectors_of("v", lists(VECTORS).slice(5, 4))
    np.testing.assert_array_equal(values, VECTORS[5:9])
    frame = pd.DataFrame({"v": list(VECTORS.astype(float))})
    encoder = ContextEncoder.fit(frame)
    np.testing.assert_array_equal(encoder.encode(frame), VECTORS)
    assert encoder.feature_names() == tuple(f"v_{i}" for i in range(7))
    assert encoder.vector_features == tuple(range(7))


ACCEPTED = "lists of finite numbers, of one length in every row; null where a vector is missing"
BAD = {
    "lengths": ([[1.0, 2.0], [1.0], [3.0, 4.0]], "row 2: a vector of 1 numbers where others have 2."),
    "nan": ([[1.0, 2.0], None, [np.nan, 1.0]], "row 3: a vector with NaN, infinity or null inside."),
    "null inside": ([[1.0, None], [1.0, 2.0]], "row 1: a vector with NaN, infinity or null inside."),
    "infinity": ([[1.0], [np.inf], [-np.inf]], "rows 2, 3: a vector with NaN, infinity or null inside."),
    "too large": ([[1.0], [1e39]], "row 2: a vector with NaN, infinity or null inside."),
    "empty": ([[], []], "rows 1, 2: vectors of 0 numbers, not 1 to 16,384."),
}


@pytest.mark.parametrize("case", BAD)
def test_vectors_that_cannot_be_used_are_named_by_row(case: str) -> None:
    values, what = BAD[case]
    with pytest.raises(InputError) as caught:
        ContextEncoder.fit(pa.table({"v": pa.array(values, pa.list_(pa.float64()))}))
    fix = "correct the vectors, or leave the column out of context="
    assert str(caught.value) == f"contexts, column 'v', {what}\n  Accepted: {ACCEPTED}.\n  To do: {fix}."


def test_new_vectors_have_the_length_of_the_training_ones() -> None:
    encoder = ContextEncoder.fit(pa.table({"v": lists(VECTORS)}))
    with pytest.raises(InputError, match=r"row 1: a vector of 6 numbers where the model has 7"):
        encoder.encode([{"v": [1.0] * 6}])
    with pytest.raises(InputError, match="values of type string in place of lists of numbers"):
        encoder.encode([{"v": "x"}])
    assert encoder.encode_one({"v": [1.0] * 6}) is None


# -- in both forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [None, 3])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_one_context_is_encoded_as_many_are(dim: int | None, scale: float) -> None:
    rows = [None if i % 9 == 0 else scale * VECTORS[i] for i in range(40)]
    table = pa.table({"v": lists(rows), "g": ["a", "b"] * 20, "x": np.arange(40.0)})
    encoder = ContextEncoder.fit(table, text_dim=dim)
    assert [column.kind for column in encoder.columns] == ["categorical", "numeric", "vector"]
    trees, network = encoder.encode(table), encoder.encode(table, form="network")
    assert np.isfinite(network).all()
    assert np.isnan(trees[0]).sum() == (dim or 7)
    assert network.shape[1] == 2 + 1 + (dim or 7) + 1
    lengths = np.linalg.norm(network[1:9, 3:-1], axis=1)
    assert 0.3 < lengths.mean() < 3.0, "networks see vectors of about length 1, whatever their scale"
    for row, context in enumerate(table.to_pylist()):
        for value in (context["v"], None if context["v"] is None else np.array(context["v"])):
            both = encoder.encode_one({**context, "v": value})
            assert both is not None
            np.testing.assert_array_equal(both[0][0], trees[row])
            np.testing.assert_array_equal(both[1][0], network[row])


def test_a_saved_column_is_the_same_and_a_forged_one_is_refused() -> None:
    encoder = ContextEncoder.fit(pa.table({"v": lists(VECTORS)}), text_dim=2)
    again = ContextEncoder.from_json(encoder.to_json())
    assert again == encoder
    np.testing.assert_array_equal(again.encode([{"v": [0.5] * 7}]), encoder.encode([{"v": [0.5] * 7}]))
    saved = encoder.columns[0].to_dict()
    for broken in ({"size": 6}, {"size": -1}, {"scale": 0.0}, {"cut": {"from": 7}}, {"cut": {**saved["cut"], "to": 8}}):
        with pytest.raises(ValueError):
            column_from({**saved, **broken}, "column 1")


# -- PCA --------------------------------------------------------------------------------------------------------------


def test_the_projection_is_that_of_another_pca() -> None:
    cut = Projection.fit(VECTORS, 3)
    other = PCA(3, svd_solver="full").fit(VECTORS.astype(np.float64))
    theirs = other.transform(VECTORS.astype(np.float64))
    signs = np.sign((cut.apply(VECTORS) * theirs).sum(axis=0))
    np.testing.assert_allclose(cut.apply(VECTORS) * signs, theirs, atol=1e-5)
    np.testing.assert_allclose(cut.axes.T @ cut.axes, np.eye(3), atol=1e-6)


def test_missing_vectors_neither_count_nor_move() -> None:
    some = np.vstack([VECTORS, np.zeros((30, 7), np.float32)])
    cut = Projection.fit(some, 3)
    np.testing.assert_array_equal(cut.axes, Projection.fit(VECTORS, 3).axes)
    np.testing.assert_array_equal(cut.apply(some)[40:], 0.0)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.integers(1, 60), st.data())
def test_a_cut_vector_does_not_depend_on_its_neighbours(n: int, p: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, p))
    vectors = np.random.default_rng(n * p).normal(size=(n, p)).astype(np.float32)
    cut = Projection.fit(vectors, size)
    together = cut.apply(vectors)
    alone = np.vstack([cut.apply(vectors[row : row + 1]) for row in range(n)])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(together, (vectors - cut.mean) @ cut.axes, atol=1e-4)


def test_fewer_vectors_than_dimensions_can_be_cut() -> None:
    cut = Projection.fit(VECTORS[:2], 5)
    assert np.isfinite(cut.apply(VECTORS)).all()
    assert Projection.fit(np.zeros((3, 7), np.float32), 2).apply(VECTORS).shape == (40, 2)


def test_a_projection_comes_back_bit_for_bit() -> None:
    cut = Projection.fit(VECTORS, 3)
    again = projection_from(json.loads(json.dumps(cut.to_dict())), "here")
    np.testing.assert_array_equal(again.mean, cut.mean)
    np.testing.assert_array_equal(again.axes, cut.axes)


@pytest.mark.parametrize(
    "change",
    [{"to": 4}, {"from": 3}, {"to": 0}, {"mean": "!"}, {"mean": ""}, {"axes": "AAAA"}, {"to": 10**9}, {"more": 1}],
)
def test_a_forged_projection_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        projection_from({**Projection.fit(VECTORS, 3).to_dict(), **change}, "here")


def test_numbers_that_are_none_are_refused() -> None:
    wild = Projection(np.full(7, np.nan, np.float32), np.zeros((7, 2), np.float32))
    with pytest.raises(ValueError, match="not finite"):
        projection_from(wild.to_dict(), "here")


def test_logs_keep_vectors_in_one_form() -> None:
    table = uniform_vectors(pa.table({"v": lists([*VECTORS[:2], None]), "x": [1, 2, 3]}))
    assert table.schema.field("v").type == pa.list_(pa.float32(), 7)
    assert table["v"].null_count == 1
    assert table["x"].to_pylist() == [1, 2, 3]
    nothing = uniform_vectors(pa.table({"v": pa.nulls(3, pa.list_(pa.float64()))}))
    encoder = ContextEncoder.fit(pa.table({"v": lists(VECTORS)}))
    assert np.isnan(encoder.encode(nothing)).all()
    assert ContextEncoder.fit(nothing).feature_names() == ("v",)


def test_a_column_of_vectors_and_a_text_may_not_share_names() -> None:
    column = VectorColumn("text", 2, 1.0, missing=False)
    from nasheval.contexts import TextEncoder

    with pytest.raises(InputError, match="features would be named 'text_0'"):
        ContextEncoder((column,), "prompt", TextEncoder())
