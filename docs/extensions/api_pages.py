"""Writes the reference of Python: a page for each public subject, from `__all__`."""

import importlib
import importlib.util
import inspect
import pathlib
from collections.abc import Iterator
from typing import Any

from sphinx.ext.napoleon import Config, GoogleDocstring

import dualmctx
from dualmctx.policies import REGISTRY

FOLDER = "docs/reference/python"
# The folders of the names of `dualmctx`, by page. A name of a folder without a page is an error.
SUBJECTS = {
    "policies": ("Policies and their options", ("policies",)),
    "models": ("Networks, models and search functions", ("models",)),
    "trees": ("Search trees", ("search", "visualization")),
    "evaluation": ("Evaluation and saved networks", ("evaluation", "runs")),
    "types": ("Types and errors", ("types", "errors")),
}
PACKAGES = {
    "games": ("games", "Games"),
    "training": ("dualmctx.training", "Training"),
    "matches": ("dualmctx.matches", "Matches"),
    "ratings": ("dualmctx.ratings", "Ratings"),
    "datasets": ("dualmctx.datasets", "Data sets"),
    "visualization": ("dualmctx.visualization", "Recordings and pictures"),
}
"""The packages with pages of their own: the package and the title, by page."""


def setup(app: Any) -> dict[str, bool]:
    """Writes the pages before Sphinx looks for its sources."""
    app.connect("builder-inited", lambda app: write_pages(pathlib.Path(app.srcdir, FOLDER)))
    app.connect("autodoc-process-docstring", _read_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read_docstring(_app: Any, kind: str, name: str, of: Any, _: Any, lines: list[str]) -> None:
    """Turns a docstring in Google's style into reStructuredText.

    Lines that are indented in a text are formulas. A bar is escaped, because it stands for a size,
    as in |A|. The docstring of a field is not parsed, because a colon in it would be read as the
    end of a type.
    """
    marked: list[str] = []
    for line in lines:
        is_formula = line.startswith(" " * 4)
        before = marked[-1] if marked else ""
        if is_formula and before.strip() and not before.startswith((" ", "- ")):
            marked += ["", "::", ""]
        elif before.startswith(" " * 4) and "::" in marked and line[:1].strip():
            marked.append("")
        marked.append(line if is_formula else line.replace("|", r"\|"))
    if kind not in ("attribute", "data", "property"):
        config = Config(napoleon_use_ivar=True, napoleon_use_rtype=False)
        marked = GoogleDocstring(marked, config, what=kind, name=name, obj=of).lines()
    lines[:] = [*marked, ""]


def write_pages(folder: pathlib.Path) -> None:
    """Writes all pages; leaves a page that is right already untouched."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {name: _subject(*subject) for name, subject in SUBJECTS.items()}
    pages |= {name: _package(*package) for name, package in PACKAGES.items()}
    covered = {x for _, folders in SUBJECTS.values() for x in folders}
    missing = {x.split(".")[1] for x in dualmctx._MODULES.values()} - covered
    if missing:
        raise ValueError(f"no page has the public names of {', '.join(missing)}: add them here")
    pages["index"] = _index()
    for name, text in pages.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def _index() -> str:
    """Returns the list of all pages, with the names of `dualmctx`."""
    title = "Python"
    lines = [title, "=" * len(title), "", dualmctx.__doc__ or "", ""]
    for name, (heading, folders) in SUBJECTS.items():
        names = [f":py:obj:`~dualmctx.{x}`" for x in _names(folders)]
        lines += [f":doc:`{heading} <{name}>`", f"   {', '.join(names)}"]
    for name, (package, heading) in PACKAGES.items():
        summary = (importlib.import_module(package).__doc__ or "").splitlines()[0]
        lines += [f":doc:`{heading} <{name}>`", f"   ``{package}``. {summary}"]
    lines += ["", ".. toctree::", "   :hidden:", ""]
    return "\n".join([*lines, *(f"   {name}" for name in (*SUBJECTS, *PACKAGES)), ""])


def _names(folders: tuple[str, ...]) -> list[str]:
    """Returns the names of `dualmctx` that come from some folders."""
    return [x for x, module in dualmctx._MODULES.items() if module.split(".")[1] in folders]


def _subject(title: str, folders: tuple[str, ...]) -> str:
    """Returns the page of the names of `dualmctx` that come from some folders."""
    lines = [title, "=" * len(title), "", ".. currentmodule:: dualmctx", ""]
    names = _names(folders)
    if "policies" in folders:
        variants = {row.policy.__name__: row.summary for row in REGISTRY.values()}
        lines += [f":py:obj:`{name}`\n   {about}." for name, about in sorted(variants.items())]
        names = [*sorted(variants), *(x for x in names if x not in variants)]
        lines.append("")
    for name in names:
        lines += _entry("dualmctx", name)
    return "\n".join(lines)


def _package(package: str, title: str) -> str:
    """Returns the page of the public names and modules of a package."""
    found = importlib.import_module(package)
    lines = [title, "=" * len(title), "", f".. automodule:: {package}", "   :no-members:", ""]
    for name in found.__all__:
        if importlib.util.find_spec(f"{package}.{name}"):
            module = f"{package}.{name}"
            lines += [module, "-" * len(module), "", f".. automodule:: {module}"]
            lines += ["   :members:", ""]
        else:
            lines += _entry(package, name)
    return "\n".join(lines)


def _entry(package: str, name: str) -> Iterator[str]:
    """Yields the directive for one name."""
    value = getattr(importlib.import_module(package), name)
    yield from (name, "-" * len(name), "")
    if inspect.isclass(value):
        yield from (f".. autoclass:: {package}.{name}", "   :members:")
        yield from ("   :special-members: __call__", "")
    elif callable(value):
        yield from (f".. autofunction:: {package}.{name}", "")
    else:
        yield from (f".. autodata:: {package}.{name}", "   :no-value:", "")
