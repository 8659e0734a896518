"""Both chess games side by side with python-chess: legal moves, ends and results."""

import collections
import functools
import pathlib
import random

import chess
import chess.pgn
import jax
import numpy as np
import pytest

import games
from games import uci
from games.histories import pad_histories, select_rows
from test_games_fen import START, board_of, legal

ENV = games.make("chess")
MAX_PLIES = 100
# The initial position comes first, half of the time as a FEN. The others are close to castling, to
# double steps beside pawns that may or may not capture en passant (free, pinned on a file, on a
# diagonal or along the rank; with a FEN's square that is of use, or not), or to an end.
STARTS = [
    None,
    chess.STARTING_FEN,
    None,
    "r3k2r/p6p/8/8/8/8/P6P/R3K2R w KQkq - 0 20",
    "r3k2r/pppq1ppp/2npbn2/2b1p3/2B1P3/2NPBN2/PPPQ1PPP/R3K2R b KQkq - 94 48",
    "4k3/8/8/8/4p3/8/3P4/K3R3 w - - 0 40",
    "8/3p4/8/K3P2r/8/8/8/k7 b - - 0 40",
    "8/8/8/5k2/4p3/8/2BP4/1K6 w - - 0 40",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 40",
    "4k3/p1p1p1p1/8/1P1P1P1P/p1p1p1p1/8/1P1P1P1P/4K3 b - - 0 30",
    "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3",
    "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1",
    "4k3/8/8/8/3Pp3/8/8/K3R3 b - d3 0 40",
    "8/8/1b6/8/2k5/8/6PP/5NK1 w - - 96 90",
    "8/8/4k3/8/2b5/8/4P3/4KB2 w - - 90 90",
    "8/5k2/8/8/8/2N5/4K3/6n1 w - - 80 90",
    "6k1/5ppp/8/8/8/8/r7/1R4K1 w - - 97 60",
    "7k/8/5K2/8/8/8/6Q1/8 w - - 96 60",
    "k7/P7/2K5/8/8/8/8/8 w - - 0 60",
    "k7/8/1K6/8/8/8/8/7R w - - 0 60",
    "7k/5Q2/6K1/8/8/8/8/8 b - - 0 50",
]
# The last ones are close to an end.
GARDNER_STARTS = [
    *[None, START["gardner_chess"]],
    "k4/5/5/3P1/K4 w - - 90 40",
    "k1b2/5/5/5/K1B2 w - - 96 60",
    "k1b2/5/5/1q3/K1B2 w - - 0 60",
    "k4/5/2R2/5/K4 w - - 98 40",
    "k4/5/1Q3/5/4K b - - 0 20",
    "k4/Q4/1K3/5/5 b - - 0 20",
]
ENDS = {"stalemate", "material", "50 moves", "repetition"}
CASES = pathlib.Path(__file__).parents[1] / "cases"


@functools.cache
def actions_of(game, color):
    """The action of each move of one side, without the "q" of a promotion to a queen."""
    line, found = uci.Line(frozenset(), color), {}
    for action in range(uci.num_actions(game)):
        try:
            found[uci.show(game, line, action)] = action
        except ValueError:  # it leads off the board
            continue
    return found


def end_of(board, texts):
    """Returns how a game has ended by the rules of python-chess and White's result, or None."""
    if not texts:
        is_mate = board.is_check()
        return "checkmate" if is_mate else "stalemate", is_mate * (-1 if board.turn else 1)
    ends = {
        "material": board.is_insufficient_material(),
        "50 moves": board.halfmove_clock >= 100,
        "repetition": board.is_repetition(3),
    }
    return next(((name, 0) for name, is_over in ends.items() if is_over), None)


def kind_of(board, text):
    """Returns the kind of a move; random games prefer those with a name."""
    move = chess.Move.from_uci(text)
    if board.is_castling(move):
        return "castling"
    if board.is_en_passant(move):
        return "en passant"
    is_pawn = board.piece_type_at(move.from_square) == chess.PAWN
    return "double step" if is_pawn and abs(move.from_square - move.to_square) == 16 else ""


def choose(board, texts, draws, shuffling):
    """Takes back the player's last move, else plays a special move, else any move."""
    if len(board.move_stack) > 1 and draws.random() < shuffling:
        last = board.move_stack[-2].uci()
        if last[2:4] + last[:2] in texts:
            return last[2:4] + last[:2]
    special = [text for text in texts if kind_of(board, text)]
    if special and draws.random() < 0.4:
        return draws.choice(special)
    if draws.random() < shuffling:
        quiet = [text for text in texts if not board.is_irreversible(chess.Move.from_uci(text))]
        texts = quiet or texts
    return draws.choice(texts)


def start(env, fens):
    """Builds the states in which games start; those without a FEN start as `init` says."""
    own = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.PRNGKey(0), len(fens)))
    positions = [games.read_fen(env, fen or START[env.id]) for fen in fens]
    is_own = np.array([fen is None for fen in fens])
    return select_rows(is_own, own, games.set_up(env, positions))


@pytest.mark.parametrize(
    ("name", "fens", "expected"),
    [
        ("chess", STARTS * 2, {*ENDS, "castling", "en passant", "double step", "useless square"}),
        pytest.param(
            "gardner_chess", GARDNER_STARTS * 3, {*ENDS, "checkmate"}, marks=pytest.mark.slow
        ),
    ],
)
def test_random_games_match_python_chess(name, fens, expected):
    """In many games, moves are taken back."""
    env, draws, seen = games.make(name), random.Random(0), collections.Counter()
    boards = [board_of(name, fen or START[name]) for fen in fens]
    shuffling = [draws.choice((0.0, 0.5, 0.9)) for _ in boards]
    states, step = start(env, fens), jax.jit(jax.vmap(env.step))
    first = np.where([fen is None for fen in fens], states.current_player, 0)
    live = set(range(len(fens)))
    for _ in range(MAX_PLIES):
        states, actions = jax.device_get(states), np.zeros(len(fens), np.int32)
        for index in sorted(live):
            board = boards[index]
            texts = legal(board)
            end, where = end_of(board, texts), (board.fen(), [x.uci() for x in board.move_stack])
            assert states.terminated[index] == (end is not None), where
            result = end[1] if end else 0
            rewards = states.rewards[index]
            assert (rewards[first[index]], rewards.sum()) == (result, 0), where
            if end is not None:
                seen[end[0]] += 1
                live.remove(index)
                continue
            numbers = actions_of(name, int(not board.turn))
            known = {text: numbers[text.removesuffix("q")] for text in texts}
            mask = states.legal_action_mask[index]
            assert np.flatnonzero(mask).tolist() == sorted(known.values()), where
            text = choose(board, texts, draws, shuffling[index])
            seen[kind_of(board, text)] += 1
            seen["useless square"] += bool(board.ep_square) and not board.has_legal_en_passant()
            actions[index] = known[text]
            board.push_uci(text)
        states = step(states, actions)
    assert {kind for kind, number in seen.items() if number} >= expected, seen
    assert seen["repetition"] > 5, seen


# Moves, further moves that are repeated, and the number of halfmoves after which a game is over.
REPEATED = [
    (None, "", "g1f3 g8f6 f3g1 f6g8", 8),
    (chess.STARTING_FEN, "", "g1f3 g8f6 f3g1 f6g8", 8),
    (None, "e2e4", "g8f6 g1f3 f6g8 f3g1", 9),
    (None, "d2d4 d7d5", "g1f3 g8f6 f3g1 f6g8", 10),
    # The black pawn can capture, so that the first position is another one.
    ("4k3/8/8/8/3p4/8/4P3/4K3 w - - 0 1", "e2e4", "e8d8 e1d1 d8e8 d1e1", 10),
    # It is pinned, on its file and along its rank.
    ("4k3/8/8/8/4p3/8/3P4/K3R3 w - - 0 1", "d2d4", "e8e7 a1b1 e7e8 b1a1", 9),
    ("8/8/8/8/k2p3R/8/4P3/7K w - - 0 1", "e2e4", "a4a5 h1g1 a5a4 g1h1", 9),
    # The same with the square in the FEN.
    ("4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1", "", "e8d8 e1d1 d8e8 d1e1", 9),
    ("4k3/8/8/8/3Pp3/8/8/K3R3 b - d3 0 1", "", "e8e7 a1b1 e7e8 b1a1", 8),
    ("4k3/8/8/8/4P3/8/8/4K3 b - e3 0 1", "", "e8d8 e1d1 d8e8 d1e1", 8),
    # A king that has moved cannot castle, so that the first position is another one.
    ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", "", "e1e2 e8e7 e2e1 e7e8", 9),
    # 50 moves; a checkmate by the last of them counts.
    ("4k3/8/8/8/8/8/8/R3K3 w - - 98 80", "", "a1a2 e8e7", 2),
    ("7k/8/6K1/8/8/8/8/R7 w - - 99 80", "", "a1a8", 1),
]


@pytest.mark.slow
def test_games_end_at_the_third_repetition_and_after_50_moves():
    """Each game once to its end, and once without its last move."""
    fens, histories = [], []
    for fen, moves, repeated, length in REPEATED:
        played = (moves.split() + repeated.split() * 4)[:length]
        board, is_over = chess.Board(fen or chess.STARTING_FEN), []
        for text in played:
            board.push_uci(text)
            is_over.append(end_of(board, legal(board)) is not None)
        assert is_over == [False] * (length - 1) + [True]
        actions = games.parse_moves(ENV, played, games.read_fen(ENV, fen) if fen else None)
        histories += [actions[:-1], actions]
        fens += [fen, fen]
    states, first_bad = games.replay_checked(ENV, pad_histories(histories), start(ENV, fens))
    assert states.terminated.tolist() == [False, True] * len(REPEATED)
    assert set(first_bad.tolist()) == {-1}


@pytest.mark.slow
# Files with a game, and the number of halfmoves after which it is over.
@pytest.mark.parametrize(
    ("file", "length"), [("repetition-after-double-step.pgn", 10), ("past-threefold.pgn", 8)]
)
def test_a_recorded_game_is_over_at_the_third_repetition(file, length):
    with (CASES / file).open() as opened:
        game = chess.pgn.read_game(opened)
    fen, moves = game.board().fen(), [move.uci() for move in game.mainline_moves()]
    over = games.open_position(ENV, moves[:length], fen)
    assert (over.is_over, over.state.rewards.tolist()) == (True, [0, 0])
    said = rf"^move {length + 1}, .* the end of the game: its position occurred for the third time$"
    with pytest.raises(ValueError, match=said):
        games.open_position(ENV, [*moves[:length], "a2a3"], fen)
