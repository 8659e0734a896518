"""`dualmctx train --pipeline`: its settings, and the input that it refuses."""

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fake_stage
from dualmctx.commands import train
from dualmctx.commands.train_settings import Settled, read_request
from dualmctx.datasets.shards import shard_path
from dualmctx.pipeline.config import (
    PIPELINE_PRESETS,
    pipeline_preset,
)
from dualmctx.pipeline.options import (
    GamesOptions,
    PlayerOptions,
    ReinforceOptions,
    ValueOptions,
)
from dualmctx.pipeline.parts import alphago_options
from dualmctx.pipeline.start import STAGES
from dualmctx.runs.folder import create_run
from dualmctx.training.presets import PRESETS
from fake_stage import NUM_ITERATIONS, SMALL, Finished
from made_data_sets import build, play_randomly, write_games
from refusals import exit_code, refusal, unbox

REINFORCE = ["connect2", "--pipeline", "reinforce"]
SUPERVISED = ["connect2", "--pipeline", "supervised"]
VALUE = ["connect2", "--pipeline", "value"]


@pytest.fixture
def fake() -> Iterator[None]:
    """Puts the fake stage in the place of the supervised one."""
    with fake_stage.installed():
        yield


def data_set(folder: Path, game: str = "connect2", **shares: float) -> str:
    """Makes a data set of random games."""
    file = write_games(folder.with_suffix(".jsonl"), play_randomly(game, 40))
    build(folder, game, [file], **{"validation": 0.3, "test": 0.3} | shares)
    return str(folder)


def refuse(arguments: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Runs a command that fails before it creates a folder; returns its message."""
    message = refusal(train.main, [*arguments, "--out", str(out)], capsys)
    assert not out.exists()
    return message


def settle(*arguments: str) -> Settled:
    return train.settle_here(read_request([*arguments], "dualmctx train"), "dualmctx train")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["connect2", "--pipeline", "bogus"],
            ["choice 'bogus'", "'reinforce', 'supervised', 'value'"],
        ),
        (["connect2", "--pipeline"], ["Missing value", "--pipeline"]),
        (["bogus", "--pipeline", "value"], ["no preset 'bogus'", "tic-tac-toe"]),
        (["--pipeline", "value"], ["there is no preset;", "a game with --game, or a run with"]),
        (SUPERVISED, ["needs --dataset", "dualmctx dataset"]),
        ([*VALUE, "--init-from", "x"], ["needs --supervised"]),
        ([*SUPERVISED, "--dataset", "no_such"], ["--dataset is no_such", "dualmctx dataset"]),
        ([*SUPERVISED, "--dataset", "tests"], ["not a complete data set"]),
        ([*REINFORCE, "--init-from", "no_such"], ["--init-from no_such", "neither a run"]),
        ([*REINFORCE, "--init-from", "connect2"], ["--init-from connect2", "value network"]),
        (
            [*SUPERVISED, "--supervised.learning-rate", "-1"],
            ["supervised: learning_rate is -1", "positive"],
        ),
        ([*SUPERVISED, "--supervised.batchsize", "8"], ["Perhaps", "--supervised.batch-size"]),
        ([*SUPERVISED, "--search.variant", "dual"], ["--search.variant does not apply"]),
    ],
)
def test_bad_input_is_refused_before_a_folder_is_created(
    arguments: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refuse(arguments, tmp_path / "run", capsys)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("options", "value", "words"),
    [
        (ReinforceOptions, {"num_games": 7}, "num_games is 7; it must be even"),
        (ReinforceOptions, {"pool_size": 0}, "pool_size is 0; it must be at least 1"),
        (ReinforceOptions, {"value_learning_rate": -1.0}, "is -1.0; it must be positive"),
        (ReinforceOptions, {"max_gradient_norm": float("nan")}, "is nan; it must be positive"),
        (ReinforceOptions, {"max_plies": 4}, "max_plies is 4; it must be above 4, the larger"),
        (ReinforceOptions, {"opening_plies": 1024}, "max_plies is 1024; it must be above 1024"),
        (ValueOptions, {"games_per_batch": 0}, "games_per_batch is 0"),
        (ValueOptions, {"num_games": 100}, "batch_size is 256; it must be at most num_games, 100"),
        (ValueOptions, {"max_opening_plies": 1024}, "is 1024; it must be less than max_plies"),
        (ValueOptions, {"test_share": 1.0}, "test_share is 1.0"),
        (PlayerOptions, {"num_games": 5}, "num_games is 5; it must be even"),
        (PlayerOptions, {"rollout_mixes": ()}, "rollout_mixes is empty"),
        (PlayerOptions, {"opening_plies": (0,)}, "opening_plies is 0; it must be numbers from 1"),
        (GamesOptions, {"test": 0.97}, "validation and test is 0.05 and 0.97; it must be together"),
        (GamesOptions, {"random_share": 1.0}, "random_share is 1.0"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options: Any, value: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        options(**value)


@pytest.mark.slow
def test_damaged_inputs_and_networks_that_do_not_fit_are_refused(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, source, damaged = tmp_path / "run", str(finished.out), tmp_path / "damaged"
    shutil.copytree(source, damaged)
    for file in (damaged / "checkpoints" / str(NUM_ITERATIONS)).rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    supervised = [*SUPERVISED, "--dataset", data_set(tmp_path / "data")]
    untested, other = data_set(tmp_path / "x", test=0.0), data_set(tmp_path / "y", "tic_tac_toe")
    for command, words in (
        ([*SUPERVISED, "--dataset", untested], "no positions in the split test"),
        ([*SUPERVISED, "--dataset", other], "is a data set of tic_tac_toe, not of connect2"),
        (["tic-tac-toe", *REINFORCE[1:], "--init-from", source], "game is connect2; it must be ti"),
        ([*REINFORCE, "--init-from", f"{source}@99"], "no checkpoint of iteration 99"),
        ([*REINFORCE, "--init-from", f"{source}@x"], "there is no network "),
        ([*REINFORCE, "--init-from", str(damaged)], f"--init-from {damaged} cannot be used"),
        ([*supervised, "--init-from", source, "--network.width", "4"], "width 8 (here 4)"),
        ([*supervised, "--network.separate-trunks", "False"], "separate_trunks is False"),
    ):
        assert words in refuse(command, out, capsys)
    shard = shard_path(tmp_path / "data", "test", 0)
    shard.write_bytes(shard.read_bytes()[:10])
    message = refuse(supervised, out, capsys)
    assert f"{shard} is damaged, or not a shard of a data set: " in message


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pipeline", "value", "--resume", "RUN"], ["pipeline supervised, not of value"]),
        (["tic-tac-toe", "--resume", "RUN"], ["of the preset connect2, not of tic-tac-toe"]),
        (["--selfplay.num-games", "8", "--resume", "RUN"], ["options: --selfplay.num-games, 8"]),
        ([*SUPERVISED, "--resume", "SELF_PLAY"], ["leave out --pipeline to continue it"]),
        (["--resume", "SELF_PLAY"], ["is not the folder of a training run"]),
    ],
)
def test_a_run_is_continued_with_its_own_settings_only(
    arguments: list[str],
    words: list[str],
    finished: Finished,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names, self_play = ("config.json", "metrics.jsonl"), tmp_path / "self_play"
    before = [(finished.out / name).read_bytes() for name in names]
    # The folder of a run of self-play, of which only the record is read.
    create_run(self_play, {"game": "connect2", "preset": "connect2"})
    paths = {"RUN": str(finished.out), "SELF_PLAY": str(self_play)}
    assert exit_code(train.main, [paths.get(x, x) for x in arguments]) == 2
    message = unbox(capsys.readouterr().err)
    assert all(word in message for word in words), message
    assert [(finished.out / name).read_bytes() for name in names] == before


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_a_changed_input_is_noticed_when_a_stage_is_resumed(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An input may move, but a resumed stage needs the same network."""
    source, out = tmp_path / "source", tmp_path / "run"
    shutil.copytree(finished.out, source)
    assert train.main([*SMALL, "--init-from", str(source), "--out", str(out)]) == 0
    moved = source.rename(tmp_path / "moved")
    resumed = ["--resume", str(out), "--init-from"]
    assert train.main([*resumed, str(moved)]) == 0
    capsys.readouterr()
    assert train.main([*resumed, f"{moved}@6"]) == 2
    message = capsys.readouterr().err
    assert "another configuration" in message
    assert "inputs.init_from.iteration (7 → 6)" in message


@pytest.mark.usefixtures("fake")
def test_auto_starts_a_stage_and_continues_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder has the names of the preset and of the stage."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert train.main([*SMALL, "--resume", "auto"]) == 0
    assert (Path("runs") / "connect2-supervised" / "summary.json").exists()
    assert "1/7" in capsys.readouterr().out


@pytest.mark.parametrize("stage", STAGES)
def test_printed_settings_are_read_back(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["tic-tac-toe", "--pipeline", stage, "--seed", "5", "--keep", "4"]
    assert train.main([*given, "--print-config"]) == 0
    file = tmp_path / "printed.toml"
    file.write_text(capsys.readouterr().out)
    assert settle("--config", str(file)) == settle(*given)


def test_the_record_of_a_stage_is_a_file_of_settings(finished: Finished) -> None:
    found, given = settle("--config", str(finished.out / "config.json")), settle(*SMALL)
    # The record has the defaults of the network's options.
    network = alphago_options(given.config.network)
    assert found == given._replace(config=dataclasses.replace(given.config, network=network))


def test_flags_take_precedence_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[supervised]\nbatch_size = 32\nnum_updates = 9\n")
    arguments = [*SUPERVISED, "--config", str(file), "--supervised.num-updates", "4"]
    options = settle(*arguments).config.supervised
    preset = PIPELINE_PRESETS["connect2"].supervised
    assert (options.batch_size, options.num_updates) == (32, 4)
    assert options.num_iterations == preset.num_iterations
    # The flag --pipeline may stand anywhere.
    game = settle("--game", "tic_tac_toe", "--pipeline", "value")
    assert game == settle("tic-tac-toe", "--pipeline", "value")
    assert game == settle("--pipeline=value", "tic_tac_toe")


def test_help_lists_the_stages_and_the_flags_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--pipeline", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {stage} " in said for stage in STAGES)
    for stage, kind in STAGES.items():
        with contextlib.suppress(SystemExit):
            train.main(["--pipeline", stage, "--help"])
        said = capsys.readouterr().out
        # A message names the flags of all batches when memory runs out.
        assert all(flag in said for flag in kind.smaller.split(" or "))
        sizes = [f"--{stage}.{x}" for x in ("batch-size", "games-per-batch", "eval-games")]
        assert all(flag in kind.smaller for flag in sizes if flag in said)
        assert f"--{'games.engine' if stage == 'alphago' else stage}" in said


def test_every_preset_of_self_play_has_one_for_the_pipeline() -> None:
    for name, preset in PRESETS.items():
        config = pipeline_preset(name)
        assert config is not None
        assert (config.game, config.game_parameters) == (preset.game, preset.game_parameters)
