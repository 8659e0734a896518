"""Child limit: exact if few actions are legal, otherwise a search of the best actions."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import hash_model
from dualmctx import AlphaZero, Dual, Embedding, Execution, to_mctx
from dualmctx.models.game_model import mask_illegal, reward_and_discount
from dualmctx.policies.top_actions import Inputs, keep_top_actions
from dualmctx.search.slots import played_actions
from hash_model import Rules
from oracle import cases, twin
from oracle.cases import fast_jit, grouped
from oracle.compare import assert_same_search, run_engine
from oracle.models import HashModel

A, C = 12, 8
FEW = {
    "few": Rules(illegal=0.8),
    "few, same player twice": Rules(illegal=0.8, same_player=0.4, reward=0.3),
    "few, ties everywhere": Rules(illegal=0.8, spread=0.0),
}
MANY = {
    "some": Rules(illegal=0.2),
    "all": Rules(illegal=0.0, same_player=0.4, reward=0.3),
    "all, ties everywhere": Rules(illegal=0.0, spread=0.0),
}
# Proportional sampling depends on the number of slots.
BEST = {"temperature": 0.0}
POLICIES = {
    "alphazero": cases.with_options(cases.ALPHAZERO, **BEST),
    # The large tree often adds nodes of its own.
    "dual": cases.with_options(cases.INTERLEAVED, action_weights="regularized", **BEST),
    "dual windowed": cases.with_options(cases.DUAL_WINDOWED, explore_fraction=0.5, **BEST),
}
SEEDS = (0, 1, 2, 3)
KEY = jax.random.key(5)


def limited(policy: Any, max_children: int = C) -> Any:
    return cases.with_options(policy, max_children=max_children)


def invalid_actions(seed: int = 0) -> np.ndarray:
    """Forbids half of the root actions, but never the action that is always legal."""
    draws = np.random.default_rng(seed).random((len(SEEDS), A)) < 0.5
    roots = hash_model.roots(np.array(SEEDS), Rules(illegal=1.0), A, np)
    return draws & (roots.prior_logits < -1e9)


def over_actions(output: Any) -> Any:
    """Returns a limited policy's output with its tree in the layout without a limit."""
    tree = output.search_tree
    actions = tree.embeddings.actions
    batch, node = np.ogrid[: actions.shape[0], : actions.shape[1]]
    # An empty slot has no actions; any distinct actions are valid.
    actions = np.where(actions.any(-1, keepdims=True), actions, np.arange(actions.shape[-1]))

    def widen(array: Any, empty: Any = 0) -> np.ndarray:
        wide = np.full((*array.shape[:2], A), empty, array.dtype)
        wide[batch[..., None], node[..., None], actions] = array
        return wide

    stats = tuple(
        stats.replace(
            children_visits=widen(stats.children_visits),
            children_qvalues=widen(stats.children_qvalues),
        )
        for stats in tree.stats
    )
    parents, played = tree.parents, played_actions(jax.tree.map(jnp.asarray, tree))
    tree = tree.replace(
        children_index=widen(tree.children_index, -1),
        children_prior=widen(tree.children_prior),
        embeddings=dataclasses.replace(tree.embeddings, actions=None),
        stats=stats,
        root_invalid_actions=None,
    )
    tree = tree.replace(parents=parents, action_from_parent=played)
    return output.replace(search_tree=jax.tree.map(np.asarray, tree))


def assert_same(actual: Any, expected: Any) -> None:
    """Checks that integers are equal and floats agree to 1e-6."""

    def compare(x: Any, y: Any) -> None:
        if np.issubdtype(x.dtype, np.floating):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-6)
        else:
            np.testing.assert_array_equal(x, y)

    jax.tree.map(compare, actual, expected)


@pytest.mark.slow
@pytest.mark.parametrize("is_restricted", [False, True], ids=["free", "invalid actions"])
@pytest.mark.parametrize("rules", list(FEW.values()), ids=list(FEW))
@pytest.mark.parametrize("policy", list(POLICIES.values()), ids=list(POLICIES))
def test_limit_is_exact_if_few_actions_are_legal(
    policy: Any, rules: Rules, is_restricted: bool
) -> None:
    invalid = invalid_actions() if is_restricted else None
    run = functools.partial(run_engine, invalid=invalid)
    full, few = (run(p, A, rules, SEEDS, KEY) for p in (policy, limited(policy)))
    num_legal = (full.search_tree.children_prior > 0).sum(axis=-1)
    assert 3 < num_legal.max() <= C
    assert few.search_tree.children_prior.shape[-1] == C
    full = full.replace(search_tree=full.search_tree.replace(root_invalid_actions=None))
    assert_same(over_actions(few), full)


class PrunedModel(twin.Model):
    """A model in which only the best actions of the first head are legal."""

    def __init__(self, model: twin.Model, is_legal: Any = None) -> None:
        self.model, self.is_legal = model, is_legal
        self.num_pruned = 0

    def prune(self, logits: np.ndarray, is_legal: Any = True) -> tuple[np.ndarray, np.ndarray]:
        legal = np.flatnonzero(is_legal & (logits > -1e9))
        best = sorted(legal, key=lambda action: -logits[action])[:C]
        self.num_pruned += len(legal) - len(best)
        is_kept = np.isin(np.arange(len(logits)), best)
        return np.where(is_kept, logits, np.finfo(np.float32).min), is_kept

    def root(self) -> tuple:
        logits, value, embedding = self.model.root()
        logits, is_kept = self.prune(logits, True if self.is_legal is None else self.is_legal)
        return logits, value, (embedding, is_kept)

    def step(self, embedding: Any, action: int) -> tuple:
        *edge, logits, value, embedding = self.model.step(embedding[0], action)
        logits, is_kept = self.prune(logits)
        return *edge, logits, value, (embedding, is_kept)

    def refine(self, embedding: Any) -> tuple:
        logits, value = self.model.refine(embedding[0])
        return np.where(embedding[1], logits, np.finfo(np.float32).min), value


@pytest.mark.sampled(9)
@pytest.mark.parametrize("is_restricted", [False, True], ids=["free", "invalid actions"])
@pytest.mark.parametrize("rules", list(MANY.values()), ids=list(MANY))
@pytest.mark.parametrize("policy", list(POLICIES.values()), ids=list(POLICIES))
def test_limited_search_equals_search_of_best_actions(
    policy: Any, rules: Rules, is_restricted: bool
) -> None:
    is_dual = isinstance(policy, Dual)
    final = "nothing" if is_dual else "all"
    invalid = invalid_actions() if is_restricted else None
    output = run_engine(limited(policy), A, rules, SEEDS, KEY, invalid=invalid, final=final)
    priors = output.search_tree.children_prior
    sums = priors.sum(axis=-1)[output.search_tree.parents >= 0]
    np.testing.assert_allclose(sums, 1, atol=1e-5)
    output, num_pruned = over_actions(output), 0
    for i, seed in enumerate(SEEDS):
        is_legal = None if invalid is None else ~invalid[i]
        model = PrunedModel(HashModel(seed, rules, A, final), is_legal)
        search = twin.dual if is_dual else twin.alphazero
        result = search(model, policy, KEY, (i, len(SEEDS)), is_legal)
        assert_same_search(output, i, result)
        num_pruned += model.num_pruned
    assert num_pruned > 40


def bare(recurrent_fn: Any) -> Any:
    """Makes a function whose embeddings are hashes of the state, not an `Embedding`."""

    def play(params: Any, rng_key: Any, action: Any, code: Any) -> tuple:
        step, embedding = recurrent_fn(params, rng_key, action, Embedding(code))
        return step, embedding.state

    return play


@pytest.mark.slow
def test_noise_covers_legal_actions_with_any_embedding() -> None:
    rules = Rules(illegal=0.7)
    root = hash_model.roots(jnp.arange(8), rules, A)
    root = root.replace(embedding=root.embedding.state)
    recurrent_fn = bare(functools.partial(hash_model.recurrent_fn, num_actions=A))
    policy = AlphaZero(9, execution=Execution(max_children=5))
    search = fast_jit(lambda key: policy(rules, key, root, recurrent_fn))
    out, other = (search(jax.random.key(seed)) for seed in (0, 1))
    tree = out.search_tree
    assert isinstance(tree.embeddings, Embedding)
    assert tree.embeddings.state.shape == (8, 10)
    assert tree.embeddings.actions.shape == (8, 10, 5)
    is_legal = np.asarray(root.prior_logits) > -1e9
    assert is_legal.sum(axis=-1).max() > 5 > is_legal.sum(axis=-1).min()
    batch = np.arange(8)
    for found in (out, other):
        weights = np.asarray(found.action_weights)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
        assert (weights[~is_legal] == 0).all()
        assert (weights[batch, found.action] > 0).all()
    prior, other_prior = (x.search_tree.children_prior[:, 0] for x in (out, other))
    np.testing.assert_allclose(prior.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_array_equal((prior > 0).sum(-1), np.minimum(is_legal.sum(-1), 5))
    np.testing.assert_array_equal(prior > 0, other_prior > 0)
    assert (prior != other_prior).any()
    # Each edge was played as the action in `played_actions`.
    element, node = np.nonzero(np.asarray(tree.parents) >= 0)
    above = tree.embeddings.state[element, tree.parents[element, node]]
    played = played_actions(tree)[element, node]
    step = functools.partial(hash_model.recurrent_fn, num_actions=A, xp=np)
    _, reached = step(rules, None, np.asarray(played), Embedding(np.asarray(above)))
    np.testing.assert_array_equal(reached.state, tree.embeddings.state[element, node])
    assert len(element) > 60
    # The export is by slots too.
    exported = to_mctx(tree)
    assert exported.children_index.shape == (8, 10, 5)
    np.testing.assert_array_equal(exported.action_from_parent, tree.action_from_parent)


@pytest.mark.parametrize("max_children", [None, A, A + 1])
def test_limit_above_num_actions_changes_nothing(max_children: int | None) -> None:
    root = hash_model.roots(np.arange(2), Rules(), A, np)
    unused: Any = object()
    inputs = Inputs(root, unused, unused, None)
    same, restore = keep_top_actions(inputs, max_children)
    assert same is inputs
    assert restore(root) is root


def chess_model(env: Any) -> tuple[Any, Any]:
    """Returns root_fn and recurrent_fn of chess; the evaluation is a hash of the position."""

    def evaluate(state: Any) -> tuple:
        bits = state._x.hash_history[:, 0, 0]
        salted = bits[:, None] ^ (jnp.arange(env.num_actions, dtype=jnp.uint32) * 40503)
        draws = ((salted * jnp.uint32(2654435761)) >> 16).astype(jnp.float32) / 65536
        value = jnp.where(state.terminated, 0, draws[:, 0] - 0.5)
        return mask_illegal(4 * draws, state.legal_action_mask), value

    def root_fn(state: Any) -> Any:
        logits, value = evaluate(state)
        return hash_model.mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)

    def recurrent_fn(params: Any, rng_key: Any, action: Any, state: Any) -> tuple:
        after = jax.vmap(env.step)(state, action).replace(observation=None)
        reward, discount = reward_and_discount(state, after)
        logits, value = evaluate(after)
        output = hash_model.mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=value
        )
        return output, after

    return root_fn, recurrent_fn


def random_positions(env: Any, num_games: int, every: int) -> Any:
    """Plays random games; game i ends after `i * every` plies or earlier."""
    keys = jax.random.split(jax.random.key(0), num_games)
    num_plies = every * jnp.arange(num_games)

    def play(ply: Any, state: Any) -> Any:
        ply_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, ply)
        logits = jnp.where(state.legal_action_mask, 0.0, -jnp.inf)
        action = jax.vmap(jax.random.categorical)(ply_keys, logits)
        after = jax.vmap(env.step)(state, action)
        goes_on = (ply < num_plies) & ~after.terminated

        def choose(x: Any, y: Any) -> Any:
            return jnp.where(goes_on.reshape((-1,) + (1,) * (x.ndim - 1)), x, y)

        return jax.tree.map(choose, after, state)

    return jax.lax.fori_loop(0, num_plies[-1], play, jax.vmap(env.init)(keys))


@pytest.mark.slow
def test_limit_does_not_change_chess_search() -> None:
    env = games.make("chess")
    states = fast_jit(functools.partial(random_positions, env, 20, 3))()
    states = states.replace(observation=None)
    num_legal = states.legal_action_mask.sum(axis=-1)
    assert len(np.unique(states._x.board, axis=0)) == 20
    assert num_legal.min() < 25 < 40 < num_legal.max() <= 128
    root_fn, recurrent_fn = chess_model(env)

    @functools.partial(fast_jit, static_argnums=0)
    def search(policy: Any, states: Any) -> Any:
        invalid = ~states.legal_action_mask
        root = root_fn(states)
        out = policy(None, KEY, root, recurrent_fn, invalid_actions=invalid)
        tree = out.search_tree.replace(embeddings=None)
        actions = played_actions(out.search_tree)
        return out.action, out.action_weights, tree.stats[0].node_visits, tree.parents, actions

    calm = grouped(dirichlet_fraction=0.0, temperature=0.0)
    full = search(AlphaZero(10, **calm), states)
    few = search(AlphaZero(10, **grouped(calm, max_children=128)), states)
    assert full[1].shape == (20, env.num_actions)
    jax.tree.map(np.testing.assert_array_equal, few, full)
