"""A network whose searches are made up: nothing is compiled for them, and nothing is random."""

import time
import weakref
from typing import Any

import numpy as np

import games
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.game_files.questions import Question
from dualmctx.serving.engine import Engine, EngineOptions
from dualmctx.serving.tasks import Program, Task, TaskSearch, total_simulations
from dualmctx.types import tree_budgets
from dualmctx.web.networks import Network
from made_recordings import make_recording

ENDLESS = 1000
"""A search with more simulations stays here until it is cancelled."""
LONG = 450
"""A recording of as many simulations never ends, unless it is stopped."""
_LINE = 3


class FakeNetwork(Network):
    """A network with a fake engine, of which reviews and recordings are made up, too."""

    def start_engine(self, options: EngineOptions) -> Any:
        return FakeEngine(self.trained, self.build, options)

    def record(self, opened: Any, message: Any, policy: Any, counter: Any) -> Any:
        del message
        budgets = list(tree_budgets(policy))
        while sum(budgets) >= LONG:
            counter(0, sum(budgets))
            time.sleep(0.01)
        moves = games.format_moves(self.trained.env, opened.start, opened.actions)
        made = make_recording(sum(budgets))
        return made | {"moves": moves, "simulations": budgets, "game": self.trained.env.id}

    def _evaluate(self, positions: Any, policy: Any, counter: Any) -> Any:
        """Every value is 0, and the best move is the first one."""
        del policy
        counter(len(positions), len(positions))
        legal = np.stack([x.state.legal_action_mask & (not x.is_over) for x in positions])
        zeros = np.zeros(len(positions))
        fields: dict[str, Any] = dict.fromkeys(Evaluations._fields, zeros)
        return Evaluations(**fields)._replace(
            action=legal.argmax(axis=1),
            qvalues=np.full(legal.shape, np.nan),
            legal_action_mask=legal,
            is_finite=np.ones(len(positions), bool),
        )


class FakeEngine(Engine):
    """An engine that serves requests as always, but with made-up searches."""

    def _load(self, program: Program) -> TaskSearch:
        self._stage = None
        return FakeSearch(self._trained, program)


class FakeSearch(TaskSearch):
    """A search that adds the simulations of its policy in a step."""

    def __init__(self, trained: Any, program: Program) -> None:
        self._trained, self._program = trained, program
        self._rows = weakref.WeakKeyDictionary[Task, Rows]()

    def step(self, tasks: list[Task]) -> None:
        policy: Any = self._program.policy
        for task in tasks:
            if task not in self._rows:
                trees = len(tree_budgets(policy))
                self._rows[task] = Rows(self._trained, task.request.question, trees)
            if ENDLESS <= task.simulations < task.target:
                time.sleep(0.01)
                continue
            before = task.simulations if self._program.deepens else 0
            task.simulations = before + total_simulations(policy)
            row = self._rows[task].make(task.simulations)
            task.result = lambda row=row: row


class Rows:
    """The rows of one position. Q is 0.9 times the exact value, or 0 if that is not known."""

    def __init__(self, trained: Any, question: Question, num_trees: int) -> None:
        self._env, self._num_heads = trained.env, len(trained.network.head_depths)
        self._num_trees, self._id = num_trees, question.id
        self._opened = games.open_position(trained.env, question.moves, question.fen)
        self._line: list[str] = []
        self._ranked = first = self._rank(self._opened)
        opened = self._opened
        while len(self._line) < _LINE and not opened.is_over:
            self._line.append(games.format_action(self._env, opened.state, next(iter(first))))
            moves = [*question.moves, *self._line]
            opened = games.open_position(self._env, moves, question.fen)
            first = {} if opened.is_over else self._rank(opened)

    def _rank(self, opened: Any) -> dict[int, float]:
        """Returns Q of each legal move, the best one first."""
        legal = np.flatnonzero(opened.state.legal_action_mask).tolist()
        known = {}
        if games.is_solvable(self._env):
            known = games.exact_values(self._env, opened.state, 60.0).moves
        q = {action: 0.9 * known.get(action, 0) for action in legal}
        return dict(sorted(q.items(), key=lambda pair: (-pair[1], pair[0])))

    def make(self, simulations: int) -> dict[str, Any]:
        """Returns the row; each move has half of the visits that the better moves leave."""
        legal, left, heads = [], simulations, self._num_heads
        for action, q in self._ranked.items():
            visits = (left + 1) // 2
            left -= visits
            row = {"action": action, "visits": visits, "q": q if visits else None}
            row["move"] = games.format_action(self._env, self._opened.state, action)
            row["weight"] = visits / simulations
            legal.append(row | {"network_policy": [1 / len(self._ranked)] * heads})
        best, value = next(iter(self._ranked.items()))
        return {
            "id": self._id,
            "action": best,
            "value": value,
            "tree_values": [value] * self._num_trees,
            "legal": sorted(legal, key=lambda row: row["action"]),
            "pv": self._line,
            "network_value": [0.25] * heads,
            "heads_agree": True,
            "heads_distance": 0.125,
        }
