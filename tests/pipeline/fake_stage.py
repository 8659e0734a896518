"""A stage that adds noise to the parameters, in place of the supervised one."""

import contextlib
import functools
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from dualmctx.commands import train
from dualmctx.console import Console
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.pipeline.start import STAGES
from dualmctx.reports.table import Table
from dualmctx.runs.metrics_file import Row

NUM_ITERATIONS = 7
SMALL = [
    *("connect2", "--pipeline", "supervised", "--network.width", "8"),
    *("--network.num-blocks", "1", "--checkpoint-every", "3", "--supervised.eval-every", "2"),
    *("--supervised.num-iterations", str(NUM_ITERATIONS)),
]


class Finished(NamedTuple):
    """The folder of a finished run, and its output."""

    out: Path
    said: str


_before: list[Callable[[int], None]] = []


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Puts this stage in the place of the supervised one; it needs no data set."""
    with pytest.MonkeyPatch.context() as patch:
        kind = STAGES["supervised"]._replace(make_stage=make_stage, required=())
        patch.setitem(STAGES, "supervised", kind)
        yield


@contextlib.contextmanager
def acting(number: int, act: Callable[[], None]) -> Iterator[None]:
    """Calls a function in the iteration after `number` others."""
    _before.append(lambda iteration: act() if iteration == number else None)
    try:
        yield
    finally:
        _before.clear()


def run_to_the_end(out: Path) -> Path:
    """Runs the stage in one process; returns its folder."""
    with installed():
        assert train.main([*SMALL, "--out", str(out)]) == 0
    return out


def assert_reports_fit(stage: Stage, state: Any, rows: list[Row], folder: Path) -> dict[str, Any]:
    """Checks the lines, the table and the picture of any stage; returns the summary."""
    lines = [stage.describe(row).lines[0] for row in rows]
    assert all(0 < len(line) <= 43 for line in lines)
    assert lines[-1] != lines[0]
    summary = rows[-1] | json.loads(json.dumps(stage.summarize(state, rows), allow_nan=False))
    output = io.StringIO()
    Console(file=output, width=200).print(stage.table(summary | {"title": "a title"}))
    assert "…" not in output.getvalue()
    assert max(map(len, output.getvalue().splitlines())) <= 80
    for some in (rows, rows[:1]):
        stage.plot(some, "title", folder / "curve.png")
        assert (folder / "curve.png").stat().st_size > 1000
    return summary | {"table": output.getvalue()}


@functools.cache
def _init_fn(network: Any, shape: tuple[int, ...]) -> Callable[[jax.Array], Any]:
    return jax.jit(lambda key: network.init(key, jnp.zeros((1, *shape))))


@functools.partial(jax.jit, donate_argnums=0)
def _step(state: StageState, size: float) -> tuple[StageState, jax.Array]:
    rng_key, own = jax.random.split(state.rng_key)
    noise = size * jax.random.normal(own)
    params = jax.tree.map(lambda x: x + noise, state.params)
    extra = state.extra.at[state.iteration % 3].set(noise)
    return StageState(params, (), extra, rng_key, state.iteration + 1), noise


def make_stage(env: Any, network: Any, config: Any, inputs: Inputs, folder: Path) -> Stage:
    """Makes the stage; all its numbers follow from the key in its state."""
    options = config.supervised

    def init() -> StageState:
        init_key, rng_key = jax.random.split(jax.random.PRNGKey(config.seed))
        params = _init_fn(network, env.observation_shape)(init_key)
        if "init_from" in inputs:
            params = jax.tree.map(jnp.array, inputs["init_from"].params)
        return StageState(params, (), jnp.zeros(3), rng_key, jnp.int32(0))

    def iterate(state: StageState) -> tuple[StageState, dict[str, float]]:
        for act in _before:
            act(int(state.iteration))
        state, noise = _step(state, options.learning_rate)
        return state, {"noise": noise}

    def describe(row: Row) -> str:
        evals = f" largest {row['fake/largest']:.3f}" if "fake/largest" in row else ""
        return f"noise {row['noise']:.4f}{evals}"

    return Stage(
        name="supervised",
        num_iterations=options.num_iterations,
        init=init,
        iterate=iterate,
        evaluate=lambda state: {"fake/largest": jnp.max(jnp.abs(state.extra))},
        eval_every=options.eval_every,
        describe=one_line(describe),
        plot=lambda rows, title, file: file.write_text(f"{title}: {len(rows)}"),
        summarize=lambda state, rows: {"last_noise": rows[-1]["noise"]},
        table=lambda summary: Table("", ("last noise",), [(f"{summary['last_noise']:.4f}",)]),
        about="adds noise",
        prepare=lambda say: say("prepared"),
    )
