"""The gap in NumPy and in PyTorch: its definition, its gradient, payoffs that are not antisymmetric."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from nasheval.errors import InputError
from nasheval.game.costs import SoftBudget
from nasheval.game.gaps import composed, gap
from nasheval.game.regularizers import L2, Entropy
from nasheval.game.solver import solve

from .games import random_games

torch = pytest.importorskip("torch")
from nasheval.game import torch_gap  # noqa: E402 (needs torch)

N, K = 12, 6
RNG = np.random.default_rng(0)
COSTS = RNG.uniform(1, 4, (N, K))
TIGHT, ROOMY = float(COSTS.min(-1).max()), float(COSTS.min(-1).max()) + 0.3
TERMS = {
    "L2": {},
    "no regulariser": {"regularizer": L2(0.0)},
    "strong L2": {"regularizer": L2(0.5)},
    "entropy": {"regularizer": Entropy(0.2)},
    "entropy to a reference": {"regularizer": Entropy(0.2, RNG.dirichlet(np.full(K, 3.0), N))},
    "linear cost": {"costs": COSTS, "cost_weight": 0.4},
    "linear cost, one for all": {"costs": COSTS[0], "cost_weight": 0.4},
    "soft budget": {"regularizer": L2(0.1), "costs": COSTS, "budget": SoftBudget(2.0, 0.1, 1.0, 0.2)},
    "soft budget, no regulariser": {"regularizer": L2(0.0), "costs": COSTS, "budget": SoftBudget(2.0, 0.1, 1.0, 0.2)},
    "hard budget": {"regularizer": L2(0.1), "costs": COSTS, "budget": ROOMY},
    "hard budget, no regulariser": {"regularizer": L2(0.0), "costs": COSTS, "budget": ROOMY},
    "hard budget, entropy": {"regularizer": Entropy(0.2), "costs": COSTS, "budget": ROOMY},
    "equal costs": {"regularizer": L2(1e-3), "costs": np.full(K, 3.0), "budget": 3.0},
    "equal costs in one game": {
        "regularizer": L2(0.1),
        "costs": np.where(np.arange(N)[:, None] == 2, ROOMY, COSTS),
        "budget": ROOMY,
    },
    "tight budget": {"regularizer": L2(0.1), "costs": COSTS, "cost_weight": 0.2, "budget": TIGHT},
}
LOTTERIES = 0.9 * RNG.dirichlet(np.ones(K), N) + 0.1 / K
PAYOFFS = {"antisymmetric": random_games(N, K), "any": RNG.normal(size=(N, K, K))}


def torch_gap_of(pi, A, regularizer=L2(), costs=None, cost_weight=0.0, budget=None):  # noqa: B008 (frozen)
    n = len(pi) if pi.ndim > 1 else 1
    return torch_gap.gap(pi, A, composed(regularizer, costs, cost_weight, budget, n, pi.shape[-1]))


def differences(terms: dict, A: np.ndarray, step: float = 3e-6) -> np.ndarray:
    """Return the gradient of the gap by central differences, (N, K)."""
    moved = step * np.eye(K)[:, None]
    up = np.array([gap(LOTTERIES + d, A, **terms) for d in moved])
    down = np.array([gap(LOTTERIES - d, A, **terms) for d in moved])
    return (up - down).T / (2 * step)


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("kind", PAYOFFS)
def test_the_gradient_is_that_of_finite_differences(name: str, kind: str) -> None:
    pi = torch.tensor(LOTTERIES, requires_grad=True)
    A = torch.tensor(PAYOFFS[kind], requires_grad=True)
    value = torch_gap_of(pi, A, **TERMS[name])
    value.sum().backward()
    np.testing.assert_allclose(value.detach(), gap(LOTTERIES, PAYOFFS[kind], **TERMS[name]), atol=1e-12)
    np.testing.assert_allclose(pi.grad, differences(TERMS[name], PAYOFFS[kind]), atol=1e-6)
    assert torch.isfinite(A.grad).all()


def test_the_gradient_in_the_payoffs_is_that_of_finite_differences() -> None:
    A = torch.tensor(PAYOFFS["antisymmetric"], requires_grad=True)
    torch_gap_of(torch.tensor(LOTTERIES), A, regularizer=L2(0.5)).sum().backward()
    step = np.zeros((K, K))
    step[1, 3] = 1e-6
    up, down = (gap(LOTTERIES, PAYOFFS["antisymmetric"] + s * step, regularizer=L2(0.5)) for s in (1, -1))
    np.testing.assert_allclose(A.grad[:, 1, 3], (up - down) / 2e-6, atol=1e-6)


def test_the_gradient_for_antisymmetric_payoffs_is_the_papers() -> None:
    """Eq. gap-gradient: - A T(pi) + grad Omega(pi)."""
    A, pi = PAYOFFS["antisymmetric"], torch.tensor(LOTTERIES, requires_grad=True)
    torch_gap_of(pi, torch.tensor(A), regularizer=L2(0.5)).sum().backward()
    response = L2(0.5).best_response(np.einsum("njk,nk->nj", A, LOTTERIES))
    np.testing.assert_allclose(pi.grad, 0.5 * LOTTERIES - np.einsum("njk,nk->nj", A, response), atol=1e-14)


@pytest.mark.parametrize("name", TERMS)
def test_the_gap_is_the_largest_gain_of_any_opponent(name: str) -> None:
    """Eq. gap, term by term, against many opponents, for payoffs that are not antisymmetric too."""
    terms, A = dict(TERMS[name]), PAYOFFS["any"]
    regularizer, costs = terms.get("regularizer", L2()), terms.get("costs")
    budget = terms.get("budget")
    opponents = np.concatenate([np.eye(K), RNG.dirichlet(np.full(K, 0.3), 400), RNG.dirichlet(np.ones(K), 100)])
    payoff = np.einsum("njk,nk->nj", A, LOTTERIES)

    def omega(pi: np.ndarray) -> np.ndarray:
        total = regularizer.value(np.broadcast_to(pi, (N, K)))
        if "cost_weight" in terms:
            c = np.broadcast_to(costs, (N, K))
            scaled = (c - c.min(-1, keepdims=True)) / np.ptp(c, axis=-1, keepdims=True)
            total = total + terms["cost_weight"] * (scaled * pi).sum(-1)
        return total + budget.value((costs * pi).sum(-1)) if isinstance(budget, SoftBudget) else total

    gaps = gap(LOTTERIES, A, **terms)
    for q in opponents:
        gain = (payoff * (q - LOTTERIES)).sum(-1) + omega(LOTTERIES) - omega(q)
        allowed = (costs * q).sum(-1) <= budget if isinstance(budget, float) else np.ones(N, bool)
        assert (gaps >= gain - 1e-12)[allowed].all()


def test_the_gap_vanishes_at_the_equilibrium_only() -> None:
    A = PAYOFFS["antisymmetric"]
    for terms in TERMS.values():
        found = solve(A, **terms)
        assert np.abs(gap(found.strategy, A, **terms)).max() < 1e-10
        np.testing.assert_allclose(found.gap, gap(found.strategy, A, **terms), atol=1e-15)
    assert gap(LOTTERIES, A).min() > 1e-3


@pytest.mark.parametrize("rho", [0.0, 1e-3, 0.5])
def test_the_compiled_certificate_gives_the_same_numbers(rho: float) -> None:
    from nasheval.game.gaps import residual_at
    from nasheval.game.supports import certify

    A = PAYOFFS["antisymmetric"]
    gaps, kkt = certify(A, rho, LOTTERIES)
    payoff = np.einsum("njk,nk->nj", A, LOTTERIES)
    np.testing.assert_allclose(gaps, gap(LOTTERIES, A, regularizer=L2(rho)), atol=1e-14)
    np.testing.assert_allclose(kkt, residual_at(LOTTERIES, payoff, L2(rho), None), atol=1e-14)


def test_the_threshold_of_a_response_is_found_where_an_agent_is_on_it_up_to_rounding() -> None:
    from nasheval.game.supports import threshold

    rng = np.random.default_rng(0)
    for _ in range(2000):
        kept = np.append(-rng.uniform(0, 0.1, rng.integers(1, 6)), 0.0)
        edge = (kept.sum() - 1) / len(kept)
        lead = rng.permutation(np.append(kept, edge))
        t = threshold(lead)
        assert t == pytest.approx(edge, abs=1e-15)
        assert np.maximum(lead - t, 0).sum() == pytest.approx(1, abs=1e-14)


def test_one_game_or_many() -> None:
    A = PAYOFFS["antisymmetric"]
    one = gap(LOTTERIES[0], A[0])
    assert one.shape == ()
    assert one == pytest.approx(gap(LOTTERIES, A)[0], abs=1e-15)
    np.testing.assert_allclose(gap(LOTTERIES, A[0]), [gap(pi, A[0]) for pi in LOTTERIES], atol=1e-15)
    single = torch_gap_of(torch.tensor(LOTTERIES[0]), torch.tensor(A[0]), costs=COSTS[0], budget=ROOMY)
    assert single.shape == ()
    assert float(single) == pytest.approx(float(gap(LOTTERIES[0], A[0], costs=COSTS[0], budget=ROOMY)), abs=1e-12)


def test_single_precision_stays_single() -> None:
    pi, A = torch.tensor(LOTTERIES, dtype=torch.float32), torch.tensor(PAYOFFS["antisymmetric"], dtype=torch.float32)
    for terms in TERMS.values():
        value = torch_gap_of(pi, A, **terms)
        assert value.dtype == torch.float32
        np.testing.assert_allclose(value, gap(LOTTERIES, PAYOFFS["antisymmetric"], **terms), atol=2e-4)


def test_weights_of_zero_have_finite_gradients() -> None:
    pi = torch.eye(K, dtype=torch.float64, requires_grad=True)
    A = torch.tensor(PAYOFFS["antisymmetric"][:K])
    torch_gap_of(pi, A, regularizer=Entropy(0.1)).sum().backward()
    assert torch.isfinite(pi.grad).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", TERMS)
def test_the_same_on_cuda(name: str) -> None:
    pi = torch.tensor(LOTTERIES, device="cuda", requires_grad=True)
    A = torch.tensor(PAYOFFS["antisymmetric"], device="cuda")
    value = torch_gap_of(pi, A, **TERMS[name])
    value.sum().backward()
    np.testing.assert_allclose(value.detach().cpu(), gap(LOTTERIES, A.cpu().numpy(), **TERMS[name]), atol=1e-12)
    np.testing.assert_allclose(pi.grad.cpu(), differences(TERMS[name], A.cpu().numpy()), atol=1e-6)


def test_descent_on_the_gap_nears_the_equilibrium() -> None:
    A = torch.tensor(PAYOFFS["antisymmetric"])
    logits = torch.zeros(N, K, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss = torch_gap_of(torch.softmax(logits, -1), A, regularizer=L2(0.5))
        loss.sum().backward()
        optimizer.step()
    star = solve(A.numpy(), regularizer=L2(0.5)).strategy
    assert loss.max() < 5e-3
    assert np.linalg.norm(torch.softmax(logits, -1).detach().numpy() - star, axis=-1).max() < np.sqrt(2 / 0.5 * 5e-3)


def test_shapes_that_do_not_fit_are_errors() -> None:
    with pytest.raises(InputError, match=r"pi has shape \(12, 6\) and A \(5, 5\)"):
        gap(LOTTERIES, np.zeros((5, 5)))


def test_importing_the_game_imports_neither_torch_nor_numba() -> None:
    code = "import nasheval.game, sys; print([m for m in ('torch', 'numba', 'scipy') if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
