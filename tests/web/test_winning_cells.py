"""The cells that won a game."""

import numpy as np
import pytest

import games
from dualmctx.evaluation.questions import Question
from dualmctx.web.positions import open_position, result_of
from dualmctx.web.winning_cells import winning_cells


@pytest.mark.parametrize(
    ("game", "winner", "rows", "expected"),
    [
        ("tic_tac_toe", 0, ["XXX", "OO.", "..."], [(0, 0), (0, 1), (0, 2)]),
        ("tic_tac_toe", 1, ["XXO", "XO.", "O.X"], [(0, 2), (1, 1), (2, 0)]),
        # Two lines at once.
        ("tic_tac_toe", 0, ["XXX", "XOO", "XOO"], [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]),
        ("connect2", 1, ["oox."], [(0, 0), (0, 1)]),
        ("connect_four", 0, ["x...", ".x..", "oox.", "ooox"], [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ("connect_four", 1, [".....", "ooooo"], [(1, x) for x in range(5)]),
        # Stones that do not follow each other across the edge of the board.
        ("connect_four", 0, ["xx..xx", "......"], []),
        ("nim", 0, ["...."], []),
    ],
)
def test_winning_cells_of_pictures(game, winner, rows, expected):
    assert winning_cells(game, [list(row) for row in rows], winner) == expected


def test_chain_of_hex_connects_the_edges_of_the_winner():
    """Random games: the chain reaches both edges of the side that won."""
    env = games.make("hex", size=4)
    names, rng = list(range(16)), np.random.default_rng(0)
    winners = set()
    for _ in range(12):
        moves, opened = [], open_position(env, Question(0, 0, []))
        while not opened.is_over:
            legal = [x for x in np.flatnonzero(opened.state.legal_action_mask) if x in names]
            moves.append(int(rng.choice(legal)))
            opened = open_position(env, Question(0, 0, moves))
        result = result_of(env, opened)
        cells = [(y, x - y // 2) for y, x in result["cells"]]
        edges = {cell[result["winner"]] for cell in cells}
        assert {0, 3} <= edges
        winners.add(result["winner"])
    assert winners == {0, 1}
