"""Checks a game against the contract: shapes, random games, repeatability and abilities."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError
from dualmctx.import_path import describe
from games.abilities import ability
from games.contract import KEY, Fault, find_static_faults, has_observe
from games.contract_play import RULES, Played, play
from games.drawing import to_text
from games.fen import from_fen, has_fen, start_position, to_fen
from games.notation import action_names
from games.pictures import entries, picture
from games.solvers import is_solvable, random_player, solve
from games.symmetry import symmetries

# Moves of the random games that are repeated, turned by symmetries or written as text.
_NUM_MOVES = 24
_NUM_GAMES, _MAX_PLIES = 128, 1024
# A search plays legal actions only, and stops at the end of a game.
_FOR_SEARCH = tuple(rule for rule in RULES if rule not in ("illegal", "late_reward"))


class Checked(NamedTuple):
    """The result of a check.

    Attributes:
      faults: the parts of the contract that the game does not keep; empty if it keeps all.
      facts: lines about the game, for the user; empty if the game cannot be played.
    """

    faults: list[Fault]
    facts: list[str]


def check_game(env: Any, *, seed: int = 0) -> Checked:
    """Checks a game: its shapes; 128 random games of at most 1,024 plies; and its abilities.

    The check of random games is a sample: it finds frequent faults, and no fault in positions that
    random play does not reach.

    Args:
      env: any object with the interface of `dualmctx.types.Environment`, which may be faulty.
      seed: seed of the random games.
    """
    faults = find_static_faults(env)
    if faults:
        return Checked(faults, [])
    key = jax.random.PRNGKey(seed)
    try:
        played, faults = play_and_check(env, key, _NUM_GAMES, _MAX_PLIES, tuple(RULES))
        faults += [*_length(played), *_repeatable(env, key, played), *_chance(env, key)]
        faults += [*_observed(env, key)]
    except Exception as error:
        return Checked([Fault(f"a random game raised {describe(error)}", "mend the game")], [])
    if faults:
        return Checked(faults, _facts(env, played))
    faults, facts = [*find_ability_faults(env, key)], _facts(env, played)
    return Checked(faults, facts if faults else facts + _describe_abilities(env))


def play_and_check(
    env: Any, key: jax.Array, num_games: int, max_plies: int, rules: Sequence[str] = _FOR_SEARCH
) -> tuple[Played, list[Fault]]:
    """Plays random games of an environment with correct shapes; returns them and their faults.

    By default these are the faults that make a search or training wrong.
    """
    played = jax.device_get(play(env, key, num_games, max_plies))
    faults = [*_broken_rules(played, rules), *_start(env, key), *_information(played)]
    return played, faults


def _broken_rules(played: Played, rules: Sequence[str]) -> Iterator[Fault]:
    for name in rules:
        (problem, remedy), plies = RULES[name], played.first_bad[name]
        games = np.flatnonzero(plies >= 0)
        if len(games):
            where = (
                f"in {len(games)} of {len(plies)} random games, first at ply {plies[games].min()}"
            )
            yield Fault(f"{problem} ({where})", remedy)


def _start(env: Any, key: jax.Array) -> Iterator[Fault]:
    """Checks that all games start in the same position, from the view of the player to move."""
    states = jax.device_get(jax.jit(jax.vmap(env.init))(jax.random.split(key, _NUM_GAMES)))
    for name in ("observation", "legal_action_mask"):
        leaf = np.asarray(getattr(states, name))
        if (leaf != leaf[:1]).any():
            yield Fault(
                f"games start in different positions: {name} depends on the key of init",
                "chance is not supported: only current_player may depend on the key, and "
                "observations must show the position as the player to move sees it",
            )
            return


def _information(played: Played) -> Iterator[Fault]:
    """Checks that the observation and the legal actions determine the outcome of every move."""
    outcomes: dict[bytes, set[bytes]] = {}
    rows = np.argwhere(played.actions >= 0)
    for ply, game in rows:
        action = int(played.actions[ply, game]).to_bytes(4, "little")
        seen = outcomes.setdefault(played.before[ply, game].tobytes() + action, set())
        seen.add(played.after[ply, game].tobytes())
    repeated = len(rows) - len(outcomes)
    different = sum(len(found) > 1 for found in outcomes.values())
    if different:
        yield Fault(
            f"the observation does not determine the position: {different} times, the same "
            f"observation and action had different outcomes (among {repeated} repeated moves)",
            "hidden information and chance are not supported; an observation must show all that "
            "the rules depend on, from the view of the player to move, such as repeated positions "
            "and the moves left",
        )


def _length(played: Played) -> Iterator[Fault]:
    num_open = int((~played.is_over).sum())
    if num_open > len(played.plies) // 2:
        yield Fault(
            f"{num_open} of {len(played.plies)} random games did not end within {_MAX_PLIES:,} "
            "plies",
            "end games after a number of plies, with terminated and a result such as a draw",
        )
    if played.is_truncated.any():
        yield Fault(
            f"{int(played.is_truncated.sum())} random games ended with truncated, without a result",
            "set terminated with a result, such as a draw: positions of truncated games have no "
            "value target in training",
        )


def _repeatable(env: Any, key: jax.Array, played: Played) -> Iterator[Fault]:
    """Checks that a game alone is the game in a batch, and compiled steps are those without jit."""
    moves = [a for a in played.actions[:_NUM_MOVES, 0].tolist() if a >= 0]
    keys, (init, step) = jax.random.split(key, 3), _compiled(env)
    alone, batch = init(keys[0]), jax.jit(jax.vmap(env.init))(keys)
    step_batch = jax.jit(jax.vmap(env.step))
    for action in moves:
        alone = step(alone, jnp.int32(action))
        batch = step_batch(batch, jnp.full(3, action, jnp.int32))
        if not _equal(alone, jax.tree.map(lambda x: x[0], batch)):
            yield Fault(
                "a game alone and the same game in a batch differ",
                "let nothing depend on the number of games: avoid Python side effects and global "
                "state",
            )
            return
    if not moves:  # the game is over at its start, which is a fault of its own
        return
    eager = env.step(env.init(keys[0]), jnp.int32(moves[0]))
    if not _equal(eager, step(init(keys[0]), jnp.int32(moves[0]))):
        yield Fault(
            "step gives different states with and without jax.jit",
            "let it depend on its arguments alone",
        )


@functools.lru_cache(maxsize=2)
def _compiled(env: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns `init` and `step` for one game."""
    return jax.jit(env.init), jax.jit(env.step)


def _random_game(env: Any, key: jax.Array) -> Iterator[tuple[Any, Any]]:
    """Yields the states of a random game, at most `_NUM_MOVES`, each with its move."""
    player, (init, step) = random_player(), _compiled(env)
    state = init(key)
    for ply in range(_NUM_MOVES):
        if bool(state.terminated | state.truncated):
            return
        action = player(jax.random.fold_in(key, ply), state)
        yield state, action
        state = step(state, action)


def _chance(env: Any, key: jax.Array) -> Iterator[Fault]:
    """Checks that the key of a step, if it takes one, changes nothing."""
    try:
        parameters = inspect.signature(env.step).parameters
    except (TypeError, ValueError):
        return
    if "key" not in parameters:
        return
    init, step = _compiled(env)
    state = init(key)
    action = jnp.argmax(state.legal_action_mask).astype(jnp.int32)
    with_key = jax.jit(jax.vmap(lambda x: env.step(state, action, key=x)))
    after, alone = with_key(jax.random.split(key, 16)), step(state, action)
    if not _equal(after, jax.tree.map(lambda x: jnp.broadcast_to(x, (16, *x.shape)), alone)):
        yield Fault("the key of a step changes its result", "games with chance are not supported")


def _observed(env: Any, key: jax.Array) -> Iterator[Fault]:
    """Checks `observe` on the first positions of a random game, stored without observations."""
    if not has_observe(env):
        return
    observe = jax.jit(env.observe)
    for ply, (state, _) in enumerate(_random_game(env, key)):
        if not _equal(observe(state.replace(observation=None)), state.observation):
            yield Fault(
                f"observe(state) differs from state.observation after {ply} moves",
                "by default observe shows the position as the player to move sees it",
            )
            return


def _equal(one: Any, other: Any) -> bool:
    """Returns whether two states are equal; floats may differ by rounding."""
    pairs = zip(*map(jax.tree.leaves, jax.device_get((one, other))), strict=True)
    return all(np.allclose(x, y, 1e-5, 1e-6, equal_nan=True) for x, y in pairs)


def _facts(env: Any, played: Played) -> list[str]:
    """Describes the game, for the user."""
    state = jax.eval_shape(env.init, KEY)
    shape = " × ".join(map(str, state.observation.shape)) or "1"
    repeats = played.num_repeats.sum() / max(1, played.plies.sum())
    order = "players alternate"
    if repeats:
        order = f"a player moves twice in a row in {repeats:.1%} of moves, which is supported"
    plies = played.plies
    return [
        f"{state.legal_action_mask.size} actions, observations of {shape} "
        f"({state.observation.dtype}), {order}",
        f"{len(plies)} random games of {plies.min()} to {plies.max()} plies, {plies.mean():.1f} on "
        "average",
    ]


def find_ability_faults(env: Any, key: jax.Array) -> Iterator[Fault]:
    """Checks the optional abilities that the game has."""
    start = functools.partial(_compiled(env)[0], key)
    checks: dict[str, Callable[[], Any]] = {
        "move_names": lambda: action_names(env),
        "symmetries": lambda: _check_symmetries(env, key),
        "exact solution": lambda: is_solvable(env) and solve(env),
        "from_fen and to_fen": lambda: _check_fen(env, key),
        "picture": lambda: hasattr(start(), "picture") and to_text(start()),
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
    states = jax.jit(jax.vmap(env.init))(jnp.broadcast_to(key, (len(moved), *key.shape)))
    for ply in range(_NUM_MOVES):
        images = jax.device_get(states)
        first = jax.tree.map(lambda x: x[0], images)
        observations = images.observation.reshape(len(moved), -1)
        legal = first.legal_action_mask[tables.action]
        same = (images.terminated == first.terminated).all()
        same &= (images.rewards == first.rewards).all()
        if not first.terminated:
            same &= np.array_equal(observations, observations[0][tables.observation])
            same &= np.array_equal(images.legal_action_mask, legal)
        if not same:
            raise UserError(f"after {ply} moves of a random game, an image of it differs")
        if first.terminated or first.truncated:
            return
        action = int(player(jax.random.fold_in(key, ply), first))
        states = step(states, jnp.asarray(moved[:, action], jnp.int32))


def _check_fen(env: Any, key: jax.Array) -> None:
    if ability(env, "from_fen") is None:
        return
    start_position(env)
    for state, _ in _random_game(env, key):
        text = to_fen(env, state)
        again = from_fen(env, text)
        for name in ("observation", "legal_action_mask"):
            if not np.array_equal(getattr(again, name), getattr(state, name)):
                raise UserError(f"the state of {text!r} has another {name}")


def _check_board_input(env: Any, key: jax.Array) -> None:
    if ability(env, "board_input") is None:
        return
    state = jax.device_get(_compiled(env)[0](key))
    rows = picture(state).rows
    for entry in entries(env, state):
        for row, column in (*entry.targets, *filter(None, (entry.start, entry.shown))):
            if row >= len(rows) or column >= len(rows[row]):
                raise UserError(f"move {entry.name} has cell {(row, column)} outside the picture")


def _describe_abilities(env: Any) -> list[str]:
    """Lists the optional abilities that the game has and lacks."""
    has = {
        "names of moves": ability(env, "move_names") is not None,
        f"{len(symmetries(env).action)} symmetries": len(symmetries(env).action) > 1,
        "an exact solution": is_solvable(env),
        "FEN": has_fen(env),
        "moves on the board": ability(env, "board_input") is not None,
        "a picture": hasattr(jax.eval_shape(env.init, KEY), "picture"),
    }
    found = [name for name, value in has.items() if value]
    return [f"optional abilities: {', '.join(found) or 'none'} (games/README.md lists them)"]
