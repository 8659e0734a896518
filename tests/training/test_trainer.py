"""The trainer: reproducible, compiled once, and unaffected by an interruption."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest

import games
from dualmctx import AlphaZero, make_network
from dualmctx.runs.array_file import by_name
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.training import trainer as trainer_module
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay, Trajectory, make_play
from dualmctx.training.trainer import IterateFn, Trainer, TrainState, count_games, make_trainer

NUM_ITERATIONS = 30


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    """A tiny run on a small pile of nim."""
    env = games.make("nim", pile=5, max_take=2)
    network = make_network(2, (6,), width=8, num_blocks=2)
    selfplay = SelfPlay(num_games=6, num_steps=5, temperature_plies=3, random_plies=1)
    learner = Learner(learning_rate=1e-2, batch_size=16, num_updates=4, capacity=100)
    return make_trainer(
        env, network, AlphaZero(2), selfplay, learner, num_iterations=NUM_ITERATIONS
    )


@pytest.fixture(scope="module")
def iterate(trainer: Trainer) -> IterateFn:
    return trainer.compile(trainer.init(0))


def copy(state: TrainState) -> Any:
    """Copies a state to the host; iterating consumes it."""
    return jax.tree.map(np.array, state)


def assert_equal(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


def run(iterate: IterateFn, state: TrainState, num_iterations: int) -> tuple[TrainState, list]:
    rows = []
    for _ in range(num_iterations):
        state, metrics = iterate(state)
        rows.append(metrics)
    return state, rows


@pytest.mark.slow
def test_a_state_after_two_iterations(trainer: Trainer, iterate: IterateFn) -> None:
    """The seed determines it bit for bit."""
    start = copy(trainer.init(0))
    state, rows = run(iterate, trainer.init(0), 2)
    other = copy(run(iterate, trainer.init(1), 2)[0])
    assert_equal(copy(state), copy(run(iterate, trainer.init(0), 2)[0]))
    for field in ("params", "games", "rng_key", "buffer_state"):
        pairs = (jax.tree.leaves(getattr(x, field)) for x in (state, other))
        assert any((x != y).any() for x, y in zip(*pairs, strict=True)), field
    assert jax.tree.all(jax.tree.map(lambda x: np.isfinite(x).all(), copy(state)))
    assert int(state.iteration) == 2
    assert not np.array_equal(state.rng_key, start.rng_key)
    # Both heads learn: their last kernels are zero at first.
    for head in range(2):
        for name in ("policy", "value"):
            kernels = (x.params["params"][f"heads_{head}"][name]["kernel"] for x in (start, state))
            assert [bool((np.asarray(x) != 0).any()) for x in kernels] == [False, True]
    for row in rows:
        assert row["positions"] == 6 * 5
        # 4 batches of 16 positions.
        assert row["replay_ratio"] == 4 * 16 / (6 * 5)
        assert row["games"] == row["wins_by_mover"] > 0
        assert row["draws"] == row["truncated"] == row["resign_tests"] == 0
        assert all(np.isfinite(x) for x in row.values())
        losses = {f"{kind}_loss_{head}" for kind in ("policy", "value") for head in range(2)}
        assert losses < set(row)


@pytest.mark.slow
def test_positions_stay_on_the_device(trainer: Trainer) -> None:
    """The replay buffer is updated in place and learned from without a transfer."""
    state = trainer.init(0)
    play, learn = (program.compile() for program in trainer.lower(state))
    play_key, learn_key = jax.random.split(state.rng_key)
    buffers = jax.tree.leaves(state.buffer_state.experience)
    places = [x.unsafe_buffer_pointer() for x in buffers]
    with jax.transfer_guard("disallow_explicit"):
        games, buffer_state, _ = play(state.params, play_key, state.games, state.buffer_state)
        _, _, losses = learn(state.params, state.opt_state, buffer_state, learn_key)
        jax.block_until_ready((games, losses))
    assert [x.unsafe_buffer_pointer() for x in jax.tree.leaves(buffer_state.experience)] == places
    assert all(x.is_deleted() for x in buffers)
    for program in (play, learn):
        assert not re.search(r"infeed|outfeed|callback|\b(send|recv)\b", program.as_text())


def test_nothing_is_compiled_after_the_start(trainer: Trainer, iterate: IterateFn) -> None:
    state, _ = run(iterate, trainer.init(0), 1)
    events = []

    def listen(event: str, duration: float, **details: Any) -> None:
        if "compile" in event:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        state, _ = run(iterate, state, 2)
        assert events == []
        jax.jit(lambda x: x * int(state.iteration))(1.0)
        assert events, "the listener receives no events"
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.slow
def test_value_losses_fall(trainer: Trainer, iterate: IterateFn) -> None:
    _, rows = run(iterate, trainer.init(0), NUM_ITERATIONS)
    for head in range(2):
        losses = [row[f"value_loss_{head}"] for row in rows]
        assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:2])


def test_a_run_restored_from_a_checkpoint_equals_an_uninterrupted_one(
    trainer: Trainer, iterate: IterateFn, tmp_path: Path
) -> None:
    checkpoints = open_checkpoints(tmp_path)
    state, _ = run(iterate, trainer.init(0), 2)
    saved = copy(state)
    # The state is consumed while orbax may still be writing.
    checkpoints.save(2, state)
    state, rows = run(iterate, state, 2)
    straight = copy(state)
    checkpoints.wait()

    restored = open_checkpoints(tmp_path).restore(trainer.init(7)).state
    assert_equal(copy(restored), saved)
    state, more = run(iterate, restored, 2)
    assert_equal(copy(state), straight)
    for row in rows + more:
        del row["selfplay_seconds"], row["learn_seconds"]
    assert more == rows


def test_each_game_is_counted_once_and_by_its_result() -> None:
    """Columns: won by the last player to move, lost, drawn, truncated, in progress."""

    def last(*flags: float) -> np.ndarray:
        return np.stack([np.zeros(5), flags])

    nothing = Trajectory(*[None] * len(Trajectory._fields))
    trajectory = nothing._replace(
        reward=last(1, -1, 0, 0, 0),
        is_end=last(1, 1, 1, 1, 0) > 0,
        is_truncated=last(0, 0, 0, 1, 0) > 0,
        is_resign_test=last(1, 1, 1, 0, 0) > 0,
        is_resign_error=last(0, 1, 1, 0, 0) > 0,
    )
    assert {name: int(x) for name, x in count_games(trajectory).items()} == {
        "games": 4,
        "truncated": 1,
        "draws": 1,
        "wins_by_mover": 1,
        "resign_tests": 3,
        "resign_errors": 2,
    }


def test_the_options_of_a_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An optimiser of the user takes the place of the options; augmentation needs its function."""
    asked_for = []

    def spy(*arguments: Any, **options: Any) -> Any:
        asked_for.append(options)
        return make_play(*arguments, **options)

    monkeypatch.setattr(trainer_module, "make_play", spy)
    env, network = games.make("nim", pile=5), make_network(3, (6,), width=8, num_blocks=1)
    selfplay, learner = SelfPlay(num_games=2, num_steps=2), Learner(capacity=8, batch_size=2)
    parts = (env, network, AlphaZero(2, reuse_capacity=3), selfplay)
    with pytest.raises(ValueError, match=r"no augment_fn; pass augment_fn=training\.make_augment"):
        make_trainer(*parts, dataclasses.replace(learner, augment=True))
    with pytest.raises(ValueError, match="num_iterations is None"):
        make_trainer(*parts, learner)
    # Plain gradient descent has no state, which the steps of any other optimiser would need.
    trainer = make_trainer(*parts, learner, optimizer=optax.sgd(0.1))
    assert jax.tree.leaves(trainer.shapes.opt_state) == []
    trainer.lower(trainer.shapes)
    assert asked_for == [{"reuse_capacity": 3}]
    # A tree lives within an iteration: it is not part of the state.
    assert not any("children" in name for name in by_name(trainer.shapes))
