"""What does the gateway add to a chat completion?

`python -m studies gateway [--requests 1000] [--rounds 5] [--seed 70] [--jobs 1] [--quick]`

A canned upstream is asked directly and through the gateway by turns, on one connection each: plain answers, and streams
until their first event and until their end. Prompts are never the same twice, and the model routes by them. Medians
over all requests, and their difference; the bar is 3 ms. The client, the upstream and the service are processes of
their own on one machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep
from typing import Any

import httpx
import numpy as np

import nasheval as ne
from studies.benchmarks.serving_process import LOCAL, Service, free_port
from studies.harness.options import parser
from studies.harness.tables import print_table

AGENTS = ("a", "b", "c", "d")
WORDS = ("write", "a", "poem", "about", "the", "sea", "in", "python", "explain", "why", "sky", "blue", "fix", "bug")
BAR = 3.0  # milliseconds
WARM = 30
COLUMNS = ("request", "directly ms", "through ms", "added at the median ms", "bar", "added at the 95th percentile ms")


def main(words: Sequence[str]) -> None:
    known = parser("gateway", __doc__)
    known.add_argument("--requests", type=int, default=1000, help="of each kind, round and way")
    known.add_argument("--rounds", type=int, default=5)
    known.add_argument("--seed", type=int, default=70)
    known.add_argument("--jobs", type=int, default=1, help="workers of the service")
    known.add_argument("--quick", action="store_true", help="small sizes")
    known.add_argument("--markdown", action="store_true")
    options = known.parse_args(words)
    if options.quick:
        options.requests, options.rounds = 50, 2
    with TemporaryDirectory(prefix="gateway-") as folder:
        rows = [*_rows(Path(folder), options)]
    about = f"{options.jobs} workers, {options.rounds} rounds of {options.requests} requests, by turns"
    print_table(f"What the gateway adds; {about}", COLUMNS, rows, markdown=options.markdown)


def _rows(folder: Path, options: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    prompts = _prompts(options.seed)
    _model(prompts[:1000], options.seed).save(folder / "model")
    with _upstream() as address:
        entries = [f'[upstreams.{agent}]\nurl = "{address}/v1"\n' for agent in AGENTS]
        (folder / "upstreams.toml").write_text("\n".join(entries))
        words = [str(folder / "model"), "--store", str(folder / "votes.db"), "--workers", str(options.jobs)]
        service = Service([*words, "--upstreams", str(folder / "upstreams.toml")], folder / "log")
        service.start()
        try:
            took = _by_turns({"directly": address, "through": service.url}, prompts, options)
        finally:
            service.stop()
    for kind in ("plain", "stream: first event", "stream: end"):
        direct, through = ([1e3 * one for one in took[way, kind]] for way in ("directly", "through"))
        tail = float(np.quantile(through, 0.95) - np.quantile(direct, 0.95))
        added = median(through) - median(direct)
        yield kind, f"{median(direct):.2f}", f"{median(through):.2f}", f"{added:.2f}", f"{BAR:g}", f"{tail:.2f}"


def _by_turns(
    addresses: dict[str, str], prompts: Sequence[str], options: argparse.Namespace
) -> dict[tuple[str, str], list[float]]:
    """Return the seconds of each kind of request by way."""
    took: dict[tuple[str, str], list[float]] = {}
    with httpx.Client(timeout=60) as client:
        for place in range(WARM):
            for address in addresses.values():
                _plain(client, address, prompts[place])
                _streamed(client, address, prompts[place])
        for turn in range(options.rounds * options.requests):
            prompt = f"{prompts[turn % len(prompts)]} {turn}"
            ways = [*addresses.items()][:: 1 if turn % 2 else -1]
            for way, address in ways:
                took.setdefault((way, "plain"), []).append(_plain(client, address, prompt))
                first, end = _streamed(client, address, f"{prompt} streamed")  # a prompt is embedded once
                took.setdefault((way, "stream: first event"), []).append(first)
                took.setdefault((way, "stream: end"), []).append(end)
    return took


def _body(prompt: str, **more: Any) -> dict[str, Any]:
    return {"model": "nasheval", "messages": [{"role": "user", "content": prompt}], **more}


def _plain(client: httpx.Client, address: str, prompt: str) -> float:
    began = perf_counter()
    client.post(f"{address}/v1/chat/completions", json=_body(prompt)).raise_for_status()
    return perf_counter() - began


def _streamed(client: httpx.Client, address: str, prompt: str) -> tuple[float, float]:
    began = perf_counter()
    with client.stream("POST", f"{address}/v1/chat/completions", json=_body(prompt, stream=True)) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        first = perf_counter() - began
        for _ in pieces:
            pass
    return first, perf_counter() - began


@contextmanager
def _upstream() -> Iterator[str]:
    """Run a canned upstream in a process of its own; yield its address."""
    port = free_port()
    command = [sys.executable, "-m", "studies.benchmarks.gateway_upstream", str(port)]
    running = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    address, until = f"http://{LOCAL}:{port}", monotonic() + 60
    try:
        while monotonic() < until:
            try:
                httpx.get(f"{address}/v1/models", timeout=2)
                break
            except httpx.HTTPError:
                sleep(0.05)
        yield address
    finally:
        running.terminate()
        running.wait(30)


def _prompts(seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(5, 40))) for _ in range(5_000)]


def _model(prompts: Sequence[str], seed: int) -> ne.NashEval:
    """Return a model of votes on prompts, in which every agent wins somewhere."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    votes = pd.DataFrame({"model_a": rng.choice(["a", "b"], len(prompts)), "prompt": prompts})
    votes["model_b"] = np.where(rng.random(len(prompts)) < 0.5, "c", "d")
    wins = votes["prompt"].str.contains("python") ^ (rng.random(len(prompts)) < 0.2)
    votes["winner"] = np.where(wins, "model_a", "model_b")
    return ne.NashEval(folds=2, verbose=False).fit(ne.read_votes(votes, text="prompt"))
