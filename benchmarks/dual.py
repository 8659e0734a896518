"""Times Dual MCTS against AlphaZero and MPV-MCTS: `python -m benchmarks.dual [--json FILE]`.

Each search makes one move for a batch of positions, all in one process and in turns. Times are
median milliseconds without compilation. AlphaZero takes 85 simulations; Dual and MPV-MCTS take
50 + 35. Two more searches cost as many blocks as Dual: AlphaZero with half of the simulations, and
AlphaZero with all of them by the early head. AlphaZero with the option `speculation` is the same
search in fewer and wider calls; the blocks of its wrong guesses are not counted. Positions from
`all` stages include games that are about to end, in which searches find few new nodes. The rest is
in benchmarks/README.md.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import dualmctx
import games
from benchmarks.common import (
    at_least_one,
    for_device,
    make_params,
    make_parser,
    search_by_puct,
    show,
    show_environment,
    time_in_turns,
)
from benchmarks.ledger import write_measurement
from dualmctx import MPV, AlphaZero, Dual, Execution, Root
from dualmctx.models.game_model import make_model
from dualmctx.policies.dual import in_rounds
from dualmctx.search.arrays import tree_where
from dualmctx.types import Environment

SMALL, LARGE = 50, 35
ROUNDS = (1, 5, 35)
CPU_BATCHES = (("early", 64), ("all", 64), ("early", 1))
GPU_BATCHES = (("early", 64), ("early", 512), ("early", 1024), ("all", 1024))
QUIET = Root(dirichlet_fraction=0.0)


class Row(NamedTuple):
    """A row of the table; ratios are of times, to the named searches."""

    positions: str
    B: int
    search: str
    rounds: int
    blocks: int
    ms: float
    over_mctx: float
    over_alphazero: float
    over_mpv: float | None


class Sizes(NamedTuple):
    """The sizes of a measurement."""

    small: int
    large: int
    rounds: tuple[int, ...]
    batches: tuple[tuple[str, int], ...]
    width: int


class Search(NamedTuple):
    """A search `(params, key, states) -> (weights, values)`, jitted.

    Attributes:
      run: the search; the values are those of all nodes in each tree.
      params: its parameters.
      blocks: its residual blocks per position.
    """

    run: Callable[..., Any]
    params: Any
    blocks: int


def make_searches(env: Environment, sizes: Sizes) -> dict[tuple[str, int], Search]:
    """Makes the searches by name and number of rounds."""
    state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(7), 1))

    def network(heads: tuple[int, ...], seed: int, **options: Any) -> tuple[Any, Any]:
        made = dualmctx.make_network(
            env.num_actions,
            env.observation_shape,
            trunk="conv",
            width=sizes.width,
            head_depths=heads,
            **options,
        )
        return made, make_params(made, state, seed)

    (dual, params), separate = network((2, 4), 0), network((4, 6), 1, separate_trunks=True)
    total, budgets = sizes.small + sizes.large, (sizes.small, sizes.large)
    final = make_model(env, dual)

    def theirs(params: Any, rng_key: Any, state: Any) -> Any:
        root = final.root_fn(params, state)
        c_puct = AlphaZero(total).puct.c_puct
        tree = search_by_puct(params, rng_key, root, final.recurrent_fn, total, c_puct)
        return tree.summary().visit_probs, tree.node_values

    def ours(policy: Any, network: Any, params: Any, blocks: int) -> Search:
        model = make_model(env, network, heads=policy.heads)

        def search(params: Any, rng_key: Any, state: Any) -> Any:
            root, invalid = model.root_fn(params, state), ~state.legal_action_mask
            functions = model.recurrent_fn, model.refine_fn
            output = policy(params, rng_key, root, *functions, invalid_actions=invalid)
            # Dual's weights do not depend on the large tree's last round. XLA would remove it.
            return output.action_weights, [tree.node_values for tree in output.search_tree.stats]

        return Search(jax.jit(search), params, blocks)

    # The large tree resumes the early head's evaluations, so each simulation costs two blocks.
    blocks = 2 * total
    half = blocks // 4
    named: dict[str, tuple[Any, int]] = {
        "AlphaZero": (AlphaZero(total, root=QUIET), 4 * total),
        "AlphaZero, speculation 4": (
            AlphaZero(total, root=QUIET, execution=Execution(speculation=4)),
            4 * total,
        ),
        f"AlphaZero, {half} simulations": (AlphaZero(half, root=QUIET), 4 * half),
        "AlphaZero, early head": (AlphaZero(total, head=0, root=QUIET), blocks),
    }
    searches = {("mctx AlphaZero", 0): Search(jax.jit(theirs), params, 4 * total)}
    searches |= {(x, 0): ours(y, dual, params, number) for x, (y, number) in named.items()}
    for rounds in sizes.rounds:
        policy = Dual(budgets, num_rounds=rounds, root=QUIET)
        searches["Dual", rounds] = ours(policy, dual, params, blocks)
        policy = MPV(budgets, in_rounds(budgets, rounds), root=QUIET)
        searches["MPV", rounds] = ours(policy, *separate, 4 * sizes.small + 6 * sizes.large)
    return searches


def make_positions(env: Environment, kind: str, batch_size: int) -> Any:
    """Plays random moves from the start.

    Kind "early" plays four moves in each game. Kind "all" plays i modulo 36 moves in game i. If a
    game ends earlier, its last position before the end is kept.
    """
    keys = jax.random.split(jax.random.PRNGKey(7), batch_size)
    state = jax.vmap(env.init)(keys)
    plies = jnp.full(batch_size, 4) if kind == "early" else jnp.arange(batch_size) % 36
    step = jax.jit(jax.vmap(env.step))
    is_playing = plies > 0
    for ply in range(int(jnp.max(plies))):
        noise = jax.random.uniform(jax.random.PRNGKey(ply), state.legal_action_mask.shape)
        action = jnp.argmax(jnp.where(state.legal_action_mask, noise, -1), axis=-1)
        after = step(state, action)
        is_playing &= (plies > ply) & ~after.terminated
        state = tree_where(is_playing, after, state)
    return state


def measure(
    env: Environment,
    searches: Mapping[tuple[str, int], Search],
    kind: str,
    batch_size: int,
    repeats: int,
) -> list[Row]:
    """Times all searches of `make_searches` in turns."""
    state, key = make_positions(env, kind, batch_size), jax.random.PRNGKey(0)
    runs = {x: functools.partial(y.run, y.params, key, state) for x, y in searches.items()}
    ms = {name: 1e3 * seconds for name, seconds in time_in_turns(runs, repeats).items()}
    return [
        Row(
            positions=kind,
            B=batch_size,
            search=name,
            rounds=rounds,
            blocks=search.blocks,
            ms=round(ms[name, rounds], 2),
            over_mctx=round(ms[name, rounds] / ms["mctx AlphaZero", 0], 3),
            over_alphazero=round(ms[name, rounds] / ms["AlphaZero", 0], 3),
            over_mpv=round(ms[name, rounds] / ms["MPV", rounds], 3) if rounds else None,
        )
        for (name, rounds), search in searches.items()
    ]


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__, repeats=7)
    add, text = parser.add_argument, "only this number of early positions"
    add("--rounds", type=at_least_one, nargs="+", default=ROUNDS, help="of Dual and MPV")
    add("--batch", type=at_least_one, metavar="B", help=text)
    options = parser.parse_args(arguments)
    batches = for_device(CPU_BATCHES, GPU_BATCHES)
    if options.batch:
        batches = (("early", options.batch),)
    sizes = Sizes(SMALL, LARGE, tuple(options.rounds), batches, width=64)
    if options.quick:
        sizes = Sizes(5, 4, (2,), (("early", 8), ("all", 8)), width=8)
    show_environment()
    rows = []
    env = games.make("connect_four")
    searches = make_searches(env, sizes)
    for kind, batch_size in sizes.batches:
        found = measure(env, searches, kind, batch_size, options.repeats)
        rows += found
        show(f"Connect Four, {batch_size} positions ({kind})", found)
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
