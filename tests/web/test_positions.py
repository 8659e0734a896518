"""Positions for a page: the side to move, and the cells that won a game; and lines on networks."""

import numpy as np
import pytest

import games
from dualmctx.web.descriptions import Offered, describe_position, result_of, winning_cells


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
    env, rng, winners = games.make("hex", size=3), np.random.default_rng(0), set()
    while winners != {0, 1}:
        moves, opened = [], games.open_position(env)
        while not opened.is_over:
            legal = np.flatnonzero(opened.state.legal_action_mask[:9])
            moves.append(int(rng.choice(legal)))
            opened = games.open_position(env, moves)
        result = result_of(env, opened)
        edges = {(y, x - y // 2)[result["winner"]] for y, x in result["cells"]}
        assert {0, 2} <= edges
        winners.add(result["winner"])


def test_side_is_that_of_the_player_in_a_game_of_the_user():
    """A player who leaves a multiple of three stones moves again."""
    env = games.make("double_move:DoubleMoveNim", pile=7)
    sides = [describe_position(env, games.open_position(env, [0] * n))["side"] for n in range(4)]
    assert sides == [0, 0, 1, 0]


BUILT = {"num_blocks": 2, "width": 4}
UNUSED = {"num_blocks": 4, "width": 64}


@pytest.mark.parametrize(
    ("network", "architecture", "variant", "summary"),
    [
        ({"dtype": "float32"}, {"fields": BUILT}, "dual", "2 blocks of width 4, trained with dual"),
        (UNUSED, {"factory": "a:b", "fields": {}}, "mpv", "a:b, trained with mpv"),
        ({}, {"fields": {"width": 4}}, None, "width 4"),
    ],
)
def test_summary_is_of_the_network_that_was_built(network, architecture, variant, summary):
    record = {"network": network, "architecture": architecture, "search": {"variant": variant}}
    assert Offered("x", {"game": "nim"} | record).describe()["summary"] == summary
