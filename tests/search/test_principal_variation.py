"""The principal variation of a raw search, against plain Python."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hash_model
from dualmctx import Dual, principal_variation, with_options
from dualmctx.errors import UserError
from test_evaluator import plain_line

B, A = 6, 5
# The small tree often chooses an action that the large tree has not visited.
POLICY = with_options(Dual((40, 6), 2).for_evaluation(), max_children=3)


@functools.cache
def search() -> Any:
    policy = POLICY
    rules = hash_model.Rules(terminal=0.2)

    def run(key: Any) -> Any:
        root = hash_model.roots(jnp.arange(B), rules, A)
        later = hash_model.refine_fns(len(policy.heads), A)

        def step(*args: Any) -> Any:
            return hash_model.recurrent_fn(*args, num_actions=A)

        output = policy(rules, key, root, step, later)
        lines = principal_variation(output.search_tree, output.action, length=7)
        return output, lines

    return jax.device_get(jax.jit(run)(jax.random.key(0)))


@pytest.mark.slow
def test_the_line_is_the_most_visited_one() -> None:
    output, lines = search()
    assert lines.shape == (B, 7)
    assert lines.dtype == np.int32
    expected = [plain_line(output.search_tree, i, output.action[i], 7) for i in range(B)]
    assert lines.tolist() == [line + [-1] * (7 - len(line)) for line in expected]
    assert max(map(len, expected)) > 2
    # A tree read from the device, and no action.
    again = principal_variation(output.search_tree, output.action)
    np.testing.assert_array_equal(again[:, :7], lines)
    assert again.shape == (B, 32)
    assert (principal_variation(output.search_tree, jnp.full(B, -1)) == -1).all()


WRONG: dict[str, Any] = {
    "length is 2.0; it must be a whole number": {"length": 2.0},
    "tree is of type PolicyOutput; it must be the search_tree": {"tree": "output"},
    r"action is an array of int32 with the shape \[1\]; it must be": {"action": np.zeros(1, "i4")},
    "action is 3; it must be an array of integers": {"action": 3},
}


@pytest.mark.slow
def test_wrong_arguments_are_named() -> None:
    output, _ = search()
    for message, changes in WRONG.items():
        tree = output if "tree" in changes else output.search_tree
        arguments = {"tree": tree, "action": output.action} | changes | {"tree": tree}
        with pytest.raises(UserError, match=message):
            principal_variation(**arguments)
