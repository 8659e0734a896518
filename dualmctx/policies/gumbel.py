"""mctx's Gumbel policy on this package's trees: the same keys give the same search."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import check_callable, check_count, check_not_negative, normalize_options
from dualmctx.policies import root as roots
from dualmctx.policies.base import check_without_puct
from dualmctx.policies.call_checks import checked_init, checked_output, composed
from dualmctx.policies.option_groups import Backup, Execution
from dualmctx.policies.root import finite_root
from dualmctx.policies.root_head import OneTree
from dualmctx.policies.search_setup import with_window_exploration
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.allocate import allocate
from dualmctx.search.keys import sample_rows, split_key
from dualmctx.search.mctx_adapter import node_view
from dualmctx.search.mctx_rules import FLOOR, GumbelRootRule, GumbelRule
from dualmctx.search.node import Node
from dualmctx.search.phases import SearchState, start_search
from dualmctx.search.select import argmax
from dualmctx.search.simulate import SearchSpec
from dualmctx.search.tree import Tree, root_passes
from dualmctx.types import ActingOutput, Params, RecurrentFn, RefineFn, Traits


@dataclasses.dataclass(frozen=True)
class Gumbel(OneTree):
    """The search of Gumbel AlphaZero, with mctx's rules; called like a policy of mctx.

    Options, keys and results are those of `mctx.gumbel_muzero_policy`; tests compare the two. There
    are three differences: `max_depth` is an option of `Execution`, there may be a window, and the
    statistics are float32 if the network's outputs have 16 bits, so results then differ slightly.

    A window changes the backup and, below the root, the selection. At the root, the schedule of
    Sequential Halving does not change: it counts the simulations that passed through an action,
    which a window does not limit. There is no epsilon-greedy exploration at the root, because it
    would break the schedule.

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
    """The largest depth; the other options need PUCT."""

    traits = Traits()
    """Trees are not reused after a move: Sequential Halving requires a root without visits."""

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, gumbel_scale=0.0)

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        check_count("num_simulations", self.num_simulations, 1)
        self.check_heads()
        check_callable("qtransform", self.qtransform, "a function, as in mctx")
        check_count("max_num_considered_actions", self.max_num_considered_actions, 1)
        check_not_negative(self, "gumbel_scale")
        check_without_puct("Gumbel", self.execution)

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
    ) -> SearchState:
        """Sets up a search from a batch of roots; see `mctx.gumbel_muzero_policy`."""
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        rng_key, inputs = self.with_second_opinion(params, rng_key, inputs)
        root = finite_root(inputs.root)
        prior = roots.mask_logits(root.prior_logits, invalid_actions)
        rng_key, gumbel_key = split_key(rng_key)
        noise = sample_rows(
            lambda key, x: jax.random.gumbel(key, x.shape, x.dtype), gumbel_key, prior
        )
        gumbel = self.gumbel_scale * noise
        tree = allocate(
            roots.root_evaluation(root, prior),
            root.embedding,
            num_nodes=self.num_simulations + 1,
            invalid_actions=roots.no_invalid_actions(root, invalid_actions),
            windowed=self.backup.window is not None,
            extra_data=mctx.GumbelMuZeroExtraData(root_gumbel=gumbel),
            prior_is_logits=True,
        )
        spec = SearchSpec(
            evaluate_fn=roots.evaluate_logits(recurrent_fn),
            rule=with_window_exploration(self.backup, GumbelRule(self.qtransform)),
            max_depth=self.execution.max_depth or self.num_simulations,
            window=self.backup.window,
            kernels=self.execution.kernels,
            root_rule=GumbelRootRule.make(
                self.qtransform,
                tree,
                num_simulations=self.num_simulations,
                max_num_considered_actions=self.max_num_considered_actions,
            ),
        )
        return start_search(
            rng_key,
            tree,
            spec,
            rounds=((self.num_simulations,),),
            prior=prior,
            invalid_actions=invalid_actions,
        )

    __call__ = composed(init)

    @checked_output
    def output(self, state: SearchState) -> ActingOutput:
        """Acts by the best of the most visited actions; learns from the completed Q-values.

        Self-play samples its moves from `acting_weights`, which are 1 for the action and 0
        elsewhere. As in the paper, it therefore plays the winner of Sequential Halving at every
        temperature, explores only through the Gumbel noise, and learns `action_weights`.
        """
        tree, prior, invalid = state.tree, state.prior, state.invalid_actions
        gumbel = tree.extra_data.root_gumbel
        root_view = node_view(Node(tree, Tree.ROOT_INDEX))
        qvalues = jax.vmap(self.qtransform, in_axes=(0, None))(root_view, 0)
        visits = root_passes(tree)
        is_most_visited = visits == jnp.max(visits, axis=-1, keepdims=True)
        logits = prior - jnp.max(prior, axis=-1, keepdims=True)
        score = jnp.maximum(FLOOR, gumbel + logits + qvalues)
        score = jnp.where(is_most_visited, score, -jnp.inf)
        if invalid is not None:
            score = jnp.where(invalid, -jnp.inf, score)
        action = argmax(score)
        # Q is not finite if an output of the network was not.
        improved = jnp.nan_to_num(prior + qvalues)
        weights = jax.nn.softmax(roots.mask_logits(improved, invalid))
        return ActingOutput(
            action=action,
            action_weights=weights,
            search_tree=tree,
            acting_weights=jax.nn.one_hot(action, weights.shape[-1], dtype=weights.dtype),
        )
