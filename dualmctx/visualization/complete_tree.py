"""The complete tree of a small game, with the exact value of each position."""

import collections
from typing import Any, NamedTuple

import jax

import games
from dualmctx.checks import check_count
from dualmctx.errors import UserError
from dualmctx.visualization.diagram import Box
from dualmctx.visualization.draw_tree import draw_positions, name_moves
from dualmctx.visualization.drawing import Drawing
from games import Picture, exploration

_LEGEND = (
    "value under perfect play: +1 the first player wins, 0 draw, -1 the second player wins",
    "★ and thick edge: the move keeps the value, so it is optimal",
)


class History(NamedTuple):
    """A node of the complete tree: a sequence of moves from the start of the game.

    Attributes:
      actions: the moves.
      parent: the position of the history without its last move in the list; -1 for the root.
      value: the result under perfect play for the player who moves first: -1, 0 or 1.
      is_over: whether the game is over.
      is_optimal: whether the last move keeps the value; false for the root.
    """

    actions: tuple[int, ...]
    parent: int
    value: int
    is_over: bool
    is_optimal: bool


def complete_tree(
    env: Any,
    *,
    max_nodes: int = 1000,
    boards: bool = True,
    title: str | None = None,
) -> Drawing:
    """Draws all histories of a small game, with exact values and optimal moves.

    Two histories that lead to the same position are two nodes, as in a search tree.

    Args:
      env: a game that `games.solve` can solve.
      max_nodes: the largest number of histories to draw, at least 1.
      boards: whether to draw the position in each node.
      title: one line above the drawing; by default the name of the game and the number of nodes.

    Returns:
      The drawing, with the methods of that of `draw_tree`.

    Raises:
      ValueError: if there is no solver for the game, or it has more histories.
    """
    check_count("max_nodes", max_nodes, 1)
    histories = list_histories(env, max_nodes)
    over = sum(node.is_over for node in histories)
    if title is None:
        title = f"{env.id}: all {len(histories)} histories, {over} of them finished games"
    actions = [node.actions for node in histories]
    start = jax.device_get(env.init(jax.random.PRNGKey(0)))
    pictures = draw_positions(env, start, actions) if boards else [None] * len(histories)
    names = name_moves(env, None, actions)
    boxes = tuple(map(_box, range(len(histories)), histories, names, pictures))
    return Drawing(title, _LEGEND, boxes)


def list_histories(env: Any, max_nodes: int) -> list[History]:
    """Returns all histories of a game in depth-first order, moves in ascending order."""
    games.solve(env)  # checks that there is a solver and that its tables fit
    graph = exploration.explore(env)
    number = count_histories(graph)
    if number > max_nodes:
        raise UserError(
            f"the complete tree of {env.id} has {number:,} nodes, more than max_nodes, "
            f"{max_nodes:,}; choose a larger max_nodes or a smaller game"
        )
    values = exploration.first_player_values(graph)
    histories: list[History] = []
    stack: list[tuple[tuple[int, ...], int, int]] = [((), -1, 0)]
    rows: list[int] = []
    while stack:
        actions, parent, row = stack.pop()
        children = graph[row].children
        keeps = parent >= 0 and values[rows[parent]] == values[row]
        place = len(histories)
        histories.append(History(actions, parent, values[row], not children, keeps))
        rows.append(row)
        stack += [((*actions, a), place, child) for a, child in sorted(children.items())][::-1]
    return histories


def count_histories(graph: list[exploration.Node]) -> int:
    """Counts the histories of a game, without a list of them; the number may be huge."""
    total, level = 0, collections.Counter({0: 1})
    while level:
        total += level.total()
        below: collections.Counter[int] = collections.Counter()
        for row, number in level.items():
            for child in graph[row].children.values():
                below[child] += number
        level = below
    return total


def _box(place: int, node: History, name: str, picture: Picture | None) -> Box:
    value = f"{node.value:+d}" if node.value else "0"
    return Box(
        name=f"n{place}",
        parent=node.parent,
        move=name,
        note="",
        lines=(value,),
        title=f"moves {' '.join(map(str, node.actions)) or 'none'}: value {value}",
        style="final" if node.is_over else "plain",
        is_best=node.is_optimal,
        picture=picture,
    )
