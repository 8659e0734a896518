"""Positions per second of whole training loops: `python -m benchmarks.throughput [--json FILE]`.

The loops run in one process and in turns, with the same network (ours, with one head), games side
by side, moves and optimiser steps per iteration. Rates and times are medians over iterations, after
one that is not timed, without compilation. The example starts new games in each iteration. With as
few moves as here, few or no games end, and nearly all of its values are masked: its optimiser steps
take as long, but it learns only policies. The time of the network alone is that of 20 evaluations
of all games, one after another, times the number of evaluations that self-play needs. The rest is
in benchmarks/README.md.
"""

import functools
import statistics
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import dualmctx
import games
from benchmarks import pgx_loop
from benchmarks.common import (
    at_least_one,
    for_device,
    make_parser,
    repeat,
    run_in_turns,
    show,
    show_environment,
)
from benchmarks.ledger import write_measurement
from benchmarks.pgx_loop import Loop, Sizes
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import make_trainer
from dualmctx.types import Environment, PolicyValueNetwork

CPU_CASES = (
    ("gumbel", Sizes(num_games=64, num_steps=16, num_simulations=32, batch_size=256)),
    ("gumbel", Sizes(num_games=512, num_steps=4, num_simulations=32, batch_size=512)),
    ("muzero", Sizes(num_games=64, num_steps=8, num_simulations=85, batch_size=256)),
)
GPU_CASES = (
    ("gumbel", Sizes(num_games=4096, num_steps=16, num_simulations=32, batch_size=4096)),
    ("muzero", Sizes(num_games=4096, num_steps=8, num_simulations=85, batch_size=4096)),
)
EXAMPLE = {"gumbel": "pgx example", "muzero": "pgx example, mctx's MuZero search"}
QUICK = (("muzero", Sizes(num_games=4, num_steps=4, num_simulations=2, batch_size=8)),)


class Row(NamedTuple):
    """An iteration of a loop; `ratio` is our positions per second over this loop's."""

    search: str
    num_games: int
    simulations: int
    loop: str
    positions: int
    selfplay_s: float
    learn_s: float
    per_second: float
    ratio: float


def our_loop(env: Environment, network: PolicyValueNetwork, search: str, sizes: Sizes) -> Loop:
    """Makes our loop with these sizes and the rule of the same name in `pgx_loop.SEARCHES`."""
    make_policy = {"gumbel": dualmctx.Gumbel, "muzero": dualmctx.MuZero}[search]
    positions = sizes.num_games * sizes.num_steps
    learner = Learner(
        learning_rate=sizes.learning_rate,
        batch_size=sizes.batch_size,
        num_updates=positions // sizes.batch_size,
        capacity=max(8 * positions, 4 * sizes.batch_size),
    )
    selfplay = SelfPlay(num_games=sizes.num_games, num_steps=sizes.num_steps)
    policy = make_policy(sizes.num_simulations)
    trainer = make_trainer(env, network, policy, selfplay, learner, num_iterations=100)
    return Loop(trainer.init, trainer.compile(trainer.init(0)))


def time_loops(loops: dict[str, Loop], repeats: int) -> dict[str, dict[str, float]]:
    """Returns each loop's medians over iterations, after one that is not timed."""
    states = {name: loop.iterate(loop.init(0))[0] for name, loop in loops.items()}

    def iterate(name: str) -> dict[str, float]:
        states[name], metrics = loops[name].iterate(states[name])
        return metrics

    found = run_in_turns({name: functools.partial(iterate, name) for name in loops}, repeats)
    # The network alone stands for more evaluations than it runs, so it reports its own seconds.
    rows = {
        name: [{"seconds": x} | metrics for x, metrics in times] for name, times in found.items()
    }
    names = ("positions", "selfplay_seconds", "learn_seconds", "seconds")
    return {
        loop: {name: statistics.median(row[name] for row in times) for name in names}
        for loop, times in rows.items()
    }


def network_loop(
    env: Environment, network: PolicyValueNetwork, sizes: Sizes, evaluations: int = 20
) -> Loop:
    """Makes a loop that only evaluates the network, for one position of each game.

    An iteration makes `evaluations` of them in a sequence, and reports the seconds of as many as
    self-play makes in an iteration.
    """
    params = network.init(jax.random.PRNGKey(0), jnp.zeros((1, *env.observation_shape)))
    observation = jnp.zeros((sizes.num_games, *env.observation_shape))
    calls = (sizes.num_simulations + 1) * sizes.num_steps
    positions = float(sizes.num_games * sizes.num_steps)

    def evaluate(params: Any, observation: Any) -> Any:
        return network.apply(params, observation)[-1]

    run = repeat(evaluate, params, observation, evaluations)

    def iterate(state: Any) -> tuple[Any, dict[str, float]]:
        start = time.perf_counter()
        jax.block_until_ready(run())
        seconds = (time.perf_counter() - start) * calls / evaluations
        times = {"seconds": seconds, "selfplay_seconds": seconds, "learn_seconds": 0.0}
        return state, times | {"positions": positions}

    return Loop(lambda seed: None, iterate)


def measure(
    case: tuple[str, Sizes], repeats: int, trunk: Any, width: int, blocks: int
) -> list[Row]:
    """Measures all loops on a case, with a network of a trunk, features and residual blocks."""
    search, sizes = case
    env = games.make("connect_four")
    network = dualmctx.make_network(
        env.num_actions,
        env.observation_shape,
        trunk=trunk,
        width=width,
        num_blocks=blocks,
        head_depths=(blocks,),
    )
    loops = {
        "dualmctx": our_loop(env, network, search, sizes),
        EXAMPLE[search]: pgx_loop.make_loop(env, network, search, sizes),
        "network alone": network_loop(env, network, sizes),
    }
    found = time_loops(loops, repeats)
    # All loops make equally many positions.
    ours = found["dualmctx"]["seconds"]
    return [
        Row(
            search=search,
            num_games=sizes.num_games,
            simulations=sizes.num_simulations,
            loop=name,
            positions=int(row["positions"]),
            selfplay_s=round(row["selfplay_seconds"], 3),
            learn_s=round(row["learn_seconds"], 3),
            per_second=round(row["positions"] / row["seconds"], 2),
            ratio=round(row["seconds"] / ours, 2),
        )
        for name, row in found.items()
    ]


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__, repeats=3)
    add = parser.add_argument
    add("--only", choices=("gumbel", "muzero"), help="the cases of one search")
    add("--trunk", choices=("conv", "mlp"), default="conv", help="of the network")
    add("--width", type=at_least_one, default=64, help="features of the network")
    add("--blocks", type=at_least_one, default=4, help="residual blocks of the network")
    options = parser.parse_args(arguments)
    cases = for_device(CPU_CASES, GPU_CASES)
    network = options.trunk, options.width, options.blocks
    if options.quick:
        cases, network = QUICK, ("mlp", 4, 1)
    cases = [case for case in cases if options.only in (None, case[0])]
    show_environment()
    rows = []
    for case in cases:
        for row in measure(case, options.repeats, *network):
            rows.append(row)
            print(row, flush=True)
    show("{} trunk, {} features, {} blocks".format(*network), rows)
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
