"""The configurations of the stages: every field is a flag of `dualmctx train --pipeline STAGE`."""

import dataclasses
from typing import Any, TypeVar

from dualmctx.pipeline.options import (
    GamesOptions,
    PlayerOptions,
    ReinforceOptions,
    SupervisedOptions,
    ValueOptions,
)
from dualmctx.training.config import NetworkOptions, RunConfig
from dualmctx.training.presets import PRESETS


@dataclasses.dataclass(frozen=True)
class SupervisedConfig(RunConfig):
    """The supervised stage: the policy network and the rollout policy, from games of others."""

    dataset: str | None = None
    """The folder of a data set of `dualmctx dataset`; required."""
    init_from: str | None = None
    """Start from the parameters of an earlier run. Its network must have the same --network
    options. By default the parameters are random. FOLDER@ITERATION names an earlier checkpoint."""
    network: NetworkOptions = dataclasses.field(default_factory=NetworkOptions)
    """Options of the network."""
    supervised: SupervisedOptions = dataclasses.field(default_factory=SupervisedOptions)
    """Options of the stage."""


@dataclasses.dataclass(frozen=True)
class ReinforceConfig(RunConfig):
    """The policy network by reinforcement, from the supervised one."""

    init_from: str | None = None
    """The run of the supervised stage; required. FOLDER@ITERATION names an earlier checkpoint."""
    reinforce: ReinforceOptions = dataclasses.field(default_factory=ReinforceOptions)
    """Options of the stage."""


@dataclasses.dataclass(frozen=True)
class ValueConfig(RunConfig):
    """The value network, from games of the reinforced policy."""

    init_from: str | None = None
    """The run of the stage reinforce, whose policy plays the games; required. FOLDER@ITERATION
    names an earlier checkpoint."""
    supervised: str | None = None
    """The run of the supervised stage, whose policy plays the first moves of each game;
    required."""
    value: ValueOptions = dataclasses.field(default_factory=ValueOptions)
    """Options of the stage."""


@dataclasses.dataclass(frozen=True)
class PlayerConfig(RunConfig):
    """The player: the policy, the rollout policy and the value network together."""

    supervised: str | None = None
    """The run of the supervised stage, for the policy and the rollout policy; required."""
    value: str | None = None
    """The run of the value stage, for the value network; required."""
    reinforced: str | None = None
    """The run of the stage reinforce; required with --player.prior reinforced."""
    opponent: str | None = None
    """Another player for the match, with AlphaZero's search: the folder of a run, an exported
    .safetensors file, or the name of a network shipped with dualmctx."""
    player: PlayerOptions = dataclasses.field(default_factory=PlayerOptions)
    """Options of the stage."""


@dataclasses.dataclass(frozen=True)
class AlphaGoConfig(RunConfig):
    """The whole pipeline: all stages, one after another, each in a folder of its own."""

    dataset: str | None = None
    """The folder of a data set; by default one is made, with the options of games."""
    opponent: str | None = None
    """Another player for the match, with AlphaZero's search: the folder of a run, an exported
    .safetensors file, or the name of a network shipped with dualmctx."""
    network: NetworkOptions = dataclasses.field(default_factory=NetworkOptions)
    """Options of the network."""
    games: GamesOptions = dataclasses.field(default_factory=GamesOptions)
    """Options of the games of the data set, if none is named."""
    supervised: SupervisedOptions = dataclasses.field(default_factory=SupervisedOptions)
    """Options of the supervised stage."""
    reinforce: ReinforceOptions = dataclasses.field(default_factory=ReinforceOptions)
    """Options of the policy by reinforcement."""
    value: ValueOptions = dataclasses.field(default_factory=ValueOptions)
    """Options of the value network."""
    player: PlayerOptions = dataclasses.field(default_factory=PlayerOptions)
    """Options of the player and of its match."""


C = TypeVar("C", bound=RunConfig)


def config_of_stage(config: AlphaGoConfig, kind: type[C], **changes: Any) -> C:
    """Returns the configuration of one stage with the options of the pipeline and `changes`."""
    own = {x.name: x.type for x in dataclasses.fields(kind)}
    # Some options of the pipeline have the name of an input of a later stage, such as `value`.
    shared = [x.name for x in dataclasses.fields(config) if own.get(x.name) == x.type]
    return kind(**{name: getattr(config, name) for name in shared} | changes)


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
