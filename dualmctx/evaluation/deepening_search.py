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
from dualmctx.evaluation.evaluations import Evaluations, digest
from dualmctx.evaluation.questions import Row, restrict
from dualmctx.evaluation.tasks import Task
from dualmctx.evaluation.tree_pool import TreePool
from dualmctx.types import Environment
from games import MoveContexts

MAX_CONTINUATION = 8
"""The largest number of moves from a kept position to one that continues from its tree."""
_BYTES_PER_MOVE = 4


class Position(NamedTuple):
    """A position by its history; another order of the moves is another position.

    Attributes:
      fen: the FEN in which the moves begin; `None` for the initial position.
      moves: the actions as bytes of int32.
      allowed: the actions that a search may choose; `None` for all.
    """

    fen: str | None
    moves: bytes
    allowed: tuple[int, ...] | None = None

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
        """Returns the tree of the latest position from which a position continues.

        There is none for a position with allowed actions, as its tree has no others.
        """
        if position.allowed is not None:
            return None
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


class DeepeningSearch:
    """Runs steps on a pool, and keeps the trees of finished tasks; a `TaskSearch`."""

    def __init__(self, env: Environment, pool: TreePool) -> None:
        """Takes the game and an empty pool."""
        self._env = env
        self._pool, self._trees = pool, KeptTrees(pool.num_rows)
        self._contexts: dict[Task, MoveContexts | None] = {}

    @property
    def num_kept(self) -> int:
        """The number of trees of finished tasks."""
        return len(self._trees)

    def step(self, tasks: list[Task]) -> None:
        """Adds a chunk of simulations; see `TaskSearch`."""
        running = self._trees.running
        self._begin([task for task in tasks if task not in running], tasks)
        tasks = [task for task in tasks if task in running]
        if not tasks:
            return
        trees, size = [running[task] for task in tasks], self._pool.batch_size
        rows, chunks = np.full(size, self._pool.num_rows), np.zeros(size)
        rows[: len(trees)] = [tree.row for tree in trees]
        chunks[: len(trees)] = [tree.chunks for tree in trees]
        digests = np.zeros((size, 2), np.uint32)
        digests[: len(trees)] = digest(task.request.question.id or 0 for task in tasks)
        deepened = jax.device_get(self._pool.deepen(rows, digests, chunks))
        for i, (task, tree) in enumerate(zip(tasks, trees, strict=True)):
            tree.evaluations, tree.chunks = _piece(deepened.evaluations, i), tree.chunks + 1
            tree.simulations = task.simulations = int(deepened.simulations[i])
            task.result = self._describer(task, tree.evaluations, self._contexts[task])
            is_end = tree.evaluations.action[0] < 0
            task.is_over = bool(is_end or not tree.evaluations.is_finite[0])

    def finish(self, task: Task) -> None:
        """Keeps the tree of a task if it can be continued."""
        tree = self._trees.running.pop(task, None)
        self._contexts.pop(task, None)
        if tree is None:
            return
        if task.is_over or tree.evaluations is None:
            self._trees.free(tree)
            return
        # A view would keep the results of the whole batch in memory.
        tree.evaluations = jax.tree.map(np.copy, tree.evaluations)
        self._trees.keep(tree)

    def clear(self) -> None:
        """Drops the trees of finished tasks."""
        self._trees.clear()

    def _begin(self, tasks: list[Task], batch: list[Task]) -> None:
        """Gives new tasks a tree; a task that needs no search gets its result.

        Args:
          tasks: at most a batch of new tasks.
          batch: all tasks of the step.
        """
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
            position, context = _position(opened, i, questions[i].allowed), _piece(contexts, i)
            if self._resume(task, position, context):
                continue
            source = self._trees.find_before(position) if _reuses(task) else None
            if source is not None:
                sources[i] = source
            in_use = {tree.row for tree in sources.values()}
            new[i] = KeptTree(position, self._trees.allocate(batch, in_use))
            self._run(task, new[i], context)
        rows = np.full(self._pool.batch_size, self._pool.num_rows)
        rows[list(new)] = [tree.row for tree in new.values()]
        self._pool.place(rows, restrict(opened.states, questions))
        for i, source in sources.items():
            self._continue_from(source, new[i], tasks[i])

    def _limit(self, task: Task) -> str | None:
        """Limits the simulations of a task; returns the error if it asks for more."""
        capacity, analysis = self._pool.capacity, task.request.analysis
        is_maximum = analysis is not None and (analysis.simulations is None or analysis.is_maximum)
        if is_maximum:
            task.target = min(task.target, capacity)
        if task.target <= capacity:
            return None
        return (
            f"simulations is {task.target}; with this search it must be at most {capacity}, unless"
            " the server is started with a larger --tree-memory or a smaller --batch"
        )

    def _resume(self, task: Task, position: Position, context: MoveContexts | None) -> bool:
        """Continues from the tree of the same position, if there is one."""
        tree = self._trees.take(position) if _reuses(task) else None
        if tree is None:
            return False
        task.reused = task.simulations = tree.simulations
        if tree.simulations < task.target:
            self._run(task, tree, context)
        else:
            task.result = self._describer(task, tree.evaluations, context)
            self._trees.keep(tree)
        return True

    def _run(self, task: Task, tree: KeptTree, context: MoveContexts | None) -> None:
        self._trees.running[task], self._contexts[task] = tree, context

    def _continue_from(self, source: KeptTree, tree: KeptTree, task: Task) -> None:
        """Copies the subtree of a position that continues from that of another tree."""
        row, moves = source.row, tree.position.length - source.position.length
        for action in tree.position.last_moves(moves):
            tree.simulations = self._pool.advance(row, tree.row, action)
            row = tree.row
        task.reused = task.simulations = tree.simulations

    def _describer(
        self, task: Task, evaluations: Evaluations, context: MoveContexts | None
    ) -> Callable[[], Row]:
        """Returns a function that returns the row of a task."""
        asked = [task.request.question]
        return lambda: describe(self._env, asked, {}, evaluations, context).rows[0]


def _position(
    opened: games.OpenedPositions, index: int, allowed: tuple[int, ...] | None
) -> Position:
    moves, fen = opened.parsed.actions_of(index), opened.lines[index].fen
    return Position(None if fen is None else " ".join(fen.split()), moves.tobytes(), allowed)


def _reuses(task: Task) -> bool:
    analysis = task.request.analysis
    return analysis is None or analysis.reuse


def _piece(tree: Any, index: int) -> Any:
    """Returns the arrays of one position, with an axis of length 1; of none if there is none."""
    return jax.tree.map(lambda x: x[index : index + 1], tree)
