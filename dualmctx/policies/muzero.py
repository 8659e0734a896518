"""mctx's MuZero policy on our tree: the same keys give the same search."""

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
from dualmctx.tree import allocate
from dualmctx.types import Params, RecurrentFn, RefineFn


@dataclasses.dataclass(frozen=True)
class MuZero:
    """Runs mctx's own MuZero rule; options, keys and results are those of `mctx.muzero_policy`.

    Source: Schrittwieser et al. 2020, appendix B; mctx.
    """

    num_simulations: int
    max_depth: int | None = None
    qtransform: Any = mctx.qtransform_by_parent_and_siblings
    dirichlet_fraction: float = 0.25
    dirichlet_alpha: float = 0.3
    pb_c_init: float = 1.25
    pb_c_base: float = 19652.0
    temperature: float = 1.0

    first_head: ClassVar[int] = -1

    def noiseless(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, dirichlet_fraction=0.0, temperature=0.0)

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
        """Searches from a batch of roots; see `mctx.muzero_policy`."""
        del refine_fn
        rng_key, noise_key, search_key = jax.random.split(rng_key, 3)
        probs = jax.nn.softmax(root.prior_logits)
        alpha = jnp.full([probs.shape[-1]], self.dirichlet_alpha, probs.dtype)
        noise = jax.random.dirichlet(noise_key, alpha, shape=(probs.shape[0],))
        fraction = self.dirichlet_fraction
        noisy_logits = _log((1 - fraction) * probs + fraction * noise)
        prior = roots.mask_logits(noisy_logits, invalid_actions)
        tree = allocate(
            roots.root_evaluation(root, prior),
            root.embedding,
            num_nodes=self.num_simulations + 1,
            invalid_actions=roots.no_invalid_actions(root, invalid_actions),
        )
        select_fn = mctx_rules.muzero(
            self.qtransform, pb_c_init=self.pb_c_init, pb_c_base=self.pb_c_base
        )
        grow = Grow(
            roots.evaluate_logits(recurrent_fn),
            select_fn,
            select_fn,
            self.max_depth or self.num_simulations,
        )
        tree = search(params, search_key, tree, grow, self.num_simulations)
        weights = tree.summary().visit_probs
        logits = _log(weights)
        logits -= jnp.max(logits, axis=-1, keepdims=True)
        tiny = jnp.finfo(logits.dtype).tiny
        action = jax.random.categorical(rng_key, logits / jnp.maximum(tiny, self.temperature))
        return mctx.PolicyOutput(action=action, action_weights=weights, search_tree=tree)


def _log(probs: chex.Array) -> chex.Array:
    return jnp.log(jnp.maximum(probs, jnp.finfo(probs.dtype).tiny))
