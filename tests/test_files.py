"""Files are written whole or not at all, links are replaced and never followed, and JSON is read strictly."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from nasheval import files
from nasheval.errors import InputError
from nasheval.files import check_file, new_file, parse_json, read_plain, whole_file
from nasheval.scoring.report import write_report

from .scoring.report_logs import star_report


def write(path, held=b"new"):
    with whole_file(path) as file:
        file.write(held)


def test_a_file_is_there_once_it_is_whole_and_replaces_what_was_there(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with whole_file(target) as file:
        file.write(b"half")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["a"]
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
def test_a_write_that_is_broken_off_leaves_what_was_there(tmp_path, error):
    def parts():
        yield b"half"
        raise error

    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(type(error)), whole_file(tmp_path / "a") as file:
        file.writelines(parts())
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"a": b"old"}


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"There is no folder .*nowhere"):
        write(tmp_path / "nowhere" / "a")


@pytest.mark.parametrize("name", ["folder", ""])
def test_a_folder_at_the_place_of_a_file_is_named_and_an_empty_name_is_this_folder(tmp_path, monkeypatch, name):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"^'{name or '.'}' is a folder"):
        write(name)
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("mode", [0o600, 0o444, 0o664])
def test_a_file_keeps_its_permissions(tmp_path, mode):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    target.chmod(mode)
    with whole_file(target) as file:
        file.write(b"new")
        [partial] = tmp_path.glob(".nasheval-*")
        assert partial.stat().st_mode & 0o777 == mode  # before anybody can read what is written
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("linked", [False, True], ids=["pipe", "link to a pipe"])
def test_a_pipe_is_written_into_and_stays(tmp_path, linked):
    pipe, held = tmp_path / "pipe", []
    os.mkfifo(pipe)
    if linked:
        (tmp_path / "link").symlink_to(pipe)
    reader = threading.Thread(target=lambda: held.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(tmp_path / "link" if linked else pipe)
    reader.join(10)
    assert held == [b"new"]
    assert pipe.is_fifo()
    assert sorted(os.listdir(tmp_path)) == (["link", "pipe"] if linked else ["pipe"])


def test_a_device_is_written_into_and_stays():
    write("/dev/null")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
@pytest.mark.parametrize("to_file", [False, True], ids=["pipe", "file"])
def test_standard_output_is_written_into_wherever_it_goes(tmp_path, name, to_file):
    # The child may not write to /dev, but a superuser may: what is there is compared, link for link.
    before = os.readlink("/dev/stdout")
    code = f"from nasheval.files import whole_file\nwith whole_file({name!r}) as file: file.write(b'new')"
    with open(tmp_path / "out", "wb") as out:
        out.write(b"old ")
        out.flush()
        to = out if to_file else subprocess.PIPE
        ran = subprocess.run([sys.executable, "-c", code], stdout=to, check=True)
    assert (ran.stdout or b"") == (b"" if to_file else b"new")
    assert (tmp_path / "out").read_bytes() == (b"old new" if to_file else b"old ")
    assert os.readlink("/dev/stdout") == before


def _report(path: Path) -> None:
    write_report(star_report(), path)


WRITERS = {"a file": write, "a report": _report}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_at_the_place_of_a_file_is_replaced_not_followed(tmp_path, writer):
    victim, target = tmp_path / "victim", tmp_path / "a"
    victim.write_bytes(b"precious")
    target.symlink_to(victim)
    WRITERS[writer](target)
    assert victim.read_bytes() == b"precious"
    assert not target.is_symlink()
    assert target.stat().st_size
    assert sorted(os.listdir(tmp_path)) == ["a", "victim"]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_planted_at_the_temporary_name_is_not_followed(tmp_path, monkeypatch, writer):
    """Even for somebody who guesses the random name."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / ".nasheval-guessed.partial").symlink_to(victim)
    monkeypatch.setattr(files, "token_hex", lambda size: "guessed")
    with pytest.raises(FileExistsError):
        WRITERS[writer](tmp_path / "a")
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "a").exists()


def test_links_at_names_that_were_once_temporary_are_left_alone(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in (".a.part", ".a.html.part", ".a.part.html"):
        (tmp_path / name).symlink_to(victim)
    write(tmp_path / "a.html")
    assert victim.read_bytes() == b"precious"


def test_a_new_file_replaces_nothing(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError), new_file(tmp_path / "a"):
        pass
    assert not (tmp_path / "nowhere").exists()


def test_only_plain_files_of_a_size_are_read(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert read_plain(tmp_path / "a", 3) == b"abc"
    for name, most, words in (("a", 2, "at most 2"), ("link", 9, "link")):
        with pytest.raises(ValueError, match=words):
            read_plain(tmp_path / name, most)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="plain file"):
        read_plain(tmp_path / "pipe", 9)


FAULTS = {
    "[1]": "list in place of an object",
    '{"a": 1, "a": 1}': "same key twice",
    '{"a": {"b": 1, "b": 2}}': "same key twice",
    '{"a": NaN}': "NaN is not JSON",
    '{"a": -Infinity}': "-Infinity is not JSON",
    '{"a": 1e999}': "1e999 is too large",
    '{"a": "\\ud800"}': "surrogates not allowed",
    '{"a":' * 100_000: "nested too deeply",
    b'{"a": "\xff"}': "not valid JSON",
    "": "not valid JSON",
}


@pytest.mark.parametrize("raw", FAULTS, ids=lambda raw: str(raw[:12]))
def test_json_is_read_strictly(raw):
    with pytest.raises(ValueError, match=FAULTS[raw]):
        parse_json(raw)


def test_json_that_is_sound_is_read():
    assert parse_json(b'{"a": [1, 2.5, null, "\xc3\xbc"]}') == parse_json('{"a": [1, 2.5, null, "\\u00fc"]}')
    assert np.isclose(parse_json('{"a": 1e300}')["a"], 1e300)


def test_a_file_of_another_ending_is_refused(tmp_path):
    check_file(tmp_path / "votes.PARQUET", ".parquet")
    check_file(tmp_path / "any")
    with pytest.raises(InputError, match=r"votes\.csv: .* ends in \.parquet"):
        check_file(tmp_path / "votes.csv", ".parquet")
