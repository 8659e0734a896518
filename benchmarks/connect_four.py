"""Connect Four: a perfect player, and positions with its labels.

Columns count from 0 in this module, pgx, OpenSpiel and bitbully. Written moves count from 1.

Source: bitbully (AGPL, for benchmarks and tests only), with the opening book of
bitbully-databases; OpenSpiel's C++ `MCTSBot` with random rollouts.
"""

import csv
import functools
import pathlib
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import bitbully
import numpy as np
import pyspiel

from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_write_text, make_folder
from games.exact import load_bitbully

NUM_COLUMNS = 7
NUM_CELLS = 42
# OpenSpiel's default for the opponents of its AlphaZero.
UCT_C = 2.0
MEMORY_MIB = 1000
# Simulations of the bots whose games give the positions.
BOT_SIMULATIONS = 100
_SCORES = [f"score_c{column + 1}" for column in range(NUM_COLUMNS)]


class Positions(NamedTuple):
    """S positions with their labels.

    Attributes:
      histories: `[S, 42]` int32, the columns played; -1 after the last move.
      move_values: `[S, 7]`, from `move_values`.
    """

    histories: np.ndarray
    move_values: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """`[S]`: the values of the game for the player to move."""
        return np.nanmax(self.move_values, axis=1)

    @property
    def keeping(self) -> np.ndarray:
        """`[S, 7]` bool: whether a move keeps the value."""
        return self.move_values == self.values[:, None]

    @property
    def legal(self) -> np.ndarray:
        """`[S, 7]` bool: whether a move is legal."""
        return ~np.isnan(self.move_values)

    @property
    def is_contested(self) -> np.ndarray:
        """`[S]` bool: whether some legal move does not keep the value."""
        return self.keeping.sum(axis=1) < self.legal.sum(axis=1)

    def random_share(self) -> float:
        """Returns the share of moves that keep the value under uniformly random play."""
        return float(np.mean(self.keeping.sum(axis=1) / self.legal.sum(axis=1)))


_load_bitbully = functools.cache(load_bitbully)


def move_values(moves: list[int]) -> np.ndarray:
    """Returns `[7]` values after each move in a position, in {-1, 0, 1} for the player to move.

    It is NaN if the move is illegal. The columns `moves` lead to the position; the game is not
    over.
    """
    # A score is positive if the player to move wins, and larger for a faster win.
    _, solver = _load_bitbully()
    scores = solver.score_all_moves(bitbully.Board(moves))
    return np.array([np.sign(scores.get(column, np.nan)) for column in range(NUM_COLUMNS)])


def as_histories(games: list[list[int]]) -> np.ndarray:
    """Returns `[S, 42]` int32 moves, -1 after the last."""
    rows = [moves + [-1] * (NUM_CELLS - len(moves)) for moves in games]
    return np.array(rows, np.int32)


def random_game(rng: random.Random, plies: int) -> list[int] | None:
    """Plays random legal moves; returns them, or `None` if the game is over after them."""
    board, moves = bitbully.Board(), []
    for _ in range(plies):
        if board.is_game_over():
            return None
        moves.append(rng.choice(board.legal_moves()))
        board.play(moves[-1])
    return None if board.is_game_over() else moves


def random_positions(number: int, seed: int) -> Positions:
    """Makes distinct positions after 8 to 36 random plies in which the game is not over."""
    rng = random.Random(seed)

    def sample() -> list[int] | None:
        return random_game(rng, rng.randint(8, 36))

    return sample_positions(sample, number)


def game_positions(number: int, seed: int) -> Positions:
    """Makes positions in which some legal move changes the game's value, at most one per game.

    The games are those of OpenSpiel's bot against itself, after 0 to 6 random plies.
    """
    rng, bot = random.Random(seed), make_bot(BOT_SIMULATIONS, seed)
    game = pyspiel.load_game("connect_four")

    def sample() -> list[int] | None:
        start = random_game(rng, rng.randint(0, 6))
        if start is None:
            return None
        state = state_after(game, start)
        while not state.is_terminal():
            state.apply_action(bot.step(state))
        played = state.history()
        moves = played[: rng.randint(4, len(played) - 1)]
        return moves if np.nanmin(found := move_values(moves)) < np.nanmax(found) else None

    return sample_positions(sample, number)


def sample_positions(sample: Callable[[], list[int] | None], number: int) -> Positions:
    """Samples `number` distinct sequences of moves, without `None`; labels where they lead."""
    found: dict[tuple[int, ...], None] = {}
    while len(found) < number:
        moves = sample()
        if moves is not None:
            found[tuple(moves)] = None
    games = [[*moves] for moves in found]
    return Positions(as_histories(games), np.array([move_values(moves) for moves in games]))


def read_positions(file: pathlib.Path) -> Positions:
    """Reads positions with bitbully's scores from a CSV file.

    The columns are `moves_1based` and `score_c1` to `score_c7`; a score is empty if the move is
    illegal.

    Raises:
      UserError: if the file has no rows, or a row has no such columns, a game that is over or
        illegal, or no score.
      OSError: if the file cannot be read.
    """
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        games = [[int(column) - 1 for column in row["moves_1based"]] for row in rows]
        scores = np.array([[float(row[name] or "nan") for name in _SCORES] for row in rows])
        is_right = bool(rows) and not np.isnan(scores).all(axis=1).any()
        is_right = is_right and not any(bitbully.Board(moves).is_game_over() for moves in games)
    except (KeyError, TypeError, ValueError, csv.Error):
        is_right = False
    if not is_right:
        raise UserError(
            f"{file} is not a list of labelled positions: it needs the columns moves_1based, with "
            f"the columns 1 to {NUM_COLUMNS} of an unfinished game, and {_SCORES[0]} to "
            f"{_SCORES[-1]}, with a number or nothing"
        )
    return Positions(as_histories(games), np.sign(scores))


def write_positions(file: pathlib.Path, positions: Positions) -> None:
    """Writes positions to a CSV file that `read_positions` reads, atomically.

    Its scores are the values of the game after each move.
    """
    lines = [",".join(["moves_1based", *_SCORES])]
    for history, values in zip(positions.histories, positions.move_values, strict=True):
        moves = "".join(str(column + 1) for column in history if column >= 0)
        scores = ("" if np.isnan(value) else str(int(value)) for value in values)
        lines.append(",".join([moves, *scores]))
    make_folder(file.parent)
    atomic_write_text(file, "\n".join(lines) + "\n")


def labelled(file: pathlib.Path, make: Callable[[], Positions]) -> Positions:
    """Reads labelled positions from a CSV file; makes and keeps them if there is none."""
    if not file.exists():
        write_positions(file, make())
    return read_positions(file)


def make_bot(num_simulations: int, seed: int) -> Any:
    """Makes OpenSpiel's bot, which uses wins and losses that its tree proves."""
    game = pyspiel.load_game("connect_four")
    evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
    solve, is_verbose = True, False
    return pyspiel.MCTSBot(
        game, evaluator, UCT_C, num_simulations, MEMORY_MIB, solve, seed, is_verbose
    )


def state_after(game: Any, moves: list[int]) -> Any:
    """Returns OpenSpiel's state after the moves."""
    state = game.new_initial_state()
    for column in moves:
        state.apply_action(column)
    return state
