"""The policy gradient and the results of policies, against sums over all games of tiny games."""

import collections
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from double_move import DoubleMoveNim
from dualmctx.matches.players import policy_move_fn
from dualmctx.pipeline.policy_gradient import make_gradient, make_self_match

# A player moves twice in a row in some games of the second one; Connect2 has draws.
ENVS = {"connect2": games.make("connect2"), "double_move": DoubleMoveNim(pile=7)}
NUM_GAMES, NUM_BATCHES = 256, 64


def logits_fn(params: Any, observation: jax.Array) -> jax.Array:
    """A linear policy."""
    return observation.astype(jnp.float32) @ params["w"] + params["b"]


def value_fn(params: Any, observation: jax.Array) -> jax.Array:
    """A table of values: one entry per observation."""
    found = (observation[:, None] == params["rows"]).all(-1)
    return found.astype(jnp.float32) @ params["values"]


def softmax(logits: np.ndarray) -> np.ndarray:
    odds = np.exp(logits - logits.max())
    return odds / odds.sum()


def sum_over_games(env: Any, learner: Any, opponent: Any) -> SimpleNamespace:
    """Walks through all games, one after another, weighted by their probabilities.

    Returns the expected policy gradients `w` and `b`; the probabilities of the learner's `results`;
    and for each observation of the learner, how often it `visits` it, and the sum of `outcomes`.
    """
    step = jax.jit(env.step)
    learner, opponent = (
        jax.tree.map(lambda x: np.asarray(x, float), x) for x in (learner, opponent)
    )
    sums = SimpleNamespace(w=np.zeros_like(learner["w"]), b=np.zeros_like(learner["b"]))
    sums.results, sums.visits, sums.outcomes = (collections.defaultdict(float) for _ in range(3))

    def walk(state: Any, identity: int, chance: float, score: tuple[Any, Any], seen: tuple) -> None:
        if state.terminated:
            z = int(state.rewards[identity])
            sums.results[z] += chance
            sums.w[:] += chance * z * score[0]
            sums.b[:] += chance * z * score[1]
            for position in seen:
                sums.visits[position] += chance
                sums.outcomes[position] += chance * z
            return
        is_learner = int(state.current_player) == identity
        params = learner if is_learner else opponent
        sees = np.asarray(state.observation, float)
        legal = np.flatnonzero(state.legal_action_mask)
        chances = np.zeros(env.num_actions)
        chances[legal] = softmax((sees @ params["w"] + params["b"])[legal])
        seen += (tuple(sees.astype(int)),) if is_learner else ()
        for action in legal:
            gap = np.eye(env.num_actions)[action] - chances
            added = (score[0] + np.outer(sees, gap), score[1] + gap) if is_learner else score
            walk(step(state, action), identity, chance * chances[action], added, seen)

    for identity in (0, 1):
        zeros = np.zeros_like(learner["w"]), np.zeros_like(learner["b"])
        walk(env.init(jax.random.PRNGKey(0)), identity, 0.5, zeros, ())
    return sums


def play_batches(env: Any) -> tuple[Any, Any, Any, Any]:
    """Returns the sums; `[batches, games]` games; and gradients without and with a baseline."""
    size, actions = env.observation_shape[0], env.num_actions
    keys = jax.random.split(jax.random.PRNGKey(1), 2)
    learner, opponent = (
        {"w": jax.random.normal(key, (size, actions)), "b": jnp.linspace(0.2, -0.2, actions)}
        for key in keys
    )
    expected = sum_over_games(env, learner, opponent)
    means = jnp.array([expected.outcomes[x] / n for x, n in expected.visits.items()])
    # Zeros are the same as no baseline.
    tables = jnp.stack([jnp.zeros_like(means), means])
    rows = jnp.array(list(expected.visits), jnp.float32)
    play = make_self_match(env, policy_move_fn(logits_fn, 1.0), num_games=NUM_GAMES, max_plies=8)
    gradient = make_gradient(env, logits_fn, value_fn, chunk=3 * NUM_GAMES)

    def of_batch(key: jax.Array) -> tuple[Any, Any]:
        games = play(learner, opponent, key)
        values = {"rows": jnp.stack([rows, rows]), "values": tables}
        return games, jax.lax.map(lambda value: gradient(learner, value, games), values)

    estimates = jax.jit(lambda keys: jax.lax.map(of_batch, keys))
    games, found = estimates(jax.random.split(jax.random.PRNGKey(4), NUM_BATCHES))
    plain, with_baseline = (jax.tree.map(lambda x, i=i: np.asarray(x[:, i]), found) for i in (0, 1))
    return expected, games, plain, with_baseline


def mean_and_error(estimates: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns the means of `[batches, ...]` estimates, and their standard errors."""
    mean, deviation = np.mean(estimates, axis=0), np.std(estimates, axis=0, ddof=1)
    return mean, deviation / np.sqrt(len(estimates))


def policy_gradients(estimates: Any) -> np.ndarray:
    """Returns `[batches, coordinates]`, for ascent: biases, then weights."""
    gradients = estimates.policy.values()
    return -np.concatenate([np.reshape(x, (NUM_BATCHES, -1)) for x in gradients], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVS)
def test_estimates_agree_with_sums_over_all_games(name: str) -> None:
    sums, played, without, with_baseline = play_batches(ENVS[name])
    expected = np.concatenate([sums.b, sums.w.ravel()])
    plain, reduced = map(policy_gradients, (without, with_baseline))
    for gradients in (plain, reduced):
        mean, error = mean_and_error(gradients)
        np.testing.assert_array_less(np.abs(mean - expected), 4 * error + 1e-6)
        # Half of the coordinates differ from zero by far more than the error.
        assert np.median(np.abs(expected[error > 0]) / error[error > 0]) > 6
    # The expected result is not the best baseline of every policy; of this one it is good.
    assert name != "connect2" or reduced.var(0).sum() < 0.8 * plain.var(0).sum()
    # Regression is at rest at the expected results; without a baseline the loss is the mean of z².
    mean, error = mean_and_error(with_baseline.value["values"])
    np.testing.assert_array_less(np.abs(mean), 4 * error + 1e-6)
    assert (with_baseline.value_loss < without.value_loss).all()
    result = np.asarray(played.result)
    for z in (-1, 0, 1):
        mean, error = mean_and_error((result == z).mean(1))
        assert abs(mean - sums.results[z]) <= 4 * error
    # All moves of the learner count, and each side has half of the games.
    mean, error = mean_and_error(without.num_moves / NUM_GAMES)
    assert abs(mean - sum(sums.visits.values())) <= 4 * error
    start = played.start
    is_first = np.asarray(start.identity == start.state.current_player)
    assert (is_first.sum(1) == NUM_GAMES / 2).all()
