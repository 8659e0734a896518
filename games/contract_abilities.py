"""Checks the optional abilities of a game, and lists those that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError
from dualmctx.import_path import describe
from games.abilities import ability
from games.board_input import entries
from games.chess_states import from_fen, to_fen
from games.contract import Fault
from games.drawing import to_text
from games.fen import has_fen
from games.notation import action_names
from games.pictures import picture
from games.players import random_player
from games.solvers import is_solvable, solve
from games.symmetry import symmetries

# Moves of the random games that are turned by symmetries or written as text.
_NUM_MOVES = 24


def find_ability_faults(env: Any, key: jax.Array) -> Iterator[Fault]:
    """Checks the optional abilities that the game has."""
    checks: dict[str, Callable[[], Any]] = {
        "move_names": lambda: action_names(env),
        "symmetries": lambda: _check_symmetries(env, key),
        "exact solution": lambda: is_solvable(env) and solve(env),
        "from_fen and to_fen": lambda: _check_fen(env, key),
        "picture": lambda: _check_picture(env, key),
        "board_input": lambda: _check_board_input(env, key),
    }
    for name, check in checks.items():
        try:
            check()
        except UserError as error:
            yield Fault(f"{name}: {error}", "games/abilities.py describes this ability")
        except Exception as error:
            yield Fault(f"{name} raised {describe(error)}", "mend it, or leave it out")


def _check_symmetries(env: Any, key: jax.Array) -> None:
    """Plays a random game and its images side by side."""
    tables = symmetries(env)
    if ability(env, "symmetries") is None:
        return
    moved = np.argsort(tables.action, axis=1)
    player, step = random_player(), jax.jit(jax.vmap(env.step))
    states = jax.vmap(env.init)(jnp.broadcast_to(key, (len(moved), *key.shape)))
    for ply in range(_NUM_MOVES):
        first = jax.tree.map(lambda x: x[0], states)
        flat = np.asarray(states.observation).reshape(len(moved), -1)
        wanted = flat[0][tables.observation], np.asarray(first.legal_action_mask)[tables.action]
        actual = flat, np.asarray(states.legal_action_mask)
        ends = zip(
            (first.terminated, first.rewards), (states.terminated, states.rewards), strict=True
        )
        same = all((np.asarray(x) == np.asarray(y)).all() for x, y in ends)
        if not bool(first.terminated) and not all(map(np.array_equal, wanted, actual)):
            same = False
        if not same:
            raise UserError(f"after {ply} moves of a random game, an image of it differs")
        if bool(first.terminated | first.truncated):
            return
        action = int(player(jax.random.fold_in(key, ply), first))
        states = step(states, jnp.asarray(moved[:, action], jnp.int32))


def _check_fen(env: Any, key: jax.Array) -> None:
    if ability(env, "from_fen") is None:
        return
    player, step = random_player(), jax.jit(env.step)
    state = jax.jit(env.init)(key)
    for ply in range(_NUM_MOVES):
        if bool(state.terminated | state.truncated):
            return
        text = to_fen(env, state)
        again = from_fen(env, text)
        for name in ("observation", "legal_action_mask"):
            if not np.array_equal(getattr(again, name), getattr(state, name)):
                raise UserError(f"the state of {text!r} has another {name}")
        state = step(state, player(jax.random.fold_in(key, ply), state))


def _check_picture(env: Any, key: jax.Array) -> None:
    state = env.init(key)
    if hasattr(state, "picture"):
        to_text(state)


def _check_board_input(env: Any, key: jax.Array) -> None:
    if ability(env, "board_input") is None:
        return
    state = jax.device_get(env.init(key))
    rows = picture(state).rows
    for entry in entries(env, state):
        for row, column in (*entry.targets, *filter(None, (entry.start, entry.shown))):
            if row >= len(rows) or column >= len(rows[row]):
                raise UserError(f"move {entry.name} has cell {(row, column)} outside the picture")


def describe_abilities(env: Any) -> list[str]:
    """Lists the optional abilities that the game has and lacks."""
    has = {
        "names of moves": ability(env, "move_names") is not None,
        f"{len(symmetries(env).action)} symmetries": len(symmetries(env).action) > 1,
        "an exact solution": is_solvable(env),
        "FEN": has_fen(env),
        "moves on the board": ability(env, "board_input") is not None,
        "a picture": hasattr(env.init(jax.random.PRNGKey(0)), "picture"),
    }
    found = [name for name, value in has.items() if value]
    return [f"optional abilities: {', '.join(found) or 'none'} (games/README.md lists them)"]
