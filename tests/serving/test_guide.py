"""The clients of docs/guides/serving.md, as they stand there: curl, and httpx."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs/guides/serving.md").read_text()
SHOWN = "127.0.0.1:8080"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def service(tmp_path_factory, model):
    from .small import Server

    folder = tmp_path_factory.mktemp("guide")
    one = Server(model, "--store", folder / "votes.db", log=folder / "log")
    yield one
    one.stop()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_examples_answer_what_the_guide_says(service):
    commands = [block for block in blocks("sh") if block.startswith("curl")]
    assert len(commands) == 3
    said = []
    for command in commands:
        made = command.replace(SHOWN, f"127.0.0.1:{service.port}")
        done = subprocess.run(["bash", "-c", made], capture_output=True, text=True, check=True)
        said.append(json.loads(done.stdout))
    [shown] = [json.loads(block) for block in blocks("json")]
    assert set(said[0]) == set(shown)
    assert set(said[1]) >= {"menu", "propensity", "decision_id"}
    assert said[2] == {"id": said[2]["id"], "duplicate": False}


@pytest.mark.slow
def test_the_client_with_httpx_runs(service):
    [code] = [block for block in blocks("py") if "httpx.Client" in block]
    names = {}
    exec(compile(code.replace(SHOWN, f"127.0.0.1:{service.port}"), "guide", "exec"), names)
    assert names["stored"]["duplicate"] is False


def test_the_plugin_is_called_as_the_guide_says():
    from nasheval.serving.litellm import Strategy

    [code] = [block for block in blocks("py") if "Strategy(" in block]
    compile(code.replace("[...]", "[]"), "guide", "exec")
    assert all(hasattr(Strategy, name) for name in ("get_available_deployment", "async_get_available_deployment"))
