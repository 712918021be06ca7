"""`Voters`, the default outcome model: a population of latent voters, each with transitive utilities.

Voter v gives agent j the utility u_v(x, j). The margin of a question is the mean over voters of what that voter would
answer, so it is antisymmetric, may cycle, and every form of feedback speaks through one likelihood. `voters_records`
lays the records out, `voters_likelihood` and `voters_margins` say how one voter answers, `voters_network` what its
utilities are, `voters_train` trains all folds as one, `voters_plan` chooses sizes, `voters_probes` which menus to ask.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nasheval.arrays import Array, Bools, Floats, Ints
from nasheval.engine import one_thread
from nasheval.errors import InputError
from nasheval.feedback.log import Feedback
from nasheval.feedback.menus import MenuCatalogue
from nasheval.nuisance.learners import Effort, Features, picked
from nasheval.nuisance.voters_duels import Electorate, is_compiled
from nasheval.nuisance.voters_margins import is_duel, margins, menu_tie_weight, stands_for_menus, tie_weights
from nasheval.nuisance.voters_network import Shape, Stack, forward_one
from nasheval.nuisance.voters_plan import FEW, Workshop, batch_for, epochs_for, hidden_for
from nasheval.nuisance.voters_probes import Block, Probes, probes_of
from nasheval.nuisance.voters_records import Kind, Question, question_rows, questions_of, stop_shares, tables_of
from nasheval.nuisance.voters_train import Data, Schedule, context_sums

_CELLS = 1 << 20  # numbers held at a time while predicting: they stay in cache
MOST = 80.0  # of a log weight, so that the weight is a number
_SMALL = 128  # widths up to which a step is so small that threads wait for each other


@dataclass(frozen=True)
class Voters:
    """Learns mu^m_jk as the mean answer of a few latent voters. None means: by the rules of `voters_plan`.

    Args:
        voters: number of latent voters.
        hidden: widths of the network's hidden layers.
        epochs: passes over the contexts; the best one on held-out contexts is kept, the pooled model if none is better.
        weight_decay: how fast weights shrink toward the pooled model, whatever the input; None also finds out which
            inputs matter.
        members: models per fold, whose answers are averaged; each holds out contexts of its own.
    """

    voters: int | None = None
    hidden: tuple[int, ...] | None = None
    epochs: int | None = None
    weight_decay: float | None = None
    members: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("voters", 1), ("epochs", 0), ("members", 1)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value != int(value) or value < least):
                raise InputError(f"{name} is {value!r}; accepted is a whole number of {least} or more, or None.")
        if self.hidden is not None and (not self.hidden or min(self.hidden) < 1):
            raise InputError(f"hidden is {self.hidden!r}; accepted are one or more widths of 1 or more, or None.")
        if self.weight_decay is not None and not 0 <= self.weight_decay < np.inf:
            raise InputError(f"weight_decay is {self.weight_decay!r}; accepted is a number of 0 or more, or None.")

    def fit(self, log: Feedback, X: Features, train: Bools, effort: Effort) -> VoterModels:
        """Fit one population for each training set; see `Learner.fit`."""
        whole = log.whole  # of ballots cut into pairs, voters learn from the ballots
        questions = questions_of(whole)
        data = Data(np.ascontiguousarray(X.network, np.float32), tables_of(whole, questions), questions)
        asked = train & (context_sums(data.tables, "weight", log.n_contexts) > 0)
        workshop = self._workshop(whole, data, asked, effort)
        shape, trained, recipes = workshop.run(self.voters, self.weight_decay)
        by_fold = (len(train), workshop.members)
        return VoterModels(
            menus=log.menus,
            probes=probes_of(log, questions),
            questions=tuple(questions),
            shape=shape,
            parameters={
                name: values.reshape(*by_fold, *values.shape[1:]) for name, values in trained.parameters.items()
            },
            stops=stop_shares(data.tables, questions, asked),
            held_out_loss=_mean(trained.loss.reshape(by_fold)),
            pooled_loss=_mean(trained.pooled_loss.reshape(by_fold)),
            epoch=trained.epoch.reshape(by_fold)[:, 0],
            n_voters=np.array([recipe.voters for recipe in recipes]),
            weight_decay=np.array([recipe.weight_decay for recipe in recipes]),
        )

    def _workshop(self, log: Feedback, data: Data, asked: Bools, effort: Effort) -> Workshop:
        contexts = int(asked.sum(axis=1).mean())
        made = np.bincount(log.context_of, log.records.sizes - 1.0, log.n_contexts)  # comparisons at each context
        comparisons = float((asked * made).sum(axis=1).mean())
        members = self.members or (5 if contexts <= FEW else 1)
        epochs = epochs_for(contexts) if self.epochs is None else self.epochs
        hidden = tuple(self.hidden or hidden_for(comparisons))
        schedule = Schedule(
            epochs=epochs if contexts else 0,
            batch=batch_for(contexts, comparisons),
            device=effort.device,
            threads=(effort.n_jobs if effort.n_jobs > 0 else os.cpu_count() or 1) if max(hidden) > _SMALL else 1,
        )
        return Workshop(log, data, asked, schedule, hidden, members, effort)


def _mean(losses: Floats) -> Floats:
    """Return the mean over members; NaN where no member held anything out."""
    known = ~np.isnan(losses)
    with np.errstate(invalid="ignore"):
        return np.where(known, losses, 0.0).sum(axis=1) / known.sum(axis=1)


@dataclass(frozen=True, eq=False)
class VoterModels:
    """Fitted populations, one per fold; a fold with several members has the voters of all of them.

    Args:
        menus: the catalogue whose columns are predicted.
        probes: the menus that voters are asked about for that.
        questions: the kinds of question in the log's ballots.
        shape: of the network.
        parameters: each (folds, members, ...), as in `voters_network`.
        stops: (folds, questions, places) how often voters stop ranking, for questions that let them.
        held_out_loss: (folds,) mean negative log likelihood of a record at contexts held out; NaN without any.
        pooled_loss: (folds,) the same of the pooled model.
        epoch: (folds,) the epoch that was kept; 0 is the pooled model.
        n_voters: (folds,) voters of a member.
        weight_decay: (folds,) as chosen.
    """

    menus: MenuCatalogue
    probes: Probes
    questions: tuple[Question, ...]
    shape: Shape
    parameters: dict[str, Floats]
    stops: Floats
    held_out_loss: Floats
    pooled_loss: Floats
    epoch: Ints
    n_voters: Ints
    weight_decay: Floats

    # -- the model ----------------------------------------------------------------------------------------------------

    def predict(self, X: Features, fold: int) -> Floats:
        """Return (n, P) float32 mu^m_jk, one column for each pair of each menu."""
        return self.answers(X, fold, self.probes)

    def mean(self, X: Features) -> Floats:
        """Return (n, P) the mean of `predict` over the folds."""
        return self.mean_answers(X, self.probes)[0]

    def answers(self, X: Features, fold: int, probes: Probes) -> Floats:
        """Return (n, columns) float32 mean verdicts that the voters of a fold would give to some probes."""
        return self._answers(X, range(fold, fold + 1), (probes,))[0].astype(np.float32)

    def mean_answers(self, X: Features, *several: Probes) -> list[Floats]:
        """Return (n, columns) the mean of `answers` over the folds, for each of several probes; voters speak once."""
        return self._answers(X, range(len(self.n_voters)), several)

    def _answers(self, X: Features, folds: range, several: tuple[Probes, ...]) -> list[Floats]:
        columns = sum(len(probes.menus.columns) for probes in several)
        step = max(1, _CELLS // max(1, columns, self.shape.outputs * len(folds)))
        if len(X) == 1:
            return self._chunk(X, folds, several)
        with one_thread():
            if len(X) <= step:
                return self._chunk(X, folds, several)
            verdicts: list[Floats] = [np.empty((len(X), probes.n_columns)) for probes in several]
            for start in range(0, len(X), step):
                rows = slice(start, start + step)
                for whole, part in zip(verdicts, self._chunk(X[rows], folds, several), strict=True):
                    whole[rows] = part
            return verdicts

    def _chunk(self, X: Features, folds: range, several: tuple[Probes, ...]) -> list[Floats]:
        """Return (n, columns) for each of several probes."""
        duels, verdicts = _Duels(self, X, folds), []
        for probes in several:
            total = self._total(X, folds, probes, duels)
            total /= len(folds)
            pooled = probes.pooled(total)
            verdicts.append(np.minimum(np.maximum(pooled, -1.0, out=pooled), 1.0, out=pooled))
        return verdicts

    def _total(self, X: Features, folds: range, probes: Probes, duels: _Duels) -> Floats:
        """Return (n, pairs of the probes' menus) the sum over folds of their voters' mean verdicts."""
        is_duels = [is_duel(self.questions[block.question], len(block.agents)) for block in probes.blocks]
        if is_duels == [True]:
            return duels.on(probes.blocks[0])
        total = np.zeros((len(X), len(probes.menus.columns)))
        for block, is_duels_only in zip(probes.blocks, is_duels, strict=True):
            if is_duels_only:
                total[:, block.pairs.column] = duels.on(block)
            else:
                total[:, block.columns] = sum(self._menus(X, fold, block) for fold in folds)
        return total

    def are_duels(self, probes: Probes) -> bool:
        """Tell whether each column is what voters say of two agents, all of them asked one question."""
        one = len(probes.blocks) == 1 and probes.is_plain
        return one and len(probes.blocks[0].agents) == 2 and is_duel(self.questions[probes.blocks[0].question], 2)

    def electorate(self, X: Features, folds: range) -> Electorate:
        """Return the voters of some folds at n contexts."""
        (stack, weight, tie), x = self._stacks(folds), np.ascontiguousarray(X.network, np.float32)
        if len(x) == 1 and is_compiled():
            return Electorate.of_one(stack.outputs(x), stack.taste, stack.lean, weight, tie)
        u, lean = stack.forward(x)
        members = weight.shape[1]
        u, lean = (values.reshape(len(folds), members, *values.shape[1:]) for values in (u, lean))
        return Electorate.of(u, weight, lean, tie)

    def _stacks(self, folds: range) -> tuple[Stack, Floats, Floats]:
        """Return the models of some folds, the weights (folds, members, V) of their voters, and of ties."""
        if folds not in self._known_stacks:
            members = self.parameters["pooled"].shape[1]
            stack, by_fold = self.stack[folds.start * members : folds.stop * members], (len(folds), members, -1)
            weight = stack.weight.reshape(by_fold) / np.float32(members)
            self._known_stacks[folds] = stack, weight, stack.tie.reshape(by_fold)
        return self._known_stacks[folds]

    @cached_property
    def _known_stacks(self) -> dict[range, tuple[Stack, Floats, Floats]]:
        return {}

    @cached_property
    def stack(self) -> Stack:
        """All networks, fold by fold and in each member by member."""
        models = self.parameters["pooled"].shape[0] * self.parameters["pooled"].shape[1]
        flat = {name: values.reshape(models, *values.shape[2:]) for name, values in self.parameters.items()}
        return Stack.of(flat, self.shape)

    def tie_weights(self, electorate: Electorate, folds: range, block: Block) -> tuple[Floats, Floats]:
        """Return the weights of ties and of both-bad answers, (F, M, n, V) each, around the middle of utilities."""
        question, nothing = self.questions[block.question], np.zeros_like(electorate.lean)
        key = folds, block.question
        if key not in self._known_ties:
            tie = electorate.tie[..., question.tie : question.tie + question.n_tie]
            self._known_ties[key] = np.ascontiguousarray(np.moveaxis(tie, -1, 0))[..., None, None]
        ties = self._known_ties[key]
        leaning = [each + electorate.lean for each in ties[: 1 if question.kind == Kind.DUEL else None]]
        if stands_for_menus(question, len(block.agents)):
            nu = np.empty_like(nothing)
            for place, fold in enumerate(folds):
                there = np.array([each[place].ravel() for each in leaning], np.float32)
                there = there.reshape(question.n_tie, 1, nu[place].size)
                weight = menu_tie_weight(question, there, self.stops[fold, block.question])
                nu[place] = weight.reshape(nu[place].shape)
            return nu, nothing
        if not leaning:
            return nothing, nothing
        nu, log_bad = tie_weights([*leaning, *ties[len(leaning) :]])  # both-bad answers do not lean
        return nu, nothing if log_bad is None else np.exp(np.minimum(log_bad - electorate.middle, MOST))

    @cached_property
    def _known_ties(self) -> dict[tuple[range, int], Floats]:
        """(n_tie, F, M, 1, 1) the log tie weights of some folds and a question, once they were asked for."""
        return {}

    def cells(self, X: Features, fold: int, rows: Ints, columns: Ints) -> Floats:
        """Return (cells,) mu^m_jk at rows[i] of X and column columns[i]; only menus that are asked for are answered."""
        if self.probes.pooling is not None:
            return picked(self, X, fold, rows, columns)
        table, values = self.menus.columns, np.empty(len(rows), np.float32)
        asked, place = np.unique(rows.astype(np.int64) * len(self.menus) + table.menu[columns], return_inverse=True)
        within = columns - table.offsets[table.menu[columns]]  # which pair of its menu
        order = np.argsort(place, kind="stable")
        row, menu = np.divmod(asked, len(self.menus))
        step = max(1, _CELLS // max(1, self.shape.outputs))
        for start in range(0, len(asked), step):
            chunk = slice(start, start + step)
            contexts, at = np.unique(row[chunk], return_inverse=True)
            answers = self._at_menus(self.voters(X[contexts], fold), at, menu[chunk], self.stops[fold])
            mine = order[slice(*np.searchsorted(place, [start, start + step], sorter=order))]
            values[mine] = answers[within[mine], place[mine] - start]
        return np.clip(values, -1.0, 1.0, out=values)

    def _at_menus(self, voters: list[LatentVoter], at: Ints, menu: Ints, stops: Floats) -> Floats:
        """Return (most pairs, cells) the voters' mean answers to menu[i] at the context at[i] of theirs."""
        menus, question = self.menus, self.probes.question[menu]
        most = int(menus.sizes[menu].max(initial=2))
        answers = np.zeros((most * (most - 1) // 2, len(menu)), np.float32)
        for number in np.unique(question).tolist():
            here, asked = np.flatnonzero(question == number), self.questions[number]
            agents = menus.agent[menus.offsets[menu[here]] + np.arange(asked.size)[:, None]]
            for voter in voters:
                one = replace(voter, lean=voter.lean[at[here]])
                u = voter.u[agents, at[here]][:, None]
                answer = margins(asked, u, one.ties(asked), stops[number])[:, 0]
                answers[: len(answer), here] += voter.weight * answer
        return answers

    def voters(self, X: Features, fold: int) -> list[LatentVoter]:
        """Return the voters of a fold, those of all its members."""
        x, members = np.ascontiguousarray(X.network, np.float32), len(self.parameters["pooled"][fold])
        voters: list[LatentVoter] = []
        for member in range(members):
            p = {name: values[fold, member] for name, values in self.parameters.items()}
            u, weight, lean = forward_one(p, x, self.shape)
            share = weight / np.float32(members)
            count = int(self.n_voters[fold])
            voters += [LatentVoter(u[v], share[v], p["tie"], lean + p["lean"][v]) for v in range(count)]
        return voters

    def _menus(self, X: Features, fold: int, block: Block) -> Floats:
        """Return (n, pairs M) what the voters of a fold say of menus that are no duels."""
        question, stops = self.questions[block.question], self.stops[fold, block.question]
        total = np.zeros((len(block.columns) // block.agents.shape[1], block.agents.shape[1], len(X)), np.float32)
        for voter in self.voters(X, fold):
            total += voter.weight * margins(question, voter.u[block.agents], voter.ties(question), stops)
        return total.reshape(-1, len(X)).T

    # -- plain arrays -------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Array]:
        """Return everything as plain arrays, for a file; `from_arrays` is the way back."""
        menus, shape = self.menus, self.shape
        sizes = [shape.inputs, shape.agents, shape.voters, shape.ties, 0, *shape.hidden]  # 0: once an option
        return {
            "shape": np.array(sizes, np.int64),
            "questions": question_rows(self.questions),
            "menu_offsets": menus.offsets,
            "menu_agents": menus.agent,
            "menu_forms": menus.form,
            **{name: getattr(self, name) for name in _RESULTS},
            **{f"parameter.{name}": values for name, values in self.parameters.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], log: Feedback) -> VoterModels:
        """Return the models that `to_arrays` wrote, given the log that they were fitted to."""
        questions = questions_of(log.whole)
        return cls.assembled(arrays, log.menus, tuple(questions), probes_of(log, questions))

    @classmethod
    def assembled(
        cls, arrays: Mapping[str, Array], menus: MenuCatalogue, questions: tuple[Question, ...], probes: Probes
    ) -> VoterModels:
        """Return the models that `to_arrays` wrote, given what the log says of them."""
        inputs, agents, voters, ties, _, *hidden = arrays["shape"].tolist()
        prefix = "parameter."
        return cls(
            menus=menus,
            probes=probes,
            questions=questions,
            shape=Shape(inputs, agents, voters, tuple(hidden), ties),
            parameters={name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)},
            **{name: arrays[name] for name in _RESULTS},
        )


class _Duels:
    """What the voters of some folds say of two agents, at n contexts, who are made once for several blocks."""

    def __init__(self, models: VoterModels, X: Features, folds: range) -> None:
        self.models, self.X, self.folds = models, X, folds
        self.ties: dict[tuple[int, int], tuple[Floats, Floats]] = {}

    @cached_property
    def electorate(self) -> Electorate:
        """The voters."""
        return self.models.electorate(self.X, self.folds)

    def on(self, block: Block) -> Floats:
        """Return (n, pairs) the sum over folds of their mean verdicts on a block of duels."""
        key = block.question, len(block.agents)
        if key not in self.ties:
            self.ties[key] = self.models.tie_weights(self.electorate, self.folds, block)
        return self.electorate.duels(block.pairs, *self.ties[key])


_RESULTS = ("stops", "held_out_loss", "pooled_loss", "epoch", "n_voters", "weight_decay")


@dataclass(frozen=True)
class LatentVoter:
    """One voter at n contexts: utilities (K, n), share (1,), log tie weights (T,), lean to ties (n,)."""

    u: Floats
    weight: Floats
    tie: Floats
    lean: Floats

    def ties(self, question: Question) -> Floats:
        """Return (n_tie, 1, n) log tie weights of a question; the weight of both-bad answers does not lean."""
        base = self.tie[question.tie : question.tie + question.n_tie, None, None]
        leaning = np.zeros((question.n_tie, 1, len(self.lean)), np.float32)
        leaning[: 1 if question.kind == Kind.DUEL else None] = self.lean
        return base + leaning
