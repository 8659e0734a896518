"""Games from outside the package: by import path, and by entry point of another package."""

import sys

import jax
import numpy as np
import pytest

import games
from double_move import DoubleMoveNim
from games.records import is_go

PATH = "double_move:DoubleMoveNim"


def test_a_path_builds_the_game_with_its_parameters():
    env = games.make(PATH, pile=5)
    plain = DoubleMoveNim(pile=5)
    assert env.id == PATH
    assert (env.num_actions, env.observation_shape) == (2, (6,))
    assert env.num_players == 2
    assert dict(env.state_ranges) == {}
    one, other = (x.init(jax.random.PRNGKey(3)) for x in (env, plain))
    for action in (0, 1):
        one, other = env.step(one, action), plain.step(other, action)
        jax.tree.map(np.testing.assert_array_equal, one, other)
    np.testing.assert_array_equal(env.observe(one), one.observation)
    # A search stores states without observations; a later head evaluates them again.
    again = env.observe(one.replace(observation=None))
    np.testing.assert_array_equal(again, one.observation)
    assert not games.is_solvable(env)
    assert games.symmetries(env).action.tolist() == [[0, 1]]
    assert games.parse_moves(env, "1 0") == [1, 0]


def test_a_game_without_observe_says_so_where_a_search_needs_it():
    env = games.make("broken_games:Good")
    state = env.init(jax.random.PRNGKey(0))
    np.testing.assert_array_equal(env.observe(state), state.observation)
    with pytest.raises(ValueError, match=r"has no method observe.* alphazero"):
        env.observe(state.replace(observation=None))


@pytest.mark.slow
def test_a_game_of_three_players_is_refused(module):
    module.write_text("import pgx\ndef make():\n    return pgx.make('sparrow_mahjong')\n")
    with pytest.raises(ValueError, match=r"the game has 3 players.* exactly two players"):
        games.make(f"{module.stem}:make")


def test_nothing_of_the_package_is_applied_to_a_game_with_the_same_id(module):
    """A user's Othello may have other rules than the package's."""
    module.write_text("import pgx\ndef make():\n    return pgx.make('othello')\n")
    env = games.make(f"{module.stem}:make")
    assert env.id == f"{module.stem}:make"
    assert not is_go(env)
    assert len(games.symmetries(env).action) == 1
    assert games.format_moves(env, None, [19]) == ["19"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Returns the file of a module, to be written, with a name that no other test uses."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / f"go_{abs(hash(str(tmp_path)))}.py"
    yield file
    sys.modules.pop(file.stem, None)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def make():\n    return None", "the game, None, has no method init"),
        ("def make(size=1):\n    raise KeyError('board')", "raised KeyError: 'board' .*line 2"),
        (
            "class make:\n    step = print\n    def init(self, key):\n        return 1 / 0",
            "JAX cannot trace init: ZeroDivisionError: .*line 4",
        ),
        (
            "class make:\n    step = print\n    def init(self, key):\n        return key",
            "states lack current_player, observation",
        ),
    ],
)
def test_a_factory_that_builds_no_game_is_described(module, code, message):
    module.write_text(code)
    with pytest.raises(ValueError, match=message) as caught:
        games.make(f"{module.stem}:make")
    assert "\n" not in str(caught.value)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package with two games, one of them broken."""
    info = tmp_path / "some_games-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-games\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[dualmctx.games]\ndouble-move = double_move:DoubleMoveNim\n"
        "broken = no_such_module:make\nnim = no_such_module:make\n"
        "go-13x13 = double_move:DoubleMoveNim\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def test_an_installed_package_adds_games_by_entry_points(installed, tmp_path, monkeypatch):
    assert "double_move" in games.available()
    env = games.make("double-move", pile=4)
    assert env.id == games.make("double_move").id == "double_move"
    assert env.observation_shape == (5,)
    # Names of this package come first.
    assert games.make("nim").observation_shape == (21,)
    assert games.available().count("nim") == 1
    with pytest.raises(ValueError, match=r"no game 'go_13x13': .* Go are not here; .* its path\.$"):
        games.make("go_13x13")
    # A file of the current folder may be a stranger's, and nobody has named it.
    (folder := tmp_path / "folder").mkdir()
    for name in ("named_module", "no_such_module"):
        (folder / f"{name}.py").write_text("from double_move import DoubleMoveNim as make")
    monkeypatch.chdir(folder)
    games.make("named_module:make")
    assert str(folder) == sys.path[-1]
    with pytest.raises(ValueError, match=r"no module 'no_such_module' among.*package some-games"):
        games.make("broken")
    assert str(folder) == sys.path[-1]


def test_a_missing_entry_point_names_the_remedy():
    with pytest.raises(ValueError, match=r"no game 'double_move': .* install that package"):
        games.make("double_move")
