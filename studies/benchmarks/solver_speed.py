"""How fast are equilibria found, and how exact are they?

`python -m studies solver-speed [--quick] [--rounds 10] [--seconds 0.3]` solves batches of random games of K agents with
payoffs uniform in [-1, 1] by `solve`, regularised and not, on all cores, and samples of the same games with one linear
program a game through HiGHS (by SciPy, and by highspy with one object for all games), the paper's support enumeration,
Nashpy, pref_voting and Clarabel, on one core as they come, turn and turn about; the best round of each counts. It
prints microseconds per game by the clock and of one core, how many times slower each peer is by the clock, the largest
gap and residual over all games and a suite of degenerate ones, how time grows with K, and whether the bars are met,
against either HiGHS. Small programs have nothing to presolve, so HiGHS told not to stands in the table too. Where other
programs keep a core busy, the clock knows only one of ours.

A peer fails on a game that it gives up, does not end within five seconds, or answers with a lottery that loses more
than 0.01 to some agent. pref_voting pins old versions of numba and Nashpy, and brings a HiGHS of its own:
`pip install --no-deps --target DIR pref_voting tabulate random2 ortools highspy==1.12.0`, and put DIR on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import sparse
from scipy.optimize import linprog

import nasheval as ne
from studies.harness.options import parser

RHO = 1e-3
SIZES = {5: 100_000, 10: 100_000, 15: 20_000, 25: 5_000, 50: 1_000, 100: 200, 200: 40}
BARS = {5: 1000, 10: 300, 15: 80, 50: 5, 100: 5, 200: 5}  # times faster per game than HiGHS
LARGEST_GAP, LARGEST_KKT = 1e-8, 1e-10
PATIENCE = 5.0  # seconds per game
OURS = {"solve, L2(1e-3)": ne.L2(RHO), "solve, L2(0)": ne.L2(0.0)}
HIGHS = ("HiGHS by SciPy", "HiGHS by highspy")
Peer = Callable[[np.ndarray], np.ndarray]


def random_games(n: int, K: int, seed: int = 0) -> np.ndarray:
    half = np.triu(np.random.default_rng(seed).uniform(-1, 1, (n, K, K)), 1)
    return half - half.swapaxes(1, 2)


def degenerate_games() -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    cycle = np.array([[0.0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    for K in (1, 2, 3, 7, 8, 30, 61):
        yield np.zeros((K, K))
        for entries in ([-1, 1], [-1, 0, 1], [-2, -1, 0, 1, 2]):
            for _ in range(20):
                half = np.triu(rng.choice(entries, (K, K)), 1).astype(float)
                yield half - half.T
                yield half - half.T + 1e-9 * random_games(1, K)[0]
    for scale in (1e-12, 1e-6, 1.0, 1e6):
        yield scale * cycle
        yield scale * np.kron(np.ones((3, 3)), cycle)  # clones
        yield scale * np.block([[cycle, np.ones((3, 4))], [-np.ones((4, 3)), np.zeros((4, 4))]])  # dominated
        yield scale * np.subtract.outer(np.arange(40.0), np.arange(40.0))
    yield np.array([[0, 1e-12, 1], [-1e-12, 0, 1], [-1, -1, 0]])
    yield random_games(1, 12)[0].astype(np.float32)


def by_scipy(A: np.ndarray) -> np.ndarray:
    """One linear program: the largest v with pi A >= v."""
    K = len(A)
    solution = linprog(
        np.r_[np.zeros(K), -1.0], A_ub=np.c_[-A.T, np.ones(K)], b_ub=np.zeros(K),
        A_eq=np.r_[np.ones(K), 0.0][None], b_eq=[1.0], bounds=[(0, None)] * K + [(None, None)], method="highs",
    )  # fmt: skip
    return np.asarray(solution.x[:K])


def with_highspy(**settings: str) -> Peer:
    """The same program, handed to HiGHS without SciPy's checks: one object for all games."""
    highspy = import_module("highspy")
    highs, lp = highspy.Highs(), highspy.HighsLp()
    highs.silent()
    for name, value in settings.items():
        highs.setOptionValue(name, value)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise

    def solved(A: np.ndarray) -> np.ndarray:
        n = len(A) + 1
        rows = np.ones((n, n))
        rows[:-1, :-1], rows[-1, -1] = -A.T, 0.0
        lp.num_col_ = lp.num_row_ = n
        lp.col_cost_, lp.col_upper_ = np.r_[np.zeros(n - 1), -1.0], np.full(n, highspy.kHighsInf)
        lp.col_lower_ = np.r_[np.zeros(n - 1), -highspy.kHighsInf]
        lp.row_lower_, lp.row_upper_ = np.r_[np.full(n - 1, -highspy.kHighsInf), 1.0], np.r_[np.zeros(n - 1), 1.0]
        lp.a_matrix_.start_, lp.a_matrix_.index_ = np.arange(0, n * n + 1, n), np.tile(np.arange(n), n)
        lp.a_matrix_.value_ = rows.ravel()
        highs.passModel(lp)
        highs.run()
        return np.array(highs.getSolution().col_value)[:-1]

    return solved


def support_enumeration(A: np.ndarray) -> np.ndarray:
    """The paper's method for the L2 game: supports by size, until one meets the first-order conditions."""
    K = len(A)
    for m in range(1, K + 1):
        for support in map(list, combinations(range(K), m)):
            system = np.zeros((m + 1, m + 1))
            system[:m, :m] = RHO * np.eye(m) - A[np.ix_(support, support)]
            system[:m, m], system[m, :m] = -1.0, 1.0
            solved = np.linalg.solve(system, np.eye(m + 1)[m])
            if solved[:m].min() >= 0:
                pi = np.zeros(K)
                pi[support] = solved[:m]
                if (RHO * pi - A @ pi - solved[m]).min() > -1e-10:
                    return pi
    raise ArithmeticError("no support was found")


def with_nashpy(method: str) -> Peer:
    nashpy = import_module("nashpy")
    methods: dict[str, Peer] = {
        "linear program": lambda A: nashpy.Game(A).linear_program()[0],
        "Lemke-Howson": lambda A: nashpy.Game(A).lemke_howson(0)[0],
        "support enumeration": lambda A: next(nashpy.Game(A).support_enumeration())[0],
    }
    return methods[method]


def with_pref_voting() -> Peer:
    methods, graphs = (
        import_module("pref_voting.probabilistic_methods"),
        import_module("pref_voting.weighted_majority_graphs"),
    )

    def lottery(A: np.ndarray) -> np.ndarray:
        agents = list(range(len(A)))
        margins = [(i, j, float(A[i, j])) for i in agents for j in agents if A[i, j] > 0]
        lottery = methods.maximal_lottery(graphs.MarginGraph(agents, margins))
        return np.array([lottery[i] for i in agents])

    return lottery


def with_clarabel() -> Peer:
    clarabel = import_module("clarabel")
    return lambda A: by_clarabel(clarabel, A)


# How to make each peer, and the most agents it is asked for.
PEERS: dict[str, tuple[Callable[[], Peer], int]] = {
    HIGHS[0]: (lambda: by_scipy, 1000),
    HIGHS[1]: (with_highspy, 1000),
    "HiGHS by highspy, no presolve": (lambda: with_highspy(presolve="off"), 1000),
    "support enumeration (paper)": (lambda: support_enumeration, 15),
    "Nashpy, linear program": (lambda: with_nashpy("linear program"), 50),
    "Nashpy, Lemke-Howson": (lambda: with_nashpy("Lemke-Howson"), 5),
    "Nashpy, support enumeration": (lambda: with_nashpy("support enumeration"), 5),
    "pref_voting": (with_pref_voting, 50),
    "Clarabel, quadratic program": (with_clarabel, 1000),
}


def installed() -> dict[str, tuple[Peer, int]]:
    """Return the peers that are installed, each with the most agents it is asked for."""
    peers = {}
    for name, (make, most) in PEERS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                peers[name] = make(), most
        except ImportError as error:
            print(f"{name}: not installed ({error})")
    return peers


def by_clarabel(clarabel: Any, A: np.ndarray) -> np.ndarray:
    """Minimise the gap of the L2 game, its inner maximum turned into a minimum by duality."""
    K = len(A)
    P = sparse.diags(np.r_[np.full(2 * K, RHO), 0.0], format="csc")
    rows = np.block(
        [
            [np.ones(K), np.zeros(K + 1)],
            [-np.eye(2 * K), np.zeros((2 * K, 1))],
            [A, -RHO * np.eye(K), -np.ones((K, 1))],
        ]
    )
    options = clarabel.DefaultSettings()
    options.verbose = False
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(3 * K)]
    target = np.r_[1.0, np.zeros(3 * K)]
    solver = clarabel.DefaultSolver(P, np.r_[np.zeros(2 * K), 1.0], sparse.csc_matrix(rows), target, cones, options)
    return np.array(solver.solve().x)[:K]


@dataclass
class Timed:
    """Seconds a game by the clock and of one core, the best of the rounds, and how far off the answers were."""

    seconds: float = math.inf
    core: float = math.inf
    games: int = 0
    exploitability: float = 0.0
    failed: int = 0
    solutions: list[ne.Solution] = field(default_factory=list)


class Watch:
    """Seconds since it was made, by the clock and of the cores."""

    def __init__(self) -> None:
        self.wall, self.core = time.perf_counter(), time.process_time()

    def stop(self, games: int, seen: Timed) -> None:
        seen.seconds = min(seen.seconds, (time.perf_counter() - self.wall) / games)
        seen.core = min(seen.core, (time.process_time() - self.core) / games)


def time_ours(A: np.ndarray, regularizer: ne.L2, seen: Timed) -> None:
    watch = Watch()
    solution = ne.solve(A, regularizer=regularizer)
    watch.stop(len(A), seen)
    seen.games, seen.solutions = len(A), [solution]
    seen.exploitability = float(np.einsum("njk,nk->nj", A, solution.strategy).max())


def guarded(peer: Peer, A: np.ndarray) -> np.ndarray:
    """Return a peer's answer, NaN where it fails in whatever way; some run on for ever."""
    try:
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(peer(A))
    except Exception:
        return np.full(len(A), np.nan)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def out_of_patience(number: int, frame: object) -> None:
    raise TimeoutError


def time_peer(peer: Peer, A: np.ndarray, seconds: float, seen: Timed) -> None:
    """Time a peer on games from the start of A, until the seconds are over."""
    answers: list[np.ndarray] = []
    watch = Watch()
    while len(answers) < len(A) and time.perf_counter() - watch.wall < seconds:
        answers.append(guarded(peer, A[len(answers)]))
    watch.stop(len(answers), seen)
    seen.games = max(seen.games, len(answers))
    worst = np.array(
        [(game @ pi).max() if len(pi) == len(game) else np.nan for game, pi in zip(A, answers, strict=False)]
    )
    seen.failed = max(seen.failed, int((~(worst < 1e-2)).sum()))
    seen.exploitability = max(seen.exploitability, float(np.nanmax(worst, initial=0.0)))


def measured(K: int, n: int, peers: dict[str, tuple[Peer, int]], options: argparse.Namespace) -> dict[str, Timed]:
    A = random_games(n, K, seed=K)
    able = {name: peer for name, (peer, most) in peers.items() if most >= K}
    seen = {name: Timed() for name in (*OURS, *able)}
    for _ in track(range(options.rounds), description=f"K = {K}, {n:,} games"):
        for name, regularizer in OURS.items():
            time_ours(A, regularizer, seen[name])
        for name, peer in able.items():
            time_peer(peer, A, options.seconds, seen[name])
    return seen


def parsed(words: Sequence[str]) -> argparse.Namespace:
    known = parser("solver-speed", __doc__)
    known.add_argument("--quick", action="store_true", help="a tenth of the games, one round, a third of the time")
    known.add_argument("--rounds", type=int, default=10, help="of which the fastest counts")
    known.add_argument("--seconds", type=float, default=0.3, help="for each peer in each round")
    options = known.parse_args(words)
    options.share = 0.1 if options.quick else 1.0
    if options.quick:
        options.rounds, options.seconds = 1, options.seconds / 3
    return options


def main(words: Sequence[str]) -> None:
    options = parsed(words)
    signal.signal(signal.SIGALRM, out_of_patience)
    for K in (3, 60):  # compile before the clock starts
        for regularizer in OURS.values():
            ne.solve(random_games(2, K), regularizer=regularizer)
    peers = installed()
    runs = {K: measured(K, max(4, int(n * options.share)), peers, options) for K, n in SIZES.items()}
    console = Console(width=120)
    for K, seen in runs.items():
        console.print(table_of(K, seen))
    console.print(growth(runs))
    exact = exactness([one for seen in runs.values() for timed in seen.values() for one in timed.solutions])
    verdict(runs, *exact)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{platform.machine()}, {cores} cores, Python {platform.python_version()}, numpy {np.__version__}")


def table_of(K: int, seen: dict[str, Timed]) -> Table:
    table = Table(title=f"K = {K}")
    headings = ("games", "µs a game", "of a core", "times ours", "times ours at 0", "worst loss", "failed")
    for heading in ("method", *headings):
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    ours = [seen[name].seconds for name in OURS]
    for name in (*OURS, *(peer for peer, (_, most) in PEERS.items() if most >= K)):
        if name not in seen:
            table.add_row(name, "not installed")
            continue
        timed = seen[name]
        ratios = [f"{timed.seconds / one:,.1f}" for one in ours]
        failed = f"{timed.failed:,}" if timed.failed else ""
        times = (f"{one * 1e6:,.2f}" for one in (timed.seconds, timed.core))
        table.add_row(name, f"{timed.games:,}", *times, *ratios, f"{timed.exploitability:.1e}", failed)
    return table


def growth(runs: dict[int, dict[str, Timed]]) -> Table:
    table = Table("K", *OURS, "exponents since the last K", "steps", title="Growth with K (microseconds per game)")
    before: tuple[int, list[float]] | None = None
    for K, seen in runs.items():
        now = [seen[name].seconds for name in OURS]
        steps = ", ".join(f"{seen[name].solutions[0].iterations.mean():.1f}" for name in OURS)
        powers = ""
        if before:
            powers = ", ".join(
                f"{math.log(b / a) / math.log(K / before[0]):.1f}" for a, b in zip(before[1], now, strict=True)
            )
        table.add_row(str(K), *(f"{one * 1e6:,.2f}" for one in now), powers, steps)
        before = K, now
    return table


def exactness(solutions: list[ne.Solution]) -> tuple[float, float, int]:
    """Return the largest gap and residual, over the scale of a game, and how many games that is over."""
    gaps, residuals, games = [0.0], [0.0], 0
    for solution in solutions:
        gaps.append(float(np.abs(solution.gap).max()))
        residuals.append(float(solution.kkt.max()))
        games += len(solution.gap)
    for A in degenerate_games():
        for rho in (0.0, 1e-9, 1e-6, RHO, 0.1):
            size = max(1.0, float(np.abs(A).max()))
            one = ne.solve(A, regularizer=ne.L2(rho))
            gaps.append(abs(float(one.gap)) / size)
            residuals.append(float(one.kkt) / size)
            games += 1
    return max(gaps), max(residuals), games


def verdict(runs: dict[int, dict[str, Timed]], largest_gap: float, largest_kkt: float, games: int) -> None:
    for peer in (name for name in HIGHS if name in runs[5]):
        print(f"Against {peer}, by the clock (core against core):")
        for K, bar in BARS.items():
            them, ours = runs[K][peer], [runs[K][name] for name in OURS]
            ratios = [them.seconds / one.seconds for one in ours]
            ratios_text = ", ".join(
                f"{name} {ratio:,.1f} times ({them.core / one.core:,.1f})"
                for name, one, ratio in zip(OURS, ours, ratios, strict=True)
            )
            print(f"  K = {K}: {ratios_text}; bar {bar}: {'met' if min(ratios) >= bar else 'MISSED'}")
    met = largest_gap <= LARGEST_GAP and largest_kkt <= LARGEST_KKT
    print(
        f"over {games:,} games, degenerate ones among them: largest gap {largest_gap:.1e}, residual {largest_kkt:.1e}"
    )
    print(f"bars {LARGEST_GAP:g} and {LARGEST_KKT:g}: {'met' if met else 'MISSED'}")
