"""CONTRIBUTING's worked example of a new variant: one file and one row are all that it takes."""

import functools
import importlib.util
import pathlib
import re
import sys
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from documents import code_blocks, section
from dualmctx import make_network, make_search_fn, policies
from dualmctx.policies import search_setup
from test_imports import _allowed, _imports

ROOT = pathlib.Path(__file__).parents[2]
SECTION = section("CONTRIBUTING.md", "Add a search variant")
FILE, ROW = code_blocks(SECTION, "python")
# Moves from the start of tic-tac-toe, and the only good answer.
POSITIONS = {
    "win": ((0, 3, 1, 4), 2),
    "block": ((4, 0, 1), 7),
    "start": ((), None),
    "last move": ((0, 1, 2, 4, 3, 5, 7, 6), 8),
    "won": ((0, 3, 1, 4, 2), None),
}


def load(name: str, path: pathlib.Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    # Help texts are read from the source of modules that are known.
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("policies") / "uct.py"
    path.write_text(FILE)
    return load("uct", path)


def registry(example: ModuleType) -> dict[str, policies.Variant]:
    row = eval("{" + ROW + "}", {"Variant": policies.Variant, "UCT": example.UCT})
    return policies.REGISTRY | row


def test_it_imports_only_modules_that_a_policy_may() -> None:
    imported = set(_imports(FILE))
    assert imported
    assert all(_allowed("dualmctx.policies.uct", name) for name in imported)


@pytest.mark.slow
def test_it_searches_as_every_variant_does(example: ModuleType) -> None:
    env = games.make("tic_tac_toe")
    lines = [list(moves) + [-1] * (9 - len(moves)) for moves, _ in POSITIONS.values()]
    states = games.replay(env, np.array(lines))
    network = make_network(states.legal_action_mask.shape[1], (1,), width=8, num_blocks=2)
    params = jax.jit(network.init)(jax.random.PRNGKey(0), states.observation)
    policy = example.UCT(num_simulations=64).for_evaluation()
    search = jax.jit(make_search_fn(env, network, policy))
    output = search(params, jax.random.PRNGKey(0), states)
    weights, legal = output.action_weights, states.legal_action_mask
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
    assert (weights[~legal] == 0).all()
    assert legal[jnp.arange(len(lines)), output.action].all()
    for i, (_, answer) in enumerate(POSITIONS.values()):
        assert answer in (None, int(output.action[i]))
    # An element minds no neighbours.
    other = search(params, jax.random.PRNGKey(0), jax.tree.map(lambda x: x[::-1], states))
    np.testing.assert_array_equal(other.action_weights[::-1], weights)


@pytest.mark.parametrize("options", [{"num_simulations": 0}, {"c_uct": 0.0}, {"temperature": -1}])
def test_bad_options_are_refused_in_a_line(example: ModuleType, options: dict) -> None:
    with pytest.raises(ValueError, match=r"^\w+ is \S+; it must be [^\n]+$"):
        example.UCT(**options)


def test_the_training_command_knows_it(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(policies, "REGISTRY", registry(example))
    # The configuration reads the registry when it is imported.
    names = (
        "training.config",
        "training.presets",
        "experiment.assemble",
        "commands.train_settings",
    )
    for name in names:
        module = importlib.import_module(f"dualmctx.{name}")
        folder, last = module.__name__.rsplit(".", 1)
        monkeypatch.setattr(sys.modules[folder], last, module)
        monkeypatch.delitem(sys.modules, module.__name__)
    command = load("train_with_uct", ROOT / "dualmctx" / "commands" / "train.py")
    [flags] = re.findall(r"`python train.py (.*?)`", SECTION)

    def parse(flags: list[str]) -> Any:
        return command.settle_here(command.read_request(flags, ""), "")

    preset, config = parse(flags.split())[:2]
    assert (preset, config.search) == ("nim", example.UCT(c_uct=1.0))
    with pytest.raises(SystemExit):
        parse(["nim", "--search.variant", "uct", "--help"])
    text = capsys.readouterr().out
    assert "UCB1-Tuned without a prior" in " ".join(text.split())
    assert "--search.c-uct" in text


@pytest.fixture(scope="module")
def seven_stones(example: ModuleType) -> tuple[Any, ...]:
    """Returns a batch of one start of Nim, parameters, a search, and its compiled phases."""
    env = games.make("nim", pile=7)
    states = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 1))
    network = make_network(env.num_actions, (1,), width=8, num_blocks=1)
    params = jax.jit(network.init)(jax.random.key(0), states.observation)
    search = make_search_fn(env, network, example.UCT(30, c_uct=0.8))
    return states, params, search, jax.jit(search.init), jax.jit(search.step)


@pytest.mark.slow
def test_its_rule_is_ucb1_tuned(seven_stones: Any) -> None:
    """A simulation adds the visit that the bound asks for."""
    states, params, search, init, step = seven_stones
    begin = init(params, jax.random.PRNGKey(0), states)
    np.testing.assert_array_equal(
        search.output(begin).action_weights, begin.tree.children_prior[:, 0]
    )
    first = step(params, begin, 20)
    before, after = first.tree, step(params, first, 1).tree
    # The first simulations visit each action once.
    assert np.asarray(before.action_from_parent)[0, 1:4].tolist() == [0, 1, 2]
    assert not np.asarray(before.parents)[0, 1:4].any()
    visits, qvalues = np.array(before.summary().visit_counts[0]), before.summary().qvalues[0]
    squares = np.asarray(before.stats[0].extra["squares"][0, 0])
    variance = squares / visits - qvalues**2
    rate = np.log(20) / visits
    bound = qvalues + 0.8 * np.sqrt(rate * np.minimum(1, variance + np.sqrt(2 * rate)))
    visits[bound.argmax()] += 1
    np.testing.assert_array_equal(after.summary().visit_counts[0], visits)


@pytest.mark.slow
def test_its_rule_and_statistic_run_in_kernels(
    seven_stones: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, params, search, init, step = seven_stones
    # Larger parameters give values of 1 and -1, and ties that rounding decides.
    params = jax.tree.map(lambda x: x + 0.2 * jnp.sin(jnp.arange(x.size)).reshape(x.shape), params)
    expected = step(params, init(params, jax.random.PRNGKey(0), states), 30).tree
    choose, modes = search_setup.choose_backend, list[str]()

    def interpret(mode: Any, array: Any) -> Any:
        modes.append(mode)
        return choose("interpret", array)

    monkeypatch.setattr(search_setup, "choose_backend", interpret)
    actual = jax.jit(search)(params, jax.random.PRNGKey(0), states).search_tree
    assert set(modes) == {"auto"}
    np.testing.assert_array_equal(actual.edges, expected.edges)
    for one, other in zip(actual.stats, expected.stats, strict=True):
        jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), one, other)
