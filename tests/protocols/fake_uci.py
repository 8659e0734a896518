"""A UCI program for chess whose searches are made up, for clients that others wrote."""

import sys

from fake_thinker import FakeThinker

import games
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Events, read_lines
from dualmctx.protocols.uci_session import UciSession
from dualmctx.protocols.uci_text import UciOptions


def write(text: str) -> None:
    print(text, end="", flush=True)


if __name__ == "__main__":
    events = Events(read_lines(sys.stdin.buffer))
    game = RunningGame(games.make("chess"))
    UciSession(FakeThinker(events, game), write, UciOptions()).run()
