"""The bundled logs against what they were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import nasheval as ne
from nasheval.feedback import datasets
from studies.highway_log import agents
from studies.highway_log.agents import AGENTS
from studies.highway_log.judges import JUDGE_NAMES, hold_cycle, judge_verdicts, verdict_sums

EPISODES = Path(agents.__file__).parent / "data/episodes.parquet"


@pytest.fixture(scope="module")
def highway():
    return ne.datasets.load_highway()


def performances(split, initialisations):
    table = pq.read_table(EPISODES)
    rows = table.filter(pc.equal(table["split"], split))
    z = np.stack([np.asarray(rows[name].cast("float32")) for name in ("speed", "lane", "safe")], axis=-1)
    return z.reshape(-1, initialisations, len(AGENTS), 3)


def test_the_log_has_the_papers_size_and_design(highway):
    log = highway.train
    assert (log.n_records, log.n_contexts, log.n_agents, len(log.menus)) == (20_480, 256, 5, 10)
    assert log.design == "draws"
    assert set(np.diff(log.context_offsets)) == {80}
    assert np.all(log.records.propensity == 0.1)


def test_agents_are_named_as_they_were_trained(highway):
    assert highway.train.agents == tuple(agent.name for agent in AGENTS) == datasets.HIGHWAY_AGENTS


@pytest.mark.parametrize(("split", "initialisations"), [("validation", 32), ("test", 64)])
def test_reference_payoffs_are_the_judges_mean_verdicts(highway, split, initialisations):
    reference = getattr(highway, split)
    z = performances(split, initialisations)
    upper = verdict_sums(z).mean(axis=1) / 3
    j, k = np.triu_indices(5, 1)
    np.testing.assert_allclose(reference.payoff[:, j, k], upper, atol=1e-12)
    np.testing.assert_allclose(reference.payoff, -reference.payoff.transpose(0, 2, 1), atol=1e-15)
    assert reference.contexts.num_rows == len(z) == 32


def test_every_vote_is_that_judges_verdict_on_the_episodes():
    z = performances("train", 8)
    votes = pq.read_table(datasets.path("highway")).to_pylist()
    number = {agent.name: i for i, agent in enumerate(AGENTS)}
    ties = 0
    for vote in votes[::7]:
        task = z[vote["configuration"], vote["initialisation"]]
        verdict = judge_verdicts(task[number[vote["model_a"]]], task[number[vote["model_b"]]])
        said = verdict[JUDGE_NAMES.index(vote["judge"])]
        ties += said == 0
        assert said in (0, 1 if vote["winner"] == "model_a" else -1)
    assert 0 < ties < 0.1 * len(votes)


def test_about_a_third_of_the_reference_games_hold_a_cycle(highway):
    assert hold_cycle(highway.test.payoff).mean() == pytest.approx(0.375)
    assert hold_cycle(highway.validation.payoff).mean() == pytest.approx(0.4375)


def test_an_unknown_name_is_told_what_there_is():
    with pytest.raises(ne.NashEvalError, match=r"There is no data set 'mars'; accepted are 'chat', 'highway'\."):
        ne.datasets.path("mars")


# -- chat -------------------------------------------------------------------------------------------------------------


def test_the_chat_log_is_every_parsed_verdict_among_the_models_that_did_not_judge():
    log = ne.datasets.load_chat()
    assert (log.n_records, log.n_contexts, len(log.menus)) == (27_456, 953, 15)
    assert log.agents == datasets.CHAT_AGENTS
    assert log.contexts.column_names == ["language", "prompt"]
    assert log.text == "prompt"
    assert datasets.NAMES["chat"].startswith("27,456 verdicts")
    assert ne.datasets.load_chat(judge=True).n_records == 38_544


def test_the_bundled_chat_log_is_that_of_the_release():
    from studies.chat_log import votes

    try:
        made = votes()
    except ne.InputError as missing:
        pytest.skip(str(missing))
    assert pq.read_table(datasets.path("chat")).equals(made)


def test_the_licences_of_the_chat_log_stand_beside_it():
    notice = (datasets.path("chat").parent / "chat_NOTICE.txt").read_text()
    for words in ("MIT License", "Artidoro Pagnoni, Tim Dettmers", "OpenAssistant", "Apache License 2.0"):
        assert words in notice
