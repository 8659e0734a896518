"""Checks of the arguments of a policy, and of the outputs of the given functions.

They read types and shapes only. They run when a policy is called, which under `jax.jit` is when JAX
traces, so they cost nothing when the search runs.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import mctx
import numpy as np

from dualmctx.checks import check, check_callable, describe, is_number
from dualmctx.errors import UserError
from dualmctx.policies.options import named_options
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.keys import check_key
from dualmctx.search.phases import SearchState
from dualmctx.search.refine import map_refine_fns
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, RolloutFn

P = ParamSpec("P")
R = TypeVar("R")
_FIELDS = ("reward", "discount", "prior_logits", "value")


@contextlib.contextmanager
def standard_promotion() -> Generator[None]:
    """Sets the promotion of types with which searches run; a context and a decorator.

    Visits are integers of 16 bits and take part in float32 formulas, those of mctx too.
    """
    with jax.numpy_dtype_promotion("standard"):
        yield


def explained(method: Callable[P, R]) -> Callable[P, R]:
    """Decorates a method of a policy: the error for an unknown argument says where it goes."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _explain(error, args, kwargs, list(signature.parameters)[1:]) from None
        return method(*args, **kwargs)

    return call


def check_inputs(policy: Any, rng_key: Any, inputs: Inputs) -> Inputs:
    """Checks the arguments of a policy: none is ignored, and messages name them.

    Args:
      policy: the policy.
      rng_key: its random key.
      inputs: its other arguments.

    Returns:
      The arguments, with functions that also check the results of the given ones.

    Raises:
      ValueError: if an argument has a wrong type, shape or dtype. The functions raise it too.
    """
    root, batch = inputs.root, _check_root(inputs.root)
    check_key(rng_key, batch[0])
    _check_functions(policy, inputs)
    _check_search_tree(policy, inputs.search_tree)
    if inputs.invalid_actions is not None:
        _check_row(inputs.invalid_actions, "invalid_actions", batch)
    wrap = functools.partial(_checked_refine_fn, num_actions=batch[1])
    play = inputs.rollout_fn
    return inputs._replace(
        recurrent_fn=_checked_recurrent_fn(inputs.recurrent_fn, root),
        refine_fn=map_refine_fns(wrap, inputs.refine_fn),
        rollout_fn=None if play is None else _checked_rollout_fn(play),
    )


def check_state(policy: Any, state: Any) -> None:
    """Checks that no policy of another class has set up a search.

    Raises:
      ValueError: if one has, or if the state is not that of a search.
    """
    remedy = f"a SearchState of {type(policy).__name__}.init"
    check(isinstance(state, SearchState), "state", describe(state), remedy)
    setter = state.plan.policy
    if setter is not None:
        check(setter is type(policy), "state", f"that of {setter.__name__}", remedy)


def _explain(
    error: TypeError, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]
) -> TypeError:
    """Returns the error of a call that the policy's signature does not fit, with a remedy."""
    policy, hints = args[0], [f"the arguments are {', '.join(names)}"]
    name, options = type(policy).__name__, named_options(policy)
    hints += [
        f"{key} is an option: with_options({name}(), {key}=...)" for key in kwargs if key in options
    ]
    hint = _budget_hint(policy, args[5]) if len(args) > 5 else ""
    return TypeError(f"{name}: {error}; {'; '.join(hints)}{hint}")


def _budget_hint(policy: Any, given: Any) -> str:
    """Returns where the number goes that mctx takes as its fifth argument, if there is one."""
    if not is_number(given) and getattr(given, "shape", None) != ():
        return ""
    budget = policy.num_simulations
    example = given if is_number(given) else "..."
    field = f"num_simulations={budget if isinstance(budget, tuple) else example}"
    return f"; the number of simulations is a field: {type(policy).__name__}({field})"


def _check_functions(policy: Any, inputs: Inputs) -> None:
    """Checks that there is one function for each head of the policy, and one for rollouts."""
    check_callable("recurrent_fn", inputs.recurrent_fn, "a function that plays actions, as in mctx")
    name, number, refine_fn = type(policy).__name__, len(policy.heads) - 1, inputs.refine_fn
    _check_rollout_fn(policy, inputs.rollout_fn)
    hint = _budget_hint(policy, refine_fn)
    if number == 0:
        remedy = f"left out in {name}, which evaluates one head{hint}"
        check(refine_fn is None, "refine_fn", describe(refine_fn), remedy)
        return
    functions = refine_fn if isinstance(refine_fn, tuple) else (refine_fn,)
    is_tuple = isinstance(refine_fn, tuple) and all(map(callable, refine_fn))
    found = f"{len(functions)} functions" if is_tuple else describe(refine_fn)
    one = "a function" if number == 1 else f"a tuple of {number} functions"
    is_valid = len(functions) == number and all(map(callable, functions))
    remedy = f"{one}, one for each head after the first, in {name}{hint}"
    check(is_valid, "refine_fn", found, remedy)


def _check_root(root: Any) -> tuple[int, int]:
    """Checks the fields of a root; returns the sizes B and A."""
    if not all(hasattr(root, name) for name in ("prior_logits", "value", "embedding", "replace")):
        raise UserError(f"root is {describe(root)}; it must be an mctx.RootFnOutput")
    logits = root.prior_logits
    shape: Any = getattr(logits, "shape", ())
    is_valid = len(shape) == 2 and 0 not in shape
    remedy = "an array of the shape [B, A], both at least 1"
    check(is_valid, "prior_logits of root", describe(logits), remedy)
    _check_row(logits, "prior_logits of root", shape, "of a floating type")
    _check_row(root.value, "value of root", shape[:1])
    for path, leaf in jax.tree_util.tree_leaves_with_path(root.embedding):
        is_valid = getattr(leaf, "shape", ())[:1] == shape[:1]
        remedy = f"an array with the leading axis {shape[0]}, the batch"
        check(is_valid, f"embedding{_show_path(path)} of root", describe(leaf), remedy)
    return shape[0], shape[1]


def _check_rollout_fn(policy: Any, rollout_fn: Any) -> None:
    name, found = type(policy).__name__, describe(rollout_fn)
    if policy.traits.rollouts is None:
        remedy = f"left out in {name}, unless rollout_mix is above 0"
        check(rollout_fn is None, "rollout_fn", found, remedy)
    else:
        remedy = "a function that plays games, as make_search_fn gives; or set rollout_mix to 0"
        check_callable("rollout_fn", rollout_fn, remedy)


def _check_search_tree(policy: Any, search_tree: Any) -> None:
    if search_tree is None:
        return
    hint = ", as in output.search_tree" if hasattr(search_tree, "search_tree") else ""
    remedy = f"a tree of dualmctx.get_subtree{hint}"
    check(isinstance(search_tree, Tree), "search_tree", describe(search_tree), remedy)
    if policy.traits.reuse_capacity == 0:
        remedy = "leave it out, or give a policy with a reuse_capacity above 0"
        raise UserError(f"search_tree is given, but the policy reuses no tree; {remedy}")


def _check_row(array: Any, name: str, shape: tuple[int, ...], kind: str = "of numbers") -> None:
    """Checks the shape of an array, and that its dtype is of a kind."""
    is_shaped = hasattr(array, "dtype") and tuple(array.shape) == shape
    kinds = (jnp.floating,) if "floating" in kind else (jnp.floating, jnp.integer, jnp.bool_)
    is_valid = is_shaped and any(jnp.issubdtype(array.dtype, x) for x in kinds)
    sizes = " and ".join(f"{x} {y}" for x, y in zip(shape, ("positions", "actions"), strict=False))
    remedy = f"an array {kind} of the shape {list(shape)}, for {sizes}"
    check(is_valid, name, describe(array), remedy)


def _under_current_promotion(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that runs under JAX's present setting and not that of its caller."""
    mode: Any = getattr(jax.config, "jax_numpy_dtype_promotion")  # noqa: B009, has no type

    def run(*args: Any) -> Any:
        with jax.numpy_dtype_promotion(mode):
            return function(*args)

    return run


def _identity(embedding: Any) -> Any:
    return embedding


def _checked_recurrent_fn(recurrent_fn: RecurrentFn, root: mctx.RootFnOutput) -> RecurrentFn:
    run, num_actions = _under_current_promotion(recurrent_fn), root.prior_logits.shape[1]
    # Shapes alone: the function outlives the trace in which the arrays are known.
    stored = jax.eval_shape(_identity, root.embedding)

    def checked(
        params: Params, rng_key: Any, action: jax.Array, embedding: Any
    ) -> tuple[mctx.RecurrentFnOutput, Any]:
        result: Any = run(params, rng_key, action, embedding)
        step, new = _pair(result, "recurrent_fn", "output, embedding")
        is_output = all(hasattr(step, name) for name in _FIELDS)
        remedy = "an mctx.RecurrentFnOutput"
        check(is_output, "the output of recurrent_fn", describe(step), remedy)
        # As in mctx, another type with these fields will do.
        step = mctx.RecurrentFnOutput(**{name: getattr(step, name) for name in _FIELDS})
        size = action.shape[0]
        logits = "prior_logits of recurrent_fn", (size, num_actions), "of a floating type"
        _check_row(step.prior_logits, *logits)
        for name in ("value", "reward", "discount"):
            _check_row(getattr(step, name), f"{name} of recurrent_fn", (size,))
        _check_embedding(new, stored, size)
        return step, new

    return checked


def _checked_refine_fn(refine_fn: RefineFn, num_actions: int) -> RefineFn:
    run = _under_current_promotion(refine_fn)

    def checked(params: Params, rng_key: Any, embedding: Any) -> tuple[jax.Array, jax.Array]:
        result: Any = run(params, rng_key, embedding)
        logits, value = _pair(result, "refine_fn", "prior_logits, value")
        shape = *_size(embedding, logits), num_actions
        _check_row(logits, "prior_logits of refine_fn", shape, "of a floating type")
        _check_row(value, "value of refine_fn", shape[:1])
        return logits, value

    return checked


def _checked_rollout_fn(rollout_fn: RolloutFn) -> RolloutFn:
    run = _under_current_promotion(rollout_fn)

    def checked(params: Params, rng_key: Any, embedding: Any) -> jax.Array:
        outcome: Any = run(params, rng_key, embedding)
        _check_row(outcome, "the result of rollout_fn", _size(embedding, outcome))
        return outcome

    return checked


def _size(embedding: Any, result: Any) -> tuple[int, ...]:
    """Returns the size M of embeddings; that of the result if they have no array."""
    return getattr(next(iter(jax.tree.leaves(embedding)), result), "shape", ())[:1]


def _pair(result: Any, name: str, parts: str) -> tuple[Any, Any]:
    is_pair = isinstance(result, tuple | list) and len(list[Any](result)) == 2
    check(is_pair, f"the result of {name}", describe(result), f"a pair ({parts})")
    first, second = result
    return first, second


def _check_embedding(new: Any, stored: Any, size: int) -> None:
    """Checks that nodes can store new embeddings, whose types may be narrower than the root's."""
    ours, theirs = (jax.tree_util.tree_leaves_with_path(x) for x in (stored, new))
    if jax.tree.structure(new) != jax.tree.structure(stored):
        paths = [sorted({_show_path(path) for path, _ in x}) for x in (theirs, ours)]
        found, wanted = (", ".join(x[:5]) or "no array" for x in paths)
        if found == wanted:  # The containers differ, as of a list and a tuple.
            found, wanted = (str(jax.tree.structure(x))[:200] for x in (new, stored))
        raise UserError(
            f"embedding of recurrent_fn has another structure than the root's: {found} against "
            f"{wanted}; return the same structure from both"
        )
    for (path, array), (_, row) in zip(theirs, ours, strict=True):
        name = f"embedding{_show_path(path)} of recurrent_fn"
        shape = size, *row.shape[1:]
        remedy = f"an array of the shape {list(shape)}, as the root's"
        check(getattr(array, "shape", None) == shape, name, describe(array), remedy)
        if not _can_represent(row.dtype, array.dtype):
            raise UserError(
                f"{name} is {array.dtype}, but the root's is {row.dtype}; return the same type "
                "from both"
            )


def _can_represent(wide: Any, narrow: Any) -> bool:
    """Returns whether a type has all values of another; a random key has only those of its own."""
    if wide == narrow:
        return True
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for dtype in (wide, narrow)):
        return False
    # Without 64 bits, JAX makes 32 of those that NumPy has by default.
    wide, narrow = map(jax.dtypes.canonicalize_dtype, (wide, narrow))
    return np.can_cast(narrow, wide, "safe")


def _show_path(path: Any) -> str:
    return jax.tree_util.keystr(path)
