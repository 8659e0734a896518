"""A network whose searches are made up: nothing is compiled for them, and nothing is random."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.game_files.questions import Question
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.serving.engine import EngineOptions
from dualmctx.serving.requests import Analysis
from dualmctx.serving.tasks import total_simulations
from dualmctx.types import tree_budgets
from dualmctx.web.networks import Network
from made_recordings import make_recording

ENDLESS = 1000
"""An analysis with more simulations waits here until it is cancelled."""
LONG = 450
"""A recording of as many simulations never ends, unless it is stopped."""
_LINE = 3


class FakeNetwork(Network):
    """A network with a fake engine, of which reviews and recordings are made up, too."""

    def start_engine(self, options: EngineOptions) -> Any:
        del options
        return FakeEngine(self)

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


class FakeEngine:
    """Answers each request in a thread of its own, in steps of one search."""

    stage, last_used = None, 0.0

    def __init__(self, network: Network) -> None:
        self._network = network
        self._ends: dict[str, threading.Event] = {}
        self._number = 0

    @property
    def is_idle(self) -> bool:
        return not self._ends

    def submit(
        self,
        question: Question,
        analysis: Analysis,
        receive: Callable[[Any], None],
        *,
        priority: int = 0,
    ) -> str:
        del priority
        self._number += 1
        name = f"request-{self._number}"
        end = self._ends[name] = threading.Event()

        def run() -> None:
            # The event loop may have been closed meanwhile.
            with contextlib.suppress(RuntimeError):
                try:
                    for row in self._rows(question, analysis, end):
                        receive(row)
                except UserError as error:
                    receive({"error": str(error)})
            del self._ends[name]

        threading.Thread(target=run, daemon=True).start()
        return name

    def cancel(self, name: str) -> None:
        end = self._ends.get(name)
        if end is not None:
            end.set()

    def close(self) -> None:
        for end in list(self._ends.values()):
            end.set()

    def join(self, seconds: float) -> bool:
        del seconds
        return True

    def _rows(self, question: Question, analysis: Analysis, end: Any) -> Iterator[Any]:
        policy, numbers = self._network.build(analysis.variant), analysis.simulations
        if numbers is not None and len(numbers) > 1:
            policy = with_simulations(policy, numbers)
        step = total_simulations(policy)
        target = step if numbers is None else sum(numbers)
        rows = Rows(self._network.trained, question, len(tree_budgets(policy)))
        if not analysis.is_maximum:
            yield rows.make(target, is_final=True)
            return
        done = 0
        while not (done >= target or end.is_set()):
            done += step
            yield rows.make(done, is_final=False)
            if ENDLESS <= done < target:
                end.wait()
        yield rows.make(done, is_final=True) if done else {"cancelled": True}


class Rows:
    """The rows of one position. Q is 0.9 times the exact value, or 0 if that is not known."""

    def __init__(self, trained: Any, question: Question, num_trees: int) -> None:
        self._env, self._num_heads = trained.env, len(trained.network.head_depths)
        self._num_trees = num_trees
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

    def make(self, simulations: int, *, is_final: bool) -> dict[str, Any]:
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
            "action": best,
            "value": value,
            "tree_values": [value] * self._num_trees,
            "legal": sorted(legal, key=lambda row: row["action"]),
            "pv": self._line,
            "network_value": [0.25] * heads,
            "heads_agree": True,
            "heads_distance": 0.125,
            "reused": 0,
            "simulations": simulations,
            "final": is_final,
        }
