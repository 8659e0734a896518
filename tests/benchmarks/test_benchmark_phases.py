"""The profile of a simulation: its parts are those of the search, and its arithmetic is right."""

import dataclasses
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import phases
from benchmarks.phases import Program, depend
from dualmctx import with_options
from dualmctx.search.simulate import simulate
from dualmctx.search.slots import has_slots


@pytest.mark.slow
def test_parts_make_one_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = phases.PRESETS["tic-tac-toe"]
    # Packed states and action slots, as in chess.
    network = dataclasses.replace(preset.network, compact_states=True)
    search = with_options(preset.search, max_children=3)
    preset = dataclasses.replace(preset, network=network, search=search)
    monkeypatch.setitem(phases.PRESETS, "mine", preset)
    subject = phases.open_subject("mine", batch_size=3, num_simulations=6)
    half = phases.run_half(subject)
    assert half.slot == 4
    node, embedding = half.found
    assert has_slots(half.tree)
    # This also checks the action that is played.
    packing = phases.choose_packing(subject)
    assert_equal(packing.pack(half.after), embedding.state)
    programs = phases.make_programs(subject, half)
    found = jax.jit(programs["backup"].run)(programs["backup"].inputs, half.tree)
    params, key = subject.params, jax.random.key(5)
    simulate_one = jax.jit(lambda tree: simulate(params, half.spec, 0, half.slot, (key, tree))[1])
    assert_close(found, simulate_one(half.tree))
    assert np.all(np.asarray(half.tree.edges)[:, half.slot] == -1)
    walk = programs["walk"]
    assert_equal(jax.jit(walk.run)(walk.inputs, walk.carry), half.path)
    network = programs["network"]
    value = jax.jit(network.run)(network.inputs, network.carry).value
    is_over = half.after.terminated | half.after.truncated
    np.testing.assert_allclose(jnp.where(is_over, 0, value), node.value, atol=1e-6)


def assert_equal(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


def assert_close(one: Any, other: Any) -> None:
    """The network's output differs in the last digits between two compiled programs."""

    def assert_array_close(x: jax.Array, y: jax.Array) -> None:
        tolerance = 1e-6 if jnp.issubdtype(x.dtype, jnp.floating) else 0
        np.testing.assert_allclose(x, y, atol=tolerance, rtol=0)

    jax.tree.map(assert_array_close, one, other)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_loop_runs_each_iteration(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    run = phases.make_loop(Program(lambda step, x: x + step, 2, jnp.zeros(3)))
    np.testing.assert_array_equal(run(5), [10, 10, 10])
    np.testing.assert_array_equal(run(7), [14, 14, 14])


def test_dependent_inputs_are_unchanged() -> None:
    inputs = {"board": jnp.arange(4), "is_over": jnp.array([True, False])}
    assert_equal(depend(inputs, (jnp.ones((2, 2)), jnp.zeros(1))), inputs)


def test_dependent_computation_stays_in_loop() -> None:
    """XLA moves a computation that is the same in each iteration out of the loop."""

    def is_before_loop(*, is_dependent: bool) -> bool:
        def run(x: jax.Array, carry: jax.Array) -> jax.Array:
            return jnp.sin(depend(x, carry) if is_dependent else x) + carry

        def loop(x: jax.Array) -> jax.Array:
            return jax.lax.fori_loop(0, 50, lambda _, carry: run(x, carry), x)

        hlo = jax.jit(loop).lower(jnp.ones((8, 8))).compile().as_text()
        assert "/sin" in hlo
        return "/sin" in hlo[hlo.index("\nENTRY ") :]

    assert is_before_loop(is_dependent=False)
    assert not is_before_loop(is_dependent=True)


def test_time_of_iteration_excludes_time_of_call(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lengths = [0.0], set()
    monkeypatch.setattr("benchmarks.common.time.perf_counter", lambda: clock[0])

    def make_loop(program: Program) -> Any:
        def run(length: int) -> None:
            lengths.add((program.inputs, length))
            clock[0] += program.inputs + 0.25 * length

        return run

    monkeypatch.setattr(phases, "make_loop", make_loop)
    programs = {"a": Program(max, 1.0, None, short=4), "b": Program(max, 30.0, None)}
    assert phases.time_iterations(programs, 5.0, 3) == {"a": 0.25, "b": 0.25}
    # The short loop of "a" takes 2 s, so 4 · 5 / 2 iterations more; that of "b" takes 32 s.
    assert lengths == {(1.0, 4), (1.0, 14), (30.0, 8), (30.0, 16)}


def test_rows_add_up_to_simulation() -> None:
    parts = {"walk": 1e-6, "network": 5e-6, "backup": 0.0}
    rows = phases.make_rows(("nim", 4, 8, 1.5), parts, 8e-6)
    assert [row.part for row in rows] == [*parts, "rest", "simulation"]
    assert [row.us for row in rows] == [1, 5, 0, 2, 8]
    assert [row.share for row in rows] == [0.125, 0.625, 0, 0.25, 1]


@pytest.mark.slow
def test_phases_benchmark_profiles_each_part(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "rows.json"
    phases.main(["--quick", "--json", str(file)])
    *parts, whole = json.loads(file.read_text())["rows"]
    names = ["walk", "game step", "network", "backup", "rest"]
    assert [row["part"] for row in parts] == names
    assert sum(row["us"] for row in parts) == pytest.approx(whole["us"], abs=0.01)
    said = capsys.readouterr().out
    assert all(name in said for name in names)
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("flag", ["--batch", "--simulations", "--repeats"])
def test_phases_benchmark_refuses_bad_number(flag: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        phases.main([flag, "0"])
    assert f"{flag} is 0; it must be at least " in capsys.readouterr().err
