"""The experiments: games, algorithms, who is compared with whom, and how large it all is."""

import dataclasses
from typing import Literal, NamedTuple

from dualmctx.matches.costs import MoveCost, move_cost
from dualmctx.policies import MPV, AlphaZero, Backup, Dual, Root
from dualmctx.policies.mpv import in_rounds
from dualmctx.policies.window import window_for
from dualmctx.types import Policy


@dataclasses.dataclass(frozen=True)
class Size:
    """How large the experiments are; by default as the paper has it, where it says.

    Raises:
      ValueError: when numbers do not go together, in one line.
    """

    steps: int = 18
    """Training steps of each run. Who is to converge by three evaluations in a row has to by four
    steps before the end; the paper's last one takes 13."""
    positions: int = 4096
    """New positions a step."""
    num_games: int = 128
    """Games of self-play side by side."""
    batch_size: int = 128
    """Positions an optimiser step; a training step takes as many as go into the buffer."""
    buffer_steps: int = 4
    """Steps whose positions the replay buffer holds."""
    learning_rate: float = 1e-3
    """Peak of the learning rate."""
    budgets: tuple[int, int] = (50, 35)
    """Simulations of the small and of the large tree; AlphaZero has their sum."""
    num_rounds: int = 5
    """Rounds of this project's own variants."""
    width: int = 64
    """Features of the networks."""
    num_blocks: int = 4
    """Residual blocks of AlphaZero's and Dual's network and of MPV's small one, at least 2."""
    evaluate_every: int = 2
    """Steps from one checkpoint that plays to the next."""
    openings: int = 8
    """Openings from which any two checkpoints play a pair of games."""
    resamples: int = 100
    """Resamples of the openings, for α-rank."""

    def __post_init__(self) -> None:
        """Checks what no part of the program checks by itself."""
        for name in (
            *("steps", "buffer_steps", "width"),
            *("evaluate_every", "openings", "resamples"),
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.num_blocks < 2:
            raise ValueError(f"num_blocks is {self.num_blocks}; Dual needs at least 2")
        for name in ("num_games", "batch_size"):
            value = getattr(self, name)
            if value < 1 or self.positions < 1 or self.positions % value:
                raise ValueError(
                    f"positions is {self.positions}; it must be a multiple of {name} ({value})"
                )

    @property
    def evaluated(self) -> tuple[int, ...]:
        """The steps whose checkpoints play, from 0, the untrained networks; the last one too."""
        return tuple(sorted({*range(0, self.steps + 1, self.evaluate_every), self.steps}))

    def passes(self, step: int) -> int:
        """Returns how often the learner goes over as many positions as a step adds."""
        return min(step, self.buffer_steps)


QUICK = Size(
    steps=3,
    positions=256,
    num_games=32,
    batch_size=32,
    buffer_steps=2,
    budgets=(8, 4),
    num_rounds=4,
    width=8,
    num_blocks=2,
    evaluate_every=1,
    openings=2,
    resamples=20,
)
"""Shows in minutes that everything works, and nothing else."""


class GameRow(NamedTuple):
    """A game of the paper.

    Attributes:
      game: its name in `games`.
      num_states: states that can be reached; they give the window of the paper's Dual. HSR, Nim:
        counted (`tests/test_window.py`); Connect Four: Edelkamp, Kissmann 2008.
      max_plies: of the longest game.
      temperature_plies: plies of self-play that are drawn from the search's weights.
      opening_plies: random plies with which matches begin, each length as likely.
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
    """Who learns: a search, and the depths of the network's heads or of separate networks.

    Attributes:
      policy: the search of self-play.
      depths: blocks before each head.
      keep_activations: see `make_model`.
    """

    policy: Policy
    depths: tuple[int, ...]
    keep_activations: bool = True

    @property
    def cost(self) -> MoveCost:
        """What a move costs."""
        return move_cost(self.policy, self, keep_activations=self.keep_activations)

    @property
    def head_depths(self) -> tuple[int, ...]:
        """The depths, by their name in a network."""
        return self.depths


class Comparison(NamedTuple):
    """Algorithms that are compared: the candidate, Dual's, with each of the others."""

    title: str
    candidate: str
    others: tuple[str, ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """All names, the candidate last, as in the paper's table."""
        return (*self.others, self.candidate)


COMPARISONS = {
    "paper": Comparison("The paper's setting", "dual", ("alphazero", "mpv")),
    "best": Comparison(
        "This project's Dual, equal simulations", "dual-best", ("alphazero-best", "mpv-best")
    ),
    "cost": Comparison("This project's Dual, equal network cost", "dual-best", ("alphazero-cost",)),
    "seconds": Comparison(
        "This project's Dual, equal seconds a move", "dual-best", ("alphazero-seconds",)
    ),
    "controls": Comparison(
        "This project's Dual and each head alone, equal network cost",
        "dual-best",
        ("alphazero-cost", "alphazero-early"),
    ),
}


def make_algorithms(row: GameRow, size: Size) -> dict[str, Algorithm]:
    """Makes all algorithms but `alphazero-seconds`, whose budget is measured.

    Those of the paper's setting act and learn by eq. 2, the smoothed visits: `alphazero` by those
    of its tree, `mpv` and `dual` by those of the large tree. `dual` is sequential, with a window,
    and every evaluation runs the whole network; `mpv` differs from it by its networks, and has no
    window. The others act and learn by plain visits: `alphazero-best` by those of its tree,
    `mpv-best` and `dual-best` by those of the small tree. The latter two have rounds and no window,
    and `dual-best` keeps activations. `alphazero-cost` has the simulations that run as many blocks
    of the network as those of `dual-best`. `alphazero-early` does so too, by the early head alone
    of the network of `dual-best`, whose final head it trains and does not search with.
    """
    small, large = size.budgets
    depth = size.num_blocks
    shared, separate = (depth // 2, depth), (depth, depth + depth // 2)
    rounds = min(size.num_rounds, large)
    smoothed, own = "large_visits", "small_visits"
    best = Algorithm(Dual(size.budgets, num_rounds=rounds, action_weights=own), shared)
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
        "mpv-best": Algorithm(MPV(size.budgets, schedule=schedule, action_weights=own), separate),
        "dual-best": best,
        "alphazero-cost": alphazero(max(1, round(blocks / depth)), size),
        "alphazero-early": Algorithm(AlphaZero(max(1, round(blocks / shared[0])), head=0), shared),
    }


def alphazero(
    num_simulations: int, size: Size, visit_weights: Literal["plain", "smoothed"] = "plain"
) -> Algorithm:
    """Makes AlphaZero, whose network has the final head alone."""
    policy = AlphaZero(num_simulations, root=Root(visit_weights=visit_weights))
    return Algorithm(policy, (size.num_blocks,))
