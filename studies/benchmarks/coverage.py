"""Do the intervals cover what they say, and are cycles found where they are and nowhere else?

`python -m benchmarks.coverage [--jobs 16] [--results coverage.jsonl]` simulates logs of 2,000 contexts, estimates both
nuisances, and compares the mean payoffs' 95% intervals with the truth. One line of JSON is added to the results file
for each log that is done, and logs that are in it are not done again, so that it may be stopped at any time.

`--worlds arena` does the same for some twenty worlds such as people have them, with the whole log and groups of it; see
`benchmarks.coverage_arena`. What follows is about `--worlds paper`, the default.

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

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest, qmc, t

import nasheval as ne
from benchmarks.resumable import Row, run

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


@dataclass(frozen=True)
class Case:
    """One log to simulate."""

    kind: str
    seed: int
    modality: str
    voters: int
    contexts: int
    outcome: str


def plan(kind: str, logs: int, contexts: int, outcome: str) -> Iterator[Case]:
    for i in range(logs):
        modality, voters = SETTINGS[kind][i % len(SETTINGS[kind])]
        yield Case(kind, FIRST_SEED[kind] + i, modality, voters, contexts, outcome)


# -- one log ----------------------------------------------------------------------------------------------------------


def study(case: Case) -> Row:
    """Return a case with its truth, estimates, intervals and certain winners, all over pairs j < k."""
    from nasheval.payoff.inference import group_payoff

    start = time.process_time()
    world = ne.SyntheticWorld(seed=case.seed, amplitudes=AMPLITUDES[case.kind])
    log = world.feedback(case.modality, voters=case.voters, n=case.contexts)
    everywhere = qmc.Sobol(world.dim, scramble=False).random_base2(POINTS)
    truth = world.payoff(everywhere, case.modality, voters=case.voters).mean(axis=0)
    group = group_payoff(pseudo_of(log, case.outcome), confidence=CONFIDENCE)
    alone, together = group.interval(simultaneous=False), (group.lower, group.upper)
    j, k = np.triu_indices(len(truth), 1)
    beats = group.beats()
    numbers = {"truth": truth, "estimate": group.estimate, "error": group.error}
    inside = {"alone": alone, "together": together}
    return {
        **asdict(case),
        **{name: np.round(values[j, k], 6).tolist() for name, values in numbers.items()},
        **{name: ((low <= truth) & (truth <= high))[j, k].tolist() for name, (low, high) in inside.items()},
        "sign": (beats[j, k].astype(int) - beats[k, j].astype(int)).tolist(),
        "cycles": [[group.agents.index(agent) for agent in cycle.agents] for cycle in group.cycles()],
        "seconds": round(time.process_time() - start, 2),
    }


def pseudo_of(log: ne.Feedback, outcome: str) -> Any:
    """Return the pseudo-outcomes of a log with estimated nuisances, five folds."""
    from nasheval.nuisance.crossfit import crossfit, make_folds
    from nasheval.nuisance.learners import Features
    from nasheval.nuisance.outcome import choose_outcome
    from nasheval.nuisance.propensity import choose_propensity
    from nasheval.payoff.pseudo import pseudo_outcomes

    X = Features.of(ne.ContextEncoder.fit(log.contexts), log.contexts)
    learner = choose_outcome(outcome, tune="trees" if outcome == "lightgbm" else None)
    return pseudo_outcomes(
        crossfit(log, X, outcome=learner, propensity=choose_propensity("auto", log), fold=make_folds(log, 5, seed=0))
    )


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
        found = binomtest(self.hits, self.trials).proportion_ci(0.99, method="exact")
        return float(found.low), float(found.high)

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
    found, (j, k) = np.zeros((K, K)), np.triu_indices(K, 1)
    found[j, k], found[k, j] = row[name], -np.array(row[name])
    return found


def edges(cycle: list[int]) -> list[tuple[int, int]]:
    return list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def true_cycles(row: Row) -> list[list[int]]:
    """Return the cycles of the true mean payoffs."""
    from nasheval.payoff.cycles import find_cycles

    return [list(cycle) for cycle in find_cycles(margins(row) > 0)]


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
    found = [(sum(cycle in row["cycles"] for cycle in clear_cycles(row)), len(clear_cycles(row))) for row in rows]
    yield Share(
        f"true cycles found, edges {FAR:g} errors or more", found, "at least 0.80", lambda share: share.value >= 0.8
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", choices=("paper", "arena"), default="paper")
    parser.add_argument("--logs", type=int, help="logs of the paper's worlds (500), or of each arena (100)")
    parser.add_argument("--more", type=int, default=100, help="logs of the close and of the cyclic worlds")
    parser.add_argument("--contexts", type=int, default=2000, help="of a log of the paper's worlds")
    parser.add_argument("--outcome", choices=("voters", "lightgbm"), default="voters")
    parser.add_argument("--only", default="", help="names of arenas, with commas between them; default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes, of one thread each")
    parser.add_argument("--results", type=Path, help="file that results go to; default build/coverage[-arena].jsonl")
    parser.add_argument("--markdown", action="store_true", help="print the arenas' tables as markdown")
    options = parser.parse_args()
    if options.worlds == "arena":
        from benchmarks.coverage_arena import show

        path = options.results or Path("build/coverage-arena.jsonl")
        only = [name for name in options.only.split(",") if name]
        show(only, options.logs or 100, options.outcome, options.jobs, path, markdown=options.markdown)
        return
    counts = {"paper": options.logs or 500, "close": options.more, "cyclic": options.more}
    cases = [case for kind in counts for case in plan(kind, counts[kind], options.contexts, options.outcome)]
    rows = run(cases, study, options.results or Path("build/coverage.jsonl"), options.jobs)
    Console(width=150).print(table(rows))


if __name__ == "__main__":
    main()
