"""Properties of every policy: legal, normalised, independent in the batch, reproducible, sound."""

import functools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import hash_model
from dualmctx import AlphaZero, Backup, Dual, Puct, Root, make_network, make_search_fn
from dualmctx.policies import root as roots
from dualmctx.search.slots import played_actions
from oracle.cases import assert_same
from pairwise import quick_first
from policy_table import POLICIES

# Without searches whose code is that of a chain or of other rows: several trees compile for long.
NAMES = [name for name in POLICIES if name not in ("dual", "mpv", "dual few children")]
# Moves from the start, and the only good answer.
POSITIONS: dict[str, tuple[tuple[int, ...], int | None]] = {
    "win": ((0, 3, 1, 4), 2),
    "win of the second player": ((0, 3, 1, 4, 8), 5),
    "block": ((4, 0, 1), 7),
    "block of the first player": ((0, 4, 1, 2, 7), 6),
    "last move": ((0, 1, 2, 4, 3, 5, 7, 6), 8),
    "start": ((), None),
    "opening": ((4,), None),
    "won": ((0, 3, 1, 4, 2), None),
    "drawn": ((0, 1, 2, 4, 3, 5, 7, 6, 8), None),
}


class Start(NamedTuple):
    """The game, a batch of its positions with a key each, and the compiled step of the batch."""

    env: Any
    states: Any
    keys: Any
    step: Any


@functools.cache
def start() -> Start:
    env = games.make("tic_tac_toe")
    step = jax.jit(env.step)

    def play(moves: tuple[int, ...]) -> Any:
        state = env.init(jax.random.key(1))
        for move in moves:
            state = step(state, jnp.int32(move))
        return state

    states = [play(moves) for moves, _ in POSITIONS.values()]
    states = jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *states)
    keys = jax.random.split(jax.random.key(0), len(POSITIONS))
    return Start(env, states, keys, jax.jit(jax.vmap(env.step)))


class Arena:
    """A small network and a jitted search."""

    def __init__(self, policy: Any) -> None:
        here = start()
        network = make_network(
            here.env.num_actions,
            (1,),
            width=8,
            num_blocks=max(2, len(policy.heads)),
            num_heads=len(policy.heads),
            separate_trunks=policy.traits.separate_trunks,
        )
        init = jax.jit(network.init)
        self.zeros = jax.device_get(init(jax.random.key(0), here.states.observation))
        draws = np.random.default_rng(0)
        self.params = jax.tree.map(lambda x: noisy(x, draws), self.zeros)
        self.search = jax.jit(make_search_fn(here.env, network, policy))


def noisy(x: Any, draws: Any) -> Any:
    return (x + draws.normal(0, 0.4, x.shape)).astype(np.float32)


@functools.cache
def arena(name: str) -> Arena:
    return Arena(POLICIES[name])


@functools.cache
def searched(name: str) -> Any:
    here = arena(name)
    # As NumPy's arrays: with JAX's, each new shape that a test indexes would be compiled.
    return jax.device_get(here.search(here.params, start().keys, start().states))


def assert_is_policy(out: Any, legal: Any) -> None:
    batch, legal = np.arange(legal.shape[0]), np.asarray(legal)
    assert np.isfinite(out.action_weights).all()
    assert (out.action_weights >= 0).all()
    np.testing.assert_allclose(out.action_weights.sum(axis=-1), 1, atol=1e-5)
    assert (out.action_weights[~legal] == 0).all()
    assert legal[batch, out.action].all()
    assert (out.action_weights[batch, out.action] > 0).all()


@pytest.mark.parametrize("name", quick_first(NAMES, 3))
def test_only_legal_actions_and_weights_sum_to_one(name: str) -> None:
    out = searched(name)
    assert_is_policy(out, start().states.legal_action_mask)
    # Below the root too: every edge of the tree is a legal move of the state it leaves.
    tree = out.search_tree
    mask = tree.embeddings.state.legal_action_mask
    batch, node = np.nonzero(np.asarray(tree.parents) >= 0)
    played = played_actions(tree)[batch, node]
    assert np.asarray(mask)[batch, tree.parents[batch, node], played].all()


@pytest.mark.slow
@pytest.mark.parametrize("name", quick_first(NAMES, 3))
def test_finished_games_are_worth_nothing_and_stay_finite(name: str) -> None:
    over, out = start().states.terminated, searched(name)
    assert over.any()
    for tree_index in range(len(out.search_tree.stats)):
        summary = out.search_tree.summary(tree_index)
        assert (summary.value[over] == 0).all()
        assert (summary.qvalues[over] == 0).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(out.search_tree.stats))


@pytest.mark.parametrize("name", quick_first(NAMES, 3))
def test_elements_of_the_batch_are_independent(name: str) -> None:
    """With a key for each: what an element finds depends neither on its place nor on the others."""
    here, expected = arena(name), searched(name)
    _, states, keys, _ = start()

    def search(places: Any) -> Any:
        return here.search(here.params, keys[places], at(places, states))

    places = np.arange(len(POSITIONS))
    assert_same(at(places[::-1], search(places[::-1])), expected)
    # How often Dual's large tree must fend for itself depends on the neighbours.
    finished = int(np.argmax(states.terminated))
    for kept, others in ((2, finished), (finished, finished)):
        crowd = np.where(places == kept, kept, others)
        assert_same(at(kept, search(crowd)), at(kept, expected))


def at(place: Any, tree: Any) -> Any:
    return jax.tree.map(operator.itemgetter(place), jax.device_get(tree))


@pytest.mark.parametrize("name", quick_first(NAMES, 3))
def test_same_key_same_result_and_one_trace(name: str) -> None:
    here, out = arena(name), searched(name)
    _, states, keys, step = start()
    before = here.search._cache_size()
    assert_same(here.search(here.params, keys, states), out)
    played = step(states, out.action)
    here.search(here.zeros, jax.random.split(jax.random.key(5), len(keys)), played)
    assert here.search._cache_size() == before


@pytest.mark.parametrize("name", quick_first([x for x in NAMES if x != "gumbel noisy"], 2))
def test_finds_the_only_move(name: str) -> None:
    """A network that knows nothing suffices to win at once, and to stop the opponent's win."""
    here = arena(name)
    out = here.search(here.zeros, start().keys, start().states)
    answers = [answer for _, answer in POSITIONS.values()]
    for action, answer in zip(out.action.tolist(), answers, strict=True):
        assert answer in (None, action)


NOISY = {
    "alphazero": AlphaZero(9),
    "dual": Dual((6, 12), 3, backup=Backup(window=1, explore_fraction=1.0, explore_decay=1.0)),
}
SEEDS = np.arange(8)


def hash_search(name: str, key: Any, seeds: Any = SEEDS) -> Any:
    return hash_model.search(NOISY[name], hash_model.Rules(illegal=0.4), key, seeds, 4)


@functools.cache
def jitted_hash_search(name: str) -> Any:
    return jax.jit(functools.partial(hash_search, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISY)
def test_noise_comes_from_the_key_and_jit_changes_nothing(name: str) -> None:
    """mctx's policies have mctx's noise, key by key: see test_mctx.py."""
    search = jitted_hash_search(name)
    first, again, other = (jax.device_get(search(jax.random.key(x), SEEDS)) for x in (0, 0, 1))
    assert_same(again, first)
    prior, other_prior = (out.search_tree.children_prior[:, 0] for out in (first, other))
    np.testing.assert_array_equal(prior > 0, other_prior > 0)
    assert_is_policy(first, prior > 0)
    assert (prior != other_prior).any()
    assert (first.action_weights != other.action_weights).any()
    if name == "alphazero":  # Without jit each operation compiles: one policy must do.
        assert_same(hash_search(name, jax.random.key(0)), first)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISY)
def test_noise_does_not_depend_on_the_neighbours(name: str) -> None:
    """With one key for all: how many draws Dual's large tree needs in a batch depends on all."""

    def search(seeds: Any) -> Any:
        out = jitted_hash_search(name)(jax.random.key(0), seeds)
        return jax.device_get(out.search_tree.stats)

    expected = search(SEEDS)
    for kept in range(4):
        assert_same(at(kept, search(np.where(kept == SEEDS, kept, 4))), at(kept, expected))


@pytest.mark.slow
def test_dirichlet_noise_is_on_legal_actions_in_the_share_asked_for() -> None:
    legal = jnp.array([True, False, True, True])
    prior = jnp.where(legal, jnp.array([0.7, 0.0, 0.2, 0.1]), 0.0) * jnp.ones((4000, 1))
    add = functools.partial(roots.add_dirichlet_noise, jax.random.key(0), prior)
    noisy = add(fraction=0.25, alpha=0.3)
    assert (noisy[:, 1] == 0).all()
    assert (noisy[:, legal] > 0).all()
    np.testing.assert_allclose(noisy.sum(axis=-1), 1, atol=1e-5)
    expected = 0.75 * prior[0] + 0.25 * legal / 3
    np.testing.assert_allclose(noisy.mean(axis=0), expected, atol=0.01)
    # The variance of a component of Dir(α) over n actions is (n - 1) / (n² (n α + 1)).
    np.testing.assert_allclose(noisy[:, 0].var(), 0.25**2 * 2 / (9 * 1.9), rtol=0.1)
    np.testing.assert_allclose(add(fraction=0.0, alpha=0.3), prior, atol=1e-7)
    assert np.isfinite(add(fraction=1.0, alpha=1e-3)).all()


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_actions_are_drawn_in_proportion(temperature: float) -> None:
    weights = jnp.array([0.5, 0.0, 0.3, 0.2])
    draws = roots.sample_action(jax.random.key(0), jnp.tile(weights, (20000, 1)), temperature)
    expected = weights ** (1 / temperature) / jnp.sum(weights ** (1 / temperature))
    counts = np.bincount(draws, minlength=4) / 20000
    np.testing.assert_allclose(counts, expected, atol=0.015)
    assert counts[1] == 0


def test_temperature_may_differ_in_the_batch_and_zero_takes_the_best() -> None:
    weights = jnp.tile(jnp.array([0.3, 0.4, 0.3]), (300, 1))
    temperature = jnp.where(jnp.arange(300)[:, None] < 100, 0.0, 1.0)
    draws = roots.sample_action(jax.random.key(1), weights, temperature)
    assert (draws[:100] == 1).all()
    assert set(np.asarray(draws[100:]).tolist()) == {0, 1, 2}
    assert draws.dtype == jnp.int32


@pytest.mark.parametrize("temperature", [1e6, 3e38, float("inf")])
def test_however_high_the_temperature_no_action_without_weight_is_taken(temperature: float) -> None:
    weights = jnp.tile(jnp.array([0.0, 1.0, 0.0, 1e-3]), (500, 1))
    draws = roots.sample_action(jax.random.key(0), weights, temperature)
    assert set(np.asarray(draws).tolist()) <= {1, 3}


def test_for_evaluation_keeps_the_other_options() -> None:
    calm = Dual((9, 8), 2, puct=Puct(c_puct=3.0), backup=Backup(window=4)).for_evaluation()
    root = Root(dirichlet_fraction=0.0, temperature=0.0)
    assert calm == Dual((9, 8), 2, puct=Puct(c_puct=3.0), root=root, backup=Backup(window=4))
