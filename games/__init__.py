"""Games for the engine: pgx environments, exact solutions of the small ones, drawings."""

from games.drawing import draw
from games.pictures import Picture
from games.players import Player, perfect_player, random_player, replay
from games.registry import available, make
from games.solvers import Solution, is_solvable, solve
from games.symmetry import Symmetries, symmetries

__all__ = [
    "Picture",
    "Player",
    "Solution",
    "Symmetries",
    "available",
    "draw",
    "is_solvable",
    "make",
    "perfect_player",
    "random_player",
    "replay",
    "solve",
    "symmetries",
]
