"""Self-play: many games in parallel on the device; a new game replaces each finished game."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.checks import (
    check,
    check_count,
    check_number,
    check_share,
    describe,
    is_whole,
    normalize_options,
)
from dualmctx.models.game_model import reward_and_discount
from dualmctx.policies.root import sample_action
from dualmctx.search.arrays import tree_where
from dualmctx.search.keys import split_key
from dualmctx.search.slots import latest_children, to_slots
from dualmctx.search.subtree import empty_tree, get_subtree
from dualmctx.search.tree import Tree
from dualmctx.training.batch import TrainingBatch
from dualmctx.types import Environment, GameState, Params, SearchFn, acting_weights

# Beyond this, weights^(1/T) are nearly uniform, and much larger numbers would overflow.
_HIGHEST_TEMPERATURE = 1e6


@dataclasses.dataclass(frozen=True)
class SelfPlay:
    """Options of self-play.

    Raises:
      ValueError: if an option is out of range.
    """

    num_games: int = 64
    """Number of parallel games, which is the batch size of a search."""
    num_steps: int = 32
    """Moves per game in each iteration. Games continue in the next iteration."""
    temperature_plies: int = 8
    """Number of plies in the opening of a game. AlphaGo Zero uses 30 in Go."""
    temperature: float = 1.0
    """In the opening, moves are sampled in proportion to weights^(1/temperature), where the weights
    are those of the search; 0 plays the best move."""
    final_temperature: float = 0.0
    """The temperature after the opening; 0 plays the best move, as AlphaGo Zero does."""
    random_plies: int = 0
    """Each game starts with 0 to this many uniformly random plies, for a wider variety of
    positions. The result of a game says nothing about positions before its last random move, so
    these have no value target."""
    resign_below: float | None = None
    """A player resigns if the search value of the position is below this number, in (-1, 0); none
    plays every game to its end. AlphaGo Zero chose the number so that less than 5 % of the resigned
    games could have been won; here the metrics estimate that share as the sum of `resign_errors`
    divided by the sum of `resign_tests`."""
    play_on_fraction: float = 0.1
    """Share of the games without resignation, in [0, 1]. They measure the error rate of
    resignation. A resign test is a game without resignation in which a player would have resigned.
    It is a resign error if the first such player did not lose. Each game with a result counts once,
    when it ends. A truncated game does not count."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        for name in ("num_games", "num_steps"):
            check_count(name, getattr(self, name), 1)
        for name in ("temperature_plies", "random_plies"):
            # Plies are counted in 32 bits.
            value = getattr(self, name)
            is_valid = is_whole(value) and 0 <= value < 2**31 - 1
            check(is_valid, name, describe(value), "a whole number from 0 to 2**31 - 2")
        for name in ("temperature", "final_temperature"):
            value, limits = getattr(self, name), f"from 0 to {_HIGHEST_TEMPERATURE:,.0f}"
            check_number(name, value, lambda x: 0 <= x <= _HIGHEST_TEMPERATURE, limits)
        limits = "above -1 and below 0"
        check_number(
            "resign_below", self.resign_below, lambda x: -1 < x < 0, limits, "to play to the end"
        )
        check_share(self, "play_on_fraction")


class SelfPlayState(NamedTuple):
    """Games in progress.

    Attributes:
      state: `[B]` game states, none of them over.
      ply: `[B]` int32, number of moves played in each game.
      random_plies: `[B]` int32, number of random moves at the start of each game.
      plays_on: `[B]` bool, whether resignation is disabled in the game.
      would_resign: `[B]` int32, in a game without resignation, the identity of the player who would
        have resigned first; -1 if there is none.
    """

    state: GameState
    ply: chex.Array
    random_plies: chex.Array
    plays_on: chex.Array
    would_resign: chex.Array


class Trajectory(NamedTuple):
    """Moves of self-play, `[T, B]` each.

    Attributes:
      positions: the stored fields of each position, see `TrainingBatch`, before the outcome of the
        game is propagated.
      action: `[T, B]` int32, the move played.
      reward: `[T, B]` reward of the player who moved.
      discount: `[T, B]` -1, +1 or 0, see `dualmctx.types`.
      is_end: `[T, B]` bool, whether the move was the last of its game. A resignation ends the game.
      is_truncated: `[T, B]` bool, whether the game was stopped after the move without a result.
      is_resign_test: `[T, B]` bool, whether the move ended a resign test.
      is_resign_error: `[T, B]` bool, whether that test is a resign error; both terms are defined at
        `SelfPlay.play_on_fraction`.
    """

    positions: TrainingBatch
    action: chex.Array
    reward: chex.Array
    discount: chex.Array
    is_end: chex.Array
    is_truncated: chex.Array
    is_resign_test: chex.Array
    is_resign_error: chex.Array


PlayFn = Callable[[Params, chex.PRNGKey, SelfPlayState], tuple[SelfPlayState, Trajectory]]
"""`(params, rng_keys, state) -> (state, trajectory)`: plays `num_steps` moves in every game;
consumes the `[B]` keys."""


def start_games(env: Environment, rng_keys: chex.PRNGKey, options: SelfPlay) -> SelfPlayState:
    """Starts `[B]` new games from `[B]` keys, which are consumed."""
    init_keys, random_keys, resign_keys = split_key(rng_keys, 3)
    most, share = options.random_plies + 1, options.play_on_fraction
    zeros = jnp.zeros(init_keys.shape[0], jnp.int32)
    return SelfPlayState(
        state=jax.vmap(env.init)(init_keys),
        ply=zeros,
        random_plies=jax.vmap(lambda key: jax.random.randint(key, (), 0, most))(random_keys),
        plays_on=jax.vmap(lambda key: jax.random.uniform(key) < share)(resign_keys),
        would_resign=zeros - 1,
    )


def make_play(
    env: Environment, search_fn: SearchFn, options: SelfPlay, *, reuse_capacity: int = 0
) -> PlayFn:
    """Returns a function that plays `num_steps` moves in every game.

    When a game ends or is truncated, a new game replaces it before the next search, so no search
    starts from a finished game.

    With `reuse_capacity`, each search continues with the subtree of the move played and mixes noise
    into the prior of the new root. The first search of a game and the first search of a call have
    no tree to reuse, so a tree never mixes evaluations by different parameters.

    Args:
      env: a game as `games.make` returns it.
      search_fn: a variant bound to the game and a network, with noise at the root.
      options: options of self-play.
      reuse_capacity: the variant's option of the same name; 0 starts every search with an empty
        tree.

    Returns:
      `(params, rng_keys, state) -> (state, trajectory)`, to be jitted. It consumes `[B]` keys, one
      for each game, so a game does not depend on the other games or on its index in the batch.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play" and "Search algorithm".
    """

    def step(params: Params, carry: tuple, rng_keys: chex.PRNGKey) -> tuple[tuple, Trajectory]:
        games, tree = carry
        search_keys, action_keys, start_keys = split_key(rng_keys, 3)
        output = search_fn(params, search_keys, games.state, tree)
        is_opening = games.ply < options.temperature_plies
        temperature = jnp.where(is_opening, options.temperature, options.final_temperature)
        is_random = games.ply < games.random_plies
        legal = games.state.legal_action_mask
        action = _choose_action(action_keys, acting_weights(output), legal, temperature, is_random)
        continued, trajectory = _play_moves(env, options, games, output, action, is_random)
        new = start_games(env, start_keys, options)
        tree = None
        if reuse_capacity:
            tree = get_subtree(
                output.search_tree,
                action,
                reuse_capacity=reuse_capacity,
                is_reset=trajectory.is_end,
            )
        return (tree_where(trajectory.is_end, new, continued), tree), trajectory

    def play(
        params: Params, rng_keys: chex.PRNGKey, state: SelfPlayState
    ) -> tuple[SelfPlayState, Trajectory]:
        keys = jnp.stack(split_key(rng_keys, options.num_steps))
        tree = None
        if reuse_capacity:
            tree = empty_tree(search_fn, params, state.state, reuse_capacity=reuse_capacity)
        carry = (state, tree)
        (state, _), trajectory = jax.lax.scan(
            lambda carry, key: step(params, carry, key), carry, keys
        )
        return state, trajectory

    return play


def _play_moves(
    env: Environment,
    options: SelfPlay,
    games: SelfPlayState,
    output: Any,
    action: chex.Array,
    is_random: chex.Array,
) -> tuple[SelfPlayState, Trajectory]:
    """Plays `[B]` actions; returns all games after them, including ended ones, and the moves."""
    state = jax.vmap(env.step)(games.state, action)
    reward, discount = reward_and_discount(games.state, state)
    value = chosen_value(output)
    limit = -jnp.inf if options.resign_below is None else options.resign_below
    is_hopeless = (value < limit) & ~is_random
    is_first = is_hopeless & games.plays_on & (games.would_resign < 0)
    would_resign = jnp.where(is_first, games.state.current_player, games.would_resign)
    resigns = is_hopeless & ~games.plays_on
    has_result = state.terminated | resigns
    is_end = has_result | state.truncated
    is_test = state.terminated & (would_resign >= 0)
    tested = jnp.maximum(would_resign, 0)[:, None]
    has_lost = jnp.take_along_axis(state.rewards, tested, axis=1)[:, 0] < 0
    reward, discount = jnp.where(resigns, -1, reward), jnp.where(resigns, 0, discount)
    is_truncated = is_end & ~has_result
    positions = TrainingBatch(
        observation=games.state.observation,
        legal_action_mask=games.state.legal_action_mask,
        policy=output.action_weights,
        value=reward,
        remaining_discount=discount,
        is_truncated=is_truncated,
        is_random=is_random,
        search_value=value,
    )
    trajectory = Trajectory(
        positions=positions,
        action=action,
        reward=reward,
        discount=discount,
        is_end=is_end,
        is_truncated=is_truncated,
        is_resign_test=is_test,
        is_resign_error=is_test & ~has_lost,
    )
    continued = games._replace(state=state, ply=games.ply + 1, would_resign=would_resign)
    return continued, trajectory


def _choose_action(
    rng_keys: chex.PRNGKey,
    weights: chex.Array,
    legal_action_mask: chex.Array,
    temperature: chex.Array,
    is_random: chex.Array,
) -> chex.Array:
    """Samples `[B]` moves: in proportion to weights^(1/temperature), or uniformly if random."""
    sample_keys, random_keys = split_key(rng_keys)
    action = sample_action(sample_keys, weights, temperature[:, None])
    random_action = sample_action(random_keys, legal_action_mask.astype(weights.dtype), 1.0)
    return jnp.where(is_random, random_action, action)


def chosen_value(output: Any) -> chex.Array:
    """Returns the `[B]` values of the positions of a search, for the player to move.

    The value is Q of the action with the largest acting weight; ties go to the lowest action. For
    Gumbel this action is the winner of Sequential Halving; for searches that choose by visits it is
    the most visited action. The mean at the root would also include simulations of actions that
    the search rejected. With several trees, Q is that of the last tree that visited the action; if
    no tree did, the value is that of the root in the last tree.
    """
    tree = output.search_tree
    weights = to_slots(tree, acting_weights(output))
    chosen = jnp.argmax(weights, axis=-1, keepdims=True)
    visits, qvalues = (
        jnp.take_along_axis(rows, chosen, axis=-1)[:, 0] for rows in latest_children(tree)
    )
    return jnp.where(visits > 0, qvalues, tree.stats[-1].node_values[:, Tree.ROOT_INDEX])
