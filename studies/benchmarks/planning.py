"""Are planned votes as good as planned, and how many do planned menus spare?

`python -m studies planning [--part widths|menus|all] [--logs 200] [--runs 40] [--jobs 2] [--seed 0] [--quick]`.

Widths: logs of 5, 20 and 60 agents; half of them ask pairs by context, with propensities that are estimated, half ask
all alike and know it. A plan from the first votes says how wide intervals will be with two and four times as many; the
same log goes on to so many, and the model is fitted anew.

Menus: latent-voter worlds in which few agents contend. Uniform asking of n votes against planned asking of 0.7 n (with
5 agents also of n): 30% of n are a pilot that asks all pairs alike, the rest are drawn by `plan.menus` from a model of
the pilot, at new contexts, and one model is fitted to both with known propensities. Exploitability is that of the
lotteries at 400 new contexts, in the true games; coverage that of intervals of mean payoffs over all pairs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

import nasheval as ne
from studies.arrays import Array
from studies.benchmarks.measuring import number
from studies.benchmarks.worlds import (
    Contexts,
    Population,
    agent_names,
    by_language,
    duels,
    everywhere,
    picked,
    population,
    sample,
    verdicts,
)
from studies.harness.options import parser
from studies.harness.tables import print_table

VOTES = {5: 600, 20: 3000, 60: 6000}  # of the log that a plan is made from
SHARES = {5: 0.4, 20: 0.4, 60: 0.2}  # of the logs
MENU_VOTES = {5: 1500, 20: 4000, 60: 8000}  # of uniform asking
AHEAD = (2, 4)
WITHIN = 0.1
PILOT, SPARED, FLOOR = 0.3, 0.7, 0.2
SCALES = (0.2, 0.6, 0.6, 0.4, 0.6, 0.4)  # deviations of coefficients: contenders differ more by context than in quality
CONTENDERS = {5: 3, 20: 4, 60: 6}  # the others are worse by LEAD, and differ half as much by context
LEAD = 1.0
POPULATIONS = 12
FIRST = 300  # number of the first population: those below served to choose settings
TEST = 400


def main(words: Sequence[str]) -> None:
    options = _parsed(words)
    with ProcessPoolExecutor(options.jobs) as pool:
        if options.part in ("widths", "all"):
            print_widths(pool, options)
        if options.part in ("menus", "all"):
            print_menus(pool, options)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    known = parser("planning", __doc__)
    known.add_argument("--part", choices=("widths", "menus", "all"), default="all")
    known.add_argument("--logs", type=int, default=0, help="of widths; by default 200")
    known.add_argument("--runs", type=int, default=0, help="of menus, for each number of agents; by default 40")
    known.add_argument("--agents", default="5,20,60", help="with commas")
    known.add_argument("--seed", type=int, default=0)
    known.add_argument("--jobs", type=int, default=2)
    known.add_argument("--quick", action="store_true", help="five logs, one run, fewer votes")
    known.add_argument("--markdown", action="store_true")
    options = known.parse_args(words)
    options.logs = options.logs or (5 if options.quick else 200)
    options.runs = options.runs or (1 if options.quick else 40)
    options.agents = [int(word) for word in options.agents.split(",")]
    return options


# -- votes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes at contexts: the agents of each, its verdict, and the chance with which they were asked."""

    at: Contexts
    j: Array
    k: Array
    z: Array
    chance: Array

    def first(self, n: int) -> Votes:
        """Return the first n."""
        return Votes(Contexts(self.at.language[:n], self.at.x[:n]), *(each[:n] for each in self.columns))

    def with_more(self, other: Votes) -> Votes:
        """Return these and others."""
        at = Contexts(np.r_[self.at.language, other.at.language], np.r_[self.at.x, other.at.x])
        return Votes(at, *(np.r_[a, b] for a, b in zip(self.columns, other.columns, strict=True)))

    @property
    def columns(self) -> tuple[Array, ...]:
        return self.j, self.k, self.z, self.chance

    def log(self, agents: int, *, known: bool = True) -> ne.Feedback:
        """Return a log; `known` says the propensities."""
        more = {"propensity": self.chance} if known else {}
        return duels(self.at, self.j, self.k, self.z, agents=agents, **more)


def drawn(people: Population, n: int, rng: np.random.Generator, chosen: Array | None = None) -> Votes:
    """Draw votes that ask all pairs alike, or the chosen pairs (P,) more often in one language."""
    at, P = sample(rng, n), people.n_agents * (people.n_agents - 1) // 2
    if chosen is None:
        pair, chance = rng.integers(P, size=n), np.full(n, 1 / P)
    else:
        lift, often, seldom = by_language(at), np.flatnonzero(chosen), np.flatnonzero(~chosen)
        total = lift * len(often) + len(seldom)
        first = rng.random(n) < lift * len(often) / total
        pair = np.where(first, rng.choice(often, n), rng.choice(seldom, n))
        chance = np.where(first, lift, 1.0) / total
    j, k = (side[pair] for side in np.triu_indices(people.n_agents, 1))
    return Votes(at, j, k, verdicts(rng, people.margins(at, j, k), people.ties), chance)


def fitted(log: ne.Feedback, seed: int) -> ne.NashEval:
    return ne.NashEval(random_state=seed, n_jobs=1, verbose=False).fit(log)


# -- widths -----------------------------------------------------------------------------------------------------------


def print_widths(pool: ProcessPoolExecutor, options: argparse.Namespace) -> None:
    """Print how far widths are from what was planned."""
    start, rows = time.time(), []
    jobs = [(K, options.seed + run) for K in options.agents for run in range(max(1, round(SHARES[K] * options.logs)))]
    found = list(pool.map(partial(one_width, quick=options.quick), *zip(*jobs, strict=True)))
    for K in options.agents:
        for column, ahead in enumerate(AHEAD):
            mine = np.array([each[column] for (agents, _), each in zip(jobs, found, strict=True) if agents == K])
            rows.append(_width_row(str(K), ahead, mine, VOTES[K] // (4 if options.quick else 1)))
    for column, ahead in enumerate(AHEAD):
        rows.append(_width_row("all", ahead, np.array([each[column] for each in found]), None))
    header = ("agents", "votes", "times", "logs", "width found", "planned / found", "within 10%", "in the band",
              "worst", "verdict")  # fmt: skip
    spent = sum(each[-1][0] for each in found)
    title = f"Planned widths, {len(found)} logs, seed {options.seed}, {time.time() - start:,.0f} s, {spent:,.0f} CPU s"
    print_table(title, header, rows, markdown=options.markdown)


def _width_row(agents: str, ahead: int, found: Array, votes: int | None) -> tuple[str, ...]:
    planned, low, high, attained = found.T
    ratio = planned / attained
    within = float((np.abs(ratio - 1) <= WITHIN).mean())
    worst = float(ratio[np.abs(np.log(ratio)).argmax()])
    band = float(((low <= attained) & (attained <= high)).mean())
    verdict = "met" if abs(ratio.mean() - 1) <= WITHIN and within >= 0.95 else "MISSED"
    return (
        *(agents, "" if votes is None else f"{votes:,}", f"{ahead}", str(len(found)), number(attained.mean())),
        *(number(ratio.mean()), f"{within:.1%}", f"{band:.1%}", number(worst), verdict),
    )


def one_width(K: int, seed: int, quick: bool = False) -> tuple[tuple[float, ...], ...]:
    """Return the planned width, its band and the width found, with two and four times the votes; and CPU seconds."""
    start = time.process_time()
    people = population(FIRST + seed % POPULATIONS, K)
    n, known = VOTES[K] // (4 if quick else 1), seed % 2 == 0
    rng, pairs = np.random.default_rng((seed, K, 31)), K * (K - 1) // 2
    votes = drawn(people, n * AHEAD[-1], rng, None if known else picked(seed % POPULATIONS, K, pairs // 4))
    plan = ne.plan(fitted(votes.first(n).log(K, known=known), seed), goal="width=0.1")
    found = []
    for ahead in AHEAD:
        payoff = fitted(votes.first(n * ahead).log(K, known=known), seed).payoff_interval()
        width = (payoff.upper - payoff.lower)[np.triu_indices(K, 1)].mean()
        found.append((*plan.curves[0].at(n * ahead), float(width)))
    return (*found, (time.process_time() - start,))


# -- menus ------------------------------------------------------------------------------------------------------------


def print_menus(pool: ProcessPoolExecutor, options: argparse.Namespace) -> None:
    """Print what planned asking is worth."""
    start, rows, spent = time.time(), [], 0.0
    for K in options.agents:
        runs = range(options.seed, options.seed + options.runs)
        found = list(pool.map(partial(one_run, K, quick=options.quick), runs))
        spent += sum(each["seconds"] for each in found)
        rows += _menu_rows(K, found, MENU_VOTES[K] // (4 if options.quick else 1))
    header = ("agents", "asking", "votes", "exploitability", "less uniform's", "standard error", "covered",
              "covered together", "width, contenders", "verdict")  # fmt: skip
    title = f"Planned menus, {options.runs} runs each, seed {options.seed}, {time.time() - start:,.0f} s, "
    print_table(title + f"{spent:,.0f} CPU s", header, rows, markdown=options.markdown)


def _menu_rows(K: int, found: list[dict[str, Any]], votes: int) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    whole = np.array([each["uniform"][0] for each in found])
    for name in [name for name in found[0] if name != "seconds"]:
        lost, covered, together, width = np.array([each[name] for each in found]).T
        gap = lost - whole
        error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
        share = float(name.partition(" x ")[2] or 1)
        judged = name.startswith("planned")
        verdict = ("met" if gap.mean() <= 0 else "within error" if gap.mean() <= 2 * error else "MISSED") * judged
        rows.append((
            *(str(K), name.partition(" x ")[0], f"{round(share * votes):,}", number(lost.mean()), number(gap.mean())),
            *(number(error), number(covered.mean()), f"{together.mean():.0%}", number(width.mean()), verdict),
        ))  # fmt: skip
    return rows


def one_run(K: int, seed: int, quick: bool = False) -> dict[str, Any]:
    """Return what each way of asking comes to: exploitability, coverage of pairs, of all together, and width."""
    start, people = time.process_time(), world(FIRST + seed % POPULATIONS, K)
    n, rng = MENU_VOTES[K] // (4 if quick else 1), np.random.default_rng((seed, K, 37))
    votes, test = drawn(people, n, rng), sample(np.random.default_rng((seed, K, 41)), TEST)
    score = partial(_scored, people, truth_at(people, test), test, FIRST + seed % POPULATIONS)
    pilot = votes.first(round(PILOT * n))
    plan = ne.plan(fitted(pilot.log(K), seed), goal="width=0.1", learning=False)
    found = {"uniform": score(fitted(votes.log(K), seed))}
    spared = round(SPARED * n)
    found[f"uniform x {SPARED}"] = score(fitted(votes.first(spared).log(K), seed))
    for share in (SPARED,) if K > 5 else (SPARED, 1.0):
        more = planned(people, plan, round(share * n) - round(PILOT * n), rng, seed)
        found[f"planned x {share:g}"] = score(fitted(pilot.with_more(more).log(K), seed))
    return {**found, "seconds": time.process_time() - start}


def planned(people: Population, plan: Any, n: int, rng: np.random.Generator, seed: int) -> Votes:
    """Draw menus from a plan at new contexts, and what voters answer."""
    table = plan.menus(n, FLOOR, contexts=sample(rng, n).table(), seed=seed).table
    place = {name: a for a, name in enumerate(agent_names(people.n_agents).tolist())}
    j, k = (np.array([place[name] for name in table[side].to_pylist()]) for side in ("model_a", "model_b"))
    language = np.where(np.array(table["language"].to_pylist()) == "fi", 1.0, -1.0)
    at = Contexts(language, np.column_stack([table["length"].to_numpy(), table["difficulty"].to_numpy()]))
    return Votes(at, j, k, verdicts(rng, people.margins(at, j, k), people.ties), table["propensity"].to_numpy())


@cache
def world(number_of: int, K: int) -> Population:
    """Return latent voters of two types, to whom few of K agents contend; which of these is best, the context says."""
    people = population(number_of, K, types=2, twist=0.0, scales=SCALES)
    rng, utilities = np.random.default_rng((number_of, K, 47)), people.coefficients.copy()
    others = rng.permutation(K)[CONTENDERS[K] :]
    utilities[:, 1:, others] *= 0.5
    utilities[:, 0, others] -= LEAD
    return replace(people, coefficients=utilities)


def truth_at(people: Population, at: Contexts) -> Array:
    """Return (n, K, K) the true games at some contexts."""
    K, n = people.n_agents, len(at)
    A = np.zeros((n, K, K))
    for j, k in zip(*np.triu_indices(K, 1), strict=True):
        A[:, j, k] = people.margins(at, np.full(n, j), np.full(n, k))
        A[:, k, j] = -A[:, j, k]
    return A


@cache
def mean_truth(number_of: int, K: int) -> Array:
    """Return (K, K) the true mean payoffs of a world."""
    return world(number_of, K).payoffs(everywhere())


def _scored(
    people: Population, games: Array, test: Contexts, number_of: int, model: ne.NashEval
) -> tuple[float, float, float, float]:
    K, payoff = people.n_agents, model.payoff_interval()
    upper, truth = np.triu_indices(K, 1), mean_truth(number_of, K)
    lost = ne.metrics.exploitability(games, model.predict_proba(test.table()))
    low, high = (each[upper] for each in payoff.interval(simultaneous=False))
    together = bool(((payoff.lower <= truth) & (truth <= payoff.upper))[upper].all())
    best = np.argsort(-truth.mean(axis=1))[: max(3, K // 10)]
    width = (payoff.upper - payoff.lower)[np.ix_(best, best)][np.triu_indices(len(best), 1)].mean()
    return float(lost), float(((low <= truth[upper]) & (truth[upper] <= high)).mean()), float(together), float(width)
