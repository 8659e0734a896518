"""The model: signs, masks, terminal states, and the content of embeddings."""

import functools
import re
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from double_move import DoubleMoveNim
from dualmctx import AlphaZero, Dual, make_model, make_network, make_search_fn
from dualmctx.models.game_model import mask_illegal, reward_and_discount
from dualmctx.types import Traits
from untrained import random_params


@functools.cache
def jitted(env: Any) -> tuple[Any, Any, Any]:
    """Returns init, step, and step of a batch."""
    return jax.jit(env.init), jax.jit(env.step), jax.jit(jax.vmap(env.step))


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
    params = random_params(network, states.observation.shape[1:])
    return network, params, make_model(env, network, **options)


TIC_TAC_TOE, CONNECT2, DOUBLE = games.make("tic_tac_toe"), games.make("connect2"), DoubleMoveNim()
# Game, previous moves, the move; the reward and the discount of its edge.
EDGES = {
    "players alternate": (TIC_TAC_TOE, (), 4, 0, -1),
    "the second player wins": (TIC_TAC_TOE, (0, 3, 1, 4, 8), 5, 1, 0),
    "a draw": (TIC_TAC_TOE, (0, 1, 2, 4, 3, 5, 7, 6), 8, 0, 0),
    "the mover goes again": (DOUBLE, (), 1, 0, 1),
    "then the other one": (DOUBLE, (1,), 0, 0, -1),
    "the last stone wins": (DOUBLE, (1, 1, 1), 1, 1, 0),
    "a finished game": (TIC_TAC_TOE, (0, 3, 1, 4, 2), 7, 0, 0),
}


@functools.cache
def starts() -> Any:
    """Returns four first positions of Connect2."""
    return states_of(CONNECT2, (), (), (), ())


@functools.cache
def initial_params(network: Any) -> Any:
    return network.init(jax.random.key(0), starts().observation)


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
    states = starts() if states is None else states
    if isinstance(params, str) and not isinstance(network, type):
        params = initial_params(network)
    rng_key = jax.random.key(0) if rng_key is None else rng_key
    search = make_search_fn(env, network, AlphaZero(4) if policy is None else policy)
    return jax.eval_shape(lambda: search(params, rng_key, states))


WRONG: dict[str, Any] = {
    "env is 'connect2'; pass a game": lambda: {"env": "connect2"},
    "network is the class Network; pass a network": lambda: {
        "network": type(make_network(4, (8,)))
    },
    "policy is the class AlphaZero; pass a policy": lambda: {"policy": AlphaZero},
    "params is None; pass those of network.init": lambda: {"params": None},
    r"params do not fit .* \(8, 8\), .* \(8, 9\); pass": lambda: {
        "params": initial_params(make_network(4, (8,), width=9))
    },
    "rng_key is 0; pass a key": lambda: {"rng_key": 0},
    r"rng_key is an array of float32 .* \[2\]; pass a key": lambda: {"rng_key": jnp.zeros(2)},
    r"rng_key has the shape \[4, 2, 2\]; pass": lambda: {
        "rng_key": jnp.zeros((4, 2, 2), jnp.uint32)
    },
    "rng_key has 3 keys for 4 positions": lambda: {
        "rng_key": jax.random.split(jax.random.key(0), 3)
    },
    r"logits have the shape \[4, 5\]; .* must be \[4, 4\]": lambda: {
        "network": make_network(5, (8,), width=8)
    },
    r"legal_action_mask has the shape \[4\], not \[B, A\]": lambda: {
        "states": CONNECT2.init(jax.random.key(0))
    },
    "the states have 9 actions, but the game has 4": lambda: {
        "states": states_of(TIC_TAC_TOE, (), ())
    },
    "the states are of type list; pass states of the game": lambda: {"states": [1, 2]},
}


@pytest.mark.slow
def test_wrong_arguments_of_a_search_are_named() -> None:
    for message, arguments in WRONG.items():
        with pytest.raises(ValueError, match=message) as caught:
            search_connect2(**arguments())
        assert len(str(caught.value)) < 400


@pytest.mark.slow
def test_right_arguments_of_a_search_are_accepted() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    states = jax.tree.map(np.asarray, states_of(CONNECT2, (), (0,), (0, 1), ()))
    for rng_key in (jax.random.PRNGKey(0), keys, jax.random.key_data(keys)):
        assert search_connect2(rng_key=rng_key, states=states).action.shape == (4,)


def test_the_phases_of_a_policy_that_only_runs_as_a_whole_are_refused() -> None:
    class Whole:
        num_simulations, heads, traits = 4, (-1,), Traits()

    search = make_search_fn(CONNECT2, make_network(4, (8,), width=8), cast(Any, Whole()))
    with pytest.raises(ValueError, match=r"^Whole has no phases, .* init, step and output"):
        search.init(None, jax.random.key(0), None)


def test_a_missing_block_is_named_also_if_only_a_later_head_needs_it() -> None:
    network = make_network(4, (8,), width=8, num_blocks=2)
    whole = network.init(jax.random.key(0), jnp.zeros((1, 8)))["params"]
    params = {"params": {name: x for name, x in whole.items() if name != "blocks_1"}}
    with pytest.raises(ValueError, match=r'params do not fit .*"/blocks_1'):
        search_connect2(network=network, policy=Dual((3, 2), 2), params=params)


@pytest.mark.parametrize("name", EDGES)
def test_edge_signs(name: str) -> None:
    env, moves, move, reward, discount = EDGES[name]
    before = states_of(env, moves, moves, moves)
    after = jitted(env)[2](before, jnp.full(3, move))
    # With one identity of the first player, a mix-up would not be seen.
    assert set(before.current_player.tolist()) == {0, 1}
    actual = reward_and_discount(before, after)
    assert [x.tolist() for x in actual] == [[reward] * 3, [discount] * 3]
    assert all(x.dtype == jnp.float32 for x in actual)


@pytest.mark.slow
def test_recurrent_fn_at_the_end_of_a_game() -> None:
    env = TIC_TAC_TOE
    states = states_of(env, (0, 3, 1, 4), (0, 3, 1, 4), (0, 3, 1, 4, 8))
    _, params, model = setup(env, states, heads=(0, -1))
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("is_separate", [False, True], ids=["shared", "separate"])
def test_each_function_uses_its_head(is_separate: bool) -> None:
    states = states_of(CONNECT2, (), (0,))
    options = {"width": 8, "num_blocks": 3, "num_heads": 3, "separate_trunks": is_separate}
    network = make_network(4, (1,), **options)
    params = random_params(network, states.observation.shape[1:])
    expected = [output.value for output in network.apply(params, states.observation)]
    for heads in ((0, 1, 2), (0, 1, -1), (1, 2, 0)):
        model = make_model(CONNECT2, network, heads=heads)
        root = model.root_fn(params, states)
        assert (root.embedding.activations is None) == is_separate
        values = [root.value, *(fn(params, None, root.embedding)[1] for fn in model.refine_fn)]
        for head, value in zip(heads, values, strict=True):
            np.testing.assert_allclose(value, expected[head], atol=1e-5)
    early = make_model(CONNECT2, network, heads=(0,))
    assert early.refine_fn is None
    # The early head costs as much as in a network that ends there.
    small = make_network(4, (1,), width=8, num_blocks=network.head_depths[0])
    alone = make_model(CONNECT2, small)
    small_params = random_params(small, states.observation.shape[1:])
    costs = [
        str(jax.make_jaxpr(model.root_fn)(params, states)).count("dot_general")
        for model, params in ((early, params), (alone, small_params))
    ]
    assert costs[0] == costs[1] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "stored"),
    [
        # Heads and whether to keep activations; the dtype of those in the embedding.
        ({"heads": (0, -1)}, "float32"),
        ({"heads": (0, -1), "activations_dtype": jnp.bfloat16}, "bfloat16"),
        ({"heads": (0, -1), "keep_activations": False}, None),
        ({"heads": (0,)}, None),
        ({"heads": (1, 0)}, None),
    ],
)
def test_embeddings_hold_activations_for_a_later_head_and_no_observation(
    options: dict[str, Any], stored: str | None
) -> None:
    states = states_of(CONNECT2, (), (0,))
    network, params, model = setup(CONNECT2, states, **options)
    root = model.root_fn(params, states)
    _, embedding = jax.eval_shape(
        model.recurrent_fn, params, None, jnp.array([1, 2]), root.embedding
    )
    for one in (root.embedding, embedding):
        assert one.state.observation is None
        assert (one.activations is None) == (stored is None)
    if stored is not None:
        assert (embedding.activations.shape, embedding.activations.dtype) == ((2, 8), stored)
    if len(options["heads"]) == 1:
        return
    # The later head gives the same, rounded if its activations are.
    output = network.apply(params, states.observation)[options["heads"][1]]
    expected = mask_illegal(output.logits, states.legal_action_mask), output.value
    atol = 0.02 if stored == "bfloat16" else 1e-5
    for one, other in zip(model.refine_fn(params, None, root.embedding), expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=atol, atol=atol)
        assert (one != other).any() or stored != "bfloat16"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": (-3,)}, "head_depths is 1 2; it must name at least 3 depths"),
        ({"heads": ()}, "heads is (); it must name one head or more, each once"),
        ({"heads": (1, -1)}, "heads is (1, -1); it must name one head or more, each once"),
        ({"activations_dtype": "int8"}, "activations_dtype is int8; it must be a floating type"),
        ({"compact_states": 1}, "compact_states is 1; it must be True or False"),
    ],
)
def test_wrong_options_of_a_model_are_refused(options: dict[str, Any], words: str) -> None:
    network = make_network(4, (1,), width=8, num_blocks=2)
    with pytest.raises(ValueError, match=re.escape(words)):
        make_model(CONNECT2, network, **options)


@pytest.mark.slow
def test_a_wrong_number_of_actions_is_found_while_jax_traces() -> None:
    states = states_of(TIC_TAC_TOE, (), ())
    _, params, model = setup(TIC_TAC_TOE, states)
    embedding = model.root_fn(params, states).embedding
    with pytest.raises(AssertionError, match="shape"):
        jax.eval_shape(model.recurrent_fn, params, None, jnp.zeros(3, jnp.int32), embedding)
