"""Training from the games of a data set: the positions of the iterations, and held-out scores."""

from pathlib import Path
from typing import NamedTuple

import chex
import numpy as np

from dualmctx.checks import check
from dualmctx.datasets.batch_feed import make_feed
from dualmctx.datasets.held_out import HeldOut, make_scorer, score_moves
from dualmctx.datasets.manifest import check_splits, dataset_digest
from dualmctx.errors import UserError
from dualmctx.experiment.evals import EvalFn
from dualmctx.experiment.report import NETWORK, VALIDATION
from dualmctx.training.batch import GIVEN_AHEAD, PositionsFn, TrainingBatch
from dualmctx.training.config import Config
from dualmctx.types import Environment, Params, PolicyValueNetwork


class LearnedGames(NamedTuple):
    """The data set of a run, which is learned in place of self-play.

    Attributes:
      digest: identifies its content.
      epochs: how often the run reads each position, on average.
      about: a line for the user.
      positions: the positions of each iteration.
      eval_fn: the eval during training, on a sample of the split for validation.
      final_eval_fn: the eval at the end, on the whole split.
    """

    digest: str
    epochs: float
    about: str
    positions: PositionsFn
    eval_fn: EvalFn
    final_eval_fn: EvalFn


def open_games(config: Config, env: Environment, network: PolicyValueNetwork) -> LearnedGames:
    """Opens the data set of a run, `config.dataset`.

    Iteration n learns batch n of successive epochs, so a resumed run goes on with the positions
    that follow. The learner applies the symmetries, as in self-play.

    Raises:
      UserError: if the data set is incomplete, of another game, merged, without positions for
        training or validation, or smaller than an iteration, or if a shard is missing.
    """
    folder, selfplay = Path(str(config.dataset)), config.selfplay
    try:
        train = check_splits(folder, env, ("train", VALIDATION)).splits["train"]
    except UserError as error:
        raise UserError(
            f"dataset is {folder}, which cannot be used: {error}; if it was moved, name its new "
            "folder by --dataset"
        ) from error
    remedy = "a data set without --merge, as equal positions are learned as often as they occur"
    check(train["rows"] == train["positions"], "dataset", folder, remedy)
    size = selfplay.num_games * selfplay.num_steps
    feed = make_feed(
        env,
        folder,
        batch_size=size,
        total=config.num_iterations,
        seed=config.seed,
        name="selfplay.num_games * selfplay.num_steps",
        ahead=GIVEN_AHEAD,
    )

    def positions(iteration: int) -> TrainingBatch:
        [batch] = feed.take(iteration, 1)
        return batch.positions

    epochs = config.num_iterations * size / train["rows"]
    return LearnedGames(
        digest=dataset_digest(folder),
        epochs=epochs,
        about=f"learning {train['rows']:,} positions of {train['games']:,} games, "
        f"each {epochs:.1f} times",
        positions=positions,
        eval_fn=make_held_out_eval(env, network, folder, config.evals.max_positions),
        final_eval_fn=make_held_out_eval(env, network, folder, None),
    )


def make_held_out_eval(
    env: Environment, network: PolicyValueNetwork, folder: Path, max_positions: int | None
) -> EvalFn:
    """Builds an eval of the final head on positions of games that are not learned.

    Args:
      env: the game.
      network: the network.
      folder: the folder of the data set.
      max_positions: the size of the sample that is scored; `None` for all positions.

    Returns:
      An eval with `validation/positions`, and with the means over them: `network_top1` and
      `network_top5`, the shares of the moves played that are the likeliest move and among the five
      likeliest ones; `network_loss`, their cross-entropy in nats; and `network_value_loss`, the
      squared error of the value where the result is known.
    """

    def score(params: Params, x: TrainingBatch) -> dict[str, chex.Array]:
        output = network.apply(params, x.observation)[-1]
        is_known = x.has_value.astype(np.float32)
        moves = score_moves(output.logits, x.legal_action_mask, x.policy)
        error = is_known * (x.value - output.value) ** 2
        return moves | {"known": is_known, "value_loss": error}

    score_all = make_scorer({NETWORK: score})
    held_out = HeldOut(env, folder, VALIDATION, limit=max_positions)

    def eval_fn(params: Params, rng_key: chex.PRNGKey) -> dict[str, float]:
        del rng_key
        row = score_all(params, held_out, VALIDATION)
        known = row.pop(f"{VALIDATION}/{NETWORK}_known")
        name = f"{VALIDATION}/{NETWORK}_value_loss"
        value_loss = row.pop(name)
        return row | ({name: value_loss / known} if known else {})

    return eval_fn
