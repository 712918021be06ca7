"""Candidates that depend on a column: only agents that were seen at its value can win there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nasheval.errors import InputError
from nasheval.estimator import NashEval
from nasheval.feedback import partition
from nasheval.feedback.log import Feedback
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.policy.availability import AmongAvailable, among_available
from nasheval.policy.base import available

LANGUAGES = {"de": "abc", "en": "abcd", "pl": "cd"}


class Counting:
    """A policy that plays evenly among those who are up, and remembers what it was asked."""

    agents = ("a", "b", "c", "d")

    def __init__(self):
        self.asked = []

    def predict_proba(self, contexts, *, agents=None):
        up = available(self.agents, agents)
        self.asked.append((contexts["n"].to_pylist(), list(agents)))
        return np.tile(up / up.sum(), (contexts.num_rows, 1))


def entries_log():
    """Two duels per pair of each language's agents; of a language without a name, one."""
    said, language = [], []
    for name, agents in LANGUAGES.items():
        pairs = [(x, y) for x in agents for y in agents if x < y]
        said += [partition.duel(x, y, x) for x, y in pairs for _ in range(10)]
        language += [name] * (10 * len(pairs))
    said.append(partition.duel("a", "b", "a"))
    language.append(None)
    contexts = pa.table({"language": pa.array(language).dictionary_encode(), "n": np.arange(len(said))})
    return Feedback.from_partitions(contexts, said, agents=list("abcd"), design="draws")


def asked_about(*languages):
    return pa.table({"language": pa.array(languages, pa.string()), "n": np.arange(len(languages))})


def test_only_agents_seen_at_a_value_are_candidates_there():
    inner = Counting()
    policy = among_available(inner, entries_log(), "language")
    assert isinstance(policy, AmongAvailable)
    assert policy.agents == inner.agents
    found = policy.predict_proba(asked_about("pl", "de", "en", "pl"))
    np.testing.assert_allclose(found, [[0, 0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3, 0], [0.25] * 4, [0, 0, 0.5, 0.5]])
    assert sorted(inner.asked) == [([0, 3], ["c", "d"]), ([1], ["a", "b", "c"]), ([2], ["a", "b", "c", "d"])]


def test_values_that_the_log_does_not_have_leave_all_in():
    policy = among_available(Counting(), entries_log(), "language")
    np.testing.assert_allclose(policy.predict_proba(asked_about("fr")), [[0.25] * 4])
    np.testing.assert_allclose(policy.predict_proba(asked_about(None)), [[0.5, 0.5, 0, 0]])  # seen without a language


def test_those_up_are_taken_among_those_available():
    policy = among_available(Counting(), entries_log(), "language")
    found = policy.predict_proba(asked_about("de", "en"), agents=["c", "d"])
    np.testing.assert_allclose(found, [[0, 0, 1, 0], [0, 0, 0.5, 0.5]])
    with pytest.raises(
        InputError, match="None of the agents that are up was seen where language is de; seen there: a, b, c"
    ):
        policy.predict_proba(asked_about("de"), agents=["d"])


def test_columns_that_cannot_be_are_refused():
    log = entries_log()
    assert among_available(policy := Counting(), log, None) is policy
    with pytest.raises(InputError, match="availability='lingo' is no context column; this log has language, n"):
        among_available(Counting(), log, "lingo")
    many = pa.table({"n": np.arange(501)})
    wide = Feedback.from_partitions(many, [partition.duel("a", "b", "a")] * 501, agents=list("ab"))
    with pytest.raises(InputError, match="availability='n' has 501 values; accepted is a column of at most 500"):
        among_available(Counting(), wide, "n")
    with pytest.raises(InputError, match="The contexts lack the column 'language', which says who is available"):
        among_available(Counting(), log, "language").predict_proba(pa.table({"n": [1]}))


@pytest.mark.parametrize("policy", ["exact", "a baseline"])
def test_a_fitted_model_and_its_other_questions_keep_to_it(policy):
    from nasheval.policy.bradley_terry import BradleyTerry

    log = entries_log()
    options = {"outcome": Intercept(), "folds": 2, "n_jobs": 1, "verbose": False, "device": "cpu"}
    chosen = "exact" if policy == "exact" else BradleyTerry()
    model = NashEval(availability="language", policy=chosen, **options).fit(log)
    here = asked_about("pl", "de")
    assert model.winners(here) == [["c"], ["a"]]
    np.testing.assert_allclose(model.predict_proba(here, cost_weight=0.0).argmax(axis=1), [2, 0])
    assert model.predict_proba(here)[0, :2].tolist() == [0, 0]
    free = NashEval(**options).fit(log)
    assert free.winners(here) == [["a"], ["a"]]
    with pytest.raises(InputError, match="availability='lingo'"):
        NashEval(availability="lingo", **options).fit(log)


def test_cut_ballots_are_looked_at_whole():
    """Rankings on rare menus are cut into pairs for the fit; who was shown where stays the same."""
    rng = np.random.default_rng(0)
    said, language = [], []
    for name, agents in {"de": "abcdef", "pl": "efgh"}.items():
        for _ in range(60):
            said.append(partition.ranking(sorted(rng.choice(list(agents), 3, replace=False))))
            language.append(name)
    contexts = pa.table({"language": language, "n": np.arange(120)})
    log = Feedback.from_partitions(contexts, said, agents=list("abcdefgh"))
    model = NashEval(availability="language", outcome=Intercept(), folds=2, n_jobs=1, verbose=False, device="cpu").fit(
        log
    )
    assert model.stage1_.nuisances.log.ballots is not None
    assert model.winners(asked_about("pl")) == [["e"]]
    assert model.winners(asked_about("de")) == [["a"]]
