"""The stage `reinforce`: the policy network by REINFORCE against a pool of its earlier versions."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from pathlib import Path

import jax
import jax.numpy as jnp

from dualmctx.checks import check
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.pipeline.config import ReinforceConfig
from dualmctx.pipeline.parts import POLICY, VALUE, check_parts, get_part
from dualmctx.pipeline.reinforce.evals import make_evaluate
from dualmctx.pipeline.reinforce.iteration import Optimizers, make_iterate, make_optimizers
from dualmctx.pipeline.reinforce.opponent_pool import make_pool
from dualmctx.pipeline.reinforce.report import (
    describe_row,
    plot_reinforce,
    summarize_rows,
    summary_table,
)
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.types import Environment, PolicyValueNetwork


def make_stage(
    env: Environment,
    network: PolicyValueNetwork,
    config: ReinforceConfig,
    inputs: Inputs,
    folder: Path,
) -> Stage:
    """Makes the stage.

    The state's `extra` is the pool of opponents. Its first entry is the supervised policy, the
    opponent of the evals.

    Args:
      env: the game.
      network: the network with three parts.
      config: the configuration.
      inputs: `init_from` is the supervised network.
      folder: not used.

    Raises:
      ValueError: if the network does not have the three parts, or if random openings may be as
        long as the longest game.

    Source: Silver et al. 2016, Methods, "Policy network: reinforcement learning"; the deviations
    stand in docs/variants.md.
    """
    del folder
    options, network = config.reinforce, check_parts(network)
    plies = max(options.opening_plies, options.eval_opening_plies)
    check(plies < options.max_plies, "max_plies", options.max_plies, f"above {plies}, the opening")
    assert inputs.init_from is not None
    start = inputs.init_from.params
    optimizers = make_optimizers(options)

    def init() -> StageState:
        # Iterations update the arrays in place, and the inputs must stay.
        params = jax.tree.map(jnp.array, start)
        policy = get_part(params, POLICY)
        value = get_part(params, VALUE) if options.baseline == "value" else ()
        return StageState(
            params=params,
            opt_state=Optimizers(optimizers.policy.init(policy), optimizers.value.init(value)),
            extra=make_pool(policy, options.pool_size),
            rng_key=jax.random.PRNGKey(config.seed),
            iteration=jnp.int32(0),
        )

    iterate = jax.jit(make_iterate(env, network, options, optimizers), donate_argnums=0)

    def iterate_row(state: StageState) -> tuple[StageState, dict[str, float]]:
        state, row = iterate(state)
        return state, {name: float(x) for name, x in jax.device_get(row).items()}

    return Stage(
        name="reinforce",
        num_iterations=options.num_iterations,
        init=init,
        iterate=iterate_row,
        evaluate=make_evaluate(env, network, options),
        eval_every=options.eval_every,
        describe=one_line(describe_row),
        plot=plot_reinforce,
        summarize=lambda state, rows: summarize_rows(rows, options.num_games),
        table=summary_table,
        about=f"{options.num_games} games per iteration against a pool of {options.pool_size}",
    )
