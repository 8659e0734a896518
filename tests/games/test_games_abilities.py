"""Optional abilities of a user's game: the same service as for the games of the package."""

import time

import jax
import numpy as np
import pytest

import games
from double_move import DoubleMoveNim, solve_double_move
from games.exploration import explore
from games.own_game import OwnGame


class WithCode(DoubleMoveNim):
    """The test game, which numbers its positions; the code has the player who moves."""

    @property
    def num_codes(self):
        return 2 * (self.game.pile + 1)

    def position_code(self, state):
        return 2 * state._x.pile + state._x.color


def test_a_game_with_two_moves_in_a_row_is_solved():
    env, solved = WithCode(pile=12), solve_double_move(12)
    assert games.is_solvable(env)
    solution = games.solve(env)
    for code, value, best in zip(
        solution.codes, solution.values, solution.optimal_actions, strict=True
    ):
        assert (value, frozenset(np.flatnonzero(best).tolist())) == solved[code // 2]
    player = games.perfect_player(env)
    state = env.init(jax.random.PRNGKey(0))
    assert int(player(jax.random.PRNGKey(1), state)) in solved[12][1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "num_codes", "message"),
    [
        (lambda state: state._x.pile // 2, 9, "position_code is 0 for two positions"),
        (lambda state: 2 * state._x.pile + state._x.color, 8, "code 1[0-9]; codes must be from 0"),
        (lambda state: -1 - state._x.pile, 9, "code -[0-9]"),
        # The code of the start alone.
        (lambda state: state._x.pile, 8, "code 8; codes must be from 0"),
    ],
)
def test_wrong_codes_are_refused(code, num_codes, message):
    parts = {"position_code": lambda self, state: code(state), "num_codes": num_codes}
    with pytest.raises(ValueError, match=message):
        games.solve(type("Wrong", (WithCode,), parts)(pile=8))


@pytest.mark.parametrize(
    ("num_codes", "problem"), [(None, "has no num_codes"), ("18", "has num_codes '18'")]
)
def test_codes_without_their_number_are_refused(num_codes, problem):
    message = f"game double_move has position_code but {problem}; give its environment the attri"
    env = type("Uncounted", (WithCode,), {"num_codes": num_codes})()
    with pytest.raises(ValueError, match=message):
        games.is_solvable(env)


def test_equal_codes_of_both_players_and_exploring_in_parts_give_the_same_values(monkeypatch):
    """The value of a pile does not depend on the player to move."""
    whole = games.solve(WithCode(pile=12))
    piles = {"position_code": lambda self, state: state._x.pile, "num_codes": 13}
    monkeypatch.setattr("games.exploration._CHUNK", 2)
    short = games.solve(type("WithPile", (WithCode,), piles)(pile=12))
    assert short.num_states == 13 < whole.num_states
    for code, value in zip(whole.codes, whole.values, strict=True):
        assert short.code_values[code // 2] == value
    again = explore(WithCode(pile=12))
    assert len(again) == whole.num_states


MODULE = """
import games

def make(pile=8):
    from double_move import DoubleMoveNim
    return DoubleMoveNim(pile=pile)

def move_names(env):
    return ["one", "Two"]

def symmetries(env):
    return [list(range(env.game.pile + 1))], [[0, 1]]

def from_fen(env, text):
    import jax
    state = next(env.init(jax.random.PRNGKey(seed)) for seed in range(9)
                 if int(env.init(jax.random.PRNGKey(seed)).current_player) == 0)
    if text != "after one":
        raise ValueError("not 'after one'")
    return env.step(state, 0)

def to_fen(env, state):
    return "after one"
"""


@pytest.fixture
def env(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "module_with_abilities.py").write_text(MODULE)
    return games.make("module_with_abilities:make", pile=8)


def test_the_module_of_a_game_may_have_the_abilities(env):
    assert isinstance(env, OwnGame)
    assert games.parse_moves(env, "ONE two one") == [0, 1, 0]
    assert games.format_moves(env, None, [1, 0]) == ["Two", "one"]
    assert games.symmetries(env).observation.tolist() == [list(range(9))]
    assert games.has_fen(env)
    assert not games.is_chess(env)
    assert not games.is_solvable(env)
    state = games.from_fen(env, "after one")
    assert int(state._x.pile) == 7
    assert games.to_fen(env, state) == "after one"
    starts = games.set_up(env, [games.start_position(env), state])
    assert starts._x.pile.tolist() == [8, 7]
    assert starts.current_player.tolist() == [0, 1]
    states, bad = games.replay_checked(env, np.array([[0], [0]]), starts)
    assert (states._x.pile.tolist(), bad.tolist()) == ([7, 6], [-1, -1])
    with pytest.raises(ValueError, match="FEN 'elsewhere' of module_with_abilities:make: not 'aft"):
        games.read_fen(env, "elsewhere")
    assert int(games.read_fen(env, " after one\r\n")._x.pile) == 7
    for end in "\r\n\v\u0085\u2028":
        with pytest.raises(ValueError, match="has a line break; write it in one line"):
            games.read_fen(env, f"after{end}one")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "returns 1 names for 2 actions"),
        (["a", "A"], "the name 'a' twice"),
        (["a", "b c"], "the name 'b c'; a name is ASCII text without spaces"),
        (["a", 3], "the name 3"),
    ],
)
def test_wrong_names_are_refused(names, message):
    env = type("Named", (DoubleMoveNim,), {"move_names": lambda self: names})()
    with pytest.raises(ValueError, match=message):
        games.parse_moves(env, "a")


def test_many_names_are_checked_in_linear_time():
    env, begin = games.make("nim", max_take=50_000), time.process_time()
    assert games.parse_moves(env, "5") == [4]
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (([[0] * 9], [[0, 1]]), "a row of observation is no permutation"),
        (([list(range(9))], [[1, 0]]), "row 0 of action must be the identity"),
        (([list(range(8))], [[0, 1]]), r"observation of shape \(1, 8\); it must be \[1, 9\]"),
    ],
)
def test_wrong_symmetries_are_refused(tables, message):
    env = type("Turned", (DoubleMoveNim,), {"symmetries": lambda self: tables})()
    with pytest.raises(ValueError, match=message):
        games.symmetries(env)


def test_an_error_inside_an_ability_is_located():
    env = type("Failing", (DoubleMoveNim,), {"move_names": lambda self: 1 / 0})()
    with pytest.raises(ValueError, match=r"move_names of game double_move raised ZeroDiv.*line"):
        games.parse_moves(env, "a")
