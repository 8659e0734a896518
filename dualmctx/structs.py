"""Small types that folders exchange. `dualmctx.types` exports them and lists the axes."""

import dataclasses
from typing import Any, Literal, NamedTuple

import chex
import jax
import mctx


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


class NodeInit(NamedTuple):
    """A new node as the search stores it.

    Attributes:
      prior: `[B, A]` in the form that the selection rule reads: for PUCT, probabilities that are 0
        for illegal actions; for mctx's rules, logits.
      value: `[B]` value of the state, from the view of the player to move there.
      reward: `[B]` reward of the edge into the node, from the view of the player who moved.
      discount: `[B]` discount of that edge; 0 if the node is terminal.
    """

    prior: chex.Array
    value: chex.Array
    reward: chex.Array
    discount: chex.Array


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


class LastEdge(NamedTuple):
    """The last edge of the path of a descent.

    Attributes:
      parent: `[B]` int32, the node from which the last edge starts.
      action: `[B]` int32, the action of the last edge.
      child: `[B]` int32, the node to which the edge leads; -1 if it does not exist yet.
      depth: `[B]` int32, the number of edges, at least 1.
    """

    parent: chex.Array
    action: chex.Array
    child: chex.Array
    depth: chex.Array


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
      kind: `resigned`, `crashed`, `timed out`, `illegal move`, `refused` (a command), or `not
        finite` (the output of a network).
      message: one sentence for people.
    """

    kind: Literal["resigned", "crashed", "timed out", "illegal move", "refused", "not finite"]
    message: str
