"""A search in parts: the division of its steps changes nothing, and the end is that of a call."""

import functools
from typing import Any

import jax
import numpy as np
import pytest

import dualmctx
import games
import hash_model
from dualmctx import MPV, AlphaGo, AlphaZero, Chain, Contempt, Dual, Gumbel, MuZero, with_options
from oracle.cases import RULES, assert_same, fast_jit
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
    "few children": with_options(AZ, max_children=3, regularized=("act", "search")),
    "second opinion": AlphaZero(N, head=0, root_head=-1, reuse_capacity=3),
    "gumbel": Gumbel(N),
    "muzero": MuZero(N),
    "contempt": Contempt(N, 2),
    "alphago": AlphaGo(N),
    "chain": Chain((6, 4, 3), 2),
    "mpv": MPV((8, 4)),
}
# The last one asks for more steps than there are.
SPLITS = ((1,) * N, (3, 1, N), (N - 1, N))


def rollout_fn(rules: Any, rng_key: Any, embedding: Any) -> Any:
    """Returns outcomes from -1 to 1, by the key."""
    del rules
    shape = embedding.state.shape
    if jax.numpy.ndim(rng_key) > 1:
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

    def run(function: Any, rules: Any) -> Any:
        arguments = np.arange(B), A
        return hash_model.search(
            function, rules, KEY, *arguments, invalid_actions=invalid, **options
        )

    called = fast_jit(functools.partial(run, policy))(RULE)
    begin = fast_jit(functools.partial(run, Bound(policy.init, policy.heads)))
    step, look = fast_jit(policy.step), fast_jit(policy.output)
    expected = look(step(RULE, begin(RULE), N))
    # XLA may round two programs differently.
    assert_same(expected, called)
    for split in SPLITS:
        state = begin(RULE)
        assert int(np.max(state.done)) == 0
        for number in split:
            state = step(RULE, state, number)
            look(state)
        assert (np.asarray(state.done) == state.num_steps).all()
        assert_equal(look(state), expected)


class Bound:
    """A phase of a policy, which `hash_model.search` calls like the policy."""

    def __init__(self, function: Any, heads: Any) -> None:
        self.function, self.heads = function, heads

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def test_a_part_of_a_search_is_the_shorter_search() -> None:
    """AlphaZero reads its budget nowhere, so 5 of 14 simulations are a search of 5."""
    env = games.make("nim")
    states = jax.vmap(env.init)(jax.random.split(KEY, 2))
    network = dualmctx.make_network(env.num_actions, (1,), width=4, num_blocks=1, trunk="mlp")
    params = network.init(KEY, states.observation)
    long, short = (AlphaZero(x, execution=dualmctx.Execution(max_depth=N)) for x in (N, 5))
    search = dualmctx.make_search_fn(env, network, long)
    jit: Any = jax.jit
    init, output = jit(search.init), jit(search.output)
    step, state = jit(search.step, donate_argnums=1), init(params, KEY, states)
    for done in range(5):
        assert int(state.done) == done
        state = step(params, state)
    found = output(state)
    expected = jax.jit(dualmctx.make_search_fn(env, network, short))(params, KEY, states)
    assert_same(found.action, expected.action)
    assert_same(found.action_weights, expected.action_weights)
    assert_same(output(step(params, state, 100)), jax.jit(search)(params, KEY, states))
    # Another search of the same kind compiles nothing.
    output(step(params, init(params, KEY, states)))
    assert (step._cache_size(), output._cache_size()) == (2, 1)  # The number may be traced.
