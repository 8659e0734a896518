"""Shared vocabulary: axes, callables and the small results that modules hand to each other.

Axes, used in every docstring:
  B  batch: independent searches, one root each
  N  nodes of a search tree, the root included; node 0 is the root
  A  actions of the game, legal or not
  C  children that a node keeps, where a policy limits them; elsewhere A
  K  leaves taken from each tree at once
  T  time steps of self-play
  S  positions

Values and Q-values lie in [-1, 1] for the games here and are seen by the player to move at their
node; an edge's reward is seen by the player who moved. A discount of -1 hands the value to the
other player, +1 keeps it with the same player, and 0 marks the edge into a terminal node.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import chex
import jax
import mctx

Params = Any
"""The parameters of a network, or any other first argument of `recurrent_fn` and `refine_fn`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Embedding:
    """What a node keeps, in two parts that are read at different times.

    A `recurrent_fn` may return this in place of an arbitrary embedding. The search then hands only
    `state` to the `recurrent_fn` calls below the node (`activations` is `None` there), and both
    parts to `refine_fn`. Activations are large, so they are written once and not moved again
    until they are refined.

    Attributes:
      state: `[B, ...]` the game state.
      activations: `[B, ...]` what `refine_fn` needs to resume the evaluation of the state.
      actions: `[B, C]` int32, the actions that the children of the node stand for, ascending. A
        policy that limits them fills it in; `None` where there is a child for each action.
    """

    state: Any
    activations: Any = None
    actions: Any = None


class GameState(Protocol):
    """The part of `pgx.State` that this package uses. Inside a search all arrays have an axis B."""

    @property
    def current_player(self) -> chex.Array:
        """Int32, the identity of the player to move."""
        ...

    @property
    def observation(self) -> chex.Array:
        """`[...]` the state as the player to move sees it."""
        ...

    @property
    def rewards(self) -> chex.Array:
        """`[num_players]` rewards of the last move."""
        ...

    @property
    def terminated(self) -> chex.Array:
        """Bool, whether the game is over."""
        ...

    @property
    def truncated(self) -> chex.Array:
        """Bool, whether the game was stopped at its longest length."""
        ...

    @property
    def legal_action_mask(self) -> chex.Array:
        """`[A]` bool, true for legal actions."""
        ...

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with other values of some fields."""
        ...


class Environment(Protocol):
    """The part of `pgx.Env` that this package uses: a two-player game of perfect information.

    The functions take a single game; callers add the batch axis with `jax.vmap`.
    """

    @property
    def id(self) -> Any:
        """The name of the game."""
        ...

    @property
    def num_actions(self) -> int:
        """A, the number of actions, legal or not."""
        ...

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        ...

    # pgx has no types, so states are `Any`; the package reads them as `GameState`.
    def init(self, key: chex.PRNGKey) -> Any:
        """Returns the first `GameState` of a game."""
        ...

    def step(self, state: Any, action: chex.Array, key: Any = None) -> Any:
        """Plays an int32 action; returns the next `GameState`."""
        ...

    def observe(self, state: Any, player_id: Any = None) -> chex.Array:
        """Returns the observation of a state, by default as the player to move sees it."""
        ...


@runtime_checkable
class HasStateRanges(Protocol):
    """An environment that bounds integer arrays of its states, as those of `games.make` do."""

    @property
    def state_ranges(self) -> Mapping[str, tuple[int, int]]:
        """The lowest and highest value, both included, of arrays by their path in the state."""
        ...


class HasHeads(Protocol):
    """A network, or the description of one, with heads at some depths."""

    @property
    def head_depths(self) -> tuple[int, ...]:
        """The number of trunk blocks below each head, first to last."""
        ...


class PolicyValueNetwork(HasHeads, Protocol):
    """A Flax module with one or more policy-value heads, as `dualmctx.models.network.Network`."""

    def init(self, rngs: chex.PRNGKey, *args: Any, **kwargs: Any) -> Params:
        """Returns parameters for `[M, ...]` observations."""
        ...

    def apply(self, variables: Params, *args: Any, **kwargs: Any) -> Any:
        """Evaluates `[M, ...]` observations by every head, or runs the method named `method`.

        The methods are `begin(observation, head)` and `resume(activations, head, next_head)`; see
        `dualmctx.models.network.Network`.
        """
        ...


class NodeInit(NamedTuple):
    """A new node as the search stores it.

    Attributes:
      prior: `[B, A]` in the form that the policy's selection rule reads: probabilities that are 0
        for illegal actions under PUCT, logits under mctx's rules.
      value: `[B]` value of the state, seen by the player to move there.
      reward: `[B]` reward of the edge into the node, seen by the player who moved.
      discount: `[B]` discount of that edge; 0 if the node is terminal.
    """

    prior: chex.Array
    value: chex.Array
    reward: chex.Array
    discount: chex.Array


class EvaluateFn(Protocol):
    """Plays actions and evaluates the states reached."""

    def __call__(
        self, params: Params, rng_key: chex.PRNGKey, action: chex.Array, embedding: Any
    ) -> tuple[NodeInit, Any]:
        """Takes `[B]` actions and embeddings; consumes the key."""
        ...


class RootFn(Protocol):
    """Evaluates `[B, ...]` game states for the roots of a search."""

    def __call__(self, params: Params, state: GameState) -> mctx.RootFnOutput:
        """Takes the network's parameters and `[B]` states."""
        ...


class RecurrentFn(Protocol):
    """mctx's `recurrent_fn`: `[M]` actions and `[M, ...]` embeddings to the states they reach.

    M is B, or B·K where several leaves of each root are evaluated at once. The key is one, as in
    mctx; where the policy was given a key for each element it is `[M]` keys.
    """

    def __call__(
        self, params: Params, rng_key: chex.PRNGKey, action: chex.Array, embedding: Any
    ) -> tuple[mctx.RecurrentFnOutput, Any]:
        """Takes `[M]` actions and embeddings; consumes the key."""
        ...


class RefineFn(Protocol):
    """Evaluates `[M, ...]` embeddings once more, by a later head of the network.

    The key is one, or `[M]` keys, as in `RecurrentFn`.

    Returns:
      `(prior_logits, value)` of shapes `[M, A]` and `[M]`.
    """

    def __call__(
        self, params: Params, rng_key: chex.PRNGKey, embedding: Any
    ) -> tuple[chex.Array, chex.Array]:
        """Takes `[M, ...]` embeddings; consumes the key."""
        ...


class RolloutFn(Protocol):
    """Plays `[M, ...]` embeddings out to the end of the game.

    The key is one, or `[M]` keys, as in `RecurrentFn`.

    Returns:
      `[M]` outcomes, seen by the player to move; 0 where the game is over.
    """

    def __call__(self, params: Params, rng_key: chex.PRNGKey, embedding: Any) -> chex.Array:
        """Takes `[M, ...]` embeddings; consumes the key."""
        ...


class SelectFn(Protocol):
    """Chooses an action at one node of every tree.

    Takes the simulation's key, the same at every depth, the trees, `[B]` node indices and the
    scalar depth of these nodes, and returns `[B]` int32 actions. A rule that draws folds the depth
    into the key.
    """

    def __call__(
        self, rng_key: chex.PRNGKey, tree: Any, node_index: chex.Array, depth: chex.Array
    ) -> chex.Array:
        """Chooses `[B]` actions."""
        ...


@chex.dataclass(frozen=True)
class ActingOutput(mctx.PolicyOutput):
    """What a policy returns that acts by other weights than it learns from.

    Attributes:
      acting_weights: `[B, A]`, which sum to 1: what moves are drawn from. `action_weights` are the
        target.
    """

    acting_weights: chex.Array


def acting_weights(output: mctx.PolicyOutput) -> chex.Array:
    """Returns the `[B, A]` weights that moves are drawn from."""
    return output.acting_weights if isinstance(output, ActingOutput) else output.action_weights


class Path(NamedTuple):
    """Where a descent ended: the last edge of its path.

    Attributes:
      parent: `[B]` int32, the node that the last edge leaves.
      action: `[B]` int32, the action of the last edge.
      child: `[B]` int32, the node that the edge enters, -1 if it has yet to be created.
      depth: `[B]` int32, the number of edges, at least 1.
    """

    parent: chex.Array
    action: chex.Array
    child: chex.Array
    depth: chex.Array


class Rollouts(NamedTuple):
    """How a policy's rollouts are played.

    Attributes:
      player: `intermediate`, the network's first head; or `uniform`, uniformly random legal moves.
      max_length: moves after which a rollout counts as a draw; `None` plays to the end.
    """

    player: Literal["intermediate", "uniform"]
    max_length: int | None = None


@dataclasses.dataclass(frozen=True)
class Traits:
    """What a policy needs or offers beyond the plain search; the defaults are the plain search.

    A policy declares its traits in one attribute. A plain variant writes
    `traits = Traits()` in its class; if a trait depends on options, `traits` is a property.
    One record with defaults, in place of optional attributes, gives callers a typed value to read
    and lets a trait be added without a change to existing variants.
    """

    num_rounds: int = 1
    """Rounds of a search with several trees."""
    reuse_capacity: int = 0
    """Nodes kept from the last move's trees, the root apart. Above 0 the policy takes a
    `search_tree`."""
    separate_trunks: bool = False
    """Whether the heads are meant to be networks of their own."""
    rollouts: Rollouts | None = None
    """The rollouts that the policy mixes in, which it takes as a `rollout_fn`; `None` for none."""


class Policy(Protocol):
    """A search variant: a frozen dataclass of its options, called like a policy of mctx.

    Its random key is one key, or one for each element of the batch (`dualmctx.search.keys`).
    """

    @property
    def num_simulations(self) -> int | tuple[int, ...]:
        """Simulations per search, or a number for each tree."""
        ...

    @property
    def heads(self) -> tuple[int, ...]:
        """Indices of the network's heads: one for `recurrent_fn`, then one per `refine_fn`."""
        ...

    @property
    def traits(self) -> Traits:
        """What the policy needs or offers beyond the plain search."""
        ...

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""
        ...

    def __call__(
        self,
        params: Params,
        rng_key: chex.PRNGKey,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn,
        *,
        invalid_actions: chex.Array | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots."""
        ...


class SearchFn(Protocol):
    """A variant bound to a game and a network: searches from `[B]` game states."""

    def __call__(
        self, params: Params, rng_key: chex.PRNGKey, state: Any, search_tree: Any = None
    ) -> mctx.PolicyOutput:
        """Searches from `[B]` states, or goes on from kept trees; consumes the key."""
        ...
