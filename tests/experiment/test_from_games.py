"""Training from the games of a data set: what is learned, what is scored, resuming, refusals."""

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import numpy as np
import optax
import pytest

from dualmctx import AlphaZero, make_network
from dualmctx.commands import train
from dualmctx.datasets import load_dataset, read_manifest
from dualmctx.distributed.devices import make_mesh
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import build_trainer
from dualmctx.experiment.from_games import make_held_out_eval, open_games
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.training.config import Config
from dualmctx.training.learner import Learner
from dualmctx.training.memory_budget import require_memory, training_memory
from dualmctx.training.position_source import given_source
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import make_trainer
from made_data_sets import build, make, play_randomly, write_games
from refusals import refused

GAME = "tic_tac_toe"
ENV = make(GAME)
NETWORK = make_network(9, (3, 3, 2), width=8, num_blocks=2, trunk="mlp")
SMALL = (
    *("tic-tac-toe", "--network.width", "8", "--network.num-blocks", "2"),
    *("--search.variant", "alphazero", "--search.num-simulations", "2"),
    *("--selfplay.num-games", "8", "--selfplay.num-steps", "5", "--learner.num-updates", "2"),
    *("--learner.batch-size", "16", "--learner.capacity", "80", "--evals.num-games", "2"),
    *("--evals.every", "2", "--evals.max-positions", "20", "--checkpoint-every", "2"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of random games, a few of which have no result and some a random move."""
    folder = tmp_path_factory.mktemp("games")
    played: list[Any] = play_randomly(GAME, 60)
    played[:6] = [{"moves": moves[:4], "is_over": False} for moves in played[:6]]
    played[6:12] = [{"moves": moves, "random": [2]} for moves in played[6:12]]
    file = write_games(folder / "games.jsonl", played)
    build(folder / "set", GAME, [file], unknown_results="keep", validation=0.3)
    return folder / "set"


def config_of(data: Path | None, **options: Any) -> Config:
    selfplay, learner = SelfPlay(num_games=4, num_steps=5), Learner(batch_size=16, capacity=60)
    own = {"selfplay": selfplay, "learner": learner, "num_iterations": 4} | options
    return Config(game=GAME, dataset=None if data is None else str(data), **own)


def test_an_iteration_learns_the_next_positions_as_they_are(data: Path) -> None:
    config = config_of(data)
    learner = Learner(batch_size=16, num_updates=1, capacity=60)
    trainer = make_trainer(
        *(ENV, NETWORK, AlphaZero(2), config.selfplay, learner),
        optimizer=optax.sgd(0.0),
        positions=open_games(config, ENV, NETWORK).positions,
        devices=jax.devices()[:1],
    )
    state = trainer.init(0)
    games = jax.tree.map(np.array, state.games)
    iterate = trainer.compile(state)
    rows = []
    for _ in range(2):
        state, row = iterate(state)
        rows.append(row)
    jax.tree.map(np.testing.assert_array_equal, games, jax.tree.map(np.asarray, state.games))
    assert not any("games" in row for row in rows)
    assert [row["positions"] for row in rows] == [20, 20]
    stored = jax.tree.map(np.asarray, state.buffer_state.experience)
    first = load_dataset(data, "train", ENV, batch_size=20, seed=0, epoch=0)
    for iteration, batch in zip(range(2), first, strict=False):
        wanted = jax.tree.map(np.asarray, batch.positions)
        found = jax.tree.map(lambda x, n=iteration: x[:, 5 * n : 5 * n + 5], stored)
        for name in ("observation", "legal_action_mask", "policy"):
            one, other = getattr(found, name), getattr(wanted, name)
            np.testing.assert_array_equal(one.reshape(other.shape), other)
        known = wanted.has_value
        assert 0 < known.sum() < len(known)
        np.testing.assert_array_equal(found.has_value.reshape(-1), known)
        np.testing.assert_array_equal(found.value.reshape(-1)[known], wanted.value[known])
        target, is_known = found.value_target(0.0)
        np.testing.assert_array_equal(is_known.reshape(-1), known)
        np.testing.assert_array_equal(target.reshape(-1)[known], wanted.value[known])


def test_another_number_of_positions_is_refused(data: Path) -> None:
    positions = open_games(config_of(data), ENV, NETWORK).positions
    source = given_source(positions, (4, 4), Mock(), make_mesh(jax.devices()[:1]), Mock())
    state: Any = Mock(iteration=0)
    with pytest.raises(
        UserError, match=r"^positions gave 20 positions; it must give 16, num_games"
    ):
        source.bind(None)(state, jax.random.PRNGKey(0))


def test_value_losses_are_those_of_known_results(data: Path) -> None:
    # With one position for each place of the buffer and no change of parameters, the loss of an
    # untrained network, whose values are 0, is the mean square of the known results.
    positions = open_games(config_of(data), ENV, NETWORK).positions
    # The positions have no search, whose value must not be learned.
    learner = Learner(batch_size=4000, num_updates=1, capacity=4000, search_value_weight=0.5)
    trainer = make_trainer(
        *(ENV, NETWORK, AlphaZero(2), SelfPlay(num_games=4, num_steps=5), learner),
        optimizer=optax.sgd(0.0),
        positions=positions,
        devices=jax.devices()[:1],
    )
    state, row = trainer.compile(trainer.shapes)(trainer.init(0))
    stored = jax.tree.map(lambda x: np.asarray(x)[:, :5], state.buffer_state.experience)
    expected = np.mean(stored.value[stored.has_value] ** 2)
    assert row["value_loss_1"] == pytest.approx(expected, abs=0.03)


def score_slowly(network: Any, params: Any, data: Path) -> dict[str, float]:
    """Scores the positions for validation one by one."""
    scores: dict[str, list[float]] = {"top1": [], "top5": [], "loss": [], "value_loss": []}
    for batch in load_dataset(data, "validation", ENV, batch_size=1):
        x = batch.positions
        output = network.apply(params, x.observation)[-1]
        logits = np.where(x.legal_action_mask, output.logits, -np.inf)[0]
        move = int(np.argmax(x.policy))
        rank = int(np.sum(logits > logits[move]) + np.sum(logits[:move] == logits[move]))
        scores["top1"].append(rank < 1)
        scores["top5"].append(rank < 5)
        scores["loss"].append(float(np.log(np.exp(logits).sum()) - logits[move]))
        if x.has_value[0]:
            scores["value_loss"].append(float(x.value[0] - output.value[0]) ** 2)
    means = {f"validation/network_{name}": float(np.mean(x)) for name, x in scores.items()}
    return means | {"validation/positions": len(scores["top1"])}


def test_held_out_scores_equal_those_of_single_positions(data: Path) -> None:
    network = NETWORK
    params = network.init(jax.random.PRNGKey(0), np.zeros((1, 3, 3, 2), np.float32))
    keys = iter(jax.random.split(jax.random.PRNGKey(1), 100))
    params = jax.tree.map(lambda x: x + 0.5 * jax.random.normal(next(keys), x.shape), params)
    found = make_held_out_eval(ENV, network, data, None)(params, jax.random.PRNGKey(0))
    assert found == pytest.approx(score_slowly(network, params, data), rel=1e-5)
    sampled = make_held_out_eval(ENV, network, data, 7)(params, jax.random.PRNGKey(0))
    assert sampled["validation/positions"] == 7


def train_here(data: Path, out: Path, number: int, *more: str) -> int:
    flags = ("--dataset", str(data), "--num-iterations", str(number), "--out", str(out))
    return train.main([*SMALL, *flags, *more])


def content(out: Path) -> tuple[list[Any], list[Any]]:
    rows = [
        {name: x for name, x in row.items() if "second" not in name}
        for row in read_metrics(out / "metrics.jsonl")
    ]
    state = open_checkpoints(out / "checkpoints").load().state
    return rows, [np.asarray(x).tolist() for x in jax.tree.leaves(state)]


@pytest.mark.slow
def test_a_resumed_run_continues_with_the_positions_that_follow(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A second epoch begins in iteration 8 or earlier.
    number = 9
    schedule = ("--schedule-iterations", str(number), "--learner.augment")
    assert train_here(data, tmp_path / "whole", number, *schedule) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"the games of {data}, evals by AlphaZero with 2 simulations" in said
    train_rows = read_manifest(data).splits["train"]["rows"]
    assert 40 * (number - 1) > train_rows
    assert f"learning {train_rows} positions of" in said
    assert f"each {40 * number / train_rows:.1f} times" in said
    assert "games/s" not in said
    assert "validation (20 positions): top-1" in said
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert summary["validation/positions"] == read_manifest(data).splits["validation"]["rows"]
    assert "games" not in summary
    assert train_here(data, tmp_path / "part", 3, *schedule) == 0
    moved, part = tmp_path / "moved", str(tmp_path / "part")
    shutil.move(data, moved)
    more = ("--num-iterations", str(number))
    said = refused(["train", "--resume", part, *more], capsys)
    assert "if it was moved, name its new folder by --dataset" in said
    other = tmp_path / "other"
    build(other, GAME, [write_games(tmp_path / "x.jsonl", play_randomly(GAME, 50, 1))])
    said = refused(["train", "--resume", part, *more, "--dataset", str(other)], capsys)
    assert "inputs" in said
    assert train.main(["--resume", part, *more, "--dataset", str(moved)]) == 0
    shutil.move(moved, data)
    assert content(tmp_path / "part") == content(tmp_path / "whole")


@pytest.mark.slow
def test_self_play_goes_on_from_learned_games_and_cannot_be_resumed_with_games(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_here(data, tmp_path / "learned", 1) == 0
    flags = ("--init-from", str(tmp_path / "learned"), "--num-iterations", "1")
    assert train.main([*SMALL, *flags, "--out", str(tmp_path / "tuned")]) == 0
    resume = ["train", "--resume", str(tmp_path / "tuned"), "--dataset", str(data)]
    assert "dataset" in refused([*resume, "--num-iterations", "2"], capsys)


def test_the_memory_of_a_run_has_no_search_but_that_of_the_evals(data: Path) -> None:
    memories = []
    for config in (config_of(None), config_of(data)):
        trainer = build_trainer(config, ENV, NETWORK, jax.devices()[:1])
        memories.append(training_memory(ENV, NETWORK, config, trainer.shapes, 1))
    played, learned = memories
    assert learned.search.total == 0 < played.search.total
    assert learned.evals == played.evals
    assert learned.state > played.state
    with pytest.raises(UserError, match=r"^the run needs .*, and --memory-limit is 0.0 MiB; use"):
        require_memory(learned, 1000, is_asked_for=True)


def test_data_sets_that_do_not_fit_are_refused(data: Path, tmp_path: Path) -> None:
    file = write_games(tmp_path / "games.jsonl", play_randomly(GAME, 40))
    build(tmp_path / "merged", GAME, [file], merge=True)
    build(tmp_path / "unheld", GAME, [file], validation=0.0)
    shutil.copytree(data, tmp_path / "cut")
    next((tmp_path / "cut").glob("validation-*")).unlink()
    large = config_of(data, selfplay=SelfPlay(num_games=400, num_steps=5), learner=Learner())
    for config, message in (
        (config_of(tmp_path / "none"), "none is not a complete data set"),
        (config_of(tmp_path / "merged"), "merged; it must be a data set without --merge"),
        (config_of(tmp_path / "unheld"), "has no positions in the split validation"),
        (config_of(tmp_path / "cut"), "has 0 shards in the split validation"),
        (large, r"selfplay.num_games \* selfplay.num_steps is 2000; it must be at most"),
    ):
        with pytest.raises(UserError, match=message):
            open_games(config, ENV, NETWORK)
    with pytest.raises(UserError, match="is a data set of tic_tac_toe, not of connect2"):
        open_games(config_of(data), make("connect2"), NETWORK)
    with pytest.raises(UserError, match="dataset is here; it must be left out with --coordinator"):
        config_of(Path("here"), coordinator="auto")
