"""The presets of `dualmctx train`: a configuration for each game, and those for GPUs."""

from dataclasses import replace

from dualmctx.policies import Dual, Execution, Gumbel
from dualmctx.training.config import Config, EvalConfig, NetworkOptions
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay

# The larger games, none of which has been trained with these presets.
_ON_A_GPU = Config(
    search=Dual(num_simulations=(128, 64), num_rounds=8),
    network=NetworkOptions(width=128, num_blocks=10, dtype="bfloat16", compact_states=True),
    selfplay=SelfPlay(num_games=2048, num_steps=32, temperature_plies=16, random_plies=8),
    learner=Learner(batch_size=4096, num_updates=32, capacity=1_048_576, augment=True),
    evals=EvalConfig(every=50),
    num_iterations=1000,
    checkpoint_every=50,
)

GPU_PRESETS: dict[str, Config] = {
    # One run took 276 s on one H100 (2026-11-27, JAX 0.11.2), while tests ran on the same GPU for
    # half of the time: docs/gpu.md, "Training".
    "connect-four-gpu": Config(
        game="connect_four",
        search=Gumbel(num_simulations=32),
        network=NetworkOptions(trunk="mlp", width=1024, num_blocks=3, dtype="bfloat16"),
        selfplay=SelfPlay(num_games=4096, num_steps=16, temperature_plies=12, random_plies=12),
        learner=Learner(
            learning_rate=2e-3,
            search_value_weight=0.5,
            batch_size=4096,
            num_updates=128,
            capacity=4_194_304,
            augment=True,
        ),
        evals=EvalConfig(every=100),
        num_iterations=700,
        checkpoint_every=100,
    ),
    "othello-gpu": replace(
        _ON_A_GPU,
        game="othello",
        network=NetworkOptions(width=128, num_blocks=8, dtype="bfloat16"),
    ),
    # Openings as in the preset go-9x9. Resignation, because most moves of a game come after it is
    # decided; the metrics count its errors.
    "go-9x9-gpu": replace(
        _ON_A_GPU,
        game="go_9x9",
        selfplay=replace(
            _ON_A_GPU.selfplay, temperature_plies=100, random_plies=100, resign_below=-0.95
        ),
    ),
    # All children, of 1,225 actions. A position takes 17 kB of the buffer.
    "gardner-chess-gpu": replace(
        _ON_A_GPU,
        game="gardner_chess",
        learner=replace(_ON_A_GPU.learner, augment=False),
        checkpoint_every=100,
    ),
    # A position takes 54 kB of the buffer, which holds the positions of eight iterations, as in the
    # preset chess.
    "chess-gpu": replace(
        _ON_A_GPU,
        game="chess",
        search=Dual(num_simulations=(128, 64), num_rounds=8, execution=Execution(max_children=128)),
        network=NetworkOptions(width=256, num_blocks=20, dtype="bfloat16", compact_states=True),
        selfplay=SelfPlay(num_games=2048, num_steps=16, temperature_plies=20, random_plies=16),
        learner=Learner(batch_size=1024, num_updates=32, capacity=262_144),
        num_iterations=4000,
        checkpoint_every=100,
    ),
}


# The larger games: progress on two CPU cores within ten minutes. Strong play needs a GPU with at
# least 128 features, hundreds of simulations, hundreds of parallel games, and a buffer of a million
# positions, as in `GPU_PRESETS`. The comments on each game add its own needs.
_LARGE = Config(
    search=Dual(num_simulations=(16, 8), num_rounds=4),
    network=NetworkOptions(width=32),
    selfplay=SelfPlay(num_games=32, num_steps=32, temperature_plies=16, random_plies=8),
    learner=Learner(learning_rate=2e-3, batch_size=128, capacity=32_768),
    evals=EvalConfig(every=20, num_games=32),
    num_iterations=100,
)

# The learner of the presets that become strong within an hour on two CPU cores.
_ONE_HOUR = Learner(
    learning_rate=2e-3,
    search_value_weight=0.5,
    batch_size=1024,
    num_updates=48,
    capacity=524_288,
    augment=True,
)

PRESETS: dict[str, Config] = {
    # Learns perfect play within seconds.
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
    # Learns optimal play within seconds and exact values within a minute.
    "hsr": Config(
        game="hsr",
        selfplay=SelfPlay(num_games=128, num_steps=8, temperature_plies=8, random_plies=6),
        learner=Learner(learning_rate=2e-3, capacity=16_384),
        evals=EvalConfig(every=5),
        num_iterations=100,
    ),
    "tic-tac-toe": Config(
        game="tic_tac_toe",
        # On a board this small, dense layers are faster and learn as well.
        network=NetworkOptions(trunk="mlp"),
        selfplay=SelfPlay(num_games=256, num_steps=8, temperature_plies=6, random_plies=6),
        learner=Learner(learning_rate=2e-3, capacity=32_768, num_updates=32),
        evals=EvalConfig(every=10, stop_when_solved=2),
        num_iterations=60,
    ),
    # Strength after one hour: docs/results.md, "strength". The network has wide dense layers
    # and few of them, because the number of positions and optimiser steps in that time matters
    # most.
    "connect-four": Config(
        game="connect_four",
        search=Gumbel(num_simulations=16),
        network=NetworkOptions(trunk="mlp", width=256, num_blocks=2),
        selfplay=SelfPlay(num_games=512, num_steps=16, temperature_plies=12, random_plies=12),
        learner=_ONE_HOUR,
        evals=EvalConfig(every=100),
        num_iterations=1700,
        checkpoint_every=50,
    ),
    # Beats random play. The games of an engine are a much better start on a CPU: docs/results.md,
    # "opponents", which also has the strength of "hex" after one hour.
    "othello": replace(_LARGE, game="othello"),
    # On 7x7. The usual 11x11 needs more blocks, because a chain may cross the whole board.
    "hex": Config(
        game="hex",
        game_parameters={"size": 7},
        search=Gumbel(num_simulations=32),
        network=NetworkOptions(trunk="mlp", width=384, num_blocks=3),
        selfplay=SelfPlay(num_games=512, num_steps=16, temperature_plies=12, random_plies=6),
        learner=replace(_ONE_HOUR, num_updates=32, capacity=262_144),
        evals=EvalConfig(every=50, num_games=20),
        num_iterations=300,
    ),
    # Up to 100 random plies start a game, and all moves are sampled. With best moves from ply 16
    # on, a losing player may pass, games end early, and the network loses to random play. Strong
    # play needs at least ten blocks, and resignation, because most moves of a game come after it is
    # decided.
    "go-9x9": replace(
        _LARGE,
        game="go_9x9",
        network=NetworkOptions(width=32, compact_states=True),
        selfplay=replace(_LARGE.selfplay, temperature_plies=100, random_plies=100),
        learner=replace(_LARGE.learner, capacity=16_384),
        evals=EvalConfig(every=50, num_games=16),
    ),
    # A position takes 17 kB of the buffer. Strong play needs at least ten blocks and all children.
    "gardner-chess": replace(
        _LARGE,
        game="gardner_chess",
        search=Dual(num_simulations=(16, 8), num_rounds=4, execution=Execution(max_children=32)),
        network=NetworkOptions(width=32, num_blocks=2, compact_states=True),
        learner=replace(_LARGE.learner, capacity=8_192),
        evals=EvalConfig(every=50, num_games=16),
    ),
    # A position takes 54 kB of the buffer, and most games end in a draw by the move limit. Strong
    # play needs twenty blocks of 256 features, 128 children, and millions of games.
    "chess": replace(
        _LARGE,
        game="chess",
        search=Dual(num_simulations=(12, 6), num_rounds=3, execution=Execution(max_children=64)),
        network=NetworkOptions(width=32, num_blocks=2, compact_states=True),
        selfplay=SelfPlay(num_games=16, num_steps=32, temperature_plies=20, random_plies=16),
        learner=Learner(learning_rate=2e-3, num_updates=8, batch_size=64, capacity=4_096),
        evals=EvalConfig(every=0, num_games=8),
        num_iterations=60,
    ),
} | GPU_PRESETS
