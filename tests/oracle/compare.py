"""Compares whole trees of the engine with the twin's trees, position by position."""

import copy
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dualmctx
import hash_model
from dualmctx.policies import named_options
from oracle import twin
from oracle.models import HashModel

TOLERANCE = 2e-5


def run_engine(
    policy: Any,
    num_actions: int,
    rules: hash_model.Rules,
    seeds: Any,
    rng_key: Any,
    *,
    invalid: Any = None,
    final: str = "nothing",
) -> Any:
    """Runs a policy on the hash game and returns its output in numpy arrays.

    Compiling takes nearly all of these tests' time. So options that are mere numbers to the engine
    are traced, in spite of the policies being static, and one compilation serves many settings.
    `final` is as in `HashModel`.
    """
    traced = {"c_puct": policy.puct.c_puct, "explore_fraction": policy.backup.explore_fraction}
    traced["explore_decay"] = policy.backup.explore_decay
    if policy.backup.window is not None:
        traced["window"] = policy.backup.window
    if hasattr(policy, "value_mix"):
        traced |= {"value_mix": policy.value_mix, "prior_mix": policy.prior_mix}
    if getattr(policy, "frozen_visit_limit", None) is not None:
        traced["frozen_visit_limit"] = policy.frozen_visit_limit
        traced["frozen_temperature"] = policy.frozen_temperature
    static = with_traced_options(policy, dict.fromkeys(traced, 1))
    if invalid is None:
        invalid = np.zeros((len(seeds), num_actions), bool)
    finals = {"nothing": (False, False), "root": (True, False), "all": (True, True)}[final]
    output = _run(static, num_actions, traced, rules, np.asarray(seeds), rng_key, invalid, finals)
    return jax.tree.map(np.asarray, output)


def with_traced_options(policy: Any, options: dict[str, Any]) -> Any:
    """Returns a policy with traced options, which its own check could not read."""
    policy, known = copy.copy(policy), named_options(policy)
    for name, value in options.items():
        *groups, _ = known[name].path
        holder = policy
        for group in groups:
            holder = copy.copy(getattr(policy, group))
            object.__setattr__(policy, group, holder)
        object.__setattr__(holder, name, value)
    return policy


@functools.partial(
    jax.jit, static_argnums=(0, 1), compiler_options={"xla_backend_optimization_level": 0}
)
def _run(
    static: Any,
    num_actions: int,
    traced: Any,
    rules: Any,
    seeds: Any,
    rng_key: Any,
    invalid: Any,
    finals: Any,
) -> Any:
    refine_fn = functools.partial(hash_model.refine_fn, num_actions=num_actions)

    def choose(is_final: Any, output: Any, embedding: Any, is_over: Any = False) -> Any:
        logits, value = refine_fn(rules, None, embedding)
        return output.replace(
            prior_logits=jnp.where(is_final, logits, output.prior_logits),
            value=jnp.where(is_final & ~jnp.asarray(is_over), value, output.value),
        )

    def recurrent_fn(params: Any, key: Any, action: Any, embedding: Any) -> tuple:
        output, embedding = hash_model.recurrent_fn(params, key, action, embedding, num_actions)
        if static.heads == (-1,):  # a policy with one head, the one that the test wants
            output = choose(finals[1], output, embedding, output.discount == 0)
        return output, embedding

    root = hash_model.roots(seeds, rules, num_actions)
    root = choose(finals[0], root, root.embedding)
    policy = with_traced_options(static, traced)
    later = hash_model.refine_fns(len(static.heads), num_actions)
    return policy(rules, rng_key, root, recurrent_fn, later, invalid_actions=invalid)


def engine_tree(tree: dualmctx.Tree, element: int) -> dict[tuple[int, ...], dict[str, Any]]:
    """Returns one element's tree: the statistics of each position, keyed by its actions."""
    index = tree.children_index[element]
    found = {(): 0}
    waiting = [()]
    while waiting:
        actions = waiting.pop()
        parent = found[actions]
        for action in np.flatnonzero(index[parent] >= 0):
            child = int(index[parent, action])
            assert tree.parents[element, child] == parent
            assert tree.action_from_parent[element, child] == action
            found[(*actions, int(action))] = child
            waiting.append((*actions, int(action)))
    in_use = np.flatnonzero(tree.parents[element] >= 0)
    assert sorted(found.values()) == [0, *in_use], "nodes that no path leads to"
    return {actions: _node(tree, element, node) for actions, node in found.items()}


def _node(tree: dualmctx.Tree, element: int, node: int) -> dict[str, Any]:
    at = (element, node)
    known = {
        "prior": tree.children_prior[at],
        "raw": tree.raw_values[at],
        "reward": tree.rewards[at],
        "discount": tree.discounts[at],
    }
    for i, stats in enumerate(tree.stats):
        known[f"visits {i}"] = stats.node_visits[at]
        known[f"value {i}"] = stats.node_values[at]
        if stats.path_visits is not None:
            known[f"passes {i}"] = stats.path_visits[at]
            known[f"height {i}"] = stats.heights[at]
    return known


def _twin_node(node: twin.Node, *, num_trees: int, is_windowed: bool) -> dict[str, Any]:
    known = {
        "prior": node.prior,
        "raw": node.raw,
        "reward": node.reward,
        "discount": node.discount,
    }
    for i, stats in enumerate(node.stats[:num_trees]):
        known[f"visits {i}"] = stats.visits
        known[f"value {i}"] = stats.mean
        if is_windowed:
            known[f"passes {i}"] = stats.passes
            known[f"height {i}"] = stats.height
    return known


def assert_same_tree(tree: dualmctx.Tree, element: int, result: twin.Result) -> None:
    """Checks that both have the same positions and statistics; arrays are numpy's."""
    engine = engine_tree(tree, element)
    is_windowed = tree.stats[0].path_visits is not None
    ours = {
        node.actions: _twin_node(node, num_trees=len(tree.stats), is_windowed=is_windowed)
        for node in result.nodes
    }
    assert set(engine) == set(ours)
    for actions in sorted(ours, key=len):
        assert set(engine[actions]) == set(ours[actions])
        for name, expected in ours[actions].items():
            where = f"{name} at {actions} of element {element}"
            if name.startswith(("visits", "passes", "height")):
                assert engine[actions][name] == expected, where
            elif name != "prior" or ours[actions]["discount"] != 0:  # nobody reads a terminal's
                np.testing.assert_allclose(
                    engine[actions][name], expected, rtol=0, atol=TOLERANCE, err_msg=where
                )


def assert_twin_agrees(
    policy: Any,
    rules: hash_model.Rules,
    *,
    num_actions: int = 4,
    seeds: Any = (0, 1, 2, 3),
    key_seed: int = 5,
    invalid: Any = None,
    final: str | None = None,
    search: Any = None,
) -> list[twin.Result]:
    """Runs engine and twin on the hash game and compares every tree and every policy.

    `search` is the twin, by default Dual's or AlphaZero's.
    """
    rng_key = jax.random.key(key_seed)
    search = search or (twin.dual if hasattr(policy, "num_rounds") else twin.alphazero)
    final = final or ("all" if policy.heads == (-1,) else "nothing")
    output = run_engine(policy, num_actions, rules, seeds, rng_key, invalid=invalid, final=final)
    results = []
    for i, seed in enumerate(seeds):
        model = HashModel(seed, rules, num_actions, final)
        is_legal = None if invalid is None else ~invalid[i]
        results.append(search(model, policy, rng_key, (i, len(seeds)), is_legal))
        assert_same_search(output, i, results[-1])
    return results


def assert_same_search(output: Any, element: int, result: twin.Result) -> None:
    """Checks one element of a policy's output, its tree and its weights."""
    assert_same_tree(output.search_tree, element, result)
    np.testing.assert_allclose(
        output.action_weights[element], result.weights, rtol=0, atol=TOLERANCE
    )
    assert result.weights[output.action[element]] > 0
