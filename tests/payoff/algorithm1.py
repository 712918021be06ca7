"""Algorithm 1's pseudo-outcome, line by line and slowly: what `nasheval.payoff.pseudo` is held against.

Nothing here is shared with the package but the log itself: menus are sets of names, margins are looked up one by one,
the cubic link is inverted by a polynomial's roots.
"""

from __future__ import annotations

import numpy as np


def verdict(blocks, j, k):
    """Z of Eq. verdict: +1 where j's block comes first."""
    place = {agent: number for number, block in enumerate(blocks) for agent in block}
    return (place[k] > place[j]) - (place[k] < place[j])


def linear(weights):
    def f(u):
        return sum(w * x for w, x in zip(weights, u, strict=True))

    return f, lambda u, m: weights[m]


def cubic(weights, alpha):
    def phi(x):
        return (x + alpha * x**3) / (1 + alpha)

    def slope(x):
        return (1 + 3 * alpha * x**2) / (1 + alpha)

    def f(u):
        y = sum(w * phi(x) for w, x in zip(weights, u, strict=True))
        roots = np.roots([alpha, 0.0, 1.0, -(1 + alpha) * y])
        x = float(roots[np.abs(roots.imag).argmin()].real)
        for _ in range(3):
            x -= (phi(x) - y) / slope(x)
        return x

    return f, lambda u, m: weights[m] * slope(u[m]) / slope(f(u))


def gamma(log, mu, e, aggregator, weight_of=lambda menu: 1.0):
    """Return {(i, j, k): Gamma} for all contexts i (all with a record, under draws) and pairs j < k in some menu.

    Args:
        mu: mu(i, menu, j, k), the out-of-fold margin.
        e: e(i, menu), the out-of-fold propensity.
        aggregator: of normalised weights, returns f(u) and df/du_m(u, m).
        weight_of: weight of a menu, before it is normalised.
    """
    agents, found = list(range(log.n_agents)), {}
    menus = [(tuple(log.menus.members(m).tolist()), int(log.menus.form[m])) for m in range(len(log.menus))]
    for i in range(log.n_contexts):
        records = range(log.context_offsets[i], log.context_offsets[i + 1])
        if log.design == "draws" and not len(records):
            continue
        total = sum(float(log.records.weights[r]) for r in records) if log.design == "draws" else 1.0
        of_menu = {}  # a menu is included once: several answers to it are averaged
        for r in records:
            asked = int(log.menus.of_record[r])
            of_menu[asked] = of_menu.get(asked, 0.0) + float(log.records.weights[r])
        for j in agents:
            for k in agents[j + 1 :]:
                having = [menu for menu in menus if j in menu[0] and k in menu[0]]
                if not having:
                    continue
                raw = [weight_of(menu) for menu in having]
                f, slope = aggregator([w / sum(raw) for w in raw])
                u = [mu(i, menu, j, k) for menu in having]
                value = f(u)
                for r in records:
                    menu = menus[log.menus.of_record[r]]
                    if menu not in having:
                        continue
                    start, stop = log.records.offsets[r], log.records.offsets[r + 1]
                    ranked = zip(log.records.agent[start:stop], log.records.block[start:stop], strict=True)
                    blocks = [[] for _ in range(int(max(log.records.block[start:stop])) + 1)]
                    for agent, block in ranked:
                        blocks[block].append(int(agent))
                    residual = verdict(blocks, j, k) - mu(i, menu, j, k)
                    w = float(log.records.weights[r])
                    if log.design == "inclusion":
                        w /= max(1.0, of_menu[int(log.menus.of_record[r])])
                    value += w * slope(u, having.index(menu)) * residual / e(i, menu) / total
                found[i, j, k] = value
    return found
