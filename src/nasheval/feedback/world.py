"""`SyntheticWorld`: the paper's simulation (appendix "Simulated agent-evaluation dataset"), whose truth is known."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import isfinite
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nasheval.arrays import Array, Floats, Ints, int_dtype, offsets_of, readonly
from nasheval.errors import InputError
from nasheval.feedback import fields
from nasheval.feedback.design import DesignName
from nasheval.feedback.fields import FourierField
from nasheval.feedback.log import Feedback
from nasheval.feedback.menus import MenuCatalogue
from nasheval.feedback.partition import Zero
from nasheval.feedback.records import Records

Modality = Literal["pairwise", "ranking", "winner"]
Selection = Literal["inclusion", "one"]

_MODALITIES, _SELECTIONS = get_args(Modality), get_args(Selection)
_DESIGN: dict[Selection, DesignName] = {"inclusion": "inclusion", "one": "draws"}
_CELLS = 1 << 23  # numbers held for one chunk of contexts: 64 MB as float64


@dataclass(frozen=True)
class Outcome:
    """The true outcome regressions mu0 at n contexts, one column for each pair j < k of each menu.

    Args:
        catalogue: the M menus and their forms, in the order of the catalogue of a log that asks all of them; its
            `columns` tell the menu and the agents of each column.
        values: (n, P) mu^m_0,jk(x) = E[Z^m_jk | X = x].
    """

    catalogue: MenuCatalogue
    values: Floats


@dataclass(frozen=True, eq=False)
class SyntheticWorld:
    """Agents, voters and contexts whose payoffs, outcome regressions and propensities are known exactly.

    The nine settings of a seed (three modalities, one, three or five voters) share the fields, the specialisation, the
    selection direction, the voter pool and the contexts; what one call draws depends on no other call. The defaults are
    those of Table syn-config.

    "pairwise" asks all pairs; "ranking" a cyclic catalogue of triples (the paper's five for K = 5); "winner" all
    triples for K <= 10, for more agents three random relabellings of the ranking catalogue, so that a pair is in about
    three menus.

    Args:
        seed: of everything that is drawn.
        agents: K, named a0, a1, ...
        dim: d, the length of a context.
        features: D, Fourier features of a field.
        calibration: number of contexts on which the fields are standardised.
        amplitudes: (a_s, a_c, a_h) of shared quality, specialisation and criterion variation.
    """

    seed: int = 70
    _: KW_ONLY
    agents: int = 5
    dim: int = 5
    features: int = 128
    calibration: int = 4096
    amplitudes: tuple[float, float, float] = (1.0, 2.0, 0.15)

    def __post_init__(self) -> None:
        counts = {"seed": 0, "agents": 3, "dim": 1, "features": 1, "calibration": 2}
        for name, least in counts.items():
            object.__setattr__(self, name, _whole(name, getattr(self, name), least))
        try:
            numbers = tuple(float(value) for value in self.amplitudes)
        except (TypeError, ValueError, OverflowError):
            numbers = ()
        if len(numbers) != 3 or not all(map(isfinite, numbers)):
            raise InputError(f"amplitudes is {self.amplitudes!r}; accepted is a tuple of 3 finite numbers.")
        object.__setattr__(self, "amplitudes", numbers)

    # -- what is drawn once -------------------------------------------------------------------------------------------

    @cached_property
    def _fields(self) -> tuple[FourierField, FourierField]:
        """The fields of shared quality s, K outputs, and of criteria h, K * p outputs, agent by agent."""
        calibration = self._rng(fields.CALIBRATION).random((self.calibration, self.dim))
        draws = ((fields.SHARED, self.agents), (fields.CRITERION, self.agents * fields.CRITERIA))
        shared, criterion = (FourierField.draw(self._rng(key), k, self.features, calibration) for key, k in draws)
        return shared, criterion

    def voter_weights(self, voters: int) -> Floats:
        """Return w_v, (V, p), of the first V voters of the pool (Eq. syn-voter-weights)."""
        return fields.voter_weights(self._rng(fields.POOL), _whole("voters", voters, 1))

    def contexts(self, n: int = 20_000) -> Floats:
        """Return the first n training contexts, (n, d), uniform on the unit cube."""
        return readonly(self._rng(fields.TRAIN).random((_whole("n", n, 1), self.dim)))

    def test_contexts(self, n: int = 4096) -> Floats:
        """Return the first n test contexts, (n, d), uniform on the unit cube."""
        return readonly(self._rng(fields.TEST).random((_whole("n", n, 1), self.dim)))

    def catalogue(self, modality: Modality) -> MenuCatalogue:
        """Return the menus of a modality, in the order of their agents, with their forms of question."""
        return fields.catalogue(_choice("modality", modality, _MODALITIES), self.agents, self._rng(fields.MENUS))

    # -- a log --------------------------------------------------------------------------------------------------------

    def feedback(
        self,
        modality: Modality,
        voters: int = 3,
        n: int = 20_000,
        *,
        selection: Selection = "inclusion",
        known_propensity: bool = False,
        reveal_voters: bool = False,
    ) -> Feedback:
        """Return a log of n contexts with columns x0, x1, ... (appendix section "Menus, selection, and feedback").

        Args:
            modality: "pairwise" tells the better of two, "ranking" the order of a menu, "winner" only its best agent.
            voters: size of the population; each record samples one of them.
            n: number of contexts; those that are asked no menu are kept.
            selection: "inclusion" asks each menu with probability e0(x), "one" draws exactly one menu per context.
            known_propensity: write the true propensity of each record into the log.
            reveal_voters: write the voter of each record (v0, v1, ...) into the log.
        """
        X, population = self.contexts(n), _whole("voters", voters, 1)
        context_of, sizes, agent, rank, voter, propensity = self._draw(
            X, modality, population, selection, known_propensity
        )
        records = Records.build(
            sizes=sizes,
            agent=agent,
            rank=rank,
            zero=Zero.CENSORED if modality == "winner" else Zero.TIE,  # of three, only the best is known
            propensity=propensity if known_propensity else None,
            voter=voter if reveal_voters else None,
        )
        return Feedback.from_records(
            records,
            agents=[f"a{j}" for j in range(self.agents)],
            contexts=pa.table({f"x{c}": np.ascontiguousarray(X[:, c]) for c in range(self.dim)}),
            context_of=context_of,
            voters=pa.array([f"v{v}" for v in range(population)]) if reveal_voters else None,
            design=_DESIGN[selection],
        )

    def _draw(self, X: Floats, modality: Modality, voters: int, selection: Selection, known: bool) -> tuple[Array, ...]:
        """Return context, size, agents, ranks, voter and (if known) propensity of all records; agents, ranks flat."""
        menus, weights = self.catalogue(modality), self.voter_weights(voters)
        key = (_MODALITIES.index(modality), voters, _SELECTIONS.index(_choice("selection", selection, _SELECTIONS)))
        asking, answering = (self._rng(fields.RECORDS, *key, stream) for stream in range(2))
        width = 4 * (len(menus.agent) if selection == "inclusion" else len(menus))
        chunks = []
        for rows in self._chunks(len(X), voters, width):
            e = self._propensity(X[rows], menus if selection == "one" else None)
            context, menu = fields.questions(e, len(menus), asking)
            voter = (answering.random(len(menu)) * voters).astype(int_dtype(voters))
            agent, rank = fields.answers(self._places(X[rows], weights), menus, modality, context, menu, voter)
            sizes = menus.sizes.astype(int_dtype(self.agents))[menu]
            asked = (e[context] if selection == "inclusion" else e[context, menu]) if known else np.zeros(0)
            chunks.append(((context + rows.start).astype(np.int32), sizes, agent, rank, voter, asked))
        return tuple(np.concatenate(column) for column in zip(*chunks, strict=True))

    # -- the truth ----------------------------------------------------------------------------------------------------

    def utilities(self, X: npt.ArrayLike, voters: int = 3) -> Floats:
        """Return u_vj(x), (n, V, K), at contexts X, (n, d) (Eq. syn-voter-utility)."""
        return self._utilities(self._points(X), self.voter_weights(voters))

    def propensity(
        self, X: npt.ArrayLike, modality: Modality | None = None, *, selection: Selection = "inclusion"
    ) -> Floats:
        """Return the true propensities at contexts X, (n, d) (Eq. syn-selection).

        Args:
            modality: whose menus; needed for selection="one" only.
            selection: "inclusion": e0(x), (n,), the same for every menu; "one": (n, M), rows sum to one.
        """
        points = self._points(X)
        if _choice("selection", selection, _SELECTIONS) == "inclusion":
            return self._propensity(points, None)
        if modality is None:
            raise InputError("modality is None; with selection='one' the menus matter: give modality='pairwise' or so.")
        return self._propensity(points, self.catalogue(modality))

    def _propensity(self, X: Floats, menus: MenuCatalogue | None) -> Floats:
        """Return e0(x), (n,); with menus of which one is drawn, (n, M)."""
        if menus is None:
            direction = self._rng(fields.DIRECTION).standard_normal((1, self.dim))
            return fields.selection_levels(X, direction)[:, 0]
        by_agent = self._rng(fields.DIRECTIONS).standard_normal((self.agents, self.dim))
        return fields.draw_probabilities(X, menus, by_agent)

    def outcome(self, X: npt.ArrayLike, modality: Modality, voters: int = 3) -> Outcome:
        """Return the true outcome regressions mu0 at contexts X, (n, d) (Eqs. syn-latent-margin, syn-winner-truth)."""
        points, menus = self._points(X), self.catalogue(modality)
        values = np.empty((len(points), len(menus.columns)))
        for rows, totals in self._totals(points, modality, voters):
            values[rows] = totals / voters
        return Outcome(menus, readonly(values))

    def payoff(self, X: npt.ArrayLike, modality: Modality, voters: int = 3) -> Floats:
        """Return the exact game A(x), (n, K, K), at contexts X, (n, d) (Eq. syn-menu-game)."""
        points, menus = self._points(X), self.catalogue(modality)
        pair = menus.columns.pair
        order, count = np.argsort(pair, kind="stable"), np.bincount(pair)  # every pair has a menu: no count is zero
        j, k = np.triu_indices(self.agents, 1)
        out = np.zeros((len(points), self.agents, self.agents))
        for rows, totals in self._totals(points, modality, voters):
            margin = np.add.reduceat(totals[:, order], offsets_of(count)[:-1], axis=1) / (count * voters)
            out[rows, j, k], out[rows, k, j] = margin, 0.0 - margin  # no negative zeros
        return out

    def condorcet_winner(self, X: npt.ArrayLike, voters: int = 3) -> Ints:
        """Return the agent that beats every other by majority at each context, (n,); -1 where there is none."""
        beats_all = (self.payoff(X, "pairwise", voters) > 0).sum(axis=2) == self.agents - 1
        return np.where(beats_all.any(axis=1), beats_all.argmax(axis=1), -1)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _rng(self, *key: int) -> np.random.Generator:
        """Return the generator at one place of the seed's tree, whatever else was or will be drawn."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def _utilities(self, X: Floats, weights: Floats) -> Floats:
        """Return the utilities of voters from the performance r_j(x) (Eq. syn-vector-performance)."""
        a_s, a_c, a_h = self.amplitudes
        shared, criterion = self._fields
        r = criterion(X).reshape(len(X), self.agents, -1)
        np.tanh(r, out=r)
        r *= a_h
        r += a_s * shared(X)[:, :, None]
        r += a_c * fields.specialization(self._rng(fields.PERMUTATION).permutation(self.agents))
        flat = r.reshape(-1, fields.CRITERIA)  # one large product is faster than n small ones
        return (flat @ weights.T).reshape(len(X), self.agents, -1).transpose(0, 2, 1)

    def _places(self, X: Floats, weights: Floats) -> Ints:
        return fields.preference_places(self._utilities(X, weights))

    def _totals(self, X: Floats, modality: Modality, voters: int) -> Iterator[tuple[slice, Ints]]:
        """Yield rows of X and the verdicts of each pair of each menu summed over voters: whole numbers, so exact."""
        menus, weights = self.catalogue(modality), self.voter_weights(voters)
        left, right = menus.columns.left, menus.columns.right
        for rows in self._chunks(len(X), voters, len(left) * (1 + voters // 3)):
            rank = fields.revealed(self._places(X[rows], weights)[:, :, menus.agent], menus.offsets, modality)
            yield rows, np.sign(rank[:, :, right] - rank[:, :, left]).sum(axis=1, dtype=np.int32)

    def _chunks(self, n: int, voters: int, more: int = 0) -> Iterator[slice]:
        """Yield slices of contexts for which about `_CELLS` numbers are held at once, `more` of them per context."""
        step = max(1, _CELLS // (self.features + self.agents * (fields.CRITERIA + 2 * voters) + more))
        return (slice(start, min(start + step, n)) for start in range(0, n, step))

    def _points(self, X: npt.ArrayLike) -> Floats:
        try:
            points = np.asarray(X, np.float64)
        except (TypeError, ValueError):
            raise InputError(f"X is {type(X).__name__}; accepted is an (n, {self.dim}) array of numbers.") from None
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise InputError(
                f"X has shape {points.shape}; accepted is (n, {self.dim}), one row per context as from `test_contexts`."
            )
        if not np.isfinite(points).all():
            raise InputError("X holds NaN or infinity; accepted are finite numbers: leave those rows out.")
        return points


# -- arguments --------------------------------------------------------------------------------------------------------


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise InputError(f"{name} is {value!r}; accepted is a whole number of {least} or more.")
    return number


def _choice(name: str, value: Any, accepted: tuple[str, ...]) -> Any:
    if value not in accepted:
        raise InputError(f"{name} is {value!r}; accepted is one of {', '.join(map(repr, accepted))}.")
    return value
