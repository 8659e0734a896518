"""Symmetries: rotations and reflections of the board that preserve the rules of a game.

A game may have its own (`games.abilities`). Those of pgx's games follow from the
motions of the board in `games.records`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dualmctx.errors import UserError
from games.abilities import ability
from games.records import Motion, record_of

if TYPE_CHECKING:
    import pgx


class Symmetries(NamedTuple):
    """The S symmetries of a game, as permutations; the first one is the identity.

    Attributes:
      observation: `[S, D]` int32: entry i of the new flattened observation is entry
        `observation[s, i]` of the old one.
      action: `[S, A]` int32: new action b is old action `action[s, b]`.
    """

    observation: np.ndarray
    action: np.ndarray


def symmetries(env: pgx.Env) -> Symmetries:
    """Returns the symmetries of the rules, the initial position and the observations of a game.

    Let s be a symmetry. Replace every action `action[s, b]` of a game by b. Then the observations
    and the legal actions are permuted by s, and the rewards are unchanged. It follows that the
    value of a position is unchanged, and a policy is permuted as the actions are.

    Args:
      env: any environment; one without symmetries of its own has only the identity.

    Returns:
      The group, the identity first. Connect2, Connect Four and Hex have 2 symmetries, Othello 4,
      tic-tac-toe and Go 8, all other games of this package 1.

    Raises:
      ValueError: if the game's own tables are not permutations of the right sizes.
    """
    state = jax.eval_shape(env.init, jax.random.PRNGKey(0))
    shape, num_actions = state.observation.shape, state.legal_action_mask.shape[0]
    own = ability(env, "symmetries")
    if own is not None:
        return _checked(env.id, own(), int(np.prod(shape)), num_actions)
    motions = record_of(env.id).motions
    observed, cells = _grids(env.id, shape, len(motions) > 1)
    # Actions that are not cells, such as the pass, are unchanged.
    others = np.arange(cells.size, num_actions)
    return Symmetries(
        observation=_stack([_move(observed, motion).ravel() for motion in motions]),
        action=_stack([np.append(_move(cells, motion), others) for motion in motions]),
    )


def _checked(game: str, tables: Any, num_entries: int, num_actions: int) -> Symmetries:
    """Checks the tables of a game and returns them as int32."""
    observation, action = (np.asarray(table) for table in tables)
    parts = ("observation", observation, num_entries), ("action", action, num_actions)
    for name, table, size in parts:
        if table.shape != (len(action), size):
            raise UserError(
                f"symmetries of game {game} returns {name} of shape {table.shape}; it must be "
                f"[{len(action)}, {size}], one permutation for each symmetry."
            )
        if not (np.sort(table, axis=1) == np.arange(size)).all():
            raise UserError(f"symmetries of game {game}: a row of {name} is no permutation.")
        if len(table) == 0 or (table[0] != np.arange(size)).any():
            raise UserError(f"symmetries of game {game}: row 0 of {name} must be the identity.")
    return Symmetries(observation.astype(np.int32), action.astype(np.int32))


def _grids(name: str, shape: tuple[int, ...], has_board: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of observation entries and of actions, arranged as on the board."""
    entries = np.arange(np.prod(shape))
    if not has_board:
        return entries.reshape(1, -1), np.zeros((1, 0), int)
    # The actions of Connect Four are columns.
    board = (1, shape[1]) if name == "connect_four" else shape[:2]
    return entries.reshape(shape), np.arange(np.prod(board)).reshape(board)


def _move(grid: np.ndarray, motion: Motion) -> np.ndarray:
    mirror, turns = motion
    return np.rot90(grid[:, ::-1] if mirror else grid, turns)


def _stack(rows: list[np.ndarray]) -> np.ndarray:
    return np.stack(rows).astype(np.int32)
