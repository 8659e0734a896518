"""Times and costs of programs, and the peaks of the device, for `benchmarks.phases`.

A program runs in a loop inside one jitted call, and each iteration depends on the previous one. The
time of an iteration is the difference between a long and a short loop, divided by the difference of
their lengths. The costs of a call cancel out: its dispatch, and the copies of its arguments.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp

from benchmarks.common import for_device, run_in_turns

# The largest number of iterations that a long loop has in addition to those of the short one.
MOST = 2000
# A number that no array of a search holds.
_NEVER = -12345.0

Loops = dict[tuple[str, int], Callable[[], Any]]
Samples = dict[str, list[float]]


class Program(NamedTuple):
    """A program to run in a loop.

    Attributes:
      run: `(inputs, carry) -> carry`. The result must depend on the carry; see `depend`.
      inputs: arrays that are the same in all iterations.
      carry: the carry of the first iteration.
      short: iterations of the short loop.
    """

    run: Callable[[Any, Any], Any]
    inputs: Any
    carry: Any
    short: int = 8


class Cost(NamedTuple):
    """The work of a program: operations on numbers, and bytes read and written."""

    operations: float
    bytes: float

    def times(self, number: float) -> Self:
        """Returns the cost of several runs."""
        return self._replace(operations=number * self.operations, bytes=number * self.bytes)

    def plus(self, other: Self) -> Self:
        """Returns the cost of both programs."""
        operations = self.operations + other.operations
        return self._replace(operations=operations, bytes=self.bytes + other.bytes)


class Peak(NamedTuple):
    """The measured peaks of the device.

    Attributes:
      float32: operations per second in a product of float32 matrices, at JAX's matmul precision.
      bfloat16: the same for bfloat16 matrices.
      bytes: bytes per second read and written by adding 1 to a large array.
    """

    float32: float
    bfloat16: float
    bytes: float

    def seconds(self, cost: Cost, dtype: str = "float32") -> float:
        """Returns the time for the operations or that for the bytes; the longer of the two."""
        return max(cost.operations / getattr(self, dtype), cost.bytes / self.bytes)


def depend(inputs: Any, carry: Any) -> Any:
    """Returns the inputs, unchanged, in a form that XLA must compute anew for each carry."""
    is_never = jnp.ravel(jax.tree.leaves(carry)[0])[0].astype(jnp.float32) == _NEVER
    return jax.tree.map(lambda x: jnp.where(is_never, jnp.zeros_like(x), x), inputs)


def make_loop(program: Program) -> Callable[[int], Any]:
    """Returns a function that runs a number of iterations.

    A GPU returns to the host in each iteration of a loop whose length is not known when it is
    compiled, so there the function is compiled for each length.
    """

    def loop(length: Any, inputs: Any, carry: Any) -> Any:
        return jax.lax.fori_loop(0, length, lambda _, carry: program.run(inputs, carry), carry)

    run = jax.jit(loop, static_argnums=for_device((), 0))
    return lambda length: run(length, program.inputs, program.carry)


def make_loops(programs: Mapping[str, Program], seconds: float) -> Loops:
    """Makes a short and a long loop of each program.

    Args:
      programs: the programs by name.
      seconds: the time by which the long loop should exceed the short one. It is reached roughly,
        because the length is chosen by one run of the short loop.

    Returns:
      The loops by name and length.
    """
    loops: Loops = {}
    for name, program in programs.items():
        run, short = make_loop(program), program.short
        loops[name, short] = functools.partial(run, short)
        first, second = run_in_turns({name: loops[name, short]}, 2)[name]
        del first  # It includes the compilation.
        more = min(max(short, int(seconds * short / second[0])), MOST)
        loops[name, short + more] = functools.partial(run, short + more)
    return loops


def time_iterations(programs: Mapping[str, Program], seconds: float, repeats: int) -> Samples:
    """Times an iteration of each program `repeats` times, in turns.

    Args:
      programs: the programs by name.
      seconds: see `make_loops`.
      repeats: number of timed runs of each loop, after one that is not timed.

    Returns:
      The seconds of an iteration, by name; one number for each repeat, which may be negative by
      the error of the measurement.
    """
    loops = make_loops(programs, seconds)
    run_in_turns(loops, 1)
    times = run_in_turns(loops, repeats)
    found: Samples = {}
    for name in programs:
        short, long = sorted(length for other, length in loops if other == name)
        pairs = zip(times[name, short], times[name, long], strict=True)
        found[name] = [(two - one) / (long - short) for (one, _), (two, _) in pairs]
    return found


def count(function: Callable[..., Any], *arguments: Any, in_place: bool = False) -> Cost:
    """Returns XLA's counts for a function, compiled for a CPU and not run.

    XLA counts the body of a loop once. It counts nothing for matrix products and convolutions on a
    GPU, because they are calls of a library there.

    Args:
      function: the function.
      *arguments: its arguments, of which only shapes and types matter.
      in_place: whether the function writes its result into its first argument, as in a loop.

    Raises:
      RuntimeError: if JAX has no CPU device.
    """
    shapes = jax.eval_shape(lambda *x: x, *arguments)
    with jax.default_device(jax.devices("cpu")[0]):
        lowered = jax.jit(function, donate_argnums=0 if in_place else ()).lower(*shapes)
        found: Any = lowered.compile().cost_analysis()
    return Cost(found.get("flops", 0.0), found.get("bytes accessed", 0.0))


def measure_peak(seconds: float, repeats: int, *, is_quick: bool = False) -> Peak:
    """Measures products of large matrices and additions to a large array, by the fastest run.

    The time of the call is included, so no peak is too high.
    """
    size = 256 if is_quick else for_device(1024, 8192)
    length = 2**16 if is_quick else for_device(2**24, 2**28)
    # Products of such matrices stay finite.
    matrix = jax.random.normal(jax.random.key(0), (size, size)) / size**0.5
    programs = {
        dtype: Program(jnp.matmul, matrix.astype(dtype), matrix.astype(dtype), short=1)
        for dtype in ("float32", "bfloat16")
    }
    programs["bytes"] = Program(lambda _, x: x + 1, None, jnp.zeros(length), short=16)
    work = {"float32": 2 * size**3, "bfloat16": 2 * size**3, "bytes": 2 * 4 * length}
    found = dict.fromkeys(work, 0.0)
    for (name, number), runs in run_in_turns(make_loops(programs, seconds), repeats).items():
        fastest = min(time for time, _ in runs)
        found[name] = max(found[name], number * work[name] / fastest)
    return Peak(**found)


def positive(seconds: float) -> float:
    """Returns the seconds, or a nanosecond if the error of the measurement exceeds them."""
    return max(seconds, 1e-9)
