"""The supervised stage: its scores and steps against slow twins, its batches, evals and errors."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import games
from dualmctx.datasets import load_dataset, read_manifest
from dualmctx.datasets.batch_feed import BatchFeed, load_ahead
from dualmctx.datasets.held_out import HeldOut, learned_keys, make_scorer, score_moves
from dualmctx.datasets.shards import read_shard, shard_paths
from dualmctx.experiment.stage import Stage
from dualmctx.pipeline.config import SupervisedConfig
from dualmctx.pipeline.learning import make_update
from dualmctx.pipeline.options import SupervisedOptions
from dualmctx.pipeline.parts import (
    VALUE,
    alphago_network,
    get_part,
    initial_params,
    make_logits_fn,
)
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.pipeline.supervised import (
    POLICIES,
    make_score_fns,
    make_stage,
    score_chance,
)
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.config import NetworkOptions
from fake_stage import assert_reports_fit
from made_data_sets import build, make, play_randomly, write_games

NUM_ACTIONS = 8
OPTIONS = SupervisedOptions(
    num_iterations=4, num_updates=25, batch_size=128, learning_rate=1e-2, warmup_steps=5
)
NETWORK = NetworkOptions(trunk="mlp", width=32, num_blocks=1)
ENV = make("tic_tac_toe")
TTT_NETWORK = alphago_network(ENV, NETWORK)


def make_predictions(number: int = 64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns logits with many ties, masks of 1 to 8 legal actions, and targets of 1 or 2 moves."""
    draws = np.random.default_rng(1)
    legal = draws.permuted(
        np.arange(NUM_ACTIONS) <= np.arange(number)[:, None] % NUM_ACTIONS, axis=1
    )
    target = np.zeros((number, NUM_ACTIONS), np.float32)
    for row in range(number):
        moves = draws.choice(np.flatnonzero(legal[row]), 2)
        target[row, moves[0]] += 0.75
        target[row, moves[1]] += 0.25
    logits = draws.integers(-2, 3, legal.shape).astype(np.float32)
    # Illegal actions with the largest logits must not count.
    return np.where(legal, logits, 10.0).astype(np.float32), legal, target


def score_slowly(logits: Any, legal: Any, target: Any) -> tuple[float, float, float]:
    """Scores one position by sorting its legal moves; the lowest of equal ones comes first."""
    moves = np.flatnonzero(legal)
    exponentials = {a: np.exp(float(logits[a])) for a in moves}
    total = sum(exponentials.values())
    loss = -sum(float(target[a]) * np.log(exponentials[a] / total) for a in moves)
    order = sorted(moves, key=lambda a: (-logits[a], a))
    return loss, float(target[order[0]]), float(sum(target[a] for a in order[:5]))


def test_scores_equal_their_slow_twin() -> None:
    logits, legal, target = make_predictions()
    scores = score_moves(*map(jnp.asarray, (logits, legal, target)))
    found = np.stack([scores[x] for x in ("loss", "top1", "top5")], axis=1)
    slow = [score_slowly(*row) for row in zip(logits, legal, target, strict=True)]
    np.testing.assert_allclose(found, slow, rtol=1e-5, atol=1e-6)
    # The case distinguishes the scores: neither all right nor all wrong.
    assert 0.1 < np.mean(found[:, 1]) < np.mean(found[:, 2]) < 1


def test_chance_is_the_mean_over_all_moves_and_orders() -> None:
    """A uniformly random legal move equals logits in a random order, for any target."""
    _, legal, target = make_predictions(8)
    orders = np.random.default_rng(2).random((1500, *legal.shape)).astype(np.float32)
    scores = jax.vmap(lambda logits: score_moves(logits, legal, target))(orders)
    found = score_chance(jnp.asarray(legal))
    np.testing.assert_allclose(found["loss"], np.log(legal.sum(axis=1)), rtol=1e-6)
    for name in ("top1", "top5"):
        np.testing.assert_allclose(found[name], scores[name].mean(axis=0), atol=0.05)


@pytest.mark.slow
def test_an_update_takes_a_step_of_both_policies() -> None:
    """The counts c are weights, divided by their mean m over the data set.

    The gradient by the logits is c / m (p - π) / M for legal actions, and 0 for illegal ones.
    """
    env, draws, number = games.make("connect2"), np.random.default_rng(3), 5
    network = alphago_network(env, NetworkOptions(trunk="mlp", width=8, num_blocks=1))
    params = initial_params(network, env, jax.random.PRNGKey(0))
    x = jnp.asarray(draws.normal(size=(number, *env.observation_shape)), jnp.float32)
    legal = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 0]], bool)
    target = legal / legal.sum(axis=1, keepdims=True) * draws.random(legal.shape)
    target /= target.sum(axis=1, keepdims=True)
    batch = TrainingBatch(x, jnp.asarray(legal), jnp.asarray(target), *[jnp.zeros(number)] * 5)
    counts, optimizers = np.array([1, 3, 0, 2, 4]), dict.fromkeys(POLICIES, optax.sgd(0.5))
    states = {part: x.init(get_part(params, part)) for part, x in optimizers.items()}
    update = make_update(make_score_fns(network), optimizers, mean_count=4.0)
    start = jax.tree.map(jnp.array, params)
    found, _, sums = update(start, states, batch, jnp.asarray(counts))
    for part in POLICIES:
        before, after = (get_part(x, part) for x in (params, found))
        logits_fn = jax.jit(make_logits_fn(network, part))
        logits, pull_back = jax.vjp(logits_fn, before, batch.observation)
        powers = np.exp(np.asarray(logits, np.float64)) * legal
        shares = powers / powers.sum(axis=1, keepdims=True)
        by_logits = (shares - target) * counts[:, None] / 4 / len(counts)
        gradient, _ = pull_back(jnp.asarray(by_logits, jnp.float32))
        expected = jax.tree.map(lambda x, slope: x - 0.5 * slope, before, gradient)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), after, expected)
        assert max(float(jnp.abs(x).max()) for x in jax.tree.leaves(gradient)) > 1e-3
        losses = -(target * np.log(np.where(legal, shares, 1))).sum(axis=1)
        assert float(sums[part]["loss"]) == pytest.approx((counts * losses).sum(), rel=1e-4)
        assert float(sums[part]["weight"]) == 10
    values = (get_part(x, VALUE) for x in (found, params))
    jax.tree.map(np.testing.assert_array_equal, *values)


def test_batches_are_taken_by_their_number() -> None:
    """An epoch has five batches; a feed may begin anywhere, go on, and go back."""
    loaded = []

    def load(epoch: int) -> Iterator[Any]:
        loaded.append(epoch)
        return iter([(epoch, number) for number in range(5)])

    for start in (0, 4, 10):
        found = list(BatchFeed(load, 5, total=12).take(start, 2))
        assert found == [(n // 5, n % 5) for n in (start, start + 1)]
    feed = BatchFeed(load, 5, total=12)
    first = list(feed.take(0, 7))
    assert list(feed.take(7, 3)) == [(1, 2), (1, 3), (1, 4)]
    assert list(feed.take(0, 7)) == first
    # Only batches of the run are loaded.
    loaded.clear()
    assert len(list(BatchFeed(load, 5, total=10).take(5, 5))) == 5
    assert loaded == [1]


def test_items_are_loaded_ahead_of_their_use_in_another_thread() -> None:
    names, is_ahead = set(), threading.Event()

    def items() -> Iterator[int]:
        for number in range(20):
            names.add(threading.current_thread().name)
            if number == 6:
                is_ahead.set()
            yield number
        raise ValueError("a shard is damaged")

    found = load_ahead(items(), 6)
    assert next(found) == 0
    # Six further items are loaded, although none of them has been asked for.
    assert is_ahead.wait(timeout=30)
    assert [next(found) for _ in range(19)] == list(range(1, 20))
    with pytest.raises(ValueError, match="damaged"):
        next(found)
    assert threading.current_thread().name not in names


def write_positions(folder: Path) -> Path:
    """Makes a data set of solved positions, each with one perfect move.

    Each position is a game of its own, whose earlier moves are marked as random.
    """
    solution, draws = games.solve(ENV), np.random.default_rng(0)
    lost = (solution.legal_actions & ~solution.optimal_actions).any(axis=1)
    rows: list[Any] = []
    for position in draws.permutation(np.flatnonzero(lost))[:1200]:
        history = [int(x) for x in solution.histories[position] if x >= 0]
        move = int(draws.choice(np.flatnonzero(solution.optimal_actions[position])))
        rows.append({"moves": [*history, move], "random": list(range(len(history)))})
    options = {"validation": 0.2, "test": 0.1, "unknown_results": "keep"}
    build(folder / "set", "tic_tac_toe", [write_games(folder / "x.jsonl", rows)], **options)
    return folder / "set"


def make_ttt_stage(data: Path, **changes: Any) -> Stage:
    changes = {"supervised": OPTIONS} | changes
    config = SupervisedConfig(game="tic_tac_toe", dataset=str(data), network=NETWORK, **changes)
    return make_stage(ENV, TTT_NETWORK, config, Inputs(), Path("unused"))


def run(stage: Stage, state: StageState, number: int) -> tuple[StageState, list[dict[str, Any]]]:
    rows = []
    for _ in range(number):
        state, row = stage.iterate(state)
        rows.append(row | {"iteration": int(state.iteration), "seconds": 1.0})
    return state, rows


class Run(NamedTuple):
    """A stage that has learned a data set, and the rows of its iterations."""

    data: Path
    stage: Stage
    state: StageState
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = write_positions(tmp_path_factory.mktemp("data"))
    stage = make_ttt_stage(data)
    state, rows = run(stage, stage.init(), OPTIONS.num_iterations)
    rows[-1] |= stage.evaluate(state)
    return Run(data, stage, state, rows)


@pytest.mark.slow
def test_perfect_moves_are_learned(learned: Run) -> None:
    """The margins are far outside of chance: 150 held-out positions have a deviation of 0.04."""
    first, row = learned.rows[0], learned.rows[-1]
    chance = row["validation_unseen/chance_top1"]
    for part in POLICIES:
        assert row[f"validation_unseen/{part}_top1"] > chance + 0.15
        assert row[f"validation/{part}_loss"] < row["validation/chance_loss"]
        assert row[f"exact/{part}_keeping"] > row["exact/chance_keeping"] + 0.15
        assert row[f"{part}_loss"] < first[f"{part}_loss"] - 0.2


@pytest.mark.slow
def test_resumed_stage_is_bit_equal_and_depends_on_the_seed(learned: Run) -> None:
    """The stage continues in the middle of an epoch: an epoch has 7 batches, 25 are learned."""
    stage, rows = learned.stage, learned.rows
    half, first = run(stage, stage.init(), 1)
    saved = jax.tree.map(np.array, half)
    # The loader is elsewhere, as in a new process.
    run(stage, stage.init(), 1)
    resumed, last = run(stage, jax.tree.map(jnp.array, saved), 3)
    jax.tree.map(np.testing.assert_array_equal, resumed, learned.state)
    assert [row["policy_loss"] for row in first + last] == [row["policy_loss"] for row in rows]
    start, other = (x.init().params for x in (stage, make_ttt_stage(learned.data, seed=1)))
    assert not jax.tree.all(jax.tree.map(np.array_equal, start, other))


def score_split_slowly(params: Any, data: Path, split: str) -> dict[str, float]:
    """Scores a split position by position, from the keys of the shards."""
    known = {int(key) for path in shard_paths(data, "train") for key in read_shard(path).keys}
    scores: dict[str, list[float]] = {"": [], "_unseen": []}
    policy, logits_fn = get_part(params, "policy"), jax.jit(make_logits_fn(TTT_NETWORK))
    for batch in load_dataset(data, split, ENV, batch_size=1024, shuffle=False):
        x = batch.positions
        logits = np.asarray(logits_fn(policy, x.observation))
        for row, key in enumerate(batch.keys):
            legal = np.flatnonzero(x.legal_action_mask[row])
            best = legal[np.argmax(logits[row][legal])]
            hit = float(best == np.argmax(x.policy[row]))
            scores[""].append(hit)
            if int(key) not in known:
                scores["_unseen"].append(hit)
    found = {f"{split}{x}/positions": float(len(hits)) for x, hits in scores.items()}
    return found | {f"{split}{x}/policy_top1": float(np.mean(y)) for x, y in scores.items()}


@pytest.mark.slow
def test_held_out_scores_equal_their_slow_twin(learned: Run) -> None:
    params, row = learned.state.params, learned.rows[-1]
    for split in ("validation", "test"):
        expected = score_split_slowly(params, learned.data, split)
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-5)
        assert 0 < expected[f"{split}_unseen/positions"] < expected[f"{split}/positions"]
    # A sample of the positions is limited, and always the same.
    score = make_scorer(make_score_fns(TTT_NETWORK))
    few = HeldOut(ENV, learned.data, "validation", limit=50)
    assert (found := score(params, few, "validation"))["validation/positions"] == 50
    assert found == score(params, few, "validation")


@pytest.mark.slow
def test_merged_positions_count_as_often_as_they_occur(tmp_path: Path) -> None:
    """Merging does not change the scores of a split; a split without positions has none."""
    env, found = make("nim"), []
    records = [write_games(tmp_path / "x.jsonl", play_randomly("nim", 80))]
    network = alphago_network(env, NetworkOptions(trunk="mlp", width=8, num_blocks=1))
    params = initial_params(network, env, jax.random.PRNGKey(0))
    score = make_scorer(make_score_fns(network))
    for merge in (False, True):
        data = tmp_path / str(merge)
        build(data, "nim", records, merge=merge, validation=0.4, test=0.0)
        scores = score(params, HeldOut(env, data, "validation", learned_keys(data)), "x")
        found.append((read_manifest(data).splits["validation"]["rows"], scores))
        none = score(params, HeldOut(env, data, "test", learned_keys(data)), "x")
        assert none == {"x/positions": 0, "x_unseen/positions": 0}
    (rows, expected), (merged_rows, scores) = found
    assert merged_rows < rows
    assert scores == pytest.approx(expected, rel=1e-5)


def test_reports_fit_their_widths(learned: Run, tmp_path: Path) -> None:
    summary = assert_reports_fit(*learned[1:], tmp_path)
    assert summary["train/epochs"] == pytest.approx(12800 / summary["train/positions"])
    for name in ("policy_top1", "rollout_top1", "chance_top1"):
        assert f"{summary[f'test/{name}']:.1%}" in summary["table"]
    assert learned.stage.table({"title": ""}).rows == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 5000}, "supervised.batch_size is 5000; it must be at most [0-9]{3}, the p"),
        ({"augment": True}, "nim"),
    ],
)
def test_bad_options_have_one_message(learned: Run, changes: Any, message: str) -> None:
    env = make("nim") if changes.get("augment") else ENV
    network = alphago_network(env, NETWORK)
    options = SupervisedOptions(**changes)
    config = SupervisedConfig(game="x", dataset=str(learned.data), supervised=options)
    with pytest.raises(ValueError, match=message):
        make_stage(env, network, config, Inputs(), Path("unused"))
