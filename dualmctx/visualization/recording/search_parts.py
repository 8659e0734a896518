"""The arrays that the compiled parts of a recorded search exchange, and its events on the host."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from dualmctx.search.rounds import Refinement, Rounds
from dualmctx.search.simulate import SearchSpec
from dualmctx.search.tree import Tree
from dualmctx.types import Params
from dualmctx.visualization.recording.explain import Explanation


class Plan(NamedTuple):
    """The loops of a search; the fields are those of `LoopArguments` that are not arrays."""

    specs: tuple[SearchSpec, ...]
    refinements: tuple[Refinement, ...]
    rounds: Rounds
    first_slot: int


class View(NamedTuple):
    """The numbers of one element's trees that steps change.

    Attributes:
      edges: `[N]` int32, as in `Tree`.
      transitions: `[N, 2]`, as in `Tree`.
      raw_values: `[N]`, as in `Tree`.
      node_stats: `[N, 2]` for each tree, as in `TreeStats`.
      path_visits: `[N]` int32 for each tree; `None` without a window.
    """

    edges: Any
    transitions: Any
    raw_values: Any
    node_stats: tuple[Any, ...]
    path_visits: tuple[Any, ...]


class Start(NamedTuple):
    """The arrays with which the loops of a search start.

    Attributes:
      params: the parameters, perhaps cast.
      rng_key: the key of the loops.
      tree: trees that hold their roots.
      rows: the arrays of the root's rule, see `RowRule`; `None` for none.
      priors: `[C]` the root's prior without noise, and as the rule reads it.
      view: the numbers of the trees.
    """

    params: Params
    rng_key: Array
    tree: Tree
    rows: Any
    priors: tuple[Array, Array]
    view: View


class Refined(NamedTuple):
    """A refinement; K leaves, of which those that are not valid were not evaluated.

    Attributes:
      leaves: `[K]` int32.
      is_valid: `[K]` bool.
      frontier: `[N]` int32, all nodes by priority.
      is_waiting: `[N]` bool, those that the tree had not evaluated.
      values: `[K]` before, by the head alone, and after.
      priors: `[K, C]` probabilities before, by the head alone, and after.
    """

    leaves: Any
    is_valid: Any
    frontier: Any
    is_waiting: Any
    values: tuple[Any, Any, Any]
    priors: tuple[Any, Any, Any]


class Finish(NamedTuple):
    """The end of a search.

    Attributes:
      action: int32, the action.
      action_weights: `[A]`.
      visits: `[A]` int32 visits of the root's children, for each tree.
      states: `[N, ...]` states of the nodes.
      actions: `[N, C]` int32, the actions of the nodes' action slots; `None` if slots are actions.
    """

    action: Any
    action_weights: Any
    visits: tuple[Any, ...]
    states: Any
    actions: Any


def view_of(tree: Tree) -> View:
    """Returns the numbers of the first element of a batch."""
    stats = [jax.tree.map(lambda x: x[0], x.replace(extra={})) for x in tree.stats]
    return View(
        tree.edges[0],
        tree.transitions[0],
        tree.raw_values[0],
        tuple(x.node_stats for x in stats),
        tuple(x.path_visits for x in stats),
    )


class Simulated(NamedTuple):
    """A simulation, on the host.

    Attributes:
      tree_index: the tree that grew.
      round: the round, from 0.
      number: the number of the simulation in its tree, from 0.
      nodes: the nodes of the path from the root, without the last one.
      slots: the action slots of the edges of the path, one for each of these nodes.
      choices: the explanation of the choice at each of these nodes, without the axis L.
      child: the node at the end of the path; the slot of a new node.
      is_new: whether the simulation created it.
      prior: `[C]` the prior of the node, used only if it is new.
      pending: the number of later simulations of the same step, whose values are backed up with
        those of this one; `view` is then that of the end of the step.
      view: the trees after the simulation; `None` if `pending` is above 0.
    """

    tree_index: int
    round: int
    number: int
    nodes: list[int]
    slots: list[int]
    choices: list[Explanation]
    child: int
    is_new: bool
    prior: np.ndarray
    pending: int
    view: View | None


class RefinedNodes(NamedTuple):
    """A refinement, on the host.

    Attributes:
      tree_index: the tree that evaluated nodes.
      round: the round, from 0.
      number: the number of its first simulation in that tree, from 0.
      refined: the nodes and the outputs of the heads.
      view: the trees after the refinement.
    """

    tree_index: int
    round: int
    number: int
    refined: Refined
    view: View


Event = Simulated | RefinedNodes
