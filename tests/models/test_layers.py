"""Layers: the results of flax and XLA, in the form that suits each platform."""

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from dualmctx.models.trunks import LayerNorm, convolve

DTYPES = ("float32", "bfloat16")


@functools.cache
def activations() -> jax.Array:
    return 3 * jax.random.normal(jax.random.key(0), (4, 5, 24)) + 2


def parameters(module: nn.Module, x: jax.Array) -> Any:
    """Returns parameters that differ from their initial values, which must be flax's."""
    initial = module.init(jax.random.key(1), x)
    theirs = nn.LayerNorm().init(jax.random.key(1), x)
    jax.tree.map(np.testing.assert_array_equal, initial, theirs)
    noise = jax.random.normal(jax.random.key(2), (24,))
    return jax.tree.map(lambda p: p + 0.3 * noise, initial)


def apply(module: nn.Module, params: Any, x: jax.Array) -> Any:
    return module.apply(params, x)


def gradients(module: nn.Module, params: Any, x: jax.Array) -> Any:
    def loss(params: Any, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(apply(module, params, x).astype(jnp.float32)))

    return jax.grad(loss, (0, 1))(params, x)


def text(function: Any, module: nn.Module, dtype: str, platform: str) -> str:
    x = activations().astype(dtype)
    traced = jax.jit(functools.partial(function, module)).trace(parameters(module, x), x)
    return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.slow
@pytest.mark.parametrize("function", [apply, gradients])
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_equal_those_of_flax_on_a_cpu(dtype: str, function: Any) -> None:
    x = activations().astype(dtype)
    ours, theirs = LayerNorm(dtype=jnp.dtype(dtype)), nn.LayerNorm(dtype=jnp.dtype(dtype))
    params = parameters(ours, x)
    found, expected = (jax.jit(functools.partial(function, m))(params, x) for m in (ours, theirs))
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert jax.tree.all(jax.tree.map(lambda a, b: a.dtype == b.dtype, found, expected))


def test_derivatives_in_forward_mode_are_those_of_flax() -> None:
    x = activations()
    params = parameters(LayerNorm(), x)
    found, expected = (
        jax.jvp(lambda p, module=module: apply(module, p, x), (params,), (params,))
        for module in (LayerNorm(), nn.LayerNorm())
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)


def test_only_an_evaluation_for_cuda_subtracts_the_mean_first() -> None:
    """The other variance, a difference of two means, is clipped at 0 by a maximum."""
    unclipped = [
        (function, platform)
        for function in (apply, gradients)
        for platform in ("cpu", "cuda")
        if "stablehlo.maximum" not in text(function, LayerNorm(), "float32", platform)
    ]
    assert unclipped == [(apply, "cuda")]


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_evaluation_for_cuda_is_the_program_of_flax(dtype: str) -> None:
    ours = LayerNorm(dtype=jnp.dtype(dtype))
    theirs = nn.LayerNorm(dtype=jnp.dtype(dtype), use_fast_variance=False)
    found, expected = (
        sorted(re.findall(r"= stablehlo\.(\w+)", text(apply, module, dtype, "cuda")))
        for module in (ours, theirs)
    )
    # The choice of the platform leaves one more constant, its number.
    assert [x for x in found if x != "constant"] == [x for x in expected if x != "constant"]


@functools.cache
def convolved() -> tuple[jax.Array, jax.Array]:
    """Returns boards and a kernel."""
    shapes = (3, 4, 5, 2), (3, 3, 2, 6)
    one, other = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate(shapes))
    return one, other


def direct(x: jax.Array, kernel: jax.Array) -> jax.Array:
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)


def kernel_gradients(function: Any) -> Any:
    return jax.jit(jax.grad(lambda x, kernel: jnp.sum(jnp.sin(function(x, kernel))), (0, 1)))


def test_the_gradients_of_a_convolution_equal_those_of_xla() -> None:
    found, expected = (kernel_gradients(function)(*convolved()) for function in (convolve, direct))
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), found, expected
    )


def test_only_a_program_for_cpus_contains_the_gradient_by_patches() -> None:
    traced = kernel_gradients(convolve).trace(*convolved())
    texts = {name: traced.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda")}
    # Forward and the gradient of x are convolutions in both, that of the kernel only for CUDA.
    assert {name: text.count("stablehlo.convolution") for name, text in texts.items()} == {
        "cpu": 2,
        "cuda": 3,
    }
    for name in ("concatenate", "dot_general"):
        assert f"stablehlo.{name}" in texts["cpu"]
        assert f"stablehlo.{name}" not in texts["cuda"]


def test_the_choice_of_a_platform_leaves_no_conditional_in_the_program() -> None:
    module = LayerNorm()
    norm = jax.jit(functools.partial(apply, module)).lower(
        parameters(module, activations()), activations()
    )
    for lowered in (norm, kernel_gradients(convolve).lower(*convolved())):
        assert " conditional(" not in str(lowered.compile().as_text())
