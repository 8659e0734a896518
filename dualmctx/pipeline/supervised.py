"""The supervised stage: the policy network and the rollout policy learn the moves of games.

Source: Silver et al. 2016, "Supervised learning of policy networks" and "Rollout policy". The
end of docs/pipeline-reference.md lists the differences.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp

from dualmctx.datasets import read_manifest
from dualmctx.datasets.held_out import (
    TOP,
    HeldOut,
    ScoreFn,
    ScoreFns,
    learned_keys,
    make_scorer,
    score_moves,
)
from dualmctx.datasets.manifest import open_game
from dualmctx.experiment.report import DECIMAL, PERCENT, Measure, measures_table
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.config import SupervisedConfig
from dualmctx.pipeline.exact import exact_positions, keeping_share
from dualmctx.pipeline.learning import (
    init_state,
    learn,
    make_stage_optimizer,
    make_update,
    stage_feed,
)
from dualmctx.pipeline.options import SupervisedOptions
from dualmctx.pipeline.parts import (
    POLICY,
    ROLLOUT,
    check_parts,
    get_part,
    initial_params,
    make_logits_fn,
)
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.reports.plots import COLORS, SHARES, Line, Panel, plot_curves
from dualmctx.runs.metrics_file import Row
from dualmctx.types import Environment, PolicyValueNetwork

POLICIES: tuple[str, ...] = (POLICY, ROLLOUT)
"""The parts of the network that the supervised stage trains."""


def score_chance(legal_action_mask: chex.Array) -> dict[str, chex.Array]:
    """Returns the expected scores of uniformly random legal moves in `[M]` positions.

    They do not depend on the moves that were played: with n legal moves the loss is log n, and the
    accuracies are 1/n and min(5, n)/n.
    """
    number = jnp.sum(legal_action_mask, axis=-1).astype(jnp.float32)
    return {
        "loss": jnp.log(number),
        "top1": 1 / number,
        "top5": jnp.minimum(TOP, number) / number,
    }


def make_score_fns(network: SeparateTrunks) -> ScoreFns:
    """Returns the scores of the moves that the two policies predict."""

    def scores_of(part: str) -> ScoreFn:
        logits_fn = make_logits_fn(network, part)
        return lambda params, x: score_moves(
            logits_fn(get_part(params, part), x.observation), x.legal_action_mask, x.policy
        )

    return {part: scores_of(part) for part in POLICIES}


def make_stage(
    env: Environment,
    network: PolicyValueNetwork,
    config: SupervisedConfig,
    inputs: Inputs,
    folder: Path,
) -> Stage:
    """Makes the supervised stage; see `dualmctx.pipeline.stage.MakeStage`."""
    del folder
    own, options, data = check_parts(network), config.supervised, Path(config.dataset or "")
    manifest = read_manifest(data)
    open_game(manifest, env, data)
    train, num_updates = manifest.splits["train"], options.num_updates
    feed = stage_feed(env, data, options, "supervised", config.seed)
    optimizer, score_fns = make_stage_optimizer(options), make_score_fns(own)
    optimizers = dict.fromkeys(POLICIES, optimizer)
    update = make_update(score_fns, optimizers, train["positions"] / train["rows"])

    def init() -> StageState:
        key, params_key = jax.random.split(jax.random.PRNGKey(config.seed))
        if "init_from" not in inputs:
            return init_state(initial_params(own, env, params_key), optimizers, key)
        # Copies, because an iteration donates the state.
        return init_state(jax.tree.map(jnp.array, inputs["init_from"].params), optimizers, key)

    def summarize(state: StageState, rows: list[Row]) -> dict[str, Any]:
        del rows
        learned = int(state.iteration) * num_updates * options.batch_size
        return {"train/positions": train["positions"], "train/epochs": learned / train["rows"]}

    return Stage(
        name="supervised",
        num_iterations=options.num_iterations,
        init=init,
        iterate=lambda state: learn(state, feed, update, num_updates),
        evaluate=_make_evaluate(env, own, score_fns, data, options),
        eval_every=options.eval_every,
        describe=one_line(describe),
        plot=functools.partial(plot_curves, PANELS),
        summarize=summarize,
        table=functools.partial(measures_table, _MEASURES, _COLUMNS),
        about=f"{train['positions']:,} positions of {train['games']:,} games in {data}",
    )


def _make_evaluate(
    env: Environment,
    network: SeparateTrunks,
    score_fns: ScoreFns,
    data: Path,
    options: SupervisedOptions,
) -> Callable[[StageState], dict[str, float]]:
    """Returns the evals: held-out positions of games, and positions with exact values."""
    chance: ScoreFn = lambda params, x: score_chance(x.legal_action_mask)  # noqa: E731
    score = make_scorer({**score_fns, "chance": chance})
    known = functools.cache(lambda: learned_keys(data))

    def evaluate(state: StageState) -> dict[str, float]:
        is_last = int(state.iteration) >= options.num_iterations
        row: dict[str, float] = {}
        for split in ("validation", "test") if is_last else ("validation",):
            limit = None if is_last else options.max_positions
            row |= score(state.params, HeldOut(env, data, split, known(), limit=limit), split)
        if positions := exact_positions(env):
            for part in POLICIES:
                row |= keeping_share(network, state.params, positions, part)
        return row

    return evaluate


def describe(row: Row) -> str:
    """Describes a row in at most 43 columns: its evals, or else the losses of its batches."""
    scope = "validation/" if "validation/policy_top1" in row else ""
    top1, rollout = (row[f"{scope}{part}_top1"] for part in POLICIES)
    text = f"top-1 {top1:.1%}, rollout {rollout:.1%}"
    if not scope:
        return f"loss {row['policy_loss']:.3f}, {text}"
    keeping = row.get("exact/policy_keeping")
    return text if keeping is None else f"{text}, keeps {keeping:.1%}"


_COLUMNS = {"policy": "policy", "rollout": "rollout policy", "chance": "random moves"}
_MEASURES = [
    Measure(f"{scope}/{{}}_{score}", text if score == "top1" else f"    {name}", show)
    for scope, text in {
        "validation": "validation ({validation/positions:,.0f}), top-1",
        "validation_unseen": "  not in training ({validation_unseen/positions:,.0f}), top-1",
        "test": "test ({test/positions:,.0f}), top-1",
        "test_unseen": "  not in training ({test_unseen/positions:,.0f}), top-1",
    }.items()
    for score, name, show in (
        ("top1", "", PERCENT),
        ("top5", "top-5", PERCENT),
        ("loss", "cross-entropy", DECIMAL),
    )
]
_MEASURES.append(Measure("exact/{}_keeping", "most likely move keeps the value"))


def _lines(score: str) -> list[Line]:
    """Returns the lines of a score: a colour for each policy, and dashes for the positions."""
    lines = []
    for policy, color in (("policy", COLORS[0]), ("rollout", COLORS[1])):
        name = f"{policy}_{score}"
        lines += [
            Line(name, f"{policy}, training", color, ":", marker=""),
            Line(f"validation/{name}", f"{policy}, validation", color),
            Line(f"validation_unseen/{name}", f"{policy}, not in training", color, "--"),
        ]
    return [*lines, Line(f"validation/chance_{score}", "random moves", COLORS[6], "-.", "")]


_KEEPING = Line("exact/policy_keeping", "most likely move keeps the exact value", COLORS[2])
PANELS = (
    Panel("cross-entropy of the moves played", _lines("loss"), "nats"),
    Panel("top-1 accuracy", [*_lines("top1"), _KEEPING], "share", SHARES),
)
"""The picture of the stage."""
