"""mctx's MuZero policy on our trees: the same keys give the same search."""

import dataclasses
from typing import Any, Self

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.checks import (
    check_budget,
    check_count,
    check_not_negative,
    check_positive,
    check_share,
    check_window,
)
from dualmctx.policies import root as roots
from dualmctx.policies.finite import finite_root
from dualmctx.policies.kept import insert_subtree
from dualmctx.policies.options import with_window_exploration
from dualmctx.search import mctx_rules
from dualmctx.search.allocate import allocate
from dualmctx.search.keys import draw, split_key
from dualmctx.search.simulate import SearchSpec, search
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn


@dataclasses.dataclass(frozen=True)
class MuZero:
    """MuZero's search, by mctx's rule rewritten for whole batches; called like a policy of mctx.

    Options, keys and results are those of `mctx.muzero_policy`, to which the tests hold it.

    Raises:
      ValueError: when an option is out of range, in one line.

    Source: Schrittwieser et al. 2020, appendix B; mctx. Windows and kept trees are as in AlphaZero.
    """

    num_simulations: int = 85
    """Simulations a search, the root's own evaluation apart; at least 1."""
    max_depth: int | None = None
    """Largest number of edges of a simulation; none for no limit."""
    qtransform: Any = mctx.qtransform_by_parent_and_siblings
    """What turns Q into scores; a function of mctx, or one like these."""
    dirichlet_fraction: float = 0.25
    """Share of noise in the root's prior, in [0, 1]; 0 to evaluate."""
    dirichlet_alpha: float = 0.3
    """Concentration of that noise, positive."""
    pb_c_init: float = 1.25
    """Weight of exploration, c1; at least 0."""
    pb_c_base: float = 19652.0
    """Visits at which that weight has grown by log 2, c2; positive."""
    temperature: float = 1.0
    """The action is drawn from visits^(1/temperature), finite; 0 takes the best."""
    window: int | None = None
    """As in `Puct`: edges that a backup updates, counted from the leaf; none for all."""
    explore_fraction: float = 0.05
    """As in `Puct`."""
    explore_decay: float = 0.5
    """As in `Puct`."""
    reuse_capacity: int = 0
    """Room for nodes of the last move's tree, the root apart; 0 starts every search afresh."""

    heads = (-1,)
    """The network's heads that it evaluates: the last, by `recurrent_fn`."""

    def for_evaluation(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, dirichlet_fraction=0.0, temperature=0.0)

    def __post_init__(self) -> None:
        """Checks the options."""
        check_budget(self)
        check_count("max_depth", self.max_depth, 1, "for no limit")
        check_share(self, "dirichlet_fraction")
        check_positive(self, "dirichlet_alpha", "pb_c_base")
        check_not_negative(self, "pb_c_init", "temperature")
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
        search_tree: Tree | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots; see `mctx.muzero_policy`.

        As there, noise reaches all actions of the root but those that `invalid_actions` names.
        A `search_tree` is what `dualmctx.get_subtree` made of the last move's tree, to go on from;
        the roots of elements that have none come from `root`. Needs `reuse_capacity`.
        """
        del refine_fn
        root = finite_root(root)
        rng_key, noise_key, search_key = split_key(rng_key, 3)
        tree = allocate(
            roots.root_evaluation(root, root.prior_logits),
            root.embedding,
            num_nodes=1 + self.reuse_capacity + self.num_simulations,
            invalid_actions=roots.no_invalid_actions(root, invalid_actions),
            windowed=self.window is not None,
            is_kept=self.reuse_capacity > 0,
            prior_is_logits=True,
        )
        if search_tree is not None:
            tree = insert_subtree(
                tree, search_tree, invalid_actions, reuse_capacity=self.reuse_capacity
            )
        tree = self._mask_and_add_noise(noise_key, tree, invalid_actions)
        select_fn = mctx_rules.muzero(
            self.qtransform, pb_c_init=self.pb_c_init, pb_c_base=self.pb_c_base
        )
        select_fn = with_window_exploration(self, select_fn)
        spec = SearchSpec(
            roots.evaluate_logits(recurrent_fn),
            select_fn,
            select_fn,
            self.max_depth or self.reuse_capacity + self.num_simulations,
            self.window,
        )
        first_slot = 1 + self.reuse_capacity
        tree = search(params, search_key, tree, spec, self.num_simulations, first_slot=first_slot)
        weights = tree.summary().visit_probs
        logits = _log(weights)
        logits -= jnp.max(logits, axis=-1, keepdims=True)
        tiny = jnp.finfo(logits.dtype).tiny
        logits /= jnp.maximum(tiny, self.temperature)
        # Unlike in mctx, where a high temperature gives all actions a chance.
        logits = jnp.where(tree.root_invalid_actions > 0, -jnp.inf, logits)
        action = draw(jax.random.categorical, rng_key, logits).astype(jnp.int32)
        return mctx.PolicyOutput(action=action, action_weights=weights, search_tree=tree)

    def _mask_and_add_noise(
        self, rng_key: chex.PRNGKey, tree: Tree, invalid_actions: chex.Array | None
    ) -> Tree:
        """Mixes mctx's noise into the roots' priors and masks them; consumes the key."""
        probs = jax.nn.softmax(tree.children_prior[:, Tree.ROOT_INDEX])
        alpha = jnp.full([probs.shape[-1]], self.dirichlet_alpha, probs.dtype)
        noise = draw(lambda key, p: jax.random.dirichlet(key, alpha, p.shape[:-1]), rng_key, probs)
        fraction = self.dirichlet_fraction
        noisy_logits = _log((1 - fraction) * probs + fraction * noise)
        # The noise may be of a wider type than the network's logits.
        noisy_logits = noisy_logits.astype(tree.children_prior.dtype)
        prior = roots.mask_logits(noisy_logits, invalid_actions)
        return tree.replace(children_prior=tree.children_prior.at[:, Tree.ROOT_INDEX].set(prior))


def _log(probs: chex.Array) -> chex.Array:
    return jnp.log(jnp.maximum(probs, jnp.finfo(probs.dtype).tiny))
