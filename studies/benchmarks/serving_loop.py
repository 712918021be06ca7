"""Deciding, asking and learning in a loop, for `serving`: a simulated crowd votes through HTTP on proposed menus."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

import nasheval as ne
from studies.benchmarks.serving_process import Service

TESTED = 2_000  # contexts at which exploitability is measured
FIRST = 300  # votes, on menus drawn uniformly, behind the model that is served first


class Crowd:
    """Voters of the paper's simulation, as the service sees them: one at a time.

    Args:
        seed: of the world and of the votes.
        agents: K.
    """

    def __init__(self, seed: int, agents: int = 5) -> None:
        self.world = ne.SyntheticWorld(seed=seed, agents=agents)
        self.names = tuple(self.world.feedback("pairwise", voters=3, n=2).agents)
        self.rng = np.random.default_rng(seed)
        self.tested = np.asarray(self.world.test_contexts(TESTED))
        self.truth = self.world.payoff(self.tested, "pairwise", voters=3)

    def contexts(self, count: int) -> list[dict[str, float]]:
        """Draw contexts."""
        values = np.asarray(self.world.test_contexts(TESTED + count))[-count:]
        values = values[self.rng.permutation(count)]
        return [{f"x{place}": float(value) for place, value in enumerate(row)} for row in values]

    def margins(self, contexts: Sequence[dict[str, float]]) -> np.ndarray:
        """Return (n, K, K) expected verdicts at contexts."""
        rows = np.array([[*context.values()] for context in contexts])
        return np.asarray(self.world.payoff(rows, "pairwise", voters=3))

    def vote(self, margin: np.ndarray, menu: Sequence[str], rng: np.random.Generator) -> str:
        """Return who wins a menu of two: a verdict whose mean is the margin."""
        first, second = (self.names.index(name) for name in menu)
        return menu[0] if rng.random() < (1 + margin[first, second]) / 2 else menu[1]

    def uniform(self, count: int) -> ne.Feedback:
        """Return votes on pairs that were drawn uniformly, with that propensity."""
        contexts, pairs = self.contexts(count), len(self.names) * (len(self.names) - 1) // 2
        margins, said = self.margins(contexts), []
        for margin in margins:
            menu = [self.names[place] for place in self.rng.choice(len(self.names), 2, replace=False)]
            winner = self.vote(margin, menu, self.rng)
            said.append(((winner,), (menu[1] if winner == menu[0] else menu[0],)))
        rows = np.array([[*context.values()] for context in contexts])
        options: dict[str, Any] = {"agents": self.names, "propensity": [1 / pairs] * count, "design": "draws"}
        return ne.Feedback.from_partitions(rows, said, **options)

    def exploitability(self, lotteries: np.ndarray) -> float:
        """Return the mean true exploitability at the tested contexts."""
        return float(ne.metrics.exploitability(self.truth, lotteries))


class Look(NamedTuple):
    """The policy that is served after some votes: its exploitability, and that of as many uniform votes."""

    votes: int
    served: float
    uniform: float


def looks(
    folder: Path, *, seed: int, rounds: int, votes: int, options: dict[str, Any], store: str = "", clients: int = 8
) -> list[Look]:
    """Serve a first model, then collect votes and refit some times; return what was served at each.

    Args:
        rounds: refits.
        votes: between them.
        options: of `NashEval`.
    """
    crowd = Crowd(seed)
    first = crowd.uniform(FIRST)
    ne.NashEval(**options).fit(first).save(folder / "first")
    store = store or f"sqlite:///{folder / 'votes.db'}"
    words = [str(folder / "first"), "--store", store, "--models", str(folder / "models"), "--poll-seconds", "0.1"]
    service = Service(words, folder / "log")
    service.start()
    found = [Look(0, _served(service, crowd), _served(service, crowd))]
    uniform = crowd.uniform(rounds * votes)
    try:
        for done in range(1, rounds + 1):
            collect(service, crowd, votes, clients, seed + done)
            version = _refit(store, folder, done)
            _wait(service, version)
            alike = ne.NashEval(**options).fit(uniform[: done * votes])
            beside = crowd.exploitability(alike.predict_proba(crowd.tested))
            found.append(Look(done * votes, _served(service, crowd), beside))
    finally:
        service.stop()
    return found


def collect(service: Service, crowd: Crowd, votes: int, clients: int, seed: int) -> None:
    """Have a crowd vote on the menus that the service proposes."""
    contexts = crowd.contexts(votes)
    margins = crowd.margins(contexts)

    def work(place: int) -> None:
        rng = np.random.default_rng([seed, place])
        with httpx.Client(base_url=service.url, timeout=60) as client:
            for number in range(place, votes, clients):
                proposed = client.post("/v1/compare", json={"context": contexts[number]}).raise_for_status().json()
                winner = crowd.vote(margins[number], proposed["menu"], rng)
                said = {"decision_id": proposed["decision_id"], "winner": winner, "key": f"{seed}-{number}"}
                client.post("/v1/feedback", json=said).raise_for_status()

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, range(clients)))


def _refit(store: str, folder: Path, number: int) -> str:
    """Refit from the store, and make the result serve; return its version."""
    out, models = str(folder / f"round{number}"), ["--models", str(folder / "models")]
    _run("refit", store, "-o", out, *models)
    said = _run("promote", "--store", store, "--now", "--format", "json", *models)
    version: str = said.partition('"version": "')[2].partition('"')[0]
    return version


def _run(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "nasheval", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def _wait(service: Service, version: str) -> None:
    until = time.monotonic() + 60
    while httpx.get(f"{service.url}/ready").json()["model_version"] != version:
        if time.monotonic() > until:
            raise RuntimeError(f"version {version} was not taken up: {service.log.read_text()[-1000:]}")
        time.sleep(0.05)


def _served(service: Service, crowd: Crowd) -> float:
    """Return the exploitability of the lotteries that /v1/route answers."""
    lotteries = []
    with httpx.Client(base_url=service.url, timeout=60) as client:
        for row in crowd.tested:
            context = {f"x{place}": float(value) for place, value in enumerate(row)}
            shares = client.post("/v1/route", json={"context": context}).raise_for_status().json()["lottery"]
            lotteries.append([shares.get(name, 0.0) for name in crowd.names])
    return crowd.exploitability(np.array(lotteries))
