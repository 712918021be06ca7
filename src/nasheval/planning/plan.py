"""`plan`: how many votes until what, from a model, a log or a guess, and which menus to ask next."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nasheval.arrays import Bools, Floats, as_number, is_whole
from nasheval.choices import Speaks
from nasheval.errors import Argument, InputError
from nasheval.feedback.groups import chosen_contexts
from nasheval.feedback.log import Feedback
from nasheval.files import check_file
from nasheval.game.regularizers import L2
from nasheval.game.solver import lotteries
from nasheval.notes import few
from nasheval.nuisance.learners import Effort, Features
from nasheval.nuisance.outcome import choose_outcome
from nasheval.payoff.clusters import SPEAKS
from nasheval.payoff.inference import GroupPayoff, group_payoff, payoffs_by
from nasheval.payoff.intervals import checked_level
from nasheval.payoff.stage1 import Stage1, fit_stage1
from nasheval.planning.asking import FLOOR, asking
from nasheval.planning.curves import Curve, curves_of
from nasheval.planning.doubts import doubts
from nasheval.planning.future import pairs_of
from nasheval.planning.goals import CycleGoal, Goal, Leader, Width, goals_of, pairs_among
from nasheval.planning.guess import MARGINS, guessed
from nasheval.planning.learning import Learning, learning_of
from nasheval.planning.menus import Tasks, checked_tasks, draw_menus, drawn_contexts, pool_of, tasks_of
from nasheval.planning.saying import Saying
from nasheval.policy.availability import candidates
from nasheval.policy.base import Policy, available
from nasheval.policy.exact import ExactPolicy
from nasheval.scoring.decision import MARGIN, decide

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEP = 1 << 21  # pairs at contexts held at a time
_MOST_GROUPS = 20
_LARGE = 0.2  # of the votes: what one voter casts
_PICTURES = (".png", ".svg", ".pdf")


class Fitted(Protocol):
    """What a plan asks of a fitted model; `NashEval` is one."""

    @property
    def stage1_(self) -> Stage1:
        """Its Stage 1."""

    @property
    def policy_(self) -> Policy:
        """Its policy."""

    @property
    def outcome(self) -> Any:
        """Its outcome model, as `choose_outcome` takes it."""

    @property
    def random_state(self) -> int:
        """Its seed."""


@dataclass(frozen=True, eq=False)
class Plan(Saying):
    """How many votes are needed for what, and what to ask next; `print` it, or `plot` it.

    Args:
        curves: one per group and goal.
        power: the chance with which a goal is to be reached.
        confidence: of intervals, decisions and cycles.
        settles: votes between leader and rivals alone that may settle the decision, by group; None where none would.
        model: what the plan is of; None: a guess.
        notes: what else to know.
    """

    curves: tuple[Curve, ...]
    power: float
    confidence: float
    settles: dict[str, int | None] = field(default_factory=dict)
    model: Fitted | None = None
    notes: tuple[str, ...] = ()

    def menus(
        self,
        n: int,
        floor: float = FLOOR,
        *,
        size: int = 2,
        contexts: object = None,
        agents: Sequence[str] | None = None,
        seed: int | None = None,
    ) -> Tasks:
        """Draw menus to ask next.

        Contexts come at random, as they are; which pair is asked at each is drawn from `asking`: more often a pair
        whose payoff matters to the equilibrium there, and every pair at no less than `floor` times its share.

        Args:
            n: how many tasks.
            floor: from 0 to 1, which is uniform asking.
            size: agents of a menu; a larger one is a pair, filled up with others.
            contexts: what to ask at, a table with the context columns; None: contexts of the log again.
            agents: those that may be asked; None: all of the log.
            seed: None: that of the model.
        """
        if self.model is None:
            raise InputError("This plan is of a guess: there is nothing to draw menus from; plan a model or a log.")
        stage1 = self.model.stage1_
        names, encoder = stage1.agents, stage1.encoder
        n, size = checked_tasks(n, size, len(names))
        _check_seed(seed)
        if contexts is None and stage1.hidden_texts:
            raise InputError(
                "This model was saved without its texts, and tags, which nobody can answer, stand in their place; name "
                "what to ask: ",
                *(Argument("contexts=table", flag="--contexts new.parquet"), ", or save it with "),
                *(Argument("keep_text", True, flag="--keep-text"), "."),
            )
        rng = np.random.default_rng((self.model.random_state if seed is None else seed, 23))
        needed = [column.name for column in encoder.columns] + list(encoder.texts)
        pool = pool_of(contexts, stage1.log.contexts, needed)
        table = drawn_contexts(pool, n, rng) if pool.column_names else pool
        able = _able(self.model.policy_, table, n, agents)
        if (least := int(able.sum(axis=1).min())) < size:
            raise InputError(Argument("size", size), f": at some context only {least} of the agents may be asked.")
        menu, propensity, total = np.empty((n, size), np.int64), np.empty(n), np.zeros(_n_pairs(names))
        step = max(1, _STEP // len(total))
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            part = table.slice(start, step) if pool.column_names else table
            chance = self._chances(part, floor, able[rows])
            menu[rows], propensity[rows] = draw_menus(chance, able[rows], size, rng)
            total += chance.sum(axis=0)
        return tasks_of(table, menu, propensity, names, floor, float(total.sum() ** 2 / (total**2).sum()))

    def _chances(self, contexts: pa.Table, floor: float, able: Bools) -> Floats:
        """Return (n, n_pairs) how likely each pair is asked at each context, given (n, K) which agents may be."""
        assert self.model is not None
        stage1, lottery = self.model.stage1_, np.zeros(able.shape)
        X = Features.of(stage1.encoder, contexts, n=len(able))
        payoff = stage1.payoff.predict(X)
        groups, group = np.unique(able, axis=0, return_inverse=True)
        for number, up in enumerate(groups):
            rows = np.flatnonzero(group.ravel() == number)
            names = [name for name, there in zip(stage1.agents, up, strict=True) if there]
            if contexts.column_names:
                lottery[rows] = self.model.policy_.predict_proba(contexts.take(pa.array(rows)), agents=names)
            else:
                lottery[rows] = lotteries(np.ascontiguousarray(payoff[rows]), L2(), up)
        return asking(lottery, payoff=payoff, doubt=doubts(stage1, X, lottery), floor=floor, available=able)

    def plot(self, curve: int | str | Curve = 0, *, ax: Axes | None = None) -> Axes:
        """Draw a curve: votes against what is expected of them, its band, and the goal.

        Args:
            curve: its number, its goal, or itself.
        """
        from nasheval.planning.plots import draw

        if isinstance(curve, str):
            found = [one for one in self.curves if one.goal == curve]
            if not found:
                raise InputError(f"curve is {curve!r}; accepted are {', '.join(one.goal for one in self.curves)}.")
            return draw(found[0], self.power, ax=ax)
        if not isinstance(curve, Curve) and not is_whole(curve, 0, len(self.curves) - 1):
            raise InputError(f"curve is {curve!r}; accepted is a number from 0 to {len(self.curves) - 1}, or a goal.")
        return draw(curve if isinstance(curve, Curve) else self.curves[curve], self.power, ax=ax)

    def save_plot(self, path: str | Path, curve: int | str | Curve = 0) -> None:
        """Write a picture of a curve: .png, .svg or .pdf."""
        if Path(path).suffix.lower() not in _PICTURES:
            raise InputError(f"{path}: accepted are pictures that end in {', '.join(_PICTURES)}.")
        check_file(Path(path))
        figure: Any = self.plot(curve).figure
        figure.savefig(path, dpi=150)


def plan(
    source: Any = None,
    *,
    goal: str | Sequence[str] | None = None,
    by: str | None = None,
    group: Any = None,
    agents: int | None = None,
    voters: Speaks | int | None = None,
    margins: npt.ArrayLike = MARGINS,
    margin: float = MARGIN,
    power: float = 0.8,
    confidence: float = 0.95,
    learning: bool = True,
    seed: int | None = None,
) -> Plan:
    """Plan how many votes to ask for, and which.

    New votes are taken to come as those so far did: at new contexts, from voters as new as those were, of pairs asked
    as often.

    Args:
        source: a fitted model, or a log; None: plan from `agents`, `voters` and `margins`, before there are votes.
        goal: "width=0.1" (of the intervals, on average over pairs), "leader" or "leader=0.02" (shown to be at most a
            margin worse than any other: the rule of `NashEval.decision`), "cycle" or "cycle=a>b>c" (all edges certain),
            or several of them; None: all three, a cycle where one is likely.
        by: a context column: a plan for each of its values.
        group: one group of contexts, as in `payoff_interval`.
        agents: without a source, how many.
        voters: without a source, how many there are; else whom intervals speak for, "panel" or "population".
        margins: without a source, by how much each agent beats every later one; or (K, K) payoffs.
        margin: of "leader" without a number.
        power: the chance with which a goal is to be reached.
        confidence: of intervals, decisions and cycles.
        learning: whether to find out how much better the outcome model gets with votes, which takes about a third of
            the time of its fit; else it is taken to stay as it is.
        seed: None: that of the model.
    """
    chance = as_number(power)
    if not 0 < chance < 1:
        raise InputError(Argument("power", power), "; accepted is a chance between 0 and 1, such as 0.8.")
    if not 0 <= as_number(margin) < 1:
        raise InputError(Argument("margin", margin), "; accepted is a number from 0 to below 1, such as 0.05.")
    _check_seed(seed)
    if source is None:
        if by is not None or group is not None:
            raise InputError("by= and group= are of a model or a log, and there is none; leave them out.")
        return _from_guess(goal, agents, voters, margins, margin, chance, confidence, seed or 0)
    if agents is not None or isinstance(voters, int) or np.ndim(margins) or margins != MARGINS:
        raise InputError("agents=, margins= and a number of voters are guesses for a plan without a model or log.")
    if voters is not None and voters not in SPEAKS:
        raise InputError(Argument("voters", voters), f"; accepted are {', '.join(map(repr, SPEAKS))}.")
    model = fitted_of(source, seed or 0)
    start = model.random_state if seed is None else seed
    payoffs = _payoffs(model, by, group, confidence, voters, start)
    notes = (*_left_out(payoffs[_MOST_GROUPS:]), *_dominant(model.stage1_.log))
    payoffs = payoffs[:_MOST_GROUPS]
    effort = Effort(seed=start, n_jobs=getattr(model, "n_jobs", None) or os.cpu_count() or 1)
    taught = learning and _can_be_taught(model)
    learned = learning_of(model.stage1_.nuisances, _outcome(model), effort) if taught else Learning()
    curves: list[Curve] = []
    settles: dict[str, int | None] = {}
    for payoff in payoffs:
        curves += _curves(model, payoff, goal, learned, margin, chance, start)
        doubt = decide(model.stage1_.log, payoff, margin=margin).doubt
        settles[payoff.name] = 0 if doubt is None else doubt.more_votes
    return Plan(tuple(curves), chance, confidence, settles, model, notes)


@dataclass(frozen=True, eq=False)
class _OfLog:
    """A log with its Stage 1, as a plan needs it."""

    stage1_: Stage1
    policy_: Policy
    outcome: Any
    random_state: int


def fitted_of(source: Any, seed: int = 0) -> Fitted:
    """Return a fitted model as it is, and of a log one with the defaults; anything else is an InputError."""
    if isinstance(source, Feedback):
        effort = Effort(seed=seed, n_jobs=os.cpu_count() or 1)
        stage1 = fit_stage1(source, effort=effort)
        return _OfLog(stage1, ExactPolicy().fit(stage1, effort), "voters", seed)
    if not hasattr(source, "policy_") or not isinstance(getattr(source, "stage1_", None), Stage1):
        what = "a NashEval that is not fitted" if hasattr(source, "get_params") else type(source).__name__
        raise InputError(f"source is {what}; accepted are a fitted NashEval, a Feedback, or None to plan from agents=.")
    model: Fitted = source
    return model


def _payoffs(
    model: Fitted, by: str | None, group: Any, confidence: float, voters: Speaks | None, seed: int
) -> list[GroupPayoff]:
    how: dict[str, Any] = {"confidence": confidence, "voters": voters, "seed": seed}
    pseudo = model.stage1_.pseudo
    if by is not None and group is not None:
        raise InputError("by= and group= were both given; give a column to plan for each value, or one group.")
    if group is None:
        return payoffs_by(pseudo, by, **how)
    inside, name = chosen_contexts(model.stage1_.log, group)
    return [group_payoff(pseudo, inside, name=name, **how)]


def _left_out(payoffs: Sequence[GroupPayoff]) -> Iterator[str]:
    if payoffs:
        named = few([payoff.name for payoff in payoffs], 4)
        yield f"Planned are the {_MOST_GROUPS} largest groups; left out: {named}. Name one (group=) to plan it."


def _dominant(log: Feedback) -> Iterator[str]:
    """Yield a warning of a voter who casts many of the votes: more of them tell little of others."""
    if log.records.voter is None:
        return
    share = float(np.bincount(log.records.voter[log.records.voter >= 0], minlength=1).max() / max(1, log.n_records))
    if share >= _LARGE:
        yield (
            f"One voter cast {share:.0%} of the votes. The plan takes new votes to come from new voters: if that voter "
            "casts as many of them, intervals hardly become narrower."
        )


def _check_seed(seed: object) -> None:
    if seed is not None and not is_whole(seed, 0):
        raise InputError(Argument("seed", seed), "; accepted is a whole number from 0, or None.")


def _outcome(model: Fitted) -> Any:
    return choose_outcome(model.outcome, tune=getattr(model, "tune", None) or None)


def _can_be_taught(model: Fitted) -> bool:
    """Tell whether a model has the contexts it was taught on: a saved one may hold tags in place of texts."""
    fit = model.stage1_.nuisances
    return len(fit.X) == fit.log.n_contexts and fit.log.n_contexts >= 4 * fit.n_folds


def _curves(
    model: Fitted,
    payoff: GroupPayoff,
    goal: str | Sequence[str] | None,
    learned: Learning,
    margin: float,
    power: float,
    seed: int,
) -> list[Curve]:
    log, pairs = model.stage1_.log, pairs_of(model.stage1_.pseudo, payoff)
    goals = goals_of(goal, pairs, margin)
    votes = int(np.diff(log.context_offsets)[payoff.inside].sum())
    today = [_reached(one, log, payoff) for one in goals]
    return curves_of(pairs, goals, learned, votes=votes, power=power, seed=seed, reached=today)


def _reached(goal: Goal, log: Feedback, payoff: GroupPayoff) -> bool:
    """Tell whether a goal is reached today, by the rules of today: those of intervals, decisions and cycles."""
    if isinstance(goal, Width):
        width = (payoff.upper - payoff.lower)[np.triu_indices(len(payoff.agents), 1)]
        return bool(width[pairs_among(payoff.present)].mean() <= goal.target)
    if isinstance(goal, Leader):
        return decide(log, payoff, margin=goal.margin).doubt is None
    if isinstance(goal, CycleGoal) and goal.agents:
        places = [payoff.agents.index(agent) for agent in goal.agents]
        return bool(all(payoff.beats()[a, b] for a, b in zip(places, (*places[1:], places[0]), strict=True)))
    return False


def _from_guess(
    goal: str | Sequence[str] | None,
    agents: int | None,
    voters: Speaks | int | None,
    margins: npt.ArrayLike,
    margin: float,
    power: float,
    confidence: float,
    seed: int,
) -> Plan:
    if agents is None:
        raise InputError(
            "There is nothing to plan from; give a fitted model or a log, or ",
            *(Argument("agents", 5), " to plan without one."),
        )
    if isinstance(voters, str):
        raise InputError(Argument("voters", voters), "; without a log, accepted is how many voters there are.")
    checked_level(confidence)
    names = ["leader", Width().name] if goal is None else [goal] if isinstance(goal, str) else list(goal)
    curves: list[Curve] = []
    for name in names or [""]:
        cyclic = name.strip().startswith("cycle")
        pairs = guessed(agents, voters, margins, cyclic=cyclic, confidence=confidence, seed=seed)
        goals = goals_of(name, pairs, margin)
        curves += curves_of(pairs, goals, Learning(), votes=len(pairs.votes), power=power, seed=seed, reached=[False])
    return Plan(tuple(curves), power, confidence)


def _able(policy: Policy, contexts: pa.Table, n: int, agents: Sequence[str] | None) -> Bools:
    """Return (n, K) which agents may be asked at each context: those wanted, and seen there under availability."""
    if contexts.column_names:
        return candidates(policy, contexts, agents)
    return np.tile(available(policy.agents, agents), (n, 1))


def _n_pairs(names: tuple[str, ...]) -> int:
    return len(names) * (len(names) - 1) // 2
