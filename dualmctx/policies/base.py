"""The base classes of search variants: the phases of a search, and the options that they share."""

import dataclasses
from typing import Any, Self

import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.checks import check, check_count, check_share, describe, is_whole, normalize_options
from dualmctx.policies.call_checks import (
    check_inputs,
    check_state,
    explained,
    standard_promotion,
)
from dualmctx.policies.options import Backup, Execution, Puct, Root
from dualmctx.policies.root import finite_refine_fn, finite_root, forbid_logits, legal_probabilities
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.climb import Statistic
from dualmctx.search.forced_root import without_forced
from dualmctx.search.keys import split_key
from dualmctx.search.node import Rule
from dualmctx.search.phases import SearchState, run_between, run_steps
from dualmctx.search.refine import mix_priors
from dualmctx.search.rules import Minimax, MinimaxMix, Rave, RaveMix, RegularizedRule
from dualmctx.search.select import CompletedMeans, Means, PuctRule, QValues
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, RolloutFn, Traits


class SearchPolicy:
    """The phases of a search; a variant inherits from this class.

    A variant is a frozen dataclass of its options and defines `num_simulations`, `heads`,
    `for_evaluation`, `set_up` and `finish`. How the steps are divided changes nothing, bit for bit.
    The result is that of a call, up to rounding, because XLA may round two programs differently.
    """

    num_simulations: Any
    """Simulations per search, or one number for each tree."""
    backup = Backup()
    execution = Execution()

    @property
    def heads(self) -> tuple[int, ...]:
        """Heads that the policy evaluates: by `recurrent_fn`, then one by each `refine_fn`."""
        return (-1,)

    @property
    def traits(self) -> Traits:
        """Requirements and features beyond the plain search."""
        return Traits()

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""
        raise NotImplementedError

    def set_up(self, params: Params, rng_key: Array, inputs: Inputs) -> SearchState:
        """Sets up a search from arguments that have been checked; see `init`."""
        raise NotImplementedError

    def finish(self, state: SearchState) -> mctx.PolicyOutput:
        """Returns the result of a state of this policy; see `output`."""
        raise NotImplementedError

    @explained
    def __call__(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | tuple[RefineFn, ...] | None = None,
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
        rollout_fn: RolloutFn | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots: `init`, all steps, and `output`; see there."""
        state = self.init(
            params,
            rng_key,
            root,
            recurrent_fn,
            refine_fn,
            invalid_actions=invalid_actions,
            search_tree=search_tree,
            rollout_fn=rollout_fn,
        )
        with standard_promotion():
            state = run_between(params, state, 0, state.num_steps)
        return self.output(state)

    @explained
    def init(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | tuple[RefineFn, ...] | None = None,
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
        rollout_fn: RolloutFn | None = None,
    ) -> SearchState:
        """Sets up a search from a batch of roots.

        Args:
          params: passed on to the functions.
          rng_key: consumed; one key, or one for each root.
          root: `[B]` roots, evaluated by the first of `heads`; values from the view of the player
            to move.
          recurrent_fn: as in mctx, by the first head; its logits must mask illegal actions below
            the root.
          refine_fn: evaluates embeddings by the second head; its logits must mask illegal actions.
            A tuple of such functions for several further heads, `None` for none.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: the previous move's trees, as returned by `dualmctx.get_subtree`; elements
            without a subtree start from `root`. Requires the option `reuse_capacity`.
          rollout_fn: plays embeddings to the end, as returned by `make_rollout_fn`; for AlphaGo,
            and only if `rollout_mix` is above 0. Each rollout has a key of its own.

        Returns:
          The state before the first step; see `output` for the result.

        Raises:
          ValueError: if an argument, or a result of one of the functions, has a wrong type, shape
            or dtype.
          TypeError: if there is no such argument; the message says where an option goes.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions, search_tree, rollout_fn)
        inputs = check_inputs(self, rng_key, inputs)
        with standard_promotion():
            state = self.set_up(params, rng_key, inputs)
        return dataclasses.replace(state, plan=state.plan._replace(policy=type(self)))

    @standard_promotion()
    def step(
        self,
        params: Params,
        state: SearchState,
        number: Array | int | None = 1,
        *,
        root_action: Array | None = None,
    ) -> SearchState:
        """Runs steps of a search, all that are left if `number` is `None`; see `run_steps`.

        Example: `step(params, state, 200, root_action=action)` spends 200 of the steps below one
        action of each root. The values of the trees learn from them, and the weights of `output` do
        not count them.
        """
        check_state(self, state)
        return run_steps(params, state, number, root_action=root_action)

    @standard_promotion()
    def output(self, state: SearchState) -> mctx.PolicyOutput:
        """Returns the result of the steps so far; the search may go on after it.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1; and `search_tree`, a
          `dualmctx.Tree` with the statistics of all trees that have simulations. With
          `max_children`, it has an axis of action slots, see `dualmctx.search.slots`. It is an
          `ActingOutput` if actions are sampled from other weights than the training target.

          After steps with a `root_action`, weights that are made of visits count the forced
          simulations of an action as at most one; so does `action`, which follows from the
          weights. `search_tree` has all visits. The mean of its root includes the forced
          simulations, so Σ w(a) Q(s, a) with the weights w is the better value of the position.

        Raises:
          ValueError: if a policy of another class has set up the search.
        """
        check_state(self, state)
        if state.forced is None:
            return self.finish(state)
        free = without_forced(state.grown, state.forced)
        output = self.finish(dataclasses.replace(state, grown=free))
        return output.replace(search_tree=state.tree)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReusingSearch(SearchPolicy):
    """The options of variants that sample at the root and may go on from a tree."""

    num_simulations: int | tuple[int, ...] = dataclasses.field(default=85, kw_only=False)
    """Simulations per search, or one number for each tree."""
    root: Root = dataclasses.field(default_factory=Root)
    """Noise at the root, and how visits become weights and an action."""
    backup: Backup = dataclasses.field(default_factory=Backup)
    """The window of the backup, and the exploration outside it."""
    execution: Execution = dataclasses.field(default_factory=Execution)
    """Depth, children per node, parallel leaves, and speculation."""
    reuse_capacity: int = 0
    """Nodes reused from the previous move's trees, not counting the root; 0 disables reuse."""

    @property
    def traits(self) -> Traits:
        """The capacity for nodes reused between moves."""
        return Traits(reuse_capacity=self.reuse_capacity)

    def for_evaluation(self) -> Self:
        """Returns the policy without noise, which takes the best action."""
        return dataclasses.replace(self, root=self.root.for_evaluation())


@dataclasses.dataclass(frozen=True, kw_only=True)
class PuctSearch(ReusingSearch):
    """The options that the variants with PUCT share."""

    puct: Puct = dataclasses.field(default_factory=Puct)
    """The selection rule."""

    def make_rule(self) -> Rule:
        """Returns the selection rule, without the exploration outside a window."""
        if "search" in self.puct.regularized:
            return RegularizedRule(self.puct.c_puct, self.mix_qvalues(CompletedMeans()))
        return PuctRule(self.puct.c_puct, self.mix_qvalues(Means()))

    def mix_qvalues(self, qvalues: QValues) -> QValues:
        """Returns Q: means, mixed with minimax values and RAVE if set."""
        if self.puct.minimax_mix:
            qvalues = MinimaxMix(self.puct.minimax_mix, qvalues)
        if self.puct.rave_visits is not None:
            qvalues = RaveMix(self.puct.rave_visits, qvalues)
        return qvalues

    def make_statistics(self) -> tuple[Statistic, ...]:
        """Returns the additional statistics that the rule reads."""
        minimax = (Minimax(),) if self.puct.minimax_mix else ()
        rave = (Rave(),) if self.puct.rave_visits is not None else ()
        return (*minimax, *rave)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneTree(SearchPolicy):
    """The heads of a variant with one tree: one evaluates all nodes, another one perhaps the root.

    With a `root_head`, the root gets a second opinion, at the cost of one evaluation by the whole
    trunk up to that head per move:
        P(root) = β p + (1 − β) p';   V(root) = β v + (1 − β) v'

    where p and v are the outputs of `head`, and p' and v' those of `root_head`. PUCT reads only the
    prior of the root; Gumbel and MuZero read its value too. A root of a reused tree gets the mixed
    prior. With `max_children`, a new root keeps the best actions of the mixed prior, and a reused
    root those that `head` has kept.

    Source: the mixture is that of Dual, see `Dual.prior_mix`; at the root alone it is our control.
    """

    head: int = -1
    """Index of the network's head that evaluates positions; -1 is the final head. The part of the
    trunk above the head is not computed."""
    root_head: int | None = None
    """Index of a head that evaluates the root too; none for no second opinion."""
    root_mix: float = 0.25
    """Weight β of `head` at the root, in [0, 1]; not used without a `root_head`."""

    @property
    def heads(self) -> tuple[int, ...]:
        """Heads of the network that the policy evaluates: by `recurrent_fn`, and by `refine_fn`."""
        return (self.head,) if self.root_head is None else (self.head, self.root_head)

    def __post_init__(self) -> None:
        """Checks the options of this class, and that the heads differ."""
        normalize_options(self)
        check_count("num_simulations", self.num_simulations, 1)
        remedy = "a whole number, -1 for the final head"
        check(is_whole(self.head), "head", describe(self.head), remedy)
        is_valid = self.root_head is None or is_whole(self.root_head)
        is_valid = is_valid and self.root_head != self.head
        remedy = f"a whole number other than head (here {self.head}), or none for no second opinion"
        check(is_valid, "root_head", describe(self.root_head), remedy)
        check_share(self, "root_mix")

    def with_second_opinion(
        self, params: Params, rng_key: Array, inputs: Inputs
    ) -> tuple[Array, Inputs]:
        """Evaluates the root by `root_head` and mixes the result into the root.

        Args:
          params: passed on to `refine_fn`.
          rng_key: consumed if there is a `refine_fn`.
          inputs: the arguments of the policy; without a `refine_fn`, they are returned.

        Returns:
          A new key; and the inputs with the mixed root, also for reused trees, and without a
          `refine_fn`.
        """
        if inputs.refine_fn is None:
            return rng_key, inputs
        rng_key, root_key = split_key(rng_key)
        root = finite_root(inputs.root)
        logits, value = finite_refine_fn(inputs.refine_fn)(params, root_key, root.embedding)
        own, other = (
            legal_probabilities(x, inputs.invalid_actions) for x in (root.prior_logits, logits)
        )
        prior = mix_priors(own, other, self.root_mix)
        mixed = root.replace(
            prior_logits=forbid_logits(jnp.log(prior), prior == 0).astype(root.prior_logits.dtype),
            value=self.root_mix * root.value + (1 - self.root_mix) * value,
        )
        return rng_key, inputs._replace(root=mixed, refine_fn=None, renews_root=True)
