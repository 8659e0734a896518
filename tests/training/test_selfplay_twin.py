"""Self-play, targets and the replay buffer against a plain twin that plays game by game."""

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from double_move import DoubleMoveNim
from dualmctx import AlphaZero, make_model, make_network, make_search_fn
from dualmctx.training.replay import make_replay, make_training_batch
from dualmctx.training.selfplay import SelfPlay, make_play, start_games
from dualmctx.types import ActingOutput
from oracle import twin
from oracle.cases import CALM
from oracle.compare import run_twin
from oracle.models import GameModel
from oracle.selfplay import Move, Table, Thoughts, first_spared, tree_of
from untrained import random_params

ENVS = {
    "tic_tac_toe": games.make("tic_tac_toe"),
    # The two players have different actions.
    "hsr": games.make("hsr", k=2, q=3, n=6),
    # A player may move twice.
    "double_move": DoubleMoveNim(pile=9),
}
# Games span two or three iterations; the buffer holds about two and a half.
OPTIONS = SelfPlay(
    num_games=6,
    num_steps=5,
    temperature_plies=3,
    temperature=0.5,
    random_plies=2,
    resign_below=-0.9,
    play_on_fraction=0.5,
)
# Only moves after the opening are sampled, and no player resigns.
LATE = dataclasses.replace(
    OPTIONS, num_games=9, temperature=0.0, final_temperature=2.0, random_plies=0, resign_below=None
)
# Every move is sampled, to the end of the game.
DRAWN = dataclasses.replace(OPTIONS, num_games=3, final_temperature=1.0, resign_below=None)
NUM_CALLS = 6


def think(rng_key: Any, state: Any) -> Thoughts:
    """A stand-in for a search of one position; samples depend on its key and observation.

    All numbers are multiples of 1/8, so they are the same in any program.
    """
    shown = (state.observation, state.legal_action_mask, state.current_player, state._step_count)
    flat = jnp.concatenate([jnp.ravel(x).astype(jnp.uint32) for x in shown])
    code = jnp.sum(flat * (2 * jnp.arange(flat.size, dtype=jnp.uint32) + 12345) ** 3)
    legal = state.legal_action_mask.astype(jnp.float32)
    key = jax.random.fold_in(rng_key, code)
    drawn = jax.random.randint(key, (2 * legal.size + 1,), 0, 8) / jnp.float32(8)

    def weigh(some: Any) -> Any:
        # A legal action may have weight 0, but not all of them.
        return jnp.where(jnp.any(some * legal > 0), some * legal, legal)

    weights, acting = weigh(drawn[: legal.size]), weigh(drawn[legal.size : -1])
    return Thoughts(weights, acting, 2 * drawn[-1] - 1)


def stand_in(params: Any, rng_keys: Any, state: Any, search_tree: Any = None) -> Any:
    """The same stand-in for `[B]` positions."""
    assert params is None
    assert search_tree is None
    thoughts = jax.vmap(think)(rng_keys, state)
    return ActingOutput(
        action=jnp.full(len(thoughts.value), -1),
        action_weights=thoughts.weights,
        search_tree=tree_of(thoughts.value, thoughts.acting_weights),
        acting_weights=thoughts.acting_weights,
    )


def keys_of(call: int, number: int) -> Any:
    return jax.random.split(jax.random.key(call), number)


def assert_same_moves(trajectory: Any, b: int, moves: list[Move]) -> None:
    """Compares `[T, B]` trajectory with the moves at table b."""
    for t, move in enumerate(moves):
        found = jax.tree.map(lambda x, t=t: x[t, b], trajectory)
        position = found.positions
        np.testing.assert_array_equal(position.observation, move.observation)
        np.testing.assert_array_equal(position.legal_action_mask, move.legal)
        np.testing.assert_allclose(position.policy, move.weights, rtol=1e-5)
        np.testing.assert_allclose(position.search_value, move.value, rtol=1e-5, atol=1e-6)
        stays = 1 if move.next_mover == move.mover else -1
        assert (found.action, position.is_random) == (move.action, move.is_random)
        assert (found.is_end, found.is_truncated) == (move.is_end, move.is_truncated)
        assert found.is_resign_test == move.is_resign_test
        assert found.is_resign_error == move.is_resign_error
        assert found.reward == move.rewards[move.mover]
        assert found.discount == (0 if move.is_end else stays)


def assert_same_row(experience: Any, b: int, moves: list[Move]) -> None:
    """Compares a row of the replay buffer with all moves at table b so far."""
    length = experience.remaining_discount.shape[1]
    for t, move in list(enumerate(moves))[-length:]:
        found = jax.tree.map(lambda x, t=t: x[b, t % length], experience)
        np.testing.assert_array_equal(found.observation, move.observation)
        np.testing.assert_array_equal(found.legal_action_mask, move.legal)
        np.testing.assert_allclose(found.policy, move.weights, rtol=1e-5)
        np.testing.assert_allclose(found.search_value, move.value, rtol=1e-5, atol=1e-6)
        assert (found.remaining_discount == 0, found.is_random) == (move.is_over, move.is_random)
        assert found.is_truncated == (move.is_over and move.result is None)
        assert found.has_value == move.has_value
        if move.has_value:
            assert found.value == move.result


def assert_twin_agrees(
    env: Any, options: SelfPlay, search_fn: Any, search_one: Any, params: Any = None
) -> list[Table]:
    """Plays some iterations with the engine, and each table separately with the twin."""
    number, length = options.num_games, 5 * options.num_steps // 2 + 1
    play = jax.jit(make_play(env, search_fn, options))
    replay = make_replay(
        capacity=number * length, batch_size=1, num_games=number, num_steps=options.num_steps
    )
    keep = jax.jit(lambda state, moves: replay.add(state, make_training_batch(moves)))
    found = jax.jit(lambda keys: start_games(env, keys, options))(keys_of(0, number))
    tables = [Table(env, search_one, options, key) for key in keys_of(0, number)]
    state = None
    for call in range(1, NUM_CALLS + 1):
        keys = keys_of(call, number)
        found, trajectory = play(params, keys, found)
        if state is None:
            state = replay.init(make_training_batch(trajectory))
        state = keep(state, trajectory)
        trajectory, experience = jax.device_get((trajectory, state.experience))
        for b, table in enumerate(tables):
            table.play(keys[b])
            assert_same_moves(trajectory, b, table.moves[-options.num_steps :])
            assert_same_row(experience, b, table.moves)
    plies = [len(table.game) for table in tables]
    np.testing.assert_array_equal(found.ply, plies)
    np.testing.assert_array_equal(found.random_plies, [table.num_random for table in tables])
    np.testing.assert_array_equal(found.plays_on, [table.plays_on for table in tables])
    spared = [first_spared(table.game) for table in tables]
    np.testing.assert_array_equal(found.would_resign, spared)
    return tables


def moves_of(tables: list[Table]) -> list[Move]:
    return [move for table in tables for move in table.moves]


@pytest.mark.parametrize("name", ENVS)
def test_self_play_matches_twin(name: str) -> None:
    moves = moves_of(assert_twin_agrees(ENVS[name], OPTIONS, stand_in, jax.jit(think)))
    ends = [move for move in moves if move.is_end]
    assert len(ends) > 2 * OPTIONS.num_games
    assert {-1, 1} <= {move.result for move in moves if move.has_value}
    # Some games are resigned, some would have been; a random move is no target.
    assert any(move.rewards[move.mover] == -1 for move in ends)
    tests = [move for move in moves if move.is_resign_test]
    assert 0 < sum(move.is_resign_error for move in tests) < len(tests)
    # In the longest games, more than one position would have been resigned.
    spared = [move for move in moves if move.is_spared and move.is_over]
    assert len(tests) < len(spared) or name != "tic_tac_toe"
    assert any(move.is_random and move.result is not None for move in moves)
    assert {move.mover for move in ends} == {0, 1}
    twice = [m for m in moves if not m.is_end and m.next_mover == m.mover]
    assert bool(twice) == (name == "double_move")


@pytest.mark.slow
def test_sampling_after_opening_and_full_games_match_twin() -> None:
    env = ENVS["tic_tac_toe"]
    tables = assert_twin_agrees(env, LATE, stand_in, jax.jit(think))
    moves = moves_of(tables)
    assert not any(move.is_random or move.is_spared for move in moves)
    assert {move.result for move in moves} >= {-1, 0, 1, None}
    # Games that span a whole iteration.
    assert any(is_spread(table) for table in tables)


def is_spread(table: Table) -> bool:
    ends = np.flatnonzero([move.is_end for move in table.moves])
    begins = ends[:-1] + 1
    return (ends[1:] // LATE.num_steps - begins // LATE.num_steps > 1).any()


@pytest.mark.slow
def test_self_play_with_passes_matches_twin() -> None:
    """In Othello a player may pass, and the player who moves last may lose."""
    options = dataclasses.replace(DRAWN, num_steps=21)
    env = games.make("othello")
    moves = moves_of(assert_twin_agrees(env, options, stand_in, jax.jit(think)))
    ends = [move for move in moves if move.is_end]
    assert len(ends) >= options.num_games
    assert any(move.has_value for move in moves)
    assert any(move.action == 64 for move in moves)
    assert any(move.rewards[move.mover] == -1 for move in ends)


def with_limit(env: Any, most_plies: int) -> Any:
    """Returns a game that is truncated after a number of plies."""

    def step(state: Any, action: Any) -> Any:
        after = env.step(state, action)
        return after.replace(truncated=after._step_count >= most_plies)

    return SimpleNamespace(init=env.init, step=step)


@pytest.mark.slow
def test_truncated_games_have_no_result() -> None:
    """Truncated games span three iterations; some end earlier, some on their last move."""
    options, limit = dataclasses.replace(OPTIONS, num_steps=3), 7
    env = with_limit(DoubleMoveNim(pile=10), limit)
    tables = assert_twin_agrees(env, options, stand_in, jax.jit(think))
    stops = sum(move.is_truncated for table in tables for move in table.moves)
    games_of = [split(table.moves) for table in tables]
    full = [game[-1] for some in games_of for game in some if len(game) == limit]
    assert 0 < stops < len(full)
    moves = moves_of(tables)
    assert any(move.is_over and move.result is None and not move.is_random for move in moves)
    assert {-1, 1} <= {move.result for move in moves if move.has_value}


def split(moves: list[Move]) -> list[list[Move]]:
    """Splits moves into the games that are over."""
    ends = [0, *(t + 1 for t, move in enumerate(moves) if move.is_end)]
    return [moves[start:end] for start, end in itertools.pairwise(ends)]


@pytest.mark.slow
def test_self_play_with_search_matches_twin() -> None:
    env, policy = ENVS["double_move"], AlphaZero(6, **CALM)
    options = dataclasses.replace(OPTIONS, num_games=2, num_steps=3)
    network = make_network(env.num_actions, env.observation_shape, width=8, num_blocks=1)
    params = random_params(network, env.observation_shape)
    model = GameModel(make_model(env, network, heads=policy.heads))

    def search_one(rng_key: Any, state: Any) -> Thoughts:
        legal = np.asarray(state.legal_action_mask)
        result = run_twin(policy, model.at(params, state), rng_key, (0, 1), legal)
        children = result.nodes[0].children.items()
        visits, _, best = max((x.stats[twin.SMALL].visits, -action, x) for action, x in children)
        assert visits > 0
        value = best.reward + best.discount * best.stats[twin.SMALL].mean
        return Thoughts(result.weights, result.weights, value)

    search_fn = make_search_fn(env, network, policy)
    moves = moves_of(assert_twin_agrees(env, options, search_fn, search_one, params))
    assert any(move.has_value for move in moves)
