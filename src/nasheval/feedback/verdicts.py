"""Pair verdicts Z (Eq. verdict) of every record at once."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from nasheval.arrays import Bools, Floats, Ints, readonly
from nasheval.feedback.partition import Zero
from nasheval.feedback.records import Records


@dataclass(frozen=True)
class PairVerdicts:
    """One row for each pair of agents in each record, records ascending.

    Args:
        record: (p,) record numbers.
        j: (p,) the lower agent number of the pair.
        k: (p,) the higher agent number.
        z: (p,) +1 where j stands before k, -1 where k does, times the record's grade; 0 where they share a block.
        zero: (p,) why z is 0, a `Zero` code; DECIDED where it is not.
    """

    record: Ints
    j: Ints
    k: Ints
    z: Ints | Floats
    zero: Ints

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, readonly(getattr(self, field.name)))

    def __len__(self) -> int:
        return len(self.z)


def pair_verdicts(records: Records) -> PairVerdicts:
    """Return Z^m_jk for every record and every pair j < k of its menu."""
    by_size = [_same_size(records, rows, entries) for rows, entries in records.by_size()]
    if not by_size:
        nobody, nothing = np.zeros(0, np.int16), np.zeros(0, np.int8)
        return PairVerdicts(np.zeros(0, np.int32), nobody, nobody, nothing, nothing)
    if len(by_size) == 1:
        return PairVerdicts(*by_size[0])
    columns = [np.concatenate(column) for column in zip(*by_size, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return PairVerdicts(*(column[order] for column in columns))


def _same_size(records: Records, rows: Ints, entries: Ints) -> tuple[Ints, Ints, Ints, Ints | Floats, Ints]:
    left, right = np.triu_indices(entries.shape[1], 1)
    agent, block = records.agent[entries], records.block[entries]
    b_j, b_k = block[:, left], block[:, right]
    z = np.sign(b_k - b_j).astype(np.int8)
    code = np.broadcast_to(records.zero[rows][:, None], z.shape)
    if (code == Zero.LAST).any():
        in_last = b_j == block.max(axis=1, keepdims=True)
        code = np.where(code == Zero.LAST, np.where(in_last, Zero.CENSORED, Zero.TIE), code)
    zero = np.where(z == 0, code, Zero.DECIDED).astype(np.int8)
    record = np.repeat(rows.astype(np.int32), len(left))
    if records.grade is not None:
        return (
            record,
            agent[:, left].ravel(),
            agent[:, right].ravel(),
            (z * records.grade[rows, None]).ravel(),
            zero.ravel(),
        )
    return record, agent[:, left].ravel(), agent[:, right].ravel(), z.ravel(), zero.ravel()


@dataclass(frozen=True)
class PairCounts:
    """Weighted counts of each ordered pair, (K, K) each.

    Args:
        wins: wins[j, k] is the weight of records in which j stood before k; of a verdict of grade g, (1 + g) / 2 count
            for the winner and (1 - g) / 2 for the other.
        ties: declared ties and both-bad answers, symmetric.
        censored: pairs whose order was not asked, symmetric.
        votes: number of records that hold the pair, whatever they said, symmetric.
    """

    wins: Floats
    ties: Floats
    censored: Floats
    votes: Ints

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, readonly(getattr(self, field.name)))

    @property
    def margin(self) -> Floats:
        """(K, K) mean verdict over all records of a pair (Eq. pooled-payoff), NaN where it was never compared."""
        total = self.wins + self.wins.T + self.ties + self.censored
        with np.errstate(invalid="ignore", divide="ignore"):
            margin: Floats = (self.wins - self.wins.T) / total
        np.fill_diagonal(margin, 0.0)
        return margin


def count_pairs(verdicts: PairVerdicts, weights: Floats | None, n_agents: int) -> PairCounts:
    """Count the verdicts of each pair, weighted by record."""
    flat = verdicts.j.astype(np.int64) * n_agents + verdicts.k

    def total(mask: Bools, share: Floats | None = None) -> Floats:
        weight = None if weights is None else weights[verdicts.record[mask]]
        if share is not None:
            weight = share[mask] if weight is None else share[mask] * weight
        return np.bincount(flat[mask], weight, n_agents**2).reshape(n_agents, n_agents).astype(float)

    tied = (verdicts.zero == Zero.TIE) | (verdicts.zero == Zero.BOTH_BAD)
    ties, censored = total(tied), total(verdicts.zero == Zero.CENSORED)
    votes = np.bincount(flat, minlength=n_agents**2).reshape(n_agents, n_agents)
    if verdicts.z.dtype.kind == "f":  # graded
        decided = verdicts.zero == Zero.DECIDED
        wins = total(decided, (1 + verdicts.z) / 2) + total(decided, (1 - verdicts.z) / 2).T
    else:
        wins = total(verdicts.z > 0) + total(verdicts.z < 0).T
    return PairCounts(wins, ties + ties.T, censored + censored.T, votes + votes.T)
