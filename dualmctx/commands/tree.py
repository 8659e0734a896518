"""`dualmctx tree CHECKPOINT [POSITION]`: draws the tree of a search, or a whole small game."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Literal

import games
from dualmctx.checks import check, show
from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named, parse_flags
from dualmctx.commands.search_options import SearchFlags
from dualmctx.commands.search_spec import build_search
from dualmctx.commands.tree_position import find_state, read_given, search
from dualmctx.distributed.backend import require_backend
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.runs.saved_network import load_trained
from dualmctx.types import Environment, Policy
from dualmctx.visualization.complete_tree import complete_tree
from dualmctx.visualization.diagram import Direction
from dualmctx.visualization.draw_tree import draw_tree
from dualmctx.visualization.drawing import SUFFIXES, Drawing
from dualmctx.visualization.svg_style import Theme

_PROGRAM = "dualmctx tree"
_DESCRIPTION = """Searches one position and draws the tree: visits, Q and prior of the most visited
nodes, of every tree of the variant. Without --out, prints the tree as text. With --complete, draws
all histories of a small game with their exact values. docs/trees.md has examples."""
_NODES, _COMPLETE_NODES = 40, 1000


@dataclasses.dataclass(frozen=True)
class Options:
    """The position, the search and the drawing."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .npz file, or the name of a network shipped with dualmctx; with
    --complete, the name of a game or package.module:factory."""
    position: Positional[Annotated[tuple[str, ...], named(metavar="POSITION")]] = ()
    """Moves in the notation of the game, such as "2 3"; in games with FENs, also a FEN. By default
    the start of the game."""
    fen: str | None = None
    """The FEN of the position in which the moves begin."""
    out: str | None = None
    """The file to write, which must not exist: .svg, .dot (Graphviz), .json (all nodes) or .html.
    By default the tree is printed as text."""
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
    complete: bool = False
    """Draw all histories of a small game, with exact values; searches nothing."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """With --complete: parameters of the game, such as `pile 5`."""
    search: Unprefixed[SearchFlags] = dataclasses.field(default_factory=SearchFlags)
    """The search."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    path = None if options.out is None else Path(options.out)
    _check(options, path)
    require_backend(_PROGRAM)
    drawing = _draw_game(options) if options.complete else _draw_search(options)
    if path is None:
        print(_encodable(drawing.to_text()), end="")
    else:
        _write(path, drawing.convert(path))
        print(f"{path}: {drawing.diagram.title}", file=sys.stderr)
    return 0


def _check(options: Options, path: Path | None) -> None:
    """Checks the file, and that the flags fit each other.

    Raises:
      ValueError: if they do not.
    """
    if path is not None:
        check(
            path.suffix.lower() in SUFFIXES,
            "out",
            path,
            f"a file that ends in {', '.join(SUFFIXES)}",
        )
        _require_new(path)
    flags = options.search
    if flags.network_only:
        raise ValueError("network_only grows no tree; leave it out")
    if flags.devices not in (None, 1):
        raise ValueError(f"devices is {flags.devices}; leave it out, one position needs one device")
    if not options.complete and options.game_parameters:
        raise ValueError("game_parameters is for --complete; a network has its own parameters")
    if options.complete:
        for name, value in _unused(options).items():
            if value:
                raise ValueError(f"{name} is {show(value)}; leave it out with --complete")


def _unused(options: Options) -> dict[str, object]:
    """Returns the values of the flags that have no meaning with `--complete`."""
    names = ("position", "fen", "max_depth")
    flags = ("variant", "simulations", "iteration")
    return {name: getattr(options, name) for name in names} | {
        name: getattr(options.search, name) for name in flags
    }


def _draw_game(options: Options) -> Drawing:
    limit = _COMPLETE_NODES if options.max_nodes is None else options.max_nodes
    env = _game(options)
    return complete_tree(
        env,
        max_nodes=limit,
        boards=options.boards != "no",
        direction=options.direction,
        theme=options.theme,
    )


def _game(options: Options) -> Environment:
    """Returns the game that is named, or that of a network in a file or a folder."""
    if Path(options.checkpoint).exists() and not options.game_parameters:
        flags = options.search
        return load_trained(options.checkpoint, game=flags.game, network=flags.network).env
    return games.make(options.checkpoint, **options.game_parameters)


def _draw_search(options: Options) -> Drawing:
    flags = options.search
    trained = load_trained(
        options.checkpoint, flags.iteration, game=flags.game, network=flags.network
    )
    policy = build_search(trained.record, flags.variant, flags.simulations)
    given = read_given(trained.env, options.position, options.fen)
    state = find_state(trained.env, given)
    output = search(trained, policy, state, flags.seed)
    return draw_tree(
        output.search_tree,
        env=trained.env,
        state=state,
        max_nodes=_NODES if options.max_nodes is None else options.max_nodes,
        max_depth=options.max_depth,
        boards={"auto": None, "yes": True, "no": False}[options.boards],
        title=f"{trained.env.id}{given.text}: {_describe(policy, flags)}",
        direction=options.direction,
        theme=options.theme,
    )


def _describe(policy: Policy, flags: SearchFlags) -> str:
    """Describes a search, such as `dual, 20 and 8 simulations`."""
    number = policy.num_simulations
    budget = " and ".join(map(str, number)) if isinstance(number, tuple) else str(number)
    return f"{flags.variant or type(policy).__name__.lower()}, {budget} simulations"


def _write(path: Path, text: str) -> None:
    with locked(lock_beside(path), path):
        _require_new(path)
        atomic_write_text(path, text)


def _encodable(text: str) -> str:
    """Returns text that standard output can encode; in ASCII, other characters for the lines."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(str.maketrans("│├└─★–", "||`-*-"))
    return text.encode(encoding, "replace").decode(encoding)


def _require_new(path: Path) -> None:
    if path.exists():
        raise ValueError(f"{path} exists; choose another file")
