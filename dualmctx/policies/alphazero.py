"""AlphaZero: one tree by PUCT; the base class of `AlphaGo` and `Contempt`."""

import dataclasses

import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import check_count
from dualmctx.policies.base import OneTree, PuctSearch
from dualmctx.policies.conflicts import check_single_tree
from dualmctx.policies.root import smoothed_visits, visit_shares
from dualmctx.policies.search_setup import add_root_noise, make_output, set_up_search
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.keys import split_key
from dualmctx.search.node import Node
from dualmctx.search.phases import SearchState, start_search
from dualmctx.search.rules import regularized_policy
from dualmctx.search.select import CompletedMeans
from dualmctx.search.speculation import num_spare
from dualmctx.search.tree import Tree
from dualmctx.types import Params, Traits


@dataclasses.dataclass(frozen=True)
class AlphaZero(OneTree, PuctSearch):
    """AlphaZero's search: PUCT, one evaluation per simulation, moves sampled by visits.

    It is called like a policy of mctx.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Silver et al. 2017 (arXiv 1712.01815).
    """

    num_simulations: int = 85
    """Simulations per search, not counting the evaluation of the root; at least 1."""

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        check_count("reuse_capacity", self.reuse_capacity, 0)
        check_single_tree(self)

    @property
    def traits(self) -> Traits:
        """The capacity for nodes reused between moves, and for those guessed in vain."""
        spare = num_spare(self.num_simulations) if self.execution.speculation > 1 else 0
        return Traits(reuse_capacity=self.reuse_capacity, num_spare=spare)

    def set_up(self, params: Params, rng_key: Array, inputs: Inputs) -> SearchState:
        """Sets up a search of one tree by PUCT from a batch of roots."""
        rng_key, inputs = self.with_second_opinion(params, rng_key, inputs)
        noise_key, search_key, action_key = split_key(rng_key, 3)
        setup = set_up_search(self, inputs, statistics=self.make_statistics())
        return start_search(
            search_key,
            add_root_noise(noise_key, setup.tree, self.root, self.execution.kernels),
            setup.make_spec(self.make_rule()),
            rounds=((self.num_simulations,),),
            first_slot=setup.first_slot,
            output_key=action_key,
            prior=setup.tree.children_prior[:, Tree.ROOT_INDEX],
            num_actions=setup.num_actions,
        )

    def finish(self, state: SearchState) -> mctx.PolicyOutput:
        """Returns the result of a search, from the visits of the root.

        `Root.visit_weights` may smooth the visits. `Puct.regularized` may replace them by the
        regularised policy, computed from the root's prior without noise and the Q-values of the
        search, with the root's own value for unvisited actions.

        Source: Kadam, Xu, Lieberherr 2021, eq. 2, for the smoothed visits; Grill et al. 2020,
        section 4, "Act" and "Learn", for the regularised policy.
        """
        uses = self.puct.regularized
        clean_prior, tree = state.prior, state.tree
        node = Node(tree, Tree.ROOT_INDEX)
        visits = visit_shares(tree.summary().visit_counts, clean_prior)
        if self.root.visit_weights == "smoothed":
            visits = smoothed_visits(node.visits, clean_prior > 0)
        if "act" not in uses and "learn" not in uses:
            return make_output(state, self.root, visits)
        policy = regularized_policy(
            clean_prior,
            self.mix_qvalues(CompletedMeans())(node),
            jnp.sum(node.visits, axis=-1),
            c_puct=self.puct.c_puct,
        )
        act, learn = (policy if use in uses else visits for use in ("act", "learn"))
        acting_weights = None if act is learn else act
        return make_output(state, self.root, learn, acting_weights)
