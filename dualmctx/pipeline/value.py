"""The value stage: regression of the value network on one position per game.

Minimises the mean of (z − v(s))², where z is the result of a game of the reinforced policy from the
position s on. For comparison, the network can learn all positions of the games after their random
move; both are tested on the same held-out games.

Source: Silver et al. 2016 (AlphaGo), "Reinforcement learning of value networks" and Methods, "Value
network: regression". There, all positions of each game gave errors of 0.19 in training and 0.37 in
the test, and one position per game 0.226 and 0.234. Deviations:
docs/pipeline-reference.md.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.datasets.batch_feed import uses_symmetries
from dualmctx.datasets.held_out import HeldOut, ScoreFn, learned_keys, learned_shards, make_scorer
from dualmctx.datasets.manifest import Manifest, read_manifest
from dualmctx.experiment.report import DECIMAL, Measure, measures_table
from dualmctx.experiment.stage import Say, Stage, one_line
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.config import ValueConfig
from dualmctx.pipeline.exact import exact_positions, value_error
from dualmctx.pipeline.learning import (
    init_state,
    learn,
    make_stage_optimizer,
    make_update,
    stage_feed,
)
from dualmctx.pipeline.options import ValueOptions
from dualmctx.pipeline.parts import (
    POLICY,
    VALUE,
    check_parts,
    get_part,
    initial_params,
    make_logits_fn,
    make_value_fn,
    with_part,
)
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.pipeline.value_games import Policies, make_value_games
from dualmctx.reports.plots import COLORS, Line, Panel, plot_curves
from dualmctx.runs.metrics_file import Row
from dualmctx.types import Environment, PolicyValueNetwork

GAMES_FOLDER = "games"
"""The data set of the games, in the folder of the stage."""
_ABOUT = {"one": "one position per game", "all": "all positions of the games"}


def make_value_score(network: SeparateTrunks) -> ScoreFn:
    """Returns the loss of the value network, (z − v)²; the result z of each game is known."""
    value_fn = make_value_fn(network)
    return lambda params, x: {
        "loss": (x.value - value_fn(get_part(params, VALUE), x.observation)) ** 2
    }


def make_stage(
    env: Environment, network: PolicyValueNetwork, config: ValueConfig, inputs: Inputs, folder: Path
) -> Stage:
    """Makes the stage; see `dualmctx.pipeline.stage.MakeStage`.

    The policy of the input `supervised` plays the first moves of the games, and that of `init_from`
    the others. The network of the stage has the rollout policy and the policy network of
    `supervised`, and the value network that the stage trains, which begins with random parameters.
    """
    network, options = check_parts(network), config.value
    data, only_first = folder / GAMES_FOLDER, options.positions == "one"
    uses_symmetries(env, "value.augment", options.augment)
    start, later = inputs["supervised"].params, inputs["init_from"].params
    policies = Policies(make_logits_fn(network), get_part(start, POLICY), get_part(later, POLICY))
    optimizers = {VALUE: make_stage_optimizer(options)}
    update = make_update({VALUE: make_value_score(network)}, optimizers)

    @functools.cache
    def feed() -> Any:
        return stage_feed(env, data, options, "value", config.seed, only_first=only_first)

    def prepare(say: Say) -> None:
        say(_describe_games(make_value_games(env, policies, config, data, say)))
        feed()
        if games.exact_source(env) is None:
            say("the game has no exact values: the error against perfect play is left out")

    def init() -> StageState:
        rng_key, init_key = jax.random.split(jax.random.PRNGKey(config.seed))
        part = get_part(initial_params(network, env, init_key), VALUE)
        # Copies, because an iteration donates the state.
        params = with_part(jax.tree.map(jnp.array, start), VALUE, part)
        return init_state(params, optimizers, rng_key)

    def summarize(state: StageState, rows: list[Row]) -> dict[str, Any]:
        del state, rows
        manifest = read_manifest(data)
        largest = manifest.settings["engine"]["max_opening_plies"]
        extra = {"max_opening_plies": largest, "learned": options.positions}
        return _count_games(manifest) | extra

    return Stage(
        name="value",
        num_iterations=options.num_iterations,
        init=init,
        iterate=lambda state: learn(state, feed(), update, options.num_updates),
        evaluate=_make_evaluate(env, network, data, options),
        eval_every=options.eval_every,
        describe=one_line(describe),
        plot=functools.partial(plot_curves, PANELS),
        summarize=summarize,
        table=functools.partial(measures_table, _MEASURES, _COLUMNS),
        about=f"regression on {_ABOUT[options.positions]}",
        prepare=prepare,
    )


def _make_evaluate(
    env: Environment, network: SeparateTrunks, data: Path, options: ValueOptions
) -> Callable[[StageState], dict[str, float]]:
    """Returns the evals: errors on training positions, held-out games and exact values."""
    only_first, most = options.positions == "one", options.max_positions

    @functools.cache
    def prepared() -> tuple[Any, np.ndarray]:
        """Returns the scorer of the network and of the mean training value, and the known keys."""
        shards = learned_shards(data, only_first=only_first)
        mean = float(np.concatenate([shard.values for shard in shards]).mean())
        constant: ScoreFn = lambda params, x: {"loss": (x.value - mean) ** 2}  # noqa: E731
        score = make_scorer({"value": make_value_score(network), "constant": constant})
        return score, learned_keys(data, only_first=only_first)

    def evaluate(state: StageState) -> dict[str, float]:
        score, known = prepared()
        every = HeldOut(env, data, "test", limit=most)
        row = {
            **score(state.params, every._replace(split="train", only_first=only_first), "train"),
            **score(state.params, every._replace(known=known, only_first=True), "test"),
            **score(state.params, every, "test_games"),
        }
        exact = exact_positions(env)
        return row | (value_error(network, state.params, exact) if exact else {})

    return evaluate


def _count_games(manifest: Manifest) -> dict[str, Any]:
    counts = manifest.counts
    return {
        "games": counts["read"],
        "games_used": sum(split["games"] for split in manifest.splits.values()),
        "games_over_early": counts["without_positions"],
        "games_stopped": counts["without_result"],
    }


def _describe_games(manifest: Manifest) -> str:
    counts = _count_games(manifest)
    return (
        f"{counts['games']:,} games, {counts['games_used']:,} with a position to learn or to test; "
        f"{counts['games_over_early']:,} were over before it, {counts['games_stopped']:,} stopped"
    )


def describe(row: Row) -> str:
    """Describes a row in at most 43 columns: errors of evals, if there are any, or losses."""
    if "test/value_loss" in row:
        return f"train/test {row['train/value_loss']:.3f}/{row['test/value_loss']:.3f}"
    return f"loss {row['value_loss']:.3f}"


_COLUMNS = {"value": "value network", "constant": "mean value"}
_MEASURES = [
    Measure(f"{scope}/{{}}_loss", text, DECIMAL)
    for scope, text in {
        "train": "squared error in training ({train/positions:,.0f})",
        "test": "held-out, one position per game ({test/positions:,.0f})",
        "test_unseen": "  not in training ({test_unseen/positions:,.0f})",
        "test_games": "held-out, all positions ({test_games/positions:,.0f})",
        "exact": "against perfect play",
    }.items()
]
_RESULTS = (
    Line("train/value_loss", "training", dashes="--"),
    Line("test/value_loss", "held-out, one per game"),
    Line("test_games/value_loss", "held-out, all positions", COLORS[1]),
    Line("test/constant_loss", "mean value, one per game", COLORS[-1], ":", ""),
)
_EXACT = (
    Line("exact/value_loss", "value network"),
    Line("exact/constant_loss", "mean value", COLORS[-1], ":", ""),
)
PANELS = (
    Panel("results of games", _RESULTS, "mean squared error", (0, None)),
    Panel("values under perfect play", _EXACT, "mean squared error", (0, None)),
)
"""The picture of the stage."""
