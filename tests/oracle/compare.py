"""Compares whole trees of the engine with the twin's trees, position by position."""

import copy
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dualmctx
import hash_model
from dualmctx.policies import named_options
from dualmctx.policies.root import legal_probabilities
from dualmctx.types import acting_weights
from oracle import alphago, chain, contempt, leaves, mctx_policies, options, twin
from oracle.models import HashModel, PrunedModel

TOLERANCE = 2e-5
# Options that are mere numbers to the engine, and their types: another type is another program.
NUMBERS = dict.fromkeys(
    (
        *("c_puct", "explore_fraction", "explore_decay", "value_mix", "prior_mix"),
        "frozen_temperature",
    ),
    float,
) | {"window": int, "frozen_visit_limit": int}
TWINS: dict[type, Any] = {
    dualmctx.MuZero: mctx_policies.muzero,
    dualmctx.Gumbel: mctx_policies.gumbel,
    dualmctx.Dual: chain.chain,
    dualmctx.Chain: chain.chain,
    dualmctx.MPV: chain.mpv,
    dualmctx.Contempt: contempt.contempt,
    alphago.HashAlphaGo: alphago.alphago,
}


def twin_of(policy: Any) -> Any:
    """Returns the twin of a policy's search."""
    if type(policy) in TWINS:
        return TWINS[type(policy)]
    if policy.execution.leaves_per_step > 1:
        return leaves.alphazero
    return options.alphazero if options.are_used(policy) else twin.alphazero


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

    Compiling takes nearly all of these tests' time. So options that are mere numbers are traced, in
    spite of the policies being static, and one compilation serves many settings. `final` is as in
    `HashModel`.
    """
    known = named_options(policy)
    traced = {name: known[name].value for name in NUMBERS if name in known}
    traced = {name: NUMBERS[name](x) for name, x in traced.items() if x is not None}
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


@functools.partial(jax.jit, static_argnums=(0, 1))
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


def slots_of(tree: dualmctx.Tree, element: int) -> dict[tuple[int, ...], int]:
    """Returns the slots of one element's nodes, keyed by the actions to them."""
    arrays = (tree.children_index, tree.parents, tree.action_from_parent)
    index, parents, played = (x[element].tolist() for x in arrays)
    found = {(): 0}
    waiting = [()]
    while waiting:
        actions = waiting.pop()
        parent = found[actions]
        for action, child in enumerate(index[parent]):
            if child >= 0:
                assert (parents[child], played[child]) == (parent, action)
                found[(*actions, action)] = child
                waiting.append((*actions, action))
    in_use = [node for node, parent in enumerate(parents) if parent >= 0]
    assert sorted(found.values()) == [0, *in_use], "nodes that no path leads to"
    return found


def engine_tree(tree: dualmctx.Tree, element: int) -> dict[tuple[int, ...], dict[str, Any]]:
    """Returns one element's tree: the statistics of each position, keyed by its actions."""
    slots = slots_of(tree, element)
    return {actions: _node(tree, element, node) for actions, node in slots.items()}


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


def _twin_node(node: twin.Node, *, is_windowed: bool) -> dict[str, Any]:
    known = {"prior": node.prior, "raw": node.raw, "reward": node.reward, "discount": node.discount}
    for i, stats in enumerate(node.stats):
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
    ours = {node.actions: _twin_node(node, is_windowed=is_windowed) for node in result.nodes}
    assert set(engine) == set(ours)
    places = sorted(ours, key=len)
    assert all(set(engine[actions]) == set(ours[actions]) for actions in places)
    for name in ours[()]:
        is_read = [x for x in places if name != "prior" or ours[x]["discount"] != 0]
        found, expected = (np.array([tree[x][name] for x in is_read]) for tree in (engine, ours))
        is_count = name.startswith(("visits", "passes", "height"))
        tolerance = 0 if is_count else TOLERANCE
        is_bad = ~np.isclose(found, expected, rtol=0, atol=tolerance).reshape(len(is_read), -1)
        where = [x for x, bad in zip(is_read, is_bad.any(axis=1), strict=True) if bad]
        assert not where, f"{name} at {where[0]} of element {element}, and {len(where) - 1} others"


def assert_same_extra(tree: dualmctx.Tree, element: int, search: twin.Search) -> None:
    """Checks the statistics of options: minimax values, RAVE, and the visits of frozen nodes."""
    extra, slots = tree.stats[0].extra, slots_of(tree, element)
    close = functools.partial(np.testing.assert_allclose, rtol=0, atol=TOLERANCE)
    places = [slots[node.actions] for node in search.nodes]
    if "minimax" in extra:
        edges = [
            (place, action, child.minimax)
            for place, node in zip(places, search.nodes, strict=True)
            for action, child in node.children.items()
        ]
        parents, actions, expected = zip(*edges, strict=True)
        close(extra["minimax"][element, parents, actions], expected)
    if "rave" in extra:
        returns = [
            [getattr(node, "rave", {}).get(action, []) for action in range(len(node.prior))]
            for node in search.nodes
        ]
        expected = [[(len(x), np.mean(x or 0)) for x in some] for some in returns]
        close(extra["rave"][element, places], expected)
    frozen = getattr(search, "frozen", {})
    assert "frozen" in extra or not frozen
    for node, visits in frozen.items():
        actual = extra["frozen"].visits[element, slots[node.actions]]
        np.testing.assert_array_equal(actual, visits, err_msg=str(node.actions))


def over_actions(output: Any, num_actions: int) -> Any:
    """Returns a limited policy's output with its tree in the layout without a limit."""
    tree = output.search_tree
    actions = tree.embeddings.actions
    batch, node = np.ogrid[: actions.shape[0], : actions.shape[1]]
    # An empty slot has no actions; any distinct actions are valid.
    actions = np.where(actions.any(-1, keepdims=True), actions, np.arange(actions.shape[-1]))

    def widen(array: Any, empty: Any = 0) -> np.ndarray:
        shape = (*array.shape[:2], num_actions, *array.shape[3:])
        wide = np.full(shape, empty, array.dtype)
        wide[batch[..., None], node[..., None], actions] = array
        return wide

    stats = tuple(
        x.replace(
            children_visits=widen(x.children_visits),
            children_qvalues=widen(x.children_qvalues),
            extra=jax.tree.map(lambda y: widen(y) if y.ndim > 2 else y, x.extra),
        )
        for x in tree.stats
    )
    parents, slots = tree.parents, np.maximum(tree.action_from_parent, 0)
    played = actions[batch, np.maximum(parents, 0), slots]
    played = np.where(parents >= 0, played, -1)
    tree = tree.replace(
        children_index=widen(tree.children_index, -1),
        children_prior=widen(tree.children_prior),
        embeddings=dataclasses.replace(tree.embeddings, actions=None),
        stats=stats,
        root_invalid_actions=None,
    )
    edges = np.where(parents < 0, -1, parents * tree.num_actions + played)
    tree = tree.replace(edges=edges)
    return output.replace(search_tree=jax.tree.map(np.asarray, tree))


def as_in_twin(policy: Any, output: Any, num_actions: int) -> Any:
    """Returns an output whose tree is over actions and holds probabilities, as in the twin."""
    if policy.execution.max_children is not None:
        output = over_actions(output, num_actions)
    tree = output.search_tree
    if tree.prior_is_logits:
        prior = np.asarray(legal_probabilities(jnp.asarray(tree.children_prior)))
        output = output.replace(search_tree=tree.replace(children_prior=prior))
    return output


def assert_twin_agrees(
    policy: Any,
    rules: hash_model.Rules,
    *,
    num_actions: int = 4,
    seeds: Any = (0, 1, 2, 3),
    key_seed: int = 5,
    invalid: Any = None,
    final: str | None = None,
) -> list[twin.Result]:
    """Runs engine and twin on the hash game and compares every tree and every policy."""
    rng_key = jax.random.key(key_seed)
    final = final or ("all" if policy.heads == (-1,) else "nothing")
    if not hasattr(policy, "puct"):  # mctx's policies must be given the illegal root actions.
        logits = hash_model.roots(np.asarray(seeds), rules, num_actions, np).prior_logits
        invalid, final = (logits < -1e9) | (False if invalid is None else invalid), "nothing"
    output = run_engine(policy, num_actions, rules, seeds, rng_key, invalid=invalid, final=final)
    output, results = as_in_twin(policy, output, num_actions), []
    for i, seed in enumerate(seeds):
        is_legal = None if invalid is None else ~invalid[i]
        model: twin.Model = HashModel(seed, rules, num_actions, final)
        results.append(run_twin(policy, model, rng_key, (i, len(seeds)), is_legal))
        assert_same_search(output, i, results[-1])
    return results


def run_twin(
    policy: Any, model: twin.Model, rng_key: Any, place: Any, is_legal: Any, kept: Any = None
) -> twin.Result:
    """Runs the twin of a policy, under the policy's limit of children."""
    pruned, limit = twin.Counters(), policy.execution.max_children
    if limit is not None:
        model = PrunedModel(model, limit, pruned, is_legal)
    result = twin_of(policy)(twin.Task(model, policy, rng_key, place, is_legal, kept))
    result.counters.pruned = pruned.pruned
    return result


def assert_same_search(output: Any, element: int, result: twin.Result) -> None:
    """Checks one element of a policy's output: its tree and its weights."""
    assert_same_tree(output.search_tree, element, result)
    assert_same_extra(output.search_tree, element, result.search)
    close = functools.partial(np.testing.assert_allclose, rtol=0, atol=TOLERANCE)
    close(output.action_weights[element], result.weights)
    if result.acting is not None:
        close(acting_weights(output)[element], result.acting)
    assert (result.weights if result.acting is None else result.acting)[output.action[element]] > 0
    assert result.action in (None, output.action[element])
