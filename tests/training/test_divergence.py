"""Divergence checks: which metrics and failures end a run."""

import errno
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from dualmctx.training.divergence import FAILURES, check_divergence, first_line

GOOD = {"w": jnp.ones((2, 3)), "b": (jnp.zeros(2), jnp.float32(1))}
NUM_ACTIONS = 8  # uniform play loses at most log 8 = 2.08


def row(policy: float, value: float = 0.5) -> dict[str, Any]:
    return {
        "iteration": 7,
        "policy_loss_0": 0.5,
        "value_loss_0": value,
        "policy_loss_1": policy,
    }


@pytest.mark.parametrize(
    ("policy", "value", "usual", "num_rows", "words"),
    [
        (0.5, -math.inf, 0.5, 0, "value_loss_0 is -inf"),
        # Ten times the loss of uniform play is too high from the first iteration on.
        (20.7, 0.5, 0.5, 0, None),
        (20.9, 0.5, 0.5, 0, "policy_loss_1 is 20.9, more than 20.8"),
        # Ten times the baseline, once there is one, and worse than uniform play.
        (5.1, 0.5, 0.5, 49, None),
        (5.1, 0.5, 0.5, 50, "policy_loss_1 is 5.1, more than 5"),
        (2.0, 0.5, 0.001, 60, None),
        (2.1, 0.5, 0.001, 60, "policy_loss_1 is 2.1, more than 2.08"),
        (0.5, 99.0, 0.5, 60, None),
    ],
)
def test_divergence_is_named(
    policy: float, value: float, usual: float, num_rows: int, words: str | None
) -> None:
    before = [row(usual) for _ in range(num_rows)]
    assert check_divergence(row(policy, value), before, GOOD, NUM_ACTIONS) == words


def test_only_last_rows_set_baseline() -> None:
    before = [row(0.5)] * 10 + [row(1.0)] * 50
    assert check_divergence(row(9.9), before, GOOD, NUM_ACTIONS) is None
    before = [row(1.0)] * 10 + [row(0.5)] * 50
    assert check_divergence(row(9.9), before, GOOD, NUM_ACTIONS) is not None


def test_single_bad_parameter_is_found() -> None:
    params = GOOD | {"w": GOOD["w"].at[1, 2].set(math.nan)}
    words = "a parameter of the network is not finite"
    assert check_divergence(row(0.5), [], params, NUM_ACTIONS) == words


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(2, "No such file", "x", None, "y"), "x → y: No such file"),
        (OSError(errno.ENOSPC, "No space left"), "No space left; free space on its disk, or"),
        (OSError(errno.EDQUOT, "Quota exceeded", b"x"), "x: Quota exceeded; free space within"),
        (OSError(errno.EROFS, "Read-only", Path("x")), "x: Read-only; choose a place that can"),
        (OSError(errno.EIO, "Input/output error", 3), "Input/output error"),
        (OSError("no number"), "no number"),
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory\nof it"), "RESOURCE_EXH"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_failures_are_reported_in_one_line(error: Exception, line: str) -> None:
    assert isinstance(error, FAILURES)
    assert first_line(error).startswith(line)
    assert "\n" not in first_line(error)
    assert not isinstance(ValueError("of the program"), FAILURES)
