"""Utilities of agents that a fitted population of voters never met, learned from few votes on top of it.

A newcomer's utility is that of the mean agent, moved along the directions in which the known agents differ and along
the features of the context:

    u_v(x, new) = mean_k u_v(x, k) + b + sum_r a_r B_rv(x) + w'phi(x),      B_rv(x) = sum_k D_kr u_v(x, k),

with D the principal directions of the known agents' utilities. The prior is the known agents themselves (empirical
Bayes): were it a = N(0, I / (K - 1)) and b = w = 0, a newcomer would be drawn from a Gaussian process with the mean and
the covariance of the K known ones. `b` is as free as the pooled utilities of a full fit, and `w` lets the newcomer
depend on the context in ways that no known agent does. How far a and w may go (`Freedom`) starts at the known agents'
own spread and moves only where votes held out speak for it by more than a standard error.

All folds, members and freedoms are one problem of a few thousand numbers, solved by L-BFGS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.nuisance.training import Tensor
from nasheval.nuisance.voters_likelihood import log_likelihood
from nasheval.nuisance.voters_records import Kind, Question, Table

_RANK = 16  # directions in which known agents differ, at most
_LEAST = 1e-6  # share of the first direction below which another one is rounding
_CHOOSING = 1_000  # answers on which the freedom is chosen
_STEPS = 300
_MOST = 40_000  # answers that newcomers are learned from; more call for a full refit


class Freedom(NamedTuple):
    """How far a newcomer may be from the mean agent, in units of the known agents' spread.

    Args:
        along: the directions of known agents.
        beyond: the features of the context.
    """

    along: float
    beyond: float


FREEDOMS = (  # the first is kept unless another is clearly better
    Freedom(1.0, 0.3), Freedom(1.0, 0.0), Freedom(0.3, 0.0), Freedom(0.3, 0.3), Freedom(1.0, 1.0), Freedom(2.0, 1.0),
    Freedom(3.0, 3.0),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Ground:
    """What fitted models say at n contexts with new votes; T models (folds by members).

    Args:
        u: (T, n, V, K) utilities of the known agents.
        elsewhere: (T, m, V, K) the same at contexts from the whole log, which tell how known agents differ.
        log_weight: (T, V) of the voters.
        phi: (T, n, q) features of the contexts, centred.
        size: (T,) mean square of phi over the whole log, all features together.
        tie: (T, ties) log tie weights, as in `Question`.
        lean: (T, n, V) leaning of voters to ties.
    """

    u: Floats
    elsewhere: Floats
    log_weight: Floats
    phi: Floats
    size: Floats
    tie: Floats
    lean: Floats


@dataclass(frozen=True, eq=False)
class Newcomers:
    """What was learned; T models, N newcomers.

    Args:
        intercept: (T, N) b.
        share: (T, N, K) the weight of each known agent's utility, summing to one: 1 / K + D a.
        slope: (T, N, q) w.
        freedom: how far they may go.
        loss: mean negative log likelihood of an answer at contexts held out, by freedom; NaN without any.
    """

    intercept: Floats
    share: Floats
    slope: Floats
    freedom: Freedom
    loss: tuple[float, ...]


def learn_newcomers(ground: Ground, tables: Sequence[Table], count: int, seen: Bools, held: Bools) -> Newcomers:
    """Return the utilities of newcomers, agents K to K + count - 1.

    Args:
        tables: answers on menus with a newcomer, at the n contexts of the ground.
        count: N.
        seen: (T, n) contexts that each model may learn from.
        held: (T, n) contexts that no part of a model has seen, on which the freedom is chosen.
    """
    directions = _directions(ground)
    if not tables:
        return _assembled(np.zeros((len(seen), count, 1)), ground, directions, FREEDOMS[0], ())
    answers = [_Answers.of(table, ground, seen, held, _MOST // len(tables)) for table in tables]
    some = [_Answers.of(table, ground, seen, held, max(50, _CHOOSING // len(tables))) for table in tables]
    tried = _Problem(ground, directions, some, count, FREEDOMS)
    losses = tried.held_out(tried.solved())
    best = _chosen(losses)
    problem = _Problem(ground, directions, answers, count, (FREEDOMS[best],))
    theta = problem.solved()[0]
    means = tuple(float(each.mean()) if len(each) else np.nan for each in losses)
    return _assembled(theta, ground, directions, FREEDOMS[best], means)


def _chosen(losses: Floats) -> int:
    """Return which freedom has the lowest loss, (freedoms, answers); the first unless another is clearly lower."""
    if losses.shape[1] < 2:
        return 0
    best = int(losses.mean(axis=1).argmin())
    gain = losses[0] - losses[best]
    return best if gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)) else 0


def _directions(ground: Ground) -> Floats:
    """Return (T, K, r) D: how known agents' utilities make the directions in which they differ, largest first."""
    u = ground.elsewhere
    weight = np.sqrt(np.exp(ground.log_weight)[:, None, :, None] / max(1, u.shape[1]))
    centred = (u - u.mean(axis=-1, keepdims=True)) * weight
    flat = centred.reshape(len(u), -1, u.shape[-1]).astype(np.float64)
    value, vector = np.linalg.eigh(flat.transpose(0, 2, 1) @ flat)
    value, vector = value[:, ::-1], vector[:, :, ::-1]
    rank = min(_RANK, u.shape[-1] - 1)
    vector = vector * np.sign(vector[:, :1] + 1e-300)  # eigenvectors have no sign of their own
    return np.asarray(vector * (value > _LEAST * np.maximum(value[:, :1], 1e-12))[:, None])[:, :, :rank]


def _assembled(
    theta: Floats, ground: Ground, directions: Floats, freedom: Freedom, loss: tuple[float, ...]
) -> Newcomers:
    """Return parameters (T, N, 1 + r + q), or fewer where nothing was learned, as weights of agents and features."""
    rank, K, q = directions.shape[2], ground.u.shape[-1], ground.phi.shape[-1]
    whole = np.zeros((*theta.shape[:2], 1 + rank + q))
    whole[..., : theta.shape[2]] = theta
    share = 1 / K + np.einsum("tkr,tnr->tnk", directions, whole[..., 1 : 1 + rank])
    return Newcomers(whole[..., 0], share, whole[..., 1 + rank :], freedom, loss)


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers of one table, T models side by side.

    Args:
        table: the answers; `agents` are (size, m).
        context: (m,) of the ground.
        u: (size, T, m, V) utilities of known agents; 0 where a newcomer stands.
        newcomer: (size, m) the number of the newcomer there, -1 for a known agent.
        weight, held: (T, m) weight in the fit, and in what is held out.
        ties: (n_tie, T, m, V) log tie weights.
    """

    table: Table
    context: Ints
    u: Floats
    newcomer: Ints
    weight: Floats
    held: Floats
    ties: Floats

    @staticmethod
    def of(table: Table, ground: Ground, seen: Bools, held: Bools, most: int) -> _Answers:
        context = np.repeat(np.arange(len(table.offsets) - 1), np.diff(table.offsets))
        rows = np.arange(len(context))
        if len(rows) > most:
            rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
        at, agents = context[rows], table.agents[:, rows]
        scale = len(context) / max(1, len(rows))
        known = agents < ground.u.shape[-1]
        u = np.take_along_axis(
            ground.u[:, at], np.where(known, agents, 0).T[None, :, None, :], axis=3
        ).transpose(3, 0, 1, 2) * known[:, None, :, None]  # fmt: skip
        weight = table.weight[rows].astype(np.float64)
        part = Table(
            table.question, agents, table.block[:, rows], table.starts[:, rows], table.shape, table.outcome[rows],
            table.weight[rows], table.count[rows], table.offsets, table.name[rows],
        )  # fmt: skip
        newcomer = np.where(known, -1, agents - ground.u.shape[-1])
        masks = [mask[:, at] * weight for mask in (seen, held)]
        return _Answers(part, at, u, newcomer, masks[0] * scale, masks[1], _ties(table.question, ground, at))


def _ties(question: Question, ground: Ground, at: Ints) -> Floats:
    """Return (n_tie, T, m, V) log tie weights of a question; the weight of both-bad answers does not lean."""
    base = ground.tie[:, question.tie : question.tie + question.n_tie].T[:, :, None, None]
    leaning = np.zeros((question.n_tie, *ground.lean[:, at].shape))
    leaning[: 1 if question.kind == Kind.DUEL else None] = ground.lean[:, at]
    return np.asarray(base + leaning)


class _Problem:
    """All models and freedoms as one problem in z, standard normal a priori: theta = z times prior deviations."""

    def __init__(
        self, ground: Ground, directions: Floats, answers: Sequence[_Answers], count: int, freedoms: Sequence[Freedom]
    ) -> None:
        import torch

        self.answers, self.count, self.freedoms = answers, count, freedoms
        T, K = len(ground.u), ground.u.shape[-1]
        rank, q = directions.shape[2], ground.phi.shape[2]
        centred = ground.elsewhere - ground.elsewhere.mean(axis=-1, keepdims=True)
        spread = ((centred**2).mean(axis=(1, 3)) * np.exp(ground.log_weight)).sum(axis=1)
        agents = np.sqrt(np.maximum(spread, 1e-6) * K / max(1, K - 1))  # (T,) deviation among known agents
        sd = np.ones((len(freedoms), T, 1, 1 + rank + q))
        sd[..., 0] = np.maximum(1.0, agents)[None, :, None]
        for g, freedom in enumerate(freedoms):
            sd[g, :, :, 1 : 1 + rank] = freedom.along / np.sqrt(max(1, K - 1))
            sd[g, :, 0, 1 + rank :] = (freedom.beyond * agents / np.sqrt(np.maximum(ground.size, 1e-12)))[:, None]
        self.sd, self.shape = sd, (len(freedoms), T, count, 1 + rank + q)
        mean = ground.u.mean(axis=-1)
        along = np.einsum("tnvk,tkr->tnvr", ground.u, directions)
        self.parts = []
        for each in answers:
            at = each.context
            design = (torch.from_numpy(np.asarray(a[:, at], np.float64)) for a in (mean, along, ground.phi))
            self.parts.append((each, tuple(design), _Likelihood(each, len(freedoms), ground.log_weight)))

    def solved(self) -> Floats:
        """Return (freedoms, T, N, p) the parameters."""
        from scipy.optimize import minimize

        size = int(np.prod(self.shape))
        options = {"maxiter": _STEPS, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-5}
        found = minimize(self._value, np.zeros(size), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x.reshape(self.shape) * self.sd)

    def _value(self, z: Floats) -> tuple[float, Floats]:
        import torch

        free = torch.from_numpy(z.reshape(self.shape)).requires_grad_()
        losses = self._losses(free * torch.from_numpy(self.sd))
        total = sum(
            (loss * torch.from_numpy(each.weight)).sum() for loss, (each, *_) in zip(losses, self.parts, strict=True)
        )
        total = total + free.square().sum() / 2
        total.backward()
        return total.item(), free.grad.numpy().ravel()

    def _losses(self, theta: Tensor) -> list[Tensor]:
        """Return (freedoms, T, m) the negative log likelihood of each answer, table by table."""
        import torch

        losses = []
        for each, (mean, along, phi), likelihood in self.parts:
            rank = along.shape[-1]
            new = torch.einsum("gtcr,tmvr->gtmvc", theta[..., 1 : 1 + rank], along)
            new = new + torch.einsum("gtcq,tmq->gtmc", theta[..., 1 + rank :], phi).unsqueeze(3)
            new = new + mean.unsqueeze(0).unsqueeze(-1) + theta[..., 0][:, :, None, None]
            losses.append(likelihood(each, new))
        return losses

    def held_out(self, theta: Floats) -> Floats:
        """Return (freedoms, answers) the loss of each answer that some model has not seen, members averaged."""
        import torch

        with torch.no_grad():
            losses = self._losses(torch.from_numpy(theta))
        rows = []
        for loss, (each, *_) in zip(losses, self.parts, strict=True):
            mass = each.held.sum(axis=0)
            known = mass > 0
            rows.append((loss.numpy() * each.held).sum(axis=1)[:, known] / mass[known])
        return np.concatenate(rows, axis=1)


class _Likelihood:
    """The negative log likelihood of the answers of one table, given utilities of the newcomers."""

    def __init__(self, answers: _Answers, copies: int, log_weight: Floats) -> None:
        import torch

        table, (_, T, m, V) = answers.table, answers.u.shape
        self.copies, self.known = copies, torch.from_numpy(np.asarray(answers.u, np.float64))
        self.place = torch.from_numpy(np.maximum(answers.newcomer, 0))
        self.is_new = torch.from_numpy(answers.newcomer >= 0)
        self.log_weight = torch.from_numpy(np.asarray(log_weight, np.float64))[None, :, None]
        self.kind, self.shape = table.question.kind, table.shape
        partly = self.kind != Kind.RANKED or bool((table.starts[:-1] == 0).any())
        self.starts = torch.from_numpy(np.tile(table.starts, copies * T)) if partly else None
        extra = {Kind.DUEL: table.outcome, Kind.PAIRS: table.block}.get(self.kind)
        self.extra = None if extra is None else torch.from_numpy(np.tile(extra, copies * T))
        ties = torch.from_numpy(np.asarray(answers.ties, np.float64))
        self.ties = ties.unsqueeze(1).expand(-1, copies, -1, -1, -1).reshape(len(ties), copies * T * m, V)

    def __call__(self, answers: _Answers, new: Tensor) -> Tensor:
        """Return (copies, T, m), given (copies, T, m, V, N)."""
        import torch

        g, T, m, V, _ = new.shape
        slots = []
        for slot in range(len(self.place)):
            index = self.place[slot].view(1, 1, m, 1, 1).expand(g, T, m, V, 1)
            mine = new.gather(4, index).squeeze(4)
            slots.append(torch.where(self.is_new[slot].view(1, 1, m, 1), mine, self.known[slot]))
        u = torch.stack(slots).reshape(len(slots), g * T * m, V)
        each = log_likelihood(self.kind, u, self.shape, self.starts, self.extra, self.ties).reshape(g, T, m, V)
        return -torch.logsumexp(each + self.log_weight, -1)
