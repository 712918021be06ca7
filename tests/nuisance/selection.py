"""Logs of duels whose pairs are drawn by context, with the true propensities."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa

from nasheval.contexts.encoder import ContextEncoder
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance.learners import Features


def drawn_log(n_agents, n, kind, seed=0, times=12.0):
    """Return a log, its features and (n, M) true propensities in the order of `log.menus`.

    Args:
        kind: words. "clique": in one language the 15 pairs of six agents are drawn `times` as often. "pairs": the same
            with 15 pairs at random. "u-shape": some agents are drawn more often at both ends of a number, others less.
        seed: of everything.
        times: how much more often.
    """
    rng = np.random.default_rng(seed)
    pairs = np.array(list(combinations(range(n_agents), 2)))
    german, x = rng.random(n) < 0.5, rng.normal(size=n)
    logit = np.zeros((n, len(pairs)))
    if "clique" in kind:
        chosen = np.isin(pairs, rng.choice(n_agents, min(6, n_agents), replace=False)).all(axis=1)
        logit += np.log(times) * np.outer(german, chosen)
    if "pairs" in kind:
        chosen = np.isin(np.arange(len(pairs)), rng.choice(len(pairs), 15, replace=False))
        logit += np.log(times) * np.outer(german, chosen)
    if "u-shape" in kind:
        slope = np.log(times) / 2 * (np.arange(n_agents) % 3 - 1.0)
        logit += np.outer(np.clip(x**2 - 1, -1, 2), slope[pairs].sum(axis=1))
    e = np.exp(logit)
    e /= e.sum(axis=1, keepdims=True)
    menu = (e.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    table = {"language": np.where(german, "de", "en"), "length": x, "topic": rng.choice(list("uvwxy"), n)}
    log = duel_log(pairs[menu], n_agents, table)
    first, second = (log.menus.agent.reshape(-1, 2)[:, side].astype(int) for side in (0, 1))
    place = {tuple(pair): p for p, pair in enumerate(pairs.tolist())}
    order = [place[j, k] for j, k in zip(first.tolist(), second.tolist(), strict=True)]
    return log, Features.of(ContextEncoder.fit(log.contexts), log.contexts), e[:, order]


def duel_log(pairs, n_agents, table, *, weight=None, **options):
    """Return a log that draws one pair per record, the first agent always winning."""
    n = len(pairs)
    records = Records.build(
        sizes=np.full(n, 2), agent=np.asarray(pairs).ravel(), rank=np.tile([0, 1], n), weight=weight
    )
    names = [f"a{j:02d}" for j in range(n_agents)]
    return Feedback.from_records(records, agents=names, contexts=pa.table(table), design="draws", **options)


def relative_error(e, true):
    """Return the root mean square of (e - true) / true, weighted by the true propensities."""
    return float(np.sqrt(((e - true) ** 2 / true).sum() / true.sum()))
