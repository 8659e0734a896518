"""Networks of a user, for tests of `--network own_networks:NAME`."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn


class Dense(nn.Module):
    """Dense layers with one head or several."""

    num_actions: int
    width: int = 4
    num_heads: int = 2
    sizes: tuple[int, ...] = (8, 4)
    activation: Any = nn.relu

    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        x, outputs = x.reshape(x.shape[0], -1), []
        for _ in range(self.num_heads):
            x = self.activation(nn.Dense(self.width)(x))
            outputs.append((nn.Dense(self.num_actions)(x), jnp.tanh(nn.Dense(1)(x))))
        return outputs


def make_dense(
    num_actions: int, observation_shape: tuple[int, ...], width: int = 4, num_heads: int = 2
) -> nn.Module:
    assert observation_shape
    return Dense(num_actions, width, num_heads)


class Broken(Dense):
    """Breaks a rule that shapes do not show."""

    rule: str = ""

    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        if self.rule == "batch":
            x = x - jnp.mean(x, axis=0)
        (logits, value), final = super().__call__(x)
        if self.rule == "nan":
            logits = logits + jnp.log(-1.0)
        if self.rule == "value":
            value = value + 5
        if self.rule == "begin sign":
            logits, value = 1000 * logits, 0.5 + 0 * value
        if self.rule == "integers":
            logits = logits.astype(jnp.int32)
        return [(logits, value), final]

    def begin(self, observation: jax.Array, head: int) -> Any:
        logits, value = self(observation)[head]
        begun = (logits + 9 * (self.rule == "begin"), value)
        if self.rule == "begin nan":
            begun = logits, value * jnp.nan
        if self.rule == "begin sign":
            begun = logits, -value
        return logits, begun

    def resume(self, activations: jax.Array, head: int, next_head: int) -> Any:
        return activations, (activations, activations[:, 0])


def make_broken(num_actions: int, observation_shape: tuple[int, ...], rule: str) -> nn.Module:
    assert observation_shape
    return Broken(num_actions, rule=rule)


def make_nothing(num_actions: int, observation_shape: tuple[int, ...]) -> None:
    assert num_actions, observation_shape
