"""HSR, the Highest Safe Rung game: a two-player game with asymmetric roles.

In a position (k, q, n), n rungs of the ladder are candidates, and k jars and q tests remain.
The Proposer names a rung m in 1 … n - 1. The Opponent answers:

    break    → (k - 1, q - 1, m)
    no break → (k,     q - 1, n - m)

If n = 1, the Proposer wins; otherwise, if k = 0 or q = 0, the Opponent wins. The Proposer can
force a win if and only if n ≤ Σ_{i ≤ k} C(q, i).

Source: Xu and Lieberherr, the HSR family of games; Kadam, Xu, Lieberherr 2021 (arXiv
2103.11517) play it with k = 4, q = 4, n = 16.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games import adapter, boards, pictures
from games.records import numbers_from_one

_MAX = 1_000_000


class GameState(NamedTuple):
    """A position, int32 `[]` each: jars `k`, tests `q`, rungs `n`, named rung `m` or 0."""

    k: jax.Array
    q: jax.Array
    n: jax.Array
    m: jax.Array

    @property
    def color(self) -> jax.Array:
        """The player to move, int32 `[]`: 1 (Opponent) if a rung is named, else 0 (Proposer)."""
        return (self.m > 0).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Game:
    """The rules of HSR(k, q, n), with n + 1 actions.

    Action a in 0 … n - 2 names rung a + 1; action n - 1 answers "break", action n "no break".

    Attributes:
      k: number of jars, at least 1.
      q: number of tests, at least 1.
      n: number of rungs, at least 2.
    """

    k: int = 4
    q: int = 4
    n: int = 16

    def init(self) -> GameState:
        """Returns (k, q, n), the Proposer to move."""
        return GameState(jnp.int32(self.k), jnp.int32(self.q), jnp.int32(self.n), jnp.int32(0))

    def step(self, x: GameState, action: jax.Array) -> GameState:
        """Returns the position after `action`, int32 `[]`."""
        breaks = (action == self.n - 1).astype(jnp.int32)
        named = x._replace(m=action + 1)
        answered = GameState(
            k=x.k - breaks,
            q=x.q - 1,
            n=jnp.where(breaks, x.m, x.n - x.m),
            m=jnp.zeros_like(x.m),
        )
        return jax.tree.map(lambda a, b: jnp.where(x.m == 0, a, b), named, answered)

    def observe(self, x: GameState, color: jax.Array) -> jax.Array:
        """Returns bool `[k + q + 2 n + 4]`, from the view of `color`.

        The observation concatenates one-hot codes: the role of `color` (Proposer, Opponent),
        k (from 0), q (from 0), n (from 1), and the named rung (0 if none).
        """
        parts = [
            jnp.arange(2) == color,
            jnp.arange(self.k + 1) == x.k,
            jnp.arange(self.q + 1) == x.q,
            jnp.arange(1, self.n + 1) == x.n,
            jnp.arange(self.n) == x.m,
        ]
        return jnp.concatenate(parts)

    def legal_action_mask(self, x: GameState) -> jax.Array:
        """Returns bool `[n + 1]`: the rungs below the current n, or the two answers."""
        action = jnp.arange(self.n + 1)
        return jnp.where(x.m == 0, action < x.n - 1, action >= self.n - 1)

    def is_terminal(self, x: GameState) -> jax.Array:
        """Returns bool `[]`, true if no rung is named and n = 1, k = 0 or q = 0."""
        return (x.m == 0) & ((x.n == 1) | (x.k == 0) | (x.q == 0))

    def rewards(self, x: GameState) -> jax.Array:
        """Returns float32 `[2]`, Proposer and Opponent; n = 1 decides before k = 0 or q = 0."""
        return adapter.zero_sum_rewards(self.is_terminal(x), (x.n != 1).astype(jnp.int32))


@adapter.state_class
class State(adapter.State):
    """The fields of `pgx.State`, and the position `_x`, a `GameState`."""

    name = "hsr"

    def picture(self) -> pictures.Picture:
        """Returns the legal rungs, the named rung in brackets; the state must be unbatched."""
        k, q, n, m = (int(value) for value in self._x)
        question = f", rung {m} named" if m else ""
        caption = f"{pictures.caption(self)}, {k} jars, {q} tests, {n} rungs{question}"
        rungs = tuple(f"[{rung}]" if rung == m else str(rung) for rung in range(1, n))
        return pictures.Picture(caption, boards.split_rows(rungs or (".",), 16))


class HSR(adapter.RulesEnv):
    """The pgx environment: n + 1 actions, observations bool `[k + q + 2 n + 4]`.

    Attributes:
      asymmetric_roles: true, because the Proposer and the Opponent have different tasks.

    Args:
      k: number of jars, from 1 to 1,000,000.
      q: number of tests, from 1 to 1,000,000.
      n: number of rungs, from 2 to 1,000,000.

    Raises:
      ValueError: if a parameter is not an integer in its range.
    """

    state = State
    asymmetric_roles = True  # the Proposer and the Opponent have different tasks

    def __init__(self, *, k: int = 4, q: int = 4, n: int = 16) -> None:
        game = Game(
            k=adapter.check_whole("k", k, 1, _MAX, "the number of jars"),
            q=adapter.check_whole("q", q, 1, _MAX, "the number of tests"),
            n=adapter.check_whole("n", n, 2, _MAX, "the number of rungs"),
        )
        super().__init__(game)

    def move_names(self) -> list[str]:
        """Returns the rungs, then the two answers."""
        return [*numbers_from_one(self.game.n - 1), "break", "no-break"]

    @property
    def num_codes(self) -> int:
        """The number of codes, a mixed radix over k, q, n and m."""
        k, q, n = self.game.k, self.game.q, self.game.n
        return (k + 1) * (q + 1) * (n + 1) * n

    @property
    def max_plies(self) -> int:
        """The plies of the longest game: two for each test."""
        return 2 * self.game.q

    def position_code(self, state: Any) -> jax.Array:
        """Returns ((k (q₀ + 1) + q) (n₀ + 1) + n) n₀ + m, q₀ and n₀ being the initial q and n."""
        k, q, n, m = state._x
        return ((k * (self.game.q + 1) + q) * (self.game.n + 1) + n) * self.game.n + m
