"""Positions per second of batch evaluation: `python -m benchmarks.evaluation [--json FILE]`.

Connect Four positions after four random moves are evaluated by `dualmctx.Evaluator` and by mctx in
a Python loop over the same batches, both from host arrays to host arrays, with the same network,
rule and number of simulations. mctx returns the action, the weights, and the root's value, visits
and Q. The evaluator also returns a principal variation, each head's evaluation and the legal
actions. `muzero` is the rule of mctx's MuZero in both; ties between equal visits are broken at
random. Times are medians of whole passes over all positions, in turns in one process, without
compilation.

`--host` times `dualmctx evaluate --out`, from a file of positions to a file of results, with a
trivial network (dense layers of four features) and one simulation: lines are read, moves are
parsed, and rows are written and merged. The time is the processor's, so other work on the machine
counts little. The rest is in benchmarks/README.md.
"""

import contextlib
import functools
import io
import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import mctx
import numpy as np

import dualmctx
import games
from benchmarks import pgx_loop
from benchmarks.common import at_least_one, make_params, make_parser, show, time_in_turns
from benchmarks.dual import make_positions
from benchmarks.ledger import write_measurement
from dualmctx.commands.evaluate import Task, write_file
from dualmctx.commands.process_settings import rare_collections
from dualmctx.commands.source import open_source
from dualmctx.evaluation.results_state import Results
from dualmctx.types import Environment, PolicyValueNetwork

SEARCHES = ("muzero", "gumbel")


class Sizes(NamedTuple):
    """The sizes of a measurement; every batch size divides the number of positions."""

    number: int
    batches: tuple[int, ...]
    simulations: int
    trunk: str
    width: int
    blocks: int


class Row(NamedTuple):
    """Both engines at a batch size; `ratio` is of positions per second."""

    network: str
    search: str
    batch: int
    ours_per_second: float
    mctx_per_second: float
    ratio: float
    ours_compile_s: float
    mctx_compile_s: float
    same: float


class Engine(NamedTuple):
    """A compiled `states -> [S] actions`, and its compile time in seconds."""

    evaluate: Callable[[Any], np.ndarray]
    compile_s: float


def make_network(env: Environment, sizes: Sizes) -> tuple[PolicyValueNetwork, Any]:
    """Makes a network with random parameters."""
    network = dualmctx.make_network(
        env.num_actions,
        env.observation_shape,
        trunk=sizes.trunk,  # pyright: ignore[reportArgumentType]
        width=sizes.width,
        num_blocks=sizes.blocks,
    )
    return network, make_params(network, make_positions(env, "early", 1), 0)


def mctx_engine(
    env: Environment,
    network: PolicyValueNetwork,
    params: Any,
    states: Any,
    *,
    search: str,
    sizes: Sizes,
    batch_size: int,
) -> Engine:
    """Makes the loop over mctx's search, without noise."""
    no_noise: dict[str, float] = {
        "muzero": {"dirichlet_fraction": 0.0, "temperature": 0.0},
        "gumbel": {"gumbel_scale": 0.0},
    }[search]
    search_fn = pgx_loop.make_search(
        env, network, pgx_loop.SEARCHES[search], sizes.simulations, **no_noise
    )

    @jax.jit
    def run(params: Any, rng_key: Any, state: Any) -> tuple:
        output = search_fn(params, rng_key, state)
        return output.action, output.action_weights, output.search_tree.summary()

    key = jax.random.PRNGKey(0)

    def batch(states: Any, first: int) -> Any:
        return jax.tree.map(lambda x: x[first : first + batch_size], states)

    start = time.perf_counter()
    compiled = run.lower(params, key, batch(states, 0)).compile()
    compile_s = time.perf_counter() - start

    def loop(states: Any) -> np.ndarray:
        starts = range(0, sizes.number, batch_size)
        found = [jax.device_get(compiled(params, key, batch(states, first))) for first in starts]
        return np.concatenate([action for action, *_ in found])

    return Engine(loop, compile_s)


def measure(search: str, sizes: Sizes, repeats: int) -> list[Row]:
    """Times both engines at all batch sizes in turns, each after a pass that is not timed."""
    env = games.make("connect_four")
    states = jax.device_get(make_positions(env, "early", sizes.number))
    network, params = make_network(env, sizes)
    policy = {"muzero": dualmctx.MuZero, "gumbel": dualmctx.Gumbel}[search](sizes.simulations)
    engines: dict[tuple[int, str], Engine] = {}
    for size in sizes.batches:
        start = time.perf_counter()
        found = dualmctx.make_evaluator(env, network, params, policy, batch_size=size)
        seconds = time.perf_counter() - start
        engines[size, "dualmctx"] = Engine(lambda x, found=found: found(x).action, seconds)
        engines[size, "mctx"] = mctx_engine(
            env, network, params, states, search=search, sizes=sizes, batch_size=size
        )
    actions = {name: engine.evaluate(states) for name, engine in engines.items()}
    runs = {name: functools.partial(x.evaluate, states) for name, x in engines.items()}
    medians = time_in_turns(runs, repeats)
    names = ("dualmctx", "mctx")

    def row(size: int) -> Row:
        rates = [sizes.number / medians[size, name] for name in names]
        compiling = [round(engines[size, name].compile_s, 2) for name in names]
        ours, theirs = (actions[size, name] for name in names)
        return Row(
            sizes.trunk,
            search,
            size,
            *(round(rate, 1) for rate in rates),
            round(rates[0] / rates[1], 2),
            *compiling,
            round(float(np.mean(ours == theirs)), 3),
        )

    return [row(size) for size in sizes.batches]


def measure_host(number: int, batch_size: int, repeats: int) -> dict[str, float]:
    """Times `dualmctx evaluate` on positions after 4 to 15 moves, without loading and compiling."""
    env = games.make("connect_four")
    network, params = make_network(env, Sizes(number, (batch_size,), 1, "mlp", 4, 1))
    policy = dualmctx.AlphaZero(1)
    evaluator = dualmctx.make_evaluator(env, network, params, policy, batch_size=batch_size)
    draws, slots, seconds = np.random.default_rng(0), np.repeat(np.arange(1, 8), 6), []
    with tempfile.TemporaryDirectory() as folder, rare_collections():
        positions = pathlib.Path(folder) / "positions.jsonl"
        with positions.open("w") as file:
            for i in range(number):
                moves = "".join(map(str, draws.permutation(slots)[: draws.integers(4, 16)]))
                file.write(json.dumps({"id": f"position-{i}", "moves": moves}) + "\n")
        for run in range(repeats + 1):
            results, start = Results(positions.with_name(f"{run}.jsonl"), {}), time.process_time()
            with open_source(str(positions)) as source, contextlib.redirect_stderr(io.StringIO()):
                write_file(Task(evaluator, source, strict=False), results, resume=False)
            seconds.append(time.process_time() - start)
    # The first run is not timed.
    row = statistics.median(seconds[1:]) / number
    return {"batch": batch_size, "microseconds": round(1e6 * row, 2), "per_second": round(1 / row)}


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__, repeats=3)
    add = parser.add_argument
    add("--only", choices=SEARCHES, help="one of the searches")
    add("--host", action="store_true", help="time the work of the host instead")
    add("--number", type=at_least_one, help="of positions (default: 1024; with --host 65536)")
    text = "default: 32 … 1024; with --host 4096"
    add("--batches", type=at_least_one, nargs="+", metavar="B", help=text)
    add("--simulations", type=at_least_one, default=32, help="per position")
    add("--trunk", choices=("conv", "mlp"), default="conv", help="of the network")
    text = "features of the network, with four residual blocks"
    add("--width", type=at_least_one, default=32, help=text)
    options = parser.parse_args(arguments)
    number = options.number or (65_536 if options.host else 1024)
    batches = options.batches or ([4096] if options.host else [32, 64, 128, 256, 512, 1024])
    sizes = Sizes(number, tuple(batches), options.simulations, options.trunk, options.width, 4)
    if options.quick:
        options.only, sizes = "gumbel", Sizes(8, (4,), 2, "mlp", 4, 1)
    wrong = [size for size in sizes.batches if sizes.number % size]
    if wrong:
        parser.error(f"--batches has {wrong[0]}; each must divide --number {sizes.number}")
    device = jax.devices()[0].device_kind
    title = f"{sizes}, mctx {mctx.__version__}, JAX {jax.__version__}, {device}"
    if options.host:
        found = [measure_host(sizes.number, x, options.repeats) for x in sizes.batches]
        show(f"{sizes.number} rows of dualmctx evaluate, {device}", found)
        write_measurement(options.json, found, number=sizes.number)
        return
    searches = [options.only] if options.only else list(SEARCHES)
    rows = []
    for search in searches:
        for row in measure(search, sizes, options.repeats):
            rows.append(row)
            print(row, flush=True)
    show(title, rows)
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
