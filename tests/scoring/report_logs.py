"""A small log with a known truth, known nuisances and awkward names, for tests of the report and of plots."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from nasheval.contexts.encoder import ContextEncoder
from nasheval.feedback.log import Feedback
from nasheval.feedback.records import Records
from nasheval.nuisance.crossfit import NuisanceFit, make_folds
from nasheval.nuisance.learners import Features
from nasheval.payoff.pseudo import pseudo_outcomes
from nasheval.payoff.second_stage import fit_payoff
from nasheval.payoff.stage1 import Stage1
from nasheval.scoring.heldout import score
from nasheval.scoring.report.gathering import gather

from .logs import Given

# What would run, end the data or break out of an attribute, if a page took names for HTML.
ROCK, PAPER, SCISSORS, WEAK = AGENTS = (
    "</script><script>window.hacked=1</script>",
    "\"paper\" 'n' <img src=x onerror=window.hacked=1> & more",
    "scissors_$x$\u2028{{DATA}}",
    "weak",
)
TOPICS = ("games", "<b>code</b>", "say \"hi\" & 'bye'")
J, K = np.triu_indices(4, 1)
_CYCLE = np.array([0.6, -0.6, 0.5, 0.6, 0.5, 0.5])  # rock > paper > scissors > rock, and all beat the weak one
_ROCK = np.array([0.7, 0.7, 0.7, 0.1, 0.5, 0.5])  # rock beats all


def margins(topic):
    """Mean verdicts (n, 6) by topic: a cycle everywhere but in code, where rock wins alone."""
    return np.where((topic == 1)[:, None], _ROCK, _CYCLE)


def payoff_of(margin):
    """Payoff matrix (4, 4) of margins (6,)."""
    A = np.zeros((4, 4))
    A[J, K] = margin
    return A - A.T


def rock_paper_scissors(n=2400, seed=0):
    """Duels drawn evenly, one per context; topics with shares 1/2, 1/3, 1/6 and a length from 0 to 1."""
    rng = np.random.default_rng(seed)
    topic, length, pair = rng.choice(3, n, p=[1 / 2, 1 / 3, 1 / 6]), rng.random(n), rng.integers(6, size=n)
    first = rng.random(n) < (1 + margins(topic)[np.arange(n), pair]) / 2
    records = Records.build(
        sizes=np.full(n, 2),
        agent=np.stack([J[pair], K[pair]], axis=1).ravel(),
        rank=np.stack([~first, first], axis=1).astype(int).ravel(),
    )
    contexts = pa.table({"topic": [TOPICS[t] for t in topic], "length": length})
    log = Feedback.from_records(
        records, agents=list(AGENTS), contexts=contexts, context_of=np.arange(n), design="draws"
    )
    return log, topic


def true_stage1(n=2400, seed=0):
    """Stage 1 of such a log with the true nuisances; its payoff is the plug-in, so the truth."""
    log, topic = rock_paper_scissors(n, seed)
    x = topic[:, None].astype(np.float64)
    mu = Given(lambda x, fold: margins(x[:, 0])[:, log.menus.columns.pair])
    e = Given(lambda x, fold: np.full((len(x), len(log.menus)), 1 / 6))
    pseudo = pseudo_outcomes(NuisanceFit(log, Features(x, x), make_folds(log, 2), mu, e))
    return Stage1(ContextEncoder.fit(log.contexts), pseudo.fit, pseudo, fit_payoff(pseudo, "none"))


COSTS = {ROCK: 4.0, PAPER: 3.0, SCISSORS: 2.0, WEAK: 1.0}


@cache
def example():
    """Stage 1, an evaluation on another log, and the report of both."""
    stage1, other = true_stage1(), true_stage1(900, seed=1)
    lotteries = {
        "<i>cycle</i>": np.tile([1 / 3, 1 / 3, 1 / 3, 0], (900, 1)),
        "rock": np.tile([1.0, 0, 0, 0], (900, 1)),
        "weak": np.tile([0, 0, 0, 1.0], (900, 1)),
    }
    found = score(other.pseudo, lotteries, by="topic", costs=COSTS)
    report = gather(
        stage1,
        by=["topic", "length"],
        evaluation=found,
        costs=COSTS,
        settings={"outcome": "<u>true</u>", "rho": 0.001},
        title="<script>window.hacked=1</script> & co",
        draws=100,
        created="2026-01-02",
    )
    return stage1, found, report


STAR = ("base", "strong", "middling", "weak", "isle", "reef")
_STAR_PAIRS = ((0, 1), (0, 2), (0, 3), (4, 5))  # all against base; isle and reef have met nobody else
_STAR_MARGINS = np.array([-0.8, -0.2, 0.8, 0.4])
STAR_LANGUAGES = ("en", "de")


def star_stage1(n=1600, seed=0, unseen="model"):
    """Stage 1, with true nuisances, of a star and of two agents apart; in German weak has no vote."""
    rng = np.random.default_rng(seed)
    german = rng.random(n) < 0.25
    shares = np.where(german[:, None], [0.4, 0.4, 0.0, 0.2], [0.3, 0.3, 0.3, 0.1])
    pair = (rng.random(n)[:, None] > shares.cumsum(axis=1)).sum(axis=1)
    first = rng.random(n) < (1 + _STAR_MARGINS[pair]) / 2
    records = Records.build(
        sizes=np.full(n, 2),
        agent=np.array(_STAR_PAIRS)[pair].ravel(),
        rank=np.stack([~first, first], axis=1).astype(int).ravel(),
    )
    contexts = pa.table({"language": [STAR_LANGUAGES[int(one)] for one in german]})
    log = Feedback.from_records(records, agents=list(STAR), contexts=contexts, context_of=np.arange(n), design="draws")
    x = german[:, None].astype(np.float64)
    order = [_STAR_PAIRS.index(tuple(log.menus.members(m).tolist())) for m in range(len(log.menus))]
    mu = Given(lambda x, fold: np.tile(_STAR_MARGINS[order], (len(x), 1)))
    e = Given(lambda x, fold: np.where(x > 0, [0.4, 0.4, 1e-2, 0.2], [0.3, 0.3, 0.3, 0.1])[:, order])
    pseudo = pseudo_outcomes(NuisanceFit(log, Features(x, x), make_folds(log, 2), mu, e), unseen=unseen)
    return Stage1(ContextEncoder.fit(log.contexts), pseudo.fit, pseudo, fit_payoff(pseudo, "none"))


@cache
def star_report(unseen="model"):
    """The report of the star."""
    return gather(star_stage1(unseen=unseen), by="language", title="A star", draws=100, created="2026-01-02")
