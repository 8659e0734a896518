"""A stage that adds noise to the parameters, in place of one that learns."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from rich.table import Table

from dualmctx.pipeline.stage import Inputs, Row, Stage, StageState

# Called with the number of completed iterations before each iteration; tests replace it.
before_iteration = print


def make_stage(env: Any, network: Any, config: Any, inputs: Inputs, folder: Path) -> Stage:
    """Makes the stage; all its numbers follow from the key in its state."""
    options = config.supervised

    def init() -> StageState:
        init_key, rng_key = jax.random.split(jax.random.PRNGKey(config.seed))
        observation = jnp.zeros((1, *env.observation_shape))
        params = jax.jit(network.init)(init_key, observation)
        if inputs.init_from is not None:
            params = jax.tree.map(jnp.array, inputs.init_from.params)
        return StageState(params, (), jnp.zeros(3), rng_key, jnp.int32(0))

    def step(state: StageState) -> tuple[StageState, jax.Array]:
        rng_key, own = jax.random.split(state.rng_key)
        noise = options.learning_rate * jax.random.normal(own)
        params = jax.tree.map(lambda x: x + noise, state.params)
        extra = state.extra.at[state.iteration % 3].set(noise)
        return StageState(params, (), extra, rng_key, state.iteration + 1), noise

    donating = jax.jit(step, donate_argnums=0)

    def iterate(state: StageState) -> tuple[StageState, dict[str, float]]:
        before_iteration(int(state.iteration))
        state, noise = donating(state)
        return state, {"noise": noise}

    def describe(row: Row) -> str:
        evals = f" largest {row['fake/largest']:.3f}" if "fake/largest" in row else ""
        return f"noise {row['noise']:.4f}{evals}"

    def table(summary: dict[str, Any]) -> Table:
        shown = Table("entry", "value", title=summary["title"])
        shown.add_row("last noise", f"{summary['last_noise']:.4f}")
        return shown

    return Stage(
        name="supervised",
        num_iterations=options.num_iterations,
        init=init,
        iterate=iterate,
        evaluate=lambda state: {"fake/largest": jnp.max(jnp.abs(state.extra))},
        eval_every=options.eval_every,
        describe=describe,
        plot=lambda rows, title, file: file.write_text(f"{title}: {len(rows)}"),
        summarize=lambda state, rows: {"last_noise": rows[-1]["noise"]},
        table=table,
        about="adds noise",
        prepare=lambda say: say("prepared"),
    )
