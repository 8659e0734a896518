"""mctx's Gumbel policy on this package's trees: the same keys give the same search."""

import dataclasses
import math
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import mctx
import numpy as np
from jax import Array

from dualmctx.checks import check_callable, check_count, check_not_negative
from dualmctx.policies import root as roots
from dualmctx.policies.base import OneTree
from dualmctx.policies.conflicts import check_without_puct
from dualmctx.policies.options import Backup, Execution
from dualmctx.policies.search_setup import set_up_search
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.arrays import batched_gather, take_entry
from dualmctx.search.keys import sample_rows, split_key
from dualmctx.search.mctx_adapter import (
    QTransform,
    QTransformRule,
    has_row_transform,
    transform_qvalues,
)
from dualmctx.search.node import Choice, Node, Scores
from dualmctx.search.phases import SearchState, start_search
from dualmctx.search.select import ScoringRule, argmax
from dualmctx.search.tree import Tree
from dualmctx.types import ActingOutput, Params

FLOOR = -1e9
"""mctx's lower bound of the scores at a Gumbel root. It keeps a valid action, however unlikely,
above the masked ones, whose score is -inf."""


@dataclasses.dataclass(frozen=True)
class Gumbel(OneTree):
    """The search of Gumbel AlphaZero, with mctx's rules; called like a policy of mctx.

    Options, keys and results are those of `mctx.gumbel_muzero_policy`; tests compare the two. There
    are three differences: `max_depth` is an option of `Execution`, there may be a window, and the
    statistics are float32 if the network's outputs have 16 bits, so results then differ slightly.

    A window changes the backup and, below the root, the selection. At the root, the schedule of
    Sequential Halving does not change: it counts the simulations that passed through an action,
    which a window does not limit. There is no epsilon-greedy exploration at the root, because it
    would break the schedule. Trees are not reused after a move, because Sequential Halving requires
    a root without visits.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel"; mctx. Kadam, Xu,
    Lieberherr 2021, section 3, for the window; their combination is our reading.
    """

    num_simulations: int = 85
    """Simulations per search, not counting the evaluation of the root; at least 1."""
    qtransform: Any = mctx.qtransform_completed_by_mix_value
    """Function that turns Q-values into scores: one of mctx's, or one with the same signature."""
    max_num_considered_actions: int = 16
    """Number of actions with which Sequential Halving starts at the root, at least 1."""
    gumbel_scale: float = 1.0
    """Scale of the root's Gumbel noise, at least 0; 0 for evaluation."""
    backup: Backup = dataclasses.field(default_factory=Backup)
    """The window and its exploration, which applies below the root only."""
    execution: Execution = dataclasses.field(default_factory=Execution)
    """`max_depth` and `kernels`; the other options need PUCT."""

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, gumbel_scale=0.0)

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        check_callable("qtransform", self.qtransform, "a function, as in mctx")
        check_count("max_num_considered_actions", self.max_num_considered_actions, 1)
        check_not_negative(self, "gumbel_scale")
        check_without_puct(self)

    def set_up(self, params: Params, rng_key: Array, inputs: Inputs) -> SearchState:
        """Sets up a search with the Gumbel noise of the roots."""
        rng_key, inputs = self.with_second_opinion(params, rng_key, inputs)
        logits = roots.finite_root(inputs.root).prior_logits
        logits = roots.mask_logits(logits, inputs.invalid_actions)
        rng_key, gumbel_key = split_key(rng_key)
        noise = sample_rows(
            lambda key, x: jax.random.gumbel(key, x.shape, x.dtype), gumbel_key, logits
        )
        data = mctx.GumbelMuZeroExtraData(root_gumbel=self.gumbel_scale * noise)
        setup = set_up_search(self, inputs, logits=logits, extra_data=data)
        root_rule = GumbelRootRule.make(
            self.qtransform,
            setup.tree,
            num_simulations=self.num_simulations,
            max_num_considered_actions=self.max_num_considered_actions,
        )
        return start_search(
            rng_key,
            setup.tree,
            setup.make_spec(GumbelRule(self.qtransform), root_rule),
            rounds=((self.num_simulations,),),
            prior=logits,
        )

    def finish(self, state: SearchState) -> ActingOutput:
        """Acts by the best of the most visited actions; learns from the completed Q-values.

        Self-play samples its moves from `acting_weights`, which are 1 for the action and 0
        elsewhere. As in the paper, it therefore plays the winner of Sequential Halving at every
        temperature, explores only through the Gumbel noise, and learns `action_weights`.
        """
        tree, prior = state.tree, state.prior
        is_invalid = tree.root_invalid_actions > 0
        gumbel = tree.extra_data.root_gumbel
        node = Node(tree, Tree.ROOT_INDEX)
        qvalues = transform_qvalues(self.qtransform, node)
        is_most_visited = node.passes == jnp.max(node.passes, axis=-1, keepdims=True)
        logits = prior - jnp.max(prior, axis=-1, keepdims=True)
        score = jnp.maximum(FLOOR, gumbel + logits + qvalues)
        action = argmax(jnp.where(is_most_visited & ~is_invalid, score, -jnp.inf))
        # Q is not finite if an output of the network was not.
        improved = jnp.nan_to_num(prior + qvalues)
        weights = jax.nn.softmax(roots.mask_logits(improved, is_invalid))
        return ActingOutput(
            action=action,
            action_weights=weights,
            search_tree=tree,
            acting_weights=jax.nn.one_hot(action, weights.shape[-1], dtype=weights.dtype),
        )


_GUMBEL_ADDENDS = ("Gumbel noise", "logit", "completed Q")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GumbelRootRule(QTransformRule):
    """mctx's rule for a Gumbel root: Sequential Halving over likely actions.

    Formula:
        argmax_a  g(a) + logits(a) + q̂(a)   over the actions with the visits that the schedule
        requires,

    where g is the Gumbel noise of the root, in `Tree.extra_data`, and q̂ are the transformed
    Q-values.

    All unvisited actions have the same q̂, so only those with the largest g + logits are ever
    visited. If there are many actions and the qtransform is one of mctx's, the rule computes scores
    only for the actions with the largest g + logits, twice as many as it considers. The search then
    equals mctx's for each key, with one exception: if still more actions have scores that are equal
    up to rounding, the choice between them may differ. This requires a search without noise and a
    network that is nearly indifferent between hundreds of actions.

    With a window, the backup no longer changes the visits at the root once the tree is higher than
    the window, which would stop the schedule. The rule then counts the simulations that passed
    through an action, which the window does not limit. The qtransform still reads the windowed
    visits and Q-values.

    Source: Danihelka et al. 2022, section 3; `mctx.gumbel_muzero_root_action_selection`.
    """

    samples: ClassVar[bool] = False

    noisy_logits: Array
    """`[B, K]` Gumbel noise plus logits of the actions that the rule scores."""
    is_invalid: Array
    """`[B, K]` bool."""
    required: Array
    """`[B, num_simulations]` int32, for each simulation the visits of the next action."""
    actions: Array | None
    """`[B, K]` int32; `None` for all actions."""
    qtransform: QTransform = dataclasses.field(metadata={"static": True})
    """Computes q̂."""

    @classmethod
    def make(
        cls,
        qtransform: QTransform,
        tree: Tree,
        *,
        num_simulations: int,
        max_num_considered_actions: int,
    ) -> Self:
        """Makes the rule for one search.

        Args:
          qtransform: computes q̂.
          tree: the trees before the search.
          num_simulations: the number of simulations of the search.
          max_num_considered_actions: the number of actions with which Sequential Halving starts.
        """
        logits = batched_gather(tree.children_prior, Tree.ROOT_INDEX)
        is_invalid = tree.root_invalid_actions > 0
        max_considered = min(max_num_considered_actions, logits.shape[-1])
        schedules = [_required_visits(n, num_simulations) for n in range(max_considered + 1)]
        num_valid = jnp.sum(~is_invalid, axis=-1, dtype=jnp.int32)
        required = jnp.asarray(np.array(schedules, np.int32))[
            jnp.minimum(max_considered, num_valid)
        ]
        noise = tree.extra_data.root_gumbel
        noisy_logits = noise + (logits - jnp.max(logits, axis=-1, keepdims=True))
        # The scores of mctx's qtransforms depend on the visited actions and on one unvisited
        # action. Twice as many as needed, because adding q̂ can make nearly equal scores equal.
        num_top, actions = 2 * max_considered, None
        if has_row_transform(qtransform) and logits.shape[-1] >= 2 * num_top:
            floored = jnp.where(is_invalid, -jnp.inf, jnp.maximum(FLOOR, noisy_logits))
            top, actions = jax.lax.top_k(floored, num_top)
            noisy_logits = jnp.take_along_axis(noisy_logits, actions, axis=-1)
            is_invalid = top == -jnp.inf
        return cls(noisy_logits, is_invalid, required, actions, qtransform)

    def __call__(self, rng_key: Any, node: Node) -> Array:
        """Chooses `[B]` actions."""
        return argmax(self._score(node)[0], self.actions)

    def explain(self, rng_key: Any, node: Node) -> Choice:
        """Returns the choice, the scores, and the visits that the schedule requires."""
        score, completed, due = self._score(node)
        noise = node.tree.extra_data.root_gumbel
        if self.actions is not None:
            noise = jnp.take_along_axis(noise, self.actions, axis=-1)
        addends = noise, self.noisy_logits - noise, completed
        scores = Scores(addends, score, _GUMBEL_ADDENDS, self.actions)
        reasons = {"scores": scores, "required_visits": due}
        return Choice(argmax(score, self.actions), reasons)

    def _score(self, node: Node) -> tuple[Array, Array, Array]:
        """Returns `[B, K]` scores, `[B, K]` completed Q-values and the `[B]` required visits."""
        node = node if self.actions is None else node.only(self.actions)
        visits = node.passes
        due = take_entry(self.required, jnp.sum(node.mask(visits, 0), axis=-1))
        completed = transform_qvalues(self.qtransform, node)
        score = jnp.maximum(FLOOR, self.noisy_logits + completed)
        is_masked = self.is_invalid | (visits != due[:, None])
        return node.mask(jnp.where(is_masked, -jnp.inf, score), -jnp.inf), completed, due


def _required_visits(num_considered: int, num_simulations: int) -> list[int]:
    """Returns, for each simulation, the number of visits that the action to select must have.

    In each phase the remaining actions get the same number of visits; then half of them are
    dropped.
    """
    if num_considered <= 1:
        return list(range(num_simulations))
    num_phases = math.ceil(math.log2(num_considered))
    required: list[int] = []
    visits, num_left = 0, num_considered
    while len(required) < num_simulations:
        for _ in range(max(1, num_simulations // (num_phases * num_left))):
            required += [visits] * num_left
            visits += 1
        num_left = max(2, num_left // 2)
    return required[:num_simulations]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GumbelRule(QTransformRule, ScoringRule):  # pyright: ignore[reportIncompatibleVariableOverride]
    """mctx's rule for the nodes below a Gumbel root.

    Formula:
        argmax_a  softmax(logits + q̂)(a) − N(s,a) / (1 + Σ_b N(s,b))

    where q̂ are the transformed Q-values.

    Source: Danihelka et al. 2022, section 5; `mctx.gumbel_muzero_interior_action_selection`.
    """

    samples: ClassVar[bool] = False

    qtransform: QTransform = dataclasses.field(metadata={"static": True})
    """Computes q̂."""

    def score(self, rng_key: Any, node: Node) -> Scores:
        """Returns the improved policy and the share of the visits."""
        visits = node.visits
        probs = jax.nn.softmax(node.prior + transform_qvalues(self.qtransform, node))
        share = visits / (1 + jnp.sum(visits, axis=-1, keepdims=True))
        score = node.mask(probs - share, -jnp.inf)
        return Scores((probs, -share), score, ("improved policy", "visit fraction"))
