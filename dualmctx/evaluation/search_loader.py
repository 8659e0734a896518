"""Compiles the searches of tasks for one network, and runs those that start anew."""

from typing import NamedTuple

import jax

from dualmctx.errors import UserError
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.chunks import total_simulations
from dualmctx.evaluation.deepening_search import DeepeningSearch
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.evaluation.tasks import Program, Task, TaskSearch
from dualmctx.evaluation.tree_pool import TreePool, choose_pool_size
from dualmctx.runs.saved_network import Trained
from dualmctx.training.divergence import first_line


class RestartingSearch:
    """Tasks whose search cannot continue from its trees: each step is a search from the start.

    It runs steps with an evaluator; a `TaskSearch`.
    """

    num_kept = 0

    def __init__(self, evaluator: Evaluator) -> None:
        """Takes the evaluator of the search with the budget of a step."""
        assert evaluator.policy is not None
        self._evaluator = evaluator
        self._simulations = total_simulations(evaluator.policy)

    def step(self, tasks: list[Task]) -> None:
        """Searches from the start; see `TaskSearch`."""
        questions = [task.request.question for task in tasks]
        rows = [row for part in answer(self._evaluator, [questions]) for row in part.rows]
        for task, row in zip(tasks, rows, strict=True):
            task.result = lambda row=row: row
            task.is_over = row.get("action") is None
            task.simulations = self._simulations

    def finish(self, task: Task) -> None:
        """Does nothing, because there is no tree."""

    def clear(self) -> None:
        """Does nothing, because there are no trees."""


class SearchLoader(NamedTuple):
    """The network and the settings that all its compiled searches share.

    Attributes:
      trained: the network with its game.
      batch_size: the number of positions in a batch.
      max_simulations: the largest number of simulations of a position.
      tree_memory: bytes for the kept trees of each search.
      seed: seed of the random numbers.
      devices: the number of devices of searches that start anew; `None` for all.
    """

    trained: Trained
    batch_size: int
    max_simulations: int
    tree_memory: int
    seed: int = 0
    devices: int | None = None

    def load(self, program: Program) -> TaskSearch:
        """Compiles a program; see `scheduler.Setup`.

        Raises:
          ValueError: if it does not fit into memory.
        """
        try:
            return self._compile(program)
        except (jax.errors.JaxRuntimeError, MemoryError) as error:
            # The server goes on without this search.
            raise UserError(first_line(error)) from None

    def _compile(self, program: Program) -> TaskSearch:
        trained, policy, batch_size = self.trained, program.policy, self.batch_size
        if not program.deepens:
            return RestartingSearch(
                build_evaluator(
                    trained, policy, batch_size=batch_size, seed=self.seed, devices=self.devices
                )
            )
        size = choose_pool_size(
            trained,
            policy,
            max_simulations=self.max_simulations,
            batch_size=batch_size,
            num_bytes=self.tree_memory,
        )
        pool = TreePool(trained, policy, size, batch_size=batch_size, seed=self.seed)
        return DeepeningSearch(trained.env, pool)
