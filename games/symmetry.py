"""Symmetries: the ways to turn and mirror a board under which a game stays the same game."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

if TYPE_CHECKING:
    import pgx

# A way to lay the board down again: mirrored left to right first if 1, then so many quarter turns.
_Motion = tuple[int, int]
_STAY, _MIRROR, _HALF_TURN = (0, 0), (1, 0), (0, 2)
_SQUARE = tuple((mirror, turns) for mirror in (0, 1) for turns in range(4))

# Of the square's eight, Othello's first four stones allow those that keep either diagonal; the
# others exchange the colours. Hex's half turn leaves both players their sides, and commutes with
# the swap, which mirrors a stone at the long diagonal; that mirror itself exchanges the sides.
# Chess, its small sister and both shogis start with pieces that differ from left to right.
_MOTIONS: dict[str, tuple[_Motion, ...]] = {
    "connect2": (_STAY, _MIRROR),
    "tic_tac_toe": _SQUARE,
    "connect_four": (_STAY, _MIRROR),
    "othello": (_STAY, _HALF_TURN, (1, 1), (1, 3)),
    "hex": (_STAY, _HALF_TURN),
    "go": _SQUARE,
}


class Symmetries(NamedTuple):
    """S ways to see a game that are all the same game; the first changes nothing.

    Attributes:
      observation: `[S, D]` int32, from which entry of the old observation, flattened, each entry of
        the new one comes.
      action: `[S, A]` int32, from which old action each new one comes.
    """

    observation: np.ndarray
    action: np.ndarray


def symmetries(env: pgx.Env) -> Symmetries:
    """Returns the symmetries of a game's rules, its start and its observations.

    Let s be one of them. From the same start, playing b where `action[s, b]` was played leads
    through observations and legal actions that are the old ones, read by s, to the same rewards at
    the same moves. So the value of a position stays, and a policy is read by s as well.

    Args:
      env: any pgx environment; one that is not known here has no symmetry but the first.

    Returns:
      The group, the identity first. Connect2 and Connect Four have 2, Hex 2, Othello 4,
      tic-tac-toe and Go 8; the others 1.
    """
    state = jax.eval_shape(env.init, jax.random.PRNGKey(0))
    shape, num_actions = state.observation.shape, state.legal_action_mask.shape[0]
    motions = _MOTIONS.get(_family(env.id), (_STAY,))
    observed, cells = _grids(env.id, shape)
    # What is no cell, such as passing, stays where it is.
    others = np.arange(cells.size, num_actions)
    return Symmetries(
        observation=_stack([_move(observed, motion).ravel() for motion in motions]),
        action=_stack([np.append(_move(cells, motion), others) for motion in motions]),
    )


def _family(name: str) -> str:
    """Returns the name without a board's size."""
    return "go" if name.startswith("go_") else name


def _grids(name: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers an observation's entries, and the actions, as they lie on the board `[H, W, ...]`."""
    entries = np.arange(np.prod(shape))
    if _family(name) not in _MOTIONS:
        return entries.reshape(1, -1), np.zeros((1, 0), int)
    if name == "connect2":
        return entries.reshape(2, 4), np.arange(4).reshape(1, 4)
    # An action of Connect Four is a column.
    board = (1, shape[1]) if name == "connect_four" else shape[:2]
    return entries.reshape(shape), np.arange(np.prod(board)).reshape(board)


def _move(grid: np.ndarray, motion: _Motion) -> np.ndarray:
    mirror, turns = motion
    return np.rot90(grid[:, ::-1] if mirror else grid, turns)


def _stack(rows: list[np.ndarray]) -> np.ndarray:
    return np.stack(rows).astype(np.int32)
