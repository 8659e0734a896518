"""search-contempt: whole trees against its twin, no limit, keys, tree reuse, and sampling."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualmctx
import hash_model
from dualmctx import AlphaZero, Contempt, Execution
from dualmctx.search.frozen_visits import sample_visits
from oracle import twin
from oracle.cases import CALM, RULES, WINDOWED, fast_jit, grouped, with_options
from oracle.compare import assert_same_search, run_engine
from oracle.contempt import contempt
from oracle.models import HashModel

CONTEMPT = Contempt(40, 3, **CALM)
# The window comes with epsilon-greedy exploration.
EXPLORES = grouped(WINDOWED, window=2, explore_fraction=0.5)
ACTIONS, SEEDS = 4, (0, 1, 2, 3)


def assert_twin_agrees(policy: Any, rules: Any, key_seed: int = 5) -> list[Any]:
    key = jax.random.key(key_seed)
    output = run_engine(policy, ACTIONS, rules, SEEDS, key, final="all")
    results = []
    for i, seed in enumerate(SEEDS):
        model = HashModel(seed, rules, ACTIONS, "all")
        results.append(contempt(model, policy, key, (i, len(SEEDS))))
        assert_same_search(output, i, results[-1])
        assert_same_frozen(output.search_tree, i, results[-1])
    return results


def assert_same_frozen(tree: Any, element: int, result: Any) -> None:
    """Checks that engine and twin have the same counts at frozen nodes."""
    if "frozen" not in tree.stats[0].extra:
        assert not result.frozen
        return
    visits = tree.stats[0].extra["frozen"].visits[element]
    for actions, counts in result.frozen.items():
        node = 0
        for action in actions:
            node = tree.children_index[element, node, action]
        np.testing.assert_array_equal(visits[node], counts, err_msg=str(actions))


def sampled(results: list[Any]) -> int:
    return sum(result.sampled for result in results)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("limit", [1, 3, 10, -3, 1000, -1000])
@pytest.mark.parametrize("rules", list(RULES.values()), ids=list(RULES))
def test_whole_trees_match_twin(rules: Any, limit: int) -> None:
    results = assert_twin_agrees(with_options(CONTEMPT, frozen_visit_limit=limit), rules)
    if abs(limit) == 1000 or (rules.same_player == 1 and limit > 0):
        assert sampled(results) == 0
    elif rules.terminal < 0.5 and rules.spread > 0 and abs(limit) < 10:
        assert sampled(results) > 10


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [5, -5])
@pytest.mark.parametrize("temperature", [0.02, 0.5, 2.0, 50.0])
def test_whole_trees_match_twin_at_every_temperature(limit: int, temperature: float) -> None:
    policy = with_options(CONTEMPT, frozen_visit_limit=limit, frozen_temperature=temperature)
    for rules in (RULES["all legal"], RULES["same player twice"]):
        assert sampled(assert_twin_agrees(policy, rules)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 2, 60])
@pytest.mark.parametrize("limit", [3, -2])
def test_window_with_exploration_matches_twin(window: int, limit: int) -> None:
    """The windowed backup updates the counts that freeze."""
    policy = Contempt(40, limit, **grouped(EXPLORES, window=window))
    results = []
    for rules in (RULES["plain"], RULES["same player twice"], RULES["one legal action"]):
        results += assert_twin_agrees(policy, rules)
    assert sampled(results) > 20
    explored = sum(result.counters.explored for result in results)
    assert (explored > 0) == (window < 60)


@pytest.mark.slow
def test_minimax_and_rave_with_window_match_twin() -> None:
    """All post-backup statistics are enabled together."""
    policy = Contempt(40, 3, **grouped(EXPLORES, minimax_mix=0.4, rave_visits=9.0))
    assert sampled(assert_twin_agrees(policy, RULES["same player twice"])) > 10


@pytest.mark.slow
def test_max_depth_matches_twin() -> None:
    policy = with_options(CONTEMPT, max_depth=3)
    results = assert_twin_agrees(policy, RULES["one legal action"])
    assert sum(result.counters.depth_hits for result in results) > 40
    assert sampled(assert_twin_agrees(policy, RULES["plain"])) > 10


def test_node_owner_is_player_to_move() -> None:
    """If a player moves twice in a row, the parity of the depth would be wrong."""
    results = assert_twin_agrees(CONTEMPT, RULES["same player twice"])
    depths = [len(actions) % 2 for result in results for actions in result.frozen]
    assert set(depths) == {0, 1}
    results = assert_twin_agrees(CONTEMPT, RULES["all legal"])
    assert {len(actions) % 2 for result in results for actions in result.frozen} == {1}


def call(policy: Any, seeds: Any, key: Any, kept: Any = None, invalid: Any = None) -> Any:
    rules = RULES["same player twice"]
    step = functools.partial(hash_model.recurrent_fn, num_actions=ACTIONS)
    root = hash_model.roots(seeds, rules, ACTIONS)
    return policy(rules, key, root, step, invalid_actions=invalid, search_tree=kept)


@pytest.mark.slow
@pytest.mark.parametrize("options", [CALM, EXPLORES], ids=["full", "windowed"])
def test_no_limit_equals_alphazero(options: dict) -> None:
    """A limit that no node reaches also equals AlphaZero, apart from the extra statistics.

    Two programs may round differently: numbers are equal up to the last bits, all else exactly.
    """
    key, seeds = jax.random.key(3), jnp.arange(6)
    expected = fast_jit(functools.partial(call, AlphaZero(30, **options)))(seeds, key)
    for limit in (None, 31 if options is CALM else -31):
        found = fast_jit(functools.partial(call, Contempt(30, limit, **options)))(seeds, key)
        assert ("frozen" not in found.search_tree.stats[0].extra) == (limit is None)
        tree = found.search_tree
        bare = tree.replace(stats=(tree.stats[0].replace(extra={}),))
        found = found.replace(search_tree=bare)
        assert_close = functools.partial(np.testing.assert_allclose, rtol=2e-6, atol=1e-7)
        jax.tree.map(assert_close, found, expected)


@pytest.mark.slow
def test_samples_depend_only_on_element_and_key() -> None:
    search = fast_jit(functools.partial(call, CONTEMPT))
    seeds = jnp.arange(8)

    def trees(output: Any, places: Any) -> Any:
        return jax.tree.map(lambda x: np.asarray(x)[places], output.search_tree.stats)

    first = search(seeds, jax.random.key(0))
    again = search(seeds, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    crowd = search(seeds.at[3:].set(6), jax.random.key(0))
    jax.tree.map(
        np.testing.assert_array_equal,
        *(trees(output, np.array([0, 1, 2, 6])) for output in (first, crowd)),
    )
    other = search(seeds, jax.random.key(1))
    assert (first.action_weights != other.action_weights).any()
    # Elements with the same root are sampled separately, in any batch.
    assert len(set(np.asarray(crowd.search_tree.stats[0].node_values[3:, 0]).tolist())) > 3
    few = search(seeds[:3], jax.random.key(0))
    np.testing.assert_array_equal(few.action_weights, first.action_weights[:3])


@pytest.mark.parametrize("temperature", [0.05, 0.5, 1.0, 3.0])
def test_frozen_counts_are_sampled_in_proportion(temperature: float) -> None:
    visits = jnp.array([30, 0, 20, 50, 0], jnp.int32)
    keys = jax.random.split(jax.random.key(0), 20000)
    draws = sample_visits(keys, jnp.tile(visits, (20000, 1)), temperature)
    expected = (visits / 50) ** (1 / temperature)
    counts = np.bincount(draws, minlength=5) / 20000
    np.testing.assert_allclose(counts, expected / expected.sum(), atol=0.015)
    assert draws.dtype == jnp.int32
    assert counts[[1, 4]].sum() == 0


def next_root(rules: Any, root: Any, action: Any, new_seeds: Any) -> tuple[Any, Any]:
    """Plays actions; returns the next roots, with new games for finished ones, and which ended."""
    output, embedding = hash_model.recurrent_fn(rules, None, action, root.embedding, ACTIONS)
    is_over = output.discount == 0
    new = hash_model.roots(new_seeds, rules, ACTIONS)
    going_on = new.replace(
        prior_logits=output.prior_logits, value=output.value, embedding=embedding
    )

    def pick(x: Any, y: Any) -> Any:
        return jnp.where(is_over.reshape((-1,) + (1,) * (x.ndim - 1)), x, y)

    return jax.tree.map(pick, new, going_on), is_over


def search_twin(policy: Any, rules: Any, root: Any, key: Any, element: int, kept: Any) -> Any:
    """Runs the twin from one of the roots."""
    model = HashModel(0, rules, ACTIONS)
    here = jax.tree.map(lambda x: np.asarray(x)[element : element + 1], root)
    model.root = lambda: (here.prior_logits[0], here.value[0], here.embedding)
    batch_size = len(root.value)
    return contempt(model, policy, key, (element, batch_size), None, kept)


def num_full(nodes: list[Any] | None, limit: int) -> int:
    """Counts the nodes of a reused tree with enough visits to freeze, for each side."""
    return sum(twin.edges(node, 0)[0].sum() >= limit for node in nodes or ())


@pytest.mark.slow
@pytest.mark.parametrize("limit", [3, -3])
def test_reused_trees_match_twin(limit: int) -> None:
    """A new search freezes by the kept visits, from the view of the new root's player."""
    policy = Contempt(16, limit, **CALM, reuse_capacity=7)
    rules, seeds = RULES["same player twice"], np.arange(6)
    step = functools.partial(hash_model.recurrent_fn, num_actions=ACTIONS)
    root, kept = hash_model.roots(seeds, rules, ACTIONS), None
    twins: list[Any] = [None] * len(seeds)
    search = fast_jit(lambda root, key, kept: policy(rules, key, root, step, search_tree=kept))
    get_subtree = fast_jit(functools.partial(dualmctx.get_subtree, reuse_capacity=7))
    full = 0
    for move in range(4):
        key = jax.random.key(move)
        output = jax.tree.map(np.asarray, search(root, key, kept))
        action = output.action_weights.argmax(axis=-1).astype(np.int32)
        new_root, is_over = next_root(rules, root, action, seeds + 10 * (move + 1))
        for i in seeds:
            full += num_full(twins[i], abs(limit))
            result = search_twin(policy, rules, root, key, i, twins[i])
            assert_same_search(output, i, result)
            assert_same_frozen(output.search_tree, i, result)
            twins[i] = None if is_over[i] else twin.reroot(result.nodes, int(action[i]), 7)
        root, kept = new_root, get_subtree(output.search_tree, action, is_reset=is_over)
    assert full > 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_simulations": 0}, "num_simulations is 0; it must be at least 1"),
        ({"frozen_visit_limit": 0}, "frozen_visit_limit is 0; it must be positive, negative"),
        ({"frozen_temperature": 0.0}, "frozen_temperature is 0.0; it must be positive"),
        ({"frozen_temperature": float("nan")}, "frozen_temperature is nan; it must be positive"),
        ({"reuse_capacity": -1}, "reuse_capacity is -1; it must be at least 0"),
        (
            {"execution": Execution(leaves_per_step=4)},
            "leaves_per_step is 4; .* 1 with a frozen",
        ),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as info:
        Contempt(**options)
    assert "\n" not in str(info.value)
    assert Contempt(frozen_visit_limit=None, execution=Execution(leaves_per_step=4))


def test_reused_tree_of_other_policy_is_refused() -> None:
    kept = jax.eval_shape(
        lambda: dualmctx.get_subtree(
            call(AlphaZero(8), jnp.arange(2), jax.random.key(0)).search_tree,
            jnp.zeros(2, jnp.int32),
            reuse_capacity=3,
        )
    )
    search = functools.partial(call, Contempt(8, reuse_capacity=3))
    with pytest.raises(ValueError, match="another kind of search"):
        jax.eval_shape(search, jnp.arange(2), jax.random.key(0), kept)


def test_child_limit_counts_by_slot() -> None:
    policy = with_options(CONTEMPT, max_children=2)
    output = fast_jit(functools.partial(call, policy))(jnp.arange(6), jax.random.key(0))
    stats = output.search_tree.stats[0]
    counts = np.asarray(stats.extra["frozen"].visits)
    assert counts.shape == stats.children_visits.shape == (6, 41, 2)
    is_full = np.asarray(stats.children_visits).sum(axis=-1) >= 3
    assert is_full.sum() > 20
    assert (counts[is_full].sum(axis=-1) == 3).all()
    np.testing.assert_array_equal(counts[~is_full], stats.children_visits[~is_full])
    np.testing.assert_allclose(output.action_weights.sum(axis=-1), 1, atol=1e-6)
