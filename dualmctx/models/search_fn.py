"""Binds a policy to a game and a network, and checks the arguments of a search."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

import contextlib
from collections.abc import Generator
from typing import Any

import flax.errors
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import describe
from dualmctx.errors import UserError, reason_of
from dualmctx.models.game_model import make_model
from dualmctx.models.network import cast_trunk
from dualmctx.models.rollouts import rollout_options
from dualmctx.search.keys import check_key
from dualmctx.search.phases import SearchState
from dualmctx.types import (
    Environment,
    GameState,
    Params,
    Policy,
    PolicyValueNetwork,
    SearchFn,
    tree_budgets,
)

_PARAMS = "pass those of network.init(rng_key, states.observation), or those of a trained network"
_FLAX_ERRORS = (
    flax.errors.ScopeParamShapeError,
    flax.errors.ScopeParamNotFoundError,
    flax.errors.ScopeCollectionNotFound,
    flax.errors.ApplyScopeInvalidVariablesTypeError,
)


def check_parts(env: Any, network: Any, policy: Any, *, needs_policy: bool = True) -> None:
    """Checks the parts of a search; without `needs_policy`, the policy may be `None`."""
    remedies = {
        "env": (env, "step", "a game, such as games.make('connect_four')"),
        "network": (network, "apply", "a network of make_network or adapt_network"),
        "policy": (policy, "heads", "a policy, such as dualmctx.AlphaZero()"),
    }
    for name, (part, attribute, remedy) in remedies.items():
        if name == "policy" and part is None and not needs_policy:
            continue
        if isinstance(part, type) or not hasattr(part, attribute):
            raise UserError(f"{name} is {describe(part)}; pass {remedy}")


def check_batch(env: Any, states: Any) -> int:
    """Checks that states are a batch, of a game with as many actions; returns the batch's size."""
    mask = getattr(states, "legal_action_mask", None)
    if mask is None:
        raise UserError(f"the states are {describe(states)}; pass states of the game")
    if jnp.ndim(mask) != 2:
        raise UserError(
            f"the states are not a batch: legal_action_mask has the shape {list(jnp.shape(mask))}, "
            "not [B, A]; for one state, pass jax.tree.map(lambda x: x[None], state)"
        )
    batch_size, num_actions = jnp.shape(mask)
    expected = getattr(env, "num_actions", num_actions)
    if num_actions != expected:
        raise UserError(
            f"the states have {num_actions} actions, but the game has {expected}; pass states of "
            "the same game"
        )
    return batch_size


@contextlib.contextmanager
def explained_params(params: Any) -> Generator[None]:
    """Explains errors of a network that gets other parameters than its own, or none."""
    try:
        yield
    except _FLAX_ERRORS as error:
        reason = reason_of(error).rstrip(".")
        message = f"params do not fit the network and the game: {reason}; {_PARAMS}"
        raise UserError(message) from error
    except (TypeError, AttributeError) as error:
        if params is not None:
            raise
        raise UserError(f"params is None; {_PARAMS}") from error


class GameSearch:
    """A variant bound to a game and a network; see `make_search_fn`.

    Attributes:
      model: the functions that the policy calls.
    """

    def __init__(
        self, env: Environment, policy: Policy, network: PolicyValueNetwork, **model_kwargs: Any
    ) -> None:
        """Takes the arguments of `make_search_fn`, which have been checked."""
        self._env, self._policy, self._network = env, policy, network
        keep = model_kwargs.pop("keep_activations", True)
        # A head that evaluates the root alone runs once, so nodes keep nothing for it.
        keep = keep and len(tree_budgets(policy)) > 1
        self.model = make_model(
            env, network, heads=policy.heads, keep_activations=keep, **model_kwargs
        )
        is_compact = model_kwargs.get("compact_states", False)
        self._rollouts = rollout_options(env, network, policy, compact_states=is_compact)

    def __call__(
        self, params: Params, rng_key: Array, state: GameState, search_tree: Any = None
    ) -> mctx.PolicyOutput:
        """Searches from `[B]` states: all phases at once."""
        with explained_params(params):
            return self._begin(self._policy, params, rng_key, state, search_tree)

    def init(
        self, params: Params, rng_key: Array, state: GameState, search_tree: Any = None
    ) -> SearchState:
        """Sets up a search from `[B]` states; the arguments are those of a call."""
        if not hasattr(self._policy, "init"):
            raise UserError(
                f"{type(self._policy).__name__} has no phases, so it runs as a whole; give a policy"
                " with init, step and output, as CONTRIBUTING.md describes"
            )
        with explained_params(params):
            return self._begin(self._policy.init, params, rng_key, state, search_tree)

    def step(
        self, params: Params, state: SearchState, number: Any = 1, *, root_action: Any = None
    ) -> SearchState:
        """Runs steps; see `dualmctx.search.phases.run_steps`."""
        # Policies of users may have no such argument.
        forced = {} if root_action is None else {"root_action": root_action}
        with explained_params(params):
            return self._policy.step(cast_trunk(self._network, params), state, number, **forced)

    def output(self, state: SearchState) -> mctx.PolicyOutput:
        """Returns the result of the steps so far; the search may go on after it."""
        return self._policy.output(state)

    def _begin(
        self, run: Any, params: Params, rng_key: Array, state: GameState, search_tree: Any
    ) -> Any:
        """Calls the policy or its first phase."""
        check_key(rng_key, check_batch(self._env, state))
        reused = {} if search_tree is None else {"search_tree": search_tree}
        params = cast_trunk(self._network, params)
        return run(
            params,
            rng_key,
            self.model.root_fn(params, state),
            self.model.recurrent_fn,
            self.model.refine_fn,
            invalid_actions=~state.legal_action_mask,
            **self._rollouts,
            **reused,
        )


def make_search_fn(
    env: Environment,
    network: PolicyValueNetwork,
    policy: Policy,
    *,
    keep_activations: bool = True,
    activations_dtype: Any = None,
    compact_states: bool = False,
) -> SearchFn:
    """Binds a policy to a game and a network.

    Args:
      env: a game, as `games.make` returns it.
      network: a `dualmctx.models.network.Network`.
      policy: a search variant.
      keep_activations: see `make_model`.
      activations_dtype: see `make_model`.
      compact_states: see `make_model`.

    Returns:
      `(params, rng_key, state) -> mctx.PolicyOutput` for a batch of game states. A policy with
      `reuse_capacity` accepts the output of `get_subtree` on the previous move's trees as a fourth
      argument. It raises a ValueError if the parameters, the key or the states do not fit. Its
      methods `init`, `step` and `output` run the same search in parts, see `SearchFn`.

    Raises:
      ValueError: if an argument is not a game, a network or a policy; see `make_model` and
        `make_rollout_fn`.
    """
    check_parts(env, network, policy)
    return GameSearch(
        env,
        policy,
        network,
        keep_activations=keep_activations,
        activations_dtype=activations_dtype,
        compact_states=compact_states,
    )
