"""The evaluator: a network and a search, compiled once, that take any number of positions."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.progress import track

from dualmctx.budget import free_memory, require_batch_memory
from dualmctx.devices import (
    SPLIT,
    WHOLE,
    check_split,
    choose_devices,
    make_mesh,
    on_each,
    shardings,
)
from dualmctx.evaluation.batching import check_states, digest, fill_batches, join
from dualmctx.evaluation.evaluations import Evaluations, by_network, by_search, make_evaluate_batch
from dualmctx.memory import num_bytes, search_memory
from dualmctx.model import make_search_fn
from dualmctx.trained import load_trained, model_options_of, policy_of
from dualmctx.types import Params, Policy


class Pending(NamedTuple):
    """Positions that the device is still evaluating.

    Attributes:
      batches: what was said of each batch, on the device.
      num_positions: S; the rest of the last batch is repetition.
      nothing: what is said of no position.
    """

    batches: tuple[Evaluations, ...]
    num_positions: int
    nothing: Evaluations

    def result(self) -> Evaluations:
        """Waits for the device; returns the evaluations of the S positions in NumPy arrays."""
        return join((self.nothing, *self.batches), self.num_positions)


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """A network and a search, compiled once for a batch size; `make_evaluator` makes them.

    What is said of a position depends on the seed and the position's id, and neither on its place
    nor on the other positions. The devices that share a batch change nothing either; another batch
    size may round the network's products otherwise, in the last digits of values, and so could
    decide between actions that are equal to within rounding.

    Attributes:
      env: the game, as `games.make` gives it.
      network: the network.
      policy: the search, without noise; `None` where the network decides alone.
      batch_size: positions a call of the devices.
      shapes: of a batch of states.
      nothing: what is said of no position, which has the shapes of all evaluations.
      run: `([B, 2] digests, [B] states) -> Evaluations` on the devices.
    """

    env: Any
    network: Any
    policy: Policy | None
    batch_size: int
    shapes: Any
    nothing: Evaluations
    run: Callable[[Any, Any], Evaluations]

    @property
    def game(self) -> str:
        """The game's name."""
        return self.env.id

    @property
    def num_heads(self) -> int:
        """H."""
        return len(self.network.head_depths)

    @staticmethod
    def from_checkpoint(
        path: Path | str,
        *,
        iteration: int | None = None,
        variant: str | None = None,
        simulations: int | tuple[int, ...] | None = None,
        batch_size: int = 256,
        seed: int = 0,
        network_only: bool = False,
        devices: int | None = None,
    ) -> "Evaluator":
        """Makes an evaluator of what a run has learned, with the run's own search by default.

        Args:
          path: as in `load_trained`: a run's folder, an exported file, or a name.
          iteration: of the checkpoint; the newest by default.
          variant: another search of the registry, with its defaults.
          simulations: a move, a number or one for each tree; by default as the search has them.
          batch_size: positions a call of the devices, which they share evenly.
          seed: of all draws; noise at the root is off, but some searches draw all the same.
          network_only: whether the network's last head decides, without a search.
          devices: how many, of this process; by default all.

        Raises:
          ValueError: when something is wrong or does not fit into the memory, in one line.
        """
        trained = load_trained(path, iteration)
        policy = None if network_only else policy_of(trained.record, variant, simulations)
        return make_evaluator(
            trained.env,
            trained.network,
            trained.params,
            policy,
            batch_size=batch_size,
            seed=seed,
            devices=devices,
            **model_options_of(trained.record),
        )

    def __call__(
        self, states: Any, ids: Sequence[str | int] | None = None, progress: bool = False
    ) -> Evaluations:
        """Evaluates positions, batch by batch; a batch is fetched while the next one is evaluated.

        Args:
          states: `[S]` game states, of JAX or NumPy arrays.
          ids: S strings or whole numbers, which decide about draws; by default 0, 1, 2 …
          progress: whether to show a bar with the time left, on standard error.

        Returns:
          The evaluations in NumPy arrays.

        Raises:
          ValueError: when the states are not the game's, or the ids are wrong, in one line.
        """
        states, ids = self._check(states, ids)
        starts = range(0, len(ids), self.batch_size)
        pieces = (slice(start, start + self.batch_size) for start in starts)
        pending = (self.start(_cut(states, piece), ids[piece]) for piece in pieces)
        parts = track(
            _in_turns(pending),
            "evaluating",
            total=len(starts),
            console=Console(stderr=True),
            disable=not progress,
        )
        return join((self.nothing, *parts), len(ids))

    def start(self, states: Any, ids: Sequence[str | int] | None = None) -> Pending:
        """Starts to evaluate positions; the host is free for other work until `Pending.result`.

        Args:
          states: as in a call; all of them stand on the devices until they are evaluated.
          ids: as in a call.

        Raises:
          ValueError: as in a call.
        """
        states, ids = self._check(states, ids)
        batches = fill_batches((digest(ids), states), self.batch_size)
        return Pending(tuple(self.run(*batch) for batch in batches), len(ids), self.nothing)

    def _check(self, states: Any, ids: Any) -> tuple[Any, Sequence[str | int]]:
        """Returns the states in NumPy arrays, and the ids."""
        states = jax.tree.map(np.asarray, states)
        number = check_states(self.game, states, self.shapes)
        ids = range(number) if ids is None else ids
        if len(ids) != number:
            raise ValueError(f"there are {len(ids)} ids for {number} states; give one for each")
        for identity in ids:
            if isinstance(identity, bool) or not isinstance(identity, str | int | np.integer):
                raise ValueError(f"an id is {identity!r}; it must be a string or a whole number")
        return states, ids


def evaluate(
    states: Any,
    policy: Policy | None,
    params: Params,
    *,
    env: Any,
    network: Any,
    ids: Sequence[str | int] | None = None,
    progress: bool = False,
    **options: Any,
) -> Evaluations:
    """Evaluates positions once; it compiles, so keep an evaluator to do it again.

    Args:
      states: `[S]` game states.
      policy: as in `make_evaluator`, like all that is not said here.
      params: of the network.
      env: the game.
      network: its network.
      ids: S strings or whole numbers, see `Evaluator`.
      progress: whether to show a bar.
      **options: of `make_evaluator`, such as `batch_size`.

    Returns:
      What the network and the search say of each, in NumPy arrays.

    Raises:
      ValueError: when something is wrong or does not fit into the memory, in one line.
    """
    return make_evaluator(env, network, params, policy, **options)(states, ids, progress)


def make_evaluator(
    env: Any,
    network: Any,
    params: Params,
    policy: Policy | None,
    *,
    batch_size: int = 256,
    seed: int = 0,
    devices: int | None = None,
    **model_options: Any,
) -> Evaluator:
    """Compiles an evaluator for one batch size.

    Args:
      env: the game, as `games.make` gives it.
      network: a `dualmctx.network.Network`.
      params: its parameters.
      policy: a search variant, used without its noise; `None` for the network alone.
      batch_size: positions a call of the devices, which they share evenly.
      seed: of all draws.
      devices: how many, of this process; by default all.
      **model_options: options of `make_model`, such as `compact_states`.

    Returns:
      The evaluator; nothing more is ever compiled.

    Raises:
      ValueError: when an option is wrong or a batch does not fit into the memory, in one line.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
    # PRNGKey reads 32 bits.
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed is {seed}; it must be from 0 to {2**32 - 1}")
    this = jax.process_index()
    mesh = make_mesh([x for x in choose_devices(devices) if x.process_index == this])
    check_split(mesh, batch_size=batch_size)
    decide_fn = by_network
    if policy is not None:
        policy = policy.noiseless()
        share = batch_size // mesh.size
        needed = search_memory(env, network, policy, share, **model_options).total
        require_batch_memory(share, needed + num_bytes(_state_shapes(env, share)), free_memory())
        decide_fn = by_search(make_search_fn(env, network, policy, **model_options))
    specs = (WHOLE, WHOLE, SPLIT, SPLIT)
    function = on_each(make_evaluate_batch(network, decide_fn), mesh, specs, SPLIT)
    given = jax.device_put((params, jax.random.PRNGKey(seed)), shardings(mesh, WHOLE))
    shapes = _state_shapes(env, batch_size)
    digests = jax.ShapeDtypeStruct((batch_size, 2), np.uint32)
    jitted = jax.jit(function, in_shardings=shardings(mesh, specs))
    compiled = jitted.lower(*given, digests, shapes).compile()
    outputs = jax.eval_shape(function, *given, digests, shapes)
    nothing = jax.tree.map(lambda x: np.zeros((0, *x.shape[1:]), x.dtype), outputs)
    return Evaluator(
        env=env,
        network=network,
        policy=policy,
        batch_size=batch_size,
        shapes=shapes,
        nothing=nothing,
        run=lambda digests, states: compiled(*given, digests, states),
    )


def _state_shapes(env: Any, batch_size: int) -> Any:
    keys = jax.ShapeDtypeStruct((batch_size, 2), np.uint32)
    return jax.eval_shape(jax.vmap(env.init), keys)


def _cut(states: Any, piece: slice) -> Any:
    return jax.tree.map(lambda x: x[piece], states)


def _in_turns(batches: Iterable[Pending]) -> Iterator[Evaluations]:
    """Fetches each batch while the device works on the next one."""
    before = None
    for pending in batches:
        if before is not None:
            yield before.result()
        before = pending
    if before is not None:
        yield before.result()
