"""Two-player games as pgx environments, with notation, symmetries, drawings and exact solutions."""

from games.abilities import Cells
from games.contract import Fault
from games.contract_check import Checked, check_game
from games.drawing import to_text
from games.exact import ExactValues, exact_source, exact_values
from games.fen import (
    from_fen,
    has_fen,
    is_chess,
    read_fen,
    set_up,
    start_position,
    to_fen,
    to_position,
    write_fen,
)
from games.histories import replay, replay_checked
from games.notation import (
    MoveContexts,
    format_action,
    format_actions,
    format_lines,
    format_moves,
    move_contexts,
    parse_move,
    parse_moves,
)
from games.opened_positions import (
    GamePosition,
    OpenedPositions,
    open_position,
    open_positions,
)
from games.parsed_moves import Line
from games.pictures import Entry, Picture, entries
from games.positions import Position
from games.registry import available, has_asymmetric_roles, make
from games.solvers import Player, Solution, is_solvable, perfect_player, random_player, solve
from games.symmetry import Symmetries, symmetries

__all__ = [
    "Cells",
    "Checked",
    "Entry",
    "ExactValues",
    "Fault",
    "GamePosition",
    "Line",
    "MoveContexts",
    "OpenedPositions",
    "Picture",
    "Player",
    "Position",
    "Solution",
    "Symmetries",
    "available",
    "check_game",
    "entries",
    "exact_source",
    "exact_values",
    "format_action",
    "format_actions",
    "format_lines",
    "format_moves",
    "from_fen",
    "has_asymmetric_roles",
    "has_fen",
    "is_chess",
    "is_solvable",
    "make",
    "move_contexts",
    "open_position",
    "open_positions",
    "parse_move",
    "parse_moves",
    "perfect_player",
    "random_player",
    "read_fen",
    "replay",
    "replay_checked",
    "set_up",
    "solve",
    "start_position",
    "symmetries",
    "to_fen",
    "to_position",
    "to_text",
    "write_fen",
]
