"""Simulations that begin with a given action of the root, against the twin on whole trees."""

import dataclasses
import functools
import itertools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hash_model
from dualmctx import MPV, AlphaZero, Chain, Contempt, Gumbel, MuZero, with_options
from dualmctx.search.forced_root import count_root
from dualmctx.types import tree_budgets
from oracle import twin
from oracle.cases import CALM, RULES, assert_same, grouped
from oracle.compare import as_in_twin, assert_same_extra, assert_same_tree, run_twin
from oracle.models import HashModel
from pairwise import quick_first

A, N = 5, 30
RULE = RULES["same player twice"]
KEY = jax.random.key(4)
SEEDS = np.arange(4)
ROOT = hash_model.roots(SEEDS, RULE, A, np)
IS_LEGAL = ROOT.prior_logits > -1e9
# The first root is free, and the action of the second one is not legal.
ACTIONS = np.array(
    [
        -1,
        np.argmin(ROOT.prior_logits[1]),
        *np.argmin(np.where(IS_LEGAL, ROOT.prior_logits, np.inf), axis=1)[2:],
    ]
)
SPAN, ALWAYS = (4, 16), (0, 10**6)
AZ = AlphaZero(N, **CALM)
# Each policy, and the steps that are forced: the first one, and the one after the last.
CASES: dict[str, tuple[Any, tuple[int, int]]] = {
    "alphazero": (AZ, SPAN),
    "window": (AlphaZero(N, **grouped(CALM, window=2, explore_fraction=0.6)), SPAN),
    "children": (AlphaZero(N, **grouped(CALM, max_children=3, rave_visits=None)), SPAN),
    "contempt": (Contempt(N, -2, **CALM), SPAN),
    "muzero": (with_options(MuZero(N), dirichlet_fraction=0.0), SPAN),
    # The last tree is larger than the others, so it searches alone, below the action.
    "chain starved": (
        Chain((6, 10, 18), 2, **grouped(CALM, window=1, explore_fraction=0.0)),
        (1, 3),
    ),
    "mpv": (MPV((16, 8), **CALM), (3, 6)),
    # Where trees have different speeds, all of the search is forced.
    "leaves": (with_options(AZ, leaves_per_step=4, virtual_loss=1), ALWAYS),
    "speculation": (with_options(AZ, speculation=4), ALWAYS),
    "kernels": (with_options(AZ, kernels="interpret"), SPAN),
}


@functools.cache
def make_steps(policy: Any) -> tuple[Any, Any, Any]:
    """Returns the compiled phases, of which one program runs free and forced steps."""

    def begin(rules: Any, root: Any) -> Any:
        state = hash_model.begin(policy, rules, KEY, root, A, invalid_actions=~IS_LEGAL)
        counts = jax.tree.map(jnp.zeros_like, count_root(state.grown))
        return dataclasses.replace(state, forced=counts)

    def step(rules: Any, state: Any, number: Any, action: Any) -> Any:
        return policy.step(rules, state, number, root_action=action)

    root = hash_model.roots(SEEDS, RULE, A)
    return functools.partial(jax.jit(begin), RULE, root), jax.jit(step), jax.jit(policy.output)


def forced_simulations(policy: Any, tree: int, span: tuple[int, int]) -> tuple[int, int]:
    """Returns the first forced simulation of a tree, and the one after the last."""
    if len(tree_budgets(policy)) == 1:
        return span
    ends = [0, *itertools.accumulate(shares[tree] for shares in policy.rounds), ALWAYS[1]]
    return ends[span[0]], ends[span[1]]


@pytest.mark.parametrize("name", quick_first(CASES, 2))
def test_forced_simulations_match_twin(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, span = CASES[name]
    begin, step, look = make_steps(policy)
    state = begin()
    free, number = np.full(len(SEEDS), -1), min(span[1], state.num_steps) - span[0]
    state = step(RULE, state, span[0], free)
    state = step(RULE, state, number, ACTIONS)
    state = step(RULE, state, state.num_steps, free)
    output = jax.tree.map(np.asarray, look(state))
    seen = as_in_twin(policy, output, A)
    for i, action in enumerate(ACTIONS):

        def forced(self: Any, tree: int, action: int = action) -> int:
            first, end = forced_simulations(policy, tree, span)
            is_forced = first <= self.root.stats[tree].passes - 1 < end
            return int(action) if is_forced and action >= 0 and self.root.prior[action] > 0 else -1

        monkeypatch.setattr(twin.Search, "forced", forced)
        model = HashModel(int(SEEDS[i]), RULE, A)
        result = run_twin(policy, model, KEY, (i, len(SEEDS)), IS_LEGAL[i])
        assert_same_tree(seen.search_tree, i, result)
        assert_same_extra(seen.search_tree, i, result.search)
        if policy.backup.window is None:
            assert_weights_are_of_free_visits(policy, span, output, i, result)
    # One program for free and forced steps.
    assert step._cache_size() == 1


def assert_weights_are_of_free_visits(
    policy: Any, span: tuple[int, int], output: Any, element: int, result: twin.Result
) -> None:
    """Checks the weights that are visits: a forced action has its other ones, or a single one."""
    if getattr(policy, "action_weights", "small_visits") != "small_visits":
        return
    action, visits = ACTIONS[element], twin.edges(result.nodes[0], twin.SMALL)[0]
    if result.nodes[0].prior[action] > 0 and action >= 0:
        first, end = forced_simulations(policy, twin.SMALL, span)
        number = min(end, tree_budgets(policy)[0]) - first
        visits[action] = max(visits[action] - number, 1)
    np.testing.assert_allclose(output.action_weights[element], visits / visits.sum(), atol=1e-6)


def test_a_first_call_of_no_steps_adds_the_counts() -> None:
    begin, step, _ = make_steps(AZ)
    state, free = begin(), np.full(len(SEEDS), -1)
    found = jax.eval_shape(step, RULE, dataclasses.replace(state, forced=None), 0, free)
    chex.assert_trees_all_equal_shapes_and_dtypes(found, state)


def test_a_forced_action_is_not_preferred_for_its_visits() -> None:
    """The weights are as before, with at most one visit more; the trees have all visits."""
    begin, step, look = make_steps(AZ)
    free, forced = np.full(len(SEEDS), -1), np.arange(2, len(SEEDS))
    state = step(RULE, begin(), 10, free)
    later = step(RULE, state, 20, ACTIONS)
    before, after = look(state), look(later)
    visits, grown = (x.search_tree.summary().visit_counts[forced] for x in (before, after))
    at = np.arange(len(forced)), ACTIONS[forced]
    expected = np.array(visits)
    assert (grown[at] == expected[at] + 20).all()
    expected[at] = np.maximum(expected[at], 1)
    expected /= expected.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(after.action_weights[forced], expected, atol=1e-6)
    read = jax.device_get(later)  # A state of NumPy's arrays, which `jit` would convert.
    assert jax.eval_shape(lambda: AZ.output(read)) == jax.eval_shape(AZ.output, later)
    # Without an action, the search is the ordinary one.
    assert_same(step(RULE, state, 20, free).tree, jax.jit(AZ.step)(RULE, state, 20).tree)


REFUSED: dict[str, Any] = {
    r"root_action is an array of int64 with the shape \[2\]; it must be an array of integers of the"
    r" shape \[4\]; -1 forces no action": (AZ, np.zeros(2, np.int64)),
    "root_action is an array of float64": (AZ, np.zeros(4)),
    "root_action is 3; it must be": (AZ, 3),
    "root_action is given, but the search plans the visits of its root, as Gumbel does; leave it"
    " out": (Gumbel(N), np.zeros(4, np.int64)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_actions_are_refused(message: str) -> None:
    policy, action = REFUSED[message]

    def run() -> Any:
        state = hash_model.begin(policy, RULE, KEY, SEEDS, A)
        return policy.step(RULE, state, 1, root_action=action)

    with pytest.raises(ValueError, match=f"^{message}"):
        jax.eval_shape(run)
