"""Move quality of players of Connect Four: `python -m benchmarks.strength CHECKPOINT PLAYER ...`.

`keeps` has Wilson's 95 % interval. `difference` is the difference to the first player in percentage
points with its 95 % interval, paired by position; without a position that differs, the interval has
no width. `better` and `worse` count the positions in which only this player or only the first
player keeps the value. Searches have no noise at the root. The rest is in benchmarks/README.md.
"""

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import games
from benchmarks.common import at_least_one, ending, make_parser, mean_and_error, show
from benchmarks.connect_four import Positions, game_positions, random_positions, read_positions
from benchmarks.ledger import write_measurement
from dualmctx.checks import check
from dualmctx.commands.load_players import load_players
from dualmctx.matches.player_spec import parse_player
from dualmctx.matches.players import HostMover, Player
from dualmctx.pipeline.exact import choose_moves
from dualmctx.ratings.intervals import half_widths, wilson_interval
from dualmctx.types import Environment, Failure

GAME = "connect_four"
BATCH_SIZE, LEVEL = 256, 0.95
# Positions for which a player on the host is asked at once.
AT_ONCE = 16


class Row(NamedTuple):
    """How often a player keeps the value, with the ends of the interval; see the module."""

    positions: str
    player: str
    number: int
    keeps: tuple[float, float, float]
    difference: float
    half_width: float
    better: int
    worse: int


def keeps_value(env: Environment, player: Player, positions: Positions) -> np.ndarray:
    """Returns `[S]` bool: whether the player's move keeps the game's value."""
    number = len(positions.histories)
    if isinstance(player.mover, HostMover):
        moves = choose_on_host(player.mover, positions.histories)
    else:
        states = games.replay(env, positions.histories)
        moves = choose_moves(player, states, min(number, BATCH_SIZE))
    return (moves >= 0) & positions.keeping[np.arange(number), moves]


def choose_on_host(mover: HostMover, histories: np.ndarray) -> np.ndarray:
    """Returns the `[S]` moves of a player on the host; -1 where it gives none."""
    moves: list[int] = []
    for start in range(0, len(histories), AT_ONCE):
        # Each game in progress has a process of its own.
        mover.begin()
        played = [[int(x) for x in row if x >= 0] for row in histories[start : start + AT_ONCE]]
        found = mover.choose(played, [*range(start, start + len(played))])
        moves += [-1 if isinstance(move, Failure) else move for move in found]
    return np.array(moves)


def compare(name: str, player: str, kept: np.ndarray, first: np.ndarray) -> Row:
    """Compares `[S]` bool, whether a move keeps the value, with the moves of the first player."""
    number, share = len(kept), float(kept.mean())
    low, high = wilson_interval(share, number)
    change, error = mean_and_error(100 * (kept.astype(float) - first))
    # One position has no standard error, so its interval is unbounded.
    half = half_widths(np.array(error), np.array(number), LEVEL)
    return Row(
        positions=name,
        player=player,
        number=number,
        keeps=(round(share, 3), round(low, 3), round(high, 3)),
        difference=round(change, 2),
        half_width=round(float(half), 2),
        better=int(np.sum(kept & ~first)),
        worse=int(np.sum(~kept & first)),
    )


def measure(
    env: Environment, players: Sequence[Player], name: str, positions: Positions
) -> list[Row]:
    """Measures all players in the same positions."""
    rows, first = [], np.zeros(0)
    for player in players:
        kept = keeps_value(env, player, positions)
        first = first if rows else kept
        rows.append(compare(name, player.name, kept, first))
        # Each row is printed when it is done: some take minutes.
        print(rows[-1], file=sys.stderr)
    return rows


def show_rows(rows: list[Row], random_share: float) -> None:
    """Prints the table of one kind of positions."""
    columns = [
        {
            "player": row.player,
            "keeps": "{:.3f} ({:.3f}-{:.3f})".format(*row.keeps),
            "difference": f"{row.difference:+.2f} ± {row.half_width:.2f}" if i else "",
            "better, worse": f"{row.better}, {row.worse}" if i else "",
        }
        for i, row in enumerate(rows)
    ]
    title = f"{rows[0].positions}: {rows[0].number} positions; random moves keep the value in "
    show(f"{title}{random_share:.3f}", columns)


def find_positions(options: argparse.Namespace) -> dict[str, Positions]:
    """Reads the positions of `--positions`, or makes both kinds."""
    if options.positions:
        return {file.stem: read_positions(file) for file in options.positions}
    kinds = {"random": random_positions, "games": game_positions}
    return {name: make(options.number, options.seed) for name, make in kinds.items()}


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="a run's folder, a .safetensors file, or a name")
    add("players", metavar="PLAYER", nargs="+", help="as in `dualmctx compare`")
    text = "of players that do not give them"
    add("--simulations", type=at_least_one, default=85, help=text)
    add("--positions", type=pathlib.Path, nargs="+", metavar="FILE.csv", help="labelled")
    add("--number", type=at_least_one, default=500, help="positions to make, of each kind")
    add("--seed", type=int, default=0, help="seed of the positions")
    options = parser.parse_args(arguments)
    if options.quick:
        options.number, options.simulations = 8, 4
    with ending(parser, "stopped"), contextlib.ExitStack() as stack:
        check(0 <= options.seed < 2**31, "seed", options.seed, f"from 0 to {2**31 - 1}")
        specs = [parse_player(player) for player in options.players]
        loaded = load_players(specs, options.checkpoint, GAME, {}, options.simulations)
        for builder in loaded.builders:
            stack.callback(builder.close)
        found = find_positions(options)
        players = [builder.build(builder.simulations) for builder in loaded.builders]
        rows: list[Row] = []
        random_moves: dict[str, float] = {}
        for name, positions in found.items():
            measured = measure(loaded.env, players, name, positions)
            random_moves[name] = round(positions.random_share(), 3)
            show_rows(measured, random_moves[name])
            rows += measured
    about: dict[str, Any] = {player.name: player.about for player in players}
    write_measurement(options.json, rows, players=about, random_moves=random_moves)


if __name__ == "__main__":
    main()
