"""With mctx's rules, the engine gives mctx's trees and moves for the same keys."""

import dataclasses
import functools
import inspect
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import hash_model
from benchmarks.common import search_by_puct
from dualmctx import AlphaZero, Execution, Gumbel, MuZero, Root, to_mctx
from dualmctx.policies import named_options
from dualmctx.policies import root as roots
from dualmctx.search import mctx_adapter
from dualmctx.search.backend import LOOPS
from dualmctx.search.expand import allocate
from dualmctx.search.phases import run_steps, start_search
from dualmctx.search.spec import SearchSpec
from hash_model import Rules
from oracle.cases import grouped, jax_settings
from pairwise import quick_first


class World(NamedTuple):
    """A hash game; `gamma` scales discounts, and `dice` = 1 makes outcomes depend on `rng_key`."""

    rules: Rules
    gamma: float = 1.0
    dice: int = 0


def recurrent_fn(world: World, rng_key: Any, action: Any, embedding: Any) -> tuple:
    dice = jax.random.bits(rng_key, action.shape, jnp.uint32) * jnp.asarray(world.dice, jnp.uint32)
    embedding = dataclasses.replace(embedding, state=embedding.state ^ dice)
    out, embedding = hash_model.recurrent_fn(world.rules, None, action, embedding, A)
    return out.replace(discount=out.discount * world.gamma), embedding


A = 5
ALWAYS = World(Rules(terminal=0.0))
WORLDS = {
    "two players": ALWAYS,
    "two players, rewards": World(Rules(terminal=0.0, reward=0.5, illegal=0.0)),
    "one player": World(Rules(terminal=0.0, same_player=1.0, reward=0.7), gamma=0.9),
    "moves again": World(Rules(terminal=0.0, same_player=0.5, reward=0.3)),
    "all alike": World(Rules(terminal=0.0, spread=0.0, illegal=0.5)),
    "dice": World(Rules(terminal=0.0), dice=1),
}
TERMINAL = (
    World(Rules(terminal=0.4)),
    World(Rules(terminal=0.2, same_player=0.5, reward=0.3), gamma=0.95),
)

_min_max = functools.partial(mctx.qtransform_by_min_max, min_value=-2.0, max_value=2.0)
_completed = functools.partial(
    mctx.qtransform_completed_by_mix_value,
    value_scale=0.3,
    maxvisit_init=10.0,
    rescale_values=False,
    use_mixed_value=False,
)
_siblings = functools.partial(mctx.qtransform_by_parent_and_siblings, epsilon=1e-3)
DEPTH_2, DEPTH_4 = Execution(max_depth=2), Execution(max_depth=4)
# Name: batch size, whether root actions are invalid, and our policy with its options.
ROOT = Root(dirichlet_fraction=0.5, dirichlet_alpha=0.1, temperature=0.3)
OTHER_PUCT: dict[str, Any] = {"qtransform": _min_max, "pb_c_init": 2.0, "pb_c_base": 100.0}
OTHER_GUMBEL: dict[str, Any] = {"max_num_considered_actions": 3, "gumbel_scale": 0.5}
CASES: dict[str, tuple[int, bool, Any]] = {
    "muzero": (3, True, MuZero(24, qtransform=_siblings)),
    "muzero depth 4": (2, True, MuZero(40, root=ROOT, execution=DEPTH_4, **OTHER_PUCT)),
    "gumbel": (3, True, Gumbel(24)),
    "gumbel depth 2": (
        *(4, True),
        Gumbel(17, qtransform=_min_max, execution=DEPTH_2, **OTHER_GUMBEL),
    ),
    "gumbel depth 4": (1, False, Gumbel(32, execution=DEPTH_4, qtransform=_completed)),
}


class Found(NamedTuple):
    """The output of a search, its summary, and its tree as mctx's."""

    output: mctx.PolicyOutput
    summary: Any
    tree: mctx.Tree


def compiled(search: Any) -> Any:
    """Compiles a search with all that is read from it; returns `(*args) -> Found` on the host."""

    def run(*args: Any) -> Found:
        output = search(*args)
        tree = output.search_tree
        return Found(output, tree.summary(), tree if isinstance(tree, mctx.Tree) else to_mctx(tree))

    program = jax.jit(run)
    return lambda *args: jax.device_get(program(*args))


@functools.cache
def searches(case: str) -> tuple[Any, Any]:
    """Returns `(world, key) -> Found` of our search and of mctx's, with equal roots."""
    batch, is_masked, ours = CASES[case]
    invalid = (jnp.arange(batch * A).reshape(batch, A) % 4 == 1) if is_masked else None
    theirs = mctx.muzero_policy if isinstance(ours, MuZero) else mctx.gumbel_muzero_policy
    known = inspect.signature(theirs).parameters
    options = {x: option.value for x, option in named_options(ours).items() if x in known}

    def run_ours(world: World, key: Any) -> mctx.PolicyOutput:
        root = hash_model.roots(jnp.arange(batch), world.rules, A)
        return ours(world, key, root, recurrent_fn, invalid_actions=invalid)

    def run_theirs(world: World, key: Any) -> mctx.PolicyOutput:
        root = hash_model.roots(jnp.arange(batch), world.rules, A)
        return theirs(world, key, root, recurrent_fn, invalid_actions=invalid, **options)

    return compiled(run_ours), compiled(run_theirs)


def assert_close(actual: Any, expected: Any, name: str = "") -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype, name
    if actual.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5, err_msg=name)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=name)


def assert_same_output(ours: Found, theirs: Found) -> None:
    assert_close(ours.output.action, theirs.output.action, "action")
    assert_close(ours.output.action_weights, theirs.output.action_weights, "action_weights")
    mine, mctxs = ours.summary, theirs.summary
    np.testing.assert_array_equal(mine.visit_counts, mctxs.visit_counts)
    for name in ("value", "visit_probs", "qvalues"):
        assert_close(getattr(mine, name), getattr(mctxs, name), name)


@pytest.mark.parametrize("case", quick_first(CASES, 2))
def test_whole_tree_matches_mctx(case: str) -> None:
    for seed, world in enumerate((*WORLDS.values(), *TERMINAL)):
        # At its depth limit, mctx samples the transition again for an existing node.
        if world.dice and CASES[case][2].execution.max_depth:
            continue
        mine, mctxs = (search(world, jax.random.key(seed)) for search in searches(case))
        assert_same_output(mine, mctxs)
        if world in TERMINAL:
            # Where games end, mctx goes on below the end, so only the roots are equal.
            tree: Any = mine.output.search_tree
            below = np.take_along_axis(tree.discounts, np.maximum(tree.parents, 0), axis=1) == 0
            assert not np.any(below & (tree.parents >= 0)), "a node below a terminal one"
            continue
        for name, expected in mctxs.tree.items():
            check = functools.partial(assert_close, name=name)
            jax.tree.map(check, getattr(mine.tree, name), expected)


@pytest.mark.slow
def test_noise_matches_mctx_with_logits_of_16_bits() -> None:
    rules = Rules(terminal=0.0)

    def cast(output: Any) -> Any:
        return output.replace(prior_logits=output.prior_logits.astype(jnp.bfloat16))

    def step(params: Any, rng_key: Any, action: Any, embedding: Any) -> Any:
        output, embedding = hash_model.recurrent_fn(rules, rng_key, action, embedding, A)
        return cast(output), embedding

    def priors() -> Any:
        root, key = cast(hash_model.roots(jnp.arange(8), rules, A)), jax.random.key(5)
        ours = MuZero(2).init(None, key, root, step).tree.children_prior
        theirs = mctx.muzero_policy(None, key, root, step, 2).search_tree.children_prior_logits
        # A tree stores logits of 16 bits; mctx stores those of a root with noise in float32.
        return [jax.nn.softmax(x[:, 0].astype(jnp.float32)) for x in (ours, theirs)]

    np.testing.assert_allclose(*jax.jit(priors)(), atol=0.01)


@pytest.mark.slow
def test_gumbel_with_many_actions_matches_mctx() -> None:
    """A root with many actions considers only the most likely, even if few are legal."""
    many, batch = 150, 4
    options: Any = {"qtransform": _completed}
    invalid = jnp.arange(batch * many).reshape(batch, many) % 7 == 1
    invalid |= jnp.arange(batch)[:, None] == 2  # a tree in which one action is valid
    invalid = invalid.at[2, 77].set(False)

    def search_by(policy: Any) -> Any:
        def run(rules: Rules, key: Any) -> Any:
            seeds = jnp.arange(batch)
            return hash_model.search(policy, rules, key, seeds, many, invalid_actions=invalid)

        return compiled(run)

    def theirs(*args: Any, **named: Any) -> Any:
        *args, _ = args  # The later heads, which mctx's function does not take.
        return mctx.gumbel_muzero_policy(*args, num_simulations=40, **options, **named)

    theirs.heads = (-1,)
    runs = search_by(Gumbel(40, **options)), search_by(theirs)
    for illegal, seed in itertools.product((0.1, 0.97), range(3)):
        rules = Rules(terminal=0.0, illegal=illegal)
        mine, mctxs = (run(rules, jax.random.key(seed)) for run in runs)
        assert_same_output(mine, mctxs)
        assert_close(mine.tree.children_index, mctxs.tree.children_index)
        assert_close(mine.tree.node_values, mctxs.tree.node_values)


@pytest.mark.slow
def test_search_matches_mctx_under_jax_settings() -> None:
    with jax_settings():
        args = WORLDS["two players, rewards"], jax.random.key(0)
        ours, theirs = (run(*args) for run in searches("muzero"))
        priors = [jax.nn.softmax(x.tree.children_prior_logits[:, 0]) for x in (ours, theirs)]
    np.testing.assert_array_equal(ours.output.action, theirs.output.action)
    weights = ours.output.action_weights, theirs.output.action_weights
    np.testing.assert_allclose(*weights, atol=1e-5)
    np.testing.assert_array_equal(ours.tree.children_index, theirs.tree.children_index)
    np.testing.assert_allclose(ours.tree.node_values, theirs.tree.node_values, atol=1e-5)
    np.testing.assert_allclose(priors[0], priors[1], atol=0.01)


@pytest.mark.slow
def test_mctx_rules_run_unchanged() -> None:
    root_rule = functools.partial(
        mctx.gumbel_muzero_root_action_selection,
        num_simulations=20,
        max_num_considered_actions=3,
        qtransform=_completed,
    )
    rule = functools.partial(mctx.gumbel_muzero_interior_action_selection, qtransform=_completed)
    world = WORLDS["moves again"]
    root = hash_model.roots(jnp.arange(4), world.rules, A)
    extra = mctx.GumbelMuZeroExtraData(root_gumbel=jax.random.gumbel(jax.random.key(0), (4, A)))

    @jax.jit
    def ours(key: Any) -> Any:
        tree = allocate(
            root.prior_logits,
            root.value,
            root.embedding,
            num_nodes=21,
            extra_data=extra,
            prior_is_logits=True,
        )
        at_root, below = mctx_adapter.mctx_root_rule(root_rule), mctx_adapter.mctx_rule(rule)
        grow = SearchSpec(roots.evaluate_by(recurrent_fn), below, 20, LOOPS, root_rule=at_root)
        return run_steps(world, start_search(key, tree, grow, rounds=((20,),))).tree

    theirs = jax.jit(
        lambda key: mctx.search(
            world,
            key,
            root=root,
            recurrent_fn=recurrent_fn,
            root_action_selection_fn=root_rule,
            interior_action_selection_fn=rule,
            num_simulations=20,
            extra_data=extra,
        )
    )
    mine, mctxs = to_mctx(ours(jax.random.key(2))), theirs(jax.random.key(2))
    assert_close(mine.children_index, mctxs.children_index)
    assert_close(mine.children_values, mctxs.children_values)


def test_hash_games_differ() -> None:
    """Guards the tables above: every hash game changes the search."""
    search = searches("muzero")[0]
    key = jax.random.key(0)
    values = [search(w, key).summary.value for w in WORLDS.values()]
    assert len({tuple(np.asarray(v).tolist()) for v in values}) == len(WORLDS)


@pytest.mark.slow
def test_alphazero_matches_mctx_search_with_puct() -> None:
    policy = AlphaZero(40, **grouped(c_puct=1.5, dirichlet_fraction=0.0))

    def ours(world: World, key: Any) -> Any:
        root = hash_model.roots(jnp.arange(4), world.rules, A)
        return policy(world, key, root, recurrent_fn)

    def theirs(world: World, key: Any) -> Any:
        root = hash_model.roots(jnp.arange(4), world.rules, A)
        tree = search_by_puct(world, key, root, recurrent_fn, 40, 1.5)
        return mctx.PolicyOutput(action=0, action_weights=0, search_tree=tree)  # pyright: ignore

    runs = compiled(ours), compiled(theirs)
    for rules in (Rules(terminal=0.0, illegal=0.5), Rules(illegal=0.3, reward=0.2)):
        mine, mctxs = (run(World(rules), jax.random.key(1)) for run in runs)
        np.testing.assert_array_equal(mine.summary.visit_counts, mctxs.summary.visit_counts)
        assert_close(mine.summary.value, mctxs.summary.value)
        if rules.terminal == 0:
            np.testing.assert_array_equal(mine.tree.children_index, mctxs.tree.children_index)
            np.testing.assert_array_equal(mine.tree.node_visits, mctxs.tree.node_visits)
            assert_close(mine.tree.children_values, mctxs.tree.children_values)
