"""The position of `dualmctx tree`, and its search."""

from typing import Any, NamedTuple

import jax

import games
from dualmctx.distributed.devices import free_memory
from dualmctx.errors import UserError
from dualmctx.models.search_fn import make_search_fn
from dualmctx.models.search_memory import num_bytes
from dualmctx.policies.budgets import tree_budgets
from dualmctx.runs.saved_network import Trained, model_kwargs_of
from dualmctx.training.memory_budget import require_batch_memory
from dualmctx.types import Environment, Policy


class Given(NamedTuple):
    """A position as the user gives it.

    Attributes:
      moves: the moves, as text.
      fen: the position in which they begin; `None` for the start of the game.
    """

    moves: str
    fen: str | None

    @property
    def text(self) -> str:
        """The position for a title, such as `after 2 3`."""
        start = "" if self.fen is None else f" from {self.fen}"
        return f"{start} after {self.moves}" if self.moves else start or " at the start"


def read_given(env: Environment, words: tuple[str, ...], fen: str | None) -> Given:
    """Joins the words of a position; in games with FENs, text with a slash is a FEN.

    Raises:
      ValueError: if there are two FENs.
    """
    text = " ".join(" ".join(words).split())
    if "/" not in text or not games.has_fen(env):
        return Given(text, fen)
    if fen is not None:
        raise UserError(f"fen is {fen}, and the position is the FEN {text}; give one of them")
    return Given("", text)


def find_state(env: Environment, given: Given) -> Any:
    """Returns the state of a position, with a batch axis of 1.

    Raises:
      ValueError: if a move or the FEN is invalid, or the game is over.
    """
    opened = games.open_position(env, given.moves, given.fen)
    if opened.is_over:
        raise UserError(f"the game is over{given.text}; give a position with a legal move")
    return jax.tree.map(lambda x: x[None], opened.state)


def search(trained: Trained, policy: Policy, state: Any, seed: int) -> Any:
    """Searches from `[1]` states without noise; returns the output of the policy.

    Raises:
      ValueError: if the network does not fit the search, or the tree does not fit into memory.
    """
    search_fn = make_search_fn(
        trained.env, trained.network, policy.for_evaluation(), **model_kwargs_of(trained.record)
    )
    inputs = trained.params, jax.random.PRNGKey(seed), state
    # The trees are most of the memory of a search of one position.
    require_batch_memory(1, num_bytes(jax.eval_shape(search_fn, *inputs)), free_memory())
    return jax.jit(search_fn)(*inputs)


def describe_search(policy: Policy, variant: str | None) -> str:
    """Describes a search by the user's `variant`, such as `dual, 20 and 8 simulations`."""
    budget = " and ".join(map(str, tree_budgets(policy)))
    return f"{variant or type(policy).__name__.lower()}, {budget} simulations"
