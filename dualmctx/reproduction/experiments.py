"""The experiments: the games, the algorithms and the comparisons between them."""

from typing import Literal, NamedTuple

from dualmctx.policies import MPV, AlphaZero, Backup, Dual, Root
from dualmctx.policies.costs import MoveCost, move_cost
from dualmctx.policies.mpv import in_rounds
from dualmctx.policies.window import window_for
from dualmctx.reproduction.size import Size
from dualmctx.types import Policy


class GameRow(NamedTuple):
    """A game of the paper.

    Attributes:
      game: its name in `games`.
      num_states: number of reachable states, which sets the window of the paper's Dual. HSR and
        Nim: counted (`tests/test_window.py`); Connect Four: Edelkamp, Kissmann 2008.
      max_plies: length of the longest game.
      temperature_plies: number of plies at the start of a game in which self-play samples moves
        from the weights of the search.
      opening_plies: numbers of random plies at the start of a match game, equally likely.
    """

    game: str
    num_states: int
    max_plies: int
    temperature_plies: int
    opening_plies: tuple[int, ...]

    @property
    def window(self) -> int:
        """Returns τ of the paper's Dual, in edges."""
        return window_for(self.num_states, self.max_plies)


GAMES = {
    "hsr": GameRow("hsr", 995, 8, 8, (1, 2, 3)),
    "nim": GameRow("nim", 40, 20, 8, (1, 2, 3, 4, 5, 6)),
    "connect-four": GameRow("connect_four", 4_531_985_219_092, 42, 12, (1, 2, 3, 4)),
}


class Algorithm(NamedTuple):
    """An algorithm: a search, and the depths of the heads of its network or networks.

    Attributes:
      policy: the search, with the noise of self-play.
      depths: number of blocks before each head.
      keep_activations: see `make_model`.
    """

    policy: Policy
    depths: tuple[int, ...]
    keep_activations: bool = True

    @property
    def cost(self) -> MoveCost:
        """The cost of a move."""
        return move_cost(self.policy, self, keep_activations=self.keep_activations)

    @property
    def head_depths(self) -> tuple[int, ...]:
        """The depths, under the name that networks use."""
        return self.depths


class Comparison(NamedTuple):
    """A comparison of the candidate, a Dual MCTS, with each of the other algorithms."""

    title: str
    candidate: str
    others: tuple[str, ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The names of all algorithms, the candidate last, as in the table of the paper."""
        return (*self.others, self.candidate)


COMPARISONS = {
    "paper": Comparison("The paper's setting", "dual", ("alphazero", "mpv")),
    "best": Comparison(
        "This project's Dual, equal simulations", "dual-best", ("alphazero-best", "mpv-best")
    ),
    "cost": Comparison("This project's Dual, equal network cost", "dual-best", ("alphazero-cost",)),
    "seconds": Comparison(
        "This project's Dual, equal seconds per move", "dual-best", ("alphazero-seconds",)
    ),
    "controls": Comparison(
        "This project's Dual and each head alone, equal network cost",
        "dual-best",
        ("alphazero-cost", "alphazero-early"),
    ),
}


def make_algorithms(row: GameRow, size: Size) -> dict[str, Algorithm]:
    """Returns all algorithms except `alphazero-seconds`, whose budget is measured.

    The algorithms of the paper's setting act and learn by the smoothed visits of eq. 2, `alphazero`
    in its only tree, `mpv` and `dual` in the large tree. `dual` is sequential, has a window, and
    runs the whole network in every evaluation. `mpv` has other networks and no window.

    All others act and learn by plain visits, `alphazero-best` in its only tree, `mpv-best` and
    `dual-best` in the small tree. `mpv-best` and `dual-best` have rounds and no window, and
    `dual-best` keeps activations. `alphazero-cost` has so many simulations that it runs as many
    blocks of the network as `dual-best`. So does `alphazero-early`, which has the network of
    `dual-best` and trains both heads, but searches with the early head alone.
    """
    small, large = size.budgets
    depth = size.num_blocks
    shared, separate = (depth // 2, depth), (depth, depth + depth // 2)
    rounds = min(size.num_rounds, large)
    smoothed, plain = "large_visits", "small_visits"
    best = Algorithm(Dual(size.budgets, num_rounds=rounds, action_weights=plain), shared)
    blocks = best.cost.blocks or 0
    schedule = in_rounds(size.budgets, rounds)
    return {
        "alphazero": alphazero(small + large, size, "smoothed"),
        "mpv": Algorithm(
            MPV(size.budgets, schedule="small_first", action_weights=smoothed), separate
        ),
        "dual": Algorithm(
            Dual(
                size.budgets,
                num_rounds=1,
                action_weights=smoothed,
                backup=Backup(window=row.window),
            ),
            shared,
            keep_activations=False,
        ),
        "alphazero-best": alphazero(small + large, size),
        "mpv-best": Algorithm(MPV(size.budgets, schedule=schedule, action_weights=plain), separate),
        "dual-best": best,
        "alphazero-cost": alphazero(max(1, round(blocks / depth)), size),
        "alphazero-early": Algorithm(AlphaZero(max(1, round(blocks / shared[0])), head=0), shared),
    }


def alphazero(
    num_simulations: int, size: Size, visit_weights: Literal["plain", "smoothed"] = "plain"
) -> Algorithm:
    """Returns AlphaZero, whose network has only the final head."""
    policy = AlphaZero(num_simulations, root=Root(visit_weights=visit_weights))
    return Algorithm(policy, (size.num_blocks,))
