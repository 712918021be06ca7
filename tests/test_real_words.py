"""What is said in words of logs that people really have: rows 12 and 13 of what was seen at commit dd67b33.

More of row 12 is in scoring/test_findings.py, feedback/test_coverage.py, feedback/test_log.py and
feedback/readers/test_outcome_columns.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import nasheval as ne
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance.sklearn_models import Intercept
from nasheval.payoff.stage1 import fit_stage1

README = Path(__file__).parents[1] / "README.md"


def duels(rng, margins, contexts, voter=None):
    """Return a log of one duel of a and b per context, with E[Z] = margins (n,)."""
    first = rng.random(len(margins)) < (1 + margins) / 2
    rank = np.stack([~first, first], axis=1).astype(int).ravel()
    sizes, agent = np.full(len(margins), 2), np.tile([0, 1], len(margins))
    records = Records.build(sizes=sizes, agent=agent, rank=rank, voter=voter)
    voters = None if voter is None else pa.array([f"v{number}" for number in range(int(max(voter)) + 1)])
    return Feedback.from_records(records, agents=["a", "b"], contexts=contexts, voters=voters, design="draws")


def test_row_12_winners_are_clearly_others_only_where_intervals_say_so():
    """ "1 of 2 groups has clearly other winners" was said at a margin of -0.048 [-0.163, 0.066]."""
    from nasheval.scoring.report import gather

    rng = np.random.default_rng(4)
    margin = np.repeat([0.3, -0.06], 300)
    contexts = pa.table({"side": np.repeat(["left", "right"], 300)})
    log = duels(rng, margin, contexts)
    report = gather(fit_stage1(log, outcome=Intercept(), second_stage="none", folds=2), by="side", draws=200)
    assert report.groups[2].payoffs.low[0] < 0 < report.groups[2].payoffs.high[0]
    told = " ".join(report.findings)
    assert "other winners than all contexts together, not significant at 95%" in told
    assert "clearly" not in told


def test_row_12_a_reference_that_always_stands_first_is_no_position_bias():
    """ "The agent shown earlier is favoured by 0.760: show both orders" was said of a star."""
    votes = pa.table({
        "model_a": ["reference"] * 100, "model_b": ["m1", "m2"] * 50, "winner": ["model_a"] * 88 + ["model_b"] * 12
    })  # fmt: skip
    told = " ".join(ne.read_votes(votes).coverage().warnings())
    assert "shown earlier" not in told
    assert "position cannot be told from agents" in told


def test_row_12_splitting_keeps_voters_whole():
    """`Feedback.split` put contexts of one voter into both parts, where the command line did not."""
    who = np.repeat(np.arange(60), 20)
    log = duels(np.random.default_rng(0), np.zeros(1200), pa.table({"x": np.arange(1200.0)}), who)
    train, test = log.split(0.7, seed=1)
    assert not set(train.records.voter) & set(test.records.voter)


def test_row_12_the_verdict_is_no_context():
    """`--context language,winner` was accepted: the model then knew the answers."""
    votes = pa.table({"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["model_a", "tie"], "lang": ["en", "de"]})
    with pytest.raises(ne.InputError, match="winner"):
        ne.read_votes(votes, context=["lang", "winner"])


@pytest.mark.parametrize(
    "claim",
    ["0.177 of contextual", "on RouterBench it is below every", "Intervals that can be trusted", "**Debiased.**"],
)
def test_row_13_claims_of_the_readme_that_were_false_are_gone(claim):
    """Its weakest form was quoted of Bradley-Terry, and losses, simulations and a strength of 0 were left out."""
    assert claim not in " ".join(README.read_text().split())


def test_row_13_the_readme_says_what_the_figures_are_of():
    text = " ".join(README.read_text().split())
    for said in ("0.117 of the best contextual Bradley-Terry", "judges are simulated", "of the paper's worlds",
                 "in most logs the strength is 0"):  # fmt: skip
        assert said in text
