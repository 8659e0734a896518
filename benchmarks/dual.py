"""Times Dual MCTS against AlphaZero and MPV-MCTS: `python -m benchmarks.dual [--json FILE]`.

The game is Connect Four with the paper's network: four residual blocks of 64 features, heads after
the second and the fourth. Each search makes one move for a batch of positions, all searches in one
process and in turns. Times are median milliseconds without compilation. `blocks` is the cost of a
search per position in residual blocks.

AlphaZero takes 85 simulations, with our engine and with mctx's search on the same functions and
with the same rule (`benchmarks.common.search_by_puct`). Dual takes 50 + 35. MPV-MCTS is the same
search with two separate networks of four and six blocks, so it resumes nothing. Two more searches
cost as many blocks as Dual: AlphaZero with half of the simulations, and AlphaZero with all of them
by the early head.

Positions are `early`, after four random moves each, or from `all` stages of games, as in self-play.
The latter include games that are about to end, in which searches find few new nodes. Batches have
up to 64 positions on a CPU and up to 1,024 on a GPU.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import dualmctx
import games
from benchmarks.common import (
    for_device,
    make_params,
    make_parser,
    search_by_puct,
    show,
    show_environment,
    time_in_turns,
    write_rows,
)
from dualmctx import MPV, AlphaZero, Dual, Root
from dualmctx.models.game_model import Model, make_model
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


def make_searches(env: Environment, sizes: Sizes) -> dict[tuple[str, int], tuple[Any, Any, int]]:
    """Makes the searches by name and number of rounds.

    Returns:
      For each search `(params, key, states) -> (weights, values)`: the jitted function, its
      parameters, and its blocks per position. The values are those of all nodes in each tree.
    """
    state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(7), 1))

    def network(heads: tuple[int, ...], **options: Any) -> Any:
        return dualmctx.make_network(
            env.num_actions,
            env.observation_shape,
            trunk="conv",
            width=sizes.width,
            head_depths=heads,
            **options,
        )

    dual, two = network((2, 4)), network((4, 6), separate_trunks=True)
    params, two_params = (make_params(net, state, seed) for seed, net in enumerate((dual, two)))
    total = sizes.small + sizes.large
    final, early = make_model(env, dual), make_model(env, dual, heads=(0,))
    halves = make_model(env, dual, heads=Dual().heads)
    pair = make_model(env, two, heads=MPV().heads)

    def ours(policy: Any, model: Model, params: Any) -> Any:
        def search(params: Any, rng_key: Any, state: Any) -> Any:
            root = model.root_fn(params, state)
            output = policy(
                params,
                rng_key,
                root,
                model.recurrent_fn,
                model.refine_fn,
                invalid_actions=~state.legal_action_mask,
            )
            # Dual's weights do not depend on the large tree's last round. XLA would remove it.
            return output.action_weights, [tree.node_values for tree in output.search_tree.stats]

        return jax.jit(search), params

    def theirs(params: Any, rng_key: Any, state: Any) -> Any:
        root = final.root_fn(params, state)
        c_puct = AlphaZero(total).puct.c_puct
        tree = search_by_puct(params, rng_key, root, final.recurrent_fn, total, c_puct)
        return tree.summary().visit_probs, tree.node_values

    # The large tree resumes the early head's evaluations, so each simulation costs two blocks.
    blocks = 2 * total
    searches = {
        ("mctx AlphaZero", 0): (jax.jit(theirs), params, 4 * total),
        ("AlphaZero", 0): (*ours(AlphaZero(total, root=QUIET), final, params), 4 * total),
    }
    half = blocks // 4
    policy = AlphaZero(half, root=QUIET)
    searches[f"AlphaZero, {half} simulations", 0] = (*ours(policy, final, params), 4 * half)
    policy = AlphaZero(total, head=0, root=QUIET)
    searches["AlphaZero, early head", 0] = (*ours(policy, early, params), blocks)
    budgets = (sizes.small, sizes.large)
    for rounds in sizes.rounds:
        policy = Dual(budgets, num_rounds=rounds, root=QUIET)
        searches["Dual", rounds] = (*ours(policy, halves, params), blocks)
        policy = MPV(budgets, in_rounds(budgets, rounds), root=QUIET)
        separate = 4 * sizes.small + 6 * sizes.large
        searches["MPV", rounds] = (*ours(policy, pair, two_params), separate)
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
    env: Environment, searches: dict, kind: str, batch_size: int, repeats: int
) -> list[Row]:
    """Times all searches of `make_searches` in turns."""
    state = make_positions(env, kind, batch_size)
    key = jax.random.PRNGKey(0)
    runs = {
        name: functools.partial(search, params, key, state)
        for name, (search, params, _) in searches.items()
    }
    ms = {name: 1e3 * seconds for name, seconds in time_in_turns(runs, repeats).items()}
    rows = []
    for name, rounds in searches:
        time_ms, mpv = ms[name, rounds], ms.get(("MPV", rounds))
        rows.append(
            Row(
                positions=kind,
                B=batch_size,
                search=name,
                rounds=rounds,
                blocks=searches[name, rounds][-1],
                ms=round(time_ms, 2),
                over_mctx=round(time_ms / ms["mctx AlphaZero", 0], 3),
                over_alphazero=round(time_ms / ms["AlphaZero", 0], 3),
                over_mpv=round(time_ms / mpv, 3) if mpv else None,
            )
        )
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="timed runs of each search")
    parser.add_argument(
        "--rounds", type=int, nargs="+", default=ROUNDS, metavar="R", help="rounds of Dual and MPV"
    )
    parser.add_argument(
        "--batch", type=int, metavar="B", help="only this number of early positions"
    )
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
        rows += [row._asdict() for row in found]
        show(f"Connect Four, {batch_size} positions ({kind})", rows[-len(found) :])
    write_rows(options.json, rows)


if __name__ == "__main__":
    main()
