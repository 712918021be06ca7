"""How fast are equilibria found, and how exact are they?

`python -m benchmarks.solver [--scale 1.0] [--rounds 3] [--seconds 2]` solves batches of random games of K agents with
payoffs uniform in [-1, 1] by `solve`, regularised and not, and samples of the same games with one linear program a game
through HiGHS, the paper's support enumeration, Nashpy, pref_voting and Clarabel, turn and turn about. It prints
microseconds a game, how many times slower each peer is, the largest gap and residual over all games and a suite of
degenerate ones, and how time grows with K. Peers that are not installed are left out; pref_voting pins old versions of
numpy and numba, so give it an environment of its own. A peer fails on a game that it gives up, does not end within five
seconds, or answers with a lottery that loses more than 0.01 to some agent.
"""

from __future__ import annotations

import argparse
import math
import platform
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import sparse
from scipy.optimize import linprog

from nasheval.game import L2, Solution, solve

RHO = 1e-3
SIZES = {5: 100_000, 10: 100_000, 15: 20_000, 25: 5_000, 50: 1_000, 100: 200, 200: 40}
BARS = {5: 1000, 10: 300, 15: 80, 50: 5, 100: 5, 200: 5}  # times faster a game than HiGHS
LARGEST_GAP, LARGEST_KKT = 1e-8, 1e-10
PATIENCE = 5.0  # seconds a game
OURS = {"solve, L2(1e-3)": L2(RHO), "solve, L2(0)": L2(0.0)}
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


def highs(A: np.ndarray) -> np.ndarray:
    """One linear program: the largest v with pi A >= v."""
    K = len(A)
    found = linprog(
        np.r_[np.zeros(K), -1.0], A_ub=np.c_[-A.T, np.ones(K)], b_ub=np.zeros(K),
        A_eq=np.r_[np.ones(K), 0.0][None], b_eq=[1.0], bounds=[(0, None)] * K + [(None, None)], method="highs",
    )  # fmt: skip
    return found.x[:K]


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


def peers() -> dict[str, tuple[Peer, int]]:
    """Return the peers that are installed, each with the most agents it is asked for."""
    found: dict[str, tuple[Peer, int]] = {"HiGHS, a linear program": (highs, 1000)}
    found["support enumeration"] = (support_enumeration, 15)
    with suppress(ImportError):
        import nashpy

        found["Nashpy, a linear program"] = (lambda A: nashpy.Game(A).linear_program()[0], 50)
        found["Nashpy, Lemke-Howson"] = (lambda A: nashpy.Game(A).lemke_howson(0)[0], 15)
        found["Nashpy, support enumeration"] = (lambda A: next(nashpy.Game(A).support_enumeration())[0], 5)
    with suppress(ImportError):
        from pref_voting.probabilistic_methods import maximal_lottery
        from pref_voting.weighted_majority_graphs import MarginGraph

        def lottery(A: np.ndarray) -> np.ndarray:
            K = len(A)
            margins = [(i, j, float(A[i, j])) for i in range(K) for j in range(K) if A[i, j] > 0]
            return np.array([maximal_lottery(MarginGraph(list(range(K)), margins))[i] for i in range(K)])

        found["pref_voting, a linear program"] = (lottery, 50)
    with suppress(ImportError):
        import clarabel

        found["Clarabel, a quadratic program"] = (lambda A: by_clarabel(clarabel, A), 1000)
    return found


def by_clarabel(clarabel: object, A: np.ndarray) -> np.ndarray:
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
    """Seconds a game, the best of the rounds, and how far from an equilibrium the answers were."""

    seconds: float = math.inf
    games: int = 0
    exploitability: float = 0.0
    failed: int = 0
    solutions: list[Solution] = field(default_factory=list)


def time_ours(A: np.ndarray, regularizer: L2, seen: Timed) -> None:
    start = time.perf_counter()
    solution = solve(A, regularizer=regularizer)
    seen.seconds = min(seen.seconds, (time.perf_counter() - start) / len(A))
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
    start, answers = time.perf_counter(), []
    while len(answers) < len(A) and time.perf_counter() - start < seconds:
        answers.append(guarded(peer, A[len(answers)]))
    seen.seconds = min(seen.seconds, (time.perf_counter() - start) / len(answers))
    seen.games = max(seen.games, len(answers))
    worst = np.array(
        [(game @ pi).max() if len(pi) == len(game) else np.nan for game, pi in zip(A, answers, strict=False)]
    )
    seen.failed = max(seen.failed, int((~(worst < 1e-2)).sum()))
    seen.exploitability = max(seen.exploitability, float(np.nanmax(worst, initial=0.0)))


def measured(K: int, n: int, rounds: int, seconds: float) -> dict[str, Timed]:
    A = random_games(n, K, seed=K)
    able = {name: peer for name, (peer, most) in peers().items() if most >= K}
    seen = {name: Timed() for name in (*OURS, *able)}
    for _ in track(range(rounds), description=f"K = {K}, {n:,} games"):
        for name, regularizer in OURS.items():
            time_ours(A, regularizer, seen[name])
        for name, peer in able.items():
            time_peer(peer, A, seconds, seen[name])
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the batches")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each peer in each round")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, out_of_patience)
    solve(random_games(2, 3))  # compile before the clock starts
    solve(random_games(2, 60))
    runs = {K: measured(K, max(2, int(n * options.scale)), options.rounds, options.seconds) for K, n in SIZES.items()}
    console = Console(width=120)
    for K, seen in runs.items():
        console.print(table_of(K, seen))
    console.print(growth(runs))
    exact = exactness([one for seen in runs.values() for timed in seen.values() for one in timed.solutions])
    verdict(runs, *exact)
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")


def table_of(K: int, seen: dict[str, Timed]) -> Table:
    table = Table(title=f"K = {K}")
    for heading in ("method", "games", "microseconds a game", "times ours", "times ours at 0", "worst loss", "failed"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    ours = [seen[name].seconds for name in OURS]
    for name, timed in seen.items():
        ratios = [f"{timed.seconds / one:,.1f}" for one in ours]
        failed = f"{timed.failed:,}" if timed.failed else ""
        table.add_row(
            name, f"{timed.games:,}", f"{timed.seconds * 1e6:,.2f}", *ratios, f"{timed.exploitability:.1e}", failed
        )
    return table


def growth(runs: dict[int, dict[str, Timed]]) -> Table:
    table = Table("K", *OURS, "exponents since the last K", "steps", title="Growth with K (microseconds a game)")
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


def exactness(solutions: list[Solution]) -> tuple[float, float, int]:
    """Return the largest gap and residual, over the scale of a game, and how many games that is over."""
    gaps, residuals, games = [0.0], [0.0], 0
    for solution in solutions:
        gaps.append(float(np.abs(solution.gap).max()))
        residuals.append(float(solution.kkt.max()))
        games += len(solution.gap)
    for A in degenerate_games():
        for rho in (0.0, 1e-9, 1e-6, RHO, 0.1):
            size = max(1.0, float(np.abs(A).max()))
            one = solve(A, regularizer=L2(rho))
            gaps.append(abs(float(one.gap)) / size)
            residuals.append(float(one.kkt) / size)
            games += 1
    return max(gaps), max(residuals), games


def verdict(runs: dict[int, dict[str, Timed]], largest_gap: float, largest_kkt: float, games: int) -> None:
    for K, bar in BARS.items():
        base = runs[K]["HiGHS, a linear program"].seconds
        ratios = {name: base / runs[K][name].seconds for name in OURS}
        told = ", ".join(f"{name} {ratio:,.0f} times" for name, ratio in ratios.items())
        print(f"K = {K}: {told} faster than HiGHS; bar {bar}: {'met' if min(ratios.values()) >= bar else 'MISSED'}")
    met = largest_gap <= LARGEST_GAP and largest_kkt <= LARGEST_KKT
    print(
        f"over {games:,} games, degenerate ones among them: largest gap {largest_gap:.1e}, residual {largest_kkt:.1e}"
    )
    print(f"bars {LARGEST_GAP:g} and {LARGEST_KKT:g}: {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
