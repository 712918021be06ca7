"""`NashEval`: fit() goes through the stages of the paper's figure, one line per stage, top to bottom."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError as SklearnNotFitted

from nasheval.arrays import Floats, is_whole
from nasheval.audit.audit import PARTS, Audit, audit
from nasheval.choices import Device, Engine, Search
from nasheval.contexts.table import as_table, count_rows, one_row
from nasheval.engine import chosen_device, workers
from nasheval.errors import InputError
from nasheval.feedback.groups import chosen_contexts
from nasheval.feedback.log import Feedback
from nasheval.feedback.readers.votes import read_votes
from nasheval.game.costs import SoftBudget
from nasheval.game.regularizers import L2, Regularizer
from nasheval.nuisance.learners import Effort, run_all
from nasheval.nuisance.trees import TreeOutcome, TreePropensity
from nasheval.payoff.aggregators import AnyAggregator, Mean
from nasheval.payoff.bridging import Unseen
from nasheval.payoff.clusters import Speaks
from nasheval.payoff.cycles import Cycle
from nasheval.payoff.inference import GroupPayoff, group_payoff, payoffs_by
from nasheval.payoff.second_stage import SecondStage
from nasheval.payoff.stage1 import Stage1, fit_stage1
from nasheval.payoff.stage1_diagnostics import Stage1Diagnostics
from nasheval.payoff.surfaces import Boosting, Regressor
from nasheval.payoff.updated import update_stage1, votes_like
from nasheval.policy.availability import among_available
from nasheval.policy.base import Policy, PolicyLearner, block_of
from nasheval.policy.choosing import choose, winner_sets
from nasheval.policy.exact import ExactPolicy
from nasheval.policy.learned import LearnedPolicy
from nasheval.policy.router import Router
from nasheval.policy.terms import Terms
from nasheval.progress import stages
from nasheval.scoring.adjustments import Adjusted, adjusted_payoffs
from nasheval.scoring.decision import MARGIN, Decision, decide
from nasheval.scoring.explain import Explanation, explain
from nasheval.scoring.leaderboard import as_frame, standings

Tune = Literal[False] | Search
_SHARES = {"nuisances": 0.75, "payoffs": 0.2, "policy": 0.05}
_STAGE1 = (
    *("outcome", "propensity", "second_stage", "strength", "boosting", "aggregator", "unseen", "folds", "adjust"),
    *("text_encoder", "text_dim"),
)
_REFIT = ("outcome", "propensity", "adjust", "tune")
_TERMS = ("regularizer", "costs", "cost_weight", "budget")
_UNCHANGED: Any = object()
_LARGEST_SEED = 2**31 - 1  # of LightGBM


class NotFittedError(InputError, SklearnNotFitted):  # type: ignore[misc]  # scikit-learn is not typed
    """A model that was asked before it was fitted."""


@dataclass(kw_only=True, eq=False, repr=False)
class NashEval(BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Learns x -> the maximal lottery of the preference game at context x, from selective relative feedback.

    Args:
        outcome: "voters", "lightgbm", "stack" or any scikit-learn regressor; see `choose_outcome`.
        propensity: "auto", "known", "lightgbm", "multinomial", "marginal" or any scikit-learn classifier.
        second_stage: "corrected", "shared" (Algorithm 1), "per-pair" or "none" (plug-in).
        aggregator: how menus make one payoff: "auto" (Mean() where every menu of a pair was asked 30 times, else
            AsAsked()), Mean(), AsAsked(), Weighted(...) or Cubic(...).
        regularizer: of the game: L2(rho) or Entropy(tau).
        costs: {agent: cost}, or {agent: context column that holds it}, in your units.
        cost_weight: weight of costs scaled to [0, 1].
        budget: hard expected cost per context, in your units; or a SoftBudget.
        policy: "exact" (solve the estimated game) or "learned" (a network trained with the gap loss), or a learner.
        strength: of the correction in "corrected", for all pairs, from 0 (the plug-in) to 1 (all of it, so that A(x)
            is Neyman orthogonal); None: one per pair, chosen on held-out folds.
        boosting: of the payoff regression; None: the paper's; for "per-pair" also a scikit-learn regressor.
        folds: of the cross-fitting.
        unseen: pairs that were never compared: "model" (bridged by the outcome model, and marked), "tie" (the paper's)
            or "refuse" (an error).
        availability: a context column of few values: only agents seen at its value are candidates there.
        text_encoder: None (WordLlama), "auto" (the best of those installed), the name of a sentence-transformers model,
            a `TextEncoder`, or a function of a list of texts that returns one vector each.
        text_dim: vectors of texts, and columns of vectors, that are longer are cut to so many dimensions by PCA.
        adjust: "position", "style" or columns of it: payoffs and lotteries are then those at equal style (`as_voted`).
        tune: False, "fast" or "paper": search hyperparameters of LightGBM and of the learned policy.
        random_state: seed of everything.
        n_jobs: threads, or workers of the cluster; None: all cores.
        device: where networks are trained and many contexts predicted: "auto", "cpu" or "cuda".
        engine: "local" (threads of this process) or "ray" (the workers of a Ray cluster); same numbers.
        verbose: whether to show progress.

    After `fit`: `stage1_` (nuisances, pseudo-outcomes, payoff), `policy_`, `agents_`, `feature_names_in_`; after
    `update` also `update_` (`UpdateReport`).
    """

    outcome: Any = "voters"
    propensity: Any = "auto"
    second_stage: SecondStage = "corrected"
    aggregator: AnyAggregator = "auto"
    regularizer: Regularizer = L2(rho=1e-3)  # noqa: RUF009 (frozen)
    costs: Any = None
    cost_weight: float = 0.0
    budget: float | SoftBudget | None = None
    policy: Any = "exact"
    strength: float | None = None
    boosting: Boosting | Regressor | None = None
    folds: int = 5
    unseen: Unseen = "model"
    availability: str | None = None
    text_encoder: Any = None
    text_dim: int | None = None
    adjust: Sequence[str] | str = ()
    tune: Tune = False
    random_state: int = 0
    n_jobs: int | None = None
    device: Device = "auto"
    engine: Engine = "local"
    verbose: bool = True

    @classmethod
    def paper(cls, *, rho: float = 1e-3, **options: Any) -> Self:
        """Return Algorithm 1 with the paper's learners, and nothing of ours.

        Both nuisances are trees from the middle of Table nuisance-ht-grid; the payoff regressor is `Boosting()`.

        Args:
            rho: of the L2 regulariser.
            options: anything else that `NashEval` takes, None for the default; the policy is the paper's network,
                trained with the gap loss at the middle of its grid unless `tune` is given.
        """
        trees = {"num_iterations": 100, "num_leaves": 15, "learning_rate": 0.1, "min_data_in_leaf": 50, "max_depth": 7}
        options = {name: value for name, value in options.items() if value is not None}
        terms = {name: options[name] for name in (*_TERMS, "tune") if name in options}
        settings: dict[str, Any] = {
            "outcome": TreeOutcome(params=trees),
            "propensity": TreePropensity(params=trees),
            "second_stage": "shared",
            "boosting": Boosting(seed=options.get("random_state", 0)),
            "regularizer": L2(rho),
            "aggregator": Mean(),
            "unseen": "tie",
            "policy": LearnedPolicy.paper(**{"regularizer": L2(rho), "tune": None, **terms}),
        }
        return cls(**{**settings, **options})

    # -- fitting ------------------------------------------------------------------------------------------------------

    def fit(self, feedback: Any, y: None = None) -> Self:
        """Learn from a log: a Feedback, the path of a vote file, or a DataFrame of votes."""
        log = feedback if isinstance(feedback, Feedback) else read_votes(feedback)
        effort, settings, learner = self._effort(), self._settings(_STAGE1), self._learner(log)
        with workers(self.engine, self.n_jobs) as pool, stages(_SHARES, show=self.verbose) as begin:
            effort = replace(effort, workers=pool)
            stage1 = fit_stage1(log, **settings, tune=self.tune or None, effort=effort, begin=begin)
            return self._settled(stage1, learner, replace(effort, advance=begin("policy")))

    def update(
        self, feedback: Any, *, min_votes: int = 0, costs: Any = _UNCHANGED, propensity: Any = _UNCHANGED
    ) -> Self:
        """Return the model with more votes, new agents among them, in seconds; this one stays as it is.

        What was learned of known agents stays, newcomers' utilities are learned on top, and intervals are from all
        votes (docs/guides/updates.md). `update_` of the result says what is new, and whether a full refit is due.

        Args:
            feedback: votes it has not seen, as for `fit`, with the same context columns.
            min_votes: newcomers with fewer votes are left out, and named.
            costs, propensity: in place of those of the model, where newcomers need others.
        """
        stage1, model = self._stage1, copy(self).set_params(**_given(costs=costs, propensity=propensity))
        log = votes_like(feedback, stage1)
        with workers(self.engine, self.n_jobs) as pool, stages(_SHARES, show=self.verbose) as begin:
            effort = replace(model._effort(), workers=pool)
            how = {**model._settings(("propensity", "aggregator", "unseen", "adjust")), "min_votes": min_votes}
            how["effort"] = replace(effort, advance=begin("nuisances"))
            stage1, model.update_ = update_stage1(stage1, log, **how)
            return model._settled(stage1, model._learner(stage1.log), replace(effort, advance=begin("policy")))

    def _settled(self, stage1: Stage1, learner: PolicyLearner, effort: Effort) -> Self:
        """Return the model with its Stage 1, and the policy learned from it."""
        log, self.stage1_ = stage1.log, stage1
        self.policy_ = among_available(learner.fit(stage1, effort), log, self.availability)
        self.agents_ = log.agents
        self.feature_names_in_ = np.array(log.contexts.column_names, dtype=object)
        return self

    def as_voted(self) -> Self:
        """Return the model of payoffs as voted, from the same nuisances: nothing is adjusted for."""
        stage1, model = self._stage1.as_voted, copy(self).set_params(adjust=())
        return model._settled(stage1, model._learner(stage1.log), model._effort())

    def _learner(self, log: Feedback) -> PolicyLearner:
        """Return what learns the policy of Stage 2, checked against the log before Stage 1 takes its hours."""
        learner = self.policy
        if learner == "exact":
            learner = ExactPolicy(**self._settings(_TERMS))
        elif learner == "learned":
            learner = LearnedPolicy(**self._settings(_TERMS), tune=self.tune)
        if isinstance(learner, type) or not isinstance(learner, PolicyLearner):
            raise InputError(f"policy is {learner!r}; accepted are 'exact', 'learned' or a policy with a fit method.")
        for owner in (self, learner) if isinstance(learner, ExactPolicy | LearnedPolicy) else (self,):
            terms = Terms(**{name: getattr(owner, name) for name in _TERMS})
            terms.omega(terms.costs_at(log.agents, log.contexts), log.n_contexts, log.n_agents)
        among_available(learner, log, self.availability)  # type: ignore[arg-type]  # for its checks of the column
        return learner

    def _settings(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    def _effort(self) -> Effort:
        if not is_whole(self.random_state, 0, _LARGEST_SEED):
            accepted = "a whole number of 0 or more, below 2**31"
            raise InputError(f"random_state is {self.random_state!r}; accepted is {accepted}.")
        if not (self.n_jobs is None or (is_whole(self.n_jobs) and self.n_jobs)):
            raise InputError(f"n_jobs is {self.n_jobs!r}; accepted is a whole number other than 0, or None: all cores.")
        jobs = self.n_jobs or os.cpu_count() or 1
        return Effort(seed=self.random_state, n_jobs=jobs, device=chosen_device(self.device))

    # -- asking -------------------------------------------------------------------------------------------------------

    def predict_proba(
        self,
        contexts: object,
        *,
        agents: Sequence[str] | None = None,
        cost_weight: float = _UNCHANGED,
        budget: float | SoftBudget | None = _UNCHANGED,
    ) -> Floats:
        """Return (n, K) lotteries.

        What is given here replaces what the model was fitted with, and the estimated games are solved anew; a learned
        policy is bypassed then, since it was trained for the old ones.

        Args:
            contexts: DataFrame, records, or the array the log was built with.
            agents: those that are up; the others get zero.
            cost_weight, budget: see `NashEval`.
        """
        self._check_fitted()
        changed = _given(cost_weight=cost_weight, budget=budget)
        policy: Policy = self.policy_
        if changed:
            policy = ExactPolicy(**{**self._settings(_TERMS), **changed}).fit(self.stage1_, Effort(device=self.device))
            policy = among_available(policy, self.stage1_.log, self.availability)
        return self._lotteries(policy, contexts, agents)

    def _lotteries(self, policy: Policy, contexts: object, agents: Sequence[str] | None) -> Floats:
        """Ask a policy: on a cluster, chunk by chunk."""
        step = block_of(len(self.agents_))
        if self.engine == "local" or count_rows(contexts) <= step:
            return policy.predict_proba(contexts, agents=agents)
        table, starts = as_table(contexts), range(0, count_rows(contexts), step)
        with workers(self.engine, self.n_jobs) as pool, stages({"predicting": 1.0}, show=self.verbose) as begin:
            effort = Effort(workers=pool, advance=begin("predicting"))
            chunks = run_all(
                lambda start: policy.predict_proba(table.slice(start, step), agents=agents), starts, len(starts), effort
            )
        return np.concatenate(chunks)

    def predict(
        self,
        contexts: object,
        *,
        utility: Callable[[str, Any], float] | None = None,
        agents: Sequence[str] | None = None,
        seed: int | None = None,
        **preferences: Any,
    ) -> list[str]:
        """Return one agent per context, by name.

        Args:
            utility: callable(agent, context) that picks inside the winner set; None: the most probable agent.
            agents: those that are up.
            seed: draw from the lottery instead.
            preferences: cost_weight, budget; see `predict_proba`.
        """
        lotteries = self.predict_proba(contexts, agents=agents, **preferences)
        return choose(lotteries, self.agents_, contexts, utility=utility, seed=seed)

    def winners(self, contexts: object, **options: Any) -> list[list[str]]:
        """Return the winner set at each context: the agents with more than 0.001 of the lottery."""
        return winner_sets(self.predict_proba(contexts, **options), self.agents_)

    def router(self) -> Router:
        """Return what answers one context at a time fastest: `router(context)` is the lottery (K,) there.

        Its answers are bit for bit those of `predict_proba`.
        """
        self._check_fitted()
        return Router(self.policy_).ready()

    def payoff(self, contexts: object) -> Floats:
        """Return A(x), (n, K, K)."""
        return self._stage1.payoffs(contexts, self.device)

    def explain(self, context: object, **options: Any) -> Explanation:
        """Return what stands behind the lottery at one context: the game, the nearest contexts, the heaviest votes."""
        stage1, table = self._stage1, one_row(context)
        return explain(stage1, table, self.predict_proba(table)[0], **options)

    def score(self, feedback: Any, y: None = None) -> float:
        """Return minus the mean squared error of A(x) as a prediction of the verdicts of a log: higher is better.

        A quick figure for scikit-learn's searches; `nasheval.evaluate` compares policies, with intervals.

        Args:
            feedback: as for `fit`, with the same agents, or some of them.
        """
        from nasheval.scoring.evaluate import squared_error

        log = feedback if isinstance(feedback, Feedback) else read_votes(feedback)
        return -squared_error(self._stage1.as_voted, log)

    # -- the log as a whole -------------------------------------------------------------------------------------------

    def leaderboard(self, by: str | None = None, *, confidence: float = 0.95, voters: Speaks | None = None) -> Any:
        """Return a DataFrame: group, agent, lottery, lower, upper, frequency, in_support, rating, votes, tied, ...

        It is of pandas where that is installed, else of polars, else a pyarrow Table; columns as in `Standing`. The
        score by the rule of the tool that wrote the log, where it has one, stands in a column of the tool's name.
        Agents without a vote in a group are no candidates there and are left out, as are groups without a vote. Groups
        whose votes tell no agents apart (all of them are `tied`) come last.

        Args:
            by: a context column; None: one group, "all".
            confidence: share of bootstrap draws within lower and upper, which are a stability range.
            voters: whom uncertainty speaks for, as in `payoff_interval`.
        """
        groups = self._groups(by, confidence, voters)
        with workers(self.engine if len(groups) > 1 else "local", self.n_jobs) as pool:
            rows = list(standings(self._stage1.log, groups, self.regularizer, Effort(workers=pool)))
            return as_frame(self._stage1.log, rows, self._stage1.estimand)

    def decision(
        self,
        by: str | None = None,
        *,
        margin: float = MARGIN,
        costs: Any = None,
        confidence: float = 0.95,
        voters: Speaks | None = None,
    ) -> Decision:
        """Return which agent to ship, or that the votes cannot decide and how many more might; `print` it.

        Args:
            by: a context column: groups in which another agent is certainly better are named.
            margin: how much worse than the leader an agent may be and still be shipped.
            costs: as in `NashEval`, to ship the cheapest such agent; None: those of the model.
            confidence: of everything that is said of all contexts, and of everything that is said of groups.
            voters: whom it speaks for, as in `payoff_interval`.
        """
        [whole], groups = (
            self._groups(None, confidence, voters),
            [] if by is None else self._groups(by, confidence, voters),
        )
        prices = self.costs if costs is None else costs
        how: dict[str, Any] = {"costs": prices, "margin": margin, "budget": self.budget}
        return decide(self._stage1.log, whole, groups, column=by or "", **how)

    def payoff_interval(
        self, group: Any = None, *, confidence: float = 0.95, voters: Speaks | None = None
    ) -> GroupPayoff:
        """Return the mean payoff matrix of a group of contexts with simultaneous intervals.

        Args:
            group: None: all contexts of the log; {column: value, ...}; (n_contexts,) booleans; or a callable that
                takes the contexts as an Arrow table and returns booleans.
            voters: whom the intervals speak for: "panel", these very voters, or "population", others like them (needs
                names); None: the population with 20 named voters or more, the panel with fewer.
        """
        stage1 = self._stage1
        inside, name = chosen_contexts(stage1.log, group)
        how: dict[str, Any] = {"confidence": confidence, "voters": voters, "seed": self.random_state}
        return group_payoff(stage1.pseudo, inside, name=name, **how)

    def cycles(
        self, by: str | None = None, *, confidence: float = 0.95, voters: Speaks | None = None
    ) -> dict[str, tuple[Cycle, ...]]:
        """Return, for each group, the cycles whose edges all hold at the stated confidence, simultaneously.

        Only pairs that were compared in the group make a cycle.
        """
        return {group.name: group.cycles() for group in self._groups(by, confidence, voters)}

    def audit(self, by: str | None = None, **options: Any) -> Audit:
        """Return what the winners hang on: votes, voters, and what was not measured; options: of `audit.audit.audit`.

        Args:
            by: a context column: the winners of each of its values are looked at too.
        """
        how = {**self._settings(("regularizer",)), "settings": self._settings(_REFIT), **options}
        shares = {name: share for name, (share, _) in PARTS.items()}
        stage1 = self._stage1
        with workers(self.engine, self.n_jobs) as pool, stages(shares, show=self.verbose) as begin:
            return audit(stage1, by=by, effort=replace(self._effort(), workers=pool), begin=begin, **how)

    def adjustment(self, group: Any = None, **options: Any) -> Adjusted | None:
        """Return both estimands with their difference, None without adjust; arguments as in `payoff_interval`."""
        inside, name = chosen_contexts(self._stage1.log, group)
        return adjusted_payoffs(self._stage1, inside, group=name, **options)

    def diagnostics(self) -> Stage1Diagnostics:
        """Return how well the nuisances fit, the overlap, and what debiasing changed and where."""
        return Stage1Diagnostics.of(self._stage1)

    @property
    def _stage1(self) -> Stage1:
        self._check_fitted()
        return self.stage1_

    def _check_fitted(self) -> None:
        if not hasattr(self, "policy_"):
            raise NotFittedError("This NashEval is not fitted; call fit first, with a log, or load a saved model.")

    def _groups(self, by: str | None, confidence: float, voters: Speaks | None = None) -> list[GroupPayoff]:
        return payoffs_by(self._stage1.pseudo, by, confidence=confidence, voters=voters, seed=self.random_state)

    def save(self, path: Any, **options: Any) -> None:
        """Write the fitted model to a folder; see `nasheval.store.save`."""
        from nasheval.store import save

        self._check_fitted()
        save(self, path, **options)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not _UNCHANGED}


def load(path: Any, *, text_encoder: Any = None) -> NashEval:
    """Return the model that `NashEval.save` wrote to a folder; nothing in the folder is run.

    Its texts are tags unless they were kept, its voters are numbers, and its propensities are known at the log's
    records only; everything else answers as the model that was saved.

    Args:
        text_encoder: what embeds new texts, as in `NashEval`: the function or folder that the model was fitted with,
            which it does not hold, or its model by name, whose weights are then fetched where they are not here.
    """
    from nasheval.store import load as load_folder

    return load_folder(path, NashEval, text_encoder=text_encoder)
