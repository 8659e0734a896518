"""Several leaves per step: the types and the copies of arrays.

Whole trees are compared with the twin in tests/search/test_twin.py.
"""

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hash_model
from dualmctx import AlphaZero
from dualmctx.search.simulate import run_parallel
from oracle.cases import RULES, grouped

KEY = jax.random.key(0)


def search_by(num_simulations: int, num_leaves: int, virtual_loss: int) -> Any:
    """Returns a search, `(rules, seeds) -> PolicyOutput`."""
    execution = {"leaves_per_step": num_leaves, "virtual_loss": virtual_loss}
    policy = AlphaZero(num_simulations, **grouped(dirichlet_fraction=0.0, **execution))
    return lambda rules, seeds: hash_model.search(policy, rules, KEY, seeds, 4)


def test_virtual_losses_do_not_overflow_visits() -> None:
    """Visits are int16 in small trees; 200 leaves with three losses each would overflow."""
    for virtual_loss, dtype in ((0, jnp.int16), (3, jnp.int32)):
        search = search_by(32_500, 200, virtual_loss)
        out = jax.eval_shape(search, RULES["plain"], jnp.arange(1))
        assert out.search_tree.stats[0].children_visits.dtype == dtype


def test_each_tree_has_a_limit_of_its_own() -> None:
    """A step has at most as many simulations of a tree as its limit says, and 0 changes nothing."""
    # Large losses, so that no descent meets a leaf of the same step.
    options = {"leaves_per_step": 4, "virtual_loss": 9}
    policy = AlphaZero(9, **grouped(dirichlet_fraction=0.0, **options))
    limit = np.array([0, 1, 2, 9])

    @jax.jit
    def run() -> Any:
        state = hash_model.begin(policy, RULES["no illegal, no end"], KEY, np.arange(4), 9)
        inputs = RULES["no illegal, no end"], state.spec(), KEY, state.tree
        _, tree, done = run_parallel(*inputs, jnp.asarray(9 - limit), 9, 1, first_slot=1)
        return state.tree, tree, done - (9 - limit)

    before, after, number = run()
    np.testing.assert_array_equal(number, np.minimum(limit, 4))
    np.testing.assert_array_equal((np.asarray(after.edges) >= 0).sum(axis=1), number)
    np.testing.assert_array_equal(after.stats[0].node_visits[:, 0], 1 + number)
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[0], y[0]), before, after)


@pytest.mark.slow
@pytest.mark.parametrize(("num_leaves", "virtual_loss"), [(1, 0), (4, 3)])
def test_step_does_not_copy_node_arrays(num_leaves: int, virtual_loss: int) -> None:
    """A copy would make the time of a search quadratic in its budget."""
    num_simulations = 5000
    search = search_by(num_simulations, num_leaves, virtual_loss)
    program = jax.jit(search).lower(RULES["plain"], jnp.arange(1)).compile().as_text()
    loops, _, entry = program.partition("\nENTRY ")
    assert "while" in entry
    copies = re.findall(r" = \w+\[([\d,]+)\]\S* copy\(", loops)
    assert not [shape for shape in copies if str(num_simulations + 1) in shape.split(",")]
    sizes = [math.prod(map(int, shape.split(","))) for shape in copies]
    assert max(sizes, default=0) < num_simulations
