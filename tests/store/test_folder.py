"""A folder is written whole or not at all, and replaces nothing but a saved model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nasheval.errors import InputError, ModelFileError
from nasheval.store import folder as folders
from nasheval.store.folder import open_folder, write_folder

from .small import manifest, write_manifest

DATA = {
    "fingerprint": "", "contexts": 1, "records": 1, "menus": 1, "voters": None, "design": "draws", "text": None,
    "text_kept": False,
}  # fmt: skip
TOLD = {
    "agents": ["a"], "features": [], "parameters": {}, "data": DATA, "metrics": {}, "stage1": {}, "policy": {}
}  # fmt: skip
OLD, NEW = {"encoder.json": b"old"}, {"encoder.json": b"new", "surface.txt": b"more"}


def held(folder: Path) -> dict[str, bytes]:
    _, files = open_folder(folder)
    return {file.name: files.parsed(file.name, bytes) for file in folder.iterdir() if file.name != "manifest.json"}


@pytest.fixture
def there(tmp_path):
    write_folder(tmp_path / "model", TOLD, OLD)
    return tmp_path / "model"


def test_what_is_written_is_read(there):
    told, files = open_folder(there)
    assert {name: told[name] for name in TOLD} == TOLD
    assert (told["format"], told["version"]) == ("nasheval.model", 1)
    assert files.parsed("encoder.json", bytes) == b"old"
    files.finish()


def test_it_has_the_permissions_of_any_folder(there, tmp_path):
    (tmp_path / "other").mkdir()
    assert there.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_model_is_replaced_only_on_request(there, tmp_path):
    with pytest.raises(InputError, match="overwrite=True"):
        write_folder(there, TOLD, NEW)
    assert held(there) == OLD
    write_folder(there, TOLD, NEW, overwrite=True)
    assert held(there) == NEW
    assert os.listdir(tmp_path) == ["model"]


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "model").mkdir()
    write_folder(tmp_path / "model", TOLD, NEW)
    assert held(tmp_path / "model") == NEW
    assert os.listdir(tmp_path) == ["model"]


def test_the_folder_behind_a_link_is_replaced(there, tmp_path):
    (tmp_path / "current").symlink_to(there)
    write_folder(tmp_path / "current", TOLD, NEW, overwrite=True)
    assert (tmp_path / "current").is_symlink()
    assert held(there) == NEW


@pytest.mark.parametrize("what", ["a file", "a folder of others", "a model and notes", "another manifest", "no JSON"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_else_is_ever_replaced(there, what, overwrite):
    if what == "a file":
        shutil.rmtree(there)
        there.write_text("mine")
    elif what == "a folder of others":
        shutil.rmtree(there)
        there.mkdir()
        (there / "thesis.tex").write_text("mine")
    elif what == "a model and notes":
        (there / "notes.md").write_text("mine")
    elif what == "another manifest":
        write_manifest(there, {"format": "web.extension", "files": {"encoder.json": {}}})
    else:
        (there / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="not just a saved model"):
        write_folder(there, TOLD, NEW, overwrite=overwrite)
    if what != "a file":
        assert (there / "encoder.json").exists() == (what != "a folder of others")


def test_folders_above_a_model_are_made(tmp_path):
    write_folder(tmp_path / "new" / "deep" / "model", TOLD, NEW)
    assert held(tmp_path / "new" / "deep" / "model") == NEW


def test_a_place_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="There is no folder"):
        write_folder(tmp_path / "file" / "model", TOLD, NEW)


def test_a_place_that_may_not_be_written_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="may not be written to; give another place"):
        write_folder(tmp_path / "new" / "model", TOLD, NEW)
    assert not (tmp_path / "new").exists()


def test_what_a_save_that_was_cut_short_left_is_cleaned_up(there, tmp_path):
    for name in (".model.0123abcd.old", ".model.x.old", ".other.0123abcd.old", "model.0123abcd.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    write_folder(there, TOLD, NEW, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == [".model.x.old", ".other.0123abcd.old", "model", "model.0123abcd.old"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
@pytest.mark.parametrize("when", [0, 1, 2, 3])
def test_a_write_that_is_broken_off_leaves_what_was_there(there, tmp_path, monkeypatch, error, when):
    """Files, then the manifest, then the folder are made durable; whichever fails, the old model is whole."""
    calls = iter(range(100))
    real = os.fsync

    def fsync(handle):
        if next(calls) == when:
            raise error
        real(handle)

    monkeypatch.setattr(folders.os, "fsync", fsync)
    if when < 3:
        with pytest.raises(type(error)):
            write_folder(there, TOLD, NEW, overwrite=True)
    elif isinstance(error, OSError):  # a system that cannot sync folders is no reason to fail
        write_folder(there, TOLD, NEW, overwrite=True)
    else:
        with pytest.raises(KeyboardInterrupt):
            write_folder(there, TOLD, NEW, overwrite=True)
    monkeypatch.undo()
    assert held(there) == (NEW if when == 3 and isinstance(error, OSError) else OLD)
    assert os.listdir(tmp_path) == ["model"]


def test_a_swap_that_fails_half_way_puts_the_old_model_back(there, tmp_path, monkeypatch):
    real = Path.rename

    def rename(self, target):
        if self.name.endswith(".partial"):
            raise OSError("no")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="no"):
        write_folder(there, TOLD, NEW, overwrite=True)
    monkeypatch.undo()
    assert held(there) == OLD
    assert os.listdir(tmp_path) == ["model"]


def test_a_process_that_is_killed_leaves_no_half_model(tmp_path):
    code = """
import os, sys
from nasheval.store import folder
real, count = os.fsync, iter(range(9))
folder.os.fsync = lambda handle: os.kill(os.getpid(), 9) if next(count) == 1 else real(handle)
folder.write_folder(sys.argv[1], {}, {"encoder.json": b"1", "surface.txt": b"2"})
"""
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")], check=False)
    assert found.returncode == -9
    assert not (tmp_path / "model").exists()
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".model.")] == []


def test_a_newer_format_is_refused_by_its_number_and_who_wrote_it(there):
    write_manifest(there, {**manifest(there), "version": 7, "package": "9.9"})
    with pytest.raises(ModelFileError, match=r"version is 7; it was saved by nasheval '9\.9'") as caught:
        open_folder(there)
    assert "upgrade nasheval" in str(caught.value)
