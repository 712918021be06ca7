"""From a predicted flip to one that a refit confirms, with as few votes as the refits allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

import numpy as np

from nasheval.arrays import Bools, Ints
from nasheval.audit.margins import Game, margins
from nasheval.audit.search import Items, Route
from nasheval.game.regularizers import Regularizer

_SMALL = 6  # items of a set, of which other sets as small are tried where refits are left
_NEAR = 0.02  # of the items of a set: how close its size is found
_VARIED = 4  # items after the last that stand in for another


@dataclass(frozen=True, eq=False)
class Found:
    """A set of items whose removal changes the winner set.

    Args:
        chosen: the items.
        predicted: how many were predicted to be enough.
        first: whether the first refit, of those predicted, confirmed it; None: no refit was made.
        confirmed: whether a refit without these items has another winner set; None: no refit was made.
        refits: how many were made.
        winners: (K,) the winner set without them: of the refit, or predicted.
    """

    chosen: Ints
    predicted: int
    first: bool | None
    confirmed: bool | None
    refits: int
    winners: Bools


@dataclass
class Trials:
    """Refits of one group without sets of items, at most so many.

    Args:
        refit: (n_votes,) which votes go -> the game, or None where nothing can be fitted.
        items: what goes.
        start: the game of all votes.
        omega: of the game.
        most: refits.
    """

    refit: Callable[[Bools], Game | None]
    items: Items
    start: Game
    omega: Regularizer
    most: int
    games: dict[bytes, Game | None] = field(default_factory=dict)

    def game(self, chosen: Ints) -> Game | None:
        """Return the game without some items; None where there is none, or no refit is left."""
        key = np.sort(chosen).astype(np.int64).tobytes()
        if key not in self.games:
            if len(self.games) >= self.most:
                return None
            self.games[key] = self.refit(self.items.gone(chosen))
        return self.games[key]

    def flips(self, chosen: Ints) -> bool:
        """Whether a refit without some items has another winner set; False where no refit is left."""
        game = self.game(chosen)
        return game is not None and bool((game.winners != self.start.winners).any())

    @property
    def made(self) -> int:
        """Refits that could be made."""
        return sum(game is not None for game in self.games.values())

    @property
    def left(self) -> int:
        """Refits that may still be made."""
        return self.most - len(self.games)


def confirmed(trials: Trials, routes: Sequence[Route], *, thorough: bool) -> Found | None:
    """Return the smallest set found that a refit confirms; where none is, the predicted one, said to be unconfirmed.

    None where no refit could be made.

    Args:
        routes: the shortest first.
        thorough: whether to spend what is left of the refits on other sets as small.
    """
    best, first = None, False
    for place, route in enumerate(routes):
        if best is not None and route.needed >= len(best):
            break
        length = _length(trials, route, _limit(route) if best is None else len(best) - 1)
        first = first or (place == 0 and trials.flips(route.order[: route.needed]))
        if length:
            best = route.order[:length]
        if best is not None and not thorough:
            break
    if best is not None and thorough:
        best = _smaller(trials, routes, best)
    chosen = routes[0].order[: routes[0].needed] if best is None else best
    game = trials.game(chosen)
    winners = trials.start.winners if game is None else game.winners
    return Found(chosen, routes[0].needed, first, best is not None, trials.made, winners) if trials.made else None


def _limit(route: Route) -> int:
    return len(route.order)


def _length(trials: Trials, route: Route, most: int) -> int:
    """Return how many of a route's items, in order, a refit confirms, near the least; 0: not even `most` of them."""
    low, high, at = 0, 0, min(route.needed, most)
    while trials.left and at > low:
        if trials.flips(route.order[:at]):
            high = at
        else:
            low = at
        if high and high - low <= max(1, _NEAR * high):
            break
        at = _next(trials, route, low, high, most)
    return high


def _next(trials: Trials, route: Route, low: int, high: int, most: int) -> int:
    """Return the length to try next: where the margin would be nothing, were it straight between those known."""
    guess = (low + high) // 2 if high else min(most, low + max(1, low // 4))
    values = {at: _value(trials, route, at) for at in (0, low, high) if at or at == 0}
    known = [(at, value) for at, value in sorted(values.items()) if value is not None]
    if len(known) >= 2 and not high:
        (first, one), (last, two) = known[-2:]
        if one > two > 0:
            guess = last + int(np.ceil(two * (last - first) / (one - two)))
    floor, ceiling = low + 1, (high - 1 if high else most)
    return int(np.clip(guess, floor, ceiling)) if floor <= ceiling else low


def _value(trials: Trials, route: Route, at: int) -> float | None:
    """Return how far the route's agent is from its change, by the refit without the first items; None: not known."""
    game = trials.start if at == 0 else trials.game(route.order[:at])
    if game is None or (game.winners != trials.start.winners).any():
        return None
    found = [m.value for m in margins(game, trials.omega) if (m.agent, m.change) == (route.agent, route.change)]
    return found[0] if found else None


def _smaller(trials: Trials, routes: Sequence[Route], best: Ints) -> Ints:
    """Return a smaller set that a refit confirms, among the first items of all routes; the given one where none is."""
    while trials.left and len(best) > 1:
        size = len(best) - 1
        sets = [route.order[:size] for route in routes if len(route.order) >= size]
        if size <= _SMALL:
            pools = [route.order[: size + _VARIED] for route in routes]
            sets += [np.array(c) for pool in pools for c in islice(combinations(pool, size), trials.most)]
        hit = next((one for one in sets if trials.left and len(one) == size and trials.flips(one)), None)
        if hit is None:
            return best
        best = hit
    return best
