"""The default batch size of `dualmctx evaluate`."""

from types import SimpleNamespace

import pytest

from dualmctx.evaluation import factory
from dualmctx.evaluation.factory import (
    DEFAULT_BATCH_SIZE,
    MAX_SHARE,
    build_evaluator,
    bytes_per_position,
    default_batch_size,
)
from dualmctx.policies import AlphaZero
from dualmctx.runs.saved_network import Trained
from untrained import make_untrained


@pytest.fixture(scope="module")
def trained() -> Trained:
    return make_untrained("connect-four")


def test_cpu_has_a_fixed_batch_size(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory is not predicted, because that would compile."""
    monkeypatch.setattr(factory, "bytes_per_position", None)
    assert default_batch_size(trained, AlphaZero(4)) == DEFAULT_BATCH_SIZE == 256
    assert default_batch_size(trained, None, max_positions=3) == 256


def pretend_gpus(monkeypatch: pytest.MonkeyPatch, number: int, free: int | None) -> None:
    devices = [SimpleNamespace(platform="gpu", process_index=0)] * number
    monkeypatch.setattr(factory, "choose_devices", lambda number: devices[:number])
    monkeypatch.setattr(factory, "free_memory", lambda: free)


@pytest.mark.parametrize(
    ("number", "free", "max_positions", "expected"),
    [
        (1, 10**12, 10**9, MAX_SHARE),
        (1, 20_000_000, 10**9, 1024),
        (3, 20_000_000, 10**9, 3072),
        (1, 20_000_000, 1025, 320),
        (2, 20_000_000, 3, 128),
        (1, 20_000_000, 1, 64),
        (1, 10**12, 8193, 8256),
        (1, 50_000, 1000, 2),
        (1, 10**12, None, DEFAULT_BATCH_SIZE),
        (3, None, 10**9, 258),
    ],
)
def test_gpu_batch_follows_from_memory_and_positions(
    trained: Trained,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    free: int | None,
    max_positions: int | None,
    expected: int,
) -> None:
    pretend_gpus(monkeypatch, number, free)
    monkeypatch.setattr(factory, "bytes_per_position", lambda trained, policy: 9000)
    assert default_batch_size(trained, AlphaZero(4), max_positions=max_positions) == expected


def test_predicted_batch_is_accepted(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluator's own check of the memory accepts the batch."""
    policy, free = None, 1024 * bytes_per_position(trained, None)
    with monkeypatch.context() as patch:
        pretend_gpus(patch, 1, free)
        chosen = default_batch_size(trained, policy, max_positions=10**6)
    assert chosen == 512
    monkeypatch.setattr(factory, "free_memory", lambda: free)
    assert build_evaluator(trained, policy, batch_size=chosen).batch_size == 512
