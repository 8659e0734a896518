"""One search that runs step by step while it is recorded."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from dualmctx.errors import UserError
from dualmctx.policies import head_names, tree_names, variant_of
from dualmctx.runs.folder import to_dict
from dualmctx.types import Params, tree_budgets
from dualmctx.version import __version__
from dualmctx.visualization.node_records import TreeMirror, describe_nodes
from dualmctx.visualization.programs import Finish, Programs, Start, View
from dualmctx.visualization.step_records import Prior, StepRecorder
from dualmctx.visualization.unrolled import Unrolled
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
