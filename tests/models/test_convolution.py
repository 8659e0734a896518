"""The gradient of the convolutions: by patches on a CPU, XLA's own on other platforms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualmctx.models.trunks.conv import convolve

X = jax.random.normal(jax.random.key(0), (3, 4, 5, 2))
KERNEL = jax.random.normal(jax.random.key(1), (3, 3, 2, 6))


def direct(x: jax.Array, kernel: jax.Array) -> jax.Array:
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=numbers)


def gradients(function: Any) -> Any:
    return jax.jit(jax.grad(lambda x, kernel: jnp.sum(jnp.sin(function(x, kernel))), (0, 1)))


def test_the_gradients_equal_those_of_xla() -> None:
    found, expected = (gradients(function)(X, KERNEL) for function in (convolve, direct))
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), found, expected
    )


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_only_a_program_for_cpus_contains_the_gradient_by_patches(dtype: Any) -> None:
    traced = gradients(convolve).trace(X.astype(dtype), KERNEL.astype(dtype))
    texts = {name: traced.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda")}
    # Forward and the gradient of x are convolutions in both, that of the kernel only for CUDA.
    assert {name: text.count("stablehlo.convolution") for name, text in texts.items()} == {
        "cpu": 2,
        "cuda": 3,
    }
    for name in ("concatenate", "dot_general"):
        assert f"stablehlo.{name}" in texts["cpu"]
        assert f"stablehlo.{name}" not in texts["cuda"]


def test_the_choice_leaves_no_conditional_in_the_compiled_program() -> None:
    text = gradients(convolve).lower(X, KERNEL).compile().as_text()
    assert text is not None
    assert " conditional(" not in text
