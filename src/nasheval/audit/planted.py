"""Voters whose votes look planted: loyal to one agent whatever it meets, in agreement with nobody, in a rush.

Honest voters differ in taste, so a voter must stand out from how tastes are spread in this crowd, not from a model in
which all voters are alike (`nasheval.audit.tastes`). Each voter gets a chance that its votes are planted; those are
named of whom at most 5% are expected to be honest, each with a chance of at least 80%.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from nasheval.arrays import Bools, Floats, Ints, as_number
from nasheval.audit.crowd import Crowd, crowd_of
from nasheval.audit.evidence import (
    Agreement,
    Rhythm,
    Surge,
    agreement_of,
    rhythm_of,
    rush_chance,
    strength,
    surges,
)
from nasheval.audit.section import Bars, Listing
from nasheval.audit.tastes import Tastes, fit_tastes
from nasheval.audit.without import winners_without
from nasheval.audit.words import counted
from nasheval.errors import InputError
from nasheval.notes import few
from nasheval.payoff.stage1 import Stage1

LEVEL = 0.05  # of those that are named, the share expected to be honest
_SURE = 0.8  # chance that each of them has at least
_MOST_RUSH = 20.0  # a rush makes it at most so many times likelier: people vote in bursts too
_FEW = 10  # voters below which a voter stands out from nobody
_SHOWN = 12  # voters in a table and a chart
FOR, AGAINST, RANDOM = "for", "against", "at random"


@dataclass(frozen=True, eq=False)
class Planted:
    """How much each voter's votes look planted; n voters, the most suspicious first.

    Args:
        voters: (n,) their names.
        number: (n,) their numbers in the log.
        votes: (n,) records.
        chance: (n,) that their votes are planted; a ranking, and a chance as far as the model is right.
        score: (n,) log odds of it.
        named: (n,) whether they are named.
        kind: (n,) what their votes look most like: "for" or "against" an agent, or "at random".
        agent: (n,) the agent of "for" and "against".
        shown, won, expected: (n,) decided votes on that agent, those for it, and how many the crowd would give it.
        agreement: how far voters agree with the model, in the order of the log's voters.
        rhythm: their rhythm, likewise; None where times are unknown.
        surges: stretches of time in which an agent did far better.
        level: of those named, the share expected to be honest.
        winners, winners_without: the winner set over all contexts, with and without the votes of those named.
        notes: what to know before trusting it.
    """

    voters: tuple[str, ...]
    number: Ints
    votes: Ints
    chance: Floats
    score: Floats
    named: Bools
    kind: tuple[str, ...]
    agent: tuple[str, ...]
    shown: Ints
    won: Ints
    expected: Floats
    agreement: Agreement | None
    rhythm: Rhythm | None
    surges: tuple[Surge, ...]
    level: float
    winners: tuple[str, ...]
    winners_without: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """A few words."""
        return "Votes that look planted"

    def lines(self) -> list[str]:
        """Return what was found, in sentences, the most important first."""
        return [*self._who(), *(_surge(surge) for surge in self.surges), *self.notes]

    def _who(self) -> Iterator[str]:
        if not self.voters:
            return
        names = [name for name, named in zip(self.voters, self.named, strict=True) if named]
        if not names:
            yield f"None of {len(self.voters):,} voters casts votes that look planted."
            return
        votes = int(self.votes[self.named].sum())
        yield (
            f"{counted(len(names), 'voter')} of {len(self.voters):,}, with {counted(votes, 'vote')}, cast votes that "
            f"look planted: {few(names, 8)}. About {self.level:.0%} of those named may be honest."
        )
        before, after = (few(names, 4) for names in (self.winners, self.winners_without))
        same = set(self.winners) == set(self.winners_without)
        said = f"stay {after}" if same else f"are {after}, not {before}"
        yield f"Without their votes the winners over all contexts {said}."

    def listings(self) -> list[Listing]:
        """Return the most suspicious voters."""
        rows = range(max(int(self.named.sum()), min(_SHOWN, len(self.voters))))
        names = ("voter", "votes look")
        numbers = ("chance planted", "votes", "on the agent", "for it", "expected", "agreement", "seconds between")
        table = tuple(self._row(row) for row in rows)
        return [Listing("Voters whose votes look most planted", names, numbers, table)] if table else []

    def _row(self, row: int) -> tuple[str, ...]:
        who, gap = int(self.number[row]), np.nan if self.rhythm is None else self.rhythm.gap[self.number[row]]
        what = self.kind[row] if self.kind[row] == RANDOM else f"{self.kind[row]} {self.agent[row]}"
        agreement = 0.0 if self.agreement is None else self.agreement.score[who]
        numbers = (
            f"{self.chance[row]:.3f}",
            f"{self.votes[row]:,}",
            f"{self.shown[row]:,}",
            f"{self.won[row]:,}",
            f"{self.expected[row]:.1f}",
            f"{agreement:+.1f}",
            "" if np.isnan(gap) else f"{gap:,.0f}",
        )
        return (self.voters[row] + (" (named)" if self.named[row] else ""), what, *numbers)

    def charts(self) -> list[Bars]:
        """Return how much the votes of the most suspicious voters look planted."""
        rows = slice(0, min(_SHOWN, len(self.voters)))
        if not self.voters:
            return []
        title = "Chance that a voter's votes are planted, the most suspicious voters"
        marked = tuple(bool(one) for one in self.named[rows])
        return [Bars(title, self.voters[rows], tuple(self.chance[rows].tolist()), marked=marked)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        columns = ("number", "votes", "chance", "score", "named", "shown", "won", "expected")
        arrays = {name: getattr(self, name).tolist() for name in columns}
        return {
            "voters": [
                {"voter": name, "kind": kind, "agent": agent, **{c: arrays[c][row] for c in columns}}
                for row, (name, kind, agent) in enumerate(zip(self.voters, self.kind, self.agent, strict=True))
            ],
            "surges": [asdict(surge) for surge in self.surges],
            "level": self.level,
            "winners": list(self.winners),
            "winners_without": list(self.winners_without),
            "notes": list(self.notes),
        }


def planted(stage1: Stage1, *, level: float = LEVEL, seed: int = 0) -> Planted:
    """Return how much each voter's votes look planted.

    Args:
        level: of those that are named, the share expected to be honest.
        seed: which pairs of ballots on more than two agents are looked at.
    """
    if not 0 < as_number(level) < 1:
        raise InputError(f"level is {level!r}; accepted is a number between 0 and 1, such as {LEVEL}.")
    crowd = crowd_of(stage1, seed=seed)
    voters = np.flatnonzero(crowd.votes)
    notes = tuple(_notes(crowd, len(voters)))
    if len(voters) < _FEW:
        return _nobody(crowd, level, notes)
    tastes, rhythm = fit_tastes(crowd), rhythm_of(crowd)
    agreement = agreement_of(crowd, tastes)
    kinds, cell = _kinds(tastes, agreement, crowd.n_voters, len(voters))
    score = logsumexp(kinds, axis=1)
    if rhythm is not None:
        score = score + np.log(np.clip(strength(rush_chance(rhythm.score)), 1.0, _MOST_RUSH))
    order = voters[np.argsort(-score[voters], kind="stable")]
    chance = expit(score[order])
    named = _named(chance, level)
    winners, after = _effect(stage1, crowd, order[named])
    columns = _columns(crowd, tastes, kinds[order], cell[order])
    return Planted(
        voters=tuple(crowd.names(order)),
        number=order,
        votes=crowd.votes[order],
        chance=chance,
        score=score[order],
        named=named,
        **columns,
        agreement=agreement,
        rhythm=rhythm,
        surges=surges(crowd),
        level=level,
        winners=winners,
        winners_without=after,
        notes=notes,
    )


def _kinds(tastes: Tastes, agreement: Agreement, n: int, active: int) -> tuple[Floats, Ints]:
    """Return (n, 3) log odds of votes for an agent, against one and at random; (n, 2) the cells of the first two."""
    odds = tastes.odds(active)
    kinds, cell = np.full((n, 3), -np.inf), np.full((n, 2), -1)
    for side in range(2):
        np.logaddexp.at(kinds[:, side], tastes.voter, odds[:, side])
        order = np.argsort(odds[:, side], kind="stable")
        cell[tastes.voter[order], side] = order  # the last one written is the largest
    kinds[:, 2] = agreement.odds
    return kinds, cell


def _named(chance: Floats, level: float) -> Bools:
    """Return (n,) whom to name, given descending chances: the most of whom at most a share is expected to be honest."""
    honest = np.cumsum(1 - chance) / np.arange(1, len(chance) + 1)
    return (honest <= level) & (chance >= _SURE)


def _columns(crowd: Crowd, tastes: Tastes, kinds: Floats, cell: Ints) -> dict[str, Any]:
    """Return what each voter's votes look most like, and the figures of the agent they look loyal to."""
    best = kinds.argmax(axis=1)
    side = np.where(best == 2, kinds[:, :2].argmax(axis=1), best)
    at = cell[np.arange(len(cell)), side]
    known = at >= 0
    names = np.array([*crowd.agents, ""], dtype=object)

    def of(values: Any) -> Any:
        return np.where(known, values[at], 0) if len(values) else np.zeros(len(at), values.dtype)

    return {
        "kind": tuple((FOR, AGAINST, RANDOM)[one] for one in best),
        "agent": tuple(names[np.where(known, tastes.agent[at], -1)] if len(tastes.agent) else [""] * len(at)),
        "shown": of(tastes.votes),
        "won": of(tastes.wins),
        "expected": of(tastes.expected),
    }


def _effect(stage1: Stage1, crowd: Crowd, voters: Ints) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the winner set with and without the votes of some voters."""
    if not len(voters):
        return (), ()
    nobody = np.zeros(crowd.log.n_records, bool)
    assert crowd.log.records.voter is not None
    gone = np.isin(crowd.log.records.voter, voters)
    return tuple(winners_without(stage1, nobody)), tuple(winners_without(stage1, gone))


def _nobody(crowd: Crowd, level: float, notes: tuple[str, ...]) -> Planted:
    none, whole = np.zeros(0), np.zeros(0, np.int64)
    return Planted(
        (), whole, whole, none, none, np.zeros(0, bool), (), (), whole, whole, none, None, None, surges(crowd), level,
        (), (), notes,
    )  # fmt: skip


def _notes(crowd: Crowd, voters: int) -> Iterator[str]:
    if not voters:
        yield "The log names no voters, so nobody's votes can be looked at; name the column (voter=, --voter)."
        return
    if voters < _FEW:
        yield f"With {counted(voters, 'voter')} nobody stands out from a crowd; {_FEW} are the least. See the judges."
        return
    voter = crowd.log.records.voter
    unknown = 0 if voter is None else int((voter < 0).sum())
    if unknown:
        yield f"{counted(unknown, 'vote')} of nobody in particular are not looked at."
    if not crowd.by_voter:
        yield "The model has learned from other votes of each voter, so loyalty shows a little less."
    if crowd.log.records.time is None:
        yield "The log has no times, so bursts of votes cannot be seen."
    share = float(crowd.votes.max() / max(1, crowd.votes.sum()))
    if share > 0.25:
        name = crowd.names(np.array([int(crowd.votes.argmax())]))[0]
        yield f"{name} cast {share:.0%} of the votes: what the crowd would say is largely what {name} says."


def _surge(surge: Surge) -> str:
    start, end = (datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in (surge.start, surge.end))
    voters = f" by {counted(surge.voters, 'voter')}" if surge.voters else ""
    return (
        f"From {start} to {end} (UTC), {surge.wins:,} of {surge.votes:,} decided votes{voters} went to {surge.agent}, "
        f"where the model expects {surge.expected:.0f}: planted votes, or the agent was another one then."
    )
