"""GPU kernels: interpreted on a CPU they give the trees of XLA's loops; they lower for CUDA.

On a GPU (`make test-gpu`), the compiled kernels take the place of the interpreted ones.
"""

import functools
import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import hash_model
from benchmarks.cuda_compiler import lowering_for_cuda
from dualmctx import (
    AlphaZero,
    Chain,
    Contempt,
    Dual,
    Gumbel,
    MuZero,
    Root,
    get_subtree,
    with_options,
)
from dualmctx.policies.root import sample_log_gamma
from dualmctx.search import keys as key_functions
from dualmctx.search import select
from dualmctx.search.gpu import kernels as gpu_kernels
from dualmctx.search.gpu import random
from oracle.cases import CALM, RULES, assert_same
from oracle.compare import with_traced_options
from pairwise import quick_first

# The option with which a search runs in kernels here.
MODE = "on" if jax.default_backend() == "gpu" else "interpret"
BATCH, ACTIONS, SIMULATIONS = 5, 5, 24
SEEDS = range(2)
# Kinds of games in which the walks of a batch differ most.
KINDS = ("plain", "same player twice", "often terminal", "ties everywhere")
_completed = functools.partial(
    mctx.qtransform_completed_by_mix_value, rescale_values=False, use_mixed_value=False
)
_min_max = functools.partial(mctx.qtransform_by_min_max, min_value=-2.0, max_value=2.0)
POLICIES: dict[str, Any] = {
    "alphazero": AlphaZero(SIMULATIONS),
    "contempt": Contempt(SIMULATIONS, -2, 0.5),
    "muzero": MuZero(SIMULATIONS),
    "muzero of own scale": MuZero(SIMULATIONS, qtransform=_min_max),
    "gumbel": Gumbel(SIMULATIONS),
    "gumbel of own scale": Gumbel(SIMULATIONS, qtransform=_completed),
    "dual": Dual((15, 12), 4),
    # A first tree that is small: later trees need new nodes after some simulations without.
    "chain starved": Chain((3, 20, 20), 1),
}
# The options that a value of a factor stands for.
CHANGES: dict[str, dict[str, Any]] = {
    "minimax": {"minimax_mix": 0.4},
    "minimax and rave": {"minimax_mix": 0.2, "rave_visits": 10.0},
    "regularized": {"regularized": ("search",)},
    "window": {"window": 2, "explore_fraction": 0.5, "explore_decay": 0.9},
    "depth": {"max_depth": 3},
    "children": {"max_children": 3},
    "leaves": {"leaves_per_step": 5},
    "lost leaves": {"leaves_per_step": 4, "virtual_loss": 3},
    "calm": {"dirichlet_fraction": 0.0},
    "reuse": {"reuse_capacity": SIMULATIONS},
}
# Batch and actions.
SIZES = {"1 of 8": (1, 8), "1 of 1": (1, 1)}
# A row for each mechanism, with other sizes, kinds of keys and kept trees in turn.
ROWS = (
    # One search is enough for a game with a single action.
    "alphazero, window, 1 of 1",
    "alphazero, leaves, children, calm, keys, reuse",
    "alphazero, lost leaves, depth, 1 of 8",
    "alphazero, minimax and rave, window, depth",
    "alphazero, regularized, children, calm, 1 of 8, keys",
    "contempt, minimax, window, depth, children, calm, 1 of 8, keys, reuse",
    "muzero, window, depth, calm",
    "muzero of own scale, window, 1 of 8, keys, reuse",
    "gumbel, window, depth, keys",
    "gumbel of own scale, 1 of 8",
    "dual, window, depth, children, reuse",
    "chain starved, depth, calm, 1 of 8, keys, reuse",
)
# Options of rules that are traced in a row, so that a kernel cannot hold them as constants.
TRACED: dict[str, dict[str, Any]] = {
    "alphazero, lost leaves, depth, 1 of 8": {"c_puct": 2.0},
    "alphazero, minimax and rave, window, depth": {"c_puct": 2.0, "window": 2},
}


def build(row: str, **more: Any) -> Any:
    """Returns the policy of a row: its name and its options."""
    name, *options = row.split(", ")
    changes = dict[str, Any]()
    for option in options:
        assert option in (*CHANGES, *SIZES, "keys"), option
        changes |= CHANGES.get(option, {})
    return with_options(POLICIES[name], **changes, **more)


def expected_kernels(policy: Any) -> set[str]:
    """Returns the names of the kernels of a search."""
    if policy.execution.leaves_per_step > 1:
        names = {"select_leaves", "backup_parallel"}
    else:
        names = {"descend", "insert_and_backup"}
    if len(policy.heads) > 1:
        names |= {"simulate_existing", "sum_paths"}
    has_noise = not isinstance(policy, Gumbel) and policy.root.dirichlet_fraction > 0
    return names | ({"log_gamma"} if has_noise else set())


def make_search(
    policy: Any,
    *,
    batch: int = BATCH,
    actions: int = ACTIONS,
    per_element: bool = False,
    impl: str | None = None,
    dtype: Any = None,
) -> Any:
    """Returns `(rules, seed, **traced options) -> search tree` from hash roots.

    If trees are kept, it is the tree after two moves, and no options are traced.
    """

    def cast(output: Any) -> Any:
        return output.replace(prior_logits=output.prior_logits.astype(dtype)) if dtype else output

    def recurrent_fn(params: Any, rng_key: Any, action: Any, embedding: Any) -> tuple:
        output, new = hash_model.recurrent_fn(params, rng_key, action, embedding, actions)
        return cast(output), new

    later = hash_model.refine_fns(len(policy.heads), actions)
    capacity = policy.traits.reuse_capacity

    def search(rules: Any, seed: Any, kept: Any = None, **numbers: Any) -> Any:
        roots = hash_model.roots(jnp.arange(batch) + batch * seed, rules, actions)
        key = jax.random.key(seed, impl=impl)
        rng_key = jax.random.split(key, batch) if per_element else key
        named = {"search_tree": kept} if capacity else {}
        chosen = with_traced_options(policy, numbers)
        return chosen(rules, rng_key, cast(roots), recurrent_fn, later, **named)

    if capacity:
        empty = empty_tree(with_options(policy, kernels="off"), batch, actions)
        return TwoMoves(search, capacity, empty)
    return jax.jit(lambda *inputs, **numbers: search(*inputs, **numbers).search_tree)


class TwoMoves:
    """A search that goes on from the tree of the move before, with one program for both moves."""

    def __init__(self, search: Any, capacity: int, empty: Any) -> None:
        self.search, self.capacity, self.empty = jax.jit(search), capacity, empty

    def trace(self, rules: Any, seed: Any) -> Any:
        return self.search.trace(rules, seed, self.empty)

    def __call__(self, rules: Any, seed: Any) -> Any:
        first = self.search(rules, seed, self.empty)
        kept = keep(first.search_tree, first.action, reuse_capacity=self.capacity)
        return self.search(rules, seed, kept).search_tree


keep = jax.jit(get_subtree, static_argnames="reuse_capacity")


@functools.cache
def empty_tree(policy: Any, batch: int, actions: int) -> Any:
    """Returns empty trees; they are the same with kernels and without."""

    def first_kept() -> Any:
        seeds, key = jnp.arange(batch), jax.random.key(0)
        tree = hash_model.search(policy, RULES["plain"], key, seeds, actions).search_tree
        capacity = policy.traits.reuse_capacity
        return get_subtree(tree, jnp.zeros(batch, jnp.int32), reuse_capacity=capacity)

    return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), jax.eval_shape(first_kept))


def in_both(
    policy: Any, expected: set[str] | None = None, numbers: Any = None, **options: Any
) -> tuple[Any, Any]:
    """Returns a search by XLA's loops and the same in kernels; checks its kernels."""
    loops, kernels = (
        make_search(with_options(policy, kernels=mode), **options) for mode in ("off", MODE)
    )
    assert kernel_names(loops, numbers) == set()
    found = kernel_names(kernels, numbers)
    assert found if expected is None else found == expected
    return loops, kernels


def kernel_names(search: Any, numbers: Any = None) -> set[str]:
    """Returns the names of the kernels of a search."""
    program = str(search.trace(RULES["plain"], 0, **numbers or {}).jaxpr)
    names = ("descend", "insert_and_backup", "select_leaves", "backup_parallel")
    names += ("simulate_existing", "sum_paths", "log_gamma")
    return {name for name in names if "pallas_call" in program and f"name={name}" in program}


def check(searches: tuple[Any, Any], kinds: Any = ("plain",), **numbers: Any) -> None:
    """Checks that loops and kernels give the same trees in games of some kinds."""
    loops, kernels = searches
    for kind, seed in itertools.product(kinds, SEEDS):
        assert_same(kernels(RULES[kind], seed, **numbers), loops(RULES[kind], seed, **numbers))


@pytest.mark.parametrize("row", quick_first(ROWS, 2))
def test_whole_trees_match_loops(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A kernel compares a few leaves at most; "chain starved" evaluates more of them in one round.
    monkeypatch.setattr(gpu_kernels, "_MAX_LEAVES", 8)
    options, numbers = row.split(", "), TRACED.get(row, {})
    policy = build(row)
    batch, actions = next((SIZES[x] for x in options if x in SIZES), (BATCH, ACTIONS))
    sizes = {"batch": batch, "actions": actions, "per_element": "keys" in options}
    check(in_both(policy, expected_kernels(policy), numbers, **sizes), KINDS, **numbers)


@pytest.mark.slow
def test_kernels_read_only_the_likely_actions_of_a_gumbel_root() -> None:
    check(in_both(build("gumbel of own scale, window"), batch=3, actions=70))


@pytest.mark.slow
def test_kernels_take_a_batch_of_batches() -> None:
    searches = [search.__wrapped__ for search in in_both(build("alphazero"))]
    several = [jax.jit(jax.vmap(search, (None, 0))) for search in searches]
    assert_same(*(search(RULES["plain"], jnp.arange(3)) for search in several))


def cuda_text(policy: Any) -> str:
    """Returns a search as lowered for CUDA, which needs no GPU."""
    search = make_search(with_options(policy, kernels="on"))
    with lowering_for_cuda():
        traced = search.trace(RULES["plain"], 0)
        return traced.lower(lowering_platforms=("cuda",)).as_text()


def loop_conditions(text: str) -> list[str]:
    """Returns the condition of each loop of a lowered program."""
    return re.findall(r"stablehlo\.while\(.*?\bcond \{(.*?)\} do \{", text, flags=re.DOTALL)


def is_counted(condition: str) -> bool:
    """Returns whether a condition compares a counter with a constant and does nothing else."""
    steps = [line.strip() for line in condition.strip().splitlines()]
    names = [re.sub(r"^%\w+ = ", "", step).split()[0] for step in steps]
    return names == ["stablehlo.constant", "stablehlo.compare", "stablehlo.return"]


def num_choices(text: str) -> int:
    """Returns the conditions that remain on the device: those not decided by a constant."""
    choices = re.findall(r'"stablehlo\.case"\((%\w+)\)|"stablehlo\.if"\((%\w+)\)', text)
    constants = set(re.findall(r"(%\w+) = stablehlo\.constant", text))
    platform = set(re.findall(r'(%\w+) = "stablehlo\.case"\(%c\w*\)', text))
    return sum((case or other) not in constants | platform for case, other in choices)


@pytest.mark.slow
# These rows have all options of rules, and all kinds of loops.
@pytest.mark.parametrize("row", [ROWS[1], *ROWS[3:7], *ROWS[-2:]])
def test_search_for_cuda_waits_only_where_it_must(row: str) -> None:
    """A search of one tree and one leaf per step never waits for the host.

    Others wait once per step, or once per round of the later trees: the number of steps, or of
    missing leaves in a round, depends on the search. A simulation that replaces a missing leaf also
    has a condition.
    """
    policy = build(row.removesuffix(", reuse"))
    text = cuda_text(policy)
    assert "triton" in text
    assert "output_operand_aliases" in text, "the kernel would copy the trees"
    conditions = loop_conditions(text)
    uncounted = [x for x in conditions if not is_counted(x)]
    assert conditions
    # The rounds of "dual" are not alike, so the loop of its first tree is counted as well.
    waits = {"dual": (2, 1), "chain starved": (2, 2)}
    one_tree = (1, 0) if policy.execution.leaves_per_step > 1 else (0, 0)
    assert (len(uncounted), num_choices(text)) == waits.get(row.split(", ")[0], one_tree)


@pytest.mark.slow
def test_many_leaves_of_a_round_take_several_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for the host as one kernel does."""
    monkeypatch.setattr(gpu_kernels, "_MAX_LEAVES", 8)
    text = cuda_text(Dual((12, 10), 1, **CALM))
    assert len([x for x in loop_conditions(text) if not is_counted(x)]) == 1


def test_loops_wait_for_the_host() -> None:
    """Shows that the tests above can fail: without kernels there are loops of unknown length."""
    search = make_search(build("alphazero, calm", kernels="off"))
    text = search.trace(RULES["plain"], 0).lower(lowering_platforms=("cuda",)).as_text()
    assert sum(not is_counted(condition) for condition in loop_conditions(text)) == 2


@pytest.mark.slow
def test_kernels_are_left_out_elsewhere() -> None:
    loops, kernels = (make_search(build("alphazero, calm", kernels=mode)) for mode in ("off", "on"))
    program = kernels.lower(RULES["plain"], 0).compile()
    assert " conditional(" not in program.as_text()
    expected = loops(RULES["plain"], 3)
    assert_same(kernels(RULES["plain"], 3), expected)


@pytest.mark.parametrize(
    "change",
    [{"jax_threefry_partitionable": False}, {"jax_default_prng_impl": "rbg"}],
    ids=lambda change: next(iter(change)),
)
def test_kernels_refuse_keys_that_they_cannot_continue(change: dict[str, Any]) -> None:
    key = jax.random.PRNGKey(0)
    assert random.can_sample(key)
    before = {name: getattr(jax.config, name) for name in change}
    try:
        for name, value in change.items():
            jax.config.update(name, value)
        assert not random.can_sample(key)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
    assert not random.can_sample(jax.random.key(0, impl="rbg"))


@pytest.mark.slow
@pytest.mark.parametrize("per_element", [False, True])
def test_keys_of_kernels_sample_as_jax_random(per_element: bool) -> None:
    element, depth = 3, 2
    purposes = key_functions.EXPLORING, key_functions.FROZEN

    def samples(rng_key: Any, size: int, padded: int) -> Any:
        """Returns the uniform samples and the Gumbel samples of a batch, `[B, ...]`."""
        keys = [key_functions.node_keys(rng_key, purpose, depth, size) for purpose in purposes]
        after = key_functions.mctx_keys(rng_key, size, depth)
        uniform = [key_functions.uniform(x, 5, padded)[:, :5] for x in keys]
        columns = [jnp.stack(key_functions.uniform_columns(x, 2), axis=1) for x in keys]
        gumbel = [key_functions.gumbel(x, 5, padded, jnp.float32)[:, :5] for x in keys]
        return (*uniform, *columns, key_functions.uniform(after, 5)), gumbel

    @jax.jit
    def both(key: Any) -> Any:
        rng_key = jax.random.split(key, BATCH) if per_element else key
        words = jax.random.key_data(rng_key)[element] if per_element else jax.random.key_data(key)
        tree_key: Any = random.TreeKey(
            (words[:1], words[1:]), jnp.full((1,), element, jnp.uint32), per_element
        )
        theirs = jax.tree.map(lambda x: x[element], samples(rng_key, BATCH, 5))
        return theirs, jax.tree.map(lambda x: x[0], samples(tree_key, 1, 8))

    (expected, expected_gumbel), (found, found_gumbel) = both(jax.random.key(7))
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-6)
    jax.tree.map(close, found_gumbel, expected_gumbel)


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "per_element"), [((3, 7), False), ((40, 33), True)])
def test_noise_has_the_gamma_variates_of_jax_random(
    sizes: tuple[int, int], per_element: bool
) -> None:
    mode: Any = MODE
    sample = jax.jit(functools.partial(sample_log_gamma, kernels=mode))
    expected = jax.jit(functools.partial(sample_log_gamma, kernels="off"))
    alphas = jnp.resize(jnp.array([0.03, 0.3, 0.99, 1.0, 2.5, 40.0]), sizes)
    for seed in SEEDS:
        key = jax.random.key(seed)
        rng_key = jax.random.split(key, sizes[0]) if per_element else key
        found = sample(rng_key, alphas)
        assert jnp.all(jnp.isfinite(found))
        np.testing.assert_allclose(found, expected(rng_key, alphas), rtol=3e-5, atol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "options", "expected"),
    [
        ("muzero", {"dtype": jnp.bfloat16}, {"log_gamma"}),
        ("gumbel", {"dtype": jnp.float16}, set()),
        ("alphazero, calm", {"dtype": jnp.bfloat16}, {"descend", "insert_and_backup"}),
        ("alphazero, window", {"impl": "rbg"}, {"insert_and_backup"}),
    ],
)
def test_other_types_and_keys_run_in_loops(row: str, options: Any, expected: set[str]) -> None:
    loops, kernels = (make_search(build(row, kernels=mode), **options) for mode in ("off", MODE))
    assert kernel_names(kernels) == expected
    if expected - {"log_gamma"}:
        check((loops, kernels))


def test_64_bit_mode_runs_in_loops() -> None:
    with jax.enable_x64(True):
        search = make_search(build("alphazero", kernels=MODE))
        assert kernel_names(search) == set()


def test_argmax_does_not_need_nan_to_pass_through_a_maximum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The maximum of Triton ignores NaN."""

    def ignoring(x: Any, **options: Any) -> Any:
        return jnp.asarray(np.fmax.reduce(x, **options))

    low, nan = -np.inf, np.nan
    score = jnp.array([[low, nan, low], [low, 1.0, nan], [0.0, 2.0, 2.0], [low, low, low]])
    assert select.argmax(score).tolist() == [1, 1, 1, 0]
    monkeypatch.setattr(select.jnp, "max", ignoring)
    assert select.argmax(score).tolist() == [1, 1, 1, 0]


def test_a_qtransform_of_its_own_runs_in_loops() -> None:
    def doubled(tree: mctx.Tree, node_index: Any) -> Any:
        return 2 * mctx.qtransform_by_parent_and_siblings(tree, node_index)

    policy = MuZero(4, qtransform=doubled, root=Root(dirichlet_fraction=0.0))
    _, kernels = in_both(policy)
    assert kernel_names(kernels) == {"insert_and_backup"}
