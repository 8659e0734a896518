"""Calls of policies: wrong arguments and results are named, and embeddings have any shape."""

import collections
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

from dualmctx import AlphaGo, with_options
from dualmctx.errors import UserError
from dualmctx.policies import REGISTRY

B, A = 2, 3
LOGITS, VALUE = jnp.zeros((B, A)), jnp.zeros(B)
ROOT = mctx.RootFnOutput(prior_logits=LOGITS, value=VALUE, embedding=jnp.zeros(B, jnp.int32))
Half = collections.namedtuple("Half", "value reward")
BUDGETS = {"dual": (4, 3), "chain": (4, 3, 2), "mpv": (4, 3)}


def policy_of(name: str, **options: Any) -> Any:
    rounds = {"num_rounds": 2} if name in ("dual", "chain") else {}
    calm = {"rollout_mix": 0.0} if name == "alphago" else {}
    cls: Any = REGISTRY[name].policy
    return with_options(cls(num_simulations=BUDGETS.get(name, 5), **rounds, **calm), **options)


POLICIES = {name: policy_of(name) for name in REGISTRY}
POLICIES |= {
    "alphazero, leaves": policy_of("alphazero", leaves_per_step=2),
    "alphazero, children": policy_of("alphazero", max_children=2),
    "dual, children": policy_of("dual", max_children=2),
    "muzero, window": policy_of("muzero", window=2),
}
# One of each way to search; the checks are shared, and so are their tests of results.
FEW = ("gumbel", "alphazero, leaves", "alphazero, children", "dual, children")


def recurrent_fn(params: Any, rng_key: Any, action: Any, embedding: Any, **changes: Any) -> Any:
    size = action.shape[0]
    step = mctx.RecurrentFnOutput(
        prior_logits=jnp.zeros((size, A)) + 0.1 * jnp.arange(A),
        value=0.1 * action.astype(jnp.float32),
        reward=jnp.zeros(size),
        discount=-jnp.ones(size),
    )
    return step.replace(**changes), embedding


def refine_fn(params: Any, rng_key: Any, embedding: Any) -> Any:
    size = jax.tree.leaves(embedding)[0].shape[0]
    return jnp.zeros((size, A)), jnp.zeros(size)


def later(policy: Any, function: Any = refine_fn) -> Any:
    number = len(policy.heads) - 1
    return (function,) * number if number > 1 else function if number else None


def call(policy: Any, root: Any = ROOT, step: Any = recurrent_fn, **named: Any) -> Any:
    """Calls a policy without running it; returns the shapes of its output."""
    refine = named.pop("refine_fn", later(policy))
    key = named.pop("rng_key", jax.random.key(0))
    return jax.eval_shape(lambda: policy(None, key, root, step, refine, **named))


def assert_refused(sentence: str, function: Any, error: type = UserError) -> None:
    with pytest.raises(error) as info:
        function()
    message = str(info.value).split("\n-----")[0]
    assert sentence in message
    assert "\n" not in message


@pytest.mark.parametrize("name", FEW)
def test_numbers_in_place_of_functions_are_refused(name: str) -> None:
    policy = POLICIES[name]
    assert_refused("recurrent_fn is 32; it must be a function", lambda: call(policy, step=32))
    for wrong in ("refine", [refine_fn], (refine_fn, 3), (), jnp.zeros(2), True):
        assert_refused("refine_fn is ", lambda wrong=wrong: call(policy, refine_fn=wrong))


def test_the_fifth_argument_of_mctx_is_a_field() -> None:
    policy, key = POLICIES["gumbel"], jax.random.key(0)
    sentence = "refine_fn is 32; it must be left out in Gumbel, which evaluates one head; "
    sentence += "the number of simulations is a field: Gumbel(num_simulations=32)"
    assert_refused(sentence, lambda: policy(None, key, ROOT, recurrent_fn, 32))
    sentence = "Gumbel: too many positional arguments; the arguments are params, rng_key, root, "
    assert_refused(sentence, lambda: policy(None, key, ROOT, recurrent_fn, 32, None), TypeError)
    sentence = "; the number of simulations is a field: Gumbel(num_simulations=...)"
    assert_refused(sentence, lambda: call(policy, refine_fn=jnp.int32(32)))


@pytest.mark.parametrize("name", POLICIES)
def test_no_function_is_ignored(name: str) -> None:
    policy = POLICIES[name]
    kind, number = type(policy).__name__, len(policy.heads) - 1
    if number == 0:
        sentence = f"refine_fn is of type function; it must be left out in {kind}"
        assert_refused(sentence, lambda: call(policy, refine_fn=refine_fn))
        return
    assert_refused("refine_fn is None; it must be a", lambda: call(policy, refine_fn=None))
    many = (refine_fn,) * (number + 1)
    assert_refused(f"refine_fn is {number + 1} functions", lambda: call(policy, refine_fn=many))
    if number == 1:  # As a tuple of one, too.
        assert call(policy, refine_fn=(refine_fn,)).action.shape == (B,)


def test_rollouts_are_played_or_refused() -> None:
    def rollout_fn(params: Any, rng_key: Any, embedding: Any) -> Any:
        return jnp.zeros(embedding.shape)

    mixed, plain = AlphaGo(3), AlphaGo(3, rollout_mix=0.0)
    assert call(mixed, rollout_fn=rollout_fn).action.shape == (B,)
    assert_refused("rollout_fn is None; it must be a function that plays", lambda: call(mixed))
    for policy in (plain, POLICIES["gumbel"]):
        kind = type(policy).__name__
        assert_refused(
            f"rollout_fn is of type function; it must be left out in {kind}",
            lambda policy=policy: call(policy, rollout_fn=rollout_fn),
        )
    assert_refused("rollout_fn is 3", lambda: call(mixed, rollout_fn=3))
    assert_refused(
        "the result of rollout_fn is an array of float32 with the shape [2, 1]; it must be",
        lambda: call(mixed, rollout_fn=lambda *_: jnp.zeros((B, 1))),
    )


@pytest.mark.parametrize("name", POLICIES)
def test_options_in_a_call_are_told_where_they_go(name: str) -> None:
    policy = POLICIES[name]
    kind = type(policy).__name__
    for option in ("max_depth", "temperature", "loop_fn"):
        wrong = functools.partial(call, policy, **{option: 3})
        sentence = f"{kind}: got an unexpected keyword argument '{option}'; the arguments are param"
        assert_refused(sentence, wrong, TypeError)
        if option != "loop_fn" and (option, kind) != ("temperature", "Gumbel"):
            sentence = f"{option} is an option: with_options({kind}(), {option}=...)"
            assert_refused(sentence, wrong, TypeError)


OUTPUT = mctx.PolicyOutput(action=VALUE, action_weights=LOGITS, search_tree=None)
WRONG = [
    ("rng_key", 0, "rng_key is 0; pass a key"),
    ("rng_key", jax.random.split(jax.random.key(0), 3), "rng_key has 3 keys for 2 positions"),
    ("rng_key", jnp.zeros((2, 2, 2), jnp.uint32), "rng_key has the shape [2, 2, 2]"),
    ("rng_key", jax.random.PRNGKey(0, impl="rbg"), "rng_key has the shape [4]; pass a key"),
    ("rng_key", jnp.zeros(2), "rng_key is an array of float32"),
    ("invalid_actions", jnp.zeros(A, bool), "is an array of bool with the shape [3]; it must be"),
    ("invalid_actions", jnp.zeros((1, A)), "the shape [2, 3], for 2 positions and 3 actions"),
    ("invalid_actions", [[True] * A] * B, "invalid_actions is of type list; it must be"),
    ("search_tree", 32, "search_tree is 32; it must be a tree of dualmctx.get_subtree"),
    ("search_tree", OUTPUT, "get_subtree, as in output.search_tree"),
]


@pytest.mark.parametrize("name", FEW)
def test_other_arguments_of_a_wrong_type_are_named(name: str) -> None:
    policy = POLICIES[name]
    tree = call(policy).search_tree  # Of a policy that keeps none.
    for argument, value, sentence in [*WRONG, ("search_tree", tree, "search_tree is given, but")]:
        assert_refused(sentence, functools.partial(call, policy, **{argument: value}))


def changed(root: Any = ROOT, **changes: Any) -> Any:
    return root.replace(**changes)


# The field of the root, its wrong value, and the message after the field's name.
ROOTS = [
    ("prior_logits", jnp.zeros(A), "is an array of float32 with the shape [3]; it must be"),
    ("prior_logits", jnp.zeros((B, 0)), "is an array of float32 with the shape [2, 0]"),
    ("prior_logits", jnp.zeros((0, A)), "an array of the shape [B, A], both at least 1"),
    ("prior_logits", jnp.zeros((B, A), jnp.int32), "it must be an array of a floating type"),
    ("value", jnp.zeros((B, 1)), "must be an array of numbers of the shape [2], for 2 positions"),
    ("value", 0.0, "is 0.0"),
    ("embedding", jnp.zeros(3), "shape [3]; it must be an array with the leading axis 2"),
    ("embedding", {"x": (VALUE, jnp.float32(1))}, "is an array of float32 with the shape []"),
]


@pytest.mark.parametrize("name", FEW)
def test_wrong_roots_are_named(name: str) -> None:
    policy = POLICIES[name]
    assert_refused("root is of type tuple; it must", lambda: call(policy, (VALUE, VALUE)))
    for field, value, message in ROOTS:
        root = changed(**{field: value})
        part = "['x'][1]" if isinstance(value, dict) else ""
        assert_refused(f"{field}{part} of root ", lambda root=root: call(policy, root))
        assert_refused(message, lambda root=root: call(policy, root))


def returning(result: Any) -> Any:
    """Returns a `recurrent_fn` whose result is `result(output, embedding)`."""
    return lambda *args: result(*recurrent_fn(*args))


def with_field(field: str, change: Any) -> Any:
    """Returns a `recurrent_fn` with another field in its output."""
    return returning(lambda step, new: (step.replace(**{field: change(getattr(step, field))}), new))


def with_leaf(name: str, change: Any) -> Any:
    """Returns a `recurrent_fn` with another array in its embedding, a dictionary."""
    return returning(lambda step, new: (step, new | {name: change(new[name])}))


WIDE = changed(embedding={"x": jnp.zeros((B, 4)), "y": jnp.zeros(B, jnp.int32)})
PAIR = changed(embedding=(VALUE, VALUE))
COLUMN = with_field("value", lambda x: x[:, None])
ARRAY = "recurrent_fn is an array of float32 with the shape"
STEPS = [
    (ROOT, returning(lambda step, _: step), "the result of recurrent_fn is of type RecurrentFn"),
    (ROOT, returning(lambda *x: (x, x[1])), "the output of recurrent_fn is of type tuple; it mu"),
    (ROOT, returning(lambda x, new: (Half(x.value, x.reward), new)), "is of type Half; it must"),
    (ROOT, COLUMN, f"value of {ARRAY}"),
    (ROOT, with_field("discount", lambda x: x * 1j), "discount of recurrent_fn is an array of c"),
    (ROOT, with_field("prior_logits", lambda x: x.astype(int)), "is an array of int32 with the"),
    (WIDE, returning(lambda step, _: (step, None)), "no array against ['x'], ['y']; return the"),
    (PAIR, returning(lambda step, new: (step, list(new))), "PyTreeDef([*, *]) against PyTreeD"),
    # A narrower row would be written to a part of the stored one.
    (WIDE, with_leaf("x", lambda x: x[:, :2]), f"embedding['x'] of {ARRAY}"),
    (WIDE, with_leaf("y", lambda x: x[:, None]), "embedding['y'] of recurrent_fn is an array o"),
    (WIDE, with_leaf("y", lambda x: x * 0.5), "['y'] of recurrent_fn is float32, but the root"),
    *(
        (
            changed(embedding=jnp.zeros(B, old)),
            returning(lambda step, embedding, new=new: (step, embedding.astype(new))),
            f"embedding of recurrent_fn is {new}, but the root's is {old}; return",
        )
        for new, old in (("float32", "bfloat16"), ("uint32", "int32"))
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_wrong_results_of_recurrent_fn_are_named(name: str) -> None:
    # All policies share the check, so the whole table runs with one of them.
    for root, step, sentence in STEPS[: None if name == "dual, children" else 3]:
        assert_refused(sentence, lambda root=root, step=step: call(POLICIES[name], root, step))


REFINED: dict[str, Any] = {
    "the result of refine_fn is an array of float32": lambda logits, value: value,
    "prior_logits of refine_fn is an array of": lambda logits, value: (logits[:, 1:], value),
    "value of refine_fn is an array of float32": lambda logits, value: (logits, value[:, None]),
}


def test_an_output_may_be_of_another_type_with_the_same_fields() -> None:
    names = ("reward", "discount", "prior_logits", "value")
    own = collections.namedtuple("Own", names)
    step = returning(lambda step, new: (own(*(getattr(step, x) for x in names)), new))
    assert call(POLICIES["gumbel"], step=step).action.shape == (B,)


def test_embeddings_may_be_of_a_narrower_type_or_of_numpy() -> None:
    """NumPy's 64 bits count as the 32 that JAX makes of them."""
    numbers = jnp.zeros(B, jnp.int32)
    root = changed(embedding={"x": jnp.zeros(B), "y": numbers, "z": numbers})
    new = {"x": np.zeros(B), "y": np.zeros(B, np.int64), "z": jnp.zeros(B, bool)}
    step = returning(lambda step, _: (step, new))
    output = call(POLICIES["muzero"], root, step)
    stored = jax.tree.map(lambda x: x.dtype, output.search_tree.embeddings)
    assert stored == {"x": jnp.float32, "y": jnp.int32, "z": jnp.int32}


@pytest.mark.parametrize("name", ["chain", "dual, children"])
def test_wrong_results_of_refine_fn_are_named(name: str) -> None:
    policy = POLICIES[name]
    for sentence, change in REFINED.items():
        refine = later(policy, lambda *args, change=change: change(*refine_fn(*args)))
        assert_refused(sentence, lambda refine=refine: call(policy, refine_fn=refine))


EMBEDDINGS = {
    "empty": jnp.zeros((B, 0, 3)),
    "scalar": jnp.zeros(B),
    "bool": jnp.zeros((B, 2), bool),
    "keys": jax.random.split(jax.random.key(3), B),
    "array of keys": jax.random.split(jax.random.key(3), (B, 2)),
    "16 bits": jnp.zeros((B, 2), jnp.bfloat16),
    "no array": None,
}


@pytest.mark.parametrize("name", FEW)
def test_embeddings_have_any_shape(name: str) -> None:
    policy, root = POLICIES[name], changed(embedding=EMBEDDINGS)
    mask = np.zeros((B, A), np.int8)  # Of any kind of numbers.
    output = call(policy, root, invalid_actions=mask)
    num_nodes = output.search_tree.num_nodes
    assert len(jax.tree.leaves(output.search_tree.embeddings)) >= len(EMBEDDINGS) - 1
    chex.assert_tree_shape_prefix(output.search_tree.embeddings, (B, num_nodes))


@pytest.mark.parametrize("name", ["gumbel", "muzero", "alphazero, leaves"])
def test_an_embedding_may_have_no_array(name: str) -> None:
    assert call(POLICIES[name], changed(embedding=None)).action.shape == (B,)
