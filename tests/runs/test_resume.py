"""Runs that are resumed with their own settings, prolonged, or started from a network."""

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx.commands import train
from dualmctx.experiment import assemble, runner, selfplay
from dualmctx.experiment.assemble import load_initial_params, record_of
from dualmctx.runs.checkpoint import check_config
from dualmctx.runs.folder import create_run, read_config, reopen_run, require_iterations
from dualmctx.runs.network_record import build_network
from dualmctx.runs.saved_network import export_trained, load_trained
from dualmctx.training.config import Config
from dualmctx.training.presets import PRESETS
from dualmctx.training.trainer import Trainer, TrainState
from refusals import exit_code, unbox
from untrained import make_fake_trainer, on_one_device, parse_train

FLAGS = ["hsr", "--search.variant", "gumbel", "--seed", "3", "--learner.max-gradient-norm", "inf"]


def record(arguments: list[str]) -> dict[str, Any]:
    return record_of(*parse_train(arguments))


def make_run(path: Path, arguments: list[str] = FLAGS) -> Config:
    """Writes the `config.json` of a run; returns the configuration that resumes it."""
    create_run(path, record(arguments))
    config = parse_train(arguments)[1]
    network = dataclasses.replace(config.network, separate_trunks=False)
    return dataclasses.replace(config, resume=True, out=str(path), network=network)


def test_a_run_is_resumed_with_its_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by its folder, or found by its preset or in the present folder."""
    folder = tmp_path / "runs" / "hsr"
    config = make_run(folder)
    for arguments in (
        ["--resume={}"],
        ["--out={}", "--resume"],
        ["hsr", "--resume", "{}", "--seed", "3"],
        [*FLAGS, "--resume=auto", "--out", "{}"],
    ):
        assert parse_train([x.format(folder) for x in arguments]) == ("hsr", config)
    monkeypatch.chdir(tmp_path)
    out = str(Path("runs", "hsr"))
    assert parse_train(["hsr", "--resume"]) == ("hsr", dataclasses.replace(config, out=out))
    monkeypatch.chdir(tmp_path / "runs" / "hsr")
    assert parse_train(["--resume"]) == ("hsr", dataclasses.replace(config, out="."))


def test_resume_auto_starts_a_run_that_does_not_exist(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    new = parse_train([*FLAGS, "--resume", "auto", "--out", out])
    assert new == parse_train([*FLAGS, "--out", out])
    assert not new[1].resume
    create_run(tmp_path / "run", record_of(*new))
    resumed = parse_train([*FLAGS, "--resume", "auto", "--out", out])
    assert resumed[1].resume
    reopen_run(tmp_path / "run", record_of(*resumed))


BAD = [
    (["--resume"], "--resume needs the folder of a run: --resume FOLDER, or --out FOLDER"),
    (["--resume", "none"], "none has no config.json, so there is no run there"),
    (["--resume", "run", "--out", "other"], "--out is other, but --resume names run; leave one"),
    (["--resume", "partial"], "partial is not the folder of a training run"),
    (["--resume", "broken"], "config.json: there is no entry 'sede'; perhaps you meant seed"),
    (["--resume", "run", "--init-from", "nim"], "init_from (None → nim)"),
    (["nim", "--resume", "run"], "run is a run of the preset hsr, not of nim"),
    (["--resume", "run", "--seed", "4", "--keep", "9"], "configuration: seed (3 → 4)"),
    (["--resume", "run", "--schedule-iterations", "9"], "schedule_iterations (100 → 9)"),
    (["--resume", "run", "--config", "some.toml"], "learner.capacity (16384 → 8192)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "words"), BAD, ids=[" ".join(x) for x, _ in BAD])
def test_a_bad_request_to_resume_is_refused(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(Path("run"))
    partial = {name: x for name, x in record(FLAGS).items() if name not in ("learner", "search")}
    create_run(Path("partial"), partial)
    create_run(Path("broken"), record(FLAGS) | {"sede": 3})
    Path("some.toml").write_text("[learner]\ncapacity = 8192\n")
    before = Path("run", "config.json").read_bytes()
    assert exit_code(train.main, arguments) == 2
    said = capsys.readouterr()
    assert words in unbox(said.err)
    assert said.out == ""
    assert Path("run", "config.json").read_bytes() == before


def test_a_prolonged_run_keeps_its_schedule(tmp_path: Path) -> None:
    make_run(tmp_path)
    first = read_config(tmp_path)
    assert (first["num_iterations"], first["schedule_iterations"]) == (100, None)
    changes = ["--num-iterations", "300", "--keep", "7", "--checkpoint-minutes", "5"]
    name, config = parse_train(["--resume", str(tmp_path), *changes, "--evals.every", "50"])
    assert (config.num_iterations, config.schedule_iterations) == (300, 100)
    reopen_run(tmp_path, record_of(name, config))
    second = read_config(tmp_path)
    changed = {"num_iterations": 300, "schedule_iterations": 100, "keep": 7}
    changed |= {"checkpoint_minutes": 5.0, "evals": first["evals"] | {"every": 50}}
    assert second == first | changed
    # The checkpoints so far hold the first configuration, the next ones the second.
    check_config(tmp_path, 20, first)
    check_config(tmp_path, 120, second)
    # A second change keeps the schedule too, and resuming without flags keeps all settings.
    resume = ["--resume", str(tmp_path)]
    assert parse_train(resume)[1] == config
    assert parse_train([*resume, "--num-iterations", "200"])[1].schedule_iterations == 100
    # A new run from this file has its schedule as well.
    file = str(tmp_path / "config.json")
    again = parse_train(["--config", file, "--num-iterations", "100"])[1]
    assert (again.schedule_iterations, again.resume) == (100, False)


@pytest.mark.slow
def test_fewer_iterations_than_are_done_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    monkeypatch.setattr(assemble, "make_trainer", make_fake_trainer)
    make_run(tmp_path, ["connect2"])
    (tmp_path / "checkpoints" / "7").mkdir(parents=True)
    (tmp_path / "checkpoints" / "12.orbax-checkpoint-tmp").mkdir()
    before = (tmp_path / "config.json").read_bytes()
    assert train.main(["--resume", str(tmp_path), "--num-iterations", "6"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"num_iterations is 6, but the run in {tmp_path} has 7 iterations; with 7 it" in line
    assert (tmp_path / "config.json").read_bytes() == before
    require_iterations(tmp_path, 7)
    require_iterations(tmp_path / "none", 1)


def test_the_schedule_has_a_length_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    trainer = lambda *_, num_iterations, **__: found.append(num_iterations)  # noqa: E731
    monkeypatch.setattr(assemble, "make_trainer", trainer)
    env = games.make("nim")
    for number in (None, 40, 90):
        config = dataclasses.replace(PRESETS["nim"], schedule_iterations=number)
        assemble.build_trainer(config, env, build_network(record_of("nim", config), env))
    assert found == [60, 40, 90]


def test_checkpoints_are_due_by_iterations_and_by_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    rules = {minutes: runner.checkpoint_rule(4, minutes) for minutes in (None, 1.0, 1e-9)}
    due: dict[float | None, list[int]] = {minutes: [] for minutes in rules}
    for iteration in range(1, 10):
        # An iteration takes 25 seconds.
        clock[0] += 25
        for minutes, is_due in rules.items():
            due[minutes] += [iteration] if is_due(iteration) else []
    # Minutes count from the last checkpoint of either kind.
    assert due == {None: [4, 8], 1.0: [3, 4, 7, 8], 1e-9: list(range(1, 10))}


def connect2(*flags: str) -> Config:
    """Returns a run for which the packaged network fits."""
    options = load_trained("connect2").record["network"]
    size = ["--network.width", str(options["width"]), "--network.num-blocks"]
    return parse_train(["connect2", *size, str(options["num_blocks"]), *flags])[1]


def small_trainer() -> Trainer:
    """Returns a trainer whose states have no games and no positions."""
    trained = load_trained("connect2")
    params = jax.tree.map(jnp.zeros_like, trained.params)
    state = TrainState(params, (), (), (), jnp.zeros(2, jnp.uint32), jnp.int32(0))  # pyright: ignore

    def trains(_: Any) -> Any:
        pytest.fail("it trains")

    return Trainer(lambda _: state, trains, on_one_device(state), trains)


@pytest.mark.slow
def test_a_run_starts_from_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    monkeypatch.setattr(assemble, "make_trainer", lambda *_, **__: small_trainer())
    trained = load_trained("connect2")
    export_trained(trained, tmp_path / "exported.safetensors")
    config = connect2(
        "--init-from", str(tmp_path / "exported.safetensors"), "--out", str(tmp_path / "run")
    )
    run = assemble.assemble("connect2", config)
    assert read_config(tmp_path / "run")["init_from"] == str(tmp_path / "exported.safetensors")
    state, metrics = runner.initial_state(selfplay.stage_run(run, None, pytest.fail))
    assert (int(state.iteration), metrics.rows) == (0, [])
    jax.tree.map(np.testing.assert_array_equal, state.params, trained.params)
    # A run that was stopped before its first checkpoint starts there again; a later one does not.
    resumed = dataclasses.replace(config, resume=True)
    # The later run saves: opening it removes incomplete checkpoints, those of `run` too.
    (tmp_path / "run" / "checkpoints" / "1.orbax-checkpoint-tmp").mkdir()
    later = assemble.assemble("connect2", resumed)
    assert later.initial_params is not None
    later.checkpoints.save(3, state)
    later.checkpoints.wait()
    (tmp_path / "exported.safetensors").unlink()
    again = assemble.assemble("connect2", resumed)
    assert again.initial_params is None
    state, _ = runner.initial_state(selfplay.stage_run(again, None, pytest.fail))
    jax.tree.map(np.testing.assert_array_equal, state.params, trained.params)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "flags", "words"),
    [
        ("none", [], "none is neither a run's folder, nor an exported"),
        ("hsr", [], "init_from is hsr, a network for hsr; the run needs one for connect2"),
        ("connect2@x", [], "there is no network connect2@x; a checkpoint is FOLDER@ITERATION"),
        ("connect2", ["--network.width", "5"], "(here 5): choose the same --network options"),
        ("connect2", ["--search.variant", "mpv"], "do not fit the network of the run: params/"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(source: str, flags: list[str], words: str) -> None:
    config = connect2(*flags)
    env = games.make("connect2")
    network = build_network(record_of("connect2", config), env)
    with pytest.raises(ValueError, match=f"^[^\n]*{re.escape(words)}[^\n]*$"):
        load_initial_params(dataclasses.replace(config, init_from=source), env, network)


def test_an_iteration_of_a_network_is_named(tmp_path: Path) -> None:
    env, config = games.make("connect2"), connect2()
    network = build_network(record_of("connect2", config), env)
    trained = load_trained("connect2")
    config = dataclasses.replace(config, init_from=f"connect2@{trained.iteration}")
    found = load_initial_params(config, env, network)
    jax.tree.map(np.testing.assert_array_equal, found, trained.params)
    # A path with @ is a path.
    export_trained(trained, tmp_path / "a@b.safetensors")
    config = dataclasses.replace(config, init_from=str(tmp_path / "a@b.safetensors"))
    load_initial_params(config, env, network)
