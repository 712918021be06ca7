"""What to compare with: the baselines of the paper, each with `fit(stage1)` (appendix "Baselines").

`BradleyTerry`, `RegularizedBT`, `Borda` and `BudgetedBT` choose at each context from the estimated game, `BestByGroup`
one agent for each group; the others give one lottery for all contexts.
"""

from nasheval.policy.bradley_terry import Borda, BradleyTerry, BudgetedBT, RegularizedBT
from nasheval.policy.by_group import BestByGroup
from nasheval.policy.pluralistic import PluralisticLeaderboard
from nasheval.policy.pooled import BestSingle, MaximalLottery, PooledBT, Ratings, Uniform, ratings
from nasheval.policy.robust import RobustMaximalLottery

__all__ = [
    "BestByGroup",
    "BestSingle",
    "Borda",
    "BradleyTerry",
    "BudgetedBT",
    "MaximalLottery",
    "PluralisticLeaderboard",
    "PooledBT",
    "Ratings",
    "RegularizedBT",
    "RobustMaximalLottery",
    "Uniform",
    "ratings",
]
