"""The presets of the pipeline: a configuration of all stages for each game."""

import dataclasses

from dualmctx.pipeline.config import (
    AlphaGoConfig,
    GamesOptions,
    PlayerOptions,
    ReinforceOptions,
    SupervisedOptions,
    ValueOptions,
)
from dualmctx.training.config import NetworkOptions
from dualmctx.training.presets import PRESETS

PIPELINE_PRESETS: dict[str, AlphaGoConfig] = {
    "connect2": AlphaGoConfig(
        game="connect2",
        network=NetworkOptions(trunk="mlp", width=32, num_blocks=2),
        # The game has few different games; these give 13 positions for training.
        games=GamesOptions(
            engine="perfect",
            number=1000,
            opening_plies=(0, 1, 2),
            random_share=0.7,
            validation=0.15,
            test=0.15,
        ),
        supervised=SupervisedOptions(
            num_iterations=10, num_updates=20, batch_size=8, warmup_steps=20
        ),
        reinforce=ReinforceOptions(num_iterations=20, num_games=64, pool_every=5, eval_games=64),
        value=ValueOptions(
            num_games=1000, test_share=0.3, num_iterations=10, num_updates=20, batch_size=64
        ),
        player=PlayerOptions(num_simulations=16, num_games=16),
    ),
    # All stages in two minutes.
    "tic-tac-toe": AlphaGoConfig(
        game="tic_tac_toe",
        network=NetworkOptions(trunk="mlp", width=64, num_blocks=2),
        games=GamesOptions(
            number=2000, simulations=100, random_share=0.1, validation=0.1, test=0.1
        ),
        supervised=SupervisedOptions(num_iterations=20, num_updates=50),
        reinforce=ReinforceOptions(num_iterations=200, pool_every=10, eval_every=25, max_plies=9),
        value=ValueOptions(num_games=8000, num_iterations=15, num_updates=50, batch_size=128),
        player=PlayerOptions(num_simulations=32, num_games=40),
    ),
    "connect-four": AlphaGoConfig(
        game="connect_four",
        # As in self-play: wide dense layers and few of them. Two blocks of 16 convolutions predict
        # moves slightly better, and take about seven times as long (docs/pipeline.md).
        network=NetworkOptions(trunk="mlp", width=256, num_blocks=2),
        # Later iterations fit the training positions alone.
        supervised=SupervisedOptions(num_iterations=20),
        reinforce=ReinforceOptions(num_iterations=1000, pool_every=50, eval_every=50, max_plies=42),
        # With 50,000 games and 15 iterations, the held-out error is 0.88 instead of 0.80.
        value=ValueOptions(num_games=300_000, num_iterations=45),
    ),
}
"""Presets for games with a data set of a suitable size."""


def pipeline_preset(name: str) -> AlphaGoConfig | None:
    """Returns the preset of the pipeline for a game; `None` if there is none.

    For games that have only a preset of self-play, it is the game and the size of the network of
    that preset, with the default options of all stages.
    """
    if name in PIPELINE_PRESETS:
        return PIPELINE_PRESETS[name]
    if name not in PRESETS:
        return None
    preset = PRESETS[name]
    size = {x: getattr(preset.network, x) for x in ("trunk", "width", "num_blocks", "dtype")}
    network = dataclasses.replace(NetworkOptions(), **size)
    return AlphaGoConfig(game=preset.game, game_parameters=preset.game_parameters, network=network)
