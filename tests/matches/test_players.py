"""Players of tournaments: those of other libraries."""

import sys

import numpy as np
import pytest

import games
from dualmctx.errors import UserError
from dualmctx.matches.other_players import exact_player, openspiel_mcts
from dualmctx.models.costs import FREE, MoveCost


def test_openspiel_mcts_plays_well() -> None:
    pytest.importorskip("pyspiel")
    env = games.make("tic_tac_toe")
    player = openspiel_mcts(env, 200)
    assert (player.name, player.cost) == ("mcts-200", MoveCost(200, 0, 0))
    solution = games.solve(env)
    index = [i for i in range(0, len(solution.values), 60) if len(solution.histories[i])]
    histories = [[int(x) for x in solution.histories[i] if x >= 0] for i in index]
    found = player.mover.choose(histories, list(range(len(index))))
    legal = solution.legal_actions[index, found]
    assert legal.all()
    assert solution.optimal_actions[index, found].mean() > 0.8
    # A choice depends only on its history and its seed.
    backwards = player.mover.choose(histories[::-1], list(range(len(index)))[::-1])
    assert backwards == found[::-1]
    with pytest.raises(UserError, match=r"^OpenSpiel's MCTS supports connect_four, hex, othello"):
        openspiel_mcts(games.make("connect2"), 10)
    with pytest.raises(UserError, match=r"^num_simulations is 0; it must be at least 1$"):
        openspiel_mcts(env, 0)


def test_openspiel_mcts_knows_the_swap_of_hex_and_its_board() -> None:
    pytest.importorskip("pyspiel")
    env = games.make("hex", size=2)
    player = openspiel_mcts(env, 300)
    # The first stone on the long diagonal wins, so that the second player swaps it (action 4). The
    # swapped stone is on the other side of the diagonal.
    assert player.mover.choose([[1]], [0]) == [4]
    histories = [[1, 4], [0, 3]]
    found = player.mover.choose(histories, [0, 1])
    states = games.replay(env, np.array(histories))
    assert np.asarray(states.legal_action_mask)[np.arange(2), found].all()


def test_perfect_connect_four_finds_known_moves() -> None:
    pytest.importorskip("bitbully")
    env = games.make("connect_four")
    player = exact_player(env)
    assert player.cost == FREE
    # The centre wins; the second position has an immediate win; the third requires a block.
    histories = [[], [0, 6, 0, 6, 0, 6], [1, 0, 1, 0, 2, 0]]
    assert player.mover.choose(histories, [0, 1, 2]) == [3, 0, 0]


def test_missing_package_raises_with_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pyspiel", "bitbully"):
        monkeypatch.setitem(sys.modules, module, None)
    env = games.make("connect_four")
    with pytest.raises(UserError, match=r"^OpenSpiel's MCTS needs pyspiel: pip [^\n]+$"):
        openspiel_mcts(env, 9)
    with pytest.raises(UserError, match=r"^the perfect player of Connect Four needs bitbully: "):
        exact_player(env)
