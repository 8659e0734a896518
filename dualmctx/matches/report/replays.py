"""Games in a compact form, for the viewer on the page of a report: see `replay.js`."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.matches.game_file import Game
from dualmctx.matches.openings import open_openings, to_action_rows
from dualmctx.types import Environment
from games.histories import step_legal
from games.pictures import Picture, changed_cells, picture

_MAX_PAIRS, _MAX_POSITIONS = 30, 1500


def choose_games(played: Sequence[Game]) -> list[Game]:
    """Chooses pairs of games: the first pair of every pairing, then the second, and so on.

    Args:
      played: games; the two games of a pair are adjacent.

    Returns:
      At most 60 games with at most 1,500 positions, and at least one pair, by pairing.
    """
    # Pairs are numbered within a pairing, and the sort is stable.
    pairs = sorted(zip(played[::2], played[1::2], strict=True), key=lambda pair: pair[0].pair)
    sizes = itertools.accumulate(sum(len(game.moves) + 1 for game in pair) for pair in pairs)
    number = sum(size <= _MAX_POSITIONS for size in sizes)
    by_pairing: dict[frozenset[str], list[Game]] = defaultdict(list)
    for pair in pairs[: max(min(number, _MAX_PAIRS), 1)]:
        by_pairing[frozenset(pair[0].players)] += pair
    return [game for group in by_pairing.values() for game in group]


def make_replays(env: Environment, played: Sequence[Game]) -> dict[str, Any]:
    """Returns games with their boards, in JSON types.

    Args:
      env: the game.
      played: games; see `choose_games`.

    Returns:
      `game`, the name of the game; `games`, the chosen games; `cells` and `captions`, the distinct
      texts to which the numbers in the games refer; `total`, the number of games in `played`. A
      game has its `players`, `pair`, `result`, `is_over`, `opening` and `moves`, in the notation of
      the game. `sides` has the side to move in each position. A board is a grid of `width` columns:
      `start` has the numbers of its cells at the start, row by row, and `changes` has, for each
      move, the index and the new number of each cell that changes. `marked` has the indices of the
      cells to mark after each move, and `shown` the number of the caption of each position. If the
      game cannot be drawn, there are neither boards nor captions, and `undrawn` has the reason.
      `row_labels`, `column_labels` and `is_chess` are those of `games.Picture`.
    """
    chosen = choose_games(played)
    cells: dict[str, int] = {}
    captions: dict[str, int] = {}
    drawn: list[list[Picture]] = [[] for _ in chosen]
    sides: list[list[int]] = [[] for _ in chosen]
    undrawn = ""
    for ply, (states, side) in enumerate(_replay(env, chosen)):
        for i, game in enumerate(chosen):
            if ply <= len(game.moves):
                sides[i].append(int(side[i]))
                state = jax.tree.map(lambda x, i=i: np.asarray(x)[i], states)
                try:
                    drawn[i].append(picture(state))
                except UserError as error:
                    undrawn = str(error)
    rows = [
        _describe(env, game)
        | {"sides": sides[i]}
        | ({} if undrawn else _encode(drawn[i], cells, captions))
        for i, game in enumerate(chosen)
    ]
    shown = next((pictures[0] for pictures in drawn if pictures), Picture("", ()))
    return {
        "game": env.id,
        "games": rows,
        "total": len(played),
        "cells": [*cells],
        "captions": [*captions],
        "undrawn": undrawn,
        # These are the same in all positions.
        "row_labels": [*shown.row_labels],
        "column_labels": [*shown.column_labels],
        "is_chess": shown.is_chess,
    }


def _replay(env: Environment, chosen: Sequence[Game]) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields the states `[S]` on the host and the side to move `[S]`, after each ply."""
    actions = to_action_rows([game.moves for game in chosen])
    opened = open_openings(env, [game.history(0) for game in chosen])
    states: Any = opened.states_on_host
    first = states.current_player ^ opened.sides

    play = jax.jit(lambda states, action: step_legal(env, states, action, action >= 0)[0])
    for action in (None, *actions.T):
        states = states if action is None else play(states, action)
        on_host = jax.device_get(states)
        yield on_host, (np.asarray(on_host.current_player) != first).astype(int)


def _describe(env: Environment, game: Game) -> dict[str, Any]:
    start = None if game.fen is None else games.read_fen(env, game.fen)
    return {
        "players": list(game.players),
        "pair": game.pair,
        "result": game.result,
        "is_over": game.is_over,
        "opening": game.opening,
        "moves": games.format_moves(env, start, game.moves),
    }


def _encode(
    drawn: Sequence[Picture], cells: dict[str, int], captions: dict[str, int]
) -> dict[str, Any]:
    """Encodes the boards of a game, and gives new texts of cells and captions the next numbers.

    Boards become rectangles of equal size, with empty texts beside shorter rows.
    """
    width = max(len(row) for shown in drawn for row in shown.rows)
    height = max(len(shown.rows) for shown in drawn)
    boards = np.full((len(drawn), height, width), cells.setdefault("", len(cells)))
    for board, shown in zip(boards, drawn, strict=True):
        for y, row in enumerate(shown.rows):
            board[y, : len(row)] = [cells.setdefault(cell, len(cells)) for cell in row]
    flat = boards.reshape(len(drawn), -1)
    changes = [
        [number for i in np.flatnonzero(old != new) for number in (int(i), int(new[i]))]
        for old, new in itertools.pairwise(flat)
    ]
    marked = [
        sorted(y * width + x for y, x in changed_cells(before.rows, after.rows))
        for before, after in itertools.pairwise(drawn)
    ]
    numbers = [captions.setdefault(shown.caption, len(captions)) for shown in drawn]
    board = {"width": width, "start": flat[0].tolist(), "changes": changes}
    return board | {"marked": marked, "shown": numbers}
