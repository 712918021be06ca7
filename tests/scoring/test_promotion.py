"""`promote`, and intervals of `evaluate` that hold at every look."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import Ridge

import nasheval as ne
from nasheval.payoff.anytime import anytime_value

HOW = {"outcome": Ridge(), "propensity": "known", "folds": 2}
NAMES = np.array(["a", "b", "c"])


class Always:
    """Plays one agent everywhere."""

    agents = tuple(NAMES)

    def __init__(self, agent):
        self.agent = agent

    def predict_proba(self, contexts, *, agents=None):
        return np.tile((np.asarray(self.agents) == self.agent).astype(float), (len(contexts), 1))


def drawn(n, lead, seed=0):
    """Return votes on random pairs, in which b leads a by `lead` on average, more where x is large."""
    rng = np.random.default_rng(seed)
    first = rng.integers(3, size=n)
    second, x = (first + rng.integers(1, 3, size=n)) % 3, rng.uniform(-1, 1, n)
    margin = np.where(NAMES[first] == "c", -0.4, 0.0) - np.where(NAMES[second] == "c", -0.4, 0.0)
    both = (np.minimum(first, second) == 0) & (np.maximum(first, second) == 1)
    margin = np.where(both, np.where(first == 1, 1, -1) * (lead + 0.3 * x), margin)
    winner = np.where(rng.random(n) < (1 + margin) / 2, "model_a", "model_b")
    chance = np.full(n, 1 / 3)
    return pd.DataFrame({"model_a": NAMES[first], "model_b": NAMES[second], "winner": winner, "x": x, "chance": chance})


def read(table):
    return ne.read_votes(table, context=["x"], propensity="chance", design="draws")


@pytest.mark.parametrize(
    ("lead", "votes", "decision", "says"),
    [
        (0.4, 1200, "promote", "the new policy is better; it won"),
        (-0.4, 1200, "keep", "it loses; it won -"),
        (0.0, 150, "wait", "the votes cannot tell yet"),
    ],
)
def test_it_promotes_the_better_keeps_the_better_and_waits_for_votes(lead, votes, decision, says):
    log = read(drawn(votes, lead, seed=3))
    found = ne.promote(Always("a"), Always("b"), log, planned=1000, **HOW)
    assert found.decision == decision
    assert says in str(found)
    assert found.lower < lead < found.upper
    assert json.loads(json.dumps(found.to_dict()))["decision"] == decision


def test_a_gain_too_small_to_pay_keeps_the_old():
    found = ne.promote(Always("a"), Always("b"), read(drawn(2500, 0.0, seed=1)), gain=0.3, planned=2000, **HOW)
    assert found.decision == "keep"
    assert "it wins less than the 0.3 that make a change worth it" in found.reason


def test_long_after_the_plan_it_says_that_little_is_at_stake():
    found = ne.promote(Always("a"), Always("b"), read(drawn(900, 0.02)), gain=0.0, planned=300, **HOW)
    assert found.decision == "wait"
    assert "3.0 times the 300 votes planned: little is at stake" in found.reason


def test_bounds_are_so_many_standard_errors_wide_as_the_number_of_votes_asks():
    """By hand: one side at 95%, and Student's t for some three hundred votes between the two."""
    log = read(drawn(1200, 0.1))
    found = ne.promote(Always("a"), Always("b"), log, planned=1000, **HOW)
    c = anytime_value(1200, 1000, 0.05)
    assert (found.upper - found.lower) / 2 / found.error == pytest.approx(c, rel=0.02)
    once = ne.evaluate({"old": Always("a"), "new": Always("b")}, log, confidence=0.9, **HOW)
    assert once.overall.error[1, 0] == pytest.approx(found.error)
    assert (found.upper - found.lower) / (once.upper - once.lower)[1, 0] == pytest.approx(c / norm.ppf(0.95), rel=0.03)


def test_all_groups_and_policies_share_the_error():
    log = read(drawn(900, 0.1))
    three = {name: Always(name) for name in "abc"}
    found = ne.evaluate(three, log, sequential=True, planned=800, **HOW)
    c = anytime_value(900, 800, 0.05 / 2 / 3)
    assert (found.upper - found.lower)[1, 0] / 2 / found.overall.error[1, 0] == pytest.approx(c, rel=0.02)
    assert found.to_dict()["planned"] == 800
    assert "and at every" in " ".join(str(found).split())


@pytest.mark.parametrize("votes", [2, 3, 5, 12])
def test_a_look_at_hardly_any_votes_waits(votes):
    table = drawn(60, 0.9, seed=2)
    assert ne.promote(Always("a"), Always("b"), read(table[:votes]), **HOW).decision == "wait"


def test_an_agent_that_no_vote_names_yet_is_waited_for():
    table = drawn(200, 0.3)
    known = table[(table.model_a != "c") & (table.model_b != "c")]
    found = ne.promote(Always("a"), Always("c"), read(known), **HOW)
    assert str(found) == "wait: no vote names c yet, which a policy plays."
    assert found.to_dict()["error"] is None


def test_an_agent_that_is_never_played_need_not_be_named():
    table = drawn(4000, 0.6)
    known = read(table[(table.model_a != "c") & (table.model_b != "c")])
    short = [Always("a"), Always("b")]
    for policy in short:
        policy.agents = ("a", "b")
    found = ne.promote(Always("a"), Always("b"), known, **HOW)
    assert found.decision == "promote"
    assert found == ne.promote(*short, known, **HOW)


def test_votes_that_are_no_log_are_named():
    with pytest.raises(ne.InputError, match="votes is a DataFrame; accepted is a log"):
        ne.promote(Always("a"), Always("b"), drawn(40, 0.0))


def test_unanimous_votes_promote_only_when_there_are_enough():
    rows = pd.DataFrame({"model_a": "a", "model_b": "b", "winner": "model_b", "x": np.arange(80.0), "chance": 1.0})
    two = [Always("a"), Always("b")]
    for policy in two:
        policy.agents = ("a", "b")
    found = [ne.promote(*two, read(rows[:n]), planned=60, **HOW).decision for n in (4, 80)]
    assert found == ["wait", "promote"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gain": -0.1}, "gain is -0.1; accepted is a number from 0 to below 1"),
        ({"gain": "much"}, "gain is 'much'"),
        ({"confidence": 0.5}, "accepted is a number above 0.5"),
        ({"planned": 0}, "accepted is a whole number of votes"),
    ],
)
def test_what_cannot_be_meant_is_an_error(options, message):
    with pytest.raises(ne.InputError, match=message):
        ne.promote(Always("a"), Always("b"), read(drawn(40, 0.0)), **{**HOW, **options})


@pytest.mark.slow
def test_daily_looks_promote_a_policy_that_is_no_better_less_often_than_one_interval_used_daily():
    """Thirty logs of fifteen looks: the full five hundred are `python -m studies peeking`."""
    often, every = 0, 0
    for seed in range(30):
        table, hit = drawn(1500, 0.0, seed=100 + seed), [False, False]
        for n in np.linspace(100, 1500, 15).astype(int):
            found = ne.promote(Always("a"), Always("b"), read(table[:n]), planned=1500, **HOW)
            hit = [hit[0] or found.decision == "promote", hit[1] or found.value > norm.ppf(0.95) * found.error]
        every, often = every + hit[0], often + hit[1]
    assert every <= 4  # of 30 at 5%: more has a chance of 2%
    assert often > every
