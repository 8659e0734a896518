"""Tasks whose search continues from kept trees, in chunks of simulations."""

import dataclasses
import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.evaluation.answers import describe, error_row
from dualmctx.evaluation.evaluations import digest
from dualmctx.game_files.questions import Row, restrict
from dualmctx.serving.tasks import Task, TaskSearch
from dualmctx.serving.tree_pool import TreePool
from dualmctx.types import Environment

MAX_CONTINUATION = 8
"""The largest number of moves from a kept position to one that continues from its tree."""


class Position(NamedTuple):
    """A position by its history; another order of the moves is another position.

    Attributes:
      fen: the FEN in which the moves begin; `None` for the initial position.
      moves: the actions.
      allowed: the actions that a search may choose; `None` for all.
    """

    fen: str | None
    moves: tuple[int, ...]
    allowed: tuple[int, ...] | None = None


@dataclasses.dataclass(eq=False)
class KeptTree:
    """A tree in the pool.

    Attributes:
      position: its position.
      context: the position as `games.move_contexts`, for the names of its moves.
      row: its row in the pool.
      simulations: its simulations.
      chunks: the number of chunks that have been added to it.
      evaluations: the evaluation after the last chunk; `None` before the first chunk.
    """

    position: Position
    context: games.MoveContexts | None
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
        self.kept: OrderedDict[Position, KeptTree] = OrderedDict()
        self._free = list(range(num_rows))

    def find_before(self, position: Position) -> KeptTree | None:
        """Returns the tree of the latest position from which a position continues.

        There is none for a position with allowed actions, as its tree has no others.
        """
        if position.allowed is not None:
            return None
        moves = position.moves
        for number in range(1, 1 + min(MAX_CONTINUATION, len(moves))):
            tree = self.kept.get(position._replace(moves=moves[:-number]))
            if tree is not None:
                self.kept.move_to_end(tree.position)
                return tree
        return None

    def keep(self, tree: KeptTree) -> None:
        """Adds a tree as the most recently used one; it replaces a tree of the same position."""
        other = self.kept.pop(tree.position, None)
        self.kept[tree.position] = tree
        if other is not None:
            self.free(other)

    def free(self, tree: KeptTree) -> None:
        """Makes the row of a tree available."""
        self._free.append(tree.row)

    def clear(self) -> None:
        """Drops the trees of earlier tasks."""
        self._free += [tree.row for tree in self.kept.values()]
        self.kept.clear()

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
        for position, tree in self.kept.items():
            if tree.row not in in_use:
                del self.kept[position]
                return tree.row
        last = max((x for x in self.running if x not in batch), key=lambda task: task.rank)
        return self.running.pop(last).row


class DeepeningSearch(TaskSearch):
    """Runs steps on a pool, and keeps the trees of finished tasks."""

    def __init__(self, env: Environment, pool: TreePool) -> None:
        """Takes the game and an empty pool."""
        self._env, self._pool, self._trees = env, pool, KeptTrees(pool.num_rows)

    @property
    def num_kept(self) -> int:
        """The number of trees of finished tasks."""
        return len(self._trees.kept)

    def step(self, tasks: list[Task]) -> None:
        """Adds a chunk of simulations; see `TaskSearch`."""
        running = self._trees.running
        self._begin([task for task in tasks if task not in running], tasks)
        tasks = [task for task in tasks if task in running]
        if not tasks:
            return
        trees, size = [running[task] for task in tasks], self._pool.batch_size
        rows, chunks = self._no_rows(), np.zeros(size)
        rows[: len(trees)] = [tree.row for tree in trees]
        chunks[: len(trees)] = [tree.chunks for tree in trees]
        digests = np.zeros((size, 2), np.uint32)
        digests[: len(trees)] = digest(task.request.question.id or 0 for task in tasks)
        evaluations, simulations = jax.device_get(self._pool.deepen(rows, digests, chunks))
        for i, (task, tree) in enumerate(zip(tasks, trees, strict=True)):
            tree.evaluations, tree.chunks = _piece(evaluations, i), tree.chunks + 1
            tree.simulations = task.simulations = int(simulations[i])
            task.result = self._describer(task, tree)
            is_end = tree.evaluations.action[0] < 0
            task.is_over = bool(is_end or not tree.evaluations.is_finite[0])

    def finish(self, task: Task) -> None:
        """Keeps the tree of a task if it can be continued."""
        tree = self._trees.running.pop(task, None)
        if tree is None:
            return
        if task.is_over or tree.evaluations is None:
            self._trees.free(tree)
            return
        # A view would keep the results of the whole batch in memory.
        tree.evaluations, tree.context = jax.tree.map(np.copy, (tree.evaluations, tree.context))
        self._trees.keep(tree)

    def clear(self) -> None:
        """Drops the trees of finished tasks."""
        self._trees.clear()

    def _no_rows(self) -> np.ndarray:
        return np.full(self._pool.batch_size, self._pool.num_rows)

    def _begin(self, tasks: list[Task], batch: list[Task]) -> None:
        """Gives the new tasks of a batch a tree; one that needs no search gets its result."""
        if not tasks:
            return
        questions = [task.request.question for task in tasks]
        opened = games.open_positions(self._env, questions, self._pool.batch_size)
        contexts = games.move_contexts(self._env, opened.states)
        new, sources = dict[int, KeptTree](), dict[int, KeptTree]()
        for i, task in enumerate(tasks):
            error = opened.errors.get(i) or self._limit(task)
            if error is not None:
                task.is_over = True
                task.result = functools.partial(error_row, questions[i], error)
                continue
            # Its tree may have been dropped.
            task.reused = 0
            position = _position(opened, i, questions[i].allowed)
            if task.analysis.reuse:
                if self._resume(task, self._trees.kept.pop(position, None)):
                    continue
                source = self._trees.find_before(position)
                sources |= {} if source is None else {i: source}
            row = self._trees.allocate(batch, {tree.row for tree in sources.values()})
            new[i] = self._trees.running[task] = KeptTree(position, _piece(contexts, i), row)
        rows = self._no_rows()
        rows[list(new)] = [tree.row for tree in new.values()]
        self._pool.place(rows, restrict(opened.states, questions))
        for i, source in sources.items():
            self._continue_from(source, new[i], tasks[i])

    def _limit(self, task: Task) -> str | None:
        """Limits the simulations of a task; returns the error if it asks for more."""
        capacity, analysis = self._pool.capacity, task.analysis
        if analysis.simulations is None or analysis.is_maximum:
            task.target = min(task.target, capacity)
        if task.target <= capacity:
            return None
        return (
            f"simulations is {task.target}; with this search it must be at most {capacity}, unless"
            " the server is started with a larger --tree-memory or a smaller --batch"
        )

    def _resume(self, task: Task, tree: KeptTree | None) -> bool:
        """Continues from the tree of the same position, if there is one."""
        if tree is None:
            return False
        task.reused = task.simulations = tree.simulations
        if tree.simulations < task.target:
            self._trees.running[task] = tree
        else:
            task.result = self._describer(task, tree)
            self._trees.keep(tree)
        return True

    def _continue_from(self, source: KeptTree, tree: KeptTree, task: Task) -> None:
        """Copies the subtree of a position that continues from that of another tree."""
        row = source.row
        for action in tree.position.moves[len(source.position.moves) :]:
            tree.simulations = self._pool.advance(row, tree.row, action)
            row = tree.row
        task.reused = task.simulations = tree.simulations

    def _describer(self, task: Task, tree: KeptTree) -> Callable[[], Row]:
        """Returns a function that returns the row of a task."""
        asked = [task.request.question]
        evaluations, context = tree.evaluations, tree.context
        return lambda: describe(self._env, asked, {}, evaluations, context).rows[0]


def _position(
    opened: games.OpenedPositions, index: int, allowed: tuple[int, ...] | None
) -> Position:
    moves, fen = opened.parsed.actions_of(index), opened.lines[index].fen
    return Position(None if fen is None else " ".join(fen.split()), tuple(moves.tolist()), allowed)


def _piece(tree: Any, index: int) -> Any:
    """Returns the arrays of one position, with an axis of length 1; of none if there is none."""
    return jax.tree.map(lambda x: x[index : index + 1], tree)
