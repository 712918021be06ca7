"""Practice voters: they ask a running service for answers and vote on them, so that there is something to learn from.

    python -m nasheval.serving.crowd http://127.0.0.1:8080 --votes 300

Each prefers the shorter of two answers three times in four. It is no data, only a way to see a refit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from random import Random
from typing import Any

import httpx

_QUESTIONS = ("How do I sort a list?", "What is a lottery?", "Is tea better than coffee?", "Why is the sky blue?")
_SHORTER = 0.75
_VOTERS = 20


def main(given: Sequence[str] | None = None) -> None:
    """Cast votes."""
    parser = argparse.ArgumentParser(prog="python -m nasheval.serving.crowd", description=__doc__)
    parser.add_argument("address", help="of the service, such as http://127.0.0.1:8080")
    parser.add_argument("--votes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(given)
    try:
        shorter = vote(options.address, options.votes, options.seed)
    except httpx.HTTPError as error:
        sys.exit(f"error: {options.address} does not answer as a service should ({error})")
    print(f"{options.votes} votes are stored; {shorter} of them prefer the shorter answer.")


def vote(address: str, votes: int, seed: int = 0) -> int:
    """Cast votes on two answers each; return how many went to the shorter one."""
    random, shorter = Random(seed), 0
    with httpx.Client(base_url=address, timeout=60) as client:
        inputs = client.get("/v1/explore/inputs").raise_for_status().json()["inputs"]
        for _ in range(votes):
            context = {one["name"]: _value(one, random) for one in inputs}
            asked = {"prompt": random.choice(_QUESTIONS), "answers": True, "context": context}
            found = client.post("/v1/compare", json=asked).raise_for_status().json()
            short, long = sorted(found["answers"], key=lambda answer: (len(answer["text"]), random.random()))
            best = short if random.random() < _SHORTER else long
            shorter += best is short
            said = {
                "decision_id": found["decision_id"],
                "winner": best["label"],
                "voter": f"practice-{random.randrange(_VOTERS)}",
            }
            client.post("/v1/feedback", json=said).raise_for_status()
    return shorter


def _value(one: dict[str, Any], random: Random) -> Any:
    """Return a value of a context column, as the explorer's fields have them."""
    if one["kind"] == "category":
        return random.choice(one["values"])
    return random.gauss(one["mean"], one["scale"]) if one["kind"] == "number" else random.random() < 0.5


if __name__ == "__main__":
    main()
