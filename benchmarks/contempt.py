"""search-contempt's own figures on Connect Four: `python -m benchmarks.contempt --run FOLDER`.

FOLDER is that of a `train.py connect-four` run, whose newest checkpoint plays, or the name of a
network that comes with the package: (a) games of search-contempt against itself for each N_scl,
(wins + losses) / draws; (b) games of AlphaZero against itself for each temperature, likewise; (c)
of all these games, the share whose first m moves another game also began with; (d) from positions
that are lost for the side to move, search-contempt in that seat against AlphaZero, beside AlphaZero
in it (none). Games (a) and (b) begin at the start of the game, which the first player wins by
perfect play, or after the moves of `--opening`: 3 is a draw by perfect play, and so nearer to the
paper's chess. All games of a row run side by side on the device, without noise at the root; moves
are drawn from visits^(1/temperature), by both players. The paper's temperatures are schedules that
it does not give; here one number holds for all moves. Shares of decided games have Wilson's
intervals of 95 %, as if games were independent, which repeated games are not.

Source: Joshi 2025 (arXiv 2504.07757), figures 2, 3 and 4 and the odds games. For figure 5 see
`benchmarks.puzzles`.
"""

import argparse
import json
import math
import pathlib
import sys
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import dualmctx
import games
from benchmarks.common import untrained
from benchmarks.strength import Estimate, estimate
from dualmctx import AlphaZero, Contempt, Root
from dualmctx.runs.saved_network import load_trained
from dualmctx.types import Environment, PolicyValueNetwork

MAX_PLIES = 42
LIMITS = (1, 2, 5, 10, 20, 50, None)
HANDICAP_LIMITS = (None, 5, 20)
TEMPERATURES = (0.1, 0.25, 0.5, 1.0, 2.0)
REPEATED_AT = (4, 6, 8, 10, 12, 16, 20, 24, 28)
# Columns from 1, as such games are written. The first player wins from the centre; the others are
# random positions that a perfect player loses for the side to move, by its last stone.
LOST = [
    *("4", "26352175", "76244174", "55722672", "34524674", "12322271", "51436317", "233721536"),
    *("733176624", "577632223", "673127733", "7347353424", "75125164366", "56254711245"),
    *("412245532274", "437326566335"),
]


class Sizes(NamedTuple):
    """What is measured."""

    games: int
    handicap_games: int
    simulations: int
    temperature: float
    limits: tuple[int | None, ...]
    handicap_limits: tuple[int | None, ...]
    temperatures: tuple[float, ...]
    opening: str = ""


class Record(NamedTuple):
    """Games as played: `[G]` results of who moved first; `[G, T]` actions, -1 after the end."""

    result: Any
    actions: Any


class SelfPlayRow(NamedTuple):
    """Search-contempt against itself, or AlphaZero without a limit.

    Results are of who moves first after the opening, whose moves are not counted.
    """

    limit: int | None
    temperature: float
    wins: int
    draws: int
    losses: int
    decided_over_drawn: float | None
    decided: Estimate
    plies: float
    distinct: int
    repeated: dict[int, float]
    seconds: float


class HandicapRow(NamedTuple):
    """Search-contempt from lost positions; `score` is (wins + draws / 2) / games."""

    limit: int | None
    wins: int
    draws: int
    losses: int
    score: float
    standard_error: float
    plies: float
    seconds: float


def load(folder: pathlib.Path) -> tuple[Any, Any, Any, str]:
    """Reads a run's newest checkpoint; returns the game, the network, its parameters and a name."""
    trained = load_trained(folder)
    game = trained.record["game"]
    if game.replace("-", "_") != "connect_four":
        raise ValueError(f"{folder} is a run of {game}; the positions here are of connect_four")
    name = f"{game}, {trained.iteration} iterations"
    return trained.env, trained.network, trained.params, name


def check_opening(env: Environment, opening: str) -> None:
    """Refuses an opening with an illegal move, or after which the game is over."""
    moves = games.parse_moves(env, opening)
    states, first_bad = games.replay_checked(env, np.array([moves], np.int32))
    if int(first_bad[0]) >= 0 or bool(states.terminated[0]):
        raise ValueError(f"opening is {opening}; it must be of legal moves that end no game")


def make_games(env: Environment, searches: tuple[Any, ...]) -> Any:
    """Makes `(params, key, states) -> Record`: the searches move in turns, the first one first."""

    def play(params: Any, rng_key: Any, state: Any) -> Record:
        num_games = state.current_player.shape[0]
        first = state.current_player

        def is_over(state: Any) -> Any:
            return state.terminated | state.truncated

        def turn(search: Any, carry: tuple) -> tuple:
            state, result, actions, ply, rng_key = carry
            rng_key, search_key = jax.random.split(rng_key)
            action = search(params, search_key, state).action
            actions = actions.at[:, ply].set(jnp.where(is_over(state), -1, action))
            # A game that is over stays as it is and pays nothing again.
            state = jax.vmap(env.step)(state, action)
            result += jnp.take_along_axis(state.rewards, first[:, None], axis=1)[:, 0]
            return state, result, actions, ply + 1, rng_key

        def body(carry: tuple) -> tuple:
            for search in searches:
                carry = turn(search, carry)
            return carry

        # A last turn may begin when all games are over.
        actions = jnp.full((num_games, MAX_PLIES + 1), -1, jnp.int32)
        carry = (state, jnp.zeros(num_games), actions, 0, rng_key)
        done = jax.lax.while_loop(lambda c: ~jnp.all(is_over(c[0])), body, carry)
        return Record(done[1], done[2])

    return jax.jit(play)


def make_search(
    env: Environment,
    network: PolicyValueNetwork,
    limit: int | None,
    sizes: Sizes,
    temperature: float | None = None,
) -> Any:
    """Makes search-contempt as it plays, or AlphaZero where there is no limit."""
    heat = sizes.temperature if temperature is None else temperature
    root = Root(dirichlet_fraction=0.0, temperature=heat)
    policy = AlphaZero(sizes.simulations, root=root)
    if limit is not None:
        policy = Contempt(sizes.simulations, limit, root=root)
    return dualmctx.make_search_fn(env, network, policy)


def repeated(actions: np.ndarray, ply: int) -> float:
    """Returns the share of the games that have begun as another one did, for so many moves."""
    _, place, counts = np.unique(actions[:, :ply], axis=0, return_inverse=True, return_counts=True)
    return float(np.mean(counts[place.reshape(-1)] > 1))


def count(record: Record) -> tuple[int, int, int]:
    """Counts wins, draws and losses of who moved first."""
    result = np.asarray(record.result)
    return int(np.sum(result > 0)), int(np.sum(result == 0)), int(np.sum(result < 0))


def num_plies(record: Record) -> float:
    """Returns the mean number of moves."""
    return round(float(np.mean(np.sum(np.asarray(record.actions) >= 0, axis=1))), 1)


def measure_selfplay(
    model: tuple, limit: int | None, sizes: Sizes, seed: int, temperature: float | None = None
) -> SelfPlayRow:
    """Plays search-contempt against itself, by default at the usual temperature."""
    env, network, params, _ = model
    init_key, key = jax.random.split(jax.random.key(seed))
    moves = games.parse_moves(env, sizes.opening)
    start = games.replay(env, np.tile(np.array(moves, np.int32), (sizes.games, 1)), init_key)
    play = make_games(env, (make_search(env, network, limit, sizes, temperature),))
    begin = time.perf_counter()
    record = jax.device_get(play(params, key, start))
    wins, draws, losses = count(record)
    return SelfPlayRow(
        limit=limit,
        temperature=sizes.temperature if temperature is None else temperature,
        wins=wins,
        draws=draws,
        losses=losses,
        decided_over_drawn=round((wins + losses) / draws, 2) if draws else None,
        decided=estimate((wins + losses) / sizes.games, sizes.games),
        plies=num_plies(record),
        distinct=len(np.unique(record.actions, axis=0)),
        repeated={ply: round(repeated(record.actions, ply), 3) for ply in REPEATED_AT},
        seconds=round(time.perf_counter() - begin, 1),
    )


def lost_positions(env: Environment, num_games: int) -> Any:
    """Returns that many game states, each position as often as every other."""
    longest = max(map(len, LOST))
    rows = [[int(c) - 1 for c in moves] + [-1] * (longest - len(moves)) for moves in LOST]
    states = games.replay(env, np.array(rows, np.int32))
    return jax.tree.map(lambda x: x[np.arange(num_games) % len(LOST)], states)


def measure_handicap(model: tuple, limit: int | None, sizes: Sizes, seed: int) -> HandicapRow:
    """Plays search-contempt from lost positions against AlphaZero."""
    env, network, params, _ = model
    players = (limit, None)
    play = make_games(env, tuple(make_search(env, network, x, sizes) for x in players))
    state = lost_positions(env, sizes.handicap_games)
    begin = time.perf_counter()
    record = jax.device_get(play(params, jax.random.key(seed), state))
    points = (np.asarray(record.result) + 1) / 2
    wins, draws, losses = count(record)
    return HandicapRow(
        limit=limit,
        wins=wins,
        draws=draws,
        losses=losses,
        score=round(float(points.mean()), 3),
        standard_error=round(float(points.std()) / math.sqrt(len(points)), 3),
        plies=num_plies(record),
        seconds=round(time.perf_counter() - begin, 1),
    )


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Prints rows as a table."""
    table = Table(*map(str, rows[0]), title=title)
    for row in rows:
        table.add_row(*("none" if cell is None else str(cell) for cell in row.values()))
    Console().print(table)


def show_all(
    title: str,
    selfplay: list[dict[str, Any]],
    temperatures: list[dict[str, Any]],
    handicap: list[dict[str, Any]],
) -> None:
    """Prints what was measured."""
    for rows in (selfplay, temperatures):
        results = [{name: row[name] for name in row if name != "repeated"} for row in rows]
        show(f"Against itself; {title}", results)
        shares = [
            {name: row[name] for name in ("limit", "temperature")} | row["repeated"] for row in rows
        ]
        show("Of these, the share whose first m moves another game began with, by m", shares)
    show(f"From lost positions against AlphaZero; {title}", handicap)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=pathlib.Path, metavar="FOLDER", help="a run's, or a name")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the rows here")
    parser.add_argument(
        "--games", type=int, default=64, help="of each row; twice as many from lost positions"
    )
    parser.add_argument("--simulations", type=int, default=100, help="a move, of both players")
    parser.add_argument(
        "--temperature", type=float, default=0.5, help="but of the rows by temperature"
    )
    parser.add_argument("--opening", default="", metavar="MOVES", help="of games against itself")
    parser.add_argument("--seed", type=int, default=0, help="of all draws")
    parser.add_argument("--quick", action="store_true", help="a tiny size, to see that it runs")
    options = parser.parse_args(arguments)
    if options.run is None and not options.quick:
        parser.error("--run is missing: train with `python train.py connect-four --out FOLDER`")
    number, heat = options.games, options.temperature
    sizes = Sizes(
        number, 2 * number, options.simulations, heat, LIMITS, HANDICAP_LIMITS, TEMPERATURES
    )
    sizes = sizes._replace(opening=options.opening)
    if options.quick:
        sizes = Sizes(4, 16, 6, heat, (2,), (2,), (0.1, 2.0))
    try:
        model = load(options.run) if options.run else (*untrained(), "connect_four, untrained")
        check_opening(model[0], options.opening)
    except ValueError as error:
        parser.error(str(error))
    title = f"{model[-1]}, {sizes.simulations} simulations, opening {sizes.opening or 'none'}"
    # Rows are told of as they come, as a run takes minutes.
    selfplay, temperatures, handicap = [], [], []
    for limit in sizes.limits:
        selfplay.append(measure_selfplay(model, limit, sizes, options.seed))
        print(selfplay[-1], file=sys.stderr)
    for temperature in sizes.temperatures:
        row = measure_selfplay(model, None, sizes, options.seed, temperature)
        temperatures.append(row)
        print(row, file=sys.stderr)
    for limit in sizes.handicap_limits:
        handicap.append(measure_handicap(model, limit, sizes, options.seed))
        print(handicap[-1], file=sys.stderr)
    rows = {
        "selfplay": [row._asdict() for row in selfplay],
        "temperatures": [row._asdict() for row in temperatures],
        "handicap": [row._asdict() for row in handicap],
    }
    show_all(title, **rows)
    if options.json:
        options.json.write_text(json.dumps({"model": title} | rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
