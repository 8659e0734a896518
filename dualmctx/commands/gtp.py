"""`dualmctx gtp CHECKPOINT`: plays and analyses for programs that speak the Go Text Protocol."""

import dataclasses
import sys
from typing import Annotated

import games
from dualmctx.commands.engine_flags import (
    EngineFlags,
    running,
    standard_events,
    write_text,
)
from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named, parse_flags
from dualmctx.errors import UserError
from dualmctx.protocols.gtp_session import GtpOptions, GtpSession
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Thinker
from dualmctx.runs.saved_network import Trained

_PROGRAM = "dualmctx gtp"
_DESCRIPTION = """Plays and analyses games for programs that speak the Go Text Protocol, version 2,
such as Sabaki and GoGui: Go, and every other game whose moves have names. Reads commands from
standard input and writes answers to standard output, until quit or the end of the input.
docs/engines.md lists the commands and says how to connect a program."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The network and its search."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .safetensors file, or the name of a network shipped with
    dualmctx."""
    engine: Unprefixed[EngineFlags] = dataclasses.field(default_factory=EngineFlags)
    """The engine."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    flags = options.engine
    trained = flags.load(_PROGRAM, options.checkpoint)
    if games.is_chess(trained.env):
        raise UserError(
            f"the Go Text Protocol has no names for the moves of {trained.env.id}; use dualmctx uci"
        )
    policy, events = flags.build(trained), standard_events()
    with running(_PROGRAM) as thinkers:

        def start(trained: Trained) -> tuple[RunningGame, Thinker]:
            thinkers.append(Thinker(trained, policy, flags.options, events))
            return RunningGame(trained.env), thinkers[-1]

        def with_komi(komi: float) -> tuple[RunningGame, Thinker]:
            parameters = trained.record["game_parameters"] | {"komi": komi}
            return start(trained._replace(env=games.make(trained.record["game"], **parameters)))

        print(f"{_PROGRAM}: compiling the search", file=sys.stderr, flush=True)
        has_komi = trained.env.id.startswith("go_")
        session_options = GtpOptions(
            has_budget=flags.simulations is not None,
            overhead=flags.overhead,
            with_komi=with_komi if has_komi else None,
        )
        GtpSession(*start(trained), events, write_text, session_options).run()
    return 0
