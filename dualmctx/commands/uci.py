"""`dualmctx uci CHECKPOINT`: plays and analyses chess for programs that speak UCI."""

import dataclasses
from typing import Annotated

import games
from dualmctx.commands.engine_flags import EngineFlags, running, standard_events, write_text
from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named, parse_flags
from dualmctx.errors import UserError
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Thinker
from dualmctx.protocols.uci_session import UciSession
from dualmctx.protocols.uci_text import UciOptions

_PROGRAM = "dualmctx uci"
_DESCRIPTION = """Plays and analyses chess or Gardner's chess for programs that speak the Universal
Chess Interface, such as cutechess and En Croissant. Reads commands from standard input and writes
answers to standard output, until quit or the end of the input. docs/engines.md lists the options
and says how to connect a program."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The network and its search."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .safetensors file, or the name of a network shipped with dualmctx;
    its game must be chess or Gardner's chess."""
    engine: Unprefixed[EngineFlags] = dataclasses.field(default_factory=EngineFlags)
    """The engine."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    flags = options.engine
    trained = flags.load(_PROGRAM, options.checkpoint)
    if not games.is_chess(trained.env):
        raise UserError(f"UCI is for chess, and this is {trained.env.id}; use dualmctx gtp")
    policy, events = flags.build(trained), standard_events()
    with running(_PROGRAM) as thinkers:
        thinkers.append(Thinker(trained, policy, flags.options, events))
        uci_options = UciOptions(
            overhead=flags.overhead,
            simulations=thinkers[0].budget,
            has_budget=flags.simulations is not None,
            max_simulations=flags.max_simulations,
        )
        game = RunningGame(trained.env)
        UciSession(game, thinkers[0], events, write_text, uci_options).run()
    return 0
