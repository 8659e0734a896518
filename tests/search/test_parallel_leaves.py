"""Several leaves per step: the types and the copies of arrays.

Whole trees are compared with the twin in tests/search/test_twin.py.
"""

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import hash_model
from dualmctx import AlphaZero
from oracle.cases import RULES, grouped


def search_by(num_simulations: int, num_leaves: int, virtual_loss: int) -> Any:
    """Returns a search, `(rules, seeds) -> PolicyOutput`."""
    execution = {"leaves_per_step": num_leaves, "virtual_loss": virtual_loss}
    policy = AlphaZero(num_simulations, **grouped(dirichlet_fraction=0.0, **execution))
    return lambda rules, seeds: hash_model.search(policy, rules, jax.random.key(0), seeds, 4)


def test_virtual_losses_do_not_overflow_visits() -> None:
    """Visits are int16 in small trees; 200 leaves with three losses each would overflow."""
    for virtual_loss, dtype in ((0, jnp.int16), (3, jnp.int32)):
        search = search_by(32_500, 200, virtual_loss)
        out = jax.eval_shape(search, RULES["plain"], jnp.arange(1))
        assert out.search_tree.stats[0].children_visits.dtype == dtype


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
