"""Reads recorded games from files: PGN, SGF, and the project's own records as JSON Lines."""

import functools
import json
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import numpy as np
from msgspec import Meta

from dualmctx.checks import check
from dualmctx.errors import UserError
from dualmctx.game_files.game_record import GameRecord
from dualmctx.game_files.positions_file import GAME_READERS, read_json
from dualmctx.game_files.questions import Board
from dualmctx.game_files.text_files import Line, TextFile, find_file, read_lines
from dualmctx.matches.game_file import GAMES
from dualmctx.runs.folder import CONFIG
from dualmctx.typed_values import decode

_RESULTS = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0, "1/2": 0.0}
_SGF_RESULT = re.compile(r"(?i)([BW])\+.*|(0|draw|jigo)")
# The difference of the stones, and perhaps r, t or s for a resignation, a timeout or a settlement.
_GGF_RESULT = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)(?::[rts])?")
_NO_RESULTS = ("", "*", "?", "void")


class RecordedGame(NamedTuple):
    """A game of a file; its moves have not been played yet.

    Attributes:
      file: number of the file, from 0, in the order of the command.
      number: number of the game in the file, from 1.
      moves: the moves, as for `games.parse_moves`.
      fen: the FEN in which the moves begin; `None` for the initial position.
      game: the name of the game; `None` if the file does not say.
      game_parameters: its parameters; `None` if the file does not say.
      board: the board on which the game is played; `None` if the file does not say.
      komi: the komi of a game of Go; `None` if the file does not say.
      result: 1, 0 or -1, the result of the first side; `None` if the file does not say.
      random: plies, from 0, whose moves no player chose, such as those of an opening.
      error: the reason why the game cannot be read; `None` if it can.
      end: byte offset of the end of the game in the file, after decompression.
    """

    file: int = 0
    number: int = 0
    moves: Any = ()
    fen: str | None = None
    game: str | None = None
    game_parameters: dict[str, Any] | None = None
    board: Board | None = None
    komi: float | None = None
    result: float | None = None
    random: tuple[int, ...] = ()
    error: str | None = None
    end: int = 0


class RecordFile(NamedTuple):
    """A file of games.

    Attributes:
      file: the file.
      name: its name in messages and in the manifest.
      game: the game of all its games; `None` if it is not known.
      game_parameters: its parameters; `None` if they are not known.
    """

    file: TextFile
    name: str
    game: str | None
    game_parameters: dict[str, Any] | None


def open_records(file: str | Path, name: str | None = None) -> RecordFile:
    """Checks that a file of games can be read, and computes its digest.

    Args:
      file: the file.
      name: its name in messages and in the manifest; by default its path.

    Raises:
      ValueError: if the file does not exist, has an unknown suffix, or cannot be decompressed; or
        if it is of a tournament, whose settings cannot be read.
    """
    path = Path(file)
    return RecordFile(find_file(path, "FILE", _READERS), name or str(path), *_game_beside(path))


def read_records(files: Iterable[RecordFile]) -> Iterator[RecordedGame]:
    """Reads the games of files, one after another in bounded memory.

    Raises:
      ValueError: if a compressed file is damaged.
    """
    for index, record in enumerate(files):
        with record.file.open() as file:
            for number, game in enumerate(_READERS[record.file.suffix](file), start=1):
                if game.game is None:
                    game = game._replace(game=record.game)
                if game.game_parameters is None:
                    game = game._replace(game_parameters=record.game_parameters)
                fen = game.fen and game.fen.strip()
                yield game._replace(file=index, number=number, fen=fen)


def _game_beside(path: Path) -> tuple[str | None, dict[str, Any] | None]:
    """Returns game and parameters of a file of a tournament, from the settings in its folder.

    Raises:
      UserError: if the settings cannot be read.
    """
    settings = path.with_name(CONFIG)
    if path.name != GAMES or not settings.is_file():
        return None, None
    try:
        content = decode("the content", json.loads(settings.read_text(encoding="utf-8")), dict)
        if "players" not in content:
            return None, None  # It is not of a tournament.
        about = decode("about", content.get("about"), dict | None) or {}
        parameters = decode("game_parameters", about.get("game_parameters"), dict | None)
        return decode("game", content.get("game"), str), parameters
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{settings} cannot be read: {error}; put back a copy or, if it is of no tournament, "
            f"move {path.name} to another folder"
        ) from None


def parse_result(text: str, *, is_ggf: bool = False) -> float | None:
    """Parses the result of a game in PGN, SGF or GGF.

    Returns:
      1, 0 or -1, from the view of the side that moves first: White in chess, otherwise Black.
      `None` if the text names no result, as "*" or "Void".
    """
    if text in _RESULTS:
        return _RESULTS[text]
    if is_ggf and (found := _GGF_RESULT.fullmatch(text)):
        return float(np.sign(float(found[1])))
    found = _SGF_RESULT.fullmatch(text)
    return found and {"B": 1.0, "W": -1.0, None: 0.0}[found[1] and found[1].upper()]


def _read_game_file(
    read: Callable[[BinaryIO], Iterator[GameRecord]], is_ggf: bool, file: BinaryIO
) -> Iterator[RecordedGame]:
    for record in read(file):
        yield RecordedGame(
            moves=list(record.moves),
            fen=record.fen,
            board=record.board,
            komi=record.komi,
            result=parse_result(str((record.about or {}).get("result", "")), is_ggf=is_ggf),
            # Moves that are not in the file.
            random=(*range(record.setup), *record.passes),
            error=record.error,
            end=record.end,
        )


def _read_json_lines(file: BinaryIO) -> Iterator[RecordedGame]:
    """Reads one game per line: games of a tournament, of an engine, or moves with a result."""
    for line in read_lines(file):
        try:
            yield _read_line(line)
        except UserError as error:
            yield RecordedGame(error=f"line {line.number}: {error}", end=line.end)


def _read_line(line: Line) -> RecordedGame:
    fields = read_json(line.decode())
    if isinstance(fields, dict) and isinstance(fields.get("error"), str):
        raise UserError(fields["error"])
    if not isinstance(fields, dict) or "moves" not in fields:
        raise UserError(f"not a game with the field moves, but {reprlib.repr(fields)}")
    read = {name: decode(name, fields[name], _FIELDS[name]) for name in _FIELDS if name in fields}
    result, opening = read.pop("result", None), read.pop("opening", 0)
    if isinstance(text := result, str):
        result = parse_result(text)
        is_valid = result is not None or text.lower() in _NO_RESULTS
        check(is_valid, "result", reprlib.repr(text), _RESULT_FORMS)
    # A tournament counts a game that was cut short as a draw, and one with a failure as lost.
    is_over = fields.get("is_over", True) and fields.get("ending") in (None, "resigned")
    return RecordedGame(
        result=result if is_over else None,
        random=(*range(min(opening, len(read["moves"]))), *read.pop("random", ())),
        end=line.end,
        **read,
    )


_Moves = str | list[int | str]
_Result = Annotated[float, Meta(ge=-1, le=1)] | str | None
_RESULT_FORMS = "from -1 to 1, null, or text such as 1-0, 0-1, 1/2-1/2, B+R or *"
_FIELDS: dict[str, Any] = {
    "moves": Annotated[_Moves, Meta(description="text or a list of moves")],
    "fen": Annotated[str | None, Meta(description="text")],
    "game": Annotated[str | None, Meta(description="text")],
    "game_parameters": Annotated[dict[str, Any] | None, Meta(description="an object")],
    "result": Annotated[_Result, Meta(description=_RESULT_FORMS)],
    "opening": Annotated[int, Meta(ge=0, description="a number of moves")],
    "random": Annotated[
        list[Annotated[int, Meta(ge=0, lt=2**31)]], Meta(description="a list of plies")
    ],
}


_READERS: dict[str, Callable[[BinaryIO], Iterator[RecordedGame]]] = {
    suffix: functools.partial(_read_game_file, read, suffix == ".ggf")
    for suffix, read in GAME_READERS.items()
}
_READERS[".jsonl"] = _read_json_lines
