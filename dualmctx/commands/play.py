"""`dualmctx play [CHECKPOINT ...]`: serves a page to play against a search and to look at it."""

import dataclasses
import functools
import importlib.util
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dualmctx.checks import check, check_count, check_seed
from dualmctx.commands import terminal
from dualmctx.commands.flags import Positional, named, parse_flags
from dualmctx.commands.search import (
    ABOUT_CONTINUED,
    build_continued_search,
    build_search,
    check_budget,
    make_builder,
)
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.policies import variant_of
from dualmctx.runs.saved_network import load_trained
from dualmctx.serving.engine import EngineOptions
from dualmctx.types import Policy
from dualmctx.web.descriptions import DEFAULT, offered
from dualmctx.web.networks import Engines, Network

if TYPE_CHECKING:
    from dualmctx.web.session import Context

_PROGRAM = "dualmctx play"
_SECONDS_TO_STOP = 1.0
# The options that the terminal uses too.
_OF_BOTH = {"checkpoints", "terminal", "variant", "simulations", "seed", "game", "network"}
_DESCRIPTION = """Serves a page in the browser to play against a network and a search, to analyse
games, and to watch the trees of a search grow. The page needs no other server and no network
connection. Without CHECKPOINT it offers the networks shipped with dualmctx. Ctrl-C ends the server.
docs/play.md describes the page, and docs/play-protocol.md its protocol."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The networks, the search and the server."""

    checkpoints: Positional[Annotated[tuple[str, ...], named(metavar="CHECKPOINT")]] = ()
    """Run folders, exported .safetensors files, or names of networks shipped with dualmctx. The
    page opens the first one, by default connect-four."""
    port: int = 8000
    """Port of the server; 0 for any free one."""
    host: str = "127.0.0.1"
    """Address at which the server listens. On an address that other machines reach, the page needs
    the token in the printed address."""
    browser: bool = True
    """Open the page in the browser if there is a display."""
    terminal: bool = False
    """Play in the terminal instead. Flags that only the server uses are then refused."""
    variant: Annotated[str | None, named(help=ABOUT_CONTINUED)] = None
    simulations: tuple[int, ...] | None = None
    """Simulations per move: one number, which the trees share in proportion to their defaults, or a
    number for each tree. Further networks with another number of trees keep their defaults."""
    max_simulations: int = 2000
    """Largest number of simulations of a position that the page may ask for."""
    max_sessions: int = 64
    """Largest number of pages at the same time."""
    max_networks: int = 3
    """Largest number of networks whose compiled searches are kept."""
    batch: int = 2
    """Number of positions that a search takes at once."""
    tree_memory: int = 64
    """Memory in MiB for the kept trees of each compiled search."""
    seed: int | None = None
    """Random seed of searches and of moves that are sampled. By default, the searches have seed 0,
    and the sampled moves differ from one start to the next."""
    game: str | None = None
    """The game of an exported file, package.module:factory, if it is not one of dualmctx."""
    network: tuple[str, ...] = ()
    """The networks that exported files may import, as package.module:factory (docs/networks.md)."""

    def __post_init__(self) -> None:
        """Checks the numbers."""
        names = ("max_simulations", "max_sessions", "max_networks", "batch", "tree_memory")
        for name in names:
            check_count(name, getattr(self, name), 1)
        check(0 <= self.port < 2**16, "port", self.port, f"from 0 to {2**16 - 1}")
        check_seed(self.seed or 0)


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    if options.terminal:
        play_in_terminal(options)
        return 0
    for module in ("starlette", "uvicorn", "websockets"):
        if importlib.util.find_spec(module) is None:
            raise UserError(f'{module} is missing: pip install "dualmctx[web]"')
    serve(options)
    return 0


def play_in_terminal(options: Options) -> None:
    """Plays in the terminal until `quit` or the end of the input."""
    default = dataclasses.asdict(Options())
    for name, value in default.items():
        if name not in _OF_BOTH and getattr(options, name) != value:
            flag = "--no-browser" if name == "browser" else f"--{name.replace('_', '-')}"
            raise UserError(f"--terminal starts no server; leave out {flag}, or --terminal")
    if len(options.checkpoints) > 1:
        raise UserError(f"{len(options.checkpoints)} networks are given; name one for --terminal")
    require_backend(_PROGRAM)
    [name] = options.checkpoints or (DEFAULT,)
    trained = load_trained(name, game=options.game, network=options.network)
    policy = build_continued_search(trained.record, options.variant, options.simulations)
    print(f"{_PROGRAM}: compiling the search", file=sys.stderr, flush=True)
    evaluator = build_evaluator(trained, policy, batch_size=1, seed=options.seed or 0, devices=1)
    budget = ",".join(map(str, np.atleast_1d(policy.num_simulations)))
    opponent = f"{name}, {variant_of(policy)} with {budget} simulations per move"
    terminal.play(evaluator, opponent, sys.stdin)


def serve(options: Options) -> None:
    """Serves the page until Ctrl-C or SIGTERM."""
    # Imported here, because the extra `web` may be missing.
    from dualmctx.web.server import is_loopback, listen, make_access, make_app, make_server

    context = make_context(options)
    with listen(options.host, options.port) as listening:
        host, port = listening.getsockname()[:2]
        # The address counts, because a name may lead to any.
        token = None if is_loopback(host) else secrets.token_urlsafe(16)
        address = _address(host, port, token)

        def started() -> None:
            print(f"{_PROGRAM}: {address} (Ctrl-C ends the server)", file=sys.stderr)
            if options.browser and has_display():
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            # The first network is loaded, and its search compiled, while the page loads.
            first = context.offered[0].name
            context.loading.submit(_warm_up, context, first)

        app = make_app(context, make_access(options.host, token))
        try:
            make_server(app, started).run(sockets=[listening])
        finally:
            for executor in (context.quick, context.loading, context.slow):
                executor.shutdown(wait=False, cancel_futures=True)
            if not context.engines.close(_SECONDS_TO_STOP):
                # A compilation cannot be interrupted, and Python must not end before its thread.
                print(f"{_PROGRAM}: stopped", file=sys.stderr, flush=True)
                os._exit(130)


def make_context(options: Options) -> "Context":
    """Returns the objects that the sessions of the server share."""
    from dualmctx.web.session import Context

    require_backend(_PROGRAM)
    offers = offered(options.checkpoints, game=options.game, network=options.network)
    policy = build_search(offers[0].record, options.variant, options.simulations)
    check_budget(policy, options.max_simulations)
    loaders = {x.name: functools.partial(load_network, options, x.name) for x in offers}
    return Context(
        engines=Engines(loaders, engine_options(options), options.max_networks),
        offered=tuple(offers),
        max_simulations=options.max_simulations,
        max_sessions=options.max_sessions,
        quick=ThreadPoolExecutor(4, "quick"),
        loading=ThreadPoolExecutor(2, "loading"),
        slow=ThreadPoolExecutor(2, "slow"),
        rng=np.random.default_rng(options.seed),
    )


def engine_options(options: Options) -> EngineOptions:
    """Returns the options of the searches."""
    return EngineOptions(
        batch_size=options.batch,
        max_simulations=options.max_simulations,
        tree_memory=options.tree_memory * 2**20,
        seed=options.seed or 0,
    )


def load_network(options: Options, name: str) -> Network:
    """Loads a network with its searches."""
    trained = load_trained(name, game=options.game, network=options.network)
    default = _default_search(trained.record, options)
    return Network(trained, make_builder(trained.record, default), options.seed or 0)


def _default_search(record: dict[str, Any], options: Options) -> Callable[[], Policy]:
    build = functools.partial(build_continued_search, record, options.variant)
    try:
        build(options.simulations)
    except UserError:
        # Several numbers fit the first network; another one may have another number of trees.
        if len(options.simulations or ()) > 1:
            return build
    return functools.partial(build, options.simulations)


def _warm_up(context: "Context", name: str) -> None:
    try:
        context.engines.engine(name)
        context.engines.network(name)
    except UserError as error:
        if not context.engines.is_closed:
            print(f"{_PROGRAM}: {error}", file=sys.stderr)


def _address(host: str, port: int, token: str | None) -> str:
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def has_display() -> bool:
    """Returns whether a browser can open a window."""
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True
