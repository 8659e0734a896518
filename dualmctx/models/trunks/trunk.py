"""The record that each trunk in this folder defines."""

from collections.abc import Callable
from typing import NamedTuple

from flax import linen as nn


class Trunk(NamedTuple):
    """A kind of trunk: a stem, then residual blocks of one shape.

    Activations are float32 arrays `[M, ..., width]` with the same shape after the stem and after
    every block, so that a network can stop at any depth and be resumed there.

    Attributes:
      make_stem: `(width) -> module` that maps `[M, ...]` float32 observations to activations.
      make_block: `(width) -> module` that maps activations to activations.
      accepts: `(shape) -> bool`, whether the trunk accepts observations of this shape, without the
        batch axis.
      requirement: a description of the accepted shapes for error messages.
    """

    make_stem: Callable[[int], nn.Module]
    make_block: Callable[[int], nn.Module]
    accepts: Callable[[tuple[int, ...]], bool]
    requirement: str
