"""Saved searches: they go on as if they had not been interrupted, or are refused."""

import dataclasses
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import dualmctx
import games
from damages import flip
from dualmctx import AlphaZero, Contempt, Dual, Gumbel, MuZero, load_search, save_search
from dualmctx.errors import UserError
from dualmctx.search.forced_root import count_root

N, B = 12, 3
KEY = jax.random.PRNGKey(3)
CASES: dict[str, Any] = {
    "dual": Dual((8, 6), 4),
    "alphazero": AlphaZero(N),
    "speculation": AlphaZero(N, execution=dualmctx.Execution(speculation=3)),
    "window": AlphaZero(N, backup=dualmctx.Backup(window=1)),
    "contempt": Contempt(N, 2),
    "gumbel": Gumbel(N),
    "muzero": MuZero(N),
}


@functools.cache
def trained() -> dualmctx.Trained:
    return dualmctx.load_trained("connect2")


def positions(number: int = B) -> Any:
    env = trained().env
    return games.replay(env, np.arange(number)[:, None] % env.num_actions)


@functools.cache
def search_of(policy: Any) -> Any:
    return dualmctx.make_search_fn(trained().env, trained().network, policy)


@functools.cache
def phases(policy: Any) -> tuple[Any, Any]:
    """Returns the compiled `init` and `step`."""
    return jax.jit(search_of(policy).init), jax.jit(search_of(policy).step)


def content(tree: Any) -> dict[str, np.ndarray]:
    """Returns the arrays by name, random keys as their words."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)

    def to_numpy(x: Any) -> np.ndarray:
        is_key = jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(x) if is_key else x)

    return {jax.tree_util.keystr(path): to_numpy(x) for path, x in leaves}


def assert_equal(found: Any, expected: Any) -> None:
    """Checks that all arrays are the same bit for bit, and that nothing else differs."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    ours, theirs = content(found), content(expected)
    for name, x in ours.items():
        assert (x.dtype, x.shape) == (theirs[name].dtype, theirs[name].shape), name
        assert x.tobytes() == theirs[name].tobytes(), name


def filled(shapes: Any) -> Any:
    """Returns a tree of the given shapes with random bytes, of which some floats are NaN."""
    rng = np.random.default_rng(0)

    def fill(x: Any) -> Any:
        if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(1), x.shape)
        if x.dtype == bool:
            return rng.random(x.shape) < 0.5
        return np.frombuffer(rng.bytes(x.size * x.dtype.itemsize), x.dtype).reshape(x.shape)

    return jax.tree.map(fill, shapes)


@pytest.mark.parametrize("name", CASES)
def test_the_arrays_of_every_search_are_loaded_as_saved(name: str, tmp_path: Path) -> None:
    policy, path = CASES[name], tmp_path / "search.safetensors"
    shapes = jax.eval_shape(search_of(policy).init, trained().params, KEY, positions())
    state = filled(shapes)
    save_search(path, state, trained(), policy)
    assert_equal(load_search(path, shapes, trained(), policy), state)


def test_a_saved_search_goes_on_as_one_without_interruption(tmp_path: Path) -> None:
    """The first half may have forced steps; keys may be of the new kind, one for each position."""
    policy, path = CASES["dual"], tmp_path / "search.safetensors"
    init, step = phases(policy)
    key = jax.random.split(jax.random.key(3), B)
    begin = init(trained().params, key, positions())
    # A first call with actions would add the counts, and compile once more.
    counts = jax.tree.map(np.zeros_like, count_root(begin.grown))
    counted = dataclasses.replace(begin, forced=counts)
    state = step(trained().params, counted, 2, root_action=np.array([-1, 0, 1]))
    save_search(path, state, trained(), policy)
    loaded = load_search(path, begin, trained(), policy)
    assert_equal(loaded, state)
    # The same program, without a forced step.
    rest = functools.partial(step, trained().params, root_action=np.full(B, -1))
    assert_equal(rest(loaded, 100), rest(state, 100))


PROGRAM = """
import pathlib, sys
sys.path[:0] = sys.argv[1:3]
import jax, numpy as np
import dualmctx
from test_saved_search import KEPT, KEY, content, phases, positions, search_of, trained
folder = pathlib.Path(sys.argv[3])
search, params = search_of(KEPT), trained().params
shapes = jax.eval_shape(search.init, params, KEY, positions())
state = dualmctx.load_search(folder / "state", shapes, trained(), KEPT)
state = phases(KEPT)[1](params, state, 100)
np.savez(folder / "state.npz", **content(state))
"""
KEPT = AlphaZero(N, reuse_capacity=N)


@pytest.mark.slow
def test_another_process_continues_a_search(tmp_path: Path) -> None:
    init, step = phases(KEPT)
    state = step(trained().params, init(trained().params, KEY, positions()), 5)
    save_search(tmp_path / "state", state, trained(), KEPT)
    here = Path(__file__).parent
    command = [sys.executable, "-c", PROGRAM, str(here), str(here.parent), str(tmp_path)]
    subprocess.run(command, check=True)
    with np.load(tmp_path / "state.npz") as found:
        expected = content(step(trained().params, state, 100))
        assert {*found} == {*expected}
        assert all(found[name].tobytes() == x.tobytes() for name, x in expected.items())


@functools.cache
def kept_tree() -> dualmctx.Tree:
    init, step = phases(KEPT)
    state = step(trained().params, init(trained().params, KEY, positions()), N)
    output = jax.jit(search_of(KEPT).output)(state)
    return dualmctx.get_subtree(output.search_tree, output.action, reuse_capacity=N)


def test_a_kept_tree_is_saved_too(tmp_path: Path) -> None:
    tree, path = kept_tree(), tmp_path / "tree"
    save_search(path, tree, trained(), KEPT)
    states = positions()
    empty = dualmctx.empty_tree(search_of(KEPT), trained().params, states, reuse_capacity=N)
    assert_equal(load_search(path, empty, trained(), KEPT), tree)


def test_another_search_is_refused_with_all_differences(tmp_path: Path) -> None:
    path, saved = tmp_path / "tree", kept_tree()
    save_search(path, saved, trained(), KEPT)
    params = jax.tree.map(lambda x: x + 1, trained().params)
    others: list[tuple[Any, Any, str]] = [
        (trained()._replace(params=params), KEPT, r"network \(\w{16} → \w{16}\)"),
        (dualmctx.load_trained("nim"), KEPT, r"game \(connect2 → nim\), .*network \("),
        (
            trained(),
            dualmctx.with_options(KEPT, num_simulations=9, c_puct=2.0),
            r"search.num_simulations \(12 → 9\), search.puct.c_puct \(1.25 → 2.0\)",
        ),
        (trained(), Gumbel(N), r"search.variant \(alphazero → gumbel\)"),
    ]
    for network, policy, changes in others:
        with pytest.raises(UserError, match=rf"^{path} holds another search: .*{changes}") as info:
            load_search(path, saved, network, policy)
        assert "\n" not in str(info.value)
    begin, _ = phases(KEPT)
    state = begin(trained().params, KEY, positions())
    with pytest.raises(UserError, match=r"holds \(kept trees → a search between two steps\)"):
        load_search(path, state, trained(), KEPT)
    with pytest.raises(ValueError, match=r"that of AlphaZero; it must be a SearchState of Gumbel"):
        load_search(path, state, trained(), Gumbel(N))
    with pytest.raises(UserError, match=r"is traced by JAX; save it outside"):
        jax.jit(lambda x: save_search(path, x, trained(), KEPT))(state)
    few = jax.tree.map(lambda x: x[:2], saved)
    with pytest.raises(UserError, match=rf"^{path} does not fit the argument like: edges is int32"):
        load_search(path, few, trained(), KEPT)


def test_other_files_and_states_are_refused(tmp_path: Path) -> None:
    saved, path = kept_tree(), tmp_path / "x.safetensors"
    read = functools.partial(load_search, path, saved, trained(), KEPT)
    with pytest.raises(UserError, match=f"^{path} does not exist$"):
        read()
    dualmctx.export_trained(trained(), path)
    with pytest.raises(UserError, match=f"^{path} is not a saved search: its record has no saved"):
        read()
    for call in (save_search, load_search):
        wrong: list[tuple[Any, Any, Any, str]] = [
            ({}, trained(), KEPT, "of type dict; it must be a SearchState of init or step"),
            (saved, trained().params, KEPT, "trained is .* it must be from load_trained"),
            (saved, trained(), search_of(KEPT), "policy is .* it must be a policy, such as"),
        ]
        for state, network, policy, reason in wrong:
            with pytest.raises(ValueError, match=reason):
                call(path, state, network, policy)
    save_search(path, saved, trained(), KEPT)
    whole = path.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=f"^{path} is damaged, or not a saved search: "):
            read()
    path.write_bytes(flip(whole, len(whole) - 9, 4))
    with pytest.raises(UserError, match="its content does not have its checksum"):
        read()
