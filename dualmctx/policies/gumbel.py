"""mctx's Gumbel policy on our trees: the same keys give the same search."""

import dataclasses
from typing import Any, Self

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.checks import check_budget, check_count, check_not_negative, check_window
from dualmctx.policies import root as roots
from dualmctx.policies.finite import finite_root
from dualmctx.policies.options import with_window_exploration
from dualmctx.search import mctx_rules
from dualmctx.search.allocate import allocate
from dualmctx.search.keys import draw, split_key
from dualmctx.search.select import argmax
from dualmctx.search.simulate import SearchSpec, search
from dualmctx.search.tree import Tree, root_passes
from dualmctx.types import ActingOutput, Params, RecurrentFn, RefineFn


@dataclasses.dataclass(frozen=True)
class Gumbel:
    """Gumbel's search, by mctx's rules rewritten for whole batches; called like a policy of mctx.

    Options and keys are those of `mctx.gumbel_muzero_policy`, to which the tests hold it.

    A window changes the backup and, below the root, the selection. At the root Sequential Halving
    goes on by its schedule: it counts the simulations that passed through an action, which a window
    does not cut short, and there is no epsilon-greedy exploration, which would break the schedule.

    Raises:
      ValueError: when an option is out of range, in one line.

    Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel"; mctx. Kadam, Xu,
    Lieberherr 2021, section 3, for the window; how the two go together is our reading.
    """

    num_simulations: int = 85
    """Simulations a search, the root's own evaluation apart; at least 1."""
    max_depth: int | None = None
    """Largest number of edges of a simulation; none for no limit."""
    qtransform: Any = mctx.qtransform_completed_by_mix_value
    """What turns Q into scores; a function of mctx, or one like these."""
    max_num_considered_actions: int = 16
    """Actions with which Sequential Halving starts at the root, at least 1."""
    gumbel_scale: float = 1.0
    """Scale of the root's Gumbel noise, at least 0; 0 to evaluate."""
    window: int | None = None
    """As in `Puct`: edges that a backup updates, counted from the leaf; none for all."""
    explore_fraction: float = 0.05
    """As in `Puct`, below the root only."""
    explore_decay: float = 0.5
    """As in `Puct`, below the root only."""

    heads = (-1,)
    """The network's heads that it evaluates: the last, by `recurrent_fn`."""
    reuse_capacity = 0
    """No tree goes on after a move: Sequential Halving counts on a root without visits."""

    def for_evaluation(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, gumbel_scale=0.0)

    def __post_init__(self) -> None:
        """Checks the options."""
        check_budget(self)
        check_count("max_depth", self.max_depth, 1, "for no limit")
        check_count("max_num_considered_actions", self.max_num_considered_actions, 1)
        check_not_negative(self, "gumbel_scale")
        check_window(self)

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
        """Searches from a batch of roots; see `mctx.gumbel_muzero_policy`.

        What is returned is an `ActingOutput`: self-play draws its moves from `acting_weights`, here
        1 for the action and 0 elsewhere. So it plays the winner of Sequential Halving at every
        temperature, explores by the Gumbel noise alone, and learns `action_weights`, as in the
        paper.
        """
        del refine_fn
        root = finite_root(root)
        prior = roots.mask_logits(root.prior_logits, invalid_actions)
        rng_key, gumbel_key = split_key(rng_key)
        noise = draw(lambda key, x: jax.random.gumbel(key, x.shape, x.dtype), gumbel_key, prior)
        gumbel = self.gumbel_scale * noise
        tree = allocate(
            roots.root_evaluation(root, prior),
            root.embedding,
            num_nodes=self.num_simulations + 1,
            invalid_actions=roots.no_invalid_actions(root, invalid_actions),
            windowed=self.window is not None,
            extra_data=mctx.GumbelMuZeroExtraData(root_gumbel=gumbel),
            prior_is_logits=True,
        )
        interior = mctx_rules.gumbel_interior(self.qtransform)
        spec = SearchSpec(
            roots.evaluate_logits(recurrent_fn),
            mctx_rules.gumbel_root(
                self.qtransform,
                tree,
                num_simulations=self.num_simulations,
                max_num_considered_actions=self.max_num_considered_actions,
            ),
            with_window_exploration(self, interior),
            self.max_depth or self.num_simulations,
            self.window,
        )
        tree = search(params, rng_key, tree, spec, self.num_simulations)
        return self._output(tree, prior, gumbel, invalid_actions)

    def _output(self, tree: Any, prior: Any, gumbel: Any, invalid: Any) -> mctx.PolicyOutput:
        """Acts by the best of the most visited actions; learns from the completed Q-values."""
        roots_only = mctx_rules.node_view(tree, Tree.ROOT_INDEX)
        qvalues = jax.vmap(self.qtransform, in_axes=(0, None))(roots_only, 0)
        visits = root_passes(tree)
        most = visits == jnp.max(visits, axis=-1, keepdims=True)
        logits = prior - jnp.max(prior, axis=-1, keepdims=True)
        score = jnp.maximum(mctx_rules.FLOOR, gumbel + logits + qvalues)
        score = jnp.where(most, score, -jnp.inf)
        if invalid is not None:
            score = jnp.where(invalid, -jnp.inf, score)
        action = argmax(score)
        # Q is not finite where the network was not.
        improved = jnp.nan_to_num(prior + qvalues)
        weights = jax.nn.softmax(roots.mask_logits(improved, invalid))
        return ActingOutput(
            action=action,
            action_weights=weights,
            search_tree=tree,
            acting_weights=jax.nn.one_hot(action, weights.shape[-1], dtype=weights.dtype),
        )
