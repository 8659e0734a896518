"""Games named by an import path, in every command: what is recorded, loaded and refused."""

import json
import shutil
from unittest.mock import Mock

import pytest

from dualmctx import load_trained
from dualmctx.commands import compare
from dualmctx.commands.main import main
from refusals import refused
from untrained import export_untrained, make_run

OWN = "double_move:DoubleMoveNim"
FLAGS = (f"--game={OWN}", "--game-parameters", "pile", "5", "--search.variant", "alphazero")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return export_untrained(tmp_path_factory.mktemp("networks") / "own.safetensors", *FLAGS)


@pytest.fixture
def exported(network, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "positions.jsonl").write_text('{"moves": "1"}\n')
    return shutil.copy(network, tmp_path / "own.safetensors")


@pytest.mark.slow
def test_an_exported_file_holds_the_path_and_imports_it_only_if_it_is_named(exported, capsys):
    trained = load_trained(exported, game=OWN)
    assert (trained.record["game"], trained.record["game_parameters"]) == (OWN, {"pile": 5})
    assert trained.env.observation_shape == (6,)
    evaluate = ["evaluate", "own.safetensors", "positions.jsonl", "--network-only", "--batch", "1"]
    for game in ([], ["--game", "double_move:Other"], ["--game", "nim"]):
        error = refused([*evaluate, *game], capsys)
        assert f"own.safetensors has the game {OWN}, which is outside dualmctx" in error
        assert f"--game {OWN}" in error
    assert main([*evaluate, "--game", OWN]) == 0
    assert json.loads(capsys.readouterr().out)["move"] in ("0", "1")


@pytest.mark.slow
def test_a_comparison_without_networks_refuses_a_game_of_chance(tmp_path, monkeypatch, capsys):
    """As in pgx's backgammon, step needs a key."""
    (tmp_path / "dice.py").write_text(
        "from games.nim import Nim\n"
        "class make(Nim):\n"
        "    def step(self, state, action, key): return super().step(state, action)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    compare = ["compare", "random", "other=random", "--games", "4", "--out", str(tmp_path / "out")]
    error = refused([*compare, "--game", "dice:make"], capsys)
    assert "dice:make cannot be played: JAX cannot trace step" in error
    assert "check-game dice:make" in error


@pytest.mark.slow
def test_a_tournament_holds_the_path_and_the_parameters(tmp_path, monkeypatch):
    for name in ("measure_played", "print_report"):
        monkeypatch.setattr(compare, name, Mock())
    write_report = Mock()
    monkeypatch.setattr(compare, "write_report", write_report)
    players = ["compare", "random", "other=random", "--games", "2", "--opening-plies", "1"]
    flags = ["--game", OWN, "--game-parameters", "pile", "9", "--out", str(tmp_path / "played")]
    assert main([*players, *flags]) == 0
    config = json.loads((tmp_path / "played" / "config.json").read_text())
    assert (config["game"], config["about"]["game_parameters"]) == (OWN, {"pile": 9})
    settings = write_report.call_args.args[1]
    assert (settings["game"], settings["game_parameters"]) == (OWN, {"pile": 9})


@pytest.mark.slow
def test_a_run_folder_is_loaded_and_exported(exported, capsys):
    make_run(exported.parent / "run", load_trained(exported, game=OWN))
    assert load_trained("run", game=OWN).env.id == OWN
    assert main(["export", "run", "other.safetensors", "--game", OWN]) == 0
    assert f"other.safetensors: {OWN} after 7 iterations" in capsys.readouterr().out
    assert load_trained("other.safetensors", game=OWN).record["game_parameters"] == {"pile": 5}
