"""Speculation: the search is the ordinary one, slot by slot, and its calls are those of a twin."""

import copy
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualmctx
import hash_model
from dualmctx import AlphaZero, with_options
from dualmctx.search import speculation
from oracle import twin
from oracle.cases import CALM, RULES, assert_same
from oracle.models import HashModel
from pairwise import quick_first

B, A, N = 5, 5, 40
KEY = jax.random.PRNGKey(3)
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "calls wider than the budget": ({}, 3 * N),
    "window": ({"window": 2, "explore_fraction": 0.0, "minimax_mix": 0.4, "rave_visits": 9.0}, 6),
    "few children": (
        {"max_children": 3, "max_depth": 4, "visit_weights": "smoothed", "regularized": ("act",)},
        6,
    ),
    "pairs": ({"virtual_loss": 3}, 2),
}


@functools.cache
def compiled(policy: AlphaZero) -> Any:
    """Returns a search `(rules, seeds or roots, **arguments) -> PolicyOutput`."""

    def run(rules: Any, roots: Any, **arguments: Any) -> Any:
        return hash_model.search(policy, rules, KEY, roots, A, **arguments)

    return jax.jit(run)


@pytest.mark.parametrize("case", quick_first(CASES, 1))
def test_whole_trees_are_those_of_the_ordinary_search(case: str) -> None:
    """The trees of a batch progress at different speeds, as some games end soon."""
    options, width = CASES[case]
    policy = with_options(AlphaZero(N), **options)
    # Which has one leaf per step, and so no virtual losses.
    ordinary = compiled(with_options(policy, virtual_loss=0))
    guessing = compiled(with_options(policy, speculation=width))
    for rules in RULES.values():
        assert_same(guessing(rules, jnp.arange(B)), ordinary(rules, jnp.arange(B)))


@pytest.mark.slow
def test_kept_trees_are_those_of_the_ordinary_search() -> None:
    """With a second opinion at the root, and with an action that is not allowed there."""
    policy = AlphaZero(N, head=0, root_head=-1, reuse_capacity=N // 2)
    root, rules = hash_model.roots(np.arange(B), RULES["plain"], A, np), RULES["plain"]
    keep = jax.jit(functools.partial(dualmctx.get_subtree, reuse_capacity=N // 2))
    first = compiled(policy)(rules, root)
    kept = keep(first.search_tree, first.action)
    assert np.any(np.asarray(kept.stats[0].node_visits[:, 0]) > 1)
    played = np.asarray(first.action)
    _, embedding = hash_model.recurrent_fn(rules, None, played, root.embedding, A, np)
    second, invalid = root.replace(embedding=embedding), np.arange(A) == np.ones((B, 1))
    assert_same(
        *(
            compiled(each)(rules, second, search_tree=kept, invalid_actions=invalid)
            for each in (policy, with_options(policy, speculation=6))
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("spare", [0, 3])
def test_a_full_tree_evaluates_only_the_leaf_asked_for(
    spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speculation, "num_spare", lambda _: spare)
    policy = with_options(AlphaZero(N), **CALM)
    ordinary = compiled(policy)(RULES["plain"], jnp.arange(B))
    found, calls = counted(with_options(policy, speculation=6), RULES["plain"], jnp.arange(B))
    assert_same(found, ordinary)
    number = np.asarray(ordinary.search_tree.edges >= 0).sum(axis=1).max()
    assert calls == number if spare == 0 else calls < number


def test_the_tree_has_the_types_of_the_ordinary_one() -> None:
    """Nodes guessed in vain take the number of slots above what int16 can count."""
    shapes = [
        jax.eval_shape(compiled(policy), RULES["plain"], jnp.arange(1))
        for policy in (AlphaZero(30_000), with_options(AlphaZero(30_000), speculation=8))
    ]
    assert shapes[0] == shapes[1]
    assert shapes[0].search_tree.children_index.dtype == jnp.int16


def counted(policy: AlphaZero, rules: Any, seeds: Any) -> tuple[Any, int]:
    """Searches; returns the output and the number of calls."""
    run, rows = _counting(policy, speculation.num_spare(N))
    before = len(rows)
    output = jax.block_until_ready(run(rules, seeds))
    jax.effects_barrier()
    return output, len(rows) - before


@functools.cache
def _counting(policy: AlphaZero, _: int) -> tuple[Any, list[int]]:
    rows = list[int]()

    def recurrent_fn(params: Any, rng_key: Any, action: Any, embedding: Any) -> Any:
        jax.debug.callback(lambda x: rows.append(len(x)), action)
        return hash_model.recurrent_fn(params, rng_key, action, embedding, A)

    def run(rules: Any, seeds: Any) -> Any:
        return policy(rules, KEY, hash_model.roots(seeds, rules, A), recurrent_fn)

    return jax.jit(run), rows


class Speculating(twin.Search):
    """The ordinary search, which knows the evaluations of the positions in `known`."""

    def __init__(self, model: HashModel, policy: AlphaZero) -> None:
        super().__init__(twin.Task(model, policy, None, (0, 1)))
        self.known = set[tuple[int, ...]]()

    def next_leaf(self) -> tuple[twin.Node, int]:
        """Returns the parent and the action of the edge with which the next simulation ends."""
        node = self.root
        while True:
            action = self.choose(node, 0, None)
            child = node.children.get(action)
            if child is None or child.discount == 0 or child.depth == self.max_depth:
                return node, action
            node = child

    def needs(self) -> tuple[int, ...] | None:
        """Returns the position for which the search needs a call; `None` for none."""
        node, action = self.next_leaf()
        leaf = (*node.actions, action)
        return None if action in node.children or leaf in self.known else leaf

    def guesses(self, number: int, walks: int) -> list[tuple[int, ...]]:
        """Returns the next new positions if each has the mean of its parent and ends the game."""
        found, search = list[tuple[int, ...]](), copy.deepcopy(self)
        for _ in range(walks):
            leaf, (node, action) = search.needs(), search.next_leaf()
            if leaf is None:
                search.simulate(0, None)
                continue
            found.append(leaf)
            end = search.create(node, action, twin.SMALL)
            end.raw, end.reward, end.discount = 0.0, node.stats[0].mean, 0.0
            search.backup(end, 0)
            if len(found) == number:
                break
        return found


def count_calls(policy: AlphaZero, rules: Any, seed: int) -> tuple[int, int]:
    """Counts the calls of the search from one root, and those of the ordinary search."""
    search, calls = Speculating(HashModel(seed, rules, A), policy), 0
    width, spare = policy.execution.speculation, (N + 1) // 2
    for done in range(N):
        if search.needs() is not None:
            left = N - done
            empty = N + spare - len(search.known)
            number = min(width, left, 1 + empty - left)
            search.known.update(search.guesses(number, min(2 * width, left)))
            calls += 1
        search.simulate(0, None)
    return calls, len(search.nodes) - 1


@pytest.mark.slow
@pytest.mark.parametrize(("width", "other"), [(2, "plain"), (8, "same player twice")])
def test_the_calls_are_those_of_the_twin(width: int, other: str) -> None:
    policy = with_options(AlphaZero(N, **CALM), speculation=width)
    for kind in ("often terminal", other):
        counts = [count_calls(policy, RULES[kind], seed) for seed in range(B)]
        expected, most = zip(*counts, strict=True)
        found = [counted(policy, RULES[kind], jnp.full(B, seed))[1] for seed in range(B)]
        assert found == list(expected)
        # In a batch, the tree with the most calls determines their number.
        assert counted(policy, RULES[kind], jnp.arange(B))[1] == max(expected)
        assert sum(expected) < sum(most) / (1.5 if width == 2 else 2.5)
