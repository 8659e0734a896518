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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.datasets.build import NoGamesError, Recipe
from dualmctx.datasets.engines import GameSpec, LoadedEngine
from dualmctx.datasets.make import make_dataset
from dualmctx.datasets.manifest import Manifest
from dualmctx.datasets.self_play import PlayedGame, look, start, step
from dualmctx.errors import UserError
from dualmctx.models.game_model import mask_illegal
from dualmctx.pipeline.config import ValueConfig
from dualmctx.pipeline.parts import LogitsFn
from dualmctx.runs.folder import CONFIG
from dualmctx.runs.saved_network import digest_of
from dualmctx.types import Environment, Params


class Policies(NamedTuple):
    """The two policies of the games.

    Attributes:
      logits_fn: their network. Each network has compiled programs of its own.
      supervised: its parameters before the random move.
      reinforced: its parameters after the random move.
    """

    logits_fn: LogitsFn
    supervised: Params
    reinforced: Params


class FinishedGames(NamedTuple):
    """`[B]` games that have been played.

    Attributes:
      moves: `[B, D]` int32 actions, -1 after the end.
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
      logits_fn: the network of both policies; a move evaluates only those that some game needs.
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


def make_value_games(
    env: Environment,
    policies: Policies,
    config: ValueConfig,
    folder: Path,
    report: Callable[[str], None],
) -> Manifest:
    """Makes the data set of games, or the part of it that is missing after a kill.

    Args:
      env: a game of `games.make`.
      policies: the policies.
      config: the configuration of the stage.
      folder: the folder of the data set; one of other policies or options is refused.
      report: called with a line about each of the first bad games.

    Returns:
      The manifest. Its counts have the dropped games: `without_positions` are those that were over
      before their position existed, `without_result` those that were stopped.

    Raises:
      UserError: if the folder has games of other policies or options, no game is left for training
        or for the test, or an output of a policy is NaN or infinite.
    """
    options = config.value
    largest = options.max_opening_plies or _longest_game(env, policies, config)
    rng = np.random.default_rng([config.seed, 1])
    openings = np.sort(rng.integers(1, largest + 1, options.num_games, np.int32))
    engine = LoadedEngine(
        GameSpec(env.id, config.game_parameters),
        {
            "engine": "policies",
            "games": options.num_games,
            "seed": config.seed,
            "max_opening_plies": largest,
            "max_plies": options.max_plies,
            "batch": options.games_per_batch,
            "supervised": digest_of(policies.supervised),
            "reinforced": digest_of(policies.reinforced),
        },
        options.num_games,
        functools.partial(_play_games, env, policies, config, openings),
        # They are independent samples.
        keeps_equal_games=True,
    )
    recipe = Recipe(config.game, config.game_parameters, validation=0.0, test=options.test_share)
    resume = (folder / CONFIG).exists()
    try:
        manifest = make_dataset(env, recipe, engine, folder, resume=resume, report=report)
    except NoGamesError as error:
        raise UserError(
            f"{str(error).split(';')[0]}: choose a largest U below {largest} with "
            "--value.max-opening-plies, or more plies, in another folder"
        ) from None
    for split in ("train", "test"):
        if not manifest.splits[split]["rows"]:
            raise UserError(
                f"{folder} has no games in the split {split}; choose more --value.num-games or "
                "another --value.test-share, in another folder"
            )
    return manifest


def _longest_game(env: Environment, policies: Policies, config: ValueConfig) -> int:
    """Plays a batch of games of the supervised policy.

    Returns:
      One less than the length of the longest game; at least 1.
    """
    number, max_plies = config.value.games_per_batch, config.value.max_plies
    never = np.full(number, max_plies + 1, np.int32)
    keys = jax.random.split(jax.random.PRNGKey(config.seed), number)
    found = play_batch(env, *policies, keys, never, max_plies)
    longest = int(np.max(np.sum(np.asarray(found.moves) >= 0, axis=1)))
    return max(longest - 1, 1)


def _play_games(
    env: Environment, policies: Policies, config: ValueConfig, openings: np.ndarray, first: int
) -> Iterator[list[PlayedGame]]:
    """Plays the games from number `first` on, with `[number]` U, and yields each batch."""
    batch, max_plies = config.value.games_per_batch, config.value.max_plies
    root_key = jax.random.fold_in(jax.random.PRNGKey(config.seed), 1)
    # Batches begin at multiples of their size, so that a game is always in the same batch.
    for begin in range(first // batch * batch, len(openings), batch):
        # The last batch is padded, because another size would compile.
        numbers = np.minimum(np.arange(begin, begin + batch), len(openings) - 1)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(root_key, numbers)
        played = jax.device_get(play_batch(env, *policies, keys, openings[numbers], max_plies))
        if not played.is_finite:
            raise UserError(
                "the output of a policy is NaN or infinite; use another checkpoint of the runs "
                "that play the games"
            )
        new = range(max(first, begin), min(begin + batch, len(openings)))
        yield [
            _to_game(played, number - begin, number, int(openings[number]) - 1) for number in new
        ]


def _to_game(played: FinishedGames, row: int, number: int, ply: int) -> PlayedGame:
    """Returns a game of a batch, whose move after `ply` others is random."""
    moves = played.moves[row][played.moves[row] >= 0].tolist()
    result = float(played.result[row]) if played.has_result[row] else None
    return PlayedGame(number=number, moves=moves, random=[ply], result=result, opening=ply)
