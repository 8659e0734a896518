"""The figures of the search-contempt paper in Connect Four: `python -m benchmarks.contempt`.

`--run` is the folder of a `train.py connect-four` run, whose newest checkpoint plays, or the name
of a network that comes with the package. The benchmark measures:

(a) games of search-contempt against itself for each N_scl: (wins + losses) / draws;
(b) the same of games of AlphaZero against itself, for each temperature;
(c) for all these games, the share whose first m moves are also the first m moves of another game;
(d) games from positions that are lost for the side to move: search-contempt on that side against
    AlphaZero, and for comparison AlphaZero on both sides (limit `none`).

Games (a) and (b) begin at the start of the game, which the first player wins by perfect play, or
after the moves of `--opening`: after 3, perfect play draws, which is nearer to the paper's chess.
All games of a row run side by side on the device, without noise at the root. Both players sample
moves from visits^(1/temperature).

Deviations: the paper's temperatures are schedules that it does not give; here one number holds for
all moves. Shares of decided games have Wilson's 95 % intervals, which treat games as independent;
repeated games are not.

Source: Joshi 2025 (arXiv 2504.07757), figures 2, 3 and 4 and the odds games. For figure 5 see
`benchmarks.puzzles`.
"""

import math
import pathlib
import sys
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dualmctx
import games
from benchmarks.common import Estimate, estimate, make_parser, show, untrained_model, write_json
from dualmctx import AlphaZero, Contempt, Root
from dualmctx.runs.saved_network import load_trained
from dualmctx.types import Environment, PolicyValueNetwork

MAX_PLIES = 42
LIMITS = (1, 2, 5, 10, 20, 50, None)
HANDICAP_LIMITS = (None, 5, 20)
TEMPERATURES = (0.1, 0.25, 0.5, 1.0, 2.0)
REPEATED_AT = (4, 6, 8, 10, 12, 16, 20, 24, 28)
# Columns count from 1. After 4, the first player wins. The other entries are random positions that
# the side to move loses by perfect play, to the winner's last stone.
LOST = [
    *("4", "26352175", "76244174", "55722672", "34524674", "12322271", "51436317", "233721536"),
    *("733176624", "577632223", "673127733", "7347353424", "75125164366", "56254711245"),
    *("412245532274", "437326566335"),
]


class Sizes(NamedTuple):
    """The sizes of a measurement."""

    games: int
    handicap_games: int
    simulations: int
    temperature: float
    limits: tuple[int | None, ...]
    handicap_limits: tuple[int | None, ...]
    temperatures: tuple[float, ...]
    opening: str = ""


class Record(NamedTuple):
    """G games: `[G]` results for the side that moves first; `[G, T]` actions, -1 after the end."""

    result: Any
    actions: Any


class SelfPlayRow(NamedTuple):
    """Games of search-contempt against itself, or of AlphaZero if there is no limit.

    Results are for the side that moves first after the opening. The opening's moves do not count.
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
    """Games of search-contempt from lost positions; `score` is (wins + draws / 2) / games."""

    limit: int | None
    wins: int
    draws: int
    losses: int
    score: float
    standard_error: float
    plies: float
    seconds: float


def load(folder: pathlib.Path) -> tuple[Any, Any, Any, str]:
    """Loads a run's newest checkpoint; returns the game, the network, its parameters and a name."""
    trained = load_trained(folder)
    game = trained.record["game"]
    if game.replace("-", "_") != "connect_four":
        raise ValueError(f"{folder} is a run of {game}; the positions here are of connect_four")
    name = f"{game}, {trained.iteration} iterations"
    return trained.env, trained.network, trained.params, name


def check_opening(env: Environment, opening: str) -> None:
    """Checks an opening.

    Raises:
      ValueError: if a move is illegal or the game is over after the moves.
    """
    moves = games.parse_moves(env, opening)
    states, first_bad = games.replay_checked(env, np.array([moves], np.int32))
    if int(first_bad[0]) >= 0 or bool(states.terminated[0]):
        raise ValueError(f"opening is {opening}; it must be of legal moves that end no game")


def make_games(env: Environment, searches: tuple[Any, ...]) -> Any:
    """Makes `(params, key, states) -> Record`, in which the searches move in turns, in order."""

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
            # A step does not change a game that is over, and its reward is 0.
            state = jax.vmap(env.step)(state, action)
            result += jnp.take_along_axis(state.rewards, first[:, None], axis=1)[:, 0]
            return state, result, actions, ply + 1, rng_key

        def body(carry: tuple) -> tuple:
            for search in searches:
                carry = turn(search, carry)
            return carry

        # When all games are over, one more turn may run, hence one more column.
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
    """Makes the search of search-contempt, or of AlphaZero if there is no limit."""
    heat = sizes.temperature if temperature is None else temperature
    root = Root(dirichlet_fraction=0.0, temperature=heat)
    policy = AlphaZero(sizes.simulations, root=root)
    if limit is not None:
        policy = Contempt(sizes.simulations, limit, root=root)
    return dualmctx.make_search_fn(env, network, policy)


def share_repeated(actions: np.ndarray, ply: int) -> float:
    """Returns the share of games whose first `ply` moves are also those of another game."""
    _, place, counts = np.unique(actions[:, :ply], axis=0, return_inverse=True, return_counts=True)
    return float(np.mean(counts[place.reshape(-1)] > 1))


def count_results(record: Record) -> tuple[int, int, int]:
    """Counts wins, draws and losses of the side that moves first."""
    result = np.asarray(record.result)
    return int(np.sum(result > 0)), int(np.sum(result == 0)), int(np.sum(result < 0))


def num_plies(record: Record) -> float:
    """Returns the mean number of moves per game."""
    return round(float(np.mean(np.sum(np.asarray(record.actions) >= 0, axis=1))), 1)


def measure_selfplay(
    model: tuple, limit: int | None, sizes: Sizes, seed: int, temperature: float | None = None
) -> SelfPlayRow:
    """Plays a search against itself, by default at the temperature of `sizes`."""
    env, network, params, _ = model
    init_key, key = jax.random.split(jax.random.key(seed))
    moves = games.parse_moves(env, sizes.opening)
    start = games.replay(env, np.tile(np.array(moves, np.int32), (sizes.games, 1)), init_key)
    play = make_games(env, (make_search(env, network, limit, sizes, temperature),))
    begin = time.perf_counter()
    record = jax.device_get(play(params, key, start))
    wins, draws, losses = count_results(record)
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
        repeated={ply: round(share_repeated(record.actions, ply), 3) for ply in REPEATED_AT},
        seconds=round(time.perf_counter() - begin, 1),
    )


def lost_positions(env: Environment, num_games: int) -> Any:
    """Returns `num_games` states, which cycle through the lost positions."""
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
    wins, draws, losses = count_results(record)
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


def show_all(
    title: str,
    selfplay: list[dict[str, Any]],
    temperatures: list[dict[str, Any]],
    handicap: list[dict[str, Any]],
) -> None:
    """Prints all tables."""
    for rows in (selfplay, temperatures):
        results = [{name: row[name] for name in row if name != "repeated"} for row in rows]
        show(f"Against itself; {title}", results, "none")
        shares = [
            {name: row[name] for name in ("limit", "temperature")} | row["repeated"] for row in rows
        ]
        show("Share of games whose first m moves are those of another game, by m", shares, "none")
    show(f"From lost positions against AlphaZero; {title}", handicap, "none")


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--run", type=pathlib.Path, metavar="FOLDER", help="a run's folder, or a network's name")
    add("--games", type=int, default=64, help="games per row; twice as many from lost positions")
    add("--simulations", type=int, default=100, help="per move, of both players")
    add("--temperature", type=float, default=0.5, help="of all rows except those by temperature")
    add("--opening", default="", metavar="MOVES", help="first moves of games against itself")
    add("--seed", type=int, default=0, help="seed of the games")
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
        model = (
            load(options.run) if options.run else (*untrained_model(), "connect_four, untrained")
        )
        check_opening(model[0], options.opening)
    except ValueError as error:
        parser.error(str(error))
    title = f"{model[-1]}, {sizes.simulations} simulations, opening {sizes.opening or 'none'}"
    # Each row is printed when it is done: all rows take minutes.
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
    write_json(options.json, {"model": title} | rows)


if __name__ == "__main__":
    main()
