"""The commands of the terminal: functions of the session and the argument of the command.

A function raises a ValueError if the argument is wrong or the command is not possible now, and an
OSError if a file cannot be read or written.
"""

import dataclasses

import games
from dualmctx.commands.terminal.files import read_file, read_game, save_game
from dualmctx.commands.terminal.game import Game, read_sides, undo
from dualmctx.commands.terminal.session import Session
from dualmctx.commands.terminal.settings import read_simulations, read_temperature
from dualmctx.commands.terminal.text import (
    analysis_table,
    describe_exact,
    describe_value,
    list_moves,
    wrap,
)
from dualmctx.errors import UserError


def leave(session: Session, text: str) -> None:
    """Ends the program."""
    del text
    session.is_done = True


# The position and the search.


def list_legal(session: Session, text: str) -> None:
    """Lists the legal moves."""
    del text
    print(list_moves(list(session.legal().values())))


def show_board(session: Session, text: str) -> None:
    """Shows the board."""
    del text
    session.show_board()


def hint(session: Session, text: str) -> None:
    """Shows the move that the search would play."""
    del text
    session.legal()
    found = session.think().found
    if found is None:
        raise UserError("The search was stopped before it had a result.")
    move = next(x for x in found["moves"] if x["action"] == found["action"])
    print(f"The search would play {move['name']} (value {describe_value(found['value'])}).")


def analyse(session: Session, text: str) -> None:
    """Shows the best moves of a search; by default with four times the simulations of a move."""
    session.legal()
    most = session.max_simulations
    number = read_simulations(text, most) if text else min(most, 4 * session.num_simulations())
    found = session.think((number,)).found
    if found is None:
        raise UserError("The search was stopped before it had a result.")
    print(analysis_table(found, session.exact_values(), session.player))


def exact(session: Session, text: str) -> None:
    """Shows the exact values of the position."""
    del text
    names, env = session.legal(), session.env
    if games.exact_source(env) is None:
        remedy = "; install bitbully for it" if env.id == "connect_four" else ""
        raise UserError(f"{env.id} has no exact values{remedy}.")
    print(describe_exact(session.exact_values(), names, session.player))


# The game.


def show_record(session: Session, text: str) -> None:
    """Shows the moves of the game."""
    del text
    game = session.game
    start = "" if game.fen is None else f" from {game.fen}"
    print(wrap(f"Moves{start}: {' '.join(game.names()) or 'none'}", "  "))


def take_back(session: Session, text: str) -> None:
    """Takes moves back until a person is to move."""
    del text
    session.set_game(undo(session.game, session.settings.people))
    session.show_board()


def begin(session: Session, text: str) -> None:
    """Starts a new game."""
    del text
    session.set_game(Game(session.env))
    session.show_board()


def resign(session: Session, text: str) -> None:
    """Gives the game up, for the person or, if both or none play, for the side to move."""
    del text
    session.legal()
    people, side = session.settings.people, session.opened.side
    side = side if side in people or not people else people[0]
    session.set_game(dataclasses.replace(session.game, resigned=side))
    print(f"{session.players[side]} resigns. {session.outcome()}")


def set_position(session: Session, text: str) -> None:
    """Sets up a position or a game; the person then plays both sides."""
    session.set_game(read_game(session.env, text))
    session.change(people=(0, 1))
    session.show_board()
    print("You play both sides now; type side to change it.")


def load(session: Session, text: str) -> None:
    """Reads a game from a file."""
    set_position(session, read_file(text))


def save(session: Session, text: str) -> None:
    """Writes the game to a file."""
    people, search = session.settings.people, f"{session.name}, {session.describe_search()}"
    players = ["person" if side in people else search for side in (0, 1)]
    file = save_game(session.game, session.opened, players, text, session.saved)
    session.saved.add(file)
    print(f"The game is in {file}.")


# The settings.


def set_sides(session: Session, text: str) -> None:
    """Sets or shows the sides that people play."""
    if text:
        session.change(people=read_sides(session.env, text))
    people = session.settings.people
    names = " and ".join(session.players[side] for side in people)
    print(f"You play {names}." if people else "The search plays both sides; Ctrl-C stops it.")


def set_level(session: Session, text: str) -> None:
    """Sets or shows the simulations of the search."""
    if text:
        most = session.max_simulations
        parts = tuple(read_simulations(part, most) for part in text.split(","))
        session.set_search(session.settings.variant, parts)
    print(f"The search is {session.describe_search()}.")


def set_variant(session: Session, text: str) -> None:
    """Sets or shows the search."""
    if text:
        session.set_search(text, None)
    print(f"The search is {session.describe_search()}.")


def set_temperature(session: Session, text: str) -> None:
    """Sets or shows the temperature."""
    if text:
        session.change(temperature=read_temperature(text))
    value = session.settings.temperature
    print(f"The temperature is {value:g}: " + ("best moves." if not value else "varied moves."))
