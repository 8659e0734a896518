"""Public functions name a wrong argument, and ignore none."""

import functools
import json
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import dualmctx
import games
from dualmctx.errors import UserError
from dualmctx.models import search_memory

ENV = games.make("connect2")
NETWORK = dualmctx.make_network(ENV.num_actions, ENV.observation_shape, width=8, num_blocks=2)
POLICY = dualmctx.AlphaZero(4)
OUTPUT: Any = mctx.PolicyOutput(action=1, action_weights=1, search_tree=1)


@functools.cache
def states() -> Any:
    return jax.vmap(ENV.init)(jax.random.split(jax.random.key(0), 3))


@functools.cache
def params() -> Any:
    return NETWORK.init(jax.random.key(1), states().observation)


def search(policy: Any, search_tree: Any = None, **options: Any) -> Any:
    search_fn = dualmctx.make_search_fn(ENV, NETWORK, policy, **options)
    return jax.eval_shape(search_fn, params(), jax.random.key(0), states(), search_tree)


@functools.cache
def tree_of(policy: Any = POLICY) -> Any:
    return search(policy).search_tree


def network(**options: Any) -> Any:
    arguments: Any = {"num_actions": 3, "observation_shape": (4,)} | options
    return dualmctx.make_network(**arguments)


def subtree(**options: Any) -> Any:
    tree = options.pop("tree", tree_of())
    arguments: Any = {"action": jnp.zeros(3, jnp.int32), "reuse_capacity": 2} | options
    return jax.eval_shape(lambda tree: dualmctx.get_subtree(tree, **arguments), tree)


def summary(policy: Any, tree_index: Any) -> Any:
    return jax.eval_shape(lambda tree: tree.summary(tree_index), tree_of(policy))


def model(**options: Any) -> Any:
    return dualmctx.make_model(ENV, NETWORK, **options)


def load(**options: Any) -> Any:
    return dualmctx.load_evaluator("connect-four", **options)


def evaluator(env: Any = ENV, policy: Any = POLICY, **options: Any) -> Any:
    return dualmctx.make_evaluator(env, NETWORK, params(), policy, **options)


REFUSED: dict[str, Any] = {
    "search_tree is given, but the policy reuses no tree": lambda: search(POLICY, tree_of()),
    "activations_dtype is 16; it must be a floating type": lambda: model(activations_dtype=16),
    "heads is .*; it must name one head or more, each once": lambda: model(heads=(0, True)),
    "num_actions is 0; it must be at least 1": lambda: network(num_actions=0),
    "observation_shape is 4; it must be a tuple": lambda: network(observation_shape=4),
    "tree is of type PolicyOutput; it must be the search_tree": lambda: subtree(tree=OUTPUT),
    "tree_index is 1; it must be 0, as there is one tree": lambda: summary(POLICY, 1),
    "tree_index is 0.0; it must be": lambda: jax.eval_shape(
        lambda tree: dualmctx.to_mctx(tree, tree_index=0.0), tree_of()
    ),
    "backup is 3; it must be of the type Backup": lambda: dualmctx.with_options(
        POLICY, backup=3, window=2
    ),
    r"action is an array of float32 with the shape \[3\]; it must be an array of integers": (
        lambda: subtree(action=jnp.zeros(3))
    ),
    r"action is an array of int32 with the shape \[2\]; it must": lambda: subtree(
        action=jnp.zeros(2, jnp.int32)
    ),
    "is_reset is True; it must be an array of booleans": lambda: subtree(is_reset=True),
    "reuse_capacity is 5; it must be from 1 to the 4 nodes": lambda: subtree(reuse_capacity=5),
    "policy is the class AlphaZero; pass a policy": lambda: evaluator(policy=dualmctx.AlphaZero),
    "policy is of type dict; pass a policy": lambda: dualmctx.evaluate(
        states(), params(), POLICY, env=ENV, network=NETWORK
    ),
    "env is 'connect2'; pass a game": lambda: evaluator("connect2"),
    "batch_size is 2.5; it must be a whole": lambda: evaluator(batch_size=2.5),
    "seed is True; it must be a whole number from 0": lambda: evaluator(seed=True),
    "policy is None; pass a policy": lambda: dualmctx.search_memory(ENV, NETWORK, None, 3),
    "variant is 'dual'; it must be left out with network_only": lambda: load(
        network_only=True, variant="dual"
    ),
    "iteration is -1; it must be at least 0": lambda: dualmctx.make_trained(
        "connect2", NETWORK, params(), POLICY, iteration=-1
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("message", REFUSED)
def test_a_wrong_argument_is_named(message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}") as info:
        REFUSED[message]()
    assert "\n" not in str(info.value).split("\n-----")[0]


@pytest.mark.slow
def test_numbers_of_numpy_are_numbers_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    # It would compile a program.
    monkeypatch.setattr(search_memory, "temporary_bytes", lambda *_: 0)
    made = network(
        num_actions=np.int64(3),
        width=np.int32(8),
        num_blocks=np.int8(4),
        head_depths=np.array([2, 4]),
        observation_shape=(np.int64(4),),
    )
    assert made == network(width=8, num_blocks=4, head_depths=(2, 4))
    assert all(type(x) is int for x in (made.num_actions, made.width, *made.head_depths))
    assert type(network(separate_trunks=True, value_blocks=np.int64(4)).value_depth) is int
    assert {type(x) for x in network(num_heads=np.int64(2)).head_depths} == {int}
    width, shape = {"width": np.int64(8)}, (np.int64(10),)
    own = dualmctx.import_network("own_networks:make_dense", np.int64(3), shape, options=width)
    pile = {"pile": np.int64(9)}
    record = dualmctx.make_trained("nim", own, params(), POLICY, game_parameters=pile).record
    assert json.loads(json.dumps(record)) == record
    assert record["architecture"]["fields"]["num_actions"] == 3
    assert subtree(reuse_capacity=np.int64(2)).num_nodes == 3
    memory = dualmctx.search_memory(ENV, NETWORK, POLICY, np.int64(3))
    assert memory == dualmctx.search_memory(ENV, NETWORK, POLICY, 3)
    assert dualmctx.window_for(np.int64(100), np.int8(9)) == dualmctx.window_for(100, 9)


@pytest.mark.slow
def test_a_kept_tree_is_used_in_each_move_and_may_be_donated() -> None:
    search_fn = dualmctx.make_search_fn(
        ENV, NETWORK, dualmctx.AlphaZero(4, reuse_capacity=np.int64(3))
    )

    @functools.partial(jax.jit, donate_argnums=1)
    def play(state: Any, kept: Any) -> Any:
        output = search_fn(params(), jax.random.key(0), state, kept)
        tree: Any = output.search_tree
        assert tree.num_nodes == 8
        visits = [x.stats[0].node_visits[:, 0] for x in (kept, tree)]
        after = jax.vmap(ENV.step)(state, output.action)
        return after, dualmctx.get_subtree(tree, output.action, reuse_capacity=np.int64(3)), visits

    state, kept = states(), dualmctx.empty_tree(search_fn, params(), states(), reuse_capacity=3)
    for _ in range(2):
        old = kept
        state, kept, (before, after) = play(state, old)
        assert old.children_index.is_deleted()
        np.testing.assert_array_equal(after, 4 + np.maximum(before, 1))
    assert (before > 0).any()
