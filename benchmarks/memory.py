"""Bytes per node of a search tree, for every game: `python -m benchmarks.memory [--json FILE]`.

- `mctx`: its Gumbel search with the embedding of pgx's AlphaZero example, which is the whole game
  state with its observation.
- `plain`: our AlphaZero search with its defaults.
- `compact`: the same search with packed states (`compact_states`) and, where a number C is given,
  C actions per node (`max_children`). `state` is the part of a packed game state; `share` is the
  ratio to mctx's bytes.
- `dual` and `dual16`: Dual with the same options, with the activations of the training command's
  network kept in float32 and in bfloat16.

All trees have 128 simulations and are traced without compiling. Arrays of the root alone are
divided among the nodes.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx

import dualmctx
import games
from benchmarks.common import make_parser, show
from benchmarks.ledger import write_measurement
from dualmctx.models.search_memory import num_bytes
from dualmctx.types import Environment

NUM_SIMULATIONS = 128
# Actions per node for games in which most actions are illegal in any state.
LIMITS = {"animal_shogi": 64, "gardner_chess": 64, "chess": 128, "shogi": 128}


class Row(NamedTuple):
    """A row of the table: bytes per node, and ratios."""

    game: str
    A: int
    mctx: int
    plain: int
    C: int | None
    state: int
    compact: int
    share: float
    dual: int
    dual16: int


class _Game(NamedTuple):
    env: Environment
    states: Any
    key: Any


def open_game(name):
    env = games.make(name)
    key = jax.ShapeDtypeStruct((2,), jnp.uint32)
    states = jax.eval_shape(lambda rng_key: jax.vmap(env.init)(jax.random.split(rng_key, 1)), key)
    return _Game(env, states, key)


def make_network(game, **options):
    shape = game.states.observation.shape[1:]
    return dualmctx.make_network(game.states.legal_action_mask.shape[1], shape, **options)


def mctx_bytes_per_node(game):
    """Returns the bytes per node of mctx's tree with pgx's embedding."""

    def search(rng_key, states):
        batch_size, num_actions = states.legal_action_mask.shape
        logits, value = jnp.zeros((batch_size, num_actions)), jnp.zeros(batch_size)

        def recurrent_fn(params, rng_key, action, embedding):
            output = mctx.RecurrentFnOutput(
                reward=value, discount=value, prior_logits=logits, value=value
            )
            return output, embedding

        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states)
        return mctx.gumbel_muzero_policy(None, rng_key, root, recurrent_fn, NUM_SIMULATIONS)

    output = jax.eval_shape(search, game.key, game.states)
    return bytes_per_node(output.search_tree)


def tree_shapes(game, policy, network, **options):
    """Returns the shapes of our tree."""
    search = dualmctx.make_search_fn(game.env, network, policy, **options)
    params = jax.eval_shape(network.init, game.key, game.states.observation)
    return jax.eval_shape(search, params, game.key, game.states).search_tree


def bytes_per_node(arrays):
    """Returns the bytes per node of a tree's arrays."""
    return num_bytes(arrays) // (NUM_SIMULATIONS + 1)


def child_limit(name):
    return dualmctx.Execution(max_children=LIMITS.get(name))


def compact_tree(name, game):
    """Returns the shapes of our smallest single tree."""
    policy = dualmctx.AlphaZero(NUM_SIMULATIONS, execution=child_limit(name))
    network = make_network(game, width=8, num_blocks=2)
    return tree_shapes(game, policy, network, compact_states=True)


def measure(name):
    """Measures the trees of a game."""
    game = open_game(name)
    plain, network = make_network(game, width=8, num_blocks=2), make_network(game)
    execution = child_limit(name)
    small = NUM_SIMULATIONS // 2
    dual = dualmctx.Dual((small, NUM_SIMULATIONS - small), execution=execution)
    compact = compact_tree(name, game)
    theirs = mctx_bytes_per_node(game)
    duals = [
        bytes_per_node(
            tree_shapes(game, dual, network, compact_states=True, activations_dtype=dtype)
        )
        for dtype in (jnp.float32, jnp.bfloat16)
    ]
    return Row(
        game=name,
        A=game.states.legal_action_mask.shape[1],
        mctx=theirs,
        plain=bytes_per_node(tree_shapes(game, dualmctx.AlphaZero(NUM_SIMULATIONS), plain)),
        C=execution.max_children,
        state=bytes_per_node(compact.embeddings.state),
        compact=bytes_per_node(compact),
        share=round(bytes_per_node(compact) / theirs, 3),
        dual=duals[0],
        dual16=duals[1],
    )


def main(arguments=None):
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__)
    options = parser.parse_args(arguments)
    rows = []
    for name in ["hsr"] if options.quick else games.available():
        row = measure(name)
        rows.append(row._asdict())
        print(f"{name}: {row.share} of mctx's bytes", flush=True)
    show("bytes per node", rows, missing="–")
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
