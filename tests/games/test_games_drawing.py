"""Rendering of states as text and SVG."""

import importlib
import xml.etree.ElementTree as ElementTree

import jax
import numpy as np
import pytest

import games
from games.drawing import to_svg
from games.pictures import changed_cells

SVG = "{http://www.w3.org/2000/svg}"


def _after(name, *actions, **parameters):
    env = games.make(name, **parameters)
    return games.replay(env, np.array([actions], np.int32).reshape(1, -1))


def _single(states):
    return jax.tree.map(lambda leaf: leaf[0], states)


def _default(name):
    """Returns the initial state without `init`, which takes many seconds to compile."""
    return importlib.import_module(f"pgx.{name}").State()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "actions", "caption", "rows"),
    [
        ("connect2", {}, [1, 3], "x (black) to move", [". x . o"]),
        ("connect2", {}, [0, 1, 3, 2], "over, o (white) won", ["x o o x"]),
        ("connect2", {}, [0, 1, 2, 3], "over, no winner on record", ["x o x o"]),
        ("nim", {"pile": 14}, [1], "second player to move, pile 12", ["x " * 9 + "x", "x x"]),
        ("nim", {"pile": 1}, [0], "over, first player won, pile 0", ["."]),
        (
            "hsr",
            {"n": 5},
            [1],
            "Opponent to move, 4 jars, 4 tests, 5 rungs, rung 2 named",
            ["  1 [2]   3   4"],
        ),
        ("tic_tac_toe", {}, [4, 0, 2], "O to move", ["O . X", ". X .", ". . ."]),
        (
            "connect_four",
            {},
            [3, 3, 0],
            "o (white) to move",
            [*[". . . . . . ."] * 4, ". . . o . . .", "x . . x . . .", "1 2 3 4 5 6 7"],
        ),
        ("hex", {"size": 3}, [0, 4], "x (black) to move", ["x . .", ". o .", "  . . ."]),
    ],
)
def test_text_rendering(name, parameters, actions, caption, rows):
    lines = games.to_text(_single(_after(name, *actions, **parameters))).splitlines()
    assert lines == [f"{name}: {caption}", *rows]


def test_othello_text_does_not_depend_on_the_mover():
    """pgx's Othello starts with a Python int among the arrays."""
    start = games.make("othello").init(jax.random.PRNGKey(0))
    assert games.to_text(start).splitlines()[4:6] == ["4 . . . o x . . .", "5 . . . x o . . ."]
    lines = games.to_text(_single(_after("othello", 19))).splitlines()
    assert lines[3:6] == ["3 . . . x . . . .", "4 . . . x x . . .", "5 . . . x o . . ."]
    assert lines[9:] == ["  a b c d e f g h"]


@pytest.mark.slow
def test_text_of_go_chess_and_shogi():
    go = games.to_text(_single(_after("go_9x9", 10, 0))).splitlines()
    assert go[1:4] == ["9 o . . . . . . . .", "8 . x . . . . . . .", "7 . . . . . . . . ."]
    assert go[10] == "  A B C D E F G H J"
    chess = games.to_text(_default("chess")).splitlines()
    assert len(chess) == 10
    assert (chess[0], chess[9]) == ("chess: white to move", "  a b c d e f g h")
    assert (chess[1], chess[8]) == ("8 r n b q k b n r", "1 R N B Q K B N R")
    gardner = games.to_text(_default("gardner_chess")).splitlines()
    assert (gardner[1], gardner[4]) == ("5 r n b q k", "2 P P P P P")
    shogi = games.to_text(_default("shogi")).splitlines()
    assert shogi[1:3] == ["a l n s g k g s n l", "b . r . . . . . b ."]
    assert shogi[12] == "  9 8 7 6 5 4 3 2 1"
    animal = games.to_text(_default("animal_shogi")).splitlines()
    assert animal[1:5] == ["r k b", ". p .", ". P .", "B K R"]


def test_the_caption_does_not_depend_on_the_key():
    for key in range(4):  # the players' colours are random
        start = games.make("nim").init(jax.random.PRNGKey(key))
        assert games.to_text(start).startswith("nim: first player to move")


@pytest.mark.parametrize(
    ("before", "after", "marked"),
    [
        (["...", "..."], ["...", ".x."], {(1, 1)}),
        (["xo.", "..."], ["x.x", "..."], {(0, 2)}),  # a capture
        (["xo."], ["xxx"], {(0, 2)}),  # a stone turned over
        (["xo"], ["xx"], {(0, 1)}),  # the swap of Hex
        (["K..R"], [".RK."], {(0, 0), (0, 1), (0, 2), (0, 3)}),  # castling
        (["pP"], ["P."], {(0, 0), (0, 1)}),
        ([["1", "2"]], [["1", "[2]"]], set()),
        (["xxx", "x"], ["xx"], set()),
    ],
)
def test_the_cells_of_the_last_move_are_those_that_changed(before, after, marked):
    rows = [tuple(map(tuple, grid)) for grid in (before, after)]
    assert changed_cells(*rows) == marked


def test_the_last_move_is_marked():
    before, after = _single(_after("connect2", 1)), _single(_after("connect2", 1, 3))
    assert games.to_text(after, before).splitlines()[1] == " . x .[o]"
    tree = ElementTree.fromstring(after.to_svg(before=before))
    fills = [cell.get("fill") for cell in tree.iter(f"{SVG}rect")][1:]
    assert fills[:3] == ["none"] * 3
    assert fills[3] != "none"
    with pytest.raises(ValueError, match="before has 1 states, but there are 2"):
        games.to_text(games.replay(games.make("connect2"), np.array([[0], [1]])), before)


def test_chess_is_drawn_with_pieces_and_coordinates():
    tree = ElementTree.fromstring(to_svg(_default("gardner_chess")))
    texts = [text.text.rstrip("\ufe0e") for text in tree.iter(f"{SVG}text")]
    assert texts[0] == "gardner_chess: white to move"
    assert "".join(texts[1:6]) == "♜♞♝♛♚"
    assert "".join(texts[-10:]) == "54321abcde"
    squares = [cell.get("fill") for cell in tree.iter(f"{SVG}rect")][1:]
    # The corner a1 is dark.
    assert squares[20] != squares[21] == squares[15]
    assert len(set(squares)) == 2


def test_batched_states_are_rendered_in_order():
    states = games.replay(games.make("connect2"), np.array([[0, -1], [1, 2]]))
    one, two = games.to_text(states).split("\n\n")
    assert one.endswith("x . . .")
    assert two.endswith(". x o .")


@pytest.mark.parametrize(("name", "batch"), [("connect2", None), ("nim", 1), ("hsr", 3)])
def test_svg(name, batch, tmp_path):
    env, key = games.make(name), jax.random.PRNGKey(0)
    state = env.init(key) if batch is None else jax.vmap(env.init)(jax.random.split(key, batch))
    tree = ElementTree.fromstring(state.to_svg())
    captions = [text for text in tree.iter(f"{SVG}text") if text.text.startswith(name)]
    assert len(captions) == (batch or 1)
    assert state._repr_html_() == state.to_svg()
    state.save_svg(tmp_path / "state.svg", scale=2.0)
    doubled = ElementTree.parse(tmp_path / "state.svg").getroot()
    assert float(doubled.get("width")) == 2 * float(tree.get("width"))


def test_invalid_arguments_raise(tmp_path):
    state = games.make("nim").init(jax.random.PRNGKey(0))
    with pytest.raises(ValueError, match=r"ends with '\.svg'"):
        state.save_svg(tmp_path / "state.png")
    with pytest.raises(ValueError, match="no drawing for"):
        games.to_text(_NoGame())
    with pytest.raises(ValueError, match=r"drawing of 'othello' does not fit _Othello: .*Attrib"):
        games.to_text(_Othello())


class _NoGame:
    env_id = "mystery"
    current_player = 0


class _Othello(_NoGame):
    env_id = "othello"
    terminated = truncated = False


jax.tree_util.register_static(_NoGame)
jax.tree_util.register_static(_Othello)
