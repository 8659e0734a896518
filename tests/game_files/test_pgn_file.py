"""PGN as people and programs write it: other spellings of a game give the same moves.

The moves are those of python-chess. Sources of the spellings: the PGN standard (1994), sections 3
to 8, and reports of users of python-chess, Lichess and other programs.
"""

import io
import itertools
import random
from collections.abc import Callable, Iterator

import chess
import chess.pgn
import pytest

import games
from dualmctx.game_files.game_record import GameRecord
from dualmctx.game_files.pgn_file import read_pgn
from dualmctx.game_files.text_files import as_utf8

# Castling on both sides, captures en passant, all promotions, and moves with two possible pieces.
FENS = (
    None,
    "r3k2r/p6P/8/8/8/8/P6p/R3K2R w KQkq - 0 1",
    "r3k2r/1P4P1/8/pPp1pPp1/8/8/6pp/R3K1NN b Qkq - 3 17",
    "8/PPP5/6k1/8/N1N5/8/8/R3K2R w KQ - 0 40",
)
NUMBERS = {
    "export": lambda number, is_black: "" if is_black else f"{number}. ",
    "glued": lambda number, is_black: f"{number}..." if is_black else f"{number}.",
    "dots": lambda number, is_black: f"{number}. ... " if is_black else f"{number} . ",
    "two dots": lambda number, is_black: f"{number}.. " if is_black else f"{number}.\n",
    "ellipsis": lambda number, is_black: f"{number}… " if is_black else f"{number} ",
    "none": lambda number, is_black: "",
}
FIGURINES = str.maketrans("KQRBN", "♔♕♖♗♘")


def long_algebraic(board: chess.Board, move: chess.Move, sign: str) -> str:
    """Returns a move with both squares, such as Ng1-f3 or e7xd8=Q."""
    san = board.san(move)
    if board.is_castling(move):
        return san
    letter = "" if san[0] in "abcdefgh" else san[0]
    mark = "x" if board.is_capture(move) and sign else sign
    uci = move.uci()
    promotion = f"={uci[4].upper()}" if uci[4:] else ""
    return f"{letter}{uci[:2]}{mark}{uci[2:4]}{promotion}"


def with_en_passant(suffix: str) -> Callable[[chess.Board, chess.Move], str]:
    def name(board: chess.Board, move: chess.Move) -> str:
        return board.san(move) + (suffix if board.is_en_passant(move) else "")

    return name


MOVES: dict[str, Callable[[chess.Board, chess.Move], str]] = {
    "SAN": lambda board, move: board.san(move),
    "without signs": lambda board, move: board.san(move).rstrip("+#"),
    "UCI": lambda board, move: move.uci(),
    "long": lambda board, move: long_algebraic(board, move, ""),
    "dashes": lambda board, move: long_algebraic(board, move, "-"),
    "en dashes": lambda board, move: long_algebraic(board, move, "–").replace("O-O", "O–O"),
    "colons": lambda board, move: board.san(move).replace("x", ":"),
    "times": lambda board, move: board.san(move).replace("x", "×"),
    "zeros": lambda board, move: board.san(move).replace("O", "0"),
    "figurines": lambda board, move: board.san(move).translate(FIGURINES),
    "pawn letters": lambda board, move: "P" * board.san(move)[0].islower() + board.san(move),
    "no equals sign": lambda board, move: board.san(move).replace("=", ""),
    "slashes": lambda board, move: board.san(move).replace("=", "/"),
    "words of check": lambda board, move: board.san(move).replace("+", " ch").replace("#", " mate"),
    "letters of check": lambda board, move: board.san(move).replace("+", "ch").replace("#", "++"),
    "daggers": lambda board, move: board.san(move).replace("+", "†").replace("#", "‡"),
    "e.p.": with_en_passant("e.p."),
    " e.p.": with_en_passant(" e.p."),
    "/ep": with_en_passant("/ep"),
    "parentheses": lambda board, move: put_in_parentheses(board.san(move), ""),
    "parentheses apart": lambda board, move: put_in_parentheses(board.san(move), " "),
    "lower case": lambda board, move: (
        put_in_parentheses(board.san(move), "").replace("(", "=(")
        if move.promotion
        else board.san(move)
    ),
}


def put_in_parentheses(san: str, space: str) -> str:
    text, _, promotion = san.partition("=")
    return f"{text}{space}({promotion[0]}){promotion[1:]}" if promotion else san


GLYPHS = (
    *("!", "?", "!!", "??", "!?", "?!", "±", "∓", "=", "∞", "+-", "-+", "+=", "=+", "+/-", "-/+"),
    *("+/=", "=/+", "⩲", "⩱", "□", "‼", "⁈", "+−", "N", "D", "TN", "$1 $32", "$146 N"),
    *(
        "{text}",
        "{[%clk 0:01] (1-0 [Event}",
        "{ two\nlines }",
        "; rest } ( 1-0\n",
        "\n% escaped (\n",
    ),
    *("(1. a4 h5)", "( 5 ( ( ) -- Z0 ) nonsense {)} ;)\n 1-0 )", "(=)", "(N)", "{a}{b}({c})"),
)
RESULTS = ("*", "1-0", "0-1", "1/2-1/2", "½-½", "1/2", "1:0", "1–0", "½", "")


def random_game(draws: random.Random, fen: str | None) -> chess.pgn.Game:
    game = chess.pgn.Game()
    if fen is not None:
        game.setup(fen)
    node: chess.pgn.GameNode = game
    for _ in range(24):
        board = node.board()
        moves = list(board.legal_moves)
        if not moves:
            break
        rare = [x for x in moves if board.is_castling(x) or x.promotion or board.is_en_passant(x)]
        node = node.add_main_variation(draws.choice(rare * 3 + moves))
    return game


def write(game: chess.pgn.Game, numbers: str, moves: str, between: str, result: str) -> str:
    """Writes a game in a spelling; `between` follows each move."""
    board, words = game.board(), []
    for move in game.mainline_moves():
        number = NUMBERS[numbers](board.fullmove_number, board.turn == chess.BLACK)
        words.append(f"{number}{MOVES[moves](board, move)} {between}")
        board.push(move)
    tags = [f'[{name} "{value}"]' for name, value in game.headers.items() if name != "Result"]
    return "\n".join([*tags, "", " ".join([*words, result])]) + "\n"


def spellings() -> Iterator[tuple[str, str, str, str]]:
    """Yields each spelling of a move with two of a number, and each of the others once."""
    numbers, results = itertools.cycle(NUMBERS), itertools.cycle(RESULTS)
    for moves in (*MOVES, *MOVES):
        yield next(numbers), moves, "", next(results)
    for moves, glyph in zip(itertools.cycle(MOVES), GLYPHS, strict=False):
        yield next(numbers), moves, glyph, next(results)


def read(data: str | bytes) -> list[GameRecord]:
    file = io.BytesIO(data if isinstance(data, bytes) else data.encode())
    return list(read_pgn(as_utf8(file)))


@pytest.mark.parametrize("spelling", list(spellings()), ids=repr)
def test_every_spelling_gives_the_moves_of_python_chess(spelling: tuple[str, ...]) -> None:
    draws = random.Random(str(spelling))
    for fen in draws.sample(FENS, 2):
        game = random_game(draws, fen)
        text = write(game, *spelling)
        first, second = read(text + '\n[Event "next"]\n\n1. d4 *')
        assert (first.error, second.error, list(second.moves)) == (None, None, ["d2d4"])
        assert list(first.moves) == [move.uci() for move in game.mainline_moves()], text
        assert first.fen == game.headers.get("FEN")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_encodings_and_line_ends_give_the_same_games(encoding: str, end: str) -> None:
    text = '[White "Ä – Ω"]\n\n1. e4 ; comment\n% escaped\n1... e5 ± *\n\n[White "B"]\n1. d4 ½-½\n'
    expected = read(text)
    assert [(list(x.moves), x.about, x.error) for x in expected] == [
        (["e2e4", "e7e5"], {"white": "Ä – Ω"}, None),
        (["d2d4"], {"white": "B", "result": "1/2-1/2"}, None),
    ]
    found = read(text.replace("\n", end).encode(encoding))
    assert [x._replace(end=0) for x in found] == [x._replace(end=0) for x in expected]


@pytest.mark.parametrize(
    ("data", "white"),
    [
        ('[White "A – B"] *'.encode("cp1252"), "A – B"),
        ('[White "Müller"] *'.encode("latin-1"), "Müller"),
        (b'[White "\x81"] *', "\x81"),
        (b'[White "a\\"b\\\\c"] *', 'a"b\\c'),
        (b'[White "a "b" c"] [Black "d"] *', 'a "b" c'),
        (b'[White"a"][Black "b"]1. e4', "a"),
        (b'[White "a ] [b"] 1. e4', "a ] [b"),
    ],
)
def test_tags_are_read(data: bytes, white: str) -> None:
    [record] = read(data)
    assert (record.about or {})["white"] == white
    assert record.error is None


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        # Programs of DOS end a file with Ctrl-Z, and `copy a + b` keeps it.
        ("1. e4 *\n\x1a", ["e2e4"]),
        ("1. e4 *\x1a\n1. d4 *\n\x1a\n", ["e2e4", "d2d4"]),
        ('1. e4 *\n\ufeff[Event "b"]\n1. d4 *', ["e2e4", "d2d4"]),
        ("1. e4, e5, 2. Nf3,Nc6 *", ["e2e4 e7e5 g1f3 b8c6"]),
        ('[Event "a"]\n[FEN ""]\n\n1. e4 *', ["e2e4"]),
        # A tag twice in one game, and games without moves.
        ('[Event "a"]\n[FEN "K6k/4P3/8/8/8/8/8/8 w - - 0 1"]\n[A "b"]\n[A "c"]\n\ne8=Q', ["e7e8q"]),
        ('[Event "a"]\n[Site "b"]\n\n[Event "a"]\n[Site "b"]\n\n1. e4', ["", "e2e4"]),
        ('[Event "a"]\n[Site "b"]\n\n[Site "b"]\n[Date "c"]\n\n1. e4', ["", "e2e4"]),
    ],
)
def test_games_are_told_apart(text: str, moves: list[str]) -> None:
    records = read(text)
    assert [x.error for x in records] == [None] * len(records)
    assert [" ".join(map(str, x.moves)) for x in records] == moves


def test_games_without_tags_end_with_their_results() -> None:
    records = read("% skipped\n1 e4 e5 1/2-1/2 1. d4 ; comment ( {\n d5 0-1\n")
    assert [x.moves for x in records] == [["e2e4", "e7e5"], ["d2d4", "d7d5"]]
    assert read("") == read("; nothing\n{ nothing }") == []
    assert [x.moves for x in read('[Event "a"]\n')] == [[]]


def test_a_game_without_moves_keeps_its_tags_to_itself() -> None:
    fen = "7k/8/8/8/8/6q1/4r3/7K b - - 0 1"
    empty = f'[Event "a"]\n[White "A"]\n[FEN "{fen}"]\n[Result "1-0"]\n\n'
    first, second = read(empty + '[Event "b"]\n[White "B"]\n\n1. e4 e5 *\n')
    assert (first.moves, first.fen, first.about) == ([], fen, {"white": "A", "result": "1-0"})
    assert (second.moves, second.fen, second.about) == (["e2e4", "e7e5"], None, {"white": "B"})


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1. e4 1-0", "1-0"),
        ('[Result "*"] 1. e4 ½–½', "1/2-1/2"),
        ('[Result "1-0"] 1. e4 *', "1-0"),
        ('[Result "White wins"] 1. e4', "White wins"),
        ("1. e4", None),
    ],
)
def test_the_result_is_that_of_the_tag_or_of_the_moves(text: str, result: str | None) -> None:
    [record] = read(text)
    assert (record.about or {}).get("result") == result


@pytest.mark.parametrize(
    ("text", "moves", "error"),
    [
        ("1. e4 e5 2. Nf3 Qh9 3. Bb5", "e2e4 e7e5 g1f3", "move 4, 'Qh9', is not a move of chess"),
        ("1. e4 e5 2. --", "e2e4 e7e5", "move 3, '--', is not a move of chess"),
        ("1. e4 e5 2. N", "e2e4 e7e5", "move 3, 'N', is not a move of chess"),
        ("1. e4 e5 2", "e2e4 e7e5", "move 3, '2', is not a move of chess"),
        ("1. e4 e5\n2. Nf3 } Nc6", "e2e4 e7e5 g1f3", "line 2: '}' has no beginning"),
        ("1. e4 e5 2. Nf3 ) Nc6", "e2e4 e7e5 g1f3", "line 1: a closing parenthesis has no opening"),
        ("1. e4 e5 (2. d4\n2. Nf3", "e2e4 e7e5", "line 1: a variation has no closing parenthesis"),
        ("1. e4 e5 2. Nf3\n{ open 2... Nc6", "e2e4 e7e5 g1f3", "line 2: a comment has no closing"),
        ("1. e4 {a {b} c} e5", "e2e4", "move 2, 'c', is not a move of chess"),
        ("1. e4 e5 [%clk 0:01] 2. d4", "e2e4 e7e5", "line 1: '[%clk 0:01] 2. d4' is not a tag"),
        ("1. e4 e5 2. e1g5", "e2e4 e7e5", "move 3, 'e1g5', is not a move of chess"),
        ("1. e4 " + "x" * 500, "e2e4", "is not a move of chess"),
        ("1. e4\n" + "e4 " * 400_000, "e2e4", "the line is longer than 1048576 bytes"),
        # The start is unknown.
        ('[FEN "8/8 w"]\n1. e4', "", "FEN '8/8 w' of chess"),
        ('[White "A]\n[Black "B"]\n1. e4', "", "line 1: '[White \"A]' is not a tag"),
        ('[Variant "Atomic"]\n1. e4', "", "the variant is 'Atomic'"),
        ('[Event "a"]\n[FEN "a"]\n[FEN "b"]\n1. e4', "", "line 3: the tag FEN is there twice"),
    ],
)
def test_a_game_keeps_the_moves_before_an_error(text: str, moves: str, error: str) -> None:
    """The next game is read; python-chess, which skips what it does not know, finds no more."""
    first, second = read(f'{text}\n\n[Event "next"]\n\n1. d4 d5 1-0')
    assert " ".join(map(str, first.moves)) == moves
    assert first.error is not None
    assert error in first.error
    # Where the games above have no move, their start is unknown.
    assert first.has_start == bool(moves)
    assert (second.error, list(second.moves)) == (None, ["d2d4", "d7d5"])
    read_by_other = chess.pgn.read_game(io.StringIO(text)) if moves else None
    other = [] if read_by_other is None else read_by_other.mainline_moves()
    assert [move.uci() for move in other][: len(first.moves)] == list(first.moves)


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ("7. ... e5 8. e4", "e7e5 e2e4"),
        ("7… e5, 8. e4", "e7e5 e2e4"),
        ("e7-e5 ± e2e4 !?", "e7e5 e2e4"),
        (["7...", "e5", "8. e4"], "e7e5 e2e4"),
        (["7. ... e5", "e2–e4 ⩲"], None),
        ("7. ... e5 8. e4 ½-½", None),
        ("7. ... e5 8.", "e7e5"),
        ("8 8 e5", None),
        ("", ""),
        ([""], None),
    ],
)
def test_moves_in_json_have_the_same_spellings(moves: str | list[str], expected: str) -> None:
    env = games.make("chess")
    start = games.read_fen(env, "4k3/4p3/8/8/8/8/4P3/4K3 b - - 0 7")
    if expected is None:
        with pytest.raises(ValueError, match="is not a move of chess"):
            games.parse_moves(env, moves, start)
    else:
        assert games.parse_moves(env, moves, start) == games.parse_moves(env, expected, start)


HOSTILE = {
    "parentheses": "(" * 10**5,
    "variations": "1. e4 " + "(" * 10**5 + ")" * 10**5,
    "signs after a move": "1. e4 " + "+=" * 10**5 + "x",
    "signs in a short word": "1. e4 " + "+=" * 19 + "x",
    "numbers": "1 " * 10**5,
    "dots": "1" + "." * 10**5 + "e4 x",
    "braces": "{" * 10**5,
    "tags without an end": '[a "b" ' * 10**5,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_read_at_once(text: str) -> None:
    """In quadratic or exponential time, each would take minutes."""
    assert len(read(text + "\n")) == 1
