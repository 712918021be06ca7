from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nasheval.contexts.cache import VectorCache, text_keys

TEXTS = ["one", "two", "three", "ż"]
VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    return VectorCache(tmp_path / "vectors.parquet", 3)


def test_keys_are_the_texts_blake2b() -> None:
    assert text_keys(["one"])[0].as_py().hex() == "c88d4df74262143a08e9d190e3bd67f1"
    assert len(set(text_keys(TEXTS).to_pylist())) == 4


def test_vectors_come_back_bit_for_bit(cache: VectorCache) -> None:
    cache.add(text_keys(TEXTS), VECTORS)
    found_vectors, found = cache.find(text_keys(["three", "unknown", "one"]))
    assert found.tolist() == [True, False, True]
    np.testing.assert_array_equal(found_vectors, [VECTORS[2], [0, 0, 0], VECTORS[0]])


def test_adding_keeps_what_was_there(cache: VectorCache) -> None:
    cache.add(text_keys(TEXTS[:2]), VECTORS[:2])
    cache.add(text_keys(TEXTS[1:]), VECTORS[1:])
    vectors, found = cache.find(text_keys(TEXTS))
    assert found.all()
    np.testing.assert_array_equal(vectors, VECTORS)


def test_a_cache_of_one_file_is_still_read(cache: VectorCache) -> None:
    cache.add(text_keys(TEXTS), VECTORS)
    (file,) = cache.path.parent.iterdir()
    file.rename(cache.path)
    np.testing.assert_array_equal(cache.find(text_keys(TEXTS))[0], VECTORS)


def test_a_folder_that_is_gone_is_empty(cache: VectorCache, caplog: pytest.LogCaptureFixture) -> None:
    cache.path.parent.rmdir()
    assert not cache.find(text_keys(TEXTS))[1].any()
    cache.add(text_keys(TEXTS), VECTORS)
    assert "its vectors were not kept" in caplog.text


def test_an_empty_cache_finds_nothing(cache: VectorCache) -> None:
    assert not cache.find(text_keys(TEXTS))[1].any()
    assert cache.find(text_keys([]))[0].shape == (0, 3)


@given(data=st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_ignored_and_rebuilt(cache: VectorCache, data: st.DataObject) -> None:
    for file in cache.path.parent.iterdir():
        file.unlink()
    cache.add(text_keys(TEXTS), VECTORS)
    (file,) = cache.path.parent.iterdir()
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= data.draw(st.integers(1, 255))
    else:
        del content[place:]
    file.write_bytes(content)
    vectors, found = cache.find(text_keys(TEXTS))
    np.testing.assert_array_equal(vectors[found], VECTORS[found])
    cache.add(text_keys(TEXTS), VECTORS)
    vectors, found = cache.find(text_keys(TEXTS))
    assert found.all()
    np.testing.assert_array_equal(vectors, VECTORS)


@pytest.mark.parametrize("content", [b"", b"junk", b"\x80\x04\x95pickle"])
def test_a_foreign_file_is_ignored(cache: VectorCache, content: bytes) -> None:
    cache.path.write_bytes(content)
    assert not cache.find(text_keys(TEXTS))[1].any()


def test_a_table_of_another_shape_is_ignored(cache: VectorCache) -> None:
    pq.write_table(pa.table({"key": ["a"], "vector": [1.0]}), cache.path)
    assert not cache.find(text_keys(TEXTS))[1].any()
    cache.add(text_keys(TEXTS), VECTORS)
    assert cache.find(text_keys(TEXTS))[1].all()


def test_processes_that_write_at_once_lose_nothing(cache: VectorCache) -> None:
    code = """
import logging, sys
import numpy as np
from pathlib import Path
from nasheval.contexts.cache import VectorCache, text_keys
cache, name = VectorCache(Path(sys.argv[1]), 3), sys.argv[2]
logging.basicConfig(level=logging.INFO, format="%(message)s")
for i in range(40):
    cache.add(text_keys([f"{name} {i}"]), np.full((1, 3), i, dtype=np.float32))
    vectors, found = cache.find(text_keys([f"{name} {j}" for j in range(i + 1)]))
    assert (vectors[found] == np.flatnonzero(found)[:, None]).all()
"""
    arguments = [sys.executable, "-W", "error", "-c", code, str(cache.path)]
    writers = [subprocess.Popen([*arguments, name], stderr=subprocess.PIPE, text=True) for name in ("a", "b", "c")]
    # Silence means that no reader ever met a damaged file.
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * 3
    vectors, found = cache.find(text_keys([f"{name} {i}" for name in "abc" for i in range(40)]))
    assert found.all()
    assert vectors[:, 0].tolist() == [*range(40)] * 3
    assert not [file for file in cache.path.parent.iterdir() if file.suffix == ".partial"]
