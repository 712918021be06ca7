"""Small files of the schemas of the data folder, for the studies on real prompts."""

from __future__ import annotations

import os
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from studies.paper import contest

DATA = Path(os.environ.get("NASHEVAL_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
CHAT = ("alpha", "beta", "delta", "epsilon", "eta", "gamma", "gpt-4")
ROUTED = ("big/one", "cheap", "deep", "mid")
WORDS = ("river", "stone", "music", "number", "train", "garden", "engine", "letter", "planet", "bread")


def real(name):
    """Skip a test where a data set is missing; else point the studies at it."""
    if not (DATA / name).exists():
        pytest.skip(f"there is no {name} in the data folder; set NASHEVAL_DATA to where it lies")
    return DATA


def write_chat(folder, n=40, seed=0):
    """Write oa_pairs: verdicts on all ordered pairs, later models better, some ties and some that nobody could read."""
    (folder / "oa_pairs").mkdir(parents=True)
    rng = np.random.default_rng(seed)
    text = [_turns(rng, i) for i in range(n)]
    prompts = {"prompt_id": [f"p{i}" for i in range(n)], "lang": rng.choice(["en", "es"], n), "text": text}
    pq.write_table(pa.table(prompts), folder / "oa_pairs" / "prompts.parquet")
    rows = [(f"p{i}", a, b) for i in range(n) for a, b in permutations(CHAT, 2)]
    lean = np.array([CHAT.index(a) - CHAT.index(b) for _, a, b in rows])
    drawn = rng.logistic(size=len(rows)) * 2 + lean
    score = np.where(rng.random(len(rows)) < 0.05, -1, np.where(np.abs(drawn) < 0.5, 3, np.where(drawn > 0, 1, 2)))
    names = ("prompt_id", "model_1", "model_2")
    told = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) | {"score": score}
    pq.write_table(pa.table(told), folder / "oa_pairs" / "judgments.parquet")


def _turns(rng, i):
    said = f"### Human: {' '.join(rng.choice(WORDS, 5))} {i}? ### Assistant:"
    return said if i % 2 else f"### Human: {rng.choice(WORDS)} ### Assistant: yes {said}"


def write_routed(folder, n=40, seed=0):
    """Write routerbench: right or wrong, and what it cost; the last row lacks a score."""
    (folder / "routerbench").mkdir(parents=True)
    rng = np.random.default_rng(seed)
    score = (rng.random((n, 4)) < [0.9, 0.5, 0.6, 0.7]).astype(float)
    score[-1, 0] = np.nan
    cost = rng.uniform(1, 2, (n, 4)) * [1e-2, 1e-4, 1e-3, 1e-3]
    subset = np.array(["arc-challenge", "mbpp", "winogrande"])[np.arange(n) % 3]
    asked = [repr([f"Worked example\n\n{' '.join(rng.choice(WORDS, 4))} {i}"]) for i in range(n)]
    table = {"sample_id": [f"s{i}" for i in range(n)], "prompt": asked, "eval_name": subset}
    table |= {name: score[:, k] for k, name in enumerate(ROUTED)}
    table |= {f"{name}|total_cost": cost[:, k] for k, name in enumerate(ROUTED)}
    pq.write_table(pa.table(table), folder / "routerbench" / "scores_costs.parquet")
    return score[:-1], cost[:-1]


def guessed(log, contexts, **_):
    """Stand in for `contest.lotteries`: ours plays the agent that won most of the log, all others play anyone."""
    K, n = log.n_agents, contexts.num_rows
    best = np.eye(K)[np.full(n, int(np.nan_to_num(log.pair_counts.margin).sum(axis=1).argmax()))]
    methods = [contest.PRINTED, contest.PER_PAIR, contest.PLUG_IN, *contest.BASELINES]
    return {contest.OURS: best} | dict.fromkeys(methods, np.full((n, K), 1 / K))
