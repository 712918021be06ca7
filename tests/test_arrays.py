import mmap
import tempfile
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nasheval import arrays
from nasheval.arrays import int_dtype, n_pairs, offsets_of, pair_index, readonly, runs


def test_readonly_refuses_writes_and_leaves_the_original_alone() -> None:
    original = np.arange(3)
    view = readonly(original)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 9
    original[0] = 7
    assert view[0] == 7


@pytest.mark.parametrize(
    ("largest", "expected"),
    [(0, "int8"), (127, "int8"), (128, "int16"), (32_767, "int16"), (32_768, "int32"), (2**31, "int64")],
)
def test_int_dtype_is_the_smallest_that_holds_the_value(largest: int, expected: str) -> None:
    assert int_dtype(largest) == np.dtype(expected)
    assert np.array(largest, int_dtype(largest)) == largest


@pytest.mark.parametrize(("total", "expected"), [(2**31 - 1, "int32"), (2**31, "int64")], ids=["fits", "needs 64 bits"])
def test_offsets_switch_to_int64_only_when_they_must(total: int, expected: str) -> None:
    offsets = offsets_of(np.array([total - 2, 2]))
    assert offsets.dtype == expected
    assert offsets.tolist() == [0, total - 2, total]


def test_offsets_of_small_sizes_do_not_overflow_their_own_type() -> None:
    assert offsets_of(np.full(3, 100, np.int8)).tolist() == [0, 100, 200, 300]


def test_offsets_of_nothing() -> None:
    assert offsets_of(np.zeros(0, np.int64)).tolist() == [0]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5))), st.sampled_from(["int32", "int64"]))
def test_runs_are_the_concatenated_ranges(pieces: list[tuple[int, int]], dtype: str) -> None:
    starts, sizes = (np.array([piece[i] for piece in pieces], dtype) for i in range(2))
    assert runs(starts, sizes).tolist() == [start + i for start, size in pieces for i in range(size)]


@pytest.mark.parametrize("n_agents", [0, 1, 2, 3, 7, 130])
def test_pair_index_counts_the_pairs_in_order(n_agents: int) -> None:
    pairs = list(combinations(range(n_agents), 2))
    assert n_pairs(n_agents) == len(pairs)
    j, k = (np.array([pair[i] for pair in pairs], np.uint8) for i in range(2))  # a type that 2K would overflow
    assert pair_index(j, k, n_agents).tolist() == list(range(len(pairs)))


@given(st.lists(st.integers(-3, 3)), st.booleans())
def test_distinct_values_are_those_of_numpy(values: list[int], ascending: bool) -> None:
    array = np.array(sorted(values) if ascending else values, np.int64)
    for ours, theirs in zip(arrays.distinct(array), np.unique(array, return_inverse=True), strict=True):
        assert ours.tolist() == theirs.tolist()


def test_many_zeros_lie_in_a_file_without_a_name(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(arrays, "MAPPED", 48)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    zeros = arrays.large_zeros((4, 3))
    assert zeros.dtype == np.float32
    assert not zeros.any()
    zeros[2, 1] = 5
    assert zeros.sum() == 5
    assert type(zeros.base.base.obj) is mmap.mmap
    assert list(tmp_path.iterdir()) == []
    assert arrays.large_zeros((2, 3)).base is None


def test_zeros_are_in_memory_where_the_disk_is_full(monkeypatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(arrays, "MAPPED", 0)
    monkeypatch.setattr(arrays.os, "posix_fallocate", full)
    assert arrays.large_zeros((4, 3)).base is None
