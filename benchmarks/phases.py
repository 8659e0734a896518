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
without compilation and without the time of an empty loop; see `benchmarks.looped`.

`at peak` is the least time for the part's operations and bytes at the peaks that are measured in
the same run; `of peak` is its share of the part's time. The counts are XLA's. Those of a walk and
of a climb are for one level, times the mean number of levels. On a CPU, the share may exceed 100 %,
because small arrays stay in its caches.
"""

import argparse
import functools
import statistics
from typing import NamedTuple

import jax
from rich.console import Console

from benchmarks.common import (
    for_device,
    make_parser,
    show_environment,
    write_rows,
)
from benchmarks.looped import (
    Cost,
    Peak,
    measure_peak,
    positive,
    time_iterations,
)
from benchmarks.simulation_parts import (
    Subject,
    count_parts,
    make_programs,
    make_search_program,
    open_subject,
    run_half,
)
from dualmctx.reports.numbers import show_share
from dualmctx.reports.table import Table
from dualmctx.training.presets import PRESETS

GAMES = ("connect-four", "go-9x9", "gardner-chess")
SIMULATION = "simulation"


class Row(NamedTuple):
    """A part of a simulation; times are in microseconds for the whole batch.

    Attributes:
      game: the preset.
      batch: number of roots.
      simulations: number of simulations of the whole search.
      depth: mean number of edges of the walks.
      part: the part, or `simulation` for the sum of all parts.
      us: its time.
      share: its time as a share of the simulation's.
      operations: number of operations; `None` for the rest.
      bytes: bytes read and written; `None` for the rest.
      peak_us: the least time for the operations and bytes; `None` for the rest.
      of_peak: the least time as a share of the measured time; `None` for the rest.
    """

    game: str
    batch: int
    simulations: int
    depth: float
    part: str
    us: float
    share: float
    operations: float | None = None
    bytes: float | None = None
    peak_us: float | None = None
    of_peak: float | None = None


def measure(subject: Subject, peak: Peak, seconds: float, repeats: int) -> list[Row]:
    """Times the parts and the whole search in turns."""
    half = run_half(subject)
    programs = make_programs(subject, half) | {SIMULATION: make_search_program(subject)}
    times = time_iterations(programs, seconds, repeats)
    parts = {part: positive(statistics.median(found)) for part, found in times.items()}
    number = subject.policy.num_simulations
    whole, empty = parts.pop(SIMULATION) / number, parts.pop("empty")
    parts = {part: max(0.0, time - empty) for part, time in parts.items()}
    fields = (subject.preset, len(half.action), number, round(half.depth, 2))
    dtype = subject.network.dtype
    costs = count_parts(subject, half)
    least = {part: peak.seconds(costs[part], dtype) for part in parts}
    return make_rows(fields, parts, whole, costs, least)


def make_rows(
    fields: tuple[str, int, int, float],
    parts: dict[str, float],
    whole: float,
    costs: dict[str, Cost],
    least: dict[str, float],
) -> list[Row]:
    """Makes the rows of a search.

    Args:
      fields: the first fields of each row.
      parts: the seconds of each part.
      whole: the seconds of a simulation in the whole search.
      costs: the cost of each part.
      least: the seconds of each part at the peaks.
    """

    def row(part: str, seconds: float) -> Row:
        return Row(*fields, part, round(1e6 * seconds, 3), round(seconds / whole, 4))

    def with_cost(row: Row, cost: Cost, seconds: float) -> Row:
        of_peak = round(1e6 * seconds / row.us, 4) if row.us else None
        return row._replace(**cost._asdict(), peak_us=round(1e6 * seconds, 3), of_peak=of_peak)

    total = functools.reduce(Cost.plus, costs.values())
    return [
        *(with_cost(row(part, parts[part]), costs[part], least[part]) for part in parts),
        row("rest", whole - sum(parts.values())),
        with_cost(row(SIMULATION, whole), total, sum(least.values())),
    ]


def show_rows(rows: list[Row], peak: Peak) -> None:
    """Prints the table of a search, and the share of each peak that the network reaches."""
    first = rows[0]
    size = f"{first.batch:,} games, {first.simulations} simulations, mean depth {first.depth}"
    columns = {
        "part": lambda row: row.part,
        "µs": lambda row: f"{row.us:,.1f}",
        "share": lambda row: f"{row.share:.1%}",
        "Mops": lambda row: "" if row.operations is None else f"{row.operations / 1e6:,.2f}",
        "MB": lambda row: "" if row.operations is None else f"{row.bytes / 1e6:,.2f}",
        "at peak, µs": lambda row: "" if row.operations is None else f"{row.peak_us:,.2f}",
        "of peak": lambda row: "" if row.operations is None else show_share(row.of_peak, 1),
    }
    Console().print(Table.of(f"{first.game}: {size}", columns, rows))
    [network] = [row for row in rows if row.part == "network"]
    if network.us:
        reached = network.operations / (1e-6 * network.us)
        print(
            f"Network: {reached / 1e9:,.0f} GFLOP/s, {reached / peak.float32:.1%} of the float32 "
            f"peak, {reached / peak.bfloat16:.1%} of the bfloat16 peak\n"
        )


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
    try:
        jax.devices("cpu")
    except RuntimeError:
        remedy = "unset JAX_PLATFORMS, or set it to cuda,cpu"
        parser.error(f"JAX has no CPU device, by which operations are counted: {remedy}")
    return options


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    options = read_options(arguments)
    show_environment()
    seconds = 0.005 if options.quick else 0.03
    peak = measure_peak(seconds, options.repeats, is_quick=options.quick)
    print(
        f"Peaks: {peak.float32 / 1e9:,.0f} GFLOP/s in float32, {peak.bfloat16 / 1e9:,.0f} GFLOP/s "
        f"in bfloat16, {peak.bytes / 1e9:,.1f} GB/s\n",
        flush=True,
    )
    rows = []
    for preset in options.games:
        subject = open_subject(preset, options.batch, options.simulations)
        found = measure(subject, peak, seconds, options.repeats)
        show_rows(found, peak)
        rows += [row._asdict() for row in found]
    write_rows(options.json, rows, peak=peak._asdict())


if __name__ == "__main__":
    main()
