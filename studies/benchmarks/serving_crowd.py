"""Clients of a service, for `serving`: requests in numbers, votes while it is killed, and a simulated crowd."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
import numpy as np

from studies.benchmarks.serving_process import LOCAL, Service


class Load(NamedTuple):
    """What clients saw: answers per second, and quantiles of the seconds that one took."""

    rate: float
    median: float
    p99: float


def load(port: int, requests: Sequence[bytes], seconds: float, clients: int) -> Load:
    """Send requests one after another over some connections at once, for a while.

    Plain sockets, and threads that wait: what a client takes of the cores is little, and the same for each route.
    """
    took: list[list[float]] = [[] for _ in range(clients)]
    until = time.perf_counter() + seconds
    jobs = [
        threading.Thread(target=_send, args=(port, requests, until, took[place], place)) for place in range(clients)
    ]
    began = time.perf_counter()
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    passed = time.perf_counter() - began
    every = np.concatenate([np.array(one) for one in took])
    return Load(len(every) / passed, float(np.median(every)), float(np.quantile(every, 0.99)))


def _send(port: int, requests: Sequence[bytes], until: float, took: list[float], place: int) -> None:
    with socket.create_connection((LOCAL, port)) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (began := time.perf_counter()) < until:
            wire.sendall(requests[place % len(requests)])
            _answer(wire)
            took.append(time.perf_counter() - began)
            place += 1


def _answer(wire: socket.socket) -> None:
    """Read one answer; a status other than 200 is an error."""
    held = b""
    while b"\r\n\r\n" not in held:
        held += wire.recv(1 << 16)
    head, _, body = held.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(held.decode(errors="replace"))
    size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(body) < size:
        body += wire.recv(1 << 16)


def request(method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
    """Return a request as it goes over the wire."""
    raw = b"" if body is None else json.dumps(body).encode()
    kind = "content-type: application/json\r\n" if body is not None else ""
    return f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{kind}content-length: {len(raw)}\r\n\r\n".encode() + raw


# -- votes while the service is killed --------------------------------------------------------------------------------


@dataclass
class Sent:
    """What became of votes: their keys, in the order of what was known of them."""

    acknowledged: set[str] = field(default_factory=set)
    tried: int = 0
    kills: int = 0


def vote_and_kill(
    service: Service, body: Callable[[int], dict[str, Any]], votes: int, kills: int, *, clients: int, seed: int
) -> Sent:
    """Have clients send votes, each until it is acknowledged, while the service is killed and started again.

    Args:
        body: of vote number i, with a key of its own.
    """
    sent, left, lock, done = Sent(), iter(range(votes)), threading.Lock(), threading.Event()

    def work() -> None:
        with httpx.Client(base_url=service.url, timeout=20) as client:
            while True:
                with lock:
                    number = next(left, None)
                if number is None:
                    return
                vote = body(number)
                while not _acknowledged(client, vote):
                    sent.tried += 1
                    time.sleep(0.02)
                with lock:
                    sent.acknowledged.add(vote["key"])

    def kill() -> None:
        draws = random.Random(seed)
        while sent.kills < kills and not done.is_set():
            # Spread over the votes, at a moment that nobody chose.
            while len(sent.acknowledged) < votes * (sent.kills + draws.random()) / (kills + 1) and not done.is_set():
                time.sleep(0.01)
            service.kill()
            service.start()
            sent.kills += 1

    workers = [threading.Thread(target=work) for _ in range(clients)]
    killer = threading.Thread(target=kill)
    for one in (*workers, killer):
        one.start()
    for one in workers:
        one.join()
    done.set()
    killer.join()
    return sent


def _acknowledged(client: httpx.Client, vote: dict[str, Any]) -> bool:
    try:
        answer = client.post("/v1/feedback", json=vote)
    except httpx.HTTPError:
        return False
    if answer.status_code == 503:
        return False
    answer.raise_for_status()
    return True
