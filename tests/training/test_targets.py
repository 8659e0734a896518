"""Targets: results of games against a plain forward calculation, and positions without a value."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from double_move import DoubleMoveNim
from dualmctx.models.game_model import reward_and_discount
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.selfplay import Trajectory
from dualmctx.training.targets import make_training_batch, propagate_outcome, propagate_rewards

ENVS = {
    "tic_tac_toe": games.make("tic_tac_toe"),
    "hsr": games.make("hsr", k=2, q=3, n=6),
    "double_move": DoubleMoveNim(pile=9),
}


class Column(NamedTuple):
    """Random games played one after the other: `[T]` each; rewards are `[T, 2]` by identity."""

    mover: np.ndarray
    rewards: np.ndarray
    is_end: np.ndarray
    reward: np.ndarray
    discount: np.ndarray


@functools.cache
def functions(env: Any) -> tuple[Any, Any]:
    def step(state: Any, action: Any) -> Any:
        after = env.step(state, action)
        one = jax.tree.map(lambda x: x[None], (state, after))
        return after, [x[0] for x in reward_and_discount(*one)]

    return jax.jit(env.init), jax.jit(step)


def play_column(env: Any, seed: int, num_steps: int) -> Column:
    """Plays random games by single trajectory; the last one may be cut off."""
    init, step = functions(env)
    draws, moves = np.random.default_rng(seed), []
    state = init(jax.random.PRNGKey(seed))
    for t in range(num_steps):
        mover = int(state.current_player)
        action = draws.choice(np.flatnonzero(state.legal_action_mask))
        state, (reward, discount) = step(state, jnp.int32(action))
        is_end = bool(state.terminated | state.truncated)
        moves.append((mover, np.asarray(state.rewards), is_end, float(reward), float(discount)))
        if is_end:
            state = init(jax.random.PRNGKey(1000 * seed + t))
    return Column(*(np.array(x) for x in zip(*moves, strict=True)))


def forward(column: Column, t: int) -> float | None:
    """Sums the rewards of the mover of move t until its game ends; `None` if it does not end."""
    total = 0.0
    for later in range(t, len(column.mover)):
        total += column.rewards[later, column.mover[t]]
        if column.is_end[later]:
            return total
    return None


@pytest.mark.parametrize("name", ENVS)
def test_results_sum_the_rewards_of_the_mover_to_the_end_of_the_game(name: str) -> None:
    columns = [play_column(ENVS[name], seed, 25) for seed in range(6)]
    batch = [np.stack([getattr(c, x) for c in columns], 1) for x in Column._fields[2:]]
    is_end, reward, discount = batch
    result, remaining_discount = jax.jit(propagate_rewards)(reward, discount)
    is_known = remaining_discount == 0
    expected = [[forward(column, t) for column in columns] for t in range(25)]
    np.testing.assert_array_equal(is_known, [[x is not None for x in row] for row in expected])
    known = np.array([[x or 0.0 for x in row] for row in expected])
    np.testing.assert_array_equal(result * is_known, known)
    # The games cover all cases.
    assert is_end.sum() > 12
    assert not is_known[-1].all()
    assert {-1, 1} <= set(known[is_known].tolist())
    assert (0 in known[is_known]) == (name == "tic_tac_toe")
    assert (1 in discount) == (name == "double_move")


# Per move: reward of the mover, discount, whether the game ends, and the result (None if open).
HAND_MADE = {
    "the second player wins": [(0, -1, 0, -1), (0, -1, 0, 1), (0, -1, 0, -1), (1, 0, 1, 1)],
    "the last move loses": [(0, -1, 0, 1), (-1, 0, 1, -1)],
    "a draw": [(0, -1, 0, 0), (0, -1, 0, 0), (0, 0, 1, 0)],
    "the winner moves twice at the end": [(0, -1, 0, -1), (0, 1, 0, 1), (1, 0, 1, 1)],
    "the loser moves twice before": [(0, 1, 0, -1), (0, -1, 0, -1), (1, 0, 1, 1)],
    "cut off": [(1, 0, 1, 1), (0, -1, 0, None), (0, -1, 0, None)],
    "two games": [(0, -1, 0, -1), (1, 0, 1, 1), (0, -1, 0, 0), (0, 0, 1, 0)],
    "a reward on the way": [(0, -1, 0, 0.5), (0.5, -1, 0, -0.5), (1, 0, 1, 1)],
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_signs_of_results(name: str) -> None:
    reward, discount, is_end, expected = zip(*HAND_MADE[name], strict=True)
    arrays = (jnp.array(x, jnp.float32)[:, None] for x in (reward, discount))
    result, remaining_discount = propagate_rewards(*arrays)
    is_known = remaining_discount == 0
    assert is_known[-1] == is_end[-1]
    assert is_known[:, 0].tolist() == [x is not None for x in expected]
    for found, wanted in zip(result[:, 0].tolist(), expected, strict=True):
        assert wanted is None or found == wanted


def make_trajectory(num_steps: int, num_games: int) -> Trajectory:
    """Returns moves with distinct numbers; the games end at the next to last step."""
    shape = (num_steps, num_games)
    draws = np.random.default_rng(0)
    is_end = np.zeros(shape, bool)
    is_end[-2] = True
    positions = TrainingBatch(
        observation=draws.normal(size=(*shape, 3, 2)),
        legal_action_mask=draws.random((*shape, 4)) < 0.5,
        policy=draws.random((*shape, 4)),
        # The outcomes of the moves alone, which `make_training_batch` replaces.
        value=np.full(shape, np.nan),
        remaining_discount=np.full(shape, np.nan),
        is_truncated=np.zeros(shape, bool),
        is_random=np.arange(num_steps)[:, None] < np.arange(num_games),
        search_value=draws.normal(size=shape),
    )
    return Trajectory(
        positions=positions,
        action=draws.integers(0, 4, shape),
        reward=is_end.astype(np.float32),
        discount=np.where(is_end, 0, -1).astype(np.float32),
        is_end=is_end,
        is_truncated=np.zeros(shape, bool),
        is_resign_test=np.zeros(shape, bool),
        is_resign_error=np.zeros(shape, bool),
    )


def test_only_moves_of_the_search_in_finished_games_have_a_value_target() -> None:
    trajectory = make_trajectory(5, 4)
    batch = make_training_batch(trajectory)
    for field in ("observation", "legal_action_mask", "policy", "is_random", "search_value"):
        wanted = getattr(trajectory.positions, field)
        np.testing.assert_array_equal(getattr(batch, field), wanted)
    # Column b begins with b random moves; the last row is the start of unfinished games.
    wanted = [[t >= b and t < 4 for b in range(4)] for t in range(5)]
    np.testing.assert_array_equal(batch.has_value, wanted)
    np.testing.assert_array_equal(batch.value[:4], [[-1] * 4, [1] * 4, [-1] * 4, [1] * 4])


def test_truncated_games_have_no_value_target() -> None:
    """A game is stopped at its third move; the next one ends; the one after it is unfinished."""
    trajectory = make_trajectory(6, 1)
    trajectory = trajectory._replace(
        reward=np.array([0, 0, 0, 0, 1, 0], np.float32)[:, None],
        discount=np.array([-1, 1, 0, -1, 0, -1], np.float32)[:, None],
        is_end=np.array([0, 0, 1, 0, 1, 0], bool)[:, None],
        is_truncated=np.array([0, 0, 1, 0, 0, 0], bool)[:, None],
        positions=trajectory.positions._replace(is_random=np.zeros((6, 1), bool)),
    )
    batch = make_training_batch(trajectory)
    assert batch.remaining_discount[:, 0].tolist() == [0, 0, 0, 0, 0, -1]
    assert batch.is_truncated[:, 0].tolist() == [True] * 3 + [False] * 3
    assert batch.has_value[:, 0].tolist() == [False] * 3 + [True] * 2 + [False]
    target, is_known = batch.value_target(0.5)
    assert is_known.all()
    # The target is the value by the search, not half of it as for a draw.
    np.testing.assert_allclose(target[:3], trajectory.positions.search_value[:3], rtol=1e-6)


@pytest.mark.parametrize("is_truncated", [False, True])
def test_what_is_known_later_is_told_to_the_games_in_progress(*, is_truncated: bool) -> None:
    older = jax.tree.map(
        lambda x: jnp.swapaxes(x, 0, 1), make_training_batch(make_trajectory(5, 1))
    )
    assert older.remaining_discount[0].tolist() == [0, 0, 0, 0, -1]
    following = jax.tree.map(lambda x: x[:, :1], older)._replace(
        value=jnp.ones((1, 1)),
        remaining_discount=jnp.zeros((1, 1)),
        is_truncated=jnp.full((1, 1), is_truncated),
    )
    updated = propagate_outcome(older, following)
    assert updated.is_truncated[0].tolist() == [False] * 4 + [is_truncated]
    assert updated.has_value[0].tolist() == [True] * 4 + [not is_truncated]
    np.testing.assert_array_equal(updated.value[0, :4], older.value[0, :4])
    assert updated.value[0, 4] == -1
    # Later positions belong to another game.
    again = propagate_outcome(
        updated, following._replace(is_truncated=jnp.full((1, 1), not is_truncated))
    )
    jax.tree.map(np.testing.assert_array_equal, again, updated)
