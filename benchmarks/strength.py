"""Playing strength of a Connect Four network: `python -m benchmarks.strength RUN [--json FILE]`.

RUN is the folder of a `train.py connect-four` run, a file exported from one, or the name of a
network that comes with the package. The benchmark measures two things:

- The share of positions in which the move keeps the game's value, by a perfect player's labels, for
  the network's most likely move, for the search's move and, for comparison, for a uniformly random
  move. The positions are made here with a fixed seed: after 8 to 36 random plies, and from games of
  OpenSpiel's bots in which some move changes the value. `--positions` reads labelled positions from
  files instead.
- Games of the search against OpenSpiel's bot with random rollouts, from balanced openings, each
  played twice with the colours swapped.

The search is the run's own unless `--variant` and `--simulations` change it. It has no noise at the
root. Shares and points (a draw is half a point) have Wilson's 95 % intervals. For points, these are
somewhat too wide, because they ignore draws.
"""

import argparse
import pathlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
from rich.console import Console

import dualmctx
import games
from benchmarks.common import Estimate, estimate, make_parser, show, untrained_model, write_json
from benchmarks.connect_four import (
    Positions,
    as_histories,
    balanced_openings,
    game_positions,
    make_bot,
    make_solver,
    random_positions,
    read_positions,
    state_after,
)
from dualmctx import AlphaZero
from dualmctx.evaluation.evaluations import make_evaluate
from dualmctx.experiment.evals import score_exactly
from dualmctx.policies import REGISTRY
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import read_config
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.runs.saved_policy import build_policy
from dualmctx.types import Environment, Policy, PolicyValueNetwork

GAME = "connect_four"
BATCH_SIZE = 256


class Subject(NamedTuple):
    """A network at a checkpoint; `minutes` is its training time, `None` if unknown."""

    env: Environment
    network: PolicyValueNetwork
    params: Any
    policy: Policy
    iteration: int
    minutes: float | None


class Share(NamedTuple):
    """The share of moves that keep the game's value, by random play, network and search."""

    iteration: int
    minutes: float | None
    positions: str
    number: int
    random: float
    network: Estimate
    search: Estimate


class Match(NamedTuple):
    """Games against a bot; `first` and `second` are the mean points as first and second player."""

    iteration: int
    minutes: float | None
    opponent: int
    games: int
    wins: int
    draws: int
    losses: int
    first: float
    second: float
    points: Estimate


def load_all(source: pathlib.Path, which: str) -> list[tuple[Trained, float | None]]:
    """Loads the newest or all checkpoints of a run, each with its minutes of training."""
    is_run = source.is_dir()
    record = read_config(source) if is_run else load_trained(source).record
    game = record["game"]
    if game.replace("-", "_") != GAME:
        raise ValueError(f"{source} is a run of {game}; only {GAME} has a perfect player here")
    steps = open_checkpoints(source / "checkpoints").steps() if is_run and which == "all" else []
    found = [load_trained(source, step) for step in steps or [None]]
    rows = read_metrics(source / "metrics.jsonl")
    minutes = {row["iteration"]: round(row["seconds"] / 60, 1) for row in rows}
    return [(trained, minutes.get(trained.iteration)) for trained in found]


def load_subjects(options: argparse.Namespace) -> list[Subject]:
    """Loads the networks to measure, with the search of the options."""
    if options.run is None:
        policy = AlphaZero(options.simulations or 4).for_evaluation()
        return [Subject(*untrained_model(), policy, 0, None)]
    loaded = load_all(options.run, options.checkpoints)
    policy = build_policy(loaded[0][0].record, options.variant, options.simulations)
    return [
        Subject(x.env, x.network, x.params, policy.for_evaluation(), x.iteration, minutes)
        for x, minutes in loaded
    ]


class Tools(NamedTuple):
    """Functions that are compiled once for all checkpoints of a run.

    Attributes:
      env: the game.
      evaluate: see `make_evaluate`.
      search: `(params, states) -> [S]` moves.
      step: the step of the game, for `[S]` states.
    """

    env: Environment
    evaluate: Callable
    search: Callable
    step: Callable


def make_tools(subject: Subject, batch_size: int) -> Tools:
    """Compiles the functions for a run's network and search."""
    env = subject.env
    search_fn = dualmctx.make_search_fn(env, subject.network, subject.policy)
    return Tools(
        env=env,
        evaluate=make_evaluate(subject.network, search_fn, batch_size),
        search=jax.jit(lambda params, x: search_fn(params, jax.random.PRNGKey(0), x).action),
        step=jax.jit(jax.vmap(env.step)),
    )


def measure_share(tools: Tools, subject: Subject, name: str, positions: Positions) -> Share:
    """Measures the share of moves that keep the value."""
    number = len(positions.histories)
    states = games.replay(tools.env, positions.histories)
    found = tools.evaluate(subject.params, jax.random.PRNGKey(0), states)
    scores = score_exactly(found, positions.keeping, positions.values)
    return Share(
        iteration=subject.iteration,
        minutes=subject.minutes,
        positions=name,
        number=number,
        random=round(positions.random_share(), 3),
        network=estimate(scores["network_optimal"], number),
        search=estimate(scores["search_optimal"], number),
    )


def measure_match(
    tools: Tools, subject: Subject, openings: list[list[int]], budget: int, seed: int
) -> Match:
    """Plays each opening twice against the bot."""
    bot = make_bot(budget, seed)

    def choose(states: Any) -> Any:
        return tools.search(subject.params, states)

    points = np.array(
        [play(tools, choose, bot, openings, moves_first=first) for first in (True, False)]
    )
    return Match(
        iteration=subject.iteration,
        minutes=subject.minutes,
        opponent=budget,
        games=points.size,
        wins=int(np.sum(points == 1)),
        draws=int(np.sum(points == 0.5)),
        losses=int(np.sum(points == 0)),
        first=round(float(points[0].mean()), 3),
        second=round(float(points[1].mean()), 3),
        points=estimate(float(points.mean()), points.size),
    )


def play(
    tools: Tools, choose: Callable, bot: Any, openings: list[list[int]], *, moves_first: bool
) -> np.ndarray:
    """Plays a game from each opening, side by side.

    Args:
      tools: `env` is Connect Four.
      choose: one player, `(states) -> [S]` columns.
      bot: the other player, OpenSpiel's.
      openings: S openings of an even number of moves.
      moves_first: whether `choose` has the first player's stones.

    Returns:
      `[S]` points of `choose`: 1, 0.5 or 0.
    """
    game = pyspiel.load_game(GAME)
    boards = [state_after(game, moves) for moves in openings]
    states = games.replay(tools.env, as_histories(openings))
    is_own_turn = moves_first
    while not all(board.is_terminal() for board in boards):
        if is_own_turn:
            actions = np.array(choose(states))
        else:
            actions = np.array([0 if b.is_terminal() else bot.step(b) for b in boards], np.int32)
        for board, action in zip(boards, actions, strict=True):
            if not board.is_terminal():
                board.apply_action(int(action))
        # In pgx, a step does not change a game that is over.
        states = tools.step(states, jnp.asarray(actions))
        is_own_turn = not is_own_turn
    results = np.array([board.returns()[0 if moves_first else 1] for board in boards])
    return (results + 1) / 2


def read_options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add(
        "run",
        type=pathlib.Path,
        nargs="?",
        metavar="RUN",
        help="a run's folder, a .safetensors file, or a name",
    )
    add("--checkpoints", choices=("newest", "all"), default="newest", help="checkpoints to measure")
    add("--variant", choices=tuple(REGISTRY), help="search variant; default: the run's search")
    add("--simulations", type=int, help="per move, shared by several trees")
    add("--positions", type=pathlib.Path, nargs="+", metavar="FILE.csv", help="labelled")
    add("--number", type=int, default=500, help="positions to make, of each kind")
    add("--openings", type=int, default=50, help="openings, each played twice")
    add("--opponents", type=int, nargs="*", default=[1_000, 10_000], help="bots' simulations")
    add("--seed", type=int, default=0, help="seed of positions, openings and bots")
    options = parser.parse_args(arguments)
    if options.quick:
        options.number, options.openings, options.opponents = 8, 2, [10]
    if options.run is None and not options.quick:
        parser.error("RUN is missing: train with `python train.py connect-four --out FOLDER`")
    return parser, options


def find_positions(solver: Any, options: Any) -> dict[str, Positions]:
    """Reads the positions of `--positions`, or makes both kinds."""
    if options.positions:
        return {file.stem: read_positions(file) for file in options.positions}
    return {
        "random": random_positions(solver, options.number, options.seed),
        "games": game_positions(solver, options.number, options.seed),
    }


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser, options = read_options(arguments)
    try:
        measured = load_subjects(options)
        solver = make_solver()
        positions = find_positions(solver, options)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    openings = balanced_openings(solver, options.openings, options.seed)
    most = max(len(labelled.histories) for labelled in positions.values())
    tools = make_tools(measured[0], min(most, BATCH_SIZE))
    shares, matches = [], []
    # Each row is printed when it is done: a match takes minutes.
    for subject in measured:
        for name, labelled in positions.items():
            shares.append(measure_share(tools, subject, name, labelled)._asdict())
            print(shares[-1], file=sys.stderr)
        for budget in options.opponents:
            match = measure_match(tools, subject, openings, budget, options.seed)
            matches.append(match._asdict())
            print(matches[-1], file=sys.stderr)
    search = str(measured[0].policy)
    show("Moves that keep the game's value", shares)
    show("Games against OpenSpiel's MCTS", matches)
    Console().print(search, highlight=False)
    write_json(options.json, {"search": search, "positions": shares, "matches": matches})


if __name__ == "__main__":
    main()
