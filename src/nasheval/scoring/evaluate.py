"""`evaluate`: which of several policies to take, decided on a held-out log."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nasheval.arrays import Floats
from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import InputError
from nasheval.feedback.groups import by_value
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.notes import few
from nasheval.nuisance.learners import Effort, Features
from nasheval.payoff.aggregators import AnyAggregator
from nasheval.payoff.anytime import PLANNED, checked_planned
from nasheval.payoff.clusters import Speaks
from nasheval.payoff.grouped import Cluster
from nasheval.payoff.intervals import checked_level
from nasheval.payoff.stage1 import Stage1, fit_stage1
from nasheval.policy.base import Policy, PolicyLearner, chunk_of
from nasheval.policy.terms import AnyCosts
from nasheval.progress import stages
from nasheval.scoring.heldout import Evaluation, costs_of, score


def evaluate(
    policies: Mapping[str, Policy | PolicyLearner],
    test: Feedback,
    *,
    train: Feedback | Stage1 | None = None,
    by: str | None = None,
    costs: AnyCosts | None = None,
    outcome: Any = "voters",
    propensity: Any = "auto",
    aggregator: AnyAggregator = "auto",
    folds: int = 5,
    adjust: Sequence[str] | str | None = None,
    encoder: ContextEncoder | None = None,
    cluster: Cluster | None = None,
    voters: Speaks | None = None,
    confidence: float = 0.95,
    sequential: bool = False,
    planned: int = PLANNED,
    seed: int = 0,
    n_jobs: int = 1,
    device: str = "cpu",
    verbose: bool = True,
) -> Evaluation:
    """Compare policies on a log that none of them has seen, by doubly robust head-to-head values with intervals.

    The payoff is that of the test log's menus. Under design "inclusion" every context counts, under "draws" those with
    a record do. `Evaluation.best` and `verdict` rest on head-to-head values: the worst single opponent only bounds
    exploitability from below, and the maximal lottery of the mean payoffs makes that bound 0 by construction.

    Args:
        policies: by name; unfitted ones are fitted on `train`. Their agents are found in the log by name, in any order;
            agents of the log that a policy does not know get nothing from it.
        test: the held-out log, on which the nuisances of the evaluation are cross-fitted.
        train: the log to fit on, or its Stage 1; all unfitted policies share one Stage 1, that of an estimator among
            the policies if it was fitted on this very log.
        by: a context column; the policies are compared within each of its values too.
        costs: {agent: cost}, or {agent: context column that holds it}, in your units.
        outcome, propensity, aggregator, folds, encoder: of the nuisances, as in `fit_stage1`, for `test` and `train`.
        adjust: what to adjust for, as in `NashEval`: values are then those at equal style; None: what the estimators
            among the policies adjust for.
        cluster: "context", "voter" (contexts fixed) or "both"; None: chosen by `voters`.
        voters: whom the intervals speak for: "panel", these very voters, or "population", others like them; None: the
            population with 20 named voters or more, the panel with fewer.
        confidence: of the intervals.
        sequential: intervals that hold at every look together, however often you look at a log that grows; they are
            narrowest about `planned` votes, which is named before the first look and stays.
        planned: the votes about which you expect to decide.
        seed: of everything that is drawn.
        n_jobs: threads or processes of the nuisances.
        verbose: show a progress bar, where there is a terminal.
    """
    adjust = _adjusted_alike(policies) if adjust is None else adjust
    train = _known_stage1(policies, train)
    policies = _checked(policies, test, train)
    checked_level(confidence)
    looks = checked_planned(planned) if sequential else None
    # Say what is wrong before an hour of fitting.
    if by is not None:
        by_value(test, by, np.ones(test.n_contexts, bool))
    if costs is not None:
        costs_of(test, costs)
    learners = {
        "outcome": outcome,
        "propensity": propensity,
        "aggregator": aggregator,
        "encoder": encoder,
        "adjust": adjust,
    }
    fitted = all(isinstance(policy, Policy) for policy in policies.values())
    share = 1.0 if fitted or not isinstance(train, Feedback) else 0.5  # of one fit, where there may be two
    with stages({"Fitting nuisances": 1.0}, show=verbose and sys.stderr.isatty()) as begin:
        effort = Effort(seed, n_jobs, device, begin("Fitting nuisances")).share(share)

        def stage1_of(log: Feedback, **options: Any) -> Stage1:
            return fit_stage1(log, folds=min(folds, log.n_contexts), effort=effort, **learners, **options)

        stage1 = stage1_of(train) if isinstance(train, Feedback) and not fitted else train
        played = {name: _fitted(policy, stage1, effort.share(0.0)) for name, policy in policies.items()}
        lotteries = {name: lotteries_of(name, policy, test) for name, policy in played.items()}
        pseudo = stage1_of(test, second_stage="none").pseudo
    how: dict[str, Any] = {"cluster": cluster, "voters": voters, "confidence": confidence, "seed": seed}
    return score(pseudo, lotteries, by=by, costs=costs, planned=looks, **how)


def squared_error(stage1: Stage1, log: Feedback) -> float:
    """Return the mean squared error of A(x) as a prediction of the verdicts of a log, by their weight."""
    if unknown := [name for name in log.agents if name not in stage1.agents]:
        raise InputError(f"The model does not know {unknown[0]!r}; it knows {few(stage1.agents, 8)}.")
    verdicts, place = log.verdicts, np.array([stage1.agents.index(name) for name in log.agents])
    told = verdicts.zero != Zero.CENSORED
    context, weight = log.context_of[verdicts.record], log.records.weights[verdicts.record] * told
    if not weight.any():
        raise InputError("This log has no verdicts to compare with; give one that has.")
    X, total, step = Features.of(stage1.encoder, log.contexts, n=log.n_contexts), 0.0, chunk_of(len(stage1.agents))
    for start in range(0, log.n_contexts, step):
        payoffs = stage1.payoff.predict(X[start : start + step])
        here = slice(*np.searchsorted(context, (start, start + step)))
        agents = place[verdicts.j[here]], place[verdicts.k[here]]
        error = verdicts.z[here] - payoffs[context[here] - start, *agents]
        total += float(weight[here] @ error**2)
    return total / float(weight.sum())


def _fitted(policy: Any, stage1: Any, effort: Effort) -> Policy:
    return policy if isinstance(policy, Policy) else policy.fit(stage1, effort)


def _adjusted_alike(policies: Any) -> Sequence[str] | str:
    """Return what all estimators among the policies adjust for; raise where they differ."""
    found = [policy.adjust for policy in policies.values() if hasattr(policy, "adjust")] if policies else []
    if len({(each,) if isinstance(each, str) else tuple(each) for each in found}) > 1:
        raise InputError(
            f"The policies adjust for different things ({few([repr(each) for each in found], 4)}), and values as voted "
            "are not values at equal style; say which to compare by, with adjust=() or adjust=('style',)."
        )
    return found[0] if found else ()


def _known_stage1(policies: Any, train: Feedback | Stage1 | None) -> Feedback | Stage1 | None:
    """Return the Stage 1 of the training log where a fitted estimator among the policies has it."""
    for policy in policies.values() if isinstance(policies, Mapping) else ():
        stage1 = getattr(policy, "stage1_", None)
        if isinstance(stage1, Stage1) and stage1.log is train:
            return stage1
    return train


def _checked(policies: Any, test: Feedback, train: Feedback | Stage1 | None) -> dict[str, Policy | PolicyLearner]:
    """Return the policies, those inside fitted estimators taken out; raise for what cannot be evaluated."""
    if not isinstance(policies, Mapping) or not policies:
        raise InputError(f"policies is {policies!r}; accepted is a mapping of names to at least one policy.")
    usable = {name: _usable(name, policy) for name, policy in policies.items()}
    unfitted = [name for name, policy in usable.items() if not isinstance(policy, Policy)]
    if unfitted and train is None:
        raise InputError(f"{', '.join(unfitted)}: not fitted, and train is None; give the log to fit on (train=...).")
    if test is (train.log if isinstance(train, Stage1) else train):
        raise InputError("train and test are the same log; split it first: train, test = log.split(0.8).")
    if not test.n_records:
        raise InputError("test has no records, so it says nothing about any policy; give a log with some.")
    return usable


def _usable(name: str, policy: Any) -> Policy | PolicyLearner:
    inside = getattr(policy, "policy_", policy)  # that of a fitted estimator
    if isinstance(inside, Policy):
        return inside
    if callable(getattr(inside, "predict_proba", None)):
        raise InputError(f"{name!r} is not fitted; call its fit on the training log first.")
    if isinstance(inside, PolicyLearner):
        return inside
    raise InputError(
        f"The policy {name!r} is {policy!r}; accepted is something with agents and predict_proba, or with fit where it "
        f"is still to be fitted."
    )


def lotteries_of(name: str, policy: Policy, log: Feedback) -> Floats:
    """Return a policy's lotteries at the contexts of a log, (n_contexts, K), agents as in the log."""
    if unknown := [agent for agent in policy.agents if agent not in log.agents]:
        raise InputError(
            f"The policy {name!r} plays {', '.join(map(repr, unknown))}, which the test log never names; its agents "
            f"are {', '.join(log.agents)}. Fit the policy on those, or test where all its agents occur."
        )
    asked = log.contexts if log.contexts.num_columns else [{}] * log.n_contexts
    played = np.asarray(policy.predict_proba(asked), np.float64)
    if played.shape != (log.n_contexts, len(policy.agents)):
        raise InputError(
            f"The policy {name!r} gave lotteries of shape {played.shape} at {log.n_contexts} contexts for "
            f"{len(policy.agents)} agents; accepted is ({log.n_contexts}, {len(policy.agents)})."
        )
    if not (np.abs(played.sum(axis=1) - 1) <= 1e-6).all() or (played < -1e-9).any():
        raise InputError(f"The policy {name!r} gave lotteries with negative chances or that do not sum to 1.")
    lotteries = np.zeros((log.n_contexts, log.n_agents))
    lotteries[:, [log.agents.index(agent) for agent in policy.agents]] = np.maximum(played, 0)
    return lotteries / lotteries.sum(axis=1, keepdims=True)
