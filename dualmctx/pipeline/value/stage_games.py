"""The games of the value stage: played by the policies of its inputs, with lines of progress."""

import time
from collections.abc import Callable
from pathlib import Path

from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.config import ValueConfig
from dualmctx.pipeline.parts import POLICY, get_part, make_logits_fn
from dualmctx.pipeline.stage import Inputs
from dualmctx.pipeline.value.dataset import make_value_games
from dualmctx.pipeline.value.games import GameOptions, Policies
from dualmctx.pipeline.value.report import count_games
from dualmctx.runs.progress import SECONDS_BETWEEN_LINES
from dualmctx.runs.saved_network import digest_of
from dualmctx.types import Environment


def play_stage_games(
    env: Environment,
    network: SeparateTrunks,
    config: ValueConfig,
    inputs: Inputs,
    folder: Path,
    say: Callable[[str], None],
) -> None:
    """Plays the games of the stage that the folder lacks, and prints how many there are.

    Args:
      env: the game.
      network: the network with three parts.
      config: the configuration of the stage.
      inputs: the policy of `supervised` plays the first moves, and that of `init_from` the others.
      folder: the folder of the data set.
      say: called with a line about the progress.

    Raises:
      ValueError: see `make_value_games`.
    """
    options = config.value
    assert inputs.supervised is not None
    assert inputs.init_from is not None
    supervised = get_part(inputs.supervised.params, POLICY)
    reinforced = get_part(inputs.init_from.params, POLICY)
    manifest = make_value_games(
        env,
        Policies(make_logits_fn(network), supervised, reinforced),
        GameOptions(
            number=options.num_games,
            seed=config.seed,
            max_opening_plies=options.max_opening_plies,
            max_plies=options.max_plies,
            batch=options.games_per_batch,
            test=options.test_share,
        ),
        folder,
        game=config.game,
        game_parameters=config.game_parameters,
        inputs={"supervised": digest_of(supervised), "reinforced": digest_of(reinforced)},
        show=_progress(say),
    )
    counts = count_games(manifest)
    say(
        f"{counts['games']:,} games, {counts['games_used']:,} with a position to learn or to test; "
        f"{counts['games_over_early']:,} were over before it, {counts['games_stopped']:,} stopped"
    )


def _progress(say: Callable[[str], None]) -> Callable[[int, int], None]:
    """Returns a function that prints the number of games played, every few seconds."""
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_LINES or done == total:
            last = time.monotonic()
            say(f"games played: {done:,}/{total:,}")

    return show
