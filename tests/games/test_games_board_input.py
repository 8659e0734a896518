"""Cells of a picture by which moves are entered."""

import functools
import time

import jax
import numpy as np
import pytest
from domineering import Domineering

import games
from games.board_input import entries
from games.contract_abilities import find_ability_faults
from games.pictures import changed_cells, picture

PLACING = ("connect2", "tic_tac_toe", "connect_four", "othello", "hex", "go_9x9")
MOVING = ("animal_shogi", "gardner_chess", "chess", "shogi")
# Their programs compile slowly.
SLOW = ("go_19x19", "chess", "shogi")


@functools.cache
def env_of(name):
    return games.make(name, size=5) if name == "hex" else games.make(name)


@functools.cache
def random_game(name):
    """Returns the states of the first moves of a random game, on the host, and its actions."""
    env, draws = env_of(name), np.random.default_rng(5)
    step = jax.jit(env.step)
    state = jax.device_get(jax.jit(env.init)(jax.random.PRNGKey(1)))
    states, actions = [state], []
    while not (state.terminated or state.truncated) and len(actions) < (
        200 if name == "shogi" else 60
    ):
        action = int(draws.choice(np.flatnonzero(state.legal_action_mask)))
        if name == "hex" and len(actions) == 1:
            action = 25  # the swap
        state = jax.device_get(step(state, action))
        states.append(state)
        actions.append(action)
    return states, actions


GAMES = [x if x not in SLOW else pytest.param(x, marks=pytest.mark.slow) for x in games.available()]


@pytest.mark.parametrize("name", GAMES)
def test_entries_are_the_legal_moves_and_their_cells_exist(name):
    env, (states, actions) = env_of(name), random_game(name)
    assert len(actions) > 2
    for state in states:
        is_over = state.terminated or state.truncated
        legal = [] if is_over else np.flatnonzero(state.legal_action_mask).tolist()
        found = entries(env, state)
        assert [entry.action for entry in found] == legal
        assert [entry.name for entry in found] == [
            games.format_action(env, state, action) for action in legal
        ]
        rows = picture(state).rows
        for entry in found:
            for row, column in (*entry.targets, *filter(None, (entry.start, entry.shown))):
                assert rows[row][column] != ""
        # Moves with the same cells differ in their names.
        assert len({(*entry[2:4], entry.name) for entry in found}) == len(found)


@pytest.mark.parametrize(
    "name", [*PLACING, *(pytest.param(x, marks=pytest.mark.slow) for x in SLOW if x[0] == "g")]
)
def test_a_stone_appears_on_the_shown_cell(name):
    env, (states, actions) = env_of(name), random_game(name)
    placed = 0
    for before, after, action in zip(states, states[1:], actions, strict=False):
        [entry] = [entry for entry in entries(env, before) if entry.action == action]
        if entry.shown is None:
            assert entry.name in ("pass", "swap")
            assert entry.targets == ()
            continue
        assert changed_cells(picture(before).rows, picture(after).rows) == {entry.shown}
        assert entry.start is None
        if name == "connect_four":
            assert entry.targets == tuple((row, action) for row in range(6))
        else:
            assert entry.targets == (entry.shown,)
        placed += 1
    assert placed > 1


@pytest.mark.parametrize(
    "name", [x if x not in SLOW else pytest.param(x, marks=pytest.mark.slow) for x in MOVING]
)
def test_a_piece_moves_from_the_start_to_the_target(name):
    env, (states, actions) = env_of(name), random_game(name)
    kinds = set()
    for before, after, action in zip(states, states[1:], actions, strict=False):
        [entry] = [entry for entry in entries(env, before) if entry.action == action]
        old, new = picture(before).rows, picture(after).rows
        (row, column), [(to_row, to_column)] = entry.start, entry.targets
        piece, moved = old[row][column], new[to_row][to_column]
        assert entry.shown == (to_row, to_column)
        assert moved.isupper() == piece.isupper()
        is_drop = "shogi" in name and row >= len(old) - 2
        kinds.add("drop" if is_drop else "move")
        if is_drop:
            assert moved == piece[0]
            assert old[to_row][to_column] == "."
            continue
        assert new[row][column] == "."
        if moved != piece:  # a promotion
            assert piece.lower() == "p" or moved == f"+{piece}"
    assert kinds == ({"move", "drop"} if "shogi" in name else {"move"})


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
        ({0: 5}, "must return games.Cells"),
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


@pytest.mark.parametrize("name", ["go_9x9", "connect_four", "animal_shogi", "gardner_chess"])
def test_entries_are_found_quickly(name):
    """They are sent with each position of a page."""
    env, (states, _) = env_of(name), random_game(name)
    entries(env, states[0])
    times = []
    for state in states:
        start = time.thread_time()  # on a busy machine, the clock also shows the others' work
        entries(env, state)
        times.append(time.thread_time() - start)
    assert np.median(times) < 0.005


def test_entries_leave_the_state_unchanged():
    """A position of Black once changed the en passant square of a state on the host."""
    chess = games.make("chess")
    fen = "4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1"
    state = jax.tree.map(np.array, jax.device_get(games.from_fen(chess, fen)))
    assert "d4e3" in [entry.name for entry in entries(chess, state)]
    assert games.to_fen(chess, state) == fen
