"""mctx's Gumbel policy on our tree: the same keys give the same search."""

import dataclasses
from typing import Any, ClassVar, Self

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx import mctx_rules
from dualmctx.policies import root as roots
from dualmctx.policies.options import check
from dualmctx.search import Grow, search
from dualmctx.tree import Tree, allocate
from dualmctx.types import Params, RecurrentFn, RefineFn


@dataclasses.dataclass(frozen=True)
class Gumbel:
    """Runs mctx's own Gumbel rules, with the options and keys of `mctx.gumbel_muzero_policy`.

    Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel"; mctx.
    """

    num_simulations: int
    max_depth: int | None = None
    qtransform: Any = mctx.qtransform_completed_by_mix_value
    max_num_considered_actions: int = 16
    gumbel_scale: float = 1.0

    first_head: ClassVar[int] = -1

    def noiseless(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, gumbel_scale=0.0)

    def __post_init__(self) -> None:
        """Checks the budget; the other options are mctx's to judge."""
        number, depth = self.num_simulations, self.max_depth
        check(number >= 1, "num_simulations", number, "at least 1")
        check(depth is None or depth >= 1, "max_depth", depth, "at least 1, or none for no limit")

    def __call__(
        self,
        params: Params,
        rng_key: chex.PRNGKey,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | None = None,
        *,
        invalid_actions: chex.Array | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots; see `mctx.gumbel_muzero_policy`."""
        del refine_fn
        prior = roots.mask_logits(root.prior_logits, invalid_actions)
        rng_key, gumbel_key = jax.random.split(rng_key)
        gumbel = self.gumbel_scale * jax.random.gumbel(gumbel_key, prior.shape, prior.dtype)
        tree = allocate(
            roots.root_evaluation(root, prior),
            root.embedding,
            num_nodes=self.num_simulations + 1,
            invalid_actions=roots.no_invalid_actions(root, invalid_actions),
            extra_data=mctx.GumbelMuZeroExtraData(root_gumbel=gumbel),
        )
        grow = Grow(
            roots.evaluate_logits(recurrent_fn),
            mctx_rules.gumbel_root(
                self.qtransform,
                tree,
                num_simulations=self.num_simulations,
                max_num_considered_actions=self.max_num_considered_actions,
            ),
            mctx_rules.gumbel_interior(self.qtransform),
            self.max_depth or self.num_simulations,
        )
        tree = search(params, rng_key, tree, grow, self.num_simulations)
        return self._output(tree, prior, gumbel, invalid_actions)

    def _output(self, tree: Any, prior: Any, gumbel: Any, invalid: Any) -> mctx.PolicyOutput:
        """Acts by the best of the most visited actions; learns from the completed Q-values."""
        roots_only = mctx_rules.node_view(tree, Tree.ROOT_INDEX)
        qvalues = jax.vmap(self.qtransform, in_axes=(0, None))(roots_only, 0)
        visits = tree.summary().visit_counts
        most = visits == jnp.max(visits, axis=-1, keepdims=True)
        logits = prior - jnp.max(prior, axis=-1, keepdims=True)
        # mctx's floor keeps an action that is the only one considered, however unlikely.
        score = jnp.where(most, jnp.maximum(-1e9, gumbel + logits + qvalues), -jnp.inf)
        if invalid is not None:
            score = jnp.where(invalid, -jnp.inf, score)
        action = jnp.argmax(score, axis=-1).astype(jnp.int32)
        weights = jax.nn.softmax(roots.mask_logits(prior + qvalues, invalid))
        return mctx.PolicyOutput(action=action, action_weights=weights, search_tree=tree)
