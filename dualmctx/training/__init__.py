"""Training: configuration, self-play, targets, replay buffer and learner.

`make_trainer` builds whole training runs. The other names are its parts, for loops of one's own:
docs/python.md has an example of each.
"""

from dualmctx.training.batch import TrainingBatch
from dualmctx.training.learner import (
    Learner,
    Losses,
    compute_losses,
    make_augment,
    make_learn,
    make_optimizer,
)
from dualmctx.training.replay import Replay, make_replay, make_training_batch
from dualmctx.training.selfplay import (
    SelfPlay,
    SelfPlayState,
    Trajectory,
    make_play,
    start_games,
)
from dualmctx.training.trainer import Trainer, TrainState, make_trainer

__all__ = (
    "Learner",
    "Losses",
    "Replay",
    "SelfPlay",
    "SelfPlayState",
    "TrainState",
    "Trainer",
    "TrainingBatch",
    "Trajectory",
    "compute_losses",
    "config",
    "make_augment",
    "make_learn",
    "make_optimizer",
    "make_play",
    "make_replay",
    "make_trainer",
    "make_training_batch",
    "presets",
    "start_games",
    "trainer",
)
