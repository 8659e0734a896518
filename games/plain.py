"""The rules of the small games a second time, in plain Python, for the exact solver.

They share no code with the JAX rules, so that each can be checked against the other. A
position is a hashable tuple; players are 0 (moves first) and 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any, Protocol

Position = Hashable


class Rules(Protocol):
    """A game that ends after finitely many plies.

    `code` numbers positions below `num_codes`, one number each, among all reachable positions.
    """

    @property
    def num_actions(self) -> int:
        """Actions, legal or not."""
        ...

    @property
    def num_codes(self) -> int:
        """Length of a table over position codes."""
        ...

    @property
    def max_plies(self) -> int:
        """No game is longer."""
        ...

    def start(self) -> Any:
        """Returns the first position."""
        ...

    def mover(self, position: Any) -> int:
        """Returns the player to move."""
        ...

    def result(self, position: Any) -> int | None:
        """Returns player 0's result, -1, 0 or 1, or None while the game goes on."""
        ...

    def moves(self, position: Any) -> dict[int, Any]:
        """Returns the position after each legal action; the game must not be over."""
        ...

    def code(self, position: Any) -> int:
        """Returns the position's number."""
        ...


@dataclasses.dataclass(frozen=True)
class Lines:
    """Connect2 and tic-tac-toe: fill cells in turn; all cells of one line win.

    A position is the tuple of cells: -1 empty, else the owner.
    """

    num_actions: int
    lines: tuple[tuple[int, ...], ...]

    @property
    def num_codes(self) -> int:
        """Three values a cell."""
        return 3**self.num_actions

    @property
    def max_plies(self) -> int:
        """A stone a cell."""
        return self.num_actions

    def start(self) -> tuple[int, ...]:
        """Returns the empty board."""
        return (-1,) * self.num_actions

    def mover(self, position: tuple[int, ...]) -> int:
        """Returns 0 after an even number of stones."""
        return sum(cell >= 0 for cell in position) % 2

    def result(self, position: tuple[int, ...]) -> int | None:
        """Returns ±1 for a full line, 0 for a full board, else None."""
        for line in self.lines:
            owners = {position[cell] for cell in line}
            if len(owners) == 1 and -1 not in owners:
                return 1 if owners == {0} else -1
        return None if -1 in position else 0

    def moves(self, position: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """Returns the board after a stone in each empty cell."""
        stone = (self.mover(position),)
        empty = (i for i, cell in enumerate(position) if cell < 0)
        return {i: position[:i] + stone + position[i + 1 :] for i in empty}

    def code(self, position: tuple[int, ...]) -> int:
        """Returns Σ (cell + 1) 3^i."""
        return sum((cell + 1) * 3**i for i, cell in enumerate(position))


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
    """One pile, the last stone wins.

    A position is (pile, player to move). The code is the pile alone: whoever is to move, the
    value for the mover and the good moves are the same.
    """

    pile: int
    max_take: int

    @property
    def num_actions(self) -> int:
        """One for each number of stones."""
        return self.max_take

    @property
    def num_codes(self) -> int:
        """The piles 0 … pile."""
        return self.pile + 1

    @property
    def max_plies(self) -> int:
        """One stone a ply."""
        return self.pile

    def start(self) -> tuple[int, int]:
        """Returns the full pile, player 0 to move."""
        return self.pile, 0

    def mover(self, position: tuple[int, int]) -> int:
        """Returns the position's second entry."""
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


@dataclasses.dataclass(frozen=True)
class HSR:
    """The Highest Safe Rung; a position is (k, q, n, m), m = 0 while the Proposer is to move."""

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
        """A question and an answer for each test."""
        return 2 * self.q

    def start(self) -> tuple[int, int, int, int]:
        """Returns (k, q, n, 0)."""
        return self.k, self.q, self.n, 0

    def mover(self, position: tuple[int, int, int, int]) -> int:
        """Returns 1, the Opponent, while a rung is named."""
        return int(position[3] != 0)

    def result(self, position: tuple[int, int, int, int]) -> int | None:
        """Returns +1 once one rung is left, else -1 without jars or tests."""
        k, q, n, m = position
        if m:
            return None
        if n == 1:
            return 1
        return -1 if k == 0 or q == 0 else None

    def moves(self, position: tuple[int, int, int, int]) -> dict[int, tuple[int, int, int, int]]:
        """Returns the Proposer's rungs, or the Opponent's two answers."""
        k, q, n, m = position
        if m:
            return {self.n - 1: (k - 1, q - 1, m, 0), self.n: (k, q - 1, n - m, 0)}
        return {rung - 1: (k, q, n, rung) for rung in range(1, n)}

    def code(self, position: tuple[int, int, int, int]) -> int:
        """Returns ((k (q₀ + 1) + q) (n₀ + 1) + n) n₀ + m, with the start's q₀ and n₀."""
        k, q, n, m = position
        return ((k * (self.q + 1) + q) * (self.n + 1) + n) * self.n + m
