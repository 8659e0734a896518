"""Cells of a picture by which moves are entered."""

import jax
import numpy as np
import pytest

import games
from domineering import Domineering
from games.contract_check import find_ability_faults
from games.pictures import changed_cells, entries, picture

PLACING = ("connect2", "tic_tac_toe", "connect_four", "othello", "hex", "go_9x9")
MOVING = ("animal_shogi", "gardner_chess", "chess", "shogi")
# The programs of these compile slowly; they have the cells of smaller games.
LARGE = ("go_19x19", "chess")


def random_game(env, name):
    """Returns the states of the first moves of a random game, on the host, and its actions."""
    draws = np.random.default_rng(5)
    step = jax.jit(env.step)
    state = jax.device_get(jax.jit(env.init)(jax.random.PRNGKey(1)))
    states, actions = [state], []
    length = 200 if name == "shogi" else 30
    while not (state.terminated or state.truncated) and len(actions) < length:
        action = int(draws.choice(np.flatnonzero(state.legal_action_mask)))
        if name == "hex" and len(actions) == 1:
            action = 25  # the swap
        state = jax.device_get(step(state, action))
        states.append(state)
        actions.append(action)
    return states, actions


@pytest.mark.slow
@pytest.mark.parametrize("name", [x for x in games.available() if x not in LARGE])
def test_entries_are_the_legal_moves_and_their_cells_show_the_move(name):
    env = games.make(name, size=5) if name == "hex" else games.make(name)
    states, actions = random_game(env, name)
    assert len(actions) > 2
    for state in states:
        check_entries(env, state)
    moves = zip(states, states[1:], actions, strict=False)
    moves = [(*x, next(e for e in entries(env, x[0]) if e.action == x[2])) for x in moves]
    if name in MOVING:
        kinds = {kind_of_move(name, before, after, entry) for before, after, _, entry in moves}
        assert kinds == ({"move", "drop"} if "shogi" in name else {"move"})
    elif name in PLACING:
        assert sum(is_placed(name, *move) for move in moves) > 1


def check_entries(env, state):
    """Checks that entries are the legal moves, with cells inside the picture."""
    is_over = state.terminated or state.truncated
    legal = [] if is_over else np.flatnonzero(state.legal_action_mask).tolist()
    found, rows = entries(env, state), picture(state).rows
    assert [entry.action for entry in found] == legal
    assert [entry.name for entry in found] == [games.format_action(env, state, x) for x in legal]
    for entry in found:
        for row, column in (*entry.targets, *filter(None, (entry.start, entry.shown))):
            assert rows[row][column] != ""
    # Moves with the same cells differ in their names.
    assert len({(*entry[2:4], entry.name) for entry in found}) == len(found)


def is_placed(name, before, after, action, entry):
    """Checks that a stone appears on the shown cell; returns whether there is one."""
    if entry.shown is None:
        assert entry.name in ("pass", "swap")
        assert entry.targets == ()
        return False
    assert changed_cells(picture(before).rows, picture(after).rows) == {entry.shown}
    assert entry.start is None
    column = tuple((row, action) for row in range(6))
    assert entry.targets == (column if name == "connect_four" else (entry.shown,))
    return True


def kind_of_move(name, before, after, entry):
    """Checks that a piece moves from the start to the target; returns whether it is a drop."""
    old, new = picture(before).rows, picture(after).rows
    (row, column), [(to_row, to_column)] = entry.start, entry.targets
    piece, moved = old[row][column], new[to_row][to_column]
    assert entry.shown == (to_row, to_column)
    assert moved.isupper() == piece.isupper()
    if "shogi" in name and row >= len(old) - 2:
        assert moved == piece[0]
        assert old[to_row][to_column] == "."
        return "drop"
    assert new[row][column] == "."
    if moved != piece:  # a promotion
        assert piece.lower() == "p" or moved == f"+{piece}"
    return "move"


def test_promotions_differ_by_name_only():
    env = games.make("gardner_chess")
    state = games.from_fen(env, "4k/1P3/5/5/4K w - - 0 9")
    found = [entry for entry in entries(env, state) if entry.start == (1, 1)]
    assert {entry.targets for entry in found} == {((0, 1),)}
    assert sorted(entry.name for entry in found) == ["b4b5b", "b4b5n", "b4b5q", "b4b5r"]
    black = games.from_fen(env, "3rk/5/5/5/K4 b - - 0 9")
    assert {entry.start for entry in entries(env, black)} == {(0, 3), (0, 4)}


def test_rungs_have_cells_and_answers_have_none():
    env = games.make("hsr", n=20)
    start = env.init(jax.random.PRNGKey(0))
    found = entries(env, start)
    assert found[17] == games.Entry(17, "18", None, ((1, 1),), (1, 1))
    assert picture(start).rows[1][1] == "18"
    asked = entries(env, env.step(start, 3))
    assert asked == [games.Entry(19, "break"), games.Entry(20, "no-break")]
    assert entries(games.make("nim"), games.make("nim").init(jax.random.PRNGKey(0)))[2] == (
        games.Entry(2, "3")
    )


def test_a_game_of_ones_own_names_the_cells_itself():
    env = games.make("domineering:Domineering", rows=2, columns=3)
    state = env.init(jax.random.PRNGKey(0))
    assert entries(env, state) == [
        games.Entry(x, f"{'abc'[x]}1{'abc'[x]}2", (0, x), ((1, x),), (0, x)) for x in range(3)
    ]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (3, "must return games.Cells by action"),
        ({0: games.Cells(None, ((0, -1),))}, "is outside the picture"),
        ({0: ((0, 1, 2),)}, "too many values"),
    ],
)
def test_wrong_cells_of_an_own_game_are_an_error(result, message, monkeypatch):
    env = Domineering(rows=2, columns=3)
    state = env.init(jax.random.PRNGKey(0))
    monkeypatch.setattr(Domineering, "board_input", lambda self, state: result)
    with pytest.raises(ValueError, match=rf"board_input of game domineering.*{message}"):
        entries(env, state)
    monkeypatch.setattr(Domineering, "board_input", lambda self, state: 1 / 0)
    with pytest.raises(ValueError, match="board_input of game domineering raised ZeroDivision"):
        entries(env, state)


@pytest.mark.slow
def test_check_game_reports_a_cell_outside_the_picture(monkeypatch):
    monkeypatch.setattr(
        Domineering, "board_input", lambda self, state: {1: games.Cells(None, ((5, 0),))}
    )
    [fault] = find_ability_faults(Domineering(rows=2, columns=2), jax.random.PRNGKey(0))
    assert fault.problem == "board_input: move b1b2 has cell (5, 0) outside the picture"


def test_a_game_without_the_method_is_entered_by_name():
    env = games.make("double_move:DoubleMoveNim", pile=5)
    assert entries(env, env.init(jax.random.PRNGKey(0))) == [
        games.Entry(0, "0"),
        games.Entry(1, "1"),
    ]


@pytest.mark.slow
def test_entries_leave_the_state_unchanged():
    """A position of Black once changed the en passant square of a state on the host."""
    chess = games.make("chess")
    fen = "4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1"
    state = jax.tree.map(np.array, jax.device_get(games.from_fen(chess, fen)))
    assert "d4e3" in [entry.name for entry in entries(chess, state)]
    assert games.to_fen(chess, state) == fen
