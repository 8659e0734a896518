"""The network: a residual trunk with policy-value heads at chosen depths."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from dualmctx.checks import check, check_count, check_flag, check_shape, describe, is_whole, plain
from dualmctx.errors import UserError
from dualmctx.models.trunks import AUTO, TRUNKS, LayerNorm, choose_trunk
from dualmctx.types import Params, PolicyValueNetwork


class HeadOutput(NamedTuple):
    """The evaluation of positions by one head.

    Attributes:
      logits: `[M, A]` float32 policy logits; illegal actions are not masked.
      value: `[M]` float32 in [-1, 1], from the view of the player to move.
    """

    logits: jax.Array
    value: jax.Array


class Head(nn.Module):
    """A policy head and a value head on the activations of a trunk, in float32."""

    num_actions: int

    @nn.compact
    def __call__(self, x: jax.Array) -> HeadOutput:
        """Evaluates `[M, ..., width]` activations."""
        x = nn.relu(LayerNorm(dtype=jnp.float32, name="norm")(x))
        policy, value = x, x
        if x.ndim > 2:
            # One dense layer shared by all cells or tokens, that is, a 1x1 convolution.
            policy = nn.relu(nn.Dense(8, name="policy_conv")(x))
            value = nn.relu(nn.Dense(4, name="value_conv")(x))
        policy = policy.reshape(policy.shape[0], -1)
        value = value.reshape(value.shape[0], -1)
        # Zero kernels: an untrained network has uniform logits, so its search can be checked by
        # hand.
        zeros = nn.initializers.zeros
        logits = nn.Dense(self.num_actions, kernel_init=zeros, name="policy")(policy)
        value = nn.relu(nn.Dense(64, name="value_hidden")(value))
        value = nn.Dense(1, kernel_init=zeros, name="value")(value)[..., 0]
        return HeadOutput(logits, jnp.tanh(value))


DTYPES = ("float32", "bfloat16")
"""The names of the dtypes in which a trunk can compute."""


__all__ = ("HeadOutput", "Network", "SeparateTrunks", "make_network")


def _check_dtype(dtype: str) -> None:
    check(dtype in DTYPES, "dtype", dtype, f"one of {', '.join(DTYPES)}")


class Network(nn.Module):
    """A trunk of residual blocks with policy-value heads at some of its depths.

    The trunk can stop at a head and later resume from the activations there, with the same result
    as an uninterrupted evaluation.

    Attributes:
      num_actions: A.
      trunk: the name of a trunk in `dualmctx.models.trunks.TRUNKS`.
      width: features of the trunk, at least 1.
      num_blocks: residual blocks; the paper's network has 4 of width 64. With 0 blocks, the one
        head reads the output of the stem.
      head_depths: the number of blocks below each head, increasing, with the last head at the end.
      dtype: `float32` or `bfloat16`, the dtype of the trunk's activations and products. Parameters,
        the statistics of layer normalisation and the heads are float32 in both cases.

    Raises:
      ValueError: on initialisation or application, if a field is wrong.

    Source: Kadam, Xu and Lieberherr 2021, section 5, for depth and width.
    """

    num_actions: int
    trunk: str = "conv"
    width: int = 64
    num_blocks: int = 4
    head_depths: tuple[int, ...] = (2, 4)
    dtype: str = "float32"

    def setup(self) -> None:
        """Creates the layers."""
        check(self.trunk in TRUNKS, "trunk", self.trunk, f"one of {', '.join(TRUNKS)}")
        trunk = TRUNKS[self.trunk]
        check_count("num_actions", self.num_actions, 1)
        check_count("width", self.width, 1)
        check_depths(self.head_depths, self.num_blocks)
        _check_dtype(self.dtype)
        dtype = jnp.dtype(self.dtype)
        self.stem: nn.Module = trunk.make_stem(self.width, dtype=dtype)
        self.blocks: Any = [
            trunk.make_block(self.width, dtype=dtype) for _ in range(self.num_blocks)
        ]
        self.heads: Any = [Head(self.num_actions) for _ in self.head_depths]

    def __call__(self, observation: jax.Array) -> tuple[HeadOutput, ...]:
        """Evaluates `[M, ...]` observations by every head, first to last."""
        activations, output = self.begin(observation, 0)
        outputs = [output]
        for head in range(1, len(self.head_depths)):
            activations, output = self.resume(activations, head - 1, head)
            outputs.append(output)
        return tuple(outputs)

    def begin(self, observation: jax.Array, head: int) -> tuple[jax.Array, HeadOutput]:
        """Evaluates `[M, ...]` observations by one head; the blocks above it do not run.

        Returns:
          The trunk's activations at the head, `[M, ..., width]` of `dtype`, and the output of the
          head.
        """
        return self._run(self.stem(observation.astype(self.dtype)), 0, head)

    def resume(
        self, activations: jax.Array, head: int, next_head: int
    ) -> tuple[jax.Array, HeadOutput]:
        """Continues from the activations at one head to a later head; returns what `begin` does."""
        return self._run(activations.astype(self.dtype), self.head_depths[head], next_head)

    def _run(self, x: jax.Array, depth: int, head: int) -> tuple[jax.Array, HeadOutput]:
        for block in self.blocks[depth : self.head_depths[head]]:
            x = block(x)
        return x, self.heads[head](x)


class SeparateTrunks(nn.Module):
    """Separate networks: each head has a trunk of its own.

    Called like `Network`. It returns no activations, because one network cannot resume another.

    With `value_depth`, the value of the final head comes from one more network, as in AlphaGo. The
    two unused outputs, the value of the last policy network and the policy of the value network,
    have parameters, which training leaves without a gradient. `jax.jit` drops their computation.

    Attributes:
      num_actions: A.
      trunk: as in `Network`.
      width: features of each trunk.
      head_depths: residual blocks of each network; MPV-MCTS has networks of 4 and 6 blocks. The
        first of several may have 0 blocks: its policy is then a stem and a head, which in a trunk
        of convolutions read patterns of 3x3 cells.
      dtype: as in `Network`.
      value_depth: residual blocks of the network that gives the value of the final head; `None` if
        the final head gives its own.

    Raises:
      ValueError: on initialisation or application, if a field is wrong.

    Source: Lan et al. 2019, two networks; their depths are those of Kadam, Xu and Lieberherr 2021,
    section 5. Silver et al. 2016, for the rollout policy, the policy network and the value network.
    """

    num_actions: int
    trunk: str = "conv"
    width: int = 64
    head_depths: tuple[int, ...] = (4, 6)
    dtype: str = "float32"
    value_depth: int | None = None

    @property
    def can_resume(self) -> bool:
        """Whether a later head continues from the activations at an earlier one: never."""
        return False

    def setup(self) -> None:
        """Creates the networks."""
        check_depths(self.head_depths)
        check_count("value_depth", self.value_depth, 1, "for the value of the final head")
        self.networks: Any = [one_of(self, depth) for depth in self.head_depths]
        if self.value_depth is not None:
            self.value_network: Any = one_of(self, self.value_depth)

    def __call__(self, observation: jax.Array) -> tuple[HeadOutput, ...]:
        """Evaluates `[M, ...]` observations by every network, first to last."""
        return tuple(self.begin(observation, head)[1] for head in range(len(self.head_depths)))

    def begin(self, observation: jax.Array, head: int) -> tuple[None, HeadOutput]:
        """Evaluates `[M, ...]` observations by one network; the value may come from another one.

        Returns:
          `None` in place of activations, and the output of the head.
        """
        output: HeadOutput = self.networks[head].begin(observation, 0)[1]
        is_final = head % len(self.head_depths) == len(self.head_depths) - 1
        if is_final and self.value_depth is not None:
            value = self.value_network.begin(observation, 0)[1].value
            output = output._replace(value=value)
        return None, output


def one_of(networks: SeparateTrunks, depth: int) -> Network:
    """Returns one of several separate networks: a trunk of `depth` blocks with one head."""
    return Network(
        networks.num_actions, networks.trunk, networks.width, depth, (depth,), networks.dtype
    )


def read_depths(head_depths: Any) -> tuple[int, ...]:
    """Returns given depths as a tuple, with Python's integers."""
    if isinstance(head_depths, str) or np.ndim(head_depths) != 1:
        remedy = "a tuple of depths, one for each head"
        raise UserError(f"head_depths is {describe(head_depths)}; it must be {remedy}")
    return tuple(int(depth) if is_whole(depth) else depth for depth in head_depths)


def default_depths(num_blocks: int, num_heads: int, *, separate: bool) -> tuple[int, ...]:
    """Chooses the depths of at least two heads, or of one if a shared trunk has one block.

    The heads of one trunk are at even distances. Of separate trunks, the first has `num_blocks`,
    and each further one has half of that more than the one before.
    """
    if separate:
        return tuple(num_blocks * (2 + i) // 2 for i in range(max(num_heads, 2)))
    number = max(num_heads, min(2, num_blocks))
    if number > num_blocks:
        raise UserError(
            f"num_blocks is {num_blocks}; it must be at least {number}, one block per head"
        )
    return tuple(num_blocks * i // number for i in range(1, number + 1))


def check_depths(
    head_depths: tuple[int, ...], num_blocks: int | None = None, num_heads: int = 1
) -> None:
    """Checks the depths of at least `num_heads` heads, in blocks.

    Those of one trunk of `num_blocks` increase from at least 1 to its end; a trunk of 0 blocks has
    one head, of depth 0. Separate trunks, with `num_blocks` of `None`, have at least 1 block each,
    and the first of several may have none: a fast policy for rollouts, of a stem and a head.
    """
    number = len(head_depths)
    is_valid = number > 0 and all(map(is_whole, head_depths))
    if num_blocks is None:
        is_valid = is_valid and min(head_depths[1:] or head_depths) >= 1 and head_depths[0] >= 0
        remedy = "be the blocks of each network, at least 1 (the first of several may have 0)"
    else:
        is_valid = is_valid and sorted(set(head_depths)) == list(head_depths)
        is_valid = is_valid and head_depths[0] >= min(1, num_blocks)
        is_valid = is_valid and head_depths[-1] == num_blocks
        remedy = f"increase from at least 1 to num_blocks={num_blocks}"
    if is_valid and number < num_heads:
        is_valid = False
        remedy = f"name at least {num_heads} depths, one for each head that the search evaluates"
    if not is_valid:
        raise UserError(f"head_depths is {head_depths}; it must {remedy}")


def make_network(
    num_actions: int,
    observation_shape: tuple[int, ...],
    *,
    width: int = 64,
    num_blocks: int = 4,
    head_depths: Sequence[int] | None = None,
    num_heads: int = 1,
    separate_trunks: bool = False,
    trunk: str = AUTO,
    dtype: str = "float32",
    value_blocks: int | None = None,
) -> Network | SeparateTrunks:
    """Creates a network for a game's observations.

    Args:
      num_actions: A.
      observation_shape: the shape of one observation.
      width: features of the trunk, at least 1.
      num_blocks: residual blocks, at least 1; with separate trunks, the blocks of the first one.
      head_depths: depths of the heads, increasing; by default the middle and the end, or more at
        even distances. With separate trunks, the blocks of each, in any order, of which the first
        may have none, and `num_blocks` is not used; by default `num_blocks`, half as many again,
        and so on.
      num_heads: the smallest number of heads.
      separate_trunks: whether each head has a trunk of its own; if so, there are at least two.
      trunk: a name in `dualmctx.models.trunks.TRUNKS`. `auto` is `conv` for observations with three
        axes, else `mlp`.
      dtype: the dtype of the trunk's activations and products, `float32` or `bfloat16`; see
        `Network`.
      value_blocks: residual blocks of a trunk that gives only the value of the final head, at least
        1; needs `separate_trunks`. With `None` the final head gives its own value.

    Returns:
      A `SeparateTrunks` with `separate_trunks`, else a `Network`.

    Raises:
      ValueError: if a setting is out of range, or if the trunk cannot read the observations.
    """
    observation_shape = check_shape("observation_shape", observation_shape)
    counts = {"num_actions": num_actions, "width": width, "num_blocks": num_blocks}
    counts["num_heads"] = num_heads
    for name, count in counts.items():
        check_count(name, count, 1)
    check_flag("separate_trunks", separate_trunks)
    check_count("value_blocks", value_blocks, 1, "for the value of the final head")
    # Python's integers, which JSON can hold.
    num_actions, width, num_blocks, num_heads = plain([*counts.values()])
    value_blocks = plain(value_blocks)
    if value_blocks is not None and not separate_trunks:
        raise UserError(
            f"value_blocks is {value_blocks}; it must be none without separate trunks, or add "
            "--network.separate-trunks True"
        )
    _check_dtype(dtype)
    trunk = choose_trunk(trunk, observation_shape)
    if head_depths is None:
        depths = default_depths(num_blocks, num_heads, separate=separate_trunks)
    else:
        depths = read_depths(head_depths)
    check_depths(depths, None if separate_trunks else num_blocks, num_heads)
    if separate_trunks:
        return SeparateTrunks(num_actions, trunk, width, depths, dtype, value_blocks)
    return Network(num_actions, trunk, width, num_blocks, depths, dtype)


def cast_trunk(network: PolicyValueNetwork, params: Params) -> Params:
    """Casts the matrices and kernels of a trunk to the trunk's dtype.

    A trunk casts its parameters in each evaluation. A search evaluates the network many times with
    the same parameters, so it casts them once; the results are the same bit for bit. Parameters of
    heads and vectors, such as the scales of normalisation, stay float32.

    Args:
      network: a network. The parameters of networks of other classes are not cast, because the
        names of their heads are unknown.
      params: its parameters.
    """
    if not isinstance(network, Network | SeparateTrunks) or network.dtype == "float32":
        return params
    dtype = network.dtype

    def cast(path: tuple[Any, ...], x: jax.Array) -> jax.Array:
        is_of_head = any(str(getattr(key, "key", "")).startswith("heads_") for key in path)
        return x if is_of_head or x.ndim < 2 else x.astype(dtype)

    return jax.tree_util.tree_map_with_path(cast, params)
