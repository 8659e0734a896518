"""A search in phases: the state between two steps, and the steps.

A policy sets up the state, runs the steps and computes its output from the last state. The steps
may run in several calls, with other work in between. How they are divided changes nothing, bit for
bit.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.checks import check, describe, is_whole
from dualmctx.errors import UserError
from dualmctx.search.forced_root import (
    ForcedRule,
    RootCounts,
    count_root,
    forced_slots,
)
from dualmctx.search.simulate import run_parallel, run_rounds, simulate
from dualmctx.search.spec import Rounds, SearchSpec
from dualmctx.search.speculation import (
    Guesses,
    drop_guesses,
    search_with_guesses,
    start_guessing,
)
from dualmctx.search.tree import Tree
from dualmctx.types import Params


class Plan(NamedTuple):
    """The part of a search that is known when it is compiled.

    Attributes:
      specs: the simulations of each tree, without the arrays of their rules.
      rounds: the simulations of each tree, for each round; see `run_rounds`.
      first_slot: before the first step, this slot and all later ones are empty.
      num_actions: A, the actions of the game; `None` if the root's action slots are all actions.
      policy: the class of the policy that set up the search; `None` for none.
    """

    specs: tuple[SearchSpec, ...]
    rounds: Rounds
    first_slot: int
    num_actions: int | None = None
    policy: type | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SearchState:
    """A search between two steps: a pytree, which may leave a `jax.jit`.

    One step is a round, or a simulation if there is one tree. It is not a step of
    `leaves_per_step`, nor one of MPV's schedule. Where the trees of a batch progress
    at different speeds, with `leaves_per_step` or `speculation`, they have had at least as many
    simulations as steps.

    Attributes:
      rng_key: the key of the later steps.
      grown: the trees; with `speculation` also the nodes that were guessed, see `tree`.
      done: int32, the steps so far: a scalar, or `[B]` if the trees progress at different speeds.
      guesses: the slots of guessed nodes; `None` without `speculation`.
      arrays: those of the rules and limits of each tree.
      output_key: the key of the output.
      prior: `[B, C]` the root's prior without noise, in the form of `Tree.children_prior`.
      plan: the rest of the search.
      forced: the forced simulations of each tree, see `forced_root`; `None` before the first call
        that forces an action.
    """

    rng_key: Array
    grown: Tree
    done: Array
    guesses: Guesses | None
    arrays: Any
    output_key: Any
    prior: Any
    plan: Plan = dataclasses.field(metadata={"static": True})
    forced: tuple[RootCounts, ...] | None = None

    @property
    def num_steps(self) -> int:
        """The number of steps of the whole search: rounds, or with one tree simulations."""
        rounds = self.plan.rounds
        return len(rounds) if len(self.plan.specs) > 1 else sum(map(sum, rounds))

    @property
    def tree(self) -> Tree:
        """The trees, which hold the nodes of all steps so far."""
        return self.grown if self.guesses is None else drop_guesses(self.grown, self.guesses)

    def spec(self, tree_index: int = 0) -> SearchSpec:
        """Returns the simulations of a tree."""
        return self.plan.specs[tree_index].join(self.arrays[tree_index])


def start_search(
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    *later: SearchSpec,
    rounds: Rounds,
    first_slot: int = 1,
    output_key: Any = None,
    prior: Any = None,
    num_actions: int | None = None,
) -> SearchState:
    """Returns the state before the first step.

    Args:
      rng_key: consumed by the steps.
      tree: trees that hold their roots, with room for all simulations.
      spec: the simulations of the first tree.
      *later: those of each later tree.
      rounds: the simulations of each tree, for each round; a search of n simulations with one tree
        has `((n,),)`.
      first_slot: this slot and all later ones are empty.
      output_key: see `SearchState`.
      prior: see `SearchState`.
      num_actions: see `Plan`.

    Raises:
      ValueError: if the trees have too few empty slots, or if there are several leaves per step and
        a window, or statistics where several leaves are backed up at once.
    """
    room, total = tree.num_nodes - first_slot, sum(map(sum, rounds))
    remedy = f"from 0 to {room}, the empty slots of the trees"
    check(0 <= total <= room, "num_simulations", total, remedy)
    is_single = spec.leaves_per_step == 1
    remedy = f"1 with a window, which is {spec.window}"
    check(is_single or spec.window is None, "leaves_per_step", spec.leaves_per_step, remedy)
    names = ", ".join(x.name for each in (spec, *later) for x in each.statistics)
    remedy = "none where several leaves are backed up at once"
    check(not names or (is_single and not later), "statistics", names, remedy)
    arrays, specs = zip(*(x.split() for x in (spec, *later)), strict=True)
    plan, guesses = Plan(specs, rounds, first_slot, num_actions), None
    differ = spec.leaves_per_step > 1 or spec.speculation > 1
    done = jnp.zeros(tree.edges.shape[:1] if differ else (), jnp.int32)
    if spec.speculation > 1:
        tree, guesses = start_guessing(tree, total, first_slot)
    return SearchState(rng_key, tree, done, guesses, [*arrays], output_key, prior, plan)


def run_steps(
    params: Params,
    state: SearchState,
    number: Array | int | None = None,
    *,
    root_action: Array | None = None,
) -> SearchState:
    """Runs steps of a search.

    With several trees, a forced action also limits the nodes that a later tree evaluates to those
    below it. The first call with actions adds the counts of forced simulations to the state, so a
    compiled function of the state compiles once more; before a loop of JAX, call it with 0 steps.
    Where trees progress at different speeds, see `SearchState`, the number of forced
    simulations differs between them as that of all simulations does.

    Args:
      params: passed on to the evaluations.
      state: the search so far.
      number: the steps to run, at least 0: a whole number of Python or NumPy, or a scalar of JAX of
        any integer type. Fewer run if fewer are left. `None` for all that are left.
      root_action: `[B]` integers of any type, the first actions of these simulations, as actions
        of the game; -1, or an action that is not legal at the root, for the choice of the search.
        `None` for the choice of the search in all trees.

    Returns:
      The state after the steps. Its trees do not depend on how the steps are divided into calls.

    Raises:
      ValueError: if the number is not a whole number of at least 0, if the actions are not an array
        of integers with one for each tree, or if there are some and the root has a rule of its own.
    """
    if root_action is not None:
        return _run_forced(params, state, number, root_action)
    begin = jnp.min(state.done)
    left = state.num_steps - begin
    if number is None:
        return run_between(params, state, begin, state.num_steps)
    # Not the sum with a large number, which may not fit.
    number = jnp.clip(_at_most(number, state.num_steps), 0, left).astype(jnp.int32)
    return run_between(params, state, begin, begin + number)


def _at_most(number: Any, num_steps: int) -> Array | int:
    """Returns a number of steps that a caller gave, or `num_steps` if it is larger."""
    if isinstance(number, np.ndarray) and number.shape == ():
        number = number[()]  # It was read from the device.
    is_scalar = isinstance(number, jax.Array) and number.shape == ()
    is_array = is_scalar and jnp.issubdtype(number.dtype, jnp.integer)
    is_valid = number >= 0 if is_whole(number) else is_array
    check(is_valid, "number", describe(number), "a whole number of steps, at least 0")
    if not isinstance(number, jax.Array):
        return min(int(number), num_steps)
    # `num_steps` may not fit a narrow type.
    wide = number.astype(jnp.int32) if number.dtype.itemsize < 4 else number
    return jnp.minimum(wide, num_steps)


def _run_forced(
    params: Params, state: SearchState, number: Array | int | None, root_action: Array
) -> SearchState:
    """Runs steps as `run_steps` does, with forced actions, and counts their simulations."""
    if state.spec().root_rule is not None:
        raise UserError(
            "root_action is given, but the search plans the visits of its root, as Gumbel does;"
            " leave it out, or search with a variant without such a plan"
        )
    action = forced_slots(state.grown, root_action)
    specs = [state.spec(i) for i in range(len(state.plan.specs))]
    forcing = [spec._replace(root_rule=ForcedRule(spec.rule, action)) for spec in specs]
    arrays, static = zip(*(spec.split() for spec in forcing), strict=True)
    before = count_root(state.grown)
    plan = state.plan._replace(specs=tuple(static))
    run = run_steps(params, dataclasses.replace(state, plan=plan, arrays=[*arrays]), number)

    def count(old: Array, new: Array, known: Array) -> Array:
        return known + jnp.where((action >= 0)[:, None], new - old, 0)

    known = state.forced or jax.tree.map(jnp.zeros_like, before)
    forced = jax.tree.map(count, before, count_root(run.grown), known)
    return dataclasses.replace(run, plan=state.plan, arrays=state.arrays, forced=forced)


def run_between(
    params: Params, state: SearchState, begin: Array | int, end: Array | int
) -> SearchState:
    """Runs steps of a search that has had `begin` of them, up to `end`.

    If both are integers, a GPU need not ask whether a loop goes on.
    """
    plan, spec, total = state.plan, state.spec(), state.num_steps
    key, tree, first_slot = state.rng_key, state.grown, plan.first_slot
    if len(plan.specs) > 1:
        specs = tuple(map(state.spec, range(len(plan.specs))))
        limits: Any = {"begin": begin, "end": end, "first_slot": first_slot}
        key, tree = run_rounds(params, key, tree, specs, rounds=plan.rounds, **limits)
    elif spec.speculation > 1:
        assert state.guesses is not None
        inputs = params, spec, key, tree, state.done, state.guesses
        found = search_with_guesses(*inputs, total, end, first_slot=first_slot)
        key, tree, done, guesses = found
        return dataclasses.replace(state, rng_key=key, grown=tree, done=done, guesses=guesses)
    elif spec.leaves_per_step > 1:
        limits = state.done, total, end
        key, tree, done = run_parallel(params, spec, key, tree, *limits, first_slot=first_slot)
        return dataclasses.replace(state, rng_key=key, grown=tree, done=done)
    else:
        run = functools.partial(simulate, params, spec, first_slot)
        key, tree = jax.lax.fori_loop(begin, end, run, (key, tree))
    return dataclasses.replace(state, rng_key=key, grown=tree, done=jnp.asarray(end, jnp.int32))
