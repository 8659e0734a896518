"""Programs of other projects: whether they are installed, and their view of games."""

import contextlib
from collections.abc import Iterable, Sequence

import pytest

import games
from dualmctx.programs.gtp import GtpProgram
from dualmctx.programs.process import find_program
from dualmctx.programs.uci import UciProgram
from dualmctx.types import Environment


def needs(name: str) -> None:
    """Skips the test if a program is not installed."""
    if find_program(name) is None:
        pytest.skip(f"{name} is not installed; see docs/engines.md")


def gtp_results(env: Environment, command: str, played: Iterable[Sequence[int]]) -> list[int]:
    """Returns the results of the first side by the program's own score, for whole games."""
    is_go, results = env.id == "go_9x9", []
    with contextlib.closing(GtpProgram(command.replace("{seed}", "0"), 30.0)) as program:
        for moves in played:
            for line in ["boardsize 9", "komi 7.5"] * is_go:
                program.send(line)
            program.send("clear_board")
            for ply, name in enumerate(games.format_moves(env, None, moves)):
                if is_go or name != "pass":
                    program.send(f"play {'BW'[ply % 2]} {name}")
            results.append({"B": 1, "W": -1, "0": 0}[program.send("final_score")[0]])
    return results


def uci_boards(env: Environment, command: str, fen: str, moves: Sequence[int]) -> list[list[str]]:
    """Returns the board, the side and the rights of castling after each prefix of a game.

    They are the first fields of the FEN that Stockfish's command `d` prints.
    """
    names = games.format_moves(env, games.read_fen(env, fen), moves)
    with contextlib.closing(UciProgram(command, 30.0)) as program:
        program.ask("uci", "uciok")
        if env.id == "gardner_chess":
            program.write("setoption name UCI_Variant value gardner")
        found = []
        for number in range(len(names) + 1):
            program.write(" ".join([f"position fen {fen} moves", *names[:number]]))
            found.append(program.ask("d", "Fen:")[-1].split()[1:4])
    return found
