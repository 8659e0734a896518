"""`dualmctx tree CHECKPOINT [POSITION]`: draws the tree of a search, or a whole small game."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import jax

import games
from dualmctx.checks import check, check_count, check_defaults, check_seed
from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.commands.search import SearchFlags
from dualmctx.distributed.backend import require_backend
from dualmctx.distributed.devices import free_memory
from dualmctx.errors import UserError
from dualmctx.models.search_fn import make_search_fn
from dualmctx.models.search_memory import num_bytes
from dualmctx.runs.atomic_io import atomic_write_text, require_new
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.runs.saved_network import Trained, model_kwargs_of
from dualmctx.training.memory_budget import require_batch_memory
from dualmctx.types import Environment, Policy, tree_budgets
from dualmctx.visualization import Drawing, complete_tree, draw_tree, record_trained, recording_page
from dualmctx.visualization.drawing import SUFFIXES

_PROGRAM = "dualmctx tree"
_DESCRIPTION = """Searches one position and draws the tree: visits, Q and prior of the most visited
nodes, of every tree of the variant. With --complete, draws all histories of a small game with their
exact values. docs/trees.md has examples."""
_NODES, _COMPLETE_NODES = 40, 1000


@dataclasses.dataclass(frozen=True)
class Options(SearchFlags):
    """The position, the search and the drawing."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .safetensors file, or the name of a network shipped with
    dualmctx; with --complete, the name of a game or package.module:factory."""
    position: Positional[Annotated[tuple[str, ...], named(metavar="POSITION")]] = ()
    """Moves in the notation of the game, such as "2 3"; in games with FENs, also a FEN. By default
    the start of the game."""
    out: str = REQUIRED
    """The file to write, which must not exist: .svg, .dot (Graphviz), or .html, a page that shows
    the search step by step."""
    fen: str | None = None
    """The FEN of the position in which the moves begin."""
    max_nodes: int | None = None
    """Largest number of nodes to draw, the most visited ones; by default 40, and 1000 with
    --complete. Larger games are an error with --complete."""
    max_depth: int | None = None
    """Largest number of moves from the root to draw; by default all."""
    boards: Literal["auto", "yes", "no"] = "auto"
    """Draw the position in each node. auto: boards of at most 49 cells."""
    compare: bool = False
    """In a page: show AlphaZero at the same cost beside the search."""
    complete: bool = False
    """Draw all histories of a small game, with exact values; searches nothing."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """With --complete: parameters of the game, such as `pile 5`."""


class Given(NamedTuple):
    """A position as the user gives it.

    Attributes:
      moves: the moves, as text.
      fen: the position in which they begin; `None` for the start of the game.
    """

    moves: str
    fen: str | None

    @property
    def text(self) -> str:
        """The position for a title, such as `after 2 3`."""
        start = "" if self.fen is None else f" from {self.fen}"
        return f"{start} after {self.moves}" if self.moves else start or " at the start"


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    path = Path(options.out)
    _check(options, path)
    require_backend(_PROGRAM)
    with locked(lock_beside(path), path):
        require_new(path)
        draw = _draw_game if options.complete else _draw_search
        text = _make_page(options) if _is_page(path) else draw(options).convert(path)
        atomic_write_text(path, text)
    print(path, file=sys.stderr)
    return 0


def _check(options: Options, path: Path) -> None:
    """Checks the file, and that the flags fit each other."""
    *others, last = SUFFIXES if options.complete else (*SUFFIXES, ".html")
    known = f"a file that ends in {', '.join(others)} or {last}"
    check(path.suffix.lower() in (*others, last), "out", path, known)
    require_new(path)
    check_count("max_nodes", options.max_nodes, 1, "for the default")
    check_count("max_depth", options.max_depth, 1, "for all depths")
    if options.network_only:
        raise UserError("network_only grows no tree; leave it out")
    if options.devices not in (None, 1):
        problem = f"devices is {options.devices}"
        raise UserError(f"{problem}; leave it out, one position needs one device")
    check_seed(options.seed)
    if options.complete:
        unused = ("position", "fen", "max_depth", "compare", "variant", "simulations", "iteration")
        check_defaults(options, unused, "leave it out with --complete")
        return
    check_defaults(options, ("game_parameters",), "leave it out; the network has its own")
    if _is_page(path):
        drawn = ("max_nodes", "max_depth", "boards")
        check_defaults(options, drawn, "leave it out; the page has controls")
    else:
        check_defaults(options, ("compare",), "write to a file that ends in .html, or leave it out")


def _is_page(path: Path) -> bool:
    return path.suffix.lower() == ".html"


def _draw_game(options: Options) -> Drawing:
    """Draws the game that is named, or that of a network in a file or a folder."""
    if Path(options.checkpoint).exists() and not options.game_parameters:
        env = options.load(options.checkpoint).env
    else:
        env = games.make(options.checkpoint, **options.game_parameters)
    limit = options.max_nodes or _COMPLETE_NODES
    return complete_tree(env, max_nodes=limit, boards=options.boards != "no")


def _load(options: Options) -> tuple[Trained, Policy, Given, str]:
    """Returns the network, the search, the position, and a title."""
    trained = options.load(options.checkpoint)
    policy = options.policy(trained.record)
    given = read_given(trained.env, options.position, options.fen)
    title = f"{trained.env.id}{given.text}: {describe_search(policy, options.variant)}"
    return trained, policy, given, title


def _draw_search(options: Options) -> Drawing:
    trained, policy, given, title = _load(options)
    state = _find_state(trained.env, given)
    output = _search(trained, policy, state, options.seed)
    return draw_tree(
        output.search_tree,
        env=trained.env,
        state=state,
        max_nodes=options.max_nodes or _NODES,
        max_depth=options.max_depth,
        boards={"auto": None, "yes": True, "no": False}[options.boards],
        title=title,
    )


def _make_page(options: Options) -> str:
    trained, policy, given, title = _load(options)
    recording = record_trained(
        trained,
        given.moves,
        fen=given.fen,
        policy=policy,
        seed=options.seed,
        compare=options.compare,
        name=options.checkpoint,
    )
    return recording_page(recording, title)


def read_given(env: Environment, words: tuple[str, ...], fen: str | None) -> Given:
    """Joins the words of a position; in games with FENs, text with a slash is a FEN."""
    text = " ".join(" ".join(words).split())
    if "/" not in text or not games.has_fen(env):
        return Given(text, fen)
    if fen is not None:
        raise UserError(f"fen is {fen}, and the position is the FEN {text}; give one of them")
    return Given("", text)


def _find_state(env: Environment, given: Given) -> Any:
    """Returns the `[1]` state of a position in which the game is not over."""
    opened = games.open_position(env, given.moves, given.fen)
    if opened.is_over:
        raise UserError(f"the game is over{given.text}; give a position with a legal move")
    return jax.tree.map(lambda x: x[None], opened.state)


def _search(trained: Trained, policy: Policy, state: Any, seed: int) -> Any:
    """Searches from `[1]` states without noise; returns the output of the policy."""
    search_fn = make_search_fn(
        trained.env, trained.network, policy.for_evaluation(), **model_kwargs_of(trained.record)
    )
    inputs = trained.params, jax.random.PRNGKey(seed), state
    # The trees are most of the memory of a search of one position.
    require_batch_memory(1, num_bytes(jax.eval_shape(search_fn, *inputs)), free_memory())
    return jax.jit(search_fn)(*inputs)


def describe_search(policy: Policy, variant: str | None) -> str:
    """Describes a search by the user's `variant`, such as `dual, 20 and 8 simulations`."""
    budget = " and ".join(map(str, tree_budgets(policy)))
    return f"{variant or type(policy).__name__.lower()}, {budget} simulations"
