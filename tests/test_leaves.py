"""Several leaves per step: whole trees against the twin, and invariants."""

import functools
import math
import operator
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hash_model
from dualmctx import AlphaZero, Dual, Execution
from dualmctx.policies import root as roots
from dualmctx.policies.options import make_search_spec
from dualmctx.search.allocate import allocate
from dualmctx.search.simulate import search, simulate_parallel
from dualmctx.search.subtree import get_subtree
from oracle import twin
from oracle.cases import CALM, FEW_RULES, RULES, fast_jit, grouped, with_options
from oracle.compare import assert_same_search, run_engine
from oracle.leaves import Search
from oracle.models import HashModel

SEEDS = (0, 1, 2, 3)
POLICY = AlphaZero(40, **CALM)
# With 3 leaves, the budget of 40 shortens the last step, unless collisions already did.
NUM_LEAVES = (2, 3, 8)


def assert_twin_agrees(num_leaves, rules, *, invalid=None, seeds=SEEDS, **options):
    policy = with_options(POLICY, leaves_per_step=num_leaves, **options)
    output = run_engine(policy, 4, rules, seeds, jax.random.key(0), invalid=invalid, final="all")
    searches = []
    for i, seed in enumerate(seeds):
        is_legal = None if invalid is None else ~invalid[i]
        model = HashModel(seed, rules, 4, "all")
        search = Search(model, policy, policy.num_simulations, is_legal)
        num_left = policy.num_simulations
        while num_left:
            num_left -= search.step(min(num_leaves, num_left))
        visits, _ = twin.edges(search.root, twin.SMALL)
        assert visits.sum() == policy.num_simulations
        assert_same_search(
            output, i, twin.Result(search.nodes, visits / visits.sum(), search.counters)
        )
        searches.append(search)
    return searches


@pytest.mark.sampled(6)
@pytest.mark.parametrize("num_leaves", NUM_LEAVES)
@pytest.mark.parametrize("rules", list(RULES.values()), ids=list(RULES))
def test_whole_trees_match_twin(rules, num_leaves):
    assert_twin_agrees(num_leaves, rules)


@pytest.mark.parametrize("num_leaves", NUM_LEAVES)
def test_colliding_walks_match_twin(num_leaves):
    searches = assert_twin_agrees(num_leaves, RULES["one legal action"])
    assert sum(search.collisions for search in searches) > 20
    # Several walks of one step end at the same terminal node, and all of them count.
    searches = assert_twin_agrees(num_leaves, RULES["often terminal"])
    assert sum(search.counters.terminal_hits for search in searches) > 20


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("num_leaves", "virtual_loss"), [(2, 3), (8, 3), (8, 1)])
@pytest.mark.parametrize("rules", [*FEW_RULES, RULES["single player"]])
def test_virtual_loss_matches_twin(rules, num_leaves, virtual_loss):
    assert_twin_agrees(num_leaves, rules, virtual_loss=virtual_loss)


@pytest.mark.slow
def test_virtual_loss_has_no_effect_with_single_leaves():
    def shares(num_leaves, virtual_loss):
        policy = AlphaZero(40, **options_of(num_leaves, virtual_loss=virtual_loss))
        return fast_jit(hash_search(policy, RULES["plain"]))(jnp.arange(4)).action_weights

    assert (shares(8, 0) != shares(8, 3)).any()
    np.testing.assert_array_equal(shares(1, 0), shares(1, 3))


def test_virtual_losses_do_not_overflow_visits():
    """Visits are int16 in small trees; 200 leaves with three losses each would overflow."""
    for virtual_loss, dtype in ((0, jnp.int16), (3, jnp.int32)):
        policy = AlphaZero(32_500, **options_of(200, virtual_loss=virtual_loss))
        out = jax.eval_shape(hash_search(policy, RULES["plain"]), jnp.arange(1))
        assert out.search_tree.stats[0].children_visits.dtype == dtype


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["plain", "one legal action", "same player twice"])
def test_max_depth_matches_twin(name):
    searches = assert_twin_agrees(3, RULES[name], max_depth=2)
    assert sum(search.counters.depth_hits for search in searches) > 20


@pytest.mark.parametrize("num_leaves", NUM_LEAVES)
def test_invalid_root_actions_match_twin(num_leaves):
    invalid = np.eye(4, dtype=bool)
    invalid[3] = [True, False, True, True]
    searches = assert_twin_agrees(num_leaves, RULES["all legal"], invalid=invalid)
    assert all(action not in search.root.children for action, search in enumerate(searches))


def hash_search(policy, rules, num_actions=4):
    """Returns `(seeds) -> PolicyOutput` on a game without rules."""
    recurrent_fn = functools.partial(hash_model.recurrent_fn, num_actions=num_actions)

    def run(seeds):
        root = hash_model.roots(seeds, rules, num_actions)
        return policy(rules, jax.random.key(0), root, recurrent_fn)

    return run


def options_of(num_leaves, **options):
    return grouped(dirichlet_fraction=0.0, temperature=0.0, leaves_per_step=num_leaves, **options)


def assert_same(actual, expected):
    """Checks that integers are equal and floats nearly equal."""

    def compare(x, y):
        if jnp.issubdtype(x.dtype, jnp.floating):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=2e-6)
        else:
            np.testing.assert_array_equal(x, y)

    jax.tree.map(compare, actual, expected)


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
        rng_key, tree, number = simulate_parallel(rules, rng_key, tree, grow, i * ones, ones)
        return rng_key, tree, done + number

    def steps(tree):
        return jax.lax.fori_loop(1, 31, step, (jax.random.key(0), tree, 0 * ones))[1:]

    def ordinary(tree):
        return search(rules, jax.random.key(0), tree, grow, 30)

    actual, done = fast_jit(steps)(tree)
    assert_same(actual, fast_jit(ordinary)(tree))
    np.testing.assert_array_equal(done, 30)


@pytest.mark.slow
def test_step_respects_limit_of_each_tree():
    rules = RULES["all legal"]
    tree, grow = start(rules, 8)
    warm = fast_jit(lambda tree: search(rules, jax.random.key(0), tree, grow, 20))(tree)
    limit, slots = jnp.array([0, 1, 3, 8, 9, 0]), jnp.full(6, 21)

    @fast_jit
    def step(tree, limit):
        return simulate_parallel(rules, jax.random.key(1), tree, grow, slots, limit)[1:]

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


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("num_leaves", "virtual_loss"), [(8, 0), (8, 3), (64, 0)])
@pytest.mark.parametrize("terminal", [0.0, 0.2])
def test_every_simulation_evaluates_or_ends_game(num_leaves, virtual_loss, terminal):
    """Includes a peaked prior, with which most walks of a step would reach the same leaf."""
    rules = hash_model.Rules(illegal=0.0, terminal=terminal, spread=3.0)
    policy = AlphaZero(100, **options_of(num_leaves, virtual_loss=virtual_loss))
    tree = fast_jit(hash_search(policy, rules))(jnp.arange(6)).search_tree
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


def test_collision_ends_step():
    """With a single legal move, the second walk always collides, as in the ordinary search."""
    rules = hash_model.Rules(illegal=1.0, terminal=0.0)

    def run(num_leaves):
        return fast_jit(hash_search(AlphaZero(12, **options_of(num_leaves)), rules))(jnp.arange(3))

    assert_same(run(5), run(1))


def assert_rows_agree(tree):
    """Checks that no virtual visits remain: a node's row agrees with its children."""
    index, stats = np.asarray(tree.children_index), tree.stats[0]
    batch = np.arange(len(index))[:, None, None]
    rows = np.where(index >= 0, np.asarray(stats.node_visits)[batch, np.maximum(index, 0)], 0)
    np.testing.assert_array_equal(stats.children_visits, rows)


@pytest.mark.slow
@pytest.mark.parametrize("num_leaves", [7, 64, 100])
def test_visits_sum_to_budget_and_elements_are_independent(num_leaves):
    run = fast_jit(hash_search(AlphaZero(64, **options_of(num_leaves)), RULES["same player twice"]))
    seeds = jnp.arange(6)
    out = run(seeds)
    tree = out.search_tree
    assert (tree.summary().visit_counts.sum(axis=-1) == 64).all()
    assert_rows_agree(tree)
    assert_same(run(seeds[::-1]), jax.tree.map(operator.itemgetter(slice(None, None, -1)), out))
    alone = run(jnp.full(6, 2))
    for i in range(6):
        assert_same(*(jax.tree.map(operator.itemgetter(j), x) for j, x in ((i, alone), (2, out))))


@pytest.mark.slow
def test_steps_work_with_reused_trees_and_child_limit():
    policy = AlphaZero(20, **options_of(6, max_children=3), reuse_capacity=15)
    rules = RULES["all legal"]
    recurrent_fn = functools.partial(hash_model.recurrent_fn, num_actions=4)
    root = hash_model.roots(jnp.arange(6), rules, 4)

    @fast_jit
    def twice(key):
        tree = policy(rules, key, root, recurrent_fn).search_tree
        # Slots, not actions: the children of the root that were visited most.
        best = jnp.argmax(tree.summary().visit_counts, axis=-1)
        kept = get_subtree(tree, best, reuse_capacity=15)
        return kept, policy(rules, key, root, recurrent_fn, search_tree=kept).search_tree

    kept, tree = twice(jax.random.key(0))
    before = kept.stats[0].node_visits[:, 0]
    assert (before > 1).any()
    # A root that could not be reused starts anew, with one visit.
    np.testing.assert_array_equal(tree.stats[0].node_visits[:, 0], jnp.maximum(before, 1) + 20)
    assert_rows_agree(tree)


@pytest.mark.slow
def test_jit_does_not_change_result():
    run = hash_search(AlphaZero(5, **options_of(2)), RULES["plain"])
    assert_same(run(jnp.arange(3)), fast_jit(run)(jnp.arange(3)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("num_leaves", "virtual_loss"), [(1, 0), (4, 0), (4, 3)])
def test_step_does_not_copy_node_arrays(num_leaves, virtual_loss):
    """A copy would make the time of a search quadratic in its budget."""
    num_simulations = 5000
    options = options_of(num_leaves, virtual_loss=virtual_loss)
    run = hash_search(AlphaZero(num_simulations, **options), RULES["plain"])
    program = jax.jit(run).lower(jnp.arange(1)).compile().as_text()
    loops, _, entry = program.partition("\nENTRY ")
    assert "while" in entry
    copies = re.findall(r" = \w+\[([\d,]+)\]\S* copy\(", loops)
    assert not [shape for shape in copies if str(num_simulations + 1) in shape.split(",")]
    sizes = [math.prod(map(int, shape.split(","))) for shape in copies]
    assert max(sizes, default=0) < num_simulations


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: grouped(leaves_per_step=0), "leaves_per_step is 0; it must be at least 1"),
        (lambda: grouped(virtual_loss=-1), "virtual_loss is -1; it must be at least 0"),
        (lambda: grouped(leaves_per_step=2, window=3), "leaves_per_step is 2; it must be 1 with"),
        (
            lambda: Dual(execution=Execution(leaves_per_step=4)),
            "leaves_per_step is 4; it must be 1 in Dual",
        ),
    ],
)
def test_bad_options_are_refused(make, remedy):
    with pytest.raises(ValueError, match=remedy) as info:
        make()
    assert "\n" not in str(info.value)


def test_the_search_of_several_leaves_refuses_a_window() -> None:
    spec = make_search_spec(AlphaZero(4), lambda *_: None, num_simulations=4)
    root = hash_model.roots(np.arange(2), RULES["plain"], 4)
    tree = allocate(
        roots.root_evaluation(root, jax.nn.softmax(root.prior_logits)),
        root.embedding,
        num_nodes=5,
        invalid_actions=jnp.zeros((2, 4)),
        windowed=True,
    )
    with pytest.raises(ValueError, match=r"^leaves_per_step is 2; it must be 1 with a window"):
        search((), jax.random.key(0), tree, spec._replace(leaves_per_step=2, window=3), 4)
