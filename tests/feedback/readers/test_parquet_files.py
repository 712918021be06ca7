"""Parquet files are read in batches: what is read, in how many, and where a bad row stands."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.errors import ReadError
from nasheval.feedback.readers import parquet_files
from nasheval.feedback.readers.sources import gathered, open_source
from nasheval.feedback.readers.votes import read_votes
from tests.feedback.oracle import equal_logs


def votes(n, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, n)
    names = np.array(["ada", "bert", "cleo", "dora"])
    return pa.table(
        {
            "model_a": names[first],
            "model_b": names[(first + rng.integers(1, 4, n)) % 4],
            "winner": rng.choice(["model_a", "model_b", "tie"], n),
            "x": rng.random(n),
            "unused": ["a long answer"] * n,
        }
    )


@pytest.fixture
def in_files(tmp_path):
    """Write a table as several files of a folder, and return the folder."""

    def write(table, *cuts, **options):
        for number, (start, stop) in enumerate(zip((0, *cuts), (*cuts, len(table)), strict=True)):
            pq.write_table(table[start:stop], tmp_path / f"{number}.parquet", **options)
        return tmp_path

    return write


@pytest.fixture
def read_batches(monkeypatch):
    """Count what is read of Parquet files: (columns, rows) of each batch."""
    seen, plain = [], pq.ParquetFile.iter_batches

    def counted(self, *args, **options):
        for batch in plain(self, *args, **options):
            seen.append((batch.schema.names, batch.num_rows))
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    return seen


def test_only_the_columns_asked_for_are_read_batch_by_batch(in_files, read_batches, monkeypatch):
    monkeypatch.setattr(parquet_files, "BATCH_ROWS", 10)
    table = votes(75)
    log = read_votes(in_files(table, 30, 31), context="x")
    assert equal_logs(log, read_votes(table, context="x"))
    assert {tuple(names) for names, _ in read_batches} == {("model_a", "model_b", "winner", "x")}
    assert [rows for _, rows in read_batches] == [10, 10, 10, 1, 10, 10, 10, 10, 4]


def test_long_rows_make_short_batches(in_files, read_batches, monkeypatch):
    monkeypatch.setattr(parquet_files, "BATCH_BYTES", 1 << 16)
    table = pa.table({"prompt": [f"{row:01000d}" for row in range(1_000)], "x": np.arange(1_000.0)})
    source = open_source(in_files(table, use_dictionary=False) / "0.parquet")
    assert source.read(["prompt"])[0].equals(table.select(["prompt"]))
    assert max(rows for _, rows in read_batches) < 70
    read_batches.clear()
    source.read(["x"])
    assert [rows for _, rows in read_batches] == [1_000]


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 60),
    group=st.integers(1, 20),
    batch=st.integers(1, 20),
    skip=st.integers(0, 70),
    cut=st.floats(0, 1),
)
def test_skipped_rows_are_those_at_the_beginning(tmp_path_factory, n, group, batch, skip, cut):
    table, folder = pa.table({"x": np.arange(float(n)), "y": np.arange(n) % 3}), tmp_path_factory.mktemp("files")
    place = int(cut * n)
    pq.write_table(table[:place], folder / "a.parquet", row_group_size=group)
    pq.write_table(table[place:], folder / "b.parquet", row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_files, "BATCH_ROWS", batch)
        source = open_source(folder)
        rest = [piece for _, piece in source.pieces(["y", "x"], skip=skip)]
        some = [piece for _, piece in source.where("y", ["1"]).pieces(["x"], skip=1)] if n > 1 else []
    expected = table.select(["y", "x"])[skip:]
    assert source.rows == n
    assert sum(map(len, rest)) == len(expected)
    assert not rest or pa.concat_tables(rest).equals(expected)
    assert [x for piece in some for x in piece["x"].to_pylist()] == [float(row) for row in range(4, n, 3)]


def test_row_groups_that_are_skipped_are_not_read(in_files, read_batches):
    folder = in_files(votes(100), 40, row_group_size=10)
    assert sum(len(piece) for _, piece in open_source(folder).pieces(["x"], skip=65)) == 35
    assert sum(rows for _, rows in read_batches) == 40  # from row 60 on


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8), size=st.integers(1, 12))
def test_blocks_hold_all_rows_and_know_their_files(sizes, size):
    pieces = [(f"file {number // 2}", pa.table({"x": [number] * n})) for number, n in enumerate(sizes)]
    blocks = list(gathered(pieces, size, "all"))
    assert [len(table) for table, _ in blocks[:-1]] == [size] * (len(blocks) - 1)
    assert [x for table, _ in blocks for x in table["x"].to_pylist()] == [
        number for number, n in enumerate(sizes) for _ in range(n)
    ]
    at = [(file, before + row) for _, files in blocks for file, before, count in files for row in range(count)]
    counts = {f"file {number // 2}": 0 for number in range(len(sizes))}
    for number, n in enumerate(sizes):
        counts[f"file {number // 2}"] += n
    assert at == [(file, row) for file, count in counts.items() for row in range(count)]


def test_a_bad_row_is_named_with_its_file(in_files):
    table = votes(30)
    labels = table["winner"].to_pylist()
    labels[12], labels[14], labels[25] = "nobody", "nobody", "nobody"
    folder = in_files(table.set_column(2, "winner", pa.array(labels)), 10, 20)
    with pytest.raises(ReadError) as caught:
        read_votes(folder, context="x")
    assert (caught.value.source, caught.value.rows, caught.value.total) == (str(folder / "1.parquet"), (3, 5), 3)
    assert "in other files too" in str(caught.value)


def test_a_bad_row_of_one_file_is_counted_from_its_first_row(in_files):
    table = votes(30)
    x = table["x"].to_pylist()
    x[29] = float("inf")
    folder = in_files(table.set_column(3, "x", pa.array(x)), 10)
    with pytest.raises(ReadError, match=r"1\.parquet, column 'x', row 20: found inf in a numeric context\."):
        read_votes(folder, context="x")


def test_a_bad_row_among_chosen_ones_is_counted_among_them(in_files):
    table = votes(30)
    folder = in_files(table.set_column(3, "x", pa.array([*range(29), float("inf")])), 10)
    source = open_source(folder).where("model_a", table["model_a"][29:].to_pylist())
    row = table["model_a"].to_pylist()[10:].count(table["model_a"][29].as_py())
    with pytest.raises(ReadError, match=rf"1\.parquet where model_a=\w+, column 'x', row {row}: found inf"):
        read_votes(source, context="x")


def test_columns_have_one_type_over_all_files(tmp_path):
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": pa.array([2**40], pa.int64())}), tmp_path / "b.parquet")
    source = open_source(tmp_path)
    assert {piece.schema.field("n").type for _, piece in source.pieces(["n"])} == {pa.int64()}
    pq.write_table(pa.table({"n": ["three"]}), tmp_path / "c.parquet")
    with pytest.raises(ReadError, match="do not fit together"):
        next(open_source(tmp_path).pieces(["n"]))


def test_a_file_without_rows_among_others_changes_nothing(in_files):
    table = votes(20)
    assert equal_logs(read_votes(in_files(table, 10, 10), context="x"), read_votes(table, context="x"))
