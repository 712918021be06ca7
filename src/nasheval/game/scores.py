"""Bradley-Terry scores of a batch of problems, by Newton's method with a line search: the one solver of the package.

Ladders, contextual Bradley-Terry, bridges between pairs that were never compared and the start of latent voters use it.
"""

from __future__ import annotations

import numpy as np

from nasheval.arrays import Bools, Floats, Ints
from nasheval.errors import ConvergenceError

_STEPS = 200
_HALVINGS = 40
_CHORDS, _SHORTER = 40, 0.7  # steps with slopes from elsewhere, and how much shorter each makes the gradient at least
_CELLS = 1 << 17  # numbers in one (rows, K, K) array: small enough to stay in the processor's cache
_WEAKEST = 1e-250  # strength against the strongest; weaker agents tie with each other
_ALIKE = 1e-9  # scores and margins this close are a tie


def fit_scores(
    lead: Floats, meetings: Floats, *, ridge: float, tolerance: float = 1e-9, start: Floats | None = None
) -> Floats:
    """Return the scores s (n, K) of n Bradley-Terry problems, each summing to zero.

    Each minimises sum_{j<k} N_jk log(2 cosh((s_j - s_k) / 2)) - lead . s / 2 + ridge / 2 ||s||^2. With N the votes of a
    pair and lead the wins less the losses of an agent this is the likelihood of a ladder; with N = 1 / (K choose 2) and
    lead the row sums of B(x) times N it is Eq. syn-bt-projection, in which B enters by its row sums alone.

    Args:
        lead: (n, K), rows sum to zero.
        meetings: (K, K), or (n, K, K) where problems differ in it: N, symmetric, zero on the diagonal.
        ridge: above 0, so that there is exactly one minimum whoever met whom.
        tolerance: the largest |gradient| at which a problem is solved.
        start: (K,) scores near those of all problems, whose slopes serve for all where that is enough; None: zeros.
    """
    n, K = lead.shape
    step = max(1, _CELLS // (K * K))
    scores: Floats = np.zeros((n, K))
    left: Ints = np.arange(n)
    if start is not None and n > 1:
        scores, left = _near(lead, meetings, ridge, tolerance, start - start.mean())
    for first in range(0, len(left), step):
        rows = left[first : first + step]
        scores[rows] = _solved(lead[rows], _rows_of(meetings, rows), ridge, tolerance, scores[rows])
    return scores


def _near(lead: Floats, meetings: Floats, ridge: float, tolerance: float, start: Floats) -> tuple[Floats, Ints]:
    """Return scores (n, K), and the problems that are not solved by steps of the Hessian at the start (K,)."""
    from scipy.sparse import csr_array

    j, k = np.nonzero(np.triu(meetings))
    votes, pair = meetings[j, k] / 2, np.tile(np.arange(len(j)), 2)
    incidence = csr_array((np.concatenate([votes, -votes]), (pair, np.concatenate([j, k]))), (len(j), len(start)))
    inverse = np.linalg.inv(score_hessian(start[None], meetings, ridge)[0])

    def gradient(s: Floats, rows: Ints) -> Floats:
        return np.asarray(np.tanh((s[:, j] - s[:, k]) / 2) @ incidence - lead[rows] / 2 + ridge * s)

    scores, left = np.tile(start, (len(lead), 1)), []
    step = max(1, 8 * _CELLS // max(1, len(j)))
    for first in range(0, len(lead), step):
        rows = np.arange(first, min(first + step, len(lead)))
        slope = gradient(scores[rows], rows)
        for _ in range(_CHORDS):
            far = np.abs(slope).max(axis=1) > tolerance
            rows, slope = rows[far], slope[far]
            if not len(rows):
                break
            moved = scores[rows] - slope @ inverse
            steep = gradient(moved, rows)
            good = np.linalg.norm(steep, axis=1) < _SHORTER * np.linalg.norm(slope, axis=1)
            left.append(rows[~good])
            rows, slope = rows[good], steep[good]
            scores[rows] = moved[good]
        left.append(rows)
    return scores, np.concatenate([np.zeros(0, np.int64), *left])


def _rows_of(meetings: Floats, rows: slice | Ints | Bools) -> Floats:
    return meetings if meetings.ndim == 2 else meetings[rows]


def _solved(lead: Floats, meetings: Floats, ridge: float, tolerance: float, s: Floats) -> Floats:
    """Return the scores by Newton's method from s (n, K)."""
    scores, rows = np.empty_like(lead), np.arange(len(lead))
    slope = _gradient(s, lead, meetings, ridge)
    for _ in range(_STEPS):
        far = np.abs(slope).max(axis=1) > tolerance
        scores[rows[~far]] = s[~far]
        rows, s, slope, lead, meetings = rows[far], s[far], slope[far], lead[far], _rows_of(meetings, far)
        if not len(rows):
            return scores
        step = -np.linalg.solve(score_hessian(s, meetings, ridge), slope[:, :, None])[:, :, 0]
        s, slope = _searched(s, step, slope, lead, meetings, ridge)
    raise ConvergenceError(
        f"Bradley-Terry scores did not settle within {_STEPS} Newton steps: the gradient is still "
        f"{np.abs(slope).max():.2g}. A larger ridge helps; please report it."
    )


def _searched(
    s: Floats, step: Floats, slope: Floats, lead: Floats, meetings: Floats, ridge: float
) -> tuple[Floats, Floats]:
    """Return the points and gradients after steps halved until each makes its gradient shorter.

    A Newton step goes downhill in the length of the gradient too, which spares computing the objective.
    """
    size, share = np.linalg.norm(slope, axis=1), 1.0
    left, there, steep = np.arange(len(s)), s.copy(), slope.copy()
    for _ in range(_HALVINGS):
        there[left] = s[left] + share * step[left]
        steep[left] = _gradient(there[left], lead[left], _rows_of(meetings, left), ridge)
        left = left[np.linalg.norm(steep[left], axis=1) > (1 - 1e-4 * share) * size[left]]
        if not len(left):
            break
        share /= 2
    return there, steep


def _gradient(s: Floats, lead: Floats, meetings: Floats, ridge: float) -> Floats:
    met = "jk" if meetings.ndim == 2 else "njk"
    return (np.einsum(f"njk,{met}->nj", score_margins(s), meetings) - lead) / 2 + ridge * s


def score_hessian(s: Floats, meetings: Floats, ridge: float, *, least: float = 0.0) -> Floats:
    """Return the Hessians, (n, K, K), made definite along (1, ..., 1), where only the ridge bends the objective.

    Args:
        least: 1 - margin^2 of a pair counts as no less than this.
    """
    K = s.shape[1]
    hessian = -np.maximum(1 - score_margins(s) ** 2, least) * (meetings / 4)
    diagonal = -hessian.sum(axis=2)
    hessian += (diagonal.mean(axis=1) / K)[:, None, None]  # the scores sum to zero at every step: this changes nothing
    hessian[:, np.arange(K), np.arange(K)] += diagonal + ridge
    return hessian


def score_margins(s: Floats) -> Floats:
    """Return the margins (n, K, K) that scores s (n, K) stand for: tanh of half their difference, by K exponentials."""
    strength = np.exp(s - s.max(axis=1, keepdims=True, initial=-np.inf))
    strength = np.maximum(strength, _WEAKEST)
    return np.asarray((strength[:, :, None] - strength[:, None, :]) / (strength[:, :, None] + strength[:, None, :]))


def best_of(values: Floats) -> Bools:
    """Return (n, K) which agent has the largest value in each row; of those within 1e-9 of it, the first."""
    near = values >= values.max(axis=1, keepdims=True) - _ALIKE
    return np.arange(values.shape[1]) == near.argmax(axis=1)[:, None]
