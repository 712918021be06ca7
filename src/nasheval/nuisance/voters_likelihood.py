"""log L_v(record): how likely each latent voter was to give each answer, in PyTorch.

Every voter is a Plackett-Luce voter: agents ring after independent exponential times with rates exp(u_j), and the first
to ring is the best. All functions take u, (size, m, V), the utilities of the agents of m records, best agent first, and
return (m, V).
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

from nasheval.arrays import Floats
from nasheval.nuisance.training import Tensor
from nasheval.nuisance.voters_records import Kind

ENUMERATED = 4  # sets up to this size are summed over all orders; larger ones are integrated


def log_likelihood(
    kind: Kind, u: Tensor, shape: tuple[int, ...], starts: Tensor, extra: Tensor, ties: Tensor
) -> Tensor:
    """Return log L_v of each record.

    Args:
        shape: sizes of the blocks, for CENSORED.
        starts: (size, m) sizes of the ranked blocks at their first agent, 0 elsewhere; None where all were ranked.
        extra: DUEL: (m,) outcomes; PAIRS: (size, m) blocks.
        ties: (n_tie, m, V) log tie weights.
    """
    if kind == Kind.RANKED:
        return ranked(u, starts)
    if kind == Kind.DUEL:
        return duel(u, extra, ties)
    if kind == Kind.TIED:
        return tied(u, starts, ties)
    if kind == Kind.PAIRS:
        return pairs(u, extra, starts, ties[0])
    return censored(u, shape)


def ranked(u: Tensor, starts: Tensor | None = None) -> Tensor:
    """Plackett-Luce; where only a prefix was ranked, of that prefix."""
    import torch
    from torch.nn.functional import logsigmoid

    if len(u) == 2 and starts is None:
        return logsigmoid(u[0] - u[1])
    total, rest = 0.0, u[-1]
    for place in range(len(u) - 2, -1, -1):
        rest = torch.logaddexp(rest, u[place])
        stage = u[place] - rest
        total = total + (stage if starts is None else stage * (starts[place] > 0).unsqueeze(-1))
    return total


def duel(u: Tensor, outcome: Tensor, ties: Tensor) -> Tensor:
    """Weights exp(u_j), exp(u_k), nu exp((u_j + u_k) / 2) for a tie (Davidson) and exp(t) for both bad."""
    import torch

    weights = torch.stack([u[0], ties[0] + (u[0] + u[1]) / 2, ties[1], u[1]])
    chosen = weights[:3].gather(0, outcome.view(1, -1, 1).expand(1, -1, u.shape[2]))[0]
    return chosen - torch.logsumexp(weights, 0)


def tied(u: Tensor, starts: Tensor, ties: Tensor) -> Tensor:
    """Davidson-Luce: the next set T of equals has weight delta_|T| times the geometric mean of its exp(u).

    The sum over all sets of t agents is an elementary symmetric polynomial of exp(u / t), so no set is enumerated.
    """
    import torch

    size = len(u)
    sums = _set_sums(u, 1 + len(ties))
    total = torch.zeros_like(u[0])
    for place in range(size):
        weights = [sums[place][0]] + [s + ties[t] for t, s in enumerate(sums[place][1:])]
        everything = torch.logsumexp(torch.stack(weights), 0)
        for t in range(1, min(1 + len(ties), size - place) + 1):
            chosen = u[place : place + t].mean(0)
            chosen = chosen if t == 1 else chosen + ties[t - 2]
            total = total + (chosen - everything) * (starts[place] == t).unsqueeze(-1)
    return total


def _set_sums(u: Tensor, largest: int) -> list[list[Tensor]]:
    """Return for each place the log sum over the sets of 1, 2, ... agents at that place or after."""
    import torch

    sums: list[list[Tensor]] = [[] for _ in range(len(u))]
    for t in range(1, min(largest, len(u)) + 1):
        log_e: list[Tensor] = [torch.zeros_like(u[0])]  # degrees 0, 1, ..., t of the agents so far
        for place in range(len(u) - 1, -1, -1):
            grown = [log_e[d] + u[place] / t for d in range(min(t, len(log_e)))]
            kept = [torch.logaddexp(log_e[d], grown[d - 1]) for d in range(1, len(log_e))]
            log_e = [log_e[0], *kept, *grown[len(kept) :]]
            if len(log_e) > t:
                sums[place].append(log_e[t])
    return sums


def pairs(u: Tensor, block: Tensor, starts: Tensor, log_nu: Tensor) -> Tensor:
    """Composite likelihood: each pair a Davidson duel, to the power 2 / size, so that a record weighs size - 1 in all.

    Pairs inside a last block that was not ranked count nothing.
    """
    import torch

    left, right = np.triu_indices(len(u), 1)
    a, b = u[left], u[right]
    tie = log_nu + (a + b) / 2
    same = (block[left] == block[right]).unsqueeze(-1)
    decided = torch.logsumexp(torch.stack([a, b, tie]), 0)
    last = block.masked_fill(starts == 0, -1).amax(0)  # the last block that was ranked
    asked = (block[left] <= last).unsqueeze(-1)
    return (((torch.where(same, tie, a) - decided) * asked).sum(0)) * (2.0 / len(u))


def censored(u: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The exact Plackett-Luce probability of an ordered partition whose inner orders were not asked.

    After a block has rung, the others start afresh, so it is a product over blocks of P(all of it before the rest).
    """
    import torch

    total, start = torch.zeros_like(u[0]), 0
    for size in shape[:-1]:
        rest = torch.logsumexp(u[start + size :], 0)
        total = total + before(u[start : start + size], rest)
        start += size
    return total


def before(block: Tensor, rest: Tensor) -> Tensor:
    """Return log P(all agents of a block, (b, m, V), ring before a clock of log rate rest, (m, V))."""
    return _summed(block, rest) if len(block) <= ENUMERATED else _integrated(block, rest)


def _summed(block: Tensor, rest: Tensor) -> Tensor:
    """Sum over the orders of the block, set by set: who of the set rings last does so after the others of it."""
    import torch

    none: tuple[int, ...] = ()
    rate, chance = {none: rest}, {none: torch.zeros_like(rest)}
    for size in range(1, len(block) + 1):
        for chosen in combinations(range(len(block)), size):
            without = [chosen[:i] + chosen[i + 1 :] for i in range(size)]
            rate[chosen] = torch.logaddexp(rate[without[0]], block[chosen[0]])
            first = torch.stack([block[i] + chance[others] for i, others in zip(chosen, without, strict=True)])
            chance[chosen] = torch.logsumexp(first, 0) - rate[chosen]
    return chance[tuple(range(len(block)))]


def _integrated(block: Tensor, rest: Tensor) -> Tensor:
    """Integrate over the time at which the clock rings, on a grid in log time; correct to about 1e-8."""
    import torch

    log_time, share = (torch.as_tensor(values, dtype=rest.dtype, device=rest.device) for values in quadrature())
    log_share = torch.log(share).view(-1, 1, 1)
    total = log_share.expand(-1, *rest.shape)
    for utility in block:
        age = (log_time.view(-1, 1, 1) + (utility - rest)).clamp(-60.0, 20.0).exp()
        total = total + torch.log(-torch.expm1(-age))
    return torch.logsumexp(total, 0)


@cache
def quadrature() -> tuple[Floats, Floats]:
    """Return log times and shares that integrate over an exponential clock of rate one.

    The trapezoidal rule in log time converges geometrically there: the error is below exp(-7 / step).
    """
    log_time = np.arange(-16.0, 3.6, 0.35)
    share = np.exp(log_time - np.exp(log_time))
    return log_time, share / share.sum()
