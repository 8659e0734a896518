"""The arena: batched games of two players, in pairs in which each has either side once."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.matches.boards import (
    Boards,
    Record,
    Seat,
    at_seat,
    find_seat,
    is_going_on,
    keys_at_seat,
    move,
    put_at_seat,
    set_up,
    to_record,
)
from dualmctx.search.keys import element_keys
from dualmctx.search.subtree import empty_tree, get_subtree
from dualmctx.search.tree import is_finite
from dualmctx.types import Environment, Params, SearchFn

# Longer than any game here.
MAX_PLIES = 1024


class PlayerFn(Protocol):
    """Chooses `[B]` actions in `[B]` game states, with `[B]` keys, which are consumed.

    An action is -1 where the player cannot choose because its network's output is not finite. The
    game then ends, and the player has lost it.
    """

    def __call__(self, params: Params, rng_key: chex.PRNGKey, state: Any) -> chex.Array:
        """Chooses `[B]` actions."""
        ...


class Player(NamedTuple):
    """A player that remembers something of its game, in any pytree of `[B, ...]` arrays.

    Attributes:
      start: `(params, state) -> memory` before the first move of the `[B]` games.
      choose: `(params, rng_key, state, memory) -> (action, memory)` where it is its turn, with
        `[B]` keys, which are consumed; the memory is that after the action.
      observe: `(memory, action) -> memory` after `[B]` actions of the other player.
    """

    start: Callable[[Params, Any], Any]
    choose: Callable[[Params, chex.PRNGKey, Any, Any], tuple[chex.Array, Any]]
    observe: Callable[[Any, chex.Array], Any]


class Score(NamedTuple):
    """Results of the first player, counted in games; `[2]` each: moving first, moving second."""

    wins: chex.Array
    draws: chex.Array
    losses: chex.Array


class PlayGames(Protocol):
    """Plays pairs of games; see `make_games`."""

    def __call__(
        self,
        params: tuple[Params, Params],
        rng_keys: chex.PRNGKey,
        openings: chex.Array,
        starts: Any = None,
    ) -> Record:
        """Plays all games; consumes the keys."""
        ...


class MatchFn(Protocol):
    """Plays a match; see `make_match`."""

    def __call__(self, params: Params, rng_key: chex.PRNGKey) -> Score:
        """Plays all games; consumes the key."""
        ...


def search_player(search_fn: SearchFn) -> PlayerFn:
    """Makes a player that plays the action of a search."""
    return lambda params, rng_key, state: _action_of(search_fn(params, rng_key, state))


def _action_of(output: mctx.PolicyOutput) -> chex.Array:
    """Returns the `[B]` actions of a search, -1 where the network's output was not finite."""
    return jnp.where(is_finite(output.search_tree), output.action, -1)


def reusing_player(search_fn: SearchFn, *, reuse_capacity: int) -> Player:
    """Makes a player that plays the action of a search and goes on from that search's tree.

    The tree follows the game: below the player's own move, then below the opponent's. It grows
    at the player's own turns only.

    Args:
      search_fn: a policy with `reuse_capacity`, bound to a game and a network.
      reuse_capacity: that option, at least 1.

    Returns:
      The player; its memory is the next `search_tree`.
    """

    def start(params: Params, state: Any) -> Any:
        return empty_tree(search_fn, params, state, reuse_capacity=reuse_capacity)

    def choose(params: Params, rng_key: chex.PRNGKey, state: Any, search_tree: Any) -> tuple:
        output = search_fn(params, rng_key, state, search_tree)
        action = _action_of(output)
        return action, get_subtree(output.search_tree, action, reuse_capacity=reuse_capacity)

    def observe(search_tree: Any, action: chex.Array) -> Any:
        return get_subtree(search_tree, action, reuse_capacity=reuse_capacity)

    return Player(start, choose, observe)


def forgetful(player: PlayerFn) -> Player:
    """Makes a player with a memory of nothing."""
    return Player(
        start=lambda params, state: None,
        choose=lambda params, rng_key, state, memory: (player(params, rng_key, state), None),
        observe=lambda memory, action: None,
    )


def batch_player(player: Any) -> PlayerFn:
    """Makes a player of an unbatched `(rng_key, state) -> action`, as the ones in `games`."""

    def choose(params: Params, rng_key: chex.PRNGKey, state: Any) -> chex.Array:
        del params
        keys = element_keys(rng_key, state.current_player.shape[0])
        return jax.vmap(player)(keys, state)

    return choose


def make_games(
    env: Environment,
    players: tuple[PlayerFn | Player, PlayerFn | Player],
    *,
    max_plies: int = MAX_PLIES,
) -> PlayGames:
    """Makes the function that plays pairs of games, all side by side and each with its own keys.

    How a game goes depends neither on the other pairs nor on its place among them. Shorter games
    wait for the longest one.

    Args:
      env: a game as `games.make` gives it.
      players: the two players.
      max_plies: T, the opening's included; a longer game is cut short and drawn.

    Returns:
      `(params, rng_keys, openings, starts=None) -> Record`, to be jitted: the parameters of each
      player, `[H]` keys, which are consumed, `[H, D]` legal actions with which both games of a pair
      begin, -1 after the last, and the `[H]` states in which these begin (see `boards.set_up`).
    """
    one, other = map(with_memory, players)

    def play(
        params: tuple[Params, Params],
        rng_keys: chex.PRNGKey,
        openings: chex.Array,
        starts: Any = None,
    ) -> Record:
        boards = set_up(env, rng_keys, openings, max_plies, starts)

        def turn(carry: tuple) -> tuple:
            boards, memory, other_memory = carry
            seats = find_seat(boards, 0), find_seat(boards, 1)
            action, memory = choose_at(seats[0], one, params[0], boards, memory)
            reply, other_memory = choose_at(seats[1], other, params[1], boards, other_memory)
            memory = observe_at(seats[1], one, memory, reply)
            other_memory = observe_at(seats[0], other, other_memory, action)
            return move(env, boards, seats, (action, reply)), memory, other_memory

        memories = one.start(params[0], boards.state), other.start(params[1], boards.state)
        carry = (boards, *memories)
        return to_record(jax.lax.while_loop(lambda c: jnp.any(is_going_on(c[0])), turn, carry)[0])

    return play


def with_memory(player: PlayerFn | Player) -> Player:
    """Returns a player that has a memory, if of nothing."""
    return player if isinstance(player, Player) else forgetful(player)


def choose_at(
    seat: Seat, player: Player, params: Params, boards: Boards, memory: Any
) -> tuple[chex.Array, Any]:
    """Lets a player choose where it has to move; returns `[H]` actions and its `[2 H]` memory."""
    state, mine = at_seat(seat, (boards.state, memory))
    action, mine = player.choose(params, keys_at_seat(seat, boards), state, mine)
    return action, put_at_seat(seat, memory, mine)


def observe_at(seat: Seat, player: Player, memory: Any, action: chex.Array) -> Any:
    """Tells a player of the `[H]` actions of the other one; returns its `[2 H]` memory."""
    return put_at_seat(seat, memory, player.observe(at_seat(seat, memory), action))


def make_match(
    env: Environment, players: tuple[PlayerFn | Player, PlayerFn | Player], num_games: int
) -> MatchFn:
    """Makes a match of two players from the start of the game, all games side by side.

    The first player moves first in half of the games. Which player has which identity in pgx's
    `current_player` is drawn anew for each two games, as pgx does.

    Args:
      env: a game as `games.make` gives it.
      players: the two players; both get the same `params`.
      num_games: an even number, at least 2.

    Returns:
      `(params, rng_key) -> Score`, to be jitted; the key is consumed.

    Raises:
      ValueError: when the number of games is not even, in one line.
    """
    if num_games < 2 or num_games % 2:
        raise ValueError(f"num_games is {num_games}; it must be even and at least 2")
    play, num_pairs = make_games(env, players), num_games // 2

    def match(params: Params, rng_key: chex.PRNGKey) -> Score:
        rng_keys = jax.random.split(rng_key, num_pairs)
        openings = jnp.zeros((num_pairs, 0), jnp.int32)
        result = play((params, params), rng_keys, openings).result
        return Score(*(jnp.sum(result == x, axis=1) for x in (1, 0, -1)))

    return match
