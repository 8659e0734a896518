"""A search in parts: the division of its steps changes nothing, and the end is that of a call."""

import functools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualmctx
import games
import hash_model
from dualmctx import AlphaGo, AlphaZero, Chain, Contempt, Dual, Gumbel, with_options
from dualmctx.policies import REGISTRY
from dualmctx.policies.root import legal_probabilities
from dualmctx.search import phases
from oracle.cases import RULES, assert_same
from pairwise import quick_first

A, B, N = 5, 4, 14
RULE = RULES["same player twice"]
KEY = jax.random.PRNGKey(2)
AZ = AlphaZero(N)
CASES: dict[str, Any] = {
    "dual": Dual((9, 6), 3),
    "alphazero": AZ,
    "leaves": with_options(AZ, leaves_per_step=3, virtual_loss=1),
    "speculation": with_options(AZ, speculation=3),
    "window": with_options(AZ, window=1, explore_fraction=1.0, explore_decay=1.0),
    "second opinion": AlphaZero(N, head=0, root_head=-1, reuse_capacity=3),
    "gumbel": Gumbel(N),
    "contempt": Contempt(N, 2),
    "alphago": AlphaGo(N),
}
# The last one asks for more steps than there are.
SPLITS = ((1,) * N, (3, 1, N), (N - 1, N))


def rollout_fn(rules: Any, rng_key: Any, embedding: Any) -> Any:
    """Returns outcomes from -1 to 1, by the key."""
    del rules
    shape = embedding.state.shape
    if jnp.ndim(rng_key) > 1:
        return jax.vmap(lambda key: jax.random.uniform(key, (), minval=-1.0))(rng_key)
    return jax.random.uniform(rng_key, shape, minval=-1.0)


def assert_equal(found: Any, expected: Any) -> None:
    """Checks that all numbers are the same; NaN equals NaN."""
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", quick_first(CASES, 1))
def test_every_division_of_the_steps_gives_the_output_of_a_call(name: str) -> None:
    policy = CASES[name]
    options = {"rollout_fn": rollout_fn} if isinstance(policy, AlphaGo) else {}
    invalid = np.zeros((B, A), bool)
    invalid[:, 2] = True

    def run(start: Any, rules: Any) -> Any:
        arguments = policy, rules, KEY, np.arange(B), A
        return start(*arguments, invalid_actions=invalid, **options)

    begin = jax.jit(functools.partial(run, hash_model.begin))
    step, look = jax.jit(policy.step), jax.jit(policy.output)
    expected = look(step(RULE, begin(RULE), N))
    if name == "alphazero":  # Calls are composed of the phases by one function for all policies.
        assert_same(expected, jax.jit(functools.partial(run, hash_model.search))(RULE))
    for split in SPLITS:
        state = begin(RULE)
        assert int(np.max(state.done)) == 0
        for number in split:
            state = step(RULE, state, number)
            look(state)
        assert (np.asarray(state.done) == state.num_steps).all()
        assert_equal(look(state), expected)


STARTS: dict[str, Any] = {name: row.policy() for name, row in REGISTRY.items()} | {
    "chain all": Chain(action_weights="all_visits"),
    "few children": with_options(AZ, max_children=3),
}


@pytest.mark.parametrize("name", quick_first(STARTS, 2))
def test_before_the_first_step_the_weights_are_the_prior(name: str) -> None:
    policy = STARTS[name]
    invalid = np.arange(A) == np.full((B, 1), 2)
    options: Any = {"rollout_fn": rollout_fn} if isinstance(policy, AlphaGo) else {}

    @jax.jit
    def look(rules: Any) -> Any:
        arguments = policy, rules, KEY, np.arange(B), A
        state = hash_model.begin(*arguments, invalid_actions=invalid, **options)
        return state.prior, policy.output(state)

    prior, output = look(RULE)
    weights = np.asarray(output.action_weights)
    logits = hash_model.roots(np.arange(B), RULE, A, np).prior_logits
    is_legal = (logits > -1e9) & ~invalid
    assert (weights[~is_legal] == 0).all()
    assert is_legal[np.arange(B), output.action].all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
    if output.search_tree.prior_is_logits:
        prior = legal_probabilities(prior, output.search_tree.root_invalid_actions)
    found = np.sort(weights)[:, -prior.shape[1] :]  # Actions without a slot have no weight.
    np.testing.assert_allclose(found, np.sort(prior), rtol=1e-5)


def test_numbers_of_steps_may_have_any_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "run_between", lambda params, state, begin, end: end - begin)
    state: Any = SimpleNamespace(done=jnp.int32(20), num_steps=400)
    numbers = [
        np.int8(100),
        np.uint8(200),
        10**10,
        jnp.int8(100),
        jnp.uint8(200),
        jnp.uint32(2**32 - 1),
    ]
    found = [int(jnp.asarray(phases.run_steps(None, state, x))) for x in numbers]
    assert found == [100, 200, 380, 100, 200, 380]


def test_numbers_of_steps() -> None:
    """`None` and large numbers run the rest; the state may be a carry, with a key per element."""
    keys = jax.random.split(KEY, B)
    begin = jax.jit(lambda: hash_model.begin(AZ, RULE, keys, np.arange(B), A))
    step, rest = jax.jit(AZ.step), jax.jit(functools.partial(AZ.step, number=None))
    expected = step(RULE, begin(), N)
    state = step(RULE, begin(), np.int32(3))
    assert int(step(RULE, state, 0).done) == 3
    assert_equal(rest(RULE, state), expected)
    assert_equal(step(RULE, state, 2**31 - 1), expected)
    looped = jax.jit(lambda state: jax.lax.fori_loop(0, 7, lambda _, x: AZ.step(RULE, x, 2), state))
    assert_same(looped(begin()), expected)
    with jax.enable_x64(True):
        assert jax.eval_shape(step, RULE, state, np.int64(2)).done.dtype == np.int32
    wide = jax.eval_shape(lambda x: Dual((6, 4), 2).step(RULE, x, 1), dual_state())
    assert wide.done.dtype == np.int32


def dual_state() -> Any:
    policy = Dual((6, 4), 2)
    return jax.eval_shape(lambda: hash_model.begin(policy, RULE, KEY, np.arange(B), A))


REFUSED: dict[str, Any] = {
    "number is -2; it must be a whole number": lambda state: AZ.step(RULE, state, -2),
    "number is 2.5; it must be": lambda state: AZ.step(RULE, state, 2.5),  # pyright: ignore
    "number is True; it must be": lambda state: AZ.step(RULE, state, True),
    "number is '50'; it must be": lambda state: AZ.step(RULE, state, "50"),  # pyright: ignore
    r"number is an array of int32 with the shape \[1\]": lambda state: AZ.step(
        RULE, state, jnp.ones(1, int)
    ),
    "state is .*; it must be a SearchState of AlphaZero.init": lambda _: AZ.step(RULE, {}),  # pyright: ignore
    "state is that of AlphaZero; it must be a SearchState of Gumbel.init": Gumbel(N).output,
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_arguments_are_refused(message: str) -> None:
    def run() -> Any:
        state = hash_model.begin(AZ, RULE, KEY, np.arange(B), A)
        return REFUSED[message](state)

    with pytest.raises(ValueError, match=f"^{message}"):
        jax.eval_shape(run)


def test_a_part_of_a_search_is_the_shorter_search() -> None:
    """AlphaZero reads its budget nowhere, so 5 of 14 simulations are a search of 5."""
    env = games.make("nim")
    states = jax.vmap(env.init)(jax.random.split(KEY, 2))
    network = dualmctx.make_network(env.num_actions, (1,), width=4, num_blocks=1, trunk="mlp")
    params = network.init(KEY, states.observation)
    long, short = (AlphaZero(x, execution=dualmctx.Execution(max_depth=N)) for x in (N, 5))
    search = dualmctx.make_search_fn(env, network, long)
    init, output = jax.jit(search.init), jax.jit(search.output)
    step, state = jax.jit(search.step, donate_argnums=1), init(params, KEY, states)
    for done in range(5):
        assert int(state.done) == done
        state = step(params, state)
    found = output(state)
    expected = jax.jit(dualmctx.make_search_fn(env, network, short))(params, KEY, states)
    assert_same(found.action, expected.action)
    assert_same(found.action_weights, expected.action_weights)
    # Another search of the same kind compiles nothing.
    output(step(params, init(params, KEY, states)))
    assert (step._cache_size(), output._cache_size()) == (1, 1)
