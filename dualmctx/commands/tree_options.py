"""The options of `dualmctx tree`, and their checks."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

from dualmctx.checks import check, check_count, show
from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named
from dualmctx.commands.search_options import SearchFlags
from dualmctx.errors import UserError
from dualmctx.visualization.drawing.diagram import Direction
from dualmctx.visualization.drawing.drawing import SUFFIXES
from dualmctx.visualization.drawing.svg_style import Theme


@dataclasses.dataclass(frozen=True)
class Options:
    """The position, the search and the drawing."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .safetensors file, or the name of a network shipped with
    dualmctx; with --complete, the name of a game or package.module:factory."""
    position: Positional[Annotated[tuple[str, ...], named(metavar="POSITION")]] = ()
    """Moves in the notation of the game, such as "2 3"; in games with FENs, also a FEN. By default
    the start of the game."""
    fen: str | None = None
    """The FEN of the position in which the moves begin."""
    out: str | None = None
    """The file to write, which must not exist: .svg, .dot (Graphviz), .json (all nodes), .txt, or
    .html, a page that shows the search step by step. By default the tree is printed as text."""
    max_nodes: int | None = None
    """Largest number of nodes to draw, the most visited ones; by default 40, and 1000 with
    --complete. Larger games are an error with --complete."""
    max_depth: int | None = None
    """Largest number of moves from the root to draw; by default all."""
    boards: Literal["auto", "yes", "no"] = "auto"
    """Draw the position in each node. auto: boards of at most 49 cells."""
    direction: Direction = "down"
    """Where the children of a node are: down, below it, or right, beside it, which suits wide
    trees."""
    theme: Theme = "auto"
    """Colours: light, dark, or auto, by which a file follows the setting of its viewer."""
    compare: bool = False
    """In a page: show AlphaZero at the same cost beside the search."""
    complete: bool = False
    """Draw all histories of a small game, with exact values; searches nothing."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """With --complete: parameters of the game, such as `pile 5`."""
    search: Unprefixed[SearchFlags] = dataclasses.field(default_factory=SearchFlags)
    """The search."""


def is_page(options: Options) -> bool:
    """Returns whether the output is a page of a search, which has controls for its own."""
    return not options.complete and (options.out or "").lower().endswith(".html")


def check_options(options: Options, path: Path | None) -> None:
    """Checks the file, and that the flags fit each other.

    Raises:
      ValueError: if they do not.
    """
    if path is not None:
        known = ", ".join(SUFFIXES)
        check(path.suffix.lower() in SUFFIXES, "out", path, f"a file that ends in {known}")
        require_new(path)
    check_count("max_nodes", options.max_nodes, 1, "for the default")
    check_count("max_depth", options.max_depth, 1, "for all depths")
    flags = options.search
    if flags.network_only:
        raise UserError("network_only grows no tree; leave it out")
    if flags.devices not in (None, 1):
        raise UserError(f"devices is {flags.devices}; leave it out, one position needs one device")
    check(0 <= flags.seed < 2**32, "seed", flags.seed, f"from 0 to {2**32 - 1}")
    if options.complete:
        _refuse(
            options, ("position", "fen", "max_depth", "compare"), "leave it out with --complete"
        )
        _refuse(flags, ("variant", "simulations", "iteration"), "leave it out with --complete")
        return
    _refuse(options, ("game_parameters",), "leave it out; the network has its own")
    if is_page(options):
        drawn = ("max_nodes", "max_depth", "boards", "direction", "theme")
        _refuse(options, drawn, "leave it out; the page has controls")
    else:
        _refuse(options, ("compare",), "write to a file that ends in .html, or leave it out")


def _refuse(options: Any, names: tuple[str, ...], remedy: str) -> None:
    """Checks that options have their defaults.

    Raises:
      ValueError: if one has another value; the message ends with the remedy.
    """
    for name in names:
        value = getattr(options, name)
        if value != getattr(type(options)(), name):
            raise UserError(f"{name} is {show(value)}; {remedy}")


def require_new(path: Path) -> None:
    """Checks that a file does not exist.

    Raises:
      ValueError: if it exists.
    """
    if path.exists():
        raise UserError(f"{path} exists; choose another file")
