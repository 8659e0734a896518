"""The public names exist and are documented, and importing the engine loads little."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import dualmctx

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "dualmctx",
    *(x.name for x in pkgutil.walk_packages(dualmctx.__path__, "dualmctx.") if x.ispkg),
]
PUBLIC_PACKAGES = [name for name in PACKAGES if name.count(".") < 2]
# The engine's own packages, and the packages that these import.
ENGINE = ("search", "policies", "models", "types", "checks")
ALLOWED = {
    *("jax", "jaxlib", "ml_dtypes", "opt_einsum", "scipy"),
    *("chex", "absl", "toolz", "typing_extensions"),
    *("mctx", "flax", "msgpack", "yaml", "rich", "markdown_it", "mdurl", "pygments", "numpy"),
}


def run_python(program: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PUBLIC_PACKAGES)
def test_public_names_exist_and_have_docstrings(name: str) -> None:
    package = importlib.import_module(name)
    assert package.__doc__
    for public in package.__all__:
        if importlib.util.find_spec(f"{name}.{public}"):
            found = importlib.import_module(f"{name}.{public}")
        else:
            found = getattr(package, public)
        # The registry of variants is a dictionary, documented in its module.
        assert inspect.getdoc(found), f"{name}.{public}"


def test_lazy_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(dualmctx.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    # Type checkers take a name as public only if it is imported under an alias.
    seen = {x.asname: node.module for node in block.body for x in node.names}
    assert seen == dualmctx._MODULES
    assert set(dualmctx.__all__) <= set(dir(dualmctx))
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = dualmctx.no_such_name


def test_importing_the_package_loads_no_other_package() -> None:
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import dualmctx\n"
        "print(*{x.split('.')[0] for x in set(sys.modules) - before})"
    )
    loaded = set(run_python(program).split())
    assert loaded - set(sys.stdlib_module_names) == {"dualmctx"}


# Hides every third-party package but those in the arguments, then imports and runs the engine.
HIDDEN = '''
import importlib, pkgutil, sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

ALLOWED = {*sys.argv[1].split(","), *sys.stdlib_module_names, "dualmctx"}

class AllowedFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        # The second is a part of the standard library whose name depends on the platform.
        if name.split(".")[0] in ALLOWED or name.startswith("_sysconfigdata"):
            return PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [BuiltinImporter, FrozenImporter, AllowedFinder]
for name in ("optax", "orbax", "flashbax", "pgx", "tyro", "matplotlib", "jinja2"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        continue
    raise AssertionError(f"{name} can be imported")

import dualmctx

folders = [f"dualmctx.{name}" for name in sys.argv[2].split(",")]
for folder in folders:
    module = importlib.import_module(folder)
    for info in pkgutil.walk_packages(getattr(module, "__path__", []), f"{folder}."):
        importlib.import_module(info.name)
for name, module in dualmctx._MODULES.items():
    if module.startswith(tuple(folders)):
        getattr(dualmctx, name)

import flax.struct
import jax
import jax.numpy as jnp

@flax.struct.dataclass
class State:
    """Two players take one or two of seven stones; the last stone wins."""

    stones: jax.Array
    current_player: jax.Array
    rewards: jax.Array
    terminated: jax.Array
    observation: jax.Array
    legal_action_mask: jax.Array
    truncated: jax.Array

def make_state(stones, player, rewards):
    observation, legal = jnp.arange(8) == stones, jnp.arange(2) < stones
    # A finished game allows every action, as in pgx.
    legal |= stones <= 0
    return State(stones, player, rewards, stones <= 0, observation, legal, jnp.bool_(False))

class Game:
    id, num_actions, observation_shape = "stones", 2, (8,)

    def init(self, key):
        return make_state(jnp.int32(7), jnp.int32(0), jnp.zeros(2))

    def step(self, state, action, key=None):
        stones, mover = state.stones - action - 1, state.current_player
        wins = jnp.where(jnp.arange(2) == mover, 1.0, -1.0)
        rewards = jnp.where((stones <= 0) & ~state.terminated, wins, 0.0)
        return make_state(stones, 1 - mover, rewards)

    def observe(self, state, player_id=None):
        return state.observation

env = Game()
states = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 2))
network = dualmctx.make_network(env.num_actions, env.observation_shape, width=8, num_blocks=2)
params = network.init(jax.random.PRNGKey(1), states.observation)
policy = dualmctx.AlphaZero(num_simulations=32).for_evaluation()
search = jax.jit(dualmctx.make_search_fn(env, network, policy))
output = search(params, jax.random.PRNGKey(2), states)
print(*output.action.tolist(), *output.action_weights.sum(axis=-1).round(3).tolist())
'''


def test_the_engine_runs_without_other_packages() -> None:
    output = run_python(HIDDEN, ",".join(ALLOWED), ",".join(ENGINE))
    # Taking one of seven stones leaves a multiple of three.
    assert output.split() == ["0", "0", "1.0", "1.0"]


def test_the_engine_imports_five_packages_only() -> None:
    imported = set()
    for name in ENGINE:
        path = ROOT / "dualmctx" / name
        for file in path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    imported.add(str(node.module).split(".")[0])
    third_party = imported - set(sys.stdlib_module_names) - {"dualmctx"}
    assert third_party == {"jax", "chex", "mctx", "flax", "numpy"}
