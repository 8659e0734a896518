"""The contract of a game that follows from shapes alone; nothing is computed.

`games.check_game` checks it first, then plays (`games.contract_play`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError
from dualmctx.import_path import describe

# Two words, the shape of a key of `jax.random.PRNGKey`.
KEY = jax.ShapeDtypeStruct((2,), np.uint32)
ACTION = jax.ShapeDtypeStruct((), np.int32)
_FIELDS = (
    *("current_player", "observation", "rewards", "terminated", "truncated"),
    "legal_action_mask",
)
_TRACE = (
    "write it with jax.numpy, without Python's if, while, int() or bool() on arrays: use jnp.where "
    "and jax.lax instead"
)
_TWO_PLAYERS = "only games of exactly two players can be searched and trained"


class Fault(NamedTuple):
    """A part of the contract that a game does not keep.

    Attributes:
      problem: the fault.
      remedy: how to mend it.
    """

    problem: str
    remedy: str


def unusable(env: Any, use: str, problem: str) -> UserError:
    """Returns the error of a game with a fault, which cannot be played or trained."""
    return UserError(
        f"{env.id} cannot be {use}: {problem}; `dualmctx check-game {env.id}`, with the same "
        "--game-parameters, says more"
    )


def find_static_faults(env: Any) -> list[Fault]:
    """Checks the methods of an environment, which may be faulty, and the shapes of its states.

    Later checks are left out if earlier ones make them impossible.
    """
    state = trace_start(env)
    return [*find_initial_faults(env, state)] or [*_step(env, state)]


def trace_start(env: Any) -> Any:
    """Returns the shapes and dtypes of the initial state, or the `Fault` of a game without one."""
    for name in ("init", "step"):
        if not callable(getattr(env, name, None)):
            kind = "None" if env is None else f"an object of type {type(env).__name__}"
            problem = f"the game, {kind}, has no method {name}"
            return Fault(problem, "give it the interface of pgx.Env")
    try:
        state = jax.eval_shape(env.init, KEY)
    except Exception as error:
        return Fault(f"JAX cannot trace init: {describe(error)}", _TRACE)
    missing = [name for name in _FIELDS if not hasattr(state, name)]
    if missing:
        problem = f"states lack {', '.join(missing)}"
        return Fault(problem, "derive the class of states from pgx.State, or add these fields")
    return state


def find_initial_faults(env: Any, state: Any) -> Iterator[Fault]:
    """Checks the result of `trace_start`, and the attributes of the environment against it."""
    if isinstance(state, Fault):
        yield state
        return
    wanted = {
        "current_player": ((), jnp.integer, "an integer, 0 or 1"),
        "terminated": ((), jnp.bool_, "a boolean scalar"),
        "truncated": ((), jnp.bool_, "a boolean scalar"),
        "rewards": ((2,), jnp.floating, "two floats, one for each player"),
    }
    for name, (shape, kind, words) in wanted.items():
        leaf = getattr(state, name)
        if not hasattr(leaf, "dtype"):
            yield Fault(f"state.{name} is no array", f"make it {words}")
            continue
        actual = f"{leaf.dtype} {list(leaf.shape)}"
        if name == "rewards" and leaf.ndim == 1 and leaf.shape != shape:
            yield Fault(f"the game has {leaf.shape[0]} players: rewards is {actual}", _TWO_PLAYERS)
        elif leaf.shape != shape or not jnp.issubdtype(leaf.dtype, kind):
            yield Fault(f"state.{name} is {actual}", f"make it {words}")
    mask, observation = state.legal_action_mask, state.observation
    remedy = "make it boolean, with one entry per action"
    if not hasattr(mask, "dtype"):
        yield Fault("state.legal_action_mask is no array", remedy)
        return
    if mask.ndim != 1 or mask.dtype != jnp.bool_ or mask.size < 1:
        yield Fault(f"state.legal_action_mask is {mask.dtype} {list(mask.shape)}", remedy)
    if not hasattr(observation, "dtype") or not (
        jnp.issubdtype(observation.dtype, jnp.number) or observation.dtype == jnp.bool_
    ):
        yield Fault("state.observation is not one array of numbers", "join its parts in one array")
    yield from _declared(env, state)


def _declared(env: Any, state: Any) -> Iterator[Fault]:
    """Checks attributes of the environment against its states."""
    actual = {
        "num_players": 2,
        "num_actions": state.legal_action_mask.size,
        "observation_shape": tuple(getattr(state.observation, "shape", ())),
    }
    for name, value in actual.items():
        try:
            declared = getattr(env, name, value)
            if name == "observation_shape":
                declared = tuple(declared)
            is_wrong = bool(declared != value)  # raises for an array of several numbers
        except Exception as error:
            yield Fault(f"{name} raised {describe(error)}", "mend it, or leave it out")
            continue
        if is_wrong:
            remedy = f"states have {value}; make both equal"
            if name == "num_players":
                remedy = _TWO_PLAYERS
            yield Fault(f"{name} is {declared}", remedy)


def _step(env: Any, state: Any) -> Iterator[Fault]:
    """Checks that `step` can be traced, keeps all shapes and does not read the observation."""
    try:
        after = jax.eval_shape(env.step, state, ACTION)
    except Exception as error:
        remedy = _TRACE
        # The messages of Python, JAX and pgx.
        if re.search(r"missing .* argument.*key|PRNG ?Key", str(error), re.IGNORECASE):
            remedy = "games with chance, whose step needs a key, are not supported"
        yield Fault(f"JAX cannot trace step: {describe(error)}", remedy)
        return
    yield from _differences(state, after)
    if not callable(getattr(state, "replace", None)):
        yield Fault("states have no method replace", "use flax.struct.dataclass or pgx.State")
        return
    try:
        jax.eval_shape(env.step, state.replace(observation=None), ACTION)
    except Exception as error:
        yield Fault(
            f"step reads state.observation: {describe(error)}",
            "let the rules read other fields: a search stores states without observations",
        )
    yield from _observe(env, state)
    try:
        states = jax.eval_shape(jax.vmap(env.init), jax.ShapeDtypeStruct((3, 2), np.uint32))
        jax.eval_shape(jax.vmap(env.step), states, jax.ShapeDtypeStruct((3,), np.int32))
    except Exception as error:
        yield Fault(f"jax.vmap cannot batch the game: {describe(error)}", _TRACE)


def has_observe(env: Any) -> bool:
    """Returns whether a game, or the game that an `OwnGame` wraps, has the method `observe`."""
    return callable(getattr(getattr(env, "wrapped", env), "observe", None))


def _observe(env: Any, state: Any) -> Iterator[Fault]:
    """Checks the shape of `observe`, if the game has it, for a state without observation."""
    if not has_observe(env):
        return
    remedy = (
        "let it take a state alone, and compute the observation from the other fields: a search "
        "stores states without observations"
    )
    try:
        found = jax.eval_shape(env.observe, state.replace(observation=None))
        actual = f"{found.dtype} {list(found.shape)}"
    except Exception as error:
        yield Fault(f"observe(state) raised {describe(error)}", remedy)
        return
    wanted = f"{state.observation.dtype} {list(state.observation.shape)}"
    if actual != wanted:
        yield Fault(f"observe(state) returns {actual}", f"return state.observation, {wanted}")


def _differences(state: Any, after: Any) -> Iterator[Fault]:
    """Compares the shapes and dtypes of a state and of the next one."""
    remedy = "a step must keep the structure, shapes and dtypes of a state; convert with .astype"
    before, later = (
        {jax.tree_util.keystr(path): f"{x.dtype} {list(x.shape)}" for path, x in leaves}
        for leaves in map(jax.tree_util.tree_leaves_with_path, (state, after))
    )
    for name in before | later:
        if before.get(name) != later.get(name):
            change = f"{before.get(name, 'missing')} after init, {later.get(name, 'missing')}"
            yield Fault(f"state{name} is {change} after step", remedy)
