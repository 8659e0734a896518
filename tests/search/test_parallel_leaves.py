"""Several leaves per step: budgets, limits and collisions.

Whole trees are compared with the twin in tests/search/test_twin.py.
"""

import functools
import math
import operator
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hash_model
from dualmctx import AlphaZero
from dualmctx.policies import root as roots
from dualmctx.policies.search_setup import make_search_spec
from dualmctx.search.expand import allocate
from dualmctx.search.phases import run_steps, start_search
from dualmctx.search.simulate import simulate_parallel
from oracle.cases import RULES, assert_same, fast_jit, grouped


def hash_search(policy: AlphaZero):
    """Returns a compiled search, `(rules, seeds) -> PolicyOutput`."""

    def run(rules, seeds):
        return hash_model.search(policy, rules, jax.random.key(0), seeds, 4)

    return fast_jit(run)


def options_of(num_leaves, **options):
    return grouped(dirichlet_fraction=0.0, temperature=0.0, leaves_per_step=num_leaves, **options)


def test_virtual_losses_do_not_overflow_visits():
    """Visits are int16 in small trees; 200 leaves with three losses each would overflow."""
    for virtual_loss, dtype in ((0, jnp.int16), (3, jnp.int32)):
        policy = AlphaZero(32_500, **options_of(200, virtual_loss=virtual_loss))
        out = jax.eval_shape(hash_search(policy), RULES["plain"], jnp.arange(1))
        assert out.search_tree.stats[0].children_visits.dtype == dtype


def run(rules, tree, grow, number):
    """Runs simulations on a tree of `start`."""
    return run_steps(rules, start_search(jax.random.key(0), tree, grow, rounds=((number,),))).tree


def start(rules, num_leaves, num_simulations=30):
    """Returns a tree for each of six seeds, and the functions that extend it."""
    root = hash_model.roots(jnp.arange(6), rules, 4)
    prior = roots.legal_probabilities(root.prior_logits)
    tree = allocate(
        roots.root_evaluation(root, prior),
        root.embedding,
        num_nodes=1 + num_simulations,
        invalid_actions=jnp.zeros_like(prior),
    )
    recurrent_fn = functools.partial(hash_model.recurrent_fn, num_actions=4)
    evaluate_fn = roots.evaluate_probabilities(recurrent_fn)
    return tree, make_search_spec(
        AlphaZero(**options_of(num_leaves)), evaluate_fn, num_simulations=num_simulations
    )


@pytest.mark.slow
def test_one_leaf_per_step_equals_ordinary_search():
    rules = RULES["same player twice"]
    tree, grow = start(rules, 1)
    ones = jnp.ones(6, jnp.int32)

    def step(i, carry):
        rng_key, tree, done = carry
        rng_key, tree, number = simulate_parallel(rules, grow, rng_key, tree, i * ones, ones)
        return rng_key, tree, done + number

    def steps(tree):
        return jax.lax.fori_loop(1, 31, step, (jax.random.key(0), tree, 0 * ones))[1:]

    def ordinary(tree):
        return run(rules, tree, grow, 30)

    actual, done = fast_jit(steps)(tree)
    assert_same(actual, fast_jit(ordinary)(tree))
    np.testing.assert_array_equal(done, 30)


@pytest.mark.slow
def test_step_respects_limit_of_each_tree():
    rules = RULES["all legal"]
    tree, grow = start(rules, 8)
    warm = fast_jit(lambda tree: run(rules, tree, grow, 20))(tree)
    limit, slots = jnp.array([0, 1, 3, 8, 9, 0]), jnp.full(6, 21)

    @fast_jit
    def step(tree, limit):
        return simulate_parallel(rules, grow, jax.random.key(1), tree, slots, limit)[1:]

    together, number = step(warm, limit)
    assert number[0] == number[5] == 0
    assert number[1] == 1
    assert (number[2:5] >= 2).all()
    assert (number[2:5] <= np.array([3, 8, 8])).all()
    expected = warm.stats[0].node_visits[:, 0] + number
    np.testing.assert_array_equal(together.stats[0].node_visits[:, 0], expected)
    assert_rows_agree(together)
    for i in range(6):
        alone, _ = step(warm, jnp.where(jnp.arange(6) == i, limit, 0))
        for j in range(6):
            expected = together if i == j else warm
            jax.tree.map(np.testing.assert_array_equal, *(element(x, j) for x in (alone, expected)))


def element(tree, index):
    return jax.tree.map(operator.itemgetter(index), tree)


@pytest.mark.slow
def test_every_simulation_evaluates_or_ends_game() -> None:
    """Includes a peaked prior, with which most walks of a step would reach the same leaf."""
    run = hash_search(AlphaZero(100, **options_of(64)))
    for terminal in (0.0, 0.2):
        rules = hash_model.Rules(illegal=0.0, terminal=terminal, spread=3.0)
        tree = run(rules, jnp.arange(6)).search_tree
        assert (tree.summary().visit_counts.sum(axis=-1) == 100).all()
        visits = np.asarray(tree.stats[0].node_visits)
        is_node = np.asarray(tree.edges) >= 0
        ends = is_node & (np.asarray(tree.discounts) == 0)
        # A node that is not terminal ends one simulation; the others continue to its children.
        below = np.asarray(tree.stats[0].children_visits).sum(axis=-1)
        own = np.where(ends, 0, visits - below)
        np.testing.assert_array_equal(own, np.asarray(tree.discounts) != 0)
        again = np.where(ends, visits - 1, 0).sum(axis=-1)
        np.testing.assert_array_equal(is_node.sum(axis=-1), 100 - again)
        assert (again.sum() > 0) == (terminal > 0)


@pytest.mark.slow
def test_collision_ends_step() -> None:
    """With a single legal move, the second walk always collides, as in the ordinary search."""
    rules = hash_model.Rules(illegal=1.0, terminal=0.0)
    runs = [hash_search(AlphaZero(12, **options_of(n)))(rules, jnp.arange(3)) for n in (5, 1)]
    assert_same(*runs)


def assert_rows_agree(tree):
    """Checks that no virtual visits remain: a node's row agrees with its children."""
    index, stats = np.asarray(tree.children_index), tree.stats[0]
    batch = np.arange(len(index))[:, None, None]
    rows = np.where(index >= 0, np.asarray(stats.node_visits)[batch, np.maximum(index, 0)], 0)
    np.testing.assert_array_equal(stats.children_visits, rows)


@pytest.mark.slow
@pytest.mark.parametrize(("num_leaves", "virtual_loss"), [(1, 0), (4, 3)])
def test_step_does_not_copy_node_arrays(num_leaves: int, virtual_loss: int) -> None:
    """A copy would make the time of a search quadratic in its budget."""
    num_simulations = 5000
    options = options_of(num_leaves, virtual_loss=virtual_loss)
    run = hash_search(AlphaZero(num_simulations, **options)).__wrapped__
    program = jax.jit(run).lower(RULES["plain"], jnp.arange(1)).compile().as_text()
    loops, _, entry = program.partition("\nENTRY ")
    assert "while" in entry
    copies = re.findall(r" = \w+\[([\d,]+)\]\S* copy\(", loops)
    assert not [shape for shape in copies if str(num_simulations + 1) in shape.split(",")]
    sizes = [math.prod(map(int, shape.split(","))) for shape in copies]
    assert max(sizes, default=0) < num_simulations


@pytest.mark.slow
def test_the_search_of_several_leaves_refuses_a_window() -> None:
    tree, spec = start(RULES["plain"], 1, num_simulations=4)
    with pytest.raises(ValueError, match=r"^leaves_per_step is 2; it must be 1 with a window"):
        run((), tree, spec._replace(leaves_per_step=2, window=3), 4)
