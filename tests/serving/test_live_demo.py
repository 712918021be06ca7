"""The path of a newcomer, as docs/guides/live-demo.md tells it: serve, route, vote, learn again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from urllib.parse import quote

import httpx
import pytest

from .worlds import EVIL, free_port, model_folder

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'dev')")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@pytest.fixture
def demo(tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "nasheval.serving.live_demo", str(model_folder()), "--no-browser"]
    command += ["--store", str(tmp_path / "votes.db"), "--port", str(port)]
    with open(tmp_path / "log", "w") as log:
        running = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            with suppress(httpx.HTTPError):
                if httpx.get(f"{address}/ready").status_code == 200:
                    break
            assert running.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)
        try:
            yield address, tmp_path
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(30)


def nasheval(*words, status=0):
    done = subprocess.run(
        [sys.executable, "-m", "nasheval", *map(str, words)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")
def test_from_serving_to_a_vote_to_a_refit(demo):
    address, folder = demo
    for _ in range(50):
        if "Explore" in (told := (folder / "log").read_text()):
            break
        time.sleep(0.1)
    assert f"Vote     {address}/vote" in told
    routed = httpx.post(f"{address}/v1/route", json={"context": {"language": "de"}}).json()
    assert routed["agent"] == "terse"
    chat = {"model": "nasheval", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}
    answered = httpx.post(f"{address}/v1/chat/completions", json=chat)
    assert answered.headers["x-nasheval-agent"] in ("terse", "chatty", quote(EVIL))
    assert "Why is the sky blue" in answered.text
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        page = browser.new_page()
        page.goto(f"{address}/vote")
        page.fill("#prompt", "Why is the sky blue?")
        page.click("#send")
        page.wait_for_selector("#answers article")
        page.keyboard.press("1")
        page.wait_for_selector("#next")
        browser.close()
    crowd = subprocess.run(
        [sys.executable, "-m", "nasheval.serving.crowd", address, "--votes", "300"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.match(r"300 votes are stored; \d+ of them prefer the shorter answer\.", crowd.stdout)
    store = folder / "votes.db"
    before = httpx.get(f"{address}/v1/status").json()
    assert before["votes"]["total"] == 301
    made = json.loads(nasheval("refit", store, "-o", folder / "new", "--format", "json"))
    assert made["votes"] == 301
    nasheval("promote", "--store", store, "--to", made["version"], "--now")
    for _ in range(100):
        after = httpx.get(f"{address}/v1/status").json()
        if after["model_version"] == made["version"]:
            break
        time.sleep(0.1)
    assert after["model_version"] == made["version"] != before["model_version"]
    explored = httpx.get(f"{address}/v1/explore", timeout=60).json()
    assert explored["model_version"] == made["version"]
    assert explored["facts"]["records"] == 301
