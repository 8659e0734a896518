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
from dualmctx.matches.players import Mover, batched_move_fn, tree_reusing_mover


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
    match = make_match(games.make("nim", pile=8), (mirror, mirror), 32)
    score = match(None, jax.random.PRNGKey(0))
    assert np.stack(score).tolist() == [[0, 16], [0, 0], [16, 0]]


@pytest.mark.slow
def test_tree_reusing_mover_follows_both_players() -> None:
    """After a move and a reply, the memory is the subtree of the search after both moves."""
    env, policy = games.make("nim"), AlphaZero(7, reuse_capacity=5)
    most = policy.reuse_capacity
    network = make_network(env.num_actions, env.observation_shape, width=4, num_blocks=2)
    search_fn = make_search_fn(env, network, policy.for_evaluation())
    player = tree_reusing_mover(search_fn, reuse_capacity=most)
    state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 2))
    params = network.init(jax.random.PRNGKey(1), state.observation)
    choose, search = jax.jit(player.choose), jax.jit(search_fn)
    get_subtree = jax.jit(functools.partial(dualmctx.get_subtree, reuse_capacity=most))
    observe, step = jax.jit(player.observe), jax.jit(jax.vmap(env.step))
    memory = expected = player.start(params, state)
    for turn in range(3):
        keys = jax.random.split(jax.random.PRNGKey(turn), 2)
        action, memory = choose(params, keys, state, memory)
        output = search(params, keys, state, expected)
        np.testing.assert_array_equal(action, output.action)
        answer = jnp.array([0, 0], jnp.int32)
        memory = observe(memory, answer)
        expected = get_subtree(get_subtree(output.search_tree, action), answer)
        state = step(step(state, action), answer)
        jax.tree.map(np.testing.assert_array_equal, memory.stats, expected.stats)
        has_tree = memory.stats[0].node_visits[:, 0] > 0
        assert has_tree.any()
        pile = memory.embeddings.state._x.pile[:, 0][has_tree]
        np.testing.assert_array_equal(pile, state._x.pile[has_tree])


ENV = DoubleMoveNim(pile=8)
OPENINGS = np.array([[1, -1], [0, 0], [-1, -1], [0, -1]], np.int32)
KEYS = jax.random.split(jax.random.PRNGKey(2), len(OPENINGS))


@functools.cache
def pair_play(max_plies: int) -> Any:
    """Returns a program of random movers with a preferred action, if the pile is even."""
    random_move_fn = batched_move_fn(games.random_player())

    def biased(params: Any, rng_key: Any, state: Any) -> Any:
        is_preferred = state.legal_action_mask[:, params] & (state._x.pile % 2 == 0)
        return jnp.where(is_preferred, params, random_move_fn(None, rng_key, state))

    return jax.jit(make_games(ENV, (biased, biased), max_plies=max_plies))


def plain_game(moves: list[int]) -> list[Any]:
    """Plays a game one move at a time; returns all states."""
    states, step = [jax.device_get(ENV.init(jax.random.PRNGKey(3)))], jax.jit(ENV.step)
    for action in moves:
        assert not states[-1].terminated
        assert states[-1].legal_action_mask[action]
        states.append(jax.device_get(step(states[-1], action)))
    return states


@pytest.mark.slow
def test_record_matches_replayed_games() -> None:
    """Each player prefers the action in its parameters, which shows who moved."""
    own = (1, 0)
    record = jax.device_get(pair_play(9)(own, KEYS, OPENINGS))
    assert record.is_over.all()
    for row in range(2):
        played = record.actions[row], record.result[row], record.num_chosen[row]
        for opening, actions, result, num_chosen in zip(OPENINGS, *played, strict=True):
            moves = [int(x) for x in actions if x >= 0]
            start = [int(x) for x in opening if x >= 0]
            assert moves[: len(start)] == start
            assert actions[len(moves) :].tolist() == [-1] * (9 - len(moves))
            states = plain_game(moves)
            first = states[0].current_player
            assert states[-1].terminated
            assert states[-1].rewards[first] == (-result if row else result)
            chosen = [0, 0]
            for before, action in list(zip(states, moves, strict=False))[len(start) :]:
                is_one = (before.current_player == first) == (row == 0)
                chosen[0 if is_one else 1] += 1
                preferred = own[0 if is_one else 1]
                is_random = before._x.pile % 2 or not before.legal_action_mask[preferred]
                assert is_random or action == preferred
            assert num_chosen.tolist() == chosen


@pytest.mark.slow
def test_games_do_not_depend_on_batch_or_position_and_can_be_cut_short() -> None:
    play = pair_play(9)
    whole = play((1, 0), KEYS, OPENINGS)
    order = np.array([2, 0, 3, 1])
    moved = play((1, 0), KEYS[order], OPENINGS[order])
    np.testing.assert_array_equal(moved.actions, whole.actions[:, order])
    alone = play((1, 0), KEYS[1:2], OPENINGS[1:2])
    np.testing.assert_array_equal(alone.actions[:, 0], whole.actions[:, 1])
    # The two games of a pair sample independently.
    assert (whole.actions[0] != whole.actions[1]).any()
    cut = pair_play(5)((1, 0), KEYS, OPENINGS)
    np.testing.assert_array_equal(cut.actions, whole.actions[:, :, :5])
    is_over = (whole.actions[:, :, 5:] < 0).all(-1)
    assert 0 < is_over.sum() < is_over.size
    np.testing.assert_array_equal(cut.is_over, is_over)
    np.testing.assert_array_equal(cut.result, np.where(is_over, whole.result, 0))


def test_odd_number_of_games_raises() -> None:
    player = batched_move_fn(games.random_player())
    with pytest.raises(UserError, match=r"^num_games is 7; it must be even and"):
        make_match(ENV, (player, player), 7)
