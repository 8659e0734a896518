"""Other settings of JAX, other dtypes, and networks with non-finite output."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import hash_model
from dualmctx import AlphaZero, Dual, Execution, Puct, get_subtree, make_network
from dualmctx.evaluation.evaluations import by_search, make_evaluate_batch
from dualmctx.models.search_fn import make_search_fn
from dualmctx.policies import REGISTRY
from dualmctx.search.select import argmax
from dualmctx.search.tree import is_finite
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import make_trainer
from dualmctx.types import Embedding, acting_weights
from oracle.cases import CALM, RULES, jax_settings
from oracle.compare import assert_twin_agrees
from policy_table import POLICIES

A = 7
# Options that the table of all policies does not cover.
MORE = {
    "leaves": AlphaZero(64, execution=Execution(leaves_per_step=5, virtual_loss=2, max_children=4)),
    "regularized search": AlphaZero(64, puct=Puct(regularized=("search",))),
    "kept": AlphaZero(16, reuse_capacity=8),
}
ALL = POLICIES | MORE


def search(policy: Any, rng_key: Any, *, dtype: Any = jnp.float32, **kept: Any) -> Any:
    """Searches the hash game with a network whose outputs have a given dtype."""
    batch = 4

    def cast(output: Any) -> Any:
        logits, value = output.prior_logits, output.value
        return output.replace(prior_logits=lower(logits), value=value.astype(dtype))

    def recurrent_fn(*args: Any) -> tuple:
        step, embedding = hash_model.recurrent_fn(*args, num_actions=A)
        return cast(step), embedding

    def lower(logits: Any) -> Any:
        return jnp.maximum(logits, float(jnp.finfo(dtype).min)).astype(dtype)

    def refine_by(refine_fn: Any) -> Any:
        def refine(*args: Any) -> tuple:
            logits, value = refine_fn(*args)
            return lower(logits), value.astype(dtype)

        return refine

    rules = hash_model.Rules()
    root = cast(hash_model.roots(jnp.arange(batch), rules, A))
    later = jax.tree.map(refine_by, hash_model.refine_fns(len(policy.heads), A))
    invalid = jnp.asarray(np.arange(batch * A).reshape(batch, A) % 5 == 1)
    options = {"invalid_actions": invalid, **rollouts(policy), **kept}
    return policy(rules, rng_key, root, recurrent_fn, later, **options)


def rollouts(policy: Any) -> dict[str, Any]:
    def lose(params: Any, rng_key: Any, embedding: Any) -> Any:
        return jnp.zeros(jax.tree.leaves(embedding.state)[0].shape, jnp.float32)

    return {"rollout_fn": lose} if hasattr(policy, "rollout_policy") else {}


def dtypes_under_settings(function: Any) -> set[str]:
    """Traces a function under JAX's settings; returns the dtypes of its results.

    The setting "strict" refuses operations on two types.
    """
    with jax_settings(), jax.numpy_dtype_promotion("strict"):
        return {x.dtype.name for x in jax.tree.leaves(jax.eval_shape(function))}


# A dtype that follows from the default has 64 bits under the settings.
LONG = {"int64", "uint64", "float64"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*REGISTRY, *MORE, "options", "dual few children"])
def test_jax_settings_do_not_change_dtypes(name: str) -> None:
    """Tracing succeeds, and 32-bit types stay 32-bit."""
    policy, keys = ALL[name], jax.random.split(jax.random.key(0), 4)

    def run() -> Any:
        output = search(policy, keys)
        if not (capacity := policy.traits.reuse_capacity):
            return output
        kept = get_subtree(output.search_tree, output.action, reuse_capacity=capacity)
        return search(policy, keys, search_tree=kept)

    found = dtypes_under_settings(run)
    assert "float32" in found
    assert not found & LONG


@pytest.mark.slow
@pytest.mark.parametrize("name", [*REGISTRY, *MORE, "gumbel noisy"])
def test_no_key_is_used_twice(name: str) -> None:
    """`jax_debug_key_reuse` checks a program when it is lowered.

    Every other search has a key for each element of the batch.
    """
    key = jax.random.key(0)
    rng_key = jax.random.split(key, 4) if list(ALL).index(name) % 2 else key
    with jax.debug_key_reuse(True):
        jax.jit(lambda rng_key: search(ALL[name], rng_key)).lower(rng_key)


@pytest.mark.slow
def test_search_matches_twin_under_jax_settings() -> None:
    with jax_settings():
        assert_twin_agrees(Dual((12, 6), 2, **CALM), RULES["same player twice"])


@pytest.mark.slow
def test_training_and_evaluation_are_traced_under_jax_settings() -> None:
    with jax_settings():
        env, policy = games.make("nim", pile=5, max_take=2), Dual((3, 2), 1)
        network = make_network(2, (6,), width=8, num_blocks=2)
        selfplay = SelfPlay(num_games=6, num_steps=5, resign_below=-0.9)
        learner = Learner(batch_size=16, num_updates=2, capacity=100)
        trainer = make_trainer(env, network, policy, selfplay, learner, num_iterations=3)
        params, opt_state, _ = trainer.lower(trainer.shapes).learn.out_info
        found = {x.dtype.name for x in jax.tree.leaves((params, opt_state))}
        assert found == {"float32", "int32"}
        states = jax.eval_shape(jax.vmap(env.init), jax.random.split(jax.random.PRNGKey(0), 4))
        evaluate = make_evaluate_batch(network, by_search(make_search_fn(env, network, policy)))
        digests = jnp.zeros((4, 2), jnp.uint32)
        jax.eval_shape(evaluate, trainer.shapes.params, jax.random.PRNGKey(0), digests, states)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("muzero", jnp.float16), ("alphazero", jnp.bfloat16), ("dual", jnp.bfloat16)],
)
def test_low_precision_search_emits_no_warning(name: str, dtype: Any) -> None:
    output = jax.eval_shape(functools.partial(search, ALL[name], dtype=dtype), jax.random.key(0))
    assert {x.node_stats.dtype for x in output.search_tree.stats} == {jnp.dtype("float32")}


# The fault of one element of the batch: in the logits or the value, at the root or below.
FAULTS = {
    "nothing": (),
    "root logits": ("root logits",),
    "one logit of the root": ("one root logit",),
    "infinite logit of the root": ("infinite root logit",),
    "root value": ("root value",),
    "values below": ("values",),
    "logits below": ("logits",),
    "later heads": ("later",),
    "everything": ("root logits", "root value", "values", "logits", "later"),
    "no legal action": (),
}
KINDS = sorted({kind for kinds in FAULTS.values() for kind in kinds})


def search_with_faults(policy: Any, rng_key: Any) -> tuple[Any, Any]:
    """Searches from a root for each row of `FAULTS`; returns the legal actions and the output.

    The lowest and the highest action are not legal, which are where an argmax ends up.
    """
    rules, number = hash_model.Rules(illegal=0.2, terminal=0.05), len(FAULTS)
    table = jnp.array([[kind in kinds for kind in KINDS] for kinds in FAULTS.values()])
    invalid = jnp.zeros((number, A), bool).at[:, jnp.array([0, 3, A - 1])].set(True)
    invalid = invalid.at[-1].set(True)

    def spoil(faults: Any, kind: str, array: Any, bad: float = jnp.nan) -> Any:
        has_fault = faults[:, KINDS.index(kind)].reshape(-1, *[1] * (array.ndim - 1))
        return jnp.where(has_fault & (array > -1e9), bad, array)

    def wrap(embedding: Embedding, faults: Any) -> Embedding:
        state = {"code": embedding.state, "faults": faults}
        return Embedding(state, {"code": embedding.activations, "faults": faults})

    def recurrent_fn(params: Any, key: Any, action: Any, embedding: Embedding) -> tuple:
        code, faults = embedding.state["code"], embedding.state["faults"]
        step, new = hash_model.recurrent_fn(params, key, action, Embedding(code), A)
        logits = spoil(faults, "logits", step.prior_logits)
        value = spoil(faults, "values", step.value)
        return step.replace(prior_logits=logits, value=value), wrap(new, faults)

    def refine_by(refine_fn: Any) -> Any:
        def refine(params: Any, key: Any, embedding: Embedding) -> tuple:
            kept = embedding.activations
            logits, value = refine_fn(params, key, Embedding(None, kept["code"]))
            return tuple(spoil(kept["faults"], "later", x) for x in (logits, value))

        return refine

    root = hash_model.roots(jnp.arange(number), rules._replace(illegal=0.0), A)
    logits = spoil(table, "root logits", root.prior_logits)
    logits = logits.at[:, 2].set(spoil(table, "one root logit", logits[:, 2]))
    logits = logits.at[:, 4].set(spoil(table, "infinite root logit", logits[:, 4], jnp.inf))
    value = spoil(table, "root value", root.value)
    root = root.replace(prior_logits=logits, value=value, embedding=wrap(root.embedding, table))
    later = jax.tree.map(refine_by, hash_model.refine_fns(len(policy.heads), A))
    output = policy(
        rules, rng_key, root, recurrent_fn, later, invalid_actions=invalid, **rollouts(policy)
    )
    return ~invalid, output


# Each way to select, back up, or read out once; the others are made of the same parts.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["dual window", "options", "leaves", "contempt", "gumbel noisy"])
def test_non_finite_network_selects_no_illegal_action(name: str) -> None:
    policy = ALL[name]

    @jax.jit
    def run(key: Any) -> Any:
        legal, output = search_with_faults(policy, key)
        return legal, output, acting_weights(output), is_finite(output.search_tree)

    legal, output, acting, are_finite = jax.device_get(run(jax.random.key(3)))
    for weights in (output.action_weights, acting):
        assert np.isfinite(weights).all()
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
        assert (np.where(legal, 0, weights)[:-1] == 0).all()
    assert legal[np.arange(len(FAULTS)), output.action][:-1].all()
    assert set(output.action.tolist()) <= set(range(A))
    found = dict(zip(FAULTS, are_finite, strict=True))
    has_later = len(policy.heads) > 1
    sound = {"nothing", "no legal action"} | (set() if has_later else {"later heads"})
    assert {fault for fault, is_right in found.items() if is_right} == sound


def test_masked_argmax_never_selects_masked_entry() -> None:
    nan, inf = np.nan, np.inf
    scores = [
        [-inf, nan, nan, -inf],
        [-inf, nan, -2.0, -inf],
        [-inf, -inf, nan, inf],
        [nan, nan, nan, nan],
        [-inf, -inf, -inf, -inf],
        [0.0, 3.0, 3.0, 1.0],
    ]
    assert argmax(jnp.array(scores)).tolist() == [1, 1, 2, 0, 0, 1]
    names = jnp.array([[9, 7, 5, 3]] * len(scores))
    assert argmax(jnp.array(scores), names).tolist() == [5, 5, 3, 3, 3, 5]


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        AlphaZero(12, execution=Execution(max_children=1)),
        AlphaZero(12, puct=Puct(regularized=("act", "learn"))),
    ],
    ids=["one child", "regularized"],
)
def test_invalid_actions_are_not_chosen_with_any_logits(policy: Any) -> None:
    lowest = float(jnp.finfo(jnp.float32).min)
    invalid = np.arange(A) < 3
    rows = [np.full(A, x) for x in (-np.inf, lowest, 0.0)]
    rows += [np.where(invalid, 0.0, x) for x in (-np.inf, lowest, -1e30)]
    rules = hash_model.Rules()
    roots = hash_model.roots(jnp.arange(len(rows)), rules, A)
    roots = roots.replace(prior_logits=jnp.asarray(rows, jnp.float32))
    arguments = {"invalid_actions": jnp.broadcast_to(invalid, (len(rows), A))}
    run = functools.partial(hash_model.search, policy, rules, num_actions=A, **arguments)
    output = jax.jit(lambda key: run(key, roots))(jax.random.PRNGKey(0))
    weights = np.asarray(output.action_weights)
    assert not invalid[output.action].any()
    assert not weights[:, invalid].any()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "discount_type"), [("leaves", jnp.bfloat16), ("dual", jnp.int32)])
def test_rewards_keep_their_digits_beside_discounts_of_another_type(
    name: str, discount_type: Any
) -> None:
    rules = hash_model.Rules(reward=0.3)
    policy = {
        "leaves": AlphaZero(24, execution=Execution(leaves_per_step=4)),
        "dual": Dual((8, 4), 1),
    }[name]
    later = hash_model.refine_fns(len(policy.heads), A)

    def run(dtype: Any) -> Any:
        def recurrent_fn(*args: Any) -> tuple:
            step, embedding = hash_model.recurrent_fn(*args, num_actions=A)
            return step.replace(discount=step.discount.astype(dtype)), embedding

        root = hash_model.roots(jnp.arange(4), rules, A)
        output = policy(rules, jax.random.key(0), root, recurrent_fn, later)
        return output.search_tree.rewards, output.action_weights

    expected, found = (jax.jit(run, static_argnums=0)(x) for x in (jnp.float32, discount_type))
    assert np.any(np.asarray(expected[0]) % 1 != 0)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.slow
def test_a_later_head_may_be_a_pytree() -> None:
    rules = hash_model.Rules()

    def refine(offset: Any, params: Any, key: Any, embedding: Any) -> tuple:
        logits, value = hash_model.refine_fn(params, key, embedding, A)
        return logits + offset, value

    def run(refine_fn: Any) -> Any:
        root = hash_model.roots(jnp.arange(4), rules, A)
        recurrent_fn: Any = functools.partial(hash_model.recurrent_fn, num_actions=A)
        output = Dual((6, 4), 1)(rules, jax.random.key(0), root, recurrent_fn, refine_fn)
        return is_finite(output.search_tree), output.action_weights

    # One program for all, as only the arrays of the head differ.
    run_jit = jax.jit(run)
    bad, good, other = (
        run_jit(jax.tree_util.Partial(refine, x))
        for x in (np.full(A, np.nan, "f4"), np.zeros(A, "f4"), np.arange(A, dtype="f4"))
    )
    assert not np.any(bad[0])
    assert np.all(good[0])
    assert np.any(np.asarray(good[1]) != other[1])
