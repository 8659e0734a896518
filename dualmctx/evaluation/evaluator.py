"""The evaluator: a network and a search, compiled once, that take any number of positions."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from dualmctx.evaluation.batching import check_states, digest, fill_batches, join
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.runs.progress import showing
from dualmctx.types import Environment, Policy, PolicyValueNetwork


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
    """A network and a search, compiled once for a batch size; `making` makes them.

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

    env: Environment
    network: PolicyValueNetwork
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
        parts = _in_turns(pending)
        shown = _show(parts, len(starts)) if progress else parts
        return join((self.nothing, *shown), len(ids))

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


def _show(parts: Iterable[Evaluations], number: int) -> Iterator[Evaluations]:
    """Passes the evaluations of so many batches on, and shows how many there are by now."""
    with showing() as show:
        for done, part in enumerate(parts, 1):
            show("evaluating", done, number)
            yield part
