"""Exported programs give the package's results in processes that have only JAX and NumPy."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import export

import dualmctx
import games
from dualmctx.commands.main import main
from dualmctx.policies import with_options
from dualmctx.runs.saved_network import model_kwargs_of
from dualmctx.runs.saved_policy import build_policy
from separate_process import call_with_flags
from untrained import export_untrained, make_untrained

# Runs the program in its second argument on the arrays in the third; writes the results.
PROGRAM = r"""
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

ALLOWED = {*sys.stdlib_module_names, *sys.argv[1].split(",")}

class AllowedFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in ALLOWED or name.startswith("_sysconfigdata"):
            return PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [BuiltinImporter, FrozenImporter, AllowedFinder]
for name in ("dualmctx", "games", "pgx", "flax", "mctx", "chex"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise AssertionError(f"{name} can be imported")

import jax
import numpy as np

with open(sys.argv[2], "rb") as file:
    program = jax.export.deserialize(file.read())
with np.load(sys.argv[3]) as arrays:
    results = program.call(*arrays.values())
np.savez(sys.argv[4], **results)
"""
ALPHAZERO = ("--search.variant", "alphazero")
# flatbuffers is the format of serialised programs.
ALLOWED = ("jax", "jaxlib", "numpy", "ml_dtypes", "opt_einsum", "scipy", "flatbuffers")
# The initial position; two moves; an illegal move at index 1; a move after the end of the game.
MOVES = np.array([[-1] * 4, [0, 3, -1, -1], [1, 1, 0, -1], [0, 2, 1, 3]], np.int32)
SEEDS = np.array([0, 1, 2, 2**32 - 1], np.uint32)


def run_elsewhere(folder: Path, file: Path, *inputs: Any) -> dict[str, np.ndarray]:
    """Runs an exported program in a process that cannot import this package."""
    np.savez(folder / "inputs.npz", *inputs)
    arguments = (",".join(ALLOWED), str(file), "inputs.npz", "results.npz")
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "results.npz") as results:
        return dict(results)


def expected_search(trained: Any, policy: Any) -> dict[str, Any]:
    """Returns the results of the package's own replay and search."""
    env, network, params = trained.env, trained.network, trained.params
    states, first_illegal = games.replay_checked(env, MOVES)
    options = model_kwargs_of(trained.record)
    search = jax.jit(dualmctx.make_search_fn(env, network, policy.for_evaluation(), **options))
    output = search(params, jax.vmap(jax.random.PRNGKey)(SEEDS), states)
    is_over = np.asarray(states.terminated)
    legal = np.asarray(states.legal_action_mask) & ~is_over[:, None]
    result = np.take_along_axis(states.rewards, np.asarray(states.current_player)[:, None], 1)
    value = output.search_tree.stats[-1].node_values[:, 0]
    return {
        "action": np.where(is_over, -1, output.action),
        "action_weights": np.where(is_over[:, None], 0, output.action_weights),
        "value": np.where(is_over, result[:, 0], value),
        "legal_action_mask": legal,
        "first_illegal": first_illegal,
    }


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compares results bit for bit."""
    for name, x in expected.items():
        np.testing.assert_array_equal(found[name], x, err_msg=name, strict=True)


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compares results up to rounding, as the tests' flags for XLA change the order of sums."""
    for name, x in expected.items():
        assert found[name].dtype == x.dtype, name
        np.testing.assert_allclose(found[name], x, rtol=1e-5, atol=1e-6, err_msg=name)


def expected_network(trained: Any, observation: Any) -> dict[str, Any]:
    """Returns the results of the package's own network."""
    outputs = jax.jit(trained.network.apply)(trained.params, observation)
    return {
        "logits": np.stack([x.logits for x in outputs], axis=1),
        "value": np.stack([x.value for x in outputs], axis=1),
    }


@pytest.mark.slow
def test_exported_search_needs_only_jax_and_the_network_is_exported_too(tmp_path: Path) -> None:
    flags = ("--search.variant", "alphago")
    file = export_untrained(tmp_path / "network.safetensors", "connect2", *flags)
    trained, out = dualmctx.load_trained(file), tmp_path / "search.stablehlo"
    command = ("export", str(file), str(out), "--search", "own:rave_visits=100:minimax_mix=0.4")
    assert main([*command, "--simulations", "6"]) == 0
    found = run_elsewhere(tmp_path, out, MOVES, SEEDS)
    options = {"rave_visits": 100.0, "minimax_mix": 0.4}
    policy = with_options(build_policy(trained.record, None, 6), **options)
    assert_close(found, expected_search(trained, policy))
    assert found["first_illegal"].tolist() == [-1, -1, 1, 3]
    assert found["legal_action_mask"].sum(axis=1).tolist() == [4, 2, 3, 0]
    # The network alone.
    out = tmp_path / "deep" / "network.stablehlo"
    assert main(["export", str(file), str(out), "--platforms", "cpu"]) == 0
    observation = np.random.default_rng(0).random((3, 8)) < 0.5
    results = export.deserialize(bytearray(out.read_bytes())).call(observation)
    assert_close(
        {name: np.asarray(x) for name, x in results.items()}, expected_network(trained, observation)
    )


@pytest.mark.slow
def test_programs_accept_any_batch_unless_it_is_fixed() -> None:
    trained = make_untrained("connect2")
    parts = (trained.env, trained.network, trained.params, None)
    anything = dualmctx.export_search(*parts, platforms=["cpu"])
    program = export.deserialize(anything.serialize())
    # A row ends at its first negative number.
    moves = np.array([[0, -1], [-1, 3], [1, 1]], np.int32)
    evaluator = dualmctx.make_evaluator(*parts, batch_size=3)
    expected = evaluator(games.replay(trained.env, moves))._asdict()
    for size in (1, 3):
        found = program.call(moves[:size], SEEDS[:size])
        found = {name: np.asarray(x) for name, x in found.items()}
        assert_close(found, {name: x[:size] for name, x in expected.items()})
    assert found["legal_action_mask"].tolist()[:2] == [[False, True, True, True], [True] * 4]
    assert found["first_illegal"].tolist() == [-1, -1, 1]
    fixed = dualmctx.export_search(*parts, platforms=["cpu"], batch_size=2)
    with pytest.raises(ValueError, match=r"\(2,|2 == 3|= 3"):
        fixed.call(moves, SEEDS[:3])


# Options of two trees that share activations. A chain and MPV are like two trees, and Gumbel and
# MuZero have mctx's rules. Rollouts, and the rules and statistics of options, are tested above.
OPTIONS = {"window": 2, "reuse_capacity": 8, "max_children": 2, "kernels": "on"}
QUICKLY = "--xla_backend_optimization_level=0"
"""The flag of the tests that makes compilation short."""


@pytest.mark.slow
def test_searches_and_networks_are_exported_exactly() -> None:
    """In a process without the tests' flag for older fusion, which changes the order of sums."""
    call_with_flags(compare_programs, QUICKLY)


def compare_programs() -> None:
    """Compares a search, and the two separate networks of MPV."""
    trained = make_untrained("connect2", "--search.variant", "dual")
    policy = with_options(build_policy(trained.record, None, 6), **OPTIONS)
    parts = (trained.env, trained.network, trained.params)
    search = dualmctx.export_search(*parts, policy, **model_kwargs_of(trained.record))
    # Pallas kernels are custom calls, which JAX does not keep compatible between versions.
    assert search.platforms == ("cpu", "cuda")
    assert "triton" not in search.mlir_module()
    found = export.deserialize(search.serialize()).call(MOVES, SEEDS)
    expected = expected_search(trained, with_options(policy, kernels="off"))
    assert_equal({name: np.asarray(found[name]) for name in expected}, expected)
    trained = make_untrained("connect2", "--search.variant", "mpv")
    observation = np.random.default_rng(0).random((4, 8)) < 0.5
    network = dualmctx.export_network(trained.env, trained.network, trained.params)
    found = export.deserialize(network.serialize()).call(observation)
    expected = expected_network(trained, observation)
    assert_equal({name: np.asarray(found[name]) for name in expected}, expected)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("out.onnx", r"FILE is out.onnx; its name must end in .safetensors \(.*\) or .stablehlo"),
        ("there.safetensors", "there.safetensors exists; choose another file"),
        ("out.safetensors --search dual", "search is dual; leave it out, or write to .* .stableh"),
        ("out.safetensors --platforms cpu cuda", "platforms is cpu cuda; leave it out"),
        ("out.stablehlo --search best", "search is best; it must be one of own, network, dual"),
        ("out.stablehlo --simulations 8", "simulations is 8; choose a --search for it"),
        ("out.stablehlo --search dual --simulations 0", "num_simulations is 0; it must be at"),
        ("out.stablehlo --platforms gpu", "platform is gpu; it must be one of cpu, cuda, rocm"),
        ("out.stablehlo --batch 0", "batch_size is 0; it must be at least 1, or none for any"),
    ],
)
def test_bad_requests_are_refused(
    flags: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.safetensors").touch()
    assert main(["export", "tic-tac-toe", *flags.split()]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("dualmctx export: ")
    with pytest.raises(ValueError, match=message):
        raise ValueError(line)
    assert [x.name for x in tmp_path.iterdir()] == ["there.safetensors"]


def test_searches_that_cannot_be_exported_are_refused() -> None:
    """A network that needs the size of the batch, and one that calls Python."""
    trained = make_untrained("connect2", *ALPHAZERO)

    class Sized:
        head_depths = (1,)

        def __init__(self, change: Any) -> None:
            self.change = change

        def apply(self, params: Any, observation: Any, *args: Any, **kwargs: Any) -> Any:
            observation = self.change(observation)
            return trained.network.apply(params, observation, *args, **kwargs)

    def call_python(x: Any) -> Any:
        return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    sized: Any = Sized(lambda x: x.reshape(len(x), -1))
    message = r"^the network of connect2 cannot be exported: .*; a fixed batch size may help$"
    with pytest.raises(ValueError, match=message):
        dualmctx.export_network(trained.env, sized, trained.params)
    program = dualmctx.export_network(
        trained.env, sized, trained.params, batch_size=2, platforms="cpu"
    )
    assert (program.in_avals[0].shape[0], program.platforms) == (2, ("cpu",))
    policy, calls = build_policy(trained.record, None, 3), Sized(call_python)
    parts: Any = (trained.env, calls, trained.params)
    with pytest.raises(ValueError, match=r"^the search AlphaZero of connect2 cannot be exported: "):
        dualmctx.export_search(*parts, policy, batch_size=2)
