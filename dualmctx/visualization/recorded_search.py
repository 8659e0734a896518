"""One search that runs step by step while it is recorded."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.errors import UserError
from dualmctx.policies import head_names, tree_names, variant_of
from dualmctx.runs.folder import to_dict
from dualmctx.search.keys import fold_in_key
from dualmctx.search.simulate import slot_offset
from dualmctx.search.tree import Tree
from dualmctx.types import Params, tree_budgets
from dualmctx.version import __version__
from dualmctx.visualization.node_records import TreeMirror, describe_nodes
from dualmctx.visualization.programs import (
    Explanation,
    Finish,
    Programs,
    Start,
    View,
    split_three,
)
from dualmctx.visualization.step_records import Prior, Simulated, StepRecorder
from games.pictures import player_names


class Subject(NamedTuple):
    """The texts that a recording has about its position and network.

    Attributes:
      game: the name of the game; by default that of the environment.
      game_parameters: the parameters of the game.
      moves: the names of the moves to the position.
      fen: the FEN from which these moves start.
      network: the name of the network.
      side: the side to move, 0 for the side that begins the game, or 1.
      before: the state before the last move, by which pictures mark the move.
    """

    game: str | None = None
    game_parameters: dict[str, Any] | None = None
    moves: Sequence[str] = ()
    fen: str | None = None
    network: str | None = None
    side: int = 0
    before: Any = None


def run_recorded(
    programs: Programs,
    params: Params,
    rng_key: Any,
    state: Any,
    subject: Subject,
    count: Callable[[int], None],
) -> dict[str, Any]:
    """Runs a search of one position; returns its recording, without seed and comparison.

    Args:
      programs: the compiled parts of the search.
      params: the parameters of the network.
      rng_key: the key of the search.
      state: the unbatched state.
      subject: the texts about the position.
      count: called with the simulations so far after each step.
    """
    states = jax.tree.map(lambda x: np.asarray(x)[None], state)
    inputs = params, rng_key, states
    start: Start = programs.start(*inputs)
    priors, view = jax.device_get((start.priors, start.view))
    heads = jax.device_get(programs.evaluate_heads(params, states))
    has_window = start.state.plan.specs[0].window is not None
    mirror = TreeMirror(view, start.state.grown.num_actions, has_window=has_window)
    recorder = StepRecorder(mirror, programs.policy.heads, programs.evaluation_blocks)
    unrolled = Unrolled(programs, start, recorder)
    for done in itertools.accumulate(unrolled.run()):
        count(done)
    _check_finite(mirror.view, recorder.priors)
    end = dataclasses.replace(start.state, grown=unrolled.tree)
    finish: Finish = jax.device_get(programs.finish(end, states))
    nodes, side, before = mirror.end(), subject.side, subject.before
    describe_nodes(programs.env, nodes, finish.states, finish.actions, side, before)
    by_slot = {node["slot"]: node for node in nodes}
    for prior in recorder.priors:
        legal = by_slot[prior.slot]["legal"]
        prior.record["prior"] = _over_legal(prior.row, legal, finish.actions, prior.slot)
    return {
        **_describe_search(programs, subject),
        "nodes": nodes,
        "steps": recorder.steps,
        "root": _describe_root(view, priors, heads, nodes[0]["legal"], finish),
        "result": _describe_result(finish, mirror.view, nodes[0]["legal"]),
    }


def _describe_search(programs: Programs, subject: Subject) -> dict[str, Any]:
    policy = programs.policy
    depths = programs.network.head_depths
    budgets = tree_budgets(policy)
    return {
        "format": "dualmctx-recording",
        "version": 1,
        "dualmctx": __version__,
        "game": subject.game or str(programs.env.id),
        "game_parameters": dict(subject.game_parameters or {}),
        "moves": list(subject.moves),
        "fen": subject.fen,
        "variant": variant_of(policy),
        "options": to_dict(policy),
        "network": subject.network,
        "trees": tree_names(len(budgets)),
        "heads": head_names(len(depths)),
        "tree_heads": list(policy.heads[: len(budgets)]),
        "head_depths": list(depths),
        "players": list(player_names(str(programs.env.id))),
        "simulations": list(budgets),
    }


def _describe_root(
    view: View, priors: Any, heads: Any, legal: list[int], finish: Finish
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
            {"visits": int(stats[0, 0]), "value": float(stats[0, 1])} for stats in view.node_stats
        ],
    }


def _describe_result(finish: Finish, view: View, legal: list[int]) -> dict[str, Any]:
    return {
        "action": int(finish.action),
        "weights": [float(finish.action_weights[x]) for x in legal],
        "value": float(view.node_stats[-1][0, 1]),
        "tree_values": [float(stats[0, 1]) for stats in view.node_stats],
        "visits": [[int(row[x]) for x in legal] for row in finish.visits],
    }


def _check_finite(view: View, priors: Sequence[Prior]) -> None:
    """Checks that the network's outputs were finite, because JSON has no other numbers."""
    numbers = view.raw_values, *view.node_stats, *(prior.row for prior in priors)
    if not all(np.isfinite(x).all() for x in numbers):
        raise UserError(
            "the network's outputs are not finite in this search, so it cannot be recorded; use"
            " another checkpoint"
        )


def _over_legal(
    row: np.ndarray, legal: list[int], actions: np.ndarray | None, slot: int
) -> list[float]:
    """Returns numbers of action slots by legal action; 0 for actions without a slot."""
    if actions is None:
        return row[legal].tolist()
    known = dict(zip(actions[slot].tolist(), row.tolist(), strict=True))
    return [known.get(action, 0.0) for action in legal]


class Unrolled:
    """One search that runs step by step; `run` runs it, `tree` has its trees."""

    def __init__(self, programs: Programs, start: Start, recorder: StepRecorder) -> None:
        """Takes the programs and the arrays with which the loops start."""
        self._programs, self._plan = programs, start.state.plan
        self._search = dataclasses.replace(start.state, grown=None)
        self._params: Params = start.params
        self._key: Array = start.state.rng_key
        self._recorder = recorder
        self.tree: Tree = start.state.grown
        self._edges: np.ndarray = np.asarray(start.view.edges)
        self._num_actions = start.state.grown.num_actions

    def run(self) -> Iterator[int]:
        """Runs the search; yields the number of simulations of each step."""
        plan = self._plan
        if plan.specs[0].leaves_per_step > 1:
            yield from self._run_leaves(plan.rounds[0][0])
            return
        widths = [max(shares) for shares in zip(*plan.rounds, strict=True)]
        begin = np.zeros(len(widths), np.int32)
        for number, shares in enumerate(plan.rounds):
            end = begin + np.array(shares, np.int32)
            for tree_index, width in enumerate(widths):
                slot = int(
                    slot_offset(plan.first_slot, jnp.asarray(begin), jnp.asarray(end), tree_index)
                )
                numbers = range(int(begin[tree_index]), int(end[tree_index]))
                if tree_index == 0:
                    yield from self._run_first(number, numbers, slot)
                else:
                    yield from self._run_share(number, tree_index, numbers, width, slot)
            begin = end

    def _run_first(self, round_number: int, numbers: range, slot: int) -> Iterator[int]:
        """Runs simulations of the first tree."""
        for number in numbers:
            self._key, *keys = split_three(self._key)
            self._simulate(0, round_number, number, keys, slot + number, None)
            yield 1

    def _run_share(
        self, round_number: int, tree_index: int, numbers: range, width: int, slot: int
    ) -> Iterator[int]:
        """Runs a later tree's share of a round: a refinement, then simulations if necessary."""
        self._key, refine_key, simulate_key = split_three(self._key)
        number = jnp.int32(len(numbers))
        inputs = self._search, tree_index, self._params, refine_key, self.tree, number, width
        self.tree, refined, view = self._programs.refine(*inputs)
        refined, view = jax.device_get((refined, view))
        if num_valid := int(np.sum(refined.is_valid)):
            place = tree_index, round_number, numbers.start
            self._recorder.add_refinement(*place, refined, view)
            yield num_valid
        is_active = jnp.ones(1, bool)
        for number in numbers[num_valid:]:
            _, *keys = split_three(fold_in_key(simulate_key, number))
            self._simulate(tree_index, round_number, number, keys, slot + number, is_active)
            yield 1

    def _simulate(
        self,
        tree_index: int,
        round_number: int,
        number: int,
        keys: list[Array],
        slot: int,
        is_active: Array | None,
    ) -> None:
        select_key, expand_key = keys
        search = self._search, tree_index
        path = self._programs.descend(*search, select_key, self.tree)
        last = jax.device_get(path)
        nodes, slots = self._climb(int(last.parent[0]), int(last.action[0]))
        choices = self._explain(tree_index, select_key, self.tree, nodes)
        inputs = self._params, expand_key, self.tree, path, jnp.int32(slot), is_active
        self.tree, prior, view = self._programs.expand_and_backup(*search, *inputs)
        prior, view = jax.device_get((prior, view))
        self._edges = view.edges
        is_new = int(last.child[0]) == Tree.UNVISITED
        child = slot if is_new else int(last.child[0])
        place = tree_index, round_number, number, nodes, slots, choices
        self._recorder.add_simulations([Simulated(*place, child, is_new, prior[0])], view)

    def _run_leaves(self, total: int) -> Iterator[int]:
        """Runs simulations of one tree with several leaves per step."""
        plan, done = self._plan, 0
        width = min(plan.specs[0].leaves_per_step, total)
        while done < total:
            self._key, select_key, expand_key = split_three(self._key)
            slot = jnp.full(1, plan.first_slot + done, jnp.int32)

            def select(limit: int, key: Array = select_key, slot: Array = slot) -> Any:
                limits = jnp.full(1, limit, jnp.int32)
                inputs = self._search, key, self.tree, slot, limits, width
                return self._programs.select_leaves(*inputs)

            tree, leaves = select(total - done)
            found: Any = jax.device_get(leaves)
            number = int(found.num_simulations[0])
            paths: list[tuple[list[int], list[int], list[Explanation]]] = []
            for i in range(number):
                # The tree with the virtual visits of the leaves before this one.
                before = self.tree if i == 0 else select(i)[0]
                nodes, slots = self._climb(int(found.parent[0, i]), int(found.action[0, i]))
                choices = self._explain(0, fold_in_key(select_key, i), before, nodes)
                paths.append((nodes, slots, choices))
            self.tree, priors, view = self._programs.expand_and_backup_leaves(
                self._search, self._params, expand_key, tree, leaves
            )
            priors, view = jax.device_get((priors, view))
            self._edges = view.edges
            ends = zip(found.node[0].tolist(), found.is_new[0].tolist(), priors, strict=True)
            both = zip(itertools.count(done), paths, ends, strict=False)
            events = [Simulated(0, 0, i, *path, *end) for i, path, end in both]
            self._recorder.add_simulations(events, view)
            yield len(events)
            done += len(events)

    def _climb(self, node: int, slot: int) -> tuple[list[int], list[int]]:
        """Returns the nodes and the action slots of a path, from the root to its last edge."""
        nodes, slots = [node], [slot]
        while nodes[-1] != Tree.ROOT_INDEX:
            parent, slot = divmod(int(self._edges[nodes[-1]]), self._num_actions)
            nodes.append(parent)
            slots.append(slot)
        return nodes[::-1], slots[::-1]

    def _explain(
        self, tree_index: int, rng_key: Array, tree: Tree, nodes: list[int]
    ) -> list[Explanation]:
        """Explains the choices at the nodes of a path, from the root."""
        has_root_rule = self._plan.specs[tree_index].root_rule is not None
        explain = functools.partial(self._programs.explain, self._search, tree_index, rng_key, tree)
        rows = [
            explain(np.array([node], np.int32), np.int32(depth), depth == 0 and has_root_rule)
            for depth, node in enumerate(nodes)
        ]
        return jax.device_get(rows)
