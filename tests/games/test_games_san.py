import random

import chess
import pytest

import games
from games import san
from games.fen import parse_fen, write_fen
from games.positions import RULES
from games.san import to_san

START = RULES["chess"].start


# Many pieces of one kind, so that origins are needed.
QUEENS = "3k4/8/QNQ2R1R/8/2N5/Q7/8/R3K2R w KQ - 0 1"


def test_san_of_random_games_matches_python_chess():
    """Read and written; with castling, promotions, en passant, pins, checks and ambiguous moves."""
    draws, seen = random.Random(1), set()
    for number in range(24):
        board = chess.Board(QUEENS) if number % 4 == 1 else chess.Board()
        start = position = parse_fen("chess", board.fen())
        moves, texts = [], []
        for _ in range(120):
            legal = list(board.legal_moves)
            if not legal:
                break
            # Rare moves come first in some games.
            rare = [x for x in legal if board.is_castling(x) or board.is_en_passant(x)]
            rare += [x for x in legal if x.promotion or board.gives_check(x)]
            move = draws.choice(rare if rare and draws.random() < number % 3 / 2 else legal)
            moves.append(move.uci())
            texts.append(board.san_and_push(move))
            assert san.read("chess", position, texts[-1]) == moves[-1]
            position = san.play(position, moves[-1])
            fields, theirs = write_fen(position).split(), board.fen().split()
            assert fields[:3] + fields[4:] == theirs[:3] + theirs[4:]
        assert to_san(start, moves) == texts
        seen |= set("Ox=NBRQK+#") & set("".join(texts))
    assert seen == set("Ox=NBRQK+#")


@pytest.mark.parametrize(
    ("fen", "uci", "text"),
    [
        ("4k3/8/8/8/N7/8/N7/4K3 w - - 0 1", "a2c3", "N2c3"),
        ("3k4/8/8/8/N7/8/N3N3/4K3 w - - 0 1", "a2c3", "Na2c3"),
        # The knight on d2 is pinned, so that no letter is needed.
        ("4k3/8/8/b7/8/8/3N4/4K1N1 w - - 0 1", "g1f3", "Nf3"),
        # A bishop, and a pawn from file b.
        ("4k3/8/8/8/8/2p5/1P1B4/4K3 w - - 0 1", "d2c3", "Bxc3"),
        ("4k3/8/8/8/8/2p5/1P1B4/4K3 w - - 0 1", "b2c3", "bxc3"),
        # Castling gives check; a pawn promotes with mate.
        ("5k2/8/8/8/8/8/8/4K2R w K - 0 1", "e1g1", "O-O+"),
        ("6k1/P4ppp/8/8/8/8/8/4K3 w - - 0 1", "a7a8r", "a8=R#"),
        # The capture en passant is the only answer to the check.
        ("8/8/8/1k6/1Pp5/8/8/KR6 b - b3 0 1", "c4b3", "cxb3"),
    ],
)
def test_move_is_written_and_read(fen, uci, text):
    """test_pgn_file.py has other spellings."""
    position = parse_fen("chess", fen)
    assert to_san(position, [uci]) == [text]
    assert san.read("chess", position, text) == uci


@pytest.mark.parametrize(
    ("fen", "text", "error"),
    [
        (
            START,
            "Nf9",
            "not a move of chess: write UCI, such as e2e4 or e7e8q, or SAN, such as Nf3",
        ),
        (START, "Ne4", "not possible: no knight can move to e4"),
        (START, "Nd2", "not possible: no knight can move to d2"),
        ("4k3/8/8/8/N7/8/N7/4K3 w - - 0 1", "Nc3", "ambiguous: write Na2c3 or Na4c3"),
        ("4k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a8", "a pawn's promotion: write a8=Q, "),
        (START, "e4=Q", "not a promotion: write e4"),
        ("4k3/8/8/8/8/8/8/3K4 w - - 0 1", "O-O", "not possible: the king is not on its initial"),
    ],
)
def test_impossible_moves_raise(fen, text, error):
    with pytest.raises(ValueError, match=error):
        san.read("chess", parse_fen("chess", fen), text)


@pytest.mark.slow
def test_notations_may_be_mixed():
    env = games.make("chess")
    expected = games.parse_moves(env, "e2e4 e7e5 g1f3 b8c6")
    assert games.parse_moves(env, "1.e4 e5 2. Nf3 Nc6") == expected
    assert games.parse_moves(env, ["e2e4", "e5", expected[2], "Nc6"]) == expected
    start = games.read_fen(env, "4k3/P7/8/8/8/8/8/4K3 w - - 0 40")
    assert games.parse_moves(env, "a8=Q+ Kd7", start) == games.parse_moves(env, "a7a8q e8d7", start)
    with pytest.raises(ValueError, match=r"^move 3, 'Ke3', is not possible: no king can move"):
        games.parse_moves(env, "1. e4 e5 2. Ke3")
    texts = ["1.", "e4", "e5", "2.", "Nf3", "Nc6", "3.", "e1c1"]
    with pytest.raises(ValueError, match=r"^move 5, 'e1c1', is illegal"):
        games.open_position(env, texts)
    with pytest.raises(ValueError, match=r"^move 2, 99999, is not an action"):
        games.parse_moves(env, ["e4", 99999])


def test_gardner_chess_has_san():
    env = games.make("gardner-chess")
    assert games.parse_moves(env, "b3 axb3") == games.parse_moves(env, "b2b3 a4b3")
    with pytest.raises(ValueError, match=r"move 1, 'O-O', is not possible"):
        games.parse_moves(env, "O-O")
    with pytest.raises(ValueError, match=r"move 2, 'a4b9', is not a move"):
        games.parse_moves(env, "Nc3 a4b9")


def test_written_san_of_gardner_chess_is_read_again():
    env = games.make("gardner_chess")
    moves = ["b2b3", "c4b3", "a2b3", "b5c3", "d2c3"]
    position = parse_fen("gardner_chess", RULES["gardner_chess"].start)
    texts = to_san(position, moves)
    assert texts == ["b3", "cxb3", "axb3", "Nc3", "dxc3"]
    assert list(san.to_uci("gardner_chess", position, texts)) == moves
    assert games.parse_moves(env, texts) == games.parse_moves(env, moves)
