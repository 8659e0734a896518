"""Reads a pasted game: PGN, SGF, a FEN, or moves in the notation of the game.

Text of moves may have comment lines, which begin with "# ". Those of the form "# Name: value" are
the headers that `write_record` writes: Game, First, Second, Result and FEN.
"""

import io
import re
from collections.abc import Iterator

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.fields import Row
from dualmctx.evaluation.game_record import GameRecord, check_games, reject_other_boards
from dualmctx.evaluation.pgn_file import VARIANTS, read_pgn
from dualmctx.evaluation.sgf_file import read_sgf
from dualmctx.evaluation.write_record import RESULTS
from dualmctx.types import Environment
from games.notation import is_joined

_SGF = re.compile(r"\s*\(\s*;")
_PGN = re.compile(r'\s*\[\s*\w+\s+"')
# At most six fields; the last two are numbers and may be missing.
_FEN = re.compile(
    r"\s*[1-8pnbrqk]+(?:/[1-8pnbrqk]+){2,}(?:\s+\S+){0,3}(?:\s+[0-9]+(?=[\s,]|$)){0,2}",
    re.IGNORECASE,
)
_HEADER = re.compile(r"# (\w+): (.*)")
_NUMBER = re.compile(r"^\d+\.+")
_SHOWN = ("first", "second", "result")
_EMPTY = "the text has no game: give PGN, SGF, a FEN, or moves in the notation of the game"


def read_record(env: Environment, text: str, number: int = 1) -> GameRecord:
    """Reads one game of a text and checks it.

    Args:
      env: the game.
      text: PGN (chess, Gardner chess), SGF (Go, Othello, Hex), a FEN, which moves may follow, or
        moves in the notation of the game.
      number: the number of the game in the text, from 1.

    Returns:
      The record. Its moves are the numbers of legal actions, its texts their names.

    Raises:
      ValueError: if the text has no such game, the game is another one or on another board, or a
        move is unknown, ambiguous, illegal or after the end of the game.
    """
    records = list(read_records(env, text))
    if not 1 <= number <= len(records):
        raise UserError(f"there is no game {number}: the text has {len(records)}")
    return check_record(env, records[number - 1], number, len(records))


def read_records(env: Environment, text: str) -> Iterator[GameRecord]:
    """Yields all games of a text; their legality is not checked, see `check_record`.

    Raises:
      ValueError: if the text has no game.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise UserError(_EMPTY)
    if _SGF.match(text):
        records = read_sgf(_file(text), "utf-8")
    elif _PGN.match(text):
        records = read_pgn(_file(text))
    elif games.is_chess(env) and not _HEADER.match(text.lstrip()):
        records = read_pgn(_file(_add_tags(env, text)))
    else:
        records = iter([_read_moves(env, text)])
    is_empty = True
    for record in records:
        is_empty = False
        yield record
    if is_empty:
        raise UserError(_EMPTY)


def check_record(env: Environment, record: GameRecord, number: int, count: int) -> GameRecord:
    """Returns a record whose moves are the numbers of legal actions, and its texts their names.

    Args:
      env: the game.
      record: the record.
      number: its number in the text, from 1, for messages.
      count: the number of games in the text.

    Raises:
      ValueError: as `read_record`.
    """
    try:
        return _check(env, record)
    except UserError as error:
        if count == 1:
            raise
        raise UserError(f"game {number} of {count}: {error}") from None


def _file(text: str) -> io.BytesIO:
    return io.BytesIO(text.encode(errors="replace"))


def _add_tags(env: Environment, text: str) -> str:
    """Adds the tags that the game needs; the first fields of the text may be a FEN."""
    tags = [f'[Variant "{name}"]' for name, game in VARIANTS.items() if game == env.id]
    if (fen := _FEN.match(text)) is not None:
        tags += [f'[FEN "{fen[0].strip()}"]']
        text = text[fen.end() :]
    return "\n".join([*tags, "", text])


def _read_moves(env: Environment, text: str) -> GameRecord:
    headers, lines = {}, []
    for line in text.splitlines():
        if (found := _HEADER.fullmatch(line.strip())) is not None:
            headers[found[1].lower()] = found[2].strip()
        elif not line.startswith("# "):
            lines.append(line)
    about: Row = {name: headers[name] for name in _SHOWN if headers.get(name)}
    game, fen = headers.get("game", env.id), headers.get("fen")
    if game != env.id:
        return GameRecord(about=about, error=f"the game is {game[:40]}, not {env.id}")
    moves = _split(env, " ".join(lines))
    try:
        start = None if fen is None else games.read_fen(env, fen)
        actions = games.parse_moves(env, moves, start)
        return GameRecord(actions, games.format_moves(env, start, actions), fen, None, about)
    except UserError as error:
        if fen is None and _is_fen(env, text.strip()):
            return GameRecord((), (), text.strip(), None, about)
        return GameRecord(about=about, error=str(error))


def _is_fen(env: Environment, text: str) -> bool:
    if not games.has_fen(env):
        return False
    try:
        games.read_fen(env, text)
    except UserError:
        return False
    return True


def _split(env: Environment, text: str) -> list[str]:
    """Splits text into moves, without their numbers and the result."""
    tokens = text.replace(",", " ").split()
    tokens = [x for x in (_NUMBER.sub("", token) for token in tokens) if x]
    if tokens and tokens[-1] in RESULTS:
        tokens.pop()
    joined = "".join(tokens)
    return list(joined) if is_joined(env) and joined.isdigit() else tokens


def _check(env: Environment, record: GameRecord) -> GameRecord:
    """Returns the record with the numbers and names of its moves, which are legal."""
    [record] = check_games(env, reject_other_boards(env, [record]), 1)
    if record.error is not None:
        raise UserError(record.error)
    start = None if record.fen is None else games.read_fen(env, record.fen)
    actions = games.parse_moves(env, list(record.moves), start)
    return record._replace(moves=actions, texts=games.format_moves(env, start, actions))
