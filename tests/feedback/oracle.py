"""A log as plain Python, to compare the columns with: drawn by hypothesis, built, and spelled out again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from nasheval.feedback.arrow import to_arrow
from nasheval.feedback.design import Design, DesignName
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.feedback.records import Records

OPTIONAL = ("shown", "propensity", "weight", "voter", "time")
quick = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Said:
    """One record: at this context, about this menu, this was said."""

    context: int
    blocks: tuple[frozenset[str], ...]
    zero: Zero
    shown: tuple[str, ...] | None = None
    propensity: float | None = None
    weight: float | None = None
    voter: str | None = None
    time: float | None = None

    @property
    def menu(self) -> frozenset[str]:
        return frozenset().union(*self.blocks)

    def place(self, agent: str) -> int:
        return next(place for place, block in enumerate(self.blocks) if agent in block)


@dataclass(frozen=True)
class Plain:
    """A whole log; `has` names the optional columns that its records carry."""

    agents: tuple[str, ...]
    contexts: tuple[dict[str, Any], ...]
    said: tuple[Said, ...]
    has: frozenset[str] = frozenset()

    def grouped(self) -> Plain:
        return replace(self, said=tuple(sorted(self.said, key=lambda said: said.context)))

    def at(self, contexts: list[int]) -> Plain:
        """The log of some contexts, renumbered in the order asked for."""
        said = tuple(replace(s, context=i) for i, c in enumerate(contexts) for s in self.said if s.context == c)
        return replace(self, contexts=tuple(self.contexts[c] for c in contexts), said=said)


@st.composite
def logs(draw: st.DrawFn, *, columns: bool | None = None, has: tuple[str, ...] = OPTIONAL) -> Plain:
    agents = tuple("edcba"[: draw(st.integers(2, 5))])  # the order of the agents is not that of their names
    n_contexts = draw(st.integers(0, 5))
    carried = draw(st.sets(st.sampled_from(has))) if has else set()
    named = draw(st.booleans()) if columns is None else columns
    one = st.fixed_dictionaries(
        {"x": st.none() | st.integers(-3, 3).map(float), "lang": st.sampled_from(["en", "de", None])} if named else {}
    )
    contexts = tuple(draw(st.lists(one, min_size=n_contexts, max_size=n_contexts)))
    n_said = draw(st.integers(0, 8)) if n_contexts else 0
    return Plain(
        agents, contexts, tuple(draw(_said(agents, n_contexts, carried)) for _ in range(n_said)), frozenset(carried)
    )


@st.composite
def _said(draw: st.DrawFn, agents: tuple[str, ...], n_contexts: int, has: set[str]) -> Said:
    shown = tuple(draw(st.permutations(agents)))[: draw(st.integers(2, len(agents)))]
    ranks = draw(st.lists(st.integers(0, 3), min_size=len(shown), max_size=len(shown)))
    blocks = tuple(
        frozenset(agent for agent, own in zip(shown, ranks, strict=True) if own == rank) for rank in sorted(set(ranks))
    )
    return Said(
        context=draw(st.integers(0, n_contexts - 1)),
        blocks=blocks,
        zero=draw(st.sampled_from([Zero.TIE, Zero.BOTH_BAD, Zero.CENSORED, Zero.LAST])),
        shown=shown if "shown" in has else None,
        propensity=draw(st.sampled_from([0.1, 0.5, 1.0])) if "propensity" in has else None,
        weight=draw(st.sampled_from([0.5, 1.0, 2.0])) if "weight" in has else None,
        voter=draw(st.sampled_from(["ann", "bob", None])) if "voter" in has else None,
        time=draw(st.sampled_from([10.0, 20.0, None])) if "time" in has else None,
    )


def build(plain: Plain) -> Feedback:
    """Return the log in columns, from entries in no particular order and ranks with gaps."""
    menus = [said.shown or sorted(said.menu, reverse=len(said.menu) % 2 == 0) for said in plain.said]
    voters = sorted({said.voter for said in plain.said if said.voter})
    columns: dict[str, Any] = {name: [getattr(s, name) for s in plain.said] for name in OPTIONAL if name in plain.has}
    if "shown" in columns:
        columns["shown"] = [place for menu in menus for place, _ in enumerate(menu)]
    if "voter" in columns:
        columns["voter"] = [voters.index(name) if name else -1 for name in columns["voter"]]
    whole = {"shown", "voter"}
    records = Records.build(
        sizes=np.array([len(menu) for menu in menus], np.int64),
        agent=np.array([plain.agents.index(name) for menu in menus for name in menu], np.int64),
        rank=np.array([3 * s.place(name) - 1 for s, menu in zip(plain.said, menus, strict=True) for name in menu]),
        zero=np.array([said.zero for said in plain.said], np.int64),
        **{name: np.array(values, int if name in whole else float) for name, values in columns.items()},
    )
    return Feedback.from_records(
        records,
        agents=plain.agents,
        contexts=context_table(plain.contexts),
        context_of=np.array([said.context for said in plain.said], np.int64),
        n_contexts=len(plain.contexts),
        voters=pa.array(voters, pa.string()) if "voter" in plain.has else None,
    )


def context_table(contexts: tuple[dict[str, Any], ...]) -> pa.Table:
    kinds = {"x": pa.float64(), "lang": pa.string()}
    names = [name for name in kinds if contexts and name in contexts[0]]
    return pa.table({name: pa.array([row[name] for row in contexts], kinds[name]) for name in names})


def spelled(log: Feedback) -> Plain:
    """Read a log back out of its columns, one value at a time."""
    records = log.records
    rows = log.contexts.to_pylist() if log.contexts.num_columns else [{} for _ in range(log.n_contexts)]
    said = []
    for context in range(log.n_contexts):
        for r in range(log.context_offsets[context], log.context_offsets[context + 1]):
            entries = range(records.offsets[r], records.offsets[r + 1])
            names = [log.agents[records.agent[e]] for e in entries]
            n_blocks = max(int(records.block[e]) for e in entries) + 1
            blocks = tuple(
                frozenset(name for name, e in zip(names, entries, strict=True) if records.block[e] == b)
                for b in range(n_blocks)
            )
            shown = None
            if records.shown is not None:
                shown = tuple(name for _, name in sorted((int(records.shown[e]), n) for e, n in zip(entries, names)))  # noqa: B905
            voter = None
            if records.voter is not None and records.voter[r] >= 0:
                voter = log.voters[int(records.voter[r])].as_py()
            time = None if records.time is None or np.isnan(records.time[r]) else float(records.time[r])
            said.append(
                Said(
                    context, blocks, Zero(int(records.zero[r])), shown, voter=voter, time=time,
                    propensity=None if records.propensity is None else float(records.propensity[r]),
                    weight=None if records.weight is None else float(records.weight[r]),
                )
            )  # fmt: skip
    has = frozenset(name for name in OPTIONAL if getattr(records, name) is not None)
    return Plain(log.agents, tuple(rows), tuple(said), has)


def equal_logs(one: Feedback, other: Feedback) -> bool:
    """Tell whether two logs hold the same agents, contexts and records, whoever said what their design is."""
    same_names = one.agents == other.agents and one.text == other.text
    return same_names and bool(to_arrow(one).equals(to_arrow(other)))


def designed(log: Feedback, name: DesignName) -> Feedback:
    """Return the same log, taken to be of the given design."""
    return replace(log, given_design=Design(name, "as given"))


# -- building ---------------------------------------------------------------------------------------------------------
