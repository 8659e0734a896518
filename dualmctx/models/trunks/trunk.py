"""The record that each trunk in this folder defines."""

from collections.abc import Callable
from typing import NamedTuple

from flax import linen as nn


class Trunk(NamedTuple):
    """A kind of trunk: a stem, then residual blocks of one shape.

    Activations are arrays `[M, ..., width]` with the same shape and dtype after the stem and after
    every block, so that a network can stop at any depth and be resumed there. Their dtype, float32
    or bfloat16, is also that of all products. Parameters and the statistics of normalisation are
    float32; a search passes matrices and kernels in the dtype of the trunk (`network.cast_trunk`).

    Attributes:
      make_stem: `(width, dtype=dtype) -> module` that maps `[M, ...]` observations to activations.
      make_block: `(width, dtype=dtype) -> module` that maps activations to activations.
      accepts: `(shape) -> bool`, whether the trunk accepts observations of this shape, without the
        batch axis.
      requirement: a description of the accepted shapes for error messages.
    """

    make_stem: Callable[..., nn.Module]
    make_block: Callable[..., nn.Module]
    accepts: Callable[[tuple[int, ...]], bool]
    requirement: str
