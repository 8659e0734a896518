"""The size of the experiments."""

import dataclasses

from dualmctx.errors import UserError


@dataclasses.dataclass(frozen=True)
class Size:
    """The size of the experiments. Defaults are the paper's where it states them.

    Raises:
      ValueError: if an option is out of range or options contradict each other.
    """

    steps: int = 18
    """Training steps of each run. Three evaluations in a row must start at least four steps
    before the end; the slowest algorithm of the paper takes 13 steps."""
    positions: int = 4096
    """New positions per step."""
    num_games: int = 128
    """Games of self-play played in parallel."""
    batch_size: int = 128
    """Positions per optimiser step. A training step takes as many optimiser steps as there are
    batches in the buffer."""
    buffer_steps: int = 4
    """Capacity of the replay buffer, in training steps."""
    learning_rate: float = 1e-3
    """Peak of the learning rate."""
    budgets: tuple[int, int] = (50, 35)
    """Simulations in the small and in the large tree. AlphaZero gets their sum."""
    num_rounds: int = 5
    """Rounds of this project's own variants."""
    width: int = 64
    """Features of the networks."""
    num_blocks: int = 4
    """Residual blocks of the network of AlphaZero and of Dual, and of MPV's small network; at least
    2."""
    evaluate_every: int = 2
    """Steps between checkpoints that play matches."""
    openings: int = 8
    """Openings from which every two checkpoints play a pair of games."""
    resamples: int = 100
    """Resamples of the openings, for α-rank."""

    def __post_init__(self) -> None:
        """Checks the options that are checked nowhere else."""
        for name in (
            *("steps", "buffer_steps", "width"),
            *("evaluate_every", "openings", "resamples"),
        ):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.num_blocks < 2:
            raise UserError(f"num_blocks is {self.num_blocks}; Dual needs at least 2")
        for name in ("num_games", "batch_size"):
            value = getattr(self, name)
            if value < 1 or self.positions < 1 or self.positions % value:
                raise UserError(
                    f"positions is {self.positions}; it must be a multiple of {name} ({value})"
                )

    @property
    def evaluated(self) -> tuple[int, ...]:
        """Steps whose checkpoints play: step 0 (untrained), every few steps, and the last one."""
        return tuple(sorted({*range(0, self.steps + 1, self.evaluate_every), self.steps}))

    def passes(self, step: int) -> int:
        """Returns the learning passes of a step; a pass covers as many positions as a step adds."""
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
"""A tiny size that runs in minutes, only to show that everything works."""
