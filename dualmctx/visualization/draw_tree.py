"""Drawings of finished search trees, with the statistics of every tree on each node."""

from typing import Any

from dualmctx import __version__
from dualmctx.search.tree import Tree
from dualmctx.visualization.diagram import Box, Diagram, Direction, Style, check_direction
from dualmctx.visualization.drawing import Drawing
from dualmctx.visualization.node_views import choose_state, draw_positions, is_small, name_moves
from dualmctx.visualization.pruning import Hidden, Shown, prune
from dualmctx.visualization.search_tree import Node, SearchTree, read_tree
from dualmctx.visualization.svg_style import Theme, check_theme
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
        raise ValueError("env is None; pass the game too, as env=games.make(NAME)")
    if state is None and boards:
        raise ValueError("boards is True and state is None; pass the state that was searched")
    found = read_tree(tree, index)
    shown = prune(found, max_nodes, max_depth)
    root = None if state is None else choose_state(state, index)
    names = name_moves(env, root, found)
    pictures = {} if root is None else _pictures(env, root, found, shown.nodes, boards)
    diagram = Diagram(
        title=title,
        legend=_legend(found.names),
        columns=("visits", "Q", "P"),
        boxes=tuple(_boxes(found, shown, names, pictures)),
        direction=direction,
    )
    return Drawing(diagram, _record(found, names, env, title), theme)


def _pictures(
    env: Any, state: Any, tree: SearchTree, nodes: list[int], boards: bool | None
) -> dict[int, Picture]:
    """Returns the pictures of the nodes; none if boards are unwanted, too large or unknown."""
    # Replayed even without boards, because this checks that the state belongs to the tree.
    try:
        pictures = draw_positions(env, state, [tree.path(node) for node in nodes])
    except ValueError as error:
        if boards or "position that was searched" in str(error):
            raise
        return {}
    if boards is False or (boards is None and not all(map(is_small, pictures))):
        return {}
    return dict(zip(nodes, pictures, strict=True))


def _boxes(
    tree: SearchTree, shown: Shown, names: dict[int, str], pictures: dict[int, Picture]
) -> list[Box]:
    """Returns the boxes in depth-first order, each summary after its siblings."""
    boxes: list[Box] = []
    stack: list[tuple[int, int, bool]] = [(Tree.ROOT_INDEX, -1, False)]
    kept, total = set(shown.nodes), sum(tree.nodes[Tree.ROOT_INDEX].passes)
    while stack:
        index, parent, is_summary = stack.pop()
        if is_summary:
            boxes.append(_summary(index, parent, shown.hidden[index], tree.names))
            continue
        node, place = tree.nodes[index], len(boxes)
        weight = sum(node.passes) / total
        boxes.append(_box(node, parent, tree.names, names, weight, pictures.get(index)))
        below = [(child, place, False) for child in tree.children[index] if child in kept]
        if index in shown.hidden:
            below.append((index, place, True))
        stack += reversed(below)
    return boxes


def _box(
    node: Node,
    parent: int,
    trees: tuple[str, ...],
    names: dict[int, str],
    weight: float,
    picture: Picture | None,
) -> Box:
    # The root has no move, so its own values take the place of Q.
    shown = node.qvalues if parent >= 0 else node.values
    texts = [_signed(x) for x in shown]
    width, digits = max(map(len, trees)), max(len(str(n)) for n in node.visits)
    lines = [
        f"{name:<{width}} {n:>{digits}} {text}" if n else f"{name:<{width}} –"
        for name, n, text in zip(trees, node.visits, texts, strict=True)
    ]
    if len(trees) == 1:
        lines = [f"N {node.visits[0]}", f"{'Q' if parent >= 0 else 'V'} {texts[0]}"]
    prior = "" if node.prior is None else f"{node.prior:.2f}"
    return Box(
        name=f"n{node.index}",
        parent=parent,
        move=names.get(node.index, ""),
        note=prior and f"P {prior}",
        lines=(*lines, *(["game over"] if node.is_terminal else [])),
        cells=("/".join(map(str, node.visits)), "/".join(texts), prior),
        title=_describe(node, trees, names.get(node.index)),
        style=_style(node),
        weight=weight,
        picture=picture,
    )


def _style(node: Node) -> Style:
    if not all(node.visits):
        return "partial"
    return "final" if node.is_terminal else "plain"


def _summary(index: int, parent: int, hidden: Hidden, trees: tuple[str, ...]) -> Box:
    nodes = f"+{hidden.nodes} node{'s' * (hidden.nodes != 1)}"
    visits = f"{'/'.join(map(str, hidden.visits))} visits"
    title = f"{nodes} below node {index} not shown"
    cells = ("/".join(map(str, hidden.visits)), "", "")
    lines = (nodes, visits)
    return Box(f"more{index}", parent, "", "", lines, cells, title, "summary")


def _describe(node: Node, trees: tuple[str, ...], move: str | None) -> str:
    """Describes a node in full precision."""
    parts = [f"node {node.index}" + ("" if move is None else f", move {move}")]
    if node.prior is not None:
        parts.append(f"P {node.prior}")
    for name, visits, value, q in zip(trees, node.visits, node.values, node.qvalues, strict=True):
        numbers = f"N {visits}" + ("" if q is None else f", Q {q}")
        parts.append(f"{name}: {numbers}" + ("" if value is None else f", V {value}"))
    return "; ".join([*parts, f"network's value {node.raw_value}"])


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 2) + 0.0:+.2f}"  # no -0.00


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
