"""Compares FENs, their states and UCI moves of both chess games with python-chess."""

import collections
import contextlib
import functools
import pathlib
import random

import chess
import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

import games
from dualmctx.game_files.positions_file import read_json_lines
from games.parsed_moves import parse_lines

ENVS = {name: games.make(name) for name in ("chess", "gardner_chess")}
NUM_PLIES = 20
START = {"chess": chess.STARTING_FEN, "gardner_chess": "rnbqk/ppppp/5/PPPPP/RNBQK w - - 0 1"}
# Positions before castling, promotions with captures, and en passant captures.
STARTS = {
    "chess": [
        START["chess"],
        "r3k2r/pppq1ppp/2npbn2/2b1p3/2B1P3/2NPBN2/PPPQ1PPP/R3K2R w KQkq - 4 8",
        "r3k2r/p6p/8/8/8/8/P6P/R3K2R b KQkq - 0 20",
        "1n1rk3/P1P4P/8/8/8/8/p1p4p/1N1RK3 w - - 0 40",
        "1n1rk3/P1P4P/8/8/8/8/p1p4p/1N1RK3 b - - 0 40",
        "4k3/p1p1p1p1/8/1P1P1P1P/p1p1p1p1/8/1P1P1P1P/4K3 b - - 0 30",
        "rnb1kbnr/pp1ppppp/8/1qpP4/8/8/PPP1PPPP/RNBQKBNR w KQkq c6 0 3",
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    ],
    "gardner_chess": [
        START["gardner_chess"],
        "r1b1k/P3P/5/p3p/1NBQK b - - 0 12",
        "r1b1k/P3P/5/p3p/1NBQK w - - 3 12",
        "k1n1n/3PP/5/3pp/K1N1N w - - 0 9",
    ],
}
# Finished games and White's reward.
FINISHED = {
    "chess": {
        "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3": -1,
        "R3k3/R7/8/8/8/8/8/4K3 b - - 0 50": 1,
        "7k/5Q2/6K1/8/8/8/8/8 b - - 0 50": 0,
        "4k3/8/8/8/8/8/8/4K3 w - - 0 50": 0,
        "4k3/8/8/8/8/8/8/R3K3 w - - 100 80": 0,
    },
    "gardner_chess": {
        "k4/Q4/1K3/5/5 b - - 0 20": 1,
        "5/5/1k3/q4/K4 w - - 0 20": -1,
        "k4/5/1Q3/5/4K b - - 0 20": 0,
    },
}
NUM_GAMES = 16
_TOO_MANY = chess.STATUS_IMPOSSIBLE_CHECK | chess.STATUS_TOO_MANY_CHECKERS


class Gardner(chess.Board):
    """Gardner's chess on the squares a1 to e5 of python-chess's board, with python-chess's moves.

    python-chess would allow White's pawns a double step and would not promote on the fifth rank.
    """

    def __init__(self, fen):
        board, *others = fen.split()
        rows = [squeeze(f"{cells_of(rank)}...") for rank in board.split("/")]
        super().__init__(" ".join(["/".join(["8", "8", "8", *rows]), *others]))

    def fen(self, **_):
        ranks = super().board_fen().split("/")[3:]
        board = "/".join(squeeze(cells_of(rank)[:5]) for rank in ranks)
        return " ".join([board, "wb"[not self.turn], "- -", *super().fen().split()[-2:]])

    def moves(self):
        for move in super().legal_moves:
            (_, rank), (to_file, to_rank) = place(move.from_square), place(move.to_square)
            white_pawn = self.piece_at(move.from_square) == chess.Piece.from_symbol("P")
            if max(to_file, to_rank) > 4 or (white_pawn and to_rank - rank > 1):
                continue
            pieces = "qrbn" if white_pawn and to_rank == 4 else [""]
            yield from (move.uci() + piece for piece in pieces)

    def push_uci(self, text):
        promoted = chess.Piece.from_symbol(text[4].upper()) if text[4:] and self.turn else None
        self.push(chess.Move.from_uci(text[:4] if promoted else text))
        if promoted:
            self.set_piece_at(chess.parse_square(text[2:4]), promoted)


def place(square):
    return chess.square_file(square), chess.square_rank(square)


def cells_of(rank):
    return "".join("." * int(c) if c.isdigit() else c for c in rank)


def squeeze(cells):
    for number in range(8, 0, -1):
        cells = cells.replace("." * number, str(number))
    return cells


def board_of(name, fen):
    return chess.Board(fen) if name == "chess" else Gardner(fen)


def legal(board):
    return (
        list(board.moves()) if isinstance(board, Gardner) else [m.uci() for m in board.legal_moves]
    )


def is_special(name, board, text):
    """Returns the kind of a move; the games must contain every kind."""
    if name == "chess" and board.is_castling(chess.Move.from_uci(text)):
        return "king side" if text[2] == "g" else "queen side"
    if name == "chess" and board.is_en_passant(chess.Move.from_uci(text)):
        return "en passant"
    return f"promotion {text[4:]}" if text[4:] else ""


@functools.cache
def played(name):
    """Plays random games with python-chess, preferring special moves: `(fens, moves)` of each."""
    draws, result = random.Random(1), []
    for number in range(NUM_GAMES):
        board = board_of(name, STARTS[name][number % len(STARTS[name])])
        fens, moves = [board.fen(en_passant="fen")], []
        # With fewer than three pieces a game may end because neither side can win.
        while len(moves) < NUM_PLIES and legal(board) and len(board.piece_map()) > 4:
            texts = legal(board)
            weights = [9 if is_special(name, board, text) else 1 for text in texts]
            moves.append(draws.choices(texts, weights)[0])
            board.push_uci(moves[-1])
            fens.append(board.fen(en_passant="fen"))
        result.append((fens, moves))
    return result


@functools.cache
def set_up(name):
    """Sets up all positions of the games and the finished positions in one batch."""
    fens = [fen for fens, _ in played(name) for fen in fens] + list(FINISHED[name])
    positions = [games.read_fen(ENVS[name], fen) for fen in fens]
    return fens, positions, jax.device_get(games.set_up(ENVS[name], positions))


NAMES = pytest.mark.parametrize("name", ENVS)


@pytest.mark.slow
@NAMES
def test_legal_moves_and_ends_match_python_chess(name):
    """The positions lie before each kind of move of both colours, or are over."""
    env, (fens, positions, states) = ENVS[name], set_up(name)
    seen = set()
    for row, (fen, position) in enumerate(zip(fens, positions, strict=True)):
        board, mask = board_of(name, fen), states.legal_action_mask[row]
        expected, actions = legal(board), np.flatnonzero(mask)
        assert states.terminated[row] == (fen in FINISHED[name] or not expected), fen
        if fen in FINISHED[name]:
            reward = FINISHED[name][fen]
            assert states.rewards[row].tolist() == [reward, -reward]
        if states.terminated[row]:
            assert mask.all()
            continue
        texts = [games.format_action(env, position, action) for action in actions]
        assert sorted(texts) == sorted(expected), fen
        assert [games.parse_move(env, text, position) for text in texts] == actions.tolist()
        seen |= {(is_special(name, board, text), fen.split()[1]) for text in expected}
    kinds = [f"promotion {piece}" for piece in "qrbn"]
    kinds += ["king side", "queen side", "en passant"] if name == "chess" else []
    assert {(kind, color) for kind in kinds for color in "wb"} <= seen


@NAMES
def test_fen_round_trip(name):
    fens, positions, states = set_up(name)
    for index, fen in enumerate(fens):
        state = jax.tree.map(lambda leaf, i=index: leaf[i], states)
        assert games.to_fen(ENVS[name], state) == fen
        assert games.to_position(ENVS[name], state) == positions[index]
        assert games.write_fen(positions[index]) == fen


@NAMES
def test_uci_round_trip_matches_python_chess(name):
    for fens, moves in played(name):
        start = games.read_fen(ENVS[name], fens[0])
        actions = games.parse_moves(ENVS[name], " ".join(moves), start)
        assert games.format_moves(ENVS[name], start, actions) == moves
        assert games.parse_moves(ENVS[name], actions, start) == actions


@pytest.mark.slow
@NAMES
def test_state_from_fen_matches_state_from_moves(name):
    """Compares all fields that do not depend on the history; the last game has an illegal move."""
    env, histories = ENVS[name], np.full((NUM_GAMES, NUM_PLIES), -1)
    positions = [games.read_fen(env, fens[0]) for fens, _ in played(name)]
    for row, position, (_, moves) in zip(histories, positions, played(name), strict=True):
        row[: len(moves)] = games.parse_moves(env, moves, position)
    histories[-1, 5] = 0
    states, first_bad = games.replay_checked(env, histories, games.set_up(env, positions))
    assert first_bad.tolist() == [-1] * (NUM_GAMES - 1) + [5]
    ends = [fens[-1] for fens, _ in played(name)[:-1]] + [played(name)[-1][0][5]]
    fresh = games.set_up(env, [games.read_fen(env, fen) for fen in ends])

    def compare(path, one, other):
        field = path[-1].name
        if field == "observation":  # without the planes of the history
            one, other = (np.delete(x, np.s_[12:112], axis=-1) for x in (one, other))
        if field.endswith("_history"):
            assert not np.asarray(other)[:, 1:].any()
            one, other = one[:, 0], other[:, 0]
        # pgx's Gardner's chess hashes a promoted queen as a pawn, and keeps the squares of
        # captured pieces in its lists.
        if field not in GARDNER_HASHES or name == "chess":
            np.testing.assert_array_equal(one, other, err_msg=str(path))

    jax.tree_util.tree_map_with_path(compare, *jax.device_get((states, fresh)))


GARDNER_HASHES = ("_zobrist_hash", "_hash_history", "_possible_piece_positions")


@pytest.mark.slow
@NAMES
def test_start_fen_gives_initial_state(name):
    env = ENVS[name]
    state, own = games.from_fen(env, START[name]), jax.jit(env.init)(jax.random.PRNGKey(0))
    describe = functools.partial(jax.tree.map, lambda x: (x.shape, x.dtype, x.weak_type))
    assert describe(state) == describe(own)

    def compare(path, one, other):
        # pgx changes the hash of Gardner's chess by moves, from a constant of an older JAX.
        if path[-1].name not in GARDNER_HASHES:
            np.testing.assert_array_equal(one, other, err_msg=str(path))

    jax.tree_util.tree_map_with_path(compare, state, own)


@pytest.mark.parametrize(
    ("name", "fen", "reason"),
    [
        ("chess", None, "pass text"),
        ("chess", "", "0 fields; four to six are needed"),
        ("chess", START["chess"].replace(" ", "\n", 1), "has a line break; write it in one line"),
        ("chess", "8/" + START["chess"], "9 ranks instead of 8"),
        ("chess", START["chess"].replace("8", "9", 1), "rank 6, '9', does not consist of pieces"),
        ("chess", START["chess"].replace("8", "7", 1), "rank 6 has 7 squares instead of 8"),
        ("chess", START["chess"].replace(" w ", " W "), "side to move 'W' is not w or b"),
        ("chess", START["chess"].replace("KQkq", "QKqk"), "castling 'QKqk' is not - or some"),
        ("chess", START["chess"].replace("- 0", "e9 0"), "en passant 'e9' is not - or a square"),
        ("chess", START["chess"][:-1] + "9" * 5000, "is not a number of at most 9999"),
        ("chess", START["chess"][:-1] + "257", "move 257 is past the end of a game"),
        ("chess", START["chess"].replace("Q", "K", 1), "White has 2 kings instead of 1"),
        ("chess", START["chess"].replace("8", "P7", 1), "White has 9 pawns, more than 8"),
        ("chess", START["chess"].replace("8", "n7", 1), "Black has 17 pieces, more than 16"),
        ("chess", "P3k3/8/8/8/8/8/8/4K3 w - - 0 1", "a pawn stands on the first or the last"),
        ("chess", "4k3/8/8/8/8/8/8/4K2R w Q - 0 1", "castling Q needs king and rook on"),
        ("chess", "4k3/8/8/8/4P3/8/8/4K3 b - e4 0 1", "no pawn can have jumped over e4"),
        ("chess", "4k3/8/8/8/8/4P3/8/4K3 b - e3 0 1", "no pawn has jumped over e3"),
        ("chess", "4k3/8/8/8/8/8/8/4RK2 w - - 0 1", "the side that has just moved is in check"),
        ("chess", "4k3/3P1P2/5N2/8/8/8/4R3/4K3 b - - 0 1", "d7, e2, f6, f7 give check"),
        ("chess", "3k4/8/8/8/8/8/8/q2K3q w - - 0 1", "check from a1, h1 along one line"),
        ("chess", "3k4/8/8/1K1p4/8/8/4b3/1r6 w - d6 0 1", "jumped over d6 cannot have given check"),
        (
            "chess",
            "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",
            "more moves than the 200 that pgx can store",
        ),
        ("gardner_chess", START["gardner_chess"].replace("- -", "K -"), "castling K needs"),
        ("gardner_chess", "k4/5/5/2P2/K4 b - c2 0 1", "no pawn can have jumped over c2"),
        ("gardner_chess", "k4/1P3/5/5/K4 w - - 0 1", "the side that has just moved is in check"),
    ],
)
def test_invalid_fen_raises(name, fen, reason):
    with pytest.raises(ValueError, match=r"^[^\n]{1,250}$") as caught:
        games.read_fen(ENVS[name], fen)
    assert reason in str(caught.value)


def test_fen_functions_reject_other_games_and_shapes():
    with pytest.raises(ValueError, match="othello has no FEN: it is for chess and gardner_chess"):
        games.from_fen(games.make("othello"), START["chess"])
    with pytest.raises(ValueError, match="0 positions of chess: pass at least one"):
        games.set_up(ENVS["chess"], [])
    with pytest.raises(ValueError, match=r"of shape \(1,\): pass a single one"):
        games.to_fen(ENVS["chess"], games.set_up(ENVS["chess"], [set_up("chess")[1][0]]))


def changed_fens(draws):
    """Yields FENs of games in which a few squares and fields are changed at random."""
    fens = set_up("chess")[0]
    for _ in range(1500):
        board = chess.Board(draws.choice(fens))
        for _ in range(draws.randrange(3)):
            piece = chess.Piece.from_symbol(draws.choice("PNBRQKpnbrqk"))
            board.set_piece_at(draws.randrange(64), draws.choice([None, piece]))
        fields = board.fen(en_passant="fen").split()
        if draws.random() < 0.3:
            fields[1] = draws.choice("wb")
        if draws.random() < 0.3:
            fields[3] = draws.choice("abcdefgh") + draws.choice("36")
        yield " ".join(fields)


def fens_with_checks(draws):
    """Yields positions in which White is often in check, half of them after a double step."""
    for number in range(3000):
        board = chess.Board(None)
        file = draws.randrange(8)
        pawn = {chess.square(file, 4): chess.Piece.from_symbol("p")} if number % 2 else {}
        squares = draws.sample(range(64), 11)
        pieces = "Kk" + "".join(draws.choices("qrbnpQ", k=draws.randrange(1, 10)))
        placed = zip(squares, map(chess.Piece.from_symbol, pieces), strict=False)
        board.set_piece_map(dict(placed) | pawn)
        ep = chess.square_name(chess.square(file, 5)) if pawn else "-"
        yield f"{board.board_fen()} w - {ep} 0 1"


@pytest.mark.parametrize(
    ("make_fens", "seen"),
    [
        (changed_fens, (chess.STATUS_INVALID_EP_SQUARE, chess.STATUS_OPPOSITE_CHECK)),
        (fens_with_checks, (chess.STATUS_IMPOSSIBLE_CHECK, _TOO_MANY)),
    ],
)
def test_fen_validity_matches_python_chess(make_fens, seen):
    counts = collections.Counter()
    for fen in make_fens(random.Random(0)):
        status = chess.Board(fen).status()
        is_valid = status == chess.STATUS_VALID
        with contextlib.nullcontext() if is_valid else pytest.raises(ValueError, match="FEN"):
            games.read_fen(ENVS["chess"], fen)
        counts[status] += 1
    assert min(counts[chess.STATUS_VALID], counts.total() - counts[chess.STATUS_VALID]) > 150
    assert min(counts[status] for status in seen) > 10


def test_a_requested_position_with_too_many_checks_is_an_error():
    with (pathlib.Path(__file__).parents[1] / "cases" / "triple-check.jsonl").open("rb") as file:
        [question] = read_json_lines(file)
    errors = parse_lines(ENVS["chess"], [question]).errors
    assert "the pieces on d7, e2, f6, f7 give check" in errors[0]


@pytest.mark.parametrize("fen", ["4k3/8/8/8/4P3/8/8/4K3 b - e3", "4k3/8/8/8/4P3/8/8/4K3 b - -"])
def test_missing_counts_are_those_of_the_start(fen):
    """As in other programs, a move number of 0 counts as 1, and white space around is ignored."""
    texts = {f" {fen}\r\n": f"{fen} 0 1", f"{fen} 7": f"{fen} 7 1", f"{fen} 7 0": f"{fen} 7 1"}
    for given, all_fields in texts.items():
        position = games.read_fen(ENVS["chess"], given)
        assert games.write_fen(position) == all_fields
        assert position == games.read_fen(ENVS["chess"], all_fields)


@NAMES
@hypothesis.settings(max_examples=200)
@hypothesis.given(data=st.data())
def test_any_text_parses_or_raises_one_line(name, data):
    """Most texts are FENs with a change."""
    fen = data.draw(st.sampled_from(set_up(name)[0]))
    at = data.draw(st.integers(0, len(fen)))
    fen = fen[:at] + data.draw(st.text(max_size=2)) + fen[at + data.draw(st.integers(0, 2)) :]
    text = data.draw(st.just(fen) | st.text("pPkKqQ12358/ wb-e36") | st.none() | st.integers())
    try:
        position = games.read_fen(ENVS[name], text)
    except ValueError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 1000
    else:
        assert games.read_fen(ENVS[name], games.write_fen(position)) == position
