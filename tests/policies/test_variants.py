"""docs/variants.md: the variants, their options and combinations, and the cost of a move."""

import dataclasses
import functools
import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

from documents import read, table
from dualmctx import make_model, make_search_fn
from dualmctx.models.costs import move_cost
from dualmctx.models.network import HeadOutput, Network
from dualmctx.models.search_fn import rollout_options
from dualmctx.policies import MPV, REGISTRY, Backup, Chain, Execution, Puct, Root
from dualmctx.policies.base import OneTree
from policy_table import COUNTS, VALUE_DEPTHS

GROUPS = {"puct": Puct, "root": Root, "backup": Backup, "execution": Execution}
PAGE = "docs/variants.md"


def test_every_variant_has_a_row() -> None:
    assert {row["variant"].strip("`") for row in table(PAGE, "variant | search")} == set(REGISTRY)
    for cells in table(PAGE, "option | alphazero"):
        assert cells.pop("option")
        assert set(cells) == set(REGISTRY)
        assert set(cells.values()) <= {"yes", "no"}


@pytest.mark.parametrize("name", REGISTRY)
def test_every_option_of_a_variant_is_named(name: str) -> None:
    [row] = [x for x in table(PAGE, "variant | search") if x["variant"] == f"`{name}`"]
    options = {field.name for field in dataclasses.fields(REGISTRY[name].policy)}  # pyright: ignore
    named = set(re.findall(r"`(\w+)`", row["own options"]))
    shared = {"reuse_capacity"}
    if issubclass(REGISTRY[name].policy, OneTree):
        shared |= {field.name for field in dataclasses.fields(OneTree)}
        assert all(f"`{option}`" in read(PAGE) for option in shared)
    assert options - set(GROUPS) - shared == named


def test_every_option_of_a_group_is_named() -> None:
    rows = table(PAGE, "option | group")
    for group, cls in GROUPS.items():
        mine = [row["option"] for row in rows if row["group"] == f"`{group}`"]
        named = {name for option in mine for name in re.findall(r"`(\w+)`", option)}
        assert named == {field.name for field in dataclasses.fields(cls)}


@chex.dataclass(frozen=True)
class Position:
    """A position of a game without end; the players take turns."""

    current_player: Any
    observation: Any
    legal_action_mask: Any
    rewards: Any
    terminated: Any
    truncated: Any


class Endless:
    """A game of nine actions in which every simulation ends at a new node."""

    def init(self, rng_key: Any) -> Position:
        del rng_key
        no = jnp.zeros((), bool)
        return Position(
            current_player=jnp.int32(0),
            observation=jnp.zeros(1),
            legal_action_mask=jnp.ones(9, bool),
            rewards=jnp.zeros(2),
            terminated=no,
            truncated=no,
        )

    def step(self, state: Position, action: Any) -> Position:
        del action
        player = 1 - state.current_player
        return dataclasses.replace(state, current_player=player, observation=jnp.zeros(1))

    def observe(self, state: Position) -> Any:
        del state
        return jnp.zeros(1)


@dataclasses.dataclass
class Counting:
    """A network of no opinions that counts the residual blocks it would run."""

    head_depths: tuple[int, ...]
    is_separate: bool = False
    value_depth: int | None = None
    num_blocks: int = 0

    def apply(
        self, params: Any, x: Any, head: int, later: int | None = None, *, method: str
    ) -> Any:
        del params
        number, blocks = x.shape[0], self.head_depths[head]
        if method == "resume":
            assert later is not None
            blocks = self.head_depths[later] - blocks
        if head == len(self.head_depths) - 1:
            blocks += self.value_depth or 0
        jax.debug.callback(functools.partial(self.add, number * blocks))
        activations = None if self.is_separate else jnp.zeros((number, 1))
        return activations, HeadOutput(jnp.zeros((number, 9)), jnp.zeros(number))

    def add(self, number: int) -> None:
        self.num_blocks += number


def count_blocks(policy: Any, network: Counting, **options: Any) -> int:
    """Returns the blocks that a search of one root runs, the root's own evaluation apart."""
    env = Endless()
    states = jax.vmap(env.init)(jax.random.split(jax.random.key(0), 1))
    model = make_model(env, network, heads=policy.heads, **options)
    root = model.root_fn(None, states)
    refine_fns = model.refine_fn if isinstance(model.refine_fn, tuple) else (model.refine_fn,)
    for refine_fn in refine_fns:
        if refine_fn is not None:
            refine_fn(None, jax.random.key(0), root.embedding)
    for rollout_fn in rollout_options(env, network, policy).values():
        rollout_fn(None, jax.random.key(0), root.embedding)
    jax.effects_barrier()
    of_root = network.num_blocks
    search = jax.jit(make_search_fn(env, network, policy, **options))
    jax.block_until_ready(search(None, jax.random.key(0), states).action)
    jax.effects_barrier()
    return network.num_blocks - 2 * of_root


# Chains are counted below.
@pytest.mark.parametrize(
    ("name", "policy", "depths", "options"), [row for row in COUNTS if row[0] != "`chain`"]
)
def test_cost_of_a_move(name: str, policy: Any, depths: tuple[int, ...], options: dict) -> None:
    row = next(row for row in table(PAGE, "variant | formula") if name in row["variant"])
    terms, result = row["blocks per move"].split(" = ")
    assert eval(terms.replace("·", "*").replace("−", "-")) == int(result)
    value_depth = VALUE_DEPTHS.get(name)
    network = Counting(depths, isinstance(policy, MPV) or value_depth is not None, value_depth)
    assert count_blocks(policy, network, **options) == int(result)


@pytest.mark.slow
def test_cost_of_a_node_that_a_later_tree_finds_by_itself() -> None:
    network = Counting((1, 2, 4))
    # One node of the first tree; the second evaluates it; the third it and three of its own.
    first, second, third = 1, 2 - 1, 4 * (4 - 1)
    found = 3 * (1 + (2 - 1) + (4 - 1))
    assert count_blocks(Chain((1, 1, 4), 1), network) == first + second + third + found


@pytest.mark.slow
def test_a_round_without_a_share_makes_no_call() -> None:
    policy, depths = Chain((8, 5, 2), num_rounds=5), (1, 2, 4)
    expected = move_cost(policy, Network(9, head_depths=depths)).blocks
    assert count_blocks(policy, Counting(depths)) == expected


def test_every_row_of_the_costs_is_counted() -> None:
    rows = [row["variant"] for row in table(PAGE, "variant | formula")]
    assert all(any(name in row for name, *_ in COUNTS) for row in rows)
