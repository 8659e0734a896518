"""`dualmctx gtp CHECKPOINT` and `dualmctx uci CHECKPOINT`: engines for other programs."""

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Iterator
from typing import Annotated

import games
from dualmctx.checks import check, check_count, check_seed
from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.commands.process_settings import rare_collections, write_standard
from dualmctx.commands.search import (
    ABOUT_CONTINUED,
    NetworkFlags,
    build_continued_search,
    check_budget,
)
from dualmctx.commands.source import open_standard_input
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.protocols.gtp_session import GtpOptions, GtpSession
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Events, Thinker, read_lines
from dualmctx.protocols.uci_session import UciSession
from dualmctx.protocols.uci_text import MAX_OVERHEAD, VARIANTS, UciOptions
from dualmctx.runs.saved_network import Trained
from dualmctx.serving.engine import EngineOptions
from games.records import is_go

_GTP, _UCI = "dualmctx gtp", "dualmctx uci"
_ABOUT_GTP = """Plays and analyses games for programs that speak the Go Text Protocol, version 2,
such as Sabaki and GoGui: Go, and every other game whose moves have names. Reads commands from
standard input and writes answers to standard output, until quit or the end of the input.
docs/engines.md lists the commands and says how to connect a program."""
_ABOUT_UCI = """Plays and analyses chess or Gardner's chess for programs that speak the Universal
Chess Interface, such as cutechess and En Croissant. Reads commands from standard input and writes
answers to standard output, until quit or the end of the input. docs/engines.md lists the options
and says how to connect a program."""
_SECONDS_TO_STOP, _SECONDS_TO_COMPILE = 1.0, 3600.0


@dataclasses.dataclass(frozen=True)
class Options(NetworkFlags):
    """The network, its search, and the limits of its trees."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .safetensors file, or the name of a network shipped with
    dualmctx."""
    variant: Annotated[str | None, named(help=ABOUT_CONTINUED)] = None
    simulations: tuple[int, ...] | None = None
    """Simulations per move: one number, which the trees share in proportion to their defaults, or a
    number for each tree. If they are given, they are a limit also where the time is. By default
    those of the search; under a clock, as many as fit into the time."""
    step: int = 8
    """Simulations per step. Between steps, the search looks at the clock and reports. With several
    trees, a step has whole rounds, at least one."""
    max_simulations: int = 10_000
    """Largest number of simulations of a position, if the memory suffices."""
    tree_memory: int = 128
    """Memory in MiB for the kept trees. It must hold two trees, which limits the simulations in
    games with many actions."""
    overhead: float = 0.05
    """Seconds of each move that pass outside of the search."""
    seed: int = 0
    """Random seed of the searches."""

    def __post_init__(self) -> None:
        """Checks the numbers."""
        for name in ("step", "max_simulations", "tree_memory"):
            check_count(name, getattr(self, name), 1)
        is_valid = 0 <= self.overhead <= MAX_OVERHEAD
        check(is_valid, "overhead", self.overhead, f"from 0 to {MAX_OVERHEAD:g} seconds")
        check_seed(self.seed)

    @property
    def engine(self) -> EngineOptions:
        """The options of the engine."""
        return EngineOptions(
            batch_size=1,
            max_simulations=self.max_simulations,
            tree_memory=self.tree_memory * 2**20,
            seed=self.seed,
            chunk_size=self.step,
        )


def gtp(arguments: list[str]) -> int:
    """Runs `dualmctx gtp`; returns its exit code."""
    options = parse_flags(Options(), arguments, _GTP, _ABOUT_GTP)
    require_backend(_GTP)
    trained = options.load(options.checkpoint)
    policy = build_continued_search(trained.record, options.variant, options.simulations)
    check_budget(policy, options.max_simulations)
    if games.is_chess(trained.env):
        raise UserError(
            f"the Go Text Protocol has no names for the moves of {trained.env.id}; use {_UCI}"
        )
    events = standard_events()
    with _running(_GTP) as thinkers:

        def start(trained: Trained) -> Thinker:
            game = RunningGame(trained.env)
            thinkers.append(Thinker(lambda: trained, policy, options.engine, events, game))
            return thinkers[-1]

        def with_komi(komi: float) -> Thinker:
            parameters = trained.record["game_parameters"] | {"komi": komi}
            return start(trained._replace(env=games.make(trained.record["game"], **parameters)))

        print(f"{_GTP}: compiling the search", file=sys.stderr, flush=True)
        session_options = GtpOptions(
            has_budget=options.simulations is not None,
            overhead=options.overhead,
            with_komi=with_komi if is_go(trained.env) else None,
        )
        GtpSession(start(trained), _write_text, session_options).run()
    return 0


def uci(arguments: list[str]) -> int:
    """Runs `dualmctx uci`; returns its exit code."""
    options = parse_flags(Options(), arguments, _UCI, _ABOUT_UCI)
    require_backend(_UCI)
    # The record is read at once, and the network after the answer to the first command.
    record = options.load_record(options.checkpoint)
    policy = build_continued_search(record, options.variant, options.simulations)
    check_budget(policy, options.max_simulations)
    game = record["game"].replace("-", "_")
    if game not in VARIANTS:
        raise UserError(f"UCI is for chess, and this is {game}; use {_GTP}")
    events = standard_events()
    with _running(_UCI) as thinkers:
        load = functools.partial(options.load, options.checkpoint)
        thinkers.append(Thinker(load, policy, options.engine, events))
        uci_options = UciOptions(
            overhead=options.overhead,
            simulations=thinkers[0].budget,
            has_budget=options.simulations is not None,
            max_simulations=options.max_simulations,
            variant=VARIANTS[game],
        )
        UciSession(thinkers[0], _write_text, uci_options).run()
    return 0


def standard_events() -> Events:
    """Returns the lines of standard input as events."""
    return Events(read_lines(open_standard_input()))


def _write_text(text: str) -> None:
    write_standard(text.encode())


@contextlib.contextmanager
def _running(program: str) -> Iterator[list[Thinker]]:
    """Runs a session; yields a list for its thinkers, which are closed at the end.

    A compilation cannot be interrupted, and Python must not end before its thread. So the process
    ends at once if a thread does not end soon; a fault of the program waits for it.
    """
    thinkers: list[Thinker] = []
    code, message = 1, "stopped"
    try:
        with rare_collections():
            yield thinkers
        code = 0
    except KeyboardInterrupt:
        code = 130
        raise
    except UserError as error:
        code, message = 2, str(error)
        raise
    finally:
        seconds = _SECONDS_TO_STOP if code != 1 else _SECONDS_TO_COMPILE
        ended = [thinker.close(seconds) for thinker in thinkers]
        if not all(ended) and code != 1:
            sys.stdout.flush()
            if code:
                print(f"{program}: {message}", file=sys.stderr, flush=True)
            os._exit(code)
