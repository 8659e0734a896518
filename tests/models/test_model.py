"""The model: signs, masks, terminal states, and the content of embeddings."""

import functools
import pathlib
import re
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx import AlphaZero, Dual, make_model, make_network, make_search_fn
from dualmctx.models.game_model import mask_illegal, reward_and_discount
from oracle.cases import grouped

sys.path.append(str(pathlib.Path(__file__).parents[1] / "games"))
from double_move import DoubleMoveNim, solve_double_move

# Less optimisation: most of the time is compiling, and the results are the same.
fast_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@functools.cache
def jitted(env: Any) -> tuple[Any, Any, Any]:
    """Returns init, step, and step of a batch."""
    return fast_jit(env.init), fast_jit(env.step), fast_jit(jax.vmap(env.step))


def states_of(env: Any, *plays: tuple[int, ...], seed: int = 0) -> Any:
    """Returns the batch of states after the moves; the first player differs in the batch."""
    init, step, _ = jitted(env)
    states = []
    for i, moves in enumerate(plays):
        state = init(jax.random.key(seed + i))
        for move in moves:
            state = step(state, jnp.int32(move))
        states.append(state)
    return jax.tree.map(lambda *x: jnp.stack(x), *states)


def setup(env: Any, states: Any, num_blocks: int = 2, **options: Any) -> tuple[Any, Any, Any]:
    """Returns a network, random parameters and a model."""
    network = make_network(env.num_actions, (1,), width=8, num_blocks=num_blocks)
    return network, random_params(network, states), make_model(env, network, **options)


def random_params(network: Any, states: Any) -> Any:
    """Returns random parameters; the heads of a new network are zero."""
    shapes = jax.eval_shape(network.init, jax.random.key(0), states.observation)
    draws = np.random.default_rng(1)
    return jax.tree.map(lambda x: jnp.asarray(draws.normal(0, 0.5, x.shape), x.dtype), shapes)


TIC_TAC_TOE, CONNECT2, DOUBLE = games.make("tic_tac_toe"), games.make("connect2"), DoubleMoveNim()
# Game, previous moves, the move; the reward and the discount of its edge.
EDGES = {
    "players alternate": (TIC_TAC_TOE, (), 4, 0, -1),
    "the mover wins": (TIC_TAC_TOE, (0, 3, 1, 4), 2, 1, 0),
    "the second player wins": (TIC_TAC_TOE, (0, 3, 1, 4, 8), 5, 1, 0),
    "a draw": (TIC_TAC_TOE, (0, 1, 2, 4, 3, 5, 7, 6), 8, 0, 0),
    "the mover goes again": (DOUBLE, (), 1, 0, 1),
    "then the other one": (DOUBLE, (1,), 0, 0, -1),
    "the last stone wins": (DOUBLE, (1, 1, 1), 1, 1, 0),
    "a finished game": (TIC_TAC_TOE, (0, 3, 1, 4, 2), 7, 0, 0),
}


def search_connect2(
    env: Any = CONNECT2,
    network: Any = None,
    policy: Any = None,
    params: Any = "own",
    rng_key: Any = None,
    states: Any = None,
) -> Any:
    """Traces a search of four positions of Connect2, with some other arguments."""
    network = make_network(4, (8,), width=8) if network is None else network
    start = states_of(CONNECT2, (), (), (), ())
    states = start if states is None else states
    if isinstance(params, str) and not isinstance(network, type):
        params = network.init(jax.random.key(0), start.observation)
    rng_key = jax.random.key(0) if rng_key is None else rng_key
    search = make_search_fn(env, network, AlphaZero(4) if policy is None else policy)
    return jax.eval_shape(lambda: search(params, rng_key, states))


OTHER = make_network(4, (8,), width=9).init(jax.random.key(0), jnp.zeros((1, 8)))
WRONG = {
    "env is 'connect2'; pass a game": {"env": "connect2"},
    "env is of type Network; pass a game": {"env": make_network(4, (8,))},
    "network is the class Network; pass a network": {"network": type(make_network(4, (8,)))},
    "policy is the class AlphaZero; pass a policy": {"policy": AlphaZero},
    "params is None; pass those of network.init": {"params": None},
    r"params do not fit .* \(8, 8\), .* \(8, 9\); pass": {"params": OTHER},
    "rng_key is 0; pass a key": {"rng_key": 0},
    "rng_key is of type dict; pass a key": {"rng_key": OTHER},
    r"rng_key is an array of float32 .* \[2\]; pass a key": {"rng_key": jnp.zeros(2)},
    r"rng_key has the shape \[4, 2, 2\]; pass": {"rng_key": jnp.zeros((4, 2, 2), jnp.uint32)},
    "rng_key has 3 keys for 4 positions": {"rng_key": jax.random.split(jax.random.key(0), 3)},
    r"logits have the shape \[4, 5\]; .* must be \[4, 4\]": {
        "network": make_network(5, (8,), width=8)
    },
    r"legal_action_mask has the shape \[4\], not \[B, A\]": {
        "states": CONNECT2.init(jax.random.key(0))
    },
    "the states have 9 actions, but the game has 4": {"states": states_of(TIC_TAC_TOE, (), ())},
    "the states are of type list; pass states of the game": {"states": [1, 2]},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_of_a_search_are_named(message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        search_connect2(**WRONG[message])
    assert len(str(caught.value)) < 400


KEYS = jax.random.split(jax.random.key(0), 4)
RIGHT = {
    "raw key": {"rng_key": jax.random.PRNGKey(0)},
    "keys of the positions": {"rng_key": KEYS},
    "raw keys of the positions": {"rng_key": jax.random.key_data(KEYS)},
    "NumPy": {"states": jax.tree.map(np.asarray, states_of(CONNECT2, (), (0,), (0, 1), ()))},
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_arguments_of_a_search_are_accepted(name: str) -> None:
    assert search_connect2(**RIGHT[name]).action.shape == (4,)


def test_a_missing_block_is_named_also_if_only_a_later_head_needs_it() -> None:
    network = make_network(4, (8,), width=8, num_blocks=2)
    whole = network.init(jax.random.key(0), jnp.zeros((1, 8)))["params"]
    params = {"params": {name: x for name, x in whole.items() if name != "blocks_1"}}
    with pytest.raises(ValueError, match=r'params do not fit .*"/blocks_1'):
        search_connect2(network=network, policy=Dual((3, 2), 2), params=params)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", EDGES)
def test_edge_signs(name: str, seed: int) -> None:
    env, moves, move, reward, discount = EDGES[name]
    before = states_of(env, moves, moves, moves, seed=10 * seed)
    after = jitted(env)[2](before, jnp.full(3, move))
    actual = reward_and_discount(before, after)
    assert [x.tolist() for x in actual] == [[reward] * 3, [discount] * 3]
    assert all(x.dtype == jnp.float32 for x in actual)


def test_losing_move_has_reward_minus_one() -> None:
    """No move loses at once in these games, so the test swaps the rewards."""
    env = TIC_TAC_TOE
    before = states_of(env, (0, 3, 1, 4), (0, 3, 1, 4))
    after = jitted(env)[2](before, jnp.array([2, 2]))
    after = after.replace(rewards=-after.rewards, terminated=jnp.array([True, False]))
    after = after.replace(truncated=jnp.array([False, True]))
    reward, discount = reward_and_discount(before, after)
    assert reward.tolist() == [-1, -1]
    assert discount.tolist() == [0, 0]


def test_both_player_identities_start_games() -> None:
    """`current_player` is random; with only one identity, a mix-up would not be seen."""
    states = states_of(TIC_TAC_TOE, (), (), ())
    assert set(states.current_player.tolist()) == {0, 1}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("heads", [(0, -1), (-1, 0)])
def test_recurrent_fn_at_the_end_of_a_game(heads: tuple[int, ...]) -> None:
    env = TIC_TAC_TOE
    states = states_of(env, (0, 3, 1, 4), (0, 3, 1, 4), (0, 3, 1, 4, 8))
    _, params, model = setup(env, states, heads=heads)
    root = model.root_fn(params, states)
    assert (root.value != 0).all()
    out, embedding = model.recurrent_fn(params, None, jnp.array([2, 5, 5]), root.embedding)
    assert out.reward.tolist() == [1, 0, 1]
    assert out.discount.tolist() == [0, -1, 0]
    assert (out.value == 0).tolist() == [True, False, True]
    assert embedding.state.terminated.tolist() == [True, False, True]
    # After the end of a game, all rewards are 0, for every head.
    over = model.root_fn(params, jitted(env)[2](states, jnp.array([2, 5, 5])))
    assert (over.value == 0).tolist() == [True, False, True]
    _, value = model.refine_fn(params, None, over.embedding)
    assert (value == 0).tolist() == [True, False, True]


def test_every_function_masks_illegal_actions() -> None:
    env = TIC_TAC_TOE
    states = states_of(env, (4,), (0, 1, 2))
    network, params, model = setup(env, states, heads=(0, -1))
    raw = network.apply(params, states.observation)
    root = model.root_fn(params, states)
    refined, value = model.refine_fn(params, None, root.embedding)
    for logits, output in ((root.prior_logits, raw[0]), (refined, raw[1])):
        legal = states.legal_action_mask
        np.testing.assert_allclose(logits[legal], output.logits[legal], rtol=1e-5)
        assert (logits[~legal] == jnp.finfo(jnp.float32).min).all()
    np.testing.assert_allclose(root.value, raw[0].value, rtol=1e-5)
    np.testing.assert_allclose(value, raw[1].value, rtol=1e-5)
    out, embedding = model.recurrent_fn(params, None, jnp.array([0, 8]), root.embedding)
    mask = np.asarray(embedding.state.legal_action_mask)
    assert mask.sum(axis=-1).tolist() == [7, 5]
    np.testing.assert_array_equal(out.prior_logits == jnp.finfo(jnp.float32).min, ~mask)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_mask_is_lowest_value_of_dtype(dtype: Any) -> None:
    masked = mask_illegal(jnp.zeros((1, 2), dtype), jnp.array([[True, False]]))
    assert masked.dtype == dtype
    assert masked[0, 0] == 0
    assert masked[0, 1] == jnp.finfo(dtype).min


# Heads and whether to keep activations; whether the embedding has them.
KEPT = [
    ((0, -1), True, True),
    ((0, -1), False, False),
    ((-1,), True, False),
    ((0,), True, False),
    ((1, 0), True, False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "keep", "kept"), KEPT)
def test_embeddings_hold_no_observation(heads: tuple[int, ...], keep: bool, kept: bool) -> None:
    env = CONNECT2
    states = states_of(env, (), (0,))
    _, params, model = setup(env, states, heads=heads, keep_activations=keep)
    root = model.root_fn(params, states)
    _, embedding = model.recurrent_fn(params, None, jnp.array([1, 2]), root.embedding)
    for one in (root.embedding, embedding):
        assert one.state.observation is None
        assert (one.activations is not None) == kept
    if kept:
        assert embedding.activations.shape == (2, 8)


def test_kept_activations_match_recomputation() -> None:
    env = CONNECT2
    states = states_of(env, (), (0,))
    (_, params, keeps), (*_, recomputes) = (
        setup(env, states, heads=(0, -1), keep_activations=keep) for keep in (True, False)
    )
    for model in (keeps, recomputes):
        root = model.root_fn(params, states)
        _, embedding = model.recurrent_fn(params, None, jnp.array([1, 2]), root.embedding)
        refined = model.refine_fn(params, None, embedding)
        if model is keeps:
            expected = refined
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), refined, expected)


@pytest.mark.parametrize("is_separate", [False, True], ids=["shared", "separate"])
def test_each_function_uses_its_head(is_separate: bool) -> None:
    states = states_of(CONNECT2, (), (0,))
    options = {"width": 8, "num_blocks": 3, "num_heads": 3, "separate_trunks": is_separate}
    network = make_network(4, (1,), **options)
    params = random_params(network, states)
    expected = [output.value for output in network.apply(params, states.observation)]
    for heads in ((0, 1, 2), (0, 1, -1), (1, 2, 0)):
        model = make_model(CONNECT2, network, heads=heads)
        root = model.root_fn(params, states)
        assert (root.embedding.activations is None) == is_separate
        values = [root.value, *(fn(params, None, root.embedding)[1] for fn in model.refine_fn)]
        for head, value in zip(heads, values, strict=True):
            np.testing.assert_allclose(value, expected[head], atol=1e-5)
    assert make_model(CONNECT2, network, heads=(0,)).refine_fn is None


def test_wrong_shapes_are_found_while_jax_traces() -> None:
    states = states_of(TIC_TAC_TOE, (), ())
    wrong = make_network(4, (1,), width=8, num_blocks=2)  # 4 actions in place of 9
    params = jax.eval_shape(wrong.init, jax.random.key(0), states.observation)
    model = make_model(TIC_TAC_TOE, wrong)
    with pytest.raises(ValueError, match=r"logits have the shape \[2, 4\]; .* must be \[2, 9\]"):
        jax.eval_shape(model.root_fn, params, states)
    _, params, model = setup(TIC_TAC_TOE, states)
    embedding = model.root_fn(params, states).embedding
    with pytest.raises(AssertionError, match="shape"):
        jax.eval_shape(model.recurrent_fn, params, None, jnp.zeros(3, jnp.int32), embedding)


@pytest.mark.parametrize("heads", [(0, 1, -1), (0, 2), (-3,)])
def test_network_with_too_few_heads_is_refused(heads: tuple[int, ...]) -> None:
    network = make_network(4, (1,), width=8, num_blocks=2)
    with pytest.raises(ValueError, match=r"head_depths is 1 2; it must name at least 3 depths"):
        make_model(CONNECT2, network, heads=heads)


@pytest.mark.parametrize("heads", [(), (0, 0), (1, -1), (0, -2)])
def test_duplicate_heads_are_refused(heads: tuple[int, ...]) -> None:
    network = make_network(4, (1,), width=8, num_blocks=2)
    words = rf"^heads is {re.escape(str(heads))}; it must name one head or more, each once$"
    with pytest.raises(ValueError, match=words):
        make_model(CONNECT2, network, heads=heads)
    with pytest.raises(ValueError, match=r"^heads is \(0, 0\); it must name one head or more"):
        make_model(CONNECT2, make_network(4, (1,), width=8, num_blocks=1), heads=(0, 0))


def refined_embeddings(dtype: Any) -> tuple[Any, Any, Any]:
    """Returns the kept activations, and the outputs from the states and from the activations."""
    states = states_of(CONNECT2, (), (0,))
    network, params, model = setup(CONNECT2, states, heads=(0, -1), activations_dtype=dtype)
    embedding = model.root_fn(params, states).embedding
    exact, _ = network.apply(params, states.observation, 0, method="begin")
    _, output = network.apply(params, exact, 0, 1, method="resume")
    legal = states.legal_action_mask
    expected = mask_illegal(output.logits, legal), output.value
    return (embedding.activations, exact), expected, model.refine_fn(params, None, embedding)


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_activations_are_kept_exactly_by_default(dtype: Any) -> None:
    (kept, exact), expected, refined = refined_embeddings(dtype)
    assert kept.dtype == jnp.float32
    np.testing.assert_array_equal(kept, exact)
    jax.tree.map(np.testing.assert_array_equal, refined, expected)


def test_bfloat16_activations_take_half_the_memory() -> None:
    (kept, exact), expected, refined = refined_embeddings(jnp.bfloat16)
    assert kept.dtype == jnp.bfloat16
    assert 2 * kept.nbytes == exact.nbytes
    for one, other in zip(refined, expected, strict=True):
        assert one.dtype == other.dtype
        assert (one != other).any()
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02)


def test_integer_activations_are_refused() -> None:
    network = make_network(4, (1,), width=8, num_blocks=2)
    with pytest.raises(ValueError, match="activations_dtype is int8; it must be a floating type"):
        make_model(CONNECT2, network, activations_dtype="int8")


@pytest.mark.slow
def test_make_search_fn_passes_heads_of_policy() -> None:
    """Signs are correct through a search in a game in which a player may move twice."""
    env, plays = DOUBLE, {8: (), 7: (0,), 6: (1,), 5: (1, 0), 4: (1, 1), 2: (1, 1, 1)}
    states = states_of(env, *plays.values())
    assert states._x.pile.tolist() == list(plays)
    network = make_network(env.num_actions, (1,), width=8, num_blocks=2)
    untrained = network.init(jax.random.key(0), states.observation)
    calm = grouped(dirichlet_fraction=0.0, temperature=0.0)
    solved = solve_double_move(8)
    for policy in (AlphaZero(60, **calm), Dual((40, 30), 6, **calm)):
        out = fast_jit(make_search_fn(env, network, policy))(untrained, jax.random.key(0), states)
        for pile, action in zip(plays, out.action.tolist(), strict=True):
            assert action in solved[pile][1], (pile, policy)
    # The last policy was Dual, whose first head is in the middle and passes activations on.
    assert out.search_tree.embeddings.activations.shape == (len(plays), 71, 8)


def early_search(num_blocks: int, head_depths: tuple[int, ...], policy: Any) -> tuple[Any, Any]:
    """Returns a search in Connect2 and its arguments."""
    states = states_of(CONNECT2, (), (1,), (0, 3))
    network = make_network(4, (1,), width=8, num_blocks=num_blocks, head_depths=head_depths)
    params = network.init(jax.random.key(0), states.observation)
    draws = np.random.default_rng(1)
    params = jax.tree.map(lambda x: x + draws.normal(0, 0.5, x.shape).astype("f"), params)
    return make_search_fn(CONNECT2, network, policy), (params, jax.random.key(2), states)


EARLY = AlphaZero(9, head=0).for_evaluation()


@pytest.mark.slow
def test_alphazero_with_early_head_equals_dual_without_large_tree() -> None:
    dual = Dual((9, 0), action_weights="small_visits").for_evaluation()
    one, other = (
        fast_jit(search)(*inputs)
        for search, inputs in (early_search(3, (1, 3), x) for x in (EARLY, dual))
    )
    np.testing.assert_array_equal(one.action_weights, other.action_weights)
    # One search keeps activations, so the network's sums may differ in the last bit.
    equal = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-6)
    jax.tree.map(equal, one.search_tree.stats, other.search_tree.stats)
    by_final = AlphaZero(9, head=-1).for_evaluation()
    search, inputs = early_search(3, (1, 3), by_final)
    assert (fast_jit(search)(*inputs).action_weights != one.action_weights).any()


@pytest.mark.slow
def test_early_head_does_not_compute_later_blocks() -> None:
    """Compares values and the cost before compilation, which could drop unused operations."""
    search, (params, *rest) = early_search(3, (1, 3), EARLY)

    def spoil(path: Any, x: jax.Array) -> jax.Array:
        is_later = any(part in str(path) for part in ("blocks_1", "blocks_2", "heads_1"))
        return jnp.full_like(x, jnp.nan) if is_later else x

    spoiled = jax.tree_util.tree_map_with_path(spoil, params)
    assert sum(bool(jnp.isnan(x).any()) for x in jax.tree.leaves(spoiled)) > 4
    expected, found = (fast_jit(search)(x, *rest).action_weights for x in (params, spoiled))
    np.testing.assert_array_equal(found, expected)

    def flops(num_blocks: int, head_depths: tuple[int, ...], policy: Any) -> float:
        search, inputs = early_search(num_blocks, head_depths, policy)
        return jax.jit(search).lower(*inputs).cost_analysis()["flops"]

    assert flops(3, (1, 3), EARLY) == flops(1, (1,), EARLY)
    assert flops(3, (1, 3), EARLY) < flops(3, (1, 3), AlphaZero(9).for_evaluation())
