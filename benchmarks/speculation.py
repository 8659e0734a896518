"""Calls and time of AlphaZero with guessed leaves: `python -m benchmarks.speculation`.

The option `speculation` evaluates guesses of the next leaves in the call of the leaf that the
search asks for. The search stays the same. With it, one search takes fewer calls one after the
other, but wider ones, and some positions are evaluated in vain. `calls` is the mean number of
calls of a search, and `saved` how many times fewer they are than with width 1. `ms` is the median
time of a move of all roots of a batch. `of time` and `of processor time` are the medians of the
ratios to width 1; the searches of a ratio ran one right after the other. Compilation is not timed.

The roots are positions of Connect Four after random play and from games of bots. The networks are
the package's and a larger one, which has random parameters, so its search is another one.
"""

import argparse
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from benchmarks.common import make_params, make_parser, show, write_rows
from benchmarks.connect_four import game_positions, make_solver, random_positions
from dualmctx import AlphaZero, Execution, UserError, load_trained, make_network
from dualmctx.checks import check_count
from dualmctx.models.game_model import make_model
from dualmctx.runs.progress import showing
from dualmctx.types import Environment, Params, PolicyValueNetwork

GAME = "connect_four"


class Subject(NamedTuple):
    """A network with its parameters."""

    name: str
    network: PolicyValueNetwork
    params: Params


class Run(NamedTuple):
    """The time of one search in seconds, and its policy."""

    seconds: float
    processor: float
    weights: np.ndarray


def make_subjects(env: Environment, network: str, states: Any, quick: bool) -> list[Subject]:
    """Returns the package's network, or another one, and a larger one."""
    trained = load_trained(pathlib.Path(network), game=GAME)
    width, blocks = (8, 2) if quick else (64, 8)
    larger = make_network(
        env.num_actions, env.observation_shape, trunk="conv", width=width, num_blocks=blocks
    )
    return [
        Subject(network, trained.network, trained.params),
        Subject(f"conv {width} x {blocks}", larger, make_params(larger, states, 1)),
    ]


def make_search(
    env: Environment,
    network: PolicyValueNetwork,
    policy: AlphaZero,
    on_call: Callable[[Any], None] | None = None,
) -> Callable[..., Any]:
    """Compiles a search of states, which calls `on_call` with the actions of each evaluation."""
    model = make_model(env, network)

    def recurrent_fn(params: Params, rng_key: Any, action: Any, embedding: Any) -> Any:
        if on_call is not None:
            jax.debug.callback(on_call, action)
        return model.recurrent_fn(params, rng_key, action, embedding)

    def search(params: Params, states: Any) -> Any:
        root, mask = model.root_fn(params, states), states.legal_action_mask
        return policy(
            params, jax.random.PRNGKey(0), root, recurrent_fn, invalid_actions=~mask
        ).action_weights

    return jax.jit(search)


def count_calls(env: Environment, subject: Subject, policy: AlphaZero, batches: list[Any]) -> float:
    """Returns the mean number of calls of a search."""
    calls = list[Any]()
    search = make_search(env, subject.network, policy, calls.append)
    for states in batches:
        jax.block_until_ready(search(subject.params, states))
    jax.effects_barrier()
    return len(calls) / len(batches)


def time_search(search: Callable[..., Any], params: Params, states: Any) -> Run:
    """Runs a search once."""
    start, used = time.perf_counter(), time.process_time()
    weights = jax.block_until_ready(search(params, states))
    return Run(time.perf_counter() - start, time.process_time() - used, np.asarray(weights))


def measure(
    env: Environment, subject: Subject, batches: list[Any], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Measures all widths, and yields a row for each; the widths take turns."""
    widths = [1, *options.widths]
    policies = {
        width: AlphaZero(
            options.simulations, execution=Execution(speculation=width)
        ).for_evaluation()
        for width in widths
    }
    searches = {x: make_search(env, subject.network, policies[x]) for x in widths}
    for search in searches.values():
        jax.block_until_ready(search(subject.params, batches[0]))
    runs: dict[int, list[Run]] = {width: [] for width in widths}
    for _ in range(options.repeats):
        for states in batches:
            for width, search in searches.items():
                runs[width].append(time_search(search, subject.params, states))
    calls = {x: count_calls(env, subject, policies[x], batches) for x in widths}
    for width in widths:
        pairs = list(zip(runs[width], runs[1], strict=True))
        differing = sum(not np.array_equal(x.weights, y.weights) for x, y in pairs)
        yield {
            "network": subject.name,
            "roots": len(runs[1][0].weights),
            "width": width,
            "calls": round(calls[width], 1),
            "saved": round(calls[1] / calls[width], 2),
            "ms": round(1e3 * statistics.median(x.seconds for x in runs[width]), 1),
            "of time": round(statistics.median(x.seconds / y.seconds for x, y in pairs), 2),
            "of processor time": round(
                statistics.median(x.processor / y.processor for x, y in pairs), 2
            ),
            "other policies": differing,
        }


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--network", default="connect-four", help="as in dualmctx evaluate")
    add("--simulations", type=int, default=200, help="default: 200")
    add("--number", type=int, default=16, help="positions of each of two kinds; default: 16")
    add("--roots", type=int, nargs="+", default=[1, 16], help="of a search; default: 1 16")
    add("--widths", type=int, nargs="+", default=[4, 16], help="of a call; default: 4 16")
    add("--repeats", type=int, default=3, help="default: 3")
    options = parser.parse_args(arguments)
    if options.quick:
        options.simulations, options.number, options.repeats = 8, 1, 1
        options.roots, options.widths = [1], [4]
    return options


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    options, env = read_options(arguments), games.make(GAME)
    try:
        for name in ("simulations", "number", "repeats"):
            check_count(name, getattr(options, name), 1)
        solver, histories = make_solver(), []
        for make in (random_positions, game_positions):
            histories.append(make(solver, options.number, seed=5).histories)
        # The two kinds take turns, so that each batch has both.
        states = games.replay(env, np.stack(histories, axis=1).reshape(-1, histories[0].shape[1]))
        subjects = make_subjects(env, options.network, states, options.quick)
    except (UserError, OSError) as error:
        sys.exit(f"speculation: {error}")
    cases = [(subject, number) for subject in subjects for number in options.roots]
    rows, total = [], 2 * options.number
    with showing() as progress:
        for done, (subject, number) in enumerate(cases, start=1):
            starts = range(0, total - number + 1, number)
            batches = [jax.tree.map(lambda x, i=i, n=number: x[i : i + n], states) for i in starts]
            rows += measure(env, subject, batches, options)
            progress("cases", done, len(cases))
    show(f"{options.simulations} simulations, {total} positions", rows)
    write_rows(options.json, rows, simulations=options.simulations, positions=total)


if __name__ == "__main__":
    main()
