"""The rules of the small games in plain Python, which share no code with those in JAX.

A position is a hashable tuple; the players are 0, who moves first, and 1. Each game has

- `start()`, the initial position;
- `mover(position)`, the player to move;
- `result(position)`, the result for player 0, -1, 0 or 1, or None if the game is not over;
- `moves(position)`, the next position for each legal action;
- `code(position)`, the number that the environment gives the position.
"""

from typing import Any, NamedTuple


class Lines(NamedTuple):
    """Connect2 and tic-tac-toe: players fill cells in turn; a player who owns a whole line wins.

    A position is the tuple of cells: the owner of the cell, or -1.
    """

    num_cells: int
    lines: tuple[tuple[int, ...], ...]

    def start(self) -> Any:
        return (-1,) * self.num_cells

    def mover(self, position: Any) -> int:
        return sum(cell >= 0 for cell in position) % 2

    def result(self, position: Any) -> int | None:
        for line in self.lines:
            owners = {position[cell] for cell in line}
            if len(owners) == 1 and -1 not in owners:
                return 1 if owners == {0} else -1
        return None if -1 in position else 0

    def moves(self, position: Any) -> dict[int, Any]:
        stone = (self.mover(position),)
        empty = (i for i, cell in enumerate(position) if cell < 0)
        return {i: position[:i] + stone + position[i + 1 :] for i in empty}

    def code(self, position: Any) -> int:
        return sum((cell + 1) * 3**i for i, cell in enumerate(position))


CONNECT2 = Lines(4, tuple((i, i + 1) for i in range(3)))
_ROWS = tuple((3 * i, 3 * i + 1, 3 * i + 2) for i in range(3))
TIC_TAC_TOE = Lines(9, (*_ROWS, *zip(*_ROWS, strict=True), (0, 4, 8), (2, 4, 6)))


class Nim(NamedTuple):
    """Nim with one pile; the player who takes the last stone wins.

    A position is (pile, player to move). The code is the pile alone.
    """

    pile: int
    max_take: int

    def start(self) -> Any:
        return self.pile, 0

    def mover(self, position: Any) -> int:
        return position[1]

    def result(self, position: Any) -> int | None:
        pile, mover = position
        return None if pile else (1 if mover == 1 else -1)

    def moves(self, position: Any) -> dict[int, Any]:
        pile, mover = position
        most = min(self.max_take, pile)
        return {take - 1: (pile - take, 1 - mover) for take in range(1, most + 1)}

    def code(self, position: Any) -> int:
        return position[0]


class HSR(NamedTuple):
    """The Highest Safe Rung; a position is (k, q, n, m), with m = 0 if the Proposer is to move."""

    k: int
    q: int
    n: int

    def start(self) -> Any:
        return self.k, self.q, self.n, 0

    def mover(self, position: Any) -> int:
        return int(position[3] != 0)

    def result(self, position: Any) -> int | None:
        k, q, n, m = position
        if m:
            return None
        if n == 1:
            return 1
        return -1 if k == 0 or q == 0 else None

    def moves(self, position: Any) -> dict[int, Any]:
        k, q, n, m = position
        if m:
            return {self.n - 1: (k - 1, q - 1, m, 0), self.n: (k, q - 1, n - m, 0)}
        return {rung - 1: (k, q, n, rung) for rung in range(1, n)}

    def code(self, position: Any) -> int:
        k, q, n, m = position
        return ((k * (self.q + 1) + q) * (self.n + 1) + n) * self.n + m
