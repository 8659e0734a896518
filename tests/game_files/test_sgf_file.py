"""SGF as people and programs write it: encodings, set-up, damage, and several games in a file.

Games of Go are compared with sgfmill, which reads them by another way. Sources of the texts: SGF
FF[4] and reports of users of Sabaki, Lizzie, KataGo and other programs.
"""

import functools
import io
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import games
from dualmctx.game_files import sgf_text
from dualmctx.game_files.game_record import (
    GameRecord,
    board_mismatch,
    check_games,
    to_questions,
)
from dualmctx.game_files.pgn_file import read_pgn
from dualmctx.game_files.questions import Board
from dualmctx.game_files.sgf_file import read_sgf
from dualmctx.game_files.text_files import as_utf8

make = functools.cache(games.make)
NAMES = (
    "李 昌鎬",
    "功\\能[許]",
    "ソ表能\\予",
    "]\\",
    "Müller – [1]",
    "이창호",
    "plain",
    "許功蓋;B[aa]",
)
ENCODINGS = {
    **{"UTF-8": "utf-8", "big5": "big5", "Big5": "big5", "Shift_JIS": "shift_jis"},
    **{"SJIS": "cp932", "GBK": "gbk", "GB2312": "gb18030", "gb18030": "gb18030"},
    **{"EUC-KR": "euc_kr", "EUC-JP": "euc_jp", "ISO-8859-1": "cp1252", "windows-1252": "cp1252"},
    **{"Windows-31J": "cp932", "GB_2312-80": "gb2312", "ISO-2022-JP": "iso2022_jp"},
    **{"latin1": "cp1252", "US-ASCII": "cp1252"},
}


def read(data: str | bytes) -> list[GameRecord]:
    file = io.BytesIO(data if isinstance(data, bytes) else data.encode())
    return list(read_sgf(as_utf8(file)))


def moves_of(record: GameRecord) -> str:
    return " ".join(record.texts)


def random_game(draws: random.Random, name: str, encoding: str) -> tuple[bytes, list[int]]:
    """Makes a game with comments and variations; its brackets are escaped in the encoding."""
    text, actions = f"(;GM[1]SZ[9]CA[{encoding}]PB[{escape(name)}]C[{escape(name * 2)}]", []
    for number in range(draws.randrange(2, 30)):
        cell = draws.randrange(82)
        move = "" if cell == 81 else "abcdefghi"[cell % 9] + "abcdefghi"[cell // 9]
        comment = f"C[{escape(name)}]" if draws.random() < 0.5 else ""
        text += f";{'BW'[number % 2]}[{move}]{comment}LB[aa:{escape(name)}]\n"
        actions.append(cell)
    text += "(;C[x])(;B[aa](;W[bb])(;W[cc]))" if draws.random() < 0.5 else ""
    return (text + ")\n").encode(ENCODINGS[encoding]), actions


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("]", "\\]")


def without_last_passes(actions: list[int]) -> list[int]:
    while actions[-3:] == [81] * 3:
        actions = actions[:-1]
    return actions


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_moves_and_names_are_read_in_every_encoding(encoding: str) -> None:
    draws, data, expected = random.Random(encoding), b"", []
    for name in NAMES:
        try:
            text, actions = random_game(draws, name, encoding)
        except UnicodeEncodeError:
            continue
        data += text
        expected.append((without_last_passes(actions), name))
    assert len(expected) >= 2
    records = read(data)
    assert [x.error for x in records] == [None] * len(expected)
    assert [(list(x.moves), (x.about or {})["black"]) for x in records] == expected


@pytest.mark.parametrize(
    ("data", "black"),
    [
        ("(;SZ[9]PB[é];B[ee])".encode(), "é"),
        # The file is in UTF-8, whatever it says.
        ("(;SZ[9]CA[Big5]PB[é—ç];B[ee])".encode(), "é—ç"),
        ("(;SZ[9]CA[UTF-8]PB[é];B[ee])".encode("utf-16"), "é"),
        ("(;SZ[9]CA[unicode]PB[é];B[ee])".encode(), "é"),
        ("(;SZ[9]CA[UTF-8]PB[é];B[ee])".encode("utf-8-sig"), "é"),
        (b"(;SZ[9]CA[no-such-code]PB[e];B[ee])", "e"),
        (b"(;SZ[9]PB[a\\\nb\nc];B[ee])", "ab c"),
    ],
)
def test_text_without_a_true_encoding_is_read(data: bytes, black: str) -> None:
    [record] = read(data)
    assert (record.error, record.moves, record.about) == (None, [40], {"black": black})


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        # Black has the stones of the handicap; White moves first.
        ("HA[2]AB[cc][gg];W[ee]", "C7 pass G3 E5"),
        ("AB[ba:ab];W[ee]", "A9 pass B9 pass A8 pass B8 E5"),
        ("HA[]KM[]GM[]RE[];B[ee];W[cc]", "E5 C7"),
        ("AW[ee][ed]AB[cc];B[gg]", "pass E5 C7 E6 G3"),
        ("AB[cc][dd]AE[dd]AW[ee];B[gg]", "C7 E5 G3"),
        ("AB[cc]AW[ee]PL[W]", "pass E5 C7"),
        (";AB[cc];AW[ee];B[gg]", "C7 E5 G3"),
        ("PL[W];W[ee];B[cc]", "pass E5 C7"),
        # Black places the stones of the handicap.
        ("HA[2];B[cc];B[gg];W[ee]", "C7 pass G3 E5"),
        (";B[ee];W[cc];W[gg];B[gc]", "E5 C7 pass G3 G7"),
        (";B[ee];W[cc];B[];W[];B[];W[]", "E5 C7 pass pass pass pass"),
        (";B[ee];W[cc];B[gg];W[resign]", "E5 C7 G3"),
        ("C[example: (;GM[1\\]SZ[9\\];B[aa\\])];B[ee];W[cc]", "E5 C7"),
        ("(;B[ee];W[cc])(;B[aa]C[)]N[(]LB[)][(])", "E5 C7"),
        ("C[\\];B[aa];B[ee];W[cc]", "E5 C7"),
    ],
)
def test_go_is_set_up_and_read(text: str, moves: str) -> None:
    """Also on the board of the rules: no move is illegal."""
    [record] = read(f"(;GM[1]SZ[9]{text})")
    assert (record.error, moves_of(record)) == (None, moves)
    [checked] = check_games(make("go_9x9"), [record], 1)
    assert checked == record


@pytest.mark.parametrize(
    ("text", "stones"),
    [
        ("AB[cc][gg][dd]AW[ee][ed][ff];W[aa]", {"cc": 1, "gg": 1, "dd": 1, "ee": -1, "ed": -1}),
        ("AW[ab][ba]AB[bb][ac][ca]PL[B]", {"ab": -1, "ba": -1, "bb": 1, "ac": 1, "ca": 1}),
    ],
)
def test_stones_stand_where_they_are_set_up(text: str, stones: dict[str, int]) -> None:
    env = make("go_9x9")
    [record] = read(f"(;GM[1]SZ[9]{text})")
    [first, *_] = to_questions([record], every=True)
    assert first.id == "1.0"
    assert (first.extra or {})["ply"] == 0
    state: Any = games.replay(env, [first.moves])
    board = np.sign(np.asarray(state._x.board[0])).reshape(9, 9)
    for cell, color in stones.items():
        column, row = ("abcdefghi".index(letter) for letter in cell)
        assert board[row, column] == color
    assert int(state._x.color[0]) == ("W" in text.rsplit(";", 1)[-1] and "PL" not in text)


@pytest.mark.parametrize(
    ("text", "moves", "error"),
    [
        ("(;SZ[9];B[ee];W[cc", "E5", "the game is not closed: the value '[cc' has no closing"),
        ("(;SZ[9];B[ee];W[cc]C[see [x] B[gg] here])", "E5 C7", "not the only move of its node"),
        ("(;SZ[9];B[ee]C[a [b] c];W[cc])", "E5", "the text '];W[cc])' is not SGF; write \\] for a"),
        ("(;SZ[9];B[ee]);W[cc])", "E5", "the text ';W[cc])' belongs to no game"),
        ("(;SZ[9];B[ee];B[cc]W[dd])", "E5 pass C7", "move 3, 'dd', is not the only move"),
        ("(;SZ[9];B[ee];W;B[cc])", "E5", "the property W has no value"),
        ("(;SZ[9];B[ee];W[zz])", "E5", "move 2, 'zz', is not on the board"),
        ("(;SZ[9];B[ee];AB[cc];W[dd])", "E5", "AB cannot follow move 1"),
        ("(;SZ[9];B[ee];PL[B])", "E5", "PL changes the player after move 1"),
        ("(;SZ[9];B[ee];W[cc]C[open\n(;SZ[9];B[aa])", "E5 C7", "the game is not closed"),
        ("(;SZ[9];B[resign];W[cc])", "", "move 1, 'cc', comes after a resignation"),
        ("(;SZ[9](;B[ee];W[cc])[\n(;PB[x];B[aa])", "E5 C7", "the text '(;PB[x' is in no node"),
        ("(;GM[6];B[aa])", None, "GM is 6; it must be one of 1 (go), 2 (othello), 4 (gomoku)"),
        ("(;SZ[9];W[aa])", "", "move 1 is by White; it is Black's turn"),
        ("(;SZ[9];B[jj])", "", "move 1, 'jj', is not on the board, which has 9 columns and rows"),
        ("(;SZ[9];B[a1])", "", "move 1, 'a1', is not a move of go"),
        ("(;SZ[5:9];B[aa])", None, "SZ is '5:9'; in go it must be a number from 1 to 25"),
        (f"(;GM[11]SZ[9];B[a{'9' * 5000}])", "", "is not a move of hex"),
        ("(;GM[11]SZ[53];B[a1])", None, "SZ is '53'; in hex it must be a number from 1 to 52"),
        ("(;GM[11]SZ[7];B[a1];W[swap-sides])", "a1", "write the game with swap-pieces"),
        ("(;GM[4];B[])", "", "move 1, '', is not a move of gomoku"),
        ("(;SZ[9]HA[2]KM[0.5];W[ee];B[cc])", None, "HA[2] is a handicap, but no stones (AB)"),
        (f"(;SZ[9]HA[{'9' * 5000}];B[ee])", None, f"HA is '{'9' * 20}'; it must be a number"),
        ("(;SZ[9]AB[zz];W[ee])", None, "AB[zz] is not on the board"),
        ("(;GM[2]AB[aa];B[dc])", None, "AB sets up stones or the player; a game of othello must"),
        ("(;GM[11]SZ[7]PL[W];W[a1])", None, "PL sets up stones or the player; a game of hex must"),
        (b"(;SZ[9]CA[x-none]PB[\xe9];B[ee])", None, "CA is 'none', an unknown encoding of text"),
        # Without CA, the backslash may be an escape, or the second byte of a character.
        ("(;SZ[9];B[ee]C[ソ];W[cc])".encode("shift_jis"), None, "its backslashes are parts of"),
        ("(;[ee])", None, "the value 'ee' has no property"),
        ("(;SZ[9];B[ee](;W[cc]);B[dd])", "E5 C7", "a node follows a variation; write it before"),
        ("(;SZ[9];B[ee]()(;W[cc]))", "E5", "a variation is empty; remove its parentheses"),
    ],
)
def test_a_game_keeps_the_moves_before_an_error(
    text: str | bytes, moves: str | None, error: str
) -> None:
    """Without a known start, it has no positions; the games before and after it are read."""
    data = text if isinstance(text, bytes) else text.encode()
    before, bad, *_, last = read(b"(;SZ[9];B[aa])\n" + data + b"\n(;GM[1]SZ[9]PW[X];B[bb])")
    assert bad.has_start == (moves is not None)
    assert moves is None or moves_of(bad) == moves
    assert bad.error is not None
    assert error in bad.error
    assert (before.error, moves_of(before)) == (None, "A9")
    assert (last.error, moves_of(last), last.about) == (None, "B8", {"white": "X"})


@pytest.mark.parametrize(
    ("text", "game", "size", "moves"),
    [
        ("(;GM[1]SZ[9];B[ee];W[ec];B[];W[tt])", "go", 9, "E5 E7 pass pass"),
        ("(;SZ[19];B[aa](;W[ss];B[dd])(;W[bb]))", "go", 19, "A19 T1 D16"),
        ("(;;Black[qd];White[dd];B[resign])", "go", 19, "R16 D16"),
        # White moves again, because Black has no move.
        ("(;GM[2];B[d3];W[c3];W[e6])", "othello", 8, "d3 c3 pass e6"),
        ("(;GM[2]SZ[8];B[dc];W[cc])", "othello", 8, "d3 c3"),
        ("(;GM[11]SZ[7];B[a2];W[swap-pieces];B[G7])", "hex", 7, "a2 swap g7"),
        ("(;GM[4]SZ[15]C[text \\] ;B[aa\\]];B[ab];W[b1])", "gomoku", 15, "15 1"),
    ],
)
def test_main_line_of_sgf_is_read(text: str, game: str, size: int, moves: str) -> None:
    [record] = read(text)
    assert (record.error, record.board) == (None, Board(game, size))
    assert list(record.texts) == moves.split()
    env = games.make(f"go_{size}x{size}") if game == "go" else None
    env = games.make("hex", size=size) if game == "hex" else env
    if env is not None:
        assert record.moves == games.parse_moves(env, moves)
        assert board_mismatch(env, Board(game, size)) is None


def test_any_block_size_gives_the_same_games(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x(;SZ[9]C[\\\\\\]( ) \\\\](;B[aa]C[)(];W[bb])(;B[cc]))y(;SZ[9];B[dd])"
    whole = read(text)
    assert [list(x.moves) for x in whole] == [[0, 10], [30]]
    for size in range(1, 12):
        monkeypatch.setattr(sgf_text, "_BLOCK", size)
        assert read(text) == whole


@pytest.mark.slow
@given(st.binary(max_size=80) | st.text("();[]\\BWSZ9ae {}1.-\n", max_size=80).map(str.encode))
def test_arbitrary_bytes_give_games_or_errors(data: bytes) -> None:
    for record in (*read(data), *read_pgn(io.BytesIO(data))):
        assert record.error is None or "\n" not in record.error


@pytest.mark.parametrize(
    ("text", "moves", "setup"),
    [
        ("GM[11]SZ[7]AB[a1][c2]AW[b1];W[a2];B[b2]", "a1 b1 c2 a2 b2", 3),
        # Othello may set up its first position.
        ("GM[2]AB[ed][de]AW[dd][ee];B[dc];W[cc]", "d3 c3", 0),
    ],
)
def test_stones_are_set_up_in_turn(text: str, moves: str, setup: int) -> None:
    [record] = read(f"(;{text})")
    assert (record.error, moves_of(record), record.setup) == (None, moves, setup)


def test_games_of_the_generic_game_server() -> None:
    """GGF: all moves in one node, with evaluations and times; joined games; forced passes."""
    board = "8 ---------------------------O*------*O--------------------------- *"
    text = (
        f"1 (;GM[Othello]PC[GGS/os]PB[Saio]PW[Edax]TY[8]RE[+2.000]BO[{board}]"
        "B[F5//0.01]W[d6/-0.5/1.2]B[C3]W[PA];)"
        "(;GM[Othello]TY[8r20]BO[8 rest]B[f5];)(;GM[Othello]TY[8]B[f5]W[z9];)"
    )
    one, two, three = read_sgf(io.BytesIO(text.encode()))
    assert one.texts == ["f5", "d6", "c3", "pass"]
    assert one.about == {"black": "Saio", "white": "Edax", "result": "+2.000"}
    assert (one.error, one.board) == (None, ("othello", 8))
    assert (two.has_start, two.error) == (
        False,
        "TY is '8r20' and BO '8 rest'; games of Othello are read on 8×8 from the start",
    )
    assert (three.texts, three.error) == (
        ["f5"],
        "move 2, 'z9', is not on the board, which has 8 columns and rows",
    )


def test_text_before_the_first_game_is_reported() -> None:
    first, last = read("ee];W[cc])(;SZ[9];B[bb])")
    assert first.error == "the text 'ee];W[cc])' belongs to no game"
    assert (last.error, moves_of(last)) == (None, "B8")
    assert [x.error for x in read("From: a mail\n\n(;SZ[9];B[bb])\nNext\n(;B[aa])")] == [None] * 2


@pytest.mark.parametrize("first", ["GM[1]FF[4]", "SZ[9]", "PB[a]", "EV[a (;b]"])
def test_an_unclosed_game_does_not_swallow_those_after_it(first: str) -> None:
    records = read("(;GM[1]SZ[9];B[aa]\n" + f"(;{first}SZ[9];B[bb])\n" * 499)
    assert [x.error for x in records] == ["the game is not closed"] + [None] * 499
    assert {moves_of(x) for x in records[1:]} == {"B8"}


def test_a_quoted_game_does_not_end_an_unclosed_one() -> None:
    [record] = read("(;SZ[9];B[aa]C[(;PB[x\\]SZ[9\\])];W[bb]")
    assert (moves_of(record), record.error) == ("A9 B8", "the game is not closed")


def test_added_moves_are_told_apart() -> None:
    [record] = read("(;SZ[9]HA[2]AB[cc][gg];W[ee];W[dd])")
    assert (record.setup, record.passes) == (3, (4,))
    asked = list(to_questions([record], every=True))
    played = [(x.id, (x.extra or {})["played"]) for x in asked]
    assert played == [("1.0", "E5"), ("1.1", "pass"), ("1.2", "D6"), ("1.3", None)]
    assert [len(x.moves) for x in asked] == [3, 4, 5, 6]


def test_moves_that_the_rules_forbid_end_a_game() -> None:
    texts = [
        "(;SZ[9];B[ee];W[ee];B[cc];W[dd])",
        "(;SZ[9];B[];W[];B[cc];W[dd])",
        "(;SZ[9];B[ee];W[cc])",
        "(;SZ[9]AB[cc];W[cc])",
    ]
    records = list(check_games(make("go_9x9"), read("".join(texts)), 2))
    assert [x.error for x in records] == [
        "move 2, 'E5', is illegal",
        "move 3, 'C7', comes after the end of the game",
        None,
        "move 1, 'C7', is illegal",
    ]
    assert [len(x.moves) for x in records] == [1, 2, 2, 1]
    ids = " ".join(str(x.id) for x in to_questions(records, every=True))
    assert ids == "1.0 1.1 1.2 2.0 2.1 2.2 2.3 3.0 3.1 3.2 4.0 4.1"
    last = [(x.id, x.error) for x in to_questions(records[:3], every=False)]
    assert last[0] == ("1.2", "game 1: move 2, 'E5', is illegal; its last position is unknown")
    assert last[2] == ("3.2", None)


MANY = 100_000
HOSTILE = {
    "parentheses": b"(;" * MANY,
    "closed parentheses": b"(;" * MANY + b")" * MANY,
    "games": b"(;GM[1]" * 20_000,
    "values": b"(;C[" * MANY,
    "long value": b"(;C[" + b"a" * 10_000_000 + b"];B[aa])",
    "damage": b"(;GN[x]y" * 20_000,
    "spaces": b"( " * MANY + b"(" + b" " * MANY,
    "nodes": b"(;SZ[9]" + b";" * MANY + b")",
    "names": b"(;" + b"a" * MANY + b"[x])",
}


@pytest.mark.slow
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_read_in_linear_time(data: bytes) -> None:
    """Each takes at most a second; in quadratic time, it would take minutes."""
    for record in read(data):
        assert record.error is None or "\n" not in record.error
