"""`examples/transformer.py` is trained, evaluated and reloaded, as its documentation says."""

import functools
import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx import export_trained, load_trained
from dualmctx.commands import train
from dualmctx.commands.main import main
from dualmctx.experiment.assemble import record_of
from dualmctx.models.network_check import check_network
from dualmctx.runs.network_record import build_network, with_architecture
from dualmctx.runs.saved_network import Trained

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONS = ("width", "8", "num_blocks", "2", "attention_heads", "2")
FLAGS = ("--network", "transformer:make", "--network.options", *OPTIONS)
ENV = games.make("tic_tac_toe")
OBSERVATION = np.random.default_rng(0).integers(0, 2, (4, *ENV.observation_shape)).astype(bool)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies the example into an empty folder, in which the command runs."""
    (tmp_path / "transformer.py").write_text((EXAMPLES / "transformer.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("transformer", None)
    return tmp_path


def make_trained() -> Trained:
    name, config = train.parse(["tic-tac-toe", *FLAGS])
    record = record_of(name, config)
    network = build_network(record, ENV)
    observation = jnp.zeros((1, *ENV.observation_shape))
    shapes = jax.eval_shape(network.init, jax.random.PRNGKey(0), observation)
    draws = np.random.default_rng(1)
    params = jax.tree.map(lambda x: jnp.asarray(draws.normal(0, 0.3, x.shape), x.dtype), shapes)
    return Trained(ENV, network, params, 1, with_architecture(record, network))


@pytest.mark.slow
def test_the_example_keeps_the_contract() -> None:
    network = make_trained().network
    assert (network.head_depths, network.can_resume) == ((1, 2), True)
    check_network(network, ENV)


@pytest.mark.slow
def test_the_final_head_resumes_with_the_output_of_the_whole_network() -> None:
    trained = make_trained()

    def evaluate(params: Any, observation: Any) -> Any:
        apply = trained.network.apply
        activations, first = apply(params, observation, 0, method="begin")
        final = apply(params, activations, 0, 1, method="resume")[1]
        return (first, final), apply(params, observation)

    parts, whole = jax.jit(evaluate)(trained.params, OBSERVATION)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), parts, whole)
    assert np.std(whole[1].logits) > 0.1


@pytest.mark.slow
def test_reloading_is_exact_bit_for_bit() -> None:
    trained = make_trained()
    export_trained(trained, "net.safetensors")
    found = load_trained("net.safetensors", network="transformer:make")
    jax.tree.map(np.testing.assert_array_equal, found.params, trained.params)
    one, other = (jax.jit(x.network.apply)(x.params, OBSERVATION) for x in (trained, found))
    jax.tree.map(np.testing.assert_array_equal, one, other)


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


TINY = (
    *("--search.num-simulations", "6", "3", "--search.num-rounds", "3"),
    *("--selfplay.num-games", "8"),
    *("--selfplay.num-steps", "2", "--learner.num-updates", "2", "--learner.batch-size", "8"),
    *("--evals.every", "0", "--evals.stop-when-solved", "0", "--num-iterations", "1"),
    *("--out", "run"),
)


@pytest.mark.slow
def test_the_example_trains_evaluates_and_plays(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "tic-tac-toe", *FLAGS, *TINY]) == 0
    assert main(["train", "tic-tac-toe", *FLAGS, *TINY[:-3], "2", "--out", "run"]) == 2
    assert "--out run --resume" in capfd.readouterr().err
    named = ["--network", "transformer:make"]
    assert main(["export", "run", "net.safetensors"]) == 2
    assert main(["export", "run", "net.safetensors", *named]) == 0
    Path("positions.jsonl").write_text('{"moves": [4, 0]}\n')
    found = []
    for source in ("run", "net.safetensors"):
        capfd.readouterr()
        assert main(["evaluate", source, "positions.jsonl", *named]) == 0
        found.append(json.loads(capfd.readouterr().out))
    assert found[0] == found[1]
    assert len(found[0]["network_value"]) == 2
    players = ["run+alphazero", "a=random"]
    flags = [*named, "--games", "2", "--simulations", "4"]
    assert main(["compare", *players, *flags, "--out", "comparison"]) == 0
    assert Path("comparison/report.html").exists()
