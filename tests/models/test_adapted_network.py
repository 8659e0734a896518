"""Flax modules of a user become search networks; wrong modules are refused with a remedy."""

import functools
from typing import Any

import flax.nnx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import games
from dualmctx import AlphaZero, Dual, Network, adapt_network, make_search_fn
from dualmctx.models.costs import move_cost
from untrained import random_params

SHAPE, NUM_ACTIONS = (3, 3, 2), 9
PLAIN = Network(NUM_ACTIONS, "mlp", width=4, num_blocks=2, head_depths=(1, 2))


class Heads(nn.Module):
    """Dense layers; the value of each head has the shape `[M, 1]`."""

    num_heads: int = 1
    width: int = 8
    num_actions: int = NUM_ACTIONS

    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        x, outputs = x.reshape(x.shape[0], -1), []
        for _ in range(self.num_heads):
            x = nn.relu(nn.Dense(self.width)(x))
            outputs.append((nn.Dense(self.num_actions)(x), jnp.tanh(nn.Dense(1)(x))))
        return outputs[0] if self.num_heads == 1 else outputs


class Whole(nn.Module):
    """The network of the package without `begin` and `resume`, as a list of pairs."""

    def setup(self) -> None:
        self.inner = PLAIN

    def __call__(self, x: jax.Array) -> Any:
        return [(logits, value[:, None]) for logits, value in self.inner(x)]


class Pipe(nn.Module):
    """A dense layer whose output goes through a function."""

    function: Any
    features: int = NUM_ACTIONS

    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        return self.function(nn.Dense(self.features)(x.reshape(x.shape[0], -1)))


class Normalised(nn.Module):
    """Uses batch normalisation."""

    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        x = nn.BatchNorm(use_running_average=False)(x.reshape(x.shape[0], -1))
        return nn.Dense(NUM_ACTIONS)(x), x[:, 0]


class ResumeOnly(Heads):
    """Has one of two methods."""

    def resume(self, activations: jax.Array, head: int, next_head: int) -> Any:
        raise AssertionError


class WrongBegin(Heads):
    """`begin` leaves the activations out."""

    def begin(self, observation: jax.Array, head: int) -> Any:
        return self(observation)[head][0]


class WrongActivations(Heads):
    """`begin` keeps nothing."""

    def begin(self, observation: jax.Array, head: int) -> Any:
        return None, self(observation)[head]

    def resume(self, activations: jax.Array, head: int, next_head: int) -> Any:
        raise AssertionError


class OfNnx(flax.nnx.Module):
    """A module of the other interface of Flax."""

    def __init__(self, rngs: flax.nnx.Rngs) -> None:
        self.dense = flax.nnx.Linear(18, NUM_ACTIONS, rngs=rngs)

    def __call__(self, x: jax.Array) -> Any:
        logits = self.dense(x.reshape(x.shape[0], -1))
        return logits, jnp.tanh(logits[:, 0])


adapt = functools.partial(adapt_network, num_actions=NUM_ACTIONS, observation_shape=SHAPE)


@pytest.mark.slow
@pytest.mark.parametrize("has_methods", [True, False])
def test_an_adapted_network_evaluates_as_the_network_itself(has_methods: bool) -> None:
    network: Any = adapt(PLAIN if has_methods else Whole())
    observation = np.random.default_rng(0).integers(0, 2, (5, *SHAPE)).astype(bool)
    params = random_params(PLAIN, SHAPE)
    own = params if has_methods else {"params": {"inner": params["params"]}}

    def refine(params: Any) -> Any:
        activations, first = network.apply(params, observation, 0, method="begin")
        assert (activations is not None) == network.can_resume == has_methods
        if activations is None:
            return first, network.apply(params, observation, 1, method="begin")[1]
        return first, network.apply(params, activations, 0, 1, method="resume")[1]

    found, expected = jax.jit(refine)(own), jax.jit(PLAIN.apply)(params, observation)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), found, expected)


def test_an_early_head_costs_only_its_own_layers() -> None:
    network = adapt(Heads(2, width=64))
    observation = jax.ShapeDtypeStruct((1, *SHAPE), jnp.float32)
    params = jax.eval_shape(network.init, jax.random.PRNGKey(0), observation)

    def operations(head: int) -> float:
        begin = jax.jit(lambda *args: network.apply(*args, head, method="begin")[1])
        return begin.lower(params, observation).compile().cost_analysis()["flops"]

    assert operations(0) < operations(1) / 2


class Stated(Heads):
    """States the depths of its heads."""

    num_heads: int = 2

    @property
    def head_depths(self) -> tuple[int, ...]:
        return 3, 10


def test_the_argument_and_then_the_module_state_the_depths() -> None:
    assert adapt(Heads(3)).head_depths == (1, 2, 3)
    assert adapt(Stated()).head_depths == (3, 10)
    assert adapt(Stated(), head_depths=[7, 2]).head_depths == (7, 2)

    # A network that cannot resume pays for the whole final head.
    dual = Dual((50, 35))
    assert move_cost(dual, adapt(Stated())).blocks == 50 * 3 + 35 * 10
    assert move_cost(dual, adapt(PLAIN)).blocks == move_cost(dual, PLAIN).blocks == 50 + 35


def test_a_module_of_nnx_is_used_after_its_conversion() -> None:
    network = adapt(flax.nnx.bridge.to_linen(OfNnx))
    assert network.head_depths == (1,)
    assert isinstance(hash(network), int)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Heads(num_actions=7), r"logits of 3 positions have the shape \(3, 7\); it must be \(3, 9"),
        (Pipe(lambda x: (x, x)), r"values of 3 positions have the shape \(3, 9\)"),
        (Pipe(lambda x: x), r"Pipe cannot .*: it returns an array of shape \(3, 9\); it must"),
        (Pipe(lambda x: (x, x[:, 0], x)), "a head returns .* it must return .logits, value"),
        (Pipe(lambda x: [(x, "no")]), "a head returns .*an object of type str"),
        (Pipe(lambda x: 1 / 0), r"ZeroDivisionError: .*test_adapted_network.py, line \d+\)$"),
        (Pipe(lambda x: (nn.Dropout(0.5, deterministic=False)(x), x[:, 0])), "random numbers"),
        (Pipe(lambda x: (nn.Dense(9, param_dtype=jnp.bfloat16)(x), x[:, 0])), "be float32, for"),
        (Normalised(), "variables batch_stats, .*LayerNorm or GroupNorm"),
        (ResumeOnly(), "has the method resume but not begin"),
        (WrongBegin(2), "begin returns an array .*activations, .logits, value"),
        (WrongActivations(2), "positions an object of type NoneType; they must be one floating"),
        (OfNnx, r"NNX module; convert .* flax.nnx.bridge.to_linen\(OfNnx, ...\)"),
        (Heads, r"Heads is a class; pass an instance, as in Heads\(...\)"),
        (len, "of type builtin_function_or_method; it must be a flax.linen.Module"),
    ],
    # Descriptions of modules hold addresses, which differ between workers.
    ids=lambda x: x if isinstance(x, str) else getattr(x, "__name__", type(x).__name__),
)
def test_a_wrong_module_is_refused(module: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        adapt(module)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("module", "depths"), [(Heads(2), (1,)), (Heads(2), (0, 1)), (Heads(), (1.5,)), (PLAIN, (2, 1))]
)
def test_wrong_depths_are_refused(module: Any, depths: Any) -> None:
    with pytest.raises(ValueError, match=r"head_depths is .* must be whole numbers of at least 1"):
        adapt(module, head_depths=depths)


def test_a_network_with_one_head_runs_a_search_with_one_tree() -> None:
    """Its outputs in bfloat16 become float32."""
    module = Pipe(lambda x: (x.astype(jnp.bfloat16), jnp.tanh(x[:, 0]).astype(jnp.bfloat16)))
    env, network = games.make("tic_tac_toe"), adapt(module)
    states = jax.eval_shape(jax.vmap(env.init), jax.ShapeDtypeStruct((2, 2), jnp.uint32))
    params = jax.eval_shape(network.init, jax.random.PRNGKey(0), states.observation)
    [output] = jax.eval_shape(network.apply, params, states.observation)
    assert (output.logits.dtype, output.value.dtype) == (jnp.float32, jnp.float32)
    search = make_search_fn(env, network, AlphaZero(4))
    output = jax.eval_shape(search, params, jax.random.PRNGKey(0), states)
    assert output.action.shape == (2,)
