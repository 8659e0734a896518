"""The output of a search, made without a search, and `jax.jit`, without a compilation."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mctx

from dualmctx.search.expand import allocate


def output_of(action: Any, num_actions: int) -> mctx.PolicyOutput:
    """Returns a policy output with the `[B]` actions and trees that hold only their root."""
    prior, zero = jnp.ones((len(action), num_actions)), jnp.zeros(len(action))
    tree = allocate(prior, zero, None, num_nodes=1)
    return mctx.PolicyOutput(action=action, action_weights=prior, search_tree=tree)


def traced(
    function: Callable[..., Any], jit: Callable[..., Any] = jax.jit, **options: Any
) -> Callable[..., Any]:
    """Stands for `jax.jit`: the results are zeros of the right shapes, and nothing is compiled."""
    jitted = jit(function, **options)

    def run(*arguments: Any, **named: Any) -> Any:
        found = jitted.eval_shape(*arguments, **named)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), found)

    return run
