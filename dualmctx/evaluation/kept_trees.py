"""The positions whose trees are in a pool, and the rows of their trees."""

import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from dualmctx.evaluation.tasks import Task

MAX_CONTINUATION = 8
"""The largest number of moves from a kept position to one that continues from its tree."""
_BYTES_PER_MOVE = 4


class Position(NamedTuple):
    """A position by its history; another order of the moves is another position.

    Attributes:
      fen: the FEN in which the moves begin; `None` for the initial position.
      moves: the actions as bytes of int32.
    """

    fen: str | None
    moves: bytes

    def before(self, number: int) -> "Position":
        """Returns the position `number` moves earlier."""
        return self._replace(moves=self.moves[: len(self.moves) - _BYTES_PER_MOVE * number])

    def last_moves(self, number: int) -> list[int]:
        """Returns the last `number` moves, at least 1, as actions."""
        return np.frombuffer(self.moves, np.int32)[-number:].tolist()

    @property
    def length(self) -> int:
        """The number of moves."""
        return len(self.moves) // _BYTES_PER_MOVE


@dataclasses.dataclass(eq=False)
class KeptTree:
    """A tree in the pool.

    Attributes:
      position: its position.
      row: its row in the pool.
      simulations: its simulations.
      chunks: the number of chunks that have been added to it.
      evaluations: the evaluation after the last chunk; `None` before the first chunk.
    """

    position: Position
    row: int
    simulations: int = 0
    chunks: int = 0
    evaluations: Any = None


class KeptTrees:
    """The trees of running tasks, and those of earlier tasks in the order of their last use.

    Attributes:
      running: the trees of the tasks that run.
    """

    def __init__(self, num_rows: int) -> None:
        """Takes the number of rows, at least twice the largest number of tasks in a batch."""
        self.running: dict[Task, KeptTree] = {}
        self._kept: OrderedDict[Position, KeptTree] = OrderedDict()
        self._free = list(range(num_rows))

    def __len__(self) -> int:
        """Returns the number of trees of earlier tasks."""
        return len(self._kept)

    def take(self, position: Position) -> KeptTree | None:
        """Removes and returns the tree of a position; `None` if there is none."""
        return self._kept.pop(position, None)

    def find_before(self, position: Position) -> KeptTree | None:
        """Returns the tree of the latest position from which a position continues."""
        for number in range(1, 1 + min(MAX_CONTINUATION, position.length)):
            tree = self._kept.get(position.before(number))
            if tree is not None:
                self._kept.move_to_end(tree.position)
                return tree
        return None

    def keep(self, tree: KeptTree) -> None:
        """Adds a tree as the most recently used one; it replaces a tree of the same position."""
        other = self._kept.pop(tree.position, None)
        self._kept[tree.position] = tree
        if other is not None:
            self.free(other)

    def free(self, tree: KeptTree) -> None:
        """Makes the row of a tree available."""
        self._free.append(tree.row)

    def clear(self) -> None:
        """Drops the trees of earlier tasks."""
        self._free += [tree.row for tree in self._kept.values()]
        self._kept.clear()

    def allocate(self, batch: list[Task], in_use: set[int]) -> int:
        """Returns an available row, for which a tree is dropped if necessary.

        The tree of an earlier task is dropped first, the least recently used one; otherwise the
        tree of the last running task, which then starts again.

        Args:
          batch: tasks whose trees are not dropped.
          in_use: rows whose trees are not dropped.
        """
        if self._free:
            return self._free.pop()
        for position, tree in self._kept.items():
            if tree.row not in in_use:
                del self._kept[position]
                return tree.row
        last = max((x for x in self.running if x not in batch), key=lambda task: task.rank)
        last.simulations = last.reused = 0
        return self.running.pop(last).row
