"""Compiles for an NVIDIA GPU on a machine without one, for `benchmarks.compiled`."""

import contextlib
import functools
from collections.abc import Callable, Generator
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dualmctx.errors import UserError

KIND = "NVIDIA H100 80GB HBM3"
"""The device for which programs are compiled."""

# The device as XLA describes it, in its `GpuTargetConfigProto`: an H100 with 80 GB.
_H100 = f"""
platform_name: "CUDA"
device_description_str: "{KIND}"
runtime_version < major: 12 minor: 9 >
dnn_version_info < major: 9 minor: 8 >
gpu_device_info <
  cuda_compute_capability < major: 9 >
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  registers_per_block_limit: 65536
  registers_per_core_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  device_memory_size: 84942979072
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
>
"""


class CUDAUnavailableError(UserError):
    """JAX cannot compile for CUDA; the message has the cause and the remedy."""


@functools.cache
def find_devices(number: int = 1) -> list[Any]:
    """Returns devices that stand for H100s of one machine.

    Programs can be compiled for them, but not run.

    Raises:
      CUDAUnavailableError: if JAX's plugin for CUDA is missing or does not work.
    """
    options = {"platform": "cuda", "topology": f"1x1x{number}", "target_config": _H100}
    try:
        return list(topologies.get_topology_desc(topology_name="h100", **options).devices)
    except (NotImplementedError, jax.errors.JaxRuntimeError) as error:
        cause = str(error).splitlines()[0]
        raise CUDAUnavailableError(
            f"JAX {jax.__version__} cannot compile for CUDA here ({cause}); on Linux, install its "
            'plugin: pip install -e ".[gpu]"'
        ) from error


@contextlib.contextmanager
def lowering_for_cuda() -> Generator[None]:
    """Tells Pallas for which GPU it lowers kernels, in a process without a GPU."""
    device = jax.sharding.AbstractDevice(device_kind=KIND, platform="cuda", num_cores=None)
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        yield


def compile_for_cuda(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns a function of arrays as compiled for an H100.

    Raises:
      CUDAUnavailableError: see `find_devices`.
    """
    mesh = Mesh(np.array(find_devices()), ("device",))
    sharding = NamedSharding(mesh, PartitionSpec())
    jitted = jax.jit(function, in_shardings=sharding, out_shardings=sharding)
    with lowering_for_cuda():
        return jitted.lower(*arguments).compile()
