"""Several devices: the same run as on one device, without copies of the whole buffer."""

import re
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx import AlphaZero, make_network
from dualmctx.distributed.devices import check_split, make_mesh
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import TrainState, make_trainer
from separate_process import EIGHT_DEVICES, call_with_flags


def make(devices: list, positions: Any = None) -> Any:
    env = games.make("nim", pile=9)
    network = make_network(env.num_actions, env.observation_shape, width=8, num_blocks=1)
    selfplay = SelfPlay(num_games=8, num_steps=5, temperature_plies=3, random_plies=1)
    learner = Learner(batch_size=16, num_updates=2, capacity=80)
    return make_trainer(
        env,
        network,
        AlphaZero(2, reuse_capacity=1),
        selfplay,
        learner,
        num_iterations=3,
        devices=devices,
        positions=positions,
    )


def given(iteration: int) -> TrainingBatch:
    """Returns 40 random positions of nim with a pile of 9, of which some have no result."""
    draws = np.random.default_rng(iteration)
    return TrainingBatch(
        observation=draws.integers(0, 2, (40, 10)).astype(bool),
        legal_action_mask=np.ones((40, 3), bool),
        policy=np.eye(3, dtype=np.float32)[draws.integers(0, 3, 40)],
        value=draws.choice([-1.0, 1.0], 40).astype(np.float32),
        remaining_discount=draws.choice([0.0, 1.0], 40).astype(np.float32),
        is_truncated=np.zeros(40, bool),
        is_random=np.zeros(40, bool),
        search_value=np.zeros(40, np.float32),
    )


def run(trainer: Any, iterate: Any) -> tuple[TrainState, list]:
    state, rows = trainer.init(0), []
    for _ in range(2):
        state, row = iterate(state)
        rows.append({name: x for name, x in row.items() if "seconds" not in name})
    return state, rows


def check_collectives(play: Any, learn: Any) -> None:
    """Checks that self-play has no collectives, and that learning does not copy the buffer."""
    pattern = r"= (.*) (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\("
    # XLA numbers the parts of a long tuple.
    shapes = [x[0] for x in re.findall(pattern, re.sub(r"/\*.*?\*/", "", play.as_text()))]
    assert shapes == ["(s32[], s32[], s32[], s32[], s32[], s32[])"]
    shapes = " ".join(x[0] for x in re.findall(pattern, learn.as_text()))
    # A batch of 16 positions, of a buffer of 8 times 10.
    assert "pred[16,1,10]" in shapes
    assert "8,10,10]" not in shapes


def check() -> None:
    """Runs with 8 devices and compares the states of a run on one and on eight."""
    for positions in (None, given):
        trainers = [make(jax.devices()[:n], positions) for n in (1, 8)]
        one, eight = ((x, x.compile(x.shapes)) for x in trainers)
        if positions is None:
            check_collectives(*eight[1].args[:2])
        check_equal(run(*one), run(*eight))


def check_equal(one: Any, eight: Any) -> None:
    """Compares the states and rows of a run on one device and on eight."""
    for row, other in zip(one[1], eight[1], strict=True):
        assert row == pytest.approx(other, rel=1e-4, abs=1e-6)
    state = eight[0]
    for field in TrainState._fields:
        pair = (jax.device_get(getattr(x[0], field)) for x in (one, eight))
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), *pair)
    for part, number in ((state.games, 1), (state.buffer_state.experience, 1), (state.params, 8)):
        for x in jax.tree.leaves(part):
            shares = {str(shard.index) for shard in x.addressable_shards}
            assert len(x.addressable_shards) == 8
            assert len(shares) == 8 // number


@pytest.mark.slow
def test_eight_devices_match_one_device() -> None:
    call_with_flags(check, EIGHT_DEVICES)


def test_indivisible_sizes_are_refused() -> None:
    mesh = make_mesh(jax.devices()[:1])
    two: Any = SimpleNamespace(size=2)
    check_split(mesh, num_games=7)
    words = r"^num_games is 7; it must be a multiple of the 2 devices: use 8, or fewer --devices$"
    with pytest.raises(ValueError, match=words):
        check_split(two, num_games=7)
