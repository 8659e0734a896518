"""The optimiser of the stages supervised and value."""

import optax

from dualmctx.pipeline.options import SupervisedOptions, ValueOptions
from dualmctx.training.learner import Learner, make_optimizer


def make_stage_optimizer(options: SupervisedOptions | ValueOptions) -> optax.GradientTransformation:
    """Returns the optimiser of self-play training, with the schedule of a whole stage.

    It is AdamW with clipped gradients, a linear warm-up and a cosine decay over all
    `num_iterations * num_updates` steps.
    """
    learner = Learner(
        learning_rate=options.learning_rate,
        warmup_steps=options.warmup_steps,
        weight_decay=options.weight_decay,
    )
    return make_optimizer(learner, options.num_iterations * options.num_updates)
