"""Training from the games of a data set: the positions of the iterations, and held-out scores."""

import hashlib
from pathlib import Path
from typing import Any

import chex
import numpy as np

from dualmctx.checks import check
from dualmctx.datasets.batch_feed import make_feed
from dualmctx.datasets.held_out import HeldOut, make_scorer, score_moves
from dualmctx.datasets.manifest import MANIFEST, open_game, read_manifest
from dualmctx.experiment.evals import EvalFn
from dualmctx.runs.folder import read_config
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.config import Config
from dualmctx.training.position_source import PositionsFn
from dualmctx.types import Environment, Params, PolicyValueNetwork

VALIDATION = "validation"
"""The split that evals score, and the scope of their entries in a row."""
NETWORK = "network"
"""The final head of the network, in the names of these entries."""


def dataset_digest(folder: Path) -> str:
    """Identifies the content of a data set by its manifest, which has the digests of its files.

    Raises:
      UserError: if the folder is not a complete data set.
    """
    read_manifest(folder)
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()[:16]


def with_moved_inputs(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Returns the record of a resumed run, with the saved paths of inputs of equal contents.

    The inputs of a resumed run may have been moved.
    """
    saved = read_config(path)
    if "inputs" not in record or record["inputs"] != saved.get("inputs"):
        return record
    return record | {name: saved[name] for name in record["inputs"] if name in saved}


def make_positions(config: Config, env: Environment) -> PositionsFn | None:
    """Returns the positions of the iterations; `None` if the run learns from self-play.

    Iteration n learns batch n of successive epochs, so that a resumed run continues with the same
    positions. The learner applies the symmetries, as in self-play.

    Raises:
      UserError: if the data set is incomplete, of another game, merged, without positions for
        validation, or smaller than an iteration.
    """
    if config.dataset is None:
        return None
    folder = Path(config.dataset)
    manifest = read_manifest(folder)
    open_game(manifest, env, folder)
    train, held_out = manifest.splits["train"], manifest.splits[VALIDATION]
    remedy = (
        "a data set without --merge, because equal positions are learned as often as they occur"
    )
    check(train["rows"] == train["positions"], "--dataset", folder, remedy)
    remedy = "a data set with positions for validation: with more games or a larger --validation"
    check(held_out["rows"] > 0, "--dataset", folder, remedy)
    feed = make_feed(
        env,
        folder,
        batch_size=config.selfplay.num_games * config.selfplay.num_steps,
        total=config.num_iterations,
        seed=config.seed,
        name="selfplay.num_games * selfplay.num_steps",
    )

    def positions(iteration: int) -> TrainingBatch:
        [batch] = feed.take(iteration, 1)
        return batch.positions

    return positions


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
