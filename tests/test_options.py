"""Options of one-tree policies: minimax values, RAVE, the regularised policy, against the twin."""

import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx import AlphaZero, Dual, make_network, make_search_fn, with_options
from dualmctx.policies.options import make_qvalues
from dualmctx.training.selfplay import SelfPlay, make_play, start_games
from dualmctx.types import ActingOutput, acting_weights
from oracle import options
from oracle.cases import ALPHAZERO, CALM, RULES, fast_jit, grouped
from oracle.compare import TOLERANCE, assert_same_search, run_engine
from oracle.models import HashModel
from oracle.selfplay import tree_of

SEEDS = (0, 1, 2, 3)
KINDS = ("plain", "same player twice", "often terminal")


def having(**changes: Any) -> AlphaZero:
    return AlphaZero(40, **grouped(CALM, **changes))


POLICIES = {
    "minimax": having(minimax_mix=0.4),
    "rave": having(rave_visits=50.0),
    "both": having(minimax_mix=0.3, rave_visits=8.0, max_depth=4),
    "window": having(minimax_mix=0.4, rave_visits=8.0, window=2, explore_fraction=0.5),
    "search": having(regularized=("search",)),
    "act": having(regularized=("act",), minimax_mix=0.4),
    "smoothed": having(visit_weights="smoothed"),
    "smoothed, act": having(visit_weights="smoothed", regularized=("act",), window=2),
    "all": having(
        regularized=("act", "search", "learn"),
        minimax_mix=0.4,
        rave_visits=20.0,
        window=1,
        explore_fraction=0.5,
    ),
}


def run(policy: Any, kind: str, key_seed: int = 5, **inputs: Any) -> tuple[Any, list[Any]]:
    """Returns the engine's output and the twin's results for each element."""
    key, rules = jax.random.key(key_seed), RULES[kind]
    output = run_engine(policy, 4, rules, SEEDS, key, final="all", **inputs)
    invalid = inputs.get("invalid")
    results = []
    for i, seed in enumerate(SEEDS):
        model = HashModel(seed, rules, 4, "all")
        legal = None if invalid is None else ~invalid[i]
        results.append(options.alphazero(model, policy, key, (i, len(SEEDS)), legal))
    return output, results


def assert_same_rows(tree: Any, element: int, nodes: list[Any]) -> None:
    """Checks what the options keep of each node that the twin knows of."""
    stats, index = tree.stats[0], {(): 0}
    for node in nodes:
        place = index[node.actions]
        children = tree.children_index[element, place]
        index |= {(*node.actions, a): children[a] for a in np.flatnonzero(children >= 0)}
        if "minimax" in stats.extra:
            for action, child in node.children.items():
                actual = stats.extra["minimax"][element, place, action]
                np.testing.assert_allclose(actual, child.minimax, rtol=0, atol=TOLERANCE)
        if "rave" in stats.extra:
            returns = getattr(node, "rave", {})
            seen = [returns.get(action, []) for action in range(4)]
            expected = np.array([(len(x), np.mean(x or 0)) for x in seen])
            actual = stats.extra["rave"][element, place]
            np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.sampled(27)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", POLICIES)
def test_whole_trees_are_the_twins(name: str, kind: str) -> None:
    output, results = run(POLICIES[name], kind)
    for i, result in enumerate(results):
        assert_same_search(output, i, result)
        assert_same_rows(output.search_tree, i, result.nodes)
        np.testing.assert_allclose(acting_weights(output)[i], result.acting, rtol=0, atol=TOLERANCE)
    if POLICIES[name].backup.window is not None and kind != "often terminal":
        assert sum(result.counters.explored for result in results) > 0
    assert isinstance(output, ActingOutput) == (name.endswith("act"))


def test_what_stands_for_q_is_the_twins_at_every_node() -> None:
    """Digit by digit, as a formula that is a little wrong may choose the same actions."""
    policy = POLICIES["both"]
    output, results = run(policy, "same player twice")
    tree = jax.tree.map(jnp.asarray, output.search_tree)
    qvalues = np.stack(
        [
            make_qvalues(policy.puct)(tree, jnp.full(len(SEEDS), node), 0)
            for node in range(tree.num_nodes)
        ],
        axis=1,
    )
    for i, result in enumerate(results):
        index = {(): 0}
        for node in result.nodes:
            children = output.search_tree.children_index[i, index[node.actions]]
            index |= {(*node.actions, a): children[a] for a in np.flatnonzero(children >= 0)}
            search = types.SimpleNamespace(options=policy)
            expected = options.Search.qvalues(search, node, 0.0)
            actual = qvalues[i, index[node.actions]]
            np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.slow
def test_options_at_the_edge_of_their_range_change_nothing() -> None:
    """A hundred-millionth of a visit of RAVE is none; and no minimax is nothing at all."""
    key, rules = jax.random.key(0), RULES["same player twice"]
    plain, faint = (
        run_engine(x, 4, rules, SEEDS, key) for x in (ALPHAZERO, having(rave_visits=1e-8))
    )
    stats = plain.search_tree.stats[0], faint.search_tree.stats[0]
    np.testing.assert_array_equal(stats[0].children_visits, stats[1].children_visits)
    assert stats[0].extra == {}
    assert stats[1].extra.keys() == {"rave"}


@pytest.mark.slow
def test_with_minimax_alone_a_value_is_that_of_the_best_line() -> None:
    """By definition, over the finished tree, which the incremental values must equal."""
    output, _ = run(having(minimax_mix=1.0), "same player twice")
    tree = output.search_tree
    values = tree.raw_values.copy()
    best = np.full(values.shape, -np.inf)
    for node in reversed(range(1, tree.num_nodes)):
        for i in np.flatnonzero(tree.parents[:, node] >= 0):
            value = best[i, node] if np.isfinite(best[i, node]) else values[i, node]
            value = tree.rewards[i, node] + tree.discounts[i, node] * value
            parent, action = tree.parents[i, node], tree.action_from_parent[i, node]
            best[i, parent] = max(best[i, parent], value)
            kept = tree.stats[0].extra["minimax"][i, parent, action]
            np.testing.assert_allclose(kept, value, rtol=0, atol=TOLERANCE)


@pytest.mark.slow
def test_actions_of_players_with_different_action_spaces_never_mix() -> None:
    env = games.make("hsr")
    network = make_network(env.num_actions, (1,), width=4, num_blocks=1)
    policy = AlphaZero(150, **grouped(CALM, rave_visits=100.0))
    state = jax.vmap(env.init)(jax.random.split(jax.random.key(0), 2))
    params = network.init(jax.random.key(1), state.observation)
    tree = fast_jit(make_search_fn(env, network, policy))(params, jax.random.key(2), state)
    tree = jax.tree.map(np.asarray, tree.search_tree)
    counts = tree.stats[0].extra["rave"][..., 0]
    is_answer = np.arange(env.num_actions) >= env.num_actions - 2
    answers = np.asarray(tree.embeddings.state.legal_action_mask)[..., -1]
    assert counts[..., ~is_answer][~answers].sum() > counts[..., is_answer][answers].sum() > 0
    assert (counts[..., is_answer][~answers] == 0).all()
    assert (counts[..., ~is_answer][answers] == 0).all()
    # More than the actions that were played at the node itself.
    visits = tree.stats[0].children_visits
    assert (counts >= visits).all()
    assert (counts > visits).any()


def test_self_play_acts_by_one_policy_and_learns_another() -> None:
    """A stand-in for a search plays its last legal action and would learn the first."""
    env = games.make("tic_tac_toe")

    def search(params: Any, rng_key: Any, state: Any, search_tree: Any = None) -> ActingOutput:
        del params, rng_key, search_tree
        legal = state.legal_action_mask
        first, last = jnp.argmax(legal, axis=-1), 8 - jnp.argmax(legal[:, ::-1], axis=-1)
        act, learn = (jax.nn.one_hot(x, 9) for x in (last, first))
        tree = tree_of(jnp.zeros(legal.shape[0]), act)
        return ActingOutput(action=last, action_weights=learn, acting_weights=act, search_tree=tree)

    play_options = SelfPlay(num_games=2, num_steps=4)
    start = start_games(env, jax.random.split(jax.random.key(0), 2), play_options)
    keys = jax.random.split(jax.random.key(1), 2)
    _, trajectory = fast_jit(make_play(env, search, play_options))(None, keys, start)
    assert trajectory.action.tolist() == [[8, 8], [7, 7], [6, 6], [5, 5]]
    assert (trajectory.positions.policy.argmax(axis=-1) == 0).all()


@pytest.mark.slow
def test_acting_weights_are_over_actions_where_children_are_limited() -> None:
    policy = having(regularized=("act",), max_children=2)
    output = run_engine(policy, 4, RULES["all legal"], SEEDS, jax.random.key(0))
    for weights in (output.acting_weights, output.action_weights):
        assert weights.shape == (4, 4)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
        assert ((weights > 0).sum(axis=-1) == 2).all()
    np.testing.assert_array_equal(output.acting_weights > 0, output.action_weights > 0)
    assert (output.acting_weights != output.action_weights).any()


def test_the_clean_prior_is_what_the_root_learns_from() -> None:
    """Noise at the root moves the visits, and the regularised policy only through them."""
    policy = with_options(AlphaZero(1), regularized=("learn",), c_puct=100.0)
    key, rules = jax.random.key(0), RULES["all legal"]
    output = run_engine(policy, 4, rules, SEEDS, key)
    noisy = output.search_tree.children_prior[:, 0]
    calm = run_engine(having(), 4, rules, SEEDS, key).search_tree.children_prior[:, 0]
    assert abs(noisy - calm).max() > 0.05
    np.testing.assert_allclose(output.action_weights, calm, atol=0.01)


REFUSED = [
    (
        AlphaZero,
        {"regularized": ("act", "think")},
        "is act think; .*act, search and learn",
    ),
    (AlphaZero, {"regularized": "act"}, "regularized is act; .*each at most once"),
    (AlphaZero, {"regularized": ["act", "act"]}, "each at most once, or empty"),
    (AlphaZero, {"regularized": ("act", "act")}, "regularized is act act; .*each at most once"),
    (AlphaZero, {"minimax_mix": 1.5}, "between 0 and 1"),
    (AlphaZero, {"rave_visits": 0.0}, "positive and finite, or none"),
    (AlphaZero, {"rave_visits": 9.0, "max_children": 3}, "none with max_children"),
    (AlphaZero, {"minimax_mix": 0.4, "leaves_per_step": 2}, "1 with minimax_mix or rave_visits"),
    (AlphaZero, {"rave_visits": 9.0, "leaves_per_step": 2}, "1 with minimax_mix or rave_visits"),
    (AlphaZero, {"regularized": ("search",), "leaves_per_step": 2}, "1 with regularized search"),
    (Dual, {"regularized": ("act",)}, "empty in Dual, whose action_weights"),
    (AlphaZero, {"visit_weights": "all"}, "visit_weights is all; it must be plain or smoothed"),
    (AlphaZero, {"kernels": "cuda"}, "kernels is cuda; it must be one of auto, on, off, interpret"),
    (
        AlphaZero,
        {"visit_weights": "smoothed", "regularized": ("learn", "act")},
        "visit_weights is smoothed; it must be plain with regularized act and learn",
    ),
    (Dual, {"visit_weights": "smoothed"}, "plain in Dual, whose action_weights"),
    (Dual, {"minimax_mix": 0.4}, "0 in Dual"),
    (Dual, {"rave_visits": 9.0}, "none in Dual"),
]


@pytest.mark.parametrize(("cls", "changes", "sentence"), REFUSED)
def test_what_does_not_go_together_is_refused_in_a_line(
    cls: Any, changes: dict, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence) as info:
        with_options(cls(), **changes)
    assert "\n" not in str(info.value)
