"""The runs of `python -m benchmarks.paper`: sizes, games, algorithms, comparisons, settings."""

from pathlib import Path
from typing import Literal, NamedTuple

import games
from dualmctx import MPV, AlphaZero, Dual, Root, window_for
from dualmctx.checks import check, check_count
from dualmctx.matches import Opening, random_openings
from dualmctx.models.costs import MoveCost, move_cost
from dualmctx.policies.dual import in_rounds
from dualmctx.runs.folder import CONFIG
from dualmctx.training import Learner, SelfPlay
from dualmctx.training.config import Config, EvalConfig, NetworkOptions
from dualmctx.types import Environment, Policy


class Size(NamedTuple):
    """The size of the experiments. Defaults are the paper's where it states them.

    Attributes:
      steps: training steps of each run.
      positions: new positions per step.
      num_games: games of self-play played in parallel.
      batch_size: positions per optimiser step; a training step has one per batch in the buffer.
      budgets: simulations in the small and in the large tree; AlphaZero gets their sum.
      width: features of the networks.
      num_blocks: residual blocks of the network of AlphaZero and Dual, and of MPV's small one.
      evaluate_every: steps between checkpoints that play matches.
      openings: openings from which every two checkpoints play a pair of games.
    """

    steps: int = 18
    positions: int = 4096
    num_games: int = 128
    batch_size: int = 128
    budgets: tuple[int, int] = (50, 35)
    width: int = 64
    num_blocks: int = 4
    evaluate_every: int = 2
    openings: int = 8

    def check(self) -> None:
        """Checks the options that are checked nowhere else."""
        for name in ("steps", "num_games", "batch_size", "evaluate_every", "openings"):
            check_count(name, getattr(self, name), 1)
        check_count("num_blocks", self.num_blocks, 2)
        for name in ("num_games", "batch_size"):
            number = getattr(self, name)
            is_multiple = self.positions > 0 and self.positions % number == 0
            check(is_multiple, "positions", self.positions, f"a multiple of {name} ({number})")

    @property
    def evaluated(self) -> tuple[int, ...]:
        """Steps whose checkpoints play: step 0 (untrained), every few steps, and the last one."""
        return tuple(sorted({*range(0, self.steps + 1, self.evaluate_every), self.steps}))


QUICK = Size(3, 256, 32, 32, (8, 4), 8, 2, 1, 2)
"""A tiny size that runs in minutes, only to show that everything works."""
BUFFER_STEPS = 4
"""Capacity of the replay buffer, in training steps; the paper gives none."""


def passes(step: int) -> int:
    """Returns the learning passes of a step; a pass covers as many positions as a step adds."""
    return min(step, BUFFER_STEPS)


class GameRow(NamedTuple):
    """A game of the paper.

    Attributes:
      name: its name in `games`.
      num_states: number of reachable states, which sets the window of the paper's Dual. HSR and
        Nim: counted (`tests/policies/test_window.py`); Connect Four: Edelkamp, Kissmann 2008.
      max_plies: length of the longest game.
      temperature_plies: number of plies in which self-play samples moves.
      opening_plies: numbers of random plies at the start of a match game, equally likely.
    """

    name: str
    num_states: int
    max_plies: int
    temperature_plies: int
    opening_plies: tuple[int, ...]

    def make_openings(self, env: Environment, number: int, seed: int) -> list[Opening]:
        """Returns the start of the game and random openings."""
        more = number - 1 and random_openings(env, number - 1, plies=self.opening_plies, seed=seed)
        return [(), *(more or ())]


GAMES = {
    "hsr": GameRow("hsr", 995, 8, 8, (1, 2, 3)),
    "nim": GameRow("nim", 40, 20, 8, (1, 2, 3, 4, 5, 6)),
    "connect-four": GameRow("connect_four", 4_531_985_219_092, 42, 12, (1, 2, 3, 4)),
}


class Algorithm(NamedTuple):
    """A search with the noise of self-play, the depths of its network's heads, and an option."""

    policy: Policy
    head_depths: tuple[int, ...]
    keep_activations: bool = True

    @property
    def cost(self) -> MoveCost:
        """The cost of a move."""
        return move_cost(self.policy, self, keep_activations=self.keep_activations)


COMPARISONS = {
    "paper": ("alphazero", "mpv", "dual"),
    "best": ("alphazero-best", "mpv-best", "dual-best"),
    "cost": ("alphazero-cost", "dual-best"),
    "controls": ("alphazero-cost", "alphazero-early", "dual-best"),
}
"""The algorithms of each comparison: the reference first, the candidate last."""


def make_algorithms(row: GameRow, size: Size) -> dict[str, Algorithm]:
    """Returns all algorithms.

    The algorithms of the paper's setting act and learn by the smoothed visits of eq. 2, `alphazero`
    in its only tree, `mpv` and `dual` in the large tree. `dual` is sequential, has a window, and
    runs the whole network in every evaluation. All others act and learn by plain visits, those with
    two trees in the small tree. `mpv-best` and `dual-best` have rounds and no window, and
    `dual-best` keeps activations. `alphazero-cost` runs as many blocks of the network as
    `dual-best`. So does `alphazero-early`, which has the network of `dual-best` and trains both
    heads, but searches with the early head alone.
    """
    budgets, depth = size.budgets, size.num_blocks
    shared, separate = (depth // 2, depth), (depth, depth + depth // 2)
    rounds = min(5, budgets[1])
    best = Algorithm(
        Dual.paper(num_simulations=budgets, num_rounds=rounds, action_weights="small_visits"),
        shared,
    )
    schedule, blocks = in_rounds(budgets, rounds), best.cost.blocks or 0
    mpv = MPV(budgets, schedule="small_first", action_weights="large_visits")
    window = window_for(row.num_states, row.max_plies)
    dual = Dual.paper(num_simulations=budgets, window=window)
    early = AlphaZero(max(1, round(blocks / shared[0])), head=0)
    return {
        "alphazero": alphazero(sum(budgets), size, "smoothed"),
        "mpv": Algorithm(mpv, separate),
        "dual": Algorithm(dual, shared, keep_activations=False),
        "alphazero-best": alphazero(sum(budgets), size),
        "mpv-best": Algorithm(MPV(budgets, schedule, action_weights="small_visits"), separate),
        "dual-best": best,
        "alphazero-cost": alphazero(max(1, round(blocks / depth)), size),
        "alphazero-early": Algorithm(early, shared),
    }


def alphazero(
    num_simulations: int, size: Size, visit_weights: Literal["plain", "smoothed"] = "plain"
) -> Algorithm:
    """Returns AlphaZero, whose network has only the final head."""
    policy = AlphaZero(num_simulations, root=Root(visit_weights=visit_weights))
    return Algorithm(policy, (size.num_blocks,))


def make_config(
    name: str, algorithm: Algorithm, row: GameRow, size: Size, folder: Path, seed: int
) -> Config:
    """Returns the configuration of a run; it continues if its folder has a run.

    Raises:
      UserError: if an option is out of range.
    """
    path = folder / name / f"seed-{seed}"
    return Config(
        game=row.name,
        search=algorithm.policy,
        network=NetworkOptions(
            width=size.width,
            num_blocks=algorithm.head_depths[-1],
            head_depths=algorithm.head_depths,
            kept_activations="float32" if algorithm.keep_activations else "none",
        ),
        selfplay=SelfPlay(
            num_games=size.num_games,
            num_steps=size.positions // size.num_games,
            temperature_plies=row.temperature_plies,
        ),
        learner=Learner(
            learning_rate=1e-3,
            batch_size=size.batch_size,
            num_updates=size.positions // size.batch_size,
            capacity=size.positions * BUFFER_STEPS,
        ),
        evals=EvalConfig(every=int(games.is_solvable(games.make(row.name)))),
        num_iterations=size.steps,
        schedule_iterations=sum(map(passes, range(1, size.steps + 1))),
        keep=size.steps + 1,
        seed=seed,
        out=str(path),
        resume=(path / CONFIG).exists(),
        devices=1,
    )
