"""Colours and fonts of drawings, as CSS for SVG."""

from typing import Literal, NamedTuple, get_args

from dualmctx.checks import check

Theme = Literal["auto", "light", "dark"]
"""The colours of a drawing; auto follows the setting of the viewer (`prefers-color-scheme`)."""

FONT_SIZE = 12
LINE = 15
"""The height of a line of text."""
CHARACTER = 7.3
"""The width of a character of the monospaced font, rounded up."""
_FONTS = "DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, monospace"
_SYMBOLS = "DejaVu Sans, Segoe UI Symbol, Apple Symbols, Noto Sans Symbols 2, sans-serif"


class _Colours(NamedTuple):
    """The colours of a theme; `ink` is that of text and of borders."""

    page: str
    ink: str
    faint: str
    edge: str
    box: str
    partial: str
    best: str
    first: str
    second: str
    light_square: str
    dark_square: str
    mark: str


_LIGHT = _Colours(
    page="#ffffff",
    ink="#1b1f24",
    faint="#57606a",
    edge="#8c959f",
    box="#f6f8fa",
    partial="#ffffff",
    best="#0a5bb5",
    first="#1b1f24",
    second="#ffffff",
    light_square="#f0e2c8",
    dark_square="#c19a6b",
    mark="#a8d05a",
)
_DARK = _Colours(
    page="#16191d",
    ink="#e6e9ec",
    faint="#a5adb6",
    edge="#77808a",
    box="#252a31",
    partial="#16191d",
    best="#7ab8ff",
    first="#5c6672",
    second="#e6e9ec",
    light_square="#8a8f98",
    dark_square="#5a5f68",
    mark="#6f9a3c",
)


def check_theme(theme: str) -> None:
    """Checks the name of a theme.

    Raises:
      ValueError: if there is no such theme.
    """
    check(theme in get_args(Theme), "theme", theme, f"one of {', '.join(get_args(Theme))}")


def style_sheet(theme: Theme) -> str:
    """Returns the CSS of a theme; its rules apply only inside elements of class `root_class`."""
    rules = _rules(root_class(theme), _DARK if theme == "dark" else _LIGHT)
    if theme == "auto":
        dark = _rules(root_class(theme), _DARK)
        rules += f"\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
    return rules


def root_class(theme: Theme) -> str:
    """Returns the class of the root element of a drawing."""
    return f"dualmctx-{theme}"


def _rules(root: str, colours: _Colours) -> str:
    ink, square = colours.ink, f"stroke: {colours.ink}; stroke-width: 0.6"
    rules = {
        ".page": f"fill: {colours.page}",
        "": f"background: {colours.page}",
        "text": f"font: {FONT_SIZE}px {_FONTS}; fill: {ink}; white-space: pre",
        "text.title": "font-weight: bold; font-size: 14px",
        "text.move": "font-weight: bold",
        "text.note, text.legend": f"fill: {colours.faint}",
        "text.best": f"fill: {colours.best}",
        ".edge": f"fill: none; stroke: {colours.edge}",
        ".edge.best": f"stroke: {colours.best}",
        ".edge.summary": "stroke-dasharray: 2 3",
        ".box": f"fill: {colours.box}; stroke: {ink}; stroke-width: 1.2",
        ".box.partial": f"fill: {colours.partial}; stroke-dasharray: 5 3",
        ".inner": f"fill: none; stroke: {ink}; stroke-width: 0.8",
        ".cell": f"fill: none; {square}",
        ".cell.light": f"fill: {colours.light_square}; {square}",
        ".cell.dark": f"fill: {colours.dark_square}; {square}",
        ".cell.mark": f"fill: {colours.mark}; {square}",
        ".stone.first": f"fill: {colours.first}; {square}",
        ".stone.second": f"fill: {colours.second}; {square}",
        "text.piece": f"font-family: {_SYMBOLS}; stroke-width: 0.7; paint-order: stroke",
        "text.piece.white": "fill: #ffffff; stroke: #000000",
        "text.piece.black": "fill: #000000; stroke: #ffffff",
    }
    prefixed = {
        ", ".join(f".{root} {part.strip()}".strip() for part in selector.split(",")): rule
        for selector, rule in rules.items()
    }
    return "\n".join(f"{selector} {{ {rule} }}" for selector, rule in prefixed.items())
