"""Do the intervals cover what they say, and are cycles found where they are and nowhere else?

`python -m studies coverage [--jobs 16] [--results coverage.jsonl]` simulates logs of 2,000 contexts, estimates both
nuisances, and compares the mean payoffs' 95% intervals with the truth. One line of JSON is added to the results file
for each log that is done, and logs that are in it are not done again, so that it may be stopped at any time.

`--worlds arena` does the same for some twenty worlds such as people have them, with the whole log and groups of it; see
`studies.benchmarks.coverage_arena`. What follows is about `--worlds paper`, the default.

The worlds, each with a seed of its own, their settings taken in turn:

- paper: 500 of the paper's worlds; pairwise, ranking and winner feedback x 1, 3 and 5 voters. Coverage is theirs.
- close: 100 worlds of one voter whose agents are close to each other (specialisation 0.2 instead of 2), all kinds of
  feedback. They and the paper's worlds of one voter, where the true mean payoffs have no cycle, are the transitive
  worlds; the paper's alone would be too easy, with mean payoffs far from zero (above 0.3 in a dozen looked at).
- cyclic: 100 worlds of 3 and 5 voters with a weaker shared quality (0.6 instead of 1), pairwise and ranking feedback:
  all looked at have cycles in their mean payoffs, with margins of up to 0.3. A true cycle counts where each of its
  edges has a true mean payoff of at least four times its standard error.

The standard errors take contexts as sampled, so that the truth is the mean payoff of the population of contexts: exact
payoffs averaged over 131,072 points of a Sobol sequence on the cube of contexts, which leaves an error of about a
thirtieth of a standard error (at random points it would be a tenth).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import qmc, t

import nasheval as ne
from studies.benchmarks.shares import exact_interval
from studies.harness.options import add_run_options, parser
from studies.harness.rows import Row
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell

POINTS = 17  # 2^17 contexts that the truth is averaged over
FAR = 4.0  # standard errors from zero that make a true cycle count
CONFIDENCE = 0.95
AMPLITUDES = {"paper": (1.0, 2.0, 0.15), "close": (1.0, 0.2, 0.15), "cyclic": (0.6, 2.0, 0.15)}
SETTINGS = {
    "paper": [(modality, voters) for voters in (1, 3, 5) for modality in ("pairwise", "ranking", "winner")],
    "close": [(modality, 1) for modality in ("pairwise", "ranking", "winner")],
    "cyclic": [(modality, voters) for voters in (3, 5) for modality in ("pairwise", "ranking")],
}
FIRST_SEED = {"paper": 1000, "close": 3000, "cyclic": 5000}


def plan(kind: str, logs: int, contexts: int, outcome: str) -> Iterator[Cell]:
    """Yield the logs to simulate."""
    for i in range(logs):
        modality, voters = SETTINGS[kind][i % len(SETTINGS[kind])]
        seed = FIRST_SEED[kind] + i
        yield Cell.of(kind=kind, seed=seed, modality=modality, voters=voters, contexts=contexts, outcome=outcome)


# -- one log ----------------------------------------------------------------------------------------------------------


def study(cell: Cell) -> list[Row]:
    """Return the truth, estimates, intervals and certain winners of one log, all over pairs j < k."""
    start = time.process_time()
    world = ne.SyntheticWorld(seed=cell["seed"], amplitudes=AMPLITUDES[cell["kind"]])
    log = world.feedback(cell["modality"], voters=cell["voters"], n=cell["contexts"])
    everywhere = qmc.Sobol(world.dim, scramble=False).random_base2(POINTS)
    truth = world.payoff(everywhere, cell["modality"], voters=cell["voters"]).mean(axis=0)
    how: dict[str, Any] = {"outcome": cell["outcome"], "aggregator": ne.Mean(), "second_stage": "none"}
    model = ne.NashEval(**how, n_jobs=1, device="cpu", verbose=False).fit(log)
    group = model.payoff_interval(confidence=CONFIDENCE)
    alone, together = group.interval(simultaneous=False), (group.lower, group.upper)
    j, k = np.triu_indices(len(truth), 1)
    beats = group.beats()
    numbers = {"truth": truth, "estimate": group.estimate, "error": group.error}
    inside = {"alone": alone, "together": together}
    row = {
        **{name: np.round(values[j, k], 6).tolist() for name, values in numbers.items()},
        **{name: ((low <= truth) & (truth <= high))[j, k].tolist() for name, (low, high) in inside.items()},
        "sign": (beats[j, k].astype(int) - beats[k, j].astype(int)).tolist(),
        "cycles": [[group.agents.index(agent) for agent in cycle.agents] for cycle in group.cycles()],
        "seconds": round(time.process_time() - start, 2),
    }
    return [row]


# -- what they show ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """How often something happened: (hits, trials) of each log."""

    name: str
    counts: list[tuple[int, int]]
    bar: str = ""
    passes: Callable[[Share], bool] = lambda share: True

    @property
    def hits(self) -> int:
        return sum(hits for hits, _ in self.counts)

    @property
    def trials(self) -> int:
        return sum(trials for _, trials in self.counts)

    @property
    def value(self) -> float:
        return self.hits / self.trials

    def exact(self) -> tuple[float, float]:
        """Return the exact binomial 99% interval, as if all trials were independent."""
        return exact_interval(self.hits, self.trials)

    def clustered(self) -> tuple[float, float]:
        """Return the 99% interval that takes a log as a cluster of trials."""
        hits, trials = np.array([c for c in self.counts if c[1]], float).T
        n, value = len(hits), self.value
        error = np.sqrt(((hits - value * trials) ** 2).sum() / max(n - 1, 1) * n) / trials.sum()
        half = float(t.ppf(0.995, max(n - 1, 1)) * error)
        return max(value - half, 0.0), min(value + half, 1.0)

    def cells(self) -> list[str]:
        if not self.trials:
            return [self.name, "-", "0", "-", "-", self.bar, "-"]
        low, high = self.exact()
        lower, upper = self.clustered()
        spread = f"{lower:.4f} to {upper:.4f}" if lower < upper else "-"  # logs that are all alike tell no spread
        verdict = ("yes" if self.passes(self) else "NO") if self.bar else ""
        exact = f"{low:.4f} to {high:.4f}"
        return [self.name, f"{self.value:.4f}", f"{self.trials:,}", exact, spread, self.bar, verdict]


def holds(share: Share) -> bool:
    """Tell whether the exact interval contains the stated confidence."""
    low, high = share.exact()
    return low <= CONFIDENCE <= high


def alone(name: str, rows: Iterable[Row], bar: str = "") -> Share:
    return Share(name, [(sum(row["alone"]), len(row["alone"])) for row in rows], bar, holds)


def together(name: str, rows: Iterable[Row], bar: str = "") -> Share:
    return Share(name, [(int(all(row["together"])), 1) for row in rows], bar, holds)


def margins(row: Row, name: str = "truth") -> np.ndarray:
    """Return pairs as a (K, K) matrix, antisymmetric."""
    K = round((1 + np.sqrt(1 + 8 * len(row[name]))) / 2)
    matrix, (j, k) = np.zeros((K, K)), np.triu_indices(K, 1)
    matrix[j, k], matrix[k, j] = row[name], -np.array(row[name])
    return matrix


def edges(cycle: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def true_cycles(row: Row) -> list[list[int]]:
    """Return the cycles of three of the true mean payoffs; where all pairs differ from 0, no others are minimal."""
    beats = margins(row) > 0
    return [list(c) for c in permutations(range(len(beats)), 3) if c[0] == min(c) and all(beats[e] for e in edges(c))]


def clear_cycles(row: Row) -> list[list[int]]:
    """Return the true cycles whose edges are all at least four standard errors from zero."""
    ratio = margins(row) / np.maximum(np.abs(margins(row, "error")), 1e-12)
    return [cycle for cycle in true_cycles(row) if min(ratio[edge] for edge in edges(cycle)) >= FAR]


def has_false_cycle(row: Row) -> bool:
    return any(min(margins(row)[edge] for edge in edges(cycle)) <= 0 for cycle in row["cycles"])


def has_wrong_sign(row: Row) -> bool:
    return any(sign * truth < 0 for sign, truth in zip(row["sign"], row["truth"], strict=True))


def shares(rows: list[Row]) -> Iterator[Share]:
    paper = [row for row in rows if row["kind"] == "paper"]
    yield alone("95% intervals of a pair, pooled over pairs", paper, "interval has 0.95")
    for modality in ("pairwise", "ranking", "winner"):
        yield alone(f"  {modality}", [row for row in paper if row["modality"] == modality])
    for voters in (1, 3, 5):
        yield alone(f"  voters: {voters}", [row for row in paper if row["voters"] == voters])
    yield together("95% intervals of all pairs together", paper, "interval has 0.95")
    yield alone("95% intervals of a pair, close and cyclic worlds", [row for row in rows if row["kind"] != "paper"])
    transitive = [row for row in rows if row["voters"] == 1 and not true_cycles(row)]
    false = [(int(has_false_cycle(row)), 1) for row in transitive]
    yield Share("transitive worlds with a false cycle", false, "at most 0.05", lambda share: share.value <= 0.05)
    wrong = [(int(has_wrong_sign(row)), 1) for row in rows]
    yield Share("worlds with a wrong certain winner", wrong, "at most 0.05", lambda share: share.value <= 0.05)
    recovered = [(sum(cycle in row["cycles"] for cycle in clear_cycles(row)), len(clear_cycles(row))) for row in rows]
    yield Share(
        f"true cycles found, edges {FAR:g} errors or more", recovered, "at least 0.80", lambda share: share.value >= 0.8
    )


def table(rows: list[Row]) -> Table:
    kinds = ", ".join(f"{sum(row['kind'] == kind for row in rows)} {kind}" for kind in SETTINGS)
    shown = Table(
        "share of", "observed", "of", "exact binomial 99%", "99%, a log a cluster", "bar", "met",
        title=f"{len(rows)} logs ({kinds}), {rows[0]['contexts']:,} contexts, outcome {rows[0]['outcome']!r}, "
        f"propensity 'auto'; {np.mean([row['seconds'] for row in rows]):.1f} CPU seconds a log",
        title_justify="left",
    )  # fmt: skip
    for share in shares(rows):
        shown.add_row(*share.cells())
    z = [(e - a) / s for row in rows if row["kind"] == "paper"
         for e, a, s in zip(row["estimate"], row["truth"], row["error"], strict=True) if s > 0]  # fmt: skip
    shown.caption = (
        f"(estimate - truth) / error in the paper's worlds: mean {np.mean(z):+.3f}, deviation {np.std(z):.3f}"
    )
    return shown


def main(words: Sequence[str]) -> None:
    known = parser("coverage", __doc__)
    known.add_argument("--worlds", choices=("paper", "arena"), default="paper")
    known.add_argument("--logs", type=int, help="logs of the paper's worlds (500), or of each arena (100)")
    known.add_argument("--more", type=int, default=100, help="logs of the close and of the cyclic worlds")
    known.add_argument("--contexts", type=int, default=2000, help="of a log of the paper's worlds")
    known.add_argument("--outcome", choices=("voters", "lightgbm"), default="voters")
    known.add_argument("--only", default="", help="names of arenas, with commas between them; default: all")
    add_run_options(known, "build/coverage.jsonl")
    known.add_argument("--markdown", action="store_true", help="print the arenas' tables as markdown")
    options = known.parse_args(words)
    if options.worlds == "arena":
        from studies.benchmarks.coverage_arena import show

        only = [name for name in options.only.split(",") if name]
        show(only, options.logs or 100, options.outcome, options.jobs, options.results, markdown=options.markdown)
        return
    counts = {"paper": options.logs or 500, "close": options.more, "cyclic": options.more}
    cells = [cell for kind in counts for cell in plan(kind, counts[kind], options.contexts, options.outcome)]
    rows = labelled(run_cells(study, cells, options.results, jobs=options.jobs, skip_failures=True))
    Console(width=150).print(table(rows))
