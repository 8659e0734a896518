"""`benchmarks.compiled`: the counts of compiled programs, and the message without a CUDA plugin."""

import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from benchmarks import compiled, cuda_compiler
from benchmarks.cuda_compiler import CUDAUnavailableError
from benchmarks.hlo_counts import Counts, count

TEXT = """
HloModule example

%double (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %twice = f32[4]{0} add(%x, %x)
}

%step (y: f32[4]) -> f32[4] {
  %y = f32[4]{0} parameter(0)
  %start = (f32[4]{0}, f32[4]{0}) copy-start(%y)
  ROOT %done = f32[4]{0} copy-done(%start)
}

%inner_body (c: (s32[], f32[4])) -> (s32[], f32[4]) {
  %c = (s32[], /*index=1*/f32[4]{0}) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %y = f32[4]{0} get-tuple-element(%c), index=1
  %one = f32[4]{0} fusion(%y), kind=kLoop, calls=%double
  %two = f32[4]{0} custom-call(%one), custom_call_target="kernel"
  %called = f32[4]{0} call(%two), to_apply=%step
  %start = f32[4]{0} all-reduce-start(%called), to_apply=%sum
  %sums = f32[4]{0} all-reduce-done(%start)
  ROOT %pair = (s32[], f32[4]{0}) tuple(%i, %sums)
}

%condition (c: (s32[], f32[4])) -> pred[] {
  %c = (s32[], f32[4]{0}) parameter(0)
  ROOT %large = pred[] fusion(%c), kind=kLoop, calls=%compare
}

%outer_body (c: (s32[], f32[4])) -> (s32[], f32[4]) {
  %c = (s32[], f32[4]{0}) parameter(0)
  %copied = (s32[], f32[4]{0}) copy(%c)
  ROOT %loop = (s32[], f32[4]{0}) while(%copied), condition=%condition, body=%inner_body, INNER
}

%short (y: f32[4]) -> f32[4] {
  ROOT %y = f32[4]{0} parameter(0)
}

ENTRY %main (x: (s32[], f32[4]), p: s32[]) -> f32[4] {
  %x = (s32[], f32[4]{0}) parameter(0)
  %p = s32[] parameter(1)
  %z = (s32[], f32[4]{0}) all-to-all(%x)
  %loop = (s32[], f32[4]{0}) while(%z), condition=%condition, body=%outer_body, OUTER
  %y = f32[4]{0} get-tuple-element(%loop), index=1
  ROOT %z = f32[4]{0} conditional(%p, %y, %y), branch_computations={%short, %double}
}
"""


def known(number: int) -> str:
    return f'backend_config={{"known_trip_count":{{"n":"{number}"}}}}'


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        # An exchange, five copies, fifteen times four kernels, and the longer branch.
        (known(3), Counts(kernels=67, in_loop=4, unknown_loops=0, conditions=1, exchanges=16)),
        # XLA computes the condition on the GPU.
        ("metadata={}", Counts(kernels=32, in_loop=5, unknown_loops=1, conditions=1, exchanges=6)),
    ],
)
def test_counts_of_a_program(inner: str, expected: Counts) -> None:
    assert count(TEXT.replace("INNER", inner).replace("OUTER", known(5))) == expected


def test_counts_of_programs_that_xla_compiled() -> None:
    def counted(x: Any) -> Any:
        return jax.lax.fori_loop(0, 7, lambda _, y: jnp.sort(jnp.sin(y)), x)

    def searching(x: Any) -> Any:
        return jax.lax.while_loop(lambda y: jnp.sum(y) > 3, lambda y: jnp.sort(jnp.sin(y)), x)

    found = [
        count(str(jax.jit(function).lower(jnp.ones(8)).compile().as_text()))
        for function in (counted, searching)
    ]
    assert [x.unknown_loops for x in found] == [0, 1]
    assert found[0].kernels >= 7 * found[0].in_loop >= 14


def test_without_a_plugin_a_line_names_the_packages_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(**options: Any) -> Any:
        raise NotImplementedError("topology not implemented for cuda")

    monkeypatch.setattr(cuda_compiler.topologies, "get_topology_desc", missing)
    cuda_compiler.find_devices.cache_clear()
    with pytest.raises(SystemExit) as stopped:
        compiled.main(["--quick"])
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "not implemented for cuda" in line
    assert 'pip install -e ".[gpu]"' in line
    with pytest.raises(CUDAUnavailableError, match="pip install"):
        cuda_compiler.compile_for_cuda(jnp.sin, jnp.ones(3))


@pytest.mark.gpu
def test_a_search_compiles_for_a_gpu_that_is_not_there(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cuda_compiler.find_devices.cache_clear()
    compiled.main(["--quick", "--json", str(tmp_path / "rows.json")])
    assert "Compiled for one NVIDIA H100" in capsys.readouterr().out
    [row] = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert (row["unknown_loops"], row["conditions"]) == (0, 0)
    assert row["kernels"] > 32 * row["in_loop"] > 0
    assert row["MiB"] >= 0


def test_memory_of_a_program_counts_arrays_that_are_updated_in_place_once() -> None:
    def double(x: Any) -> Any:
        return 2 * x

    x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    copied = jax.jit(double).lower(x).compile()
    in_place = jax.jit(double, donate_argnums=0).lower(x).compile()
    assert compiled.count_bytes(copied) - compiled.count_bytes(in_place) == 4000
