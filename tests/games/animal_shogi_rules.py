"""The rules of animal shogi in plain Python, on the board as the first player sees it."""

import itertools
from typing import NamedTuple

NEAR = [x for x in itertools.product((-1, 0, 1), repeat=2) if x != (0, 0)]
STRAIGHT = [x for x in NEAR if 0 in x]
CHICK, ELEPHANT, GIRAFFE, LION, HEN = range(5)
# Steps (column, row) of the first player's pieces, who moves towards row 0.
STEPS = {
    CHICK: [(0, -1)],
    ELEPHANT: [x for x in NEAR if 0 not in x],
    GIRAFFE: STRAIGHT,
    LION: NEAR,
    HEN: [*STRAIGHT, (-1, -1), (1, -1)],
}
FIRST = {(0, 3): GIRAFFE, (1, 3): LION, (2, 3): ELEPHANT, (1, 2): CHICK}


class Position(NamedTuple):
    """The piece (side, kind) on each square (column, row), the hands of both sides, and a side."""

    board: frozenset
    hands: tuple
    side: int


def start():
    second = {(2 - x, 3 - y): kind for (x, y), kind in FIRST.items()}
    pieces = [(at, (side, kind)) for side in (0, 1) for at, kind in (FIRST, second)[side].items()]
    return Position(frozenset(pieces), ((0, 0, 0), (0, 0, 0)), 0)


def attacked(board, side):
    """The squares that a side attacks."""
    sign = 1 - 2 * side
    for (x, y), (owner, kind) in board.items():
        if owner == side:
            yield from ((x + sign * dx, y + sign * dy) for dx, dy in STEPS[kind])


def is_safe(board, side):
    """Whether the lion of a side is not attacked."""
    [lion] = [at for at, piece in board.items() if piece == (side, LION)]
    return lion not in attacked(board, 1 - side)


def moves(position):
    """The next position of each legal action, by pgx's number of the action."""
    board, side = dict(position.board), position.side
    for number, changes, hands in itertools.chain(_steps(position), _drops(position)):
        after = {at: piece for at, piece in (board | changes).items() if piece is not None}
        if is_safe(after, side):
            yield number, Position(frozenset(after.items()), hands, 1 - side)


def _number(x, y, side):
    """The number of a square, as the side sees it."""
    return (x * 4 + y) if side == 0 else 11 - (x * 4 + y)


def _steps(position):
    board, side = dict(position.board), position.side
    sign = 1 - 2 * side
    for (x, y), (owner, kind) in board.items():
        for dx, dy in STEPS[kind] if owner == side else ():
            u, v = x + sign * dx, y + sign * dy
            target = board.get((u, v))
            if not (0 <= u < 3 and 0 <= v < 4) or (target and target[0] == side):
                continue
            # Nobody captures a lion: its side would have had to save it.
            taken = None if target is None else target[1] % HEN
            grown = HEN if kind == CHICK and v == (0, 3)[side] else kind
            changes = {(x, y): None, (u, v): (side, grown)}
            yield (
                NEAR.index((dx, dy)) * 12 + _number(x, y, side),
                changes,
                _hands(position, taken, 1),
            )


def _drops(position):
    board, side = dict(position.board), position.side
    for kind, (x, y) in itertools.product(range(3), itertools.product(range(3), range(4))):
        if position.hands[side][kind] and (x, y) not in board:
            changes = {(x, y): (side, kind)}
            yield 96 + kind * 12 + _number(x, y, side), changes, _hands(position, kind, -1)


def _hands(position, kind, change):
    hands = [list(hand) for hand in position.hands]
    if kind is not None:
        hands[position.side][kind] += change
    return tuple(map(tuple, hands))


def result(history):
    """The result of the last position for the player who has moved: 1, 0, or None if it goes on."""
    last = history[-1]
    mover = 1 - last.side
    lions = [y for (_, y), piece in last.board if piece == (mover, LION)]
    if lions == [(0, 3)[mover]] or not any(moves(last)):
        return 1
    return 0 if history.count(last) >= 3 or len(history) > 256 else None
