"""The arena: results that theory demands, and who gets what."""

import functools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from double_move import DoubleMoveNim, solve_double_move

import dualmctx
import games
from dualmctx import AlphaZero, Puct, make_network, make_search_fn
from dualmctx.arena import Player, batch_player, make_match, reusing_player, search_player

CALM = Puct(dirichlet_fraction=0.0, temperature=0.0)
fast_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
NUM_GAMES = 32
ENVS = {
    "connect2": games.make("connect2"),
    "tic_tac_toe": games.make("tic_tac_toe"),
    # 7 stones win for whoever begins, 8 lose.
    "nim won": games.make("nim", pile=7),
    "nim lost": games.make("nim", pile=8),
    "hsr": games.make("hsr", k=2, q=3, n=7),
    "double_move": DoubleMoveNim(pile=8),
}


def perfect(env: Any) -> Any:
    if env.id != "double_move":
        return games.perfect_player(env)
    best = [0] + [min(actions) for _, actions in solve_double_move(8).values()]
    return lambda rng_key, state: jnp.array(best)[jnp.maximum(state._x.pile, 0)]


def value_of(env: Any) -> int:
    """Returns the value of the start for who moves first."""
    if env.id == "double_move":
        return solve_double_move(8)[8][0]
    return int(games.solve(env).values[0])


@functools.cache
def compiled(name: str) -> Any:
    """Returns a match in which `params` says of each player whether it is perfect."""
    env = ENVS[name]
    perfect_one, random_one = (batch_player(x) for x in (perfect(env), games.random_player()))

    def player(i: int, params: Any, rng_key: Any, state: Any) -> Any:
        actions = (x(None, rng_key, state) for x in (perfect_one, random_one))
        return jnp.where(params[i], *actions)

    players = (functools.partial(player, 0), functools.partial(player, 1))
    return jax.jit(make_match(env, players, NUM_GAMES))


def play(name: str, *are_perfect: bool) -> dict[str, list[int]]:
    score = compiled(name)(are_perfect, jax.random.PRNGKey(0))
    return {field: np.asarray(x).tolist() for field, x in score._asdict().items()}


@pytest.mark.parametrize("name", ENVS)
def test_perfect_players_get_the_value_of_the_start(name: str) -> None:
    value = value_of(ENVS[name])
    half = NUM_GAMES // 2
    expected = {
        "wins": [half * (value > 0), half * (value < 0)],
        "draws": [half * (value == 0)] * 2,
        "losses": [half * (value < 0), half * (value > 0)],
    }
    assert play(name, True, True) == expected


@pytest.mark.parametrize("name", ENVS)
def test_a_perfect_player_keeps_its_side_and_a_random_one_does_not(name: str) -> None:
    value = value_of(ENVS[name])
    one, other = play(name, True, False), play(name, False, True)
    half = NUM_GAMES // 2
    for side, sign in enumerate((value, -value)):
        # The first player's other side is the second player's.
        if sign > 0:
            assert one["wins"][side] == other["losses"][1 - side] == half
        if sign >= 0:
            assert one["losses"][side] == other["wins"][1 - side] == 0
    # Random play gives up what it has, at times.
    assert sum(one["wins"]) > sum(one["losses"])
    assert sum(other["losses"]) > sum(other["wins"])
    for score in (one, other):
        assert np.sum(list(score.values()), axis=0).tolist() == [half, half]


@pytest.mark.parametrize("num_games", [2, 10])
def test_sides_are_halves_whatever_the_identities(num_games: int) -> None:
    """With one stone, whoever moves first takes it and wins."""
    env = games.make("nim", pile=1)
    begins = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(5), 50)).current_player
    assert set(begins.tolist()) == {0, 1}
    player = batch_player(games.random_player())
    match = jax.jit(make_match(env, (player, player), num_games))
    for seed in range(3):
        score = match(None, jax.random.PRNGKey(seed))
        half = num_games // 2
        assert np.stack(score).tolist() == [[half, 0], [0, 0], [0, half]]


def test_each_player_moves_only_where_it_is_its_turn() -> None:
    """The stand-ins look at the number of stones: taking 1 of 3 is the first player's alone."""
    env = games.make("nim", pile=3, max_take=3)

    def always(action: int) -> Any:
        return lambda params, rng_key, state: jnp.minimum(action, state._x.pile - 1)

    score = make_match(env, (always(2), always(0)), 8)(None, jax.random.PRNGKey(0))
    # Who takes all wins at once; who takes one each leaves two, which the other takes.
    assert np.stack(score).tolist() == [[4, 4], [0, 0], [0, 0]]
    score = make_match(env, (always(0), always(2)), 8)(None, jax.random.PRNGKey(0))
    assert np.stack(score).tolist() == [[0, 0], [0, 0], [4, 4]]


def test_players_get_keys_of_their_own() -> None:
    keys: list[Any] = []

    def spy(params: Any, rng_key: Any, state: Any) -> Any:
        assert params == "params"
        jax.debug.callback(lambda key: keys.append(tuple(key.tolist())), rng_key)
        return jnp.zeros_like(state.current_player)

    env = games.make("nim", pile=4)
    make_match(env, (spy, spy), 2)("params", jax.random.PRNGKey(0))
    jax.effects_barrier()
    assert len(keys) == len(set(keys)) == 8


def test_batch_player_draws_for_each_game() -> None:
    env = games.make("nim")
    states = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 64))
    choose = batch_player(games.random_player())
    actions = choose(None, jax.random.PRNGKey(1), states)
    assert set(actions.tolist()) == {0, 1, 2}


def test_search_player_plays_the_action_of_the_search() -> None:
    """Pile 3 and whoever takes all of it wins: this search finds that when it gets its `params`."""

    def search_fn(params: Any, rng_key: Any, state: Any) -> Any:
        return SimpleNamespace(action=jnp.minimum(params, state._x.pile - 1))

    opponent = batch_player(lambda rng_key, state: jnp.int32(0))
    match = make_match(games.make("nim", pile=3), (search_player(search_fn), opponent), 8)
    for params, expected in ((2, [[4, 4], [0, 0]]), (0, [[4, 0], [0, 4]])):
        score = match(params, jax.random.PRNGKey(0))
        assert [score.wins.tolist(), score.losses.tolist()] == expected


def test_a_player_remembers_its_game() -> None:
    """Answering n stones by 4 - n wins 8 stones for who moves second, without a look at them."""

    def choose(params: Any, rng_key: Any, state: Any, last: Any) -> tuple:
        return jnp.maximum(2 - last, 0), state.current_player

    def observe(last: Any, mover: Any, action: Any, is_own: Any) -> Any:
        return jnp.where(is_own, mover + 7, action)  # its own moves are not what it answers

    mirror = Player(lambda params, state: jnp.zeros_like(state.current_player), choose, observe)
    stranger = batch_player(games.random_player())
    for players, results in (((mirror, stranger), "wins"), ((stranger, mirror), "losses")):
        score = make_match(ENVS["nim lost"], players, NUM_GAMES)(None, jax.random.PRNGKey(0))
        side = 1 if players[0] is mirror else 0
        assert getattr(score, results)[side] == NUM_GAMES // 2


def test_a_reusing_player_follows_both_players_moves() -> None:
    """Its tree after two moves is the search's, advanced twice; others' turns add nothing to it."""
    env, policy = ENVS["tic_tac_toe"], AlphaZero(13, kept_nodes=9)
    most = policy.kept_nodes
    network = make_network(env.num_actions, (1,), width=8, num_blocks=2)
    search_fn = make_search_fn(env, network, policy.noiseless())
    player = reusing_player(search_fn, kept_nodes=most)
    state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 4))
    params = network.init(jax.random.PRNGKey(1), state.observation)
    choose, search = fast_jit(player.choose), fast_jit(search_fn)
    advance = fast_jit(functools.partial(dualmctx.advance, max_kept=most))
    observe, step = fast_jit(player.observe), jax.jit(jax.vmap(env.step))
    memory, expected = player.start(params, state), None
    for ply in range(6):
        # Two games in which it moves first, two in which it moves second.
        is_own = jnp.array([True, True, False, False]) ^ bool(ply % 2)
        key = jax.random.PRNGKey(ply)
        action, thought = choose(params, key, state, memory)
        if expected is None:
            output = search(params, key, state)
            np.testing.assert_array_equal(action, output.action)
        else:
            output = search(params, key, state, expected)
            np.testing.assert_array_equal(action, output.action)
        legal = state.legal_action_mask
        action = jnp.where(is_own, action, jnp.argmax(legal, axis=-1)).astype(jnp.int32)
        memory = observe(memory, thought, action, is_own)
        own = advance(output.search_tree, action)
        other = own if expected is None else advance(expected, action)
        expected = jax.tree.map(
            lambda x, y, w=is_own: jnp.where(w.reshape((-1,) + (1,) * (x.ndim - 1)), x, y),
            own,
            jax.tree.map(jnp.zeros_like, own) if ply == 0 else other,
        )
        jax.tree.map(np.testing.assert_array_equal, memory.layers, expected.layers)
        state = step(state, action)
        has_tree = memory.layers[0].node_visits[:, 0] > 0
        assert has_tree[:2].all() if ply == 0 else has_tree.any()
        at_root = jax.tree.map(lambda x: x[:, 0], memory.embeddings.state)
        board = at_root._x.board[has_tree]
        np.testing.assert_array_equal(board, state._x.board[has_tree])


def test_a_match_of_reusing_players() -> None:
    """8 stones, an indifferent network, and a tree that sees to the end: theory's result."""
    env, policy = ENVS["nim lost"], AlphaZero(300, CALM, kept_nodes=120)
    network = make_network(env.num_actions, (1,), width=8, num_blocks=2)
    search_fn = make_search_fn(env, network, policy)
    player = reusing_player(search_fn, kept_nodes=policy.kept_nodes)
    state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 4))
    params = network.init(jax.random.PRNGKey(1), state.observation)
    for players in ((player, player), (player, search_player(search_fn))):
        score = fast_jit(make_match(env, players, 4))(params, jax.random.PRNGKey(0))
        assert np.stack(score).tolist() == [[0, 2], [0, 0], [2, 0]]


@pytest.mark.parametrize("num_games", [-2, 0, 1, 7])
def test_an_uneven_number_of_games_is_refused(num_games: int) -> None:
    player = batch_player(games.random_player())
    with pytest.raises(ValueError, match=f"^num_games is {num_games}; it must be even and"):
        make_match(ENVS["connect2"], (player, player), num_games)
