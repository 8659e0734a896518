"""The boxes of a search tree: the texts of its nodes, and the summaries of hidden ones."""

from dualmctx.search.tree import Tree
from dualmctx.visualization.drawing.diagram import Box, Style
from dualmctx.visualization.drawing.pruning import Hidden, Shown
from dualmctx.visualization.drawing.search_tree import Node, SearchTree
from games import Picture


def make_boxes(
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
