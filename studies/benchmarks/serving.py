"""Is a service fast, does it lose no vote, and does it learn?

`python -m studies serving [--parts throughput,durability,loop] [--seconds 10] [--votes 20000] [--kills 20]
[--rounds 6] [--per-round 1500] [--seed 70] [--jobs 2] [--quick]`

throughput: answers per second of /v1/route, for contexts that are never the same twice and for prompts, against those
of /health through the same stack, with --jobs workers; the bars are half and a third of its rate, and five times its
p99. durability: votes by concurrent clients while the service is killed (SIGKILL) and started again; every
acknowledged one must be there exactly once, in SQLite and in PostgreSQL where that is installed. loop: a crowd of the
paper's simulation votes on proposed menus; exploitability of the policy that is served after each refit, against that
of the same number of votes on menus drawn uniformly.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq

import nasheval as ne
from studies.benchmarks.serving_crowd import load, request, vote_and_kill
from studies.benchmarks.serving_loop import looks
from studies.benchmarks.serving_process import Service, postgres, postgres_binaries
from studies.harness.options import parser
from studies.harness.tables import print_table

PARTS = ("throughput", "durability", "loop")
HALF, THIRD, TIMES, MILLISECOND = 1 / 2, 1 / 3, 5.0, 1e-3
WORDS = ("write", "a", "poem", "about", "the", "sea", "in", "python", "explain", "why", "sky", "blue", "fix", "bug")


def main(words: Sequence[str]) -> None:
    options = _parsed(words)
    for part in options.parts.split(","):
        with TemporaryDirectory(prefix="serving-") as folder:
            {"throughput": throughput, "durability": durability, "loop": loop}[part](Path(folder), options)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    known = parser("serving", __doc__)
    known.add_argument("--parts", default=",".join(PARTS))
    known.add_argument("--seconds", type=float, default=10.0, help="of each round of requests")
    known.add_argument("--clients", type=int, default=16, help="connections at once")
    known.add_argument("--votes", type=int, default=20_000)
    known.add_argument("--kills", type=int, default=20)
    known.add_argument("--rounds", type=int, default=6, help="refits of the loop")
    known.add_argument("--per-round", type=int, default=1500, help="votes between refits")
    known.add_argument("--outcome", default="voters", help="of the loop, as in NashEval")
    known.add_argument("--seed", type=int, default=70)
    known.add_argument("--jobs", type=int, default=2, help="workers of the service")
    known.add_argument("--quick", action="store_true", help="small sizes")
    known.add_argument("--markdown", action="store_true")
    options = known.parse_args(words)
    if options.quick:
        options.seconds, options.votes, options.kills = 1.5, 300, 3
        options.rounds, options.per_round, options.outcome = 2, 400, "lightgbm"
    return options


# -- throughput -------------------------------------------------------------------------------------------------------


def throughput(folder: Path, options: argparse.Namespace) -> None:
    rows = [*_rates(folder, options, "tabular", HALF), *_rates(folder, options, "prompts", THIRD)]
    header = ("route", "answers a second", "of /health", "bar", "p50 ms", "p99 ms", "of /health", "bar")
    about = f"{options.jobs} workers, {options.clients} connections, {options.seconds:g} s a round, three rounds"
    print_table(f"Throughput; {about}", header, rows, markdown=options.markdown)


def _rates(folder: Path, options: argparse.Namespace, kind: str, bar: float) -> Iterator[tuple[str, ...]]:
    """Yield what was seen of /health and /v1/route by turns, as medians over rounds, and the decision itself."""
    model, bodies = _tabular(options.seed) if kind == "tabular" else _prompts(options.seed)
    place = folder / kind
    model.save(place)
    words = [str(place), "--store", f"sqlite:///{folder / kind}.db", "--workers", str(options.jobs)]
    service = Service(words, folder / f"{kind}.log")
    service.start()
    routes = {"/health": [request("GET", "/health")], "/v1/route": [request("POST", "/v1/route", b) for b in bodies]}
    try:
        for sent in routes.values():
            load(service.port, sent, min(1.0, options.seconds), options.clients)
        seen: dict[str, list[Any]] = {route: [] for route in routes}
        for _ in range(3):
            for route, sent in routes.items():
                seen[route].append(load(service.port, sent, options.seconds, options.clients))
        median = _decision_median(httpx.get(f"{service.url}/metrics").text)
    finally:
        service.stop()
    first = np.median(np.array(seen["/health"]), axis=0)
    for route, found in seen.items():
        rate, p50, p99 = np.median(np.array(found), axis=0)
        bars = ("", "") if route == "/health" else (f"{bar:.2f}", f"{TIMES:g}")
        shares = f"{rate / first[0]:.2f}", f"{p99 / first[2]:.1f}"
        name = route if route == "/health" else f"{route}, {kind}"
        yield (name, f"{rate:,.0f}", shares[0], bars[0], f"{1e3 * p50:.2f}", f"{1e3 * p99:.2f}", shares[1], bars[1])
    yield (f"the decision itself, {kind}", "", "", "", f"below {1e3 * median:g}", "", "", f"{1e3 * MILLISECOND:g} ms")


def _decision_median(metrics: str) -> float:
    """Return the bucket of the median seconds of a decision."""
    name = "nasheval_decision_seconds_"
    lines = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith(name))
    half = float(lines[f"{name}count"]) / 2
    for key, value in lines.items():
        if "_bucket{le=" in key and float(value) >= half:
            return float(key.partition('le="')[2].rstrip('"}'))
    return float("inf")


def _tabular(seed: int) -> tuple[ne.NashEval, list[dict[str, Any]]]:
    world = ne.SyntheticWorld(seed=seed)
    model = ne.NashEval(folds=2, verbose=False).fit(world.feedback("pairwise", voters=3, n=2_000))
    rows = np.asarray(world.test_contexts(20_000))  # more than are remembered: each is computed
    return model, [{"context": {f"x{i}": float(value) for i, value in enumerate(row)}} for row in rows]


def _prompts(seed: int) -> tuple[ne.NashEval, list[dict[str, Any]]]:
    import pandas as pd

    rng = np.random.default_rng(seed)
    prompts = [" ".join(rng.choice(WORDS, rng.integers(5, 40))) for _ in range(5_000)]
    votes = pd.DataFrame({"model_a": rng.choice(["a", "b"], 1_000), "prompt": prompts[:1_000]})
    votes["model_b"] = np.where(rng.random(1_000) < 0.5, "c", "d")
    votes["winner"] = np.where(votes["prompt"].str.contains("python") ^ (rng.random(1_000) < 0.2), "model_a", "model_b")
    model = ne.NashEval(folds=2, verbose=False).fit(ne.read_votes(votes, text="prompt"))
    return model, [{"prompt": prompt} for prompt in prompts]


# -- durability -------------------------------------------------------------------------------------------------------


def durability(folder: Path, options: argparse.Namespace) -> None:
    rows = []
    with ExitStack() as stack:
        stores = {"SQLite": f"sqlite:///{folder / 'votes.db'}"}
        if (binaries := postgres_binaries()) is not None:
            stores["PostgreSQL"] = stack.enter_context(postgres(binaries))
        model, _ = _tabular(options.seed)
        model.save(folder / "model")
        for name, store in stores.items():
            rows.append((name, *killed(folder, store, options)))
    header = ("store", "acknowledged", "kills", "tried again", "stored", "missing", "twice")
    print_table(f"Votes while the service is killed, seed {options.seed}", header, rows, markdown=options.markdown)


def killed(folder: Path, store: str, options: argparse.Namespace) -> tuple[str, ...]:
    """Return how many votes were acknowledged, and what the store has of them."""
    words = [
        str(folder / "model"),
        "--store",
        store,
        "--models",
        str(folder / "models"),
        "--workers",
        str(options.jobs),
    ]
    service = Service(words, folder / "log")
    service.start()

    def body(number: int) -> dict[str, Any]:
        menu = ["a0", "a1"]
        context = {"x0": number / options.votes}
        return {"menu": menu, "winner": menu[number % 2], "context": context, "key": f"vote {number}"}

    sent = vote_and_kill(service, body, options.votes, options.kills, clients=options.clients, seed=options.seed)
    service.stop()
    keys = stored_keys(store, folder / "votes.parquet")
    missing, twice = len(sent.acknowledged - {*keys}), len(keys) - len({*keys})
    return tuple(f"{n:,}" for n in (len(sent.acknowledged), sent.kills, sent.tried, len(keys), missing, twice))


def stored_keys(store: str, path: Path) -> list[str]:
    """Return the keys of a store's votes, as exported."""
    command = [sys.executable, "-m", "nasheval", "export", store, "--parquet", str(path), "--quiet"]
    subprocess.run(command, check=True)
    keys: list[str] = pq.read_table(path)["vote.key"].to_pylist()
    return keys


# -- the loop ---------------------------------------------------------------------------------------------------------


def loop(folder: Path, options: argparse.Namespace) -> None:
    how = {"outcome": options.outcome, "verbose": False, "random_state": options.seed}
    found = looks(folder, seed=options.seed, rounds=options.rounds, votes=options.per_round, options=how)
    first = found[0].served
    rows = [
        (f"{look.votes:,}", f"{look.served:.4f}", f"{look.served / first:.2f}", f"{look.uniform:.4f}") for look in found
    ]
    header = ("votes", "exploitability served", "of the first", "of as many uniform votes")
    print_table(f"The loop; {options.outcome}, seed {options.seed}", header, rows, markdown=options.markdown)
