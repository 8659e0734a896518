"""The supervised stage: learning, resuming, evals, merged data sets, reports, errors."""

import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx.console import Console
from dualmctx.datasets import load_dataset, read_manifest
from dualmctx.datasets.shards import read_shard, shard_paths
from dualmctx.experiment.stage import Stage
from dualmctx.pipeline.config import SupervisedConfig
from dualmctx.pipeline.options import SupervisedOptions
from dualmctx.pipeline.parts import (
    VALUE,
    alphago_network,
    get_part,
    initial_params,
    make_logits_fn,
)
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.pipeline.supervised import stage as supervised_stage
from dualmctx.pipeline.supervised.moves import POLICIES, score_held_out, training_keys
from dualmctx.pipeline.supervised.stage import make_stage
from dualmctx.training.config import NetworkOptions
from made_data_sets import build, make, play_randomly, write_games

OPTIONS = SupervisedOptions(
    num_iterations=4, num_updates=25, batch_size=128, learning_rate=1e-2, warmup_steps=5
)
NETWORK = NetworkOptions(trunk="mlp", width=32, num_blocks=1)
ENV = make("tic_tac_toe")
TTT_NETWORK = alphago_network(ENV, NETWORK)


def write_positions(folder: Path, optimal: bool) -> Path:
    """Makes a data set of solved positions, each with one move: a perfect or a random one.

    Each position is a game of its own, whose earlier moves are marked as random.
    """
    solution, draws = games.solve(ENV), np.random.default_rng(0)
    lost = (solution.legal_actions & ~solution.optimal_actions).any(axis=1)
    moves = solution.optimal_actions if optimal else solution.legal_actions
    rows: list[Any] = []
    for position in draws.permutation(np.flatnonzero(lost))[:1200]:
        history = [int(x) for x in solution.histories[position] if x >= 0]
        move = int(draws.choice(np.flatnonzero(moves[position])))
        rows.append({"moves": [*history, move], "random": list(range(len(history)))})
    folder.mkdir()
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


def learn(data: Path) -> Run:
    stage = make_ttt_stage(data)
    state, rows = run(stage, stage.init(), OPTIONS.num_iterations)
    rows[-1] |= stage.evaluate(state)
    return Run(data, stage, state, rows)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return learn(write_positions(tmp_path_factory.mktemp("data") / "perfect", optimal=True))


@pytest.mark.slow
def test_perfect_moves_are_learned_and_random_ones_are_not(learned: Run, tmp_path: Path) -> None:
    """The margins are far outside of chance: 150 held-out positions have a deviation of 0.04."""
    first, row = learned.rows[0], learned.rows[-1]
    chance = row["validation_unseen/chance_top1"]
    for part in POLICIES:
        assert row[f"validation_unseen/{part}_top1"] > chance + 0.15
        assert row[f"validation/{part}_loss"] < row["validation/chance_loss"]
        assert row[f"exact/{part}_keeping"] > row["exact/random_keeping"] + 0.15
        assert row[f"{part}_loss"] < first[f"{part}_loss"] - 0.2
    row = learn(write_positions(tmp_path / "random", optimal=False)).rows[-1]
    chance = row["validation_unseen/chance_top1"]
    for part in POLICIES:
        assert abs(row[f"validation_unseen/{part}_top1"] - chance) < 0.12
        assert row[f"validation_unseen/{part}_loss"] > row["validation_unseen/chance_loss"] - 0.05


@pytest.mark.slow
def test_resumed_stage_is_bit_equal_and_depends_on_the_seed(learned: Run) -> None:
    """The stage continues in the middle of an epoch: an epoch has 7 batches, 25 are learned."""
    stage, rows = learned.stage, learned.rows
    half, first = run(stage, stage.init(), 1)
    saved = jax.tree.map(np.array, half)
    # The loader is elsewhere, as in a new process.
    run(stage, stage.init(), 2)
    resumed, last = run(stage, jax.tree.map(jnp.array, saved), 3)
    jax.tree.map(np.testing.assert_array_equal, resumed, learned.state)
    assert [row["policy_loss"] for row in first + last] == [row["policy_loss"] for row in rows]
    # Only the policies are trained.
    initial = stage.init()
    before, after = (get_part(x.params, VALUE) for x in (initial, learned.state))
    jax.tree.map(np.testing.assert_array_equal, before, after)
    assert set(initial.opt_state) == set(POLICIES)
    other = make_ttt_stage(learned.data, seed=1)
    _, [row] = run(other, other.init(), 1)
    assert row["policy_loss"] != rows[0]["policy_loss"]


@pytest.mark.slow
@pytest.mark.parametrize(("augment", "expected"), [(None, True), (False, False)])
def test_training_games_are_loaded_with_symmetries_by_default(
    learned: Run, monkeypatch: pytest.MonkeyPatch, augment: bool | None, expected: bool
) -> None:
    calls = []
    monkeypatch.setattr(
        supervised_stage, "load_dataset", lambda *args, **options: calls.append((args, options))
    )
    make_ttt_stage(learned.data, supervised=SupervisedOptions(augment=augment, batch_size=64))
    [((folder, split, _), options)] = calls
    assert (folder, split, options["augment"]) == (learned.data, "train", expected)


def score_slowly(params: Any, data: Path, split: str) -> dict[str, float]:
    """Scores a split position by position, from the shards and their keys."""
    keys = {
        part: {
            (int(shard.game_keys[game]), int(ply)): int(key)
            for path in shard_paths(data, part)
            for shard in [read_shard(path)]
            for game, ply, key in zip(shard.games, shard.plies, shard.keys, strict=True)
        }
        for part in ("train", split)
    }
    known = set(keys["train"].values())
    scores: dict[str, list[float]] = {"": [], "_unseen": []}
    policy, logits_fn = get_part(params, "policy"), jax.jit(make_logits_fn(TTT_NETWORK))
    for batch in load_dataset(data, split, ENV, batch_size=1024, shuffle=False):
        x = batch.positions
        logits = np.asarray(logits_fn(policy, x.observation))
        for row, game in enumerate(batch.game_keys):
            legal = np.flatnonzero(x.legal_action_mask[row])
            best = legal[np.argmax(logits[row][legal])]
            hit = float(best == np.argmax(x.policy[row]))
            scores[""].append(hit)
            if keys[split][int(game), int(batch.plies[row])] not in known:
                scores["_unseen"].append(hit)
    found = {f"{split}{x}/positions": float(len(hits)) for x, hits in scores.items()}
    return found | {f"{split}{x}/policy_top1": float(np.mean(y)) for x, y in scores.items()}


@pytest.mark.slow
def test_held_out_scores_equal_their_slow_twin(learned: Run) -> None:
    params, row = learned.state.params, learned.rows[-1]
    for split in ("validation", "test"):
        expected = score_slowly(params, learned.data, split)
        assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-5)
        assert 0 < expected[f"{split}_unseen/positions"] < expected[f"{split}/positions"]
    # A sample of the positions is limited, and always the same.
    known = training_keys(learned.data)
    arguments = (ENV, TTT_NETWORK, params, learned.data, "validation", known)
    few = score_held_out(*arguments, max_positions=50)
    assert few["validation/positions"] == 50
    assert few == score_held_out(*arguments, max_positions=50)


@pytest.mark.slow
def test_merged_positions_count_as_often_as_they_occur(tmp_path: Path) -> None:
    """Merging does not change the scores of a split; a split without positions has none."""
    env, found = make("nim"), []
    records = [write_games(tmp_path / "x.jsonl", play_randomly("nim", 80))]
    network = alphago_network(env, NetworkOptions(trunk="mlp", width=8, num_blocks=1))
    params = initial_params(network, env, jax.random.PRNGKey(0))
    for merge in (False, True):
        data = tmp_path / str(merge)
        build(data, "nim", records, merge=merge, validation=0.4, test=0.0)
        arguments = (env, network, params, data)
        known = np.zeros(0, np.uint64)
        scores = score_held_out(*arguments, "validation", known)
        found.append((read_manifest(data).splits["validation"]["rows"], scores))
        none = score_held_out(*arguments, "test", known)
        assert none == {"test/positions": 0, "test_unseen/positions": 0}
    (rows, expected), (merged_rows, scores) = found
    assert merged_rows < rows
    assert scores == pytest.approx(expected, rel=1e-5)


def test_reports_fit_their_widths(learned: Run, tmp_path: Path) -> None:
    stage, state, rows = learned[1:]
    lines = [stage.describe(row).lines[0] for row in rows]
    assert all(0 < len(line) <= 43 for line in lines)
    assert lines[-1] != lines[0]
    summary = json.loads(json.dumps(stage.summarize(state, rows)))
    assert summary["train/epochs"] == pytest.approx(12800 / summary["train/positions"])
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(stage.table(summary | {"title": "tic-tac-toe"}))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    for name in ("policy_top1", "rollout_top1", "chance_top1"):
        assert f"{summary[f'test/{name}']:.1%}" in text
    for some in (rows, rows[:1]):
        stage.plot(some, "title", tmp_path / "curve.png")
        assert (tmp_path / "curve.png").stat().st_size > 1000
    assert stage.table(stage.summarize(state, rows[:1]) | {"title": ""}).rows == []


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
