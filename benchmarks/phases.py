"""What takes the time of a simulation: `python -m benchmarks.phases [--games PRESET ...]`.

`rest` also holds a share of the root's evaluation. It is negative if the parts are slower alone
than in the search. All times are medians, measured in turns in one process, without compilation. A
part runs 100 times in one compiled loop, in which each call depends on the one before. The rest is
in benchmarks/README.md.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import games
from benchmarks.common import (
    at_least_one,
    for_device,
    make_params,
    make_parser,
    repeat,
    show,
    show_environment,
    time_in_turns,
)
from benchmarks.dual import QUIET, make_positions
from benchmarks.ledger import write_measurement
from dualmctx.experiment.assemble import record_of
from dualmctx.models.search_fn import make_search_fn
from dualmctx.policies import AlphaZero, Execution
from dualmctx.runs.network_record import build_network
from dualmctx.training.presets import PRESETS

GAMES = ("connect-four", "go-9x9", "gardner-chess")
LENGTH = 100
SIMULATION = "simulation"


class Row(NamedTuple):
    """A part of a simulation; `share` is its part of the simulation's time.

    Attributes:
      game: the preset.
      batch: number of roots.
      simulations: number of simulations of the whole search.
      part: the part, or `simulation` for the sum of all parts.
      us: its time in microseconds for the whole batch.
      share: its time as a share of the simulation's.
    """

    game: str
    batch: int
    simulations: int
    part: str
    us: float
    share: float


def make_runs(
    preset: str, batch_size: int, num_simulations: int, length: int
) -> dict[str, Callable[[], Any]]:
    """Makes `length` calls of each part, and the whole search as `SIMULATION`."""
    config = PRESETS[preset]
    env = games.make(config.game, **config.game_parameters)
    network = build_network(record_of(preset, config), env)
    states = make_positions(env, "all", batch_size)
    params, head = make_params(network, states, 0), len(network.head_depths) - 1
    execution = Execution(max_children=config.search.execution.max_children)
    policy = AlphaZero(num_simulations, root=QUIET, execution=execution)
    search_fn = make_search_fn(env, network, policy, **config.network.model_kwargs())

    def evaluate(params: Any, observation: Any) -> Any:
        return network.apply(params, observation, head, method="begin")[1]

    def step(_: None, inputs: Any) -> Any:
        return jax.vmap(env.step)(*inputs)

    @jax.jit
    def search(params: Any, states: Any) -> Any:
        return search_fn(params, jax.random.key(1), states).action_weights

    actions = jnp.argmax(states.legal_action_mask, axis=-1)
    return {
        "game step": repeat(step, None, (states, actions), length),
        "network": repeat(evaluate, params, states.observation, length),
        SIMULATION: functools.partial(search, params, states),
    }


def make_rows(fields: tuple[str, int, int], seconds: Mapping[str, float]) -> list[Row]:
    """Makes the rows of a search from its first fields and the seconds of parts and the whole."""
    whole = seconds[SIMULATION]
    parts = {name: time for name, time in seconds.items() if name != SIMULATION}
    times = parts | {"rest": whole - sum(parts.values()), SIMULATION: whole}
    return [Row(*fields, x, round(1e6 * y, 3), round(y / whole, 4)) for x, y in times.items()]


def measure(fields: tuple[str, int, int], length: int, repeats: int) -> list[Row]:
    """Times the parts and the whole search of a preset, in turns."""
    seconds = time_in_turns(make_runs(*fields, length), repeats)
    lengths = {SIMULATION: fields[2]}
    return make_rows(fields, {x: y / lengths.get(x, length) for x, y in seconds.items()})


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser = make_parser(__doc__, repeats=7)
    add = parser.add_argument
    for_gpu = [f"{game}-gpu" if f"{game}-gpu" in PRESETS else game for game in GAMES]
    chosen = for_device(list(GAMES), for_gpu)
    add("--games", nargs="+", default=chosen, choices=PRESETS, metavar="PRESET", help="presets")
    add("--batch", type=at_least_one, default=for_device(32, 2048), help="number of roots")
    add("--simulations", type=at_least_one, default=for_device(16, 64), help="of the search")
    options = parser.parse_args(arguments)
    if options.quick:
        options.games, options.batch, options.simulations = ["tic-tac-toe"], 2, 4
        options.repeats = 1
    show_environment()
    rows: list[Row] = []
    for preset in options.games:
        fields = preset, options.batch, options.simulations
        found = measure(fields, 2 if options.quick else LENGTH, options.repeats)
        cells = [{"part": x.part, "µs": f"{x.us:,.1f}", "share": f"{x.share:.1%}"} for x in found]
        show(f"{preset}: {options.batch:,} games, µs", cells)
        rows += found
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
