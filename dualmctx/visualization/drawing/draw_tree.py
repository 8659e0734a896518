"""Drawings of finished search trees, with the statistics of every tree on each node."""

from typing import Any

from dualmctx import __version__
from dualmctx.errors import UserError
from dualmctx.search.tree import Tree
from dualmctx.visualization.drawing.diagram import Diagram, Direction, check_direction
from dualmctx.visualization.drawing.drawing import Drawing
from dualmctx.visualization.drawing.node_boxes import make_boxes
from dualmctx.visualization.drawing.node_views import (
    choose_state,
    draw_position,
    draw_positions,
    is_small,
    name_moves,
    replay_positions,
)
from dualmctx.visualization.drawing.pruning import prune
from dualmctx.visualization.drawing.search_tree import SearchTree, read_tree
from dualmctx.visualization.drawing.svg_style import Theme, check_theme
from games import Picture


def draw_tree(
    tree: Tree,
    *,
    env: Any = None,
    state: Any = None,
    index: int = 0,
    max_nodes: int = 40,
    max_depth: int | None = None,
    boards: bool | None = None,
    title: str = "",
    direction: Direction = "down",
    theme: Theme = "auto",
) -> Drawing:
    """Draws a finished search tree. Jupyter displays the result.

    Several trees, as of `Dual`, are drawn over the same nodes: a node has the visits and the Q of
    each tree, and a dashed border if not all trees have it.

    Args:
      tree: `output.search_tree` of any variant, with a batch axis.
      env: the game, for the names of the moves. By default, moves have the numbers of actions.
      state: the state that was searched, for boards and for the names of moves in chess; with or
        without the batch axis of the search. It needs `env`.
      index: the element of the batch to draw.
      max_nodes: the largest number of nodes to draw, at least 1: the most visited ones. The others
        are summarised, as in "+12 nodes". `to_json` has all nodes.
      max_depth: the largest depth to draw, at least 1; by default all depths.
      boards: whether to draw the position in each node, which needs `env` and `state`. By default,
        if both are given and the board has at most 49 cells.
      title: one line above the drawing.
      direction: where the children of a node are: down, below it, or right, beside it. The second
        suits wide trees.
      theme: the colours: light, dark, or auto, by which SVG follows the setting of the viewer.

    Returns:
      The drawing, with methods such as `to_svg()` and `save("tree.svg")`.

    Raises:
      ValueError: if an argument is out of range or does not fit the tree, or nothing was searched.
    """
    check_theme(theme)
    check_direction(direction)
    if env is None and (state is not None or boards):
        raise UserError("env is None; pass the game too, as env=games.make(NAME)")
    if state is None and boards:
        raise UserError("boards is True and state is None; pass the state that was searched")
    found = read_tree(tree, index)
    shown = prune(found, max_nodes, max_depth)
    root = None if state is None else choose_state(state, index)
    names = name_moves(env, root, found)
    pictures = {} if root is None else _pictures(env, root, found, shown.nodes, boards)
    diagram = Diagram(
        title=title,
        legend=_legend(found.names),
        columns=("visits", "Q", "P"),
        boxes=tuple(make_boxes(found, shown, names, pictures)),
        direction=direction,
    )
    return Drawing(diagram, _record(found, names, env, title), theme)


def _pictures(
    env: Any, state: Any, tree: SearchTree, nodes: list[int], boards: bool | None
) -> dict[int, Picture]:
    """Returns the pictures of the nodes; none if boards are unwanted, too large or unknown."""
    histories = [tree.path(node) for node in nodes]
    # Replayed even without boards, because this checks that the state belongs to the tree.
    states = replay_positions(env, state, histories)
    if boards is False:
        return {}
    try:
        # Drawing can be slow, so that of the root decides first.
        if boards is None and not is_small(draw_position(states, 0)):
            return {}
        pictures = draw_positions(states, histories)
    except UserError:
        if boards:
            raise
        return {}
    is_drawn = boards or all(map(is_small, pictures))
    return dict(zip(nodes, pictures, strict=True)) if is_drawn else {}


def _legend(trees: tuple[str, ...]) -> tuple[str, ...]:
    several = f" of the {' and the '.join(trees)} tree" if len(trees) > 1 else ""
    return (
        f"visits N and value Q{several}; prior P",
        "Q: mean result for the player who made the move; at the root, for the player to move",
    )


def _record(tree: SearchTree, names: dict[int, str], env: Any, title: str) -> dict[str, Any]:
    """Returns the content of the JSON file: all nodes, with the numbers of the arrays."""
    return {
        "format": "dualmctx-tree",
        "version": 1,
        "dualmctx": __version__,
        "game": None if env is None else str(env.id),
        "title": title,
        "trees": list(tree.names),
        "nodes": [
            node._asdict() | {"move": names.get(index)} for index, node in tree.nodes.items()
        ],
    }
