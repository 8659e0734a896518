"""A default size of the sliding window τ, from the size of the game."""

import math

from dualmctx.checks import check, check_count, describe, is_whole

# The slope is our reading: the paper gives no number.
_SLOPE, _LEAST = 0.35, 2


def window_for(num_states: int, max_depth: int) -> int:
    """Returns a window τ that grows with the logarithm of the state space.

    Formula: clip(round(0.35 · log2 |S|), 2, D). The paper says that τ grows "proportionally to the
    state space logarithmically" and gives no number; slope and bounds are our reading.

    Args:
      num_states: |S|, the number of reachable states of the game, at least 1. An estimate
        suffices, because a factor of 2 changes τ by only 0.35 edges.
      max_depth: D, the number of plies of the longest game, at least 1. A window of D edges gives
        full backups.

    Returns:
      A value for the option `window` of `Backup`, in edges, from 1 to D; below 2 only if D is 1.

    Raises:
      ValueError: if a number is out of range.

    Source: Kadam, Xu, Lieberherr 2021, section 3.
    """
    # Not `check_count`, because the number of states may exceed 32 bits.
    is_valid = is_whole(num_states) and num_states >= 1
    check(is_valid, "num_states", describe(num_states), "a whole number, at least 1")
    check_count("max_depth", max_depth, 1)
    return min(max(round(_SLOPE * math.log2(num_states)), _LEAST), max_depth)
