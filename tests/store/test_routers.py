"""A router: bit for bit what `predict_proba` says of one context, from the model or from its folder alone."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError, NashEvalError
from nasheval.estimator import load
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import Entropy
from nasheval.policy.base import Constant
from nasheval.policy.router import Router
from nasheval.store.routers import ROUTING, load_router
from nasheval.store.tensors import tensors_bytes, tensors_of

from .small import BOTH, LEARNED, TREES, VOTERS, fitted, forge, mixed_log, paper_log, refused
from .test_new_kinds import star_log

COSTS = {"a": 1.0, "b": 2.0, "c": 0.5, "d": 1.5}
KINDS = {
    "voters": {"outcome": VOTERS, "second_stage": "none"},
    "corrected": {"outcome": VOTERS, "strength": 1.0},
    "trees": {"outcome": TREES, "second_stage": "none"},
    "shared": {"outcome": VOTERS, "second_stage": "shared"},
    "stack": {"outcome": BOTH, "second_stage": "none"},
    "learned": {"outcome": TREES, "second_stage": "none", "policy": LEARNED},
    "costs": {"outcome": VOTERS, "second_stage": "none", "costs": COSTS, "cost_weight": 0.3},
    "a column of costs": {"outcome": VOTERS, "second_stage": "none", "costs": {**COSTS, "a": "price"}, "budget": 1.2},
    "budget": {"outcome": VOTERS, "second_stage": "none", "costs": COSTS, "budget": 1.0},
    "soft budget": {"outcome": TREES, "second_stage": "none", "costs": COSTS, "budget": SoftBudget(1.0, 0.1, 0.2, 0.3)},
    "entropy": {"outcome": VOTERS, "second_stage": "none", "regularizer": Entropy(0.1)},
    "availability": {"outcome": VOTERS, "second_stage": "none", "availability": "language"},
    "text": {"outcome": VOTERS, "second_stage": "none"},
    "star": {"outcome": VOTERS, "second_stage": "none"},
    "corrected trees": {"outcome": TREES, "strength": 1.0},
}  # fmt: skip
VALUES = {
    "x": st.one_of(st.none(), st.floats(-3, 3)),
    "size": st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-5, 5), st.just("1.5"), st.just(float("nan"))),
    "language": st.sampled_from([None, "en", "de", "fr", "new", 3]),
    "code": st.sampled_from([None, True, False, 1, "true"]),
    "price": st.floats(0.1, 1.1),
    "prompt": st.sampled_from([None, "", "write a poem", "ein Haiku"]),
}


def _log(kind):
    import pyarrow as pa

    if kind == "star":
        return star_log()
    log = mixed_log(text=kind == "text")
    if kind != "a column of costs":
        return log
    from dataclasses import replace

    prices = pa.array(np.linspace(0.1, 1.1, log.n_contexts))
    return replace(log, contexts=log.contexts.append_column("price", prices))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    made = {}

    def get(kind):
        if kind not in made:
            folder = tmp_path_factory.mktemp("routers") / "model"
            model = fitted(_log(kind), **KINDS[kind])
            model.save(folder)
            made[kind] = model, model.router(), load_router(folder), folder
        return made[kind]

    return get


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_router_says_what_predict_proba_says(models, kind, data):
    model, router, alone, _ = models(kind)
    context = {name: data.draw(VALUES[name], label=name) for name in model.feature_names_in_}
    agents = data.draw(st.sampled_from([None, ["a", "b", "d"], list("abcd")]))
    wanted = model.predict_proba([context], agents=agents)[0]
    assert router(context, agents=agents).tobytes() == wanted.tobytes()
    assert (alone is None) == (kind == "stack")
    if alone is not None:
        assert alone(context, agents=agents).tobytes() == wanted.tobytes()
        np.testing.assert_array_equal(alone.game(context), model.payoff([context])[0])


def test_a_vector_is_a_context_of_a_log_built_from_an_array(tmp_path):
    model = fitted(paper_log(), outcome=VOTERS, second_stage="none")
    router = model.router()
    for x in np.random.default_rng(0).normal(size=(5, len(model.feature_names_in_))):
        np.testing.assert_array_equal(router(x), model.predict_proba(x[None])[0])
        np.testing.assert_array_equal(router(x.astype(np.float32)), model.predict_proba(x[None].astype(np.float32))[0])
        named = dict(zip(model.feature_names_in_, x.tolist(), strict=True))
        np.testing.assert_array_equal(router(named), router(x))
    with pytest.raises(NashEvalError, match="x"):
        router(np.zeros(len(model.feature_names_in_) - 1))
    with pytest.raises(InputError, match="context is a list"):
        router(["a"])


@pytest.mark.parametrize(
    ("change", "words"),
    [({"size": ...}, "no column 'size'"), ({"size": "many"}, "not a number"), ({"code": 7}, "truth value"),
     ({"size": 1e300}, "32 bits"), ({"language": [1]}, "language")],
)  # fmt: skip
def test_what_is_wrong_is_said_as_predict_proba_says_it(models, change, words):
    model, router, alone, _ = models("voters")
    context = {"size": 1.0, "language": "en", "code": True} | change
    context = {name: value for name, value in context.items() if value is not ...}
    for ask in (lambda: model.predict_proba([context]), lambda: router(context), lambda: alone(context)):
        with pytest.raises(NashEvalError, match=words):
            ask()
    with pytest.raises(InputError, match="names 'nobody'"):
        router({"size": 1.0, "language": "en", "code": True}, agents=["nobody"])


def test_plain_contexts_take_no_table(models, monkeypatch):
    _, router, _, _ = models("voters")

    def refuse(*_, **__):
        raise AssertionError("a table was made")

    monkeypatch.setattr(type(router.policy), "predict_proba", refuse)
    assert router({"size": 0.5, "language": "de", "code": None}).sum() == pytest.approx(1.0)


def test_other_policies_are_asked_as_they_are():
    router = Router(Constant(("a", "b"), lambda up: up[up] / up.sum()))
    np.testing.assert_array_equal(router({"x": 1}), [0.5, 0.5])
    with pytest.raises(InputError, match="Constant"):
        router.payoff  # noqa: B018


def test_other_terms_are_those_of_predict_proba(models):
    model, router, alone, _ = models("costs")
    context = {"size": 1.0, "language": "en", "code": True}
    for changes in ({"budget": 0.9}, {"cost_weight": 0.0}, {"budget": 1.1, "cost_weight": 1.0}):
        wanted = model.predict_proba([context], **changes)[0]
        for one in (router, alone):
            np.testing.assert_array_equal(one.under(**changes)(context), wanted)


# -- the folder -------------------------------------------------------------------------------------------------------

SPOIL = {
    "agents": ("probes.agents", lambda a: a + 9), "pair": ("pair", lambda a: a + 99),
    "weight": ("weight", lambda a: a[:-1]), "status": ("status", lambda a: a[:-1]),
    "offsets": ("probes.offsets", lambda a: a[::-1].copy()), "not finite": ("weight", lambda a: a * np.nan),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOIL)
def test_a_folder_that_leads_outside_is_refused(models, tmp_path, how):
    import shutil

    folder = shutil.copytree(models("voters")[3], tmp_path / "model")
    name, spoil = SPOIL[how]
    arrays = tensors_of((folder / ROUTING).read_bytes())
    forge(folder, ROUTING, tensors_bytes({**arrays, name: spoil(arrays[name])}))
    refused(folder, ROUTING)
    with pytest.raises(NashEvalError, match="To do: "):
        load_router(folder)


def test_a_model_saved_without_the_file_is_loaded_whole(models, tmp_path):
    import json
    import shutil

    folder = shutil.copytree(models("voters")[3], tmp_path / "model")
    (folder / ROUTING).unlink()
    told = json.loads((folder / "manifest.json").read_text())
    del told["files"][ROUTING]
    (folder / "manifest.json").write_text(json.dumps(told))
    assert load_router(folder) is None
    assert load(folder).agents_ == ("a", "b", "c", "d")


_COLD = """
import sys
from nasheval.store.routers import load_router
lottery = load_router(sys.argv[1])({"size": 0.5, "language": "de", "code": True, "x": 0.5})
print(lottery.tobytes().hex())
heavy = {"torch", "lightgbm", "pandas", "sklearn", "numba", "scipy.stats", "joblib", "narwhals", "pyarrow.compute"}
heavy = (heavy | set(sys.argv[2:])) & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    ("kind", "more"), [("voters", ()), ("star", ("scipy", "numpy.ma"))]
)  # voters: menus of several
def test_a_new_process_loads_little_and_says_the_same(models, kind, more):
    model, _, _, folder = models(kind)
    run = [sys.executable, "-W", "error", "-c", _COLD, str(folder), *more]
    found = subprocess.run(run, capture_output=True, text=True, check=False, env=os.environ)
    assert found.returncode == 0, found.stderr
    wanted = model.predict_proba([{"size": 0.5, "language": "de", "code": True, "x": 0.5}])[0]
    assert found.stdout.strip() == wanted.tobytes().hex()


_COMMAND = """
import runpy, sys
sys.argv = ["nasheval", "route", sys.argv[1], "--set", "size=0.5", "--set", "language=de", "--format", "json"]
try:
    runpy.run_module("nasheval", run_name="__main__")
except SystemExit as stop:
    assert not stop.code
assert not {"torch", "lightgbm", "pandas", "sklearn", "numba", "scipy.stats", "nasheval.cli.fitting"} & set(sys.modules)
"""


def test_the_command_loads_little(models):
    found = subprocess.run([sys.executable, "-c", _COMMAND, str(models("voters")[3])], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
