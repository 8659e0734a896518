"""The positions of the value stage: their loading, the regression on them, and its errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax

from dualmctx.datasets.loading import concatenate, first_rows, rebuild_positions
from dualmctx.datasets.manifest import read_manifest
from dualmctx.datasets.shards import Shard, read_shard, shard_paths
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluations import fill_batches, join
from dualmctx.pipeline.parts import ValueFn
from dualmctx.training.learner import permute
from dualmctx.types import Environment, Params

ONE, ALL = "one", "all"
"""Which positions of a game are learned: the first one after the random move, or all after it."""
# Size of the observations that are rebuilt at once.
_BUFFER_BYTES = 2**26
# Positions that are evaluated at once.
_AT_ONCE = 1024
# The mean error of fewer positions says nothing.
_MIN_UNSEEN = 30


class ValuePositions(NamedTuple):
    """`[P]` positions in random order.

    Attributes:
      observation: `[P, ...]` from the view of the player to move.
      value: `[P]` float32, the result of the game for the player to move.
      keys: `[P]` uint64, equal for positions that are equal up to a symmetry.
      num_games: the number of their games.
    """

    observation: np.ndarray
    value: np.ndarray
    keys: np.ndarray
    num_games: int


class ValueData(NamedTuple):
    """The positions of the value stage.

    Attributes:
      train: positions of training games, as many as there are training games.
      test: by `ONE` and `ALL`, positions of held-out games.
      is_unseen: bool for each position of `test[ONE]`, whether no position of `train` equals it, up
        to a symmetry.
    """

    train: ValuePositions
    test: dict[str, ValuePositions]
    is_unseen: np.ndarray

    @property
    def mean(self) -> float:
        """The mean value of the training positions: the best constant prediction."""
        return float(np.mean(self.train.value))


def load_value_data(
    env: Environment, folder: Path, which: str, max_test: int, seed: int
) -> ValueData:
    """Loads the positions of a data set of `make_value_games`.

    All training positions are in memory, with 4 bytes or less for each entry of an observation.

    Args:
      env: the game.
      folder: the folder of the data set.
      which: the positions for training: `ONE` of each game, or `ALL` of fewer games, which are
        sampled at random.
      max_test: largest number of held-out positions of each kind.
      seed: seed of the order, and of the games whose positions are all used.

    Raises:
      ValueError: if the data set is damaged, or has no game for training or none for the test.
    """
    num_games = read_manifest(folder).splits["train"]["games"]
    train = _load(env, folder, "train", which, num_games, seed)
    test = {name: _load(env, folder, "test", name, max_test, seed) for name in (ONE, ALL)}
    return ValueData(train, test, ~np.isin(test[ONE].keys, train.keys))


def _load(
    env: Environment, folder: Path, split: str, which: str, limit: int, seed: int
) -> ValuePositions:
    """Loads positions of games that are sampled at random, at most `limit` in all."""
    rng = np.random.default_rng([seed, 2])
    shards = [read_shard(path) for path in shard_paths(folder, split)]
    if which == ONE:
        shards = [shard.with_positions(first_rows(shard)) for shard in shards]
    if not shards:
        raise UserError(
            f"{folder} has no games in the split {split}; choose more --value.num-games or "
            "another --value.test-share, in another folder"
        )
    sampled = _sample_games(shards, limit, rng)
    found = concatenate([*rebuild_positions(env, sampled, _BUFFER_BYTES, folder)])
    rows = rng.permutation(len(found.value))[:limit]
    num_games = sum(len(order) for _, order in sampled)
    chosen = (x[rows] for x in (found.observation, found.value, found.keys))
    return ValuePositions(*chosen, num_games=num_games)


def _sample_games(
    shards: list[Shard], limit: int, rng: np.random.Generator
) -> list[tuple[Shard, np.ndarray]]:
    """Returns shards with the rows of games, sampled until they have `limit` positions."""
    sizes = [np.bincount(shard.games, minlength=len(shard.lengths)) for shard in shards]
    counts = np.concatenate(sizes)
    order = rng.permutation(len(counts))
    order = order[: np.searchsorted(np.cumsum(counts[order]), limit) + 1]
    parts, first = [], 0
    for shard in shards:
        end = first + len(shard.lengths)
        parts.append((shard, order[(order >= first) & (order < end)] - first))
        first = end
    return parts


LearnFn = Callable[[Params, Any, chex.PRNGKey, Any], tuple[Params, Any, chex.Array]]
"""Takes optimiser steps; see `make_learn`."""


def make_learn(
    value_fn: ValueFn,
    optimizer: optax.GradientTransformation,
    num_updates: int,
    batch_size: int,
    symmetries: Any = None,
) -> LearnFn:
    """Returns a function that trains a value network. A batch is sampled with replacement.

    The loss is the mean of (z − v)² over a batch, without a factor of a half.

    Args:
      value_fn: the network.
      optimizer: the optimiser.
      num_updates: optimiser steps per call.
      batch_size: positions per step.
      symmetries: `[S, D]` permutations of the flattened observation, of which one is applied to
        each position; `None` for none.

    Returns:
      `(part, opt_state, rng_key, positions) -> (part, opt_state, loss)`, compiled: the parameters;
      the state of the optimiser; a pair of observations `[P, ...]` and results `[P]`; the mean of
      the loss over the steps. The key is consumed.
    """

    @jax.jit
    def learn(part: Params, opt_state: Any, rng_key: chex.PRNGKey, positions: Any) -> tuple:
        observation, value = positions

        def step(carry: tuple, key: chex.PRNGKey) -> tuple:
            part, opt_state = carry
            sample_key, augment_key = jax.random.split(key)
            rows = jax.random.randint(sample_key, (batch_size,), 0, len(value))
            x = observation[rows]
            if symmetries is not None:
                chosen = jax.random.randint(augment_key, rows.shape, 0, len(symmetries))
                x = permute(x, jnp.asarray(symmetries)[chosen])

            def loss_fn(part: Params) -> chex.Array:
                return jnp.mean((value[rows] - value_fn(part, x)) ** 2)

            loss, gradients = jax.value_and_grad(loss_fn)(part)
            updates, opt_state = optimizer.update(gradients, opt_state, part)
            return (optax.apply_updates(part, updates), opt_state), loss

        keys = jax.random.split(rng_key, num_updates)
        (part, opt_state), losses = jax.lax.scan(step, (part, opt_state), keys)
        return part, opt_state, jnp.mean(losses)

    return learn


def measure_errors(
    value_fn: ValueFn, part: Params, data: ValueData, max_positions: int
) -> dict[str, float]:
    """Measures the mean squared errors of a value network against the results of games.

    At most `max_positions` of each kind are used; `data` has no more test positions than these.

    Returns:
      `value/train_mse` on the training positions, without symmetries; `value/test_mse` on the test
      positions, one per held-out game; `value/test_unseen_mse` on those that do not occur in
      training, if there are at least 30; and `value/test_games_mse` on all positions of held-out
      games. The same with `constant` as the name for the prediction of the mean training value.
    """
    predict = jax.jit(value_fn)

    def of_network(positions: ValuePositions) -> np.ndarray:
        observation, value = positions.observation[:max_positions], positions.value[:max_positions]
        batches = fill_batches(observation, _AT_ONCE)
        predicted = join([predict(part, batch) for batch in batches], len(value))
        return (value.astype(np.float64) - predicted) ** 2

    def of_constant(positions: ValuePositions) -> np.ndarray:
        return (positions.value - data.mean) ** 2

    found = {}
    for name, errors_of in (("value", of_network), ("constant", of_constant)):
        tested = errors_of(data.test[ONE])
        found[f"{name}/train_mse"] = float(errors_of(data.train).mean())
        found[f"{name}/test_mse"] = float(tested.mean())
        found[f"{name}/test_games_mse"] = float(errors_of(data.test[ALL]).mean())
        if data.is_unseen.sum() >= _MIN_UNSEEN:
            found[f"{name}/test_unseen_mse"] = float(tested[data.is_unseen].mean())
    return found
