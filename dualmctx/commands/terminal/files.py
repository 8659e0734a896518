"""Files of games in the terminal."""

import datetime
from collections.abc import Collection, Sequence
from pathlib import Path

from dualmctx.commands.terminal.game import Game, result
from dualmctx.errors import UserError
from dualmctx.evaluation.read_record import decode_record, read_record
from dualmctx.evaluation.write_record import EXTENSIONS, record_formats, write_record
from dualmctx.types import Environment
from games import GamePosition

_MAX_BYTES = 2**20


def read_game(env: Environment, text: str) -> Game:
    """Reads a game or a FEN from text; raises the errors of `read_record`."""
    record = read_record(env, text)
    return Game(env, record.fen, tuple(map(int, record.moves)))


def read_file(name: str) -> str:
    """Returns the text of a file.

    Raises:
      ValueError: if the file is too large, or ~ names no user.
      OSError: if it cannot be read.
    """
    with _path(name).open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise UserError(f"{name} is larger than {_MAX_BYTES} bytes: give the file of one game.")
    return decode_record(data)


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise UserError(f"{name[:80]} names the folder of an unknown user.") from None


def save_game(
    game: Game,
    opened: GamePosition,
    players: Sequence[str],
    name: str,
    replaceable: Collection[Path],
) -> Path:
    """Writes a game to a file.

    Args:
      game: the game.
      opened: its position.
      players: the names of the players, the first side first.
      name: the name of the file. Its extension chooses the format; without one, the best format is
        chosen and its extension added.
      replaceable: files that may be replaced.

    Returns:
      The file.

    Raises:
      ValueError: if the extension is unknown, the file exists, or ~ names no user.
      OSError: if it cannot be written.
    """
    file, formats = _path(name), record_formats(game.env)
    endings = {f".{EXTENSIONS[format]}": format for format in formats}
    if file.suffix and file.suffix not in endings:
        known = " or ".join(endings)
        raise UserError(f"{name[:80]} ends in {file.suffix}: give a name that ends in {known}.")
    file = file if file.suffix else file.with_suffix(f".{EXTENSIONS[formats[0]]}")
    if file.exists() and file not in replaceable:
        raise UserError(f"{file} exists: give another name, or remove it.")
    headers = {"event": "dualmctx play", "date": datetime.date.today().isoformat()}
    headers |= {"first": players[0], "second": players[1], "result": result(game, opened)}
    headers |= {} if game.resigned is None else {"termination": "resignation"}
    content = write_record(
        game.env, game.actions, format=endings[file.suffix], fen=game.fen, headers=headers
    )
    file.write_text(content, encoding="utf-8")
    return file
