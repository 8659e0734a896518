"""The configuration of the site: `make docs` builds it with Sphinx.

The source folder is the repository, so that a page is one file with one set of links, on the site
and wherever the repository is read.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "extensions")]

from dualmctx.version import __version__  # noqa: E402

# Notebooks run on the CPU, and keep their compiled programs where the tests keep theirs.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# A kernel that does not warn about connections without encryption: they are of one machine.
os.environ["JUPYTER_PATH"] = str(ROOT / "docs" / "jupyter")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT), str(ROOT / "examples"), os.environ.get("PYTHONPATH")])
)

project = "dualmctx"
author = "The dualmctx authors"
version = release = __version__
root_doc = "docs/index"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "api_pages",
    "command_pages",
    "mathml",
    "offline",
]
include_patterns = [
    "docs/**",
    "dualmctx/README.md",
    "games/README.md",
    "benchmarks/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "build", "runs", "tests", "typings", "**/__pycache__"]

# Quotation marks and dashes stand as they are written.
smartquotes = False
highlight_language = "text"
myst_enable_extensions = ["attrs_block", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = [
    # The changelog starts each version with third-level headings.
    "myst.header",
    # There is no lexer for the blocks of CSV in the documents.
    "misc.highlighting_failure",
]

# Every notebook runs at each build; a cell that fails stops the build.
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True

# `name` in a docstring is a link if there is such an object, and else code.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False
toc_object_entries = False

html_theme = "furo"
html_title = "dualmctx"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "../dualmctx/web/static/icon.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_math_renderer = "mathml"
templates_path = ["templates"]
# The address of the site leads to its first page.
html_additional_pages = {"index": "redirect.html"}
pygments_style = "default"


def setup(app):
    """Keeps the changelog out of the search box, where it would hide the pages that explain."""

    def mark(app, _):
        if app.env.docname == "CHANGELOG":
            app.env.metadata["CHANGELOG"]["nosearch"] = True

    app.connect("doctree-read", mark)
