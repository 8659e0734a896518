"""Shared helpers of the benchmarks: flags, errors, rows, timing, mctx's search, networks."""

import argparse
import contextlib
import functools
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import mctx
import numpy as np
from rich.console import Console

from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.reports.table import Table
from dualmctx.runs.journal import read_rows, reopen_journal
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.training.divergence import FAILURES
from dualmctx.types import PolicyValueNetwork

# A number that no output of a measured function holds.
_NEVER = -12345.0
Row = dict[str, Any]
K = TypeVar("K")
T = TypeVar("T")


def make_parser(doc: str | None, repeats: int = 0) -> argparse.ArgumentParser:
    """Makes a parser with the first line of a docstring and the flags that all benchmarks have.

    Initialises the devices of JAX first, because the defaults of some flags depend on them. If the
    platform in `JAX_PLATFORMS` cannot be used, the program ends with exit code 2 and a message.

    Args:
      doc: the docstring.
      repeats: the default of `--repeats`, the number of timed runs; 0 for no such flag.
    """
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    try:
        require_backend(parser.prog)
    except ValueError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--quick", action="store_true", help="run a tiny size, as a smoke test")
    if repeats:
        text = "timed runs of each measurement (default: %(default)s)"
        parser.add_argument("--repeats", type=at_least_one, default=repeats, metavar="N", help=text)
    return parser


def at_least_one(text: str) -> int:
    """Reads a number of at least 1; the `type` of a flag."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of at least 1")
    return int(text)


def file_to_write(text: str) -> pathlib.Path:
    """Reads the path of a file, whose folder must exist; the `type` of a flag."""
    file = pathlib.Path(text)
    if not file.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{file.parent} is not a folder; make it first")
    if file.is_dir():
        raise argparse.ArgumentTypeError(f"{file} is a folder; name a file")
    return file


@contextlib.contextmanager
def ending(
    parser: argparse.ArgumentParser, stopped: str = "stopped; the same command continues"
) -> Generator[None]:
    """Ends the program with one line after bad input (exit code 2) and after Ctrl-C (130).

    The line after Ctrl-C is `stopped`; that of a program that keeps nothing is only "stopped".
    """
    try:
        yield
    except (UserError, OSError, *FAILURES) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    except KeyboardInterrupt:
        parser.exit(130, f"{parser.prog}: {stopped}\n")


def for_device(cpu: T, accelerator: T) -> T:
    """Returns the first value if JAX computes on a CPU, the second one on a GPU or a TPU."""
    return cpu if jax.default_backend() == "cpu" else accelerator


def get_environment() -> dict[str, Any]:
    """Returns the device, the versions and the settings of number types."""
    device = jax.devices()[0]
    return {
        "device": device.device_kind,
        "platform": device.platform,
        "cpu_cores": os.cpu_count(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "mctx": mctx.__version__,
        "float": str(jnp.zeros(()).dtype),
        "matmul_precision": str(jax.config.jax_default_matmul_precision or "default"),
    }


def show_environment() -> None:
    """Prints the device, the versions and the settings of number types."""
    found = get_environment()
    print(
        f"Device: {found['device']}, with {found['cpu_cores']} CPU cores\n"
        f"JAX {found['jax']}, mctx {found['mctx']}, {found['float']}, "
        f"{found['matmul_precision']} matmul precision",
        flush=True,
    )


@contextlib.contextmanager
def keeping_rows(file: pathlib.Path) -> Generator[tuple[list[Row], Callable[[Row], None]]]:
    """Locks a journal; yields its rows, and a function that appends one to both.

    Raises:
      UserError: if the journal is damaged, or another process writes to it.
    """
    with locked(lock_beside(file), file):
        journal, rows = reopen_journal(file), read_rows(file)

        def append(row: Row) -> None:
            journal.append([row])
            rows.append(row)

        yield rows, append


def as_dicts(rows: Iterable[Any]) -> list[Row]:
    """Returns rows, which may be named tuples, as dictionaries."""
    return [row._asdict() if hasattr(row, "_asdict") else row for row in rows]


def show(title: str, found: Sequence[Any], missing: str = "") -> None:
    """Prints rows as a table, with `missing` for `None`; prints nothing without rows."""
    rows = as_dicts(found)

    def text(cell: Any) -> str:
        return missing if cell is None else f"{cell:,}" if type(cell) is int else str(cell)

    if rows:
        head = tuple(str(name).replace("_", " ") for name in rows[0])
        Console().print(Table(title, head, [tuple(map(text, row.values())) for row in rows]))


def run_in_turns(
    runs: Mapping[K, Callable[[], Any]], repeats: int
) -> dict[K, list[tuple[float, Any]]]:
    """Runs each function `repeats` times, in turns; returns the seconds and result of each run."""
    found: dict[K, list[tuple[float, Any]]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            result = jax.block_until_ready(run())
            found[name].append((time.perf_counter() - start, result))
    return found


def time_in_turns(runs: Mapping[K, Callable[[], Any]], repeats: int) -> dict[K, float]:
    """Returns the median seconds of each function, after one run that is not timed."""
    run_in_turns(runs, 1)
    return {
        name: statistics.median(seconds for seconds, _ in times)
        for name, times in run_in_turns(runs, repeats).items()
    }


def mean_and_error(values: Any) -> tuple[float, float]:
    """Returns the mean of `[N]` numbers and its standard error, which is NaN for one number."""
    found = np.asarray(values, np.float64)
    error = found.std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else np.nan
    return float(found.mean()), float(error)


def repeat(
    function: Callable[[Any, Any], Any], fixed: Any, inputs: Any, length: int
) -> Callable[[], Any]:
    """Compiles `length` calls of a function of arrays in one loop; returns a function that runs it.

    Each call depends on the output of the one before, so XLA cannot move it out of the loop.

    Args:
      function: `(fixed, inputs) -> output`.
      fixed: arrays that are read in all calls.
      inputs: arrays that XLA must take to be new in each call; they stay the same.
      length: the number of calls.
    """
    shapes = jax.eval_shape(function, fixed, inputs)
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    @jax.jit
    def run(fixed: Any, inputs: Any) -> Any:
        def body(_: Any, output: Any) -> Any:
            is_never = jnp.ravel(jax.tree.leaves(output)[0])[0].astype(jnp.float32) == _NEVER
            same = jax.tree.map(lambda x: jnp.where(is_never, jnp.zeros_like(x), x), inputs)
            return function(fixed, same)

        return jax.lax.fori_loop(0, length, body, empty)

    return functools.partial(run, fixed, inputs)


def search_by_puct(
    params: Any, rng_key: Any, root: Any, recurrent_fn: Any, num_simulations: int, c_puct: float
) -> Any:
    """Runs mctx's search with our PUCT rule and no noise; returns mctx's tree."""
    select = functools.partial(_puct, c_puct=c_puct)
    return mctx.search(
        params=params,
        rng_key=rng_key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=functools.partial(select, depth=0),
        interior_action_selection_fn=select,
        num_simulations=num_simulations,
    )


def _puct(rng_key: Any, tree: Any, node_index: Any, depth: Any, *, c_puct: float) -> Any:
    del rng_key, depth
    visits = tree.children_visits[node_index]
    prior = jax.nn.softmax(tree.children_prior_logits[node_index])
    qvalues = jnp.where(visits > 0, tree.qvalues(node_index), 0.0)
    total = jnp.maximum(jnp.sum(visits), 1)
    score = qvalues + c_puct * prior * jnp.sqrt(total) / (1 + visits)
    # The prior of an illegal action is 0.
    return jnp.argmax(jnp.where(prior > 0, score, -jnp.inf)).astype(jnp.int32)


def make_params(network: PolicyValueNetwork, state: Any, seed: int) -> Any:
    """Makes random parameters with non-zero heads; the heads of a new network are zero."""
    params = network.init(jax.random.PRNGKey(seed), state.observation[:1])
    leaves, treedef = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.PRNGKey(seed + 1), len(leaves))
    noisy = [x + 0.05 * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(treedef, noisy)
