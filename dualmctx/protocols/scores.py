"""The score of a position: points in Go and Othello, otherwise the winner."""

import jax
import numpy as np

from dualmctx.protocols.gtp_text import COLORS
from dualmctx.protocols.running_game import RunningGame
from games.go_area import count_area
from games.pictures import picture

_area = jax.jit(count_area, static_argnums=1)


def margin(game: RunningGame, komi: float = 0.0) -> float | None:
    """Returns the points by which the side that begins leads; negative if the other side does.

    In Go it is the difference of the areas, with all stones on the board alive, less the komi; in
    Othello that of the discs. In other games it is 1, 0 or -1 at the end, and `None` before it.
    """
    is_go = game.env.id.startswith("go_")
    if not is_go and game.env.id != "othello":
        return float({0: 1, 1: -1, None: 0}[game.winner]) if game.is_over else None
    cells = [x for row in picture(game.state).rows for x in row]
    stones = np.array([{"x": 1, "o": -1}.get(x, 0) for x in cells], np.int32)
    if not is_go:
        return float(stones.sum())
    black, white = np.asarray(_area(stones, len(picture(game.state).rows), True))
    return float(black) - float(white) - komi


def score(game: RunningGame, komi: float = 0.0) -> str | None:
    """Returns the score as in the Go Text Protocol: 0, B+3.5 or W+12; `None` without a margin."""
    points = margin(game, komi)
    if points is None:
        return None
    return "0" if points == 0 else f"{'BW'[points < 0]}+{abs(points):g}"


def result(game: RunningGame, komi: float = 0.0) -> str:
    """Returns a sentence about the end of a game."""
    if not game.is_over:
        return "The game is not over."
    if game.winner is None:
        return "The game is drawn."
    return f"{COLORS[game.winner].capitalize()} has won ({score(game, komi)})."
