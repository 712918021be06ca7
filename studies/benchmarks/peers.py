"""Ours beside other packages on the same data, by turns: ratings, single games, many games, reading.

What is compared is also held to agree. evalica, choix, Nashpy, highspy and Clarabel come with the extra `dev`;
pref_voting and arena-rank pin old versions of numba and NumPy and have folders of their own (`make bench-peers`);
whatever is not there is said to be "not here".
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nasheval as ne
from studies.arrays import Floats
from studies.benchmarks import ingest
from studies.benchmarks.big_arena import Arena
from studies.benchmarks.measuring import Line, by_turns, measured
from studies.benchmarks.solver_speed import (
    BARS,
    HIGHS,
    OURS,
    PEERS,
    RHO,
    Peer,
    Timed,
    by_scipy,
    guarded,
    out_of_patience,
    random_games,
    time_ours,
    time_peer,
)

NOT_HERE = "not here"
PREF_VOTING, ARENA_RANK = Path("build/pref_voting"), Path("build/arena-rank/bin/python")
SOLVERS = (*HIGHS, "Nashpy, linear program", "Clarabel, quadratic program")
APART, MOST_APART = "pref_voting", 50  # the most agents that it is asked for
ELO = 400 / np.log(10)  # points of arena-rank per unit of ours
# What the other Python runs: prints the CPU seconds of each round and the scores in the order of the names.
ARENA_RANK_FIT = """
import json, sys, time
import pandas
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset

frame, seconds = pandas.read_parquet(sys.argv[1]), []
for _ in range(int(sys.argv[2]) + 1):
    start = time.process_time()
    data = PairDataset.from_pandas(frame)
    fitted = BradleyTerry(n_competitors=len(data.competitors)).compute_ratings_and_cis(data)
    seconds.append(time.process_time() - start)
scores = {str(name): float(value) for name, value in zip(fitted["competitors"], fitted["ratings"])}
print(json.dumps({"seconds": seconds[1:], "ratings": scores}))
"""
# What a Python that finds pref_voting and the HiGHS it needs runs: time it as if it were here.
PREF_VOTING_SOLVE = """
import json, signal, sys
import numpy
from studies.benchmarks.solver_speed import Timed, guarded, out_of_patience, time_peer, with_pref_voting

signal.signal(signal.SIGALRM, out_of_patience)
A, peer, seen = numpy.load(sys.argv[1]), with_pref_voting(), []
guarded(peer, A[0])
for _ in range(int(sys.argv[2])):
    seen.append(Timed())
    time_peer(peer, A, float(sys.argv[3]), seen[-1])
print(json.dumps([[one.seconds, one.core, one.games, one.exploitability, one.failed] for one in seen]))
"""


# -- Bradley-Terry ----------------------------------------------------------------------------------------------------


def rating_lines(votes: int, agents: int, rounds: int) -> Iterator[Line]:
    """Yield CPU seconds from votes in a table to ratings with errors, against fits of the same model."""
    arena = Arena.of(agents)
    table = pa.concat_tables(arena.tables(votes)).select(["model_a", "model_b", "winner"])

    def ours() -> Floats:
        log = ne.read_votes(table, agents=arena.agents, design="draws")
        return np.asarray(ne.baselines.ratings(log).score)

    score, what = ours(), f"Bradley-Terry with errors, {votes:,} votes, {agents} agents"
    known = {"evalica": (with_evalica, "lists of names"), "choix": (with_choix, "codes that NumPy counts")}
    for name, (make, start) in known.items():
        try:
            theirs = make(table, arena.agents)
        except ImportError:
            yield Line("ratings", what, against=name, note=NOT_HERE)
            continue
        spent = by_turns([ours, theirs], rounds)
        cpu = [[one.cpu for one in each] for each in spent]
        note = f"from {start}, no errors; {_off(score, theirs())}"
        yield Line.of("ratings", what, cpu[0], name, cpu[1], unit="CPU s", note=note)
    yield arena_rank(table, arena.agents, score, ours, rounds, what)


def _off(score: Floats, other: Floats) -> str:
    return f"scores differ by {np.abs(other - other.mean() - (score - score.mean())).max():.1g}"


def with_evalica(table: pa.Table, agents: list[str]) -> Callable[[], Floats]:
    """Return evalica's fit, from lists of names."""
    evalica = import_module("evalica")
    verdict = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
    first, second = (table[name].to_pylist() for name in ("model_a", "model_b"))
    winners = [verdict[word] for word in table["winner"].to_pylist()]

    def fit() -> Floats:
        result = evalica.bradley_terry(first, second, winners, tolerance=1e-9, limit=10_000)
        return np.log(result.scores.reindex(agents).to_numpy())

    return fit


def with_choix(table: pa.Table, agents: list[str]) -> Callable[[], Floats]:
    """Return choix's fit, from codes that NumPy counts for it."""
    choix, K = import_module("choix"), len(agents)
    codes = {name: table[name].combine_chunks() for name in table.column_names}
    j, k, z = (codes[name].indices.to_numpy() for name in ("model_a", "model_b", "winner"))
    credit = np.array([1.0, 0.0, 0.5])[z]

    def fit() -> Floats:
        wins = np.bincount(j * K + k, credit, K * K).reshape(K, K)
        losses = np.bincount(k * K + j, 1 - credit, K * K).reshape(K, K)
        return np.asarray(choix.ilsr_pairwise_dense(wins + losses))

    return fit


def arena_rank(
    table: pa.Table, agents: list[str], score: Floats, ours: Callable[[], Floats], rounds: int, what: str
) -> Line:
    """Return ours against arena-rank, which runs in an environment of its own."""
    if not ARENA_RANK.exists():
        return Line("ratings", what, against="arena-rank", note=f"{NOT_HERE}: make bench-peers")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/votes.parquet"
        pq.write_table(pa.table({name: table[name].cast(pa.string()) for name in table.column_names}), path)
        words = [str(ARENA_RANK), "-c", ARENA_RANK_FIT, path, str(rounds)]
        said = _elsewhere(words)
    [mine] = by_turns([ours], rounds)
    other = np.array([said["ratings"][name] for name in agents]) / ELO
    note = f"errors too; {_off(score, other)}"
    return Line.of("ratings", what, [one.cpu for one in mine], "arena-rank", said["seconds"], unit="CPU s", note=note)


# -- games ------------------------------------------------------------------------------------------------------------


def solver_lines(sizes: dict[int, int], rounds: int, seconds: float) -> Iterator[Line]:
    """Yield seconds per game of many at once, of one game, and of peers on the first of the same games."""
    signal.signal(signal.SIGALRM, out_of_patience)
    ours, regularizer = next(iter(OURS.items()))
    for K, n in sizes.items():
        A, what = random_games(n, K, seed=K), f"{n:,} games, K = {K}, {ours}"
        ne.solve(A[:2], regularizer=regularizer)
        for name in (name for name in SOLVERS if PEERS[name][1] >= K):
            try:
                peer = PEERS[name][0]()
            except ImportError:
                yield Line("solve", what, against=f"{name}, one game", note=NOT_HERE)
                continue
            limit = 1 / BARS[K] if name in HIGHS and K in BARS else None
            yield _compared(what, name, *_by_turns(A, peer, rounds, seconds), limit)
        if K <= MOST_APART:
            yield pref_voting(A, what, rounds, seconds)
    yield one_game(50, rounds)


def _by_turns(A: Any, peer: Peer, rounds: int, seconds: float) -> tuple[list[Timed], list[Timed]]:
    mine, theirs = [Timed() for _ in range(rounds)], [Timed() for _ in range(rounds)]
    guarded(peer, A[0])
    for us, them in zip(mine, theirs, strict=True):
        time_ours(A, ne.L2(RHO), us)
        time_peer(peer, A, seconds, them)
    return mine, theirs


def pref_voting(A: Any, what: str, rounds: int, seconds: float) -> Line:
    """Return ours against pref_voting, whose HiGHS does not go together with ours in one process."""
    if not PREF_VOTING.exists():
        return Line("solve", what, against=f"{APART}, one game", note=f"{NOT_HERE}: make bench-peers")
    here = os.pathsep.join([str(PREF_VOTING.absolute()), *(path for path in sys.path if path)])
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/games.npy"
        np.save(path, A[:1000])
        said = _elsewhere([sys.executable, "-c", PREF_VOTING_SOLVE, path, str(rounds), str(seconds)], PYTHONPATH=here)
    mine = [Timed() for _ in range(rounds)]
    for us in mine:
        time_ours(A, ne.L2(RHO), us)
    return _compared(what, APART, mine, [Timed(*one) for one in said], None)


def _elsewhere(words: list[str], **variables: str) -> Any:
    """Return the JSON that another Python prints."""
    done = subprocess.run(words, env=os.environ | variables, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def _compared(what: str, name: str, mine: list[Timed], theirs: list[Timed], limit: float | None) -> Line:
    cores = median(us.core / them.core for us, them in zip(mine, theirs, strict=True))
    loss = [max(one.exploitability for one in each) for each in (mine, theirs)]
    note = f"{cores:.3g} core against core; lose at most {loss[0]:.1g}, theirs {loss[1]:.1g}"
    if failed := max(one.failed for one in theirs):
        note += f"; theirs fails on {failed} of {theirs[0].games}"
    times = [[one.seconds for one in each] for each in (mine, theirs)]
    return Line.of("solve", what, times[0], f"{name}, one game", times[1], limit=limit, note=note)


def one_game(K: int, rounds: int, games: int = 20) -> Line:
    """Return seconds of one game after the other."""
    A = random_games(games, K, seed=1)
    spent = by_turns([lambda: [ne.solve(a) for a in A], lambda: [by_scipy(a) for a in A]], rounds)
    ours, theirs = ([one.wall / games for one in each] for each in spent)
    loss = [max(float((a @ pi).max()) for a, pi in zip(A, lotteries, strict=True)) for lotteries in _both(A)]
    note = f"lose at most {loss[0]:.1g}, theirs {loss[1]:.1g}"
    return Line.of("solve", f"one game, K = {K}", ours, f"{HIGHS[0]}, one game", theirs, note=note)


def _both(A: Any) -> tuple[list[Any], list[Any]]:
    return [ne.solve(a).strategy for a in A], [by_scipy(a) for a in A]


# -- reading ----------------------------------------------------------------------------------------------------------


def read_lines(votes: int, rounds: int) -> Iterator[Line]:
    """Yield seconds from a Parquet file to a log, against a plain table of the same columns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.parquet"
        ingest.write_votes(path, votes, 50, show=False)
        runs = [[ingest.in_own_process(name, path) for name in ("nasheval", "pyarrow")] for _ in range(rounds)]
    ours, theirs = ([run[which]["seconds"] for run in runs] for which in (0, 1))
    peak = max(run[0]["peak_gb"] for run in runs)
    what = f"{votes:,} votes from Parquet"
    note = f"{peak:.2g} GB at the peak"
    yield Line.of("read", what, ours, "pyarrow.parquet.read_table", theirs, limit=ingest.MOST_TIMES, note=note)


def timed_quality() -> Iterator[Line]:
    """Yield the exploitability and CPU seconds of ours against the better of the paper's forms, in one setting."""
    from studies.benchmarks import quality
    from studies.harness.rows import Rows
    from studies.harness.study import Cell
    from studies.paper.contest import OURS as FORM
    from studies.paper.contest import PAPERS
    from studies.paper.simulated import TEST

    cell = Cell.of(modality="pairwise", voters=3, seed=70, n=20_000, test=TEST, insurance=False)
    rows, spent = measured(lambda: Rows(quality.study(cell)))
    loss = {name: rows.where(method=name).mean("exploitability") for name in (FORM, *PAPERS)}
    best = min(PAPERS, key=loss.__getitem__)
    cpu = [rows.where(method=name).mean("cpu") for name in (FORM, best)]
    note = f"pairwise/3, seed 70; CPU {cpu[0]:.1f} s, theirs {cpu[1]:.1f} s; {spent.wall:.0f} s in all"
    yield Line.of(
        "quality",
        "exploitability, 20,000 contexts",
        [loss[FORM]],
        best,
        [loss[best]],
        unit="",
        limit=quality.BAR,
        note=note,
    )
