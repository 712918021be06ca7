"""Eq. payoff-pseudo-outcome, one context, record and pair at a time."""

from __future__ import annotations

import numpy as np


def literal_gamma(fit, cubic):
    """Return {(i, j, k): Gamma_jk(O_i)} of every context that has a pseudo-outcome."""
    log, found = fit.log, {}
    columns = list(zip(log.menus.columns.menu, log.menus.columns.j, log.menus.columns.k, strict=True))
    for i in range(log.n_contexts):
        records = [r for r in range(log.n_records) if log.context_of[r] == i]
        if log.design == "draws" and not records:
            continue
        fold = fit.fold[i]
        mu = fit.outcome_models.predict(fit.X[np.array([i])], fold)[0]
        e = fit.propensity_models.predict(fit.X[np.array([i])], fold)[0]
        total = sum(log.records.weights[r] for r in records)
        for j in range(log.n_agents):
            for k in range(j + 1, log.n_agents):
                mine = [c for c, (_, a, b) in enumerate(columns) if (a, b) == (j, k)]
                value, slopes = f_jk(mu[mine], cubic)
                for r in records:
                    for c, slope in zip(mine, slopes, strict=True):
                        if columns[c][0] != log.menus.of_record[r]:
                            continue
                        share = log.records.weights[r] / max(e[columns[c][0]], fit.floors[columns[c][0]])
                        again = sum(log.records.weights[s] for s in records
                                    if log.menus.of_record[s] == log.menus.of_record[r])  # fmt: skip
                        share /= total if log.design == "draws" else max(1.0, again)
                        value += share * slope * (verdict(log, r, j, k) - mu[c])
                found[i, j, k], found[i, k, j] = value, -value
    return found


def f_jk(mu, cubic):
    """f and its derivatives, by bisection and finite differences for the cubic: link(y) = mean of link(mu)."""
    if not len(mu):
        return 0.0, []
    if not cubic:
        return mu.mean(), np.full(len(mu), 1 / len(mu))

    def value(at):
        target, low, high = np.mean(at + at**3), -1.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if middle + middle**3 < target else (low, middle)
        return low

    step = 1e-5
    return value(mu), [(value(mu + step * d) - value(mu - step * d)) / (2 * step) for d in np.eye(len(mu))]


def verdict(log, r, j, k):
    entries = slice(log.records.offsets[r], log.records.offsets[r + 1])
    block = dict(zip(log.records.agent[entries].tolist(), log.records.block[entries].tolist(), strict=True))
    return np.sign(block[k] - block[j])
