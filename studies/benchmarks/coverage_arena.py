"""Coverage, false claims and propensity warnings in the arenas of `studies.benchmarks.worlds`, with default settings.

`python -m studies coverage --worlds arena [--logs 100] [--only star-6,chain-5]`. Of each log:

- pairs: 95% intervals of single pairs that were compared, over the whole log; of those with 20 votes or more; and of
  the selected pairs alone.
- there: the same for the selected pairs in the group where they are asked most (fi, or the edges of `length`).
- groups: all compared pairs in all groups. bridged: pairs that were never compared.
- together: whether the simultaneous intervals of the whole log hold all at once.
- evaluate: intervals of `ne.evaluate` between policies that always play one agent: the agents of the two
  selected pairs with the closest true payoffs. A false "beats" is one whose true value is not positive.
- false beats and false cycles of the group's payoffs, whole log.
- whether the propensity warning fires; and, where pairs are selected by the context, the same with
  propensity="marginal" forced on the same outcome models, and by how many standard errors that moves the means of the
  selected pairs, in the whole log and there, against the true propensities.

Shares have a 99% interval for which a log is one cluster; it must meet 0.93 to 0.97. False claims have an exact
binomial 99% interval, which must not lie above 0.05.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

import nasheval as ne
from studies.arrays import Array, Floats
from studies.benchmarks.shares import exact_interval
from studies.benchmarks.worlds import WORLDS, Simulated
from studies.harness.rows import Row
from studies.harness.running import labelled, run_cells
from studies.harness.study import Cell
from studies.harness.tables import print_table

CONFIDENCE = 0.95
FIRST_SEED = 1000  # smaller ones were looked at while the estimator was built
BAR = (0.93, 0.97)
MOVED = 2.0  # standard errors by which forced shares move a mean before a warning is due
VOTES = 20  # of a pair that thin ones are told apart by: with six, most intervals are cut at -1 or 1
BIG = 30  # agents from which on groups other than "there" are left out, since every group predicts all pairs anew
MEASURES = {
    "pairs": "pairs", "voted": "pairs with 20 votes", "selected": "selected pairs", "there": "selected, there",
    "groups": "pairs in groups", "bridged": "bridged pairs", "together": "all pairs together", "evaluate": "evaluate",
}  # fmt: skip
HELD_TO_BAR = ("pairs", "selected", "there", "bridged")
CLAIMS = {"beats": "false beats of evaluate", "edges": "false edges of a group", "cycles": "false cycles"}


# -- one log ----------------------------------------------------------------------------------------------------------


def study(cell: Cell) -> list[Row]:
    """Return what was covered and claimed in one log, as [hits, trials] by measure."""
    start, simulated = time.process_time(), WORLDS[cell["world"]](cell["seed"])
    model = fitted(simulated.log, outcome=cell["outcome"])
    ended = time.process_time()
    row = {
        **covered(model, simulated),
        **evaluated(model, simulated),
        "warned": propensity_warning(model),
        "random": simulated.random,
        **forced_marginal(model, simulated),
    }
    return [{**row, "fit_seconds": round(ended - start, 2), "seconds": round(time.process_time() - start, 2)}]


def fitted(log: ne.Feedback, **options: Any) -> ne.NashEval:
    return ne.NashEval(**options, second_stage="none", n_jobs=1, device="cpu", verbose=False).fit(log)


@dataclass(frozen=True)
class Ready:
    """Nuisance models that are fitted already, as a learner: for the same contexts and folds."""

    models: Any

    def fit(self, log: object, X: object, train: object, effort: object) -> Any:
        return self.models


def outcomes_of(model: ne.NashEval) -> Ready:
    """Return the outcome models of a fitted model."""
    return Ready(model.stage1_.nuisances.outcome_models)


def compared(simulated: Simulated) -> Array:
    """Return (pairs,) which pairs the log compares."""
    return np.asarray(simulated.log.pair_counts.votes[np.triu_indices(simulated.log.n_agents, 1)] > 0)


def counts(inside: Array, which: Array | None = None) -> list[int]:
    return [int(inside.sum()), len(inside)] if which is None else counts(inside[which])


def covered(model: ne.NashEval, simulated: Simulated) -> Row:
    """Return coverage of pairs over the whole log and in groups, false edges and false cycles, and widths."""
    upper, seen = np.triu_indices(simulated.log.n_agents, 1), compared(simulated)
    chosen = simulated.selected & seen if len(simulated.selected) else np.zeros(len(seen), bool)
    group, truth = model.payoff_interval(confidence=CONFIDENCE), simulated.truth["all"]
    low, high = (side[upper] for side in group.interval(simultaneous=False))
    inside = (low <= truth[upper]) & (truth[upper] <= high)
    which = {
        "pairs": seen,
        "voted": simulated.log.pair_counts.votes[upper] >= VOTES,
        "selected": chosen,
        "bridged": ~seen,
    }
    row: Row = {name: counts(inside, pairs) for name, pairs in which.items()}
    width = {"pairs": high[seen] - low[seen], "bridged": high[~seen] - low[~seen]}
    row["width"] = {name: round(float(values.mean()), 4) for name, values in width.items() if len(values)}
    together = (group.lower <= truth) & (truth <= group.upper)
    row["together"] = [int(together[upper][seen].all()), 1]
    row["edges"] = [int((group.beats() & (truth <= 0)).any()), 1]
    row["cycles"] = [int(has_false_cycle(group, truth)), 1]
    z = (group.estimate - truth)[upper][seen] / group.error[upper][seen]
    row["z"] = [round(float(z.mean()), 4), round(float(z.std()), 4)]
    return {**row, **covered_in_groups(model, simulated, seen, chosen)}


def covered_in_groups(model: ne.NashEval, simulated: Simulated, seen: Array, chosen: Array) -> Row:
    """Return coverage of compared pairs in all groups, and of selected pairs where they are asked most."""
    upper, there, everywhere = np.triu_indices(simulated.log.n_agents, 1), [0, 0], [0, 0]
    for name, members in simulated.inside.items():
        if simulated.log.n_agents >= BIG and name != simulated.there:
            continue
        low, high = (side[upper] for side in model.payoff_interval(members).interval(simultaneous=False))
        inside = (low <= simulated.truth[name][upper]) & (simulated.truth[name][upper] <= high)
        everywhere = [a + b for a, b in zip(everywhere, counts(inside, seen), strict=True)]
        there = counts(inside, chosen) if name == simulated.there else there
    return {"there": there, "groups": everywhere}


def has_false_cycle(group: Any, truth: Array) -> bool:
    """Tell whether a cycle that a group claims has an edge that is not there."""
    cycles = [[group.agents.index(agent) for agent in cycle.agents] for cycle in group.cycles()]
    return any(truth[a, b] <= 0 for cycle in cycles for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


@dataclass(frozen=True)
class Plays:
    """A policy that always plays one agent."""

    agents: tuple[str, ...]
    agent: int

    def predict_proba(self, contexts: Any, *, agents: Sequence[str] | None = None) -> Floats:
        return np.tile(np.eye(len(self.agents))[self.agent], (len(contexts), 1))


def evaluated(model: ne.NashEval, simulated: Simulated) -> Row:
    """Return coverage and false claims of policies that play one agent each, over the log and its groups."""
    agents, log = rivals(simulated), simulated.log
    evaluation = ne.evaluate(
        {log.agents[agent]: Plays(log.agents, agent) for agent in agents},
        log,
        by="language" if "fi" in simulated.inside else None,
        outcome=outcomes_of(model),
        propensity=Ready(model.stage1_.nuisances.propensity_models),
        confidence=CONFIDENCE,
        verbose=False,
    )
    truth = simulated.truth["all"][np.ix_(agents, agents)]
    upper = np.triu_indices(len(agents), 1)
    inside = ((evaluation.lower <= truth) & (truth <= evaluation.upper))[upper]
    false = bool((evaluation.beats & (truth <= 0)).any())
    for contest in evaluation.groups:
        truth = simulated.truth[contest.name][np.ix_(agents, agents)]
        false |= bool(((contest.lower > 0) & (truth <= 0)).any())
    return {"evaluate": [int(inside.all()), 1], "beats": [int(false), 1]}


def rivals(simulated: Simulated) -> list[int]:
    """Return the agents of the two compared pairs with the closest true payoffs, among selected ones if there are."""
    seen = compared(simulated)
    chosen = simulated.selected & seen if len(simulated.selected) else np.zeros(len(seen), bool)
    upper = np.triu_indices(simulated.log.n_agents, 1)
    places = np.flatnonzero(chosen if chosen.any() else seen)
    nearest = places[np.argsort(np.abs(simulated.truth["all"][upper][places]))[:2]]
    return sorted({int(side[pair]) for pair in nearest for side in upper})


# -- propensities -----------------------------------------------------------------------------------------------------


def propensity_warning(model: ne.NashEval) -> bool:
    """Tell whether the diagnostics warn that estimated propensities are off."""
    check = model.diagnostics().nuisances.check
    return check is not None and bool(check.is_off)


def forced_marginal(model: ne.NashEval, simulated: Simulated) -> Row:
    """Return whether shares of menus, forced on the same outcome models, are warned of, and what they move."""
    if simulated.random or simulated.with_propensity is None:
        return {}
    shares = fitted(simulated.log, outcome=outcomes_of(model), propensity="marginal")
    exact = fitted(simulated.with_propensity(), outcome=outcomes_of(model), propensity="known")
    return {"marginal_warned": propensity_warning(shares), **moved(shares, exact, simulated)}


def moved(shares: ne.NashEval, exact: ne.NashEval, simulated: Simulated) -> Row:
    """Return by how many standard errors the shares move selected means at most, whole log and there.

    The outcome models are the same, so that only the means of the corrections differ; the standard error is that of the
    corrections under the true propensities, which make up nearly all of it.

    Args:
        shares: a model with shares of menus for propensities.
        exact: a model with the true propensities.
    """
    chosen = np.flatnonzero(simulated.selected & compared(simulated))
    wrong, right = (model.stage1_.pseudo.estimand.corrections[:, chosen].toarray() for model in (shares, exact))
    row = {}
    for label, members in {"all": slice(None), "there": simulated.inside.get(simulated.there, slice(None))}.items():
        error = right[members].std(axis=0, ddof=1) / np.sqrt(len(right[members]))
        ratio = np.abs(wrong[members].mean(axis=0) - right[members].mean(axis=0)) / error
        row[f"moved_{label}"] = round(float(ratio.max(initial=0.0)), 3)
    return row


# -- what they show ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """Hits and trials of each log, (logs, 2); logs without trials are left out."""

    per_log: Array

    @staticmethod
    def of(rows: list[Row], measure: str) -> Share:
        per_log = np.array([row[measure] for row in rows], float).reshape(-1, 2)
        return Share(per_log[per_log[:, 1] > 0])

    @property
    def value(self) -> float:
        """Mean over logs of the share within a log."""
        return float((self.per_log[:, 0] / self.per_log[:, 1]).mean())

    def clustered(self) -> tuple[float, float]:
        """Return the 99% interval of the mean over logs: Student's t over the shares of logs.

        Where all logs have the same share (all at 1, say) they have no spread to go by. Then every log counts as one
        trial, and the interval is the exact binomial one: on the safe side, as if the trials of a log were all alike.
        """
        shares = self.per_log[:, 0] / self.per_log[:, 1]
        if len(shares) < 2 or shares.std() == 0 or set(self.per_log[:, 1]) == {1.0}:
            return exact_interval(round(self.value * len(shares)), len(shares))
        half = float(t.ppf(0.995, len(shares) - 1) * shares.std(ddof=1) / np.sqrt(len(shares)))
        return max(self.value - half, 0.0), min(self.value + half, 1.0)

    def meets_bar(self) -> bool:
        low, high = self.clustered()
        return low <= BAR[1] and high >= BAR[0]


def coverage_lines(rows: list[Row]) -> Iterator[list[str]]:
    for world, logs in by_world(rows).items():
        for measure, words in MEASURES.items():
            share = Share.of(logs, measure)
            if not len(share.per_log) or (measure == "bridged" and not world.startswith(("star", "chain"))):
                continue
            low, high = share.clustered()
            met = ("yes" if share.meets_bar() else "NO") if measure in HELD_TO_BAR else ""
            widths = [log["width"][measure] for log in logs if measure in log["width"]]
            width = f"{np.mean(widths):.3f}" if widths else ""
            yield [world, words, f"{len(logs)}", f"{share.value:.3f}", f"{low:.3f} to {high:.3f}", met, width]


def claim_lines(rows: list[Row]) -> Iterator[list[str]]:
    for world, logs in by_world(rows).items():
        cells = [world, f"{len(logs)}"]
        for claim in CLAIMS:
            share = Share.of(logs, claim)
            cells.append(rate(int(share.per_log[:, 0].sum()), len(share.per_log), most=0.05))
        fired = rate(sum(log["warned"] for log in logs), len(logs), most=0.05 if logs[0]["random"] else 1.0)
        due = [log for log in logs if max(log.get("moved_all", 0), log.get("moved_there", 0)) >= MOVED]
        forced = rate(sum(log["marginal_warned"] for log in due), len(due), least=0.8) if due else ""
        fit, whole = (float(np.mean([log[name] for log in logs])) for name in ("fit_seconds", "seconds"))
        yield [*cells, fired, f"{forced} ({len(due)} logs)" if due else "", f"{fit:.1f} / {whole:.1f}"]


def rate(hits: int, trials: int, *, most: float = 1.0, least: float = 0.0) -> str:
    """Write a rate with its exact interval, and "NO" where that lies above `most`, or the rate is below `least`."""
    low, high = exact_interval(hits, trials)
    miss = " NO" if low > most or hits < least * trials else ""
    return f"{hits / trials:.2f} [{low:.2f}, {high:.2f}]{miss}"


def by_world(rows: list[Row]) -> dict[str, list[Row]]:
    return {name: logs for name in WORLDS if (logs := [row for row in rows if row["world"] == name])}


TABLES = (
    ("Share covered by 95% intervals; the 99% interval, a log a cluster, must meet 0.93 to 0.97", coverage_lines,
     ("world", "intervals of", "logs", "covered", "99%, a log a cluster", "meets", "mean width")),
    ("False claims, exact 99%, not significantly above 0.05; propensity warnings; CPU seconds", claim_lines,
     ("world", "logs", *CLAIMS.values(), "propensity warning", "warning, shares forced", "fit / all")),
)  # fmt: skip


def show(only: list[str], logs: int, outcome: str, jobs: int, path: Path, *, markdown: bool) -> None:
    """Study the logs that are missing, a log of every world in turn, and print the tables."""
    unknown = [name for name in only if name not in WORLDS]
    if unknown:
        raise SystemExit(f"There is no world {unknown[0]!r}; there are {', '.join(WORLDS)}.")
    seeds = range(FIRST_SEED, FIRST_SEED + logs)
    cells = [Cell.of(world=world, seed=seed, outcome=outcome) for seed in seeds for world in only or WORLDS]
    rows = labelled(run_cells(study, cells, path, jobs=jobs, skip_failures=True))
    if len(rows) < len(cells):
        print(f"{len(cells) - len(rows)} of {len(cells)} logs failed; run it again to try them once more.")
    for title, lines, columns in TABLES:
        print_table(title, columns, list(lines(rows)), markdown=markdown)
