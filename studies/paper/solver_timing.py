"""How long an answer takes against the number of agents, and the paper's solver: enumeration of supports.

An equilibrium of the estimated game takes the game's payoffs first and then a solver; a learned policy takes neither.
All times are of one process, the steps in turn, the median of several rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

import nasheval as ne
from studies.arrays import Floats
from studies.harness.rows import Row
from studies.harness.study import Cell
from studies.paper.contest import common_options
from studies.paper.simulated import RHO, Truth

Step = Callable[[], object]
Name = TypeVar("Name")
NETWORK, PAYOFFS, EXACT = "paper's network", "paper's payoffs", "our solver"
ALL, BY_SIZE = "all supports", "supports, smallest first"
OUR_NETWORK, OUR_PAYOFFS, OUR_EXACT = "our network", "our payoffs", "our solver on our payoffs"
ENUMERATED = {ALL: 2, BY_SIZE: 16}  # games that each enumeration is timed on: the first takes the same for all
_MOST = 15  # agents that supports are enumerated for
_TOLERANCE = 1e-9


def enumerated(A: Floats, rho: float = RHO, *, stop: bool = False) -> Floats:
    """Return the equilibrium (K,) of one game (K, K): solve on every support, keep the one that meets the conditions.

    The supports of a size are solved together. With rho > 0 exactly one support is right.

    Args:
        stop: at the smallest size that has it, instead of going through all 2^K - 1.
    """
    K, solution = len(A), np.full(len(A), np.nan)
    for size in range(1, K + 1):
        support = np.array(list(combinations(range(K), size)))
        weight, multiplier = _on_supports(A, rho, support)
        pi = np.zeros((len(support), K))
        np.put_along_axis(pi, support, weight, axis=1)
        slack = rho * pi - pi @ A.T - multiplier[:, None]
        right = (weight.min(axis=1) >= -_TOLERANCE) & (slack.min(axis=1) >= -_TOLERANCE)
        if right.any() and np.isnan(solution[0]):
            solution = pi[np.argmax(right)]
            if stop:
                break
    return solution


def _on_supports(A: Floats, rho: float, support: Any) -> tuple[Floats, Floats]:
    """Solve rho pi - A pi = lam, sum pi = 1 on supports (n, m); return (n, m) weights and (n,) multipliers."""
    n, m = support.shape
    system = np.zeros((n, m + 1, m + 1))
    system[:, :m, :m] = rho * np.eye(m) - A[support[:, :, None], support[:, None, :]]
    system[:, :m, m], system[:, m, :m] = -1.0, 1.0
    solved = np.linalg.solve(system, np.broadcast_to(np.eye(m + 1)[:, m:], (n, m + 1, 1)))[..., 0]
    return solved[:, :m], solved[:, m]


def timings(cell: Cell) -> list[Row]:
    """Return a row for each number of agents, batch size and step: the milliseconds a context.

    A round goes through all of them, so that what else the machine does meanwhile spoils a round and not a column.
    Columns: part, agents, batch (contexts per call), step, ms.

    Args:
        cell: its settings name `sizes` (numbers with commas), `n` contexts to learn from, `batch`, `rounds`, `seed`.
    """
    work: dict[tuple[int, int, str], Step] = {}
    batches = 1, int(cell["batch"])
    for agents in map(int, cell["sizes"].split(",")):
        models = fitted(agents, cell["n"], cell["seed"])
        contexts = ne.SyntheticWorld(seed=cell["seed"], agents=agents).test_contexts(batches[1])
        for batch in batches:
            work |= {(agents, batch, name): step for name, step in steps(*models, contexts[:batch]).items()}
        work |= {(agents, 0, name): step for name, step in enumerations(models[0].payoff(contexts)).items()}
    rows: list[Row] = []
    for (agents, batch, name), ms in medians(work, cell["rounds"]).items():
        common: Row = {"part": "runtime", "agents": agents, "step": name}
        rows += [
            {**common, "batch": b, "ms": ms / (batch or ENUMERATED[name])} for b in ([batch] if batch else batches)
        ]
    return rows


def fitted(agents: int, n: int, seed: int) -> tuple[ne.NashEval, ne.NashEval]:
    """Return the paper's model and ours for a world of some agents, both with a learned policy.

    How long they take to answer does not depend on how well they learned, so they learn briefly, from few contexts,
    and the paper's from the true nuisances, which are not asked for an answer.
    """
    world = ne.SyntheticWorld(seed=seed, agents=agents)
    log = world.feedback("pairwise", voters=3, n=n)
    known = Truth(world, "pairwise", 3, log, np.zeros(0), np.zeros(0)).oracle()
    common = common_options(seed)
    network = ne.LearnedPolicy.paper(tune=None, epochs=1)
    ours = ne.LearnedPolicy(epochs=1, augment=0)
    return (
        ne.NashEval.paper(**common, **known, policy=network).fit(log),
        ne.NashEval(**common, propensity="marginal", policy=ours).fit(log),
    )


def steps(printed: ne.NashEval, ours: ne.NashEval, contexts: Floats) -> dict[str, Step]:
    """Return what an answer at some contexts may take, by name."""
    games, our_games, omega = printed.payoff(contexts), ours.payoff(contexts), ne.L2(RHO)
    return {
        NETWORK: lambda: printed.predict_proba(contexts),
        PAYOFFS: lambda: printed.payoff(contexts),
        EXACT: lambda: ne.solve(games, regularizer=omega),
        OUR_NETWORK: lambda: ours.predict_proba(contexts),
        OUR_PAYOFFS: lambda: ours.payoff(contexts),
        OUR_EXACT: lambda: ne.solve(our_games, regularizer=omega),
    }


def enumerations(games: Floats) -> dict[str, Step]:
    """Return both enumerations, by name; none for more than 15 agents, which would take for ever."""
    if games.shape[1] > _MOST:
        return {}
    all_of, by_size = (np.resize(games, (count, *games.shape[1:])) for count in ENUMERATED.values())
    return {
        ALL: lambda: [enumerated(A) for A in all_of],
        BY_SIZE: lambda: [enumerated(A, stop=True) for A in by_size],
    }


def medians(steps: Mapping[Name, Step], rounds: int) -> dict[Name, float]:
    """Return the median milliseconds of each step over rounds in turn, after one that does not count."""
    seen: dict[Name, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if number:
                seen[name].append(1e3 * (time.perf_counter() - start))
    return {name: float(np.median(times)) for name, times in seen.items()}
