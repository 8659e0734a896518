"""The evaluator: a network and a search, compiled once, for any number of positions."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from dualmctx.errors import UserError
from dualmctx.evaluation.evaluations import Evaluations, digest, fill_batches, join
from dualmctx.runs.progress import showing
from dualmctx.types import Environment, Policy, PolicyValueNetwork


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """A network and a search, compiled once for a batch size; built by `factory`.

    The evaluation of a position depends on the seed and on its id. It does not depend on its index,
    on the other positions or on the number of devices. Another batch size may round the network's
    products differently, which changes the last digits of values; this may change the choice
    between actions that are equal up to rounding.

    Attributes:
      env: a game of `games.make`.
      network: the network.
      policy: the search, without noise; `None` if the network decides alone.
      batch_size: number of positions per device call.
      shapes: shapes and types of a batch of states.
      empty: the evaluations of zero positions, which have the shapes of all evaluations.
      run: `([B, 2] digests, [B] states) -> Evaluations` on the devices.
    """

    env: Environment
    network: PolicyValueNetwork
    policy: Policy | None
    batch_size: int
    shapes: Any
    empty: Evaluations
    run: Callable[[Any, Any], Evaluations]

    @property
    def game(self) -> str:
        """The game's name."""
        return self.env.id

    @property
    def num_heads(self) -> int:
        """H, the number of heads of the network."""
        return len(self.network.head_depths)

    def __call__(
        self, states: Any, ids: Sequence[str | int] | None = None, progress: bool = False
    ) -> Evaluations:
        """Evaluates positions in batches; a batch is fetched while the next one is evaluated.

        Args:
          states: `[S]` game states, as JAX or NumPy arrays.
          ids: S strings or integers, from which the random keys are derived; by default 0, 1, 2 …
          progress: whether to show a progress bar on standard error.

        Returns:
          The evaluations as NumPy arrays.

        Raises:
          ValueError: if the states are not states of the game, or the ids are invalid.
        """
        states, ids = self._check(states, ids)
        batches = fill_batches((digest(ids), states), self.batch_size)
        started = itertools.chain((self.run(*batch) for batch in batches), [None])
        parts, number = [self.empty], -(-len(ids) // self.batch_size)
        with showing() if progress else contextlib.nullcontext(lambda *_: None) as show:
            # Each batch is fetched after the next one has been started.
            for done, (found, _) in enumerate(itertools.pairwise(started), start=1):
                parts.append(jax.device_get(found))
                show("evaluating", done, number)
        return join(parts, len(ids))

    def _check(self, states: Any, ids: Any) -> tuple[Any, Sequence[str | int]]:
        """Returns the states as NumPy arrays, and the ids."""
        states = jax.tree.map(np.asarray, states)
        number = _check_states(self.game, states, self.shapes)
        ids = range(number) if ids is None else ids
        if len(ids) != number:
            raise UserError(f"there are {len(ids)} ids for {number} states; pass one per state")
        for identity in ids:
            if isinstance(identity, bool) or not isinstance(identity, str | int | np.integer):
                raise UserError(f"an id is {identity!r}; it must be a string or an integer")
        return states, ids


def _check_states(game: str, states: Any, shapes: Any) -> int:
    """Returns the size of a batch of states; a UserError names the first wrong field."""
    problem = f"the states are not a batch of states of {game}"
    if jax.tree.structure(states) != jax.tree.structure(shapes):
        raise UserError(
            f"{problem}, but {type(states).__name__}; create them with the environment of the game"
        )
    wanted = jax.tree_util.tree_leaves_with_path(shapes)
    number = None
    for array, (path, shape) in zip(jax.tree.leaves(states), wanted, strict=True):
        number = array.shape[0] if number is None and array.ndim else number
        if (array.shape, array.dtype) != ((number, *shape.shape[1:]), shape.dtype):
            expected = ", ".join(("S", *map(str, shape.shape[1:])))
            raise UserError(
                f"{problem}: {jax.tree_util.keystr(path)} is {array.dtype} {list(array.shape)}, "
                f"not {shape.dtype} [{expected}]"
            )
    return number or 0
