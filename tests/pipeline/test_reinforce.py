"""The stage `reinforce`: reproducible, resumable, it trains its own parts, and it improves."""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx.experiment.stage import Stage
from dualmctx.matches.players import policy_move_fn
from dualmctx.pipeline.config import ReinforceConfig
from dualmctx.pipeline.options import ReinforceOptions
from dualmctx.pipeline.parts import (
    POLICY,
    ROLLOUT,
    VALUE,
    alphago_network,
    get_part,
    initial_params,
)
from dualmctx.pipeline.policy_gradient import (
    Pool,
    add_policy,
    count_policies,
    draw_policy,
    first_policy,
    make_gradient,
    make_pool,
    make_self_match,
)
from dualmctx.pipeline.reinforce import describe_score, make_optimizers, make_stage
from dualmctx.pipeline.stage import Inputs
from dualmctx.runs.saved_network import Trained
from dualmctx.training.config import NetworkOptions
from fake_stage import assert_reports_fit

ENV = games.make("connect2")
NETWORK = alphago_network(ENV, NetworkOptions(trunk="mlp", width=8, num_blocks=1))
OPTIONS = {
    "num_games": 64,
    "learning_rate": 0.3,
    "num_iterations": 30,
    "eval_games": 500,
    "pool_every": 4,
    "max_plies": 8,
}


@functools.cache
def start() -> Any:
    return initial_params(NETWORK, ENV, jax.random.PRNGKey(0))


def make(**options: Any) -> Stage:
    config = ReinforceConfig(game="connect2", reinforce=ReinforceOptions(**OPTIONS | options))
    return make_stage(
        ENV, NETWORK, config, Inputs(init_from=Trained(ENV, NETWORK, start(), 0, {})), Path()
    )


@pytest.fixture(scope="module")
def stage() -> Stage:
    return make()


@pytest.fixture(scope="module")
def run(stage: Stage) -> tuple[Any, list[dict[str, Any]], Any]:
    """Returns the final state of a run, its rows, and the state after the first four."""
    state, rows, early = stage.init(), [], None
    for i in range(stage.num_iterations):
        state, row = stage.iterate(state)
        rows.append({"iteration": i + 1, **row})
        early = jax.device_get(state) if i == 3 else early
    rows[-1] |= stage.evaluate(state)
    return state, rows, early


def assert_equal(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.slow
def test_resumed_run_is_bit_equal(stage: Stage, run: tuple) -> None:
    early = run[2]
    # The policy joins the pool after its step.
    entry = jax.tree.map(lambda x: x[1], early.extra.params)
    assert_equal(entry, get_part(early.params, POLICY))
    state = jax.tree.map(jnp.asarray, early)
    for i in range(4, stage.num_iterations):
        state, row = stage.iterate(state)
        assert {"iteration": i + 1, **row}.items() <= run[1][i].items()
    assert_equal(state, run[0])
    assert stage.evaluate(state).items() <= run[1][-1].items()


@pytest.mark.slow
def test_policy_and_baseline_are_trained_and_improve(run: tuple) -> None:
    params, last = run[0].params, run[1][-1]
    assert_equal(get_part(params, ROLLOUT), get_part(start(), ROLLOUT))
    for part in (POLICY, VALUE):
        changes = jax.tree.map(
            lambda x, y: jnp.any(x != y), *(get_part(x, part) for x in (start(), params))
        )
        assert any(jax.tree.leaves(changes))
    assert last["reinforce/games"] == 1000
    assert last["reinforce/points_low"] > 0.55
    assert last["reinforce/points_low"] < last["reinforce/points"] < last["reinforce/points_high"]
    # Perfect play draws, and the start has the entropy of uniform moves.
    entropies = [row["entropy"] for row in run[1]]
    assert entropies[-1] < 0.8 * entropies[0]
    assert last["exact/policy_keeping"] > last["exact/chance_keeping"]


@pytest.mark.slow
def test_pool_starts_with_supervised_policy_and_grows(run: tuple) -> None:
    pool = run[0].extra
    assert_equal(first_policy(pool), get_part(start(), POLICY))
    counts = [row["pool_policies"] for row in run[1]]
    assert counts == [1 + i // 4 for i in range(30)]
    assert all(row["opponent"] < row["pool_policies"] for row in run[1])
    assert len({row["opponent"] for row in run[1]}) > 3
    assert int(pool.num_added) == 1 + 30 // 4


@pytest.mark.slow
def test_games_are_played_against_the_drawn_opponent(stage: Stage) -> None:
    """A policy that is NaN loses all its games; here it is the only one in the pool."""
    state = stage.init()
    broken = jax.tree.map(lambda x: x + jnp.nan, state.extra.params)
    _, row = stage.iterate(state._replace(extra=state.extra._replace(params=broken)))
    assert row["pool_points"] == 1


def test_large_gradients_are_scaled_down_to_their_norm() -> None:
    optimizers = make_optimizers(ReinforceOptions(learning_rate=0.5, max_gradient_norm=2.0))
    for scale, expected in ((1.0, 0.5), (3.0, 1.0), (400.0, 1.0)):
        gradient = {"w": jnp.array([0.6 * scale, -0.8 * scale])}
        step, _ = optimizers[POLICY].update(gradient, optimizers[POLICY].init(gradient))
        np.testing.assert_allclose(step["w"], [-0.6 * expected, 0.8 * expected], rtol=1e-5)


def test_without_baseline_only_the_policy_has_an_optimizer() -> None:
    state = make(baseline="none", optimizer="adam").init()
    assert state.opt_state.keys() == {POLICY}


@pytest.mark.slow
def test_reports_fit_their_columns(stage: Stage, run: tuple, tmp_path: Path) -> None:
    state, rows, _ = run
    assert_reports_fit(stage, state, rows, tmp_path)


def play_uniform(num_games: int, max_plies: int, opening_plies: int) -> tuple[Any, Any]:
    """Returns games of uniformly random policies, and their gradient."""
    size = {"num_games": num_games, "max_plies": max_plies, "opening_plies": opening_plies}
    play = make_self_match(ENV, policy_move_fn(uniform, 1.0), **size)
    gradient = make_gradient(ENV, uniform, None, chunk=1)

    @jax.jit
    def run(params: Any, rng_key: Any) -> tuple[Any, Any]:
        played = play(params, params, rng_key)
        return played, gradient(params, (), played)

    return run(jnp.zeros(4), jax.random.PRNGKey(0))


def uniform(params: Any, observation: jax.Array) -> jax.Array:
    return jnp.zeros((observation.shape[0], ENV.num_actions)) + params


@pytest.mark.slow
def test_moves_of_random_openings_are_not_learned_and_games_without_result_are_draws() -> None:
    assert not play_uniform(8, 2, 0)[1].policy.any()
    played, found = play_uniform(64, 3, 2)
    assert not played.result[~played.is_over].any()
    assert 0 < played.is_over.sum() < 64
    plies, opening = (played.actions >= 0).sum(1), played.start.ply
    assert not played.start.state.terminated.any()
    assert set(opening.tolist()) == {0, 1, 2}
    # The players alternate, and one of them is the learner.
    is_next = played.start.state.current_player == played.start.identity
    chosen = plies - opening
    expected = int(jnp.where(is_next, (chosen + 1) // 2, chosen // 2).sum())
    assert int(found.num_moves) == expected
    assert found.entropy > 0


def test_score_counts_draws_as_half() -> None:
    score = describe_score(50, 20, 30)
    assert score["reinforce/points"] == 0.6
    assert score["reinforce/points_low"] == pytest.approx(0.502, abs=1e-3)


def pool_of(number: int, size: int) -> Pool:
    """Returns a pool to which the policies 0, 1, …, number - 1 were added."""
    pool = make_pool({"w": jnp.full(2, 0.0)}, size)
    for i in range(1, number):
        pool = add_policy(pool, {"w": jnp.full(2, float(i))})
    return pool


def policies_in(pool: Pool) -> list[int]:
    return np.asarray(pool.params["w"])[: int(count_policies(pool)), 0].astype(int).tolist()


@pytest.mark.parametrize(
    ("number", "size", "expected"),
    [
        (4, 4, [0, 1, 2, 3]),
        (8, 4, [0, 7, 5, 6]),
        (5, 2, [0, 4]),
        (5, 1, [0]),
    ],
)
def test_full_pool_replaces_oldest_policy_but_the_first(
    number: int, size: int, expected: list[int]
) -> None:
    pool = pool_of(number, size)
    assert policies_in(pool) == expected
    assert first_policy(pool)["w"].tolist() == [0, 0]
    # A policy that is not due is not added.
    same = add_policy(pool, {"w": jnp.full(2, 9.0)}, jnp.bool_(False))
    assert_equal(same, pool)


def test_draws_are_uniform_over_policies_in_pool() -> None:
    pool, size, draws = pool_of(3, 5), 5, 6000
    keys = jax.random.split(jax.random.PRNGKey(0), draws)
    params, index = jax.jit(jax.vmap(draw_policy, (None, 0)))(pool, keys)
    entries = policies_in(pool)
    counts = np.bincount(np.asarray(index), minlength=size)[: len(entries)]
    assert counts.sum() == draws
    chance = 1 / len(entries)
    assert np.abs(counts / draws - chance).max() < 4 * np.sqrt(chance * (1 - chance) / draws)
    assert np.asarray(params["w"])[:, 0].astype(int).tolist() == [entries[i] for i in index]
