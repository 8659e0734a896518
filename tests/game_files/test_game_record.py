"""Positions of the games of a file, and commands that read them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import games
from dualmctx.commands.main import main
from dualmctx.commands.opening_rules import read_openings
from dualmctx.commands.source import open_source
from dualmctx.game_files.game_record import (
    GameRecord,
    board_mismatch,
    reject_other_boards,
    to_questions,
)
from dualmctx.game_files.questions import Board
from games.own_game import OwnGame

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
    assert every[3].error == "game 2: bad"
    assert every[3].extra == {"game": 2, "ply": None, "played": None}
    last = list(to_questions(RECORDS, every=False))
    assert [(x.line, x.id) for x in last] == [(1, "1.2"), (2, "2"), (3, "3.1")]


def test_moves_of_another_game_or_board_are_errors() -> None:
    env = games.make("connect_four")
    assert board_mismatch(env, Board("chess", 8)) == (
        "the game is chess, but this is connect_four; give games of connect_four"
    )
    go = games.make("go_9x9")
    assert board_mismatch(go, Board("go", 9)) is None
    assert board_mismatch(go, Board("go", 19)) == (
        "the board is 19×19, but this is go_9x9 on 9×9; give games on that board"
    )
    # Games of one's own, and whether files of a game have their moves.
    for game, id, is_same in (
        *(("go", "go_own:make", False), ("hex", "hex_own:make", False)),
        *(("othello", "othello_own", False), ("gomoku", "hex", False)),
        *(("gomoku", "gomoku", True), ("gomoku", "gomoku_own:make", True)),
        ("gomoku", "gomoku:make", True),
    ):
        own = OwnGame(go, id, None, 82, go.observation_shape)
        assert (board_mismatch(own, Board(game, 9)) is None) == is_same, id
    # A game on another board is one error; the games around it remain.
    large = GameRecord([1, 2], ["b", "c"], None, Board("go", 19), {"white": "B"}, None, 15)
    records = [RECORDS[0], large, large, RECORDS[1]]
    found = list(to_questions(reject_other_boards(go, records), every=True))
    assert [x.id for x in found] == ["1.0", "1.1", "1.2", "2", "3", "4"]
    assert [x.line for x in found] == [1, 2, 3, 4, 5, 6]
    assert str(found[3].error).startswith("game 2: the board is 19×19, but this is go_9x9 on 9×9;")
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
        "game 3: the board is 11×11, but this is hex on 7×7; give games on that board",
    ]


@pytest.mark.slow
def test_openings_are_the_last_positions(tmp_path: Path) -> None:
    path = tmp_path / "games.sgf"
    path.write_text("(;GM[11]SZ[7];B[a2];W[b3])(;GM[11]SZ[7];B[a3])")
    env = games.make("hex", size=7)
    assert read_openings(env, str(path), 2) == [(7, 15), (14,)]
    with pytest.raises(ValueError, match="line 1: game 1: the board is 7×7, but this is hex on 5"):
        read_openings(games.make("hex", size=5), str(path), 2)
    fen = "rnbqk/ppppp/P4/1PPPP/RNBQK b - - 0 1"
    path = tmp_path / "fens.jsonl"
    path.write_text(json.dumps({"fen": f" {fen}\n", "moves": ""}) + "\n")
    assert read_openings(games.make("gardner_chess"), str(path), 1) == [(fen,)]


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
