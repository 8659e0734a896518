"""GPU kernels: interpreted on a CPU they give the trees of XLA's loops; they lower for CUDA.

On a GPU (`make test-gpu`), the compiled kernels take the place of the interpreted ones.
"""

import dataclasses
import functools
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
    MPV,
    AlphaZero,
    Backup,
    Chain,
    Contempt,
    Dual,
    Gumbel,
    MuZero,
    Puct,
    Root,
    get_subtree,
    with_options,
)
from dualmctx.policies.root import root_evaluation, sample_log_gamma
from dualmctx.search import keys as key_functions
from dualmctx.search import mctx_rules, select, threefry
from dualmctx.search.allocate import allocate
from dualmctx.search.rule_inputs import find_inputs
from oracle.cases import CALM, RULES, fast_jit, grouped
from oracle.compare import with_traced_options
from test_policies import CASES, POLICIES, Arena, assert_same

# The option with which a search runs in kernels here.
MODE = "on" if jax.default_backend() == "gpu" else "interpret"
BATCH, ACTIONS, SIMULATIONS = 5, 5, 24
SEEDS = range(10)
NOISY = grouped(window=2, explore_fraction=0.5, explore_decay=0.9)
_completed = functools.partial(
    mctx.qtransform_completed_by_mix_value, rescale_values=False, use_mixed_value=False
)
_min_max = functools.partial(mctx.qtransform_by_min_max, min_value=-2.0, max_value=2.0)
HASH_POLICIES: dict[str, Any] = {
    "alphazero": AlphaZero(SIMULATIONS, **CALM),
    "noisy window": AlphaZero(SIMULATIONS, **NOISY),
    "depth": AlphaZero(SIMULATIONS, **grouped(NOISY, max_depth=3)),
    "minimax": AlphaZero(SIMULATIONS, **grouped(CALM, minimax_mix=0.4)),
    "minimax window": AlphaZero(SIMULATIONS, **grouped(NOISY, minimax_mix=0.4)),
    "rave": AlphaZero(SIMULATIONS, **grouped(CALM, rave_visits=10.0)),
    "rave window": AlphaZero(SIMULATIONS, **grouped(NOISY, rave_visits=10.0, minimax_mix=0.2)),
    "regularized": AlphaZero(SIMULATIONS, puct=Puct(regularized=("search",))),
    "regularized window": AlphaZero(
        SIMULATIONS, **grouped(NOISY, regularized=("search",), minimax_mix=0.3, rave_visits=5.0)
    ),
    "contempt": Contempt(SIMULATIONS, 3, **CALM),
    "contempt window": Contempt(SIMULATIONS, -2, 0.5, **NOISY),
    "children": AlphaZero(SIMULATIONS, **grouped(CALM, max_children=3)),
    "leaves": AlphaZero(SIMULATIONS, **grouped(CALM, leaves_per_step=5)),
    "virtual loss": AlphaZero(SIMULATIONS, **grouped(CALM, leaves_per_step=4, virtual_loss=3)),
    "children and leaves": AlphaZero(
        SIMULATIONS, **grouped(CALM, max_children=3, leaves_per_step=3, max_depth=4)
    ),
    "muzero": MuZero(SIMULATIONS),
    "muzero window": MuZero(SIMULATIONS, qtransform=_min_max, backup=Backup(2, 0.5)),
    "gumbel": Gumbel(SIMULATIONS),
    "gumbel window": Gumbel(SIMULATIONS, qtransform=_completed, backup=Backup(2, 0.5)),
    "dual": Dual((16, 8), 2, **CALM),
    "dual window": Dual((15, 12), 4, **NOISY),
    "chain": Chain((12, 8, 4), 2, **CALM),
    # A first tree that is small: later trees need new nodes after some simulations without.
    "small first tree": Chain((3, 20, 20), 1, **CALM),
    "mpv": MPV((16, 8), **CALM),
}
SEVERAL_TREES = {"dual", "dual window", "chain", "small first tree", "mpv"}
SEVERAL_LEAVES = {"leaves", "virtual loss", "children and leaves"}


def expected_kernels(name: str) -> set[str]:
    """Returns the names of the kernels of a search."""
    policy = HASH_POLICIES[name]
    has_noise = not isinstance(policy, Gumbel) and policy.root.dirichlet_fraction > 0
    names = (
        {"select_leaves", "backup_parallel"} if name in SEVERAL_LEAVES else {"descend", "record"}
    )
    if name in SEVERAL_TREES:
        names |= {"simulate_existing", "sum_paths"}
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
    """Returns `(rules, seed) -> search tree` from hash roots."""

    def cast(output: Any) -> Any:
        return output.replace(prior_logits=output.prior_logits.astype(dtype)) if dtype else output

    def recurrent_fn(params: Any, rng_key: Any, action: Any, embedding: Any) -> tuple:
        output, new = hash_model.recurrent_fn(params, rng_key, action, embedding, actions)
        return cast(output), new

    later = hash_model.refine_fns(len(policy.heads), actions)

    def search(rules: Any, seed: Any) -> Any:
        roots = hash_model.roots(jnp.arange(batch) + batch * seed, rules, actions)
        key = jax.random.key(seed, impl=impl)
        rng_key = jax.random.split(key, batch) if per_element else key
        return policy(rules, rng_key, cast(roots), recurrent_fn, later).search_tree

    return fast_jit(search)


def in_both(policy: Any, **options: Any) -> tuple[Any, Any]:
    """Returns a search by XLA's loops and the same in kernels; checks that it has kernels."""
    loops, kernels = (
        make_search(with_options(policy, kernels=mode), **options) for mode in ("off", MODE)
    )
    assert kernel_names(loops) == set()
    assert kernel_names(kernels) != set()
    return loops, kernels


def kernel_names(search: Any, *inputs: Any) -> set[str]:
    """Returns the names of the kernels of a search."""
    program = str(search.trace(*(inputs or (RULES["plain"], 0))).jaxpr)
    names = ("descend", "record", "select_leaves", "backup_parallel", "simulate_existing")
    names += ("sum_paths", "log_gamma")
    return {name for name in names if "pallas_call" in program and f"name={name}" in program}


def assert_same_tree(actual: Any, expected: Any) -> None:
    """Integers are equal, floats nearly: XLA rounds the model's outputs as its fusions require."""

    def compare(path: Any, x: Any, y: Any) -> None:
        name = jax.tree_util.keystr(path)
        if jnp.issubdtype(x.dtype, jnp.floating):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=3e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)

    jax.tree_util.tree_map_with_path(compare, actual, expected)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", HASH_POLICIES)
def test_whole_trees_match_loops(name: str) -> None:
    loops, kernels = in_both(HASH_POLICIES[name])
    assert kernel_names(kernels) == expected_kernels(name)
    for rules in RULES.values():
        for seed in SEEDS:
            assert_same_tree(kernels(rules, seed), loops(rules, seed))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["noisy window", "muzero", "contempt window", "gumbel window"])
def test_kernels_sample_with_a_key_for_each_element(name: str) -> None:
    loops, kernels = in_both(HASH_POLICIES[name], per_element=True)
    rules = RULES["ties everywhere"]
    for seed in SEEDS:
        assert_same_tree(kernels(rules, seed), loops(rules, seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noisy window", "leaves", "muzero", "dual window"])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 8), (3, 2)])
def test_kernels_take_any_number_of_trees_and_actions(sizes: tuple[int, int], name: str) -> None:
    batch, actions = sizes
    loops, kernels = in_both(HASH_POLICIES[name], batch=batch, actions=actions)
    for seed in SEEDS:
        assert_same_tree(kernels(RULES["plain"], seed), loops(RULES["plain"], seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gumbel", "gumbel window"])
def test_kernels_read_only_the_likely_actions_of_a_gumbel_root(name: str) -> None:
    loops, kernels = in_both(HASH_POLICIES[name], batch=3, actions=70)
    for seed in SEEDS:
        assert_same_tree(kernels(RULES["plain"], seed), loops(RULES["plain"], seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noisy window", "dual"])
def test_kernels_take_a_batch_of_batches(name: str) -> None:
    searches = [search.__wrapped__ for search in in_both(HASH_POLICIES[name])]
    several = [fast_jit(jax.vmap(search, (None, 0))) for search in searches]
    seeds = jnp.arange(3)
    assert_same_tree(*(search(RULES["plain"], seeds) for search in several))


@pytest.mark.slow
@pytest.mark.parametrize(("game", "name"), CASES)
def test_whole_trees_match_loops_in_games(game: str, name: str) -> None:
    """The table of properties of `test_policies`, which hold for kernels if the trees match."""
    policy = POLICIES[name]
    loops, kernels = (Arena(game, with_options(policy, kernels=mode)) for mode in ("off", MODE))
    assert_same(*(x.search(x.params, x.keys, x.states) for x in (kernels, loops)))


REUSING: dict[str, Any] = {
    "alphazero": AlphaZero(SIMULATIONS, **CALM),
    "window": AlphaZero(SIMULATIONS, **grouped(NOISY, minimax_mix=0.3, rave_visits=9.0)),
    "leaves": AlphaZero(SIMULATIONS, **grouped(CALM, leaves_per_step=4)),
    "contempt": Contempt(SIMULATIONS, 3, **CALM),
    "muzero": MuZero(SIMULATIONS),
    "dual": Dual((14, 10), 2, **CALM),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REUSING)
def test_reused_trees_match_loops(name: str) -> None:
    def play(mode: str) -> Any:
        policy = with_options(REUSING[name], reuse_capacity=SIMULATIONS, kernels=mode)
        rules = RULES["same player twice"]

        later = hash_model.refine_fns(len(policy.heads), ACTIONS)

        def recurrent_fn(params: Any, rng_key: Any, action: Any, embedding: Any) -> tuple:
            return hash_model.recurrent_fn(params, rng_key, action, embedding, ACTIONS)

        @fast_jit
        def two_moves(seed: Any) -> Any:
            roots = hash_model.roots(jnp.arange(BATCH) + BATCH * seed, rules, ACTIONS)
            key = jax.random.key(seed)
            first = policy(rules, key, roots, recurrent_fn, later)
            kept = get_subtree(first.search_tree, first.action, reuse_capacity=SIMULATIONS)
            second = policy(rules, key, roots, recurrent_fn, later, search_tree=kept)
            return second.search_tree

        return [two_moves(seed) for seed in SEEDS]

    for actual, expected in zip(play(MODE), play("off"), strict=True):
        assert_same_tree(actual, expected)


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


ONE_TREE = [name for name in HASH_POLICIES if name not in SEVERAL_TREES | SEVERAL_LEAVES]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ONE_TREE)
def test_search_for_cuda_never_waits_for_the_host(name: str) -> None:
    text = cuda_text(HASH_POLICIES[name])
    assert "triton" in text
    assert "output_operand_aliases" in text, "the kernel would copy the trees"
    conditions = loop_conditions(text)
    assert conditions
    assert all(is_counted(condition) for condition in conditions)
    assert num_choices(text) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SEVERAL_TREES | SEVERAL_LEAVES))
def test_other_searches_for_cuda_wait_once_per_round_or_step(name: str) -> None:
    """The number of steps, or of missing leaves in a round, depends on the search.

    A simulation that replaces a missing leaf also has a condition.
    """
    text = cuda_text(HASH_POLICIES[name])
    uncounted = [x for x in loop_conditions(text) if not is_counted(x)]
    # The rounds of "dual window" are not alike, so the loop of its first tree is counted as well.
    waits = {"dual": (1, 1), "dual window": (2, 1), "mpv": (1, 1)}
    waits |= {"chain": (2, 2), "small first tree": (2, 2)}
    assert (len(uncounted), num_choices(text)) == waits.get(name, (1, 0))


@pytest.mark.slow
def test_many_leaves_of_a_round_take_several_kernels() -> None:
    """A kernel compares 64 leaves at most; a tree may evaluate more of them in one round."""
    policy = Dual((90, 80), 1, **CALM)
    loops, kernels = in_both(policy)
    for rules in (RULES["plain"], RULES["same player twice"]):
        assert_same_tree(kernels(rules, 1), loops(rules, 1))
    uncounted = [x for x in loop_conditions(cuda_text(policy)) if not is_counted(x)]
    assert len(uncounted) == 1


@pytest.mark.slow
def test_loops_wait_for_the_host() -> None:
    """Shows that the tests above can fail: without kernels there are loops of unknown length."""
    search = make_search(with_options(HASH_POLICIES["alphazero"], kernels="off"))
    text = search.trace(RULES["plain"], 0).lower(lowering_platforms=("cuda",)).as_text()
    assert sum(not is_counted(condition) for condition in loop_conditions(text)) == 2


@pytest.mark.slow
def test_kernels_are_left_out_elsewhere() -> None:
    policy = HASH_POLICIES["alphazero"]
    loops, kernels = (make_search(with_options(policy, kernels=mode)) for mode in ("off", "on"))
    program = kernels.lower(RULES["plain"], 0).compile()
    assert " conditional(" not in program.as_text()
    expected = loops(RULES["plain"], 3)
    assert_same_tree(kernels(RULES["plain"], 3), expected)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (select.puct(c_puct=1.0), (False, False)),
        (mctx_rules.gumbel_interior(_completed), (False, False)),
        (mctx_rules.muzero(_min_max, pb_c_init=1.25, pb_c_base=19652.0), (True, True)),
        (
            select.explore_outside_window(
                select.puct(c_puct=1.0), window=2, explore_fraction=0.5, explore_decay=0.9
            ),
            (True, False),
        ),
    ],
    ids=["puct", "gumbel", "muzero", "window"],
)
def test_inputs_of_rules_are_found(rule: Any, expected: tuple[bool, bool]) -> None:
    roots = hash_model.roots(jnp.arange(2), RULES["plain"], ACTIONS)
    evaluation = root_evaluation(roots, roots.prior_logits)
    tree = allocate(
        evaluation,
        roots.embedding,
        num_nodes=4,
        invalid_actions=jnp.zeros((2, ACTIONS)),
        windowed=True,
    )
    assert find_inputs([rule], jax.random.key(0), tree) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [("alphazero", {"record"}), ("leaves", {"backup_parallel"}), ("dual window", {"log_gamma"})],
)
def test_traced_options_run_in_loops(name: str, expected: set[str]) -> None:
    def make(mode: str) -> Any:
        def search(c_puct: Any, window: Any) -> Any:
            policy = with_options(HASH_POLICIES[name], kernels=mode)
            traced = {"c_puct": c_puct} | ({"window": window} if "window" in name else {})
            policy = with_traced_options(policy, traced)
            return make_search(policy).__wrapped__(RULES["plain"], 3)

        return fast_jit(search)

    loops, kernels = make("off"), make(MODE)
    assert kernel_names(kernels, 2.0, 2) == expected
    assert_same_tree(kernels(2.0, 2), loops(2.0, 2))


@pytest.mark.parametrize(
    "change",
    [
        {"jax_threefry_partitionable": False},
        {"jax_default_prng_impl": "rbg"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_kernels_refuse_keys_that_they_cannot_continue(change: dict[str, Any]) -> None:
    key = jax.random.PRNGKey(0)
    assert threefry.can_sample(key)
    before = {name: getattr(jax.config, name) for name in change}
    try:
        for name, value in change.items():
            jax.config.update(name, value)
        assert not threefry.can_sample(key)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
    assert not threefry.can_sample(jax.random.key(0, impl="rbg"))


@pytest.mark.parametrize("per_element", [False, True])
def test_keys_of_kernels_sample_as_jax_random(per_element: bool) -> None:
    element, depth = 3, 2
    key = jax.random.key(7)
    rng_key = jax.random.split(key, BATCH) if per_element else key
    words = jax.random.key_data(rng_key)[element] if per_element else jax.random.key_data(key)
    tree_key: Any = threefry.TreeKey(
        (words[:1], words[1:]), jnp.full((1,), element, jnp.uint32), per_element
    )
    for purpose in (key_functions.EXPLORING, key_functions.FROZEN):
        theirs = key_functions.node_keys(rng_key, purpose, depth, BATCH)
        ours = key_functions.node_keys(tree_key, purpose, depth, 1)
        expected = key_functions.uniform(theirs, 5)[element]
        actual = key_functions.uniform(ours, 5, 8)[0]
        np.testing.assert_array_equal(actual[:5], expected)
        columns = key_functions.uniform_columns(ours, 2)
        expected = jnp.stack(key_functions.uniform_columns(theirs, 2))[:, element]
        np.testing.assert_array_equal(jnp.concatenate(columns), expected)
        expected = key_functions.gumbel(theirs, 5, 5, jnp.float32)[element]
        actual = key_functions.gumbel(ours, 5, 8, jnp.float32)[0]
        np.testing.assert_allclose(actual[:5], expected, rtol=1e-6)
    theirs = key_functions.mctx_keys(rng_key, BATCH, depth)
    ours = key_functions.mctx_keys(tree_key, 1, depth)
    expected = key_functions.uniform(theirs, 5)[element]
    np.testing.assert_array_equal(key_functions.uniform(ours, 5)[0], expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("per_element", [False, True])
@pytest.mark.parametrize("sizes", [(3, 7), (1, 1), (40, 33)])
def test_noise_has_the_gamma_variates_of_jax_random(
    sizes: tuple[int, int], per_element: bool
) -> None:
    mode: Any = MODE
    sample = fast_jit(functools.partial(sample_log_gamma, kernels=mode))
    expected = fast_jit(functools.partial(sample_log_gamma, kernels="off"))
    alphas = jnp.resize(jnp.array([0.03, 0.3, 0.99, 1.0, 2.5, 40.0]), sizes)
    for seed in SEEDS:
        key = jax.random.key(seed)
        rng_key = jax.random.split(key, sizes[0]) if per_element else key
        found = sample(rng_key, alphas)
        assert jnp.all(jnp.isfinite(found))
        np.testing.assert_allclose(found, expected(rng_key, alphas), rtol=3e-5, atol=3e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("muzero", {"dtype": jnp.bfloat16}, {"log_gamma"}),
        ("gumbel", {"dtype": jnp.float16}, set()),
        ("alphazero", {"dtype": jnp.bfloat16}, {"descend", "record"}),
        ("noisy window", {"impl": "rbg"}, {"record"}),
    ],
)
def test_other_types_and_keys_run_in_loops(name: str, options: Any, expected: set[str]) -> None:
    policy = HASH_POLICIES[name]
    loops, kernels = (
        make_search(with_options(policy, kernels=mode), **options) for mode in ("off", MODE)
    )
    assert kernel_names(kernels) == expected
    for seed in SEEDS:
        assert_same_tree(kernels(RULES["plain"], seed), loops(RULES["plain"], seed))


@pytest.mark.slow
def test_64_bit_mode_runs_in_loops() -> None:
    with jax.enable_x64(True):
        search = make_search(with_options(HASH_POLICIES["alphazero"], kernels=MODE))
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
    assert "triton" not in cuda_text(policy)
    assert "triton" in cuda_text(dataclasses.replace(policy, qtransform=_min_max))
