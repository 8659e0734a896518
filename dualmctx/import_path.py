"""Imports objects that users name as `package.module:attribute`, such as games and networks."""

import contextlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from dualmctx.errors import UserError

_NAME = r"[^\W\d]\w*"
_PATH = re.compile(rf"{_NAME}(\.{_NAME})*:{_NAME}(\.{_NAME})*")


def is_import_path(name: object) -> bool:
    """Returns whether a name is meant as `package.module:attribute`: whether it has a colon."""
    return isinstance(name, str) and ":" in name


def require_named(
    saved: object, named: Collection[str | None], file: Path | str, kind: str, remedy: str = ""
) -> None:
    """Checks that the user named the code that a file would import.

    Importing a module runs it, and a file may come from a stranger. So no file names code by
    itself, of any kind: the same path must come from the user too. Call this before
    everything that imports a path from a file.

    Args:
      saved: the value in the file; one that is not an import path is accepted.
      named: the import paths that the user named.
      file: the file, for the message.
      kind: a noun for the message, "game" or "network".
      remedy: how to name the path; by default by the flag or the argument of this kind.
    """
    if is_import_path(saved) and saved not in named:
        remedy = remedy or f"--{kind} {saved} (in Python {kind}={saved!r})"
        raise UserError(
            f"{file} has the {kind} {saved}, which is outside dualmctx; to import that code, name "
            f"it: {remedy}"
        )


def call_factory(
    path: str, parameters: Mapping[str, Any], kind: str, *, in_folder: bool = True
) -> Any:
    """Imports a factory and calls it with keyword arguments.

    Args:
      path: the factory, a function or class, as for `import_object`.
      parameters: the keyword arguments.
      kind: a noun for the messages, such as "game".
      in_folder: as for `import_object`.

    Returns:
      The value that the factory returns.

    Raises:
      ValueError: as `import_object`; if the object cannot be called, does not have a parameter or
        lacks the value of one; or if the call raises an exception.
    """
    factory = import_object(path, kind, in_folder=in_folder)
    if not callable(factory):
        raise UserError(
            f"{kind} {path} is of type {type(factory).__name__}; it must be a function or class "
            f"that returns the {kind}"
        )
    _check_parameters(path, factory, parameters, kind)
    try:
        return factory(**parameters)
    except UserError as error:
        raise UserError(f"{kind} {path} cannot be built: {error}") from error
    except Exception as error:
        raise UserError(f"{kind} {path} cannot be built: it raised {describe(error)}") from error


def import_object(path: str, kind: str, *, in_folder: bool = True) -> Any:
    """Imports an object by its path `package.module:attribute`; the attribute may have dots.

    Modules are found as by `python -m`: first in the current folder, then in `sys.path`. Afterwards
    the current folder stays behind all others, so that functions of the module can still import
    their neighbours, and no file of the folder hides an installed package. Without `in_folder`,
    only `sys.path` is searched, except the folders that earlier calls added. The path may come from
    a file, such as the record of a network. Importing a module runs it, so modules of Python's
    standard library and private names are refused: they hold nothing of this kind, such as "game".

    Raises:
      UserError: if the path is malformed or refused, or the module or the attribute does not
        exist, or importing the module raises an exception.
    """
    module_name, _, attribute = path.partition(":")
    if not _PATH.fullmatch(path) or module_name.endswith(".py"):
        raise UserError(
            f"{kind} is {path!r}; write it as package.module:attribute, without .py and slashes"
        )
    is_private = any(part.startswith("_") for part in re.split(r"[.:]", path))
    if is_private or module_name.split(".")[0] in sys.stdlib_module_names:
        raise UserError(
            f"{kind} is {path}; it must not be private or a part of Python's standard library"
        )
    found: Any = _import_module(module_name, path, kind, in_folder)
    for part in attribute.split("."):
        if not hasattr(found, part):
            file = getattr(sys.modules[module_name], "__file__", None) or module_name
            raise UserError(f"{kind} {path} does not exist: {file} has no {attribute}")
        found = getattr(found, part)
    return found


def import_installed(name: str) -> Any:
    """Imports an optional package, but not a file of the folders that `import_object` searches."""
    if not is_installed(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return importlib.import_module(name)


def is_installed(name: str) -> bool:
    """Returns whether `import_installed` finds a package, without running it."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return False
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""]
    return os.path.dirname(places[0]) not in _SEARCHED_LAST


# Folders that are in `sys.path` for the modules of users alone.
_SEARCHED_LAST: set[str] = set()


@contextlib.contextmanager
def _search_first(folder: str) -> Iterator[None]:
    """Searches a folder before all others, and from then on behind all others.

    The console script, unlike `python -m`, does not search the current folder.
    """
    if sys.path[:1] in ([""], [folder]):
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)
            _SEARCHED_LAST.add(folder)


@contextlib.contextmanager
def _search_installed() -> Iterator[None]:
    """Hides the folders that `_search_first` added to `sys.path`."""
    hidden = [folder for folder in sys.path if folder in _SEARCHED_LAST]
    sys.path[:] = [folder for folder in sys.path if folder not in _SEARCHED_LAST]
    try:
        yield
    finally:
        sys.path += hidden


def _import_module(name: str, path: str, kind: str, in_folder: bool) -> Any:
    folder = os.getcwd()
    try:
        with _search_first(folder) if in_folder else _search_installed():
            return importlib.import_module(name)
    except UserError as error:
        raise UserError(f"{kind} {path} cannot be imported: {error}") from error
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            places, remedy = "among the installed packages", "install it"
            if in_folder:
                places = f"in {folder} or {places}"
                remedy = f"run the command in the folder of the module, or {remedy}"
            raise UserError(
                f"{kind} {path} does not exist: there is no module {missing!r} {places}; {remedy}"
            ) from error
        raise UserError(
            f"{kind} {path} cannot be imported: module {name} raised {describe(error)}"
        ) from error


def _check_parameters(path: str, factory: Any, given: Mapping[str, Any], kind: str) -> None:
    """Checks the names of keyword arguments."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some classes written in C have no signature
        return
    named = [x for x in parameters if x.kind in (x.POSITIONAL_OR_KEYWORD, x.KEYWORD_ONLY)]
    names = [x.name for x in named]
    takes_all = any(x.kind is x.VAR_KEYWORD for x in parameters)
    for name, value in given.items():
        if name not in names and not takes_all:
            known = ", ".join(names) or "no parameters"
            raise UserError(
                f"{kind} {path} has no parameter {name!r} (={value!r}): it takes {known}"
            )
    for x in named:
        if x.default is x.empty and x.name not in given:
            raise UserError(f"{kind} {path} needs a value of its parameter {x.name!r}")


def describe(error: BaseException) -> str:
    """Describes an exception of a user's code: its type, first line, file and line number."""
    message = (str(error).strip() or "no message").split("\n")[0]
    frames = traceback.extract_tb(error.__traceback__)
    own = [x for x in frames if not x.filename.startswith("<")]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {message}{where}"
