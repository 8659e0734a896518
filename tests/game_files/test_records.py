"""Games as PGN, SGF and text: written, read again, and read by other libraries."""

import functools
import io
import itertools
import random
from typing import Any

import chess.pgn
import jax
import numpy as np
import pytest
from sgfmill import sgf

import games
from dualmctx.game_files.game_record import GameRecord
from dualmctx.game_files.records import read_record, read_records, record_formats, write_record
from dualmctx.types import Environment
from own_nim import NimWithPositions

# Each format, names by cell and of their own, passes, swaps, and a game of the user.
NAMES = ("gardner_chess", "go_9x9", "hex", "domineering:Domineering")
HOSTILE = [
    'a"] [White "b',
    "a] ;B[aa](;W[bb]) \\",
    'x\\"',
    'line\nbreak\r\n# Game: chess\n[Result "1-0"]',
    "\x00\x1b[31m\u202e\ud800é漢",
    "{ ( ; $1 % 1-0 *",
    " ",
    "a" * 5000,
]


@functools.cache
def env_of(name: str) -> Environment:
    return games.make(name, size=4) if name == "hex" else games.make(name)


@functools.cache
def random_game(name: str, most: int = 60) -> list[int]:
    env, draws = env_of(name), np.random.default_rng(3)
    state, step = jax.jit(env.init)(jax.random.PRNGKey(0)), jax.jit(env.step)
    actions: list[int] = []
    while not (state.terminated or state.truncated) and len(actions) < most:
        legal = np.flatnonzero(state.legal_action_mask)
        # The last action of Go, Othello and Hex is a pass or a swap.
        rare = [legal[-1]] if len(actions) % 7 == 1 else []
        actions.append(int(draws.choice([*legal, *rare * len(legal)])))
        state = step(state, actions[-1])
    return actions


def read_again(env: Environment, text: str, actions: list[int]) -> GameRecord:
    record = read_record(env, text)
    assert record.moves == actions
    start = None if record.fen is None else games.read_fen(env, record.fen)
    assert list(record.texts) == games.format_moves(env, start, actions)
    return record


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_written_game_is_read_again(name: str) -> None:
    env, actions = env_of(name), random_game(name)
    assert len(actions) > 2
    for format in record_formats(env):
        headers = {"first": "A. Person", "second": "dual 50,35", "result": "1/2-1/2"}
        text = write_record(env, actions, format=format, headers=headers)
        about = read_again(env, text, actions).about or {}
        assert {"A. Person", "dual 50,35"} < set(about.values())
        assert max(map(len, text.splitlines())) < 130
        assert read_again(env, write_record(env, [], format=format), []).moves == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gardner_chess", "hex", "nim"])
def test_headers_cannot_change_the_game(name: str) -> None:
    env, actions = env_of(name), random_game(name)
    for format, value in itertools.product(record_formats(env), HOSTILE):
        headers = dict.fromkeys(("first", "event", "site", "termination"), value)
        text = write_record(env, actions, format=format, headers=headers | {"second": "B"})
        assert len(list(read_records(env, text))) == 1
        about = read_again(env, text, actions).about or {}
        expected = " ".join("".join(x if x.isprintable() else " " for x in value).split())[:200]
        found = about.get({"pgn": "white", "sgf": "black"}.get(format, "first"))
        assert found == (expected or ("?" if format == "pgn" else None))
        text.encode()


def random_chess(draws: random.Random, fen: str | None) -> chess.pgn.Game:
    board = chess.Board() if fen is None else chess.Board(fen)
    for _ in range(80):
        moves = list(board.legal_moves)
        if not moves or board.is_insufficient_material():
            break
        checks = [move for move in moves if board.gives_check(move)]
        board.push(draws.choice(checks if checks and draws.random() < 0.6 else moves))
    return chess.pgn.Game.from_board(board)


def test_pgn_is_that_of_python_chess() -> None:
    """The text after the tags is equal, with all numbers, signs and line breaks."""
    env, draws = env_of("chess"), random.Random(7)
    fens = (None, "r3k2r/p6P/8/8/8/8/P6p/R3K2R b KQkq - 3 17", "4k3/P7/8/8/8/8/8/4K3 w - - 0 40")
    for fen in fens * 3:
        game = random_chess(draws, fen)
        moves = [move.uci() for move in game.mainline_moves()]
        result = game.headers["Result"]
        headers = {"first": "A [B]", "date": "2026-11-23", "result": result}
        text = write_record(env, moves, fen=fen, headers=headers)
        again = chess.pgn.read_game(io.StringIO(text))
        assert again is not None
        assert again.errors == []
        assert [move.uci() for move in again.mainline_moves()] == moves
        assert again.headers["White"] == "A [B]"
        assert again.headers["Date"] == "2026.11.23"
        assert again.headers["Result"] == result
        assert again.headers.get("FEN") == fen
        assert list(again.headers)[:7] == list(chess.pgn.Headers())
        theirs = str(game).split("\n\n", 1)[1]
        assert text.split("\n\n", 1)[1].split() == theirs.replace(". ", ". ").split()
        assert max(map(len, text.splitlines())) < 80


def test_sgf_of_go_is_read_by_sgfmill() -> None:
    env, actions = env_of("go_9x9"), random_game("go_9x9")
    headers = {"first": "a]b\\c", "second": "W", "result": "0-1", "termination": "resignation"}
    game = sgf.Sgf_game.from_string(write_record(env, actions, headers=headers))
    size = game.get_size()
    assert size == 9
    assert game.get_komi() == 7.5
    assert (game.get_player_name("b"), game.get_player_name("w")) == ("a]b\\c", "W")
    assert (game.get_winner(), game.get_root().get("RE")) == ("w", "W+R")
    found = [node.get_move() for node in game.get_main_sequence()[1:]]
    assert [color for color, _ in found] == ["b", "w"] * (len(actions) // 2) + ["b"] * (
        len(actions) % 2
    )
    # sgfmill counts rows from the bottom.
    cells = [size * size if x is None else (size - 1 - x[0]) * size + x[1] for _, x in found]
    assert cells == actions
    assert size * size in actions


def test_sgf_of_hex_and_othello() -> None:
    hexes = env_of("hex")
    text = write_record(hexes, "b1 swap c3", headers={"first": "A", "result": "1-0"})
    assert text == (
        "(;FF[4]CA[UTF-8]AP[dualmctx]GM[11]SZ[4]PB[A]RE[B+]\n;B[b1];W[swap-pieces];B[c3]\n)\n"
    )
    othello = write_record(env_of("othello"), "d3 c3 pass", headers={"result": "1/2-1/2"})
    assert othello == ("(;FF[4]CA[UTF-8]AP[dualmctx]GM[2]SZ[8]RE[0]\n;B[dc];W[cc];B[]\n)\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "moves"),
    [
        ("connect_four", "4453", "4 4 5 3"),
        ("connect_four", "# a comment\n1. 4 4\n2. 53 1-0", "4 4 5 3"),
        ("othello", "1.d3 c3, 2. c4", "d3 c3 c4"),
        ("nim", "\ufeff3 2", "3 2"),
        ("gardner_chess", "b2b3, c4b3", "b2b3 c4b3"),
        ("gardner_chess", "b3 {a comment, with a comma} cxb3 (c3) $1 2. axb3", "b2b3 c4b3 a2b3"),
    ],
)
def test_pasted_moves_are_read(name: str, text: str, moves: str) -> None:
    record = read_record(env_of(name), text)
    assert " ".join(record.texts) == moves
    assert record.fen is None


@pytest.mark.slow
def test_a_pasted_fen_is_read() -> None:
    env = env_of("gardner_chess")
    fen = "4k/1P3/5/5/4K w - - 0 9"
    assert read_record(env, f" {fen}\n")[:3] == ([], [], fen)
    for moves in (" 9. b5=Q+ Kd4", ", b5=Q+, Kd4"):
        record = read_record(env, fen + moves)
        assert (record.texts, record.fen) == (["b4b5q", "e5d4"], fen)
    text = write_record(env, record.moves, fen=fen)
    assert '[SetUp "1"]\n[FEN "4k/1P3/5/5/4K w - - 0 9"]\n\n9. b5=Q+ Kd4 *\n' in text
    assert read_record(env, text)[:3] == record[:3]
    plain = write_record(env, record.moves, fen=fen, format="text")
    assert "# FEN: 4k/1P3" in plain


def test_one_of_several_games_is_read() -> None:
    env = env_of("hex")
    text = "(;GM[11]SZ[4]PB[A];B[a1])(;GM[11]SZ[4]PB[B];B[a2];W[a2])(;GM[11]SZ[5];B[a1])"
    assert len(list(read_records(env, text))) == 3
    assert read_record(env, text).about == {"black": "A"}
    with pytest.raises(ValueError, match=r"^game 2 of 3: move 2, 'a2', is illegal$"):
        read_record(env, text, 2)
    with pytest.raises(ValueError, match="there is no game 4: the text has 3"):
        read_record(env, text, 4)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("connect_four", " \n", "the text has no game: give PGN, SGF, a FEN, or moves"),
        ("connect_four", "4444444", "move 7, '4', is illegal"),
        ("connect_four", "1 8", "move 2, '8', is not a move of connect_four: write one of 1, 2 "),
        ("connect_four", "# Game: hex\na1", "the game is hex, not connect_four"),
        ("othello", "(;GM[1]SZ[8];B[aa])", "the game is go, but this is othello; give games"),
        ("gardner_chess", "1. b3 Qxb3", "move 2, 'Qxb3', is not possible: no queen"),
        ("gardner_chess", "8/8/8/8/8 w - - 0 1", "FEN '8/8/8/8/8 w - - 0 1' of gardner_chess"),
        ("gardner_chess", "rnbqk/ppppp/5/PPPPP/RNBQK w -", "3 fields; four to six are needed"),
        ("gardner_chess", "1. b3 { open", "a comment has no closing brace"),
        ("gardner_chess", '[Event "?"]\n\n1. c3 dxc3', 'give its PGN the tag [Variant "Gardner"]'),
    ],
)
def test_an_unreadable_record_is_named(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        read_record(env_of(name), text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "pgn"}, "format 'pgn': games of nim are written as text"),
        ({"headers": {"name": "A"}}, "header 'name': pass text for any of event, site"),
        ({"headers": {"first": 3}}, "header 'first': pass text"),
        ({"headers": {"result": "2-0"}}, "result '2-0': pass one of 1-0, 0-1, 1/2-1/2"),
        ({"fen": "x"}, "nim has no FEN"),
    ],
)
def test_a_bad_argument_of_writing_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        write_record(env_of("nim"), **{"moves": "1", **arguments})
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["1" * 200_000, '[a "b"] ' + '[a "' * 60_000])
def test_long_text_is_refused(text: str) -> None:
    """In quadratic time, each would take minutes; the page sends such text."""
    with pytest.raises(ValueError, match=r"move|comment|this is|property"):
        read_record(env_of("nim"), text)


def test_positions_of_an_own_game_are_read() -> None:
    env = NimWithPositions()
    assert read_record(env, "12p")[:3] == ([], [], "12p")
    text = write_record(env, "3 2", fen="12p\n")
    assert text == "# Game: nim\n# Result: *\n# FEN: 12p\n\n3 2\n"
    assert read_record(env, text)[:3] == ([2, 1], ["3", "2"], "12p")
    with pytest.raises(ValueError, match="a pile is written as 12p"):
        read_record(env, text.replace("12p", "12"))
