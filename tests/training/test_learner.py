"""The learner: the loss, the optimiser and augmentation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import games
from dualmctx.models.network import HeadOutput
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.learner import (
    Learner,
    compute_losses,
    make_augment,
    make_learn,
    make_optimizer,
)
from dualmctx.training.replay import make_replay

NUM_ACTIONS = 5


def look_up(params: dict, observation: Any) -> list[HeadOutput]:
    """Replaces a network with two heads: observations are row indices of the tables `params`."""
    return [
        HeadOutput(params["logits"][head][observation], params["value"][head][observation])
        for head in range(2)
    ]


class Table:
    """An object with the method `apply` of a network."""

    apply = staticmethod(look_up)


TABLE = Table()
losses_of = jax.jit(compute_losses, static_argnums=0)


def make_positions(num_positions: int, observation: np.ndarray | None = None) -> TrainingBatch:
    """Makes positions with 2 … 5 legal actions each, one of them with weight 0."""
    draws = np.random.default_rng(3)
    legal = np.arange(NUM_ACTIONS) < 2 + np.arange(num_positions)[:, None] % 4
    legal = np.take(legal, draws.permutation(NUM_ACTIONS), axis=1)
    policy = draws.random(legal.shape) * legal
    policy[np.arange(num_positions), np.argmax(legal, axis=1)] = 0
    policy /= policy.sum(axis=1, keepdims=True)
    return TrainingBatch(
        observation=np.arange(num_positions) if observation is None else observation,
        legal_action_mask=jnp.asarray(legal),
        policy=jnp.asarray(policy, jnp.float32),
        value=jnp.asarray(draws.choice([-1.0, 0.0, 1.0], num_positions), jnp.float32),
        remaining_discount=jnp.asarray(np.arange(num_positions) % 3 == 1, jnp.float32),
        is_truncated=jnp.asarray(np.arange(num_positions) == 3),
        is_random=jnp.zeros(num_positions, bool),
        search_value=jnp.asarray(draws.uniform(-1, 1, num_positions), jnp.float32),
    )


def make_tables(num_positions: int) -> dict:
    draws = np.random.default_rng(4)
    return {
        "logits": jnp.asarray(draws.normal(size=(2, num_positions, NUM_ACTIONS)), jnp.float32),
        "value": jnp.asarray(draws.uniform(-1, 1, (2, num_positions)), jnp.float32),
    }


@pytest.mark.parametrize("weight", [0.0, 0.25])
def test_losses_equal_their_formulas(weight: float) -> None:
    """The value target mixes the result, where it is known, with the value of the search."""
    batch, tables = make_positions(7), make_tables(7)
    assert 0 < batch.has_value.sum() < 7
    found = losses_of(TABLE, tables, batch, weight)
    entropies = [-sum(x * np.log(x) for x in row if x > 0) for row in np.asarray(batch.policy)]
    np.testing.assert_allclose(found.target_entropy, np.mean(entropies), rtol=1e-5)
    for head in range(2):
        divergence, squares = [], []
        for i in range(7):
            legal = np.flatnonzero(batch.legal_action_mask[i])
            logits = np.asarray(tables["logits"][head, i][legal], np.float64)
            target = np.asarray(batch.policy[i][legal], np.float64)
            log_p = logits - np.log(np.exp(logits).sum())
            some = target > 0
            divergence.append((target[some] * (np.log(target[some]) - log_p[some])).sum())
            value = float(batch.search_value[i])
            if batch.has_value[i]:
                value = (1 - weight) * float(batch.value[i]) + weight * value
            if batch.has_value[i] or weight:
                squares.append((value - float(tables["value"][head, i])) ** 2)
        np.testing.assert_allclose(found.policy[head], np.mean(divergence), rtol=1e-5)
        np.testing.assert_allclose(found.value[head], np.mean(squares), rtol=1e-5)


def test_illegal_actions_and_unknown_values_have_no_gradient() -> None:
    batch, tables = make_positions(7), make_tables(7)

    @jax.jit
    def total(tables: dict, batch: TrainingBatch) -> Any:
        return sum(jnp.sum(x) for x in compute_losses(TABLE, tables, batch))

    gradient = jax.jit(jax.grad(total))(tables, batch)
    moves = np.broadcast_to(batch.legal_action_mask, gradient["logits"].shape)
    np.testing.assert_array_equal(gradient["logits"] != 0, moves)
    known = np.broadcast_to(batch.has_value, gradient["value"].shape)
    np.testing.assert_array_equal(gradient["value"] != 0, known)
    changed = batch._replace(value=jnp.where(batch.has_value, batch.value, 1e6))
    assert total(tables, changed) == total(tables, batch)
    nothing = batch._replace(is_random=jnp.ones(7, bool))
    assert (losses_of(TABLE, tables, nothing).value == 0).all()
    assert jax.tree.all(jax.tree.map(lambda x: jnp.isfinite(x).all(), gradient))


def learn_on(network: Any, params: Any, batch: TrainingBatch, options: Learner) -> tuple:
    """Takes the optimiser steps of an iteration on a buffer with these positions; jitted."""
    num_positions = len(batch.policy)
    replay = make_replay(
        capacity=num_positions,
        batch_size=options.batch_size,
        num_games=1,
        num_steps=num_positions,
    )
    optimizer = make_optimizer(options, options.num_updates)
    learn = make_learn(network, optimizer, replay, options)

    @jax.jit
    def fill_and_learn(params: Any, batch: TrainingBatch, rng_key: Any) -> tuple:
        column = jax.tree.map(lambda x: x[:, None], batch)
        state = replay.add(replay.init(column), column)
        return learn(params, optimizer.init(params), state, rng_key)

    return fill_and_learn(params, jax.tree.map(jnp.asarray, batch), jax.random.PRNGKey(0))


def test_losses_are_means_over_the_steps_and_one_of_weight_zero_is_not_learned() -> None:
    batch, tables = make_positions(1), make_tables(1)
    options = Learner(
        learning_rate=1e-6, weight_decay=0, value_weight=0.0, batch_size=1, num_updates=3
    )
    params, _, found = learn_on(TABLE, tables, batch, options)
    expected = losses_of(TABLE, tables, batch)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4), found, expected)
    assert (params["logits"] != tables["logits"]).any()
    np.testing.assert_array_equal(params["value"], tables["value"])


def learning_rates(options: Learner, num_steps: int) -> list[float]:
    """Computes the schedule from the weight decay of a matrix without gradients."""
    optimizer = make_optimizer(options, num_steps)
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    update = jax.jit(optimizer.update)
    state, rates = optimizer.init(params), []
    for _ in range(num_steps + 1):
        updates, state = update(jax.tree.map(jnp.zeros_like, params), state, params)
        assert (updates["bias"] == 0).all(), "biases are not decayed"
        rates.append(-float(updates["kernel"][0, 0]) / options.weight_decay)
    return rates


@pytest.mark.parametrize(
    ("warmup_steps", "num_steps", "expected"),
    [
        (4, 12, {0: 0.0, 2: 0.05, 4: 0.1, 8: 0.055, 12: 0.01}),
        (0, 8, {0: 0.1, 4: 0.055, 8: 0.01}),
        # A warm-up longer than the run is shortened, so the peak is reached.
        (50, 4, {0: 0.0, 3: 0.1, 4: 0.01}),
        (50, 1, {0: 0.1, 1: 0.01}),
    ],
)
def test_schedule(warmup_steps: int, num_steps: int, expected: dict[int, float]) -> None:
    options = Learner(learning_rate=0.1, warmup_steps=warmup_steps, weight_decay=0.5)
    rates = learning_rates(options, num_steps)
    for step, rate in expected.items():
        assert rates[step] == pytest.approx(rate, abs=1e-6), step


def test_gradients_are_clipped() -> None:
    optimizer = make_optimizer(Learner(max_gradient_norm=1.0, weight_decay=0), 5)
    params = {"kernel": jnp.zeros((2, 2)), "bias": jnp.zeros(2)}
    for size, norm in ((100.0, 1.0), (0.1, 0.1 * 6**0.5)):
        gradient = jax.tree.map(lambda x, size=size: jnp.full_like(x, size), params)
        _, state = jax.jit(optimizer.update)(gradient, optimizer.init(params), params)
        mean = optax.tree_utils.tree_get(state, "mu")
        assert float(optax.tree_utils.tree_norm(mean)) == pytest.approx(0.1 * norm, rel=1e-4)


ENVS = {"tic_tac_toe": games.make("tic_tac_toe"), "hex": games.make("hex", size=3)}
# None of these positions looks the same when it is turned, but the first of each game.
HISTORIES = {
    "tic_tac_toe": [[-1, -1, -1, -1], [0, 1, -1, -1], [4, 5, 0, -1], [2, 3, 6, 7]],
    "hex": [[-1, -1, -1, -1], [1, -1, -1, -1], [1, 9, -1, -1], [0, 1, 3, 2]],
}
COPIES = 300


def copy_positions(name: str) -> TrainingBatch:
    """Returns copies of four positions, with distinct weights for the actions."""
    states = jax.device_get(games.replay(ENVS[name], HISTORIES[name]))
    states = jax.tree.map(lambda x: np.repeat(x, COPIES, axis=0), states)
    weights = states.legal_action_mask * (1.0 + np.arange(states.legal_action_mask.shape[1]))
    number = np.arange(len(weights), dtype=np.float32)
    return TrainingBatch(
        observation=states.observation,
        legal_action_mask=states.legal_action_mask,
        policy=(weights / weights.sum(axis=1, keepdims=True)).astype(np.float32),
        value=number,
        remaining_discount=-number,
        is_truncated=number % 5 == 1,
        is_random=number % 3 == 1,
        search_value=number / 8,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVS)
def test_symmetries_are_drawn_uniformly_for_each_position(name: str) -> None:
    symmetries, batch = games.symmetries(ENVS[name]), copy_positions(name)
    augment, number = jax.jit(make_augment(*symmetries)), len(symmetries.action)
    found, same, other = (jax.device_get(augment(jax.random.key(x), batch)) for x in (0, 0, 1))
    assert all(map(np.array_equal, found, same))
    assert not np.array_equal(found.policy, other.policy)
    for position in range(4):
        i = position * COPIES
        flat = batch.observation[i].ravel()
        images = [
            (flat[entries].tobytes(), *(x[i][actions].tobytes() for x in batch[1:3]))
            for entries, actions in zip(*symmetries, strict=True)
        ]
        assert len(set(images)) == number
        counts = dict.fromkeys(images, 0)
        for j in range(i, i + COPIES):
            counts[tuple(x[j].tobytes() for x in found[:3])] += 1
        np.testing.assert_allclose(list(counts.values()), COPIES / number, atol=0.1 * COPIES)
    # The other fields do not change.
    jax.tree.map(np.testing.assert_array_equal, found[3:], batch[3:])


def test_a_game_without_symmetries_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^augment is True, but the game has no symm"):
        make_augment(*games.symmetries(games.make("nim")))
