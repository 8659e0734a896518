"""Weak scaling over devices: `python -m benchmarks.scaling [--json FILE]`.

The benchmark trains Connect Four with `make_trainer` on 1, 2, 4 and 8 devices, as far as there are
as many, with the same number of games and learned positions per device. `efficiency` is the rate
over that of as many single devices. `split` is the rate over that of one device with all these
games. It shows the cost of splitting if devices share their cores, as virtual devices of a CPU do:
`XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m benchmarks.scaling`.

Times and rates are medians over iterations, after one that is not timed. All runs take turns, one
iteration each, in one process.
"""

import math
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from rich.console import Console
from rich.table import Table

import dualmctx
import games
from benchmarks.common import make_parser, run_in_turns, write_json
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import make_trainer


class Sizes(NamedTuple):
    """The sizes of an iteration on one device, and the numbers of devices."""

    num_games: int
    num_steps: int
    num_simulations: int
    batch_size: int
    width: int
    numbers: tuple[int, ...]


FULL = Sizes(64, 8, 32, 128, 32, (1, 2, 4, 8))
QUICK = Sizes(2, 2, 2, 4, 4, (1,))


class Speed(NamedTuple):
    """Medians over the iterations of a run."""

    num_games: int
    selfplay_s: float
    learn_s: float
    per_second: float


class Row(NamedTuple):
    """A number of devices; times are per iteration."""

    devices: int
    num_games: int
    selfplay_s: float
    learn_s: float
    per_second: float
    efficiency: float
    split: float


def make_run(
    sizes: Sizes, num_devices: int, share: int, num_iterations: int
) -> Callable[[], dict[str, Any]]:
    """Compiles training; each call of the result runs an iteration and returns its metrics.

    Args:
      sizes: the sizes of an iteration on one device.
      num_devices: number of devices.
      share: multiple of `sizes` on each device.
      num_iterations: number of iterations.
    """
    times = num_devices * share
    env = games.make("connect_four")
    network = dualmctx.make_network(
        env.num_actions, env.observation_shape, width=sizes.width, num_blocks=2
    )
    num_games, batch_size = times * sizes.num_games, times * sizes.batch_size
    capacity = 4 * max(num_games * sizes.num_steps, batch_size)
    trainer = make_trainer(
        env,
        network,
        dualmctx.AlphaZero(sizes.num_simulations),
        SelfPlay(num_games=num_games, num_steps=sizes.num_steps),
        Learner(batch_size=batch_size, num_updates=4, capacity=capacity),
        num_iterations=num_iterations,
        devices=jax.devices()[:num_devices],
    )
    state = trainer.init(0)
    compiled = trainer.compile(state)

    def iterate() -> dict[str, Any]:
        nonlocal state
        state, row = compiled(state)
        return row

    return iterate


def summarize(num_games: int, rows: list[dict[str, Any]]) -> Speed:
    """Returns medians over iterations; the rate is the median of the iterations' rates."""
    both = [(row["selfplay_seconds"], row["learn_seconds"]) for row in rows]
    rates = [row["positions"] / sum(pair) for row, pair in zip(rows, both, strict=True)]
    selfplay, learn = (statistics.median(x) for x in zip(*both, strict=True))
    return Speed(num_games, selfplay, learn, statistics.median(rates))


def compare(spread: dict[int, Speed], together: dict[int, Speed]) -> list[Row]:
    """Makes the rows of the table.

    Args:
      spread: by number of devices, including 1: the speed on that many devices.
      together: by the same numbers: the speed of one device with all of their games.
    """
    single = spread[1].per_second
    return [
        Row(
            number,
            *speed,
            efficiency=speed.per_second / (number * single),
            split=speed.per_second / together[number].per_second,
        )
        for number, speed in spread.items()
    ]


def measure_all(sizes: Sizes, repeats: int) -> list[Row]:
    """Measures each number of devices that is available."""
    numbers = [number for number in sizes.numbers if number <= len(jax.devices())]
    # The number of devices, and the multiple of `sizes` on each.
    cases = dict.fromkeys([*((number, 1) for number in numbers), *((1, n) for n in numbers)])
    runs = {case: make_run(sizes, *case, repeats + 1) for case in cases}
    times = run_in_turns(runs, repeats + 1)
    speeds = {
        case: summarize(math.prod(case) * sizes.num_games, [row for _, row in found[1:]])
        for case, found in times.items()
    }
    return compare({n: speeds[n, 1] for n in numbers}, {n: speeds[1, n] for n in numbers})


def show(rows: list[Row]) -> None:
    """Prints the table."""
    names = ("devices", "games", "play, s", "learn, s", "positions/s", "efficiency", "split")
    table = Table(*names, title=jax.devices()[0].device_kind)
    for row in rows:
        table.add_row(
            *(f"{row.devices}", f"{row.num_games}"),
            *(f"{row.selfplay_s:.2f}", f"{row.learn_s:.2f}", f"{row.per_second:,.0f}"),
            *(f"{row.efficiency:.0%}", f"{row.split:.2f}"),
        )
    Console().print(table)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="timed iterations")
    options = parser.parse_args(arguments)
    rows = measure_all(QUICK if options.quick else FULL, options.repeats)
    show(rows)
    write_json(options.json, [row._asdict() for row in rows])


if __name__ == "__main__":
    main()
