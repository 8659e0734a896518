"""The positions and the networks of `benchmarks.two_heads_networks`, and its sizes.

Connect Four has a perfect player, and tic-tac-toe its solution. A network of the package plays each
game. Others learn the exact labels, so that their heads differ much by their depth and by the
number of optimiser steps.
"""

import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import games
from benchmarks.connect_four import Positions, game_positions, labelled, random_positions
from dualmctx.matches.openings import position_digests
from dualmctx.models.network import make_network
from dualmctx.runs.atomic_io import atomic_path
from dualmctx.runs.saved_network import Trained
from dualmctx.types import Environment, Params, PolicyValueNetwork

BATCH_SIZE, LEARNING_RATE = 256, 1e-3


class Subject(NamedTuple):
    """A network of the benchmark, with its game and its parameters."""

    name: str
    env: Environment
    network: PolicyValueNetwork
    params: Params


class Data(NamedTuple):
    """Labelled positions: to learn from, and to test with."""

    learned: Positions
    tested: Positions


class Sizes(NamedTuple):
    """The sizes of the benchmark.

    Attributes:
      learned: labelled positions from which networks learn; after random play in Connect Four, and
        at most half of all positions in tic-tac-toe.
      tested: positions of each kind, after random play and from games; twice as many without kinds
        in tic-tac-toe.
      widths: features of the networks that are trained, by their trunk.
      head_depths: the depths of their heads.
      steps: optimiser steps after which a network is measured.
      budgets: costs of a search, in evaluations by the final head.
      roots: roots of the synthetic games.
    """

    learned: int = 12_000
    tested: int = 1000
    widths: tuple[tuple[str, int], ...] = (("conv", 16), ("mlp", 64))
    head_depths: tuple[int, ...] = (1, 2, 4, 8, 16)
    steps: tuple[int, ...] = (100, 500, 3000)
    budgets: tuple[int, ...] = (16, 64)
    roots: int = 4096


GAMES = {
    "connect-four": Sizes(),
    "tic-tac-toe": Sizes(
        widths=(("mlp", 64), ("conv", 16)), head_depths=(1, 16), steps=(50, 500), budgets=(4,)
    ),
}
QUICK = Sizes(64, 16, (("mlp", 8),), (1, 2), (2,), (4,), 64)


def make_data(folder: pathlib.Path, env: Environment, sizes: Sizes) -> Data:
    """Makes positions with exact labels, those of Connect Four in a folder that keeps them.

    No tested position is learned.
    """
    if games.is_solvable(env):
        return solved_data(env, sizes.learned, 2 * sizes.tested)

    def read(name: str, make: Any, number: int, seed: int) -> Positions:
        return labelled(folder / f"{name}.csv", lambda: make(number, seed))

    kinds = [
        read("random", random_positions, sizes.tested, 12),
        read("games", game_positions, sizes.tested, 12),
    ]
    found = Positions(*(np.concatenate(x) for x in zip(*kinds, strict=True)))
    known = read("learned", random_positions, sizes.learned, 11)
    boards = [position_digests(games.replay(env, x.histories)) for x in (known, found)]
    is_new = np.array([board not in set(boards[1]) for board in boards[0]])
    return Data(Positions(*(x[is_new] for x in known)), found)


def solved_data(env: Any, learned: int, tested: int) -> Data:
    """Divides the positions of a solved game at random, with their exact labels."""
    solution = games.solve(env)
    order = np.random.default_rng(0).permutation(len(solution.values))
    half = len(order) // 2
    values = solution.code_action_values[solution.codes].astype(np.float64)
    values[~solution.legal_actions] = np.nan
    found = Positions(solution.histories, values)
    learned_rows, tested_rows = order[:half][:learned], order[half:][:tested]
    return Data(*(Positions(*(x[rows] for x in found)) for rows in (learned_rows, tested_rows)))


def learn(
    env: Environment, network: PolicyValueNetwork, data: Positions, steps: tuple[int, ...]
) -> Iterator[tuple[int, Params]]:
    """Trains all heads of a network on the perfect player's moves and values.

    The target of a policy is uniform over the moves that keep the value.

    Yields:
      The steps so far and the parameters.
    """
    observations = np.asarray(games.replay(env, data.histories).observation)
    policies = data.keeping / data.keeping.sum(axis=1, keepdims=True)
    params = network.init(jax.random.PRNGKey(0), jnp.asarray(observations[:1]))
    optimizer = optax.adamw(LEARNING_RATE)
    opt_state = optimizer.init(params)

    def loss(params: Params, observation: Array, policy: Array, value: Array) -> Array:
        total = jnp.zeros(())
        for output in network.apply(params, observation):
            total += jnp.mean(optax.softmax_cross_entropy(output.logits, policy))
            total += jnp.mean(jnp.square(output.value - value))
        return total

    @jax.jit
    def update(params: Params, opt_state: Any, *batch: Array) -> tuple[Params, Any]:
        grads = jax.grad(loss)(params, *batch)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    rng = np.random.default_rng(0)
    for step in range(1, steps[-1] + 1):
        rows = rng.integers(len(policies), size=min(BATCH_SIZE, len(policies)))
        batch = observations[rows], policies[rows], data.values[rows]
        params, opt_state = update(params, opt_state, *map(jnp.asarray, batch))
        if step in steps:
            yield step, params


def subjects(
    folder: pathlib.Path, packaged: Trained, data: Positions, sizes: Sizes
) -> Iterator[Subject]:
    """Yields the networks; trains those that the folder does not have yet."""
    env = packaged.env
    yield Subject("package", env, packaged.network, packaged.params)
    shape, depths = env.observation_shape, sizes.head_depths
    for trunk, width in sizes.widths:
        blocks = {"num_blocks": depths[-1], "head_depths": depths}
        network = make_network(env.num_actions, shape, trunk=trunk, width=width, **blocks)
        empty = network.init(jax.random.PRNGKey(0), jnp.zeros((1, *shape)))
        files = {step: folder / f"{trunk}-{step}.msgpack" for step in sizes.steps}
        if not all(file.exists() for file in files.values()):
            for step, params in learn(env, network, data, sizes.steps):
                with atomic_path(files[step]) as draft:
                    draft.write_bytes(flax.serialization.to_bytes(params))
        for step, file in files.items():
            params = flax.serialization.from_bytes(empty, file.read_bytes())
            yield Subject(f"{trunk}, {step} steps", env, network, params)
