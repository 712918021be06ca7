"""Ordered partitions as people write them -> flat records."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa

import nasheval.compute as pc
from nasheval.arrays import Floats
from nasheval.errors import InputError
from nasheval.feedback.partition import Partition, weak
from nasheval.feedback.records import Records
from nasheval.notes import few

Written = Partition | Sequence[Sequence[Hashable]]


def assemble(
    partitions: Sequence[Written],
    *,
    agents: Sequence[str] | None,
    propensity: Sequence[float] | None,
    weight: Sequence[float] | None,
    voter: Sequence[Hashable] | None,
    context_of: Sequence[int] | None,
) -> tuple[Records, list[str], pa.Array | None]:
    """Return the records of partitions, and the names of agents and voters; each column has one value per partition."""
    checked = [_as_partition(row, partition) for row, partition in enumerate(partitions)]
    names = _agent_names(checked, agents)
    per_record = {"propensity": propensity, "weight": weight, "voter": voter, "context_of": context_of}
    for name, column in per_record.items():
        if column is not None and len(column) != len(checked):
            raise InputError(f"{name} has {len(column)} values for {len(checked)} partitions; give one each.")
    voters = voter_of = None
    if voter is not None:
        codes = pc.dictionary_encode(pa.array([None if v is None else str(v) for v in voter], pa.string()))
        voters, voter_of = codes.dictionary, np.asarray(pc.fill_null(codes.indices, -1))
    number = {name: i for i, name in enumerate(names)}
    records = Records.build(
        sizes=np.array([len(each.menu) for each in checked], np.int64),
        agent=np.array([number[str(agent)] for each in checked for agent in each.menu], np.int64),
        rank=np.array([b for each in checked for b, block in enumerate(each.blocks) for _ in block], np.int64),
        zero=np.array([each.zero for each in checked], np.int8),
        propensity=_numbers("propensity", propensity),
        weight=_numbers("weight", weight),
        voter=voter_of,
    )
    return records, names, voters


def _numbers(name: str, values: Sequence[float] | None) -> Floats | None:
    try:
        return None if values is None else np.array(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} holds something that is not a number; give one number per partition.") from None


def _as_partition(row: int, written: Written) -> Partition:
    try:
        return written if isinstance(written, Partition) else weak(written)
    except InputError as error:
        raise InputError(f"Record {row}: {error}") from None
    except TypeError:
        raise InputError(
            f"Record {row} is {written!r}; accepted is a Partition or nested sequences such as (('a',), ('b', 'c'))."
        ) from None


def _agent_names(partitions: list[Partition], agents: Sequence[str] | None) -> list[str]:
    seen: dict[str, int] = {}
    for row, partition in enumerate(partitions):
        for agent in partition.menu:
            seen.setdefault(str(agent), row)
    if agents is None:
        return sorted(seen)
    known = {str(agent) for agent in agents}
    for name, row in seen.items():
        if name not in known:
            raise InputError(
                f"Record {row} names {name!r}, which is not among agents={few([*agents], 8)}; add it there."
            )
    return [str(agent) for agent in agents]
