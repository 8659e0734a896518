"""Small files of other programs, in tests/cases: each gives these positions or this error."""

from pathlib import Path

import pytest

import games
from dualmctx.commands.source import open_source
from dualmctx.evaluation.game_record import GameRecord, check_games

CASES = Path(__file__).parents[1] / "cases"


def read_games(name: str) -> list[GameRecord]:
    with open_source(str(CASES / name), every_position=True) as source:
        assert source.records is not None
        return list(source.records)


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        ("dots-after-space.pgn", "e7e5 e2e4 e8d7"),
        ("space-before-dot.pgn", "e2e4 e7e5 g1f3"),
        ("glyphs-as-text.pgn", "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4"),
        ("tags-and-moves-in-one-line.pgn", "e2e4 e7e5 g1f3"),
        ("carriage-returns.pgn", "e2e4 e7e5 g1f3"),
        ("promotion-in-parentheses.pgn", "c7c8r a3b4"),
        ("en-passant-suffix.pgn", "e2e4 a7a6 e4e5 d7d5 e5d6 d8d6"),
        ("utf-16.pgn", "e2e4 e7e5"),
        ("windows-1252.pgn", "e2e4 e7e5"),
        ("lost-moves-big5.sgf", "E5 C7 G3 G7"),
        ("refused-big5.sgf", "E5 C7 G3"),
        ("third-pass.sgf", "E5 C7 pass pass"),
        ("same-colour-twice.sgf", "E5 C7 pass G3 G7"),
        ("suffix-in-capitals.SGF", "E5 C7"),
    ],
)
def test_game_has_these_moves(name: str, moves: str) -> None:
    [record] = read_games(name)
    assert record.error is None
    assert record.setup == 0
    env = games.make("go_9x9" if name.lower().endswith("sgf") else "chess")
    assert list(record.texts[: len(record.moves)]) == moves.split()
    assert games.parse_moves(env, list(record.moves), _start(env, record)) == games.parse_moves(
        env, moves, _start(env, record)
    )


def _start(env: object, record: GameRecord) -> object:
    return None if record.fen is None else games.read_fen(env, record.fen)  # pyright: ignore


@pytest.mark.parametrize(
    ("name", "moves", "error"),
    [
        ("one-bad-move.pgn", "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6", "move 7, 'Qh9', is not a move of ch"),
        ("move-in-a-comment.sgf", "E5 C7", "move 3, 'gg', is not the only move of its node"),
        ("handicap-without-stones.sgf", "", "HA[2] is a handicap, but no stones (AB) are set up"),
    ],
)
def test_game_ends_with_this_error(name: str, moves: str, error: str) -> None:
    [record] = read_games(name)
    assert " ".join(record.texts) == moves
    assert record.error is not None
    assert error in record.error
    assert record.has_start == bool(moves)


def test_players_have_their_dashes() -> None:
    [record] = read_games("windows-1252.pgn")
    assert record.about == {"white": "A – B", "result": "*"}


@pytest.mark.parametrize(
    ("name", "moves", "extra"),
    [
        ("dots-after-space.jsonl", "e7e5 e2e4", {}),
        ("no-space-before-semicolon.epd", "", {"bm": "Qe6+"}),
        ("puzzle-columns.csv", "e4e6 b6b5", {"PuzzleId": "x", "Rating": "1500"}),
    ],
)
def test_line_has_this_position(name: str, moves: str, extra: dict[str, str]) -> None:
    env = games.make("chess")
    with open_source(str(CASES / name)) as source:
        [question] = source.questions
    assert question.error is None
    assert question.fen is not None
    start = games.read_fen(env, question.fen)
    found = games.parse_moves(env, question.moves, start)
    assert found == games.parse_moves(env, moves, start)
    assert (question.extra or {}) == extra


# A program of chess takes long to compile.
@pytest.mark.slow
def test_chess_ends_at_the_third_repetition() -> None:
    [record] = read_games("past-threefold.pgn")
    assert (len(record.moves), record.error) == (10, None)
    [checked] = check_games(games.make("chess"), [record], 1)
    assert len(checked.moves) == 8
    assert checked.error == (
        "move 9, 'e2e4', comes after the end of the game: its position occurred for the third time"
    )
