"""A plan in words, tables and bars: the terminal, the report and Python say the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nasheval.audit.section import Bars, Listing
from nasheval.payoff.drawing import listing
from nasheval.planning.curves import Curve
from nasheval.scoring.decision import MARGIN, rough
from nasheval.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_SHOWN = 8  # rows of a curve in a table
_NEVER = "never"
_OFTEN = 0.2  # of futures


class Saying:
    """What a plan says of itself; it is a section of a report too."""

    curves: tuple[Curve, ...]
    power: float
    confidence: float
    settles: dict[str, int | None]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """A few words."""
        return "How many votes are needed"

    def lines(self) -> list[str]:
        """Return one sentence per goal and group, and what it all rests on."""
        return [sentence(curve, self) for curve in self.curves] + list(self._notes())

    def _notes(self) -> Iterator[str]:
        yield from self.notes
        if any(curve.today for curve in self.curves):
            yield (
                "New votes are taken to come as those so far did: at new contexts, from voters as new as those were, "
                "of pairs asked as often. Menus drawn where they matter may need fewer."
            )
        else:
            yield "Every pair is taken to be asked alike, at a context of its own, and margins to be as guessed."

    def listings(self) -> list[Listing]:
        """Return what is needed for each goal, and the curve of each."""
        several = len({curve.group for curve in self.curves}) > 1
        rows = tuple(
            (*((curve.group,) if several else ()), curve.goal, f"{curve.today:,}", *map(_votes, _needed(curve)))
            for curve in self.curves
        )
        names = ("group", "goal") if several else ("goal",)
        needed = Listing("Votes that goals need", names, ("votes today", "needed", "at least", "at most"), rows)
        return [needed, *(_listed(curve, several) for curve in self.curves)]

    def charts(self) -> list[Bars]:
        """Return each curve as bars over votes."""
        several = len({curve.group for curve in self.curves}) > 1
        return [_bars(curve, several) for curve in self.curves]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "title": self.title,
            "lines": self.lines(),
            "power": self.power,
            "confidence": self.confidence,
            "between_leader_and_rivals": dict(self.settles),
            "curves": [curve.to_dict() for curve in self.curves],
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw sentences, then the table of what goals need."""
        from rich.text import Text

        for line in self.lines():
            yield Text(line)
        first = self.listings()[0]
        yield listing(first.title, first.names, first.numbers, first.rows, len(first.rows))

    def __str__(self) -> str:
        return plain(self)


# -- sentences --------------------------------------------------------------------------------------------------------


def sentence(curve: Curve, plan: Saying) -> str:
    """Return how many votes a goal needs, in words."""
    where = "" if curve.group == "all" else f"In {curve.group}: "
    return where + (_of_chance(curve, plan) if curve.is_chance else _of_width(curve))


def _of_width(curve: Curve) -> str:
    now = f"{curve.value[0]:.2g} wide on average on {curve.today:,} votes" if curve.today else ""
    if curve.reached:
        return f"Intervals of payoffs are {now}: no wider than {curve.target:g} already."
    start = f"Intervals of payoffs are {now}" if curve.today else "Intervals of payoffs"
    joint = "; to be" if curve.today else ""
    if curve.needed is None:
        end = f"{curve.value[-1]:.2g} wide on {curve.votes[-1]:,.0f}"
        return f"{start}{joint or ' cannot be'} {curve.target:g} wide{_no_number(curve, joint)}: they would be {end}."
    if not curve.today:
        return f"Intervals of payoffs are {curve.target:g} wide on average with about {_range(curve)}."
    return f"{start}; to be {curve.target:g} wide they need about {_range(curve)}{_more(curve)}."


def _no_number(curve: Curve, joint: str) -> str:
    return ", no number of votes looked at is enough" if joint else " with any number of votes looked at"


def _of_chance(curve: Curve, plan: Saying) -> str:
    what = _what(curve)
    if curve.reached:
        return f"The votes show {what} already ({curve.today:,} votes)."
    if "cycle" in curve.goal and not curve.agents:
        return "No three agents are likely to make a cycle: no number of votes is planned to show one."
    if curve.needed is None:
        most = f"the chance is {_percent(curve.value[-1])} on {curve.votes[-1]:,.0f} votes"
        return (
            f"No number of votes looked at is likely ({_percent(plan.power)}) to show {what}: {most}.{_instead(curve)}"
        )
    settled = plan.settles.get(curve.group)
    alone = ""
    if settled and "leader" in curve.goal:
        alone = f"; asked between the leader and its rivals alone, very roughly {settled:,} more if estimates stay"
    return f"To show {what} with a chance of {_percent(plan.power)} takes about {_range(curve)}{_more(curve)}{alone}."


def _percent(chance: float) -> str:
    """Return a chance in whole percent, or with more digits where that would make it certain."""
    whole = f"{chance:.0%}"
    return whole if whole != "100%" or chance == 1 else f"{100 * chance:.6g}%"


def _what(curve: Curve) -> str:
    if curve.goal.startswith("cycle"):
        return f"that {' beats '.join((*curve.agents, *curve.agents[:1]))}"
    margin = curve.goal.partition("=")[2]
    return f"one agent to be at most {margin or f'{MARGIN:g}'} worse than any other"


def _instead(curve: Curve) -> str:
    if curve.goal.startswith("cycle"):
        return ""
    if curve.beaten > _OFTEN:
        return f" With a chance of {curve.beaten:.0%} some agent surely beats the leader: a lottery is best then."
    if curve.enough is None:
        return " Agents may tie, or none may be best."
    margin = curve.enough[0].partition("=")[2] or f"{MARGIN:g}"
    return (
        f" To show one to be at most {margin} worse, and call it a tie, takes about {curve.enough[1]:,} votes in all."
    )


def _range(curve: Curve) -> str:
    if curve.least is None or curve.least == curve.most:
        return f"{curve.needed:,} votes in all"
    most = "more than can be said" if curve.most is None else f"{curve.most:,}"
    return f"{curve.needed:,} votes in all ({curve.least:,} to {most})"


def _more(curve: Curve) -> str:
    return f", about {rough(curve.more):,} more" if curve.today and curve.more else ""


def _needed(curve: Curve) -> tuple[int | None, int | None, int | None]:
    return curve.needed, curve.least, curve.most


def _votes(number: int | None) -> str:
    return _NEVER if number is None else f"{number:,}"


# -- curves -----------------------------------------------------------------------------------------------------------


def _listed(curve: Curve, several: bool) -> Listing:
    rows = tuple(
        (f"{curve.votes[i]:,.0f}", *(_value(curve, each[i]) for each in (curve.value, curve.lower, curve.upper)))
        for i in _places(curve)
    )
    numbers = ("votes", "chance" if curve.is_chance else "width", "from", "to")
    return Listing(_titled(curve, several), (), numbers, rows)


def _bars(curve: Curve, several: bool) -> Bars:
    places = _places(curve)
    values, lower, upper = (tuple(float(each[i]) for i in places) for each in (curve.value, curve.lower, curve.upper))
    marked = tuple(curve.needed is not None and curve.votes[i] >= curve.needed for i in places)
    labels = tuple(f"{curve.votes[i]:,.0f}" for i in places)
    return Bars(_titled(curve, several), labels, values, lower, upper, marked if any(marked) else ())


def _titled(curve: Curve, several: bool) -> str:
    what = f"Chance to reach {curve.goal}" if curve.is_chance else "Mean width of intervals"
    return f"{what}, by votes" + (f", in {curve.group}" if several else "")


def _value(curve: Curve, value: float) -> str:
    return f"{value:.0%}" if curve.is_chance else f"{value:.3f}"


def _places(curve: Curve) -> list[int]:
    """Return places of a curve, a few before and after the goal is reached."""
    last = len(curve.votes) - 1
    at = last if curve.needed is None else int((curve.votes < curve.needed).sum())
    first = max(0, min(at - _SHOWN // 2, last - _SHOWN + 1))
    return sorted({0, *range(first, min(first + _SHOWN, last + 1))})
