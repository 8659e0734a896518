"""Tasks whose search cannot continue from its trees: each step is a search from the start."""

from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.chunks import total_simulations
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.tasks import Task


class RestartingSearch:
    """Runs steps with an evaluator; a `TaskSearch`."""

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
