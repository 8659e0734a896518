"""The paper's search over budgets, at equal network cost: `python -m benchmarks.budgets NETWORK`.

NETWORK is a run's folder, an exported file or the name of a network that comes with the package, of
Connect Four or of a game with an exact solution, with two heads. The paper draws b_full at random,
takes b_sub = γ b_full with γ in [1, 1.5], and keeps the best pair over several runs. Here both are
drawn, uniformly, and a pair is kept if its blocks a move are within 2 % of those of the pair of
`--budgets`: larger budgets would win otherwise. Each pair is measured on the same positions by the
share of moves that keep the game's value. In Connect Four these are labelled by a perfect player,
half of them of either kind of `benchmarks.strength`; elsewhere they are those reachable positions
in which some move loses value.

The best of n pairs is partly the luckiest one. So the benchmark says how good the best of n equal
pairs would look by chance: the results at each position are exchanged at random among the pairs.
And it measures the best pair again on fresh positions, beside the pair of `--budgets` and beside
AlphaZero's search with as many blocks, by the final head and by the early head alone. Differences
are paired by position and have their standard errors.

Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 3.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import jax
import numpy as np
from dualmctx.policies.trees import Weights

import dualmctx
import games
from benchmarks.connect_four import game_positions, make_solver, random_positions
from benchmarks.strength import show
from dualmctx import AlphaZero, Dual
from dualmctx.evaluation.evaluations import make_evaluate
from dualmctx.matches.costs import move_cost
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.types import Environment, Policy

Budgets = tuple[int, int]
"""b_sub and b_full."""
LEAST_RATIO, LARGEST_RATIO = 1.0, 1.5
# How far the blocks of a pair may be from the target, as a share of it; tries for a pair.
TOLERANCE, TRIES = 0.02, 10_000
SHUFFLES = 1000


class Labelled(NamedTuple):
    """S positions: `[S]` states, and `[S, A]` bool, the moves that keep the value."""

    states: Any
    keeping: np.ndarray

    def take(self, rows: np.ndarray) -> "Labelled":
        """Returns some of the positions."""
        return Labelled(jax.tree.map(lambda x: x[rows], self.states), self.keeping[rows])


class Found(NamedTuple):
    """Of S positions: `[S]` bool, whether the move keeps the value; `[S]` weight on such moves."""

    is_right: np.ndarray
    weight: np.ndarray


class Row(NamedTuple):
    """A pair of budgets on the positions among which the best is chosen."""

    small: int
    large: int
    ratio: float
    blocks: int
    moves: float
    weight: float


class FreshRow(NamedTuple):
    """A search on fresh positions; `difference` is of `moves`, to the pair of `--budgets`."""

    search: str
    budgets: str
    blocks: int
    moves: float
    difference: float
    standard_error: float
    weight: float


class Chance(NamedTuple):
    """What the best of n equal pairs would show.

    Attributes:
      mean: share of the moves of the best one, on average.
      high: the share that the best one exceeds in 5 % of cases.
      at_least: in which share of cases the best one is as good as the one that was found.
    """

    mean: float
    high: float
    at_least: float


def draw_budgets(
    rng: np.random.Generator, number: int, blocks_of: Callable[[Budgets], int], target: int
) -> list[Budgets]:
    """Draws distinct pairs of budgets that cost as much as the target.

    Args:
      rng: of the draws.
      number: of pairs.
      blocks_of: what a pair costs; it grows with either budget.
      target: the cost.

    Raises:
      ValueError: when there are not as many, in one line.
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
    """Computes how good the best of n equal pairs would look, see the module.

    Args:
      is_right: `[n, S]` bool, what the pairs did at each position.
      seed: of the exchanges.
      shuffles: how often all results are exchanged.
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
    """Returns two halves, drawn at random, of the positions in which some move loses value."""
    solution = games.solve(env)
    states = games.replay(env, solution.histories)
    legal = np.asarray(states.legal_action_mask)
    rows = np.flatnonzero(np.any(legal & ~solution.optimal_actions, axis=1))
    rows = np.random.default_rng(seed).permutation(rows)
    labelled = Labelled(states, solution.optimal_actions)
    return labelled.take(rows[::2]), labelled.take(rows[1::2])


def connect_four_positions(env: Environment, number: int, seed: int) -> Labelled:
    """Makes positions with a perfect player's labels, half of them of either kind."""
    solver = make_solver()
    kinds = game_positions(solver, number // 2, seed), random_positions(solver, number // 2, seed)
    histories = np.concatenate([kind.histories for kind in kinds])
    return Labelled(games.replay(env, histories), np.concatenate([x.keeping for x in kinds]))


def measure(trained: Trained, policy: Policy, labelled: Labelled, batch_size: int) -> Found:
    """Measures a search on positions; it is compiled anew."""
    search_fn = dualmctx.make_search_fn(trained.env, trained.network, policy.for_evaluation())
    size = min(batch_size, len(labelled.keeping))
    evaluate = make_evaluate(trained.network, search_fn, size)
    found = evaluate(trained.params, jax.random.PRNGKey(0), labelled.states)
    return Found(
        labelled.keeping[np.arange(len(labelled.keeping)), found.action],
        np.sum(found.action_weights * labelled.keeping, axis=1),
    )


def rivals(trained: Trained, best: Dual, budgets: Budgets, target: int) -> dict[str, Policy]:
    """Returns the searches that are measured on fresh positions, the pair of `--budgets` first."""
    first, last = trained.network.head_depths[0], trained.network.head_depths[-1]
    early = (max(1, round(target / first)), 0)
    return {
        "Dual, the pair of --budgets": make_dual(best, budgets),
        "Dual, the best pair": best,
        "AlphaZero, final head": AlphaZero(max(1, round(target / last))),
        # Without simulations of the large tree it is AlphaZero's by the early head.
        "AlphaZero, early head": Dual(early, num_rounds=1, action_weights="all_visits"),
    }


def make_dual(like: Dual, budgets: Budgets) -> Dual:
    """Makes Dual with other budgets; it has fewer rounds where the large tree has fewer."""
    rounds = min(like.num_rounds, budgets[1])
    return Dual(budgets, num_rounds=rounds, action_weights=like.action_weights)


def compare(
    trained: Trained, searches: dict[str, Policy], fresh: Labelled, batch_size: int
) -> list[FreshRow]:
    """Measures searches on fresh positions; the first is what the others are compared with."""
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
    """Returns the positions to choose by and fresh ones."""
    if env.id != "connect_four":
        return solved_positions(env, options.seed)
    return (
        connect_four_positions(env, options.number, options.seed),
        connect_four_positions(env, options.fresh, options.seed + 1),
    )


def run(trained: Trained, options: Any) -> dict[str, Any]:
    """Draws budgets, measures them and the best one again; returns all tables."""
    like = Dual(num_rounds=options.rounds, action_weights=options.weights)

    def blocks_of(budgets: Budgets) -> int:
        return move_cost(make_dual(like, budgets), trained.network).blocks or 0

    target = blocks_of(options.budgets)
    draws = draw_budgets(np.random.default_rng(options.seed), options.draws, blocks_of, target)
    chosen, fresh = find_positions(trained.env, options)
    rows, is_right = [], []
    for budgets in draws:
        found = measure(trained, make_dual(like, budgets), chosen, options.batch_size)
        is_right.append(found.is_right)
        moves, weight = (round(float(np.mean(x)), 4) for x in found)
        ratio = round(budgets[0] / budgets[1], 3)
        rows.append(Row(*budgets, ratio, blocks_of(budgets), moves, weight))
        # Told of as they come, as all of them take minutes.
        print(rows[-1], file=sys.stderr)
    best = make_dual(like, draws[int(np.argmax([x.mean() for x in is_right]))])
    searches = rivals(trained, best, options.budgets, target)
    return {
        "positions": len(chosen.keeping),
        "fresh_positions": len(fresh.keeping),
        "draws": [row._asdict() for row in rows],
        "chance": best_by_chance(np.array(is_right), options.seed)._asdict(),
        "fresh": [x._asdict() for x in compare(trained, searches, fresh, options.batch_size)],
    }


def read_options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("network", nargs="?", metavar="NETWORK", help="a run's folder, a .npz file, or a name")
    add("--draws", type=int, default=16, help="pairs of budgets")
    add("--budgets", type=int, nargs=2, default=[50, 35], help="the pair whose blocks all have")
    add("--rounds", type=int, default=Dual().num_rounds, help="of Dual, where b_full allows it")
    add("--weights", choices=get_args(Weights), default=Dual().action_weights, help="the read-out")
    add("--number", type=int, default=1000, help="Connect Four positions to choose by")
    add("--fresh", type=int, default=2000, help="Connect Four positions to measure the best by")
    add("--batch-size", type=int, default=250, help="positions searched at once")
    add("--seed", type=int, default=0, help="of budgets and positions; fresh ones have the next")
    add("--json", type=pathlib.Path, metavar="FILE", help="write the tables here")
    add("--quick", action="store_true", help="a tiny size, to see that it runs")
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
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
