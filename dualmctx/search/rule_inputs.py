"""The inputs that selection rules read, and the arrays over which they close.

A kernel loads only the inputs that its rules read. XLA then removes the computations that nothing
else needs: the splits of the key in each simulation, and an array of invalid actions.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.core import Tracer

from dualmctx.search.tree import Tree
from dualmctx.types import SelectFn


class Inputs(NamedTuple):
    """Which inputs at least one of the rules reads.

    Attributes:
      key: the random key.
      invalid_actions: `Tree.root_invalid_actions`.
    """

    key: bool
    invalid_actions: bool


# Options that are arrays of the batch, which kernels load.
_ARRAYS = ("is_active",)


def captures_arrays(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> bool:
    """Returns whether a call reads arrays or traced numbers that a kernel cannot load.

    These are options, and values over which a rule or another function among the arguments closes.
    """
    constants = {name: x for name, x in options.items() if name not in _ARRAYS}
    if any(isinstance(x, Tracer) for x in jax.tree.leaves(constants)):
        return True
    leaves, treedef = jax.tree.flatten((args, options))
    places = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array)]

    def call(*arrays: Any) -> Any:
        given = dict(zip(places, arrays, strict=True))
        args, options = jax.tree.unflatten(treedef, [given.get(i, x) for i, x in enumerate(leaves)])
        return function(*args, **options)

    program = jax.make_jaxpr(call)(*(leaves[i] for i in places))
    return any(isinstance(x, Tracer) or jnp.ndim(x) > 0 for x in program.consts)


def find_inputs(rules: Sequence[SelectFn], rng_key: Array, tree: Tree) -> Inputs:
    """Traces rules on the arrays of a batch and returns which inputs they read."""
    nodes = jnp.zeros(tree.edges.shape[0], jnp.int32)

    def choose(rng_key: Any, invalid_actions: Any) -> list[Array]:
        own = tree.replace(root_invalid_actions=invalid_actions)
        return [rule(rng_key, own, nodes, jnp.int32(1)) for rule in rules]

    program = jax.make_jaxpr(choose)(rng_key, tree.root_invalid_actions).jaxpr
    read = {id(variable) for step in program.eqns for variable in step.invars}
    return Inputs(*(id(variable) in read for variable in program.invars))
