"""Large budgets on one Connect Four root: `python -m benchmarks.single_root [--json FILE]`.

Time and memory of one search of the starting position, by the leaves per step, beside mctx with the
same evaluation and the same PUCT rule. The evaluation is a hash of the board, which costs next to
nothing, or a trained network, by default the packaged one. Both sides count the positions that they
evaluated: simulations that end at a terminal node evaluate nothing here, while mctx goes on below.

At a tenth of the budget all searches run in turns in one process, and medians are reported. At the
full budget ours run once more with the hash. mctx's time grows with the square of the budget, so
there it is extrapolated, by a n + b n² fitted to smaller budgets, which is too kind to it where its
arrays outgrow the caches (163 s by the fit, 240 s in a full run). Memory is what XLA allots to the
compiled search at that budget.
"""

import argparse
import functools
import json
import pathlib
import statistics
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
import numpy as np
from rich.console import Console
from rich.table import Table

import dualmctx
import games
from benchmarks.common import run_in_turns, search_by_puct, untrained
from dualmctx.models.game_model import make_model
from dualmctx.models.network import HeadOutput
from dualmctx.runs.saved_network import load_trained
from dualmctx.types import Environment, PolicyValueNetwork

LEAVES = (1, 8, 16, 64, 256)
C_PUCT = 1.25
MCTX = "mctx"


class Hash:
    """Logits and values that are hashes of the board, uniform in [-1, 1)."""

    head_depths = (1,)

    def __init__(self, num_actions: int) -> None:
        self.num_actions = num_actions

    def apply(self, params: Any, observation: Any, head: Any, method: Any) -> Any:
        """Evaluates `[B, ...]` observations."""
        del params, head, method
        cells = observation.reshape(observation.shape[0], -1).astype(jnp.uint32)
        code = cells @ _mix(jnp.arange(1, cells.shape[-1] + 1, dtype=jnp.uint32))
        said = _mix(code[:, None] ^ _mix(jnp.arange(7, 8 + self.num_actions, dtype=jnp.uint32)))
        said = (said >> 8).astype(jnp.float32) * 2.0**-23 - 1
        return None, HeadOutput(said[:, :-1], said[:, -1])


def _mix(bits: Any) -> Any:
    for factor in (0x7FEB352D, 0x846CA68B):
        bits = (bits ^ (bits >> 16)) * jnp.uint32(factor)
    return bits ^ (bits >> 16)


class Subject(NamedTuple):
    """What evaluates positions, with its parameters, and the `[1, ...]` root of the search."""

    name: str
    env: Environment
    network: PolicyValueNetwork
    params: Any
    state: Any


class Row(NamedTuple):
    """A search's time and memory; times that are extrapolated are marked with ~.

    Attributes:
      evaluation: what evaluates positions.
      search: whose search, by how many leaves per step.
      simulations: of the search.
      positions: how many of them evaluated a position that was not in the tree.
      seconds: of the search.
      us_per_position: microseconds for each of these positions.
      mib: memory.
      extrapolated: whether positions and seconds come from smaller budgets.
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
    """Makes the same of mctx's search, with our rule."""
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
    """Returns the search of the root, compiled, and the bytes that it allots."""
    program = jax.jit(run).lower(subject.params, subject.state).compile()
    memory: Any = program.memory_analysis()
    size = memory.temp_size_in_bytes + memory.output_size_in_bytes
    return functools.partial(program, subject.params, subject.state), size


def measure(subject: Subject, searches: list[str], budget: int, repeats: int) -> list[Row]:
    """Measures searches of one budget in turns; with repeats, after a run that does not count."""
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
    """Makes a row of a measurement."""
    each = round(1e6 * seconds / positions, 1)
    mib = round(size / 2**20, 3)
    return Row(subject.name, search, budget, positions, round(seconds, 6), each, mib)


def extrapolate(subject: Subject, measured: Row, budget: int) -> Row:
    """Extends mctx's time and positions from the measured budget and two smaller ones."""
    number = measured.simulations
    smaller = [measure(subject, [MCTX], n, 3)[0] for n in (max(1, number // 5), number // 2)]
    found = [*smaller, measured]
    terms = np.array([[float(row.simulations) ** p for p in (1, 2)] for row in found])
    # Relative errors, as the times are far apart; times grow, so no term is negative.
    times = np.array([row.seconds for row in found])
    weights = np.linalg.lstsq(terms / times[:, None], np.ones(len(found)))[0]
    seconds = float(np.maximum(weights, 0) @ [float(budget), float(budget) ** 2])
    positions = round(measured.positions / number * budget)
    _, size = compiled(make(subject, MCTX, budget), subject)
    row = make_row(subject, MCTX, budget, positions, seconds, size)
    return row._replace(extrapolated=True)


def measure_all(options: argparse.Namespace) -> list[Row]:
    """Measures all rows."""
    env = games.make("connect_four")
    state = jax.tree.map(lambda x: x[None], env.init(jax.random.key(0)))
    network, params = untrained()[1:] if options.quick else load_trained(options.network)[1:3]
    fast = Subject("hash", env, Hash(env.num_actions), None, state)
    trained = Subject("network", env, network, params, state)
    searches = [f"dualmctx, leaves per step {k}" for k in LEAVES[:: 4 if options.quick else 1]]
    part = options.simulations // 10
    of_network = measure(trained, [*searches, MCTX], part, options.repeats)
    of_hash = measure(fast, [*searches, MCTX], part, options.repeats)
    full = measure(fast, searches, options.simulations, 1)
    return [*of_network, *of_hash, *full, extrapolate(fast, of_hash[-1], options.simulations)]


def show(rows: list[Row]) -> None:
    """Prints the table."""
    title = f"mctx {mctx.__version__}, JAX {jax.__version__}"
    names = "evaluation", "search", "simulations", "positions", "seconds", "µs a position", "MiB"
    table = Table(*names, title=title)
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--json", type=pathlib.Path, metavar="FILE", help="write the rows here")
    add("--simulations", type=int, default=100_000, help="of the largest search")
    add("--network", default="connect-four", help="a run's folder, a .npz file, or a name")
    add("--repeats", type=int, default=3, help="of each search at a tenth of the budget")
    add("--quick", action="store_true", help="a tiny size, to see that it runs")
    options = parser.parse_args(arguments)
    if options.quick:
        options.simulations, options.repeats = 60, 1
    rows = measure_all(options)
    show(rows)
    if options.json:
        text = json.dumps([row._asdict() for row in rows], indent=2)
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
