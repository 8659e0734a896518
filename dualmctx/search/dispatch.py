"""The choice between a kernel and XLA's loops."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax import Array
from jax.core import Tracer

from dualmctx.search.threefry import can_sample
from dualmctx.search.tree import Tree
from dualmctx.types import Kernels

T = TypeVar("T")
# The largest position in an array that an int32 can hold.
_MAX_POSITION = 2**31 - 1


def choose(
    kernels: Kernels,
    tree: Tree | None,
    functions: tuple[Callable[..., T], Callable[..., T]],
    *args: Any,
    rng_key: Array | None = None,
    in_kernels: bool = True,
    **options: Any,
) -> T:
    """Runs a kernel where the platform has kernels, and XLA's loops elsewhere.

    The platform is that for which the program is lowered. The loops run on all platforms if a
    kernel cannot address the arrays of the trees by int32, if the numbers in them have 16 bits (see
    `NodeInit.prior`), in 64-bit mode, if a kernel cannot sample with the key, if an option of the
    backup is traced, and if a rule or a statistic is not made for kernels.

    Args:
      kernels: the option of the search, see `SearchSpec`.
      tree: the trees; `None` if the functions take none.
      functions: the function that runs the kernel and the one that runs the loops. The first has
        an additional argument `interpret`.
      *args: their arguments.
      rng_key: the key from which they sample; `None` if they do not.
      in_kernels: whether the rules and statistics run in kernels.
      **options: their named arguments.

    Returns:
      The result of one of the two.
    """
    in_kernel, in_loops = functions
    # A process without a GPU needs no time to trace the kernels.
    is_elsewhere = kernels == "auto" and jax.default_backend() != "gpu"
    is_traced = any(isinstance(x, Tracer) for x in jax.tree.leaves(options))
    is_possible = in_kernels and not is_traced and _is_possible(tree, rng_key)
    if kernels == "off" or is_elsewhere or not is_possible:
        return in_loops(*args, **options)
    if kernels == "interpret":
        return in_kernel(*args, **options, interpret=True)
    return jax.lax.platform_dependent(
        cuda=lambda: in_kernel(*args, **options), default=lambda: in_loops(*args, **options)
    )


def _is_possible(tree: Tree | None, rng_key: Array | None) -> bool:
    """Returns whether kernels can read the trees, if given, and sample with the key, if given."""
    if jax.config.jax_enable_x64 or (rng_key is not None and not can_sample(rng_key)):
        return False
    if tree is None:
        return True
    # A statistic may have two numbers per edge. Triton cannot divide numbers of 16 bits.
    is_small = 2 * tree.children_prior.size <= _MAX_POSITION
    return is_small and tree.children_prior.dtype.itemsize >= 4
