"""The network: a residual trunk with policy-value heads at chosen depths."""

from typing import Any, Literal, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp

from dualmctx.checks import check, check_count, is_whole


class HeadOutput(NamedTuple):
    """What one head says.

    Attributes:
      logits: `[M, A]` of the policy, illegal actions not masked.
      value: `[M]` in (-1, 1), seen by the player to move.
    """

    logits: chex.Array
    value: chex.Array


@jax.custom_vjp
def convolve(x: chex.Array, kernel: chex.Array) -> chex.Array:
    """Convolves `[M, H, W, C]` with a `[3, 3, C, F]` kernel, giving `[M, H, W, F]`.

    XLA's own gradient by the kernel is a convolution over the batch, which runs some 20 times
    slower than this on a CPU inside a loop; here it is one matrix product over patches.
    """
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _convolve_forward(x: chex.Array, kernel: chex.Array) -> tuple:
    return convolve(x, kernel), (x, kernel)


def _convolve_backward(residuals: tuple, gradient: chex.Array) -> tuple[chex.Array, chex.Array]:
    x, kernel = residuals
    height, width = x.shape[1:3]
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    patches = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    patches = jnp.concatenate(patches, axis=-1)
    by_kernel = jnp.einsum("mhwp,mhwf->pf", patches, gradient).reshape(kernel.shape)
    by_x = convolve(gradient, jnp.flip(kernel, (0, 1)).swapaxes(2, 3))
    return by_x, by_kernel


convolve.defvjp(_convolve_forward, _convolve_backward)


class Conv(nn.Module):
    """A 3x3 convolution with a bias."""

    features: int
    kernel_init: Any = nn.initializers.lecun_normal()

    @nn.compact
    def __call__(self, x: chex.Array) -> chex.Array:
        """Maps `[M, H, W, C]` to `[M, H, W, features]`."""
        shape = (3, 3, x.shape[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return convolve(x, kernel) + bias.reshape(1, 1, 1, -1)


class Block(nn.Module):
    """A pre-activation residual block, of 3x3 convolutions or of dense layers.

    Normalised over the features of each position by itself, so that a position's evaluation does
    not depend on the rest of its batch, in training neither.
    """

    features: int
    is_conv: bool

    @nn.compact
    def __call__(self, x: chex.Array) -> chex.Array:
        """Maps `[M, ..., features]` to the same shape."""
        y = x
        for i in range(2):
            y = nn.relu(nn.LayerNorm(name=f"norm_{i}")(y))
            # The second layer starts at zero: the block starts as the identity.
            init = nn.initializers.zeros if i else nn.initializers.he_normal()
            if self.is_conv:
                y = Conv(self.features, kernel_init=init, name=f"conv_{i}")(y)
            else:
                y = nn.Dense(self.features, kernel_init=init, name=f"dense_{i}")(y)
        return x + y


class Head(nn.Module):
    """A policy head and a value head on the activations of the trunk."""

    num_actions: int
    is_conv: bool

    @nn.compact
    def __call__(self, x: chex.Array) -> HeadOutput:
        """Evaluates `[M, ..., features]` activations."""
        x = nn.relu(nn.LayerNorm(name="norm")(x))
        policy, value = x, x
        if self.is_conv:
            # A dense layer over features is a 1x1 convolution.
            policy = nn.relu(nn.Dense(8, name="policy_conv")(x))
            value = nn.relu(nn.Dense(4, name="value_conv")(x))
        policy = policy.reshape(policy.shape[0], -1)
        value = value.reshape(value.shape[0], -1)
        # Zeros: an untrained network is indifferent, and a search by it is reproducible by hand.
        zeros = nn.initializers.zeros
        logits = nn.Dense(self.num_actions, kernel_init=zeros, name="policy")(policy)
        value = nn.relu(nn.Dense(64, name="value_hidden")(value))
        value = nn.Dense(1, kernel_init=zeros, name="value")(value)[..., 0]
        return HeadOutput(logits, jnp.tanh(value))


class Network(nn.Module):
    """A trunk of residual blocks with policy-value heads at some of its depths.

    The trunk can stop at a head and be resumed from its activations there with the same result as
    a run in one go.

    Attributes:
      num_actions: A.
      trunk: `conv` for boards `[M, H, W, C]`, `mlp` for anything else, which is flattened.
      width: features of the trunk.
      num_blocks: residual blocks; the paper's network has 4 of width 64.
      head_depths: after how many blocks each head stands, increasing, the last one at the end.

    Raises:
      ValueError: when it is initialised or applied and these do not fit, in one line.

    Source: the paper's section 5 gives depth and width; Kadam, Xu, Lieberherr 2021.
    """

    num_actions: int
    trunk: Literal["conv", "mlp"] = "conv"
    width: int = 64
    num_blocks: int = 4
    head_depths: tuple[int, ...] = (2, 4)

    def setup(self) -> None:
        """Makes the layers."""
        _check_trunk(self.trunk, "conv", "mlp")
        _check_shared(self.num_blocks, self.head_depths)
        is_conv = self.trunk == "conv"
        self.stem = Conv(self.width) if is_conv else nn.Dense(self.width)
        self.blocks = [Block(self.width, is_conv) for _ in range(self.num_blocks)]
        self.heads = [Head(self.num_actions, is_conv) for _ in self.head_depths]

    def __call__(self, observation: chex.Array) -> tuple[HeadOutput, ...]:
        """Evaluates `[M, ...]` observations by every head, first to last."""
        activations, output = self.begin(observation, 0)
        outputs = [output]
        for head in range(1, len(self.head_depths)):
            activations, output = self.resume(activations, head - 1, head)
            outputs.append(output)
        return tuple(outputs)

    def begin(self, observation: chex.Array, head: int) -> tuple[chex.Array, HeadOutput]:
        """Evaluates `[M, ...]` observations by one head, no further than there.

        Returns:
          The trunk's activations at the head, `[M, ..., width]`, and what the head says.
        """
        x = observation.astype(jnp.float32)
        if self.trunk == "mlp":
            x = x.reshape(x.shape[0], -1)
        return self._run(self.stem(x), 0, head)

    def resume(
        self, activations: chex.Array, head: int, next_head: int
    ) -> tuple[chex.Array, HeadOutput]:
        """Goes on from the activations at one head to a later head.

        Returns:
          The trunk's activations at the later head and what that head says.
        """
        return self._run(activations.astype(jnp.float32), self.head_depths[head], next_head)

    def _run(self, x: Any, depth: int, head: int) -> tuple[chex.Array, HeadOutput]:
        for block in self.blocks[depth : self.head_depths[head]]:
            x = block(x)
        return x, self.heads[head](x)


class SeparateTrunks(nn.Module):
    """Networks that share nothing: each head has a trunk of its own, as deep as its depth says.

    Called like `Network`. There is nothing to resume, so no activations are handed out.

    Attributes:
      num_actions: A.
      trunk: as in `Network`.
      width: features of each trunk.
      head_depths: residual blocks of each network; MPV-MCTS has one of 4 and one of 6.

    Source: Lan et al. 2019, two networks; their depths are those of Kadam, Xu, Lieberherr 2021,
    section 5.
    """

    num_actions: int
    trunk: Literal["conv", "mlp"] = "conv"
    width: int = 64
    head_depths: tuple[int, ...] = (4, 6)

    def setup(self) -> None:
        """Makes the networks."""
        self.networks = [
            Network(self.num_actions, self.trunk, self.width, depth, (depth,))
            for depth in self.head_depths
        ]

    def __call__(self, observation: chex.Array) -> tuple[HeadOutput, ...]:
        """Evaluates `[M, ...]` observations by every network, first to last."""
        return tuple(self.begin(observation, head)[1] for head in range(len(self.head_depths)))

    def begin(self, observation: chex.Array, head: int) -> tuple[None, HeadOutput]:
        """Evaluates `[M, ...]` observations by one network; returns nothing and what it says."""
        return None, self.networks[head].begin(observation, 0)[1]


def make_network(
    num_actions: int,
    observation_shape: tuple[int, ...],
    *,
    width: int = 64,
    num_blocks: int = 4,
    head_depths: tuple[int, ...] | None = None,
    num_heads: int = 1,
    separate_trunks: bool = False,
    trunk: Literal["auto", "conv", "mlp"] = "auto",
) -> Network | SeparateTrunks:
    """Makes a network for a game's observations, or separate ones.

    Args:
      num_actions: A.
      observation_shape: of one observation.
      width: features of the trunk, at least 1.
      num_blocks: residual blocks, at least 1; of separate trunks those of the first one.
      head_depths: depths of the heads, increasing; by default the middle and the end, or more at
        even distances. Of separate trunks, the blocks of each, in any order; by default
        `num_blocks`, half as many again, and so on.
      num_heads: how many heads there are to be at least.
      separate_trunks: whether each head has a trunk of its own; then there are at least two.
      trunk: `auto` takes convolutions for observations of three axes, else dense layers.

    Raises:
      ValueError: when a setting is out of range, in one line.
    """
    check_count("width", width, 1)
    check_count("num_blocks", num_blocks, 1)
    _check_trunk(trunk, "auto", "conv", "mlp")
    is_board = len(observation_shape) == 3
    if trunk == "auto":
        trunk = "conv" if is_board else "mlp"
    if trunk == "conv" and not is_board:
        raise ValueError(f"trunk is conv; observations of shape {observation_shape} need mlp")
    if separate_trunks:
        depths = _separate_depths(num_blocks, head_depths, num_heads)
        return SeparateTrunks(num_actions, trunk, width, depths)
    depths = _shared_depths(num_blocks, head_depths, num_heads)
    return Network(num_actions, trunk, width, num_blocks, depths)


def _shared_depths(
    num_blocks: int, head_depths: tuple[int, ...] | None, num_heads: int
) -> tuple[int, ...]:
    if head_depths is None:
        number = max(num_heads, min(2, num_blocks))
        if number > num_blocks:
            raise ValueError(
                f"num_blocks is {num_blocks}; it must be at least {number}, a block for each head"
            )
        head_depths = tuple(num_blocks * i // number for i in range(1, number + 1))
    _check_shared(num_blocks, head_depths)
    return _enough(tuple(head_depths), num_heads)


def _check_shared(num_blocks: int, head_depths: tuple[int, ...]) -> None:
    is_right = all(map(is_whole, head_depths)) and sorted(set(head_depths)) == list(head_depths)
    if not head_depths or not is_right or head_depths[0] < 1 or head_depths[-1] != num_blocks:
        raise ValueError(
            f"head_depths is {head_depths}; it must increase from at least 1 to"
            f" num_blocks={num_blocks}"
        )


def _check_trunk(trunk: str, *known: str) -> None:
    check(trunk in known, "trunk", trunk, f"one of {', '.join(known)}")


def _separate_depths(
    num_blocks: int, head_depths: tuple[int, ...] | None, num_heads: int
) -> tuple[int, ...]:
    if head_depths is None:
        head_depths = tuple(num_blocks * (2 + i) // 2 for i in range(max(num_heads, 2)))
    if not head_depths or not all(is_whole(depth) and depth >= 1 for depth in head_depths):
        raise ValueError(
            f"head_depths is {head_depths}; it must be the blocks of each network, at least 1"
        )
    return _enough(tuple(head_depths), num_heads)


def _enough(head_depths: tuple[int, ...], num_heads: int) -> tuple[int, ...]:
    if len(head_depths) < num_heads:
        raise ValueError(
            f"head_depths is {head_depths}; it must name at least {num_heads} depths, one for each"
            " head that the search evaluates"
        )
    return head_depths
