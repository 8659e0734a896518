"""Imports go downward through one list of folders, and importing computes nothing."""

import ast
import functools
import graphlib
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]

# From the bottom up: a module imports from its own folder and from those before it.
ORDER = (
    "dualmctx.version",
    "dualmctx.errors",
    "dualmctx.typed_values",
    "dualmctx.console",
    "dualmctx.import_path",
    "games",
    "dualmctx.games",
    "dualmctx.types",
    "dualmctx.checks",
    "dualmctx.game_files",
    "dualmctx.pages",
    "dualmctx.reports",
    "dualmctx.distributed",
    "dualmctx.ratings",
    "dualmctx.search",
    "dualmctx.models",
    "dualmctx.policies",
    "dualmctx.training",
    "dualmctx.runs",
    "dualmctx.visualization",
    "dualmctx.evaluation",
    "dualmctx.serving",
    "dualmctx.programs",
    "dualmctx.matches",
    "dualmctx.protocols",
    "dualmctx.web",
    "dualmctx.datasets",
    "dualmctx.experiment",
    "dualmctx.pipeline",
    "dualmctx.commands",
    "dualmctx.__main__",
    "train",
    "benchmarks",
    "tests",
)
# Private modules of mctx, and packages whose licence (GPL, AGPL) allows tests and benchmarks only.
REFUSED = {"mctx._src", "chess", "bitbully"}


def _name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATTERNS = ("dualmctx/**/*.py", "games/**/*.py", "train.py", "tests/**/*.py", "benchmarks/**/*.py")
SOURCES = {_name(path): path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))}


def _inside(name, package):
    return f"{name}.".startswith(f"{package}.")


def _level(name):
    """Returns the index of a module's folder in the order, or None."""
    places = [place for place, folder in enumerate(ORDER) if _inside(name, folder)]
    return places[0] if places else None


@functools.cache
def _imports_of(path):
    return list(_imports(path.read_text(encoding="utf-8")))


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


def _is_front_door(name):
    """Returns whether a name is imported from `dualmctx/__init__.py`, which is for users."""
    return name == "dualmctx" or (name.rpartition(".")[0] == "dualmctx" and name not in SOURCES)


def _allowed(importer, imported):
    """Returns whether a module may import a name."""
    if imported.startswith(".") or _inside(imported, "mctx._src"):
        return False
    own, other = _level(importer), _level(imported)
    if own is None or ORDER[own] in ("benchmarks", "tests"):
        return True
    if _is_front_door(imported):
        return False
    if other is None:
        return not any(_inside(imported, package) for package in REFUSED)
    return other <= own


@pytest.mark.slow
def test_modules_import_downward():
    refused = [
        f"{module} imports {name}"
        for module, path in SOURCES.items()
        for name in _imports_of(path)
        if not _allowed(module, name)
    ]
    assert refused == []


@pytest.mark.parametrize(
    ("module", "source", "allowed"),
    [
        ("dualmctx.search.simulate", "from dualmctx.search.select import descend", True),
        ("dualmctx.search.tree", "from dualmctx.policies import Dual", False),
        ("dualmctx.search.tree", "def f():\n  import dualmctx.models.network", False),
        ("dualmctx.policies.gumbel", "from .dual import Dual", False),
        ("dualmctx.commands.main", "import dualmctx", False),
        ("dualmctx.commands.main", "from dualmctx import games", True),
        ("games.hsr", "from dualmctx.search.tree import Tree", False),
        ("dualmctx.matches.arena", "import bitbully", False),
        ("train", "import mctx; f = mctx._src.search", False),
        ("tests.test_tree", "from mctx._src import tree", False),
        ("tests.test_tree", "import pgx, bitbully, train", True),
    ],
)
def test_import_rule_accepts_and_refuses(module, source, allowed):
    assert all(_allowed(module, name) for name in _imports(source)) == allowed


@pytest.mark.slow
def test_imports_have_no_cycle():
    """Also counts imports for type checks and those inside of functions."""
    sorter = graphlib.TopologicalSorter()
    for module, path in SOURCES.items():
        for name in _imports_of(path):
            imported = name if name in SOURCES else name.rpartition(".")[0]
            if imported in SOURCES and imported != module:
                sorter.add(module, imported)
    sorter.prepare()


@pytest.mark.slow
def test_import_does_not_initialise_jax():
    modules = [
        n
        for n in SOURCES
        if _inside(n, "dualmctx") or _inside(n, "benchmarks") or n in ("games", "train")
    ]
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
