"""The dtype in which a trunk computes."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from typing import Any

import jax

from dualmctx.checks import check
from dualmctx.types import Params, PolicyValueNetwork

DTYPES = ("float32", "bfloat16")
"""The names of the dtypes in which a trunk can compute."""


def check_dtype(dtype: str) -> None:
    """Checks the name of a trunk's dtype.

    Raises:
      ValueError: if it is not in `DTYPES`.
    """
    check(dtype in DTYPES, "dtype", dtype, f"one of {', '.join(DTYPES)}")


def cast_trunk(network: PolicyValueNetwork, params: Params) -> Params:
    """Casts the matrices and kernels of a trunk to the trunk's dtype.

    A trunk casts its parameters in each evaluation. A search evaluates the network many times with
    the same parameters, so it casts them once; the results are the same bit for bit. Parameters of
    heads and vectors, such as the scales of normalisation, stay float32.

    Args:
      network: a network; one without the field `dtype` computes in float32.
      params: its parameters.
    """
    dtype = getattr(network, "dtype", "float32")
    if dtype == "float32":
        return params

    def cast(path: tuple[Any, ...], x: jax.Array) -> jax.Array:
        is_of_head = any(str(getattr(key, "key", "")).startswith("heads_") for key in path)
        return x if is_of_head or x.ndim < 2 else x.astype(dtype)

    return jax.tree_util.tree_map_with_path(cast, params)
