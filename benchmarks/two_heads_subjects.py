"""The networks of `benchmarks.two_heads_networks`, and its sizes.

A network of the package plays each game. Others learn exact labels, so that their heads differ much
by their depth and by the number of optimiser steps.
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
from benchmarks.connect_four import Positions
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


class Sizes(NamedTuple):
    """The sizes of the benchmark.

    Attributes:
      learned: labelled positions after random play, from which networks learn.
      tested: positions of each kind, after random play and from games.
      widths: features of the networks that are trained, by their trunk.
      head_depths: the depths of their heads.
      steps: optimiser steps after which a network is measured.
      budgets: costs of a search, in evaluations by the final head.
      roots: roots of the synthetic games.
      plies: the least and the largest number of random moves before a position without exact label.
      label_cost: evaluations for the labels of a position by a search.
    """

    learned: int = 12_000
    tested: int = 1000
    widths: tuple[tuple[str, int], ...] = (("conv", 16), ("mlp", 64))
    head_depths: tuple[int, ...] = (1, 2, 4, 8, 16)
    steps: tuple[int, ...] = (100, 500, 3000)
    budgets: tuple[int, ...] = (16, 64)
    roots: int = 4096
    plies: tuple[int, int] = (8, 36)
    label_cost: int = 1600


# Of a game whose labels come from a search, which takes most of the time.
_SEARCHED = Sizes(learned=0, tested=200, widths=(), budgets=(16,), roots=2048)
GAMES = {
    "connect-four": Sizes(),
    "tic-tac-toe": Sizes(
        widths=(("mlp", 64), ("conv", 16)), head_depths=(1, 16), steps=(50, 500), budgets=(4,)
    ),
    "hex": _SEARCHED._replace(plies=(4, 32)),
    "othello": _SEARCHED._replace(plies=(8, 52)),
}
QUICK = Sizes(64, 16, (("mlp", 8),), (1, 2), (2,), (4,), 64, label_cost=32)
LABELS = ("exact", "search")
EXACT = ("connect-four", "tic-tac-toe")


def choose_sizes(game: str, labels: str, *, is_quick: bool) -> Sizes:
    """Returns the sizes for a game and a kind of labels.

    Labels by a search are those of the packaged network, so no other one learns them.
    """
    sizes = GAMES[game]
    if is_quick:
        searched = QUICK._replace(learned=0, widths=())
        return (QUICK if labels == "exact" else searched)._replace(plies=sizes.plies)
    return sizes if labels == "exact" or game not in EXACT else _SEARCHED


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
    shape = env.observation_shape
    depths = sizes.head_depths
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
