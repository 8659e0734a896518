"""mctx's main selection rules, rewritten for whole batches: the same results in less time."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
import math
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.search.arrays import any_true, batched_gather, take_entry
from dualmctx.search.keys import mctx_keys, uniform
from dualmctx.search.mctx_adapter import QTransform, has_row_transform, transform_qvalues
from dualmctx.search.node import Choice, Node, Rule, Scores
from dualmctx.search.select import ScoringRule, argmax
from dualmctx.search.tree import Tree

FLOOR = -1e9
"""mctx's lower bound of the scores at a Gumbel root. It keeps a valid action, however unlikely,
above the masked ones, whose score is -inf."""


class _QTransformRule(Rule):
    """A rule with a qtransform; it runs in kernels if the qtransform is one of mctx's."""

    qtransform: QTransform

    @property
    def in_kernels(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the qtransform is one of mctx's."""
        return has_row_transform(self.qtransform)


_GUMBEL_ADDENDS = ("Gumbel noise", "logit", "completed Q")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GumbelRootRule(_QTransformRule):
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
class GumbelRule(_QTransformRule, ScoringRule):  # pyright: ignore[reportIncompatibleVariableOverride]
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


# mctx breaks ties by adding noise below 1e-7. It cannot change the choice if the best score leads
# by more than the noise and the rounding error of the addition.
_NOISE = 1e-7
_ROUNDING = 2 * float(np.finfo(np.float32).eps)
_MUZERO_ADDENDS = ("normalised Q", "exploration", "tie-break noise")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MuZeroRule(_QTransformRule):
    """mctx's MuZero rule, which samples its noise only where the noise can decide.

    Formula:
        argmax_a  q̂(a) + (c1 + log((n + c2 + 1) / c2)) · sqrt(n) · P(s,a) / (1 + N(s,a)) + noise

    where n is the number of visits of the node. To break ties, mctx samples noise for each action
    at each node, which takes longer than the rest of the rule. This rule samples the same noise,
    but only if the two best scores in some tree of the batch, or in a kernel in its own tree, are
    so close that the noise can decide between them.

    Source: Schrittwieser et al. 2020, appendix B; `mctx.muzero_action_selection`.
    """

    is_invalid: Array
    """`[B, A]` bool, actions that are not allowed at the root."""
    pb_c_init: Array | float
    """c1."""
    pb_c_base: Array | float
    """c2."""
    qtransform: QTransform = dataclasses.field(metadata={"static": True})
    """Computes q̂."""

    def __call__(self, rng_key: Any, node: Node) -> Array:
        """Chooses `[B]` actions."""
        _, score = self._score(node)
        masked = self._mask(node, score)

        def noisy() -> Array:
            return argmax(self._mask(node, score + _noise(rng_key, node, score)))

        return jax.lax.cond(any_true(_is_unclear(masked)), noisy, lambda: argmax(masked))

    def explain(self, rng_key: Any, node: Node) -> Choice:
        """Returns the choice and the scores; the noise is 0 where it cannot decide."""
        addends, score = self._score(node)
        is_unclear = any_true(_is_unclear(self._mask(node, score)))
        noise = jnp.where(is_unclear, _noise(rng_key, node, score), 0)
        score = self._mask(node, score + noise)
        return Choice(argmax(score), {"scores": Scores((*addends, noise), score, _MUZERO_ADDENDS)})

    def _score(self, node: Node) -> tuple[tuple[Array, Array], Array]:
        """Returns `[B, A]` normalised Q-values and the exploration, and their sum."""
        visits = node.num_visits[:, None]
        pb_c = self.pb_c_init + jnp.log((visits + self.pb_c_base + 1.0) / self.pb_c_base)
        probs = jax.nn.softmax(node.prior)
        exploration = jnp.sqrt(visits) * pb_c * probs / (node.visits + 1)
        qvalues = transform_qvalues(self.qtransform, node)
        return (qvalues, exploration), qvalues + exploration

    def _mask(self, node: Node, score: Array) -> Array:
        """Returns scores, -inf for actions that are not allowed."""
        is_masked = self.is_invalid & (node.depth == 0)
        return node.mask(jnp.where(is_masked, -jnp.inf, score), -jnp.inf)


def _noise(rng_key: Any, node: Node, score: Array) -> Array:
    """Returns mctx's noise, `[B, A]` as the scores."""
    keys = mctx_keys(rng_key, node.batch_size, node.depth)
    return _NOISE * uniform(keys, node.num_actions, score.shape[1])


def _is_unclear(score: Array) -> Array:
    """Returns `[B]` bool, whether noise can decide between the best two of `[B, A]` scores."""
    best = jnp.max(score, axis=-1, keepdims=True)
    is_near = score >= best - (_NOISE + _ROUNDING * jnp.abs(best))
    return jnp.sum(is_near, axis=-1) != 1
