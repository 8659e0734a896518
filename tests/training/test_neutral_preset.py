"""Training on games without a preset: the neutral configuration and how it is chosen."""

import dataclasses

import pytest

import games
from broken_games import change_step
from dualmctx.commands.main import main
from dualmctx.training.neutral_preset import GameSize, measure_game, neutral_preset
from dualmctx.training.presets import PRESETS
from untrained import parse_train

OWN = "double_move:DoubleMoveNim"


def size_of(**changes):
    size = GameSize(9, (3, 3, 2), 18, 7.5, 9, 1)
    return size._replace(**changes)


@pytest.mark.slow
def test_random_games_are_measured():
    size = measure_game(games.make("connect2"))
    # A game ends with two adjacent stones of one player or a full board: after 3 or 4 plies.
    assert size.max_plies == 4
    assert 3 < size.mean_plies < 4
    assert (size.num_actions, size.observation_shape, size.observation_bytes) == (4, (8,), 8)
    assert size.num_symmetries == 2


def test_a_game_that_cannot_be_compiled_is_refused():
    broken = change_step(lambda before, action, after: after if after.stones else before)
    with pytest.raises(ValueError, match=r"cannot be trained: JAX cannot trace step.*check-game"):
        measure_game(broken)


def test_the_message_leaves_out_the_network_of_the_preset_if_the_user_has_one(capsys):
    own = [f"--game={OWN}", "--network", "own_networks:make_dense", "--print-config"]
    assert main(["train", *own]) == 0
    message = capsys.readouterr().err
    assert "has no preset; a neutral one is used" in message
    assert "blocks of width" not in message


CHESS = {"num_actions": 4672, "observation_shape": (8, 8, 119), "observation_bytes": 30464}


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (size_of(mean_plies=8), ("mlp", None, False, 8)),
        (size_of(**CHESS, mean_plies=99), ("auto", 64, False, 32)),
        (
            size_of(observation_shape=(10**6,), observation_bytes=4 * 10**6, num_symmetries=8),
            ("mlp", None, True, 8),
        ),
        (size_of(observation_shape=(), mean_plies=2), ("mlp", None, False, 8)),
    ],
)
def test_every_size_gives_a_valid_configuration(size, expected):
    config = neutral_preset("any:game", size)
    added = config.selfplay.num_games * config.selfplay.num_steps
    assert config.learner.capacity >= max(added, config.learner.batch_size)
    position = size.observation_bytes + 5 * size.num_actions
    assert config.learner.capacity <= 2 * added or config.learner.capacity * position <= 2**28
    assert config.selfplay.temperature_plies >= 4
    children, steps = config.search.execution.max_children, config.selfplay.num_steps
    assert (config.network.trunk, children, config.learner.augment, steps) == expected


@pytest.mark.slow
def test_a_game_of_its_own_is_named_without_a_preset(capsys):
    arguments = ["--game", OWN, "--game-parameters", "pile", "5", "--seed", "3"]
    name, config = parse_train(arguments)
    assert (name, config.game) == ("double-move-DoubleMoveNim", OWN)
    assert config.game_parameters == {"pile": 5}
    assert config.seed == 3
    said = capsys.readouterr().err
    assert f"{OWN} has no preset; a neutral one is used for 2 actions, observations of 6" in said
    # The same configuration again, for --resume; flags change it; the order does not matter.
    changed = parse_train(["--num-iterations", "7", f"--game={OWN}", *arguments[2:]])[1]
    assert changed == dataclasses.replace(config, num_iterations=7)


def test_a_game_of_the_package_has_its_preset_or_a_neutral_one(capsys):
    assert parse_train(["--game", "tic_tac_toe"]) == ("tic-tac-toe", PRESETS["tic-tac-toe"])
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--game", "no_such_module:make"], "there is no module 'no_such_module'"),
        (["--game", OWN, "--game-parameters", "pile", "1"], "random games have at most 1 plies"),
        (["--game", OWN, "--coordinator", "auto"], "before the processes of --coordinator"),
        (["--game", "broken_games:Hidden"], "the observation does not determine the position"),
        ([OWN], "other games are named with --game"),
    ],
)
def test_bad_games_are_refused_with_a_message(arguments, message, capsys):
    assert main(["train", *arguments]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert message in errors[0]
