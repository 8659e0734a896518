"""Objects named as `package.module:attribute`: what is found, and what each error says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dualmctx.import_path import call_factory, import_object

ROOT = Path(__file__).parents[2]
MODULE = """
class Group:
    @staticmethod
    def make(size=3):
        return ("made", size)

def needs(size):
    return size

def takes_all(**options):
    return options

def refuses():
    from dualmctx.errors import UserError
    raise UserError("size is 0; it must be positive")

def fails():
    raise RuntimeError("broken rules\\nand a second line")

number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Returns the name of a module in the current folder that no other test has imported."""
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


def test_a_module_of_the_current_folder_is_imported(module):
    assert import_object(f"{module}:number", "game") == 3
    assert call_factory(f"{module}:Group.make", {"size": 5}, "game") == ("made", 5)
    assert call_factory(f"{module}:takes_all", {"any": 1}, "game") == {"any": 1}


@pytest.mark.parametrize(
    ("attribute", "parameters", "message"),
    [
        ("number", {}, "is of type int; it must be a function or class"),
        ("missing", {}, "does not exist: .*[.]py has no missing"),
        ("Group.missing", {}, "has no Group.missing"),
        ("Group.make", {"side": 4}, r"has no parameter 'side' \(=4\): it takes size"),
        ("fails", {"side": 4}, "it takes no parameters"),
        ("refuses", {}, "cannot be built: size is 0; it must be positive$"),
        ("needs", {}, "needs a value of its parameter 'size'"),
        ("fails", {}, r"raised RuntimeError: broken rules \(.*[.]py, line 18\)$"),
    ],
)
def test_an_object_that_cannot_be_built_is_named(module, attribute, parameters, message):
    with pytest.raises(ValueError, match=message) as caught:
        call_factory(f"{module}:{attribute}", parameters, "game")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        "a b:make",
        "module.py:make",
        "a:b:c",
        "1a:make",
        "",
    ],
)
def test_a_malformed_path_is_refused(path):
    with pytest.raises(ValueError, match=r"write it as package[.]module:attribute"):
        import_object(path, "network")


@pytest.mark.parametrize("path", ["os:system", "os.path:join", "_thread:exit", "jax._src.core:x"])
def test_the_standard_library_and_private_names_are_refused(path):
    with pytest.raises(ValueError, match="must not be private or a part of Python's standard"):
        import_object(path, "game")


def test_a_missing_module_is_told_from_one_that_does_not_import(module, tmp_path):
    with pytest.raises(ValueError, match=r"there is no module 'no_such_module' in .*install it"):
        import_object("no_such_module.games:make", "game")
    (tmp_path / f"{module}_b.py").write_text("import no_such_dependency\n")
    with pytest.raises(ValueError, match=r"raised ModuleNotFoundError: .*'no_such_dependency'"):
        import_object(f"{module}_b:make", "game")
    (tmp_path / f"{module}_c.py").write_text("def make(:\n")
    with pytest.raises(ValueError, match="raised SyntaxError"):
        import_object(f"{module}_c:make", "game")


FILES = {
    "own.py": "import neighbour, shadowed\n"
    "def early(): return neighbour.number, shadowed.place\n"
    "def late(): import late_neighbour; return late_neighbour.number\n",
    "neighbour.py": "number = 3",
    "late_neighbour.py": "number = 4",
    "second.py": "def make(): return 5",
    "shadowed.py": "place = 'folder'",
    "optional.py": "raise RuntimeError('a file of the current folder ran')",
    "packed/__init__.py": "raise RuntimeError('a folder of the current folder ran')",
    "both.py": "place = 'folder'",
    "second_both.py": "place = 'folder'",
    "site/shadowed.py": "place = 'installed'",
    "site/both.py": "place = 'installed'",
    "site/second_both.py": "place = 'installed'",
}
SCRIPT = """
import sys
from dualmctx.import_path import import_installed, import_object, is_installed
print(import_object("own:early", "game")())
import both
print(both.place, is_installed("both"))
print(import_object("own:late", "game")(), import_object("second:make", "game")())
import second_both
print(second_both.place)
for name in ("optional", "packed", "missing"):
    try:
        print(is_installed(name), import_installed(name))
    except ImportError as error:
        print(error)
"""


@pytest.mark.parametrize("command", ["script", "module"])
def test_the_current_folder_hides_no_installed_package(tmp_path, command):
    """A script's `sys.path` starts with the folder of the script, that of `-m` with the current."""
    for name, text in (FILES | {"bin/script.py": SCRIPT, "bin/__init__.py": ""}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    arguments = {"script": ["bin/script.py"], "module": ["-m", "bin.script"]}[command]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    first, both, late, second_both, *others = done.stdout.splitlines()
    assert (first, late) == ("(3, 'folder')", "4 5"), done.stderr
    if command == "script":
        assert (both, second_both) == ("installed True", "installed")
        assert others == [f"No module named {x!r}" for x in ("optional", "packed", "missing")]
