"""Compiles programs for an NVIDIA GPU and counts their kernels: `python -m benchmarks.compiled`.

It needs no GPU: XLA compiles for an H100, with the kernels of the search, from a description of
that device. It needs JAX's plugin for CUDA 12 (`pip install -e ".[gpu]"`) on Linux.

A row is a program. Searches have the free model of `benchmarks.engine`; with `--presets` there are
also the two programs of a training iteration, self-play and learning. Columns:

- `kernels`: the kernels and copies that a run launches; loops of unknown length count once.
- `in loop`: those of one iteration of the busiest loop, which in a search is one simulation.
- `unknown loops`: loops whose length depends on the data. After each iteration XLA waits for the
  GPU, to read whether to go on.
- `conditions`: conditional operations, for which XLA waits in the same way.
- `exchanges`: exchanges of data between GPUs.
- `MiB`: the memory that the program takes on a GPU, its inputs and outputs included.
- `seconds`: the time to trace and compile, once; for a preset, of both programs.

`--devices` sets the number of GPUs of the presets. Searches are for one.

Nothing is run, so no time on a GPU follows from the counts. On a GPU, XLA also tries several
algorithms for convolutions and products; the kernels may then differ.
"""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import games
from benchmarks.common import at_least_one, ending, make_parser, show
from benchmarks.cuda_compiler import compile_for_cuda, find_devices, lowering_for_cuda
from benchmarks.engine import hash_model
from benchmarks.hlo_counts import count
from benchmarks.ledger import write_measurement
from dualmctx import AlphaZero, Contempt, Dual, Gumbel, MuZero, with_options
from dualmctx.experiment.assemble import build_trainer, record_of
from dualmctx.policies import Backup, Execution, Root
from dualmctx.runs.network_record import build_network
from dualmctx.training.presets import PRESETS

BATCH, SIMULATIONS, ACTIONS = 64, 32, 7
QUIET = Root(dirichlet_fraction=0.0)
SEARCHES: dict[str, Any] = {
    "AlphaZero": AlphaZero(SIMULATIONS),
    "AlphaZero, no noise": AlphaZero(SIMULATIONS, root=QUIET),
    "AlphaZero, window": AlphaZero(SIMULATIONS, backup=Backup(window=2)),
    "AlphaZero, leaves": AlphaZero(SIMULATIONS, execution=Execution(leaves_per_step=8)),
    "search-contempt": Contempt(SIMULATIONS),
    "Gumbel": Gumbel(SIMULATIONS),
    "MuZero": MuZero(SIMULATIONS),
    "Dual, 4 rounds": Dual((20, 12), num_rounds=4),
}


class Row(NamedTuple):
    """A row of the table."""

    program: str
    kernels: int
    in_loop: int
    unknown_loops: int
    conditions: int
    exchanges: int
    MiB: int
    seconds: float


def compile_search(policy: Any) -> Any:
    """Returns a search with the free model as compiled for CUDA."""
    root_fn, recurrent_fn = hash_model(ACTIONS)
    policy = with_options(policy, kernels="on")

    def refine_fn(params: Any, rng_key: Any, embedding: Any) -> tuple[Any, Any]:
        output, _ = recurrent_fn(params, rng_key, jnp.zeros_like(embedding), embedding)
        return output.prior_logits, output.value

    later = refine_fn if len(policy.heads) > 1 else None

    def search(rng_key: Any) -> Any:
        output = policy(None, rng_key, root_fn(BATCH), recurrent_fn, later)
        # The values of all trees, so that XLA removes none.
        return output.action_weights, [stats.node_values for stats in output.search_tree.stats]

    return compile_for_cuda(search, jax.ShapeDtypeStruct((2,), jnp.uint32))


def compile_preset(name: str, num_devices: int) -> dict[str, Any]:
    """Returns the programs of a preset's training iteration, by name, as compiled for CUDA."""
    config = PRESETS[name]
    config = dataclasses.replace(config, search=with_options(config.search, kernels="on"))
    env = games.make(config.game, **config.game_parameters)
    network = build_network(record_of(name, config), env)
    trainer = build_trainer(config, env, network, devices=find_devices(num_devices))
    with lowering_for_cuda():
        programs = trainer.lower(trainer.shapes)
        return {f"{name}: {part}": x.compile() for part, x in programs._asdict().items()}


def compile_in_turn(searches: list[str], presets: list[str], num_devices: int) -> Iterator[Row]:
    """Compiles the programs one after the other and yields their rows."""
    compilers = [lambda name=name: {name: compile_search(SEARCHES[name])} for name in searches]
    compilers += [lambda name=name: compile_preset(name, num_devices) for name in presets]
    for compiler in compilers:
        start = time.perf_counter()
        found = compiler()
        seconds = round(time.perf_counter() - start, 1)
        for name, program in found.items():
            memory = round(count_bytes(program) / 2**20)
            yield Row(name, *count(program.as_text()), memory, seconds)


def count_bytes(program: Any) -> int:
    """Returns the memory of a compiled program: inputs, outputs and temporary arrays."""
    memory = program.memory_analysis()
    size = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return size - memory.alias_size_in_bytes


def main(arguments: list[str] | None = None) -> None:
    """Compiles the programs and prints the table."""
    parser = make_parser(__doc__)
    add, all_presets = parser.add_argument, f"training presets: {', '.join(PRESETS)}"
    add("--presets", nargs="+", default=[], choices=PRESETS, metavar="PRESET", help=all_presets)
    add("--devices", type=at_least_one, default=1, help="GPUs of the presets, default: 1")
    options = parser.parse_args(arguments)
    searches = ["AlphaZero"] if options.quick else list(SEARCHES)
    with ending(parser, "stopped"):
        find_devices()
    rows = []
    for row in compile_in_turn(searches, options.presets, options.devices):
        print(f"{row.program}: compiled in {row.seconds} s", flush=True)
        rows.append(row)
    device = find_devices()[0].device_kind
    presets = f", presets for {options.devices}" if options.presets else ""
    show(f"Compiled for one {device}{presets}; JAX {jax.__version__}", rows)
    write_measurement(options.json, rows, compiled_for=device, devices=options.devices)


if __name__ == "__main__":
    main()
