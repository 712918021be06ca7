"""Stage 1 as one object: what a policy is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from nasheval.arrays import Floats, Ints
from nasheval.choices import Search
from nasheval.contexts.encoder import ContextEncoder
from nasheval.errors import Argument, InputError
from nasheval.feedback.growing import Fitted
from nasheval.feedback.log import Feedback
from nasheval.feedback.style import columns_of
from nasheval.nuisance.crossfit import NuisanceFit, crossfit, make_folds
from nasheval.nuisance.learners import Advance, Effort, Features
from nasheval.nuisance.outcome import choose_outcome
from nasheval.nuisance.propensity import choose_propensity
from nasheval.nuisance.style import Adjustment, fit_style
from nasheval.nuisance.text_choice import fit_encoder
from nasheval.nuisance.tuning import check_search
from nasheval.payoff.adjusted import equalised, name_of, surface_of
from nasheval.payoff.aggregators import AnyAggregator, as_asked
from nasheval.payoff.bridging import Unseen, check_unseen, pair_matrix
from nasheval.payoff.on_card import payoffs
from nasheval.payoff.pseudo import PseudoOutcomes, pseudo_outcomes
from nasheval.payoff.second_stage import PayoffModel, SecondStage, check_second_stage, fit_payoff
from nasheval.payoff.surfaces import Boosting, Regressor

AnyStage1 = TypeVar("AnyStage1", bound="Stage1")


@dataclass(frozen=True, eq=False)
class Stage1:
    """A log with its nuisances, pseudo-outcomes and estimated game.

    Args:
        encoder: contexts -> features.
        nuisances: cross-fitted mu and e; `nuisances.log` is the log, its ballots cut into pairs where menus are rare.
        pseudo: Gamma of the log.
        payoff: A(x), by the chosen second stage.
        style: what was adjusted for, so that `pseudo` and `payoff` are those at equal style; None: as voted.
        unadjusted: the same as voted, where something was adjusted for.
        fitted: the last full fit, where this is an update of it; None: this is one.
    """

    encoder: ContextEncoder
    nuisances: NuisanceFit
    pseudo: PseudoOutcomes
    payoff: PayoffModel
    style: Adjustment | None = None
    unadjusted: Stage1 | None = None
    fitted: Fitted | None = None

    @property
    def last_fit(self) -> Fitted:
        """The log of the last full fit, this one's unless it was updated."""
        return self.fitted or Fitted(len(self.agents), self.log.n_contexts, self.log.n_records)

    def admitted(self, log: Feedback) -> tuple[Feedback, Features]:
        """Return new votes as this Stage 1 keeps them, and their contexts encoded."""
        return log, Features.of(self.encoder, log.contexts, n=log.n_contexts)

    @property
    def hidden_texts(self) -> tuple[str, ...]:
        """Columns of texts in whose place tags stand."""
        return ()

    def remarks(self, log: Feedback) -> tuple[str, ...]:
        """Return what cannot be known of new votes after this Stage 1."""
        if self.log.voters is None or log.voters is not None:
            return ()
        return (
            "The votes before say who cast them, and the new ones do not, so each counts as a voter of its own; name "
            "the column (voter=, --voter) if there is one.",
        )

    def succeeded(self, more: Feedback, **fields: Any) -> Stage1:
        """Return the Stage 1 of the log with more votes, which is kept as this one is."""
        return Stage1(self.encoder, **fields)

    @property
    def estimand(self) -> str:
        """What payoffs are of: "as voted" or "at equal style"."""
        return name_of(self.style)

    @property
    def as_voted(self) -> Stage1:
        """The same log as it was voted, nothing adjusted for."""
        return self if self.unadjusted is None else self.unadjusted

    @property
    def log(self) -> Feedback:
        """The log as it was given."""
        return self.nuisances.log.whole

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the K agents."""
        return self.log.agents

    @cached_property
    def plug_in(self) -> PayoffModel:
        """The plug-in payoff f(mu(x)), without debiasing; at equal style where `payoff` is."""
        return replace(fit_payoff(self.pseudo, "none"), style=self.payoff.style)

    @cached_property
    def status(self) -> Ints:
        """(K, K) whether each pair was seen, is bridged or unknown (`nasheval.payoff.bridging`)."""
        return pair_matrix(self.payoff.status, len(self.agents))

    def features(self, contexts: object) -> Features:
        """Encode n contexts: a DataFrame, records, or the array the log was built with."""
        return Features.of(self.encoder, contexts)

    def payoffs(self, contexts: object, device: str = "cpu") -> Floats:
        """Return A(x), (n, K, K), at any contexts; unless the device is "cpu", from a GPU where that is faster."""
        return payoffs(self.payoff, self.features(contexts), device)


def fit_stage1(
    log: Feedback,
    *,
    outcome: Any = "voters",
    propensity: Any = "auto",
    second_stage: SecondStage = "corrected",
    strength: float | None = None,
    boosting: Boosting | Regressor | None = None,
    aggregator: AnyAggregator = "auto",
    unseen: Unseen = "model",
    folds: int = 5,
    adjust: Sequence[str] | str = (),
    tune: Search | None = None,
    text_encoder: Any = None,
    text_dim: int | None = None,
    encoder: ContextEncoder | None = None,
    effort: Effort | None = None,
    begin: Callable[[str], Advance] | None = None,
) -> Stage1:
    """Go through Stage 1 on a log, one line per step (Algorithm 1, up to the payoff regression).

    Args:
        outcome, propensity: see `choose_outcome` and `choose_propensity`.
        second_stage, strength, boosting: see `fit_payoff`.
        aggregator: see `as_asked`.
        unseen: what to make of pairs that were never compared: "model" (bridged), "tie" or "refuse".
        adjust: "position", "style" or columns of style to adjust for (`nasheval.nuisance.style`); (): none.
        tune: whether and how to search hyperparameters.
        text_encoder, text_dim: what embeds texts, and how long vectors are; see `fit_encoder`.
        encoder: of the contexts; None fits one.
        begin: begins the stage "nuisances" or "payoffs" of a progress bar; None: `effort` has one bar for both.
    """
    work = effort or Effort()

    def stage(name: str, share: float) -> Effort:
        return work.share(share) if begin is None else replace(work, advance=begin(name))

    check_second_stage(second_stage, strength, boosting)
    check_search(tune)
    check_unseen(log, unseen)
    if adjust:
        columns_of(log, adjust)
    log, aggregator = as_asked(log, aggregator)
    check_known(log, propensity)
    fold = make_folds(log, folds, seed=work.seed)
    outcome, propensity = choose_outcome(outcome, tune=tune), choose_propensity(propensity, log, tune=tune)
    encoder = encoder or fit_encoder(log, text_encoder, text_dim, fold)
    X = Features.of(encoder, log.contexts, n=log.n_contexts)
    nuisances = crossfit(
        log,
        X,
        outcome=outcome,
        propensity=propensity,
        fold=fold,
        effort=stage("nuisances", 0.8),
    )
    pseudo = pseudo_outcomes(nuisances, aggregator, unseen=unseen)
    how: dict[str, Any] = {"strength": strength, "boosting": boosting, "tune": tune}
    payoff = fit_payoff(pseudo, second_stage, **how, effort=stage("payoffs", 0.2))
    style = fit_style(nuisances, adjust) if adjust else None
    return at_equal_style(Stage1(encoder, nuisances, pseudo, payoff), style)


def at_equal_style(stage1: AnyStage1, style: Adjustment | None) -> AnyStage1:
    """Return a Stage 1 as voted with its pseudo-outcomes and payoffs at equal style; None: as it is."""
    if style is None:
        return stage1
    payoff = replace(stage1.payoff, style=surface_of(style))
    return replace(stage1, pseudo=equalised(stage1.pseudo, style), payoff=payoff, style=style, unadjusted=stage1)


def check_known(log: Feedback, propensity: Any) -> None:
    """Raise where known propensities are of ballots that were cut into pairs."""
    known = isinstance(propensity, str) and propensity == "known" and log.whole.records.propensity is not None
    if known and log.records.propensity is None:
        raise InputError(
            "Ballots are cut into pairs, and the known propensity of a ballot does not tell those of its pairs; use ",
            *(Argument("aggregator=Mean()", flag="--aggregator mean"), ", or estimate them with "),
            *(Argument("propensity", "auto", flag="--propensity-model auto"), "."),
        )
