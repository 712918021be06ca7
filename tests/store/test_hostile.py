"""Damaged folders and hostile manifests: every one is refused with an error that names the file and what to do."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nasheval.estimator import load
from nasheval.store.folder import VERSION

from .small import FILES, WORLD, manifest, refused, set_told, write_manifest


def test_what_is_whole_loads(folder):
    lotteries = load(folder).predict_proba(WORLD.test_contexts(5))
    np.testing.assert_allclose(lotteries.sum(axis=1), 1.0)


# -- damage -----------------------------------------------------------------------------------------------------------


def _flip(file: Path) -> None:
    held = bytearray(file.read_bytes())
    held[len(held) // 2] ^= 1
    file.write_bytes(held)


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _link(file: Path) -> None:
    elsewhere = file.parent.parent / "elsewhere"
    shutil.move(file, elsewhere)
    file.symlink_to(elsewhere)


def _become_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (lambda file: file.write_bytes(file.read_bytes()[:-7]), "cut off"),
    "emptied": (lambda file: file.write_bytes(b""), "cut off"),
    "longer": (lambda file: file.write_bytes(file.read_bytes() + b" "), "bytes"),
    "one bit": (_flip, "SHA-256"),
    "gone": (lambda file: file.unlink(), "missing"),
    "a folder": (_become_folder, ""),
    "a link": (_link, "link"),
    "a pipe": (_pipe, "plain file"),
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(folder, name, how):
    spoil, told = DAMAGE[how]
    spoil(folder / name)
    refused(folder, name, told)


# -- the manifest -----------------------------------------------------------------------------------------------------


def _renamed(old: str, new: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        told = manifest(folder)
        told["files"][new] = told["files"].pop(old)
        write_manifest(folder, told)

    return spoil


def _raw(text: str | bytes) -> Callable[[Path], None]:
    held = text if isinstance(text, bytes) else text.encode()
    return lambda folder: (folder / "manifest.json").write_bytes(held)  # type: ignore[func-returns-value,return-value]


def _instead(old: str, new: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        text = (folder / "manifest.json").read_text()
        assert old in text
        (folder / "manifest.json").write_text(text.replace(old, new, 1))

    return spoil


SIZE = {"bytes": 3, "sha256": "0" * 64}
MANIFEST: dict[str, tuple[Callable[[Path], None], str]] = {
    "gone": (lambda folder: (folder / "manifest.json").unlink(), "no manifest.json"),
    "empty": (_raw(""), "not valid JSON"),
    "cut off": (_raw('{"format": "nasheval.model", "version": 1, "ag'), "not valid JSON"),
    "not text": (_raw(b"\xff\xfe\x00"), "not valid JSON"),
    "a pickle": (_raw(pickle.dumps({"format": "nasheval.model"})), "not valid JSON"),
    "a list": (_raw("[1, 2]"), "list in place of an object"),
    "a number": (_raw("3"), "int in place of an object"),
    "nested without end": (_raw("[" * 100_000), "nested too deeply"),
    "objects without end": (_raw('{"a":' * 100_000), "nested too deeply"),
    "a key twice": (_instead('"version": 1,', '"version": 1, "version": 1,'), "same key twice"),
    "NaN": (_instead('"floor": 0.05', '"floor": NaN'), "NaN is not JSON"),
    "Infinity": (_instead('"floor": 0.05', '"floor": -Infinity'), "not JSON"),
    "a number too large": (_instead('"floor": 0.05', '"floor": 1e999'), "too large"),
    "an integer too long": (_instead('"folds": 2', f'"folds": {"9" * 5000}'), "not valid JSON"),
    "half a character": (_instead('"a0"', r'"\ud800"'), "not valid JSON"),
    "another format": (set_told("format", "other.model"), "not a saved model"),
    "no format": (set_told("format", ...), "not a saved model"),
    "newer": (set_told("version", VERSION + 1), "upgrade nasheval"),
    "much newer": (set_told("version", 10**400), "upgrade nasheval"),
    "version as text": (set_told("version", "1"), "format version"),
    "version true": (set_told("version", True), "format version"),
    "version zero": (set_told("version", 0), "format version"),
    "version one and a half": (set_told("version", 1.5), "format version"),
    "a key missing": (set_told("policy", ...), "'policy'"),
    "a key too many": (set_told("run", "rm"), "'run'"),
    "agents as text": (set_told("agents", "a0"), "'agents'"),
    "an agent twice": (set_told("agents", ["a0"] * 5), "twice"),
    "agents as numbers": (set_told("agents", [0, 1, 2, 3, 4]), "other than strings"),
    "other agents": (set_told("agents", list("abcde")), "'agents' differs"),
    "agents in another order": (set_told("agents", ["a1", "a0", "a2", "a3", "a4"]), "'agents' differs"),
    "other features": (set_told("features", ["x0"]), "'features' differs"),
    "files as a list": (set_told("files", ["encoder.json"]), "'files'"),
    "a file above": (_renamed("encoder.json", "../encoder.json"), "no name of a file"),
    "a file far above": (_renamed("encoder.json", "../../../../etc/passwd"), "no name of a file"),
    "an absolute file": (_renamed("encoder.json", "/etc/passwd"), "no name of a file"),
    "a file below": (_renamed("encoder.json", "more/encoder.json"), "no name of a file"),
    "a file of another system": (_renamed("encoder.json", "..\\encoder.json"), "no name of a file"),
    "a hidden file": (_renamed("encoder.json", ".encoder.json"), "no name of a file"),
    "a file with a null": (_renamed("encoder.json", "encoder.json\0.txt"), "no name of a file"),
    "a file to run": (_renamed("encoder.json", "encoder.py"), "no name of a file"),
    "itself": (set_told("files/manifest.json", SIZE), "no name of a file"),
    "no file of that name": (set_told("files/more.txt", SIZE), "more.txt: this file is missing"),
    "a file not listed": (set_told("files/surface.txt", ...), "does not list it"),
    "a size below zero": (set_told("files/surface.txt/bytes", -1), "no size"),
    "a size without end": (set_told("files/surface.txt/bytes", 10**30), "no size"),
    "a size as text": (set_told("files/surface.txt/bytes", "1"), "no size"),
    "a size true": (set_told("files/surface.txt/bytes", True), "no size"),
    "no size": (set_told("files/surface.txt/bytes", ...), "no size"),
    "a file as a number": (set_told("files/surface.txt", 1), "no size"),
    "a hash too short": (set_told("files/surface.txt/sha256", "ab"), "no SHA-256"),
    "another hash": (set_told("files/surface.txt/sha256", "0" * 64), "SHA-256"),
    "a regulariser that is a number": (set_told("policy/terms/regularizer", 3), "regularizer is 3"),
    "a setting that is a number": (set_told("parameters/regularizer", 3), "regularizer is 3"),
    "data of another shape": (set_told("data/contexts", 10**9), "1,000,000,000"),
    "data as text": (set_told("data/contexts", "many"), "'contexts'"),
    "records": (set_told("data/records", 3), "'records' differs"),
    "menus": (set_told("data/menus", 3), "'menus' differs"),
    "design": (set_told("data/design", "draws"), "'design' differs"),
    "voters": (set_told("data/voters", 3), "'_voter'"),
    "text": (set_told("data/text", "x0"), "text column"),
    "a setting too many": (set_told("parameters/run", "rm"), "run"),
    "an unknown kind": (set_told("parameters/regularizer", {"is": "os.system"}), "unknown kind"),
    "an imported kind": (set_told("parameters/outcome", {"is": "subprocess:Popen", "args": ["ls"]}), "unknown kind"),
    "an object without a kind": (set_told("parameters/costs", {"a": 1}), "unknown kind"),
    "a kind that is a list": (set_told("parameters/costs", {"is": ["L2"]}), "unknown kind"),
    "a field too many": (set_told("parameters/regularizer", {"is": "L2", "rho": 0.1, "run": 1}), "run"),
    "a strength as text": (set_told("parameters/regularizer", {"is": "L2", "rho": "strong"}), ""),
    "a strength below zero": (set_told("parameters/regularizer", {"is": "L2", "rho": -1.0}), "rho"),
    "a setting that is no number": (set_told("parameters/cost_weight", {"is": "float", "value": "nan"}), "unknown"),
    "a mapping of nothing": (set_told("parameters/costs", {"is": "mapping", "items": [1, 2]}), ""),
    "a mapping with a key twice": (set_told("parameters/costs", {"is": "mapping", "items": [["a", 1]] * 2}), "twice"),
    "an array of words": (set_told("parameters/costs", {"is": "array", "items": ["a"]}), "numbers"),
    "jobs as text": (set_told("parameters/n_jobs", "many"), "n_jobs"),
    "folds": (set_told("stage1/folds", 3), "'folds' differs"),
    "folds without end": (set_told("stage1/folds", 10**12), "'folds' differs"),
    "no word of propensities": (set_told("stage1/propensity", ...), "'propensity'"),
    "known as text": (set_told("stage1/propensity/known", "yes"), "'known'"),
    "a check of nothing": (set_told("stage1/propensity/check", {}), "'check'"),
    "a choice of words": (set_told("stage1/propensity/choice", {"name": "a", "losses": {"a": "b"}, "gain": 0.0,
                                                               "gain_error": 0.0}), "'losses'"),
    "no aggregator": (set_told("stage1/aggregator", {"is": "L2"}), ""),
    "an unknown outcome": (set_told("stage1/outcome/kind", "pickle"), "unknown kind"),
    "another outcome": (set_told("stage1/outcome", {"kind": "voters"}), "outcome.safetensors"),
    "a stack of itself": (set_told("stage1/outcome/models/0", {"kind": "stack", "models": []}), ""),
    "an outcome missing": (set_told("stage1/outcome/models", [{"kind": "voters"}]), "outcome.safetensors"),
    "a range": (set_told("stage1/outcome/models/1/high", 7.0), "from -1.0 to 7.0"),
    "an unknown second stage": (set_told("stage1/payoff/form", "magic"), "second stage"),
    "a strength for nothing": (set_told("stage1/payoff/form", "corrected"), "strength"),
    "a surface too few": (set_told("stage1/payoff/surface", None), "surface"),
    "a surface of another kind": (set_told("stage1/payoff/surface", "per-pair"), "surface.txt"),
    "an unknown surface": (set_told("stage1/payoff/surface", "flat"), "unknown kind"),
    "an unknown pair": (set_told("stage1/payoff/unknown", [10]), "pairs"),
    "a pair as text": (set_told("stage1/payoff/unknown", ["0"]), "pairs"),
    "an unknown policy": (set_told("policy/kind", "random"), "unknown kind"),
    "a policy without its network": (set_told("policy", {"kind": "exact", "terms": {}}), "terms"),
    "terms that cannot be": (set_told("policy/terms/budget", 0.0), ""),
    "no training": (set_told("policy/training", {"is": "L2"}), "trained"),
}  # fmt: skip


@pytest.mark.parametrize("how", MANIFEST)
def test_a_manifest_that_is_wrong_is_refused(folder, how):
    spoil, told = MANIFEST[how]
    spoil(folder)
    refused(folder, told)


def test_a_network_that_nobody_asks_for_is_refused(folder):
    told = manifest(folder)
    told["policy"] = {"kind": "exact", "terms": told["policy"]["terms"]}
    write_manifest(folder, told)
    refused(folder, "policy.safetensors", "no part of this model")


@pytest.mark.parametrize("name", ["notes.md", ".DS_Store", "evil.pkl", "more"])
def test_a_file_too_many_is_refused(folder, name):
    (folder / name).mkdir() if name == "more" else (folder / name).write_bytes(b"x")
    refused(folder, name, "remove it")


@pytest.mark.parametrize("place", ["nowhere", "a file", "an empty folder"])
def test_a_place_without_a_model_is_refused(tmp_path, place):
    if place == "a file":
        (tmp_path / place).write_text("x")
    elif place == "an empty folder":
        (tmp_path / place).mkdir()
    refused(tmp_path / place, "save() wrote")


def test_a_folder_behind_a_link_loads(folder, tmp_path):
    (tmp_path / "current").symlink_to(folder)
    assert load(tmp_path / "current").agents_ == ("a0", "a1", "a2", "a3", "a4")
