"""Puzzle-like positions, search-contempt against PUCT: `python -m benchmarks.puzzles NETWORK`.

NETWORK is a Connect Four run's folder, an exported file or the name of a network that comes with
the package. A puzzle is a position that meets these conditions, by a perfect player:

- It is not lost, exactly one of at least three moves keeps the game's value, and most of the other
  moves lose.
- Looking two plies ahead does not show the move: the move does not win at once, and after some
  losing move the opponent cannot win at once.

Puzzles are taken from games of OpenSpiel's bots, at most one per game.

For each N_scl, and for PUCT, the table has the share of puzzles that are solved by the most visited
move, with the same number of simulations and no noise; Wilson's 95 % interval; the same share of
the puzzles that the network alone gets wrong; and the difference to PUCT, paired by puzzle, with
its standard error. Search-contempt samples the opponent's replies, so it runs with several keys.
Shares are means over keys; intervals are over puzzles.

Source: after Joshi 2025 (arXiv 2504.07757), figure 5, which shows one such position.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import bitbully
import jax
import numpy as np
import pyspiel

import dualmctx
import games
from benchmarks.common import Estimate, estimate, make_parser, show, untrained_model, write_json
from benchmarks.connect_four import (
    BOT_SIMULATIONS,
    Positions,
    bot_game,
    label,
    make_bot,
    make_solver,
    move_values,
    sample_distinct,
    state_after,
)
from benchmarks.strength import GAME
from dualmctx import AlphaZero, Contempt
from dualmctx.evaluation.evaluations import make_evaluate
from dualmctx.runs.saved_network import load_trained
from dualmctx.types import Policy

LIMITS = (1, 2, 5, 10, 20, 50)
# The first ply of a puzzle, and the fewest legal moves in one.
FIRST_PLY, FEWEST_MOVES = 8, 3


class Row(NamedTuple):
    """A search on the puzzles; `limit` is N_scl, `None` for PUCT.

    Attributes:
      solved: share of the puzzles that are solved.
      hard: the same of the puzzles that the network alone gets wrong; `None` if there are none.
      difference: `solved` minus the share of PUCT.
      standard_error: the standard error of the difference.
      keys: number of keys.
    """

    limit: int | None
    solved: Estimate
    hard: Estimate | None
    difference: float
    standard_error: float
    keys: int


def is_puzzle(values: np.ndarray) -> bool:
    """Returns whether one move keeps the value and most others lose.

    Args:
      values: `[7]` values after each move, as `move_values` returns them.
    """
    legal = values[~np.isnan(values)]
    others = legal[legal < legal.max()]
    is_single = len(legal) >= FEWEST_MOVES and len(others) == len(legal) - 1
    return bool(is_single and legal.max() >= 0 and np.sum(others < 0) > len(others) / 2)


def is_seen_at_once(moves: list[int], values: np.ndarray) -> bool:
    """Returns whether two plies show the puzzle's move.

    Args:
      moves: the moves that lead to the puzzle.
      values: `[7]` values after each move in the puzzle.
    """
    state = state_after(pyspiel.load_game(GAME), moves)
    best = int(np.nanargmax(values))
    losing = [column for column in state.legal_actions() if values[column] < 0]
    return state.child(best).is_terminal() or all(_can_win(state.child(x)) for x in losing)


def _can_win(state: Any) -> bool:
    """Returns whether the player to move has a move that wins at once."""
    player = state.current_player()
    return any(
        (child := state.child(column)).is_terminal() and child.returns()[player] > 0
        for column in state.legal_actions()
    )


def find_puzzles(solver: bitbully.BitBully, number: int, seed: int) -> Positions:
    """Finds distinct puzzles in games of OpenSpiel's bots, after 0 to 6 random plies."""
    rng, bot = random.Random(seed), make_bot(BOT_SIMULATIONS, seed)
    game = pyspiel.load_game(GAME)

    def sample() -> list[int] | None:
        played = bot_game(rng, bot, game)
        if played is None:
            return None
        plies = range(FIRST_PLY, len(played))
        for ply in rng.sample(plies, len(plies)):
            moves = played[:ply]
            values = move_values(solver, moves)
            if is_puzzle(values) and not is_seen_at_once(moves, values):
                return moves
        return None

    return label(solver, sample_distinct(sample, number))


def make_policy(limit: int | None, simulations: int) -> Policy:
    """Makes search-contempt for evaluation, or AlphaZero if there is no limit."""
    policy = AlphaZero(simulations) if limit is None else Contempt(simulations, limit)
    return policy.for_evaluation()


class Solved(NamedTuple):
    """For S puzzles: `[K, S]` bool, solved by the search with each key; `[S]`, by the network."""

    by_search: np.ndarray
    by_network: np.ndarray


def solve(model: tuple, policy: Policy, puzzles: Positions, keys: int, batch_size: int) -> Solved:
    """Runs a search on the puzzles with each of `keys` keys."""
    env, network, params = model
    evaluate = make_evaluate(network, dualmctx.make_search_fn(env, network, policy), batch_size)
    states, rows = games.replay(env, puzzles.histories), np.arange(len(puzzles.histories))
    found = [evaluate(params, jax.random.PRNGKey(seed), states) for seed in range(keys)]
    return Solved(
        np.array([puzzles.keeping[rows, x.action] for x in found]),
        puzzles.keeping[rows, found[0].network_action[:, -1]],
    )


def to_row(limit: int | None, solved: Solved, by_puct: np.ndarray) -> Row:
    """Makes the row of a search.

    Args:
      limit: N_scl.
      solved: the results of the search on S puzzles.
      by_puct: `[S]` bool, solved by PUCT.
    """
    shares, is_hard = solved.by_search.mean(axis=0), ~solved.by_network
    gaps = shares - by_puct
    return Row(
        limit=limit,
        solved=estimate(float(shares.mean()), len(shares)),
        hard=estimate(float(shares[is_hard].mean()), int(is_hard.sum())) if any(is_hard) else None,
        difference=round(float(gaps.mean()), 3),
        standard_error=round(float(gaps.std() / np.sqrt(len(gaps))), 3),
        keys=len(solved.by_search),
    )


def measure(model: tuple, puzzles: Positions, options: Any) -> tuple[float, list[Row]]:
    """Runs PUCT and each N_scl; returns the share that the network alone solves, and the rows."""
    size = min(options.batch_size, len(puzzles.histories))
    puct = solve(model, make_policy(None, options.simulations), puzzles, 1, size)
    by_puct = puct.by_search[0]
    rows = [to_row(None, puct, by_puct)]
    for limit in options.limits:
        policy = make_policy(limit, options.simulations)
        rows.append(to_row(limit, solve(model, policy, puzzles, options.keys, size), by_puct))
        # Each row is printed when it is done.
        print(rows[-1], file=sys.stderr)
    return round(float(puct.by_network.mean()), 3), rows


def read_options(arguments: Sequence[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add(
        "network",
        nargs="?",
        metavar="NETWORK",
        help="a run's folder, a .safetensors file, or a name",
    )
    add("--number", type=int, default=400, help="number of puzzles")
    add("--simulations", type=int, default=100, help="per move")
    add("--limits", type=int, nargs="+", default=list(LIMITS), help="values of N_scl")
    add("--keys", type=int, default=3, help="number of keys for search-contempt")
    add("--batch-size", type=int, default=200, help="puzzles searched at once")
    add("--seed", type=int, default=0, help="seed of the puzzles")
    options = parser.parse_args(arguments)
    if options.quick:
        options.number, options.simulations, options.limits, options.keys = 4, 6, [2], 2
    elif options.network is None:
        parser.error("NETWORK is missing, such as connect-four")
    return parser, options


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser, options = read_options(arguments)
    try:
        model, name = untrained_model(), "an untrained network"
        if options.network is not None:
            trained = load_trained(options.network)
            if trained.env.id != GAME:
                raise ValueError(f"{options.network} plays {trained.env.id}; puzzles are of {GAME}")
            model, name = (trained.env, trained.network, trained.params), options.network
    except ValueError as error:
        parser.error(str(error))
    puzzles = find_puzzles(make_solver(), options.number, options.seed)
    alone, rows = measure(model, puzzles, options)
    title = f"{name}, {options.simulations} simulations, {options.number} puzzles"
    shown = [row._asdict() | {"limit": row.limit or "none: PUCT"} for row in rows]
    show(f"{title}; the network alone solves {alone}", shown)
    found = {"model": title, "random": round(puzzles.random_share(), 3), "network": alone}
    write_json(options.json, found | {"rows": [row._asdict() for row in rows]})


if __name__ == "__main__":
    main()
