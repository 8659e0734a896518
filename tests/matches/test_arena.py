"""The arena: theoretical results of perfect play, seats, keys and memories."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualmctx
import games
from double_move import DoubleMoveNim
from dualmctx import AlphaZero, make_network, make_search_fn
from dualmctx.errors import UserError
from dualmctx.matches.arena import make_games, make_match
from dualmctx.matches.players import (
    Mover,
    batched_move_fn,
    tree_reusing_mover,
)

fast_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
NUM_GAMES = 32
ENVS = {
    "tic_tac_toe": games.make("tic_tac_toe"),
    "double_move": DoubleMoveNim(pile=8),
}


@pytest.mark.slow
def test_player_that_cannot_choose_loses() -> None:
    """A player that cannot choose loses on either side, also after other moves."""

    def fails_at(player: int) -> Any:
        return lambda piles, rng_key, state: jnp.where(state._x.pile == piles[player], -1, 0)

    match = jax.jit(make_match(games.make("nim", pile=3), (fails_at(0), fails_at(1)), 8))
    # At pile 3 the player who moves first fails, at pile 2 the other one.
    for pile, wins in ((3, [0, 4]), (2, [4, 0])):
        score = match((pile, pile), jax.random.PRNGKey(0))
        assert np.stack(score).tolist() == [wins, [0, 0], wins[::-1]]
    # Only the first player fails; otherwise the player who moves first would win.
    score = match((3, 0), jax.random.PRNGKey(0))
    assert np.stack(score).tolist() == [[0, 0], [0, 0], [4, 4]]


@pytest.mark.slow
def test_each_move_has_its_own_key_and_half_of_the_boards_are_evaluated() -> None:
    keys: list[Any] = []
    sizes: set[int] = set()

    def spy(params: Any, rng_key: Any, state: Any) -> Any:
        assert params == "params"
        sizes.add(len(state.current_player))
        jax.debug.callback(lambda found: keys.extend(map(tuple, found.tolist())), rng_key)
        return jnp.zeros_like(state.current_player)

    make_match(games.make("nim", pile=4), (spy, spy), 6)("params", jax.random.PRNGKey(0))
    jax.effects_barrier()
    # Six games of four moves.
    assert len(keys) == len(set(keys)) == 24
    assert sizes == {3}


def test_batched_move_fn_samples_independently() -> None:
    env = games.make("nim")
    states = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 64))
    choose = batched_move_fn(games.random_player())
    actions = choose(None, jax.random.PRNGKey(1), states)
    assert set(actions.tolist()) == {0, 1, 2}


@pytest.mark.slow
def test_mover_keeps_a_memory_per_game() -> None:
    """Answering n stones by 4 - n wins from 8 stones, without reading the state.

    Both players do so; the first move of a game is random.
    """

    def choose(params: Any, rng_key: Any, state: Any, last: Any) -> tuple:
        first = jax.vmap(lambda key: jax.random.randint(key, (), 0, 3))(rng_key)
        # The memory after the player's own move is overwritten by `observe`.
        return jnp.where(last < 0, first, 2 - last), last + 7

    mirror = Mover(
        start=lambda params, state: jnp.full_like(state.current_player, -1),
        choose=choose,
        observe=lambda last, action: action,
    )
    match = make_match(games.make("nim", pile=8), (mirror, mirror), NUM_GAMES)
    score = match(None, jax.random.PRNGKey(0))
    assert np.stack(score).tolist() == [[0, NUM_GAMES // 2], [0, 0], [NUM_GAMES // 2, 0]]


@pytest.mark.slow
def test_tree_reusing_mover_follows_both_players() -> None:
    """After a move and a reply, the memory is the subtree of the search after both moves."""
    env, policy = ENVS["tic_tac_toe"], AlphaZero(13, reuse_capacity=9)
    most = policy.reuse_capacity
    network = make_network(env.num_actions, (1,), width=8, num_blocks=2)
    search_fn = make_search_fn(env, network, policy.for_evaluation())
    player = tree_reusing_mover(search_fn, reuse_capacity=most)
    state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 2))
    params = network.init(jax.random.PRNGKey(1), state.observation)
    choose, search = fast_jit(player.choose), fast_jit(search_fn)
    get_subtree = fast_jit(functools.partial(dualmctx.get_subtree, reuse_capacity=most))
    observe, step = fast_jit(player.observe), jax.jit(jax.vmap(env.step))
    memory = expected = player.start(params, state)
    for turn in range(3):
        keys = jax.random.split(jax.random.PRNGKey(turn), 2)
        action, memory = choose(params, keys, state, memory)
        output = search(params, keys, state, expected)
        np.testing.assert_array_equal(action, output.action)
        state = step(state, action)
        answer = jnp.argmax(state.legal_action_mask, axis=-1).astype(jnp.int32)
        memory = observe(memory, answer)
        expected = get_subtree(get_subtree(output.search_tree, action), answer)
        state = step(state, answer)
        jax.tree.map(np.testing.assert_array_equal, memory.stats, expected.stats)
        has_tree = memory.stats[0].node_visits[:, 0] > 0
        assert has_tree.any()
        board = jax.tree.map(lambda x: x[:, 0], memory.embeddings.state)._x.board[has_tree]
        np.testing.assert_array_equal(board, state._x.board[has_tree])


@functools.cache
def plain_functions(name: str) -> Any:
    return jax.jit(ENVS[name].init), jax.jit(ENVS[name].step)


def plain_game(name: str, moves: list[int]) -> list[Any]:
    """Plays a game one move at a time; returns all states."""
    init, step = plain_functions(name)
    states = [jax.device_get(init(jax.random.PRNGKey(3)))]
    for action in moves:
        assert not states[-1].terminated
        assert states[-1].legal_action_mask[action]
        states.append(jax.device_get(step(states[-1], action)))
    return states


OPENINGS = {
    "tic_tac_toe": [[4, 0, -1], [-1, -1, -1], [8, 1, 0], [0, -1, -1]],
    "double_move": [[1, -1], [0, 0], [-1, -1], [0, -1]],
}


def openings_of(name: str) -> tuple[np.ndarray, Any]:
    """Returns openings of four pairs of games, and their keys."""
    openings = np.array(OPENINGS[name], np.int32)
    return openings, jax.random.split(jax.random.PRNGKey(2), len(openings))


@functools.cache
def pair_play(name: str, max_plies: int) -> Any:
    """Returns a program that plays random movers which prefer the action in their parameters."""
    random_move_fn = batched_move_fn(games.random_player())

    def biased(params: Any, rng_key: Any, state: Any) -> Any:
        return jnp.where(
            state.legal_action_mask[:, params], params, random_move_fn(None, rng_key, state)
        )

    return jax.jit(make_games(ENVS[name], (biased, biased), max_plies=max_plies))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPENINGS)
def test_record_matches_replayed_games(name: str) -> None:
    """Each player prefers the action in its parameters, which shows who moved."""
    openings, keys = openings_of(name)
    own = (1, 0)
    record = jax.device_get(pair_play(name, 9)(own, keys, openings))
    assert record.is_over.all()
    for row in range(2):
        played = record.actions[row], record.result[row], record.num_chosen[row]
        for opening, actions, result, num_chosen in zip(openings, *played, strict=True):
            moves = [int(x) for x in actions if x >= 0]
            start = [int(x) for x in opening if x >= 0]
            assert moves[: len(start)] == start
            assert actions[len(moves) :].tolist() == [-1] * (9 - len(moves))
            states = plain_game(name, moves)
            first = states[0].current_player
            assert states[-1].terminated
            assert states[-1].rewards[first] == (-result if row else result)
            chosen = [0, 0]
            for before, action in list(zip(states, moves, strict=False))[len(start) :]:
                is_one = (before.current_player == first) == (row == 0)
                chosen[0 if is_one else 1] += 1
                preferred = own[0 if is_one else 1]
                assert not before.legal_action_mask[preferred] or action == preferred
            assert num_chosen.tolist() == chosen


@pytest.mark.slow
def test_games_do_not_depend_on_batch_or_position() -> None:
    openings, keys = openings_of("tic_tac_toe")
    play = pair_play("tic_tac_toe", 9)
    whole = play((1, 0), keys, openings)
    order = np.array([2, 0, 3, 1])
    moved = play((1, 0), keys[order], openings[order])
    np.testing.assert_array_equal(moved.actions, whole.actions[:, order])
    for i in range(len(openings)):
        alone = play((1, 0), keys[i : i + 1], openings[i : i + 1])
        np.testing.assert_array_equal(alone.actions[:, 0], whole.actions[:, i])
    # The two games of a pair sample independently.
    assert (whole.actions[0] != whole.actions[1]).any()


def test_long_games_are_cut_short_and_drawn() -> None:
    openings, keys = openings_of("tic_tac_toe")
    whole, cut = (pair_play("tic_tac_toe", x)((1, 0), keys, openings) for x in (9, 6))
    np.testing.assert_array_equal(cut.actions, whole.actions[:, :, :6])
    is_over = (whole.actions[:, :, 6:] < 0).all(-1)
    assert 0 < is_over.sum() < is_over.size
    np.testing.assert_array_equal(cut.is_over, is_over)
    np.testing.assert_array_equal(cut.result, np.where(is_over, whole.result, 0))


def test_odd_number_of_games_raises() -> None:
    player = batched_move_fn(games.random_player())
    for number in (-2, 0, 7):
        with pytest.raises(UserError, match=f"^num_games is {number}; it must be even and"):
            make_match(ENVS["tic_tac_toe"], (player, player), number)
