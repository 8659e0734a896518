"""Tasks whose search continues from kept trees, in chunks of simulations."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import games
from dualmctx.evaluation.answers import describe, error_row
from dualmctx.evaluation.batching import digest
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.evaluation.kept_trees import KeptTree, KeptTrees, Position
from dualmctx.evaluation.rows import Row
from dualmctx.evaluation.tasks import Task
from dualmctx.evaluation.tree_pool import TreePool
from dualmctx.types import Environment
from games import MoveContexts


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
            position, context = _position(opened, i), _piece(contexts, i)
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
        self._pool.place(rows, opened.states)
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


def _position(opened: games.OpenedPositions, index: int) -> Position:
    moves, fen = opened.parsed.actions_of(index), opened.lines[index].fen
    return Position(None if fen is None else " ".join(fen.split()), moves.tobytes())


def _reuses(task: Task) -> bool:
    analysis = task.request.analysis
    return analysis is None or analysis.reuse


def _piece(tree: Any, index: int) -> Any:
    """Returns the arrays of one position, with an axis of length 1; of none if there is none."""
    return jax.tree.map(lambda x: x[index : index + 1], tree)
