"""Drawings of finished search trees, with the statistics of every tree on each node."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.search.tree import Tree
from dualmctx.visualization.diagram import Box, Style
from dualmctx.visualization.drawing import Drawing
from dualmctx.visualization.search_tree import Node, SearchTree, choose_nodes, read_tree
from games import Picture
from games.histories import pad_histories
from games.pictures import mark_last_move, picture

# Boards are drawn by default up to this number of cells, with at most this text in a cell.
_MAX_CELLS, _MAX_TEXT = 49, 2


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
    histories = [found.path(node) for node in shown]
    root = None if state is None else _choose_state(state, index)
    names = name_moves(env, root, histories)
    pictures = [None] * len(shown) if root is None else _pictures(env, root, histories, boards)
    labels = dict(zip(shown, zip(names, pictures, strict=True), strict=True))
    return Drawing(title, _legend(found.names), tuple(_boxes(found, shown, labels)))


def _choose_state(state: Any, index: int) -> Any:
    """Returns a state on the host; of a batch of states, the one at the index."""
    if not hasattr(state, "current_player"):
        raise UserError(
            f"state is of type {type(state).__name__}; pass the state of the game that was searched"
        )
    state = jax.device_get(state)
    shape = np.shape(state.current_player)
    if len(shape) == 0:
        return state
    if len(shape) != 1 or index >= shape[0]:
        raise UserError(
            f"state has the batch shape {shape}, and index is {index}; pass the states that were "
            "searched"
        )
    return jax.tree.map(lambda x: np.asarray(x)[index], state)


def name_moves(env: Any, state: Any, histories: Sequence[Sequence[int]]) -> list[str]:
    """Names the last move of each history, in the notation of the game; the root has no name.

    Args:
      env: the game; `None` names a move by the number of its action.
      state: the unbatched state at the root, or `None`. Chess needs it; without it, moves of chess
        are named by numbers.
      histories: the actions that lead to each node.

    Raises:
      ValueError: if the game does not have an action.
    """
    is_chess = env is not None and games.is_chess(env)
    if env is None or (is_chess and state is None):
        return [str(actions[-1]) if actions else "" for actions in histories]
    start = games.to_position(env, state) if is_chess else None
    try:
        return [games.format_moves(env, start, x)[-1] if x else "" for x in histories]
    except UserError as error:
        raise UserError(f"env is {env.id}, which is not the game of the tree: {error}") from None


def _pictures(
    env: Any, state: Any, histories: Sequence[Sequence[int]], boards: bool | None
) -> list[Picture | None]:
    """Returns the picture of each position; `None` if boards are unwanted, too large or unknown."""
    nothing: list[Picture | None] = [None] * len(histories)
    # Replayed even without boards, because this checks that the state belongs to the tree.
    states = _replay(env, state, histories)
    if boards is False:
        return nothing
    try:
        # Drawing can be slow, so that of the root decides first.
        if boards is None and not _is_small(_draw(states, 0)):
            return nothing
        pictures = _draw_all(states, histories)
    except UserError:
        if boards:
            raise
        return nothing
    return [*pictures] if boards or all(map(_is_small, pictures)) else nothing


def draw_positions(env: Any, state: Any, histories: Sequence[Sequence[int]]) -> list[Picture]:
    """Returns the pictures of the positions after some moves.

    Args:
      env: the game.
      state: the unbatched state at the root.
      histories: the actions that lead to each position. Where the history without its last action
        is among them too, the picture marks the cells that the last move changed.

    Raises:
      ValueError: if an action is illegal, or positions of the game cannot be drawn.
    """
    return _draw_all(_replay(env, state, histories), histories)


def _replay(env: Any, state: Any, histories: Sequence[Sequence[int]]) -> Any:
    """Returns the states after some moves, `[S]` on the host."""
    padded = pad_histories(histories)
    starts = jax.tree.map(lambda x: np.broadcast_to(x, (len(histories), *np.shape(x))), state)
    states, first_bad = jax.device_get(games.replay_checked(env, padded, starts))
    if (first_bad >= 0).any():
        row = int(np.argmax(first_bad >= 0))
        raise UserError(
            f"state is not the position that was searched: action {padded[row, first_bad[row]]} is "
            "illegal there"
        )
    return states


def _draw(states: Any, row: int) -> Picture:
    return picture(jax.tree.map(lambda x: x[row], states))


def _draw_all(states: Any, histories: Sequence[Sequence[int]]) -> list[Picture]:
    drawn = {tuple(moves): _draw(states, row) for row, moves in enumerate(histories)}
    return [
        mark_last_move(drawn[tuple(moves)], drawn.get(tuple(moves[:-1])) if moves else None)
        for moves in histories
    ]


def _is_small(board: Picture) -> bool:
    cells = [cell for row in board.rows for cell in row]
    return len(cells) <= _MAX_CELLS and max(map(len, cells), default=0) <= _MAX_TEXT


def _legend(trees: tuple[str, ...]) -> tuple[str, ...]:
    several = f" of the {' and the '.join(trees)} tree" if len(trees) > 1 else ""
    return (
        f"visits N and value Q{several}; prior P",
        "Q: mean result for the player who made the move; at the root, for the player to move",
    )


def _boxes(
    tree: SearchTree, shown: list[int], labels: dict[int, tuple[str, Picture | None]]
) -> list[Box]:
    """Returns the boxes in depth-first order, each summary after its siblings."""
    boxes: list[Box] = []
    stack: list[tuple[int, int, bool]] = [(Tree.ROOT_INDEX, -1, False)]
    kept = set(shown)
    total = sum(tree.nodes[Tree.ROOT_INDEX].passes)
    while stack:
        index, parent, is_summary = stack.pop()
        if is_summary:
            boxes.append(_summary(tree, index, parent, kept))
            continue
        node, place = tree.nodes[index], len(boxes)
        move, board = labels[index]
        box = _box(node, parent, tree.names, move)
        boxes.append(box._replace(weight=sum(node.passes) / total, picture=board))
        children = tree.children[index]
        below = [(child, place, False) for child in children if child in kept]
        if len(below) < len(children):
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
    style: Style = "final" if node.is_terminal else "plain"
    return Box(
        name=f"n{node.index}",
        parent=parent,
        move=move,
        note="" if node.prior is None else f"P {node.prior:.2f}",
        lines=(*lines, *(["game over"] if node.is_terminal else [])),
        title=_describe(node, trees, move),
        style=style if all(node.visits) else "partial",
    )


def _summary(tree: SearchTree, index: int, parent: int, kept: set[int]) -> Box:
    """Returns the box for the nodes below a node that are not shown."""
    missing = [child for child in tree.children[index] if child not in kept]
    number = sum(1 + len(tree.below(child)) for child in missing)
    visits = map(sum, zip(*(tree.nodes[child].visits for child in missing), strict=True))
    nodes = f"+{number} node{'s' * (number != 1)}"
    lines = nodes, f"{'/'.join(map(str, visits))} visits"
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
