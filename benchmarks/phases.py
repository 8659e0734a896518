"""Profile of one simulation: `python -m benchmarks.phases [--games PRESET ...] [--json FILE]`.

The search is AlphaZero's, with the game, the network, the packing of the states and the limit of
children of a training preset. The parameters are random. The parts of a simulation are timed alone,
on trees that have run half of their simulations:

- `walk`: the descent from the roots to the leaves.
- `game step`: `env.step` for all leaves.
- `network`: one evaluation by the final head.
- `backup`: writing the new nodes, and the climb to the roots.
- `rest`: the time of a simulation in the whole search, less the sum of the four. It holds the reads
  of the states in the tree, their packing, the masks and the priors. It is negative if the parts
  are slower alone than in the search.

`simulation` is the time of a whole search divided by the number of simulations, so the rest also
holds a share of the root's evaluation. All times are medians, measured in turns in one process,
without compilation and without the time of an empty loop. A program runs in a loop inside one
jitted call, and each iteration depends on the previous one. The time of an iteration is the
difference between a long and a short loop, divided by the difference of their lengths. So the costs
of a call cancel out: its dispatch, and the copies of its arguments.
"""

import argparse
import functools
import statistics
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from benchmarks.common import for_device, make_parser, run_in_turns, show, show_environment
from benchmarks.ledger import write_measurement
from benchmarks.simulation_parts import (
    Program,
    Subject,
    make_programs,
    make_search_program,
    open_subject,
    run_half,
)
from dualmctx.training.presets import PRESETS

GAMES = ("connect-four", "go-9x9", "gardner-chess")
SIMULATION = "simulation"
# The largest number of iterations that a long loop has in addition to those of the short one.
MOST = 2000


class Row(NamedTuple):
    """A part of a simulation.

    Attributes:
      game: the preset.
      batch: number of roots.
      simulations: number of simulations of the whole search.
      depth: mean number of edges of the walks.
      part: the part, or `simulation` for the sum of all parts.
      us: its time in microseconds for the whole batch.
      share: its time as a share of the simulation's.
    """

    game: str
    batch: int
    simulations: int
    depth: float
    part: str
    us: float
    share: float


def make_loop(program: Program) -> Callable[[int], Any]:
    """Returns a function that runs a number of iterations.

    A GPU returns to the host in each iteration of a loop whose length is not known when it is
    compiled, so there the function is compiled for each length.
    """

    def loop(length: Any, inputs: Any, carry: Any) -> Any:
        return jax.lax.fori_loop(0, length, lambda _, carry: program.run(inputs, carry), carry)

    run = jax.jit(loop, static_argnums=for_device((), 0))
    return lambda length: run(length, program.inputs, program.carry)


def time_iterations(
    programs: Mapping[str, Program], seconds: float, repeats: int
) -> dict[str, float]:
    """Returns the median seconds of an iteration of each program, measured in turns.

    Args:
      programs: the programs by name.
      seconds: the time by which the long loop should exceed the short one. It is reached roughly,
        because the length is chosen by one run of the short loop.
      repeats: number of timed runs of each loop, after one that is not timed.
    """
    loops: dict[tuple[str, int], Callable[[], Any]] = {}
    for name, program in programs.items():
        run, short = make_loop(program), program.short
        loops[name, short] = functools.partial(run, short)
        # The first run includes the compilation.
        _, second = run_in_turns({name: loops[name, short]}, 2)[name]
        more = min(max(short, int(seconds * short / second[0])), MOST)
        loops[name, short + more] = functools.partial(run, short + more)
    run_in_turns(loops, 1)
    times = run_in_turns(loops, repeats)
    found = {}
    for name in programs:
        short, long = sorted(length for other, length in loops if other == name)
        pairs = zip(times[name, short], times[name, long], strict=True)
        found[name] = statistics.median(
            (two - one) / (long - short) for (one, _), (two, _) in pairs
        )
    return found


def measure(subject: Subject, seconds: float, repeats: int) -> list[Row]:
    """Times the parts and the whole search in turns."""
    half = run_half(subject)
    programs = make_programs(subject, half) | {SIMULATION: make_search_program(subject)}
    parts = time_iterations(programs, seconds, repeats)
    number = subject.policy.num_simulations
    whole, empty = parts.pop(SIMULATION) / number, parts.pop("empty")
    parts = {part: max(0.0, time - empty) for part, time in parts.items()}
    return make_rows((subject.preset, len(half.action), number, round(half.depth, 2)), parts, whole)


def make_rows(
    fields: tuple[str, int, int, float], parts: dict[str, float], whole: float
) -> list[Row]:
    """Makes the rows of a search.

    Args:
      fields: the first fields of each row.
      parts: the seconds of each part.
      whole: the seconds of a simulation in the whole search.
    """
    times = parts | {"rest": whole - sum(parts.values()), SIMULATION: whole}
    return [Row(*fields, x, round(1e6 * y, 3), round(y / whole, 4)) for x, y in times.items()]


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    for_gpu = [f"{game}-gpu" if f"{game}-gpu" in PRESETS else game for game in GAMES]
    chosen = for_device(list(GAMES), for_gpu)
    add("--games", nargs="+", default=chosen, choices=PRESETS, metavar="PRESET", help="presets")
    add("--batch", type=int, default=for_device(32, 2048), help="number of roots")
    add("--simulations", type=int, default=for_device(16, 64), help="simulations of the search")
    add("--repeats", type=int, default=7, help="timed runs of each loop and search")
    options = parser.parse_args(arguments)
    if options.quick:
        options.games, options.batch, options.simulations = ["tic-tac-toe"], 2, 4
        options.repeats = 1
    for name, least in (("batch", 1), ("simulations", 2), ("repeats", 1)):
        if (value := getattr(options, name)) < least:
            parser.error(f"--{name} is {value}; it must be at least {least}")
    return options


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    options = read_options(arguments)
    show_environment()
    seconds, rows = 0.005 if options.quick else 0.03, []
    for preset in options.games:
        subject = open_subject(preset, options.batch, options.simulations)
        found = measure(subject, seconds, options.repeats)
        title = f"{preset}: {options.batch:,} games, mean depth {found[0].depth}, µs"
        cells = [{"part": x.part, "µs": f"{x.us:,.1f}", "share": f"{x.share:.1%}"} for x in found]
        show(title, cells)
        rows += [row._asdict() for row in found]
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
