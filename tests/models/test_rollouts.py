"""Rollouts against plain-Python playouts with the same samples."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import hash_model
from double_move import DoubleMoveNim
from dualmctx import make_model, make_network
from dualmctx.models.rollouts import make_rollout_fn, play_out
from dualmctx.types import Embedding
from oracle import plain_rules as plain
from untrained import random_params


class PlainDouble(plain.Nim):
    """The rules of the game in which a player may move twice, in plain Python."""

    def moves(self, position: Any) -> dict[int, Any]:
        pile, mover = position
        left = {take - 1: pile - take for take in (1, 2) if take <= pile}
        return {a: (x, mover if x > 0 and x % 3 == 0 else 1 - mover) for a, x in left.items()}


GAMES = {
    "tic_tac_toe": (games.make("tic_tac_toe"), plain.TIC_TAC_TOE),
    "connect2": (games.make("connect2"), plain.CONNECT2),
    "double_move": (DoubleMoveNim(), PlainDouble(8, 2)),
}
SIZE, PLIES = 40, 60


@functools.cache
def positions(name: str) -> tuple[Any, list[Any]]:
    """Returns states after up to four random moves, and the same states in plain Python."""
    env, rules = GAMES[name]
    random = np.random.default_rng(0)
    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), SIZE))
    step = jax.jit(jax.vmap(env.step))
    position = [rules.start() for _ in range(SIZE)]
    for ply in range(4):
        action = np.zeros(SIZE, np.int32)
        for i in range(SIZE):
            if rules.result(position[i]) is None and i % 5 > ply:
                action[i] = random.choice(list(rules.moves(position[i])))
                position[i] = rules.moves(position[i])[int(action[i])]
        moved = step(state, action)
        stays = np.arange(SIZE) % 5 <= ply

        def pick(x: Any, y: Any, stays: Any = stays) -> Any:
            return jnp.where(stays.reshape((-1,) + (1,) * (x.ndim - 1)), x, y)

        state = jax.tree.map(pick, state, moved)
    return state.replace(observation=None), position


@functools.partial(jax.jit, static_argnums=(1, 2))
def gumbels(rng_key: Any, size: int, num_actions: int) -> Any:
    """Returns the `[M, T, A]` noise that is added to the logits at each ply of each game."""

    def draw(rng_key: Any, ply: Any) -> Any:
        return jax.random.gumbel(jax.random.fold_in(rng_key, ply), (num_actions,))

    keys = jax.random.split(rng_key, size)
    return jax.vmap(jax.vmap(draw, (None, 0)), (0, None))(keys, jnp.arange(PLIES))


def playout(rules: Any, position: Any, draws: Any, max_length: int = PLIES) -> int:
    """Plays the legal move with the largest sample; returns the result for the player to move."""
    if rules.result(position) is not None:
        return 0
    sign = 1 - 2 * rules.mover(position)
    for ply in range(max_length):
        moves = rules.moves(position)
        position = moves[max(moves, key=lambda action, ply=ply: draws[ply, action])]
        if rules.result(position) is not None:
            return sign * rules.result(position)
    return 0


@functools.cache
def rollouts(name: str, max_length: int | None = None) -> Any:
    return jax.jit(make_rollout_fn(GAMES[name][0], max_length=max_length))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "max_length"), [("connect2", None), ("double_move", None), ("tic_tac_toe", 4)]
)
def test_uniform_rollouts_match_plain_python(name: str, max_length: int | None) -> None:
    env, rules = GAMES[name]
    state, position = positions(name)
    key = jax.random.key(3)
    outcome = rollouts(name, max_length)(None, key, Embedding(state))
    draws = np.asarray(gumbels(key, SIZE, env.num_actions))
    expected = [playout(rules, position[i], draws[i], max_length or PLIES) for i in range(SIZE)]
    assert outcome.tolist() == expected
    assert {-1, 1} <= set(expected)
    # A game does not depend on the length of the others.
    others = jax.tree.map(lambda x: x[np.arange(SIZE) % 7], state)
    found = rollouts(name, max_length)(None, key, Embedding(others))
    np.testing.assert_array_equal(found[:7], expected[:7])
    if name in ("tic_tac_toe", "connect2"):
        assert 0 in expected


@pytest.mark.slow
def test_rollout_head_plays_softmax() -> None:
    env, _ = GAMES["tic_tac_toe"]
    state, _ = positions("tic_tac_toe")
    key, size = jax.random.key(4), 10
    state = jax.tree.map(lambda x: x[:size], state)
    network = make_network(9, (3, 3, 2), width=8, num_blocks=2, trunk="mlp")
    observe, step = jax.jit(jax.vmap(env.observe)), jax.jit(jax.vmap(env.step))
    params = random_params(network, (3, 3, 2))
    rollout_fn = make_rollout_fn(env, network, compact_states=True)
    model = make_model(env, network, compact_states=True)
    packed = model.root_fn(params, state.replace(observation=observe(state))).embedding
    outcome = jax.jit(rollout_fn)(params, key, packed)

    draws, mover = np.asarray(gumbels(key, size, 9)), np.asarray(state.current_player)
    total, is_over = np.zeros(size), np.asarray(state.terminated)
    for ply in range(9):
        logits = np.asarray(network.apply(params, observe(state))[0].logits)
        scores = np.where(state.legal_action_mask, logits + draws[:, ply], -np.inf)
        state = step(state, scores.argmax(axis=-1).astype(np.int32))
        # The reward of the player that was to move at the start.
        total += np.where(is_over, 0, np.asarray(state.rewards)[np.arange(size), mover])
        is_over = is_over | np.asarray(state.terminated)
    assert is_over.all()
    assert outcome.tolist() == total.tolist()
    assert {-1, 1} <= set(total)


@pytest.mark.slow
def test_rewards_are_summed_with_signs() -> None:
    rules = hash_model.Rules(terminal=0.2, same_player=0.4, illegal=0.3, reward=0.5)
    seeds, key = np.arange(30), jax.random.key(6)
    root = hash_model.roots(seeds, rules, 4)

    def play_fn(state: Any, action: Any) -> Any:
        """Gives rewards after the end too, as the hash game does; these must not count."""
        output, new = hash_model.recurrent_fn(rules, None, action, state[0], 4)
        return (new, output.prior_logits), output.reward, output.discount

    def run(embedding: Any, logits: Any) -> Any:
        return play_out(
            None,
            key,
            (embedding, logits),
            jnp.arange(30) % 7 == 3,
            play_fn=play_fn,
            logits_fn=lambda params, state: state[1],
        )

    outcome = jax.jit(run)(root.embedding, root.prior_logits)
    draws = np.asarray(gumbels(key, 30, 4))
    lengths = []
    for i, seed in enumerate(seeds):
        at = hash_model.roots(seed[None], rules, 4, np)
        embedding, logits, rewards = at.embedding, at.prior_logits, []
        while i % 7 != 3 and len(rewards) < PLIES:
            action = np.argmax(logits[0] + draws[i, len(rewards)])
            step, embedding = hash_model.recurrent_fn(
                rules, None, np.array([action]), embedding, 4, np
            )
            logits = step.prior_logits
            rewards.append((float(step.reward[0]), float(step.discount[0])))
            if rewards[-1][1] == 0:
                break
        expected = functools.reduce(lambda z, edge: edge[0] + edge[1] * z, reversed(rewards), 0.0)
        np.testing.assert_allclose(outcome[i], expected, atol=1e-5)
        lengths.append(len(rewards))
    assert max(lengths) >= 5


def test_a_bad_length_is_refused() -> None:
    with pytest.raises(ValueError, match="max_length is 0; it must be at least 1, or none") as info:
        make_rollout_fn(GAMES["connect2"][0], max_length=0)
    assert "\n" not in str(info.value)
