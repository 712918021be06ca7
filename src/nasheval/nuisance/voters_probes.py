"""Which menus latent voters are asked about, to answer for the columns of a log, or for pairs that it never compares.

The columns of a log of whole menus are its own menus. Those of ballots cut into pairs are means over the menus that
held the pair, as often as they were asked. In rankings the order of two agents does not depend on who else is there
(Plackett-Luce), or hardly (with ties): the pair alone stands for all its menus. Where only the best are known, it does;
there a few of the menus stand for all, so that a log of thousands of menus costs no more to predict than one of a few
hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, n_pairs, offsets_of
from nasheval.feedback.log import Feedback
from nasheval.feedback.menus import MenuCatalogue
from nasheval.nuisance.voters_duels import Pairs
from nasheval.nuisance.voters_records import Kind, Question

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MENUS_PER_PAIR = 8  # that stand for all menus of a pair
_COMPLETED = 4  # menus made up for a pair that was never compared


@dataclass(frozen=True, eq=False)
class Block:
    """Menus that are asked one question.

    Args:
        question: its number.
        agents: (size, M) their agents.
        columns: (pairs M,) the columns of their pairs, pair by pair.
        pairs: the same by columns, with the two agents of each.
    """

    question: int
    agents: Ints
    columns: Ints
    pairs: Pairs


@dataclass(frozen=True, eq=False)
class Probes:
    """Menus to ask voters about, and what to make of the answers.

    Args:
        menus: the menus; only their members and forms are used.
        question: (M,) the number of the question that each is asked.
        pooling: (pairs of these menus, columns) weights, each column's summing to one; None: one column per pair.
    """

    menus: MenuCatalogue
    question: Ints
    pooling: csr_array | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns that the answers make."""
        return len(self.menus.columns) if self.pooling is None else int(self.pooling.shape[1])

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The menus question by question; all of one question have one size."""
        return tuple(self._block(number) for number in sorted(set(self.question.tolist())))

    def _block(self, number: int) -> Block:
        menus, asked = self.menus, np.flatnonzero(self.question == number)
        size = int(menus.sizes[asked[0]])  # that of the question, or two where two agents stand for all menus
        agents = menus.agent[menus.offsets[asked][:, None] + np.arange(size)].T.astype(np.int64)
        left, right = np.triu_indices(size, 1)
        columns = menus.columns.offsets[asked] + np.arange(len(left))[:, None]
        order = np.argsort(columns, axis=None)
        pairs = Pairs(columns.ravel()[order], agents[left].ravel()[order], agents[right].ravel()[order])
        return Block(number, agents, columns.ravel(), pairs)

    def pooled(self, answers: Floats) -> Floats:
        """Return (n, columns), given the answers to the pairs of the menus, (n, pairs)."""
        pooling = self._pooling
        return answers if pooling is None else np.asarray(answers @ pooling, answers.dtype)

    @property
    def is_plain(self) -> bool:
        """Whether each pair of its menus is a column of its own, in order."""
        return self._pooling is None

    @cached_property
    def _pooling(self) -> csr_array | None:
        """The weights; None, too, where each pair is a column of its own, in order."""
        own = self.pooling
        if own is None or not own.shape[0] == own.shape[1] == own.nnz:
            return own
        place = np.arange(own.nnz + 1)
        in_order = (own.indptr == place).all() and (own.indices == place[:-1]).all()
        return None if in_order and (own.data == 1.0).all() else own


def probes_of(log: Feedback, questions: list[Question]) -> Probes:
    """Return the probes for the columns of a log, given the questions of its whole ballots."""
    if log.ballots is None:
        return Probes(log.menus, question_numbers(log.menus, questions))
    whole, columns = log.ballots.menus, log.ballots.menus.columns
    number = question_numbers(whole, questions)
    mass = np.bincount(whole.of_record, log.ballots.records.weights, len(whole)) / np.diff(columns.offsets)
    free = _menu_free(questions)[number]
    place = np.full(n_pairs(log.n_agents), -1)
    place[log.menus.columns.pair] = np.arange(len(log.menus.columns))
    cell = number[columns.menu].astype(np.int64) * len(place) + columns.pair  # a question and a pair
    weight = mass[columns.menu]
    kept = _representative(whole, cell, np.flatnonzero(~free), mass)
    return _joined(whole, number, kept, cell, weight, free[columns.menu], place)


def bridge_probes(log: Feedback, questions: list[Question], pairs: Ints, *, seed: int = 0) -> Probes:
    """Return the probes for pairs that no menu of the log holds, (b,) numbered by `pair_index`.

    They are asked the commonest question in which the order of two agents does not depend on who else is there, or
    hardly; where the log has none, the commonest question of all, on menus made up with agents drawn at random.
    """
    from scipy.sparse import csr_array

    whole, K = log.whole, log.n_agents
    number = question_numbers(whole.menus, questions)
    asked = np.bincount(number[whole.menus.of_record], whole.records.weights, len(questions))
    free = _menu_free(questions)
    chosen = int(np.where(free, asked, -1).argmax() if free.any() else asked.argmax())
    j, k = (side[pairs] for side in np.triu_indices(K, 1))
    size = 2 if free.any() else questions[chosen].size
    copies = 1 if size == 2 else _COMPLETED
    members = np.sort(_completed(np.repeat(np.stack([j, k], axis=1), copies, axis=0), size, K, seed), axis=1)
    offsets, forms = offsets_of(np.full(len(members), members.shape[1])), np.full(len(members), questions[chosen].form)
    agents, nobody = members.ravel().astype(np.int16), np.zeros(0, np.int32)
    menus = MenuCatalogue(offsets, agents, forms.astype(np.int16), nobody, K)
    right = menus.columns.pair == np.repeat(np.repeat(pairs, copies), np.diff(menus.columns.offsets))
    rows, column = np.flatnonzero(right), np.repeat(np.arange(len(pairs)), copies)
    pooling = csr_array((np.full(len(rows), 1 / copies), (rows, column)), shape=(len(right), len(pairs)))
    return Probes(menus, np.full(len(menus), chosen), pooling)


def _menu_free(questions: list[Question]) -> Bools:
    """Tell in which questions the order of two agents does not, or hardly, depend on who else is in the menu."""
    return np.array([question.kind != Kind.CENSORED for question in questions], bool)


def question_numbers(menus: MenuCatalogue, questions: list[Question]) -> Ints:
    """Return (M,) the question of each menu."""
    number = {(question.size, question.form): q for q, question in enumerate(questions)}
    both = zip(menus.sizes.tolist(), menus.form.tolist(), strict=True)
    return np.array([number[size, form] for size, form in both], np.int64)


def _representative(menus: MenuCatalogue, cell: Ints, asked: Ints, mass: Floats) -> Ints:
    """Return some of the menus in `asked`, the commonest first, so that every pair is in eight, or in all it has.

    Equally common ones come in random order: that of the catalogue would prefer the company of the first agents.
    """
    count: dict[int, int] = {}
    kept, offsets = [], menus.columns.offsets
    lots = np.random.default_rng(0).random(len(asked))
    for menu in asked[np.lexsort((lots, -mass[asked]))].tolist():
        cells = cell[offsets[menu] : offsets[menu + 1]].tolist()
        if any(count.get(one, 0) < _MENUS_PER_PAIR for one in cells):
            kept.append(menu)
            for one in cells:
                count[one] = count.get(one, 0) + 1
    return np.array(kept, np.int64)


def _joined(
    whole: MenuCatalogue, number: Ints, kept: Ints, cell: Ints, weight: Floats, free: Bools, place: Ints
) -> Probes:
    """Return menus of two, for the cells that are `free`, and the whole menus that were kept as one catalogue.

    The columns of each are weighted by how often it was asked.
    """
    from scipy.sparse import csr_array

    keys, at = np.unique(cell[free], return_inverse=True)
    of_two, pair_of_two = np.divmod(keys, len(place))
    two = np.stack([side[pair_of_two] for side in np.triu_indices(whole.n_agents, 1)], axis=1)
    weight_of_two = np.bincount(at, weight[free], len(keys)).astype(float)
    sizes = np.concatenate([np.full(len(two), 2), whole.sizes[kept]])
    agents = [two.ravel(), *(whole.members(int(menu)) for menu in kept)]
    menus = MenuCatalogue(
        offsets_of(sizes), np.concatenate(agents).astype(np.int16), np.zeros(len(sizes), np.int16),
        np.zeros(0, np.int32), whole.n_agents,
    )  # fmt: skip
    spans = [np.arange(whole.columns.offsets[menu], whole.columns.offsets[menu + 1]) for menu in kept]
    taken = np.concatenate([*spans, np.zeros(0, np.int64)]).astype(np.int64)
    all_of, kept_of = (np.bincount(cell[rows], weight[rows], int(cell.max()) + 1) for rows in (slice(None), taken))
    scaled = weight[taken] * (all_of / np.maximum(kept_of, 1e-300))[cell[taken]]  # the kept stand for all
    pair = np.concatenate([pair_of_two, whole.columns.pair[taken]])
    mass = np.concatenate([weight_of_two, scaled])
    mass /= np.bincount(pair, mass, len(place))[pair]
    pooling = csr_array((mass, (np.arange(len(pair)), place[pair])), shape=(len(pair), int(place.max()) + 1))
    return Probes(menus, np.concatenate([of_two, number[kept]]), pooling)


def _completed(pair: Ints, size: int, n_agents: int, seed: int) -> Ints:
    """Return (m, size) menus that hold both agents of each pair, (m, 2), the others drawn at random."""
    rng = np.random.default_rng(seed)
    order = rng.random((len(pair), n_agents))
    order[np.arange(len(pair))[:, None], pair] = -1.0  # the pair itself comes first
    return np.argsort(order, axis=1)[:, : min(size, n_agents)]
