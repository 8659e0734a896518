"""Self-play: many games side by side on the device, each starting anew when it ends."""

import dataclasses
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.checks import check, check_count, check_share, is_whole
from dualmctx.models.game_model import reward_and_discount
from dualmctx.policies.root import sample_action
from dualmctx.search.arrays import tree_where
from dualmctx.search.keys import split_key
from dualmctx.search.subtree import empty_tree, get_subtree
from dualmctx.search.tree import Tree, latest_children, slot_actions
from dualmctx.types import Environment, Params, SearchFn, acting_weights

# Weights^(1/T) are all but equal from here on, and numbers far above would overflow.
_HIGHEST_TEMPERATURE = 1e6


@dataclasses.dataclass(frozen=True)
class SelfPlay:
    """How games are played for training.

    Raises:
      ValueError: when an option is out of range, in one line.
    """

    num_games: int = 64
    """Games played side by side; the batch of a search."""
    num_steps: int = 32
    """Moves in each of these games an iteration; games go on in the next one."""
    temperature_plies: int = 8
    """Plies at the start of a game that count as its opening; AlphaGo Zero has 30 in Go."""
    temperature: float = 1.0
    """Moves of the opening are drawn from weights^(1/temperature), the search's; 0 takes the
    best."""
    final_temperature: float = 0.0
    """The same after the opening; 0 plays the best move, as AlphaGo Zero does."""
    random_plies: int = 0
    """Each game starts with 0 to this many uniformly random plies, for a wider set of positions.
    The result of a game says nothing of the positions before its last random move, so these have
    no value target."""
    resign_below: float | None = None
    """A player resigns a position that the search gives less than this, in (-1, 0); `None` plays
    every game to its end. AlphaGo Zero chose it such that less than 5 % of the resigned games could
    have been won; here that share is the sum of `resign_errors` over that of `resign_tests`."""
    play_on_fraction: float = 0.1
    """Share of the games in which nobody resigns, which show what resigning would have cost: a
    test is such a game in which a player would have resigned, an error one that the first of them
    did not lose. Each counts once, when the game ends."""

    def __post_init__(self) -> None:
        """Checks the options."""
        for name in ("num_games", "num_steps"):
            check_count(name, getattr(self, name), 1)
        for name in ("temperature_plies", "random_plies"):
            # As plies are counted in 32 bits.
            value = getattr(self, name)
            is_right = is_whole(value) and 0 <= value < 2**31 - 1
            check(is_right, name, value, "a whole number from 0 to 2**31 - 2")
        for name in ("temperature", "final_temperature"):
            # Not a number is in no range.
            value, limits = getattr(self, name), f"from 0 to {_HIGHEST_TEMPERATURE:,.0f}"
            check(0 <= value <= _HIGHEST_TEMPERATURE, name, value, limits)
        limit = self.resign_below
        is_right = limit is None or -1 < limit < 0
        check(is_right, "resign_below", limit, "above -1 and below 0, or none")
        check_share(self, "play_on_fraction")


class SelfPlayState(NamedTuple):
    """Games in progress.

    Attributes:
      state: `[B]` game states, none of them over.
      ply: `[B]` int32, moves played so far in each game.
      random_plies: `[B]` int32, how many of its first moves are random.
      plays_on: `[B]` bool, games in which nobody resigns.
      would_resign: `[B]` int32, the player who would have been the first to resign a game played
        on, by identity; -1 where nobody would have so far.
    """

    state: Any
    ply: chex.Array
    random_plies: chex.Array
    plays_on: chex.Array
    would_resign: chex.Array


class Trajectory(NamedTuple):
    """Moves played, `[T, B]` each.

    Attributes:
      observation: `[T, B, ...]` seen by the player to move.
      legal_action_mask: `[T, B, A]`.
      action_weights: `[T, B, A]` of the search.
      action: `[T, B]` int32, the move played.
      reward: `[T, B]` of the mover.
      discount: `[T, B]` -1, +1 or 0, see `dualmctx.types`.
      is_end: `[T, B]` bool, whether the move was its game's last, also where the mover resigned.
      is_truncated: `[T, B]` bool, whether the game was stopped after the move without a result.
      is_random: `[T, B]` bool, whether the move was drawn without a look at the search.
      value: `[T, B]` the search's value of the position, for the player to move; see
        `chosen_value`.
      is_resign_test: `[T, B]` bool, whether the move ended a game played on in which a player would
        have resigned.
      is_resign_error: `[T, B]` bool, likewise one that the first such player did not lose.
    """

    observation: chex.Array
    legal_action_mask: chex.Array
    action_weights: chex.Array
    action: chex.Array
    reward: chex.Array
    discount: chex.Array
    is_end: chex.Array
    is_truncated: chex.Array
    is_random: chex.Array
    value: chex.Array
    is_resign_test: chex.Array
    is_resign_error: chex.Array


class PlayFn(Protocol):
    """Plays on; see `make_play`."""

    def __call__(
        self, params: Params, rng_keys: chex.PRNGKey, games: SelfPlayState
    ) -> tuple[SelfPlayState, Trajectory]:
        """Plays on; consumes the keys."""
        ...


def start_games(env: Environment, rng_keys: chex.PRNGKey, options: SelfPlay) -> SelfPlayState:
    """Starts `[B]` new games, by `[B]` keys."""
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


def chosen_value(output: Any) -> chex.Array:
    """Returns the value of each position that self-play records and resigns by.

    This is Q of the action that the search chose: the one with the largest of the weights that
    moves are drawn from, the lowest of equals. For Gumbel it is the winner of Sequential Halving,
    where searches choose by visits the most visited action. The root's own mean would also count
    the simulations of actions that were tried and rejected.

    Args:
      output: the output of a search, over the game's actions.

    Returns:
      `[B]`, seen by the player to move. Of several trees the last one that visited the action
      gives its Q. Where none did, it is the value of the root in the last tree.
    """
    tree, weights = output.search_tree, acting_weights(output)
    actions = slot_actions(tree)
    if actions is not None:
        weights = jnp.take_along_axis(weights, actions[:, Tree.ROOT_INDEX], axis=-1)
    chosen = jnp.argmax(weights, axis=-1, keepdims=True)
    visits, qvalues = (
        jnp.take_along_axis(rows, chosen, axis=-1)[:, 0] for rows in latest_children(tree)
    )
    return jnp.where(visits > 0, qvalues, tree.stats[-1].node_values[:, Tree.ROOT_INDEX])


def _has_lost(state: Any, player: chex.Array) -> chex.Array:
    """Returns `[B]` bool, whether these players lost their games; anything where there is none."""
    player = jnp.maximum(player, 0)
    return jnp.take_along_axis(state.rewards, player[:, None], axis=1)[:, 0] < 0


def make_play(
    env: Environment, search_fn: SearchFn, options: SelfPlay, *, reuse_capacity: int = 0
) -> PlayFn:
    """Makes the function that plays `num_steps` moves in every game.

    A game that ends or is truncated is replaced by a new one before the next search, so that no
    search starts from a position in which the game is over.

    With `reuse_capacity` each search goes on from the last one's tree below the move played, and
    mixes noise into the prior of its new root. The first search of a game has no tree, nor has the
    first one of a call, so that a tree never mixes what two sets of parameters said.

    Args:
      env: a game as `games.make` gives it.
      search_fn: a variant bound to the game and a network, with noise at the root.
      options: how games are played.
      reuse_capacity: the variant's option of that name; 0 starts every search afresh.

    Returns:
      `(params, rng_keys, games) -> (games, steps)`, to be jitted. It consumes `[B]` keys, one for
      each game: what happens in a game does not depend on the others or on its place among them.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play" and "Search algorithm".
    """

    def choose(rng_keys: chex.PRNGKey, games: SelfPlayState, weights: chex.Array) -> tuple:
        sample_keys, random_keys = split_key(rng_keys)
        is_opening = games.ply < options.temperature_plies
        temperature = jnp.where(is_opening, options.temperature, options.final_temperature)
        action = sample_action(sample_keys, weights, temperature[:, None])
        legal = games.state.legal_action_mask.astype(weights.dtype)
        is_random = games.ply < games.random_plies
        return jnp.where(is_random, sample_action(random_keys, legal, 1.0), action), is_random

    def resign(games: SelfPlayState, value: chex.Array, is_random: chex.Array) -> tuple:
        limit = -jnp.inf if options.resign_below is None else options.resign_below
        is_hopeless = (value < limit) & ~is_random
        is_first = is_hopeless & games.plays_on & (games.would_resign < 0)
        would_resign = jnp.where(is_first, games.state.current_player, games.would_resign)
        return is_hopeless & ~games.plays_on, would_resign

    def step(params: Params, carry: tuple, rng_keys: chex.PRNGKey) -> tuple[tuple, Trajectory]:
        games, kept = carry
        search_keys, action_keys, start_keys = split_key(rng_keys, 3)
        output = search_fn(params, search_keys, games.state, kept)
        action, is_random = choose(action_keys, games, acting_weights(output))
        state = jax.vmap(env.step)(games.state, action)
        reward, discount = reward_and_discount(games.state, state)
        value = chosen_value(output)
        resigns, would_resign = resign(games, value, is_random)
        has_result = state.terminated | resigns
        is_end = has_result | state.truncated
        is_test = state.terminated & (would_resign >= 0)
        steps = Trajectory(
            observation=games.state.observation,
            legal_action_mask=games.state.legal_action_mask,
            action_weights=output.action_weights,
            action=action,
            reward=jnp.where(resigns, -1, reward),
            discount=jnp.where(resigns, 0, discount),
            is_end=is_end,
            is_truncated=is_end & ~has_result,
            is_random=is_random,
            value=value,
            is_resign_test=is_test,
            is_resign_error=is_test & ~_has_lost(state, would_resign),
        )
        new = start_games(env, start_keys, options)
        going_on = games._replace(state=state, ply=games.ply + 1, would_resign=would_resign)
        kept = keep(output.search_tree, action, is_end)
        return (tree_where(is_end, new, going_on), kept), steps

    def keep(tree: Any, action: chex.Array, is_end: chex.Array) -> Any:
        if not reuse_capacity:
            return None
        return get_subtree(tree, action, reuse_capacity=reuse_capacity, is_reset=is_end)

    def play(
        params: Params, rng_keys: chex.PRNGKey, games: SelfPlayState
    ) -> tuple[SelfPlayState, Trajectory]:
        keys = jnp.stack(split_key(rng_keys, options.num_steps))
        kept = None
        if reuse_capacity:
            kept = empty_tree(search_fn, params, games.state, reuse_capacity=reuse_capacity)
        carry = (games, kept)
        (games, _), steps = jax.lax.scan(lambda carry, key: step(params, carry, key), carry, keys)
        return games, steps

    return play
