"""Large budgets on one Connect Four root: `python -m benchmarks.single_root [--json FILE]`.

The benchmark measures the time and memory of one search of the starting position, by the leaves per
step, against mctx with the same evaluation and the same PUCT rule. The evaluation is a hash of the
board, which costs almost nothing, or a trained network, by default the packaged one. Both sides
count the positions that they evaluated. Simulations that end at a terminal node evaluate nothing
here, while mctx continues below the node.

The full budget is 100,000 simulations on a CPU and 30,000 on a GPU. At a tenth of the budget, all
searches run in turns in one process, and medians are reported. At the full budget, our searches run
once more with the hash. mctx's time grows with the square of the budget, so at the full budget it
is extrapolated with a n + b n², fitted to smaller budgets. The fit is too low if mctx's arrays
outgrow the caches (163 s by the fit, 240 s in a full run). Memory is the size that XLA allocates
for the compiled search at that budget.
"""

import argparse
import functools
import statistics
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import dualmctx
import games
from benchmarks.common import (
    for_device,
    make_parser,
    run_in_turns,
    search_by_puct,
    show_environment,
    untrained_model,
    write_rows,
)
from dualmctx.models.game_model import make_model
from dualmctx.models.network import HeadOutput
from dualmctx.runs.saved_network import load_trained
from dualmctx.types import Environment, PolicyValueNetwork

LEAVES = (1, 8, 16, 64, 256)
C_PUCT = 1.25
MCTX = "mctx"


class Hash:
    """A network whose logits and values are hashes of the board, uniform in [-1, 1)."""

    head_depths = (1,)

    def __init__(self, num_actions: int) -> None:
        self.num_actions = num_actions

    def apply(self, params: Any, observation: Any, head: Any, method: Any) -> Any:
        """Evaluates `[B, ...]` observations."""
        del params, head, method
        cells = observation.reshape(observation.shape[0], -1).astype(jnp.uint32)
        code = cells @ _mix(jnp.arange(1, cells.shape[-1] + 1, dtype=jnp.uint32))
        hashes = _mix(code[:, None] ^ _mix(jnp.arange(7, 8 + self.num_actions, dtype=jnp.uint32)))
        outputs = (hashes >> 8).astype(jnp.float32) * 2.0**-23 - 1
        return None, HeadOutput(outputs[:, :-1], outputs[:, -1])


def _mix(bits: Any) -> Any:
    for factor in (0x7FEB352D, 0x846CA68B):
        bits = (bits ^ (bits >> 16)) * jnp.uint32(factor)
    return bits ^ (bits >> 16)


class Subject(NamedTuple):
    """An evaluation with its parameters, and the `[1, ...]` root state of the search."""

    name: str
    env: Environment
    network: PolicyValueNetwork
    params: Any
    state: Any


class Row(NamedTuple):
    """A search's time and memory; the table marks extrapolated times with ~.

    Attributes:
      evaluation: name of the evaluation.
      search: name of the search, with its leaves per step.
      simulations: number of simulations.
      positions: number of simulations that evaluated a position that was not in the tree.
      seconds: time of the search.
      us_per_position: microseconds per evaluated position.
      mib: memory in MiB.
      extrapolated: whether positions and seconds are extrapolated from smaller budgets.
    """

    evaluation: str
    search: str
    simulations: int
    positions: int
    seconds: float
    us_per_position: float
    mib: float
    extrapolated: bool = False


def make_search(subject: Subject, num_simulations: int, num_leaves: int) -> Callable:
    """Makes `(params, states) -> ([B] actions, [B] positions evaluated)`."""
    policy = dualmctx.AlphaZero(
        num_simulations,
        dualmctx.Puct(c_puct=C_PUCT),
        dualmctx.Root(dirichlet_fraction=0.0, temperature=0.0),
        execution=dualmctx.Execution(leaves_per_step=num_leaves),
    )
    search = dualmctx.make_search_fn(subject.env, subject.network, policy)

    def run(params: Any, states: Any) -> tuple[Any, Any]:
        output = search(params, jax.random.key(0), states)
        return output.action, jnp.sum(output.search_tree.edges >= 0, axis=-1)

    return run


def make_mctx_search(subject: Subject, num_simulations: int) -> Callable:
    """Makes the same function for mctx's search with our rule."""
    model = make_model(subject.env, subject.network)

    def run(params: Any, states: Any) -> tuple[Any, Any]:
        root, key = model.root_fn(params, states), jax.random.key(0)
        tree = search_by_puct(params, key, root, model.recurrent_fn, num_simulations, C_PUCT)
        action = jnp.argmax(tree.summary().visit_counts, axis=-1)
        return action, jnp.sum(tree.node_visits > 0, axis=-1) - 1

    return run


def make(subject: Subject, search: str, num_simulations: int) -> Callable:
    """Makes a search by its name in the table."""
    if search == MCTX:
        return make_mctx_search(subject, num_simulations)
    return make_search(subject, num_simulations, int(search.split()[-1]))


def compiled(run: Callable, subject: Subject) -> tuple[Callable, int]:
    """Returns the compiled search of the root, and the bytes that it allocates."""
    program = jax.jit(run).lower(subject.params, subject.state).compile()
    memory: Any = program.memory_analysis()
    size = memory.temp_size_in_bytes + memory.output_size_in_bytes
    return functools.partial(program, subject.params, subject.state), size


def measure(subject: Subject, searches: list[str], budget: int, repeats: int) -> list[Row]:
    """Measures searches at one budget in turns; with repeats, after a run that is not timed."""
    programs = {name: compiled(make(subject, name, budget), subject) for name in searches}
    runs = {name: run for name, (run, _) in programs.items()}
    if repeats > 1:
        run_in_turns(runs, 1)
    rows = []
    for name, found in run_in_turns(runs, repeats).items():
        seconds = statistics.median(taken for taken, _ in found)
        _, (_, positions) = found[0]
        rows.append(make_row(subject, name, budget, int(positions[0]), seconds, programs[name][1]))
        print(rows[-1], file=sys.stderr)
    return rows


def make_row(
    subject: Subject, search: str, budget: int, positions: int, seconds: float, size: int
) -> Row:
    """Makes the row of a measurement."""
    each = round(1e6 * seconds / positions, 1)
    mib = round(size / 2**20, 3)
    return Row(subject.name, search, budget, positions, round(seconds, 6), each, mib)


def extrapolate(subject: Subject, measured: Row, budget: int) -> Row:
    """Extrapolates mctx's time and positions from the measured budget and two smaller ones."""
    number = measured.simulations
    smaller = [measure(subject, [MCTX], n, 3)[0] for n in (max(1, number // 5), number // 2)]
    found = [*smaller, measured]
    terms = np.array([[float(row.simulations) ** p for p in (1, 2)] for row in found])
    # The fit is of relative errors, because the times differ widely. No term is negative.
    times = np.array([row.seconds for row in found])
    weights = np.linalg.lstsq(terms / times[:, None], np.ones(len(found)))[0]
    seconds = float(np.maximum(weights, 0) @ [float(budget), float(budget) ** 2])
    positions = round(measured.positions / number * budget)
    _, size = compiled(make(subject, MCTX, budget), subject)
    row = make_row(subject, MCTX, budget, positions, seconds, size)
    return row._replace(extrapolated=True)


def measure_all(options: argparse.Namespace) -> list[Row]:
    """Measures all rows of the table."""
    env = games.make("connect_four")
    state = jax.tree.map(lambda x: x[None], env.init(jax.random.key(0)))
    network, params = untrained_model()[1:] if options.quick else load_trained(options.network)[1:3]
    fast = Subject("hash", env, Hash(env.num_actions), None, state)
    trained = Subject("network", env, network, params, state)
    searches = [f"dualmctx, leaves per step {k}" for k in LEAVES[:: 4 if options.quick else 1]]
    part = options.simulations // 10
    network_rows = measure(trained, [*searches, MCTX], part, options.repeats)
    hash_rows = measure(fast, [*searches, MCTX], part, options.repeats)
    full = measure(fast, searches, options.simulations, 1)
    return [*network_rows, *hash_rows, *full, extrapolate(fast, hash_rows[-1], options.simulations)]


def show(rows: list[Row]) -> None:
    """Prints the table."""
    names = "evaluation", "search", "simulations", "positions", "seconds", "µs per position", "MiB"
    table = Table(*names)
    for row in rows:
        about = "~" if row.extrapolated else ""
        table.add_row(
            row.evaluation,
            row.search,
            f"{row.simulations:,}",
            f"{about}{row.positions:,}",
            f"{about}{row.seconds:,.2f}",
            f"{about}{row.us_per_position:,.0f}",
            f"{row.mib:.0f}",
        )
    Console().print(table)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    simulations = for_device(100_000, 30_000)
    add("--simulations", type=int, default=simulations, help="simulations of the largest search")
    add("--network", default="connect-four", help="a run's folder, a .safetensors file, or a name")
    add("--repeats", type=int, default=3, help="runs of each search at a tenth of the budget")
    options = parser.parse_args(arguments)
    if options.quick:
        options.simulations, options.repeats = 60, 1
    show_environment()
    rows = measure_all(options)
    show(rows)
    write_rows(options.json, [row._asdict() for row in rows])


if __name__ == "__main__":
    main()
