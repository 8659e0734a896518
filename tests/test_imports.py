"""Imports go one way, each dependency has one owner, and importing computes nothing."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]

# What a module may import of dualmctx. A package's row holds for its files that have no row.
STEP = {"types", "arrays", "tree", "keys"}
SEARCH = STEP | {"select", "mctx_rules", "expand", "backup", "leaves"}
SHARED = {
    "policies." + name
    for name in (
        *("root", "weights", "checks", "finite", "options", "children", "kept", "opening"),
        *("one_tree", "trees"),
    )
}
POLICY = SEARCH | {"allocate", "search", "reuse", "minimax", "rave", "contempt"} | SHARED
MAY_IMPORT = {
    "games": {"types"},
    "dualmctx.types": set(),
    "dualmctx.whole": set(),
    "dualmctx.locks": set(),
    "dualmctx.archive": set(),
    "dualmctx.checkpoint_content": set(),
    "dualmctx.progress": set(),
    "dualmctx.stopping": set(),
    "dualmctx.arrays": set(),
    "dualmctx.keys": set(),
    "dualmctx.tree": {"types", "arrays"},
    "dualmctx.allocate": {"types", "arrays", "tree"},
    "dualmctx.export": STEP,
    "dualmctx.select": STEP,
    "dualmctx.mctx_rules": STEP | {"select"},
    "dualmctx.minimax": STEP | {"select"},
    "dualmctx.rave": STEP | {"select"},
    "dualmctx.contempt": STEP | {"select"},
    "dualmctx.expand": STEP,
    "dualmctx.backup": STEP,
    "dualmctx.leaves": STEP | {"backup"},
    "dualmctx.search": SEARCH,
    "dualmctx.reuse": STEP,
    "dualmctx.policies.*": POLICY,
    "dualmctx.policies": POLICY | {"policies"},
    "dualmctx.ratings.results": set(),
    "dualmctx.ratings.davidson": set(),
    "dualmctx.ratings.intervals": set(),
    "dualmctx.ratings.elo": {"ratings.results", "ratings.davidson", "ratings.intervals"},
    "dualmctx.ratings.alpha_rank": {"ratings.results"},
    "dualmctx.ratings.sprt": {"ratings.results"},
    "dualmctx.ratings.elo_costs": {"ratings"},
    "dualmctx.matches.equal_costs": set(),
    "dualmctx.matches.player_spec": set(),
    "dualmctx.reports.page": set(),
    "dualmctx.reports.plots": set(),
    "dualmctx.evaluation.positions_file": set(),
    "dualmctx.evaluation.streams": set(),
    "dualmctx.evaluation.results_file": {"evaluation.rows", "whole"},
    "dualmctx.evaluation.parts": {"evaluation", "runs", "whole"},
    "dualmctx.reproduction.paper": set(),
    "dualmctx.reproduction.convergence": set(),
    "dualmctx.network": {"types", "policies.checks"},
    "dualmctx.packing": set(),
    "dualmctx.rollouts": {"types", "keys"},
}
# A run as a whole.
RUNNING = {"config", "presets", "assemble", "training"}
# What the other modules may not import: they take policies as arguments. SHARED is open to them.
MAY_NOT_IMPORT = {
    "train": set(),
    "dualmctx": {*RUNNING, "cli"},
    "dualmctx.*": {*RUNNING, "policies", "cli"},
    "dualmctx.config": {*RUNNING, "cli"},
    "dualmctx.saved_search": {*RUNNING, "cli"},
    "dualmctx.trained": {*RUNNING, "policies", "cli"} - {"config"},
    "dualmctx.presets": {"training", "assemble", "cli"},
    "dualmctx.assemble": {"presets", "cli"},
    "dualmctx.training": {*RUNNING, "cli"},
    "dualmctx.cluster": {"config", "presets", "assemble", "cli"},
    "dualmctx.cli": set(),
    "dualmctx.reproduction.*": {"presets", "cli", "commands", "command"},
    "dualmctx.commands.*": {"presets", "assemble", "training", "policies", "command"},
}
# Who may import it, for type checking or not; everyone may import what has no row.
OWNERS = {
    "games": {
        "games",
        "dualmctx.evaluation.answers",
        "dualmctx.evaluation.rows",
        "dualmctx.trained",
        "dualmctx.assemble",
        "dualmctx.cli",
        "dualmctx.matches.entrants",
        "dualmctx.matches.openings",
        "dualmctx.matches.usage",
        "dualmctx.commands.compare",
        "dualmctx.commands.lineup",
        "dualmctx.commands.opening_file",
        "dualmctx.commands.opening_rules",
        "dualmctx.reproduction",
    },
    "pgx": {"games"},
    "flax": {"dualmctx.network"},
    "optax": {"dualmctx.learner"},
    "orbax": {"dualmctx.checkpoint"},
    "flashbax": {"dualmctx.replay"},
    "matplotlib": {"dualmctx.plot", "dualmctx.reports.plots", "dualmctx.reproduction.figures"},
    "jinja2": {"dualmctx.reports.page"},
    "rich": {"dualmctx.display", "dualmctx.progress", "dualmctx.commands", "train"},
    "scipy": {"dualmctx.ratings.intervals", "dualmctx.reproduction.summary"},
    "tensorboardX": {"dualmctx.sinks"},
    "wandb": {"dualmctx.sinks"},
    "pyarrow": {"dualmctx.evaluation.results_file"},
    "tyro": {"dualmctx.cli"},
    "bitbully": set(),  # AGPL: for tests and benchmarks; `hosts` loads it where a user has it
    "chess": set(),  # GPL: for tests only
    "train": set(),
    "tests": set(),
    "benchmarks": set(),
}


def _name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATTERNS = ("dualmctx/**/*.py", "games/**/*.py", "train.py", "tests/**/*.py", "benchmarks/**/*.py")
SOURCES = {_name(path): path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))}


def _inside(name, packages):
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def _row(table, name):
    """Returns a module's row in a table, or its nearest package's `.*` row, or None."""
    keys = [name, *(f"{name.rsplit('.', n)[0]}.*" for n in range(1, name.count(".") + 1))]
    return next((table[key] for key in keys if key in table), None)


def _imports(source):
    """Returns the dotted names that a module imports, at any depth of its code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and node.attr == "_src":
            yield ast.unparse(node)


def _allowed(importer, imported):
    """Returns whether a module may import a name."""
    if imported.startswith(".") or _inside(imported, ["mctx._src"]):
        return False
    if _inside(importer, ["tests", "benchmarks"]):
        return True
    for dependency, owners in OWNERS.items():
        if _inside(imported, [dependency]):
            return _inside(importer, owners)
    if not _inside(imported, ["dualmctx"]):
        return True
    target = imported.removeprefix("dualmctx").removeprefix(".")
    row = _row(MAY_IMPORT, "games" if _inside(importer, ["games"]) else importer)
    if row is not None:
        return _inside(target, row)
    refused = _row(MAY_NOT_IMPORT, importer)
    return bool(target) and (_inside(target, SHARED) or not _inside(target, refused))


@pytest.mark.parametrize("module", SOURCES)
def test_imports_only_what_it_may(module):
    imported = _imports(SOURCES[module].read_text(encoding="utf-8"))
    assert sorted({name for name in imported if not _allowed(module, name)}) == []


@pytest.mark.parametrize(
    ("module", "source", "allowed"),
    [
        ("dualmctx.search", "from dualmctx.select import descend", True),
        ("dualmctx.select", "from dualmctx.expand import expand", False),
        ("dualmctx.tree", "from dualmctx import search", False),
        ("dualmctx.tree", "def f():\n  import dualmctx.model", False),
        ("dualmctx.backup", "from dualmctx import Tree", False),
        ("dualmctx.policies", "from dualmctx.policies.dual import Dual", True),
        ("dualmctx.policies.gumbel", "from dualmctx.policies import root as roots", True),
        ("dualmctx.policies.gumbel", "from dualmctx.policies.dual import Dual", False),
        ("dualmctx.policies.gumbel", "from .dual import Dual", False),
        ("dualmctx.network", "import dualmctx.types, dualmctx.model", False),
        ("dualmctx.network", "from dualmctx.policies.checks import check", True),
        ("dualmctx.network", "from dualmctx.policies.root import noise", False),
        ("dualmctx.trained", "from dualmctx.config import NetworkOptions", True),
        ("dualmctx.trained", "from dualmctx.policies import REGISTRY", False),
        ("dualmctx.saved_search", "from dualmctx.policies import REGISTRY", True),
        ("dualmctx.selfplay", "from dualmctx.model import Model", True),
        ("dualmctx.selfplay", "from dualmctx.policies import Dual", False),
        ("dualmctx.selfplay", "from dualmctx.policies.root import noise", True),
        ("dualmctx.selfplay", "if TYPE_CHECKING:\n  import pgx", False),
        ("dualmctx.matches.arena", "from games import make", False),
        ("dualmctx.training", "from dualmctx.policies import Dual", True),
        ("dualmctx.training", "from dualmctx import cli", False),
        ("dualmctx.training", "from dualmctx.config import Config", False),
        ("dualmctx.learner", "from dualmctx.config import Config", False),
        ("dualmctx.assemble", "from dualmctx.config import Config; import games", True),
        ("dualmctx.cli", "from dualmctx import policies, training; import tyro", True),
        ("dualmctx.cli", "from train import Config", False),
        ("dualmctx.learner", "import optax, flax.linen", False),
        ("dualmctx.commands.serve", "from dualmctx import cli, evaluation; import rich", True),
        ("dualmctx.commands.serve", "from dualmctx.assemble import assemble", False),
        ("dualmctx.evaluation.answers", "from dualmctx import cli", False),
        ("games.hsr", "import pgx.core, dualmctx.types", True),
        ("games.hsr", "from dualmctx.tree import Tree", False),
        ("train", "import rich.table; from dualmctx import assemble, training", True),
        ("train", "import games", False),
        ("train", "import mctx; f = mctx._src.search", False),
        ("tests.test_tree", "from mctx._src import tree", False),
        ("tests.test_tree", "import pgx, bitbully, train", True),
    ],
)
def test_the_rules_themselves(module, source, allowed):
    assert all(_allowed(module, name) for name in _imports(source)) == allowed


def test_importing_computes_nothing():
    """A library that starts JAX when imported takes a GPU's memory from whoever imports it."""
    modules = [n for n in SOURCES if _inside(n, ["dualmctx"]) or n in ("games", "train")]
    program = (
        "import importlib, sys\n"
        "from jax._src import xla_bridge\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    assert not xla_bridge.backends_are_initialized(), f'{name} starts JAX'\n"
    )
    command = [sys.executable, "-W", "error", "-c", program, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_package_draws_no_pictures_when_imported():
    """Who only searches need not wait for matplotlib."""
    program = "import sys, dualmctx; assert 'matplotlib' not in sys.modules, 'it is loaded'"
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
