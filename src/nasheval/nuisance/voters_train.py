"""Train many models of latent voters as one, each on contexts of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from nasheval.arrays import Array, Bools, Floats, Ints, runs
from nasheval.nuisance.learners import Advance, Effort, run_all, torch_threads
from nasheval.nuisance.training import Adam, Tensor, one_cycle, spread_of, to_device
from nasheval.nuisance.voters_duel_loss import Duels, Parts
from nasheval.nuisance.voters_likelihood import log_likelihood
from nasheval.nuisance.voters_network import DECAYED, FIXED, Shape, forward, hidden, initial, pooled_only
from nasheval.nuisance.voters_records import Kind, Question, Table

_PROOF = 3.0  # log likelihood by which a group must beat the pooled model on held-out records to leave it
_ROWS = 1 << 15  # contexts evaluated at a time
_TOGETHER = 50_000  # contexts up to which all models are trained as one
_RATE = 16e-3  # highest learning rate


@dataclass(frozen=True)
class Recipe:
    """What may differ from fold to fold.

    Args:
        voters: number of latent voters.
        weight_decay: how fast weights shrink toward the pooled model, per unit of learning rate.
        relevance: what each input is multiplied by; empty where all are alike.
        named: whether voters with names are distinguished, where the data has names.
    """

    voters: int = 4
    weight_decay: float = 0.3
    relevance: tuple[float, ...] = ()
    named: bool = False


@dataclass(frozen=True)
class Task:
    """One model to train.

    Args:
        fit: contexts it learns from.
        check: contexts that choose its best epoch.
        pooled: (K,) pooled utilities of the contexts it learns from.
        tie: (T,) log tie weights to start at.
        recipe: what may differ from fold to fold.
        seed: of all it draws.
        group: tasks of one group share their best epoch.
    """

    fit: Ints
    check: Ints
    pooled: Floats
    tie: Floats
    recipe: Recipe
    seed: tuple[int, ...]
    group: int


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train: one cycle of the learning rate.

    Args:
        epochs: passes over the contexts.
        batch: contexts per step and model.
        device: "cpu" or "cuda".
        threads: of PyTorch.
    """

    epochs: int
    batch: int
    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True)
class Trained:
    """What came out, one row per task.

    Args:
        parameters: at the best epoch, each (tasks, ...).
        loss: (tasks,) mean negative log likelihood at the contexts held out, at that epoch; NaN without any.
        pooled_loss: (tasks,) the same of the pooled model.
        epoch: (tasks,) that epoch, 0 for the pooled model.
    """

    parameters: dict[str, Floats]
    loss: Floats
    pooled_loss: Floats
    epoch: Ints

    def __getitem__(self, rows: Ints) -> Trained:
        parameters = {name: values[rows] for name, values in self.parameters.items()}
        return Trained(parameters, self.loss[rows], self.pooled_loss[rows], self.epoch[rows])


@dataclass(frozen=True)
class Data:
    """What all tasks learn from.

    Args:
        x: (n_contexts, inputs) float32.
        tables: the records.
        questions: their questions.
        shares: (names,) the share of the records of each voter who is distinguished by name; one where nobody is.
    """

    x: Floats
    tables: list[Table]
    questions: list[Question]
    shares: Floats = field(default_factory=lambda: np.ones(1))


def train(data: Data, tasks: list[Task], shape: Shape, schedule: Schedule, effort: Effort | None = None) -> Trained:
    """Train all tasks; each sees its own contexts only, and its best epoch is kept.

    They are trained as one, which makes small steps cheap. Where steps are large on a processor, groups are trained
    apart, so that each can have a core or a machine of its own: apart and as one differ in rounding.
    """
    effort = effort or Effort()
    group = np.array([task.group for task in tasks])
    if schedule.device != "cpu" or max(len(task.fit) for task in tasks) <= _TOGETHER:
        group[:] = 0
    places = [np.flatnonzero(group == one) for one in np.unique(group)]

    def trained(number: int) -> Trained:
        mine = [tasks[place] for place in places[number]]
        with torch_threads(schedule.threads if len(places) == 1 else 1):
            return _Trainer(data, mine, shape, schedule).run(lambda done: effort.advance(done / len(places)))

    if len(places) == 1:
        return trained(0)
    told = replace(effort, advance=lambda share: None) if effort.workers is None else effort  # workers tell nothing
    return joined(run_all(trained, range(len(places)), len(places), told))[np.argsort(np.concatenate(places))]


def joined(parts: Sequence[Trained]) -> Trained:
    """Return what was trained apart, one part after the other."""
    parameters = {name: np.concatenate([part.parameters[name] for part in parts]) for name in parts[0].parameters}
    rows = (np.concatenate([getattr(part, name) for part in parts]) for name in ("loss", "pooled_loss", "epoch"))
    return Trained(parameters, *rows)


class _Trainer:
    def __init__(self, data: Data, tasks: list[Task], shape: Shape, schedule: Schedule) -> None:
        import torch

        self.data, self.tasks, self.shape, self.schedule = data, tasks, shape, schedule
        self.device = torch.device(schedule.device)
        self.rngs = [np.random.default_rng(task.seed) for task in tasks]
        recipes = [task.recipe for task in tasks]
        voters, pooled = np.array([recipe.voters for recipe in recipes]), np.stack([t.pooled for t in tasks])
        relevance = np.array([recipe.relevance or (1.0,) * shape.inputs for recipe in recipes])
        spread = np.array([spread_of(data.x[t.fit], each) for t, each in zip(tasks, relevance, strict=True)])
        start = initial(shape, self.rngs, voters, spread, pooled, np.stack([t.tie for t in tasks]), len(data.shares))
        self.named, self.shares = self._column([r.named for r in recipes]), self._put(data.shares.astype(np.float32))
        self.relevance = self._put(relevance.astype(np.float32)).unsqueeze(1)
        self.duels = Duels.of(data.tables) if schedule.device == "cpu" else None
        self.p = {name: self._put(values) for name, values in start.items()}
        if self.duels is not None:  # each column of the head in one place
            self.p["head"] = self._put(np.ascontiguousarray(start["head"].swapaxes(1, 2))).mT
        self.free = {name: p.requires_grad_() for name, p in self.p.items() if name not in FIXED}
        self.best = {name: self._put(values) for name, values in pooled_only(start).items()}
        self.decay = self._column([recipe.weight_decay for recipe in recipes])
        self.x = self._lend(data.x)
        self.tables = [_TableOnDevice(table, self._lend) for table in data.tables]
        self.steps = max(1, ceil(max(len(t.fit) for t in tasks) / schedule.batch))
        mass, records = (context_sums(data.tables, each, len(data.x)) for each in ("weight", "count"))
        self.check_mass = np.array([mass[t.check].sum() for t in tasks])
        self.check_count = np.array([records[t.check].sum() for t in tasks])
        fit_mass = np.maximum([mass[t.fit].sum() for t in tasks], 1e-12)
        self.scale = self._put((self.steps / fit_mass).astype(np.float32))
        self.optimiser = Adam(self.free.values(), betas=(0.9, 0.99))

    def _put(self, values: Array) -> Tensor:
        return to_device(values, self.device)

    def _lend(self, values: Array) -> Tensor:
        """Return what is only read: on the processor the array itself, where it may be."""
        import torch

        return torch.from_numpy(values) if self.device.type == "cpu" and values.flags.writeable else self._put(values)

    def _column(self, values: list[float]) -> Tensor:
        return self._put(np.array(values, np.float32).reshape(-1, 1, 1))

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self, advance: Advance) -> Trained:
        import torch

        steps = max(1, ceil(max(len(t.check) for t in self.tasks) * len(self.tasks) / _ROWS))
        check = list(_batches([t.check for t in self.tasks], steps, self.data.tables))
        pooled_loss = loss = self._losses(check, self._population(self.best))
        epoch = np.zeros(len(self.tasks), np.int64)
        for number in range(1, self.schedule.epochs + 1):
            shuffled = [rng.permutation(task.fit) for rng, task in zip(self.rngs, self.tasks, strict=True)]
            for step, batch in enumerate(_batches(shuffled, self.steps, self.data.tables)):
                self._step(batch, (number - 1 + (step + 1) / self.steps) / self.schedule.epochs)
            now = self._losses(check, self._population(self.p))
            better = self._improved(now, loss, pooled_loss)
            loss, epoch = np.where(better, now, loss), np.where(better, number, epoch)
            chosen = self._put(better)
            for name, p in self.p.items():
                mask = chosen.view(-1, *[1] * (p.dim() - 1))
                self.best[name] = torch.where(mask, p.detach(), self.best[name])
            advance(1.0 / self.schedule.epochs)
        self.best["hidden_0"] *= self.relevance.mT  # so what is returned reads the inputs as they are
        kept = self._population(self.best)
        return Trained(
            {name: np.ascontiguousarray(p.cpu().numpy()) for name, p in kept.items()}, loss, pooled_loss, epoch
        )

    def _by_name(self, p: dict[str, Tensor]) -> Tensor:
        """Return (models, names, V) logits of the latent voters behind each named one."""
        return p["logit"].unsqueeze(1) + p["named"] * self.named

    def _population(self, p: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return parameters that know no names: latent voters weigh what they do on average over the named ones."""
        if "named" not in p:
            return p
        import torch

        with torch.no_grad():
            mean = torch.einsum("mnv,n->mv", torch.softmax(self._by_name(p), -1), self.shares)
        return {name: values for name, values in p.items() if name != "named"} | {"logit": mean.clamp(min=1e-30).log()}

    def _improved(self, now: Floats, best: Floats, pooled: Floats) -> Bools:
        """Tell for each task whether its group as a whole is better than ever, and clearly better than pooling."""
        group = np.array([task.group for task in self.tasks])
        gains = [np.nan_to_num((before - now) * self.check_count, posinf=0.0, neginf=0.0) for before in (best, pooled)]
        on_best, on_pooled = (np.bincount(group, gain)[group] for gain in gains)
        return (on_best > 0) & (on_pooled > _PROOF)

    def _step(self, batch: _Batch, progress: float) -> None:
        import torch

        rate = _RATE * one_cycle(progress)
        self.optimiser.forget()
        if self.duels is None:
            losses = [(losses * self.scale[model]).sum() for losses, model in self._answers(batch, self.p)]
            self._backward(losses, [None] * len(losses))
        elif any(len(rows) for rows, _ in batch[1]):
            self._duel_backward(batch, self.duels)
        if "named" in self.free:  # a unit normal prior, in units of the mean loss: who says little is as all are
            self._backward([(self.free["named"].square().sum((1, 2)) * self.scale).sum() / (2 * self.steps)], [None])
        if any(p.grad is not None for p in self.free.values()):
            self._clip()
            self.optimiser.step(rate)
            with torch.no_grad():
                for name, p in self.free.items():
                    if name.startswith(DECAYED):
                        p.mul_(1.0 - rate * self.decay)

    def _backward(self, values: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        import torch

        if values:
            torch.autograd.backward(values, gradients)

    def _duel_backward(self, batch: _Batch, duels: Duels) -> None:
        """Give the parameters the gradients of a batch of duels."""
        import torch

        tensors = self._parts(batch, self.p)
        gradient = duels.gradients(_arrays(tensors), batch[1], len(self.shares), self.scale.numpy())
        learned = {name: torch.from_numpy(values) for name, values in gradient._asdict().items()}
        self.p["head"].grad = learned["head"].mT
        self.p["tie"].grad, self.p["lean"].grad = learned["tie"], learned["lean"]
        inner = ("hidden", "base", "log_weight")
        self._backward([tensors[name] for name in inner], [learned[name] for name in inner])

    def _parts(self, batch: _Batch, p: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the `Parts` of the loss of duels at the contexts of a batch."""
        import torch

        log_weight = torch.log_softmax(self._by_name(p) if "named" in p else p["logit"], -1).view(-1, self.shape.voters)
        return {
            "hidden": hidden(p, self._inputs(batch), self.shape),
            "head": p["head"].detach().mT.contiguous(),
            "base": p["taste"] + p["pooled"].unsqueeze(-1),
            "log_weight": log_weight,
            "tie": p["tie"],
            "lean": p["lean"],
        }

    def _inputs(self, batch: _Batch) -> Tensor:
        """Return (models, width, inputs) the contexts of a batch."""
        contexts = self._put(batch[0])
        return self.x.index_select(0, contexts.view(-1)).view(*contexts.shape, -1) * self.relevance

    def _clip(self, largest: float = 2.0) -> None:
        """Shorten the gradient of each model on its own."""
        import torch

        grads = [p.grad for p in self.free.values() if p.grad is not None]
        if self.device.type == "cpu":  # where NumPy takes less time to start
            squares = (np.einsum(f"{'mij'[: g.dim()]},{'mij'[: g.dim()]}->m", g.numpy(), g.numpy()) for g in grads)
            length = torch.from_numpy(np.sqrt(sum(squares)))
            if float(length.max()) <= largest:
                return
        else:
            length = sum(g.flatten(1).square().sum(1) for g in grads).sqrt()
        factor = (largest / (length + 1e-12)).clamp(max=1.0)
        for g in grads:
            g.mul_(factor.view(-1, *[1] * (g.dim() - 1)))

    # -- the likelihood -----------------------------------------------------------------------------------------------

    def _answers(self, batch: _Batch, p: dict[str, Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield for each table the weighted negative log likelihood of its records and the model of each."""
        import torch

        x = self._inputs(batch)
        width = x.shape[1]
        u, log_weight, lean = forward(p, x, self.shape)
        K, V = self.shape.agents, self.shape.voters
        u, lean, by_name = u.reshape(-1, V), lean.reshape(-1), "named" in p
        if by_name:
            log_weight = torch.log_softmax(self._by_name(p), -1)
        log_weight = log_weight.reshape(-1, V)
        for table, (rows, records) in zip(self.tables, batch[1], strict=True):
            if not len(rows):
                continue
            row, record = self._put(rows), self._put(records)
            model = row // width
            agents = table.agents.index_select(1, record)
            voters = u.index_select(0, (row * K + agents).view(-1)).view(*agents.shape, V)
            ties = table.ties(p, model, lean, row)
            ll = table.log_likelihood(voters, record, ties)
            place = model * len(self.shares) + table.name.index_select(0, record) if by_name else model
            prior = log_weight.index_select(0, place)
            yield -torch.logsumexp(ll + prior, -1) * table.weight[record], model

    def _losses(self, batches: list[_Batch], p: dict[str, Tensor]) -> Floats:
        """Return (tasks,) the mean negative log likelihood; NaN for a task without records."""
        import torch

        total = np.zeros(len(self.tasks))
        with torch.no_grad():
            for batch in batches:
                if self.duels is not None:
                    parts = _arrays(self._parts(batch, p))
                    total += self.duels.losses(parts, batch[1], len(self.shares) if "named" in p else 1)
                    continue
                for losses, model in self._answers(batch, p):
                    total += np.bincount(model.cpu().numpy(), losses.double().cpu().numpy(), len(self.tasks))
        with np.errstate(invalid="ignore"):
            return total / self.check_mass


def _arrays(tensors: dict[str, Tensor]) -> Parts:
    return Parts(**{name: tensor.detach().numpy() for name, tensor in tensors.items()})


class _TableOnDevice:
    def __init__(self, table: Table, put: Callable[[Array], Tensor]) -> None:
        question = table.question
        self.question, self.shape = question, table.shape
        self.agents, self.weight, self.name = put(table.agents), put(table.weight), put(table.name)
        partly = question.kind != Kind.RANKED or bool((table.starts[:-1] == 0).any())
        self.starts = put(table.starts) if partly else None
        self.extra = put({Kind.DUEL: table.outcome, Kind.PAIRS: table.block}.get(question.kind, np.zeros(0)))

    def ties(self, p: dict[str, Tensor], model: Tensor, lean: Tensor, row: Tensor) -> Tensor:
        """Return (n_tie, m, V) log tie weights; the weight of both-bad answers does not lean."""
        import torch

        q = self.question
        if not q.n_tie:
            return None
        base = p["tie"][:, q.tie : q.tie + q.n_tie].index_select(0, model).T.unsqueeze(-1)
        leaning = (p["lean"].index_select(0, model) + lean.index_select(0, row).unsqueeze(-1)).unsqueeze(0)
        if q.kind == Kind.DUEL:
            leaning = torch.cat([leaning, torch.zeros_like(leaning)])
        return base + leaning

    def log_likelihood(self, u: Tensor, record: Tensor, ties: Tensor) -> Tensor:
        starts = None if self.starts is None else self.starts.index_select(1, record)
        extra = self.extra.index_select(self.extra.dim() - 1, record) if len(self.extra) else None
        return log_likelihood(self.question.kind, u, self.shape, starts, extra, ties)


# Contexts (models, width), and for each table which row each record belongs to, of models * width, and which it is.
_Batch = tuple[Ints, list[tuple[Ints, Ints]]]


def _batches(contexts: list[Ints], steps: int, tables: list[Table]) -> Iterator[_Batch]:
    """Deal the contexts of every model over the same number of steps, with all their records, one step at a time."""
    width = max(1, ceil(max(map(len, contexts)) / steps))
    for grid in np.stack([_dealt(mine, steps, width) for mine in contexts], axis=1):
        there: Bools = grid.ravel() >= 0
        flat: Ints = np.maximum(grid, 0).ravel()
        answers: list[tuple[Ints, Ints]] = []
        for table in tables:
            starts = table.offsets[flat]
            sizes = np.where(there, table.offsets[flat + 1] - starts, 0)
            answers.append((np.repeat(np.arange(len(flat)), sizes), runs(starts, sizes)))
        yield flat.reshape(grid.shape), answers


def _dealt(contexts: Ints, steps: int, width: int) -> Ints:
    """Return (steps, width) what each step has of some contexts, as `np.array_split` deals them; -1 beyond."""
    each, more = divmod(len(contexts), steps)
    grid = np.full((steps, width), -1, np.int64)
    grid[np.arange(width) < each + (np.arange(steps)[:, None] < more)] = contexts
    return grid


def context_sums(tables: list[Table], name: str, n_contexts: int) -> Floats:
    """Return (n_contexts,) sums of a column of the tables, "weight" or "count", over the rows of each context."""
    sums = np.zeros(n_contexts)
    for table in tables:
        total = np.concatenate([[0.0], np.cumsum(getattr(table, name), dtype=np.float64)])
        sums += total[table.offsets[1:]] - total[table.offsets[:-1]]
    return sums
