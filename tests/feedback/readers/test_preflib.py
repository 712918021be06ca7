"""PrefLib files, checked against ballots written out by hand."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nasheval.errors import InputError, ReadError
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.rankings import read_rankings

HEADER = """\
# FILE NAME: 00001-00000001.{0}
# TITLE: Dublin North
# DATA TYPE: {0}
# NUMBER ALTERNATIVES: 4
# NUMBER VOTERS: {1}
# ALTERNATIVE NAME 1: Ann
# ALTERNATIVE NAME 2: Bob, the builder
# ALTERNATIVE NAME 3: Cy: also
# ALTERNATIVE NAME 4: Di
"""

BODIES = {"soc": "3: 1,2,3,4\n2: 4,3,2,1\n", "soi": "3: 1,2\n2: 4,3,1\n1: 2\n",
          "toc": "2: 1,{2,3},4\n1: {4,1},{3,2}\n", "toi": "2: {1,2}\n1: 3,{1,4}\n"}  # fmt: skip


def read(here, kind, body=None, **options):
    body = BODIES[kind] if body is None else body
    voters = sum(int(line.partition(":")[0]) for line in body.splitlines())
    (here / f"votes.{kind}").write_text(HEADER.format(kind, voters) + body)
    return read_rankings(f"votes.{kind}", **options)


def rankings(log):
    """Each record as its blocks of agents, best first, with what a shared block means."""
    found = []
    for r in range(log.n_records):
        start, end = log.records.offsets[r], log.records.offsets[r + 1]
        blocks: dict[int, str] = {}
        for agent, block in zip(log.records.agent[start:end], log.records.block[start:end], strict=True):
            blocks[int(block)] = blocks.get(int(block), "") + log.agents[agent][0]
        found.append((" ".join(blocks[b] for b in sorted(blocks)), Zero(log.records.zero[r])))
    return found


def test_complete_orders(here):
    log = read(here, "soc")
    assert log.agents == ("Ann", "Bob, the builder", "Cy: also", "Di")
    assert rankings(log) == [("A B C D", Zero.TIE)] * 3 + [("D C B A", Zero.TIE)] * 2
    assert (log.n_contexts, log.report.kind, log.report.rows, log.report.used) == (5, "PrefLib .soc", 5, 5)


def test_incomplete_orders_put_those_left_out_last(here):
    assert rankings(read(here, "soi")) == [
        *[("A B CD", Zero.LAST)] * 3,
        *[("D C A B", Zero.TIE)] * 2,
        ("B ACD", Zero.LAST),
    ]


def test_incomplete_orders_may_leave_them_out(here):
    log = read(here, "soi", unranked="absent")
    assert rankings(log) == [("A B", Zero.TIE)] * 3 + [("D C A", Zero.TIE)] * 2
    assert (log.report.rows, log.report.used) == (6, 5)
    assert log.report.dropped == {"a ballot that ranks one agent alone": 1}


def test_ties(here):
    assert rankings(read(here, "toc")) == [("A BC D", Zero.TIE)] * 2 + [("AD BC", Zero.TIE)]
    assert rankings(read(here, "toi")) == [("AB CD", Zero.LAST)] * 2 + [("C AD B", Zero.TIE)]
    assert rankings(read(here, "toi", unranked="absent")) == [("AB", Zero.TIE)] * 2 + [("C AD", Zero.TIE)]


def test_declared_ties_stay_ties_beside_those_left_out(here):
    """In {1,2} with 3 and 4 left out, 1 and 2 were called equal; of 3 and 4 nobody said a word."""
    verdicts = read(here, "toi", "1: {1,2}\n").verdicts
    why = {(int(j), int(k)): Zero(z) for j, k, z in zip(verdicts.j, verdicts.k, verdicts.zero, strict=True)}
    assert why[0, 1] == Zero.TIE
    assert why[2, 3] == Zero.CENSORED
    assert why[0, 2] == Zero.DECIDED


@st.composite
def elections(draw):
    """Some counts, each with blocks of a few of the four alternatives."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        ranked = draw(st.permutations([1, 2, 3, 4]))[: draw(st.integers(1, 4))]
        cuts = sorted(draw(st.sets(st.integers(1, len(ranked)), max_size=3)) | {0, len(ranked)})
        found.append((draw(st.integers(1, 3)), [ranked[a:b] for a, b in pairwise(cuts)]))
    return found


def brute_force(election, unranked):
    """Every (voter, j, k, z, why) by looking two alternatives up in the blocks."""
    found, voter = [], 0
    for count, blocks in election:
        place = {alternative: p for p, block in enumerate(blocks) for alternative in block}
        if unranked == "last":
            place = {a: place.get(a, len(blocks)) for a in (1, 2, 3, 4)}
        for _ in range(count if len(place) > 1 else 0):
            for j, k in combinations(sorted(place), 2):
                why = Zero.DECIDED if place[j] != place[k] else Zero.CENSORED if place[j] == len(blocks) else Zero.TIE
                found.append((voter, j - 1, k - 1, int(place[j] < place[k]) - int(place[j] > place[k]), why))
            voter += 1
    return found


def written(blocks):
    return ",".join(str(b[0]) if len(b) == 1 else "{" + ",".join(map(str, b)) + "}" for b in blocks)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(elections(), st.sampled_from(["last", "absent"]))
def test_elections_agree_with_brute_force(here, election, unranked):
    body = "".join(f"{count}: {written(blocks)}\n" for count, blocks in election)
    expected = brute_force(election, unranked)
    if not expected:
        with pytest.raises(ReadError, match="no ballot compares two alternatives"):
            read(here, "toi", body, unranked=unranked)
        return
    v = read(here, "toi", body, unranked=unranked).verdicts
    assert [tuple(row) for row in zip(v.record, v.j, v.k, v.z, v.zero, strict=True)] == expected


def test_spaces_blank_lines_and_upper_case_do_not_matter(here):
    (here / "VOTES.SOC").write_bytes(
        b"\xef\xbb\xbf#ALTERNATIVE NAME 7:x\r\n# alternative name 9 : y\r\n\r\n 2 : 9 , 7 \r\n"
    )
    log = read_rankings("VOTES.SOC")
    assert (log.agents, log.n_records, log.pair_counts.wins.tolist()) == (("x", "y"), 2, [[0, 0], [2, 0]])


def test_an_alternative_without_a_name_goes_by_its_number(here):
    (here / "votes.soc").write_text("# ALTERNATIVE NAME 1:\n# ALTERNATIVE NAME 2: y\n1: 1,2\n")
    assert read_rankings(here / "votes.soc").agents == ("1", "y")


@pytest.mark.parametrize(
    "name",
    ["ballot", "agent", "rank", "agents", "order", "context", "text", "context_id", "voter", "time", "propensity",
     "weight", "join", "categorical"],
)  # fmt: skip
def test_columns_cannot_be_named(here, name):
    with pytest.raises(InputError, match=f"A PrefLib file has no columns, so {name}= cannot be used with it"):
        read(here, "soc", **{name: "x"})


def test_unranked_is_last_or_absent(here):
    with pytest.raises(InputError, match="unranked is 'first'; accepted are 'last' and 'absent'"):
        read(here, "soc", unranked="first")


def test_the_design_may_be_given(here):
    assert read(here, "soc", design="inclusion").design == "inclusion"


WHOLE = (
    "# NUMBER ALTERNATIVES: 3\n# NUMBER VOTERS: 4\n# number unique orders : 2 \n# ALTERNATIVE NAME 1: x\n"
    "# ALTERNATIVE NAME 2: y\n# ALTERNATIVE NAME 3: z\n3: 1,{2,3}\n1: 2,1,3\n"
)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("1: 2,1,3\n", "", "'# NUMBER VOTERS' says 4, but the file holds 3"),
        ("1: 2,1,3\n", "1: 1,{3,2}\n", "'# NUMBER UNIQUE ORDERS' says 2, but the file holds 1"),
        ("VOTERS: 4", "VOTERS: 1234", "'# NUMBER VOTERS' says 1,234, but the file holds 4"),
        ("ALTERNATIVES: 3", "ALTERNATIVES: 4", "'# NUMBER ALTERNATIVES' says 4, but the file holds 3"),
    ],
)
def test_a_file_that_holds_other_than_its_header_says(here, old, new, said):
    (here / "e.toc").write_text(WHOLE)
    assert read_rankings("e.toc").n_records == 4
    (here / "e.toc").write_text(WHOLE.replace(old, new))
    with pytest.raises(ReadError) as error:
        read_rankings("e.toc")
    assert str(error.value) == (
        f"e.toc: {said}.\n  Accepted: a whole file, which holds as many as its header says.\n"
        "  To do: download the file again, or correct the header."
    )


@pytest.mark.parametrize("said", ["", "many", "-4", "4.0", "4" * 13])
def test_a_header_that_counts_in_no_numbers(here, said):
    (here / "e.toc").write_text(WHOLE.replace("VOTERS: 4", f"VOTERS: {said}"))
    with pytest.raises(ReadError) as error:
        read_rankings("e.toc")
    assert str(error.value) == (
        f"e.toc, line 2: the count {said!r} is no whole number.\n  Accepted: lines such as '# NUMBER VOTERS: 1200'.\n"
        "  To do: mend that line, or download the file again."
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(elections(), st.data())
def test_a_cut_file_is_never_read_as_a_whole_one(here, election, data):
    lines = [f"{count}: {written(blocks)}\n" for count, blocks in election]
    cut = data.draw(st.integers(0, len(lines) - 1))
    header = HEADER.format("toi", sum(count for count, _ in election))
    (here / "e.toi").write_text(header + "".join(lines[:cut]))
    with pytest.raises(ReadError, match=r"there are no ballots|'# NUMBER VOTERS' says \d+, but the file holds \d+"):
        read_rankings("e.toi")
