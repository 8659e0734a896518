"""Drawings of trees: names, boards, files, and errors for bad input."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

import games
from dualmctx.search.tree import Tree, TreeStats
from dualmctx.visualization import Drawing, draw_tree
from dualmctx.visualization.diagram import Box
from dualmctx.visualization.draw_tree import name_moves
from dualmctx.visualization.search_tree import read_tree

SVG = "{http://www.w3.org/2000/svg}"


HISTORIES = ((0,), (3,), (3, 0))


@pytest.fixture(scope="module")
def env() -> Any:
    return games.make("connect2")


@pytest.fixture(scope="module")
def state(env: Any) -> Any:
    """Two positions: cells 2 and 3 are taken, and cell 2."""
    return games.replay(env, [[1, 2], [1, -1]])


@pytest.fixture(scope="module")
def tree(env: Any) -> Tree:
    return make_tree(env, HISTORIES, batch=2)


def make_tree(env: Any, histories: Sequence[tuple[int, ...]], batch: int = 1) -> Tree:
    """Makes equal trees with a node for each history besides the root."""
    places = {(): 0} | {moves: place for place, moves in enumerate(histories, 1)}
    size, numbers = len(places), np.arange(len(places), dtype=np.float32)
    edges = np.full(size, -1, np.int32)
    children = np.full((size, env.num_actions), -1, np.int16)
    prior, visits = np.zeros(children.shape, np.float32), np.zeros(children.shape, np.int32)
    for moves in histories:
        parent, action, place = places[moves[:-1]], moves[-1], places[moves]
        edges[place] = parent * env.num_actions + action
        children[parent, action] = place
        prior[parent, action], visits[parent, action] = 1 / (1 + place), 10 - place
    stats = TreeStats(np.stack([10 - numbers, 0.1 * numbers], axis=1), visits, -prior)
    transitions = np.stack([0 * numbers, -np.ones_like(numbers)], axis=1)
    invalid = np.zeros(env.num_actions, bool)
    parts = (edges, transitions, children, prior, 0 * numbers, None, (stats,), invalid, None)
    return jax.tree.map(lambda x: jax.numpy.asarray([x] * batch), Tree(*parts))


def name_nodes(env: Any, state: Any, tree: Tree) -> dict[int, str]:
    """Returns the name of the move to each node but the root."""
    read = read_tree(tree)
    indices = [index for index in read.nodes if index]
    return dict(zip(indices, name_moves(env, state, [*map(read.path, indices)]), strict=True))


def test_moves_have_numbers_without_a_game_and_names_with_it(tree: Tree, env: Any) -> None:
    assert name_nodes(None, None, tree) == {1: "0", 2: "3", 3: "0"}
    # Cells are numbered from 1.
    assert name_nodes(env, None, tree) == {1: "1", 2: "4", 3: "1"}
    boxes = draw_tree(tree, env=env).boxes
    assert [box.move for box in boxes] == ["", "1", "4", "1"]
    # A search with one tree names neither the tree nor a second number.
    assert [box.lines for box in boxes] == [
        ("N 10", "V +0.00"),
        ("N 9", "Q -0.50"),
        ("N 8", "Q -0.33"),
        ("N 7", "Q -0.25"),
    ]


def test_boards_are_those_of_the_positions(tree: Tree, env: Any, state: Any) -> None:
    drawing = draw_tree(tree, env=env, state=state, max_nodes=100)
    root, *others = drawing.boxes
    assert root.picture is not None
    assert root.picture.rows == ((".", "x", "o", "."),)
    for box in others:
        assert box.picture is not None
        before = drawing.boxes[box.parent].picture
        assert before is not None
        cell = int(box.move) - 1
        side = "xo"[sum(x != "." for x in before.rows[0]) % 2]
        expected = (*before.rows[0][:cell], side, *before.rows[0][cell + 1 :])
        assert box.picture.rows == (expected,)
        assert box.picture.marked == {(0, cell)}
    svg = ElementTree.fromstring(drawing.to_svg())
    stones = list(svg.iter(f"{SVG}circle"))
    shown = [x.picture.rows[0] for x in drawing.boxes if x.picture is not None]
    assert len(stones) == sum(cell in ("x", "o") for row in shown for cell in row)
    assert all(x.picture is None for x in draw_tree(tree, env=env).boxes)
    plain = draw_tree(tree, env=env, state=state, boards=False)
    assert all(x.picture is None for x in plain.boxes)
    # A state may have the batch axis or not.
    single = jax.tree.map(lambda x: x[1], state)
    pair = (draw_tree(tree, env=env, state=x, index=1).to_svg() for x in (state, single))
    assert len(set(pair)) == 1


def test_chess_moves_are_named_from_the_position() -> None:
    env = games.make("gardner_chess")
    state = jax.jit(env.init)(jax.random.PRNGKey(0))
    first = int(np.argmax(state.legal_action_mask))
    tree = make_tree(env, [(first,)])
    expected = {1: games.format_action(env, state, first)}
    assert name_nodes(env, state, tree) == expected
    assert draw_tree(tree, env=env).boxes[1].move == str(first)


def test_logits_become_probabilities_of_legal_actions(env: Any) -> None:
    lowest = float(np.finfo(np.float32).min)
    logits = jax.numpy.array([[[1, 2, lowest, 0], [0, 0, 0, 0]]], np.float32)
    tree = dataclasses.replace(make_tree(env, [(1,)]), children_prior=logits, prior_is_logits=True)
    root, child = read_tree(tree).nodes.values()
    assert root.prior is None
    assert child.prior == pytest.approx(np.exp(2) / np.exp([1, 2, 0]).sum(), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"index": 2}, "index is 2; it must be from 0 to 1, because the search has a batch of 2"),
        ({"index": "a"}, "index is a"),
        ({"max_nodes": 0}, "max_nodes is 0; it must be at least 1"),
        ({"max_depth": 0}, "max_depth is 0"),
        ({"boards": True}, "env is None; pass the game too"),
    ],
)
def test_bad_arguments_are_named(tree: Tree, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_tree(tree, **changes)


def test_a_state_that_does_not_fit_is_refused(tree: Tree, env: Any, state: Any) -> None:
    with pytest.raises(ValueError, match="boards is True and state is None"):
        draw_tree(tree, env=env, boards=True)
    with pytest.raises(ValueError, match="state is of type int"):
        draw_tree(tree, env=env, state=3)
    other = games.replay(env, [[0], [3]])
    with pytest.raises(ValueError, match="state is not the position that was searched: action 0"):
        draw_tree(tree, env=env, state=other)
    one = jax.tree.map(lambda x: x[:1], state)
    with pytest.raises(ValueError, match=r"batch shape \(1,\), and index is 1"):
        draw_tree(tree, env=env, state=one, index=1)
    with pytest.raises(ValueError, match="env is nim, which is not the game of the tree"):
        draw_tree(make_tree(games.make("connect_four"), [(6,)]), env=games.make("nim"))


def test_other_objects_and_empty_trees_are_refused(tree: Tree) -> None:
    with pytest.raises(ValueError, match="tree is of type dict; pass the search_tree"):
        draw_tree({})  # pyright: ignore[reportArgumentType]
    one = jax.tree.map(lambda x: x[0], tree)
    with pytest.raises(ValueError, match="1 leading axes"):
        draw_tree(one)
    empty = jax.tree.map(jax.numpy.zeros_like, tree)
    with pytest.raises(ValueError, match="element 1 of the tree is empty: nothing was searched"):
        draw_tree(empty, index=1)


def test_files_have_the_format_of_their_suffix(tree: Tree, tmp_path: Path) -> None:
    drawing = draw_tree(tree, title="T")
    texts = {".svg": drawing.to_svg(), ".dot": drawing.to_dot()}
    for suffix, text in texts.items():
        drawing.save(str(tmp_path / f"tree{suffix}"))
        assert (tmp_path / f"tree{suffix}").read_text(encoding="utf-8") == text
    assert {x.suffix for x in tmp_path.iterdir()} == texts.keys()
    assert drawing._repr_svg_() == drawing.to_svg()
    with pytest.raises(ValueError, match=r"tree.png; its name must end in .svg or .dot"):
        drawing.save(tmp_path / "tree.png")
    with pytest.raises(OSError, match="missing"):
        drawing.save(tmp_path / "missing" / "tree.svg")


HOSTILE = '</text><script>alert(1)</script>"\\ \n\x00\u2028]]>&'


def test_names_cannot_leave_their_text() -> None:
    boxes = (
        Box("n0", -1, "", "", (HOSTILE,), HOSTILE),
        Box("n1", 0, HOSTILE, HOSTILE, ("x",), "t", is_best=True),
    )
    drawing = Drawing(HOSTILE, (HOSTILE,), boxes)
    root = ElementTree.fromstring(drawing.to_svg())
    assert not list(root.iter(f"{SVG}script"))
    seen = HOSTILE.replace("\n", "\ufffd").replace("\x00", "\ufffd").replace("\u2028", "\ufffd")
    assert seen in [x.text for x in root.iter(f"{SVG}text")]
    dot = drawing.to_dot()
    # Each statement stays on its line, and every quotation mark in a text is escaped.
    assert len(dot.splitlines()) == 8
    for line in dot.splitlines():
        assert line.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 0
