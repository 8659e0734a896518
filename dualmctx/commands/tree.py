"""`dualmctx tree CHECKPOINT [POSITION]`: draws the tree of a search, or a whole small game."""

import sys
from pathlib import Path

import games
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.search_options import load_network
from dualmctx.commands.search_spec import build_search
from dualmctx.commands.tree_options import Options, check_options, is_page, require_new
from dualmctx.commands.tree_position import Given, describe_search, find_state, read_given, search
from dualmctx.distributed.backend import require_backend
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.runs.saved_network import Trained
from dualmctx.types import Environment, Policy
from dualmctx.visualization import Drawing, complete_tree, draw_tree, record_trained, recording_page

_PROGRAM = "dualmctx tree"
_DESCRIPTION = """Searches one position and draws the tree: visits, Q and prior of the most visited
nodes, of every tree of the variant. Without --out, prints the tree as text. With --complete, draws
all histories of a small game with their exact values. docs/trees.md has examples."""
_NODES, _COMPLETE_NODES = 40, 1000


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    path = None if options.out is None else Path(options.out)
    check_options(options, path)
    require_backend(_PROGRAM)
    if path is None:
        print(_encodable(_draw(options).to_text()), end="")
        return 0
    with locked(lock_beside(path), path):
        require_new(path)
        text = _make_page(options) if is_page(options) else _draw(options).convert(path)
        atomic_write_text(path, text)
    print(path, file=sys.stderr)
    return 0


def _draw(options: Options) -> Drawing:
    return _draw_game(options) if options.complete else _draw_search(options)


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
        return load_network(options.checkpoint, options.search).env
    return games.make(options.checkpoint, **options.game_parameters)


def _load(options: Options) -> tuple[Trained, Policy, Given]:
    flags = options.search
    trained = load_network(options.checkpoint, flags)
    policy = build_search(trained.record, flags.variant, flags.simulations)
    return trained, policy, read_given(trained.env, options.position, options.fen)


def _draw_search(options: Options) -> Drawing:
    trained, policy, given = _load(options)
    state = find_state(trained.env, given)
    output = search(trained, policy, state, options.search.seed)
    return draw_tree(
        output.search_tree,
        env=trained.env,
        state=state,
        max_nodes=_NODES if options.max_nodes is None else options.max_nodes,
        max_depth=options.max_depth,
        boards={"auto": None, "yes": True, "no": False}[options.boards],
        title=f"{trained.env.id}{given.text}: {describe_search(policy, options.search.variant)}",
        direction=options.direction,
        theme=options.theme,
    )


def _make_page(options: Options) -> str:
    trained, policy, given = _load(options)
    recording = record_trained(
        trained,
        given.moves,
        fen=given.fen,
        policy=policy,
        seed=options.search.seed,
        compare=options.compare,
        name=options.checkpoint,
    )
    title = f"{trained.env.id}{given.text}: {describe_search(policy, options.search.variant)}"
    return recording_page(recording, title)


def _encodable(text: str) -> str:
    """Returns text that standard output can encode; in ASCII, other characters for the lines."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(str.maketrans("│├└─★–", "||`-*-"))
    return text.encode(encoding, "replace").decode(encoding)
