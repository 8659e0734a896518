"""The supervised stage: the policy network and the rollout policy learn the moves of games.

Source: Silver et al. 2016, "Supervised learning of policy networks" and "Rollout policy". The
end of docs/pipeline-reference.md lists the differences.
"""

import collections
import functools
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp

import games
from dualmctx.checks import check
from dualmctx.datasets import DatasetBatch, load_dataset, read_manifest
from dualmctx.datasets.manifest import open_game
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.config import SupervisedConfig
from dualmctx.pipeline.exact import exact_positions, keeping_share
from dualmctx.pipeline.options import SupervisedOptions
from dualmctx.pipeline.parts import check_parts, get_part, initial_params
from dualmctx.pipeline.stage import Inputs, StageState, make_stage_optimizer
from dualmctx.pipeline.supervised.moves import (
    POLICIES,
    Learned,
    make_update,
    no_scores,
    score_held_out,
    training_keys,
)
from dualmctx.pipeline.supervised.report import PANELS, describe, table
from dualmctx.reports.plots import plot_curves
from dualmctx.runs.metrics_file import Row
from dualmctx.types import Environment, PolicyValueNetwork

T = TypeVar("T")
# Batches that are loaded ahead, so that a new epoch does not stall the optimiser.
_AHEAD = 32

LoadEpoch = Callable[[int], Iterator[DatasetBatch]]
"""Loads the batches of an epoch, given its number."""
# The scores of the training batches that a row has.
_IN_ROWS = ("loss", "top1")


def make_stage(
    env: Environment,
    network: PolicyValueNetwork,
    config: SupervisedConfig,
    inputs: Inputs,
    folder: Path,
) -> Stage:
    """Makes the supervised stage; see `dualmctx.pipeline.stage.MakeStage`.

    An iteration takes `num_updates` optimiser steps. Step n learns batch n of the successive
    epochs, whose order depends on the seed and the epoch alone. On a CPU, a resumed stage is
    therefore bit-equal to an uninterrupted one.

    Raises:
      ValueError: if the data set is incomplete, too small or of another game, or if `augment` is
        True and the game has no symmetries.
    """
    del folder
    own, options, data = check_parts(network), config.supervised, Path(config.dataset or "")
    manifest = read_manifest(data)
    open_game(manifest, env, data)
    train = manifest.splits["train"]
    remedy = f"at most {train['rows']}, the positions for training in {data}; or make more games"
    check(options.batch_size <= train["rows"], "supervised.batch_size", options.batch_size, remedy)
    take = _make_feed(env, data, config, train["rows"]).take
    num_updates = options.num_updates
    optimizer = make_stage_optimizer(options)
    update = make_update(own, optimizer, train["positions"] / train["rows"])

    def init() -> StageState:
        key, params_key = jax.random.split(jax.random.PRNGKey(config.seed))
        if inputs.init_from is None:
            params = initial_params(own, env, params_key)
        else:
            # Copies, because an iteration donates the state.
            params = jax.tree.map(jnp.array, inputs.init_from.params)
        opt_state = {part: optimizer.init(get_part(params, part)) for part in POLICIES}
        return StageState(params, opt_state, (), key, jnp.int32(0))

    def iterate(state: StageState) -> tuple[StageState, dict[str, float]]:
        sums = {part: no_scores() for part in POLICIES}
        learned = Learned(state.params, state.opt_state, sums)
        for batch in take(int(state.iteration) * num_updates, num_updates):
            learned = update(learned, batch.positions, batch.counts)
        means = {part: sums.means() for part, sums in learned.sums.items()}
        row = {f"{x}_{score}": means[x][score] for x in POLICIES for score in _IN_ROWS}
        changes = {"params": learned.params, "opt_state": learned.opt_state}
        return state._replace(**changes, iteration=state.iteration + 1), row

    def summarize(state: StageState, rows: list[Row]) -> dict[str, Any]:
        evals = next((row for row in reversed(rows) if "validation/positions" in row), {})
        learned = int(state.iteration) * num_updates * options.batch_size
        sizes = {"train/positions": train["positions"], "train/epochs": learned / train["rows"]}
        return sizes | {name: x for name, x in evals.items() if "/" in name}

    return Stage(
        name="supervised",
        num_iterations=options.num_iterations,
        init=init,
        iterate=iterate,
        evaluate=_make_evaluate(env, own, data, options),
        eval_every=options.eval_every,
        describe=one_line(describe),
        plot=functools.partial(plot_curves, PANELS),
        summarize=summarize,
        table=table,
        about=f"{train['positions']:,} positions of {train['games']:,} games in {data}",
    )


def _make_evaluate(
    env: Environment, network: SeparateTrunks, data: Path, options: SupervisedOptions
) -> Callable[[StageState], dict[str, float]]:
    """Returns the evals: held-out positions of games, and positions with exact values."""
    known = functools.cache(lambda: training_keys(data))

    def evaluate(state: StageState) -> dict[str, float]:
        is_last = int(state.iteration) >= options.num_iterations
        limit = None if is_last else options.max_positions
        row = score_held_out(env, network, state.params, data, "validation", known(), limit)
        if is_last:
            row |= score_held_out(env, network, state.params, data, "test", known())
        # The positions are chosen once.
        positions = exact_positions(env)
        if positions is not None:
            for part in POLICIES:
                row |= keeping_share(network, state.params, positions, part)
        return row

    return evaluate


class BatchFeed:
    """The batches of successive epochs, numbered from 0.

    Batch n is the same in every process, so a run can continue with any batch. Successive calls of
    `take` continue the same iterator; a call with another start begins a new one.
    """

    def __init__(self, load_epoch: LoadEpoch, batches_per_epoch: int, total: int) -> None:
        """Prepares to load batches; nothing is loaded yet.

        Args:
          load_epoch: loads an epoch, which must have `batches_per_epoch` batches.
          batches_per_epoch: at least 1.
          total: number of batches of the whole run; later ones are not loaded ahead.
        """
        self._load_epoch = load_epoch
        self._batches_per_epoch = batches_per_epoch
        self._total = total
        self._next = -1
        self._batches: Iterator[DatasetBatch] = iter(())

    def take(self, start: int, number: int) -> Iterator[DatasetBatch]:
        """Yields the batches from `start` to `start + number` - 1."""
        if start != self._next:
            numbered = itertools.islice(self._from(start), max(0, self._total - start))
            self._batches = load_ahead(numbered, _AHEAD)
        self._next = -1
        yield from itertools.islice(self._batches, number)
        self._next = start + number

    def _from(self, start: int) -> Iterator[DatasetBatch]:
        first, skipped = divmod(start, self._batches_per_epoch)
        for epoch in itertools.count(first):
            yield from itertools.islice(self._load_epoch(epoch), skipped, None)
            skipped = 0


def load_ahead(items: Iterator[T], size: int) -> Iterator[T]:
    """Yields the items of an iterator, which runs in a thread of its own.

    Args:
      items: the iterator; its errors are raised here, in their place.
      size: largest number of items that are held.
    """
    end = object()
    # The thread ends with this iterator, or after the pending items at the end of the process.
    thread = ThreadPoolExecutor(1, "load_ahead")
    pending = collections.deque(thread.submit(next, items, end) for _ in range(size))
    while (item := pending.popleft().result()) is not end:
        pending.append(thread.submit(next, items, end))
        yield cast(T, item)


def _make_feed(env: Environment, data: Path, config: SupervisedConfig, rows: int) -> BatchFeed:
    """Returns the training batches of all epochs; each epoch drops its last, incomplete batch."""
    options = config.supervised
    augment = options.augment
    if augment is None:
        augment = len(games.symmetries(env).action) > 1
    load = functools.partial(
        load_dataset,
        data,
        "train",
        env,
        batch_size=options.batch_size,
        seed=config.seed,
        augment=augment,
        drop_last=True,
    )
    # Raises its errors at once, before a file is written.
    load(epoch=0)
    total = options.num_iterations * options.num_updates
    return BatchFeed(lambda epoch: load(epoch=epoch), rows // options.batch_size, total)
