"""Move notation of each game, and replay of histories."""

import functools

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

import games
from dualmctx.matches.openings import play_randomly
from games.records import split_transcript

CHESS = ("chess", "gardner_chess")
OTHERS = [name for name in games.available() if name not in CHESS]
# Shogi, which has 2187 actions, names them as animal shogi does.
QUICK = [x for x in OTHERS if x != "shogi"]
env_of = functools.cache(games.make)


@functools.cache
def num_actions(name):
    state = jax.eval_shape(env_of(name).init, jax.random.PRNGKey(0))
    return state.legal_action_mask.shape[0]


@pytest.mark.parametrize("name", QUICK)
def test_action_names_are_unique(name):
    env, actions = env_of(name), list(range(num_actions(name)))
    names = games.format_moves(env, None, actions)
    assert len(set(names)) == len(names)
    assert games.parse_moves(env, names) == actions
    assert games.parse_moves(env, " ".join(names)) == actions
    assert games.parse_moves(env, ", ".join(names)) == actions
    assert games.parse_moves(env, [name.upper() for name in names]) == actions
    assert games.parse_moves(env, actions) == actions
    assert [games.format_action(env, None, np.int32(a)) for a in actions] == names


@pytest.mark.parametrize("name", ["othello", "hex", "tic_tac_toe", "connect_four"])
def test_names_match_openspiel(name):
    """Returns OpenSpiel's names; actions are numbered as in pgx (`test_games_openspiel.py`)."""
    pyspiel = pytest.importorskip("pyspiel")
    game = pyspiel.load_game(name)
    state, count = game.new_initial_state(), num_actions(name)
    ours = games.format_moves(env_of(name), None, range(count))
    for action, text in enumerate(ours[:-1] if name in ("othello", "hex") else ours):
        theirs = state.action_to_string(0, action)
        if name == "tic_tac_toe":
            row, column = theirs.strip("x()").split(",")
            theirs = str(3 * int(row) + int(column) + 1)
        elif name == "connect_four":
            theirs = str(int(theirs.strip("x")) + 1)
        assert text == theirs
    last = {"othello": "pass", "hex": "swap", "tic_tac_toe": "9", "connect_four": "7"}
    assert ours[-1] == last[name]


def test_names_of_larger_boards():
    go = games.format_moves(env_of("go_19x19"), None, [0, 8, 18, 342, 360, 361])
    assert go == ["A19", "J19", "T19", "A1", "T1", "pass"]
    wide = games.make("hex", size=28)
    assert games.format_moves(wide, None, [0, 25, 26, 27, 28, 784]) == (
        ["a1", "z1", "aa1", "ab1", "a2", "swap"]
    )


@pytest.mark.parametrize(
    ("name", "moves", "actions"),
    [
        ("hsr", "8 no-break 4 break", [7, 16, 3, 15]),
        ("hsr", ["8", "No  break", 3, "break"], [7, 16, 3, 15]),
        ("nim", "3,1 , 2", [2, 0, 1]),
        # Digits, and squares of Othello, need no separators.
        ("connect_four", "4453", [3, 3, 4, 2]),
        ("othello", "f5D6c3d3", [37, 43, 18, 19]),
        ("connect2", "23", [1, 2]),
        *((name, x, []) for name, x in (("connect_four", ""), ("nim", []), ("gardner_chess", ""))),
    ],
)
def test_moves_are_parsed(name, moves, actions):
    assert games.parse_moves(env_of(name), moves) == actions


@pytest.mark.slow
def test_forced_passes_are_added_to_transcripts():
    env = games.make("othello")
    keys = jax.random.split(jax.random.PRNGKey(0), 8)
    play = jax.jit(functools.partial(play_randomly, env, lengths=(70,)))
    passes = 0
    for row in play(keys)[0].tolist():
        actions = [action for action in row if action >= 0]
        # The last pass of a game without further moves is not forced by a later move.
        while actions[-1] == 64:
            actions.pop()
        names = games.format_moves(env, None, actions)
        passes += names.count("pass")
        squares = "".join(name for name in names if name != "pass")
        assert games.parse_moves(env, squares) == actions
        assert games.parse_moves(env, "".join(names)) == actions
    assert passes > 2


def test_a_pass_that_is_not_forced_stays_and_other_text_is_no_transcript():
    assert split_transcript("f5PASS") == ["f5", "pass"]
    # After f5, White may not play a1, but must play something.
    assert split_transcript("f5a1") == ["f5", "a1"]
    assert split_transcript("f5 d6") is split_transcript("f9") is split_transcript("") is None


LINE = "a2a4 b7b5 a4b5 a7a6 b5a6 c8b7 a6b7 h7h6 b7a8"


@pytest.mark.parametrize(
    ("name", "moves", "reason"),
    [
        ("connect_four", "4480", "move 3, '8', is not a move of connect_four: write one of 1, 2 …"),
        ("connect_four", "４", "is not a move of connect_four"),
        ("connect_four", [3, 7], "move 2, 7, is not an action: pass text, or a number from 0 to"),
        *(("connect_four", [x], f"move 1, {x}, is not an action") for x in (-1, True, 3.0)),
        ("connect_four", None, "moves=None: pass a list of moves, or text."),
        ("othello", "d3,,c4", "move 2, '', is not a move of othello: write one of a1, b1 … pass."),
        ("hex", "\\u212a1", "is not a move of hex"),
        ("go_9x9", "I5", "is not a move of go_9x9: write one of A9, B9 … pass."),
        ("chess", "4453", "is not a move of chess: write UCI, such as e2e4 or e7e8q, or SAN, such"),
        ("chess", "e2e4 Nf5", "move 2, 'Nf5', is not possible: no knight can move to f5."),
        ("chess", "e2b4", "is not a move of chess"),
        ("chess", "e2e4q", "move 1, 'e2e4q', is not a promotion: write e2e4."),
        ("chess", "e7e8rq", "is not a move of chess"),
        (
            "chess",
            LINE,
            "move 9, 'b7a8', is a pawn's promotion: write b7a8q, b7a8r, b7a8b or b7a8n.",
        ),
        ("gardner_chess", "f2f3", "is not a move of gardner_chess"),
    ],
)
def test_invalid_move_raises(name, moves, reason):
    with pytest.raises(ValueError, match=r"^[^\n]{1,250}$") as caught:
        games.parse_moves(env_of(name), moves)
    assert reason in str(caught.value)


def test_invalid_action_raises():
    with pytest.raises(ValueError, match="move 2, 7, is not an action: pass text, or a number"):
        games.format_moves(env_of("connect_four"), None, [0, 7])
    with pytest.raises(ValueError, match="0, is not a move of chess: it leads off the board"):
        games.format_action(env_of("chess"), None, 0)


def test_promotions_are_tracked_through_captures_and_castling():
    """The line contains captures, en passant, castling and promotions."""
    env, line = env_of("chess"), "e2e4 f7f5 g1f3 f5f4 f1c4 g7g5 e1g1 g5g4 f3e1 g4g3 e1f3 g3f2 g1h1"
    with pytest.raises(ValueError, match="move 14, 'f2g1', is a pawn's promotion"):
        games.parse_moves(env, line + " f2g1")
    with pytest.raises(ValueError, match="move 14, 'f8g7q', is not a promotion"):
        games.parse_moves(env, line + " f8g7q")
    line = "e2e4 a7a6 e4e5 d7d5 e5d6 a6a5 d6c7 a5a4 c7d8n a4a3 d8b7 c8d7 b7d6 e7d6 d1e2 d7e6"
    assert games.format_moves(env, None, games.parse_moves(env, line)) == line.split()


FUZZED = st.text() | st.text("abchAK129 ,-qpsw\x00é\n") | st.lists(st.integers() | st.text())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hsr", "othello", "chess"])
@hypothesis.settings(max_examples=60)
@hypothesis.given(data=st.data())
def test_arbitrary_moves_parse_or_raise_one_line(name, data):
    moves = data.draw(FUZZED | st.floats() | st.dictionaries(st.text(), st.none()))
    message, actions = "", []
    try:
        actions = games.parse_moves(env_of(name), moves)
    except ValueError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 300
    assert all(0 <= action < num_actions(name) for action in actions)


def test_moves_of_many_positions_have_fixed_names():
    env, draws = env_of("connect_four"), np.random.default_rng(0)
    names = games.format_moves(env, None, range(7))
    lines = draws.integers(0, len(names), (5, 6))
    lines[1, 2:], lines[3] = -1, -1
    contexts = games.move_contexts(env, None)
    texts = games.format_lines(env, contexts, lines)
    assert texts == [[names[action] for action in line if action >= 0] for line in lines]
    assert games.format_actions(env, contexts, np.arange(5), lines[:, 0] * 0) == [names[0]] * 5


# Promotions of White and Black, captures, castling and en passant are legal in some of them.
FENS = {
    "chess": (
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        "1n2k2r/P5P1/8/3pP3/8/8/p5p1/1N2K2R w Kk d6 0 9",
        "1n2k2r/8/8/3pP3/8/8/p5p1/1N2K2R b Kk - 0 9",
    ),
    "gardner_chess": (
        "rnbqk/ppppp/5/PPPPP/RNBQK w - - 0 1",
        "1n2k/P1P2/5/p1p2/1N2K w - - 0 9",
        "1n2k/5/5/p1p2/1N2K b - - 0 9",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHESS)
def test_moves_of_many_positions_match_single_positions(name):
    env = env_of(name)
    positions = [games.read_fen(env, fen) for fen in FENS[name]]
    states = games.set_up(env, positions)
    contexts = games.move_contexts(env, states)
    rows, actions = np.nonzero(np.asarray(states.legal_action_mask))
    expected = [
        games.format_action(env, positions[row], action)
        for row, action in zip(rows, actions, strict=True)
    ]
    assert games.format_actions(env, contexts, rows, actions) == expected
    assert {"q", "n"} <= {text[4:] for text in expected}
    # The first actions of a position, one after the other, as a line.
    lines = np.stack([actions[rows == row][:5] for row in range(len(positions))])
    lines[0, 3:] = -1
    assert games.format_lines(env, contexts, lines) == [
        games.format_moves(env, start, line[line >= 0])
        for start, line in zip(positions, lines, strict=True)
    ]


def test_replay_finds_the_first_illegal_action():
    env = env_of("connect2")
    histories = [
        [1, 3, -1, -1, -1],  # legal, not over
        [0, 2, 1, -1, -1],  # won
        [0, 2, 1, 3, -1],  # continues after the end
        [0, 0, 1, 2, -1],  # an occupied cell
        [4, 0, -1, -1, -1],  # not a cell
        [-1, 0, -1, -1, -1],  # empty history
        [0, 1, 2, 3, 3],  # continues after a full board
        [2, -5, 2, 2, 2],
    ]
    states, first_bad = games.replay_checked(env, np.array(histories))
    assert first_bad.dtype == np.int32
    assert first_bad.tolist() == [-1, -1, 3, 1, 0, -1, 4, -1]
    np.testing.assert_array_equal(states._step_count, [2, 3, 3, 1, 0, 0, 4, 1])
    np.testing.assert_array_equal(states.terminated, np.isin(range(8), [1, 2, 6]))
    winners = np.asarray(states.rewards).any(axis=1)
    np.testing.assert_array_equal(winners, np.isin(range(8), [1, 2]))
    expected = games.replay(env, np.array(histories))
    jax.tree.map(np.testing.assert_array_equal, states, expected)


def test_replay_from_given_states():
    env = env_of("connect2")
    starts, _ = games.replay_checked(env, [[0], [1], [-1]])
    states, first_bad = games.replay_checked(env, [[2, 1], [1, 0], [1, -1]], starts)
    assert first_bad.tolist() == [-1, 0, -1]
    whole, _ = games.replay_checked(env, [[0, 2, 1], [1, -1, -1], [1, -1, -1]])
    jax.tree.map(np.testing.assert_array_equal, states, whole)
    # No action is legal after the end of a game, although pgx's mask is then all true.
    again, first_bad = games.replay_checked(env, [[3, -1], [-1, 0], [0, -1]], states)
    assert first_bad.tolist() == [0, -1, -1]
    assert again._step_count.tolist() == [3, 1, 2]


def test_replay_checks_shapes():
    env = env_of("connect2")
    states, first_bad = games.replay_checked(env, np.zeros((0, 3), np.int32))
    assert first_bad.shape == states.current_player.shape == (0,)
    with pytest.raises(ValueError, match=r"starts of shape \(0,\) for 2 histories: pass one state"):
        games.replay_checked(env, [[0], [1]], states)
    with pytest.raises(ValueError, match="histories have different lengths: pad them with -1"):
        games.replay(env, [[0], [0, 1]])
    with pytest.raises(ValueError, match=r"pass \[S, D\] integers"):
        games.replay_checked(env, [[0.5]])
