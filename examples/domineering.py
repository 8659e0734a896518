"""Domineering, a game outside the package: `dualmctx train --game domineering:Domineering`.

The first player places vertical dominoes on the empty cells of a board, the second player
horizontal ones. Who cannot move loses. Source: E. R. Berlekamp, J. H. Conway and R. K. Guy,
"Winning Ways for Your Mathematical Plays", 1982, chapter 5.
"""

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pgx

import games


@flax.struct.dataclass
class State(pgx.State):
    """The fields of `pgx.State`; the owner of each cell, -1 if empty; and the player to move."""

    current_player: jax.Array
    observation: jax.Array
    rewards: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    legal_action_mask: jax.Array
    _step_count: jax.Array
    _board: jax.Array
    _color: jax.Array

    @property
    def env_id(self):
        """The name of the game."""
        return "domineering"

    def picture(self):
        """Returns the picture of an unbatched state, for `games.to_text` and `to_svg`."""
        name = ("vertical", "horizontal")[int(self._color)]
        end = "has no move and has lost" if self.terminated else "to move"
        rows = tuple(tuple("xo."[int(owner)] for owner in row) for row in self._board)
        return games.Picture(f"domineering: {name} {end}", rows)


class Domineering(pgx.Env):
    """Action a places domino a: first the vertical dominoes, then the horizontal ones, by rows."""

    def __init__(self, rows: int = 4, columns: int = 4) -> None:
        super().__init__()
        if min(rows, columns) < 2:
            raise ValueError(f"the board has {rows} rows and {columns} columns; pass at least 2")
        cells = np.arange(rows * columns).reshape(rows, columns)
        vertical = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
        horizontal = np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], axis=1)
        self.shape, self.pairs = (rows, columns), np.concatenate([vertical, horizontal])
        self.colors = np.repeat([0, 1], [len(vertical), len(horizontal)])

    def _legal(self, board, color):
        return (board.ravel()[self.pairs] < 0).all(-1) & (self.colors == color)

    def _init(self, key):
        board = jnp.full(self.shape, -1, jnp.int32)
        return State(
            current_player=jax.random.bernoulli(key).astype(jnp.int32),
            observation=jnp.zeros((*self.shape, 2), bool),
            rewards=jnp.zeros(2),
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
            legal_action_mask=self._legal(board, 0),
            _step_count=jnp.int32(0),
            _board=board,
            _color=jnp.int32(0),
        )

    def _step(self, state, action, key=None):
        cells = state._board.ravel().at[jnp.asarray(self.pairs)[action]].set(state._color)
        board, color, mover = cells.reshape(self.shape), 1 - state._color, state.current_player
        legal = self._legal(board, color)
        wins = jnp.where(jnp.arange(2) == mover, 1.0, -1.0)
        return state.replace(
            current_player=1 - mover,
            legal_action_mask=legal,
            rewards=jnp.where(legal.any(), 0.0, wins),
            terminated=~legal.any(),
            _board=board,
            _color=color,
        )

    def _observe(self, state, player_id):
        # Both players see the same: the occupied cells, and who is to move.
        return jnp.stack([state._board >= 0, jnp.broadcast_to(state._color == 1, self.shape)], -1)

    @property
    def id(self):
        """The name of the game."""
        return "domineering"

    @property
    def version(self):
        """The version of the rules."""
        return "v0"

    @property
    def num_players(self):
        """The number of players."""
        return 2

    # Optional abilities: names of moves, their cells on the picture, symmetries, and a number for
    # each position, from which the exact solution of small boards follows.

    def move_names(self):
        """Returns the two cells of each domino, such as a1a2, with a1 at the top left."""
        columns = self.shape[1]
        names = [f"{chr(97 + cell % columns)}{cell // columns + 1}" for cell in self.pairs.ravel()]
        return [one + other for one, other in zip(names[::2], names[1::2], strict=True)]

    def board_input(self, state):
        """Returns the two cells of each legal domino; the first one is chosen first."""
        actions = np.flatnonzero(state.legal_action_mask).tolist()
        ends = [[divmod(cell, self.shape[1]) for cell in self.pairs[a].tolist()] for a in actions]
        cells = (games.Cells(one, (other,), one) for one, other in ends)
        return dict(zip(actions, cells, strict=True))

    def symmetries(self):
        """Returns the identity, the mirror images and the half turn."""
        entries = np.arange(2 * np.prod(self.shape)).reshape(*self.shape, 2)
        cells = np.arange(np.prod(self.shape)).reshape(self.shape)
        index = {frozenset(pair): action for action, pair in enumerate(self.pairs.tolist())}
        flips = (), (0,), (1,), (0, 1)
        moved = [np.flip(cells, flip).ravel()[self.pairs].tolist() for flip in flips]
        actions = [[index[frozenset(pair)] for pair in pairs] for pairs in moved]
        return [np.flip(entries, flip).ravel() for flip in flips], actions

    @property
    def num_codes(self):
        """The number of codes: occupied cells, and who is to move."""
        return 2 ** (int(np.prod(self.shape)) + 1)

    def position_code(self, state):
        """Returns the occupied cells as bits, then the player to move."""
        bits = jnp.append((state._board >= 0).ravel(), state._color == 1)
        return (bits << jnp.arange(bits.size, dtype=jnp.int32)).sum(dtype=jnp.int32)
