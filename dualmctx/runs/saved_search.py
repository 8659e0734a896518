"""Searches saved in a file: between two steps, or trees that are kept for the next move."""

import dataclasses
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.checks import check, describe
from dualmctx.errors import UserError
from dualmctx.policies.call_checks import check_state
from dualmctx.runs.array_file import by_name, fit_arrays, read_arrays, write_arrays
from dualmctx.runs.folder import list_changes, with_versions, without_versions
from dualmctx.runs.saved_network import Trained, digest_of
from dualmctx.runs.saved_policy import search_record
from dualmctx.search.forced_root import count_root
from dualmctx.search.phases import SearchState
from dualmctx.search.tree import Tree
from dualmctx.types import Policy

S = TypeVar("S", SearchState, Tree)
# The entry of the record, which no other file of arrays has.
_SEARCH = "saved_search"


def save_search(
    path: Path | str, state: SearchState | Tree, trained: Trained, policy: Policy
) -> None:
    """Writes a search to one file, atomically, so that `load_search` can continue it.

    The file is of the format safetensors, with all arrays of the state: the trees with their
    positions, the random keys and the counts. Its record names the game, the network and the
    search. The network itself is not in the file; `export_trained` saves it.

    Args:
      path: the path of the file. An existing file is replaced.
      state: the state between two steps, of `init` or `step`; or kept trees, of `get_subtree`.
      trained: the network with its game.
      policy: the policy of the search. A state knows only its class, so the caller must give the
        options with which the state was made.

    Raises:
      ValueError: if the state is neither a search nor trees, if it is of another class of policy,
        or if it is traced by JAX.
      OSError: if the file cannot be written; an existing file is then as before.
    """
    record = with_versions({_SEARCH: _identity(state, trained, policy)})
    try:
        write_arrays(Path(path), by_name(jax.device_get(_to_numbers(state))), record)
    except jax.errors.TracerArrayConversionError:
        raise UserError("the search is traced by JAX; save it outside of jax.jit") from None


def load_search(path: Path | str, like: S, trained: Trained, policy: Policy) -> S:
    """Reads a search that `save_search` wrote; it goes on as if it had not been interrupted.

    With the same versions of the libraries on the same kind of device, the results are the same
    bit for bit. Only numbers and JSON are read; nothing in the file is executed.

    Args:
      path: the path of the file.
      like: a state or trees of the same search, or their shapes:
        `jax.eval_shape(search.init, params, rng_key, states)`, which searches nothing.
      trained: the network with its game.
      policy: the policy of the search, with the options of `like`.

    Returns:
      The state or the trees, of the type of `like`.

    Raises:
      UserError: if the file does not exist, is damaged or is not a search; if it was saved with
        another game, network or search, whose differences the message lists; or if its arrays do
        not fit `like`, as with another batch size.
    """
    path, identity = Path(path), _identity(like, trained, policy)
    found = read_arrays(path, "a saved search")
    saved = without_versions(found.record, path).get(_SEARCH)
    if not isinstance(saved, dict):
        raise UserError(f"{path} is not a saved search: its record has no {_SEARCH}")
    if changes := list_changes(saved, identity):
        raise UserError(
            f"{path} holds another search: {changes}; give the network and the search with which it"
            " was saved"
        )
    if isinstance(like, SearchState):
        # Its structure tells whether steps were forced, which `init` cannot know.
        is_forced = any(name.startswith("forced/") for name in found.arrays)
        forced = jax.eval_shape(count_root, like.grown) if is_forced else None
        like = dataclasses.replace(like, forced=forced)
    try:
        numbers = fit_arrays(jax.eval_shape(_to_numbers, like), found.arrays)
    except UserError as error:
        raise UserError(f"{path} does not fit the argument like: {error}") from None
    return jax.tree.map(_from_numbers, like, numbers)


def _identity(state: Any, trained: Trained, policy: Policy) -> dict[str, Any]:
    """Returns what must be the same when a search goes on, as JSON values; checks the arguments."""
    remedy = "a SearchState of init or step, or a Tree of get_subtree"
    check(isinstance(state, SearchState | Tree), "the search", describe(state), remedy)
    check(isinstance(trained, Trained), "trained", describe(trained), "from load_trained")
    is_policy = dataclasses.is_dataclass(policy) and not isinstance(policy, type)
    check(is_policy, "policy", describe(policy), "a policy, such as AlphaZero()")
    if isinstance(state, SearchState):
        check_state(policy, state)
    game = {name: trained.record[name] for name in ("game", "game_parameters")}
    holds = "kept trees" if isinstance(state, Tree) else "a search between two steps"
    known = {"holds": holds, "network": digest_of(trained.params), "search": search_record(policy)}
    return {**game, **known}


def _is_key(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def _impl_of(key: Any) -> str:
    """Returns the name of the generator of a random key, or of the shape of one."""
    found = list[str]()
    # Shapes have no such name, but traced keys have.
    jax.eval_shape(lambda key: found.append(str(jax.random.key_impl(key))), key)
    return found[0]


def _to_numbers(tree: Any) -> Any:
    """Converts the arrays that a file cannot hold: random keys, and numbers of bfloat16."""

    def convert(array: Array) -> Array:
        if _is_key(array):
            return jax.random.key_data(array)
        if array.dtype == jnp.bfloat16:
            return jax.lax.bitcast_convert_type(array, jnp.uint16)
        return array

    return jax.tree.map(convert, tree)


def _from_numbers(like: Any, numbers: np.ndarray) -> Array:
    """Converts an array of `_to_numbers` back."""
    array = jnp.asarray(numbers)
    if _is_key(like):
        return jax.random.wrap_key_data(array, impl=_impl_of(like))
    if like.dtype == jnp.bfloat16:
        return jax.lax.bitcast_convert_type(array, jnp.bfloat16)
    return array
