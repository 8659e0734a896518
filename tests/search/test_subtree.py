"""Subtree reuse: kept and dropped nodes, and whole episodes against the plain-Python twin."""

import collections
import functools
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualmctx
import hash_model
from dualmctx import AlphaZero, Backup, Chain, Contempt, Dual, Execution, MuZero, Root
from dualmctx.search.expand import allocate
from dualmctx.search.slots import root_slots
from oracle import twin
from oracle.alphago import HashAlphaGo
from oracle.cases import CALM, RULES, WINDOWED, grouped
from oracle.compare import as_in_twin, assert_same_search, run_twin
from oracle.models import HashModel
from pairwise import quick_first

NUM_ACTIONS = 4
SEEDS = np.arange(6)
SHORT = RULES["same player twice"]._replace(terminal=0.15)
BANNED = RULES["no illegal, no end"]
# The reused tree is deep, and deeper after the next search.
CHAIN = RULES["one legal action"]._replace(terminal=0.0)
EXPLORES = grouped(WINDOWED, window=2, explore_fraction=0.5, max_depth=4)
# The capacity is smaller than the subtrees, so some nodes are dropped.
POLICIES = {
    "alphazero": AlphaZero(14, **CALM, reuse_capacity=5),
    "alphazero options": AlphaZero(
        14, **grouped(EXPLORES, minimax_mix=0.4, rave_visits=9.0), reuse_capacity=5
    ),
    "leaves and children": AlphaZero(
        14, **grouped(CALM, leaves_per_step=4, max_children=3), reuse_capacity=6
    ),
    # A new search freezes by the kept visits, from the view of the new root's player.
    "contempt": Contempt(14, -3, **CALM, reuse_capacity=7),
    "alphago": HashAlphaGo(14, **CALM, reuse_capacity=6),
    "muzero window": MuZero(
        14,
        root=Root(dirichlet_fraction=0.0),
        backup=Backup(window=2, explore_fraction=0.5),
        reuse_capacity=5,
    ),
    "dual window": Dual((9, 9), 3, reuse_capacity=7, **WINDOWED),
    # If the large tree adds nodes itself, the small tree has not visited every new root.
    "chain": Chain((6, 6, 6), 3, reuse_capacity=3, **CALM),
}
get_subtree = jax.jit(dualmctx.get_subtree, static_argnames="reuse_capacity")


@functools.cache
def searcher(policy: Any) -> Any:
    """Returns the jitted search on the hash game, with a reused tree."""

    def search(rules: Any, key: Any, root: Any, invalid: Any, kept: Any) -> Any:
        arguments = {"invalid_actions": invalid, "search_tree": kept}
        return hash_model.search(policy, rules, key, root, NUM_ACTIONS, **arguments)

    return jax.jit(search)


@functools.cache
def nothing_kept(policy: Any) -> dualmctx.Tree:
    """Returns empty trees, the initial carry of a scan."""
    root = hash_model.roots(SEEDS, hash_model.Rules(), NUM_ACTIONS)

    def search(rules: Any, key: Any, root: Any, search_tree: Any = None) -> Any:
        return hash_model.search(policy, rules, key, root, NUM_ACTIONS, search_tree=search_tree)

    return dualmctx.empty_tree(
        search, hash_model.Rules(), root, reuse_capacity=policy.reuse_capacity
    )


class Episode:
    """Games side by side: the roots, their models for the twin, and the reused trees of both."""

    def __init__(self, policy: Any, rules: Any, key_seed: int = 0) -> None:
        self.policy, self.rules = policy, rules
        self.random = np.random.default_rng(key_seed)
        self.key = jax.random.key(key_seed)
        self.num_seeds = len(SEEDS)
        self.root = hash_model.roots(SEEDS, rules, NUM_ACTIONS)
        self.kept = nothing_kept(policy)
        self.invalid = np.zeros((len(SEEDS), NUM_ACTIONS), bool)
        self.twins: list[Any] = [None] * len(SEEDS)

    def not_allowed(self) -> np.ndarray:
        """Returns the invalid actions; mctx's policies must be given the illegal root actions."""
        is_told = isinstance(self.policy, MuZero)
        return self.invalid | (is_told & (np.asarray(self.root.prior_logits) < -1e9))

    def search(self) -> Any:
        self.key, key = jax.random.split(self.key)
        self.last_key = key
        search = searcher(self.policy)
        output = search(self.rules, key, self.root, self.not_allowed(), self.kept)
        return jax.tree.map(np.asarray, output)

    def search_twin(self, element: int) -> twin.Result:
        model = HashModel(0, self.rules, NUM_ACTIONS)
        root = jax.tree.map(lambda x: np.asarray(x)[element : element + 1], self.root)
        model.root = lambda: (root.prior_logits[0], root.value[0], root.embedding)
        place, legal = (element, len(SEEDS)), ~self.not_allowed()[element]
        return run_twin(self.policy, model, self.last_key, place, legal, self.twins[element])

    def choose(self, output: Any) -> np.ndarray:
        """Returns the best actions, and sometimes any other action, visited or not."""
        best = output.action_weights.argmax(axis=-1)
        legal = output.search_tree.children_prior[:, 0] > 0
        legal = output.action_weights + (legal if legal.shape[1] == NUM_ACTIONS else 0)
        shares = legal / legal.sum(axis=-1, keepdims=True)
        other = [self.random.choice(NUM_ACTIONS, p=p) for p in shares]
        return np.where(self.random.random(len(SEEDS)) < 0.3, other, best).astype(np.int32)

    def play(self, tree: Any, action: np.ndarray) -> np.ndarray:
        """Plays the moves and replaces finished games by new ones; returns which were replaced."""
        step = fast_step()
        output, embedding = step(self.rules, action, self.root.embedding)
        is_over = np.asarray(output.discount) == 0
        seeds = self.num_seeds + np.arange(len(SEEDS))
        self.num_seeds += len(SEEDS)
        new = hash_model.roots(seeds, self.rules, NUM_ACTIONS)
        going_on = new.replace(
            prior_logits=output.prior_logits, value=output.value, embedding=embedding
        )

        def pick(x: Any, y: Any) -> Any:
            return jnp.where(is_over.reshape((-1,) + (1,) * (x.ndim - 1)), x, y)

        self.root = jax.tree.map(pick, new, going_on)
        self.kept = get_subtree(
            tree, action, reuse_capacity=self.policy.reuse_capacity, is_reset=is_over
        )
        return is_over


@functools.cache
def fast_step() -> Any:
    return jax.jit(
        lambda rules, action, embedding: hash_model.recurrent_fn(
            rules, None, action, embedding, NUM_ACTIONS
        )
    )


@pytest.mark.parametrize("name", quick_first(POLICIES, 2))
def test_episodes_match_twin(name: str) -> None:
    for rules in (SHORT, BANNED, CHAIN):
        play_and_compare(name, rules)


def play_and_compare(name: str, rules: Any) -> None:
    """Plays five moves; in the game BANNED, another root action is invalid in each."""
    here = Episode(POLICIES[name], rules)
    counts = collections.Counter()
    for _ in range(5):
        if rules is BANNED:
            here.invalid = np.eye(NUM_ACTIONS, dtype=bool)[here.random.integers(4, size=len(SEEDS))]
        output = here.search()
        results = [here.search_twin(i) for i in range(len(SEEDS))]
        for i, result in enumerate(results):
            assert_same_search(as_in_twin(here.policy, output, NUM_ACTIONS), i, result)
        action = here.choose(output)
        is_over = here.play(output.search_tree, action)
        for i, result in enumerate(results):
            child = result.nodes[0].children.get(int(action[i]))
            size = sum(child in node.path for node in result.nodes)
            nodes = twin.reroot(result.nodes, int(action[i]), here.policy.reuse_capacity)
            here.twins[i] = nodes = None if is_over[i] else nodes
            counts["kept"] += nodes is not None and len(nodes) > 1
            counts["dropped"] += nodes is not None and size > len(nodes)
            counts["over"] += bool(is_over[i])
            counts["untried"] += child is None
    # With a depth limit, a chain is short.
    assert counts["dropped"] > 2 or (rules is CHAIN and here.policy.execution.max_depth)
    assert counts["kept"] > 2
    assert (counts["over"] > 0) == (rules.terminal > 0)
    assert name != "alphazero" or rules is not SHORT or counts["untried"] > 0


def played(name: str, num_moves: int = 2) -> tuple[Episode, Any, np.ndarray, np.ndarray]:
    """Returns games after some moves, the last trees, the moves played, and which are reset.

    The first game is reset in any case.
    """
    here = Episode(POLICIES[name], SHORT, key_seed=1)
    for _ in range(num_moves):
        output = here.search()
        action = here.choose(output)
        is_reset = here.play(output.search_tree, action) | (SEEDS == 0)
    tree = output.search_tree
    here.kept = get_subtree(
        tree, action, reuse_capacity=here.policy.reuse_capacity, is_reset=is_reset
    )
    return here, tree, action, is_reset


@pytest.mark.slow
def test_reused_tree_has_consistent_rows_and_empty_slots() -> None:
    """A row agrees with its children; empty slots are as newly allocated."""
    tree = jax.tree.map(np.asarray, played("dual window")[0].kept)
    batch = np.arange(len(SEEDS))[:, None, None]
    is_child = tree.children_index >= 0
    for stats in tree.stats:
        visits = stats.node_visits[batch, tree.children_index] * is_child
        np.testing.assert_array_equal(stats.children_visits, visits)
        qvalues = (tree.rewards + tree.discounts * stats.node_values)[batch, tree.children_index]
        np.testing.assert_allclose(stats.children_qvalues, qvalues * (visits > 0), atol=1e-6)
    is_empty = tree.parents < 0
    is_empty[:, 0] = sum(stats.node_visits[:, 0] for stats in tree.stats) == 0
    assert 0 < is_empty[:, 0].sum() < len(SEEDS)
    assert (tree.children_index[is_empty] == -1).all()
    assert (tree.parents[is_empty] == -1).all()
    assert (tree.action_from_parent[is_empty] == -1).all()
    numbers = (tree.children_prior, tree.raw_values, tree.rewards, tree.embeddings, tree.stats)
    assert all((x[is_empty] == 0).all() for x in jax.tree.leaves(numbers))
    assert (tree.discounts[:, 1:][is_empty[:, 1:]] == 0).all()


@pytest.mark.slow
def test_reset_elements_start_empty_and_independent() -> None:
    here, before, action, is_over = played("dual window")
    key, capacity = here.key, here.policy.reuse_capacity

    def run(kept: Any) -> Any:
        here.key, here.kept = key, kept
        output = here.search()
        return output.search_tree, output.action_weights

    def keep(is_reset: Any) -> Any:
        return get_subtree(before, action, reuse_capacity=capacity, is_reset=jnp.asarray(is_reset))

    some = np.arange(len(SEEDS)) % 2 == 0
    going_on, mixed = run(keep(is_over)), run(keep(is_over | some))
    fresh = run(nothing_kept(here.policy))
    assert_same_elements(mixed, fresh, some)
    assert_same_elements(mixed, going_on, ~some)
    was_kept = going_on[0].parents[:, 1 : 1 + capacity].max(axis=1) >= 0
    assert (was_kept & some).any()
    assert (was_kept & ~some).any()


@pytest.mark.slow
def test_invalid_action_keeps_nothing() -> None:
    """Includes numbers that would index the row of another tree."""
    here = Episode(POLICIES["leaves and children"], BANNED)
    output = here.search()
    action = output.action.copy()
    action[::2] = [2 * NUM_ACTIONS - 1, -1, NUM_ACTIONS]
    kept = jax.tree.map(np.asarray, get_subtree(output.search_tree, action, reuse_capacity=6))
    is_kept = kept.stats[0].node_visits[:, 0] > 0
    assert is_kept.tolist() == [False, True] * 3
    is_reset = get_subtree(
        output.search_tree, output.action, reuse_capacity=6, is_reset=SEEDS % 2 == 0
    )
    jax.tree.map(np.testing.assert_array_equal, kept, is_reset)


@pytest.mark.parametrize("num_actions", [4, 300])
def test_an_action_of_any_type_has_its_slot(num_actions: int) -> None:
    """The number of actions does not fit some types, and -1 others."""
    zeros = jnp.zeros(5)
    tree = allocate(jnp.ones((5, num_actions)), zeros, zeros, num_nodes=2)
    for dtype in ("int8", "uint8", "int16", "uint32", "int64"):
        action = np.array([-1, 3, 100, 200, 255]).astype(dtype)
        expected = [x if 0 <= x < num_actions else -1 for x in action.tolist()]
        assert root_slots(tree, jnp.asarray(action)).tolist() == expected


def assert_same_elements(actual: Any, expected: Any, where: np.ndarray) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[where], y[where]), actual, expected)


@pytest.mark.slow
def test_get_subtree_has_no_loop_over_nodes() -> None:
    """It has as many steps as the capacity has binary digits, and no loop."""
    _, before, action, _ = played("dual window", 1)

    def steps(num_copies: int) -> list[str]:
        tree = jax.tree.map(lambda x: np.concatenate([x] * num_copies, axis=1), before)
        jaxpr = jax.make_jaxpr(functools.partial(dualmctx.get_subtree, reuse_capacity=6))(
            tree, action
        )
        return [eqn.primitive.name for eqn in jaxpr.eqns]

    assert not {"while", "scan"} & set(steps(1))
    # Compiled with default options; the options of the tests use loops in a scatter.
    options = {"xla_cpu_use_fusion_emitters": True} if "emitters" in os.environ["XLA_FLAGS"] else {}
    lowered = get_subtree.lower(before, action, reuse_capacity=6)
    compiled = lowered.compile(compiler_options=options).as_text()
    assert " gather(" in compiled
    assert " while(" not in compiled
    assert len(steps(8)) - len(steps(1)) == 3 * (len(steps(2)) - len(steps(1)))


@pytest.mark.slow
def test_a_tree_read_from_the_device_is_reused_without_jit() -> None:
    kept = jax.device_get(nothing_kept(KEEPS))
    root = hash_model.roots(SEEDS, SHORT, NUM_ACTIONS)
    inputs = KEEPS, SHORT, jax.random.key(0), root, NUM_ACTIONS
    output = jax.eval_shape(lambda: hash_model.search(*inputs, search_tree=kept))
    assert output.search_tree.num_nodes == 6


KEEPS = AlphaZero(3, reuse_capacity=2)
FEW_CHILDREN = AlphaZero(3, execution=Execution(max_children=3), reuse_capacity=2)
OTHER_KIND = "another kind of search or another batch"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "batch", "words"),
    [
        (MuZero(3, reuse_capacity=2), KEEPS, 6, OTHER_KIND),
        (KEEPS, MuZero(3, reuse_capacity=2), 6, OTHER_KIND),
        (FEW_CHILDREN, KEEPS, 6, OTHER_KIND),
        (KEEPS, KEEPS, 2, OTHER_KIND),
        (KEEPS, AlphaZero(3, reuse_capacity=3), 6, "has 3 nodes; .*here 3"),
        (KEEPS, Dual((2, 1), 1), 6, "the policy reuses no tree; leave it out"),
    ],
    ids=["logits", "probabilities", "slots", "batch", "capacity", "no capacity"],
)
def test_tree_of_other_kind_is_refused(before: Any, after: Any, batch: int, words: str) -> None:
    root = hash_model.roots(SEEDS, SHORT, NUM_ACTIONS)
    kept = jax.tree.map(lambda x: np.asarray(x)[:batch], nothing_kept(before))
    with pytest.raises(ValueError, match=words) as info:
        jax.eval_shape(searcher(after), SHORT, jax.random.key(0), root, None, kept)
    assert "\n" not in str(info.value)
