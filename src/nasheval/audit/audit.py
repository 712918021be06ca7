"""`Audit`: all that a fitted model's winners hang on, section by section."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nasheval.arrays import Floats, is_whole
from nasheval.audit.blocs import blocs
from nasheval.audit.duplicates import duplicates
from nasheval.audit.flip_search import find_flips
from nasheval.audit.flips import Flip, Flips
from nasheval.audit.judges import judges
from nasheval.audit.planted import planted
from nasheval.audit.refits import Refit
from nasheval.audit.section import Section
from nasheval.audit.sensitivity import Sensitivity, find_sensitivity, payoff_bounds
from nasheval.errors import Argument, InputError
from nasheval.feedback.groups import chosen_contexts
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import L2, Regularizer
from nasheval.nuisance.learners import Advance, Effort
from nasheval.payoff.drawing import listing
from nasheval.payoff.inference import GroupPayoff, group_payoff, payoffs_by
from nasheval.payoff.intervals import checked_level
from nasheval.payoff.stage1 import Stage1
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, eq=False)
class Request:
    """What every part of an audit is made from.

    Args:
        stage1: the fitted model.
        groups: mean payoffs of all contexts, then of each value of `by`.
        by: a context column, or None.
        omega: regulariser of the game.
        refit: fits again without some votes; None: nothing is to be confirmed.
        refits: of one set at most; None: the default.
        confidence: of what is said with a confidence.
        seed: of what is drawn.
    """

    stage1: Stage1
    groups: Sequence[GroupPayoff]
    by: str | None
    omega: Regularizer
    refit: Refit | None
    refits: int | None
    confidence: float
    seed: int


def _flips(ask: Request, advance: Advance) -> Section:
    how: dict[str, Any] = {"by": ask.by, "refit": ask.refit, "refits": ask.refits, "advance": advance}
    return find_flips(ask.stage1, ask.groups, ask.omega, **how)


def _sensitivity(ask: Request, advance: Advance) -> Section:
    return find_sensitivity(ask.stage1, ask.groups, ask.omega, confidence=ask.confidence, advance=advance)


def _planted(ask: Request, advance: Advance) -> Section:
    return planted(ask.stage1, seed=ask.seed)


def _duplicates(ask: Request, advance: Advance) -> Section:
    return duplicates(ask.stage1)


def _judges(ask: Request, advance: Advance) -> Section:
    return judges(ask.stage1, confidence=ask.confidence, seed=ask.seed)


def _blocs(ask: Request, advance: Advance) -> Section:
    return blocs(ask.stage1, seed=ask.seed)


# The parts of an audit in the order in which they are shown: name, about how much of the time, what makes it.
PARTS: dict[str, tuple[float, Callable[[Request, Advance], Section]]] = {
    "flips": (10.0, _flips),
    "sensitivity": (1.0, _sensitivity),
    "planted": (0.5, _planted),
    "duplicates": (0.2, _duplicates),
    "judges": (0.5, _judges),
    "blocs": (0.5, _blocs),
}


@dataclass(frozen=True, eq=False)
class Audit:
    """What a fitted model's winners hang on; `print` it.

    Args:
        stage1: the fitted model.
        sections: its parts by name: "flips", "sensitivity", "planted", "duplicates", "judges", "blocs"; each has
            lines(), listings(), charts() and to_dict().
    """

    stage1: Stage1
    sections: Mapping[str, Section]

    @property
    def flips(self) -> Flips:
        """The fewest votes and voters whose removal changes who wins."""
        return self._part("flips", Flips)

    @property
    def sensitivity(self) -> Sensitivity:
        """How strong unmeasured selection would have to be to change who wins."""
        return self._part("sensitivity", Sensitivity)

    def _part(self, name: str, kind: type[Any]) -> Any:
        if not isinstance(part := self.sections.get(name), kind):
            raise InputError(f"This audit has no part {name!r}; ask for it: audit(parts=[{name!r}]).")
        return part

    def lines(self) -> list[str]:
        """Return everything in sentences."""
        return [line for section in self.sections.values() for line in section.lines()]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values of JSON, section by section, each with its sentences."""
        return {name: {**part.to_dict(), "lines": part.lines()} for name, part in self.sections.items()}

    def without(self, flip: Flip) -> Feedback:
        """Return the log without the votes of a flip: fit it with the same settings to see who wins then."""
        kept = np.ones(self.stage1.log.n_records, bool)
        kept[list(flip.votes)] = False
        return self.stage1.log.keep_records(kept)

    def payoff_bounds(
        self, strength: float, group: Any = None, *, confidence: float | None = 0.95
    ) -> tuple[Floats, Floats]:
        """Return lower and upper bounds (K, K) on mean payoffs under unmeasured selection of a strength.

        Args:
            strength: how many times the odds of a comparison may differ by a hidden trait; 1: no such selection.
            group: as in `payoff_interval`.
            confidence: of the bounds, sampling error included; None: the bounds as estimated.
        """
        inside, name = chosen_contexts(self.stage1.log, group)
        payoff = group_payoff(self.stage1.pseudo, inside, name=name)
        return payoff_bounds(self.stage1, payoff, strength, confidence=confidence)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw each section: its sentences, then its tables."""
        from rich.text import Text

        for section in self.sections.values():
            yield Text(section.title, style="bold")
            yield from (Text(f"- {line}") for line in section.lines())
            yield from _tables(section)
            yield Text("")

    def __str__(self) -> str:
        return plain(self)


def _tables(section: Section) -> Iterator[Any]:
    for one in section.listings():
        yield listing(one.title, one.names, one.numbers, one.rows, len(one.rows))


def audit(
    stage1: Stage1,
    *,
    by: str | None = None,
    regularizer: Regularizer | None = None,
    settings: Mapping[str, Any] | None = None,
    parts: Sequence[str] | None = None,
    confirm: bool = True,
    refits: int | None = None,
    confidence: float = 0.95,
    effort: Effort | None = None,
    begin: Callable[[str], Advance] | None = None,
) -> Audit:
    """Return what a fitted model's winners hang on, over all contexts and group by group.

    Args:
        stage1: the fitted model.
        by: a context column; None: all contexts only.
        regularizer: of the game; None: L2(1e-3).
        settings: "outcome", "propensity", "adjust" and "tune", as the model was fitted with; for refits.
        parts: which sections; None: all.
        confirm: whether to confirm predicted flips by refits.
        refits: of one set of votes at most; None: 12, or 60 in logs of up to 200 records.
        confidence: of what is said with a confidence.
        effort: how hard refits may work.
        begin: begins a stage of a progress bar by the name of a part.
    """
    names = list(PARTS) if parts is None else list(parts)
    if unknown := [name for name in names if name not in PARTS]:
        raise InputError(Argument("parts", unknown[0]), f" is no part of an audit; accepted are {', '.join(PARTS)}.")
    if not (refits is None or is_whole(refits, 1)):
        raise InputError(Argument("refits", refits), ": accepted is a whole number of 1 or more.")
    work, omega = effort or Effort(), regularizer or L2(1e-3)
    how: dict[str, Any] = {"confidence": checked_level(confidence), "seed": work.seed}
    groups = payoffs_by(stage1.pseudo, None, **how) + ([] if by is None else payoffs_by(stage1.pseudo, by, **how))
    refit = Refit(stage1, settings or {"outcome": "voters", "propensity": "auto"}, work) if confirm else None
    ask = Request(stage1, groups, by, omega, refit, refits, confidence, work.seed)
    start = begin or (lambda name: lambda share: None)
    return Audit(stage1, {name: PARTS[name][1](ask, start(name)) for name in names})
