"""The events of a search that runs step by step."""

from typing import NamedTuple

import numpy as np

from dualmctx.visualization.recording.explain import Explanation
from dualmctx.visualization.recording.search_parts import Refined, View


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
