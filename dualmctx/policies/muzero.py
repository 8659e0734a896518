"""mctx's MuZero policy on this package's trees: the same keys give the same search."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import (
    check_budget,
    check_callable,
    check_not_negative,
    check_positive,
    normalize_options,
)
from dualmctx.policies import root as roots
from dualmctx.policies.base import check_without_puct
from dualmctx.policies.call_checks import checked_init, checked_output, composed
from dualmctx.policies.option_groups import Backup, Execution, Root
from dualmctx.policies.reuse import insert_subtree
from dualmctx.policies.root import finite_root
from dualmctx.policies.root_head import OneTree, replace_root_prior
from dualmctx.policies.search_setup import with_window_exploration
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.allocate import allocate
from dualmctx.search.keys import sample_rows, split_key
from dualmctx.search.mctx_rules import MuZeroRule
from dualmctx.search.phases import SearchState, start_search
from dualmctx.search.simulate import SearchSpec
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


@dataclasses.dataclass(frozen=True)
class MuZero(OneTree):
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
    root: Root = dataclasses.field(default_factory=Root)
    """Noise at the root, and the temperature; visit_weights needs PUCT."""
    backup: Backup = dataclasses.field(default_factory=Backup)
    """The window of the backup, and the exploration outside it."""
    execution: Execution = dataclasses.field(default_factory=Execution)
    """The largest depth; the other options need PUCT."""
    reuse_capacity: int = 0
    """Nodes reused from the previous move's tree, not counting the root; 0 disables reuse."""

    @property
    def traits(self) -> Traits:
        """The capacity for nodes reused between moves."""
        return Traits(reuse_capacity=self.reuse_capacity)

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, root=self.root.for_evaluation())

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        check_budget(self)
        self.check_heads()
        check_callable("qtransform", self.qtransform, "a function, as in mctx")
        check_positive(self, "pb_c_base")
        check_not_negative(self, "pb_c_init")
        check_without_puct("MuZero", self.execution, self.root.visit_weights)

    @checked_init
    def init(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | None = None,
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
    ) -> SearchState:
        """Sets up a search from a batch of roots; see `mctx.muzero_policy`.

        As in mctx, noise reaches all actions of the root except those in `invalid_actions`.
        `search_tree` is the previous move's tree, as returned by `dualmctx.get_subtree`; elements
        without a subtree start from `root`. It requires `reuse_capacity`.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        rng_key, inputs = self.with_second_opinion(params, rng_key, inputs)
        root = finite_root(inputs.root)
        rng_key, noise_key, search_key = split_key(rng_key, 3)
        tree = allocate(
            roots.root_evaluation(root, root.prior_logits),
            root.embedding,
            num_nodes=1 + self.reuse_capacity + self.num_simulations,
            invalid_actions=roots.no_invalid_actions(root, invalid_actions),
            windowed=self.backup.window is not None,
            is_kept=self.reuse_capacity > 0,
            prior_is_logits=True,
        )
        if search_tree is not None:
            tree = insert_subtree(
                tree, search_tree, invalid_actions, reuse_capacity=self.reuse_capacity
            )
            if self.root_head is not None:
                tree = replace_root_prior(tree, inputs)
        prior = tree.children_prior[:, Tree.ROOT_INDEX]
        tree = self._mask_and_add_noise(noise_key, tree, invalid_actions)
        is_invalid = tree.root_invalid_actions > 0
        rule = MuZeroRule(is_invalid, self.pb_c_init, self.pb_c_base, self.qtransform)
        spec = SearchSpec(
            evaluate_fn=roots.evaluate_logits(recurrent_fn),
            rule=with_window_exploration(self.backup, rule),
            max_depth=self.execution.max_depth or self.reuse_capacity + self.num_simulations,
            window=self.backup.window,
            kernels=self.execution.kernels,
        )
        return start_search(
            search_key,
            tree,
            spec,
            rounds=((self.num_simulations,),),
            first_slot=1 + self.reuse_capacity,
            output_key=rng_key,
            prior=prior,
        )

    __call__ = composed(init)

    @checked_output
    def output(self, state: SearchState) -> mctx.PolicyOutput:
        """Samples the action in proportion to the visits."""
        tree = state.tree
        weights = tree.summary().visit_probs
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
