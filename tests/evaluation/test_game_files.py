"""Positions of games in PGN and SGF, and positions in EPD."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import games
from dualmctx.commands.main import main
from dualmctx.commands.opening_rules import read_openings
from dualmctx.commands.source import open_source
from dualmctx.evaluation import sgf_text
from dualmctx.evaluation.game_record import (
    GameRecord,
    board_mismatch,
    check_games,
    reject_other_boards,
    to_questions,
)
from dualmctx.evaluation.pgn_file import read_pgn
from dualmctx.evaluation.positions_file import read_epd
from dualmctx.evaluation.questions import Board
from dualmctx.evaluation.sgf_file import read_sgf

CASES = Path(__file__).parents[1] / "cases"


def pgn(text: str) -> list[GameRecord]:
    return list(read_pgn(io.BytesIO(text.encode())))


def sgf(text: str | bytes) -> list[GameRecord]:
    return list(read_sgf(io.BytesIO(text if isinstance(text, bytes) else text.encode())))


def only(records: list[GameRecord]) -> GameRecord:
    [record] = records
    return record


def test_games_without_tags_end_with_their_results() -> None:
    records = pgn("% skipped\n1 e4 e5 1/2-1/2 1. d4 ; comment ( {\n d5 0-1\n")
    assert [x.moves for x in records] == [["e2e4", "e7e5"], ["d2d4", "d7d5"]]
    assert pgn("") == pgn("; nothing\n{ nothing }") == []
    assert only(pgn('[Event "a"]\n')).moves == []
    assert only(pgn("1. e4 \xfc e5".replace("\xfc", "!"))).moves == ["e2e4", "e7e5"]


def test_a_game_without_moves_keeps_its_tags_to_itself() -> None:
    fen = "7k/8/8/8/8/6q1/4r3/7K b - - 0 1"
    empty = f'[Event "a"]\n[White "A"]\n[FEN "{fen}"]\n[Result "1-0"]\n\n'
    first, second = pgn(empty + '[Event "b"]\n[White "B"]\n\n1. e4 e5 *\n')
    assert (first.moves, first.fen, first.about) == ([], fen, {"white": "A", "result": "1-0"})
    assert (second.moves, second.fen, second.about) == (["e2e4", "e7e5"], None, {"white": "B"})


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
    record = only(sgf(text))
    assert (record.error, record.board) == (None, Board(game, size))
    assert list(record.texts) == moves.split()
    if game != "gomoku":
        name, parameters = {
            "go": (f"go_{size}x{size}", {}),
            "othello": ("othello", {}),
            "hex": ("hex", {"size": size}),
        }[game]
        env = games.make(name, **parameters)
        assert record.moves == games.parse_moves(env, moves)
        assert record.board is not None
        assert board_mismatch(env, record.board) is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("(;GM[6];B[aa])", "GM is 6; it must be one of 1 (go), 2 (othello), 4 (gomoku), 11 (hex)"),
        ("(;SZ[9];W[aa])", "move 1 is by White; it is Black's turn"),
        ("(;GM[11]AB[a1][b2];W[c3])", "AB sets up stones"),
        ("(;SZ[9];B[jj])", "move 1, 'jj', is not on the board, which has 9 columns and rows"),
        ("(;SZ[9];B[a1])", "move 1, 'a1', is not a move of go"),
        ("(;SZ[5:9];B[aa])", "SZ is '5:9'; in go it must be a number from 1 to 25"),
        (f"(;SZ[{'9' * 5000}];B[aa])", f"SZ is '{'9' * 20}'; in go it must be a number"),
        (f"(;GM[11]SZ[9];B[a{'9' * 5000}])", "is not a move of hex"),
        ("(;SZ[26];B[aa])", "SZ is '26'; in go it must be a number from 1 to 25"),
        ("(;GM[11]SZ[53];B[a1])", "SZ is '53'; in hex it must be a number from 1 to 52"),
        ("(;GM[11]SZ[7];B[a1];W[swap-sides])", "not supported: write the game with swap-pieces"),
        ("(;GM[4];B[])", "move 1, '', is not a move of gomoku"),
    ],
)
def test_bad_sgf_game_does_not_stop_the_others(text: str, error: str) -> None:
    first, bad, last = sgf(f"(;SZ[9];B[aa])\n{text}(;SZ[9]PW[X];B[bb])")
    assert (first.moves, last.moves, last.about) == ([0], [10], {"white": "X"})
    assert bad.error is not None
    assert error in bad.error


def test_any_block_size_gives_the_same_games(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x(;SZ[9]C[\\\\\\]( ) \\\\](;B[aa]C[)(];W[bb])(;B[cc]))y(;SZ[9];B[dd])"
    whole = sgf(text)
    assert [list(x.moves) for x in whole] == [[0, 10], [30]]
    for size in range(1, 12):
        monkeypatch.setattr(sgf_text, "_BLOCK", size)
        assert sgf(text) == whole


@pytest.mark.slow
@given(st.binary(max_size=80) | st.text("();[]\\BWSZ9ae {}1.-\n", max_size=80).map(str.encode))
def test_arbitrary_bytes_give_games_or_errors(data: bytes) -> None:
    for record in (*sgf(data), *read_pgn(io.BytesIO(data))):
        assert record.error is None or "\n" not in record.error


def test_epd_operations_pass_through() -> None:
    data = b"""4k3/P7/8/8/8/8/8/4K3 w - - bm a8=Q; id "W.1"; c0 "a; b";
4k3/P7/8/8/8/8/8/4K3 w - - 3 40
4k3/P7/8/8/8/8/8/4K3 w - - hmvc 3; fmvn 40; acd 4; pv a8=Q Kd7;
4k3/P7/8/8/8/8/8/4K3 w - - 3 40 bm a8=Q
bad
4k3/P7/8/8/8/8/8/4K3 w - - "x"
"""
    board = "4k3/P7/8/8/8/8/8/4K3 w - -"
    questions = list(read_epd(io.BytesIO(data)))
    assert [(x.id, x.fen, x.extra) for x in questions[:4]] == [
        ("W.1", f"{board} 0 1", {"bm": "a8=Q", "c0": "a; b"}),
        (2, f"{board} 3 40", None),
        (3, f"{board} 3 40", {"acd": "4", "input_pv": "a8=Q Kd7"}),
        (4, f"{board} 3 40", {"bm": "a8=Q"}),
    ]
    assert (
        questions[4].error == "1 fields; four are needed: board, side to move, castling, en passant"
    )
    assert questions[5].error == "'\"x\"' is not an operation of EPD, as bm Nf3;"


BOARD = "8/8/1k6/8/4Q3/7K/8/8 w - -"


@pytest.mark.parametrize(
    ("line", "fen", "extra"),
    [
        (f"{BOARD};bm Qe6+;", f"{BOARD} 0 1", {"bm": "Qe6+"}),
        (f"{BOARD} ; bm Qe6+ ;id x;;", f"{BOARD} 0 1", {"bm": "Qe6+"}),
        (f'{BOARD} bm Qe6+;c0 "a;b";', f"{BOARD} 0 1", {"bm": "Qe6+", "c0": "a;b"}),
        (f"{BOARD} 3 9;bm Qe6+", f"{BOARD} 3 9", {"bm": "Qe6+"}),
        (f"{BOARD} 3 9", f"{BOARD} 3 9", None),
        (f"{BOARD};", f"{BOARD} 0 1", None),
        (f"{BOARD} moves e4;fen f;", f"{BOARD} 0 1", {"input_moves": "e4", "input_fen": "f"}),
    ],
)
def test_epd_needs_no_spaces_between_operations(line: str, fen: str, extra: Any) -> None:
    [question] = read_epd(io.BytesIO(line.encode()))
    assert (question.error, question.fen, question.extra) == (None, fen, extra)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (f"{BOARD} bm a; bm b;", "the operation bm is there twice; a position has one of each"),
        (f"{BOARD} 0", "'0' is not an operation of EPD, as bm Nf3;"),
        ("8/8 w - ;bm", "3 fields; four are needed: board, side to move, castling, en passant"),
    ],
)
def test_epd_that_is_not_understood_is_an_error(line: str, error: str) -> None:
    [question] = read_epd(io.BytesIO(line.encode()))
    assert question.error == error


RECORDS = [
    GameRecord([1, 2], ["b", "c"], None, Board("go", 9), {"white": "A"}, None, 10),
    GameRecord(error="bad", end=20, has_start=False),
    GameRecord([3], ["d"], end=30),
]


def test_positions_name_game_and_ply() -> None:
    every = list(to_questions(RECORDS, every=True))
    assert [(x.line, x.id, x.moves, x.end) for x in every] == [
        *((1, "1.0", [], 10), (2, "1.1", [1], 10), (3, "1.2", [1, 2], 10)),
        *((4, "2", "", 20), (5, "3.0", [], 30), (6, "3.1", [3], 30)),
    ]
    assert every[1].extra == {"game": 1, "ply": 1, "played": "c", "white": "A"}
    assert every[2].extra == {"game": 1, "ply": 2, "played": None, "white": "A"}
    assert (every[3].error, every[3].extra) == (
        *("game 2: bad",),
        {"game": 2, "ply": None, "played": None},
    )
    last = list(to_questions(RECORDS, every=False))
    assert [(x.line, x.id) for x in last] == [(1, "1.2"), (2, "2"), (3, "3.1")]


def test_moves_of_another_game_or_board_are_errors() -> None:
    env = games.make("connect_four")
    assert board_mismatch(env, Board("chess", 8)) == (
        "the game is chess, but the network plays connect_four"
    )
    go = games.make("go_9x9")
    assert board_mismatch(go, Board("go", 9)) is None
    assert board_mismatch(go, Board("go", 19)) == (
        "the board is 19×19, but the network plays go_9x9 on 9×9"
    )
    # A game on another board is one error; the games around it remain.
    large = GameRecord([1, 2], ["b", "c"], None, Board("go", 19), {"white": "B"}, None, 15)
    records = [RECORDS[0], large, large, RECORDS[1]]
    found = list(to_questions(reject_other_boards(go, records), every=True))
    assert [x.id for x in found] == ["1.0", "1.1", "1.2", "2", "3", "4"]
    assert [x.line for x in found] == [1, 2, 3, 4, 5, 6]
    assert found[3].error == "game 2: the board is 19×19, but the network plays go_9x9 on 9×9"
    assert found[3].extra == {"game": 2, "ply": None, "played": None, "white": "B"}


@pytest.mark.slow
def test_command_evaluates_games(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "games.sgf"
    path.write_text("(;GM[11]SZ[7];B[a2];W[swap-pieces])(;GM[11]SZ[7];B[a2];W[a2])(;GM[11];B[a1])")
    arguments = ["evaluate", "hex", str(path), "--network-only", "--batch", "4", "--echo"]
    assert main([*arguments, "--fields", "id,line,game,ply,played,moves"]) == 1
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["id"] for row in rows] == ["1.0", "1.1", "1.2", "2.0", "2.1", "2.2", "3"]
    assert [row["line"] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert rows[1] == {
        **{"id": "1.1", "line": 2, "game": 1, "ply": 1, "played": "swap", "moves": [7]}
    }
    assert [row.get("error") for row in rows[5:]] == [
        "game 2: move 2, 'a2', is illegal",
        "game 3: the board is 11×11, but the network plays hex on 7×7",
    ]


@pytest.mark.slow
def test_openings_are_the_last_positions(tmp_path: Path) -> None:
    path = tmp_path / "games.sgf"
    path.write_text("(;GM[11]SZ[7];B[a2];W[b3])(;GM[11]SZ[7];B[a3])")
    env = games.make("hex", size=7)
    assert read_openings(env, str(path), 2) == [(7, 15), (14,)]


def test_openings_of_another_board_raise(tmp_path: Path) -> None:
    path = tmp_path / "games.sgf"
    path.write_text("(;GM[11]SZ[7];B[a2])")
    with pytest.raises(ValueError, match="line 1: game 1: the board is 7×7, but the "):
        read_openings(games.make("hex", size=5), str(path), 2)


@pytest.mark.parametrize("name", ["x.pgn", "x.PGN", "x.pgn.gz"])
def test_the_suffix_of_a_file_names_its_format(tmp_path: Path, name: str) -> None:
    text = "1. e4 e5 *".encode("utf-16")
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    with open_source(str(tmp_path / name), every_position=True) as source:
        assert source.records is not None
        assert [list(x.moves) for x in source.records] == [["e2e4", "e7e5"]]
    with (
        pytest.raises(ValueError, match=r"one of \.jsonl, .*\.sgf, \.ggf, or be -"),
        open_source("p.txt"),
    ):
        pass


# A program of chess takes long to compile.
@pytest.mark.slow
def test_chess_ends_at_the_third_repetition() -> None:
    [record] = pgn((CASES / "past-threefold.pgn").read_text())
    assert (len(record.moves), record.error) == (10, None)
    [checked] = check_games(games.make("chess"), [record], 1)
    assert len(checked.moves) == 8
    assert checked.error == (
        "move 9, 'e2e4', comes after the end of the game: its position occurred for the third time"
    )
