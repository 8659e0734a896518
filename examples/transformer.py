"""A small transformer for board games, with an intermediate and a final policy-value head.

From the folder of this file:

    dualmctx train tic-tac-toe --network transformer:make --network.options width 32 num_blocks 4

`dualmctx` needs no change and no registration: it imports this file and calls `make`.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

Output = tuple[jax.Array, jax.Array]
"""The logits `[M, A]` and the values `[M]` of a head."""


class Tokens(nn.Module):
    """Makes one token of each cell of the board, with a learned vector for its place."""

    width: int

    @nn.compact
    def __call__(self, observation: jax.Array) -> jax.Array:
        """Maps `[M, height, width, features]` to `[M, cells, width]`."""
        cells = observation.reshape(observation.shape[0], -1, observation.shape[-1])
        place = self.param("place", nn.initializers.normal(0.02), (cells.shape[1], self.width))
        return nn.Dense(self.width)(cells) + place


class Block(nn.Module):
    """Self-attention, then two dense layers for each token."""

    width: int
    attention_heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps `[M, cells, width]` to the same shape."""
        x = x + nn.MultiHeadDotProductAttention(self.attention_heads)(nn.LayerNorm()(x))
        y = nn.gelu(nn.Dense(2 * self.width)(nn.LayerNorm()(x)))
        return x + nn.Dense(self.width)(y)


class Head(nn.Module):
    """Logits from the features of all cells, and a value from their mean."""

    num_actions: int

    @nn.compact
    def __call__(self, x: jax.Array) -> Output:
        """Evaluates `[M, cells, width]` activations."""
        x = nn.LayerNorm()(x)
        features = nn.relu(nn.Dense(8)(x))
        logits = nn.Dense(self.num_actions)(features.reshape(x.shape[0], -1))
        value = nn.Dense(1)(nn.relu(nn.Dense(32)(x.mean(axis=1))))
        return logits, jnp.tanh(value[:, 0])


class Transformer(nn.Module):
    """A transformer with a head after `early_blocks` and one after all blocks.

    `begin` and `resume` are optional. With them, Dual stores the activations at the first head in
    its tree, and the final head runs only the blocks that are left.
    """

    num_actions: int
    width: int = 32
    num_blocks: int = 4
    early_blocks: int = 1
    attention_heads: int = 4

    @property
    def head_depths(self) -> tuple[int, int]:
        """The number of blocks below each head, from which the cost of a move is computed."""
        return self.early_blocks, self.num_blocks

    def setup(self) -> None:
        """Creates the layers."""
        self.tokens = Tokens(self.width)
        self.blocks = [Block(self.width, self.attention_heads) for _ in range(self.num_blocks)]
        self.heads = [Head(self.num_actions) for _ in self.head_depths]

    def __call__(self, observation: jax.Array) -> tuple[Output, Output]:
        """Evaluates `[M, height, width, features]` observations by both heads."""
        activations, first = self.begin(observation, 0)
        return first, self.resume(activations, 0, 1)[1]

    def begin(self, observation: jax.Array, head: int) -> tuple[jax.Array, Output]:
        """Evaluates observations by one head; also returns the activations there."""
        return self._run(self.tokens(observation), 0, head)

    def resume(self, activations: jax.Array, head: int, later: int) -> tuple[jax.Array, Output]:
        """Continues from the activations at one head to a later one."""
        return self._run(activations.astype(jnp.float32), self.head_depths[head], later)

    def _run(self, x: jax.Array, depth: int, head: int) -> tuple[jax.Array, Output]:
        for block in self.blocks[depth : self.head_depths[head]]:
            x = block(x)
        return x, self.heads[head](x)


def make(
    num_actions: int,
    observation_shape: tuple[int, ...],
    width: int = 32,
    num_blocks: int = 4,
    early_blocks: int = 1,
    attention_heads: int = 4,
) -> Transformer:
    """Makes the network; dualmctx passes the first two arguments and `--network.options`."""
    if len(observation_shape) != 3:
        raise ValueError(f"observations have the shape {observation_shape}; boards have 3 axes")
    if width % attention_heads:
        raise ValueError(f"width is {width}; it must be a multiple of {attention_heads}")
    return Transformer(num_actions, width, num_blocks, early_blocks, attention_heads)
