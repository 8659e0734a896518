"""The presets of `train.py`: a configuration for each game."""

from dualmctx.config import Config, Exams, NetworkOptions
from dualmctx.learner import Learner
from dualmctx.policies import Dual
from dualmctx.selfplay import SelfPlay

PRESETS: dict[str, Config] = {
    # Some seconds, and then perfect play.
    "connect2": Config(
        game="connect2",
        search=Dual(num_simulations=(16, 8), num_rounds=2),
        selfplay=SelfPlay(num_games=64, num_steps=8, temperature_plies=4, random_plies=2),
        learner=Learner(learning_rate=2e-3, batch_size=128, capacity=4096),
        exams=Exams(every=5),
        num_iterations=30,
    ),
    "nim": Config(
        game="nim",
        selfplay=SelfPlay(num_games=128, num_steps=16, temperature_plies=8, random_plies=10),
        learner=Learner(learning_rate=2e-3, capacity=16_384),
        exams=Exams(every=5, stop_when_solved=4),
        num_iterations=60,
    ),
    # Optimal play within seconds, right values within a minute.
    "hsr": Config(
        game="hsr",
        selfplay=SelfPlay(num_games=128, num_steps=8, temperature_plies=8, random_plies=6),
        learner=Learner(learning_rate=2e-3, capacity=16_384),
        exams=Exams(every=5),
        num_iterations=100,
    ),
    "tic-tac-toe": Config(
        game="tic_tac_toe",
        # Dense layers: on a board this small they are faster and no worse.
        network=NetworkOptions(trunk="mlp"),
        selfplay=SelfPlay(num_games=256, num_steps=8, temperature_plies=6, random_plies=6),
        learner=Learner(learning_rate=2e-3, capacity=32_768, num_updates=32),
        exams=Exams(every=10, stop_when_solved=2),
        num_iterations=60,
    ),
    # The paper's network and budgets; beats uniform random play after a few minutes.
    "connect-four": Config(
        game="connect_four",
        selfplay=SelfPlay(num_games=32, num_steps=32, temperature_plies=12, random_plies=4),
        learner=Learner(num_updates=16, capacity=131_072),
        exams=Exams(every=10),
        num_iterations=400,
        checkpoint_every=5,
    ),
}
