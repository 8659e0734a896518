"""Which policy to read off a search of two trees: `python -m benchmarks.readouts NETWORK ...`.

Each NETWORK plays Connect Four: the folder of a run, a `.npz` file, or the name of a network that
comes with the package. The positions and their labels are those of `benchmarks.strength`.

For each search and each mode of `action_weights`, the benchmark measures `moves`, the share of
positions in which the likeliest move keeps the game's value, and `mass`, the part of the policy on
such moves, which is the target of learning. All modes of a search read the same trees. The searches
are Dual's (MPV's on separate networks), and AlphaZero's with the final head and with the first head
alone, at as many blocks as Dual with 50 + 35 simulations and at 85 simulations.

Differences are paired by position: from the regularised policy of the first search, and from
AlphaZero with the final head at the same number of blocks. The number after ± is a standard error
over positions. Of several networks the means come last; there `spread` is the standard error over
networks. Networks are pooled if their heads stand at the same depths. `--noise` spoils the first
head, to tell how the modes depend on it.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from dualmctx.policies.trees import Weights, read_weights

import dualmctx
import games
from benchmarks.common import untrained
from benchmarks.connect_four import Positions, make_solver
from benchmarks.strength import GAME, find_positions
from dualmctx import MPV, AlphaZero, Dual
from dualmctx.evaluation.batching import fill_batches
from dualmctx.matches.costs import move_cost
from dualmctx.models.network import SeparateTrunks
from dualmctx.policies.mpv import in_rounds
from dualmctx.runs.saved_network import load_trained
from dualmctx.types import Environment, Policy, PolicyValueNetwork

BUDGETS = (50, 35)


class Subject(NamedTuple):
    """A network that is measured."""

    name: str
    env: Environment
    network: PolicyValueNetwork
    params: Any


class Search(NamedTuple):
    """A search, with as many modes as it can be read by."""

    name: str
    policy: Any
    modes: tuple[str, ...]


class Key(NamedTuple):
    """A search, how it is read, and the blocks of a move."""

    search: str
    weights: str
    blocks: int | None


class Found(NamedTuple):
    """What a search found in `[S]` positions: `moves` in {0, 1}, `mass` in [0, 1]."""

    moves: np.ndarray
    mass: np.ndarray


class Row(NamedTuple):
    """The means of a search over positions; differences are from two other searches."""

    network: str
    positions: str
    search: str
    weights: str
    blocks: int | None
    moves: float
    mass: float
    moves_less_regularized: str
    mass_less_regularized: str
    moves_less_alphazero: str
    mass_less_alphazero: str


def searches(network: PolicyValueNetwork) -> list[Search]:
    """Lists the searches for a network; the first Dual and the first AlphaZero are references."""
    make = _mpv if isinstance(network, SeparateTrunks) else _dual
    found = [
        Search(f"{budgets[0]}+{budgets[1]}, mix {mix}", make(budgets, mix), get_args(Weights))
        for budgets, mix in ((BUDGETS, 0.25), (BUDGETS, 0.0), ((75, 10), 0.0), ((43, 42), 0.25))
    ]
    blocks = move_cost(found[0].policy, network).blocks or 0
    first, last = (round(blocks / network.head_depths[head]) for head in (0, -1))
    alphazero = {
        f"alphazero {last}": AlphaZero(last),
        f"alphazero {first}, first head": AlphaZero(first, head=0),
        f"alphazero {sum(BUDGETS)}": AlphaZero(sum(BUDGETS)),
    }
    return found + [Search(name, x.for_evaluation(), ("visits",)) for name, x in alphazero.items()]


def _dual(budgets: tuple[int, int], mix: float) -> Policy:
    return Dual(budgets, value_mix=mix, prior_mix=mix).for_evaluation()


def _mpv(budgets: tuple[int, int], mix: float) -> Policy:
    return MPV(budgets, in_rounds(budgets, 5), mix, mix).for_evaluation()


def load(source: pathlib.Path) -> Subject:
    """Loads a network.

    Raises:
      ValueError: when it does not play Connect Four or has a single head, in one line.
    """
    trained = load_trained(source)
    game = trained.record["game"]
    if game != GAME:
        raise ValueError(f"{source} plays {game}; only {GAME} has a perfect player here")
    if len(trained.network.head_depths) < 2:
        raise ValueError(f"{source} has a single head; two trees need two")
    return Subject(str(source), trained.env, trained.network, trained.params)


def spoil(subject: Subject, scale: float) -> Subject:
    """Adds normal noise to the first head, of `scale` times the deviation of each array.

    On separate networks, to the whole first one.
    """
    is_separate = isinstance(subject.network, SeparateTrunks)
    prefix = f"params/{'networks_0' if is_separate else 'heads_0'}/"
    keys = iter(jax.random.split(jax.random.PRNGKey(1), len(jax.tree.leaves(subject.params))))

    def change(path: Any, x: Any) -> Any:
        if not jax.tree_util.keystr(path, simple=True, separator="/").startswith(prefix):
            return x
        return x + scale * jnp.std(x) * jax.random.normal(next(keys), x.shape)

    return subject._replace(params=jax.tree_util.tree_map_with_path(change, subject.params))


def measure(
    subject: Subject, search: Search, labelled: Iterable[Positions], batch_size: int
) -> list[list[Found]]:
    """Measures all modes of a search in labelled positions.

    Returns:
      For each kind of positions and each mode what the search found.
    """
    search_fn = dualmctx.make_search_fn(subject.env, subject.network, search.policy)

    @jax.jit
    def weigh(params: Any, states: Any) -> Any:
        output = search_fn(params, jax.random.PRNGKey(0), states)
        if search.modes == ("visits",):
            return output.action_weights[None]
        tree = output.search_tree
        # The searches are without noise, so the root's prior is the clean one.
        prior = tree.children_prior[:, tree.ROOT_INDEX]
        options = [dataclasses.replace(search.policy, action_weights=x) for x in search.modes]
        return jnp.stack([read_weights(x, tree, prior) for x in options])

    def score(positions: Positions) -> list[Found]:
        states, number = games.replay(subject.env, positions.histories), len(positions.histories)
        batches = fill_batches(states, batch_size)
        found = [np.asarray(weigh(subject.params, batch)) for batch in batches]
        weights = np.concatenate(found, axis=1)[:, :number]
        keeping, row = positions.keeping, np.arange(number)
        return [
            Found(keeping[row, x.argmax(axis=1)].astype(float), np.sum(x * keeping, axis=1))
            for x in weights
        ]

    return [score(positions) for positions in labelled]


def compare(name: str, positions: str, found: dict[Key, list[Found]]) -> list[Row]:
    """Compares searches by what they found.

    Args:
      name: of the network or networks.
      positions: the kind of positions.
      found: of each search and mode, with each network in the same order. The references are the
        first regularised policy and the first search of AlphaZero.

    Returns:
      A row for each search and mode.
    """
    references = [
        next(x for x in found if x.weights == "regularized"),
        next(x for x in found if x.search.startswith("alphazero")),
    ]
    rows = []
    for key, some in found.items():
        means = (float(np.mean([getattr(x, part) for x in some])) for part in Found._fields)
        differences = [
            difference(some, found[other], part) for other in references for part in Found._fields
        ]
        moves, mass = (round(x, 4) for x in means)
        rows.append(Row(name, positions, *key, moves, mass, *differences))
    return rows


def difference(some: list[Found], other: list[Found], part: str) -> str:
    """Says by how much one search is better, in points (hundredths), with standard errors.

    Args:
      some: of one search, with each network.
      other: of the other search, likewise.
      part: `moves` or `mass`.
    """
    pairs = zip(some, other, strict=True)
    # [networks, positions]
    points = 100 * np.array([getattr(x, part) - getattr(y, part) for x, y in pairs])
    told = f"{points.mean():+.2f} ± {_error(points.mean(axis=0)):.2f}"
    if len(points) == 1:
        return told
    return f"{told}, spread {_error(points.mean(axis=1)):.2f}"


def _error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def measure_all(
    subject: Subject, labelled: dict[str, Positions], batch_size: int
) -> dict[str, dict[Key, list[Found]]]:
    """Measures all searches with a network, in each kind of positions."""
    found: dict[str, dict[Key, list[Found]]] = {name: {} for name in labelled}
    for search in searches(subject.network):
        blocks = move_cost(search.policy, subject.network).blocks
        scores = measure(subject, search, labelled.values(), batch_size)
        for name, by_mode in zip(labelled, scores, strict=True):
            for mode, some in zip(search.modes, by_mode, strict=True):
                found[name][Key(search.name, mode, blocks)] = [some]
    return found


def tell(name: str, positions: str, found: dict[Key, list[Found]]) -> list[Row]:
    """Prints a table in Markdown and returns its rows."""
    rows = compare(name, positions, found)
    head = Row._fields[2:]
    print(f"\n{name}, {positions} positions\n")
    for cells in (head, ("---",) * len(head), *(row[2:] for row in rows)):
        print(f"| {' | '.join(map(str, cells))} |")
    sys.stdout.flush()
    return rows


def read_options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("networks", type=pathlib.Path, nargs="*", metavar="NETWORK", help="folders, files, names")
    add("--positions", type=pathlib.Path, nargs="+", metavar="FILE.csv", help="labelled ones")
    add("--number", type=int, default=1000, help="of positions to make, of each kind")
    add("--batch-size", type=int, default=250, help="positions searched at once")
    add("--seed", type=int, default=0, help="of positions")
    add("--noise", type=float, default=0.0, help="make the first head worse, by this scale")
    add("--json", type=pathlib.Path, metavar="FILE", help="write the rows here")
    add("--quick", action="store_true", help="a tiny size, to see that it runs")
    options = parser.parse_args(arguments)
    if options.quick:
        options.number, options.batch_size = 4, 4
    elif not options.networks:
        parser.error("NETWORK is missing: such as connect-four, which comes with the package")
    return parser, options


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser, options = read_options(arguments)
    try:
        subjects = [load(source) for source in options.networks]
        labelled = find_positions(make_solver(), options)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    subjects = subjects or [Subject("untrained", *untrained())]
    subjects = [spoil(subject, options.noise) for subject in subjects]
    rows: list[Row] = []
    pooled: dict[tuple[str, tuple[Key, ...]], dict[Key, list[Found]]] = {}
    for subject in subjects:
        found = measure_all(subject, labelled, options.batch_size)
        for name, by_key in found.items():
            rows += tell(subject.name, name, by_key)
            # Networks with heads at other depths have other searches and costs.
            group = pooled.setdefault((name, tuple(by_key)), {})
            for key, some in by_key.items():
                group.setdefault(key, []).extend(some)
    for (name, keys), group in pooled.items():
        if (number := len(group[keys[0]])) > 1:
            rows += tell(f"{number} networks", name, group)
    if options.json:
        options.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
