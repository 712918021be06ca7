"""Where does the time of a fit go, and does an accelerator agree with the processor?

`python -m studies device [--votes 1000000,10000000] [--agents 50] [--device cuda] [--clock wall] [--flops]` fits arenas
of 20 numbers at one vote per context and prints the seconds of each stage (of the whole process with `--clock cpu`),
peak memory of the host and of the device, the held-out loss, and how far payoffs are from the truth; with `--flops` it
fits once more, counts the operations of all matrix products, and sets their rate beside that of one large product on
the same device. Then it fits a small log on the processor and on the device, and compares both with the truth, the
payoffs of each with the same network in double precision, and the gaps of policies that were learned on each. Last it
predicts many contexts with one model (`--predict 10,50,200` agents) on both: contexts per second, their ratio, and what
share of the device's memory bandwidth it takes to write and read the games once; and how far answers are apart.
"""

from __future__ import annotations

import cProfile
import pstats
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import nasheval as ne
from studies.arrays import Array, Floats
from studies.harness.options import parser

NUMBERS, HIDDEN, CHUNK = 20, 16, 1 << 18
TEST = 512  # contexts that are compared
# What is timed, by the file and the name of a function; stages that are inside another are set in.
STAGES = {
    "encode contexts": ("learners.py", "of"),
    "lay out records": ("voters_records.py", "tables_of"),
    "train outcome models": ("voters_plan.py", "run"),
    "  steps": ("voters_train.py", "_step"),
    "  held-out losses": ("voters_train.py", "_losses"),
    "propensities": ("choice.py", "fit"),
    "  strata": ("strata.py", "fit"),
    "  softmax": ("softmax.py", "fit"),
    "pseudo-outcomes": ("pseudo.py", "pseudo_outcomes"),
    "second stage": ("second_stage.py", "fit_payoff"),
    "  moves": ("moves.py", "moved_pairs"),
    "  trees": ("surfaces.py", "grow_all"),
    "  held-out corrections": ("corrected.py", "_held_out"),
}


class Arena:
    """Agents whose utilities are a random network of the context; pairs are drawn by the first three numbers.

    Args:
        agents: K.
        kinds: of voters, equally many, each with utilities of its own: several make games with cycles.
    """

    def __init__(self, agents: int, kinds: int = 1) -> None:
        rng = np.random.default_rng(agents)
        self.names, self.kinds = [f"m{a:03d}" for a in range(agents)], kinds
        self.inner = rng.normal(size=(NUMBERS, HIDDEN)) / np.sqrt(NUMBERS) * 1.5
        self.outer, self.base = (
            rng.normal(size=(kinds, HIDDEN, agents)) * 0.5,
            rng.normal(size=(kinds, 1, agents)) * 0.5,
        )
        self.asked = rng.normal(size=(3, agents)) * 0.5

    def utilities(self, x: Floats) -> Floats:
        """Return (kinds, n, K)."""
        return np.asarray(self.base + np.tanh(x @ self.inner) @ self.outer)

    def payoffs(self, x: Floats) -> Floats:
        """Return (n, K, K)."""
        u = self.utilities(x)
        return np.asarray(np.tanh((u[..., :, None] - u[..., None, :]) / 2).mean(0))

    def log(self, votes: int, seed: int = 0) -> ne.Feedback:
        """Return a log of one duel per context."""
        rng = np.random.default_rng(seed)
        x, pair, lost = drawn(rng, votes), np.empty((votes, 2), np.int32), np.empty(votes, np.int32)
        for start in range(0, votes, CHUNK):
            rows = slice(start, min(start + CHUNK, votes))
            here = x[rows]
            liked = here[:, :3] @ self.asked + rng.gumbel(size=(len(here), len(self.names)))
            pair[rows] = np.argpartition(-liked, 1, axis=1)[:, :2]
            who = rng.integers(self.kinds, size=len(here))
            u = np.take_along_axis(self.utilities(here)[who, np.arange(len(here))], pair[rows], axis=1)
            lost[rows] = rng.random(len(here)) > 1 / (1 + np.exp(u[:, 1] - u[:, 0]))
        words = {"model_a": (pair[:, 0], self.names), "model_b": (pair[:, 1], self.names)}
        words["winner"] = lost, ["model_a", "model_b"]
        said = {name: pa.DictionaryArray.from_arrays(code, of) for name, (code, of) in words.items()}
        columns = table(x)
        votes_table = pa.table({**said, **columns})
        return ne.read_votes(votes_table, context=list(columns), agents=self.names, design="draws")


def drawn(rng: np.random.Generator, n: int) -> Floats:
    return rng.standard_normal((n, NUMBERS), np.float32)


def table(x: Floats) -> dict[str, Array]:
    return {f"x{column}": x[:, column] for column in range(NUMBERS)}


def fitted(log: ne.Feedback, device: str, **options: Any) -> ne.NashEval:
    return ne.NashEval(device=device, verbose=False, **options).fit(log)  # type: ignore[arg-type]


# -- stages -----------------------------------------------------------------------------------------------------------


def stages(log: ne.Feedback, device: str, clock: str) -> tuple[ne.NashEval, dict[str, float]]:
    """Fit; return the model and the seconds of each stage."""
    now = time.process_time if clock == "cpu" else time.perf_counter
    profile, begun = cProfile.Profile(now), now()
    model: ne.NashEval = profile.runcall(fitted, log, device)
    whole = now() - begun
    seconds: dict[tuple[str, str], float] = {}
    for (path, _, name), times in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        place = path.replace("\\", "/").rpartition("/")[2], name
        seconds[place] = seconds.get(place, 0.0) + times[3]
    return model, {**{stage: seconds.get(place, 0.0) for stage, place in STAGES.items()}, "all": whole}


def rate_of(log: ne.Feedback, device: str, seconds: float) -> str:
    """Return the operations per second of the matrix products of a training, beside those of one large product."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        fitted(log, device)
    matrix = torch.ones((8192 if device == "cuda" else 2048,) * 2, device=device)
    _ = (matrix @ matrix).sum().item()
    begun = time.perf_counter()
    _ = (matrix @ matrix).sum().item()
    most = 2 * len(matrix) ** 3 / (time.perf_counter() - begun)
    return f"{counter.get_total_flops() / seconds / 1e12:.3f} of {most / 1e12:.1f} Tflop/s"


def measured(arena: Arena, votes: int, options: Any) -> dict[str, str]:
    """Return what a fit took, by name."""
    import torch

    log, x = arena.log(votes), drawn(np.random.default_rng(1), TEST)
    model, seconds = stages(log, options.device, options.clock)
    off = model.payoff(pa.table(table(x))) - arena.payoffs(x)
    found = {f"{stage}, s": f"{value:.1f}" for stage, value in seconds.items()}
    found["host, GB"] = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f}"
    if options.device == "cuda":
        found["device, GB"] = f"{torch.cuda.max_memory_allocated() / 2**30:.2f}"
    models: Any = model.stage1_.nuisances.outcome_models
    found |= {"held-out loss": f"{models.held_out_loss.mean():.5f}", "network": str(models.shape.hidden)}
    found["payoff RMSE"] = f"{np.sqrt((off**2).mean()):.4f}"
    if options.flops:
        found["matrix products"] = rate_of(log, options.device, seconds["train outcome models"])
    return found


# -- agreement --------------------------------------------------------------------------------------------------------


def double(model: ne.NashEval, contexts: pa.Table) -> Floats:
    """Return (n, K, K) the payoffs of a model without ties or second stage, from its networks in double precision."""
    models: Any = model.stage1_.nuisances.outcome_models
    x, (K, V) = model.stage1_.features(contexts).network.astype(np.float64), (models.shape.agents, models.shape.voters)
    folds, members = models.parameters["pooled"].shape[:2]
    total = np.zeros((len(x), K, K))
    for fold, member in np.ndindex(folds, members):
        p = {name: values[fold, member].astype(np.float64) for name, values in models.parameters.items()}
        h = np.sin(x @ p["hidden_0"] + p["bias_0"])
        for layer in range(1, len(models.shape.hidden)):
            z = h @ p[f"hidden_{layer}"] + p[f"bias_{layer}"]
            h = z / (1 + np.exp(-z))
        out = h @ (2 * p["head"])
        u = out[:, : K * V].reshape(-1, K, V) + out[:, K * V : -1, None] + p["taste"] + p["pooled"][:, None]
        weight = np.exp(p["logit"] - p["logit"].max())
        total += np.tanh((u[:, :, None] - u[:, None]) / 2) @ (weight / weight.sum())
    return total / (folds * members)


def agreement(agents: int, votes: int, devices: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return for each device how a small fit there compares."""
    arena = Arena(agents)
    log, x = arena.log(votes), drawn(np.random.default_rng(1), TEST)
    contexts, truth, omega = pa.table(table(x)), arena.payoffs(x), ne.L2(1e-3)
    found = {}
    for device in devices:
        model = fitted(log, device, second_stage="none")
        payoff, exact = model.payoff(contexts), double(model, contexts)
        learned = fitted(log, device, second_stage="none", policy="learned").predict_proba(contexts)
        solved, again = ne.solve(payoff, regularizer=omega).strategy, ne.solve(exact, regularizer=omega).strategy
        found[device] = {
            "payoff RMSE": f"{np.sqrt(((payoff - truth) ** 2).mean()):.4f}",
            "payoffs less double precision, most": f"{np.abs(payoff - exact).max():.1e}",
            "lotteries less those of double precision, most": f"{np.abs(solved - again).max():.1e}",
            "gap of solved lotteries there, mean": f"{ne.gap(solved, exact, regularizer=omega).mean():.1e}",
            "gap of learned lotteries there, mean": f"{ne.gap(learned, exact, regularizer=omega).mean():.1e}",
        }
    return found


# -- prediction -------------------------------------------------------------------------------------------------------


def prediction(agents: int, votes: int, device: str, rho: float) -> dict[str, dict[str, str]]:
    """Return for several numbers of contexts how fast one model predicts them on the processor and on the device."""
    how = {"second_stage": "none", "propensity": "marginal", "regularizer": ne.L2(rho)}
    model = fitted(Arena(agents, kinds=3).log(votes), device, **how)
    policy: Any = model.policy_
    policies = {"processor": replace(policy, device="cpu"), device: policy}
    most, found = bandwidth(device), {}
    for contexts in sorted({min(1 << 20, max(2 * TEST, cells // agents**2)) for cells in (1 << 22, 1 << 25, 1 << 29)}):
        asked = pa.table(table(drawn(np.random.default_rng(1), contexts)))
        lotteries, rates = {}, {}
        for name, each in policies.items():
            lotteries[name], seconds = timed(each, asked)
            rates[name] = contexts / seconds
        shown = {f"{name}, contexts per second": f"{rate:,.0f}" for name, rate in rates.items()}
        shown["device over processor"] = f"{rates[device] / rates['processor']:.1f}"
        shown["share of bandwidth"] = f"{rates[device] * 16 * agents**2 / most:.1%} of {most / 1e12:.2f} TB/s"
        shown["agents with weight, mean"] = f"{(lotteries[device] > 0).sum(1).mean():.1f}"
        found[f"{contexts:,} contexts"] = shown | apart(model, asked, lotteries, device)
    return found


def timed(policy: Any, contexts: pa.Table, turns: int = 3) -> tuple[Floats, float]:
    """Return the lotteries and the seconds of the fastest turn; the first one, which loads, is not counted."""
    policy.predict_proba(contexts)
    seconds = []
    for _ in range(turns):
        begun = time.perf_counter()
        lotteries = policy.predict_proba(contexts)
        seconds.append(time.perf_counter() - begun)
    return lotteries, min(seconds)


def bandwidth(device: str) -> float:
    """Return the bytes per second that copying a large array reads and writes."""
    import torch

    array = torch.zeros(1 << (28 if device == "cuda" else 25), device=device)
    other, seconds = torch.empty_like(array), []
    for _ in range(5):
        begun = time.perf_counter()
        other.copy_(array)
        _ = other[-1].item()
        seconds.append(time.perf_counter() - begun)
    return 8 * len(array) / min(seconds)


def apart(model: ne.NashEval, contexts: pa.Table, lotteries: dict[str, Floats], device: str) -> dict[str, str]:
    """Return how far answers are from each other and from double precision, at the first contexts."""
    some, omega = contexts.slice(0, 1 << 14), model.regularizer
    there, mine = model.payoff(some)[:TEST], model.policy_.predict_proba(some)[:TEST]  # from the very same payoffs
    solved, exact = ne.solve(there, regularizer=omega).strategy, double(model, contexts.slice(0, TEST))
    gaps = {name: ne.gap(pi[:TEST], exact, regularizer=omega).max() for name, pi in lotteries.items()}
    return {
        "lotteries less the processor's of the same payoffs, most": f"{np.abs(mine - solved).max():.1e}",
        "lotteries less the processor's, most": f"{np.abs(lotteries[device] - lotteries['processor']).max():.1e}",
        "payoffs less double precision, most": f"{np.abs(there - exact).max():.1e}",
        **{f"gap in double precision, {name}, most": f"{largest:.1e}" for name, largest in gaps.items()},
    }


def main(words: Sequence[str]) -> None:
    known = parser("device", __doc__)
    known.add_argument("--votes", default="1000000,10000000", help="with commas; empty: compare only")
    known.add_argument("--agents", type=int, default=50)
    known.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    known.add_argument("--clock", default="wall", choices=("cpu", "wall"))
    known.add_argument("--small", type=int, default=20_000, help="votes that are fitted on both; 0: none")
    known.add_argument("--flops", action="store_true", help="fit once more and count the operations")
    known.add_argument("--predict", default="10,50,200", help="numbers of agents, with commas; empty: none")
    known.add_argument("--predict-votes", type=int, default=50_000, help="votes that those models are fitted to")
    known.add_argument("--rho", type=float, default=1e-3, help="of those models; the larger, the more agents mix")
    options = known.parse_args(words)
    arena, console = Arena(options.agents), Console(width=110)
    for votes in [int(number) for number in options.votes.split(",") if number]:
        took = {options.clock: measured(arena, votes, options)}
        console.print(_table(f"{votes:,} votes, {options.agents} agents, {options.device}", took))
    if options.small:
        both = agreement(min(options.agents, 10), options.small, list(dict.fromkeys(("cpu", options.device))))
        console.print(_table(f"{options.small:,} votes", both))
    for agents in [int(number) for number in options.predict.split(",") if number]:
        found = prediction(agents, options.predict_votes, options.device, options.rho)
        console.print(_table(f"prediction, {agents} agents, rho {options.rho:g}", found))


def _table(title: str, columns: dict[str, dict[str, str]]) -> Table:
    shown = Table("", *columns, title=title, title_justify="left")
    for name in next(iter(columns.values())):
        shown.add_row(name, *(column[name] for column in columns.values()))
    return shown
