"""The paper's search over budgets, at equal network cost: `python -m benchmarks.budgets NETWORK`.

NETWORK is a run's folder, an exported file or the name of a network that comes with the package. It
has two heads and plays Connect Four or a game with an exact solution. The paper samples b_full,
takes b_sub = γ b_full with γ in [1, 1.5], and keeps the best pair over several runs. Here both are
sampled uniformly, and a pair is kept if its blocks per move are within 2 % of those of the pair of
`--budgets`, because larger budgets would win otherwise. Each pair is measured on the same positions
by the share of moves that keep the game's value. In Connect Four, a perfect player labels the
positions, half of each kind of `benchmarks.strength`. In other games, they are the reachable
positions in which some move loses value.

The best of n pairs is partly the luckiest. The benchmark therefore computes how good the best of n
equal pairs would look by chance: the results at each position are permuted among the pairs. It also
measures the best pair again on fresh positions, next to the pair of `--budgets` and to AlphaZero's
search with as many blocks, by the final head and by the early head alone. Differences are paired by
position and have standard errors.

Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 3.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import jax
import numpy as np

import dualmctx
import games
from benchmarks.common import make_parser, show, write_json
from benchmarks.connect_four import game_positions, make_solver, random_positions
from dualmctx import AlphaZero, Dual
from dualmctx.evaluation.evaluations import make_evaluate
from dualmctx.policies.costs import move_cost
from dualmctx.policies.multi_tree import ActionWeights
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.types import Environment, Policy

Budgets = tuple[int, int]
"""b_sub and b_full."""
LEAST_RATIO, LARGEST_RATIO = 1.0, 1.5
# Largest relative difference of a pair's blocks from the target; tries per pair.
TOLERANCE, TRIES = 0.02, 10_000
SHUFFLES = 1000


class Labelled(NamedTuple):
    """S positions: `[S]` states, and `[S, A]` bool, the moves that keep the value."""

    states: Any
    keeping: np.ndarray

    def select(self, rows: np.ndarray) -> "Labelled":
        """Returns the positions with these indices."""
        return Labelled(jax.tree.map(lambda x: x[rows], self.states), self.keeping[rows])


class Scores(NamedTuple):
    """In S positions: `[S]` bool, whether the move keeps the value; `[S]` weight on such moves."""

    is_right: np.ndarray
    weight: np.ndarray


class Row(NamedTuple):
    """A pair of budgets, measured on the positions by which the best pair is chosen."""

    small: int
    large: int
    ratio: float
    blocks: int
    moves: float
    weight: float


class FreshRow(NamedTuple):
    """A search on fresh positions; `difference` is that of `moves` to the pair of `--budgets`."""

    search: str
    budgets: str
    blocks: int
    moves: float
    difference: float
    standard_error: float
    weight: float


class Chance(NamedTuple):
    """The result that the best of n equal pairs would have by chance.

    Attributes:
      mean: mean over the shuffles of the best pair's share of moves.
      high: the share that the best pair exceeds in 5 % of the shuffles.
      at_least: share of the shuffles in which the best pair is as good as the one observed.
    """

    mean: float
    high: float
    at_least: float


def sample_budgets(
    rng: np.random.Generator, number: int, blocks_of: Callable[[Budgets], int], target: int
) -> list[Budgets]:
    """Samples distinct pairs of budgets that cost as much as the target.

    Args:
      rng: random number generator.
      number: number of pairs.
      blocks_of: the cost of a pair in blocks per move; it grows with either budget.
      target: the cost in blocks per move.

    Raises:
      ValueError: if fewer pairs are found.
    """
    most = 1
    while blocks_of((most + 1, most + 1)) <= (1 + TOLERANCE) * target:
        most += 1
    found: dict[Budgets, None] = {}
    for _ in range(number * TRIES):
        large = int(rng.integers(1, most + 1))
        pair = round(rng.uniform(LEAST_RATIO, LARGEST_RATIO) * large), large
        if abs(blocks_of(pair) - target) <= TOLERANCE * target:
            found[pair] = None
        if len(found) == number:
            return list(found)
    raise ValueError(
        f"only {len(found)} of {number} pairs of budgets cost {target} blocks; ask for fewer "
        "--draws or larger --budgets"
    )


def best_by_chance(is_right: np.ndarray, seed: int, shuffles: int = SHUFFLES) -> Chance:
    """Computes how good the best of n equal pairs would look by chance; see the module.

    Args:
      is_right: `[n, S]` bool, whether the pair keeps the value at each position.
      seed: seed of the shuffles.
      shuffles: number of shuffles.
    """
    rng = np.random.default_rng(seed)
    best = np.array([rng.permuted(is_right, axis=0).mean(axis=1).max() for _ in range(shuffles)])
    observed = is_right.mean(axis=1).max()
    return Chance(
        round(float(best.mean()), 4),
        round(float(np.quantile(best, 0.95)), 4),
        round(float(np.mean(best >= observed - 1e-12)), 3),
    )


def solved_positions(env: Environment, seed: int) -> tuple[Labelled, Labelled]:
    """Returns two random halves of the positions in which some move loses value."""
    solution = games.solve(env)
    states = games.replay(env, solution.histories)
    legal = np.asarray(states.legal_action_mask)
    rows = np.flatnonzero(np.any(legal & ~solution.optimal_actions, axis=1))
    rows = np.random.default_rng(seed).permutation(rows)
    labelled = Labelled(states, solution.optimal_actions)
    return labelled.select(rows[::2]), labelled.select(rows[1::2])


def connect_four_positions(env: Environment, number: int, seed: int) -> Labelled:
    """Makes positions with a perfect player's labels, half of each kind."""
    solver = make_solver()
    kinds = game_positions(solver, number // 2, seed), random_positions(solver, number // 2, seed)
    histories = np.concatenate([kind.histories for kind in kinds])
    return Labelled(games.replay(env, histories), np.concatenate([x.keeping for x in kinds]))


def measure(trained: Trained, policy: Policy, labelled: Labelled, batch_size: int) -> Scores:
    """Compiles a search and measures it on positions."""
    search_fn = dualmctx.make_search_fn(trained.env, trained.network, policy.for_evaluation())
    size = min(batch_size, len(labelled.keeping))
    evaluate = make_evaluate(trained.network, search_fn, size)
    found = evaluate(trained.params, jax.random.PRNGKey(0), labelled.states)
    return Scores(
        labelled.keeping[np.arange(len(labelled.keeping)), found.action],
        np.sum(found.action_weights * labelled.keeping, axis=1),
    )


def fresh_searches(
    trained: Trained, best: Dual, budgets: Budgets, target: int
) -> dict[str, Policy]:
    """Returns the searches to measure on fresh positions, the pair of `--budgets` first."""
    first, last = trained.network.head_depths[0], trained.network.head_depths[-1]
    early = (max(1, round(target / first)), 0)
    return {
        "Dual, the pair of --budgets": make_dual(best, budgets),
        "Dual, the best pair": best,
        "AlphaZero, final head": AlphaZero(max(1, round(target / last))),
        # Without simulations of the large tree, this is AlphaZero with the early head.
        "AlphaZero, early head": Dual(early, num_rounds=1, action_weights="all_visits"),
    }


def make_dual(like: Dual, budgets: Budgets) -> Dual:
    """Makes Dual with other budgets; rounds are limited to the large tree's simulations."""
    rounds = min(like.num_rounds, budgets[1])
    return Dual(budgets, num_rounds=rounds, action_weights=like.action_weights)


def compare(
    trained: Trained, searches: dict[str, Policy], fresh: Labelled, batch_size: int
) -> list[FreshRow]:
    """Measures searches on fresh positions; differences are from the first search."""
    found = {name: measure(trained, x, fresh, batch_size) for name, x in searches.items()}
    first = next(iter(found.values())).is_right
    rows = []
    for name, policy in searches.items():
        is_right, weight = found[name]
        gaps = is_right.astype(float) - first
        rows.append(
            FreshRow(
                search=name,
                budgets=str(policy.num_simulations),
                blocks=move_cost(policy, trained.network).blocks or 0,
                moves=round(float(is_right.mean()), 4),
                difference=round(float(gaps.mean()), 4),
                standard_error=round(float(gaps.std() / np.sqrt(len(gaps))), 4),
                weight=round(float(weight.mean()), 4),
            )
        )
    return rows


def find_positions(env: Environment, options: Any) -> tuple[Labelled, Labelled]:
    """Returns the positions to choose the best pair by, and fresh positions."""
    if env.id != "connect_four":
        return solved_positions(env, options.seed)
    return (
        connect_four_positions(env, options.number, options.seed),
        connect_four_positions(env, options.fresh, options.seed + 1),
    )


def run(trained: Trained, options: Any) -> dict[str, Any]:
    """Samples pairs, measures them, and measures the best pair again; returns all tables."""
    like = Dual(num_rounds=options.rounds, action_weights=options.weights)

    def blocks_of(budgets: Budgets) -> int:
        return move_cost(make_dual(like, budgets), trained.network).blocks or 0

    target = blocks_of(options.budgets)
    pairs = sample_budgets(np.random.default_rng(options.seed), options.draws, blocks_of, target)
    chosen, fresh = find_positions(trained.env, options)
    rows, is_right = [], []
    for budgets in pairs:
        found = measure(trained, make_dual(like, budgets), chosen, options.batch_size)
        is_right.append(found.is_right)
        moves, weight = (round(float(np.mean(x)), 4) for x in found)
        ratio = round(budgets[0] / budgets[1], 3)
        rows.append(Row(*budgets, ratio, blocks_of(budgets), moves, weight))
        # Each row is printed when it is done: all rows take minutes.
        print(rows[-1], file=sys.stderr)
    best = make_dual(like, pairs[int(np.argmax([x.mean() for x in is_right]))])
    searches = fresh_searches(trained, best, options.budgets, target)
    return {
        "positions": len(chosen.keeping),
        "fresh_positions": len(fresh.keeping),
        "draws": [row._asdict() for row in rows],
        "chance": best_by_chance(np.array(is_right), options.seed)._asdict(),
        "fresh": [x._asdict() for x in compare(trained, searches, fresh, options.batch_size)],
    }


def read_options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add(
        "network",
        nargs="?",
        metavar="NETWORK",
        help="a run's folder, a .safetensors file, or a name",
    )
    add("--draws", type=int, default=16, help="number of pairs of budgets")
    add("--budgets", type=int, nargs=2, default=[50, 35], help="the pair that sets the cost")
    add("--rounds", type=int, default=Dual().num_rounds, help="of Dual, at most b_full")
    add(
        "--weights",
        choices=get_args(ActionWeights),
        default=Dual().action_weights,
        help="Dual's policy",
    )
    add(
        "--number", type=int, default=1000, help="Connect Four positions to choose the best pair by"
    )
    add("--fresh", type=int, default=2000, help="fresh Connect Four positions")
    add("--batch-size", type=int, default=250, help="positions searched at once")
    add("--seed", type=int, default=0, help="seed; fresh positions use the next")
    options = parser.parse_args(arguments)
    if options.quick:
        options.network, options.budgets, options.draws = "connect2", [6, 4], 2
    if options.network is None:
        parser.error("NETWORK is missing, such as connect-four")
    options.budgets = tuple(options.budgets)
    return parser, options


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser, options = read_options(arguments)
    try:
        trained = load_trained(options.network)
        if len(trained.network.head_depths) < 2:
            raise ValueError(f"{options.network} has one head; Dual needs two")
        found = run(trained, options)
    except ValueError as error:
        parser.error(str(error))
    show(f"Pairs of budgets by {found['positions']} positions", found["draws"])
    show("The best of as many equal pairs", [found["chance"]])
    show(f"On {found['fresh_positions']} fresh positions", found["fresh"])
    write_json(options.json, found)


if __name__ == "__main__":
    main()
