"""The presets of `train.py`: a configuration for each game."""

import dataclasses

from dualmctx.policies import Dual, Execution, Gumbel
from dualmctx.training.config import Config, EvalConfig, NetworkOptions
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay

# What the larger games have in common.
_SHORT = Dual(num_simulations=(16, 8), num_rounds=4)
_LEARNER = Learner(learning_rate=2e-3, batch_size=128, capacity=32_768)

PRESETS: dict[str, Config] = {
    # Some seconds, and then perfect play.
    "connect2": Config(
        game="connect2",
        search=Dual(num_simulations=(16, 8), num_rounds=2),
        selfplay=SelfPlay(num_games=64, num_steps=8, temperature_plies=4, random_plies=2),
        learner=Learner(learning_rate=2e-3, batch_size=128, capacity=4096),
        evals=EvalConfig(every=5),
        num_iterations=30,
    ),
    "nim": Config(
        game="nim",
        selfplay=SelfPlay(num_games=128, num_steps=16, temperature_plies=8, random_plies=10),
        learner=Learner(learning_rate=2e-3, capacity=16_384),
        evals=EvalConfig(every=5, stop_when_solved=4),
        num_iterations=60,
    ),
    # Optimal play within seconds, right values within a minute.
    "hsr": Config(
        game="hsr",
        selfplay=SelfPlay(num_games=128, num_steps=8, temperature_plies=8, random_plies=6),
        learner=Learner(learning_rate=2e-3, capacity=16_384),
        evals=EvalConfig(every=5),
        num_iterations=100,
    ),
    "tic-tac-toe": Config(
        game="tic_tac_toe",
        # Dense layers: on a board this small they are faster and no worse.
        network=NetworkOptions(trunk="mlp"),
        selfplay=SelfPlay(num_games=256, num_steps=8, temperature_plies=6, random_plies=6),
        learner=Learner(learning_rate=2e-3, capacity=32_768, num_updates=32),
        evals=EvalConfig(every=10, stop_when_solved=2),
        num_iterations=60,
    ),
    # What it learns within an hour: benchmarks/README.md, "strength". Dense layers that are wide
    # rather than deep, as what counts is how many positions and optimiser steps the time allows.
    "connect-four": Config(
        game="connect_four",
        search=Gumbel(num_simulations=16),
        network=NetworkOptions(trunk="mlp", width=256, num_blocks=2),
        selfplay=SelfPlay(num_games=512, num_steps=16, temperature_plies=12, random_plies=12),
        learner=Learner(
            learning_rate=2e-3,
            search_value_weight=0.5,
            batch_size=1024,
            num_updates=48,
            capacity=524_288,
            augment=True,
        ),
        evals=EvalConfig(every=100),
        num_iterations=1700,
        checkpoint_every=50,
    ),
    # The larger games, small enough to learn something on two CPU cores within ten minutes. To play
    # well each needs a GPU, and there 128 features or more, hundreds of simulations, hundreds of
    # games side by side, and a buffer of a million positions; what else is said at each.
    #
    # Beats random play; to be strong: days of a GPU, and every symmetry of the board.
    "othello": Config(
        game="othello",
        search=_SHORT,
        network=NetworkOptions(width=32),
        selfplay=SelfPlay(num_games=32, num_steps=32, temperature_plies=16, random_plies=8),
        learner=_LEARNER,
        evals=EvalConfig(every=20, num_games=32),
        num_iterations=100,
    ),
    # On 7x7; to be strong on the usual 11x11: more blocks, as a chain may cross the whole board.
    "hex": Config(
        game="hex",
        game_parameters={"size": 7},
        search=_SHORT,
        network=NetworkOptions(width=32),
        selfplay=SelfPlay(num_games=32, num_steps=32, temperature_plies=10, random_plies=4),
        learner=_LEARNER,
        evals=EvalConfig(every=20, num_games=32),
        num_iterations=100,
    ),
    # Games begin nearly anywhere and moves are drawn throughout: with best moves from ply 16 on,
    # who has lost may as well pass, games end early, and what is learned loses to random play.
    # To be strong: ten blocks or more, and resignation, as most of a game is played when it is won.
    "go-9x9": Config(
        game="go_9x9",
        search=_SHORT,
        network=NetworkOptions(width=32, compact_states=True),
        selfplay=SelfPlay(num_games=32, num_steps=32, temperature_plies=100, random_plies=100),
        learner=dataclasses.replace(_LEARNER, capacity=16_384),
        evals=EvalConfig(every=50, num_games=16),
        num_iterations=100,
    ),
    # A position takes 17 kB of the buffer. To be strong: ten blocks or more, all children.
    "gardner-chess": Config(
        game="gardner_chess",
        search=dataclasses.replace(_SHORT, execution=Execution(max_children=32)),
        network=NetworkOptions(width=32, num_blocks=2, compact_states=True),
        selfplay=SelfPlay(num_games=32, num_steps=32, temperature_plies=16, random_plies=8),
        learner=dataclasses.replace(_LEARNER, capacity=8_192),
        evals=EvalConfig(every=50, num_games=16),
        num_iterations=100,
    ),
    # A position takes 54 kB of the buffer, and most games are drawn by their length. To be strong:
    # twenty blocks of 256 features, 128 children, and millions of games.
    "chess": Config(
        game="chess",
        search=Dual(num_simulations=(12, 6), num_rounds=3, execution=Execution(max_children=64)),
        network=NetworkOptions(width=32, num_blocks=2, compact_states=True),
        selfplay=SelfPlay(num_games=16, num_steps=32, temperature_plies=20, random_plies=16),
        learner=Learner(learning_rate=2e-3, num_updates=8, batch_size=64, capacity=4_096),
        evals=EvalConfig(every=0, num_games=8),
        num_iterations=60,
    ),
}
