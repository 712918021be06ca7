"""What Stage 1 found out about itself: the nuisances, the second stage, and where debiasing moved the payoffs.

The one-step mean payoff of a group less the plug-in's mean is the mean of the corrections in Gamma (Eq.
payoff-pseudo-outcome), which are held sparsely. So the move of every pair in every group costs one pass over the
verdicts, and no prediction at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.nuisance.diagnostics import NuisanceDiagnostics
from nasheval.payoff.clusters import FEW, voter_labels
from nasheval.payoff.corrected import Strength
from nasheval.payoff.groups import context_groups, is_number, n_values, quarter_groups
from nasheval.payoff.intervals import normal_scale
from nasheval.payoff.pseudo import PseudoOutcomes
from nasheval.payoff.second_stage import SecondStage
from nasheval.payoff.stage1 import Stage1

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_FEW_VALUES = 20  # a column of no more is grouped by its values, one of numbers with more by its quartiles
_MOST_COLUMNS = 16  # that are looked at unasked
_SAMPLED = 1 << 16  # (context, pair) cells on which the move of the surface is measured
_SHOWN = 10  # moves in a table
_TOLD = 100  # moves in to_dict
_ERROR = 0.05  # chance that any move is called significant where debiasing moves nothing


@dataclass(frozen=True)
class Move:
    """How far debiasing moved the mean payoff of one pair in one group of contexts.

    Args:
        column: the context column of the group; "" for all contexts.
        group: its value there.
        first, second: the pair.
        move: one-step estimate of the mean payoff of the first over the second, less the plug-in's mean.
        error: its standard error, clustered by context, and by voter where there are 20 of them or more.
        significant: whether it differs from zero, all moves of all groups together (Bonferroni, 5%).
    """

    column: str
    group: str
    first: str
    second: str
    move: float
    error: float
    significant: bool

    def __str__(self) -> str:
        where = f" where {self.column} is {self.group}" if self.column else ""
        return f"{self.first} over {self.second}{where}: {self.move:+.3f} ± {self.error:.3f}"


@dataclass(frozen=True, eq=False)
class GroupMoves:
    """The moves of every pair in the groups of one column; G groups.

    Args:
        column: the context column; "" for one group of all contexts.
        groups: (G,) names.
        n_contexts: (G,) contexts with a pseudo-outcome.
        move: (G, n_pairs) mean correction.
        error: (G, n_pairs) standard errors; infinite where the votes cannot tell.
        z: (G, n_pairs) move / error on the normal scale; 0 where the votes cannot tell.
    """

    column: str
    groups: tuple[str, ...]
    n_contexts: Ints
    move: Floats
    error: Floats
    z: Floats


@dataclass(frozen=True, eq=False)
class Stage1Diagnostics:
    """What a reader should know of a fitted Stage 1.

    Args:
        nuisances: out-of-fold fit, calibration and overlap.
        form: the second stage.
        strength: how strongly the plug-in was corrected and what that wins; None for other second stages.
        surface_move: root mean square of A(x) - plug-in(x), over contexts of the log and covered pairs.
        uncovered: pairs of agents that no menu holds.
        moves: of all contexts together, and of the groups of each column.
    """

    nuisances: NuisanceDiagnostics
    form: SecondStage
    strength: Strength | None
    surface_move: float
    uncovered: tuple[tuple[str, str], ...]
    moves: tuple[GroupMoves, ...]

    @classmethod
    def of(cls, stage1: Stage1, *, by: str | Sequence[str] | None = None) -> Stage1Diagnostics:
        """Measure a fitted Stage 1.

        Args:
            by: context columns whose groups to look at, numbers of more than 20 values in quarters; None: the first
                16 columns that have at most 20 values or are numbers.
        """
        pseudo = stage1.pseudo
        everywhere = _moves(pseudo, "", np.zeros(pseudo.n_contexts, np.int64), ["all"])
        return cls(
            nuisances=NuisanceDiagnostics.of(stage1.nuisances),
            form=stage1.payoff.form,
            strength=stage1.payoff.strength,
            surface_move=_surface_move(stage1),
            uncovered=stage1.payoff.uncovered,
            moves=(everywhere, *(_column_moves(pseudo, column) for column in _columns(pseudo, by))),
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the K agents."""
        return self.nuisances.agents

    @property
    def critical(self) -> float:
        """The |z| from which a move is significant, all pairs of all groups together."""
        tests = sum(int(np.isfinite(part.error).sum()) for part in self.moves)
        return float(norm.isf(_ERROR / 2 / max(tests, 1)))

    @property
    def n_significant(self) -> int:
        """How many moves are significant."""
        return sum(int((np.abs(part.z) > self.critical).sum()) for part in self.moves)

    def largest(self, most: int = _SHOWN) -> tuple[Move, ...]:
        """Return the moves furthest from zero by their standard errors, signed so that the move is positive."""
        z = np.concatenate([np.abs(part.z).ravel() for part in self.moves])
        order = np.argsort(-z, kind="stable")[:most]
        starts = np.cumsum([0, *(part.z.size for part in self.moves)])
        place = np.searchsorted(starts, order, side="right") - 1
        return tuple(self._move(self.moves[p], int(cell - starts[p])) for p, cell in zip(place, order, strict=True))

    def _move(self, part: GroupMoves, cell: int) -> Move:
        group, pair = divmod(cell, part.z.shape[1])
        names = [self.agents[side[pair]] for side in np.triu_indices(len(self.agents), 1)]
        move = float(part.move[group, pair])
        first, second = names if move >= 0 else names[::-1]
        clear = bool(abs(part.z[group, pair]) > self.critical)
        return Move(part.column, part.groups[group], first, second, abs(move), float(part.error[group, pair]), clear)

    def warnings(self) -> list[str]:
        """Say in words what a reader should know before trusting an estimate."""
        return [*self.nuisances.warnings(), *self._own_warnings()]

    def _own_warnings(self) -> Iterator[str]:
        if self.uncovered:
            names = ", ".join(" and ".join(pair) for pair in self.uncovered[:3])
            yield (
                f"{len(self.uncovered):,} pairs are in no menu (such as {names}): their payoffs are not identified and "
                f"given as 0."
            )
        yield from _stage_warnings(self.form, self.strength)
        if self.n_significant:
            yield (
                f"Debiasing moves {self.n_significant:,} mean payoffs by more than chance explains; clearest: "
                f"{self.largest(1)[0]}. There the outcome model is off, and so is the plug-in."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, with the hundred clearest moves."""
        return {
            "nuisances": self.nuisances.to_dict(),
            "second_stage": self.form,
            "strength": None if self.strength is None else _finite(self.strength.to_dict()),
            "surface_move": self.surface_move,
            "uncovered": [list(pair) for pair in self.uncovered],
            "columns": [part.column for part in self.moves if part.column],
            "significant_moves": self.n_significant,
            "moves": [_finite(asdict(move)) for move in self.largest(_TOLD)],
            "warnings": self.warnings(),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the nuisances, the second stage, the clearest moves and the warnings."""
        from rich.text import Text

        from nasheval.payoff.tables import listing, warnings

        yield self.nuisances
        yield Text(_stage_line(self.form, self.strength, self.surface_move))
        rows = (
            (move.column or "-", move.group, move.first, move.second, f"{move.move:+.3f}", f"{move.error:.3f}",
             "yes" if move.significant else "no")
            for move in self.largest()
        )  # fmt: skip
        title = f"Debiased less plug-in mean payoffs, the {_SHOWN} clearest; {self.n_significant:,} significant"
        yield listing(
            title, ("column", "group", "agent", "over"), ("move", "error", "significant"), rows, len(self.largest())
        )
        yield from warnings(tuple(self._own_warnings()))

    def __str__(self) -> str:
        from nasheval.payoff.tables import plain

        return plain(self)


# -- moves ------------------------------------------------------------------------------------------------------------


def _columns(pseudo: PseudoOutcomes, by: str | Sequence[str] | None) -> list[str]:
    log = pseudo.fit.log
    if by is not None:
        return [by] if isinstance(by, str) else list(by)
    few = [name for name in log.contexts.column_names if n_values(log, name) <= _FEW_VALUES or is_number(log, name)]
    return few[:_MOST_COLUMNS]


def _column_moves(pseudo: PseudoOutcomes, column: str) -> GroupMoves:
    log = pseudo.fit.log
    many = is_number(log, column) and n_values(log, column) > _FEW_VALUES
    code, names = (quarter_groups if many else context_groups)(log, column, pseudo.used)
    return _moves(pseudo, column, code, names)


def _moves(pseudo: PseudoOutcomes, column: str, code: Ints, names: list[str]) -> GroupMoves:
    """Return the mean corrections of each group and pair; code is (n_contexts,), -1 for no group."""
    n = np.bincount(code[pseudo.used & (code >= 0)], minlength=len(names))
    rows = np.flatnonzero(code[pseudo.context] >= 0)
    group = code[pseudo.context[rows]].astype(np.int64)
    cell, shape = group * pseudo.n_pairs + pseudo.pair[rows], (len(names), pseudo.n_pairs)
    part, weight = pseudo.correction[rows] / n[group], (pseudo.share * np.abs(pseudo.slope))[rows]
    move = np.bincount(cell, part, shape[0] * shape[1])
    variance, freedom = _uncertainty(pseudo, rows, cell, part, weight, len(move))
    known = (variance > 0) & (freedom > 0)
    error, z = np.full(len(move), np.inf), np.zeros(len(move))
    error[known] = np.sqrt(variance[known])
    z[known] = normal_scale(move[known] / error[known], freedom[known])
    return GroupMoves(column, tuple(names), readonly(n), *(readonly(each.reshape(shape)) for each in (move, error, z)))


def _uncertainty(
    pseudo: PseudoOutcomes, rows: Ints, cell: Ints, part: Floats, weight: Floats, size: int
) -> tuple[Floats, Floats]:
    """Return (size,) variances of the cells' sums of parts, and degrees of freedom, as `clusters` has them.

    Sums of clusters are squared as they are, not less their mean: that is their variance where nothing moved.
    """
    context, log = pseudo.context[rows].astype(np.int64), pseudo.fit.log
    by_context = _Clusters.of(context, cell, part, weight, size)
    voter, n_voters = voter_labels(log.records.voter, log.n_records)
    if len(np.unique(voter[voter < n_voters])) < FEW:
        return by_context.squares, by_context.effective - 1
    voter = voter[pseudo.record[rows]]
    by_voter = _Clusters.of(voter, cell, part, weight, size)
    within = _Clusters.of(context * (int(voter.max(initial=0)) + 1) + voter, cell, part, weight, size)
    both = by_context.squares + by_voter.squares - within.squares
    return np.maximum(both, by_context.squares), np.minimum(by_context.effective, by_voter.effective) - 1


@dataclass(frozen=True)
class _Clusters:
    """Of each cell, (size,): the sum over clusters of squared sums of parts, and the effective number of clusters."""

    squares: Floats
    effective: Floats

    @staticmethod
    def of(label: Ints, cell: Ints, part: Floats, weight: Floats, size: int) -> _Clusters:
        place = np.unique(label, return_inverse=True)[1].astype(np.int64)
        key, at = np.unique(place * size + cell, return_inverse=True)
        sums, mass = (np.bincount(at, values, len(key)) for values in (part, weight))
        squares, total, square = (np.bincount(key % size, each, size) for each in (sums**2, mass, mass**2))
        return _Clusters(squares, np.divide(total**2, square, out=np.zeros(size), where=square > 0))


def _surface_move(stage1: Stage1) -> float:
    """Return the root mean square of A(x) - plug-in(x) over an even sample of contexts."""
    covered: Bools = stage1.payoff.covered
    if stage1.payoff.form == "none" or not covered.any():
        return 0.0
    rows = np.arange(0, stage1.log.n_contexts, max(1, stage1.log.n_contexts * len(covered) // _SAMPLED))
    X = stage1.nuisances.X[rows]
    gap = stage1.payoff.predict_pairs(X) - stage1.plug_in.predict_pairs(X)
    return float(np.sqrt(np.mean(gap[:, covered] ** 2)))


# -- saying -----------------------------------------------------------------------------------------------------------


def _stage_warnings(form: SecondStage, strength: Strength | None) -> Iterator[str]:
    if form == "none":
        yield "A(x) is the plug-in: errors of the outcome model enter it at first order. Means of groups are debiased."
    if strength is None or strength.strength == 1:
        return
    how = "chosen on held-out folds" if strength.chosen else "as given"
    if strength.strength == 0:
        yield (
            f"A(x) is the plug-in (correction of strength 0, {how}): what the residuals teach does not show in the "
            f"held-out error. Means of groups are debiased all the same."
        )
    else:
        yield (
            f"A(x) is corrected at strength {strength.strength:.2f} ({how}): {1 - strength.strength:.0%} of the "
            f"outcome model's first-order error is left in it. Means of groups are debiased in full."
        )


def _stage_line(form: SecondStage, strength: Strength | None, move: float) -> str:
    told = f"Second stage {form!r}: A(x) is {move:.3f} from the plug-in (root mean square)"
    if strength is None:
        return told
    return (
        f"{told}; strength {strength.strength:.2f} of {strength.trees} trees, {strength.candidate}; best "
        f"{strength.best:.2f}, which lowers the held-out squared error by {strength.gain:.4f} ± "
        f"{strength.gain_error:.4f} a context"
    )


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in values.items()}
