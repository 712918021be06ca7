"""`Feedback.coverage`: a small log worked by hand, and random ones by brute force."""

from __future__ import annotations

import io
import json
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nasheval.feedback import partition
from nasheval.feedback.coverage import PositionBias
from nasheval.feedback.log import Feedback
from nasheval.feedback.partition import Zero
from nasheval.feedback.readers.votes import read_votes
from nasheval.feedback.records import Records


def battles(*rows, **more):
    first, second, winner = zip(*rows, strict=True)
    return pa.table({"model_a": first, "model_b": second, "winner": winner, **more})


def empty(agents, n_contexts=0):
    nothing = np.zeros(0, np.int64)
    records = Records.build(sizes=nothing, agent=nothing, rank=nothing)
    return Feedback.from_records(records, agents=agents, n_contexts=n_contexts)


@pytest.fixture
def golden():
    """Five agents: x, y and z in a triangle, u and v apart from them."""
    return read_votes(
        battles(
            ("x", "y", "model_a"), ("x", "y", "model_a"), ("y", "x", "tie"),
            ("y", "z", "model_a"), ("z", "x", "model_b"), ("u", "v", "both_bad"),
            id=[1, 1, 2, 2, 3, 4],
            who=["p", "q", "p", None, "p", "q"],
        ),
        context_id="id",
        voter="who",
    )  # fmt: skip


def test_the_golden_log(golden):
    cover = golden.coverage()
    assert cover.agents == ("u", "v", "x", "y", "z")
    assert (cover.n_records, cover.n_contexts, cover.n_voters, cover.empty_contexts) == (6, 4, 2, 0)
    assert cover.counts.votes.tolist() == [
        [0, 1, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 0, 0, 3, 1],
        [0, 0, 3, 0, 1],
        [0, 0, 1, 1, 0],
    ]
    assert cover.counts.margin[2].tolist()[2:] == [0, 2 / 3, 1]
    assert np.isnan(cover.counts.margin[0, 2:]).all()
    assert [cover.counts.wins.sum(axis=axis).tolist() for axis in (1, 0)] == [[0, 0, 3, 1, 0], [0, 0, 0, 2, 2]]
    assert cover.counts.ties.sum(axis=1).tolist() == [1, 1, 1, 1, 0]
    assert (cover.pairs_seen, cover.share_of_pairs) == (4, 0.4)
    assert cover.components == (("x", "y", "z"), ("u", "v"))
    assert (cover.never_won, cover.never_lost) == (("u", "v", "z"), ("u", "v", "x"))
    assert (cover.n_menus, cover.n_rare) == (4, 4)
    assert cover.rare == ("{u, v}: 1", "{x, z}: 1", "{y, z}: 1", "{x, y}: 3")
    assert (cover.design, cover.could_not_meet, cover.condorcet_winner) == ("draws", (), None)


def test_the_golden_log_as_text(golden):
    """Position, of x and y alone: the earlier agent won both when it was x and tied when it was y, so it leads by 1/2.

    Residuals of the three are 0 and the error is that of two votes more for either side, 2/7.
    """
    assert [line.rstrip() for line in str(golden.coverage()).splitlines()] == [
        "6 records at 4 contexts, 5 agents, 4 menus, 2 voters",
        "pairs compared: 4 of 10 (40%), 0, 0, 3 votes per pair (least, median, most)",
        f"design: draws ({golden.how_designed.reason})",
        "position: the agent shown earlier leads by +0.500 ± 0.560 in the one pair shown in both orders",
        "Agents, by mean verdict pooled over all contexts",
        "┏━━━━━━━┳━━━━━━━━━━━━━┳━━━━━┳━━━━━━┳━━━━━━┳━━━━━━━━━┳━━━━━━━━━━━┓",
        "┃       ┃             ┃     ┃      ┃      ┃    mean ┃           ┃",
        "┃ agent ┃ comparisons ┃ won ┃ lost ┃ tied ┃ verdict ┃ opponents ┃",
        "┡━━━━━━━╇━━━━━━━━━━━━━╇━━━━━╇━━━━━━╇━━━━━━╇━━━━━━━━━╇━━━━━━━━━━━┩",
        "│ x     │           4 │   3 │    0 │    1 │  +0.750 │         2 │",
        "│ u     │           1 │   0 │    0 │    1 │  +0.000 │         1 │",
        "│ v     │           1 │   0 │    0 │    1 │  +0.000 │         1 │",
        "│ y     │           4 │   1 │    2 │    1 │  -0.250 │         2 │",
        "│ z     │           2 │   0 │    2 │    0 │  -1.000 │         2 │",
        "└───────┴─────────────┴─────┴──────┴──────┴─────────┴───────────┘",
        "Row against column, votes",
        "┏━━━━━┳━━━━━━━┳━━━━━━━┳━━━━━━━┳━━━━━━━┳━━━━━━━┓",
        "┃     ┃     1 ┃     2 ┃     3 ┃     4 ┃     5 ┃",
        "┡━━━━━╇━━━━━━━╇━━━━━━━╇━━━━━━━╇━━━━━━━╇━━━━━━━┩",
        "│ 1 x │       │ never │ never │ +0.67 │ +1.00 │",
        "│     │       │   met │   met │     3 │     1 │",
        "│ 2 u │ never │       │ +0.00 │ never │ never │",
        "│     │   met │       │     1 │   met │   met │",
        "│ 3 v │ never │ +0.00 │       │ never │ never │",
        "│     │   met │     1 │       │   met │   met │",
        "│ 4 y │ -0.67 │ never │ never │       │ +1.00 │",
        "│     │     3 │   met │   met │       │     1 │",
        "│ 5 z │ -1.00 │ never │ never │ -1.00 │       │",
        "│     │     1 │   met │   met │     1 │       │",
        "└─────┴───────┴───────┴───────┴───────┴───────┘",
        "! the comparisons fall into 2 groups that never meet (such as u, v): results across groups are not identified",
        "! never won: u, v, z",
        "! never lost: u, v, x",
        "! 4 of 4 menus have fewer than 30 records (rarest: {u, v}: 1)",
    ]


def test_to_dict_is_plain_json(golden):
    plain = golden.coverage().to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["margin"][0][2] is None
    assert plain["components"] == [["x", "y", "z"], ["u", "v"]]
    assert (plain["pairs_bridged"], plain["pairs_unknown"], plain["only_a_ladder"]) == (0, 6, False)
    assert (plain["position_bias"], plain["position_pairs"], plain["position_note"]) == (0.5, 1, None)
    assert plain["warnings"] == golden.coverage().warnings()


# -- odd logs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agents", [[], ["x"], ["x", "y"]])
@pytest.mark.parametrize("n_contexts", [0, 3])
def test_logs_without_a_record(agents, n_contexts):
    cover = empty(agents, n_contexts).coverage()
    assert (cover.n_records, cover.pairs_seen, cover.position_bias, cover.condorcet_winner) == (0, 0, None, None)
    assert cover.components == tuple((agent,) for agent in agents)
    assert str(cover).startswith(f"0 records at {n_contexts} contexts, {len(agents)} agents, 0 menus")
    json.dumps(cover.to_dict(), allow_nan=False)


def test_names_that_look_like_markup_are_shown_as_they_are():
    cover = read_votes(battles(("[bold]x", ":cat:", "model_a"), ("[/]", ":cat:", "tie"))).coverage()
    for name in ("[bold]x", ":cat:", "[/]"):
        assert name in str(cover)


def test_text_has_no_colour_even_where_a_terminal_has(golden, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in str(golden.coverage())


def test_a_console_shows_the_same_text(golden):
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=110).print(golden.coverage())
    assert out.getvalue() == str(golden.coverage())


def test_only_the_first_agents_are_listed_but_all_are_counted():
    rows = [(f"m{i:02}", f"m{i + 1:02}", "model_a") for i in range(39)]
    text = str(read_votes(battles(*rows)).coverage())
    assert "(first 25 of 40)" in text
    assert "m24" in text
    assert "│ m30" not in text


def test_voters_are_those_with_a_record():
    table = battles(("x", "y", "tie"), ("x", "z", "tie"), who=["p", "q"])
    cover = read_votes(table, voter="who", agents=["x", "y"]).coverage()
    assert cover.n_voters == 1
    assert ", 1 voter\n" in str(cover)


def test_the_condorcet_winner_beats_every_other():
    rows = [("x", "y", "model_a"), ("x", "z", "model_a"), ("y", "z", "tie")]
    assert read_votes(battles(*rows)).coverage().condorcet_winner == "x"
    assert read_votes(battles(*rows[:1], rows[2])).coverage().condorcet_winner is None


# -- weights ----------------------------------------------------------------------------------------------------------


def test_weighted_counts_say_so():
    table = battles(("x", "y", "model_a"), ("y", "x", "model_b"), ("y", "x", "tie"), w=[0.25, 0.25, 0.1])
    text = str(read_votes(table, weight="w").coverage())
    assert "┃       ┃             ┃ weight ┃ weight ┃ weight ┃    mean ┃           ┃" in text
    assert "┃ agent ┃ comparisons ┃    won ┃   lost ┃   tied ┃ verdict ┃ opponents ┃" in text
    assert "│ x     │           3 │    0.5 │    0.0 │    0.1 │  +0.833 │" in text


def test_orders_that_were_not_asked_count_as_zero_in_the_mean_verdict_as_in_the_margin():
    log = Feedback.from_partitions(np.empty((1, 0)), [partition.winner("x", ("x", "y", "z"))])
    cover = log.coverage()
    assert cover.counts.censored.sum(axis=1).tolist() == [0, 1, 1]
    assert "not asked" in str(cover)
    assert "│ y     │           2 │   0 │    1 │    0 │         1 │  -0.500 │" in str(cover)


def test_menu_names_tell_the_form_of_the_question():
    parts = [partition.winner("x", "xyz"), partition.top("xy", "xyzw"), partition.best_worst("x", "w", "xyzw"),
             partition.ranking("xyz"), partition.Partition((("x",), ("y", "z")), Zero.LAST)]  # fmt: skip
    rare = Feedback.from_partitions(np.empty((5, 0)), parts).coverage().rare
    assert {menu.partition(":")[0] for menu in rare} == {
        "{x, y, z} (best)",
        "{w, x, y, z} (best 2)",
        "{w, x, y, z} (best and worst)",
        "{x, y, z}",
        "{x, y, z} (some ranked)",
    }


# -- pairs never compared ---------------------------------------------------------------------------------------------


def test_pairs_of_a_chain_are_bridged_and_can_only_tell_a_ladder():
    cover = read_votes(battles(("x", "y", "model_a"), ("y", "z", "model_a"), ("z", "w", "tie"))).coverage()
    assert (cover.pairs_seen, cover.pairs_bridged, cover.pairs_unknown, cover.only_a_ladder) == (3, 3, 0, True)
    bridged = (
        "3 pairs were never compared but are connected through others; a fit bridges them by the outcome model, and "
        "marks them"
    )
    ladder = "the comparisons form a tree: these votes can only tell a ladder, no cycle can be seen"
    assert cover.warnings()[:2] == [bridged, ladder]


def test_one_bridged_pair_in_a_loop_of_four():
    rows = [("x", "y", "tie"), ("y", "z", "tie"), ("z", "w", "tie"), ("w", "x", "tie"), ("x", "z", "tie")]
    cover = read_votes(battles(*rows)).coverage()
    words = (
        "1 pair was never compared but is connected through others; a fit bridges them by the outcome model, and marks "
        "them"
    )
    assert cover.warnings()[0] == words
    assert not cover.only_a_ladder
    assert not any("ladder" in text for text in cover.warnings())


def test_two_trees_are_said_to_be_apart_and_to_tell_ladders():
    cover = read_votes(battles(("x", "y", "tie"), ("u", "v", "tie"))).coverage()
    assert (cover.pairs_bridged, cover.pairs_unknown) == (0, 4)
    assert "2 groups that never meet" in cover.warnings()[0]
    assert cover.warnings()[1].startswith("the comparisons form trees:")


# -- time -------------------------------------------------------------------------------------------------------------


def test_pairs_that_could_not_meet():
    table = battles(("x", "y", "tie"), ("y", "z", "tie"), ("z", "w", "tie"), at=[1.0, 2.0, 3.0])
    cover = read_votes(table, time="at").coverage()
    assert cover.could_not_meet == (("w", "x"), ("w", "y"), ("x", "z"))
    assert any("3 pairs could not meet" in text and "such as w and x" in text for text in cover.warnings())


def test_pairs_that_could_have_met_are_not_listed():
    table = battles(("x", "y", "tie"), ("z", "w", "tie"), ("x", "y", "tie"), at=[1.0, 2.0, 3.0])
    assert read_votes(table, time="at").coverage().could_not_meet == ()


def test_agents_whose_time_is_unknown_are_not_said_to_have_left():
    table = battles(("x", "y", "tie"), ("z", "w", "tie"), at=[1.0, None])
    assert read_votes(table, time="at").coverage().could_not_meet == ()


# -- position ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("winner", "mean"), [("model_a", 1.0), ("model_b", -1.0), ("tie", 0.0)])
def test_the_sign_of_the_position_bias(winner, mean):
    rows = [("x", "y", winner), ("y", "x", winner)]
    assert read_votes(battles(*rows)).coverage().position_bias.mean == mean


def test_the_position_bias_of_a_ranking_counts_every_pair():
    """x, y and z are shown in one order and in its reverse; each time the last shown is ranked first."""
    records = Records.build(
        sizes=np.array([3, 3]),
        agent=np.array([0, 1, 2, 0, 1, 2]),
        rank=np.array([2, 0, 1, 0, 2, 1]),
        shown=np.array([0, 2, 1, 2, 0, 1]),
    )
    bias = Feedback.from_records(records, agents=["x", "y", "z"]).coverage().position_bias
    assert (bias.mean, bias.pairs) == (-1.0, 3)


def simulated(rng, pairs, *, effect, strength):
    """Votes on pairs (first, second, votes): a verdict has mean strength[first] - strength[second] + effect."""
    first, second, count = np.array(pairs).T
    first, second = np.repeat(first, count), np.repeat(second, count)
    won = rng.random(len(first)) < (1 + strength[first] - strength[second] + effect) / 2
    names = np.array([f"m{agent}" for agent in range(len(strength))])
    return read_votes(battles(*zip(names[first], names[second], np.where(won, "model_a", "model_b"), strict=True)))


# m0 beats m1 and m2 and mostly stands first, so that the mean verdict for the first shown is mostly about agents.
UNEVEN = [(0, 1, 300), (1, 0, 60), (0, 2, 200), (2, 0, 40), (1, 2, 100)]


@pytest.mark.parametrize("effect", [0.0, 0.2])
def test_a_known_position_effect_is_found_whoever_stands_first(effect):
    rng = np.random.default_rng(0)
    strength = np.array([0.3, -0.2, -0.2])
    biases = [simulated(rng, UNEVEN, effect=effect, strength=strength).coverage().position_bias for _ in range(200)]
    means, errors = np.array([bias.mean for bias in biases]), np.array([bias.error for bias in biases])
    assert abs(means.mean() - effect) < 3 * means.std() / np.sqrt(len(means))
    assert errors.mean() == pytest.approx(means.std(), rel=0.15)
    assert biases[0].pairs == 2  # m1 and m2 were shown in one order


def test_the_error_holds_where_a_pair_has_one_record_in_either_order():
    """Ten agents, each pair twice: an intercept per pair leaves one of its two degrees of freedom."""
    rng = np.random.default_rng(1)
    strength = np.linspace(-0.4, 0.4, 10)
    pairs = [(j, k, 1) for j in range(10) for k in range(10) if j != k]
    biases = [simulated(rng, pairs, effect=0.1, strength=strength).coverage().position_bias for _ in range(200)]
    means, errors = np.array([bias.mean for bias in biases]), np.array([bias.error for bias in biases])
    assert errors.mean() == pytest.approx(means.std(), rel=0.15)


def test_a_reference_that_always_stands_first_is_not_said_to_owe_it_to_its_place():
    rng = np.random.default_rng(2)
    log = simulated(rng, [(0, 1, 200), (0, 2, 200)], effect=0.0, strength=np.array([0.4, -0.3, -0.4]))
    cover = log.coverage()
    note = "position cannot be told from agents: every pair was always shown in one order"
    assert cover.position_bias is None
    assert cover.one_order
    assert note in cover.warnings()
    assert "shown earlier" not in str(cover)
    assert (cover.to_dict()["position_bias"], cover.to_dict()["position_note"]) == (None, note)


def test_no_position_where_the_order_shown_is_unknown():
    log = Feedback.from_partitions(np.empty((1, 0)), [(("x",), ("y",))])
    assert log.coverage().position_bias is None
    assert "position" not in str(log.coverage())


def biased(first_shows, second_shows):
    """Votes on x and y in which the first shown always wins."""
    return read_votes(battles(*[("x", "y", "model_a")] * first_shows, *[("y", "x", "model_a")] * second_shows))


@pytest.mark.parametrize(
    ("shows", "balanced"),
    [((20, 20), True), ((24, 16), True), ((16, 24), True), ((25, 15), False), ((39, 1), False), ((4, 4), False)],
)
def test_balanced_is_about_both_orders_of_every_pair_with_ten_records(shows, balanced):
    assert biased(*shows).coverage().position_bias.balanced is balanced


def test_one_pair_shown_one_way_round_unbalances_the_log():
    both, one = [("x", "y", "tie"), ("y", "x", "tie")] * 10, [("x", "z", "tie")]
    assert read_votes(battles(*both, *one * 9)).coverage().position_bias.balanced
    assert not read_votes(battles(*both, *one * 10)).coverage().position_bias.balanced


def test_the_advice_follows_the_balance():
    favoured = "the agent shown earlier is favoured by 1.000: "
    assert (
        favoured + "both orders were shown about equally often, so it cancels out"
        in biased(10, 10).coverage().warnings()
    )
    unbalanced = "the agent shown earlier is favoured by 1.000 in the one pair shown in both orders: "
    assert unbalanced + "show every pair in both, or model the position" in biased(20, 8).coverage().warnings()


def test_two_votes_of_one_mind_are_no_clear_bias():
    assert not biased(1, 1).coverage().position_bias.clear


def test_a_bias_inside_its_error_is_not_clear():
    assert PositionBias(0.1, 0.02).clear
    assert not PositionBias(0.1, 0.05).clear
    assert not any(
        "shown earlier" in text
        for text in read_votes(battles(("x", "y", "model_a"), ("y", "x", "model_b"))).coverage().warnings()
    )


# -- brute force ------------------------------------------------------------------------------------------------------

votes = st.lists(
    st.tuples(st.permutations("wxyz"), st.sampled_from(["model_a", "model_b", "tie", "both_bad"]), st.integers(1, 4)),
    min_size=1,
    max_size=25,
)


def position_effect(rows, weight):
    """Least squares with an intercept per pair and one column for who was shown earlier; None where it is collinear."""
    pairs = sorted({tuple(sorted(row[:2])) for row in rows})
    dummy = np.array([[tuple(sorted(row[:2])) == pair for pair in pairs] for row in rows], float)
    order = np.array([1.0 if row[0] < row[1] else -1.0 for row in rows])
    X, z, root = np.column_stack([dummy, order]), order * [row[2] for row in rows], np.sqrt(weight)
    if np.linalg.matrix_rank(X) <= len(pairs):
        return None
    return np.linalg.lstsq(X * root[:, None], z * root)[0][-1]


@settings(deadline=None)
@given(votes)
def test_coverage_agrees_with_brute_force(some):
    rows = [(order[0], order[1], winner) for order, winner, _ in some]
    weight = [w / 4 for *_, w in some]
    log = read_votes(battles(*rows, w=weight), weight="w")
    cover, agents = log.coverage(), log.agents
    score = {"model_a": 1, "model_b": -1}
    for j, k in combinations(range(len(agents)), 2):
        met = [(row, w) for row, w in zip(rows, weight, strict=True) if {row[0], row[1]} == {agents[j], agents[k]}]
        z = [score.get(row[2], 0) * (1 if row[0] == agents[j] else -1) for row, _ in met]
        assert cover.counts.votes[j, k] == cover.counts.votes[k, j] == len(met)
        if met:
            assert cover.counts.margin[j, k] == pytest.approx(np.average(z, weights=[w for _, w in met]))
            assert cover.counts.margin[k, j] == -cover.counts.margin[j, k]
        else:
            assert np.isnan(cover.counts.margin[j, k])
    won = {row[0] if row[2] == "model_a" else row[1] for row in rows if row[2] in score}
    lost = {row[1] if row[2] == "model_a" else row[0] for row in rows if row[2] in score}
    assert set(cover.never_won) == set(agents) - won
    assert set(cover.never_lost) == set(agents) - lost
    effect = position_effect([(row[0], row[1], score.get(row[2], 0)) for row in rows], np.array(weight))
    assert (cover.position_bias is None) == (effect is None) == cover.one_order
    if effect is not None:
        assert cover.position_bias.mean == pytest.approx(effect, abs=1e-9)
    assert cover.n_rare == sum(0 < cover.counts.votes[j, k] < 30 for j, k in combinations(range(len(agents)), 2))
    parts = [{agent} for agent in agents]
    for first, second, _ in rows:
        a, b = (next(part for part in parts if agent in part) for agent in (first, second))
        if a is not b:
            parts.remove(b)
            a |= b
    assert sorted(map(sorted, cover.components)) == sorted(map(sorted, parts))
    json.dumps(cover.to_dict(), allow_nan=False)
    assert str(cover)
