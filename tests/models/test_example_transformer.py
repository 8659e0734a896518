"""`examples/transformer.py` keeps the contract, is saved and evaluated, as its page says."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import games
from dualmctx.commands.main import main
from dualmctx.experiment.assemble import record_of
from dualmctx.models.network_check import check_network
from dualmctx.runs.network_record import build_network, with_architecture
from dualmctx.runs.saved_network import Trained
from untrained import make_run, parse_train, random_params

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONS = ("width", "8", "num_blocks", "2", "attention_heads", "2")
FLAGS = ("--network", "transformer:make", "--network.options", *OPTIONS)
ENV = games.make("tic_tac_toe")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies the example into an empty folder, in which the command runs."""
    (tmp_path / "transformer.py").write_text((EXAMPLES / "transformer.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("transformer", None)
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["tic-tac-toe", *FLAGS[:2], "--network.options", "width", "9"], "width is 9; it must be"),
        (["hsr", *FLAGS], "boards have 3 axes"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    flags: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *flags]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert "network transformer:make cannot be built: it raised ValueError: " in line
    assert message in line


@pytest.mark.slow
def test_the_example_is_saved_and_evaluated(capfd: pytest.CaptureFixture[str]) -> None:
    record = record_of(*parse_train(["tic-tac-toe", *FLAGS]))
    network: Any = build_network(record, ENV)
    assert (network.head_depths, network.can_resume) == ((1, 2), True)
    check_network(network, ENV)
    params = random_params(network, ENV.observation_shape)
    record = with_architecture(record, network)
    make_run(Path("run"), Trained(ENV, network, params, 7, record))
    named = ["--network", "transformer:make"]
    assert main(["export", "run", "net.safetensors"]) == 2
    assert main(["export", "run", "net.safetensors", *named]) == 0
    Path("positions.jsonl").write_text('{"moves": [4, 0]}\n')
    found = []
    for source in ("run", "net.safetensors"):
        capfd.readouterr()
        assert main(["evaluate", source, "positions.jsonl", "--network-only", *named]) == 0
        found.append(json.loads(capfd.readouterr().out))
    assert found[0] == found[1]
    assert len(found[0]["network_value"]) == 2
