"""The rules of the small games in plain Python, for the exact solver.

They share no code with the JAX rules, so that tests can compare the two. A position is a hashable
tuple; the players are 0, who moves first, and 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any, Protocol

Position = Hashable


class Rules(Protocol):
    """A game that ends after a finite number of plies.

    `code` maps reachable positions to numbers below `num_codes`. `state_code` maps the states of
    the game's environment to the same numbers.
    """

    @property
    def num_actions(self) -> int:
        """A, the number of actions, legal or not."""
        ...

    @property
    def num_codes(self) -> int:
        """The length of a table indexed by position code."""
        ...

    @property
    def max_plies(self) -> int:
        """An upper bound on the length of a game."""
        ...

    def start(self) -> Any:
        """Returns the initial position."""
        ...

    def mover(self, position: Any) -> int:
        """Returns the player to move."""
        ...

    def result(self, position: Any) -> int | None:
        """Returns the result for player 0, -1, 0 or 1, or None if the game is not over."""
        ...

    def moves(self, position: Any) -> dict[int, Any]:
        """Returns the next position for each legal action; the game must not be over."""
        ...

    def code(self, position: Any) -> int:
        """Returns the number of the position."""
        ...

    def state_code(self, state: Any) -> Any:
        """Returns the number of an unbatched state of the environment; may be traced by JAX."""
        ...


@dataclasses.dataclass(frozen=True)
class Lines:
    """Connect2 and tic-tac-toe: players fill cells in turn; a player who owns a whole line wins.

    A position is the tuple of cells: the owner of the cell, or -1.
    """

    num_actions: int
    lines: tuple[tuple[int, ...], ...]

    @property
    def num_codes(self) -> int:
        """Three values per cell."""
        return 3**self.num_actions

    @property
    def max_plies(self) -> int:
        """One stone per cell."""
        return self.num_actions

    def start(self) -> tuple[int, ...]:
        """Returns the empty board."""
        return (-1,) * self.num_actions

    def mover(self, position: tuple[int, ...]) -> int:
        """Returns the parity of the number of stones."""
        return sum(cell >= 0 for cell in position) % 2

    def result(self, position: tuple[int, ...]) -> int | None:
        """Returns ±1 if a player owns a line, 0 if the board is full, else None."""
        for line in self.lines:
            owners = {position[cell] for cell in line}
            if len(owners) == 1 and -1 not in owners:
                return 1 if owners == {0} else -1
        return None if -1 in position else 0

    def moves(self, position: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """Returns the board after placing a stone in each empty cell."""
        stone = (self.mover(position),)
        empty = (i for i, cell in enumerate(position) if cell < 0)
        return {i: position[:i] + stone + position[i + 1 :] for i in empty}

    def code(self, position: tuple[int, ...]) -> int:
        """Returns Σ (cell + 1) 3^i."""
        return sum((cell + 1) * 3**i for i, cell in enumerate(position))

    def state_code(self, state: Any) -> Any:
        """Returns `code` of the board."""
        return sum((state._x.board[i] + 1) * 3**i for i in range(self.num_actions))


CONNECT2 = Lines(4, tuple((i, i + 1) for i in range(3)))
TIC_TAC_TOE = Lines(
    9,
    (
        *((3 * i, 3 * i + 1, 3 * i + 2) for i in range(3)),
        *((i, i + 3, i + 6) for i in range(3)),
        (0, 4, 8),
        (2, 4, 6),
    ),
)


@dataclasses.dataclass(frozen=True)
class Nim:
    """Nim with one pile; the player who takes the last stone wins.

    A position is (pile, player to move). The code is the pile alone, because the value for the
    player to move and the optimal moves do not depend on the identity of that player.
    """

    pile: int
    max_take: int

    @property
    def num_actions(self) -> int:
        """One action for each number of stones."""
        return self.max_take

    @property
    def num_codes(self) -> int:
        """The piles 0 … pile."""
        return self.pile + 1

    @property
    def max_plies(self) -> int:
        """One stone per ply."""
        return self.pile

    def start(self) -> tuple[int, int]:
        """Returns the full pile, player 0 to move."""
        return self.pile, 0

    def mover(self, position: tuple[int, int]) -> int:
        """Returns the second entry of the position."""
        return position[1]

    def result(self, position: tuple[int, int]) -> int | None:
        """Returns +1 if player 0 took the last stone, -1 if player 1 did."""
        pile, mover = position
        return None if pile else (1 if mover == 1 else -1)

    def moves(self, position: tuple[int, int]) -> dict[int, tuple[int, int]]:
        """Returns the pile after taking 1 … max_take stones."""
        pile, mover = position
        return {
            take - 1: (pile - take, 1 - mover) for take in range(1, min(self.max_take, pile) + 1)
        }

    def code(self, position: tuple[int, int]) -> int:
        """Returns the pile."""
        return position[0]

    def state_code(self, state: Any) -> Any:
        """Returns the pile."""
        return state._x.pile


@dataclasses.dataclass(frozen=True)
class HSR:
    """The Highest Safe Rung; a position is (k, q, n, m), with m = 0 if the Proposer is to move."""

    k: int
    q: int
    n: int

    @property
    def num_actions(self) -> int:
        """The rungs 1 … n - 1 and two answers."""
        return self.n + 1

    @property
    def num_codes(self) -> int:
        """A mixed radix over k, q, n, m."""
        return (self.k + 1) * (self.q + 1) * (self.n + 1) * self.n

    @property
    def max_plies(self) -> int:
        """Two plies for each test."""
        return 2 * self.q

    def start(self) -> tuple[int, int, int, int]:
        """Returns (k, q, n, 0)."""
        return self.k, self.q, self.n, 0

    def mover(self, position: tuple[int, int, int, int]) -> int:
        """Returns 1, the Opponent, if a rung is named, else 0, the Proposer."""
        return int(position[3] != 0)

    def result(self, position: tuple[int, int, int, int]) -> int | None:
        """Returns +1 if one rung is left, else -1 if no jars or tests are left, else None."""
        k, q, n, m = position
        if m:
            return None
        if n == 1:
            return 1
        return -1 if k == 0 or q == 0 else None

    def moves(self, position: tuple[int, int, int, int]) -> dict[int, tuple[int, int, int, int]]:
        """Returns the positions after each rung of the Proposer, or each answer of the Opponent."""
        k, q, n, m = position
        if m:
            return {self.n - 1: (k - 1, q - 1, m, 0), self.n: (k, q - 1, n - m, 0)}
        return {rung - 1: (k, q, n, rung) for rung in range(1, n)}

    def code(self, position: tuple[int, int, int, int]) -> int:
        """Returns ((k (q₀ + 1) + q) (n₀ + 1) + n) n₀ + m, q₀ and n₀ being the initial q and n."""
        k, q, n, m = position
        return ((k * (self.q + 1) + q) * (self.n + 1) + n) * self.n + m

    def state_code(self, state: Any) -> Any:
        """Returns `code` of the position of the environment, which has the same fields."""
        return self.code(state._x)
