"""The presets of `dualmctx train` for one GPU with 80 GB.

They differ from the presets of the same games for CPUs in size: thousands of games in parallel,
networks of the sizes that the comments in `presets` name, trunks in bfloat16, and hundreds of
simulations in the larger games. Except in Connect Four, a position is learned as often as in the
preset for CPUs. Each is predicted to need less than three quarters of 80 GB, the part of a GPU's
memory that JAX takes by default.
"""

from dualmctx.policies import Dual, Execution, Gumbel
from dualmctx.training.config import Config, EvalConfig, NetworkOptions
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay

# Used by the larger games, none of which has been trained with these presets.
_SEARCH = Dual(num_simulations=(128, 64), num_rounds=8)
_EVALS = EvalConfig(every=50)
# Of Go and Gardner chess.
_BOARD_NETWORK = NetworkOptions(width=128, num_blocks=10, dtype="bfloat16", compact_states=True)

GPU_PRESETS: dict[str, Config] = {
    # Plays 423,000 positions per second on one H100 (2026-11-23, JAX 0.11.2); 900 iterations of
    # self-play and learning took 356 s, so 700 take less than five minutes (computed).
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
    "othello-gpu": Config(
        game="othello",
        search=_SEARCH,
        network=NetworkOptions(width=128, num_blocks=8, dtype="bfloat16"),
        selfplay=SelfPlay(num_games=2048, num_steps=32, temperature_plies=16, random_plies=8),
        learner=Learner(batch_size=4096, num_updates=32, capacity=1_048_576, augment=True),
        evals=_EVALS,
        num_iterations=1000,
        checkpoint_every=50,
    ),
    # Openings as in the preset go-9x9. Resignation, because most moves of a game come after it is
    # decided; the metrics count its errors.
    "go-9x9-gpu": Config(
        game="go_9x9",
        search=_SEARCH,
        network=_BOARD_NETWORK,
        selfplay=SelfPlay(
            num_games=2048,
            num_steps=32,
            temperature_plies=100,
            random_plies=100,
            resign_below=-0.95,
        ),
        learner=Learner(batch_size=4096, num_updates=32, capacity=1_048_576, augment=True),
        evals=_EVALS,
        num_iterations=1000,
        checkpoint_every=50,
    ),
    # All children, of 1,225 actions. A position takes 17 kB of the buffer.
    "gardner-chess-gpu": Config(
        game="gardner_chess",
        search=_SEARCH,
        network=_BOARD_NETWORK,
        selfplay=SelfPlay(num_games=2048, num_steps=32, temperature_plies=16, random_plies=8),
        learner=Learner(batch_size=4096, num_updates=32, capacity=1_048_576),
        evals=_EVALS,
        num_iterations=1000,
        checkpoint_every=100,
    ),
    # A position takes 54 kB of the buffer, which holds the positions of eight iterations, as in the
    # preset chess.
    "chess-gpu": Config(
        game="chess",
        search=Dual(num_simulations=(128, 64), num_rounds=8, execution=Execution(max_children=128)),
        network=NetworkOptions(width=256, num_blocks=20, dtype="bfloat16", compact_states=True),
        selfplay=SelfPlay(num_games=2048, num_steps=16, temperature_plies=20, random_plies=16),
        learner=Learner(batch_size=1024, num_updates=32, capacity=262_144),
        evals=_EVALS,
        num_iterations=4000,
        checkpoint_every=100,
    ),
}
