"""Shared types: the axes of arrays, protocols, and the small types that folders exchange.

Axes, used in every docstring:
  B  batch: independent searches, one root each
  N  nodes of a search tree, including the root, which is node 0
  A  actions of the game, legal or not
  C  children of a node if a policy limits them; otherwise A
  K  leaves taken from each tree at once
  T  time steps of self-play
  S  positions
  M  a leading batch axis of any length, such as B or B·K

Values and Q-values are in [-1, 1] for the games here, from the view of the player to move at their
node. The reward of an edge is from the view of the player who moved. The discount of an edge is -1
if the player to move changes, +1 if it stays the same, and 0 if the edge leads to a terminal node.
"""

# pyright: reportReturnType=false

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, Self

import chex
import jax
import mctx

Kernels = Literal["auto", "on", "off", "interpret"]
"""Whether a search runs in GPU kernels, see `Execution.kernels`."""
Params = Any
"""The parameters of a network, or any other first argument of `recurrent_fn` and `refine_fn`."""


class GameState(Protocol):
    """The part of `pgx.State` that this package uses. Inside a search all arrays have an axis B."""

    @property
    def current_player(self) -> chex.Array:
        """Int32, the identity of the player to move."""

    @property
    def observation(self) -> chex.Array:
        """`[...]` the state as the player to move sees it."""

    @property
    def rewards(self) -> chex.Array:
        """`[num_players]` rewards of the last move."""

    @property
    def terminated(self) -> chex.Array:
        """Bool, whether the game is over."""

    @property
    def truncated(self) -> chex.Array:
        """Bool, whether the game was stopped at its maximum length."""

    @property
    def legal_action_mask(self) -> chex.Array:
        """`[A]` bool, true for legal actions."""

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields replaced."""


class Environment(Protocol):
    """The part of `pgx.Env` that this package uses: a two-player game of perfect information.

    The functions take a single game; callers add the batch axis with `jax.vmap`. An optional
    attribute `state_ranges` maps the path of an integer array in the state, such as `_x.board`, to
    its lowest and highest value, both included; the environments of `games.make` have it.
    """

    @property
    def id(self) -> Any:
        """The name of the game."""

    @property
    def num_actions(self) -> int:
        """A, the number of actions, legal or not."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""

    # pgx has no types, so states are `Any`; the package reads them as `GameState`.
    def init(self, key: chex.PRNGKey) -> Any:
        """Returns the initial `GameState` of a game."""

    def step(self, state: Any, action: chex.Array, key: Any = None) -> Any:
        """Plays an int32 action; returns the next `GameState`."""

    def observe(self, state: Any, player_id: Any = None) -> chex.Array:
        """Returns the observation of a state, by default as the player to move sees it."""


class HasHeads(Protocol):
    """A network, or the description of a network, with heads at some depths."""

    @property
    def head_depths(self) -> tuple[int, ...]:
        """The number of trunk blocks below each head, first to last."""


class PolicyValueNetwork(HasHeads, Protocol):
    """A network with H policy-value heads, as searches and the learner use it.

    `dualmctx.models.network.Network` implements it, and `dualmctx.adapt_network` makes it of any
    Flax module that returns `(logits, value)`. `dualmctx.check_network` checks it.

    Heads are ordered from the cheapest to the final one and counted from 0. A search with one tree
    uses the final head by default, or the one that `head` names; `root_head` may name another one
    for the root. Dual and MPV use the first and the final one; Chain uses one for each tree. The
    learner trains all of them.

    A head's output has the attributes `logits`, `[M, A]` float32 without a mask of illegal actions,
    and `value`, `[M]` float32 in [-1, 1], from the view of the player to move
    (`dualmctx.models.network.HeadOutput`). It is a function of one position and the parameters: not
    of the other positions of the batch, of random numbers, or of the device.

    Networks are hashable. Equal networks share compiled programs, so their equality must not
    include parameters.

    An optional attribute `can_resume` says whether `begin` returns activations. The cost of a move
    is computed from it; without it, all networks count as able to resume, except in MPV.
    """

    def init(self, rngs: chex.PRNGKey, *args: Any, **kwargs: Any) -> Params:
        """Returns the parameters, a pytree of arrays.

        The argument after the key is an array of observations of any batch size. All arrays are
        learned; matrices and kernels, which have two axes or more, have weight decay.
        """

    def apply(self, variables: Params, *args: Any, **kwargs: Any) -> Any:
        """Evaluates positions; pure, and traced by JAX. There are three forms.

          apply(params, observation) -> H outputs, first to last
          apply(params, observation, head, method="begin") -> (activations, output)
          apply(params, activations, head, next_head, method="resume") -> (activations, output)

        `observation` is `[M, ...]` in the dtype of the game, which may be bool. `head` and
        `next_head` are Python integers with `head < next_head`. `begin` evaluates one head and
        gives the output that it has in the first form. `resume` continues from the activations at
        one head to a later head, with the same output.

        `activations` is one floating array `[M, ...]`, or `None`. A search stores a copy in every
        node, and evaluates the later head at the cost of the blocks between the two heads.
        `activations_dtype` of `make_model` may store it in another floating type; `resume` then
        gets that type. With `None` nodes store nothing, `resume` is not needed, and the later head
        evaluates the whole network again.
        """


RootFn = Callable[[Params, GameState], mctx.RootFnOutput]
"""Evaluates `[B, ...]` game states for the roots of a search, from the network's parameters."""
RecurrentFn = Callable[[Params, chex.PRNGKey, chex.Array, Any], tuple[mctx.RecurrentFnOutput, Any]]
"""mctx's `recurrent_fn`: plays `[M]` actions in `[M]` embeddings, and evaluates the states.

M is B, or B·K if several leaves of each root are evaluated at once. There is one key, as in mctx,
or `[M]` keys if the policy was given a key for each element; it is consumed.

The result is `(output, embedding)`. The output has `[M, A]` logits, and `[M]` values, rewards and
discounts. A logit more than a million below the largest, such as the smallest float32, masks its
action. The value is from the view of the player to move in the resulting state, the reward from
that of the player who took the action. The discount is -1 where the turn passes to the other
player, 1 where it does not, and 0 where the game is over.
"""
RefineFn = Callable[[Params, chex.PRNGKey, Any], tuple[chex.Array, chex.Array]]
"""Evaluates `[M, ...]` embeddings again, by a later head; consumes the key, as `RecurrentFn`.

The result is `(prior_logits, value)` of shapes `[M, A]` and `[M]`. The logits mask illegal actions,
as in `RecurrentFn`. The value is from the view of the player to move, in [-1, 1] for a game.
"""
RolloutFn = Callable[[Params, chex.PRNGKey, Any], chex.Array]
"""Plays games from `[M, ...]` embeddings to the end; consumes the key, as `RecurrentFn`.

The result is `[M]` outcomes, from the view of the player to move; 0 if the game is already over.
"""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Embedding:
    """The embedding of a node, in parts that are read at different times.

    A `recurrent_fn` may return this in place of an arbitrary embedding. The search then passes only
    `state` to the `recurrent_fn` calls below the node (`activations` is `None` there), and both
    parts to `refine_fn`. Activations are large, so they are written once and read only when the
    node is refined.

    Attributes:
      state: `[B, ...]` the game state.
      activations: `[B, ...]` arrays from which `refine_fn` resumes the evaluation of the state.
      actions: `[B, C]` int32, the actions of the children, ascending. Set by a policy that limits
        the children; `None` if there is one child per action.
    """

    state: Any
    activations: Any = None
    actions: Any = None


@chex.dataclass(frozen=True)
class ActingOutput(mctx.PolicyOutput):
    """The output of a policy whose acting weights differ from its training target.

    Attributes:
      acting_weights: `[B, A]` weights that sum to 1, from which moves are sampled. The training
        target is `action_weights`.
    """

    acting_weights: chex.Array


def acting_weights(output: mctx.PolicyOutput) -> chex.Array:
    """Returns the `[B, A]` weights from which moves are sampled."""
    return output.acting_weights if isinstance(output, ActingOutput) else output.action_weights


class Rollouts(NamedTuple):
    """The options of a policy's rollouts.

    Attributes:
      player: `intermediate`, the network's first head; or `uniform`, uniformly random legal moves.
      max_length: moves after which a rollout counts as a draw; `None` plays to the end.
      mix: weight of the outcome, in [0, 1]; 1 ignores the value head.
    """

    player: Literal["intermediate", "uniform"]
    max_length: int | None = None
    mix: float = 0.5


@dataclasses.dataclass(frozen=True)
class Traits:
    """Requirements and features of a policy beyond the plain search, which has the defaults.

    A policy declares its traits in the attribute `traits`. A plain variant writes
    `traits = Traits()` in its class; if a trait depends on options, `traits` is a property. Callers
    read a typed record, and a new trait needs no change to existing variants.
    """

    num_rounds: int = 1
    """Number of rounds in a search with several trees."""
    reuse_capacity: int = 0
    """Nodes reused from the previous move's trees, not counting the root. If above 0, the policy
    accepts a `search_tree`."""
    num_spare: int = 0
    """Nodes that the search may evaluate in vain, in addition to those of its result."""
    separate_trunks: bool = False
    """Whether each head should have a trunk of its own."""
    rollouts: Rollouts | None = None
    """The rollouts whose outcomes the policy mixes into values, given to it as a `rollout_fn`;
    `None` for none."""


class Failure(NamedTuple):
    """The reason why a player on the host gives no move, which ends its game.

    Attributes:
      kind: of these, `refused` is about a command, and `not finite` about a network's output.
      message: one sentence for people.
    """

    kind: Literal["resigned", "crashed", "timed out", "illegal move", "refused", "not finite"]
    message: str


class Steps(Protocol):
    """The later phases of a search, see `dualmctx.search.phases`."""

    def step(self, params: Params, state: Any, number: Any = 1, *, root_action: Any = None) -> Any:
        """Runs steps, fewer if fewer are left; `root_action` forces their `[B]` first actions."""

    def output(self, state: Any) -> mctx.PolicyOutput:
        """Returns the result of the steps so far."""


class Policy(Steps, Protocol):
    """A search variant: a frozen dataclass of its options, called like a policy of mctx.

    It takes one random key, or one key for each element of the batch (`dualmctx.search.keys`).
    """

    @property
    def num_simulations(self) -> int | tuple[int, ...]:
        """Simulations per search, or one number for each tree."""

    @property
    def heads(self) -> tuple[int, ...]:
        """Indices of heads of the network: one for `recurrent_fn`, then one per `refine_fn`."""

    @property
    def traits(self) -> Traits:
        """Requirements and features beyond the plain search."""

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""

    def __call__(
        self,
        params: Params,
        rng_key: chex.PRNGKey,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: Any = None,
        *,
        invalid_actions: chex.Array | None = None,
        search_tree: Any = None,
        rollout_fn: RolloutFn | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots: all phases at once; see `policies.base.SearchPolicy`."""

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """Takes the arguments of a call; returns a `dualmctx.search.phases.SearchState`."""


def tree_budgets(policy: Policy) -> tuple[int, ...]:
    """Returns the simulations of a search per move, one number for each of its trees."""
    budget = policy.num_simulations
    return budget if isinstance(budget, tuple) else (budget,)


class SearchFn(Steps, Protocol):
    """A variant bound to a game and a network: searches from `[B]` game states.

    The search also runs in parts, all of which may be compiled:

        state = search.init(params, rng_key, states)
        state = search.step(params, state, 10)  # 10 simulations, or with several trees 10 rounds
        output = search.output(state)  # the search may go on after it

    How the steps are divided changes nothing, bit for bit. After all `state.num_steps` steps the
    output is that of a call, up to rounding. The state is a pytree. If `init` is compiled, the
    other parts compile once for all of its states.
    """

    def __call__(
        self, params: Params, rng_key: chex.PRNGKey, state: Any, search_tree: Any = None
    ) -> mctx.PolicyOutput:
        """Searches from `[B]` states, reusing trees if given; consumes the key."""

    def init(
        self, params: Params, rng_key: chex.PRNGKey, state: Any, search_tree: Any = None
    ) -> Any:
        """Sets up a search; returns a `dualmctx.search.phases.SearchState`."""
