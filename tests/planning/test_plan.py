"""Plans of models and logs: what they say is what happens."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import nasheval as ne
from nasheval.feedback.groups import ALL
from nasheval.nuisance.learners import Effort
from nasheval.payoff.inference import group_payoff
from nasheval.planning.curves import curves_of
from nasheval.planning.future import _moments as futures_of
from nasheval.planning.future import _shrunk_counts, _Sums, futures, pairs_of
from nasheval.planning.goals import Leader, Width, likely_cycle
from nasheval.planning.learning import Learning, learning_of
from nasheval.planning.plan import plan
from nasheval.scoring.decision import decide

HOW = {"outcome": Ridge(), "second_stage": "none", "folds": 2, "n_jobs": 1, "verbose": False}
NAMES = np.array(["a", "b", "c", "d"])
MARGIN = np.array([[0, 0.3, 0.4, 0.5], [0, 0, 0.1, 0.2], [0, 0, 0, 0.1], [0, 0, 0, 0]])


def votes(n, seed=0, *, margin=MARGIN, pairs=None, voter=None, known=True):
    """A log of n votes whose margins swing with x; pairs are asked alike, or those that are given."""
    rng, j, k = np.random.default_rng(seed), *np.triu_indices(len(margin), 1)
    pick = rng.choice(np.arange(len(j)) if pairs is None else pairs, n)
    x = rng.uniform(-1, 1, n)
    wins = rng.random(n) < (1 + margin[j, k][pick] + 0.2 * x) / 2
    columns = {
        "model_a": NAMES[j[pick]],
        "model_b": NAMES[k[pick]],
        "winner": np.where(wins, "model_a", "model_b"),
        "x": x,
        "side": np.where(x > 0, "right", "left"),
        "chance": np.full(n, 1 / len(j)),
    }
    if voter is not None:
        columns["voter"] = voter(rng, n)
    return pa.table(columns)


def read(table, **options):
    columns = {"context": ["x", "side"], "design": "draws", "agents": NAMES.tolist(), **options}
    if "voter" in table.column_names:
        columns["voter"] = "voter"
    return ne.read_votes(table, **columns)


def fitted(table, *, known=True):
    log = read(table, **({"propensity": "chance"} if known else {}))
    return ne.NashEval(**HOW).fit(log)


def width(model):
    payoff = model.payoff_interval()
    return (payoff.upper - payoff.lower)[np.triu_indices(len(payoff.agents), 1)].mean()


@pytest.fixture(scope="module")
def table():
    return votes(4800)


@pytest.fixture(scope="module")
def model(table):
    return fitted(table.slice(0, 600))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("first", [120, 600])
def test_widths_come_true(table, known, first):
    curve = plan(fitted(table.slice(0, first), known=known), goal="width=0.1").curves[0]
    for ahead in (2, 8):
        found = width(fitted(table.slice(0, first * ahead), known=known))
        expected, low, high = curve.at(first * ahead)
        assert expected == pytest.approx(found, rel=0.1)
        assert low <= expected <= high


def test_the_curve_begins_at_what_is_there_today(model):
    curve = plan(model, goal="width=0.1").curves[0]
    assert curve.votes[0] == curve.today == 600
    assert curve.value[0] == pytest.approx(width(model), rel=0.03)
    assert (np.diff(curve.value) <= 0).all()
    assert (curve.lower <= curve.value).all()
    assert (curve.value <= curve.upper).all()


def test_a_future_of_no_more_votes_is_today(model):
    pseudo = model.stage1_.pseudo
    payoff = group_payoff(pseudo)
    found = futures(pairs_of(pseudo, payoff), 1.0, 50, 0)
    assert np.allclose(found.mean, payoff.moments.mean)
    j, k = np.triu_indices(4, 1)
    assert found.low.mean(axis=0) == pytest.approx(payoff.lower[j, k], abs=0.03)
    assert found.high.mean(axis=0) == pytest.approx(payoff.upper[j, k], abs=0.03)


def _sums(count, weight):
    """Sums of pairs whose verdicts all weigh the same, with residuals of 1."""
    count, weight = np.array(count, float), np.array(weight, float)
    return _Sums(count, count * weight, count * weight**2, count * weight**2, 2.0)


def test_weights_of_known_propensities_do_not_settle(model):
    moments = replace(model.payoff_interval().moments, n_contexts=600)
    sums = _sums([100, 100, 100, 100, 100, 100], [3, 6, 12, 6, 6, 6])
    weight, excess = sums.weights(sums.count, moments, known=True)
    assert weight.tolist() == [0.5, 1, 2, 1, 1, 1]
    assert not excess.any()


def test_weights_that_do_not_sum_to_the_contexts_settle_where_they_do(model):
    """Estimated propensities: those of the third pair are half of what they should be."""
    moments = replace(model.payoff_interval().moments, n_contexts=600, freedom=np.full(6, 1e9))
    sums = _sums([100] * 6, [6, 6, 12, 6, 3, 6])
    weight, excess = sums.weights(sums.count, moments, known=False)
    assert weight[:4] == pytest.approx([1, 1, 1, 1])
    assert excess[:4] == pytest.approx([0, 0, 3, 0], abs=1e-6)
    assert weight[4] == pytest.approx(0.5 * (0.5 + 2 * 3 * 10 / 600) / 0.5)  # less may be chance: two standard errors
    few = replace(moments, freedom=np.array([1e9, 1e9, 1e-9, 1e9, 1e9, 1e9]))
    assert sums.weights(sums.count, few, known=False)[0][2] < 1.1  # one that knows nothing is like the others


def test_few_votes_look_more_alike_than_they_are(model):
    """Degrees of freedom per vote move from those that few votes seem to have to those of many."""
    pairs = pairs_of(model.stage1_.pseudo, model.payoff_interval())
    few, many = pairs.freedom
    assert 0 < many <= few
    moments = futures_of(pairs, 8.0, (50, 6), np.random.default_rng(0), 0.0)
    each = moments.freedom / (moments.effective - 1)
    assert each == pytest.approx(np.full(300, 1 / (1 / 8 / few + 7 / 8 / many)), rel=1e-6)


def test_the_decision_and_the_plan_say_the_same(model):
    for margin in (0.0, 0.05, 0.2, 0.5):
        decision = decide(model.stage1_.log, model.payoff_interval(), margin=margin)
        made = plan(model, goal=f"leader={margin}")
        assert made.curves[0].reached == (decision.doubt is None)
        assert made.settles[ALL] == (0 if decision.doubt is None else decision.doubt.more_votes)


def test_a_leader_is_told_apart_as_often_as_planned(table):
    """Of logs that go on from the same votes, as many tell the leader apart as the plan says; the truth is drawn."""
    pairs = pairs_of(*((lambda m: (m.stage1_.pseudo, m.payoff_interval()))(fitted(table.slice(0, 300)))))
    [curve] = curves_of(pairs, [Leader(0.0)], Learning(), votes=300, power=0.8, seed=1, reached=[False])
    told = futures(pairs, 4.0, 4000, 5)
    share = Leader(0.0).values(told, pairs.today.agents).mean()
    assert curve.at(1200)[0] == pytest.approx(share, abs=0.08)
    assert (np.diff(curve.value) >= 0).all()


@pytest.mark.slow
def test_leaders_are_told_apart_as_often_as_planned_over_many_logs():
    chances, told = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        worth = rng.normal(0, 0.25, 4)
        margin = np.triu(np.tanh(worth[:, None] - worth), 1) + np.triu(rng.normal(0, 0.05, (4, 4)), 1)
        table = votes(1600, seed=seed, margin=np.clip(margin, -0.75, 0.75))
        [curve] = plan(fitted(table.slice(0, 200)), goal="leader", learning=False).curves
        chances.append(curve.at(1600)[0])
        model = fitted(table)
        told.append(decide(model.stage1_.log, model.payoff_interval()).doubt is None)
    expected, found = np.array(chances), np.array(told, float)
    error = np.sqrt((expected * (1 - expected)).sum()) / len(found)
    assert abs(expected.mean() - found.mean()) < 3 * error
    assert found[expected > 0.8].mean() > found[expected < 0.5].mean() + 0.3


def test_random_votes_make_no_sure_cycle():
    rng = np.random.default_rng(0)
    table = votes(120, margin=np.zeros((3, 3)), pairs=[0, 1, 2])
    winner = pa.array(rng.choice(["model_a", "model_b"], 120))
    table = table.set_column(table.column_names.index("winner"), "winner", winner)
    log = ne.read_votes(table, context=["x"], design="draws")
    made = ne.plan(ne.NashEval(**HOW).fit(log), goal=["cycle", "leader=0"], learning=False)
    assert made.curves[0].value[-1] < 0.7
    assert made.curves[1].beaten < 0.7


def test_a_plan_in_another_order_of_agents_is_the_same(table):
    swapped = {"a": "d", "b": "c", "c": "b", "d": "a"}
    renamed = table.slice(0, 600)
    for name in ("model_a", "model_b"):
        place = renamed.column_names.index(name)
        renamed = renamed.set_column(place, name, pa.array([swapped[one] for one in renamed[name].to_pylist()]))
    curves = [plan(fitted(one), goal="width=0.1").curves[0] for one in (table.slice(0, 600), renamed)]
    assert curves[0].value == pytest.approx(curves[1].value, rel=0.02)


def test_groups_are_planned_each(model):
    made = plan(model, goal=["width=0.2", "leader"], by="side")
    assert [curve.group for curve in made.curves] == ["left", "left", "right", "right"] or {
        curve.group for curve in made.curves
    } == {"left", "right"}
    assert sum(curve.today for curve in made.curves if curve.goal == "leader") == 600
    one = plan(model, goal="width=0.2", group={"side": "left"}).curves[0]
    same = next(c for c in made.curves if c.group == "left" and c.goal == "width=0.2")
    assert one.value == pytest.approx(same.value, rel=1e-9)
    assert "In left: " in "\n".join(made.lines())


def test_pairs_that_are_never_asked_stay_wide():
    apart = fitted(votes(600, pairs=[0, 5]), known=False)
    curve = plan(apart, goal="width=0.1").curves[0]
    assert curve.needed is None
    assert curve.value[-1] > 0.5  # nothing connects a and b with c and d: four of six pairs may be anything
    assert "no number of votes looked at is enough" in plan(apart, goal="width=0.1").lines()[0]


def test_one_voter_with_half_the_votes_and_agents_that_come_late():
    def voter(rng, n):
        return np.where(rng.random(n) < 0.5, "v0", np.char.add("v", rng.integers(1, 60, n).astype(str)))

    made = plan(fitted(votes(500, voter=voter), known=False), goal=["width=0.3", "leader"])
    assert all(np.isfinite(curve.value).all() for curve in made.curves)
    late = votes(400, pairs=[0, 1, 3]), votes(30, seed=1, pairs=[2, 4, 5])
    assert np.isfinite(plan(fitted(pa.concat_tables(late), known=False), goal="width=0.3").curves[0].value).all()


def test_unanimous_pairs_and_two_agents():
    sure = MARGIN.copy()
    sure[0, 1:] = 0.79  # and 0.2 x: nearly always
    curve = plan(fitted(votes(200, margin=sure)), goal="width=0.1").curves[0]
    assert (curve.value > 0).all()
    two = votes(200, pairs=[0]).drop_columns(["chance"])
    curve = plan(ne.NashEval(**HOW).fit(ne.read_votes(two, context=["x"], design="draws")), goal="leader=0").curves[0]
    assert 0 <= curve.value[0] <= curve.value[-1] <= 1


def test_a_cycle_is_found_and_planned():
    circle = np.array([[0, 0.4, -0.4, 0.5], [0, 0, 0.4, 0.5], [0, 0, 0, 0.5], [0, 0, 0, 0]])
    model = fitted(votes(240, margin=circle))
    pairs = pairs_of(model.stage1_.pseudo, model.payoff_interval())
    assert set(likely_cycle(pairs)) == {"a", "b", "c"}
    named = plan(model, goal="cycle=a>b>c").curves[0]
    assert named.needed is not None
    later = fitted(votes(4 * named.needed, margin=circle)).cycles()[ALL]
    assert [set(cycle.agents) for cycle in later] == [{"a", "b", "c"}]
    lead = plan(model, goal="leader=0")
    assert lead.curves[0].beaten > 0.5
    assert "a lottery is best" in lead.lines()[0]


def test_no_cycle_is_likely_where_there_is_none():
    order = np.triu(np.full((4, 4), 0.7), 1)
    made = plan(fitted(votes(2000, margin=order)), goal="cycle")
    assert made.curves[0].needed is None
    assert "No three agents" in made.lines()[0]


def test_pairs_without_a_vote_by_luck_are_asked_and_others_are_not():
    rng = np.random.default_rng(0)
    lucky = _shrunk_counts(rng.poisson(1.5, 400).astype(float))
    assert lucky.sum() == pytest.approx(600, rel=0.1)
    assert lucky.min() > 1.0
    star = _shrunk_counts(np.r_[np.full(5, 100.0), np.zeros(10)])
    assert (star[5:] < 1e-6).all()
    assert star[:5] == pytest.approx(100)
    uneven = np.r_[np.full(20, 40.0), np.full(20, 5.0)]
    assert _shrunk_counts(uneven) == pytest.approx(uneven, abs=1.5)
    assert _shrunk_counts(np.zeros(3)).tolist() == [0, 0, 0]


def test_a_better_model_is_foretold_from_half_the_votes(table):
    stage1 = fitted(table.slice(0, 600)).stage1_
    exact = learning_of(stage1.nuisances, _Ridges(), Effort(seed=0))
    assert 0 <= exact.halved < 0.2
    assert exact.gain(1.0) == 0
    assert exact.gain(2.0) <= exact.gain(4.0) <= 0.5
    low, high = exact.band(4.0)
    assert low <= exact.gain(4.0) <= high
    assert Learning().gain(8.0) == 0


class _Ridges:
    def fit(self, log, X, train, effort):
        from nasheval.nuisance.outcome import choose_outcome

        return choose_outcome(Ridge()).fit(log, X, train, effort)


def test_menus_are_tasks_whose_votes_fit_again(model):
    made = plan(model, goal="leader", learning=False)
    tasks = made.menus(400)
    assert len(tasks) == 400
    assert tasks.propensity.min() >= 0.2 / 6 - 1e-12
    assert tasks.table.equals(made.menus(400).table)
    assert not tasks.table.equals(made.menus(400, seed=9).table)
    rng = np.random.default_rng(0)
    place = tasks.table.column_names.index("winner")
    answered = tasks.table.set_column(place, "winner", pa.array(rng.choice(["model_a", "model_b"], 400)))
    log = ne.read_votes(answered, context=["x", "side"], propensity="propensity", design="draws")
    again = ne.NashEval(**{**HOW, "propensity": "known"}).fit(log)
    assert np.isfinite(again.payoff_interval().estimate).all()


def test_planned_menus_ask_what_matters_more_often(model):
    tasks = plan(model, goal="leader", learning=False).menus(2000, floor=0.1)
    both = np.array([tasks.table[side].to_pylist() for side in ("model_a", "model_b")])
    with_leader = (both == "a").any(axis=0).mean()
    assert with_leader > 0.6  # of half the pairs
    uniform = plan(model, goal="leader", learning=False).menus(2000, floor=1)
    assert np.allclose(uniform.propensity, 1 / 6)
    assert uniform.effective == pytest.approx(6)
    assert tasks.effective < 6


def test_menus_at_new_contexts_among_some_agents(model):
    made = plan(model, goal="leader", learning=False)
    new = pa.table({"x": [0.1, 0.9], "side": ["right", "right"], "prompt_id": [7, 8]})
    tasks = made.menus(20, size=3, contexts=new, agents=["a", "b", "d"])
    assert set(tasks.table["agent"].to_pylist()) == {"a", "b", "d"}
    assert np.allclose(tasks.propensity, 1.0)
    assert set(tasks.table["prompt_id"].to_pylist()) == {7, 8}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": 0}, "n=0"),
        ({"n": 5, "floor": 2}, "floor=2"),
        ({"n": 5, "size": 9}, "size=9"),
        ({"n": 5, "agents": ["a"]}, "only 1 of the agents may be asked"),
        ({"n": 5, "agents": ["a", "z"]}, "z"),
        ({"n": 5, "contexts": pa.table({"x": [1.0]})}, "no column 'side'"),
        ({"n": 5, "contexts": pa.table({"x": [1.0], "side": ["left"]}).slice(1)}, "no context to ask at"),
    ],
)
def test_menus_that_cannot_be_drawn(model, options, said):
    with pytest.raises(ne.InputError, match=said):
        plan(model, goal="leader", learning=False).menus(**options)


def test_a_log_is_planned_with_the_defaults():
    made = ne.plan(read(votes(150)), goal="width=0.4", learning=False)
    assert made.curves[0].today == 150
    assert len(made.menus(10)) == 10


def test_what_is_no_source_is_refused(model):
    with pytest.raises(ne.InputError, match="a NashEval that is not fitted"):
        ne.plan(ne.NashEval())
    with pytest.raises(ne.InputError, match="source is str"):
        ne.plan("model/")
    with pytest.raises(ne.InputError, match="guesses for a plan without"):
        ne.plan(model, agents=5)
    with pytest.raises(ne.InputError, match="by= and group="):
        ne.plan(model, by="side", group={"side": "left"})
    with pytest.raises(ne.InputError, match="accepted are 'panel', 'population'"):
        ne.plan(model, voters="everybody")


def test_a_saved_model_plans_the_same(table, tmp_path):
    log = read(table.slice(0, 300), propensity="chance")
    model = ne.NashEval(**{**HOW, "outcome": "lightgbm"}).fit(log)
    model.save(tmp_path / "model")
    loaded = ne.load(tmp_path / "model")
    ours, theirs = (plan(one, goal="width=0.1") for one in (model, loaded))
    assert theirs.curves[0].value == pytest.approx(ours.curves[0].value, rel=1e-6)
    assert theirs.menus(50).table.equals(ours.menus(50).table)


def test_the_section_says_what_the_terminal_says(model):
    made = plan(model, goal=["width=0.1", "leader"])
    assert made.title == "How many votes are needed"
    assert all(line in " ".join(str(made).split()) for line in made.lines())
    needed, *curves = made.listings()
    assert len(curves) == len(made.charts()) == 2
    assert all(len(row) == len(needed.names) + len(needed.numbers) for row in needed.rows)
    for bars in made.charts():
        assert len(bars.labels) == len(bars.values) == len(bars.lower) == len(bars.upper)
    assert json.loads(json.dumps(made.to_dict()))["curves"][0]["goal"] == "width=0.1"


def test_a_plot_holds_the_curve_the_goal_and_today(model, tmp_path):
    pytest.importorskip("matplotlib")
    made = plan(model, goal=["width=0.1", "leader"])
    ax = made.plot()
    assert "width=0.1" in ax.get_title()
    assert ax.get_xscale() == "log"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"expected", "goal: width 0.1", "today: 600"} <= set(labels)
    made.save_plot(tmp_path / "leader.png", "leader")
    assert (tmp_path / "leader.png").stat().st_size > 1000
    with pytest.raises(ne.InputError, match="accepted are pictures that end in"):
        made.save_plot(tmp_path / "leader.jpeg2")
    with pytest.raises(ne.InputError, match=r"accepted are width=0\.1, leader"):
        made.plot("cycle")


def test_needed_votes_are_where_the_curve_meets_the_goal(model):
    pairs = pairs_of(model.stage1_.pseudo, model.payoff_interval())
    wide = Width(0.15)
    [curve] = curves_of(pairs, [wide], Learning(), votes=600, power=0.8, seed=0, reached=[False])
    assert curve.at(curve.needed)[0] == pytest.approx(0.15, rel=0.03)
    assert curve.least <= curve.needed <= curve.most
    done = replace(curve, reached=True, needed=curve.today)
    assert done.more == 0


def test_widths_of_a_star_are_planned_with_its_bridged_pairs():
    """Pairs that were never compared have intervals too, which narrow as those of the scores behind them do."""
    worth = np.array([0.4, 0.2, 0.0, -0.2])
    margin = np.triu(np.tanh(worth[:, None] - worth), 1)
    table = votes(2400, pairs=[0, 1, 2], margin=margin).drop_columns(["chance"])
    first = fitted(table.slice(0, 600), known=False)
    today = first.payoff_interval()
    assert width(first) == pytest.approx(plan(first, goal="width=0.1").curves[0].value[0], rel=0.05)
    assert ((today.upper - today.lower)[2, 3]) < 1.5  # never compared, and bridged
    planned, *_ = plan(first, goal="width=0.1").curves[0].at(2400)
    assert width(fitted(table, known=False)) == pytest.approx(planned, rel=0.1)


def test_votes_that_are_all_ties_can_be_planned():
    ties = votes(300, pairs=[0, 1, 2, 3, 4, 5])
    ties = ties.set_column(2, "winner", pa.array(["tie"] * 300))
    made = plan(fitted(ties))
    assert width(fitted(ties)) < 0.3
    assert made.curves[0].value[0] == pytest.approx(width(fitted(ties)), rel=0.2)


def test_what_a_plan_leaves_out_or_takes_for_granted_is_said():
    table = votes(900, voter=lambda rng, n: np.where(np.arange(n) % 2, "big", [f"v{i}" for i in range(n)]))
    hours = pa.array([f"{i % 23:02}" for i in range(900)])
    log = read(table.append_column("hour", hours), propensity="chance", context=["x", "hour"])
    model = ne.NashEval(**HOW).fit(log)
    said = plan(model, by="hour", goal="width", learning=False).lines()
    assert any("the 20 largest groups; left out: " in line for line in said)
    assert any("One voter cast 50% of the votes" in line for line in said)
    assert not any("One voter" in line for line in plan(fitted(votes(600)), goal="width", learning=False).lines())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"goal": 5}, "accepted are 'width=0.1'"),
        ({"margin": "a"}, "from 0 to below 1"),
        ({"seed": -1}, "a whole number from 0"),
        ({"seed": "x"}, "a whole number from 0"),
    ],
)
def test_options_that_cannot_be_are_named(model, options, said):
    with pytest.raises(ne.InputError, match=said):
        plan(model, **options)


def test_a_guess_has_no_groups():
    with pytest.raises(ne.InputError, match="by= and group= are of a model"):
        plan(agents=5, by="side")


def test_a_chance_near_one_is_not_called_certain():
    said = plan(fitted(votes(300, margin=np.zeros((4, 4)))), goal="leader=0", power=0.999999).lines()[0]
    assert "99.9999%" in said
    assert "100%" not in said


def test_menus_of_hidden_texts_are_not_drawn(tmp_path):
    pytest.importorskip("wordllama", reason="embeds prompts")
    table = votes(200).append_column("prompt", pa.array([f"question {i}" for i in range(200)]))
    log = read(table, propensity="chance", text="prompt")
    how = HOW | {"outcome": "lightgbm"}
    ne.NashEval(**how).fit(log).save(tmp_path / "tags")
    made = plan(ne.load(tmp_path / "tags"), goal="width", learning=False)
    with pytest.raises(ne.InputError, match="saved without its texts"):
        made.menus(5)
    asked = made.menus(5, contexts=log.contexts).table
    assert asked["prompt"].to_pylist()[0].startswith("question ")
    ne.NashEval(**how).fit(log).save(tmp_path / "kept", keep_text=True)
    kept = plan(ne.load(tmp_path / "kept"), goal="width", learning=False).menus(5)
    assert kept.table["prompt"].to_pylist()[0].startswith("question ")
    with pytest.raises(ne.InputError, match=r"ends in \.parquet"):
        kept.write(tmp_path / "tasks.csv")
