"""The depths of a network's heads: defaults and checks."""

from dualmctx.checks import is_whole


def shared_depths(
    num_blocks: int, head_depths: tuple[int, ...] | None, num_heads: int
) -> tuple[int, ...]:
    """Returns the depths of the heads of one trunk, in blocks, increasing.

    Args:
      num_blocks: the blocks of the trunk.
      head_depths: the depths asked for; `None` places at least two heads at even distances, if
        there are two blocks.
      num_heads: the least number of heads.

    Raises:
      ValueError: if the depths are wrong or too few.
    """
    if head_depths is None:
        number = max(num_heads, min(2, num_blocks))
        if number > num_blocks:
            raise ValueError(
                f"num_blocks is {num_blocks}; it must be at least {number}, one block per head"
            )
        head_depths = tuple(num_blocks * i // number for i in range(1, number + 1))
    check_shared_depths(num_blocks, head_depths)
    return _check_number(head_depths, num_heads)


def check_shared_depths(num_blocks: int, head_depths: tuple[int, ...]) -> None:
    """Checks that depths increase from at least 1 to the end of the trunk.

    Raises:
      ValueError: if they do not.
    """
    is_right = all(map(is_whole, head_depths)) and sorted(set(head_depths)) == list(head_depths)
    if not head_depths or not is_right or head_depths[0] < 1 or head_depths[-1] != num_blocks:
        raise ValueError(
            f"head_depths is {head_depths}; it must increase from at least 1 to"
            f" num_blocks={num_blocks}"
        )


def separate_depths(
    num_blocks: int, head_depths: tuple[int, ...] | None, num_heads: int
) -> tuple[int, ...]:
    """Returns the blocks of each of several separate trunks.

    Args:
      num_blocks: the blocks of the first trunk.
      head_depths: the blocks of each trunk, in any order; `None` adds half of `num_blocks` from
        each trunk to the next, with at least two trunks.
      num_heads: the least number of trunks.

    Raises:
      ValueError: if a depth is not at least 1, or if there are too few.
    """
    if head_depths is None:
        head_depths = tuple(num_blocks * (2 + i) // 2 for i in range(max(num_heads, 2)))
    check_separate_depths(head_depths)
    return _check_number(head_depths, num_heads)


def check_separate_depths(head_depths: tuple[int, ...]) -> None:
    """Checks that there are depths, each at least 1.

    Raises:
      ValueError: if not.
    """
    if not head_depths or not all(is_whole(depth) and depth >= 1 for depth in head_depths):
        raise ValueError(
            f"head_depths is {head_depths}; it must be the blocks of each network, at least 1"
        )


def _check_number(head_depths: tuple[int, ...], num_heads: int) -> tuple[int, ...]:
    if len(head_depths) < num_heads:
        raise ValueError(
            f"head_depths is {head_depths}; it must name at least {num_heads} depths, one for each"
            " head that the search evaluates"
        )
    return head_depths
