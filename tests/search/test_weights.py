"""From statistics to policies: smoothed, regularised, and the probabilities of legal actions."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dualmctx.policies import root as roots
from dualmctx.search.rules import regularized_policy
from dualmctx.search.tree import is_unmasked


def test_smoothed_visits() -> None:
    visits = jnp.array([[3, 0, 5, 0], [0, 0, 0, 0]])
    legal = jnp.array([[True, True, False, True], [True, False, False, False]])
    actual = roots.smoothed_visits(visits, legal)
    np.testing.assert_allclose(actual, [[4 / 6, 1 / 6, 0, 1 / 6], [1, 0, 0, 0]], rtol=1e-6)


def rate(prior: Any, total: Any, c_puct: float) -> np.ndarray:
    """λ = c sqrt(ΣN) / (|A| + ΣN)."""
    total = np.asarray(total, np.float64)
    return c_puct * np.sqrt(total) / (np.sum(np.asarray(prior) > 0, axis=-1) + total)


def exact_policy(prior: Any, qvalues: Any, total: float, c_puct: float) -> np.ndarray:
    """One row in float64, by bisecting the logarithm of α − max q."""
    prior = np.asarray(prior, np.float64)
    legal = prior > 0
    weighted = rate(prior, total, c_puct) * prior[legal]
    gap = np.max(np.asarray(qvalues)[legal]) - np.asarray(qvalues, np.float64)[legal]
    low, high = -200.0, 5.0
    for _ in range(200):
        middle = (low + high) / 2
        is_low = np.sum(weighted / (gap + np.exp(middle))) > 1
        low, high = (middle, high) if is_low else (low, middle)
    policy = np.zeros(prior.shape)
    policy[legal] = weighted / (gap + np.exp(high))
    return policy / policy.sum()


def random_case(seed: int, rows: int = 6, actions: int = 7) -> tuple[Any, Any, Any]:
    draws = np.random.default_rng(seed)
    prior = draws.dirichlet(np.full(actions, 0.5), rows) * (draws.random((rows, actions)) < 0.7)
    prior[:, 0] += 0.01
    prior /= prior.sum(axis=-1, keepdims=True)
    qvalues = draws.uniform(-1, 1, (rows, actions))
    total = draws.integers(1, 200, rows)
    return (*(jnp.asarray(x, jnp.float32) for x in (prior, qvalues)), jnp.asarray(total))


EXTREME = {
    "the best is all but excluded": ([1e-30, 1.0], [1.0, -1.0], 85),
    "the worst is all but excluded": ([1.0, 1e-30, 0.0], [0.2, -1.0, 1.0], 20),
    "equal values": ([0.5, 0.3, 0.2], [0.25, 0.25, 0.25], 9),
    "one legal action": ([0.0, 1.0, 0.0], [1.0, -0.5, 1.0], 12),
    "certain": ([0.6, 0.4], [1.0, -1.0], 100000),
    "one visit": ([0.25, 0.25, 0.25, 0.25], [-1.0, 0.0, 0.0, 0.0], 1),
    "tiny differences": ([0.5, 0.5], [0.3, 0.3 + 1e-6], 50),
}


@pytest.mark.slow
def test_regularized_policy_in_extreme_cases() -> None:
    def padded(rows: Any) -> Any:
        return jnp.array([[*row, *[0.0] * (4 - len(row))] for row in rows], jnp.float32)

    priors, qvalues, totals = zip(*EXTREME.values(), strict=True)
    arguments = padded(priors), padded(qvalues), jnp.array(totals)
    actual = regularized_policy(*arguments, c_puct=1.25)
    for name, *row in zip(EXTREME, actual, *arguments, strict=True):
        found, prior, qvalue, total = row
        expected = exact_policy(prior, qvalue, float(total), 1.25)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_regularized_policy_satisfies_its_equation() -> None:
    """Without visits it is the prior."""
    prior, qvalues, total = random_case(0)
    total = total.at[::2].set(0)
    policy = regularized_policy(prior, qvalues, total, c_puct=5.0)
    np.testing.assert_allclose(policy[::2], prior[::2], atol=1e-6)
    for row in range(1, len(prior), 2):
        expected = exact_policy(prior[row], qvalues[row], float(total[row]), 5.0)
        np.testing.assert_allclose(policy[row], expected, rtol=1e-3, atol=1e-5)


MASKS = {"-inf": -jnp.inf, "lowest": jnp.finfo(jnp.float32).min, "-1e9": -1e9}


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("mask", MASKS)
def test_legal_probabilities(mask: str, dtype: Any) -> None:
    masked = jnp.finfo(dtype).min if mask == "lowest" else MASKS[mask]
    rows = jnp.array([[1.0, 0.0, masked], [masked, masked, 5.0], [2.0, 2.0, 2.0]], jnp.float32)
    logits = rows.astype(dtype)
    actual = roots.legal_probabilities(logits)
    share = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(
        actual, [[share, 1 - share, 0], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-6
    )
    assert actual.dtype == jnp.float32
    assert (actual[0, 2], actual[1, 0]) == (0, 0)
    # mctx's rules read the logits of a node.
    np.testing.assert_array_equal(is_unmasked(logits), actual > 0)


INF, LOWEST = np.inf, float(np.finfo(np.float32).min)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16])
@pytest.mark.parametrize(
    ("logits", "invalid", "expected"),
    [
        ([-1e4, -1e4, 1e4], [0, 0, 1], [0.5, 0.5, 0.0]),
        ([0.0, -INF, -INF], [1, 0, 0], [0.0, 0.5, 0.5]),
        ([-INF, -INF, -INF], [1, 0, 0], [0.0, 0.5, 0.5]),
        ([-INF, -INF, -INF], [0, 0, 0], [1 / 3] * 3),
        ([LOWEST, 2.0, 2.0], [0, 0, 0], [0.0, 0.5, 0.5]),
        ([3.0, 0.0, 2.0], [1, 1, 1], None),
    ],
)
def test_invalid_actions_have_no_probability(
    logits: list[float], invalid: list[int], expected: list[float] | None, dtype: Any
) -> None:
    row = jnp.maximum(jnp.array([logits]), jnp.finfo(dtype).min).astype(dtype)
    row = jnp.where(jnp.array([logits]) == -INF, -INF, row)
    found = roots.legal_probabilities(row, jnp.array([invalid]))
    if expected is None:
        expected = roots.legal_probabilities(row)[0].tolist()
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(found[0] == 0, np.array(expected) == 0)


@pytest.mark.parametrize("shift", [0.0, -3e4])
@pytest.mark.parametrize("gap", [0.0, 20.0, 1e5])
def test_unlikely_actions_stay_legal(gap: float, shift: float) -> None:
    logits = jnp.array([shift, shift - gap, jnp.finfo(jnp.float32).min])
    actual = roots.legal_probabilities(logits)
    assert actual[1] > 0
    assert actual[2] == 0
    np.testing.assert_allclose(actual.sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(actual[1], max(np.exp(-gap) / (1 + np.exp(-gap)), 1e-30), rtol=1e-4)


def test_mask_logits_matches_mctx() -> None:
    logits, invalid = jnp.array([[1.0, 4.0, 2.0]]), jnp.array([[False, False, True]])
    assert roots.mask_logits(logits, None) is logits
    lowest = float(jnp.finfo(jnp.float32).min)
    assert roots.mask_logits(logits, invalid).tolist() == [[-3.0, 0.0, lowest]]
    with pytest.raises(AssertionError):
        roots.mask_logits(logits, invalid[:, :2])
