"""The methods of the paper's tables on one log, and their scores where the truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import nasheval as ne
from studies.arrays import Floats
from studies.harness.rows import Row

OURS = "NashEval (ours)"
PRINTED = "NashEval-debiased (printed)"
PER_PAIR = "NashEval-debiased (per pair)"
PLUG_IN = "NashEval-plug-in"
ORACLE = "NashEval-oracle (per pair)"
ORACLE_PRINTED = "NashEval-oracle (printed)"
BT_PLUG_IN = "BT-Plug-in"
BT_REG = "BT-Reg"
BT_DEBIASED = "BT-debiased / Borda"
MAXIMAL = "Maximal lottery"
ROBUST = "Robust maximal lottery"
PLURALISTIC = "Pluralistic leaderboard"
POOLED_BT = "Pooled BT"
BEST_SINGLE = "Best single agent"
UNIFORM = "Uniform"

PAPERS = (PRINTED, PER_PAIR)  # the two forms that the paper's text describes
TRANSITIVE = (BT_PLUG_IN, BT_REG, BT_DEBIASED)
GLOBAL = (MAXIMAL, ROBUST, PLURALISTIC, POOLED_BT, BEST_SINGLE, UNIFORM)
BASELINES = (*TRANSITIVE, *GLOBAL)


def common_options(seed: int) -> dict[str, Any]:
    """Return the arguments of `NashEval` that every fit of a study shares."""
    return {"random_state": seed, "n_jobs": 1, "verbose": False}


def lotteries(
    log: ne.Feedback,
    contexts: object,
    *,
    rho: float = 1e-3,
    seed: int = 0,
    groups: str | None = None,
    ours: Mapping[str, Any] | None = None,
    paper: Mapping[str, Any] | None = None,
) -> dict[str, Floats]:
    """Return the (n, K) lotteries of each method at n contexts; equilibria are exact.

    As in the paper, the baselines that need an estimated game take it from the same learners as its own forms.

    Args:
        log: what all methods learn from.
        rho: of the L2 regulariser.
        groups: context column of the robust lottery's groups; None leaves that lottery out.
        ours: other arguments of `NashEval`.
        paper: other arguments of `NashEval.paper`.
    """
    common = common_options(seed)
    trees = common | {"policy": "exact", "rho": rho} | dict(paper or {})
    best = ne.NashEval(**common | {"regularizer": ne.L2(rho)} | dict(ours or {})).fit(log)
    printed = ne.NashEval.paper(**trees).fit(log)
    a_pair = ne.NashEval.paper(**trees | {"second_stage": "per-pair"}).fit(log)
    fitted = {OURS: best, PRINTED: printed, PER_PAIR: a_pair}
    played = {name: model.predict_proba(contexts) for name, model in fitted.items()}
    played[PLUG_IN] = plug_in(printed, contexts, rho)
    return played | baselines(printed, contexts, rho=rho, seed=seed, groups=groups)


def plug_in(model: ne.NashEval, contexts: object, rho: float) -> Floats:
    """Return the equilibria (n, K) of a fitted model's plug-in payoff."""
    return np.asarray(ne.solve(plug_in_payoffs(model, contexts), regularizer=ne.L2(rho)).strategy)


def plug_in_payoffs(model: ne.NashEval, contexts: object) -> Floats:
    """Return a fitted model's plug-in payoff f(mu(x)), (n, K, K), without debiasing."""
    stage1 = model.stage1_
    return np.asarray(stage1.plug_in.predict(stage1.features(contexts)))


def baselines(
    model: ne.NashEval, contexts: object, *, rho: float, seed: int = 0, groups: str | None = None
) -> dict[str, Floats]:
    """Return the lotteries (n, K) of the baselines, with the nuisances and the game of a fitted model."""
    bt = ne.baselines
    learners: dict[str, Any] = {
        BT_PLUG_IN: bt.BradleyTerry(payoff="plug-in"),
        BT_REG: bt.RegularizedBT(ne.L2(rho)),
        BT_DEBIASED: bt.BradleyTerry(payoff="debiased"),
        MAXIMAL: bt.MaximalLottery(ne.L2(rho)),
        **({ROBUST: bt.RobustMaximalLottery(groups)} if groups else {}),
        PLURALISTIC: bt.PluralisticLeaderboard(seed=seed),
        POOLED_BT: bt.PooledBT(),
        BEST_SINGLE: bt.BestSingle(),
        UNIFORM: bt.Uniform(),
    }
    return {name: learner.fit(model.stage1_).predict_proba(contexts) for name, learner in learners.items()}


def scores(lotteries: Mapping[str, Floats], payoff: Floats, *, rho: float = 1e-3, ours: str = OURS) -> list[Row]:
    """Return one row per method: how it does against the true payoff, and paired against ours over contexts.

    Columns: method, exploitability, f1 (tau = 0.001), value (game value against ours), and of each the standard error
    over contexts; excess, the exploitability above ours, with its paired standard error.

    Args:
        lotteries: (n, K) of each method; or (logs, n, K), learned from several logs: what they do at a context is
            averaged first, so that standard errors are over contexts all the same.
        payoff: (n, K, K) the truth.
        rho: of the reference equilibrium.
    """
    reference = ne.solve(payoff, regularizer=ne.L2(rho)).strategy
    loss = {name: ne.metrics.exploitability(payoff, pi, reduce=False) for name, pi in lotteries.items()}
    rows: list[Row] = []
    for name, pi in lotteries.items():
        columns = {
            "exploitability": loss[name],
            "f1": ne.metrics.support_f1(pi, reference, reduce=False),
            "value": ne.metrics.game_value(pi, lotteries[ours], payoff, reduce=False),
            "excess": loss[name] - loss[ours],
        }
        row: Row = {"method": name}
        for column, values in columns.items():
            each = values.reshape(-1, len(payoff)).mean(axis=0)
            row |= {column: float(each.mean()), f"{column}_se": standard_error(each)}
        rows.append(row)
    return rows


def standard_error(values: Floats) -> float:
    """Return the standard error of a mean of independent values (n,)."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
