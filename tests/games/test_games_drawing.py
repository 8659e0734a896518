"""Rendering of states as text and SVG."""

import importlib
import xml.etree.ElementTree as ElementTree

import jax
import numpy as np
import pytest

import games

SVG = "{http://www.w3.org/2000/svg}"


def _after(name, *actions, **parameters):
    env = games.make(name, **parameters)
    return games.replay(env, np.array([actions], np.int32).reshape(1, -1))


def _single(states):
    return jax.tree.map(lambda leaf: leaf[0], states)


def _default(name):
    """Returns the initial state without `init`, which takes many seconds to compile."""
    return importlib.import_module(f"pgx.{name}").State()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "parameters", "actions", "rows"),
    [
        ("connect2", {}, [1, 3], [". x . o"]),
        ("nim", {"pile": 14}, [1], ["x x x x x x x x x x", "x x"]),
        ("nim", {"pile": 1}, [0], ["."]),
        ("hsr", {"n": 5}, [1], ["  1 [2]   3   4"]),
        ("tic_tac_toe", {}, [4, 0], ["o . .", ". x .", ". . ."]),
        ("connect_four", {}, [3, 3, 0], [". . . . . . ."] * 4 + [". . . o . . .", "x . . x . . ."]),
        ("hex", {"size": 3}, [0, 4], ["x . .", ". o .", "  . . ."]),
    ],
)
def test_text_rendering(name, parameters, actions, rows):
    lines = games.to_text(_single(_after(name, *actions, **parameters))).splitlines()
    assert lines[0].startswith(f"{name}: ")
    assert lines[1:] == rows


def test_othello_text_does_not_depend_on_the_mover():
    lines = games.to_text(_single(_after("othello", 19))).splitlines()
    assert lines[3:6] == [". . . x . . . .", ". . . x x . . .", ". . . x o . . ."]


def test_text_of_unjitted_state():
    """pgx's Othello starts with a Python int among the arrays."""
    start = games.make("othello").init(jax.random.PRNGKey(0))
    assert games.to_text(start).splitlines()[4:6] == [". . . o x . . .", ". . . x o . . ."]


@pytest.mark.slow
def test_text_of_go_chess_and_shogi():
    go = games.to_text(_single(_after("go_9x9", 10, 0))).splitlines()
    assert go[1:4] == ["o . . . . . . . .", ". x . . . . . . .", ". . . . . . . . ."]
    chess = games.to_text(_default("chess")).splitlines()
    assert len(chess) == 9
    assert (chess[1], chess[8]) == ("r n b q k b n r", "R N B Q K B N R")
    gardner = games.to_text(_default("gardner_chess")).splitlines()
    assert (gardner[1], gardner[4]) == ("r n b q k", "P P P P P")
    shogi = games.to_text(_default("shogi")).splitlines()
    assert shogi[1].startswith("lnsgkgsnl/1r5b1/")
    animal = games.to_text(_default("animal_shogi")).splitlines()
    assert animal[1:5] == ["r k b", ". p .", ". P .", "B K R"]


def test_caption_names_mover_or_result():
    states = _after("nim", 0, pile=1)
    winner = int(np.argmax(states.rewards[0]))
    assert games.to_text(_single(states)).startswith(f"nim: over, player {winner} won")
    start = games.make("nim").init(jax.random.PRNGKey(0))
    assert games.to_text(start).startswith(f"nim: player {int(start.current_player)} to move")
    draw = _single(_after("connect2", 0, 1, 2, 3))
    assert games.to_text(draw).startswith("connect2: over, no winner")


def test_batched_states_are_rendered_in_order():
    states = games.replay(games.make("connect2"), np.array([[0, -1], [1, 2]]))
    one, two = games.to_text(states).split("\n\n")
    assert one.endswith("x . . .")
    assert two.endswith(". x o .")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["connect2", "nim", "hsr"])
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_svg(name, batch, tmp_path):
    env, key = games.make(name), jax.random.PRNGKey(0)
    state = env.init(key) if batch is None else jax.vmap(env.init)(jax.random.split(key, batch))
    tree = ElementTree.fromstring(state.to_svg())
    captions = [text for text in tree.iter(f"{SVG}text") if text.text.startswith(name)]
    assert len(captions) == (batch or 1)
    assert state._repr_html_() == state.to_svg()
    assert state.to_svg(color_theme="dark") != state.to_svg(color_theme="light")
    state.save_svg(tmp_path / "state.svg", scale=2.0)
    doubled = ElementTree.parse(tmp_path / "state.svg").getroot()
    assert float(doubled.get("width")) == 2 * float(tree.get("width"))


def test_svg_contains_one_circle_per_stone():
    state = _single(_after("connect2", 1, 3))
    circles = list(ElementTree.fromstring(state.to_svg()).iter(f"{SVG}circle"))
    assert [circle.get("fill") for circle in circles] == ["black", "white"]
    nim = _single(_after("nim", 2, pile=9))
    assert len(list(ElementTree.fromstring(nim.to_svg()).iter(f"{SVG}circle"))) == 6


def test_svg_of_small_hex_has_its_board_size():
    state = _single(_after("hex", 0, 4, size=3))
    tree = ElementTree.fromstring(state.to_svg())
    assert len(list(tree.iter(f"{SVG}circle"))) == 2
    assert len(list(tree.iter(f"{SVG}rect"))) == 9 + 1  # the cells and the background


def test_invalid_arguments_raise(tmp_path):
    state = games.make("nim").init(jax.random.PRNGKey(0))
    with pytest.raises(ValueError, match=r"ends with '\.svg'"):
        state.save_svg(tmp_path / "state.png")
    with pytest.raises(ValueError, match="color_theme='blue'"):
        state.to_svg(color_theme="blue")
    with pytest.raises(ValueError, match="no drawing for"):
        games.to_text(_NoGame())


class _NoGame:
    env_id = "mystery"
    current_player = 0


jax.tree_util.register_static(_NoGame)
