"""Small networks, searches and replays that the tests of recordings share."""

import functools
from typing import Any

import jax
import numpy as np

import games
from dualmctx import make_search_fn, with_options
from dualmctx.policies import AlphaGo, AlphaZero, Backup, Chain, Contempt, Dual, Gumbel
from dualmctx.runs.saved_network import Trained, load_trained, model_kwargs_of
from dualmctx.types import Policy
from dualmctx.visualization import record_search, record_trained
from untrained import make_untrained

WINDOW = Backup(window=2, explore_fraction=0.4)

# One policy for each way in which a search can proceed. The large tree of "dual" soon has no leaves
# to evaluate.
POLICIES: dict[str, Policy] = {
    "several leaves": with_options(AlphaZero(10), leaves_per_step=4),
    "minimax values and RAVE": with_options(
        AlphaZero(24, backup=WINDOW), minimax_mix=0.4, rave_visits=10.0
    ),
    "regularized, few children": with_options(
        AlphaZero(24), regularized=("act", "search", "learn"), max_children=2, max_depth=3
    ),
    "dual": Dual((4, 14), 3, backup=WINDOW),
    "chain": Chain((10, 8, 6), 3),
    "gumbel": Gumbel(24),
    "alphago": AlphaGo(16, rollout_length=3),
    "contempt": Contempt(12, 3, backup=WINDOW),
}
DUAL = Dual((12, 8), 2, backup=Backup(window=1, explore_fraction=0.9)).for_evaluation()
HEADS = ("--network.head-depths", "1", "2", "3", "--network.num-blocks", "3")


@functools.cache
def small_network(preset: str) -> Trained:
    """Returns a network with three heads and random parameters."""
    return make_untrained(preset, *HEADS)


@functools.cache
def connect2() -> Trained:
    return load_trained("connect2")


@functools.cache
def dual_recording() -> dict[str, Any]:
    """Returns a recording of `DUAL` after one move of Connect2, with a comparison."""
    return record_trained(connect2(), [2], policy=DUAL, compare=True, name="connect2")


def record(preset: str, policy: Policy, seed: int) -> dict[str, Any]:
    """Records a search of a small network."""
    trained = small_network(preset)
    inputs = trained.env, trained.network, trained.params, policy, position(preset, seed)
    return record_search(*inputs, seed=seed)


@functools.cache
def search_of(preset: str, name: str) -> Any:
    """Returns the ordinary compiled search."""
    trained = small_network(preset)
    kwargs = model_kwargs_of(trained.record)
    return jax.jit(make_search_fn(trained.env, trained.network, POLICIES[name], **kwargs))


def ordinary_output(preset: str, name: str, state: Any, seed: int) -> Any:
    """Runs the ordinary compiled search."""
    states = jax.tree.map(lambda x: np.asarray(x)[None], state)
    trained = small_network(preset)
    return jax.device_get(search_of(preset, name)(trained.params, jax.random.PRNGKey(seed), states))


def position(preset: str, length: int) -> Any:
    """Returns an unbatched state after some moves, before the end of the game."""
    env, moves = small_network(preset).env, []
    while len(moves) < length:
        state = games.open_position(env, moves).state
        legal = np.flatnonzero(state.legal_action_mask).tolist()
        moves.append(legal[len(legal) // 2])
    return games.open_position(env, moves).state


def replay_changes(recording: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Replays all changes; returns `[trees, nodes]` visits and means."""
    shape = len(recording["trees"]), len(recording["nodes"])
    visits, values = np.zeros(shape, np.int64), np.zeros(shape)
    for tree, root in enumerate(recording["root"]["trees"]):
        visits[tree, 0], values[tree, 0] = root["visits"], root["value"]
    for step in recording["steps"]:
        for change in step["changes"]:
            place = change["tree"], change["node"]
            assert [visits[place], values[place]] == [change["visits"][0], change["value"][0]]
            visits[place], values[place] = change["visits"][1], change["value"][1]
    return visits, values


def candidates_of(choice: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the candidates of a choice as rows."""
    columns = dict(choice["candidates"])
    parts = columns.pop("addends")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row | {"addends": [part[i] for part in parts]} for i, row in enumerate(rows)]


def choices(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns all choices of all simulations."""
    steps = [step for step in recording["steps"] if step["kind"] == "simulation"]
    return [choice for step in steps for choice in step["path"]]
