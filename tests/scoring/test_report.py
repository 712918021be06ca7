"""What a report gathers, and the page it becomes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nasheval.errors import InputError
from nasheval.game.regularizers import L2
from nasheval.game.solver import solve
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.payoff.bridging import STATUS_NAMES
from nasheval.payoff.inference import group_payoff, payoffs_by
from nasheval.payoff.stage1 import fit_stage1
from nasheval.scoring.leaderboard import standings
from nasheval.scoring.report import gather, render, write_report
from nasheval.scoring.report.findings import listed
from nasheval.scoring.report.frontier import cost_frontier
from nasheval.scoring.report.sections import log_histogram
from nasheval.scoring.report.views import DRAWN, MOST_GROUPS, SHOWN, Payoffs, Preferences, _drawn

from .logs import Fixed, duels
from .report_logs import (
    AGENTS,
    COSTS,
    ROCK,
    STAR,
    TOPICS,
    WEAK,
    example,
    margins,
    payoff_of,
    star_report,
    star_stage1,
    true_stage1,
)


@pytest.fixture(scope="module")
def stage1():
    return example()[0]


@pytest.fixture(scope="module")
def report():
    return example()[2]


def view_of(report, column, name):
    return next(view for view in report.groups if (view.column, view.name) == (column, name))


# -- pairs that were never compared -----------------------------------------------------------------------------------


def status_of_pairs(view):
    """The status of each pair of a view, by the names of its agents."""
    agents = [STAR[a] for a in view.payoffs.agents]
    pairs = [frozenset((a, b)) for i, a in enumerate(agents) for b in agents[i + 1 :]]
    return dict(zip(pairs, (STATUS_NAMES[code] for code in view.payoffs.status), strict=True))


def test_every_pair_carries_its_status_and_what_transitive_voters_allow():
    whole, group = star_report().groups[0], group_payoff(star_stage1().pseudo)
    status = status_of_pairs(whole)
    assert {pair for pair, name in status.items() if name == "seen"} == {
        frozenset(pair) for pair in (("base", "strong"), ("base", "middling"), ("base", "weak"), ("isle", "reef"))
    }
    assert status[frozenset(("strong", "weak"))] == "bridged"
    assert status[frozenset(("strong", "isle"))] == "unknown"
    pairs = [(a, b) for i, a in enumerate(whole.payoffs.agents) for b in whole.payoffs.agents[i + 1 :]]
    for pair, code, low, high in zip(
        pairs, whole.payoffs.status, whole.payoffs.allowed_low, whole.payoffs.allowed_high, strict=True
    ):
        if STATUS_NAMES[code] == "seen":
            assert (low, high) == (None, None)
        else:
            a, b = (group.estimate[one, 0] if one < 4 else np.nan for one in pair)  # against base
            expected = (max(a - b - 1, -1), min(a - b + 1, 1)) if STATUS_NAMES[code] == "bridged" else (-1, 1)
            assert (low, high) == pytest.approx(expected, abs=1e-3)


def test_an_agent_without_votes_in_a_group_is_in_none_of_its_tables():
    german = view_of(star_report(), "language", "de")
    weak = STAR.index("weak")
    assert weak not in german.order
    assert weak not in german.payoffs.agents
    assert weak not in german.preferences.agents
    assert any("weak" in note for note in german.notes)
    assert weak in star_report().groups[0].order


def test_a_star_says_that_it_can_only_tell_a_ladder_and_what_its_winners_rest_on():
    report = star_report()
    assert any("can only tell a ladder" in text for text in report.findings)
    assert any("can only tell a ladder" in text for text in report.trust["warnings"])
    assert not any("No cycle of preferences holds" in text for text in report.findings)
    assert any("strong with 2 of its 5 rivals: those payoffs are bridged" in text for text in report.findings)
    assert any(text.startswith("Nothing connects strong and isle") for text in report.findings)
    assert report.facts["only_a_ladder"]
    assert (report.facts["pairs_bridged"], report.facts["pairs_unknown"]) == (3, 8)
    assert any("given as 0, a tie" in text for text in star_report("tie").findings)
    assert not any("ladder" in text for text in example()[2].findings)


def test_voters_are_passed_on(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "nasheval.scoring.report.gathering.group_payoff",
        lambda pseudo, **how: asked.append(how["voters"]) or group_payoff(pseudo, **how),
    )
    gather(star_stage1(200), by=[], draws=10, voters="panel")
    assert asked == ["panel"]


# -- what is gathered -------------------------------------------------------------------------------------------------


def test_groups_are_all_contexts_then_those_of_each_column(report):
    names = [(view.column, view.name) for view in report.groups]
    assert names[:4] == [("", "all"), *(("topic", topic) for topic in TOPICS)]
    assert [column for column, _ in names[4:]] == ["length"] * 4
    assert [view.contexts for view in report.groups[4:]] == [600] * 4  # quarters of 2,400
    assert report.columns == ("topic", "length")


def test_standings_are_those_of_the_leaderboard(stage1, report):
    rows = list(standings(stage1.log, payoffs_by(stage1.pseudo, "topic", confidence=0.95, seed=0), L2()))
    for topic in TOPICS:
        view = view_of(report, "topic", topic)
        expected = [row for row in rows if row.group == topic]
        assert [AGENTS[a] for a in view.order] == [row.agent for row in expected]
        for row in expected:
            a = AGENTS.index(row.agent)
            assert view.lottery[a] == pytest.approx(row.lottery, abs=1e-4)
            assert view.rating[a] == pytest.approx(row.rating, abs=0.1)
            assert view.votes[a] == row.votes
            assert (a in view.winners) == row.in_support


def test_payoffs_and_cycles_are_those_of_the_group(stage1, report):
    for group in (group_payoff(stage1.pseudo), *payoffs_by(stage1.pseudo, "topic")):
        view = view_of(report, "" if group.name == "all" else "topic", group.name)
        pairs = [(a, b) for i, a in enumerate(view.payoffs.agents) for b in view.payoffs.agents[i + 1 :]]
        assert len(pairs) == 6
        for p, (a, b) in enumerate(pairs):
            assert view.payoffs.estimate[p] == pytest.approx(group.estimate[a, b], abs=1e-4)
            assert view.payoffs.low[p] == pytest.approx(group.lower[a, b], abs=1e-4)
            assert view.payoffs.high[p] == pytest.approx(group.upper[a, b], abs=1e-4)
        assert sum(view.payoffs.votes) == view.contexts  # one duel per context
        named = [tuple(AGENTS[a] for a in cycle) for cycle in view.preferences.cycles]
        assert named == [cycle.agents for cycle in group.cycles()]
        beats = {(a, b) for a, b, _ in view.preferences.edges}
        assert beats == set(zip(*map(np.ndarray.tolist, np.nonzero(group.beats())), strict=True))


def test_the_truth_is_found(report):
    games, code = view_of(report, "topic", TOPICS[0]), view_of(report, "topic", TOPICS[1])
    assert games.preferences.cycles == ((0, 1, 2),)
    assert set(games.winners) == {0, 1, 2}
    assert code.preferences.n_cycles == 0
    assert code.winners == (0,)
    assert code.lottery == (1.0, 0.0, 0.0, 0.0)
    assert games.won == (1.0, 1.0, 1.0, 0.0)
    assert code.won == (1.0, 0.0, 0.0, 0.0)
    assert report.findings[0].startswith("Over all contexts taken together")
    assert any("1 of 3 groups has clearly other winners" in text and TOPICS[1] in text for text in report.findings)


def test_contexts_won_are_those_of_the_games_solved_one_by_one(stage1, report):
    lottery = {t: solve(payoff_of(margins(np.array([t]))[0])).strategy for t in range(3)}
    topic = np.array([TOPICS.index(name) for name in stage1.log.contexts["topic"].to_pylist()])
    inside = np.stack([lottery[t] > 1e-3 for t in topic])
    np.testing.assert_allclose(report.groups[0].won, inside.mean(axis=0), atol=1e-4)
    length = np.asarray(stage1.log.contexts["length"])
    first = length < np.quantile(length, 0.25)
    np.testing.assert_allclose(report.groups[4].won, inside[first].mean(axis=0), atol=1e-4)


def test_a_policy_says_who_wins_and_its_agents_are_found_by_name(stage1):
    policy = Fixed(AGENTS[::-1], lambda x: np.tile([0.0, 0.0, 0.25, 0.75], (len(x), 1)))
    policy.predict_proba = lambda contexts, agents=None: np.tile([0.0, 0.0, 0.25, 0.75], (contexts.num_rows, 1))
    found = gather(stage1, by=[], policy=policy, costs=COSTS, draws=20)
    assert found.groups[0].won == (1.0, 1.0, 0.0, 0.0)
    own = next(point for point in found.frontier if point.kind == "policy")
    assert own.cost == pytest.approx(0.75 * 4 + 0.25 * 3)


def test_without_columns_costs_or_evaluation_there_is_less_to_show(stage1):
    found = gather(stage1, by=[], draws=20)
    assert (found.columns, found.frontier, found.held_out, len(found.groups)) == ((), (), None, 1)
    assert found.title == "Evaluation of agents"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found.created)


def test_columns_are_chosen_where_none_are_given(stage1):
    assert gather(stage1, draws=20).columns == ("topic", "length")
    with pytest.raises(InputError, match="no context column"):
        gather(stage1, by="language", draws=20)


def test_many_groups_are_cut_to_those_with_most_contexts():
    stage1 = true_stage1(400)
    log = stage1.log
    user = np.minimum(np.arange(400) // 4, 60)  # 60 users of 4 contexts, and one of 160
    contexts = log.contexts.append_column("user", pa.array([f"u{u}" for u in user]))
    fit = replace(stage1.nuisances, log=replace(log, contexts=contexts))
    found = gather(replace(stage1, nuisances=fit, pseudo=replace(stage1.pseudo, fit=fit)), by="user", draws=10)
    assert len(found.groups) == 1 + MOST_GROUPS
    assert found.groups[1].name == "u60"
    assert f"user has 61 groups; the {MOST_GROUPS} with most contexts are shown." in found.notes


def test_groups_of_numbers_are_in_their_order():
    stage1 = true_stage1(300)
    lanes = np.array([10, 2, 2, 2, 9, 9])[np.arange(300) % 6]
    contexts = stage1.log.contexts.append_column("lanes", pa.array(lanes))
    fit = replace(stage1.nuisances, log=replace(stage1.log, contexts=contexts))
    found = gather(replace(stage1, nuisances=fit, pseudo=replace(stage1.pseudo, fit=fit)), by="lanes", draws=10)
    assert [view.name for view in found.groups[1:]] == ["2", "9", "10"]


def test_held_out_values_are_those_of_the_evaluation(report):
    found, shown = example()[1], report.held_out
    assert shown["verdict"] == found.verdict
    assert [contest["name"] for contest in shown["contests"]] == ["all", *(group.name for group in found.groups)]
    np.testing.assert_allclose(np.array(shown["contests"][0]["value"], float), found.value, atol=1e-4)
    np.testing.assert_allclose(np.array(shown["contests"][0]["lower"], float), found.lower, atol=1e-4)
    assert shown["cost"] == pytest.approx((3.0, 4.0, 1.0))
    assert shown["contests"][0]["opponent"][2] in AGENTS


def test_warnings_say_a_thing_once():
    log, _ = duels(np.random.default_rng(0), 5, draws=True)
    few = fit_stage1(log, outcome=Intercept(), propensity="marginal", second_stage="none", folds=2)
    found = gather(few, by=[], draws=10)
    assert found.facts["pairs_seen"] < 6
    assert sum("bridged through others" in text for text in found.trust["warnings"]) == 1
    assert not any("given as 0" in text for text in found.trust["warnings"])
    assert all(text[0].isupper() or text[0].isdigit() or text.startswith("A(x)") for text in found.trust["warnings"])
    assert all(text.endswith(".") for text in found.trust["warnings"])


# -- parts worked by hand ---------------------------------------------------------------------------------------------


def test_the_frontier_of_a_game_of_two():
    # 0 beats 1 by a half and costs one unit more: at a weight above a half it is no longer worth its price.
    A = np.tile([[0.0, 0.5], [-0.5, 0.0]], (3, 1, 1))
    points = cost_frontier(A, np.array([3.0, 2.0]), ("dear", "cheap"), weights=(0.0, 0.25, 1.0))
    told = [(p.name, p.kind, p.cost, p.exploitability) for p in points]
    assert told == [
        ("cost weight 0", "price", 3.0, 0.0),
        ("cost weight 0.25", "price", 3.0, 0.0),
        ("cost weight 1", "price", 2.0, 0.5),
        ("dear", "agent", 3.0, 0.0),
        ("cheap", "agent", 2.0, 0.5),
    ]


def test_costs_by_context_are_averaged():
    A = np.tile([[0.0, 0.5], [-0.5, 0.0]], (2, 1, 1))
    points = cost_frontier(A, np.array([[1.0, 0.0], [3.0, 0.0]]), ("a", "b"), weights=(0.0,), policy=np.eye(2))
    assert [(p.name, p.cost, p.exploitability) for p in points] == [
        ("cost weight 0", 2.0, 0.0), ("a", 2.0, 0.0), ("b", 0.0, 0.5), ("this model", 0.5, 0.25),
    ]  # fmt: skip


@given(hnp.arrays(float, st.integers(0, 40), elements=st.one_of(st.just(0.0), st.floats(1e-6, 1e6))))
@settings(max_examples=60, deadline=None)
def test_a_histogram_counts_everything_once(values):
    histogram = log_histogram(values)
    count, edges = histogram["count"], histogram["edges"]
    assert sum(count) == len(values)
    assert len(edges) == len(count) + 1
    assert edges == sorted(edges)
    zeros = int((values == 0).sum())
    if zeros:
        assert edges[0] == 0
        assert count[0] == zeros
    above = values[values > 0]
    if len(above):
        assert edges[1 if zeros else 0] <= above.min() * (1 + 1e-4)
        assert edges[-1] >= above.max() * (1 - 1e-4)


@given(st.permutations(range(20)), st.lists(st.permutations(range(20)).map(lambda p: tuple(p[:4])), max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_graph_shows_the_clearest_cycles_and_the_top(order, cycles):
    drawn = _drawn(tuple(order), cycles)
    assert len(drawn) == len(set(drawn)) == DRAWN
    assert list(drawn) == sorted(drawn, key=order.index)
    if cycles:
        assert set(cycles[0]) <= set(drawn)
    else:
        assert list(drawn) == list(order)[:DRAWN]


def test_names_are_listed_as_people_do():
    assert [listed(list("abcdefg"[:n])) for n in (1, 2, 3, 7)] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b, c, d, e and 2 more",
    ]


# -- the page ---------------------------------------------------------------------------------------------------------


class _Elements(HTMLParser):
    """The elements of a page, and the text of scripts and titles."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.inside = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "title"):
            self.inside = tag
            self.texts.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        self.inside = None if tag == self.inside else self.inside

    def handle_data(self, data):
        if self.inside:
            self.texts[-1][2] += data


def test_names_cannot_leave_their_place(report):
    page = render(report)
    found, template = _Elements(page), _Elements((files("nasheval.scoring.report") / "page" / "page.html").read_text())
    assert [tag for tag, _ in found.elements] == [tag for tag, _ in template.elements]
    [title, data, script] = found.texts
    assert title[2] == report.title
    assert json.loads(data[2]) == json.loads(json.dumps(asdict(report), allow_nan=False))
    assert data[1] == {"type": "application/json", "id": "data"}
    assert script[1] == {}
    assert "\u2028" not in page


@given(st.text(max_size=30))
@settings(max_examples=40, deadline=None)
def test_any_name_comes_back_from_the_page(name):
    report = example()[2]
    changed = replace(report, title=name, agents=(name + "a", *report.agents[1:]))
    [title, data, _] = _Elements(render(changed)).texts
    assert json.loads(data[2])["agents"][0] == name + "a"
    assert "<" not in data[2]
    assert title[2].split() == name.split() or "\x00" in name or "\r" in name


def test_the_page_loads_and_runs_nothing_else(report):
    page = render(report)
    found = _Elements(page)
    for tag, attributes in found.elements:
        assert not any(name.startswith("on") or name in ("src", "srcset", "style", "action") for name in attributes), (
            tag
        )
        assert attributes.get("href", "#").startswith(("#", "data:"))
    [policy] = [a["content"] for t, a in found.elements if a.get("http-equiv") == "Content-Security-Policy"]
    script = base64.b64encode(hashlib.sha256(found.texts[2][2].encode()).digest()).decode()
    assert f"script-src 'sha256-{script}'" in policy
    assert "default-src 'none'" in policy
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_the_script_writes_text_only():
    for part in (files("nasheval.scoring.report") / "page").iterdir():
        text = part.read_text()
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "fetch("):
            assert way not in text, (part.name, way)
        assert len(text.splitlines()) <= 400


def test_many_agents_and_groups_stay_small(report):
    rng, K, G = np.random.default_rng(0), 53, 60
    pairs = SHOWN * (SHOWN - 1) // 2

    def numbers(size, digits=4):
        return tuple(rng.random(size).round(digits).tolist())

    whole = report.groups[0]
    view = replace(
        whole, order=tuple(range(K)), winners=(0, 1), lottery=numbers(K), lower=numbers(K), upper=numbers(K),
        frequency=numbers(K), won=numbers(K), rating=numbers(K), rating_error=numbers(K), votes=numbers(K),
        bridged=(9,) * K,
        payoffs=Payoffs(
            tuple(range(SHOWN)), numbers(pairs), numbers(pairs), numbers(pairs), (1000,) * pairs, (1,) * pairs,
            numbers(pairs), numbers(pairs),
        ),
        preferences=Preferences(
            tuple(range(DRAWN)), tuple((a, b, 0.1234) for a in range(DRAWN) for b in range(a)), ((0, 1, 2),) * 30, 99
        ),
    )  # fmt: skip
    groups = (replace(view, column="", name="all"), *(replace(view, column="c", name=f"group {g}") for g in range(G)))
    large = replace(report, agents=tuple(f"a model with a long name, {a}" for a in range(K)), groups=groups)
    assert 200_000 < len(render(large)) < 1_500_000


def test_a_file_is_written_whole_or_not_at_all(report, tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    write_report(report, target)
    page = target.read_text(encoding="utf-8")
    assert page == render(report)
    monkeypatch.setattr("nasheval.scoring.report.rendering.render", lambda data: "half\ud800")  # cannot be encoded
    with pytest.raises(UnicodeEncodeError):
        write_report(report, target)
    assert target.read_text(encoding="utf-8") == page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_agents_of_the_example_are_awkward():
    assert "</script>" in ROCK
    assert WEAK == "weak"
