"""AlphaGo: PUCT, values mixed from a value head and rollouts, and the most visited move."""

import dataclasses
from typing import Any, Literal

import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import check_choice, check_count, check_share
from dualmctx.policies.alphazero import AlphaZero
from dualmctx.policies.conflicts import refuse
from dualmctx.policies.options import Execution, Puct, Root
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.keys import split_key
from dualmctx.search.phases import SearchState
from dualmctx.types import Params, RecurrentFn, RolloutFn, Rollouts, Traits


@dataclasses.dataclass(frozen=True)
class AlphaGo(AlphaZero):
    """AlphaGo's search; called like a policy of mctx.

    The value of a new node s is
        V(s) = (1 − λ) v + λ z
    where v is the output of the value head and z is the outcome of one rollout. With λ = 0 the
    search equals AlphaZero's bit for bit. With several leaves per step, the virtual loss spreads
    the leaves over the tree.

    AlphaGo stores W_v, N_v and W_r, N_r separately, with Q = (1 − λ) W_v / N_v + λ W_r / N_r. Here
    every node gets both evaluations, so N_v = N_r = N, Q is the mean of the mixed values, and the
    values can be mixed when a node is created. A simulation that ends at an existing node (a
    terminal node, or a node at the largest depth) backs up the value of the node again and plays no
    second rollout. A terminal node has the value 0, as in the model: the result of the game is the
    reward of the edge into it. With λ = 1 the value of the model is not read, so a separate
    trunk of the value is not computed. Only at a root with a `root_head` is it read, to find
    numbers that are not finite.

    Deviations from the paper:
      * Evaluation is synchronous, so the two evaluations never differ in number.
      * Each leaf is expanded at its first visit. AlphaGo expands an edge after n_thr = 40 visits
        and until then plays rollouts from the same leaf.
      * The exploration term u uses all visits, which are those of the rollouts.
      * The rollout policy is the network's first head, or uniform. AlphaGo uses a linear policy
        over patterns. A network of separate trunks comes close to it: 0 blocks for the first head.
      * One network has both heads, unless `SeparateTrunks` gives the value a trunk of its own.
      * Self-play has AlphaZero's noise at the root.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Silver et al. 2016, "Mastering the game of Go with deep neural networks and tree
    search", Methods, "Search algorithm"; λ = 0.5, c = 5 and n_vl = 3 are the published ones.
    """

    puct: Puct = dataclasses.field(default_factory=lambda: Puct(c_puct=5.0), kw_only=True)
    """The selection rule; c is the published one."""
    root: Root = dataclasses.field(default_factory=lambda: Root(temperature=0.0), kw_only=True)
    """Noise at the root, and how visits become weights and an action; the temperature is the
    published one."""
    execution: Execution = dataclasses.field(
        default_factory=lambda: Execution(virtual_loss=3), kw_only=True
    )
    """Depth, children per node, and parallel leaves; the virtual loss is the published one."""
    rollout_mix: float = 0.5
    """Weight λ of the rollout's outcome, in [0, 1]; 0 plays no rollouts, 1 ignores the value
    head."""
    rollout_policy: Literal["intermediate", "uniform"] = "intermediate"
    """The policy that plays the rollouts: intermediate for the network's first head, even if it is
    the only one; uniform for uniformly random legal moves. Not used without rollouts."""
    rollout_length: int | None = None
    """Number of moves after which a rollout counts as a draw, at least 1; none plays to the end of
    the game."""

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        refuse(self, "in AlphaGo, whose rollouts are random", "speculation")
        check_share(self, "rollout_mix")
        check_choice("rollout_policy", self.rollout_policy, ("intermediate", "uniform"))
        check_count("rollout_length", self.rollout_length, 1, "to play to the end")

    @property
    def traits(self) -> Traits:
        """The capacity for nodes reused between moves, and the rollouts."""
        rollouts = Rollouts(self.rollout_policy, self.rollout_length, self.rollout_mix)
        return Traits(
            reuse_capacity=self.reuse_capacity,
            rollouts=rollouts if self.rollout_mix > 0 else None,
        )

    def set_up(self, params: Params, rng_key: Array, inputs: Inputs) -> SearchState:
        """Sets up a search whose values are mixed with the outcomes of rollouts."""
        rng_key, inputs = self.with_second_opinion(params, rng_key, inputs)
        if inputs.rollout_fn is not None:
            rng_key, root_key = split_key(rng_key)
            outcome = inputs.rollout_fn(params, root_key, inputs.root.embedding)
            value = self._mix(inputs.root.value, outcome)
            if inputs.renews_root:  # NaN marks logits that were repaired.
                value = jnp.where(jnp.isnan(inputs.root.value), jnp.nan, value)
            root = inputs.root.replace(value=value)
            recurrent_fn = self._with_rollouts(inputs.recurrent_fn, inputs.rollout_fn)
            inputs = inputs._replace(root=root, recurrent_fn=recurrent_fn)
        return super().set_up(params, rng_key, inputs)

    def _mix(self, value: Array, outcome: Array) -> Array:
        if self.rollout_mix == 1:
            # Without a reader of the value, XLA drops the network that computes it.
            return outcome
        return (1 - self.rollout_mix) * value + self.rollout_mix * outcome

    def _with_rollouts(self, recurrent_fn: RecurrentFn, rollout_fn: RolloutFn) -> RecurrentFn:
        """Returns a `recurrent_fn` whose values are mixed, except at the end of a game."""

        def mixed(
            params: Params, rng_key: Array, action: Array, embedding: Any
        ) -> tuple[mctx.RecurrentFnOutput, Any]:
            model_key, rollout_key = split_key(rng_key)
            step, new = recurrent_fn(params, model_key, action, embedding)
            value = self._mix(step.value, rollout_fn(params, rollout_key, new))
            final = 0.0 if self.rollout_mix == 1 else step.value
            value = jnp.where(step.discount == 0, final, value)
            return step.replace(value=value), new

        return mixed
