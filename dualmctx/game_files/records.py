"""Reads and writes games as PGN, SGF or text.

Sources: the PGN standard (1994), section 8; SGF FF[4], red-bean.com/sgf.
"""

import io
import math
import re
import string
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.game_files.game_record import GameRecord, check_games, reject_other_boards
from dualmctx.game_files.pgn_file import VARIANTS, read_pgn
from dualmctx.game_files.questions import Row
from dualmctx.game_files.sgf_file import read_sgf
from dualmctx.types import Environment
from games.notation import num_actions, split_joined
from games.positions import RULES, Position
from games.records import is_go
from games.san import to_san

HEADERS = ("event", "site", "date", "round", "first", "second", "result", "termination")
"""Names of headers; `first` and `second` are the players, by the order of their first moves."""
RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
"""The player on the first side has won; the other player has won; a draw; unfinished."""
EXTENSIONS = {"pgn": "pgn", "sgf": "sgf", "text": "txt"}
"""The end of the name of a file, by format."""
_TAGS = {"event": "Event", "site": "Site", "date": "Date", "round": "Round", "first": "White"}
_TAGS |= {"second": "Black", "result": "Result"}
# The property GM, by the game.
_SGF_GAMES = {"go": 1, "othello": 2, "hex": 11}
_SGF_NAMES = {"event": "EV", "site": "PC", "date": "DT", "round": "RO", "first": "PB"}
_SGF_NAMES |= {"second": "PW"}
# The characters of a value before which a backslash is written.
_PGN_SPECIAL, _SGF_SPECIAL = '"\\', "]\\"
_WIDTH = 79
_MAX_HEADER = 200
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
        [record] = check_games(env, reject_other_boards(env, [record]), 1)
        if record.error is not None:
            raise UserError(record.error)
        start = None if record.fen is None else games.read_fen(env, record.fen)
        actions = games.parse_moves(env, list(record.moves), start)
        return record._replace(moves=actions, texts=games.format_moves(env, start, actions))
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
    split = split_joined(env)
    found = split("".join(tokens)) if split is not None else None
    return tokens if found is None else list(found)


def record_formats(env: Environment) -> tuple[str, ...]:
    """Returns the formats in which games can be written, keys of `EXTENSIONS`, the best first."""
    if games.is_chess(env):
        return "pgn", "text"
    return ("sgf", "text") if _sgf_game(env) in _SGF_GAMES else ("text",)


def write_record(
    env: Environment,
    moves: Sequence[int | str],
    *,
    format: str | None = None,
    fen: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """Writes a game.

    PGN has the Seven Tag Roster, moves in SAN with the signs of check and mate, and, if the game
    begins from a FEN, the tags FEN and SetUp. Gardner chess also has the tag Variant. In SGF, Black
    has the first side. Passes are empty moves, and the swap of Hex is "swap-pieces".

    Args:
      env: the game.
      moves: legal moves, as for `games.parse_moves`. Their legality is not checked.
      format: one of `record_formats(env)`; by default its first entry.
      fen: the position in which the moves begin; `None` for the start of the game.
      headers: texts by name, see `HEADERS`. The result is one of `RESULTS`, by default "*". A value
        is cut after 200 characters; characters that cannot be printed become spaces.

    Returns:
      The content of a file.

    Raises:
      ValueError: if the format or a header is unknown, a header is not text, or a move or the FEN
        cannot be read.
    """
    format = record_formats(env)[0] if format is None else format
    if format not in record_formats(env):
        known = " or ".join(record_formats(env))
        raise UserError(f"format {format!r}: games of {env.id} are written as {known}")
    cleaned = _clean(headers or {})
    start = None if fen is None else games.read_fen(env, fen)
    actions = games.parse_moves(env, moves, start)
    if format == "pgn":
        names = games.format_moves(env, start, actions)
        return _pgn(env, names, start, fen, cleaned)
    if format == "sgf":
        return _sgf(env, actions, cleaned)
    return _text(env, games.format_moves(env, start, actions), fen, cleaned)


def _clean(headers: Mapping[str, str]) -> dict[str, str]:
    """Checks headers and makes each value one printable line; leaves out empty ones."""
    for name, value in headers.items():
        if name not in HEADERS or not isinstance(value, str):
            raise UserError(f"header {name!r}: pass text for any of {', '.join(HEADERS)}")
    if headers.get("result", "*") not in RESULTS:
        raise UserError(f"result {headers['result'][:20]!r}: pass one of {', '.join(RESULTS)}")
    lines = {
        name: " ".join("".join(x if x.isprintable() else " " for x in value).split())
        for name, value in headers.items()
    }
    return {"result": "*"} | {name: line[:_MAX_HEADER] for name, line in lines.items() if line}


def _wrap(words: Sequence[str]) -> str:
    return textwrap.fill(" ".join(words), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _pgn(
    env: Environment, moves: list[str], start: Position | None, fen: str | None, headers: Any
) -> str:
    tags = {tag: headers.get(name, "?") for name, tag in _TAGS.items()}
    tags["Date"] = headers.get("date", "????.??.??").replace("-", ".")
    variants = [name for name, game in VARIANTS.items() if game == env.id]
    tags |= {"Variant": variants[0]} if variants else {}
    tags |= {} if fen is None else {"SetUp": "1", "FEN": " ".join(fen.split())}
    tags |= {"Termination": headers["termination"]} if "termination" in headers else {}
    lines = [f'[{name} "{_escape(value, _PGN_SPECIAL)}"]' for name, value in tags.items()]
    position = games.read_fen(env, RULES[env.id].start) if start is None else start
    words = [*_number(position, to_san(position, moves)), headers["result"]]
    return "\n".join([*lines, "", _wrap(words), ""])


def _number(start: Position, texts: Sequence[str]) -> Iterator[str]:
    """Yields moves with numbers before those of White, and before the first one."""
    first = 2 * start.fullmoves + start.color
    for ply, text in enumerate(texts, start=first):
        if ply % 2 == 0 or ply == first:
            yield f"{ply // 2}{'...' if ply % 2 else '.'}"
        yield text


def _escape(text: str, characters: str) -> str:
    return "".join(f"\\{x}" if x in characters else x for x in text)


def _sgf_game(env: Environment) -> str:
    return "go" if is_go(env) else env.id


def _sgf(env: Environment, actions: Sequence[int], headers: dict[str, str]) -> str:
    game, size = _sgf_game(env), math.isqrt(num_actions(env))
    root = {"FF": "4", "CA": "UTF-8", "AP": "dualmctx", "GM": str(_SGF_GAMES[game])}
    root |= {"SZ": str(size)}
    # pgx keeps the komi with the rules; it has no public attribute for it.
    root |= {"KM": f"{env._game.komi:g}"} if game == "go" else {}  # pyright: ignore
    root |= {key: headers[name] for name, key in _SGF_NAMES.items() if name in headers}
    root |= _sgf_result(headers)
    values = (f"{key}[{_escape(value, _SGF_SPECIAL)}]" for key, value in root.items())
    colors = ("B", "W")
    nodes = [f";{colors[i % 2]}[{move}]" for i, move in enumerate(sgf_moves(env, actions))]
    lines = ["".join(nodes[i : i + 10]) for i in range(0, len(nodes), 10)]
    return "\n".join([f"(;{''.join(values)}", *lines, ")", ""])


def sgf_moves(env: Environment, actions: Sequence[int]) -> list[str]:
    """Returns moves of Go, Othello or Hex in SGF, in which a pass is empty."""
    if env.id == "hex":
        names = games.format_moves(env, None, actions)
        return ["swap-pieces" if name == "swap" else name for name in names]
    letters = string.ascii_letters[: math.isqrt(num_actions(env))]
    # The action after the cells is a pass.
    cells = [column + row for row in letters for column in letters] + [""]
    return [cells[action] for action in actions]


def _sgf_result(headers: dict[str, str]) -> dict[str, str]:
    """Returns the property RE, without a score; nothing for an unfinished game."""
    suffix = "R" if headers.get("termination") == "resignation" else ""
    found = {"1-0": f"B+{suffix}", "0-1": f"W+{suffix}", "1/2-1/2": "0"}.get(headers["result"])
    return {} if found is None else {"RE": found}


def _text(env: Environment, names: list[str], fen: str | None, headers: dict[str, str]) -> str:
    shown = {"game": env.id} | headers | ({} if fen is None else {"fen": " ".join(fen.split())})
    titles = {"fen": "FEN"}
    lines = [f"# {titles.get(name, name.capitalize())}: {text}" for name, text in shown.items()]
    return "\n".join([*lines, "", _wrap(names), ""])
