"""Recordings of searches: one search, step by step, as JSON. docs/recordings.md has the format."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import dualmctx
from dualmctx.policies import REGISTRY
from dualmctx.policies.costs import evaluation_blocks
from dualmctx.runs.folder import to_dict
from dualmctx.search.tree import Tree
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork
from dualmctx.visualization.equal_cost import alphazero_of_equal_cost
from dualmctx.visualization.node_records import describe_nodes
from dualmctx.visualization.programs import Finish, Programs, Start, View
from dualmctx.visualization.step_records import StepRecorder
from dualmctx.visualization.tree_mirror import TreeMirror
from dualmctx.visualization.unrolled import Unrolled

MAX_SIMULATIONS = 2000
"""The largest number of simulations, of all trees together, of a recorded search."""

Progress = Callable[[int, int], None]
"""Called with the recorded simulations and their total; may raise an exception to stop."""


class Subject(NamedTuple):
    """The texts that a recording has about its position and network.

    Attributes:
      game: the name of the game; by default that of the environment.
      game_parameters: the parameters of the game.
      moves: the names of the moves to the position.
      fen: the FEN from which these moves start.
      network: the name of the network.
      players: the names of the side that begins the game and of the other side.
      side: the side to move, 0 for the side that begins the game, or 1.
      before: the state before the last move, by which pictures mark the move.
    """

    game: str | None = None
    game_parameters: dict[str, Any] | None = None
    moves: Sequence[str] = ()
    fen: str | None = None
    network: str | None = None
    players: tuple[str, str] = ("first player", "second player")
    side: int = 0
    before: Any = None


def record_search(
    env: Environment,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy,
    state: Any,
    *,
    seed: int = 0,
    rng_key: Any = None,
    compare: bool = False,
    progress: Progress | None = None,
    subject: Subject | None = None,
    **model_kwargs: Any,
) -> dict[str, Any]:
    """Records a search from one position.

    The search equals that of `make_search_fn` with the same arguments and key, to the last bit on
    the platforms that the tests cover.

    Args:
      env: the game.
      network: the network.
      params: its parameters.
      policy: a variant of the registry, or a policy that calls `search.simulate.search` or
        `search.rounds.run_rounds` once.
      state: an unbatched state in which the game is not over.
      seed: the seed of the search's key.
      rng_key: the key itself, in place of a seed.
      compare: whether to add, as `comparison`, the recording of AlphaZero at the same cost.
      progress: called after each step.
      subject: texts about the position; `None` for none.
      **model_kwargs: options of `make_search_fn`.

    Returns:
      The recording, see docs/recordings.md.

    Raises:
      ValueError: if the game is over, if the search has more than `MAX_SIMULATIONS`, or if the
        policy cannot be recorded.
    """
    _check(policy, state)
    key = jax.random.PRNGKey(seed) if rng_key is None else rng_key
    search = _Search(env, network, params, policy, state, key, model_kwargs)
    recording = search.describe(Subject() if subject is None else subject, progress)
    recording["seed"] = seed if rng_key is None else None
    recording["comparison"] = None
    rival = alphazero_of_equal_cost(policy, network, **model_kwargs) if compare else None
    if rival is not None:
        again = {"seed": seed, "rng_key": rng_key, "progress": progress, "subject": subject}
        other = record_search(env, network, params, rival, state, **again, **model_kwargs)
        del other["comparison"]
        recording["comparison"] = other
    return recording


def _check(policy: Policy, state: Any) -> None:
    """Checks that a search can be recorded."""
    total = sum(budgets_of(policy))
    if total > MAX_SIMULATIONS:
        raise ValueError(
            f"the search has {total:,} simulations; a recording has at most {MAX_SIMULATIONS:,}:"
            " choose fewer simulations"
        )
    if np.ndim(state.terminated):
        shape = np.shape(state.terminated)
        raise ValueError(f"the state has a batch axis of shape {shape}; pass a single state")
    if state.terminated or state.truncated:
        raise ValueError("the game is over in this position; record an earlier one")


@functools.lru_cache(maxsize=8)
def _programs(
    env: Environment, network: PolicyValueNetwork, policy: Policy, model_kwargs: Any
) -> Programs:
    """Returns the compiled parts of a search; the last ones stay in memory."""
    return Programs(env, network, policy, **dict(model_kwargs))


class _Search:
    """One search that is recorded."""

    def __init__(
        self,
        env: Environment,
        network: PolicyValueNetwork,
        params: Params,
        policy: Policy,
        state: Any,
        rng_key: Any,
        model_kwargs: dict[str, Any],
    ) -> None:
        self.env, self.network, self.policy = env, network, policy
        self._programs = _programs(env, network, policy, tuple(sorted(model_kwargs.items())))
        self._inputs = params, rng_key, jax.tree.map(lambda x: np.asarray(x)[None], state)
        self._keep_activations = model_kwargs.get("keep_activations", True)

    def describe(self, subject: Subject, progress: Progress | None) -> dict[str, Any]:
        """Runs the search and returns its recording, without the comparison."""
        params, _, state = self._inputs
        programs = self._programs
        start: Start = programs.start(*self._inputs)
        priors, view = jax.device_get((start.priors, start.view))
        heads = jax.device_get(programs.evaluate_heads(params, state))
        has_window = programs.plan.specs[0].window is not None
        mirror = TreeMirror(view, start.tree.num_actions, has_window=has_window)
        recorder, tree = self._run(start, mirror, progress)
        finish: Finish = jax.device_get(programs.finish(*self._inputs, tree))
        nodes = mirror.end()
        describe_nodes(self.env, nodes, finish.states, finish.actions, subject.side, subject.before)
        by_slot = {node["slot"]: node for node in nodes}
        for prior in recorder.priors:
            legal = by_slot[prior.slot]["legal"]
            prior.record["prior"] = _over_legal(prior.row, legal, finish.actions, prior.slot)
        return {
            **self._describe_search(subject),
            "nodes": nodes,
            "steps": recorder.steps,
            "root": self._describe_root(view, priors, heads, nodes[0]["legal"], finish),
            "result": self._describe_result(finish, mirror.view, nodes[0]["legal"]),
        }

    def _run(
        self, start: Start, mirror: TreeMirror, progress: Progress | None
    ) -> tuple[StepRecorder, Tree]:
        """Runs the steps of the search; returns them with the trees at the end."""
        blocks = evaluation_blocks(
            self.policy, self.network, keep_activations=self._keep_activations
        )
        recorder = StepRecorder(mirror, self.policy.heads, blocks)
        unrolled = Unrolled(self._programs, start)
        done, total = 0, sum(budgets_of(self.policy))
        for event in unrolled.events():
            done += recorder.add(event)
            if progress is not None:
                progress(done, total)
        return recorder, unrolled.tree

    def _describe_search(self, subject: Subject) -> dict[str, Any]:
        policy = self.policy
        variants = [name for name, row in REGISTRY.items() if row.policy is type(policy)]
        budgets = budgets_of(policy)
        return {
            "format": "dualmctx-recording",
            "version": 1,
            "dualmctx": dualmctx.__version__,
            "game": subject.game or str(self.env.id),
            "game_parameters": dict(subject.game_parameters or {}),
            "moves": list(subject.moves),
            "fen": subject.fen,
            "variant": variants[0] if variants else type(policy).__name__,
            "options": to_dict(policy),
            "network": subject.network,
            "trees": tree_names(len(budgets)),
            "heads": head_names(len(self.network.head_depths)),
            "tree_heads": list(policy.heads),
            "head_depths": list(self.network.head_depths),
            "players": list(subject.players),
            "simulations": list(budgets),
        }

    def _describe_root(
        self, view: View, priors: Any, heads: Any, legal: list[int], finish: Finish
    ) -> dict[str, Any]:
        clean, noisy = (_over_legal(row, legal, finish.actions, 0) for row in priors)
        values, policies = heads
        return {
            "value": float(view.raw_values[0]),
            "prior": clean,
            "noisy_prior": noisy,
            "heads": [
                {"value": float(value), "prior": _over_legal(row, legal, None, 0)}
                for value, row in zip(values, policies, strict=True)
            ],
            "trees": [
                {"visits": int(stats[0, 0]), "value": float(stats[0, 1])}
                for stats in view.node_stats
            ],
        }

    def _describe_result(self, finish: Finish, view: View, legal: list[int]) -> dict[str, Any]:
        return {
            "action": int(finish.action),
            "weights": [float(finish.action_weights[x]) for x in legal],
            "value": float(view.node_stats[-1][0, 1]),
            "tree_values": [float(stats[0, 1]) for stats in view.node_stats],
            "visits": [[int(row[x]) for x in legal] for row in finish.visits],
        }


def _over_legal(
    row: np.ndarray, legal: list[int], actions: np.ndarray | None, slot: int
) -> list[float]:
    """Returns numbers of action slots by legal action; 0 for actions without a slot."""
    if actions is None:
        return row[legal].tolist()
    known = dict(zip(actions[slot].tolist(), row.tolist(), strict=True))
    return [known.get(action, 0.0) for action in legal]


def budgets_of(policy: Policy) -> tuple[int, ...]:
    """Returns the simulations of each tree."""
    budget = policy.num_simulations
    return budget if isinstance(budget, tuple) else (budget,)


def tree_names(number: int) -> list[str]:
    """Returns the names of the trees of a search, first to last."""
    names = {1: ["tree"], 2: ["small", "large"]}
    return names.get(number, [f"tree {i}" for i in range(1, number + 1)])


def head_names(number: int) -> list[str]:
    """Returns the names of the heads of a network, first to last."""
    if number <= 2:
        return ["intermediate", "final"][2 - number :]
    return [*(f"intermediate {i}" for i in range(1, number)), "final"]
