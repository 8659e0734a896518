"""The scores of predicted moves against slow twins, the step that learns, and its batches."""

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import games
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.parts import (
    VALUE,
    alphago_network,
    get_part,
    initial_params,
    make_logits_fn,
)
from dualmctx.pipeline.supervised.moves import (
    POLICIES,
    Learned,
    make_update,
    no_scores,
    score_chance,
    score_moves,
)
from dualmctx.pipeline.supervised.stage import BatchFeed, load_ahead
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.config import NetworkOptions

NUM_ACTIONS = 8


def make_predictions(number: int = 64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns logits with many ties, masks of 1 to 8 legal actions, and targets of 1 or 2 moves."""
    draws = np.random.default_rng(1)
    legal = draws.permuted(
        np.arange(NUM_ACTIONS) <= np.arange(number)[:, None] % NUM_ACTIONS, axis=1
    )
    target = np.zeros((number, NUM_ACTIONS), np.float32)
    for row in range(number):
        moves = draws.choice(np.flatnonzero(legal[row]), 2)
        target[row, moves[0]] += 0.75
        target[row, moves[1]] += 0.25
    logits = draws.integers(-2, 3, legal.shape).astype(np.float32)
    # Illegal actions with the largest logits must not count.
    return np.where(legal, logits, 10.0).astype(np.float32), legal, target


def score_slowly(logits: Any, legal: Any, target: Any) -> tuple[float, float, float]:
    """Scores one position by sorting its legal moves; the lowest of equal ones comes first."""
    moves = np.flatnonzero(legal)
    exponentials = {a: np.exp(float(logits[a])) for a in moves}
    total = sum(exponentials.values())
    loss = -sum(float(target[a]) * np.log(exponentials[a] / total) for a in moves)
    order = sorted(moves, key=lambda a: (-logits[a], a))
    return loss, float(target[order[0]]), float(sum(target[a] for a in order[:5]))


def test_scores_and_their_sums_equal_their_slow_twin() -> None:
    logits, legal, target = make_predictions()
    scores = score_moves(*map(jnp.asarray, (logits, legal, target)))
    found = np.stack(scores, axis=1)
    slow = [score_slowly(*row) for row in zip(logits, legal, target, strict=True)]
    np.testing.assert_allclose(found, slow, rtol=1e-5, atol=1e-6)
    # The case distinguishes the scores: neither all right nor all wrong.
    assert 0.1 < np.mean(found[:, 1]) < np.mean(found[:, 2]) < 1
    weights, sums = np.arange(64.0) % 5, no_scores()
    for rows in (slice(0, 20), slice(20, 64)):
        sums = sums.add(jax.tree.map(lambda x, r=rows: x[r], scores), jnp.asarray(weights[rows]))
    assert float(sums.weight) == weights.sum()
    expected = {name: np.average(x, weights=weights) for name, x in scores._asdict().items()}
    assert sums.means() == pytest.approx(expected, rel=1e-5)


def test_chance_is_the_mean_over_all_moves_and_orders() -> None:
    """A uniformly random legal move equals logits in a random order, for any target."""
    _, legal, target = make_predictions(8)
    draws = np.random.default_rng(2)
    means = np.zeros((8, 2))
    for _ in range(1500):
        logits = draws.random(legal.shape)
        slow = [score_slowly(*row) for row in zip(logits, legal, target, strict=True)]
        means += np.array(slow)[:, 1:] / 1500
    found = score_chance(jnp.asarray(legal))
    np.testing.assert_allclose(found.loss, np.log(legal.sum(axis=1)), rtol=1e-6)
    np.testing.assert_allclose(np.stack(found[1:], axis=1), means, atol=0.05)


class Case(NamedTuple):
    """A network, its parameters, and five positions with 1 to 4 legal actions."""

    network: SeparateTrunks
    params: Any
    positions: TrainingBatch


@pytest.fixture(scope="module")
def case() -> Case:
    env = games.make("connect2")
    network = alphago_network(env, NetworkOptions(trunk="mlp", width=8, num_blocks=1))
    draws, number = np.random.default_rng(3), 5
    x = jnp.asarray(draws.normal(size=(number, *env.observation_shape)), jnp.float32)
    legal = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 0]], bool)
    target = legal / legal.sum(axis=1, keepdims=True) * draws.random(legal.shape)
    target /= target.sum(axis=1, keepdims=True)
    batch = TrainingBatch(x, jnp.asarray(legal), jnp.asarray(target), *[jnp.zeros(number)] * 5)
    return Case(network, initial_params(network, env, jax.random.PRNGKey(0)), batch)


@pytest.mark.slow
def test_an_update_takes_a_step_of_both_policies(case: Case) -> None:
    """The counts c are weights, divided by their mean m over the data set.

    The gradient by the logits is c / m (p - π) / M for legal actions, and 0 for illegal ones.
    """
    network, params, batch = case
    counts, optimizer = np.array([1, 3, 0, 2, 4]), optax.sgd(0.5)
    legal, target = np.asarray(batch.legal_action_mask), np.asarray(batch.policy)
    states = {part: optimizer.init(get_part(params, part)) for part in POLICIES}
    sums = {part: no_scores() for part in POLICIES}
    learned = Learned(jax.tree.map(jnp.array, params), states, sums)
    update = make_update(network, optimizer, mean_count=4.0)
    found = update(learned, batch, jnp.asarray(counts))
    for part in POLICIES:
        before, after = (get_part(x, part) for x in (params, found.params))
        logits_fn = jax.jit(make_logits_fn(network, part))
        logits, pull_back = jax.vjp(logits_fn, before, batch.observation)
        powers = np.exp(np.asarray(logits, np.float64)) * legal
        shares = powers / powers.sum(axis=1, keepdims=True)
        by_logits = (shares - target) * counts[:, None] / 4 / len(counts)
        gradient, _ = pull_back(jnp.asarray(by_logits, jnp.float32))
        expected = jax.tree.map(lambda x, slope: x - 0.5 * slope, before, gradient)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), after, expected)
        assert max(float(jnp.abs(x).max()) for x in jax.tree.leaves(gradient)) > 1e-3
        assert float(found.sums[part].weight) == 10
    values = (get_part(x, VALUE) for x in (found.params, params))
    jax.tree.map(np.testing.assert_array_equal, *values)


def test_batches_are_taken_by_their_number() -> None:
    """An epoch has five batches; a feed may begin anywhere, go on, and go back."""
    loaded = []

    def load(epoch: int) -> Iterator[Any]:
        loaded.append(epoch)
        return iter([(epoch, number) for number in range(5)])

    for start in range(11):
        found = list(BatchFeed(load, 5, total=12).take(start, 2))
        assert found == [(n // 5, n % 5) for n in (start, start + 1)]
    feed = BatchFeed(load, 5, total=12)
    first = list(feed.take(0, 7))
    assert list(feed.take(7, 3)) == [(1, 2), (1, 3), (1, 4)]
    assert list(feed.take(0, 7)) == first
    # Only batches of the run are loaded.
    loaded.clear()
    assert len(list(BatchFeed(load, 5, total=10).take(5, 5))) == 5
    assert loaded == [1]


def test_items_are_loaded_ahead_of_their_use_in_another_thread() -> None:
    names, is_ahead = set(), threading.Event()

    def items() -> Iterator[int]:
        for number in range(20):
            names.add(threading.current_thread().name)
            if number == 6:
                is_ahead.set()
            yield number
        raise ValueError("a shard is damaged")

    found = load_ahead(items(), 6)
    assert next(found) == 0
    # Six further items are loaded, although none of them has been asked for.
    assert is_ahead.wait(timeout=30)
    assert [next(found) for _ in range(19)] == list(range(1, 20))
    with pytest.raises(ValueError, match="damaged"):
        next(found)
    assert threading.current_thread().name not in names
