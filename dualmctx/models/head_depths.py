"""The depths of a network's heads: defaults and checks."""

from typing import Any

import numpy as np

from dualmctx.checks import check_count, describe, is_whole
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


def shared_depths(
    num_blocks: int, head_depths: tuple[int, ...] | None, num_heads: int
) -> tuple[int, ...]:
    """Returns the depths of the heads of one trunk, in blocks, increasing.

    Args:
      num_blocks: the blocks of the trunk.
      head_depths: the requested depths. `None` places heads at even distances: at least two of
        them, if there are two blocks.
      num_heads: the smallest number of heads.

    Raises:
      ValueError: if the depths are wrong or too few.
    """
    if head_depths is None:
        number = max(num_heads, min(2, num_blocks))
        if number > num_blocks:
            raise UserError(
                f"num_blocks is {num_blocks}; it must be at least {number}, one block per head"
            )
        head_depths = tuple(num_blocks * i // number for i in range(1, number + 1))
    check_shared_depths(num_blocks, head_depths)
    return _check_number(head_depths, num_heads)


def check_shared_depths(num_blocks: int, head_depths: tuple[int, ...]) -> None:
    """Checks that depths increase from at least 1 to the end of the trunk.

    A trunk of 0 blocks has one head, of depth 0.

    Raises:
      ValueError: if they do not.
    """
    first = min(1, num_blocks)
    is_valid = all(map(is_whole, head_depths)) and sorted(set(head_depths)) == list(head_depths)
    if not head_depths or not is_valid or head_depths[0] < first or head_depths[-1] != num_blocks:
        raise UserError(
            f"head_depths is {head_depths}; it must increase from at least 1 to"
            f" num_blocks={num_blocks}"
        )


def separate_depths(
    num_blocks: int, head_depths: tuple[int, ...] | None, num_heads: int
) -> tuple[int, ...]:
    """Returns the number of blocks of each of several separate trunks.

    Args:
      num_blocks: the blocks of the first trunk.
      head_depths: the blocks of each trunk, in any order. `None` chooses at least two trunks, each
        with half of `num_blocks` more than the one before.
      num_heads: the smallest number of trunks.

    Raises:
      ValueError: as `check_separate_depths`, or if there are too few.
    """
    if head_depths is None:
        head_depths = tuple(num_blocks * (2 + i) // 2 for i in range(max(num_heads, 2)))
    check_separate_depths(head_depths)
    return _check_number(head_depths, num_heads)


def check_separate_depths(head_depths: tuple[int, ...]) -> None:
    """Checks that there is at least one depth, and that each is at least 1.

    The first of several may be 0: a fast policy for rollouts, of a stem and a head.

    Raises:
      ValueError: if not.
    """
    minima = [1 if place or len(head_depths) == 1 else 0 for place in range(len(head_depths))]
    found = zip(head_depths, minima, strict=True)
    if not head_depths or not all(is_whole(depth) and depth >= least for depth, least in found):
        raise UserError(
            f"head_depths is {head_depths}; it must be the blocks of each network, at least 1 (the "
            "first of several may have 0)"
        )


def check_value_blocks(value_blocks: int | None, *, separate_trunks: bool) -> None:
    """Checks the number of blocks of the trunk of the value.

    Raises:
      ValueError: if it is below 1, or if there are no separate trunks.
    """
    check_count("value_blocks", value_blocks, 1, "for the value of the final head")
    if value_blocks is not None and not separate_trunks:
        raise UserError(
            f"value_blocks is {value_blocks}; it must be none without separate trunks, or add "
            "--network.separate-trunks True"
        )


def _check_number(head_depths: tuple[int, ...], num_heads: int) -> tuple[int, ...]:
    if len(head_depths) < num_heads:
        raise UserError(
            f"head_depths is {head_depths}; it must name at least {num_heads} depths, one for each"
            " head that the search evaluates"
        )
    return head_depths
