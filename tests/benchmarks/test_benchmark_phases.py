"""The profile of a simulation: its parts are those of the search, and its arithmetic is right."""

import dataclasses
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import looped, phases, simulation_parts
from benchmarks.looped import Cost, Peak, Program
from dualmctx import with_options
from dualmctx.search.simulate import simulate
from dualmctx.search.slots import has_slots


@pytest.mark.slow
@pytest.mark.parametrize("is_compact", [False, True])
def test_parts_make_one_simulation(is_compact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = simulation_parts.PRESETS["tic-tac-toe"]
    if is_compact:
        # Packed states and action slots, as in chess.
        network = dataclasses.replace(preset.network, compact_states=True)
        search = with_options(preset.search, max_children=3)
        preset = dataclasses.replace(preset, network=network, search=search)
    monkeypatch.setitem(simulation_parts.PRESETS, "mine", preset)
    subject = simulation_parts.open_subject("mine", batch_size=3, num_simulations=6)
    half = simulation_parts.run_half(subject)
    assert half.slot == 4
    node, embedding = half.found
    assert has_slots(half.tree) == is_compact
    # With slots, this also checks the action that is played.
    packing = simulation_parts.choose_packing(subject)
    assert_equal(packing.pack(half.after), embedding.state)
    programs = simulation_parts.make_programs(subject, half)
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
    run = looped.make_loop(Program(lambda step, x: x + step, 2, jnp.zeros(3)))
    np.testing.assert_array_equal(run(5), [10, 10, 10])
    np.testing.assert_array_equal(run(7), [14, 14, 14])


def test_dependent_inputs_are_unchanged() -> None:
    inputs = {"board": jnp.arange(4), "is_over": jnp.array([True, False])}
    assert_equal(looped.depend(inputs, (jnp.ones((2, 2)), jnp.zeros(1))), inputs)


def test_dependent_computation_stays_in_loop() -> None:
    """XLA moves a computation that is the same in each iteration out of the loop."""

    def is_before_loop(*, is_dependent: bool) -> bool:
        def run(x: jax.Array, carry: jax.Array) -> jax.Array:
            return jnp.sin(looped.depend(x, carry) if is_dependent else x) + carry

        def loop(x: jax.Array) -> jax.Array:
            return jax.lax.fori_loop(0, 50, lambda _, carry: run(x, carry), x)

        hlo = jax.jit(loop).lower(jnp.ones((8, 8))).compile().as_text()
        assert "/sin" in hlo
        return "/sin" in hlo[hlo.index("\nENTRY ") :]

    assert is_before_loop(is_dependent=False)
    assert not is_before_loop(is_dependent=True)


def test_time_of_iteration_excludes_time_of_call(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("benchmarks.common.time.perf_counter", lambda: clock[0])

    def make_loop(program: Program) -> Any:
        def run(length: int) -> None:
            clock[0] += program.inputs + 0.25 * length

        return run

    monkeypatch.setattr(looped, "make_loop", make_loop)
    programs = {"a": Program(max, 1.0, None, short=4), "b": Program(max, 30.0, None)}
    loops = looped.make_loops(programs, seconds=5.0)
    # The short loop of "a" takes 2 s, so 4 · 5 / 2 iterations more; that of "b" takes 32 s.
    assert list(loops) == [("a", 4), ("a", 14), ("b", 8), ("b", 16)]
    assert looped.time_iterations(programs, 5.0, 3) == {"a": [0.25] * 3, "b": [0.25] * 3}


def test_cost_of_matrix_product() -> None:
    one, other = jnp.zeros((4, 8)), jnp.zeros((8, 16))
    cost = looped.count(jnp.matmul, one, other)
    assert cost == (2 * 4 * 8 * 16, 4 * (4 * 8 + 8 * 16 + 4 * 16))
    assert cost.times(2).plus(cost) == cost.times(3)


def test_least_time_is_that_of_operations_or_bytes() -> None:
    peak = Peak(float32=100.0, bfloat16=400.0, bytes=10.0)
    cost = Cost(operations=800.0, bytes=30.0)
    assert peak.seconds(cost) == 8
    assert peak.seconds(cost, "bfloat16") == 3


def test_rows_add_up_to_simulation() -> None:
    parts = {"walk": 1e-6, "network": 5e-6, "backup": 0.0}
    costs = {part: Cost(100.0, 10.0) for part in parts}
    least = {"walk": 2e-7, "network": 4e-6, "backup": 1e-7}
    rows = phases.make_rows(("nim", 4, 8, 1.5), parts, 8e-6, costs, least)
    assert [row.part for row in rows] == [*parts, "rest", "simulation"]
    assert [row.us for row in rows] == [1, 5, 0, 2, 8]
    assert [row.share for row in rows] == [0.125, 0.625, 0, 0.25, 1]
    assert [row.of_peak for row in rows] == [0.2, 0.8, None, None, 0.5375]
    assert (rows[-1].operations, rows[-1].bytes, rows[-1].peak_us) == (300, 30, 4.3)


@pytest.mark.slow
def test_phases_benchmark_profiles_each_part(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "rows.json"
    phases.main(["--quick", "--json", str(file)])
    found = json.loads(file.read_text())
    parts = ["walk", "game step", "network", "backup", "rest", "simulation"]
    assert [row["part"] for row in found["rows"]] == parts
    assert found["environment"]["jax"] == jax.__version__
    assert set(found["peak"]) == {"float32", "bfloat16", "bytes"}
    *known, rest, whole = found["rows"]
    assert whole["operations"] == sum(row["operations"] for row in known)
    assert sum(row["us"] for row in (*known, rest)) == pytest.approx(whole["us"], abs=0.01)
    said = capsys.readouterr().out
    assert all(part in said for part in parts)
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("flag", ["--batch", "--simulations", "--repeats"])
def test_phases_benchmark_refuses_bad_number(flag: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        phases.main([flag, "0"])
    assert f"{flag} is 0; it must be at least " in capsys.readouterr().err
