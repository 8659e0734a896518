"""Checks recorded games by playing them, in batches on the device."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dualmctx.datasets.keys import as_numbers, game_key, position_keys
from dualmctx.datasets.records import RecordedGame
from dualmctx.datasets.replay import Replay, by_length, replay_games
from dualmctx.evaluation.game_record import board_mismatch
from dualmctx.types import Environment
from games.opened_positions import describe_bad_move
from games.parsed_moves import parse_lines
from games.registry import with_defaults


class CheckedGame(NamedTuple):
    """A game whose moves are legal; D is the number of its moves.

    Attributes:
      recorded: the game in its file.
      moves: `[D]` int32 actions.
      is_random: `[D]` bool, whether no player chose the move.
      is_first: `[D]` bool, whether the first side is to move.
      result: result of the first side in [-1, 1]; NaN if it is unknown.
      key: see `keys.game_key`.
      keys: `[D]` uint64, see `keys.PositionKeys.position`.
      move_keys: `[D]` uint64, see `keys.PositionKeys.move`.
      is_contradicted: whether the file and the end of the game give different results.
    """

    recorded: RecordedGame
    moves: np.ndarray
    is_random: np.ndarray
    is_first: np.ndarray
    result: float
    key: int
    keys: np.ndarray
    move_keys: np.ndarray
    is_contradicted: bool

    @property
    def values(self) -> np.ndarray:
        """`[D]` float32, the result for the player to move; NaN before the last random move."""
        value = np.where(self.is_first, self.result, -self.result)
        last_random = np.flatnonzero(self.is_random)[-1:]
        value[: last_random[0] + 1 if len(last_random) else 0] = np.nan
        # −0 becomes 0.
        return (value + 0.0).astype(np.float32)


def check_games(
    env: Environment,
    recorded: Sequence[RecordedGame],
    *,
    prefer_record: bool = False,
    game_parameters: dict[str, Any] | None = None,
) -> list[CheckedGame | str]:
    """Plays recorded games and finds those that break the rules.

    Args:
      env: a game of `games.make`.
      recorded: the games.
      prefer_record: whether the result in the file comes before that of a game that is over.
      game_parameters: the parameters of the environment; with `None`, those of the games are not
        checked.

    Returns:
      For each game the checked game, or the reason why it cannot be used.
    """
    found: list[Any] = [
        _mismatch(env, game) or _other_parameters(env, game, game_parameters) for game in recorded
    ]
    rows = [row for row, reason in enumerate(found) if reason is None]
    parsed = parse_lines(env, [recorded[x] for x in rows])
    moves = [parsed.actions_of(index) for index in range(len(rows))]
    for index, reason in parsed.errors.items():
        found[rows[index]] = reason.rstrip(".")
    valid = [index for index in range(len(rows)) if index not in parsed.errors]
    for group in by_length([len(moves[index]) for index in valid]):
        chosen = [valid[place] for place in group.games]
        fens = [recorded[rows[index]].fen for index in chosen]
        played = replay_games(env, position_keys(env), [moves[x] for x in chosen], fens)
        for column, index in enumerate(chosen):
            game, bad = recorded[rows[index]], int(played.first_bad[column])
            if bad < 0:
                checked = _checked(env, game, moves[index], played, column, prefer_record)
            else:
                line = game, parsed.starts[index], moves[index].tolist(), bad
                is_over = bool(played.is_over[column])
                checked = str(describe_bad_move(env, *line, is_over=is_over))
            found[rows[index]] = checked
    return found


def _checked(
    env: Environment,
    game: RecordedGame,
    moves: np.ndarray,
    played: Replay,
    column: int,
    prefer_record: bool,
) -> CheckedGame:
    """Returns column `column` of the games that were played as a checked game."""
    length = len(moves)
    is_random = np.isin(np.arange(length), np.array(game.random, int))
    ended = float(played.result[column]) if played.is_over[column] else None
    result = game.result if ended is None or (prefer_record and game.result is not None) else ended
    differs = ended is not None and game.result is not None and ended != game.result
    return CheckedGame(
        recorded=game,
        moves=moves,
        is_random=is_random,
        is_first=np.asarray(played.is_first[:length, column]),
        result=math.nan if result is None else result,
        key=game_key(env, moves, game.fen),
        keys=as_numbers(played.seen.position[:length, column]),
        move_keys=as_numbers(played.seen.move[:length, column]),
        is_contradicted=differs,
    )


def _mismatch(env: Environment, game: RecordedGame) -> str | None:
    """Returns why a game cannot be played in an environment; `None` if it can."""
    if game.game not in (None, env.id):
        return f"the game is {game.game}, but the data set is of {env.id}"
    reason = None if game.board is None else _board_mismatch(env, game.board)
    if reason is not None or game.error is not None:
        return reason or game.error
    komi = getattr(getattr(env, "_game", None), "komi", None)
    if game.komi is not None and komi is not None and game.komi != komi:
        return (
            f"the komi is {game.komi:g}, but the data set has komi {komi:g}; a data set has one "
            f"komi: --game-parameters komi {game.komi:g}"
        )
    return None


def _other_parameters(
    env: Environment, game: RecordedGame, game_parameters: dict[str, Any] | None
) -> str | None:
    """Returns which parameters of a game differ from those of the data set; `None` if none."""
    if game.game_parameters is None or game_parameters is None:
        return None
    own, other = (with_defaults(env.id, x) for x in (game_parameters, game.game_parameters))
    names = [name for name in {**other, **own} if other.get(name) != own.get(name)]
    if not names:
        return None
    values = [", ".join(f"{name} {x.get(name)}" for name in names) for x in (other, own)]
    flags = " ".join(f"{name} {x}" for name, x in game.game_parameters.items())
    remedy = f"use --game-parameters {flags}" if flags else "leave out --game-parameters"
    return (
        f"the game has {values[0]}, but the data set has {values[1]}; for a data set of such games "
        f"{remedy}"
    )


@functools.lru_cache(maxsize=1024)
def _board_mismatch(env: Environment, board: Any) -> str | None:
    reason = board_mismatch(env, board)
    return reason and reason.replace("the network plays", "the data set is of")
