"""Which policy to read from a search with two trees: `python -m benchmarks.readouts NETWORK ...`.

Each NETWORK plays Connect Four: the folder of a run, a `.safetensors` file, or the name of a
network that comes with the package. The positions and their labels are those of
`benchmarks.strength`.

For each search and each mode of `action_weights`, the benchmark measures `moves`, the share of
positions in which the most likely move keeps the game's value, and `mass`, the part of the policy
on such moves. The policy is the target of learning. All modes of a search read the same trees. The
searches are Dual's (MPV's on separate networks), and AlphaZero's with the final head and with the
first head alone, with as many blocks as Dual with 50 + 35 simulations and with 85 simulations.

Differences are paired by position: from the regularised policy of the first search, and from
AlphaZero with the final head and the same number of blocks. The number after ± is a standard error
over positions. With several networks, the means come last; there `spread` is the standard error
over networks. Networks are pooled if their heads have the same depths. `--noise` adds noise to the
first head, to show how the modes depend on its quality.
"""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

import dualmctx
import games
from benchmarks.common import make_parser, untrained_model, write_json
from benchmarks.connect_four import Positions, make_solver
from benchmarks.strength import GAME, find_positions
from dualmctx import MPV, AlphaZero, Dual
from dualmctx.evaluation.batching import fill_batches
from dualmctx.models.network import SeparateTrunks
from dualmctx.policies.costs import move_cost
from dualmctx.policies.mpv import in_rounds
from dualmctx.policies.multi_tree import ActionWeights, read_weights
from dualmctx.runs.saved_network import load_trained
from dualmctx.types import Environment, Policy, PolicyValueNetwork

BUDGETS = (50, 35)


class Subject(NamedTuple):
    """A network to measure."""

    name: str
    env: Environment
    network: PolicyValueNetwork
    params: Any


class Search(NamedTuple):
    """A search, and the modes in which its policy can be read."""

    name: str
    policy: Any
    modes: tuple[str, ...]


class Key(NamedTuple):
    """A search, the mode in which it is read, and its blocks per move."""

    search: str
    weights: str
    blocks: int | None


class Scores(NamedTuple):
    """The scores of a search in `[S]` positions: `moves` in {0, 1}, `mass` in [0, 1]."""

    moves: np.ndarray
    mass: np.ndarray


class Row(NamedTuple):
    """Means of a search over positions, and differences from two reference searches."""

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
    """Lists the searches for a network; the first of Dual and of AlphaZero are references."""
    make = _mpv if isinstance(network, SeparateTrunks) else _dual
    found = [
        Search(f"{budgets[0]}+{budgets[1]}, mix {mix}", make(budgets, mix), get_args(ActionWeights))
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
      ValueError: if it does not play Connect Four or has a single head.
    """
    trained = load_trained(source)
    game = trained.record["game"]
    if game != GAME:
        raise ValueError(f"{source} plays {game}; only {GAME} has a perfect player here")
    if len(trained.network.head_depths) < 2:
        raise ValueError(f"{source} has a single head; two trees need two")
    return Subject(str(source), trained.env, trained.network, trained.params)


def add_noise(subject: Subject, scale: float) -> Subject:
    """Adds normal noise to the first head: `scale` times the standard deviation of each array.

    With separate networks, the noise is added to the whole first network.
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
) -> list[list[Scores]]:
    """Measures all modes of a search in labelled positions.

    Returns:
      The scores for each kind of positions and each mode.
    """
    search_fn = dualmctx.make_search_fn(subject.env, subject.network, search.policy)

    @jax.jit
    def weigh(params: Any, states: Any) -> Any:
        output = search_fn(params, jax.random.PRNGKey(0), states)
        if search.modes == ("visits",):
            return output.action_weights[None]
        tree = output.search_tree
        # The searches have no noise, so the root's prior is that of the network.
        prior = tree.children_prior[:, tree.ROOT_INDEX]
        options = [dataclasses.replace(search.policy, action_weights=x) for x in search.modes]
        return jnp.stack([read_weights(x, tree, prior) for x in options])

    def score(positions: Positions) -> list[Scores]:
        states, number = games.replay(subject.env, positions.histories), len(positions.histories)
        batches = fill_batches(states, batch_size)
        found = [np.asarray(weigh(subject.params, batch)) for batch in batches]
        weights = np.concatenate(found, axis=1)[:, :number]
        keeping, row = positions.keeping, np.arange(number)
        return [
            Scores(keeping[row, x.argmax(axis=1)].astype(float), np.sum(x * keeping, axis=1))
            for x in weights
        ]

    return [score(positions) for positions in labelled]


def compare(name: str, positions: str, found: dict[Key, list[Scores]]) -> list[Row]:
    """Compares searches by their scores.

    Args:
      name: name of the network or networks.
      positions: the kind of positions.
      found: the scores of each search and mode, one entry per network, in the same order. The
        references are the first regularised policy and the first search of AlphaZero.

    Returns:
      One row per search and mode.
    """
    references = [
        next(x for x in found if x.weights == "regularized"),
        next(x for x in found if x.search.startswith("alphazero")),
    ]
    rows = []
    for key, some in found.items():
        means = (float(np.mean([getattr(x, part) for x in some])) for part in Scores._fields)
        differences = [
            difference(some, found[other], part) for other in references for part in Scores._fields
        ]
        moves, mass = (round(x, 4) for x in means)
        rows.append(Row(name, positions, *key, moves, mass, *differences))
    return rows


def difference(some: list[Scores], other: list[Scores], part: str) -> str:
    """Formats the difference of two searches, in points (hundredths), with standard errors.

    Args:
      some: the scores of one search, one entry per network.
      other: the scores of the other search, one entry per network.
      part: `moves` or `mass`.
    """
    pairs = zip(some, other, strict=True)
    # [networks, positions]
    points = 100 * np.array([getattr(x, part) - getattr(y, part) for x, y in pairs])
    text = f"{points.mean():+.2f} ± {_error(points.mean(axis=0)):.2f}"
    if len(points) == 1:
        return text
    return f"{text}, spread {_error(points.mean(axis=1)):.2f}"


def _error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def measure_all(
    subject: Subject, labelled: dict[str, Positions], batch_size: int, *, is_quick: bool = False
) -> dict[str, dict[Key, list[Scores]]]:
    """Measures all searches with a network, or the two references, in each kind of position."""
    found: dict[str, dict[Key, list[Scores]]] = {name: {} for name in labelled}
    chosen = searches(subject.network)
    if is_quick:
        chosen = [chosen[0], next(x for x in chosen if x.name.startswith("alphazero"))]
    for search in chosen:
        blocks = move_cost(search.policy, subject.network).blocks
        scores = measure(subject, search, labelled.values(), batch_size)
        for name, by_mode in zip(labelled, scores, strict=True):
            for mode, some in zip(search.modes, by_mode, strict=True):
                found[name][Key(search.name, mode, blocks)] = [some]
    return found


def print_rows(name: str, positions: str, found: dict[Key, list[Scores]]) -> list[Row]:
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
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("networks", type=pathlib.Path, nargs="*", metavar="NETWORK", help="folders, files or names")
    add("--positions", type=pathlib.Path, nargs="+", metavar="FILE.csv", help="labelled")
    add("--number", type=int, default=1000, help="positions to make, of each kind")
    add("--batch-size", type=int, default=250, help="positions searched at once")
    add("--seed", type=int, default=0, help="seed of the positions")
    add("--noise", type=float, default=0.0, help="noise added to the first head")
    options = parser.parse_args(arguments)
    if options.quick:
        options.number, options.batch_size = 4, 4
    elif not options.networks:
        parser.error("NETWORK is missing, such as connect-four, which comes with the package")
    return parser, options


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser, options = read_options(arguments)
    try:
        subjects = [load(source) for source in options.networks]
        labelled = find_positions(make_solver(), options)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    subjects = subjects or [Subject("untrained", *untrained_model())]
    subjects = [add_noise(subject, options.noise) for subject in subjects]
    rows: list[Row] = []
    pooled: dict[tuple[str, tuple[Key, ...]], dict[Key, list[Scores]]] = {}
    for subject in subjects:
        found = measure_all(subject, labelled, options.batch_size, is_quick=options.quick)
        for name, by_key in found.items():
            rows += print_rows(subject.name, name, by_key)
            # Networks with other head depths have other searches and costs.
            group = pooled.setdefault((name, tuple(by_key)), {})
            for key, some in by_key.items():
                group.setdefault(key, []).extend(some)
    for (name, keys), group in pooled.items():
        if (number := len(group[keys[0]])) > 1:
            rows += print_rows(f"{number} networks", name, group)
    write_json(options.json, [row._asdict() for row in rows])


if __name__ == "__main__":
    main()
