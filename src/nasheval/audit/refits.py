"""Fitting again without some votes: what a prediction of a flip is held against.

A refit trains all nuisances anew, fold by fold, with the settings of the model, as `fit` on `log.keep_records(...)`
does: contexts stay where they are, and with them the folds, since a new draw of folds alone may turn a close race. The
same without the contexts that lost all their votes, as if their rows were deleted from a file, draws folds afresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nasheval.arrays import Bools, Ints
from nasheval.audit.margins import Game, game_of
from nasheval.errors import InputError, NashEvalError
from nasheval.feedback.log import Feedback
from nasheval.game.regularizers import Regularizer
from nasheval.nuisance.crossfit import crossfit, make_folds
from nasheval.nuisance.learners import Effort
from nasheval.nuisance.outcome import choose_outcome
from nasheval.nuisance.propensity import choose_propensity
from nasheval.nuisance.style import fit_style
from nasheval.payoff.adjusted import equalised
from nasheval.payoff.aggregators import as_asked
from nasheval.payoff.inference import GroupPayoff, group_payoff
from nasheval.payoff.pseudo import PseudoOutcomes, pseudo_outcomes
from nasheval.payoff.stage1 import Stage1


@dataclass(frozen=True, eq=False)
class Refit:
    """Fits a Stage 1 again without some votes.

    Args:
        stage1: the fitted one.
        settings: "outcome", "propensity", "adjust" and "tune" (False: none) as it was fitted with.
        effort: how hard to work.
        made: how many refits there were, in all.
        failed: why those that could not be made were not.
    """

    stage1: Stage1
    settings: Mapping[str, Any]
    effort: Effort
    made: list[int] = field(default_factory=lambda: [0])
    failed: list[str] = field(default_factory=list)

    def pseudo(self, gone: Bools, *, afresh: bool = False) -> tuple[PseudoOutcomes, Bools]:
        """Return pseudo-outcomes without some votes, (n_records,), and (n_contexts,) which contexts they still have.

        Args:
            afresh: whether contexts without votes go too, and folds are drawn anew.
        """
        old, (outcome, propensity, adjust) = self.stage1, map(self.settings.get, _SETTINGS)
        tune = self.settings.get("tune") or None
        log, fold = old.log.keep_records(~gone), old.nuisances.fold
        stays = np.ones(log.n_contexts, bool)
        if afresh:
            stays = np.diff(log.context_offsets) > 0 if old.nuisances.log.design == "draws" else stays
            log = log[stays]
            fold = make_folds(log, old.nuisances.n_folds, seed=self.effort.seed)
        log, aggregator = as_asked(log, old.pseudo.aggregation.aggregator)
        try:
            nuisances = crossfit(
                log,
                old.nuisances.X[stays],
                outcome=choose_outcome(outcome, tune=tune),
                propensity=choose_propensity(propensity, log, tune=tune),
                fold=fold,
                effort=replace(self.effort, advance=lambda share: None),
            )
        except Exception as error:  # learners fail in their own ways where there is nothing to learn from
            if not _lacks_training(log, fold):
                raise
            raise InputError("Without these votes a fold has none of the others to learn from.") from error
        pseudo = pseudo_outcomes(nuisances, aggregator, unseen=old.pseudo.unseen)
        self.made[0] += 1
        return (equalised(pseudo, fit_style(nuisances, adjust)) if adjust else pseudo), stays

    def game(self, gone: Bools, group: GroupPayoff, omega: Regularizer, *, afresh: bool = False) -> Game | None:
        """Return the game of a group without some votes; None where what is left cannot be fitted."""
        try:
            pseudo, stays = self.pseudo(gone, afresh=afresh)
            payoff = group_payoff(pseudo, group.inside[stays], name=group.name)
        except (NashEvalError, ValueError) as error:
            self.failed.append(str(error))
            return None
        present = payoff.present if group.allowed_agents is None else payoff.present & group.allowed_agents
        return game_of(payoff.estimate, present, omega)


def _lacks_training(log: Feedback, fold: Ints) -> bool:
    """Whether some fold has no votes of the others to learn from."""
    of_fold = np.bincount(fold[log.context_of], minlength=int(fold.max(initial=0)) + 1)
    return bool((of_fold.sum() == of_fold).any())


_SETTINGS = ("outcome", "propensity", "adjust")
