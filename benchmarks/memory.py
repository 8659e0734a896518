"""Bytes per node of a search tree, for every game: `python -m benchmarks.memory [--json FILE]`.

`plain` is our AlphaZero search with its defaults; `state` is the part of a packed game state;
`share` is the ratio of `compact` to mctx's bytes. All trees have 128 simulations and are traced
without compiling. Arrays of the root alone are divided among the nodes. The rest is in
benchmarks/README.md.
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


class Game(NamedTuple):
    """A game, and the shapes of a state and of a random key."""

    env: Environment
    states: Any
    key: Any

    @property
    def num_actions(self) -> int:
        """The number of actions."""
        return self.states.legal_action_mask.shape[1]

    def trace(self, policy: Any, width: int = 64, num_blocks: int = 4, **options: Any) -> Any:
        """Returns the shapes of our tree; `options` are those of `make_search_fn`."""
        shape = self.states.observation.shape[1:]
        sizes = {"width": width, "num_blocks": num_blocks}
        network = dualmctx.make_network(self.num_actions, shape, **sizes)
        search = dualmctx.make_search_fn(self.env, network, policy, **options)
        params = jax.eval_shape(network.init, self.key, self.states.observation)
        return jax.eval_shape(search, params, self.key, self.states).search_tree


def open_game(name: str) -> Game:
    """Opens a game."""
    env = games.make(name)
    key = jax.ShapeDtypeStruct((2,), jnp.uint32)
    states = jax.eval_shape(lambda rng_key: jax.vmap(env.init)(jax.random.split(rng_key, 1)), key)
    return Game(env, states, key)


def trace_mctx(game: Game) -> Any:
    """Returns the shapes of mctx's tree with pgx's embedding."""

    def search(rng_key: Any, states: Any) -> Any:
        batch_size, num_actions = states.legal_action_mask.shape
        logits, value = jnp.zeros((batch_size, num_actions)), jnp.zeros(batch_size)

        def recurrent_fn(params: Any, rng_key: Any, action: Any, embedding: Any) -> Any:
            output = mctx.RecurrentFnOutput(
                reward=value, discount=value, prior_logits=logits, value=value
            )
            return output, embedding

        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states)
        return mctx.gumbel_muzero_policy(None, rng_key, root, recurrent_fn, NUM_SIMULATIONS)

    return jax.eval_shape(search, game.key, game.states).search_tree


def bytes_per_node(arrays: Any) -> int:
    """Returns the bytes per node of a tree's arrays."""
    return num_bytes(arrays) // (NUM_SIMULATIONS + 1)


def measure(name: str) -> Row:
    """Measures the trees of a game."""
    game, small = open_game(name), NUM_SIMULATIONS // 2
    execution = dualmctx.Execution(max_children=LIMITS.get(name))
    single = dualmctx.AlphaZero(NUM_SIMULATIONS, execution=execution)
    dual = dualmctx.Dual((small, NUM_SIMULATIONS - small), execution=execution)
    compact = game.trace(single, width=8, num_blocks=2, compact_states=True)
    theirs, ours = bytes_per_node(trace_mctx(game)), bytes_per_node(compact)
    duals = [
        bytes_per_node(game.trace(dual, compact_states=True, activations_dtype=dtype))
        for dtype in (jnp.float32, jnp.bfloat16)
    ]
    plain = game.trace(dualmctx.AlphaZero(NUM_SIMULATIONS), width=8, num_blocks=2)
    return Row(
        game=name,
        A=game.num_actions,
        mctx=theirs,
        plain=bytes_per_node(plain),
        C=execution.max_children,
        state=bytes_per_node(compact.embeddings.state),
        compact=ours,
        share=round(ours / theirs, 3),
        dual=duals[0],
        dual16=duals[1],
    )


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    options = make_parser(__doc__).parse_args(arguments)
    rows = []
    for name in ["hsr"] if options.quick else games.available():
        rows.append(measure(name))
        print(f"{name}: {rows[-1].share} of mctx's bytes", flush=True)
    show("bytes per node", rows, missing="–")
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
