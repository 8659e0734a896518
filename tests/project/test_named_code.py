"""No file names code by itself: what it names is imported only if the user names the same path."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import games
from dualmctx import load_trained
from dualmctx.commands.main import main
from dualmctx.datasets import load_dataset
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import load_initial_params
from dualmctx.import_path import require_named
from dualmctx.runs.array_file import read_arrays, write_arrays
from dualmctx.runs.folder import create_run
from dualmctx.runs.saved_network import load_record
from made_data_sets import build, write_games
from untrained import make_run, make_untrained, parse_train

GAME, NETWORK = "marking_game:make", "marking_net:make"
MODULE = "from pathlib import Path\n\nPath('executed').touch()\n\n\ndef make(**_):\n    return 3\n"


@pytest.fixture(autouse=True)
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts modules into the current folder that leave a mark when they are imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for path in (GAME, NETWORK):
        name = path.partition(":")[0]
        monkeypatch.delitem(sys.modules, name, raising=False)
        Path(f"{name}.py").write_text(MODULE)
    return tmp_path / "executed"


def with_code(record: dict[str, Any], kind: str) -> dict[str, Any]:
    """Returns a record with the game or the network of a stranger."""
    if kind == "game":
        return record | {"game": GAME, "game_parameters": {}}
    architecture = {
        **{"type": "imported", "factory": NETWORK, "options": {}, "observation_shape": [21]},
        **{"head_depths": [1], "fields": {}},
    }
    return record | {"architecture": architecture}


def write_exported(kind: str) -> str:
    source = Path(load_trained.__code__.co_filename).parents[1] / "trained_networks"
    content, arrays = read_arrays(source / "nim.safetensors", "a network")
    record = with_code(content["config"], kind)
    write_arrays(Path("net.safetensors"), arrays, content | {"config": record})
    return "net.safetensors"


def write_run(kind: str) -> str:
    trained = make_untrained("nim")
    make_run(Path("run"), trained._replace(record=with_code(trained.record, kind)))
    return "run"


SOURCES = {"exported": write_exported, "run": write_run}
READERS: dict[str, Callable[[str], Any]] = {"load": load_trained, "record": load_record}
COMMANDS = {
    "evaluate": ["evaluate", "SOURCE", "positions.jsonl", "--network-only"],
    "serve": ["serve", "SOURCE"],
    "play": ["play", "SOURCE", "--no-browser", "--port", "0"],
    "gtp": ["gtp", "SOURCE"],
    "uci": ["uci", "SOURCE"],
    "tree": ["tree", "SOURCE", "--out", "tree.html"],
    "compare": ["compare", "SOURCE+alphazero", "random", "--out", "compared"],
    "dataset": ["dataset", "nim", "--from", "SOURCE+own"],
    "export": ["export", "SOURCE", "other.safetensors"],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["game", "network"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", READERS)
def test_a_network_imports_code_only_if_the_user_names_it(
    name: str, source: str, kind: str, marks: Path
) -> None:
    read, path, code = READERS[name], SOURCES[source](kind), GAME if kind == "game" else NETWORK
    words = rf"^{path} has the {kind} {code}, which is outside dualmctx; .*: --{kind} {code} \("
    for named in ({}, {"game": NETWORK, "network": GAME}):
        with pytest.raises(UserError, match=words):
            read(path, **named)
    assert not marks.exists()
    if name == "load":
        # The module is imported, and its factory returns no game and no network.
        with pytest.raises(UserError, match=f"^{path} cannot be used: .*{code}"):
            read(path, **{kind: code})
        assert marks.exists()


@pytest.mark.parametrize("kind", ["game", "network"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_no_code_that_only_a_file_names(
    command: str, kind: str, marks: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("positions.jsonl").write_text('{"moves": []}\n')
    path = write_exported(kind)
    assert main([x.replace("SOURCE", path) for x in COMMANDS[command]]) == 2
    assert f"has the {kind} marking_" in capfd.readouterr().err.splitlines()[-1]
    assert not marks.exists()


@pytest.mark.parametrize("kind", ["game", "network"])
def test_initial_parameters_import_no_code_that_only_a_file_names(kind: str, marks: Path) -> None:
    trained = make_untrained("nim")
    config = parse_train(["nim", "--init-from", write_exported(kind)])[1]
    with pytest.raises(UserError, match=rf"^net\.safetensors has the {kind} marking_"):
        load_initial_params(config, trained.env, trained.network)
    assert not marks.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["game", "network", "stage"])
def test_a_resumed_run_imports_no_code_that_only_its_record_names(kind: str, marks: Path) -> None:
    record = {"preset": "nim"} | make_untrained("nim").record
    if kind == "stage":
        kind, record = "game", {"pipeline": "supervised", "preset": "x", "dataset": "data"}
    code, flags = GAME if kind == "game" else NETWORK, ["--resume", "run"]
    entry = {"game": GAME} if kind == "game" else {"network": {"factory": NETWORK}}
    create_run(Path("run"), record | entry)
    Path("settings.json").write_text(json.dumps(entry))
    with pytest.raises(UserError, match=rf"^run has the {kind} {code}, .* it: --{kind} {code}$"):
        parse_train(flags)
    assert main(["train", *flags]) == 2
    for named in ([f"--{kind}", code], ["--config", "settings.json"]):
        config = parse_train([*flags, *named])[1]
        assert code == (config.game if kind == "game" else config.network.factory)
    # The code is imported when the run starts, and not when its settings are read.
    assert not marks.exists()


@pytest.mark.parametrize(
    ("game", "parameters"), [(GAME, {}), ("numpy:save", {"file": "executed", "arr": 1})]
)
def test_a_data_set_imports_no_game(game: str, parameters: dict[str, Any], marks: Path) -> None:
    folder = Path("set")
    games_file = write_games(Path("x.jsonl"), [[2] * 6 + [1]])
    build(folder, "nim", [games_file], validation=0.0, test=0.0)
    file = folder / "dataset.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"game": game, "game_parameters": parameters}))
    words = rf"^set has the game {game}, which is .*: in Python env=games.make\('{game}', ...\)$"
    with pytest.raises(UserError, match=words):
        load_dataset(folder)
    [batch] = load_dataset(folder, env=games.make("nim"))
    assert len(batch.plies) == 7
    assert not list(Path().glob("executed*"))


@pytest.mark.parametrize("name", ["nim", None, ["a:b"]])
def test_a_value_that_is_no_import_path_needs_no_name(name: Any) -> None:
    require_named(name, (), "x.json", "game")
