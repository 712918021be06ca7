"""Are flips that an audit predicts confirmed by a refit, and as small as the smallest there are?

`python -m studies audit [--runs 30] [--small 30] [--jobs 2] [--quick]` draws logs of known truth and audits them.

* On logs of 1,000 votes, by group, of votes and of voters: every set is taken out of the log and the model fitted anew,
  by public names, with contexts as they were; and once more without the contexts that have lost their votes, for which
  folds are drawn anew, as they are where rows are deleted from a file.
* On small logs: the smallest set is found by brute force, a fit for every subset of up to three votes, and the same for
  the first agent of the Bradley-Terry ladder. A set of four for which no three votes do is the smallest too.

Ridge regressions are the outcome model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.linear_model import Ridge

import nasheval as ne
from studies.benchmarks.measuring import number
from studies.harness.options import parser
from studies.harness.tables import print_table

CONFIRMED, RATIO = 0.95, 1.2
LARGEST = 3  # votes of the subsets that brute force tries
HOW = {"outcome": Ridge(), "folds": 2, "n_jobs": 1, "verbose": False}
GROUPS = ("u", "v")


def main(words: Sequence[str]) -> None:
    options = _parsed(words)
    rows: list[tuple[str, ...]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        seeds = range(options.seed, options.seed + options.runs)
        found = [row for rows_of in pool.map(one_run, seeds) for row in rows_of]
        rows += confirmations(found)
        seeds = range(options.seed, options.seed + options.small)
        small = [row for rows_of in pool.map(one_small, seeds) for row in rows_of]
        rows += ratios(small)
    header = ("what", "sets", "confirmed or equal", "limit", "verdict", "note")
    title = f"{options.runs} logs of 1,000 votes, {options.small} of 24; seed {options.seed}"
    print_table(title, header, rows, markdown=options.markdown)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    known = parser("audit", __doc__)
    known.add_argument("--runs", type=int, default=0, help="logs of 1,000 votes, by default 30")
    known.add_argument("--small", type=int, default=0, help="small logs, by default 30")
    known.add_argument("--seed", type=int, default=0)
    known.add_argument("--jobs", type=int, default=2)
    known.add_argument("--quick", action="store_true", help="one log of each")
    known.add_argument("--markdown", action="store_true")
    options = known.parse_args(words)
    options.runs, options.small = (each or (1 if options.quick else 30) for each in (options.runs, options.small))
    return options


def confirmations(found: Sequence[tuple[str, bool, bool, bool, int, int]]) -> Iterator[tuple[str, ...]]:
    """Yield the rows on whether a fit without the votes of a set has other winners."""
    for what in ("votes", "voters"):
        own = [row for row in found if row[0] == what]
        if not own:
            continue
        _, again, afresh, first, size, predicted = map(np.array, zip(*own, strict=True))
        share = float(np.mean(again))
        grown = float(np.median(size / predicted))
        note = f"first prediction confirmed: {number(float(np.mean(first)))}; "
        note += f"size over first prediction, median {number(grown)}"
        limit = f"at least {CONFIRMED}"
        yield f"sets of {what}", f"{len(own)}", number(share), limit, "met" if share >= CONFIRMED else "MISSED", note
        yield f"sets of {what}, folds drawn anew", f"{len(own)}", number(float(np.mean(afresh))), "", "", "no target"


def ratios(found: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, ...]]:
    """Yield the rows on how many times the smallest set the one found is."""
    for board in ("winner set", "rating"):
        sizes = [(ours, least) for name, ours, least in found if name == board]
        known = [(ours, least) for ours, least in sizes if least]
        if not known:
            continue
        within = float(np.mean([ours <= RATIO * least for ours, least in known]))
        worst = number(max(ours / least for ours, least in known))
        note = f"largest ratio {worst}; beyond brute force: {len(sizes) - len(known)}"
        verdict = "met" if within == 1 else "MISSED"
        yield f"smallest set, {board}", f"{len(known)}", number(within), f"all within {RATIO}", verdict, note


def one_run(seed: int) -> list[tuple[str, bool, bool, bool, int, int]]:
    """Audit a log of 1,000 votes; return what became of each set of the winner set."""
    rng = np.random.default_rng(seed)
    log = drawn(rng, 1000, agents=int(rng.integers(3, 8)), voters=40)
    model, rows = fitted(log), []
    audit = model.audit("group", parts=["flips"])
    for flip in audit.flips.flips:
        if flip.board != "lottery":
            continue
        left, name = audit.without(flip), None if flip.group == "all" else flip.group
        again, afresh = (winners(fitted(one), name) != flip.before for one in (left, left.trimmed()))
        rows.append((flip.what, again, afresh, bool(flip.first_confirmed), flip.size, flip.predicted))
    return rows


def one_small(seed: int) -> list[tuple[str, int, int]]:
    """Audit a log of 24 votes; return the sizes found and the smallest by brute force, 0 where that is not known."""
    rng = np.random.default_rng(seed)
    log, rows = drawn(rng, 24, agents=3, voters=0), []
    for flip in fitted(log).audit(parts=["flips"]).flips.flips:
        who = (lambda one: winners(fitted(one), None)) if flip.board == "lottery" else first_of_ladder
        least = smallest(log, who, flip.size)
        rows.append(("winner set" if flip.board == "lottery" else "rating", flip.size, least))
    return rows


def smallest(log: Any, who: Any, size: int) -> int:
    """Return the size of the smallest set of votes without which others win; 0 where it is beyond brute force."""
    before = who(log)
    for count in range(1, min(LARGEST, size - 1) + 1):
        for chosen in combinations(range(log.n_records), count):
            kept = np.ones(log.n_records, bool)
            kept[list(chosen)] = False
            if who(log.keep_records(kept)) != before:
                return count
    return size if size <= LARGEST + 1 else 0


def fitted(log: Any) -> Any:
    """Return the model of a log."""
    return ne.NashEval(**HOW).fit(log)


def winners(model: Any, group: str | None) -> tuple[str, ...]:
    """Return the winner set of a group, or of all contexts."""
    payoff = model.payoff_interval(None if group is None else {"group": group})
    lottery = ne.solve(np.clip(payoff.estimate, -1, 1), available=payoff.present).strategy
    return tuple(name for name, weight in zip(payoff.agents, lottery, strict=True) if weight > 1e-3)


def first_of_ladder(log: Any) -> str:
    """Return the agent with the best Bradley-Terry rating."""
    from scipy.optimize import minimize

    counts = log.pair_counts
    won = counts.wins + counts.ties / 2
    K = len(won)

    def loss(score: Any) -> float:
        return float((won * np.logaddexp(0, score[None, :] - score[:, None])).sum() + 5e-7 * score @ score)

    return str(log.agents[int(minimize(loss, np.zeros(K), method="BFGS").x.argmax())])


def drawn(rng: np.random.Generator, n: int, *, agents: int, voters: int) -> Any:
    """Draw duels of agents whose strength differs by group; pairs are asked by a context, all of them."""
    first, second = np.triu_indices(agents, 1)
    group, x = rng.integers(2, size=n), rng.uniform(-1, 1, n)
    odds = np.exp(np.outer(x, np.linspace(-0.5, 0.5, len(first))))
    chance = odds / odds.sum(axis=1, keepdims=True)
    pair = (chance.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    pair[: len(first)] = rng.permutation(len(first))[: min(n, len(first))]
    strength = rng.normal(0, 0.4, (2, agents))
    mean = np.tanh(strength[group, first[pair]] - strength[group, second[pair]] + rng.normal(0, 0.2) * x)
    names = np.array([f"m{a}" for a in range(agents)])
    winner = np.where(rng.random(n) < (1 + mean) / 2, "model_a", "model_b")
    table = {"model_a": names[first[pair]], "model_b": names[second[pair]], "winner": winner, "x": x}
    table["group"] = np.array(GROUPS)[group]
    if voters:
        table["voter"] = np.array([f"w{v}" for v in range(voters)])[rng.integers(voters, size=n)]
    voter = "voter" if voters else None
    return ne.read_votes(pa.table(table), context=["group", "x"], design="draws", voter=voter)
