"""What Stage 1 knows of itself: the nuisances, the second stage, and where debiasing moved the payoffs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Bools, Ints
from nasheval.feedback.links import BRIDGED, SEEN, UNKNOWN
from nasheval.files import json_values
from nasheval.notes import Note
from nasheval.nuisance.nuisance_diagnostics import NuisanceDiagnostics
from nasheval.payoff.bridging import Unseen, unseen_notes
from nasheval.payoff.drawing import listing, warnings
from nasheval.payoff.moves import LEVEL, GroupMoves, all_moves, critical_z
from nasheval.payoff.second_stage import SecondStage
from nasheval.payoff.stage1 import Stage1
from nasheval.payoff.strengths import Strength
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_SAMPLED = 1 << 16  # (context, pair) cells on which the move of the surface is measured
_SHOWN = 10  # moves in a table
_NAMED = 3  # corrected pairs in a sentence
_MEANS = "Means of groups are one-step estimates: right where either nuisance is right."
_LISTED = 100  # moves in to_dict


@dataclass(frozen=True)
class Move:
    """How far debiasing moved the mean payoff of one pair in one group of contexts.

    Args:
        column: the context column of the group; "" for all contexts.
        group: its value there.
        first, second: the pair.
        move: one-step estimate of the mean payoff of the first over the second, less the plug-in's mean.
        error: its standard error, clustered by context, and by voter where there are 20 of them or more.
        significant: whether it differs from zero (p < 0.05, all pairs and groups together, Bonferroni).
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
class Stage1Diagnostics:
    """What a reader should know of a fitted Stage 1.

    Args:
        nuisances: out-of-fold fit, calibration and overlap.
        form: the second stage.
        strength: how strongly the plug-in was corrected and what that wins; None for other second stages.
        surface_move: root mean square of A(x) - plug-in(x), over contexts of the log and covered pairs.
        status: (n_pairs,) whether each pair was seen, is bridged or unknown (`nasheval.payoff.bridging`).
        unseen: what was made of pairs that were never compared.
        moves: of all contexts together, and of the groups of each column.
        updates: what the last update said of a full refit.
    """

    nuisances: NuisanceDiagnostics
    form: SecondStage
    strength: Strength | None
    surface_move: float
    status: Ints
    unseen: Unseen
    moves: tuple[GroupMoves, ...]
    updates: tuple[str, ...] = ()

    @classmethod
    def of(cls, stage1: Stage1, *, by: str | Sequence[str] | None = None) -> Stage1Diagnostics:
        """Measure a fitted Stage 1.

        Args:
            by: context columns whose groups to look at, numbers of more than 20 values in quarters; None: the first
                16 columns that have at most 20 values or are numbers.
        """
        return cls(
            nuisances=NuisanceDiagnostics.of(stage1.nuisances),
            form=stage1.payoff.form,
            strength=stage1.payoff.strength,
            surface_move=_surface_move(stage1),
            status=stage1.payoff.status,
            unseen=stage1.pseudo.unseen,
            moves=all_moves(stage1.pseudo, by),
            updates=() if stage1.fitted is None else stage1.fitted.notes,
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the K agents."""
        return self.nuisances.agents

    @cached_property
    def critical(self) -> float:
        """The |z| from which a move is significant, all pairs of all groups together."""
        return critical_z(self.moves)

    @property
    def n_significant(self) -> int:
        """How many moves are significant."""
        return sum(int((np.abs(groups.z) > self.critical).sum()) for groups in self.moves)

    def largest(self, most: int = _SHOWN) -> tuple[Move, ...]:
        """Return the moves furthest from zero by their standard errors, signed so that the move is positive."""
        z = np.concatenate([np.abs(groups.z).ravel() for groups in self.moves])
        order = np.argsort(-z, kind="stable")[:most]
        starts = np.cumsum([0, *(groups.z.size for groups in self.moves)])
        place = np.searchsorted(starts, order, side="right") - 1
        return tuple(self._move(self.moves[p], int(cell - starts[p])) for p, cell in zip(place, order, strict=True))

    def _move(self, groups: GroupMoves, cell: int) -> Move:
        group, pair = divmod(cell, groups.z.shape[1])
        names = [self.agents[side[pair]] for side in np.triu_indices(len(self.agents), 1)]
        move = float(groups.move[group, pair])
        first, second = names if move >= 0 else names[::-1]
        clear = bool(abs(groups.z[group, pair]) > self.critical)
        return Move(
            groups.column, groups.groups[group], first, second, abs(move), float(groups.error[group, pair]), clear
        )

    def warnings(self) -> list[str]:
        """Say in words what a reader should know before trusting an estimate."""
        return [*self.nuisances.warnings(), *self._own_warnings()]

    def _own_warnings(self) -> Iterator[str]:
        yield from (Note(text, "refit-due") for text in self.updates)
        yield from unseen_notes(self.agents, self.status, self.unseen)
        if self.form == "none":
            yield f"A(x) is the plug-in: errors of the outcome model enter it at first order. {_MEANS}"
        if self.strength is not None and (claim := _claim(self._strengths(self.strength), self.strength.chosen)):
            yield f"{claim} {_MEANS}"
        if self.n_significant:
            yield (
                f"Debiasing moves {self.n_significant:,} mean payoffs (p < {LEVEL}, all pairs and groups together); "
                f"clearest: {self.largest(1)[0]}. There the outcome model is off, and so is the plug-in."
            )

    def _strengths(self, strength: Strength) -> dict[str, float]:
        """Return the strength of each covered pair, by the name "a over b"."""
        pairs = list(combinations(self.agents, 2))
        each = zip(pairs, strength.of_pairs(len(pairs)).tolist(), self.status == SEEN, strict=True)
        return {f"{first} over {second}": s for (first, second), s, seen in each if seen}

    def _pairs(self, status: int) -> list[list[str]]:
        """Return the pairs of a status, by name."""
        return [
            list(pair) for pair, code in zip(combinations(self.agents, 2), self.status, strict=True) if code == status
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, with the hundred clearest moves."""
        return {
            "nuisances": self.nuisances.to_dict(),
            "second_stage": self.form,
            "strength": None if self.strength is None else json_values(asdict(self.strength)),
            "surface_move": self.surface_move,
            "bridged": self._pairs(BRIDGED),
            "unknown": self._pairs(UNKNOWN),
            "unseen": self.unseen,
            "columns": [groups.column for groups in self.moves if groups.column],
            "significant_moves": self.n_significant,
            "moves": [json_values(asdict(move)) for move in self.largest(_LISTED)],
            "warnings": self.warnings(),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the nuisances, the second stage, the clearest moves and the warnings."""
        from rich.text import Text

        from nasheval.payoff.drawing import nuisance_tables

        yield from nuisance_tables(self.nuisances)
        yield Text(_stage_line(self.form, self.strength, self.surface_move))
        rows = [
            (move.column or "-", move.group, move.first, move.second, f"{move.move:+.3f}", f"{move.error:.3f}",
             "yes" if move.significant else "no")
            for move in self.largest()
        ]  # fmt: skip
        title = f"Debiased less plug-in mean payoffs, the {_SHOWN} clearest; {self.n_significant:,} significant"
        yield listing(title, ("column", "group", "agent", "over"), ("move", "error", "significant"), rows, len(rows))
        yield from warnings(tuple(self._own_warnings()))

    def __str__(self) -> str:
        return plain(self)


def _surface_move(stage1: Stage1) -> float:
    """Return the root mean square of A(x) - plug-in(x) over an even sample of contexts."""
    covered: Bools = stage1.payoff.covered
    untouched = stage1.payoff.form in ("none", "corrected") and stage1.payoff.surface is None
    if untouched or not covered.any():
        return 0.0
    rows = np.arange(0, stage1.log.n_contexts, max(1, stage1.log.n_contexts * len(covered) // _SAMPLED))
    X = stage1.nuisances.X[rows]
    gap = stage1.payoff.predict_pairs(X) - stage1.plug_in.predict_pairs(X)
    return float(np.sqrt(np.mean(gap[:, covered] ** 2)))


# -- saying -----------------------------------------------------------------------------------------------------------


def _claim(applied: dict[str, float], chosen: bool) -> str:
    """Say at which strengths the pairs are corrected; nothing where all are at 1."""
    corrected = {name: s for name, s in applied.items() if s > 0}
    if not corrected:
        why = "the residuals teach nothing that shows in the held-out error" if chosen else "strength 0, as given"
        return f"A(x) is the plug-in for all pairs ({why})."
    least, most = min(corrected.values()), max(corrected.values())
    if len(corrected) < len(applied):
        return (
            f"A(x) is the plug-in for {len(applied) - len(corrected):,} of {len(applied):,} pairs (the residuals teach "
            f"nothing that shows in the held-out error); {_corrected_pairs(corrected)}."
        )
    if least == most == 1:
        return ""
    how = "chosen on held-out folds" if chosen else "as given"
    if least == most:
        return (
            f"A(x) is corrected at strength {most:.2f} ({how}): {1 - most:.0%} of the outcome model's first-order "
            f"error is left in it."
        )
    return (
        f"A(x) is corrected at strengths from {least:.2f} to {most:.2f} ({how}): of a pair at strength s, the share "
        f"1 - s of the outcome model's first-order error is left in it."
    )


def _corrected_pairs(strengths: dict[str, float]) -> str:
    order = sorted(strengths, key=lambda name: -strengths[name])
    if len(order) == 1:
        return f"{order[0]} is corrected at strength {strengths[order[0]]:.2f}"
    listed = ", ".join(f"{name} at {strengths[name]:.2f}" for name in order[:_NAMED])
    more = f" and {len(order) - _NAMED:,} more" if len(order) > _NAMED else ""
    return f"corrected are {listed}{more}"


def _stage_line(form: SecondStage, strength: Strength | None, move: float) -> str:
    distance = f"Second stage {form!r}: A(x) is {move:.3f} from the plug-in (root mean square)"
    if strength is None:
        return distance
    model = f"{distance}; {strength.trees} trees, {strength.candidate}; common strength {strength.strength:.2f}"
    best = (
        f"best {strength.best:.2f}, which lowers the held-out squared error by {strength.gain:.4f} ± "
        f"{strength.gain_error:.4f} per context"
    )
    if not strength.chosen or not any(strength.per_pair):
        return f"{model} ({best})"
    return (
        f"{model} ({best}); strengths of pairs {min(strength.per_pair):.2f} to {max(strength.per_pair):.2f}, which "
        f"lower it by {strength.pairs_gain:.4f} ± {strength.pairs_gain_error:.4f}"
    )
