"""Self-play: many games side by side on the device, each starting anew when it ends."""

import dataclasses
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp

from dualmctx.model import edge_signs
from dualmctx.policies.root import sample_action
from dualmctx.reuse import advance, no_tree
from dualmctx.types import Params, SearchFn, acting_weights


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

    def __post_init__(self) -> None:
        """Checks the options."""
        for name in ("num_games", "num_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        names = ("temperature_plies", "temperature", "final_temperature", "random_plies")
        for name in names:
            # Not a number is neither below 0 nor above.
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0")


class Games(NamedTuple):
    """Games in progress.

    Attributes:
      state: `[B]` game states, none of them over.
      ply: `[B]` int32, moves played so far in each game.
      random_plies: `[B]` int32, how many of its first moves are random.
    """

    state: Any
    ply: chex.Array
    random_plies: chex.Array


class Steps(NamedTuple):
    """Moves played, `[T, B]` each.

    Attributes:
      observation: `[T, B, ...]` seen by the player to move.
      legal_action_mask: `[T, B, A]`.
      action_weights: `[T, B, A]` of the search.
      action: `[T, B]` int32, the move played.
      reward: `[T, B]` of the mover.
      discount: `[T, B]` -1, +1 or 0, see `dualmctx.types`.
      is_end: `[T, B]` bool, whether the move ended its game.
      is_random: `[T, B]` bool, whether the move was drawn without a look at the search.
      value: `[T, B]` the search's value of the position, for the player to move.
    """

    observation: chex.Array
    legal_action_mask: chex.Array
    action_weights: chex.Array
    action: chex.Array
    reward: chex.Array
    discount: chex.Array
    is_end: chex.Array
    is_random: chex.Array
    value: chex.Array


class PlayFn(Protocol):
    """Plays on; see `make_play`."""

    def __call__(self, params: Params, rng_key: chex.PRNGKey, games: Games) -> tuple[Games, Steps]:
        """Plays on; consumes the key."""
        ...


def start_games(env: Any, rng_key: chex.PRNGKey, options: SelfPlay, num_games: int) -> Games:
    """Starts `[B]` new games."""
    init_key, random_key = jax.random.split(rng_key)
    state = jax.vmap(env.init)(jax.random.split(init_key, num_games))
    random_plies = jax.random.randint(random_key, (num_games,), 0, options.random_plies + 1)
    return Games(state, jnp.zeros(num_games, jnp.int32), random_plies)


def make_play(env: Any, search_fn: SearchFn, options: SelfPlay, *, kept_nodes: int = 0) -> PlayFn:
    """Makes the function that plays `num_steps` moves in every game.

    A game that ends is replaced by a new one before the next search, so that no search starts
    from a position in which the game is over.

    With `kept_nodes` each search goes on from the last one's tree below the move played, and mixes
    noise into the prior of its new root. The first search of a game has no tree, nor has the
    first one of a call, so that a tree never mixes what two sets of parameters said.

    Args:
      env: a game as `games.make` gives it.
      search_fn: a variant bound to the game and a network, with noise at the root.
      options: how games are played.
      kept_nodes: the variant's option of that name; 0 starts every search afresh.

    Returns:
      `(params, rng_key, games) -> (games, steps)`, to be jitted; the key is consumed.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play" and "Search algorithm".
    """

    def choose(rng_key: chex.PRNGKey, games: Games, weights: chex.Array) -> tuple:
        sample_key, random_key = jax.random.split(rng_key)
        is_opening = games.ply < options.temperature_plies
        temperature = jnp.where(is_opening, options.temperature, options.final_temperature)
        action = sample_action(sample_key, weights, temperature[:, None])
        legal = games.state.legal_action_mask.astype(weights.dtype)
        is_random = games.ply < games.random_plies
        return jnp.where(is_random, sample_action(random_key, legal, 1.0), action), is_random

    def step(params: Params, carry: tuple, rng_key: chex.PRNGKey) -> tuple[tuple, Steps]:
        games, kept = carry
        search_key, action_key, start_key = jax.random.split(rng_key, 3)
        output = search_fn(params, search_key, games.state, kept)
        action, is_random = choose(action_key, games, acting_weights(output))
        state = jax.vmap(env.step)(games.state, action)
        reward, discount = edge_signs(games.state, state)
        is_end = state.terminated | state.truncated
        steps = Steps(
            observation=games.state.observation,
            legal_action_mask=games.state.legal_action_mask,
            action_weights=output.action_weights,
            action=action,
            reward=reward,
            discount=discount,
            is_end=is_end,
            is_random=is_random,
            value=output.search_tree.layers[-1].node_values[:, 0],
        )
        new = start_games(env, start_key, options, action.shape[0])
        going_on = Games(state, games.ply + 1, games.random_plies)

        def pick(x: chex.Array, y: chex.Array) -> chex.Array:
            return jnp.where(is_end.reshape((-1,) + (1,) * (x.ndim - 1)), x, y)

        return (jax.tree.map(pick, new, going_on), keep(output.search_tree, action, is_end)), steps

    def keep(tree: Any, action: chex.Array, is_end: chex.Array) -> Any:
        if not kept_nodes:
            return None
        return advance(tree, action, max_kept=kept_nodes, is_reset=is_end)

    def play(params: Params, rng_key: chex.PRNGKey, games: Games) -> tuple[Games, Steps]:
        keys = jax.random.split(rng_key, options.num_steps)
        kept = None
        if kept_nodes:
            kept = no_tree(search_fn, params, games.state, max_kept=kept_nodes)
        carry = (games, kept)
        (games, _), steps = jax.lax.scan(lambda carry, key: step(params, carry, key), carry, keys)
        return games, steps

    return play
