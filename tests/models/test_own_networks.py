"""`--network package.module:factory`: flags, records, exported files, and what the errors say."""

import functools
import importlib
import io
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import games
from dualmctx import adapt_network, export_trained, load_trained
from dualmctx.commands.main import main
from dualmctx.experiment.assemble import assemble, check_head, record_of
from dualmctx.models.adapted_network import import_network
from dualmctx.models.network_check import check_network
from dualmctx.models.user_modules import describe_fields, restore_fields
from dualmctx.policies import Chain
from dualmctx.runs.network_record import build_network, describe_network, with_architecture
from dualmctx.runs.saved_network import Trained
from own_networks import Broken, Dense
from untrained import make_run, parse_train, random_params

ENV = games.make("tic_tac_toe")
SHAPE = ENV.observation_shape
SOURCE = """
from flax import linen as nn
import jax.numpy as jnp

class Net(nn.Module):
    num_actions: int
    width: int = 4
    sizes: tuple = (3, 4)
    activation: object = nn.relu

    @nn.compact
    def __call__(self, x):
        x = self.activation(nn.Dense(self.width)(x.reshape(x.shape[0], -1)))
        return nn.Dense(self.num_actions)(x), jnp.tanh(nn.Dense(1)(x))

def make(num_actions, observation_shape, **options):
    return Net(num_actions, **options)
"""


def make_trained(*flags: str) -> Trained:
    """Makes an untrained network of the user with random parameters."""
    record = record_of(*parse_train(["tic-tac-toe", *flags]))
    network = build_network(record, ENV)
    record = with_architecture(record, network)
    return Trained(ENV, network, random_params(network, SHAPE), 7, record)


DENSE = ("--network", "own_networks:make_dense", "--network.options", "width", "6")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Writes a module of a user into the current folder; returns its name."""
    name = re.sub(r"\W", "_", f"own_{tmp_path.name}")
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return name


def edit(name: str, old: str, new: str) -> None:
    """Changes a user's module, as if the next command ran later."""
    file = Path(f"{name}.py")
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    sys.modules.pop(name, None)
    importlib.invalidate_caches()


@pytest.mark.slow
def test_a_saved_network_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    trained = make_trained(*DENSE)
    run, file = make_run(tmp_path / "run", trained), tmp_path / "net.safetensors"
    export_trained(load_trained(run, network="own_networks:make_dense"), file)
    found = load_trained(file, network="own_networks:make_dense")
    assert (found.network, found.record) == (trained.network, trained.record)
    assert found.record["architecture"] == describe_network(trained.network)
    observation, params = jnp.ones((3, *SHAPE), bool), jax.tree.map(lambda x: x * 7, trained.params)
    pair = (jax.jit(x.network.apply) for x in (trained, found))
    one, other = (run(x, observation) for run, x in zip(pair, (params, found.params), strict=True))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_the_record_holds_the_factory_and_every_field() -> None:
    record = make_trained(*DENSE, "--network.head-depths", "2", "5").record
    assert record["architecture"] == {
        "type": "imported",
        "factory": "own_networks:make_dense",
        "options": {"width": 6},
        "observation_shape": [3, 3, 2],
        "head_depths": [2, 5],
        "fields": {
            **{"num_actions": 9, "width": 6, "num_heads": 2, "sizes": [8, 4]},
            "activation": {"object": "jax.relu"},
        },
    }
    assert record["network"]["factory"] == "own_networks:make_dense"
    assert record["network"]["options"] == {"width": 6}
    assert json.loads(json.dumps(record)) == record


def test_a_later_default_does_not_change_a_saved_network(module: str) -> None:
    export_trained(make_trained("--network", f"{module}:make"), "net.safetensors")
    edit(module, "width: int = 4", "width: int = 32")
    edit(module, "sizes: tuple = (3, 4)", "sizes: tuple = (1,)")
    fresh = import_network(f"{module}:make", 9, SHAPE)
    found = load_trained("net.safetensors", network=f"{module}:make").network
    assert (fresh.module.width, found.module.width) == (32, 4)
    assert (fresh.module.sizes, found.module.sizes) == ((1,), (3, 4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    sizes: tuple = (3, 4)\n", "", "fields of Net have changed .*: sizes is missing; use"),
        ("    width", "    depth: int = 2\n    width", "depth is new; use the code that saved it"),
        ("nn.relu", "nn.gelu", "activation is {'object': 'jax.gelu'}, not {'object': 'jax.relu'}"),
        (
            "nn.Dense(1)",
            "nn.Dense(1, use_bias=False)",
            "does not fit .*: params/.*/bias is unknown",
        ),
        ("return nn.Dense(self.num_actions)", "return nn.Dense(3)", r"the shape \(3, 3\)"),
        ("import jax.numpy", "import no_such_module", "raised ModuleNotFoundError: No module"),
    ],
    ids=str,
)
def test_a_changed_module_is_refused(module: str, old: str, new: str, message: str) -> None:
    export_trained(make_trained("--network", f"{module}:make"), "net.safetensors")
    edit(module, old, new)
    with pytest.raises(ValueError, match=message) as error:
        load_trained("net.safetensors", network=f"{module}:make")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("net.safetensors ")


@pytest.mark.slow
def test_a_network_is_trained(tmp_path: Path) -> None:
    small = ["--selfplay.num-games=2", "--selfplay.num-steps=1", "--learner.batch-size=2"]
    flags = ["--search.variant", "alphazero", "--search.num-simulations", "2", *small]
    flags += ["--evals.every=0", "--evals.stop-when-solved=0", "--num-iterations=1", *DENSE]
    assert main(["train", "nim", *flags, "--out", str(tmp_path / "run")]) == 0
    found = load_trained(tmp_path / "run", network="own_networks:make_dense")
    assert (found.iteration, found.network.module.width) == (1, 6)


@pytest.mark.slow
def test_commands_import_the_network_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """tests/project/test_named_code.py checks that they import no other."""
    monkeypatch.chdir(tmp_path)
    export_trained(make_trained(*DENSE), "net.safetensors")
    Path("positions.jsonl").write_text('{"moves": []}\n')
    named = ["--network", "other:make", "own_networks:make_dense"]
    quick = ["--network-only", "--batch", "1", *named]
    assert main(["evaluate", "net.safetensors", "positions.jsonl", *quick]) == 0
    assert json.loads(capsys.readouterr().out)["move"]
    monkeypatch.setattr("dualmctx.commands.serve.open_standard_input", io.BytesIO)
    assert main(["serve", "net.safetensors", *quick]) == 0
    dataset = ["dataset", "tic_tac_toe", "--from", "net.safetensors+own:simulations=2"]
    dataset += ["--games", "2", "--batch", "2", "--max-plies", "5"]
    assert main([*dataset, "--unknown-results", "keep", *named]) == 0
    assert len(Path("runs/dataset/games.jsonl").read_text().splitlines()) == 2
    players = ["net.safetensors+policy", "a=random"]
    assert main(["compare", *players, "--games", "2", "--out", "comparison", *named]) == 0
    assert Path("comparison/report.html").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--network", "mlp"], "^--network is mlp; write it as .* use --network.trunk mlp"),
        (["--network.factory=x"], "^network.factory is x; write it as package.module:factory$"),
        (["--network=a:b", "--network.width", "3"], "--network.width does not apply to a:b"),
        (["--network=a:b", "--network.value-blocks=3"], "--network.value-blocks does not apply"),
        (["--network.options", "width", "3"], "options is width 3; it must be left out without"),
    ],
)
def test_wrong_flags_are_refused(flags: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_train(["hsr", *flags])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["own_networks:Dense"], "has no parameter 'observation_shape'"),
        (["own_networks:make_dense", "--network.options", "num_actions", "3"], "leave it out"),
        (["own_networks:make_dense", "--network.options", "width", "x"], "own_networks.py, line"),
        (["own_networks:make_nothing"], "own_networks:make_nothing: the network is of type None"),
        (["own_networks:make_dense", "--network.head-depths", "3"], "one for each of the 2 heads"),
    ],
)
def test_a_wrong_factory_is_refused(flags: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        make_trained("--network", *flags)
    assert "\n" not in str(error.value)


def test_a_network_adapted_in_python_or_for_other_observations_is_refused(tmp_path: Path) -> None:
    trained = make_trained(*DENSE)
    network = adapt_network(trained.network.module, 9, SHAPE)
    with pytest.raises(ValueError, match=r"Dense cannot be saved, .*import_network"):
        export_trained(trained._replace(network=network), tmp_path / "net.safetensors")
    record = trained.record | {"game": "nim", "game_parameters": {}}
    export_trained(trained._replace(record=record), tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match=r"observations of shape \(3, 3, 2\), but those of nim"):
        load_trained(tmp_path / "net.safetensors", network="own_networks:make_dense")


def test_a_search_needs_a_head_for_each_tree() -> None:
    check_head(Chain(), adapt_network(Dense(9, num_heads=3), 9, SHAPE))
    with pytest.raises(ValueError, match="evaluates 3 heads, but the network returns"):
        check_head(Chain(), adapt_network(Dense(9, num_heads=2), 9, SHAPE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("batch", "head 0 evaluates a position differently beside another position"),
        ("nan", "head 0 of a new network returns nan"),
        ("value", r"value of size 5\S*; values must be in \[-1, 1\]: apply jnp.tanh"),
        ("begin nan", r"begin\(observation, 0\) differs from head 0 of all heads \(nan and"),
        ("begin sign", r"begin\(observation, 0\) differs from head 0 .* \(-0.5 and 0.5\)"),
        ("integers", "the logits are int32; they must be floating"),
        ("resume", r"resume\(activations, 0, 1\) differs from head 1"),
    ],
)
def test_a_network_that_breaks_the_contract_is_refused(rule: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_network(adapt_network(Broken(9, rule=rule), 9, SHAPE), ENV)


def test_training_names_the_factory_of_a_network_that_breaks_the_contract() -> None:
    flags = ["--network", "own_networks:make_broken", "--network.options", "rule", "value"]
    with pytest.raises(ValueError, match=r"^network own_networks:make_broken: head 0 of a new "):
        assemble(*parse_train(["tic-tac-toe", *flags]))


class Outer(nn.Module):
    """Has fields of all kinds."""

    inner: nn.Module
    dtype: Any = jnp.bfloat16
    kind: Any = dict
    numpy_dtype: Any = np.float16
    init: Any = functools.partial(nn.initializers.normal, 0.02)
    rates: dict[str, float] | None = None
    limit: float = math.inf
    scale: Any = np.int64(2)

    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        return self.inner(x)


def test_fields_of_all_kinds_are_described_and_restored() -> None:
    module = Outer(Dense(9, width=3), rates={"a": 0.5})
    fields = json.loads(json.dumps(describe_fields(module), allow_nan=False))
    assert fields["limit"] == {"object": "float inf"}
    assert fields["scale"] == 2
    assert fields["inner"]["fields"]["width"] == 3
    assert fields["dtype"] == {"object": "dtype bfloat16"}
    assert fields["numpy_dtype"] == {"object": "dtype float16"}
    assert fields["kind"] == {"object": "builtins.dict"}
    assert fields["init"]["of"][1:] == [[0.02], {}]
    later = Outer(Dense(9, width=3), rates={"a": 0.25}, scale=np.int64(3))
    assert restore_fields(later, fields) == module
    others = {"dtype": jnp.float32}, {"limit": 2.0}, {"limit": math.nan}
    for other in (Outer(Dense(9, width=4)), *(Outer(Dense(9, width=3), **x) for x in others)):
        with pytest.raises(ValueError, match="the fields of Outer have changed"):
            restore_fields(other, fields)
