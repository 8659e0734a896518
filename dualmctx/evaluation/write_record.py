"""Writes a game as PGN, SGF or text, so that `read_record` and other programs can read it.

Sources: the PGN standard (1994), section 8; SGF FF[4], red-bean.com/sgf.
"""

import string
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.pgn_file import VARIANTS
from dualmctx.types import Environment
from games.notation import num_actions
from games.positions import RULES, Position
from games.san_writer import to_san

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
    return "go" if env.id.startswith("go_") else env.id


def _sgf(env: Environment, actions: Sequence[int], headers: dict[str, str]) -> str:
    game = _sgf_game(env)
    cells = num_actions(env) - 1
    size = round(cells**0.5)
    root = {"FF": "4", "CA": "UTF-8", "AP": "dualmctx", "GM": str(_SGF_GAMES[game])}
    root |= {"SZ": str(size)}
    # pgx keeps the komi with the rules; it has no public attribute for it.
    root |= {"KM": f"{env._game.komi:g}"} if game == "go" else {}  # pyright: ignore
    root |= {key: headers[name] for name, key in _SGF_NAMES.items() if name in headers}
    root |= _sgf_result(headers)
    values = (f"{key}[{_escape(value, _SGF_SPECIAL)}]" for key, value in root.items())
    colors = ("B", "W")
    names = games.format_moves(env, None, actions)
    moves = [_sgf_move(game, *move, size) for move in zip(actions, names, strict=True)]
    nodes = [f";{colors[i % 2]}[{move}]" for i, move in enumerate(moves)]
    lines = ["".join(nodes[i : i + 10]) for i in range(0, len(nodes), 10)]
    return "\n".join([f"(;{''.join(values)}", *lines, ")", ""])


def _sgf_result(headers: dict[str, str]) -> dict[str, str]:
    """Returns the property RE, without a score; nothing for an unfinished game."""
    suffix = "R" if headers.get("termination") == "resignation" else ""
    found = {"1-0": f"B+{suffix}", "0-1": f"W+{suffix}", "1/2-1/2": "0"}.get(headers["result"])
    return {} if found is None else {"RE": found}


def _sgf_move(game: str, action: int, name: str, size: int) -> str:
    if game == "hex":
        return "swap-pieces" if name == "swap" else name
    if action == size * size:
        return ""
    row, column = divmod(action, size)
    return string.ascii_letters[column] + string.ascii_letters[row]


def _text(env: Environment, names: list[str], fen: str | None, headers: dict[str, str]) -> str:
    shown = {"game": env.id} | headers | ({} if fen is None else {"fen": " ".join(fen.split())})
    titles = {"fen": "FEN"}
    lines = [f"# {titles.get(name, name.capitalize())}: {text}" for name, text in shown.items()]
    return "\n".join([*lines, "", _wrap(names), ""])
