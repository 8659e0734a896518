"""Drawings of finished search trees, with the statistics of every tree on each node."""

from typing import Any

from dualmctx.errors import UserError
from dualmctx.search.tree import Tree
from dualmctx.visualization.drawing.diagram import Box, Diagram, Style
from dualmctx.visualization.drawing.drawing import Drawing
from dualmctx.visualization.drawing.node_views import (
    choose_state,
    draw_position,
    draw_positions,
    is_small,
    name_moves,
    replay_positions,
)
from dualmctx.visualization.drawing.search_tree import (
    Hidden,
    Node,
    SearchTree,
    choose_nodes,
    find_hidden,
    read_tree,
)
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
        are summarised, as in "+12 nodes".
      max_depth: the largest depth to draw, at least 1; by default all depths.
      boards: whether to draw the position in each node, which needs `env` and `state`. By default,
        if both are given and the board has at most 49 cells.
      title: one line above the drawing.

    Returns:
      The drawing, with methods such as `to_svg()` and `save("tree.svg")`.

    Raises:
      ValueError: if an argument is out of range or does not fit the tree, or nothing was searched.
    """
    if env is None and (state is not None or boards):
        raise UserError("env is None; pass the game too, as env=games.make(NAME)")
    if state is None and boards:
        raise UserError("boards is True and state is None; pass the state that was searched")
    found = read_tree(tree, index)
    shown = choose_nodes(found, max_nodes, max_depth)
    root = None if state is None else choose_state(state, index)
    names = name_moves(env, root, found)
    pictures = {} if root is None else _pictures(env, root, found, shown, boards)
    boxes = tuple(_boxes(found, shown, names, pictures))
    return Drawing(Diagram(title, _legend(found.names), boxes))


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


def _boxes(
    tree: SearchTree, shown: list[int], names: dict[int, str], pictures: dict[int, Picture]
) -> list[Box]:
    """Returns the boxes in depth-first order, each summary after its siblings."""
    boxes: list[Box] = []
    stack: list[tuple[int, int, bool]] = [(Tree.ROOT_INDEX, -1, False)]
    kept, hidden = set(shown), find_hidden(tree, shown)
    total = sum(tree.nodes[Tree.ROOT_INDEX].passes)
    while stack:
        index, parent, is_summary = stack.pop()
        if is_summary:
            boxes.append(_summary(index, parent, hidden[index]))
            continue
        node, place = tree.nodes[index], len(boxes)
        box = _box(node, parent, tree.names, names.get(index, ""))
        weight = sum(node.passes) / total
        boxes.append(box._replace(weight=weight, picture=pictures.get(index)))
        below = [(child, place, False) for child in tree.children[index] if child in kept]
        if index in hidden:
            below.append((index, place, True))
        stack += reversed(below)
    return boxes


def _box(node: Node, parent: int, trees: tuple[str, ...], move: str) -> Box:
    # The root has no move, so its own values take the place of Q.
    texts = [_signed(x) for x in (node.qvalues if parent >= 0 else node.values)]
    width, digits = max(map(len, trees)), max(len(str(n)) for n in node.visits)
    lines = [
        f"{name:<{width}} {n:>{digits}} {text}" if n else f"{name:<{width}} –"
        for name, n, text in zip(trees, node.visits, texts, strict=True)
    ]
    if len(trees) == 1:
        lines = [f"N {node.visits[0]}", f"{'Q' if parent >= 0 else 'V'} {texts[0]}"]
    return Box(
        name=f"n{node.index}",
        parent=parent,
        move=move,
        note="" if node.prior is None else f"P {node.prior:.2f}",
        lines=(*lines, *(["game over"] if node.is_terminal else [])),
        title=_describe(node, trees, move),
        style=_style(node),
    )


def _style(node: Node) -> Style:
    if not all(node.visits):
        return "partial"
    return "final" if node.is_terminal else "plain"


def _summary(index: int, parent: int, hidden: Hidden) -> Box:
    nodes = f"+{hidden.nodes} node{'s' * (hidden.nodes != 1)}"
    lines = nodes, f"{'/'.join(map(str, hidden.visits))} visits"
    title = f"{nodes} below node {index} not shown"
    return Box(f"more{index}", parent, "", "", lines, title, "summary")


def _describe(node: Node, trees: tuple[str, ...], move: str) -> str:
    """Describes a node in full precision."""
    parts = [f"node {node.index}" + (f", move {move}" if move else "")]
    if node.prior is not None:
        parts.append(f"P {node.prior}")
    for name, visits, value, q in zip(trees, node.visits, node.values, node.qvalues, strict=True):
        numbers = f"N {visits}" + ("" if q is None else f", Q {q}")
        parts.append(f"{name}: {numbers}" + ("" if value is None else f", V {value}"))
    return "; ".join([*parts, f"network's value {node.raw_value}"])


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 2) + 0.0:+.2f}"  # no -0.00
