"""Logs that people really have: one test or more for each row of what was seen at commit dd67b33.

Rows 12 and 13, what is said in words, are in test_real_words.py; more of row 9, strengths per pair, is in
payoff/test_second_stage.py.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import nasheval as ne
from nasheval.feedback import partition
from nasheval.feedback.links import BRIDGED
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.nuisance.voters import Voters

VOTERS = Voters(hidden=(16,), epochs=4, voters=2, weight_decay=0.3, members=1)
QUICK = {"folds": 2, "n_jobs": 1, "verbose": False, "device": "cpu"}


def fitted(log, **options):
    return ne.NashEval(**{"outcome": Intercept(), **QUICK, **options}).fit(log)


def duels(rng, pairs, margins, agents, contexts=None, voter=None):
    """Return a log of one duel per context: pairs (n, 2), won by the first with E[Z] = margins (n,)."""
    first = rng.random(len(pairs)) < (1 + np.asarray(margins)) / 2
    rank = np.stack([~first, first], axis=1).astype(int)
    records = Records.build(
        sizes=np.full(len(pairs), 2), agent=np.asarray(pairs).ravel(), rank=rank.ravel(), voter=voter
    )
    voters = None if voter is None else pa.array([f"v{number}" for number in range(int(max(voter)) + 1)])
    contexts = pa.table({"x": rng.normal(size=len(pairs))}) if contexts is None else contexts
    return Feedback.from_records(records, agents=agents, contexts=contexts, voters=voters, design="draws")


def ballots(rng, n, n_agents, n_menus=10_000, size=5, form="ranking"):
    """Return rankings, or winners, of random menus by Plackett-Luce, and the margins of all pairs, (K, K)."""
    u = np.linspace(1.0, -1.0, n_agents)
    menus = np.stack([np.sort(rng.permutation(n_agents)[:size]) for _ in range(n_menus)])[rng.integers(n_menus, size=n)]
    names, said = [f"m{j:02d}" for j in range(n_agents)], []
    for menu in menus:
        order = menu[np.argsort(-(u[menu] + rng.gumbel(size=size)))]
        shown = [names[j] for j in order]
        said.append(partition.winner(shown[0], shown) if form == "winner" else partition.ranking(shown))
    log = Feedback.from_partitions(pa.table({"x": rng.normal(size=n)}), said, agents=names)
    return log, np.tanh((u[:, None] - u[None, :]) / 2)


# -- 1: star designs --------------------------------------------------------------------------------------------------

STAR = ("base", "strong", "weak")


def star(seed=0):
    """Strong beats the reference nine times out of ten, weak loses as often; the two never meet."""
    rng = np.random.default_rng(seed)
    other = rng.integers(1, 3, size=240)
    return duels(rng, np.stack([np.zeros(240, int), other], axis=1), np.where(other == 1, -0.8, 0.8), STAR)


@pytest.mark.parametrize("outcome", [VOTERS, "lightgbm"], ids=["voters", "lightgbm"])
def test_row_01_the_best_of_a_star_wins(outcome):
    """Pairs never compared had the payoff 0, so that the lottery was 0.52 / 0.48 on strong and weak."""
    log = star()
    model = fitted(log, outcome=outcome)
    assert model.predict_proba(log.contexts)[:, 1].min() > 0.9
    assert model.payoff(log.contexts)[:, 1, 2].mean() > 0.7
    board = model.leaderboard().set_index("agent")
    assert board["lottery"]["strong"] > 0.9
    assert board["bridged"].to_dict() == {"strong": 1, "weak": 1, "base": 0}


def test_row_01_check_fit_and_diagnostics_say_the_same_of_unseen_pairs():
    """They contradicted each other on pairs that were never compared."""
    log = star()
    model = fitted(log)
    assert "these votes can only tell a ladder" in " ".join(log.coverage().warnings())
    assert "1 pair was never compared but is connected through others" in " ".join(log.coverage().warnings())
    told = " ".join(model.diagnostics().warnings())
    assert "never compared are bridged through others by the outcome model, and marked: 1 pair" in told
    assert model.diagnostics().to_dict()["bridged"] == [["strong", "weak"]]
    group = model.payoff_interval()
    assert group.status[1, 2] == BRIDGED
    assert "bridged" in " ".join(group.notes)
    low, high = group.allowed
    assert low[1, 2] == pytest.approx(group.estimate[1, 0] - group.estimate[2, 0] - 1)
    assert high[1, 2] == 1
    assert model.cycles() == {"all": ()}


def test_row_01_an_interval_of_evaluate_is_not_narrowed_by_a_bridge():
    """Strong against weak, played against each other everywhere: nothing but the bridge tells who wins."""
    train, test = star(), star(1)
    stage1 = fitted(train).stage1_
    policies = {name: _Always(name, STAR) for name in ("strong", "weak")}
    overall = ne.evaluate(policies, test, train=stage1, outcome=Intercept(), folds=2, verbose=False).overall
    assert overall.value[0, 1] > 0.7
    assert (overall.lower[0, 1], overall.upper[0, 1]) == (-1, 1)


class _Liar:
    """A bridge that says the worst of every pair."""

    def __init__(self, pairs):
        self.pairs = pairs

    def predict(self, X, payoffs):
        return np.full((len(X), len(self.pairs)), -1.0)


def crowded_star():
    """One agent beats the reference now and then more often than not; seven others lose to it nine times out of ten."""
    rng = np.random.default_rng(0)
    other = np.repeat(np.arange(1, 9), 60)
    pairs = np.stack([np.zeros(len(other), int), other], axis=1)
    return duels(rng, pairs, np.where(other == 1, -0.4, 0.8), [f"m{j}" for j in range(9)])


@pytest.mark.parametrize("payoff", ["plug-in", "debiased"])
def test_row_01_bradley_terry_does_not_pick_the_reference(payoff):
    """Scores were fitted to all pairs, those never compared as ties: the reference was picked at 249 of 250 prompts."""
    log = crowded_star()
    policy = ne.baselines.BradleyTerry(payoff).fit(fitted(log).stage1_)
    assert policy.predict_proba(log.contexts)[:, 1].min() == 1


@pytest.mark.parametrize("payoff", ["plug-in", "debiased"])
def test_row_01_bradley_terry_fits_seen_pairs_only(payoff):
    """Whatever a bridge says of the others."""
    log = crowded_star()
    stage1 = fitted(log).stage1_
    liar = _Liar(stage1.payoff.bridge.pairs)
    stage1 = replace(stage1, payoff=replace(stage1.payoff, bridge=liar))
    stage1.__dict__["plug_in"] = replace(stage1.plug_in, bridge=liar)
    policy = ne.baselines.BradleyTerry(payoff).fit(stage1)
    assert policy.predict_proba(log.contexts)[:, 1].min() == 1


# -- 2 and 3: rankings on hundreds of menus ---------------------------------------------------------------------------


def test_row_02_rare_menus_are_no_worse_than_plain_means_of_pairs():
    """The mean over menus that were asked once or twice was all noise: its error was twice that of plain pair means."""
    ours, plain, widths = [], [], []
    upper = np.triu_indices(13, 1)
    for seed in range(3):
        log, truth = ballots(np.random.default_rng(seed), 900, 13)
        assert len(log.menus) > 500
        group = fitted(log, second_stage="none", propensity="marginal").payoff_interval()
        z, j, k = log.verdicts.z, log.verdicts.j, log.verdicts.k
        means = np.array([z[(j == a) & (k == b)].mean() for a, b in combinations(range(13), 2)])
        ours.append(np.mean((group.estimate - truth)[upper] ** 2))
        plain.append(np.mean((means - truth[upper]) ** 2))
        widths.append(group.error[upper].mean())
    assert np.sqrt(np.mean(ours) / np.mean(plain)) < 1.2
    assert 0.8 < np.mean(widths) / np.sqrt(np.mean(ours)) < 1.25  # and the errors are what they are said to be


class _Count:
    """Counts the mean answers that voters are asked for: voters x pairs of menus x contexts."""

    def __init__(self, monkeypatch):
        from nasheval.nuisance import voters

        self.cells, inner = 0, voters.margins

        def margins(*arguments):
            answers = inner(*arguments)
            self.cells += answers.size
            return answers

        monkeypatch.setattr(voters, "margins", margins)

    def spent(self):
        cells, self.cells = self.cells, 0
        return cells


def _counts(monkeypatch, form, n_menus):
    """Return mean answers per context and fold that fit, prediction, and everything after it ask for."""
    from nasheval.scoring.report import gather

    n, K = 600, 12
    log, _ = ballots(np.random.default_rng(0), n, K, n_menus, 4, form)
    count = _Count(monkeypatch)
    model = fitted(log, outcome=VOTERS)
    of_fit = count.spent()
    model.predict_proba(log.contexts)
    of_prediction = count.spent()
    model.diagnostics()
    model.leaderboard()
    gather(model.stage1_, draws=10)
    return np.array([of_fit, of_prediction, count.spent()]) / (n * QUICK["folds"]), len(log.menus)


def test_row_03_prediction_and_report_ask_for_pairs_not_for_menus(monkeypatch):
    """Bulk work after the fit evaluated every pair of every menu, so that a report took longer than the fit."""
    (fit, prediction, rest), menus = _counts(monkeypatch, "ranking", 10_000)
    assert menus > 250
    per_pair = 66 * 2  # pairs, voters
    assert prediction <= 2 * per_pair
    assert fit <= 4 * per_pair
    assert rest <= 8 * per_pair  # diagnostics twice, games once, and what both are compared with


def test_row_03_what_is_asked_does_not_grow_with_the_menus(monkeypatch):
    """Of winners the company matters, so that menus are asked about; but a few per pair."""
    (few, some), (many, more) = (_counts(monkeypatch, "winner", n_menus) for n_menus in (150, 10_000))
    assert more > 2.5 * some
    assert (many <= 1.3 * few).all()


# -- 4 and 7: propensities --------------------------------------------------------------------------------------------


def selected(seed=0, n=6000, K=22, times=12.0):
    """Draws of which 15 pairs are asked 12 times as often in one language; margins differ between the languages."""
    rng = np.random.default_rng(seed)
    pairs = np.array(list(combinations(range(K), 2)))
    german = rng.random(n) < 0.5
    chosen = np.isin(np.arange(len(pairs)), rng.choice(len(pairs), 15, replace=False))
    e = np.where(german[:, None] & chosen, times, 1.0)
    menu = (np.cumsum(e / e.sum(axis=1, keepdims=True), axis=1) > rng.random((n, 1))).argmax(axis=1)
    margin = np.where(german, 0.5, -0.5)
    log = duels(rng, pairs[menu], margin, [f"a{j:02d}" for j in range(K)],
                pa.table({"language": np.where(german, "de", "en"), "x": rng.normal(size=n)}))  # fmt: skip
    return log, pairs[chosen]


def test_row_04_selection_by_context_is_seen_at_any_number_of_menus():
    """Above 200 menus propensities ignored the context: the mean of a pair was that of the language it is asked in."""
    log, chosen = selected()
    group = fitted(log, second_stage="none").payoff_interval()
    j, k = chosen.T
    assert abs(group.estimate[j, k].mean()) < 0.1  # the languages are equally frequent and disagree
    ratio = group.estimate[j, k] / group.error[j, k]
    assert np.sqrt(np.mean(ratio**2)) < 1.6


def test_row_04_the_check_of_propensities_tells_bad_from_random():
    """The warning fired in 4 of 6 logs with random assignment, and in 17% of the bad ones."""
    for times, off in ((12.0, True), (1.0, False)):
        model = fitted(selected(times=times)[0], second_stage="none", propensity="marginal")
        assert model.diagnostics().nuisances.check.is_off == off


def test_row_04_chosen_propensities_pass_the_check():
    """Where selection depends on a column of two values, shares within it fit."""
    model = fitted(selected()[0], second_stage="none")
    assert not model.diagnostics().nuisances.check.is_off


class _Nothing:
    """An outcome learner that says 0 of every pair."""

    def fit(self, log, X, train, effort):
        return self

    def predict(self, X, fold):
        return np.zeros((len(X), self.columns))

    def __init__(self, columns):
        self.columns = columns


def test_row_07_known_propensities_are_taken_as_they_are():
    """They were raised to the floor of 0.01: estimates were 0.455 of the truth at e = 0.0046."""
    rng, n, e = np.random.default_rng(0), 60_000, 0.0046
    asked = np.flatnonzero(rng.random(n) < e)
    first = rng.random(len(asked)) < 0.95
    records = Records.build(
        sizes=np.full(len(asked), 2), agent=np.tile([0, 1], len(asked)),
        rank=np.stack([~first, first], axis=1).astype(int).ravel(), propensity=np.full(len(asked), e),
    )  # fmt: skip
    log = Feedback.from_records(
        records, agents=["a", "b"], contexts=pa.table({"x": rng.normal(size=n)}), context_of=asked, design="inclusion"
    )
    model = fitted(log, outcome=_Nothing(1), propensity="known", second_stage="none")
    group = model.payoff_interval()
    assert abs(group.estimate[0, 1] - 0.9) < 3 * group.error[0, 1] < 0.3
    assert not model.stage1_.nuisances.floors.any()
    assert model.stage1_.nuisances.clipped_share == 0


# -- 5, 6, 8 and 10: clusters and intervals ---------------------------------------------------------------------------


def arena(seed, voters=60, each=20, between=0.9):
    """Duels of a and b by voters who bring contexts of their own, most of whose variance is between voters."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(voters), each)
    x = np.sqrt(between) * rng.normal(size=voters)[who] + np.sqrt(1 - between) * rng.normal(size=len(who))
    return duels(rng, np.tile([0, 1], (len(who), 1)), np.clip(0.7 * x, -1, 1), ["a", "b"], pa.table({"x": x}), who)


def test_row_05_voters_who_bring_their_contexts_are_clusters_of_all_of_it():
    """Only the corrections were clustered by voter: the standard error was 0.060 where the spread is 0.100."""
    means, errors = [], []
    for seed in range(40):
        group = fitted(arena(seed), outcome=Ridge(), second_stage="none").payoff_interval()
        means.append(group.estimate[0, 1])
        errors.append(group.error[0, 1])
    assert 0.8 < np.mean(errors) / np.std(means, ddof=1) < 1.3


def unanimous(votes=42):
    """Three agents, each pair asked equally often, a always before b before c."""
    rng, n = np.random.default_rng(0), 3 * votes
    pairs = np.array([(0, 1), (0, 2), (1, 2)])[np.arange(n) % 3]
    contexts = pa.table({"x": rng.normal(size=n), "side": np.repeat(["left", "right"], n // 2)})
    return duels(rng, pairs, np.ones(n), ["a", "b", "c"], contexts)


class _Always:
    """A policy that plays one agent everywhere."""

    def __init__(self, name, agents):
        self.name, self.agents = name, tuple(agents)

    def predict_proba(self, contexts, *, agents=None):
        return np.tile(np.array(self.agents) == self.name, (contexts.num_rows, 1)).astype(float)


def test_row_06_evaluate_leaves_doubt_after_few_votes_of_one_mind():
    """42 votes without an upset: "a beats b by 1.000 [0.988, 1.000]"."""
    policies = {name: _Always(name, "abc") for name in "ab"}
    overall = ne.evaluate(policies, unanimous(), outcome=VOTERS, folds=2, verbose=False).overall
    group = fitted(unanimous(), outcome=VOTERS, second_stage="none").payoff_interval()
    assert 0.7 < overall.lower[0, 1] < 0.91
    assert overall.lower[0, 1] == pytest.approx(group.interval(simultaneous=False)[0][0, 1], abs=0.02)
    assert overall.error[0, 1] == pytest.approx(group.error[0, 1], rel=0.05)
    assert group.error[0, 1] == pytest.approx(2 * np.sqrt(2) / 46, rel=0.1)


def test_row_06_the_report_shows_the_interval_of_the_api():
    """The report lacked the floor: it showed 0.930 where the API said 0.887."""
    from nasheval.scoring.report import gather

    model = fitted(unanimous(), outcome=VOTERS, second_stage="none")
    views = gather(model.stage1_, by="side", draws=10).groups
    assert [view.name for view in views] == ["all", "left", "right"]
    for view in views:
        group = model.payoff_interval(None if view.name == "all" else {"side": view.name})
        first, second = view.payoffs.agents[:2]
        assert view.payoffs.low[0] == pytest.approx(group.lower[first, second], abs=1e-3)
        assert 0.5 < view.payoffs.low[0] < 0.94


def test_row_08_three_judges_of_one_menu_are_averaged():
    """Under inclusion the answers of three judges were added up: an estimate of 1.45 for a payoff of 0.5."""
    rng, n = np.random.default_rng(0), 400
    asked = np.repeat(np.flatnonzero(rng.random(n) < 0.5), 3)
    said = [partition.duel("a", "b", "a" if rng.random() < 0.75 else "b") for _ in asked]
    log = Feedback.from_partitions(
        pa.table({"x": rng.normal(size=n)}), said, agents=["a", "b"], context_of=asked.tolist(), design="inclusion"
    )
    group = fitted(log, outcome=_Nothing(1), second_stage="none", propensity="marginal").payoff_interval()
    assert abs(group.estimate[0, 1] - 0.5) < 3 * group.error[0, 1] < 0.3


def test_row_09_a_pair_that_debiasing_moves_is_corrected():
    """One strength for all pairs was 0 while diagnostics itself reported a significant move of one of them."""
    rng, K, n = np.random.default_rng(2), 8, 2000
    pairs = np.array(list(combinations(range(K), 2)))
    drawn = rng.integers(len(pairs), size=n)
    log = duels(rng, pairs[drawn], np.where(drawn == 3, 0.8, 0.0), [f"a{j}" for j in range(K)])
    model = fitted(log, outcome=_Nothing(len(pairs)), propensity="marginal")
    assert model.diagnostics().n_significant
    assert abs(model.payoff(log.contexts)[:, 0, 4] - 0.8).mean() < 0.2


def test_row_10_the_reader_is_told_whom_an_interval_speaks_for():
    """19 voters were taken as fixed without a word; 20 had a standard error three times as large."""
    few, many = (fitted(arena(0, voters=v), outcome=Ridge(), second_stage="none") for v in (19, 20))
    panel, default = few.payoff_interval(), many.payoff_interval()
    assert default.error[0, 1] > 2 * panel.error[0, 1]
    assert "intervals speak for these 19 voters, not for others like them" in " ".join(panel.notes)
    assert "speak for these" not in " ".join(default.notes)
    assert 0.6 < few.payoff_interval(voters="population").error[0, 1] / default.error[0, 1] < 1.6


# -- 11: agents without a vote in a group -----------------------------------------------------------------------------


def test_row_11_an_agent_that_took_no_part_in_a_group_is_no_candidate_there():
    """A system got 1.00 in language pairs that it did not enter."""
    rng, pairs, languages = np.random.default_rng(0), [], []
    for language, agents in (("de", (0, 1, 2)), ("fi", (1, 2))):
        for pair in combinations(agents, 2):
            pairs += [pair] * 60
            languages += [language] * 60
    contexts = pa.table({"language": languages, "x": rng.normal(size=len(pairs))})
    log = duels(rng, pairs, np.full(len(pairs), 0.6), ["best", "good", "poor"], contexts)
    model = fitted(log)
    board = model.leaderboard(by="language")
    finnish = board[board["group"] == "fi"]
    assert finnish["agent"].tolist() == ["good", "poor"]
    assert finnish["lottery"].tolist()[0] > 0.9
    assert "without a vote in this group: best" in " ".join(model.payoff_interval({"language": "fi"}).notes)
    asked = pa.table({"language": ["fi", "de"], "x": [0.0, 0.0]})
    assert model.winners(asked)[0] == ["best"]  # without `availability` it is a candidate everywhere
    assert fitted(log, availability="language").winners(asked) == [["good"], ["best"]]
