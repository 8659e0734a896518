"""Move quality by leaves per step: `python -m benchmarks.leaves [RUN] [--json FILE]`.

The benchmark measures the share of contested Connect Four positions in which the move of
AlphaZero's search without noise keeps the game's value, by `leaves_per_step` and `virtual_loss`. A
perfect player (bitbully) labels the positions. They are those of the kind `games` of
`benchmarks.strength`, in which some legal move changes the value. RUN is a run's folder, an
exported file or a name, by default the packaged network.

The difference to the ordinary search is paired by position, in percentage points with its standard
error. "better, worse" counts the positions in which only one of the two searches keeps the value.
The last columns are means: the new nodes of a search, and the simulations per step. The latter is
measured over the first positions, each searched alone.
"""

import dataclasses
import math
import pathlib
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import dualmctx
import games
from benchmarks.common import make_parser, untrained_model, write_json
from benchmarks.connect_four import Positions, game_positions, make_solver
from dualmctx.runs.saved_network import load_trained
from dualmctx.types import Environment, PolicyValueNetwork

ORDINARY = (1, 0)
# Leaves per step and virtual losses.
SEARCHES = (ORDINARY, (8, 0), (16, 0), (64, 0), (8, 3), (16, 3), (64, 3))
# Number of positions by which the simulations per step are counted.
NUM_ALONE = 40


class Row(NamedTuple):
    """The measurements of a search; see the module."""

    leaves_per_step: int
    virtual_loss: int
    number: int
    keeps: float
    difference: float
    error: float
    better: int
    worse: int
    evaluated: float
    per_step: float


@dataclasses.dataclass
class CallCounter:
    """A network that counts its calls in `calls`."""

    network: PolicyValueNetwork
    calls: int = 0

    @property
    def head_depths(self) -> tuple[int, ...]:
        """The head depths of the network."""
        return self.network.head_depths

    def apply(self, *arguments: Any, **options: Any) -> Any:
        """Calls the network."""
        jax.debug.callback(self._count)
        return self.network.apply(*arguments, **options)

    def _count(self) -> None:
        self.calls += 1


def make_search(
    env: Environment, network: PolicyValueNetwork, budget: int, leaves: int, loss: int
) -> Any:
    """Makes `(params, states) -> ([B] actions, [B] positions evaluated)`, compiled."""
    execution = dualmctx.Execution(leaves_per_step=leaves, virtual_loss=loss)
    search = dualmctx.make_search_fn(
        env, network, dualmctx.AlphaZero(budget, execution=execution).for_evaluation()
    )

    def run(params: Any, states: Any) -> tuple[Any, Any]:
        output = search(params, jax.random.key(0), states)
        return output.action, jnp.sum(output.search_tree.edges >= 0, axis=-1)

    return jax.jit(run)


def count_per_step(
    env: Environment, network: PolicyValueNetwork, params: Any, states: Any, *options: int
) -> float:
    """Returns the mean number of simulations per step, in searches of one root each."""
    counted = CallCounter(network)
    search = make_search(env, counted, *options)
    number = states.current_player.shape[0]
    jax.block_until_ready(
        jax.lax.map(lambda state: search(params, jax.tree.map(lambda x: x[None], state)), states)
    )
    jax.effects_barrier()
    # The first call of each search is for the root.
    return number * options[0] / (counted.calls - number)


def compare(kept: np.ndarray, ordinary: np.ndarray) -> dict[str, Any]:
    """Compares `[S]` bool, whether the move keeps the value, with the ordinary search."""
    change = 100 * (kept.astype(float) - ordinary)
    return {
        "keeps": round(float(kept.mean()), 4),
        "difference": round(float(change.mean()), 2),
        "error": round(float(change.std(ddof=1)) / math.sqrt(len(change)), 2),
        "better": int(np.sum(kept & ~ordinary)),
        "worse": int(np.sum(~kept & ordinary)),
    }


def measure(
    subject: tuple[Any, Any, Any],
    positions: Positions,
    budget: int,
    searches: tuple[tuple[int, int], ...],
) -> list[Row]:
    """Measures searches, the ordinary one first.

    Args:
      subject: the game, the network and its parameters.
      positions: labelled positions.
      budget: simulations of a search.
      searches: leaves per step and virtual loss of each search.
    """
    env, network, params = subject
    number = len(positions.histories)
    states = games.replay(env, positions.histories)
    alone = jax.tree.map(lambda x: x[:NUM_ALONE], states)
    ordinary, rows = np.zeros(number, bool), []
    for leaves, loss in searches:
        found = make_search(env, network, budget, leaves, loss)(params, states)
        action, evaluated = (np.asarray(x) for x in found)
        kept = positions.keeping[np.arange(number), action]
        if (leaves, loss) == ORDINARY:
            ordinary = kept
        per_step = count_per_step(env, network, params, alone, budget, leaves, loss)
        means: dict[str, Any] = {
            "evaluated": round(float(evaluated.mean()), 1),
            "per_step": round(per_step, 1),
        }
        rows.append(Row(leaves, loss, number, **compare(kept, ordinary), **means))
        # Each row is printed when it is done: some take minutes.
        print(rows[-1], file=sys.stderr)
    return rows


def show(rows: list[Row], budget: int) -> None:
    """Prints the table."""
    names = "leaves per step", "virtual loss", "keeps the value", "difference", "better, worse"
    table = Table(*names, "positions evaluated", "per step", title=f"{budget} simulations")
    for row in rows:
        table.add_row(
            str(row.leaves_per_step),
            str(row.virtual_loss),
            f"{row.keeps:.4f} of {row.number}",
            f"{row.difference:+.2f} ± {row.error:.2f}",
            f"{row.better}, {row.worse}",
            f"{row.evaluated:.0f}",
            f"{row.per_step:.1f}",
        )
    Console().print(table)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("run", type=pathlib.Path, nargs="?", default=pathlib.Path("connect-four"), metavar="RUN")
    add("--simulations", type=int, default=400, help="simulations of each search")
    add("--number", type=int, default=800, help="number of positions to make")
    add("--seed", type=int, default=0, help="seed of the positions")
    options = parser.parse_args(arguments)
    if options.quick:
        options.number, options.simulations = 8, 24
    try:
        trained = None if options.quick else load_trained(options.run)
    except ValueError as error:
        parser.error(str(error))
    if trained and trained.record["game"] != "connect_four":
        parser.error(f"{options.run} is a network for {trained.record['game']}, not connect_four")
    subject = (trained.env, trained.network, trained.params) if trained else untrained_model()
    positions = game_positions(make_solver(), options.number, options.seed)
    searches = SEARCHES[:: 3 if options.quick else 1]
    rows = measure(subject, positions, options.simulations, searches)
    show(rows, options.simulations)
    write_json(options.json, [row._asdict() for row in rows])


if __name__ == "__main__":
    main()
