"""Games for the value network: each gives one position, whose value a policy has sampled.

A game has three phases. U is sampled uniformly from 1 to a largest number. The first U − 1 moves
are sampled from the supervised policy, move U uniformly from the legal moves, and all later moves
from the reinforced policy. Only the position after move U is learned, with the result of the game:
an unbiased sample of that position's value under the reinforced policy.

The games are a data set (docs/datasets.md): moves 1 to U are marked as moves that no player chose.
The first position of each game is therefore the one to learn.

Source: Silver et al. 2016 (AlphaGo), Methods, "Value network: regression", with U up to 450.
Deviations: the largest U depends on the game; games that are over before the position exists are
dropped; games are played in the order of U, so that a batch rarely needs both policies for a move.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.datasets.device_games import look, start, step
from dualmctx.datasets.self_play import PlayedGame
from dualmctx.errors import UserError
from dualmctx.models.game_model import mask_illegal
from dualmctx.pipeline.parts import LogitsFn
from dualmctx.types import Environment, Params


class Policies(NamedTuple):
    """The two policies of the games.

    Attributes:
      logits_fn: their network, for each of which the programs are compiled.
      supervised: its parameters before the random move.
      reinforced: its parameters after the random move.
    """

    logits_fn: LogitsFn
    supervised: Params
    reinforced: Params


class GameOptions(NamedTuple):
    """How the games are played.

    Attributes:
      number: number of games.
      seed: seed of all games.
      max_opening_plies: largest U; `None` for one less than the longest of `batch` games of the
        supervised policy, so that each position that occurs in its games can be the learned one.
      max_plies: largest length; a longer game has no result, and is dropped.
      batch: number of games that are played at once.
      test: share of the games that are held out.
    """

    number: int
    seed: int = 0
    max_opening_plies: int | None = None
    max_plies: int = 1024
    batch: int = 512
    test: float = 0.1


class FinishedGames(NamedTuple):
    """`[B]` games that have been played.

    Attributes:
      moves: `[B, D]` int32 actions, -1 after the end; D is the largest length.
      result: `[B]` result of the first side.
      has_result: `[B]` bool; false if the game was stopped.
      is_finite: scalar bool, whether all logits were finite.
    """

    moves: chex.Array
    result: chex.Array
    has_result: chex.Array
    is_finite: chex.Array


@functools.partial(jax.jit, static_argnums=(0, 1, 6))
def play_batch(
    env: Environment,
    logits_fn: LogitsFn,
    supervised: Params,
    reinforced: Params,
    rng_keys: chex.PRNGKey,
    openings: chex.Array,
    max_plies: int,
) -> FinishedGames:
    """Plays B games on the device, in one loop that ends with the longest game.

    Args:
      env: a game of `games.make`.
      logits_fn: the network of both policies. It is not evaluated for moves that need only one.
      supervised: parameters of the first policy.
      reinforced: parameters of the second policy.
      rng_keys: `[B]` keys; consumed. The samples of a game depend on its own key alone.
      openings: `[B]` int32, U: the random move is move U, counted from 1.
      max_plies: D.
    """

    def goes_on(carry: tuple) -> chex.Array:
        ply, games, _, _ = carry
        return (ply < max_plies) & ~jnp.all(look(*games).is_over)

    def play(carry: tuple) -> tuple:
        ply, games, moves, is_finite = carry
        state, view = games[0][0], look(*games)
        phase = jnp.where(view.is_over, 0, jnp.sign(ply + 1 - openings))
        is_first, is_last = ~view.is_over & (phase < 0), ~view.is_over & (phase > 0)

        def logits_of(params: Params, is_needed: chex.Array) -> chex.Array:
            zeros = jnp.zeros(view.legal.shape, jnp.float32)

            def evaluate() -> chex.Array:
                return logits_fn(params, state.observation).astype(jnp.float32)

            # Zeros are the logits of the random move too.
            logits = jax.lax.cond(jnp.any(is_needed), evaluate, lambda: zeros)
            return jnp.where(is_needed[:, None], logits, 0)

        logits = logits_of(supervised, is_first) + logits_of(reinforced, is_last)
        keys = jax.vmap(jax.random.fold_in, (0, None))(rng_keys, ply)
        action = jax.vmap(jax.random.categorical)(keys, mask_illegal(logits, view.legal))
        action = jnp.where(view.is_over, -1, action).astype(jnp.int32)
        is_finite &= jnp.all(jnp.isfinite(logits))
        return ply + 1, step(env, *games, action), moves.at[:, ply].set(action), is_finite

    number = len(openings)
    moves = jnp.full((number, max_plies), -1, jnp.int32)
    carry = (jnp.int32(0), start(env, number), moves, jnp.bool_(True))
    _, games, moves, is_finite = jax.lax.while_loop(goes_on, play, carry)
    view = look(*games)
    return FinishedGames(moves, view.result, view.has_result, is_finite)


def sample_openings(options: GameOptions, max_opening_plies: int) -> np.ndarray:
    """Samples U of each game, `[number]` int32, uniformly from 1; sorted."""
    rng = np.random.default_rng([options.seed, 1])
    return np.sort(rng.integers(1, max_opening_plies + 1, options.number, np.int32))


def find_max_opening_plies(env: Environment, policies: Policies, options: GameOptions) -> int:
    """Returns one less than the longest of `batch` games of the supervised policy, at least 1."""
    never = np.full(options.batch, options.max_plies + 1, np.int32)
    keys = jax.random.split(jax.random.PRNGKey(options.seed), options.batch)
    found = play_batch(env, *policies, keys, never, options.max_plies)
    longest = int(np.max(np.sum(np.asarray(found.moves) >= 0, axis=1)))
    return max(longest - 1, 1)


def play_games(
    env: Environment, policies: Policies, options: GameOptions, openings: np.ndarray, first: int
) -> Iterator[list[PlayedGame]]:
    """Plays the games from number `first` on, and yields each batch.

    Batches begin at multiples of `batch`, so that a game is always in the same batch.

    Args:
      env: a game of `games.make`.
      policies: the policies.
      options: the options.
      openings: `[number]` U of each game.
      first: the number of the first game.

    Raises:
      ValueError: if an output of a policy is NaN or infinite.
    """
    root_key = jax.random.fold_in(jax.random.PRNGKey(options.seed), 1)
    for begin in range(first // options.batch * options.batch, len(openings), options.batch):
        # The last batch is padded, because another size would compile.
        numbers = np.minimum(np.arange(begin, begin + options.batch), len(openings) - 1)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(root_key, numbers)
        played = jax.device_get(
            play_batch(env, *policies, keys, openings[numbers], options.max_plies)
        )
        if not played.is_finite:
            raise UserError(
                "the output of a policy is NaN or infinite; use another checkpoint of the runs "
                "that play the games"
            )
        last = min(begin + options.batch, len(openings))
        yield _records(played, openings, begin, max(first, begin), last)


def _records(
    played: FinishedGames, openings: np.ndarray, begin: int, first: int, last: int
) -> list[PlayedGame]:
    """Returns the games `first` to `last` - 1 of a batch that begins with the game `begin`."""
    lengths = np.sum(played.moves >= 0, axis=1)
    return [
        PlayedGame(
            number=number,
            moves=played.moves[row, : lengths[row]].tolist(),
            random=[int(openings[number]) - 1],
            result=float(played.result[row]) if played.has_result[row] else None,
            opening=int(openings[number]) - 1,
        )
        for number, row in ((number, number - begin) for number in range(first, last))
    ]
