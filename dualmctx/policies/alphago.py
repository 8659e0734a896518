"""AlphaGo: leaves valued by the value head and by rollouts, mixed; PUCT; the most visited move."""

import dataclasses
from typing import Any, Literal, Self

import chex
import jax.numpy as jnp
import mctx

from dualmctx.checks import check, check_budget, check_count, check_share
from dualmctx.policies.one_tree import search_one_tree
from dualmctx.policies.options import Puct
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.keys import split_key
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, RolloutFn


def _published() -> Puct:
    return Puct(c_puct=5.0, temperature=0.0, virtual_loss=3)


@dataclasses.dataclass(frozen=True)
class AlphaGo:
    """AlphaGo's search; called like a policy of mctx.

    A new node s is worth, with v the value head's opinion and z the outcome of one rollout from s:
        V(s) = (1 − λ) v + λ z
    λ = 0 is AlphaZero, to the last bit. Several leaves a step spread by virtual loss.

    AlphaGo keeps W_v, N_v and W_r, N_r apart, and Q = (1 − λ) W_v / N_v + λ W_r / N_r. Here every
    evaluation is one of both kinds, so N_v = N_r = N, and Q is the mean of the mixed values: they
    can be mixed where they arise. A walk that ends at an old node (a terminal one, or one at the
    largest depth) counts the value that the node has once more and plays no second rollout. A
    terminal node's value is the model's, 0: the result of the game is the reward of its edge.

    Deviations from the paper: evaluation is synchronous, so that the two kinds never differ in
    number; every leaf is expanded at once, where AlphaGo expanded an edge after n_thr = 40 visits
    and rolled out from the same leaf until then; u reads all visits, which are the rollouts'; the
    rollout policy is the network's first head, or none, in place of a linear one over patterns; one
    network has both heads; self-play has AlphaZero's noise at the root.

    Raises:
      ValueError: when an option is out of range, in one line.

    Source: Silver et al. 2016, "Mastering the game of Go with deep neural networks and tree
    search", Methods, "Search algorithm"; λ = 0.5, c = 5 and n_vl = 3 are the published ones.
    """

    num_simulations: int = 85
    """Simulations a search, the root's own evaluation apart; at least 1."""
    puct: Puct = dataclasses.field(default_factory=_published)
    """How the tree is searched; c, the temperature and the virtual loss as published."""
    reuse_capacity: int = 0
    """Room for nodes of the last move's tree, the root apart; 0 starts every search afresh."""
    rollout_mix: float = 0.5
    """λ in [0, 1], the weight of the rollout; 0 plays none, 1 leaves out the value head."""
    rollout_policy: Literal["intermediate", "uniform"] = "intermediate"
    """Who plays the rollouts: the network's first head, which is its only one where it has one, or
    uniformly random legal moves."""
    rollout_length: int | None = None
    """Moves after which a rollout counts as a draw, at least 1; none plays to the end."""

    heads = (-1,)
    """The network's heads that it evaluates: the last, by `recurrent_fn`."""

    def __post_init__(self) -> None:
        """Checks the options."""
        check_budget(self)
        check_share(self, "rollout_mix")
        who = self.rollout_policy
        is_known = who in ("intermediate", "uniform")
        check(is_known, "rollout_policy", who, "intermediate or uniform")
        check_count("rollout_length", self.rollout_length, 1, "to play to the end")

    def for_evaluation(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, puct=self.puct.for_evaluation())

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
        rollout_fn: RolloutFn | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots.

        Args:
          params: passed on to `recurrent_fn` and `rollout_fn`.
          rng_key: consumed; so are the rollouts' keys, an own one each.
          root: `[B]` roots; values from the view of the player to move.
          recurrent_fn: as mctx's; its logits must mask illegal actions below the root.
          refine_fn: not used.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: what `dualmctx.get_subtree` made of the last move's tree, to go on from; the
            roots of elements that have none come from `root`. Needs `reuse_capacity`.
          rollout_fn: plays embeddings out, as `make_rollout_fn` makes it of the
            policy's options; `make_search_fn` hands it over. Not needed with `rollout_mix` 0.

        Returns:
          As `AlphaZero`.

        Raises:
          ValueError: when there is no `rollout_fn` though `rollout_mix` is above 0, in one line.
        """
        if self.rollout_mix > 0:
            if rollout_fn is None:
                remedy = "give one, as make_search_fn does, or set rollout_mix to 0"
                raise ValueError(f"rollout_fn is None and rollout_mix {self.rollout_mix}; {remedy}")
            rng_key, root_key = split_key(rng_key)
            outcome = rollout_fn(params, root_key, root.embedding)
            root = root.replace(value=self._mix(root.value, outcome))  # pyright: ignore[reportAttributeAccessIssue]
            recurrent_fn = self._with_rollouts(recurrent_fn, rollout_fn)
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return search_one_tree(self, params, rng_key, inputs, search_tree=search_tree)

    def _mix(self, value: chex.Array, outcome: chex.Array) -> chex.Array:
        return (1 - self.rollout_mix) * value + self.rollout_mix * outcome

    def _with_rollouts(self, recurrent_fn: RecurrentFn, rollout_fn: RolloutFn) -> RecurrentFn:
        """Makes the model's values those of new nodes: the game's own at the end, else mixed."""

        def mixed(params: Params, rng_key: chex.PRNGKey, action: Any, embedding: Any) -> tuple:
            model_key, rollout_key = split_key(rng_key)
            step, new = recurrent_fn(params, model_key, action, embedding)
            value = self._mix(step.value, rollout_fn(params, rollout_key, new))
            value = jnp.where(step.discount == 0, step.value, value)
            return step.replace(value=value), new  # pyright: ignore[reportAttributeAccessIssue]

        return mixed
