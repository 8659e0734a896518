"""`dualmctx train --pipeline`: its settings, and the input that it refuses."""

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import fake_stage
import numpy as np
import pytest
from fake_stage import NUM_ITERATIONS, SMALL

from dualmctx.commands import train, train_settings
from dualmctx.commands.train_request import KINDS, read_request, read_resumed
from dualmctx.commands.train_settings import Settled
from dualmctx.datasets.manifest import Manifest, write_manifest
from dualmctx.datasets.shards import SPLITS, Shard, shard_path, write_shard
from dualmctx.datasets.tally import Tally, describe_split
from dualmctx.pipeline.config import AlphaGoConfig, ReinforceConfig, config_of_stage
from dualmctx.pipeline.parts import alphago_options
from dualmctx.pipeline.presets import PIPELINE_PRESETS, pipeline_preset
from dualmctx.pipeline.start import plain_record
from dualmctx.runs.folder import create_run
from dualmctx.training.presets import PRESETS
from refusals import exit_code, refusal, unbox

REINFORCE = ["connect2", "--pipeline", "reinforce"]
SUPERVISED = ["connect2", "--pipeline", "supervised"]
VALUE = ["connect2", "--pipeline", "value"]


@pytest.fixture
def fake() -> Iterator[None]:
    """Puts the fake stage in the place of the supervised one."""
    with fake_stage.installed():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished supervised stage of connect2."""
    return fake_stage.run_to_the_end(tmp_path_factory.mktemp("pipeline") / "run")


@pytest.fixture(scope="module")
def self_play(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of self-play, of which only the record is read."""
    folder = tmp_path_factory.mktemp("self_play")
    create_run(folder, {"game": "connect2", "preset": "connect2"})
    return folder


def data_set(folder: Path, game: str, **rows: int) -> Path:
    """Writes a data set of games of one move."""
    folder.mkdir()
    splits, num_actions = {}, 9 if "tic" in game else 4
    for name in SPLITS:
        number = rows.get(name, 5)
        shard = make_shard(number)
        write_shard(shard, shard_path(folder, name, 0))
        splits[name] = describe_split([shard], num_actions) | {"shards": 1}
    counts, none = Tally()._asdict(), dict.fromkeys(SPLITS, 0)
    write_manifest(folder, Manifest(game, {}, {}, [], counts, splits, none, none))
    return folder


def make_shard(number: int) -> Shard:
    zeros, rows = np.zeros(number, np.int32), np.arange(number, dtype=np.int32)
    keys, values = rows.astype(np.uint64), np.zeros(number, np.float32)
    return Shard(
        **{"moves": zeros, "is_random": zeros > 0, "lengths": zeros + 1, "results": values},
        **{"game_keys": keys, "files": zeros, "numbers": rows + 1, "fens": np.full(number, "")},
        **{"games": rows, "plies": zeros, "values": values, "counts": zeros + 1},
        **{"keys": keys, "move_keys": keys},
    )


def refuse(arguments: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Runs a command that fails before it creates a folder; returns its message."""
    message = refusal(train.main, [*arguments, "--out", str(out)], capsys)
    assert not out.exists()
    return message


def settle(*arguments: str) -> Settled:
    request = read_request([*arguments], "dualmctx train")
    return train_settings.settle(request, read_resumed(request), "dualmctx train")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["connect2", "--pipeline", "bogus"],
            ["choice 'bogus'", "'reinforce', 'supervised', 'value'"],
        ),
        (["connect2", "--pipeline"], ["Missing value", "--pipeline"]),
        (["bogus", "--pipeline", "value"], ["no preset 'bogus'", "tic-tac-toe"]),
        (["--pipeline", "value"], ["there is no game", "--game"]),
        (SUPERVISED, ["needs --dataset", "dualmctx dataset"]),
        (REINFORCE, ["needs --init-from"]),
        ([*VALUE, "--init-from", "x"], ["needs --supervised"]),
        ([*SUPERVISED, "--dataset", "no_such"], ["--dataset is no_such", "dualmctx dataset"]),
        ([*SUPERVISED, "--dataset", "tests"], ["not a complete data set"]),
        ([*REINFORCE, "--init-from", "no_such"], ["--init-from no_such", "neither a run"]),
        ([*REINFORCE, "--init-from", "connect2"], ["--init-from connect2", "value network"]),
        ([*REINFORCE, "--init-from", "hex"], ["its game is hex", "connect2"]),
        (
            [*SUPERVISED, "--supervised.learning-rate", "-1"],
            ["supervised: learning_rate is -1", "positive"],
        ),
        ([*SUPERVISED, "--supervised.batchsize", "8"], ["Perhaps", "--supervised.batch-size"]),
        ([*SUPERVISED, "--learner.batch-size", "8"], ["Unrecognized", "--learner.batch-size"]),
        ([*SUPERVISED, "--search.variant", "dual"], ["--search.variant does not apply"]),
        ([*SUPERVISED, "--seed", "-1"], ["seed is -1"]),
    ],
)
def test_bad_input_is_refused_before_a_folder_is_created(
    arguments: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refuse(arguments, tmp_path / "run", capsys)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("rows", "game", "words"),
    [
        ({"train": 0}, "connect2", ["no positions in the split train"]),
        ({"test": 0}, "connect2", ["no positions in the split test", "--test"]),
        ({}, "tic_tac_toe", ["tic_tac_toe", "connect2"]),
    ],
)
def test_a_data_set_that_does_not_fit_is_refused(
    rows: dict[str, int],
    game: str,
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = data_set(tmp_path / "data", game, **rows)
    message = refuse([*SUPERVISED, "--dataset", str(data)], tmp_path / "run", capsys)
    assert all(word in message for word in words), message


def test_a_missing_or_damaged_shard_is_refused_before_a_folder_is_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_set(tmp_path / "data", "connect2")
    command = [*SUPERVISED, "--dataset", str(data)]
    shard = shard_path(data, "test", 0)
    shard.write_bytes(shard.read_bytes()[:10])
    message = refuse(command, tmp_path / "run", capsys)
    assert f"{shard} is damaged, or not a shard of a data set: " in message
    shard.unlink()
    message = refuse(command, tmp_path / "run", capsys)
    assert "has 0 shards in the split test, but its manifest says 1; make the data" in message


def test_networks_that_do_not_fit_are_refused(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    other = ["tic-tac-toe", "--pipeline", "reinforce", "--init-from", str(finished)]
    assert "its game is connect2; it must be tic_tac_toe" in refuse(other, out, capsys)
    missing = [*REINFORCE, "--init-from", f"{finished}@99"]
    assert "no checkpoint of iteration 99" in refuse(missing, out, capsys)
    data = ["--dataset", str(data_set(tmp_path / "data", "connect2"))]
    wider = [*SUPERVISED, *data, "--init-from", str(finished), "--network.width", "4"]
    message = refuse(wider, out, capsys)
    assert "width 8 (here 4)" in message
    shared = [*SUPERVISED, *data, "--network.separate-trunks", "False"]
    assert "separate_trunks is False" in refuse(shared, out, capsys)


def test_a_damaged_input_is_refused(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(finished, damaged)
    for file in (damaged / "checkpoints" / str(NUM_ITERATIONS)).rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    message = refuse([*REINFORCE, "--init-from", str(damaged)], tmp_path / "run", capsys)
    assert f"--init-from {damaged} cannot be used" in message
    assert f"iteration {NUM_ITERATIONS}" in message


@pytest.mark.usefixtures("fake")
def test_a_used_folder_is_refused_and_kept(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (finished / "metrics.jsonl").read_bytes()
    assert train.main([*SMALL, "--out", str(finished)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert (finished / "metrics.jsonl").read_bytes() == before


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pipeline", "value"], ["a run of the pipeline supervised, not of value"]),
        (["tic-tac-toe"], ["a run of the preset connect2, not of tic-tac-toe"]),
        (["--supervised.batch-size", "3"], ["another configuration", "supervised.batch_size"]),
        (["--selfplay.num-games", "8"], ["Unrecognized options: --selfplay.num-games, 8"]),
    ],
)
def test_a_stage_is_resumed_with_its_own_settings(
    arguments: list[str],
    words: list[str],
    finished: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = (finished / "config.json").read_bytes()
    assert exit_code(train.main, [*arguments, "--resume", str(finished)]) == 2
    message = unbox(capsys.readouterr().err)
    assert all(word in message for word in words), message
    assert (finished / "config.json").read_bytes() == before


def test_the_kinds_of_runs_are_not_confused(
    self_play: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(["connect2", "--pipeline", "supervised", "--resume", str(self_play)]) == 2
    assert "leave out --pipeline to continue it" in capsys.readouterr().err
    assert train.main(["--resume", str(self_play)]) == 2
    assert "is not the folder of a training run" in capsys.readouterr().err
    assert train.main(["--pipeline", "value", "--resume", str(tmp_path / "none")]) == 2
    assert "there is no run there" in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
def test_a_changed_input_is_noticed_when_a_stage_is_resumed(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An input may move, but a resumed stage needs the same network."""
    source, out = tmp_path / "source", tmp_path / "run"
    shutil.copytree(finished, source)
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


@pytest.mark.parametrize("stage", KINDS)
def test_printed_settings_are_read_back(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["tic-tac-toe", "--pipeline", stage, "--seed", "5", "--keep", "4"]
    assert train.main([*given, "--print-config"]) == 0
    file = tmp_path / "printed.toml"
    file.write_text(capsys.readouterr().out)
    assert settle("--config", str(file)) == settle(*given)


def test_the_record_of_a_stage_is_a_file_of_settings(finished: Path) -> None:
    found, given = settle("--config", str(finished / "config.json")), settle(*SMALL)
    # The record has the defaults of the network's options.
    network = alphago_options(given.config.network)
    assert found == given._replace(config=dataclasses.replace(given.config, network=network))


def test_the_flag_may_stand_anywhere() -> None:
    game = settle("--game", "tic_tac_toe", "--pipeline", "value")
    assert game == settle("tic-tac-toe", "--pipeline", "value")
    assert game == settle("--pipeline=value", "tic_tac_toe")


def test_flags_take_precedence_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[supervised]\nbatch_size = 32\nnum_updates = 9\n")
    arguments = [*SUPERVISED, "--config", str(file), "--supervised.num-updates", "4"]
    options = settle(*arguments).config.supervised
    preset = PIPELINE_PRESETS["connect2"].supervised
    assert (options.batch_size, options.num_updates) == (32, 4)
    assert options.num_iterations == preset.num_iterations


def test_help_lists_the_stages_and_the_flags_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--pipeline", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {stage} " in said for stage in KINDS)
    for stage in KINDS:
        with contextlib.suppress(SystemExit):
            train.main(["--pipeline", stage, "--help"])
        said = capsys.readouterr().out
        assert f"--{'games.engine' if stage == 'alphago' else stage}" in said


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_of_self_play_has_one_for_the_pipeline(preset: str) -> None:
    config = pipeline_preset(preset)
    assert config is not None
    assert config.game == PRESETS[preset].game
    assert config.game_parameters == PRESETS[preset].game_parameters


def test_the_configuration_of_a_stage_has_the_options_of_the_pipeline() -> None:
    whole = AlphaGoConfig(game="connect2", seed=3, keep=5, dataset="data", opponent="other")
    config = config_of_stage(whole, ReinforceConfig, init_from="run", out="here")
    assert (config.game, config.seed, config.keep) == ("connect2", 3, 5)
    assert config.reinforce is whole.reinforce
    assert (config.init_from, config.out) == ("run", "here")


def test_the_configuration_is_in_json() -> None:
    record = plain_record("alphago", "tic-tac-toe", PIPELINE_PRESETS["tic-tac-toe"])
    assert json.loads(json.dumps(record)) == record
