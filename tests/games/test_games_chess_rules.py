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
from games.histories import pad_histories
from test_games_fen import Gardner

ENV = games.make("chess")
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
]
NUM_GAMES = 2 * len(STARTS)
MAX_PLIES = 120
CASES = pathlib.Path(__file__).parents[1] / "cases"
ENDS = {
    chess.Termination.CHECKMATE,
    chess.Termination.STALEMATE,
    chess.Termination.INSUFFICIENT_MATERIAL,
    chess.Termination.FIFTY_MOVES,
    chess.Termination.THREEFOLD_REPETITION,
}


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


def action_of(move, board, game="chess"):
    return actions_of(game, int(not board.turn))[str(move).removesuffix("q")]


def end_of(board):
    """Returns how a game has ended by the rules of python-chess, or None."""
    outcome = board.outcome()
    if outcome is not None and outcome.termination in ENDS:
        return outcome
    if board.is_fifty_moves():
        return chess.Outcome(chess.Termination.FIFTY_MOVES, None)
    if board.is_repetition(3):
        return chess.Outcome(chess.Termination.THREEFOLD_REPETITION, None)
    return None


def kind_of(board, move):
    """Returns the kind of a move; random games prefer those with a name."""
    if board.is_castling(move):
        return "castling"
    if board.is_en_passant(move):
        return "en passant"
    is_pawn = board.piece_type_at(move.from_square) == chess.PAWN
    return "double step" if is_pawn and abs(move.from_square - move.to_square) == 16 else ""


def choose(board, draws, shuffling):
    """Takes back the player's last move, else plays a special move, else any move."""
    if shuffling and len(board.move_stack) > 1 and draws.random() < shuffling:
        last = board.move_stack[-2]
        back = chess.Move(last.to_square, last.from_square)
        if board.is_legal(back):
            return back
    moves = list(board.legal_moves)
    special = [move for move in moves if kind_of(board, move)]
    quiet = [move for move in moves if not board.is_irreversible(move)]
    if special and draws.random() < 0.4:
        return draws.choice(special)
    return draws.choice(quiet if quiet and draws.random() < shuffling else moves)


@functools.cache
def check_against_python_chess(number, seed):
    """Plays random games with both; returns how often each kind of move and end occurred."""
    draws, seen = random.Random(seed), collections.Counter()
    fens = [STARTS[index % len(STARTS)] for index in range(number)]
    boards = [chess.Board() if fen is None else chess.Board(fen) for fen in fens]
    shuffling = [draws.choice((0.0, 0.5, 0.9)) for _ in boards]
    states, step = start(fens), compiled_step()
    first = np.where([fen is None for fen in fens], states.current_player, 0)
    live = set(range(number))
    for _ in range(MAX_PLIES):
        actions = np.zeros(number, np.int32)
        masks, over = np.asarray(states.legal_action_mask), np.asarray(states.terminated)
        rewards = np.asarray(states.rewards)
        for index in sorted(live):
            board = boards[index]
            end, where = end_of(board), (board.fen(), [x.uci() for x in board.move_stack])
            assert over[index] == (end is not None), where
            white = rewards[index][first[index]]
            if end is not None:
                result = {True: 1, False: -1, None: 0}[end.winner]
                assert (white, rewards[index].sum()) == (result, 0), where
                seen[end.termination] += 1
                live.remove(index)
                continue
            assert white == 0
            legal = sorted(action_of(move, board) for move in board.legal_moves)
            assert np.flatnonzero(masks[index]).tolist() == legal, where
            move = choose(board, draws, shuffling[index])
            seen[kind_of(board, move)] += 1
            seen["useless square"] += bool(board.ep_square) and not board.has_legal_en_passant()
            actions[index] = action_of(move, board)
            board.push(move)
        if not live:
            break
        states = step(states, actions)
    return seen


def start(fens):
    """Builds the states in which games start; those without a FEN start as `init` says."""
    own = compiled_init()(jax.random.split(jax.random.PRNGKey(0), len(fens)))
    texts = [fen or chess.STARTING_FEN for fen in fens]
    positions = games.set_up(ENV, [games.read_fen(ENV, text) for text in texts])
    is_own = np.array([fen is None for fen in fens])
    return jax.tree.map(functools.partial(choose_rows, is_own), own, positions)


def choose_rows(is_own, one, other):
    return np.where(is_own.reshape(-1, *[1] * (one.ndim - 1)), one, other)


@functools.cache
def compiled_init():
    return jax.jit(jax.vmap(ENV.init))


@functools.cache
def compiled_step():
    return jax.jit(jax.vmap(ENV.step))


def test_random_games_match_python_chess():
    seen = check_against_python_chess(NUM_GAMES, 0)
    assert seen.keys() >= {"castling", "en passant", "double step", "useless square"}
    assert seen[chess.Termination.THREEFOLD_REPETITION] > 5


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
            is_over.append(end_of(board) is not None)
        assert is_over == [False] * (length - 1) + [True]
        actions = games.parse_moves(ENV, played, games.read_fen(ENV, fen) if fen else None)
        histories += [actions[:-1], actions]
        fens += [fen, fen]
    states, first_bad = games.replay_checked(ENV, pad_histories(histories), start(fens))
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


@pytest.mark.slow
def test_many_random_games_match_python_chess():
    """Those of the quick test, and as many others."""
    seen = sum((check_against_python_chess(NUM_GAMES, x) for x in (0, 1)), collections.Counter())
    draws = set(ENDS) - {chess.Termination.CHECKMATE, chess.Termination.STALEMATE}
    assert min(seen[end] for end in draws) > 3, seen
    assert seen[chess.Termination.THREEFOLD_REPETITION] > 20, seen
    assert min(seen[kind] for kind in ("castling", "en passant", "useless square")) > 10, seen
    assert seen[chess.Termination.CHECKMATE] > 0, seen


def gardner_end(board):
    """Returns how a game of Gardner's chess has ended, and the result of the side to move."""
    if not list(board.moves()):
        return ("mate", -1) if board.is_check() else ("stalemate", 0)
    ends = {
        "material": board.is_insufficient_material(),
        "50 moves": board.halfmove_clock >= 100,
        "repetition": board.is_repetition(3),
    }
    return next(((name, 0) for name, is_over in ends.items() if is_over), None)


# The last ones are close to an end.
GARDNER_STARTS = [
    *["rnbqk/ppppp/5/PPPPP/RNBQK w - - 0 1"] * 2,
    "k4/5/5/3P1/K4 w - - 90 40",
    "k1b2/5/5/5/K1B2 w - - 96 60",
    "k1b2/5/5/1q3/K1B2 w - - 0 60",
]


@pytest.mark.slow
def test_random_games_of_gardner_chess_match_python_chess():
    """Both start from the game's own start or a FEN; half of the moves are taken back."""
    env, draws, ends, number = games.make("gardner_chess"), random.Random(0), set(), 40
    fens = [GARDNER_STARTS[index % len(GARDNER_STARTS)] for index in range(number)]
    states = games.set_up(env, [games.read_fen(env, fen) for fen in fens])
    own = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.PRNGKey(0), number))
    is_own = np.arange(number) % len(GARDNER_STARTS) == 0
    states = jax.tree.map(functools.partial(choose_rows, is_own), own, states)
    boards, last = [Gardner(fen) for fen in fens], [{} for _ in fens]
    live, step = set(range(number)), jax.jit(jax.vmap(env.step))
    for _ in range(MAX_PLIES):
        states, actions = jax.device_get(states), np.zeros(number, np.int32)
        for index in sorted(live):
            board, end = boards[index], gardner_end(boards[index])
            assert states.terminated[index] == (end is not None), board
            result = end[1] if end else 0
            assert states.rewards[index][states.current_player[index]] == result
            if end is not None:
                ends.add(end[0])
                live.remove(index)
                continue
            texts = {text: action_of(text, board, env.id) for text in board.moves()}
            assert np.flatnonzero(states.legal_action_mask[index]).tolist() == sorted(
                texts.values()
            )
            back = last[index].get(board.turn)
            text = back if back in texts and draws.random() < 0.5 else draws.choice(list(texts))
            last[index][board.turn] = text[2:4] + text[:2]
            actions[index] = texts[text]
            board.push_uci(text)
        states = step(states, actions)
    assert ends >= {"mate", "stalemate", "material", "50 moves", "repetition"}
