"""Games outside the package: named by an import path, or by an entry point of another package."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from dualmctx.errors import UserError
from dualmctx.import_path import call_factory, describe
from games.contract import find_initial_faults, has_observe, trace_start
from games.records import record_of

ENTRY_POINTS = "dualmctx.games"
"""The group of entry points by which another package names its games."""
ABILITIES = (*("move_names", "symmetries", "position_code", "from_fen", "to_fen", "board_input"),)
"""The methods of `games.abilities` that the module of a game may define instead."""


@dataclasses.dataclass(frozen=True, eq=False)
class OwnGame:
    """An environment from outside the package, as a `dualmctx.types.Environment`.

    All other attributes are those of the wrapped environment, then the abilities of its module.

    Attributes:
      wrapped: the environment that the factory returned.
      id: the import path or the name of the entry point. It differs from the names of the package's
        games, so nothing of theirs is applied to a game that shares its own name with one of them.
      module: the module of the factory.
      num_actions: A, from the legal action mask of the initial state.
      observation_shape: from the initial state.
    """

    wrapped: Any
    id: str
    module: Any
    num_actions: int
    observation_shape: tuple[int, ...]

    def init(self, key: jax.Array) -> Any:
        """Returns the initial state of a game."""
        return _named(self.id, "init", self.wrapped.init, key)

    def step(self, state: Any, action: jax.Array, key: jax.Array | None = None) -> Any:
        """Plays an int32 action; returns the next state. Chance is not supported."""
        del key
        return _named(self.id, "step", self.wrapped.step, state, action)

    def observe(self, state: Any, player_id: jax.Array | None = None) -> jax.Array:
        """Returns the observation of a state, by default as the player to move sees it.

        A search stores states without observations; for them the environment needs `observe`.
        """
        if player_id is not None:
            return _named(self.id, "observe", self.wrapped.observe, state, player_id)
        if state.observation is not None:
            return state.observation
        if not has_observe(self):
            raise UserError(
                f"game {self.id} has no method observe, which a search with several heads needs to "
                "evaluate a stored position again; add observe(state), or choose a search with one "
                "head, such as alphazero"
            )
        return _named(self.id, "observe", self.wrapped.observe, state)

    @property
    def state_ranges(self) -> Mapping[str, tuple[int, int]]:
        """The declared ranges of integer arrays in the state; by default none."""
        return getattr(self.wrapped, "state_ranges", {})

    def __getattr__(self, name: str) -> Any:
        """Returns another attribute of the environment, or an ability of its module."""
        if name.startswith("__") or name == "wrapped":
            raise AttributeError(name)
        if name in ABILITIES and not hasattr(self.wrapped, name):
            function = vars(self.module).get(name)
            # Not a function that the module imports, such as `games.symmetries`.
            if inspect.isfunction(function) and function.__module__ == self.module.__name__:
                return functools.partial(function, self)
        return getattr(self.wrapped, name)


def _named(game: str, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a method of a game; its exceptions name the game and the method."""
    try:
        return function(*arguments)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"game {game}: {method} raised {describe(error)}") from error


def make_own_game(
    name: str, path: str, parameters: Mapping[str, Any], *, in_folder: bool = True
) -> OwnGame:
    """Builds a game from its factory.

    Args:
      name: the name by which the game is known.
      path: the factory, as `package.module:attribute`.
      parameters: the keyword arguments of the factory.
      in_folder: whether the module may be in the current folder.

    Returns:
      The environment.

    Raises:
      ValueError: if it cannot be imported or built, if its initial state lacks a field or has one
        of a wrong shape or type, or if it has other than two players.
    """
    env = call_factory(path, parameters, "game", in_folder=in_folder)
    state = trace_start(env)
    for fault in find_initial_faults(env, state):
        raise UserError(f"game {name}: {fault.problem}; {fault.remedy}")
    return OwnGame(
        wrapped=env,
        id=name,
        module=sys.modules[path.split(":")[0]],
        num_actions=int(np.prod(state.legal_action_mask.shape)),
        observation_shape=tuple(state.observation.shape),
    )


def entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    """Returns the games of installed packages, by name; "-" is replaced by "_".

    A name of a game of this package, or of Go of any size, is left out.
    """
    found = importlib.metadata.entry_points(group=ENTRY_POINTS)
    named = {point.name.replace("-", "_"): point for point in found}
    return {name: point for name, point in named.items() if not record_of(name).path}
