"""The depths of a network's heads: defaults and checks."""

from typing import Any

import numpy as np

from dualmctx.checks import describe, is_whole
from dualmctx.errors import UserError


def read_depths(head_depths: Any) -> tuple[int, ...]:
    """Returns given depths as a tuple, with Python's integers.

    Raises:
      ValueError: if they are not a sequence of numbers.
    """
    if isinstance(head_depths, str) or np.ndim(head_depths) != 1:
        remedy = "a tuple of depths, one for each head"
        raise UserError(f"head_depths is {describe(head_depths)}; it must be {remedy}")
    return tuple(int(depth) if is_whole(depth) else depth for depth in head_depths)


def default_depths(num_blocks: int, num_heads: int, *, separate: bool) -> tuple[int, ...]:
    """Chooses the depths of at least two heads, or of one if a shared trunk has one block.

    Args:
      num_blocks: the blocks of the shared trunk, or of the first of several separate ones.
      num_heads: the smallest number of heads.
      separate: whether each head has a trunk of its own. Each trunk then has half of `num_blocks`
        more than the one before. The heads of one trunk are at even distances.

    Raises:
      ValueError: if a shared trunk has fewer blocks than heads.
    """
    if separate:
        return tuple(num_blocks * (2 + i) // 2 for i in range(max(num_heads, 2)))
    number = max(num_heads, min(2, num_blocks))
    if number > num_blocks:
        raise UserError(
            f"num_blocks is {num_blocks}; it must be at least {number}, one block per head"
        )
    return tuple(num_blocks * i // number for i in range(1, number + 1))


def check_depths(
    head_depths: tuple[int, ...], num_blocks: int | None = None, num_heads: int = 1
) -> None:
    """Checks the depths of heads, in blocks.

    Args:
      head_depths: the depths. Those of one trunk increase from at least 1 to its end; a trunk of 0
        blocks has one head, of depth 0. Separate trunks have at least 1 block each, and the first
        of several may have none: a fast policy for rollouts, of a stem and a head.
      num_blocks: the blocks of the shared trunk; `None` for separate trunks.
      num_heads: the smallest number of heads.

    Raises:
      ValueError: if they are wrong or too few.
    """
    number = len(head_depths)
    is_valid = number > 0 and all(map(is_whole, head_depths))
    if num_blocks is None:
        is_valid = is_valid and min(head_depths[1:] or head_depths) >= 1 and head_depths[0] >= 0
        remedy = "be the blocks of each network, at least 1 (the first of several may have 0)"
    else:
        is_valid = is_valid and sorted(set(head_depths)) == list(head_depths)
        is_valid = is_valid and head_depths[0] >= min(1, num_blocks)
        is_valid = is_valid and head_depths[-1] == num_blocks
        remedy = f"increase from at least 1 to num_blocks={num_blocks}"
    if is_valid and number < num_heads:
        is_valid = False
        remedy = f"name at least {num_heads} depths, one for each head that the search evaluates"
    if not is_valid:
        raise UserError(f"head_depths is {head_depths}; it must {remedy}")
