"""Builds evaluators, from a saved network or from its parts, and chooses their batch size."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dualmctx.checks import check, check_count, check_flag, check_seed, describe
from dualmctx.distributed.devices import (
    REPLICATED,
    SHARDED,
    check_split,
    choose_devices,
    free_memory,
    make_mesh,
    on_each,
    shardings,
)
from dualmctx.evaluation.evaluations import Evaluations, by_network, by_search, make_evaluate_batch
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.models.search_fn import check_parts, make_search_fn
from dualmctx.models.search_memory import num_bytes, search_memory, temporary_bytes
from dualmctx.runs.saved_network import Trained, load_trained, model_kwargs_of
from dualmctx.runs.saved_policy import build_policy
from dualmctx.training.memory_budget import require_batch_memory
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork

DEFAULT_BATCH_SIZE = 256
"""The batch size on a CPU, for standard input, and if the free memory is unknown."""
MAX_SHARE = 16_384
"""The largest default number of positions per device."""
# The batch uses at most this share of the free memory: the prediction is not exact, and the device
# holds the states and evaluations of two batches.
_MEMORY_SHARE = 0.5
# Memory is predicted for this number of positions; it is nearly proportional to the number.
_MEASURED = 256
# Positions that do not fit into one batch are split into at least this number of batches, because
# the host and the device overlap only if there are several.
_MIN_BATCHES = 4
# The number of positions per device is rounded up to a multiple of this number.
_MULTIPLE = 64


def load_evaluator(
    path: Path | str,
    *,
    iteration: int | None = None,
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
    batch_size: int = 256,
    seed: int = 0,
    network_only: bool = False,
    devices: int | None = None,
    game: str | None = None,
    network: str | Sequence[str] = (),
) -> Evaluator:
    """Loads a trained network and builds its evaluator, by default with the search of its training.

    Args:
      path: as in `load_trained`: a run folder, an exported file, or the name of a shipped network.
      iteration: iteration of the checkpoint; by default the newest.
      variant: another search of the registry, with its defaults.
      simulations: simulations per move, as in `with_simulations`; by default those of the search.
      batch_size: number of positions per call; the devices share them evenly.
      seed: seed of the random numbers. There is no noise at the root, but some searches sample.
      network_only: whether the last head of the network decides, without a search.
      devices: number of this process's devices to use; by default all.
      game: as in `load_trained`, the import path of the game of an exported file.
      network: as in `load_trained`, the import path of the network of an exported file.

    Raises:
      ValueError: if an argument is invalid, or a batch does not fit into memory.
    """
    check_flag("network_only", network_only)
    for name, value in {"variant": variant, "simulations": simulations}.items():
        remedy = "left out with network_only, which runs no search"
        check(not network_only or value is None, name, describe(value), remedy)
    trained = load_trained(path, iteration, game=game, network=network)
    policy = None if network_only else build_policy(trained.record, variant, simulations)
    return build_evaluator(trained, policy, batch_size=batch_size, seed=seed, devices=devices)


def build_evaluator(trained: Trained, policy: Policy | None, **options: Any) -> Evaluator:
    """Builds an evaluator of a trained network and any search; see `make_evaluator`."""
    options |= model_kwargs_of(trained.record)
    return make_evaluator(trained.env, trained.network, trained.params, policy, **options)


def evaluate(
    states: Any,
    policy: Policy | None,
    params: Params,
    *,
    env: Environment,
    network: PolicyValueNetwork,
    ids: Sequence[str | int] | None = None,
    progress: bool = False,
    **options: Any,
) -> Evaluations:
    """Evaluates `[S]` game states once. Each call compiles; use an evaluator for repeated calls.

    `ids` and `progress` are arguments of the evaluator, the others those of `make_evaluator`.

    Returns:
      The evaluations of the positions, as NumPy arrays.

    Raises:
      ValueError: if an argument is invalid, or a batch does not fit into memory.
    """
    return make_evaluator(env, network, params, policy, **options)(states, ids, progress)


def make_evaluator(
    env: Environment,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy | None,
    *,
    batch_size: int = 256,
    seed: int = 0,
    devices: int | None = None,
    **model_options: Any,
) -> Evaluator:
    """Compiles an evaluator for one batch size.

    Args:
      env: a game of `games.make`.
      network: a `dualmctx.models.network.Network`.
      params: parameters of the network.
      policy: a search variant, which is used without noise; `None` for the network alone.
      batch_size: number of positions per call; the devices share them evenly.
      seed: seed of the random numbers, from 0 to 2**32 - 1.
      devices: number of this process's devices to use; by default all.
      **model_options: options of `make_model`, such as `compact_states`.

    Returns:
      The evaluator. Its calls do not compile anything.

    Raises:
      ValueError: if an option is invalid, or a batch does not fit into memory.
    """
    check_parts(env, network, policy, needs_policy=False)
    check_count("batch_size", batch_size, 1)
    check_seed(seed)
    process = jax.process_index()
    mesh = make_mesh([x for x in choose_devices(devices) if x.process_index == process])
    check_split(mesh, batch_size=batch_size)
    share, decide_fn = batch_size // mesh.size, by_network
    states = num_bytes(state_shapes(env, share))
    if policy is not None:
        policy = policy.for_evaluation()
        needed = search_memory(env, network, policy, share, **model_options).total
        require_batch_memory(share, states + needed, free_memory())
        decide_fn = by_search(make_search_fn(env, network, policy, **model_options))
    specs = (REPLICATED, REPLICATED, SHARDED, SHARDED)
    function = on_each(make_evaluate_batch(network, decide_fn), mesh, specs, SHARDED)
    inputs = jax.device_put((params, jax.random.PRNGKey(seed)), shardings(mesh, REPLICATED))
    shapes = state_shapes(env, batch_size)
    digests = jax.ShapeDtypeStruct((batch_size, 2), np.uint32)
    jitted = jax.jit(function, in_shardings=shardings(mesh, specs))
    traced: Any = jitted.trace(*inputs, digests, shapes)
    compiled = traced.lower().compile()
    if policy is None:
        # A network without a search compiles quickly, so its memory is read from the program.
        report: Any = compiled.memory_analysis()
        needed = report.temp_size_in_bytes + report.output_size_in_bytes
        require_batch_memory(share, states + needed, free_memory(), has_search=False)
    empty = jax.tree.map(lambda x: np.zeros((0, *x.shape[1:]), x.dtype), traced.out_info)

    def run(digests: Any, states: Any) -> Evaluations:
        # The states may be on one device already.
        batch = jax.device_put((digests, states), shardings(mesh, SHARDED))
        found = compiled(*inputs, *batch)
        # The copies begin as soon as the device has finished, not when the host asks for them.
        for array in found:
            array.copy_to_host_async()
        return found

    return Evaluator(
        env=env,
        network=network,
        policy=policy,
        batch_size=batch_size,
        shapes=shapes,
        empty=empty,
        run=run,
    )


def state_shapes(env: Environment, batch_size: int) -> Any:
    """Returns the shapes and types of `[batch_size]` states of a game."""
    keys = jax.ShapeDtypeStruct((batch_size, 2), np.uint32)
    return jax.eval_shape(jax.vmap(env.init), keys)


def default_batch_size(
    trained: Trained,
    policy: Policy | None,
    *,
    devices: int | None = None,
    max_positions: int | None = None,
) -> int:
    """Chooses a batch size for the devices of this process.

    A prediction of the memory compiles parts of the search, which takes seconds; none is made for a
    CPU or an unknown number of positions.

    Args:
      trained: the network.
      policy: the search; `None` for the network alone.
      devices: as in `make_evaluator`.
      max_positions: an upper bound of the number of positions; `None` if it is unknown, as for
        standard input.

    Returns:
      A multiple of the number of devices. On a CPU, for an unknown number of positions, or with an
      unknown amount of memory: 256, rounded up. Otherwise even batches of the positions: one for
      each device if they fit, else at least four. The share of a device is a multiple of 64, within
      the largest power of two, up to `MAX_SHARE`, that needs at most half of the free memory.

    Raises:
      ValueError: if there are fewer devices.
    """
    process = jax.process_index()
    chosen = [x for x in choose_devices(devices) if x.process_index == process]
    is_fixed = max_positions is None or chosen[0].platform == "cpu"
    free = None if is_fixed else free_memory()
    if max_positions is None or free is None:
        return _divide_up(DEFAULT_BATCH_SIZE, len(chosen)) * len(chosen)
    fitting = min(int(_MEMORY_SHARE * free) // bytes_per_position(trained, policy), MAX_SHARE)
    # A power of two rarely changes when the free memory changes a little.
    fitting = 1 << max(fitting.bit_length() - 1, 0)
    number = _divide_up(max_positions, len(chosen))
    batches = 1 if number <= fitting else max(_MIN_BATCHES, _divide_up(number, fitting))
    share = _divide_up(_divide_up(number, batches), _MULTIPLE) * _MULTIPLE
    return min(share, fitting) * len(chosen)


def bytes_per_position(trained: Trained, policy: Policy | None) -> int:
    """Predicts the bytes that a position needs while it is evaluated, without the parameters."""
    env, network = trained.env, trained.network
    states = state_shapes(env, _MEASURED)
    if policy is None:
        evaluate = make_evaluate_batch(network, by_network)
        key = jax.ShapeDtypeStruct((2,), np.uint32)
        digests = jax.ShapeDtypeStruct((_MEASURED, 2), np.uint32)
        needed = temporary_bytes(evaluate, trained.params, key, digests, states)
    else:
        options = model_kwargs_of(trained.record)
        policy = policy.for_evaluation()
        needed = search_memory(env, network, policy, _MEASURED, **options).total
    return _divide_up(num_bytes(states) + needed, _MEASURED)


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)
