"""Games of a file written back with the results of their evaluation."""

import contextlib
import io
import pathlib
from typing import Any

import chess.pgn
import pytest
from sgfmill import sgf

import games
from dualmctx.commands.evaluate import Options
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.main import main
from dualmctx.errors import UserError
from dualmctx.evaluation.annotations import annotate_pgn, annotate_sgf, notes_of
from dualmctx.game_files.pgn_file import read_pgn
from dualmctx.game_files.sgf_file import read_sgf
from dualmctx.runs.journal import to_line

PGN = b"""[Event "One"]
[White "Ada"]

1. e4 {mine} e5 2. Qh5 (2. Nf3 Nc6) 2... Nc6 $5 3. a3 *

[Event "Two"]
[FEN "4k3/8/8/8/8/8/P7/4K3 b - - 0 30"]

30... Kd7 31. a4 Zz1 *
"""
SGF = (
    b"(;GM[2]SZ[8]C[hello];B[f5];W[d6]C[mine];B[c3](;W[d3])(;W[f3]C[his]))(;GM[2]SZ[8];B[f5];W[a1])"
)


def rows_of(
    game: int, played: list[str], values: list[float], lines: dict[int, list[str]]
) -> list[dict[str, Any]]:
    """Returns rows of a game; the search prefers the move played but at the plies of `lines`."""
    rows = []
    for ply, value in enumerate(values):
        move = played[ply] if ply < len(played) else None
        line = lines.get(ply, [move] if move else [])
        legal = [{"move": x, "q": 0.3 if x == line[0] else -0.5} for x in line[:1]]
        row = {"game": game, "ply": ply, "played": move, "value": value, "pv": line}
        rows.append(row | {"move": line[0] if line else None, "legal": legal})
    return rows


def written(annotate: Any, env: Any, text: bytes, rows: list[dict[str, Any]]) -> bytes:
    """Returns the annotated file."""
    out = io.BytesIO()
    lines = [to_line(row) for row in rows]
    annotate(env, lambda: contextlib.nullcontext(io.BytesIO(text)), lines, out)
    return out.getvalue()


def test_notes_are_in_the_view_of_the_player_who_moved() -> None:
    rows = rows_of(1, ["a", "b"], [0.5, 0.25, -0.75], {0: ["c", "d"]})
    notes = notes_of(rows)
    # The first player has -0.25 after the move, and 0.3 by the best move.
    assert notes[0] == (-0.25, 0.3, "blunder", ["c", "d"])
    assert notes[1] == (0.75, 0.75, None, ["b"])
    assert set(notes) == {0, 1}


def test_chess_programs_read_annotated_games() -> None:
    """By python-chess: the moves and remarks of the file, and the notes, each at its move."""
    played = ["e2e4", "e7e5", "d1h5", "b8c6", "a2a3"]
    rows = rows_of(1, played, [0.1, -0.1, 0.2, 0.0, 0.0, 0.3], {4: ["h5f3", "g8f6"]})
    rows += rows_of(2, ["e8d7", "a2a4"], [-0.1, 0.2, -0.1], {0: ["e8f7"]})
    rows.append({"game": 2, "ply": 3, "error": "game 2: move 3 cannot be read"})
    text = io.StringIO(written(annotate_pgn, games.make("chess"), PGN, rows).decode())
    one, two = chess.pgn.read_game(text), chess.pgn.read_game(text)
    assert one is not None
    assert two is not None
    assert (one.headers["White"], one.errors) == ("Ada", [])
    nodes = list(one.mainline())
    assert [node.move.uci() for node in nodes] == played
    assert nodes[0].comment == "mine [%eval 0.14] White +0.10"
    assert [node.nags for node in nodes] == [set(), set(), set(), {5}, {4}]
    assert nodes[4].comment == "[%eval -0.46] White -0.30; blunder: Qf3 has +0.30"
    best = nodes[3].variations[1]
    assert [x.move.uci() for x in (best, *best.mainline())] == ["h5f3", "g8f6"]
    # The own variation of the file is still there.
    assert [x.move.uci() for x in nodes[1].variations] == ["d1h5", "g1f3"]
    [first, second] = two.mainline()
    assert first.comment.startswith("[%eval 0.29] Black -0.20; blunder: Kf7 has +0.30")
    assert (first.nags, second.nags) == ({4}, set())
    assert [x.move.uci() for x in two.variations] == ["e8d7", "e8f7"]


def test_programs_of_go_read_annotated_games() -> None:
    played = ["f5", "d6", "c3", "d3"]
    rows = rows_of(1, played, [0.0, 0.0, 0.2, 0.1, -0.1], {2: ["c5", "f6"]})
    data = written(annotate_sgf, games.make("othello"), SGF, rows)
    whole, rest = data.split(b"\n(;", 1)
    tree = sgf.Sgf_game.from_bytes(whole)
    nodes = tree.get_main_sequence()
    assert tree.get_root().get("C") == "hello"
    assert nodes[2].get("C") == "mine\nWhite -0.20"
    assert nodes[3].get("C") == "Black -0.10; blunder: c5 has +0.30"
    assert nodes[3].get_raw("BM") == b"2"
    assert [child.get_raw("B") for child in nodes[2]] == [b"c3", b"ce"]
    assert nodes[2][1][0].get_raw("W") == b"ff"
    assert [child.get_raw("W") for child in nodes[3]] == [b"d3", b"f3"]
    # The game without results stays.
    assert rest.strip() == b"GM[2]SZ[8];B[f5];W[a1])"


def test_evaluations_and_line_breaks_of_a_file_stay() -> None:
    """As lichess writes them; a comment over two lines, and games of tags alone."""
    text = b"""[Event "a"]
[Site "x"]

[Event "b"]

1. e4 $1 {[%eval 0.2] good} e5 {it
[%clk 0:1] ends} *
"""
    rows = [{"game": 1, "ply": 0, "played": None, "value": 0.0, "legal": [], "pv": [], "move": ""}]
    rows += rows_of(2, ["e2e4", "e7e5"], [0.1, 0.5, 0.5], {0: ["d2d4"]})
    found = written(annotate_pgn, games.make("chess"), text, rows).decode()
    moves = "1. e4 $1 $4 {[%eval 0.2] good} {White -0.50; blunder: d4 has +0.30} (1. d4) "
    lines = text.decode().splitlines()[:5]
    assert found.splitlines()[:6] == [*lines, f"{moves}e5 {{Black -0.50}} {{it"]
    assert found.endswith("[%clk 0:1] ends} *\n")
    with pytest.raises(UserError, match=r"line 2: the line is longer than .* split it"):
        written(annotate_pgn, games.make("chess"), b"1. e4\n" + b" x" * 2**20, [])


DAMAGED = {
    b"(;GM[2];B[f5] stray 12 ;W[d6])": "the text '12 ;W[d6])' is not SGF",
    b"(;GM[2];B[f5];W;B[d6])": "the property W has no value",
    b"(;GM[2];B[f5];W[d6]())": "a variation is empty; remove its parentheses",
    b"(;GM[2];B[f5]((;W[d6];B[c3])))": "a variation is empty; remove its parentheses",
    b"(;GM[2];B[f5](C[x];W[d6]))": "the text 'C' is in no node",
    b"(;GM[2];B[f5](;W[d6])(;[f6]))": "the text 'f6' is in no node, or in no property",
    b"(;GM[2];B[f5](;W[d6])(;W))": "the property 'W' of a variation has no value",
    b"(;GM[2];B[f5](;W[d6])(;C[]foo))": "a property of a variation has no capitals",
    b"(;GM[2];B[f5](;W[d6])(;W[f6]foo[x]))": "a property of a variation has no capitals",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A move in the first node has no place for a variation.
        (b"(;GM[2]SZ[8:8]B[f5];W[d6])", b"(;B[f5]BM[2]C[Black -0.30; blunder: c4 has +0.30]"),
        # Several values of a comment, and text in another encoding than UTF-8.
        ("(;GM[2]CA[GB2312]PB[中];B[f5]C[x][y])".encode("gb2312"), b"C[x\ny\nBlack -0.30;"),
        # Moves in GGF, games that cannot be read and damaged games stay.
        (b"(;GM[Othello]TY[8]B[f5/1]W[d6])", b"(;GM[Othello]TY[8]B[f5/1]W[d6])"),
        (b"(;CA[nope]GM[2]PB[\xe9];B[f5])", b"(;CA[nope]GM[2]PB[\xe9];B[f5])"),
        *((text, text) for text in DAMAGED),
    ],
)
def test_unusual_games_of_sgf_are_written(text: bytes, expected: bytes) -> None:
    rows = rows_of(1, ["f5"], [0.0, 0.3], {0: ["c4"]})
    assert expected in written(annotate_sgf, games.make("othello"), text, rows)
    [record] = read_sgf(io.BytesIO(text))
    # A damaged game has a reason to stay.
    assert DAMAGED.get(text, "") in (record.error or "")


def test_places_of_moves() -> None:
    [one, two] = read_pgn(io.BytesIO(PGN))
    line = PGN.splitlines()[3].decode()
    ends = [line.index(x) + len(x) for x in ("e4", "e5", "Qh5", "Nc6 $", "a3")]
    ends[3] = line.rindex("Nc6") + 3
    assert one.places == [(4, end) for end in ends]
    assert [place[0] for place in two.places] == [9, 9]
    [game, _] = read_sgf(io.BytesIO(SGF))
    assert game.places == [(2, 0), (3, 0), (4, 0), (5, 0)]


def test_command_writes_games_and_names_what_cannot_be_read(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "games.sgf", tmp_path / "reviewed.sgf"
    file.write_bytes(SGF)
    search = ("--network-only", "--batch", "4")
    assert main(["evaluate", "othello", str(file), "--out", str(out), *search]) == 1
    assert f"{file}: game 2: move 2, 'a1', is illegal" in capfd.readouterr().err
    first, second = out.read_bytes().split(b"\n\n")[:2]
    assert (first.count(b"Black "), second.count(b"Black ")) == (2, 1)
    # A resumed evaluation has nothing left to do.
    assert main(["evaluate", "othello", str(file), "--out", str(out), *search, "--resume"]) == 1


@pytest.mark.parametrize(
    ("positions", "options", "problem"),
    [
        ("a.pgn", (), "for the games of a .sgf file; positions is a.pgn"),
        ("-", (), "positions is -"),
        ("a.sgf", ("--fields", "move"), "leave out --fields"),
    ],
)
def test_games_need_all_positions(positions: str, options: tuple[str, ...], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        parse_flags(Options(), [*("x", positions, "--out", "x.sgf"), *options], "evaluate", "")
