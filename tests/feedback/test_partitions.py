"""Ordered partitions from a table: against those that were written down, row by row."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nasheval as ne
from nasheval.errors import InputError, ReadError
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Partition, Zero
from nasheval.feedback.readers.partitions import ABOUT

WORDS = {Zero.TIE: "tie", Zero.BOTH_BAD: "both_bad", Zero.LAST: "last", Zero.CENSORED: "censored"}


def table(partitions, **columns):
    blocks = [None if one is None else [list(block) for block in one.blocks] for one in partitions]
    zero = ["skip" if one is None else WORDS[one.zero] for one in partitions]
    menu = [["a", "b"] if one is None else sorted(one.menu) for one in partitions]
    nested = pa.list_(pa.list_(pa.string()))
    return pa.table({"vote.menu": menu, "vote.blocks": pa.array(blocks, nested), "vote.zero": zero, **columns})


def said(log):
    """Return the partitions of a log, as sets."""
    records, found = log.records, []
    for start, stop, zero in zip(records.offsets[:-1], records.offsets[1:], records.zero, strict=True):
        agents, blocks = records.agent[start:stop], records.block[start:stop]
        found.append(([{log.agents[a] for a in agents[blocks == b]} for b in range(blocks.max() + 1)], Zero(zero)))
    return found


@st.composite
def partitions(draw):
    menu = draw(st.lists(st.sampled_from("abcdef"), min_size=2, max_size=6, unique=True))
    cuts = draw(st.lists(st.booleans(), min_size=len(menu) - 1, max_size=len(menu) - 1))
    blocks, block = [], [menu[0]]
    for agent, cut in zip(menu[1:], cuts, strict=True):
        blocks, block = ([*blocks, tuple(block)], [agent]) if cut else (blocks, [*block, agent])
    return Partition((*blocks, tuple(block)), draw(st.sampled_from([Zero.TIE, Zero.LAST])))


@given(st.lists(st.one_of(partitions(), st.none()), min_size=1, max_size=12))
@settings(max_examples=60)
def test_partitions_are_read_as_they_were_written(written):
    kept = [one for one in written if one is not None]
    data = table(written, x=np.arange(len(written)))
    if not kept:
        with pytest.raises(InputError):
            ne.read(data)
        return
    log, oracle = ne.read(data), Feedback.from_partitions(pa.table({"x": np.arange(len(kept))}), kept)
    assert said(log) == said(oracle)
    assert log.agents == oracle.agents
    assert log.report.used == len(kept)


def test_propensities_voters_times_and_decisions_are_known_by_their_names(tmp_path):
    duels = [ne.partition.duel("a", "b", "a"), ne.partition.duel("b", "c", "tie")]
    duels.append(ne.partition.winner("a", ["a", "b", "c"]))
    more = {"vote.propensity": [0.5, 0.25, 0.1], "vote.voter": ["v", None, "w"], "vote.time": [1.0, 2.0, 3.0]}
    more |= {"vote.decision": ["d", "d", "e"], "language": ["en", "en", "de"], "said": ["x", "x", "y"]}
    about = {ABOUT: json.dumps({"text": ["said"], "design": "draws"})}
    path = tmp_path / "votes.parquet"
    pq.write_table(table(duels, **more).replace_schema_metadata(about), path)
    log = ne.read(path)
    assert (log.n_contexts, log.n_records, log.text, log.design) == (2, 3, "said", "draws")
    assert log.records.propensity.tolist() == [0.5, 0.25, 0.1]
    assert log.contexts.column_names == ["language", "said"]
    assert log.voters.to_pylist() == ["v", "w"]
    assert log.records.time.tolist() == [1.0, 2.0, 3.0]
    assert ne.read(path, context=["language"], text=None, agents=["a", "b"]).n_records == 1


@pytest.mark.parametrize(
    ("blocks", "zero", "what"),
    [
        ([["a"], ["a"]], "tie", "an agent stands in the partition twice"),
        ([["a"], []], "tie", "a block is empty, or names nobody"),
        ([["a"], [None]], "tie", "a block is empty, or names nobody"),
        ([["a"]], "tie", "the partition compares fewer than two agents"),
        (None, "tie", "there is no answer"),
        ([["a"], ["b"]], "draw", "the meaning is unknown"),
    ],
)
def test_rows_that_cannot_be_are_told_and_may_be_left_out(blocks, zero, what):
    nested = pa.list_(pa.list_(pa.string()))
    columns = {"vote.menu": [["a", "b"]] * 2, "vote.blocks": pa.array([[["a"], ["b"]], blocks], nested)}
    data = pa.table({**columns, "vote.zero": ["tie", zero]})
    with pytest.raises(ReadError, match=what) as caught:
        ne.read(data)
    assert caught.value.rows == (2,)
    assert ne.read(data, on_error="skip").n_records == 1


def test_blocks_that_are_no_lists_are_told():
    data = pa.table({"vote.menu": [["a", "b"]], "vote.blocks": ["a > b"], "vote.zero": ["tie"]})
    with pytest.raises(ReadError, match="it holds string"):
        ne.read(data)
