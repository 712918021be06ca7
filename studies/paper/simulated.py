"""What the studies on the simulation share: its nine settings, and its true nuisances as learners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import nasheval as ne
from studies.arrays import Floats
from studies.harness.study import Cell, Plain, Scale

Modality = Literal["pairwise", "ranking", "winner"]
MODALITIES: tuple[Modality, ...] = ("pairwise", "ranking", "winner")
VOTERS = (1, 3, 5)
SETTINGS = tuple(f"{modality}/{voters}" for modality in MODALITIES for voters in VOTERS)
SEEDS = (70, 71, 72, 73, 74)
N, TEST = 20_000, 4_096
QUICK_N, QUICK_TEST = 400, 512
RHO = 1e-3


@dataclass(frozen=True)
class Truth:
    """A log of the simulation with the truth at test contexts.

    Args:
        world, modality, voters: what drew it.
        log: what methods learn from.
        contexts: (n, 5) where they are tested.
        payoff: (n, K, K) the true games there.
    """

    world: ne.SyntheticWorld
    modality: Modality
    voters: int
    log: ne.Feedback
    contexts: Floats
    payoff: Floats

    @classmethod
    def of(cls, cell: Cell) -> Truth:
        """Draw what a cell names."""
        world, modality, voters = ne.SyntheticWorld(seed=cell["seed"]), cell["modality"], cell["voters"]
        contexts = world.test_contexts(cell["test"])
        payoff = world.payoff(contexts, modality, voters=voters)
        return cls(world, modality, voters, world.feedback(modality, voters=voters, n=cell["n"]), contexts, payoff)

    def oracle(self) -> dict[str, Any]:
        """Return the true nuisances, as arguments of `NashEval` (Eq. syn-oracle-nuisance-target)."""
        menus = len(self.log.menus)
        return {
            "outcome": Known(lambda x: self.world.outcome(x, self.modality, voters=self.voters).values),
            "propensity": Known(lambda x: np.repeat(self.world.propensity(x)[:, None], menus, axis=1)),
        }


@dataclass(frozen=True, eq=False)
class Known:
    """A nuisance that is known, as a learner that learns nothing.

    Args:
        values: encoded contexts (n, d) -> (n, columns); the simulation's contexts are their own encoding.
    """

    values: Callable[[Floats], Floats]

    def fit(self, log: object, X: object, train: object, effort: object) -> Known:
        """Return itself."""
        return self

    def predict(self, X: Any, fold: int) -> Floats:
        """Return the values at n contexts, the same for every fold."""
        return self.values(np.asarray(X.trees, np.float64))


def settings(
    scale: Scale, *, modalities: tuple[Modality, ...] = MODALITIES, voters: tuple[int, ...] = VOTERS, **more: Plain
) -> list[Cell]:
    """Return a cell for each setting and seed."""
    sizes: dict[str, Plain] = {"n": QUICK_N, "test": QUICK_TEST} if scale.quick else {"n": N, "test": TEST}
    return [
        Cell(
            "/".join([modality, str(count), str(seed), *map(str, more.values())]),
            {"modality": modality, "voters": count, "seed": seed, **sizes, **more},
        )
        for modality in modalities
        for count in voters
        for seed in scale.pick(SEEDS)
    ]
