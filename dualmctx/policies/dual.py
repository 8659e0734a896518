"""Dual MCTS: a small tree looks ahead by an early head and tells the large tree where to look."""

import dataclasses
from typing import Any, ClassVar, Literal, Self

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.policies import root as roots
from dualmctx.policies import weights
from dualmctx.policies.children import Inputs
from dualmctx.policies.opening import add_root_noise, close_search, open_search
from dualmctx.policies.options import Puct, check, make_grow
from dualmctx.search import Follow, follow, run_rounds, search
from dualmctx.tree import Tree, get_children
from dualmctx.types import EvaluateFn, Params, RecurrentFn, RefineFn

SMALL, LARGE = 0, 1


@dataclasses.dataclass(frozen=True)
class Dual:
    """Dual MCTS's search; called like a policy of mctx, with a `refine_fn` beside `recurrent_fn`.

    The small tree T_sub is the first layer of the search tree, evaluated by `recurrent_fn`, the
    intermediate head. The large tree T_full is the second, evaluated by `refine_fn`, the final
    head, always mixed with what the intermediate head said of the same state.

    Raises:
      ValueError: when an option is out of range, in one line.

    Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 3. Readings, where the paper is
    silent or contradicts itself: dualmctx/README.md.
    """

    num_simulations: tuple[int, int] = (50, 35)
    """Budgets b_sub and b_full; the roots' own evaluations apart."""
    num_rounds: int = 5
    """Rounds, from 1 (the small tree first, then the large) to b_full (in turns)."""
    value_mix: float = 0.25
    """Weight of the intermediate head's value where both heads evaluated a state; alpha."""
    prior_mix: float = 0.25
    """Weight of the intermediate head's policy likewise; beta."""
    action_weights: Literal["regularized", "large_visits", "all_visits"] = "regularized"
    """The policy returned: the regularised policy of the large tree's Q; the large tree's
    visits, smoothed (the paper's); or the visits of both trees."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """How both trees are searched."""
    kept_nodes: int = 0
    """Room for nodes of the last move's trees, the root apart; 0 starts every search afresh."""

    first_head: ClassVar[int] = 0
    """The network's head that `recurrent_fn` is to evaluate: the first."""

    def __post_init__(self) -> None:
        """Checks the options."""
        small, large = self.num_simulations
        check(
            min(small, large) >= 0 and small + large >= 1,
            "num_simulations",
            f"{small} {large}",
            "two numbers of at least 0, not both 0",
        )
        rounds = self.num_rounds
        if large > 0:
            remedy = f"from 1 to the large tree's {large} simulations"
            check(1 <= rounds <= large, "num_rounds", rounds, remedy)
        check(self.kept_nodes >= 0, "kept_nodes", self.kept_nodes, "at least 0")
        for name in ("value_mix", "prior_mix"):
            value = getattr(self, name)
            check(0 <= value <= 1, name, value, "between 0 and 1")
        leaves = self.puct.leaves_per_step
        check(leaves == 1, "leaves_per_step", leaves, "1 in Dual, whose rounds evaluate at once")
        modes = ("regularized", "large_visits", "all_visits")
        mode = self.action_weights
        check(mode in modes, "action_weights", mode, f"one of {', '.join(modes)}")

    def noiseless(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, puct=self.puct.noiseless())

    def __call__(
        self,
        params: Params,
        rng_key: chex.PRNGKey,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn,
        *,
        invalid_actions: chex.Array | None = None,
        search_tree: Tree | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots.

        With b_full = 0 this is AlphaZero with the intermediate head, with b_sub = 0 AlphaZero with
        the final head.

        Args:
          params: passed on to `recurrent_fn` and `refine_fn`.
          rng_key: consumed.
          root: `[B]` roots evaluated by the intermediate head.
          recurrent_fn: as mctx's, by the intermediate head; its logits must mask illegal actions.
          refine_fn: evaluates embeddings by the final head; its logits must mask illegal actions.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: what `dualmctx.advance` made of the last move's trees, to go on from; the
            roots of elements that have none come from `root`. Needs `kept_nodes`.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1; and `search_tree`, a
          `dualmctx.Tree` with the layers T_sub and, unless b_full = 0, T_full; over slots in place
          of actions with `max_children`.
        """
        small, large = self.num_simulations
        noise_key, root_key, search_key, action_key = jax.random.split(rng_key, 4)
        opening = open_search(
            self.puct,
            Inputs(root, recurrent_fn, refine_fn, invalid_actions),
            num_new=small + large,
            kept_nodes=self.kept_nodes,
            num_layers=2 if large > 0 else 1,
            search_tree=search_tree,
        )
        tree, evaluate_fn, refine_fn, first_slot, longest, _ = opening
        how = self._follow(evaluate_fn, refine_fn, longest)
        if large > 0:
            tree = _evaluate_root(params, root_key, tree, how)
        clean_prior = tree.children_prior[:, Tree.ROOT_INDEX]
        tree = add_root_noise(noise_key, tree, self.puct)
        grow = make_grow(self.puct, evaluate_fn, num_simulations=longest, layer=SMALL)
        if large > 0:
            tree = run_rounds(
                params,
                search_key,
                tree,
                grow,
                how,
                num_simulations=self.num_simulations,
                num_rounds=self.num_rounds,
                first_slot=first_slot,
            )
        else:
            tree = search(params, search_key, tree, grow, small, first_slot=first_slot)
        action_weights = self._weights(tree, clean_prior)
        return close_search(action_key, self.puct, opening, tree, action_weights)

    def _follow(self, evaluate_fn: EvaluateFn, refine_fn: RefineFn, longest: int) -> Follow:
        small = self.num_simulations[0]
        # Without a small tree no state is common to both, so there is nothing to mix.
        value_mix = self.value_mix if small > 0 else 0.0
        prior_mix = self.prior_mix if small > 0 else 0.0
        evaluate_both = _evaluate_both(evaluate_fn, refine_fn, value_mix, prior_mix)
        grow = make_grow(self.puct, evaluate_both, num_simulations=longest, layer=LARGE)
        return Follow(refine_fn, roots.legal_probabilities, value_mix, prior_mix, grow)

    def _weights(self, tree: Tree, prior: chex.Array) -> chex.Array:
        large = self.num_simulations[1]
        root = jnp.zeros(prior.shape[0], jnp.int32)
        layer = LARGE if large > 0 else SMALL
        children = get_children(tree, root, layer)
        if self.action_weights == "large_visits":
            return weights.smoothed_visits(children.visits, prior > 0)
        if self.action_weights == "all_visits":
            visits = sum(get_children(tree, root, i).visits for i in range(len(tree.layers)))
            return visits / jnp.sum(visits, axis=-1, keepdims=True)
        value = tree.layers[layer].node_values[:, Tree.ROOT_INDEX]
        qvalues = weights.completed_qvalues(children, value)
        total = jnp.sum(children.visits, axis=-1)
        return weights.regularized_policy(prior, qvalues, total, c_puct=self.puct.c_puct)


def _evaluate_root(params: Params, rng_key: chex.PRNGKey, tree: Tree, how: Follow) -> Tree:
    leaves = jnp.zeros((tree.parents.shape[0], 1), jnp.int32)
    is_invalid = tree.root_invalid_actions.astype(bool)

    def to_prior(logits: chex.Array) -> chex.Array:
        return roots.legal_probabilities(roots.mask_logits(logits, is_invalid))

    how = how._replace(to_prior=to_prior)
    # The final head may have evaluated a kept root already.
    is_new = tree.layers[LARGE].node_visits[:, :1] == 0
    return follow(params, rng_key, tree, how, leaves, is_new)


def _evaluate_both(
    evaluate_fn: EvaluateFn, refine_fn: RefineFn, value_mix: float, prior_mix: float
) -> EvaluateFn:
    """Evaluates new nodes of the large tree that the small one has not seen, by both heads."""

    def evaluate(params: Params, rng_key: chex.PRNGKey, action: Any, embedding: Any) -> tuple:
        first_key, second_key = jax.random.split(rng_key)
        first, embedding = evaluate_fn(params, first_key, action, embedding)
        logits, value = refine_fn(params, second_key, embedding)
        prior = prior_mix * first.prior + (1 - prior_mix) * roots.legal_probabilities(logits)
        value = jnp.where(
            first.discount == 0, first.value, value_mix * first.value + (1 - value_mix) * value
        )
        return first._replace(prior=prior, value=value), embedding

    return evaluate
