"""Where real networks are on the map of two heads: `python -m benchmarks.two_heads_networks`.

For each network and each of its earlier heads, the benchmark measures the errors of both heads
against exact values, predicts the searches of `benchmarks.two_heads` by a synthetic game with the
same errors, and runs them in the real game from the same positions at the same cost. The cost of
the early head is its share of the residual blocks.

The networks are the package's for Connect Four, and networks of 16 blocks with heads after 1, 2, 4,
8 and 16, made of convolutions or of dense layers, that learn the values and the moves of a perfect
player. Each of them is measured after three numbers of optimiser steps. Positions, labels and
networks are kept in the folder `--out`. The same command continues after a stop.
"""

import argparse
import functools
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import flax.serialization
import jax
import jax.numpy as jnp
import mctx
import numpy as np
import optax
from jax import Array

import games
from benchmarks.common import make_parser, write_rows
from benchmarks.connect_four import (
    Positions,
    game_positions,
    labelled,
    make_solver,
    random_positions,
)
from benchmarks.two_heads import (
    Cell,
    Evaluations,
    Mix,
    Search,
    read_moves,
    run_search,
    searches,
    summarise,
)
from benchmarks.two_heads_errors import measure_errors, model_masses, predict
from benchmarks.two_heads_game import EARLY, FINAL
from benchmarks.two_heads_report import show_networks
from dualmctx import UserError, load_trained
from dualmctx.models.game_model import make_model
from dualmctx.models.network import make_network
from dualmctx.runs.atomic_io import atomic_path
from dualmctx.runs.folder import keep_settings
from dualmctx.runs.journal import read_rows, reopen_journal
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.runs.progress import showing
from dualmctx.search.refine import mix_priors
from dualmctx.types import Params, PolicyValueNetwork, RecurrentFn

GAME = "connect_four"
BATCH_SIZE, LEARNING_RATE = 256, 1e-3


class Subject(NamedTuple):
    """A network of the benchmark, with its parameters."""

    name: str
    network: PolicyValueNetwork
    params: Params


class Sizes(NamedTuple):
    """The sizes of the benchmark.

    Attributes:
      learned: labelled positions after random play, from which networks learn.
      tested: positions of each kind, after random play and from games of bots.
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


QUICK = Sizes(64, 16, (("mlp", 8),), (1, 2), (2,), (4,), 64)


class Data(NamedTuple):
    """Labelled positions: to learn from, and to test with."""

    learned: Positions
    tested: Positions


def make_data(folder: pathlib.Path, sizes: Sizes) -> Data:
    """Makes or reads the positions; no tested position is learned."""

    def read(name: str, make: Any, number: int, seed: int) -> Positions:
        return labelled(folder / f"{name}.csv", lambda: make(make_solver(), number, seed))

    learned = read("learned", random_positions, sizes.learned, 11)
    tested_kinds = [
        read(name, make, sizes.tested, 12)
        for name, make in (("random", random_positions), ("games", game_positions))
    ]
    tested = Positions(*(np.concatenate(x) for x in zip(*tested_kinds, strict=True)))
    env = games.make(GAME)
    boards = [np.asarray(games.replay(env, x.histories).observation) for x in (learned, tested)]
    known = {board.tobytes() for board in boards[1]}
    is_new = np.array([board.tobytes() not in known for board in boards[0]])
    return Data(Positions(*(x[is_new] for x in learned)), tested)


def learn(
    network: PolicyValueNetwork, data: Positions, steps: tuple[int, ...]
) -> Iterator[tuple[int, Params]]:
    """Trains all heads of a network on the perfect player's moves and values.

    The target of a policy is uniform over the moves that keep the value.

    Yields:
      The steps so far and the parameters.
    """
    env = games.make(GAME)
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


def subjects(folder: pathlib.Path, data: Positions, sizes: Sizes) -> Iterator[Subject]:
    """Yields the networks; trains those that the folder does not have yet."""
    packaged = load_trained("connect-four")
    yield Subject("package", packaged.network, packaged.params)
    env = games.make(GAME)
    shape = env.observation_shape
    depths = sizes.head_depths
    for trunk, width in sizes.widths:
        blocks = {"num_blocks": depths[-1], "head_depths": depths}
        network = make_network(env.num_actions, shape, trunk=trunk, width=width, **blocks)
        empty = network.init(jax.random.PRNGKey(0), jnp.zeros((1, *shape)))
        files = {step: folder / f"{trunk}-{step}.msgpack" for step in sizes.steps}
        if not all(file.exists() for file in files.values()):
            for step, params in learn(network, data, sizes.steps):
                with atomic_path(files[step]) as draft:
                    draft.write_bytes(flax.serialization.to_bytes(params))
        for step, file in files.items():
            params = flax.serialization.from_bytes(empty, file.read_bytes())
            yield Subject(f"{trunk}, {step} steps", network, params)


def evaluations(
    env: Any, network: PolicyValueNetwork, head: int, params: Params, state: Any
) -> Evaluations:
    """Returns the functions of a search by an early head and the final head of a network."""
    final = make_model(env, network)
    both = make_model(env, network, heads=(head, -1))

    def mixed(params: Params, logits: Array, value: Array, embedding: Any, mix: Mix) -> Any:
        later, later_value = both.refine_fn(params, None, embedding)
        prior = mix_priors(jax.nn.softmax(logits), jax.nn.softmax(later), mix[0])
        return jnp.log(prior), mix[1] * value + (1 - mix[1]) * later_value

    def root(mix: Mix) -> mctx.RootFnOutput:
        model = final if mix == FINAL else both
        found = model.root_fn(params, state)
        if mix in (EARLY, FINAL):
            return found
        logits, value = mixed(params, found.prior_logits, found.value, found.embedding, mix)
        return found.replace(prior_logits=logits, value=value)

    def step(mix: Mix) -> RecurrentFn:
        if mix in (EARLY, FINAL):
            return (final if mix == FINAL else both).recurrent_fn

        def run(params: Params, rng_key: Any, action: Array, embedding: Any) -> Any:
            found, embedding = both.recurrent_fn(params, rng_key, action, embedding)
            logits, value = mixed(params, found.prior_logits, found.value, embedding, mix)
            value = jnp.where(found.discount == 0, found.value, value)
            return found.replace(prior_logits=logits, value=value), embedding

        return run

    return Evaluations(root, step, both.refine_fn)


@functools.cache
def compile_search(network: PolicyValueNetwork, head: int, search: Search) -> Any:
    """Compiles a search as a function of parameters, states and the moves that keep the value.

    It returns the result of `read_moves`.
    """
    env = games.make(GAME)

    def run(params: Params, state: Any, keeps: Array) -> Array:
        functions = evaluations(env, network, head, params, state)
        key, invalid = jax.random.PRNGKey(0), ~state.legal_action_mask
        return read_moves(run_search(search, params, key, functions, invalid), keeps)

    return jax.jit(run)


def measure_searches(subject: Subject, head: int, cell: Cell, data: Positions) -> dict[str, Any]:
    """Runs the searches of a cell in the real game; returns their rows."""
    states, keeps = games.replay(games.make(GAME), data.histories), jnp.asarray(data.keeping)
    players = searches(cell)
    found = {
        name: compile_search(subject.network, head, search)(subject.params, states, keeps)
        for name, search in players.items()
    }
    return summarise(found, players)


def measure(subject: Subject, head: int, budget: int, data: Data, sizes: Sizes) -> dict[str, Any]:
    """Measures the errors of an early head and of the final head, and the searches by both."""
    depths = subject.network.head_depths
    errors = measure_errors(subject.network, subject.params, head, data.tested)
    cell = Cell("network", budget, depths[head] / depths[-1])
    contested = Positions(*(x[data.tested.is_contested] for x in data.tested))
    return {
        "network": subject.name,
        "depths": [depths[head], depths[-1]],
        "budget": budget,
        "number": len(contested.histories),
        "errors": errors.as_dict(),
        "model_masses": model_masses(errors, sizes.roots),
        "predicted": predict(errors, cell, sizes.roots),
        "measured": measure_searches(subject, head, cell, contested),
    }


def run(folder: pathlib.Path, sizes: Sizes) -> list[dict[str, Any]]:
    """Measures the pairs of heads that the folder does not have yet; returns all rows."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "rows.jsonl"
    with locked(lock_beside(file), file), showing() as show:
        keep_settings(folder, json.loads(json.dumps(sizes._asdict())), {})
        data = make_data(folder, sizes)
        journal, rows = reopen_journal(file), read_rows(file)
        known = [(row["network"], row["depths"][0], row["budget"]) for row in rows]
        for subject in subjects(folder, data.learned, sizes):
            heads = range(len(subject.network.head_depths) - 1)
            pairs = [(head, budget) for head in heads for budget in sizes.budgets]
            for done, (head, budget) in enumerate(pairs, start=1):
                if (subject.name, subject.network.head_depths[head], budget) not in known:
                    rows.append(measure(subject, head, budget, data, sizes))
                    journal.append(rows[-1:])
                show(subject.name, done, len(pairs))
    return rows


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__)
    folder = pathlib.Path("runs/two_heads_networks")
    parser.add_argument("--out", type=pathlib.Path, default=folder, help=f"default: {folder}")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    options = read_options(arguments)
    try:
        rows = run(options.out, QUICK if options.quick else Sizes())
    except (UserError, OSError) as error:
        sys.exit(f"two_heads_networks: {error}")
    except KeyboardInterrupt:
        sys.exit("two_heads_networks: stopped; the same command continues")
    show_networks(rows)
    write_rows(options.json, rows)


if __name__ == "__main__":
    main()
