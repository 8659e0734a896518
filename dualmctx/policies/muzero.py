"""mctx's MuZero policy on this package's trees: the same keys give the same search."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
from jax import Array

from dualmctx.checks import check_callable, check_count, check_not_negative, check_positive
from dualmctx.policies import root as roots
from dualmctx.policies.base import OneTree, ReusingSearch
from dualmctx.policies.conflicts import check_without_puct
from dualmctx.policies.search_setup import set_up_search
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.arrays import any_true
from dualmctx.search.keys import mctx_keys, sample_rows, split_key, uniform
from dualmctx.search.mctx_adapter import QTransform, QTransformRule, transform_qvalues
from dualmctx.search.node import Choice, Node, Scores
from dualmctx.search.phases import SearchState, start_search
from dualmctx.search.select import argmax
from dualmctx.search.tree import Tree
from dualmctx.types import Params


@dataclasses.dataclass(frozen=True)
class MuZero(OneTree, ReusingSearch):
    """MuZero's search, with mctx's rule; called like a policy of mctx.

    Options, keys and results are those of `mctx.muzero_policy`; tests compare the two. Differences:
    some options are in groups, there may be a window and a reused tree, and the statistics are
    float32 if the network's outputs have 16 bits, so results then differ slightly.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Schrittwieser et al. 2020, appendix B; mctx. Windows and tree reuse are as in AlphaZero.
    """

    num_simulations: int = 85
    """Simulations per search, not counting the evaluation of the root; at least 1."""
    qtransform: Any = mctx.qtransform_by_parent_and_siblings
    """Function that turns Q-values into scores: one of mctx's, or one with the same signature."""
    pb_c_init: float = 1.25
    """Weight c1 of exploration; at least 0."""
    pb_c_base: float = 19652.0
    """Number of visits c2 at which the weight has grown by about log 2; positive."""

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        check_count("reuse_capacity", self.reuse_capacity, 0)
        check_callable("qtransform", self.qtransform, "a function, as in mctx")
        check_positive(self, "pb_c_base")
        check_not_negative(self, "pb_c_init")
        check_without_puct(self)

    def set_up(self, params: Params, rng_key: Array, inputs: Inputs) -> SearchState:
        """Sets up a search; as in mctx, noise reaches all actions that are not invalid."""
        rng_key, inputs = self.with_second_opinion(params, rng_key, inputs)
        rng_key, noise_key, search_key = split_key(rng_key, 3)
        setup = set_up_search(self, inputs, logits=roots.finite_root(inputs.root).prior_logits)
        tree = self._mask_and_add_noise(noise_key, setup.tree, inputs.invalid_actions)
        is_invalid = tree.root_invalid_actions > 0
        rule = MuZeroRule(is_invalid, self.pb_c_init, self.pb_c_base, self.qtransform)
        return start_search(
            search_key,
            tree,
            setup.make_spec(rule),
            rounds=((self.num_simulations,),),
            first_slot=setup.first_slot,
            output_key=rng_key,
            prior=setup.tree.children_prior[:, Tree.ROOT_INDEX],
        )

    def finish(self, state: SearchState) -> mctx.PolicyOutput:
        """Samples the action in proportion to the visits."""
        tree = state.tree
        prior = roots.legal_probabilities(state.prior, tree.root_invalid_actions)
        weights = roots.visit_shares(tree.summary().visit_counts, prior)
        logits = _log(weights)
        logits -= jnp.max(logits, axis=-1, keepdims=True)
        tiny = jnp.finfo(logits.dtype).tiny
        logits /= jnp.maximum(tiny, self.root.temperature)
        # Without this mask, as in mctx, a high temperature can sample an invalid action.
        logits = jnp.where(tree.root_invalid_actions > 0, -jnp.inf, logits)
        action = sample_rows(jax.random.categorical, state.output_key, logits).astype(jnp.int32)
        return mctx.PolicyOutput(action=action, action_weights=weights, search_tree=tree)

    def _mask_and_add_noise(
        self, rng_key: Array, tree: Tree, invalid_actions: Array | None
    ) -> Tree:
        """Mixes mctx's noise into the roots' priors and masks them; consumes the key."""
        probs = jax.nn.softmax(tree.children_prior[:, Tree.ROOT_INDEX])
        fraction = self.root.dirichlet_fraction
        if fraction > 0:  # Sampling the noise is slow to compile.
            # mctx samples in JAX's default type, also with logits of another type.
            alphas = jnp.full(probs.shape, self.root.dirichlet_alpha, jnp.result_type(float))
            samples = roots.sample_log_gamma(rng_key, alphas, self.execution.kernels)
            noise = jax.nn.softmax(samples)
            probs = (1 - fraction) * probs + fraction * noise
        noisy_logits = _log(probs)
        # The noise may have a wider type than the network's logits.
        noisy_logits = noisy_logits.astype(tree.children_prior.dtype)
        prior = roots.mask_logits(noisy_logits, invalid_actions)
        return tree.replace(children_prior=tree.children_prior.at[:, Tree.ROOT_INDEX].set(prior))


def _log(probs: Array) -> Array:
    return jnp.log(jnp.maximum(probs, jnp.finfo(probs.dtype).tiny))


# mctx breaks ties by adding noise below 1e-7. It cannot change the choice if the best score leads
# by more than the noise and the rounding error of the addition.
_NOISE = 1e-7
_ROUNDING = 2 * float(np.finfo(np.float32).eps)
_MUZERO_ADDENDS = ("normalised Q", "exploration", "tie-break noise")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MuZeroRule(QTransformRule):
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
