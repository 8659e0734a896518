"""AlphaGo: whole trees against its twin, and the special cases λ = 0 and λ = 1."""

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import games
import hash_model
from dualmctx import AlphaZero, Network, make_network, make_search_fn
from dualmctx.models.game_model import make_model
from dualmctx.models.network import SeparateTrunks
from dualmctx.models.search_fn import make_rollout_fn
from dualmctx.policies.alphago import AlphaGo
from dualmctx.search.keys import split_key
from dualmctx.search.subtree import get_subtree
from dualmctx.types import Embedding
from oracle import twin
from oracle.alphago import HashAlphaGo, alphago, hash_rollout
from oracle.cases import CALM, FEW_RULES, RULES, WINDOWED, fast_jit, grouped, with_options
from oracle.compare import assert_same_search, run_engine
from oracle.models import HashModel

SEEDS = (0, 1, 2, 3)
SINGLE = HashAlphaGo(40, **CALM)
# The budget of 40 shortens the last step, unless a collision already did.
TOGETHER = HashAlphaGo(40, **grouped(CALM, leaves_per_step=3, virtual_loss=3))
EXPLORES = grouped(WINDOWED, window=2, explore_fraction=0.5)


# With 5, out of 4 to 11, some scores are exactly equal but not in float32: see "ties
# everywhere" with virtual loss.
def assert_twin_agrees(policy: Any, rules: Any, *, invalid: Any = None, key_seed: int = 6) -> list:
    key = jax.random.key(key_seed)
    output = run_engine(policy, 4, rules, SEEDS, key, invalid=invalid, final="all")
    searches = []
    for i, seed in enumerate(SEEDS):
        is_legal = None if invalid is None else ~invalid[i]
        model = HashModel(seed, rules, 4, "all")
        result, search = alphago(model, policy, key, (i, len(SEEDS)), is_legal)
        assert_same_search(output, i, result)
        searches.append(search)
    return searches


@pytest.mark.sampled(5)
@pytest.mark.parametrize("policy", [SINGLE, TOGETHER], ids=["single", "together"])
@pytest.mark.parametrize("rules", list(RULES.values()), ids=list(RULES))
def test_whole_trees_match_twin(policy: Any, rules: Any) -> None:
    for search in assert_twin_agrees(policy, rules):
        ends = sum(node.discount == 0 for node in search.nodes)
        assert search.rollouts == len(search.nodes) - ends  # one per node, including the root


@pytest.mark.slow
@pytest.mark.parametrize("rollout_mix", [0.25, 1.0])
def test_other_rollout_mixes_match_twin(rollout_mix: float) -> None:
    for rules in FEW_RULES:
        assert_twin_agrees(with_options(SINGLE, rollout_mix=rollout_mix), rules)


@pytest.mark.slow
def test_published_options_match_twin() -> None:
    policy = with_options(HashAlphaGo(40), dirichlet_fraction=0.0, leaves_per_step=8)
    published = (policy.puct.c_puct, policy.execution.virtual_loss, policy.root.temperature)
    assert published == (5, 3, 0)
    searches = assert_twin_agrees(policy, RULES["same player twice"])
    searches += assert_twin_agrees(policy, RULES["one legal action"])
    assert sum(search.collisions for search in searches) > 20


@pytest.mark.slow
@pytest.mark.parametrize("key_seed", [0, 1])
def test_window_and_exploration_match_twin(key_seed: int) -> None:
    policy = HashAlphaGo(40, **EXPLORES)
    searches = assert_twin_agrees(policy, RULES["same player twice"], key_seed=key_seed)
    assert sum(search.counters.explored for search in searches) > 0


def test_invalid_root_actions_match_twin() -> None:
    invalid = np.eye(4, dtype=bool)
    searches = assert_twin_agrees(SINGLE, RULES["all legal"], invalid=invalid)
    assert all(action not in search.root.children for action, search in enumerate(searches))


def hash_search(policy: Any, **options: Any) -> Any:
    """Returns `(seeds, kept) -> PolicyOutput` on a game without rules."""
    recurrent_fn = functools.partial(hash_model.recurrent_fn, num_actions=4)
    rules = RULES["same player twice"]

    def run(seeds: Any, kept: Any = None) -> Any:
        root = hash_model.roots(seeds, rules, 4)
        key = jax.random.key(3)
        return policy(rules, key, root, recurrent_fn, search_tree=kept, **options)

    return run


@pytest.mark.slow
def test_reused_trees_match_twin() -> None:
    policy, rules = HashAlphaGo(20, **CALM, reuse_capacity=6), RULES["same player twice"]

    @fast_jit
    def twice(seeds: Any) -> Any:
        run = hash_search(policy)
        first = run(seeds)
        action = jnp.argmax(first.action_weights, axis=-1)
        kept = get_subtree(first.search_tree, action, reuse_capacity=6)
        return action, run(seeds, kept)

    action, output = jax.tree.map(np.asarray, twice(np.array(SEEDS)))
    num_kept = 0
    for i, seed in enumerate(SEEDS):
        search = functools.partial(
            alphago, HashModel(seed, rules, 4), policy, jax.random.key(3), (i, len(SEEDS))
        )
        kept = twin.reroot(search()[0].nodes, int(action[i]), 6)
        num_kept += kept is not None
        assert_same_search(output, i, search(None, kept)[0])
    assert num_kept > 1


CALM_TOGETHER = grouped(dirichlet_fraction=0.0, leaves_per_step=4, virtual_loss=3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [grouped(), CALM_TOGETHER], ids=["noise", "together"])
def test_zero_rollout_mix_equals_alphazero_exactly(options: dict[str, Any]) -> None:
    """No rollout function is passed, so none is traced."""
    seeds = jnp.arange(6)
    expected = fast_jit(hash_search(AlphaZero(30, **options)))(seeds)
    actual = fast_jit(hash_search(AlphaGo(30, **options, rollout_mix=0.0)))(seeds)
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def test_full_rollout_mix_ignores_value_head() -> None:
    """Not even NaN reaches the tree, so XLA can drop the network that computes the value."""

    def search(value: float) -> Any:
        def recurrent_fn(*arguments: Any) -> Any:
            output, embedding = hash_model.recurrent_fn(*arguments, 4)
            return output.replace(value=jnp.full_like(output.value, value)), embedding

        root = hash_model.roots(jnp.arange(4), hash_model.Rules(), 4)
        root = root.replace(value=jnp.full(4, value))
        return HashAlphaGo(20, **CALM, rollout_mix=1.0)(
            hash_model.Rules(), jax.random.key(0), root, recurrent_fn
        )

    run = fast_jit(search)
    one, other = run(0.3), run(jnp.nan)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    raw = np.asarray(one.search_tree.raw_values)
    assert set(np.unique(raw)) == {-1.0, 0.0, 1.0}


@pytest.mark.slow
def test_child_limit_and_batch_do_not_change_search() -> None:
    """4 slots hold all legal actions, because one of the 5 actions is never legal."""
    rules = hash_model.Rules(same_player=0.3)

    def search(max_children: int | None, seeds: Any) -> Any:
        def step(*arguments: Any) -> Any:
            output, embedding = hash_model.recurrent_fn(*arguments, 4)
            return output.replace(prior_logits=widen(output.prior_logits)), embedding

        def widen(logits: Any) -> Any:
            lowest = jnp.full((*logits.shape[:-1], 1), jnp.finfo(logits.dtype).min)
            return jnp.concatenate([lowest, logits], axis=-1)

        def recurrent_fn(params: Any, key: Any, action: Any, embedding: Any) -> Any:
            return step(params, key, action - 1, embedding)

        root = hash_model.roots(seeds, rules, 4)
        root = root.replace(prior_logits=widen(root.prior_logits))
        policy = HashAlphaGo(30, **grouped(CALM, max_children=max_children))
        out = policy(rules, jax.random.key(0), root, recurrent_fn)
        return out.action_weights, out.search_tree.raw_values

    seeds = jnp.arange(6)
    run = fast_jit(search, static_argnums=0)
    expected = run(4, seeds)
    for x, y in zip(run(None, seeds), expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
    for kept in (0, 3):
        crowd = jnp.where(seeds == kept, seeds, 4)
        for x, y in zip(run(4, crowd), expected, strict=True):
            np.testing.assert_array_equal(x[kept], y[kept])


@functools.cache
def real_search(rollout_policy: str, noise: float = 0.0, **options: Any) -> Any:
    env = games.make("connect2")
    state = fast_jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), 16))
    network = make_network(4, (4,), width=8, num_blocks=1, trunk="mlp")
    params = network.init(jax.random.key(0), state.observation)
    draws = np.random.default_rng(0)
    params = jax.tree.map(lambda x: x + draws.normal(0, noise, x.shape).astype("f"), params)
    policy = AlphaGo(12, **CALM, rollout_policy=rollout_policy, **options)
    search = fast_jit(make_search_fn(env, network, policy))
    return search(params, jax.random.key(1), state)


@pytest.mark.slow
def test_make_search_fn_passes_rollouts() -> None:
    """An untrained network plays uniformly and returns value 0, so only rollouts give values.

    It has one head, which then plays the rollouts.
    """
    trained, uniform = real_search("intermediate"), real_search("uniform")
    jax.tree.map(np.testing.assert_array_equal, trained.action_weights, uniform.action_weights)
    raw = np.asarray(uniform.search_tree.raw_values)
    assert set(np.unique(raw)) == {-0.5, 0.0, 0.5}
    assert (raw[:, 0] != 0).any()
    # After two moves, no player has two stones.
    short = real_search("uniform", rollout_length=2)
    assert (np.asarray(short.search_tree.raw_values)[:, 0] == 0).all()
    # A network with non-uniform outputs plays by them.
    head, uniform = real_search("intermediate", noise=1.0), real_search("uniform", noise=1.0)
    assert (head.search_tree.raw_values[:, 0] != uniform.search_tree.raw_values[:, 0]).any()


def test_separate_networks_give_the_tree_of_a_hand_made_model() -> None:
    """The policy of one network, the value of another, rollouts by a third."""
    env = games.make("connect2")
    state = fast_jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), 8))
    networks = SeparateTrunks(4, "mlp", 8, (0, 1), value_depth=2)
    params = fast_jit(networks.init)(jax.random.key(0), state.observation)
    draws = np.random.default_rng(0)
    params = jax.tree.map(lambda x: x + draws.normal(0, 0.7, x.shape).astype("f"), params)
    policy = AlphaGo(12, **CALM)

    def evaluate(name: str, depth: int, observation: Any) -> Any:
        alone = Network(4, "mlp", 8, depth, (depth,))
        return alone.apply({"params": params["params"][name]}, observation)[0]

    def model(state: Any) -> Any:
        logits = evaluate("networks_1", 1, state.observation).logits
        lowest = jnp.finfo(logits.dtype).min
        value = evaluate("value_network", 2, state.observation).value
        logits = jnp.where(state.legal_action_mask, logits, lowest)
        stored = Embedding(state.replace(observation=None), None)
        return logits, jnp.where(state.terminated, 0.0, value), stored

    def recurrent_fn(_: Any, key: Any, action: Any, embedding: Any) -> Any:
        del key
        before = embedding.state
        after = jax.vmap(env.step)(before, action)
        reward = after.rewards[jnp.arange(len(action)), before.current_player]
        discount = jnp.where(after.terminated, 0.0, -1.0)  # the players take turns
        logits, value, embedding = model(after)
        output = mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=value
        )
        return output, embedding

    def by_hand(key: Any) -> Any:
        rollout = make_rollout_fn(env, Network(4, "mlp", 8, 0, (0,)))
        own = {"params": params["params"]["networks_0"]}
        logits, value, embedding = model(state)
        return policy(
            own,
            key,
            mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding),
            recurrent_fn,
            invalid_actions=~state.legal_action_mask,
            rollout_fn=rollout,
        )

    search = make_search_fn(env, networks, policy)
    found = fast_jit(lambda key: search(params, key, state))(jax.random.key(1))
    expected = fast_jit(by_hand)(jax.random.key(1))
    np.testing.assert_array_equal(found.action_weights, expected.action_weights)
    one, other = found.search_tree, expected.search_tree
    np.testing.assert_array_equal(one.stats[0].children_visits, other.stats[0].children_visits)
    np.testing.assert_allclose(one.raw_values, other.raw_values, atol=1e-6)
    np.testing.assert_allclose(one.children_prior, other.children_prior, atol=1e-5)


@pytest.mark.slow
def test_full_rollout_mix_equals_mixing_with_weight_one_in_a_real_game() -> None:
    """The reference mixes values and outcomes in the model, and searches with λ = 0."""
    env = games.make("connect2")
    state = fast_jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), 8))
    network = make_network(4, env.observation_shape, trunk="mlp", width=8, num_blocks=2)
    params = fast_jit(network.init)(jax.random.key(0), state.observation)
    draws = np.random.default_rng(0)
    params = jax.tree.map(lambda x: x + draws.normal(0, 0.7, x.shape).astype("f"), params)
    model, rollout = make_model(env, network), make_rollout_fn(env, network)

    def mix(value: Any, outcome: Any) -> Any:
        return 0.0 * value + 1.0 * outcome

    def recurrent_fn(params: Any, rng_key: Any, action: Any, embedding: Any) -> Any:
        model_key, rollout_key = split_key(rng_key)
        step, new = model.recurrent_fn(params, model_key, action, embedding)
        value = mix(step.value, rollout(params, rollout_key, new))
        return step.replace(value=jnp.where(step.discount == 0, step.value, value)), new

    def by_hand(rng_key: Any) -> Any:
        rng_key, root_key = split_key(rng_key)
        root = model.root_fn(params, state)
        root = root.replace(value=mix(root.value, rollout(params, root_key, root.embedding)))
        policy = AlphaGo(20, rollout_mix=0.0, **CALM)
        return policy(params, rng_key, root, recurrent_fn, invalid_actions=~state.legal_action_mask)

    search = make_search_fn(env, network, AlphaGo(20, rollout_mix=1.0, **CALM))
    found = fast_jit(lambda key: search(params, key, state))(jax.random.key(1))
    expected = fast_jit(by_hand)(jax.random.key(1))
    np.testing.assert_array_equal(found.action_weights, expected.action_weights)
    one, other = found.search_tree, expected.search_tree
    for name in ("edges", "transitions", "children_index", "raw_values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.stats[0].children_visits, other.stats[0].children_visits)
    # Two programs may round the priors differently.
    np.testing.assert_allclose(one.children_prior, other.children_prior, atol=1e-5)
    # Games end inside the trees, where the value is that of the model.
    assert ((one.discounts == 0) & (one.edges >= 0)).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_simulations": 0}, "num_simulations is 0; it must be at least 1"),
        ({"rollout_mix": 1.5}, "rollout_mix is 1.5; it must be between 0 and 1"),
        ({"rollout_mix": float("nan")}, "rollout_mix is nan; it must be between 0 and 1"),
        ({"rollout_policy": "best"}, "rollout_policy is best; it must be intermediate or uniform"),
        ({"rollout_length": 0}, "rollout_length is 0; it must be at least 1, or none"),
        ({"reuse_capacity": -1}, "reuse_capacity is -1; it must be at least 0"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as info:
        AlphaGo(**options)
    assert "\n" not in str(info.value)


def test_missing_rollout_function_is_refused() -> None:
    with pytest.raises(ValueError, match="rollout_fn is None and rollout_mix"):
        hash_search(AlphaGo(4))(jnp.arange(2))
    shape = jax.eval_shape(hash_search(AlphaGo(4), rollout_fn=hash_rollout), jnp.arange(2))
    assert operator.attrgetter("shape")(shape.action) == (2,)
